"""Short ways to use a ledger in tests."""

import sqlite3
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa

from dqam.privacy.ledger import Account, Charge, Ledger
from dqam.privacy.ledger.same_trips import check_same_trips
from dqam.privacy.sketch import Sketch, sketch_of
from dqam.values.guarantee import Unit

TRIP = Unit.trip()


def run_sql(where: str, statement: str) -> list[tuple[object, ...]]:
    """The rows that the database itself returns for a statement."""
    if "://" in where:
        with psycopg.connect(where) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []
    sqlite = sqlite3.connect(where)
    rows = sqlite.execute(statement).fetchall()
    sqlite.commit()
    sqlite.close()
    return rows


def spend(ledger: Ledger, name: str, epsilon: Any, total: Any = None, unit: Unit = TRIP, delta: Any = None) -> Charge:
    """Charge a publication about which nothing matters but its epsilon and delta."""
    return ledger.spend(name, epsilon, unit, "flux", "grid", total, delta=delta)


def account(ledger: Ledger, name: str) -> Account:
    """The account of one data set."""
    (only,) = ledger.history(name)
    return only


def trips(ledger: Ledger, first: int, after: int) -> Sketch:
    """The sketch of the trips with numbers from `first` to before `after`; equal numbers are the same trip."""
    numbers = np.arange(first, after)
    sides = {side: numbers / (7.0 + i) for i, side in enumerate(("west", "south", "east", "north"))}
    return sketch_of(pa.table(sides | {"time": numbers}), ledger.sketch_key)


def check_same(ledger: Ledger, name: str, unit: Unit, sketch: Sketch) -> None:
    """Raise a `SameTripsError` if `Ledger.spend` would, and charge nothing."""
    with ledger._database.transaction(write=False) as connection:
        check_same_trips(connection, name, unit, sketch)
