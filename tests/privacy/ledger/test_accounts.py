"""Requests that an account does not cover are refused, with the values and a way out."""

import math
import random
from dataclasses import replace
from fractions import Fraction
from itertools import product
from statistics import NormalDist

import pytest

from dqam.errors import BudgetError, InputError
from dqam.privacy.ledger import Account, Ledger, Publication, Total
from dqam.privacy.ledger.accounts import LARGEST, rounded_up
from dqam.values.conversion import epsilon_of, order_of, pure_epsilon, rho_of
from dqam.values.guarantee import Promise, Unit, parse_epsilon, spell
from tests.ledgers import TRIP, account, spend

DELTA = Fraction(1, 10**8)


def test_refusals(ledger: Ledger) -> None:
    ledger.register("my town", 1, "trip")
    spend(ledger, "my town", "1/3")
    with pytest.raises(BudgetError) as refused:
        spend(ledger, "my town", 0.7)
    assert str(refused.value) == (
        "my town: epsilon 0.7 was requested and 2/3 of 1 is left; ask for less, or raise the total with "
        "`Ledger.set_total('my town', EPSILON)`, which weakens the guarantee given to the people in the data."
    )
    with pytest.raises(InputError, match=r"but total=2 was given; .*`Ledger.set_total\('my town', 2\)`"):
        spend(ledger, "my town", 0.1, 2)
    with pytest.raises(InputError, match="in the ledger already, with a total of 1"):
        ledger.register("my town", 1, "trip")
    with pytest.raises(InputError, match="'trip' or 'person'; got 'family'"):
        ledger.register("faro", 1, "family")
    for unknown in (lambda: ledger.history("faro"), lambda: ledger.set_total("faro", 1)):
        with pytest.raises(InputError, match="faro is not in the ledger"):
            unknown()
    for bad in (0, -1, "much", float("nan")):
        with pytest.raises(InputError, match="positive number"):
            spend(ledger, "my town", bad)
    for long in ("1e-200", "1e200", Fraction(1, 3**300)):
        with pytest.raises(InputError, match="100 digits"):
            spend(ledger, "my town", long)
    assert account(ledger, "my town").left == Fraction(2, 3)


def test_units_do_not_mix(ledger: Ledger) -> None:
    ledger.register("trips", 5, "trip")
    ledger.register("persons", 5, "person")
    for name, unit in (("trips", Unit.person(1)), ("persons", TRIP)):
        with pytest.raises(InputError, match="cannot be added; publish with unit='(trip|person)'") as refused:
            spend(ledger, name, 1, unit=unit)
        assert not isinstance(refused.value, BudgetError)
    for most in (1, 10):
        spend(ledger, "persons", 1, unit=Unit.person(most))
    assert account(ledger, "persons").spent == 2
    assert account(ledger, "trips").spent == 0


def test_spelling() -> None:
    for text in ("0.1", "1e-07", "12345.678", "1/3", "100"):
        assert spell(parse_epsilon(text)) == text
    assert spell(sum((Fraction(1, 10**28 + k) for k in range(500)), Fraction(0))).startswith("about 5e-26")


def account_with(
    total: Fraction, rhos: list[Fraction], pure: list[Fraction], delta: Fraction = DELTA, settled: bool = False
) -> Account:
    """An account whose publications cost these rhos and pure epsilons, as charges or after they were settled."""
    charge = Fraction(900) if settled else None
    publications = [
        Publication(str(i), Fraction(1), TRIP, "", "", "", None, rho if settled else None, charge or rho)
        for i, rho in enumerate(rhos)
    ]
    publications += [
        Publication(f"pure {i}", charge or each, TRIP, "", "", "", None, each if settled else None)
        for i, each in enumerate(pure)
    ]
    return Account("taxis", "trip", "", (Total(total, ""),), tuple(publications), delta)


