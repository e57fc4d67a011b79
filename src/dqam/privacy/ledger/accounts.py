"""Accounts of data sets, as plain values: totals, publications, what is left, and whether a request is covered.

A pure budget is accounted for in epsilon: the epsilons of its publications add up to at most its total.

A budget with a delta is accounted for in rho (`dqam.values.conversion`). Let alpha be the order that gives
rho_of(total, delta). A publication with a rho has a Renyi divergence of at most alpha rho at this order; a pure one has
at most alpha epsilon^2 / 2, and at most epsilon, so it counts as a rho of min(epsilon^2 / 2, epsilon / alpha). The
total covers all publications if

(a)  these rhos add up to at most rho_of(total, delta), or
(b)  all publications are pure, and their epsilons add up to at most the total.

All of this is computed with exact fractions. It holds even if later publications, and their amounts, are chosen after
looking at earlier ones. For (a) alone, divergences of one fixed order add up under any such choice, and the formula of
`dqam.values.conversion` needs them at this order only. For the choice between (a) and (b), let B be the set of outcomes
that end with (b) and without (a). On B no outcome is more than exp(total) times as likely with a unit as without it, so
that it adds nothing to delta; everything else is the outcome of publications that stop before (a) is exceeded. If a
total is raised after looking at releases, this holds for the largest total that might have been set.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

from dqam.errors import BudgetError, InputError
from dqam.values.conversion import LARGEST_EPSILON, SMALLEST_EPSILON, epsilon_of, order_of, rho_of
from dqam.values.guarantee import Number, Promise, Unit, parse_epsilon, spell, spell_delta

LARGEST = 10**100  # numerator and denominator of an amount
DIGITS = Context(prec=6, rounding=ROUND_CEILING)  # of an epsilon that is converted from a rho to be shown


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
    settled    the final cost, if the publication ended early: a rho if the publication has one, otherwise an epsilon
    rho        what was charged, if it is accounted in rho; None for a pure publication
    exchanged  the rho that was charged first, if the budget was exchanged for a pure one
    """

    id: str
    epsilon: Fraction
    unit: Unit
    mechanism: str
    grid: str
    when: str
    delivered: str | None
    settled: Fraction | None = None
    rho: Fraction | None = None
    exchanged: Fraction | None = None

    @property
    def charge(self) -> Fraction:
        """What was charged: a rho if the publication has one, otherwise an epsilon."""
        return self.epsilon if self.rho is None else self.rho

    @property
    def cost(self) -> Fraction:
        """What it takes from the budget: a rho if the publication has one, otherwise an epsilon."""
        return self.charge if self.settled is None else self.settled


