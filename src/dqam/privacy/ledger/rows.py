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
from dqam.values.conversion import LARGEST_DELTA, LARGEST_EPSILON, SMALLEST_DELTA, SMALLEST_EPSILON
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
    found = connection.execute(data_sets.order_by(DATA_SETS.c.registered, DATA_SETS.c.name)).all()
    deltas = {row.name: _delta(row.delta) for row in found}
    totals_of: dict[str, list[Total]] = {}
    for row in connection.execute(totals.order_by(TOTALS.c.number)):
        totals_of.setdefault(row.data_set, []).append(Total(_fraction(row.epsilon), row.noted))
    publications_of: dict[str, list[Publication]] = {}
    for row in connection.execute(publications.order_by(PUBLICATIONS.c.number)):
        publications_of.setdefault(row.data_set, []).append(_publication(row, deltas.get(row.data_set, Fraction(0))))
    accounts = []
    for row in found:
        delta, granted = deltas[row.name], tuple(totals_of.get(row.name, ()))
        if not granted:
            raise DamagedError(f"{row.name} has no total")
        if delta and not all(SMALLEST_EPSILON <= total.epsilon <= LARGEST_EPSILON for total in granted):
            raise DamagedError(f"{row.name} has a total that no budget with a delta can have")
        published = tuple(publications_of.get(row.name, ()))
        accounts.append(Account(row.name, row.unit, row.registered, granted, published, delta))
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
    one = select(PUBLICATIONS, DATA_SETS.c.delta).join(DATA_SETS).where(PUBLICATIONS.c.id == id)
    row = connection.execute(one).first()
    return None if row is None else _publication(row, _delta(row.delta))


def find_account_of(connection: Connection, id: str) -> Account | None:
    """The account to which the publication with this id is charged, if there is one."""
    name = connection.execute(select(PUBLICATIONS.c.data_set).where(PUBLICATIONS.c.id == id)).scalar()
    return None if name is None else next(iter(read_accounts(connection, name)), None)


def read_sketch_key(connection: Connection) -> str:
    """The secret key of the sketches in this ledger."""
    key = connection.execute(select(SECRETS.c.value).where(SECRETS.c.name == SKETCH_KEY)).scalar()
    if key is None:
        raise DamagedError("it has no key for sketches")
    return str(key)


def add_account(connection: Connection, name: str, total: Fraction, unit_name: str, delta: Fraction) -> None:
    """Add a data set with its first total."""
    stored = str(delta) if delta else None
    connection.execute(insert(DATA_SETS).values(name=name, unit=unit_name, registered=now(), delta=stored))
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
            rho=None if charge.rho is None else str(charge.rho),
        )
    )


def mark_delivered(connection: Connection, id: str) -> None:
    """Record that the release is handed over now."""
    connection.execute(update(PUBLICATIONS).where(PUBLICATIONS.c.id == id).values(release=now()))


def mark_settled(connection: Connection, id: str, cost: Fraction) -> None:
    """Record the final cost of a publication."""
    connection.execute(update(PUBLICATIONS).where(PUBLICATIONS.c.id == id).values(settled=str(cost)))


def mark_exchanged(connection: Connection, id: str) -> None:
    """Record that a publication that has a rho is a pure one from now on."""
    exchange = update(PUBLICATIONS).where(PUBLICATIONS.c.id == id).values(rho=None, exchanged=PUBLICATIONS.c.rho)
    connection.execute(exchange)


def _publication(row: Row[Any], delta: Fraction) -> Publication:
    if (row.rho is not None or row.exchanged is not None) and not delta:
        raise DamagedError(f"{row.data_set} has a publication with a rho, but no delta")
    if row.rho is not None and row.exchanged is not None:
        raise DamagedError(f"publication {row.id} has a rho and was exchanged")
    currency = "an epsilon" if row.rho is None else "a rho"
    return Publication(
        row.id,
        _fraction(row.epsilon),
        Unit(row.unit, row.max_trips),
        row.mechanism,
        row.grid,
        row.noted,
        row.release,
        None if row.settled is None else _fraction(row.settled, currency),
        None if row.rho is None else _fraction(row.rho, "a rho"),
        None if row.exchanged is None else _fraction(row.exchanged, "a rho"),
    )


def _delta(text: object) -> Fraction:
    """A stored delta, 0 if there is none."""
    delta = Fraction(0) if text is None else _fraction(text, "a delta")
    if delta and not SMALLEST_DELTA <= delta <= LARGEST_DELTA:
        raise DamagedError(f"it has a delta of {text}")
    return delta


def _fraction(text: object, what: str = "an epsilon") -> Fraction:
    """A stored amount; anything else in its place stops all spending."""
    if not isinstance(text, str) or not FRACTION.fullmatch(text):
        raise DamagedError(f"it has {text!r} where {what} such as '1/10' should be")
    return Fraction(text)