def covers(total: Fraction, delta: Fraction, rhos: list[Fraction], pure: list[Fraction]) -> tuple[bool, bool]:
    """The definition, written once more: divergences of one order add up, or all are pure and epsilons add up."""
    order = order_of(total, delta)
    divergences = sum(order * rho for rho in rhos) + sum(min(order * each**2 / 2, each) for each in pure)
    return divergences <= order * rho_of(total, delta), not any(rhos) and sum(pure) <= total


def some_accounts() -> list[tuple[Fraction, Fraction, list[Fraction], list[Fraction]]]:
    """Totals, deltas, rhos and pure epsilons for which sometimes (a), sometimes (b) and sometimes nothing holds."""
    draw = random.Random(4)
    cases = []
    for _ in range(36):
        total, delta = Fraction(draw.choice(["0.01", "1", "3", "40"])), Fraction(1, 10 ** draw.choice([2, 8]))
        limit = rho_of(total, delta)
        most = draw.choice([limit, limit / 5])
        rhos = [most * Fraction(draw.randrange(1, 600), 1000) for _ in range(draw.randrange(4))]
        largest = draw.choice([total, pure_epsilon(limit)])
        pure = [largest * Fraction(draw.randrange(1, 500), 1000) for _ in range(draw.randrange(4))]
        cases.append((total, delta, rhos, pure))
    return cases


def test_a_state_is_covered_by_definition() -> None:
    seen = set()
    for total, delta, rhos, pure in some_accounts():
        made = account_with(total, rhos, pure, delta)
        either = covers(total, delta, rhos, pure)
        assert made.is_covered == any(either)
        assert account_with(total, rhos, pure, delta, settled=True).left_rho == made.left_rho
        left = made.left_rho
        assert left is not None
        seen.add((either, bool(rhos), bool(pure)))
        if left >= 0:  # exactly this much more is covered, and nothing beyond it
            assert any(covers(total, delta, [*rhos, left], pure))
        assert not any(covers(total, delta, [*rhos, max(left, Fraction(0)) + Fraction(1, 10**60)], pure))
    assert seen >= {((True, False), True, True), ((False, False), True, True), ((False, True), False, True)}
    assert seen >= {((True, False), True, False), ((True, True), False, True)}


def test_what_is_left_can_be_requested_and_nothing_more() -> None:
    some = 0
    for total, delta, rhos, pure in some_accounts()[:20]:
        made = account_with(total, rhos, pure, delta)
        if not made.left:
            continue
        some += 1
        assert made.with_charge(Promise(made.left, delta)).is_covered
        if made.left < total:  # one more in the sixth digit
            digit = Fraction(10) ** (math.floor(math.log10(made.left)) - 5)
            assert (made.left / digit).denominator == 1
            assert not made.with_charge(Promise(made.left + digit, delta)).is_covered
    assert some > 9


def test_what_is_spent_is_the_smallest_total() -> None:
    some = 0
    for total, delta, rhos, pure in some_accounts()[:20]:
        made = account_with(total, rhos, pure, delta)
        if not made.is_covered or not made.publications:
            continue
        some += 1
        rho, squares = sum(rhos, Fraction(0)), sum((each**2 for each in pure), Fraction(0)) / 2
        assert made.spent == min(total, sum(pure) + epsilon_of(rho, delta), epsilon_of(rho + squares, delta))
        assert made.least_total <= total
        assert made.with_total(made.least_total).is_covered
        if made.least_total > Fraction(1, 10**5):
            assert not made.with_total(made.least_total * (1 - Fraction(2, 10**5))).is_covered
    assert some > 9


