"""Refuse a second budget, under another name, for trips that were published before.

With each publication the ledger keeps a sketch of its trips (`dqam.privacy.sketch`), by which they are recognised.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from sqlalchemy import Connection, insert, select

from dqam.errors import BudgetError
from dqam.privacy.ledger.tables import DATA_SETS, SKETCHES
from dqam.values.guarantee import Unit

if TYPE_CHECKING:
    from dqam.privacy.sketch import Sketch

SAME = 0.25  # share of the smaller set's trips above which two data sets count as one


class SameTripsError(BudgetError):
    """Trips that were published under the name `other` would get a second budget."""

    def __init__(self, message: str, other: str = "") -> None:
        super().__init__(message)
        self.other = other


def check_same_trips(connection: Connection, name: str, unit: Unit, sketch: Sketch) -> None:
    """Raise a `SameTripsError` if trips of `sketch` were published under another name than `name`."""
    from dqam.privacy.sketch import Sketch

    published = (
        select(SKETCHES.c.data_set, SKETCHES.c.sketch, DATA_SETS.c.unit)
        .join(DATA_SETS)
        .where(SKETCHES.c.data_set != name)
        .order_by(SKETCHES.c.number)
    )
    for row in connection.execute(published):
        if sketch.overlap(Sketch.from_bytes(row.sketch)) > SAME:
            found, way_out = f"{name} has many trips in common with {row.data_set!r}", f"dataset={row.data_set!r}"
            if row.unit != unit.name:
                found += f", whose budget is for the unit {row.unit!r} and cannot be added to one for {unit.name!r}"
                way_out += f" and unit={row.unit!r}"
            insist = "or with sure=True if they are different trips"
            raise SameTripsError(f"{found}; publish with {way_out}, {insist}.", row.data_set)


def save_sketch(connection: Connection, name: str, sketch: Sketch) -> None:
    """Keep a sketch for a data set, unless the data set has the same one already."""
    data = sketch.to_bytes()
    digest = hashlib.sha256(data).hexdigest()
    same = select(SKETCHES.c.number).where(SKETCHES.c.data_set == name, SKETCHES.c.digest == digest)
    if connection.execute(same).first() is None:
        connection.execute(insert(SKETCHES).values(data_set=name, digest=digest, sketch=data))