@dataclass(frozen=True)
class Account:
    """A data set in the ledger. Totals and publications are listed with the oldest first.

    delta  of the total and of all publications that have a rho; 0 if the budget is pure
    """

    name: str
    unit_name: str
    registered: str
    totals: tuple[Total, ...]
    publications: tuple[Publication, ...]
    delta: Fraction = Fraction(0)

    @property
    def total(self) -> Fraction:
        """The total budget that is in force."""
        return self.totals[-1].epsilon

    @property
    def spent(self) -> Fraction:
        """The epsilon that all publications cost together, at delta, whether they were delivered or not."""
        rho, pure, squares = self._sums()
        if not self.delta:
            return pure
        converted = min(pure + epsilon_of(rho, self.delta), epsilon_of(rho + squares, self.delta))
        return min(converted, self.total) if self.is_covered else converted

    @property
    def left(self) -> Fraction:
        """The epsilon that one more publication of the same kind can have: with the delta, or pure if there is none.

        With a delta, it is rounded down to 6 digits.
        """
        if self.left_rho is None:
            return self.total - self.spent
        if self.left_rho >= rho_of(self.total, self.delta):
            return self.total
        return _epsilon_within(self.left_rho, self.delta)

    @property
    def left_rho(self) -> Fraction | None:
        """The rho that can still be spent; None if the budget is pure."""
        return self._rho_left() if self.delta else None

    @property
    def is_covered(self) -> bool:
        """Whether the total covers all publications."""
        return self.left >= 0 if self.left_rho is None else self.left_rho >= 0

    @property
    def least_total(self) -> Fraction:
        """The smallest total that covers all publications; rounded up to 6 digits with a delta."""
        if not self.delta:
            return self.spent
        low, high = SMALLEST_EPSILON, self.total
        while high - low > low / 10**7:
            middle = (low + high) / 2
            low, high = (low, middle) if self.with_total(middle).is_covered else (middle, high)
        return min(Fraction(DIGITS.plus(_decimal(high))), self.total)

    def epsilon_of(self, publication: Publication) -> Fraction:
        """What a publication costs, as an epsilon: its own or, if it was settled, that of its cost."""
        if publication.rho is None or publication.settled is None:
            return publication.epsilon if publication.settled is None else publication.settled
        converted = Fraction(DIGITS.plus(_decimal(epsilon_of(publication.settled, self.delta))))
        return min(converted, publication.epsilon)

    def with_total(self, epsilon: Fraction) -> Account:
        """The account with another total."""
        return replace(self, totals=(*self.totals, Total(epsilon, "")))

    def with_charge(self, promise: Promise) -> Account:
        """The account with one more publication, of which only the cost matters."""
        one = Publication("", promise.epsilon, Unit.trip(), "", "", "", None, rho=promise.rho)
        return replace(self, publications=(*self.publications, one))

    def can_exchange(self, id: str) -> bool:
        """Whether a publication is running, has a rho, and as a pure one would leave no less rho than it does now."""
        (one,) = (publication for publication in self.publications if publication.id == id)
        if one.rho is None or one.delivered is not None or one.settled is not None:
            return False
        others = tuple(publication for publication in self.publications if publication.id != id)
        after = replace(self, publications=others).with_charge(Promise(one.epsilon))
        return after._rho_left() >= max(self._rho_left(), Fraction(0))

    def _rho_left(self) -> Fraction:
        """The rho that is left; below 0 if neither (a) nor (b) holds."""
        order = order_of(self.total, self.delta)
        left, pure = rho_of(self.total, self.delta), []
        for one in self.publications:
            left -= min(one.cost**2 / 2, one.cost / order) if one.rho is None else one.cost
            pure.append(one.cost if one.rho is None else self.total + 1)
        return max(left, Fraction(0)) if sum(pure) <= self.total else left

    def _sums(self) -> tuple[Fraction, Fraction, Fraction]:
        """R, E and Q: the sums of rhos, of pure epsilons, and of the halved squares of these."""
        pure = [one.cost for one in self.publications if one.rho is None]
        rho = sum((one.cost for one in self.publications if one.rho is not None), Fraction(0))
        return rho, sum(pure, Fraction(0)), sum((each * each for each in pure), Fraction(0)) / 2

    def shown_for(self, name: str) -> str:
        """The name of the account, with the name that was given if that only looks like it."""
        return self.name if self.name == name else f"{self.name} (which {name!r} looks like)"