def true_delta(total: float, rho: float, pure: list[float]) -> float:
    """The exact delta at epsilon `total` of Gaussian noise of this rho and randomised responses of these epsilons."""
    normal, mu, delta = NormalDist(), math.sqrt(2 * rho), 0.0
    for signs in product((1, -1), repeat=len(pure)):
        chance = math.prod(1 / (1 + math.exp(-sign * each)) for sign, each in zip(signs, pure, strict=True))
        rest = total - sum(sign * each for sign, each in zip(signs, pure, strict=True))
        if mu:
            tail = normal.cdf(mu / 2 - rest / mu) - math.exp(rest) * normal.cdf(-mu / 2 - rest / mu)
        else:
            tail = max(0.0, 1 - math.exp(rest))
        delta += chance * tail
    return delta


@pytest.mark.parametrize("delta", [Fraction(1, 100), Fraction(1, 10**6)])
@pytest.mark.parametrize("pure", [[], ["0.02"], ["0.01"] * 5, ["1"], ["0.9", "0.9"], ["0.05", "1.5"], ["3"]])
def test_a_budget_that_is_all_spent_keeps_its_promise(delta: Fraction, pure: list[str]) -> None:
    total, epsilons = Fraction(3), [Fraction(each) for each in pure]
    left = account_with(total, [], epsilons, delta).left_rho
    assert left is not None
    assert account_with(total, [left] if left else [], epsilons, delta).is_covered
    numbers = [float(each) for each in epsilons]
    assert true_delta(3.0, float(left), numbers) <= float(delta)
    if left and not pure:  # the test would notice a ledger that grants much too much
        assert true_delta(3.0, 2 * float(left), numbers) > float(delta)


def test_nothing_and_everything() -> None:
    new = account_with(Fraction(1, 3), [], [])
    assert (new.spent, new.left, new.left_rho) == (0, Fraction(1, 3), rho_of(Fraction(1, 3), DELTA))
    full = new.with_charge(Promise(Fraction(1, 3), DELTA))
    assert (full.spent, full.left, full.left_rho) == (Fraction(1, 3), 0, 0)
    pure = new.with_charge(Promise(Fraction(1, 3)))
    assert (pure.spent, pure.left, pure.left_rho) == (Fraction(1, 3), 0, 0)
    almost = new.with_charge(Promise(Fraction(1, 3) - Fraction(1, 10**7)))  # too little is left for a conversion
    assert (almost.left, almost.left_rho, almost.is_covered) == (0, 0, True)
    widest = account_with(Fraction(1000), [Fraction(1, 10**13)], [])
    assert 999 < widest.left <= 1000
    more = account_with(Fraction(3), [rho_of(Fraction(1), DELTA) + Fraction(1, 10**18)], [])
    assert more.spent <= 1  # rounded up, but the rho of epsilon 1, rounded down, does not cover it
    assert more.least_total == Fraction("1.00001")
    assert more.with_total(more.least_total).is_covered


def test_costs_of_publications_as_epsilons() -> None:
    rho = rho_of(Fraction(1), DELTA)
    made = account_with(Fraction(3), [rho, rho], [Fraction(1, 3)])
    first, second, pure = made.publications
    assert [made.epsilon_of(one) for one in (first, second, pure)] == [1, 1, Fraction(1, 3)]
    assert made.epsilon_of(replace(pure, settled=Fraction(1, 7))) == Fraction(1, 7)
    assert made.epsilon_of(replace(first, settled=rho)) == 1
    shown, exact = made.epsilon_of(replace(first, settled=rho / 4)), epsilon_of(rho / 4, DELTA)
    assert exact <= shown < exact + Fraction(1, 10**6)
    assert (shown * 10**6).denominator == 1
    small = account_with(Fraction(1), [], [], Fraction(1, 100))  # a rho that delta alone pays for
    assert small.epsilon_of(replace(first, settled=Fraction(1, 10**6))) == 0


