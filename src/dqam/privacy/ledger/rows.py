"""Read accounts from the tables of the ledger, and write to them; each function runs in the caller's transaction."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from dqam.privacy.ledger.accounts import Account, Charge, Publication, Total
from dqam.privacy.ledger.names import looks
from dqam.privacy.ledger.tables import DATA_SETS, PUBLICATIONS, SECRETS, SKETCH_KEY, TOTALS, DamagedError
from dqam.values.guarantee import Unit

FRACTION = re.compile(r"[1-9][0-9]{0,100}(/[1-9][0-9]{0,100})?")


def now() -> str:
    """The time, as the ledger stores it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def read_names(connection: Connection) -> list[str]:
    """The names of all data sets, the oldest first."""
    names = select(DATA_SETS.c.name).order_by(DATA_SETS.c.registered, DATA_SETS.c.name)
    return list(connection.execute(names).scalars())


def read_accounts(connection: Connection, name: str | None = None) -> list[Account]:
    """The accounts of all data sets, or of one, the oldest first."""
    data_sets, totals, publications = select(DATA_SETS), select(TOTALS), select(PUBLICATIONS)
    if name is not None:
        data_sets = data_sets.where(DATA_SETS.c.name == name)
        totals = totals.where(TOTALS.c.data_set == name)
        publications = publications.where(PUBLICATIONS.c.data_set == name)
    totals_of: dict[str, list[Total]] = {}
    for row in connection.execute(totals.order_by(TOTALS.c.number)):
        totals_of.setdefault(row.data_set, []).append(Total(_fraction(row.epsilon), row.noted))
    publications_of: dict[str, list[Publication]] = {}
    for row in connection.execute(publications.order_by(PUBLICATIONS.c.number)):
        publications_of.setdefault(row.data_set, []).append(_publication(row))
    accounts = []
    for row in connection.execute(data_sets.order_by(DATA_SETS.c.registered, DATA_SETS.c.name)):
        if row.name not in totals_of:
            raise DamagedError(f"{row.name} has no total")
        published = tuple(publications_of.get(row.name, ()))
        accounts.append(Account(row.name, row.unit, row.registered, tuple(totals_of[row.name]), published))
    return accounts


def find_account(connection: Connection, name: str) -> Account | None:
    """The account of this canonical name, or else the oldest whose name looks like it."""
    names = read_names(connection)
    if name not in names:
        ours = looks(name)
        name = next((other for other in names if ours & looks(other)), name)
    return next(iter(read_accounts(connection, name)), None)


def find_publication(connection: Connection, id: str) -> Publication | None:
    """The publication with this id, if there is one."""
    row = connection.execute(select(PUBLICATIONS).where(PUBLICATIONS.c.id == id)).first()
    return None if row is None else _publication(row)


def read_sketch_key(connection: Connection) -> str:
    """The secret key of the sketches in this ledger."""
    key = connection.execute(select(SECRETS.c.value).where(SECRETS.c.name == SKETCH_KEY)).scalar()
    if key is None:
        raise DamagedError("it has no key for sketches")
    return str(key)


def add_account(connection: Connection, name: str, total: Fraction, unit_name: str) -> None:
    """Add a data set with its first total."""
    connection.execute(insert(DATA_SETS).values(name=name, unit=unit_name, registered=now()))
    add_total(connection, name, total)


def add_total(connection: Connection, name: str, total: Fraction) -> None:
    """Add a total, which is in force from now on."""
    connection.execute(insert(TOTALS).values(data_set=name, epsilon=str(total), noted=now()))


def add_publication(connection: Connection, charge: Charge, unit: Unit, mechanism: str, grid: str) -> None:
    """Add a publication that is charged."""
    connection.execute(
        insert(PUBLICATIONS).values(
            id=charge.id,
            data_set=charge.data_set,
            epsilon=str(charge.epsilon),
            unit=unit.name,
            max_trips=unit.max_trips,
            mechanism=mechanism,
            grid=grid,
            noted=charge.when,
        )
    )


def mark_delivered(connection: Connection, id: str) -> None:
    """Record that the release is handed over now."""
    connection.execute(update(PUBLICATIONS).where(PUBLICATIONS.c.id == id).values(release=now()))


def mark_settled(connection: Connection, id: str, cost: Fraction) -> None:
    """Record the final cost of a publication."""
    connection.execute(update(PUBLICATIONS).where(PUBLICATIONS.c.id == id).values(settled=str(cost)))


def _publication(row: Row[Any]) -> Publication:
    return Publication(
        row.id,
        _fraction(row.epsilon),
        Unit(row.unit, row.max_trips),
        row.mechanism,
        row.grid,
        row.noted,
        row.release,
        None if row.settled is None else _fraction(row.settled),
    )


def _fraction(text: object) -> Fraction:
    """A stored epsilon; anything else in its place stops all spending."""
    if not isinstance(text, str) or not FRACTION.fullmatch(text):
        raise DamagedError(f"it has {text!r} where an epsilon such as '1/10' should be")
    return Fraction(text)
