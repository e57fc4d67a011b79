"""`Ledger`: register data sets, charge their publications, and show what is left. See `dqam.privacy.ledger`."""

from __future__ import annotations

import os
import uuid
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import URL, Connection

from dqam.errors import InputError
from dqam.privacy.ledger import rows
from dqam.privacy.ledger.accounts import (
    Account,
    Charge,
    Publication,
    check_request,
    exact_epsilon,
    exact_promise,
    how_to_set_total,
    rounded_up,
)
from dqam.privacy.ledger.database import Database
from dqam.privacy.ledger.location import default_location, locate
from dqam.privacy.ledger.names import canonical_name
from dqam.privacy.ledger.same_trips import check_same_trips, save_sketch
from dqam.values.guarantee import Number, Promise, Unit, parse_epsilon, spell, spell_delta

if TYPE_CHECKING:
    from dqam.privacy.sketch import Sketch


class Ledger:
    """Totals and publications of data sets, in an SQLite file or a PostgreSQL database.

    All changes are made one after the other, each in a transaction that is durable before the method returns. Methods
    that raise an error change nothing. There is nothing to close, and processes may fork.
    """

    def __init__(self, url: URL) -> None:
        self._database = Database(url)

    @classmethod
    def open(cls, where: str | os.PathLike[str] | None = None, *, create: bool = True) -> Ledger:
        """Open the ledger in a file or at a URL, and create it if there is none.

        where   by default what the environment variable DQAM_LEDGER says, otherwise ledger.db in the user's folder for
                dqam
        create  whether a missing file is created; otherwise it is an `InputError`
        """
        ledger = cls(locate(default_location() if where is None else where))
        if not create and ledger._database.is_sqlite and not Path(ledger.place).exists():
            raise InputError(
                f"There is no ledger at {ledger.place}; check the path, or publish or register a data set to create it."
            )
        ledger._database.prepare()
        return ledger

    def register(self, name: str, total: Number, unit_name: str, delta: Number | None = None) -> None:
        """Open an account for a data set that has none. Its delta is then fixed; without one, its budget is pure."""
        name, promise = canonical_name(name), exact_promise(total, delta)
        if unit_name not in ("trip", "person"):
            raise InputError(f"The unit must be 'trip' or 'person'; got {unit_name!r}.")
        with self._database.transaction() as connection:
            if account := rows.find_account(connection, name):
                raise InputError(
                    f"{account.shown_for(name)} is in the ledger already, with a total of {spell(account.total)}; "
                    f"change that with `{how_to_set_total(account.name, promise.epsilon)}`."
                )
            rows.add_account(connection, name, promise.epsilon, unit_name, promise.delta)

    def set_total(self, name: str, total: Number) -> None:
        """Change the total budget of a data set, to no less than what is spent. Earlier totals stay on record."""
        name, epsilon = canonical_name(name), exact_epsilon(total)
        with self._database.transaction() as connection:
            account = _known(rows.find_account(connection, name), name)
            Promise.of(epsilon, account.delta)  # with a delta, not every epsilon can be a total
            if not account.with_total(epsilon).is_covered:
                spent = spell(account.least_total)
                at_delta = f" at delta {spell_delta(account.delta)}" if account.delta else ""
                raise InputError(
                    f"{account.shown_for(name)}: epsilon {spent}{at_delta} is spent and cannot be taken back, so the "
                    f"total cannot be {spell(epsilon)}; give at least {spent}."
                )
            rows.add_total(connection, account.name, epsilon)

    @property
    def sketch_key(self) -> str:
        """The secret key for the sketches in this ledger; it was drawn when the ledger was created."""
        with self._database.transaction(write=False) as connection:
            return rows.read_sketch_key(connection)

    def check(
        self, name: str, epsilon: Number, unit: Unit, total: Number | None = None, delta: Number | None = None
    ) -> None:
        """Refuse a request that `spend` would refuse, before long work is done for it. Nothing is charged."""
        name, promise = canonical_name(name), exact_promise(epsilon, delta)
        expected = None if total is None else exact_epsilon(total)
        with self._database.transaction(write=False) as connection:
            account = rows.find_account(connection, name)
        check_request(account, name, promise, unit.name, expected)

    def spend(
        self,
        name: str,
        epsilon: Number,
        unit: Unit,
        mechanism: str,
        grid: str,
        total: Number | None = None,
        *,
        delta: Number | None = None,
        sketch: Sketch | None = None,
        sure: bool = False,
    ) -> Charge:
        """Charge a publication, or refuse and charge nothing. Draw noise only after this has returned.

        A new data set is registered with `total`, or with this epsilon as its total if `total` is not given. Trips
        that were published under another name are refused with a `SameTripsError`, unless the custodian is `sure`.

        delta   of the data set, which a new one gets; without it, the publication is pure. A data set with a delta
                accepts both kinds of publications, a pure data set only pure ones
        sketch  of the trips, made with `sketch_key`; the ledger keeps it to recognise the trips later
        """
        name, promise = canonical_name(name), exact_promise(epsilon, delta)
        expected = None if total is None else exact_epsilon(total)
        with self._database.transaction() as connection:
            account = rows.find_account(connection, name)
            after = check_request(account, name, promise, unit.name, expected)
            name = name if account is None else account.name
            known = rows.read_names(connection)
            if sketch is not None and not sure:
                check_same_trips(connection, name, unit, sketch)
            if account is None:
                rows.add_account(connection, name, after.total, unit.name, after.delta)
            charge = Charge(
                str(uuid.uuid4()),
                name,
                promise.epsilon,
                after.total,
                Fraction(0),  # see below
                rows.now(),
                new_ledger=not known,
                new_data_set=account is None or not account.publications,
                others=tuple(other for other in known if other != name),
                delta=promise.delta,
                rho=promise.rho,
            )
            rows.add_publication(connection, charge, unit, mechanism, grid)
            if sketch is not None:
                save_sketch(connection, name, sketch)
        return replace(charge, left=after.left)  # with a delta this takes a moment, so it is done after the transaction

    def delivered(self, id: str) -> None:
        """Record that the release was handed over; the time of the first call counts."""
        with self._database.transaction() as connection:
            publication = self._publication(connection, id)
            if publication.settled is not None:
                raise InputError(f"Publication {id} ended early, so it has no release; publish again.")
            if publication.delivered is None:
                rows.mark_delivered(connection, id)

    def settle(self, id: str, spent: Fraction, currency: str | None = None) -> None:
        """Record that a publication ended early, without a release, after it had used only `spent` of its charge.

        The rest can be spent again. Both numbers stay on record. Settling is final: it happens at most once, and never
        after the release was delivered. Without it, for example after a crash, the whole charge stays spent.

        spent     a rho if the publication has one, otherwise an epsilon. If it has too many digits for the ledger, it
                  is rounded up
        currency  "rho" or "epsilon", if it is to be checked that `spent` is that
        """
        spent = parse_epsilon(spent)
        with self._database.transaction() as connection:
            publication = self._publication(connection, id)
            if publication.delivered is not None:
                raise InputError(
                    f"Publication {id} was delivered, so all of its epsilon {spell(publication.epsilon)} is spent."
                )
            if publication.settled is not None:
                raise InputError(f"Publication {id} was already settled, at {spell(publication.settled)}.")
            due = "epsilon" if publication.rho is None else "rho"
            if currency not in (None, due):
                raise InputError(f"Publication {id} was charged {due}, not {currency}; all of the charge stays spent.")
            if spent > publication.charge:
                raise InputError(
                    f"Publication {id} was charged {due} {spell(publication.charge)} and cannot have used "
                    f"{spell(spent)}."
                )
            rows.mark_settled(connection, id, rounded_up(spent, publication.charge))

    def exchange(self, id: str) -> bool:
        """Record that a publication exchanges its rho for a pure budget of its epsilon, if that is covered.

        The answers of the publication, those before this call included, must then together be epsilon-private for the
        epsilon of the publication. It stays charged in rho, and False is returned, if the exchange would leave less rho
        for other publications, or if the publication was delivered or settled, or is pure already. For a publication
        that takes the whole budget of its data set, the exchange is always possible.
        """
        with self._database.transaction() as connection:
            account = rows.find_account_of(connection, id)
            if account is None:
                raise self._no_publication(id)
            if possible := account.can_exchange(id):
                rows.mark_exchanged(connection, id)
        return possible

    def history(self, name: str | None = None) -> list[Account]:
        """The accounts of all data sets, or of one, in the order in which they were registered."""
        with self._database.transaction(write=False) as connection:
            if name is None:
                return rows.read_accounts(connection)
            name = canonical_name(name)
            return [_known(rows.find_account(connection, name), name)]

    @property
    def place(self) -> str:
        """The path of the file, or the URL without its password."""
        return self._database.place

    def __repr__(self) -> str:
        return f"Ledger({self.place!r})"

    def _publication(self, connection: Connection, id: str) -> Publication:
        publication = rows.find_publication(connection, id)
        if publication is None:
            raise self._no_publication(id)
        return publication

    def _no_publication(self, id: str) -> InputError:
        return InputError(f"The ledger {self.place} has no publication {id!r}; `Ledger.history()` lists them.")


def _known(account: Account | None, name: str) -> Account:
    if account is None:
        raise InputError(f"{name} is not in the ledger; `Ledger.history()` lists the data sets that are.")
    return account