@pytest.mark.parametrize(
    ("amount", "most"),
    [
        (Fraction(1, 3**300), Fraction(1)),
        (1 - Fraction(1, 3**300), Fraction(1)),
        (Fraction(10**160 + 1, 10**151), Fraction(10**100)),
        (Fraction(10**251 + 1, 10**152), Fraction(10**100)),
    ],
)
def test_long_amounts_are_rounded_up(amount: Fraction, most: Fraction) -> None:
    stored = rounded_up(amount, most)
    assert amount <= stored <= most
    assert stored - amount <= max(Fraction(1, 10**50), amount / 10**50)
    assert max(stored.numerator, stored.denominator) <= LARGEST
    assert rounded_up(stored, most) == stored


def test_refusals_with_a_delta(ledger: Ledger) -> None:
    ledger.register("taxis", 3, "trip", 1e-8)
    ledger.register("buses", 3, "trip")
    spend(ledger, "taxis", 1, delta="1e-8")
    for delta in (1e-8, "1/300000000"):
        with pytest.raises(InputError, match="buses has a pure budget, .* cannot be added; leave out delta"):
            spend(ledger, "buses", 1, delta=delta)
    with pytest.raises(InputError) as refused:
        spend(ledger, "taxis", 1, delta=1e-7)
    assert str(refused.value) == (
        "taxis has a budget with delta=1e-8, to which a publication with delta=1e-7 cannot be added; publish with "
        "delta=1e-8."
    )
    assert not isinstance(refused.value, BudgetError)
    with pytest.raises(BudgetError) as refused:
        spend(ledger, "taxis", 2.8, delta=1e-8)
    assert str(refused.value) == (
        "taxis: epsilon 2.8 at delta 1e-8 was requested and 2.79076 of 3 is left; ask for less, or raise the total "
        "with `Ledger.set_total('taxis', EPSILON)`, which weakens the guarantee given to the people in the data."
    )
    with pytest.raises(BudgetError) as refused:
        spend(ledger, "taxis", 2.5)
    assert str(refused.value).startswith(
        "taxis: epsilon 2.5 without a delta was requested and 2.79076 of 3 at delta 1e-8 is left; publish with "
        "delta=1e-8, ask for less, or raise the total"
    )
    with pytest.raises(InputError, match="has a total of 3 in the ledger, but total=2"):
        spend(ledger, "taxis", 1, 2, delta=1e-8)
    with pytest.raises(BudgetError, match="total=1 does not cover epsilon 2"):
        spend(ledger, "trams", 2, 1, delta=1e-8)
    for total in (1001, "1e-7"):
        for use in (
            lambda total=total: ledger.register("trams", total, "trip", 1e-8),
            lambda total=total: ledger.set_total("taxis", total),
            lambda total=total: spend(ledger, "trams", "0.0001", total, delta=1e-8),
            lambda total=total: spend(ledger, "trams", total, delta=1e-8),
        ):
            with pytest.raises(InputError, match="With a delta, epsilon must be 1e-06 to 1000; got"):
                use()
    for bad in (0.5, -1, "much", "1e-31", True):
        with pytest.raises(InputError, match="Delta must be a small probability"):
            ledger.register("trams", 1, "trip", bad)
    with pytest.raises(InputError, match="stores a delta as a fraction .* 100 digits"):
        ledger.register("trams", 1, "trip", Fraction(1, 10**8) + Fraction(1, 3**300))
    assert [each.name for each in ledger.history()] == ["taxis", "buses"]
    assert 1 - Fraction(1, 10**14) < account(ledger, "taxis").spent <= 1
    assert account(ledger, "buses").left == 3


def test_a_check_refuses_what_spending_would(ledger: Ledger) -> None:
    ledger.register("taxis", 3, "trip", 1e-8)
    ledger.check("taxis", 3, TRIP, 3, 1e-8)
    ledger.check("taxis", 3, TRIP, None, None)
    ledger.check("trams", 3, TRIP, delta=1e-8)
    for epsilon, delta in ((3.1, 1e-8), (3.1, None), (1, 1e-7)):
        with pytest.raises(InputError):
            ledger.check("taxis", epsilon, TRIP, delta=delta)
    assert account(ledger, "taxis").publications == ()