@dataclass(frozen=True)
class Charge:
    """What `Ledger.spend` charged.

    id            of the publication, for `Ledger.delivered`, `Ledger.settle` and `Ledger.exchange`
    left          what is left of the total after this charge: see `Account.left`
    new_ledger    whether the ledger had no data set before
    new_data_set  whether this is the first publication under this name
    others        the names of the other data sets in the ledger
    delta         of the publication; 0 if it is pure
    rho           what was charged, if the publication has a delta; otherwise its epsilon was charged
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
    delta: Fraction = Fraction(0)
    rho: Fraction | None = None


def exact_epsilon(value: Number) -> Fraction:
    """An epsilon that the ledger can store exactly, or an `InputError`."""
    return _storable(parse_epsilon(value), "an epsilon")


def exact_promise(epsilon: Number, delta: Number | None) -> Promise:
    """An epsilon and a delta that the ledger can store exactly, or an `InputError`."""
    promise = Promise.of(exact_epsilon(epsilon), delta)
    _storable(promise.delta, "a delta")
    return promise


def rounded_up(amount: Fraction, most: Fraction) -> Fraction:
    """An amount that the ledger can store: `amount` if it can, otherwise a little more, but never more than `most`.

    >>> rounded_up(Fraction(1, 3), Fraction(1)), rounded_up(Fraction(1, 3**300), Fraction(1)) == Fraction(1, 10**50)
    (Fraction(1, 3), True)
    """
    if max(amount.numerator, amount.denominator) <= LARGEST:
        return amount
    scale = 10**50 if amount < 10**50 else 1
    return min(most, Fraction(-(-amount.numerator * scale // amount.denominator), scale))


def check_request(
    account: Account | None, name: str, promise: Promise, unit_name: str, total: Fraction | None
) -> Account:
    """The account of a data set after this request, or an error if it does not cover the request.

    account  of the data set; a data set without one gets `total`, or else the requested epsilon, as its total, and the
             delta of the request
    total    what the custodian believes the total to be, if given
    """
    epsilon, delta = promise.epsilon, promise.delta
    if account is None:
        granted = Promise.of(total or epsilon, delta).epsilon
        if epsilon > granted:
            raise BudgetError(
                f"{name}: total={spell(granted)} does not cover epsilon {spell(epsilon)}; give a larger total."
            )
        return Account(name, unit_name, "", (Total(granted, ""),), (), delta).with_charge(promise)
    shown = account.shown_for(name)
    if account.unit_name != unit_name:
        raise InputError(
            f"{shown} has a budget for the unit {account.unit_name!r}, to which an epsilon for the unit {unit_name!r} "
            f"cannot be added; publish with unit={account.unit_name!r}."
        )
    if delta and not account.delta:
        raise InputError(
            f"{shown} has a pure budget, to which a publication with delta={_argument(delta)} cannot be added; leave "
            "out delta."
        )
    if delta and delta != account.delta:
        raise InputError(
            f"{shown} has a budget with delta={_argument(account.delta)}, to which a publication with "
            f"delta={_argument(delta)} cannot be added; publish with delta={_argument(account.delta)}."
        )
    if total is not None and total != account.total:
        raise InputError(
            f"{shown} has a total of {spell(account.total)} in the ledger, but total={spell(total)} was given; "
            f"leave that out, or change the total with `{how_to_set_total(account.name, total)}`."
        )
    after = account.with_charge(promise)
    if not after.is_covered:
        left = account.left
        way_out = "ask for less, or raise" if left else "all of it is spent: raise"
        kind = ""
        if account.delta:
            kind = f" at delta {spell_delta(delta)}" if delta else " without a delta"
            if left and not delta:
                way_out = f"publish with delta={_argument(account.delta)}, {way_out}"
            elif delta and account.with_charge(Promise(epsilon)).is_covered:
                way_out = f"publish without a delta, for which enough is left, {way_out}"
        where = f" at delta {spell_delta(account.delta)}" if account.delta and not delta else ""
        raise BudgetError(
            f"{shown}: epsilon {spell(epsilon)}{kind} was requested and {spell(left)} of {spell(account.total)}{where} "
            f"is left; {way_out} the total with `{how_to_set_total(account.name)}`, which weakens the guarantee given "
            "to the people in the data."
        )
    return after


def how_to_set_total(name: str, total: Fraction | None = None) -> str:
    """The call that changes a total, with an amount that is not a plain decimal number as text, so that it stays exact.

    >>> how_to_set_total("taxis"), how_to_set_total("taxis", Fraction(2)), how_to_set_total("taxis", Fraction(2, 3))
    ("Ledger.set_total('taxis', EPSILON)", "Ledger.set_total('taxis', 2)", "Ledger.set_total('taxis', '2/3')")
    """
    amount = "EPSILON" if total is None else spell(total)
    plain = total is None or amount.replace(".", "", 1).isdigit()
    return f"Ledger.set_total({name!r}, {amount if plain else repr(amount)})"


def _storable(value: Fraction, what: str) -> Fraction:
    if max(value.numerator, value.denominator) > LARGEST:
        raise InputError(
            f"The ledger stores {what} as a fraction whose numerator and denominator have at most 100 digits; round it."
        )
    return value


def _argument(delta: Fraction) -> str:
    """A delta as it is written in a call, so that it stays exact."""
    spelled = spell_delta(delta)
    return spelled if Fraction(spelled) == delta else repr(str(delta))


def _epsilon_within(rho: Fraction, delta: Fraction) -> Fraction:
    """The largest epsilon of 6 digits that costs at most rho; 0 if there is none."""
    if rho <= 0:
        return Fraction(0)
    epsilon = min(DIGITS.plus(_decimal(epsilon_of(rho, delta))), _decimal(LARGEST_EPSILON))
    while epsilon >= SMALLEST_EPSILON and rho_of(Fraction(epsilon), delta) > rho:
        epsilon = DIGITS.next_minus(epsilon)
    return Fraction(epsilon) if epsilon >= SMALLEST_EPSILON else Fraction(0)


def _decimal(value: Fraction) -> Decimal:
    """A fraction as a decimal number of 50 digits, rounded up."""
    return Context(prec=50, rounding=ROUND_CEILING).divide(Decimal(value.numerator), Decimal(value.denominator))
