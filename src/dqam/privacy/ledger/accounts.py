"""Accounts of data sets, as plain values: totals, publications, what is left, and whether a request is covered."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dqam.errors import BudgetError, InputError
from dqam.values.guarantee import Number, Unit, parse_epsilon, spell

LARGEST = 10**100  # numerator and denominator of an epsilon


@dataclass(frozen=True)
class Total:
    """The total budget of a data set from some time on."""

    epsilon: Fraction
    when: str


@dataclass(frozen=True)
class Publication:
    """One publication that was charged.

    epsilon    what was charged before noise was drawn
    when       the time of the charge
    delivered  the time when the release was handed over, if it was
    settled    the final cost, at most epsilon, if the publication ended early
    """

    id: str
    epsilon: Fraction
    unit: Unit
    mechanism: str
    grid: str
    when: str
    delivered: str | None
    settled: Fraction | None = None

    @property
    def cost(self) -> Fraction:
        """What it takes from the budget."""
        return self.epsilon if self.settled is None else self.settled


@dataclass(frozen=True)
class Account:
    """A data set in the ledger. Totals and publications are listed with the oldest first."""

    name: str
    unit_name: str
    registered: str
    totals: tuple[Total, ...]
    publications: tuple[Publication, ...]

    @property
    def total(self) -> Fraction:
        """The total budget that is in force."""
        return self.totals[-1].epsilon

    @property
    def spent(self) -> Fraction:
        """What all publications cost together, whether they were delivered or not."""
        return sum((publication.cost for publication in self.publications), Fraction(0))

    @property
    def left(self) -> Fraction:
        """What can still be spent."""
        return self.total - self.spent

    def shown_for(self, name: str) -> str:
        """The name of the account, with the name that was given if that only looks like it."""
        return self.name if self.name == name else f"{self.name} (which {name!r} looks like)"


@dataclass(frozen=True)
class Charge:
    """What `Ledger.spend` charged.

    id            of the publication, for `Ledger.delivered` and `Ledger.settle`
    left          what is left of the total after this charge
    new_ledger    whether the ledger had no data set before
    new_data_set  whether this is the first publication under this name
    others        the names of the other data sets in the ledger
    """

    id: str
    data_set: str
    epsilon: Fraction
    total: Fraction
    left: Fraction
    when: str
    new_ledger: bool
    new_data_set: bool
    others: tuple[str, ...]


def exact_epsilon(value: Number) -> Fraction:
    """An epsilon that the ledger can store exactly, or an `InputError`."""
    epsilon = parse_epsilon(value)
    if max(epsilon.numerator, epsilon.denominator) > LARGEST:
        raise InputError(
            "The ledger stores an epsilon as a fraction whose numerator and denominator have at most 100 digits; "
            "round it."
        )
    return epsilon


def check_request(
    account: Account | None, name: str, epsilon: Fraction, unit_name: str, total: Fraction | None
) -> tuple[Fraction, Fraction]:
    """The total of a data set and what is left of it before this request, or an error if it does not cover the request.

    account  of the data set; a data set without one gets `total`, or else `epsilon`, as its total
    total    what the custodian believes the total to be, if given
    """
    if account is None:
        granted = total or epsilon
        if epsilon > granted:
            raise BudgetError(
                f"{name}: total={spell(granted)} does not cover epsilon {spell(epsilon)}; give a larger total."
            )
        return granted, granted
    shown = account.shown_for(name)
    if account.unit_name != unit_name:
        raise InputError(
            f"{shown} has a budget for the unit {account.unit_name!r}, to which an epsilon for the unit {unit_name!r} "
            f"cannot be added; publish with unit={account.unit_name!r}."
        )
    if total is not None and total != account.total:
        raise InputError(
            f"{shown} has a total of {spell(account.total)} in the ledger, but total={spell(total)} was given; "
            f"leave that out, or change the total with `{how_to_set_total(account.name, total)}`."
        )
    if epsilon > account.left:
        way_out = "ask for less, or raise" if account.left else "all of it is spent: raise"
        raise BudgetError(
            f"{shown}: epsilon {spell(epsilon)} was requested and {spell(account.left)} of {spell(account.total)} is "
            f"left; {way_out} the total with `{how_to_set_total(account.name)}`, which weakens the guarantee given to "
            "the people in the data."
        )
    return account.total, account.left


def how_to_set_total(name: str, total: Fraction | None = None) -> str:
    """The call that changes a total, with an amount that is not a plain decimal number as text, so that it stays exact.

    >>> how_to_set_total("taxis"), how_to_set_total("taxis", Fraction(2)), how_to_set_total("taxis", Fraction(2, 3))
    ("Ledger.set_total('taxis', EPSILON)", "Ledger.set_total('taxis', 2)", "Ledger.set_total('taxis', '2/3')")
    """
    amount = "EPSILON" if total is None else spell(total)
    plain = total is None or amount.replace(".", "", 1).isdigit()
    return f"Ledger.set_total({name!r}, {amount if plain else repr(amount)})"
