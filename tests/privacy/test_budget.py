import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqam.errors import BudgetError, InputError
from dqam.privacy.budget import Budget
from dqam.values.guarantee import Promise, parse_epsilon


def test_overspending_by_one_part_in_a_trillion_is_refused() -> None:
    budget = Budget(1, "city")
    budget.spend("0.25")
    left = Fraction(3, 4)
    with pytest.raises(BudgetError, match=r"city: epsilon 0.75000000000075 was requested and 0.75 of 1 is left"):
        budget.spend(left * (1 + Fraction(1, 10**12)))
    assert budget.left == left
    budget.spend(left)
    with pytest.raises(BudgetError):
        budget.spend(Fraction(1, 10**30))


def test_a_split_budget_is_empty() -> None:
    whole = Budget(1)
    parts = whole.split(a=1, b=2)
    assert [part.amount for part in parts] == [Fraction(1, 3), Fraction(2, 3)]
    with pytest.raises(BudgetError):
        whole.spend("0.001")
    with pytest.raises(InputError):
        whole.split(a=1)
    with pytest.raises(InputError):
        Budget(1).split()
    with pytest.raises(InputError):
        Budget(1).split(a=-1, b=2)


@given(st.data())
@settings(max_examples=1000, deadline=None)
def test_no_tree_of_splits_ever_exceeds_the_whole(data: st.DataObject) -> None:
    epsilon = data.draw(st.floats(1e-3, 10))
    budgets, spent = [Budget(epsilon)], Fraction(0)
    for _ in range(data.draw(st.integers(1, 8))):
        budget = data.draw(st.sampled_from(budgets))
        if data.draw(st.booleans()):
            shares = data.draw(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=4))
            try:
                budgets += budget.split(**{f"part{i}": share for i, share in enumerate(shares)})
            except InputError:
                assert budget.left == 0
        else:
            asked = data.draw(st.floats(1e-4, 10))
            try:
                budget.spend(asked)
                spent += parse_epsilon(asked)
            except BudgetError:
                assert parse_epsilon(asked) > budget.left
    assert spent + sum(budget.left for budget in budgets) == parse_epsilon(epsilon)


def test_a_budget_of_a_promise() -> None:
    pure, both = Promise.of("0.3"), Promise.of("0.3", 1e-6)
    whole = Budget.of(pure, "city")
    assert (whole.amount, whole.concentrated, whole.currency, whole.promise) == (
        Fraction(3, 10),
        False,
        "epsilon",
        pure,
    )
    whole = Budget.of(both, "city")
    assert (whole.amount, whole.concentrated, whole.currency, whole.promise) == (both.rho, True, "rho", both)
    assert 0 < whole.amount < Fraction(9, 200)  # epsilon^2 / 2, which rho could be without a delta
    assert repr(whole).startswith("Budget('city', rho ")


def test_parts_of_rho_are_rho_and_promise_nothing() -> None:
    whole = Budget.of(Promise.of(1, 1e-8))
    parts = whole.split(a=1, b=Fraction(1, 3), c=0.1)
    assert all(part.concentrated and part.promise is None for part in parts)
    assert sum(part.amount for part in parts) == whole.amount
    assert whole.left == 0
    nested = parts[1].split(d=3, e=4)
    assert [part.amount for part in nested] == [parts[1].amount * 3 / 7, parts[1].amount * 4 / 7]
    assert all(part.concentrated for part in nested)
    with pytest.raises(BudgetError, match="budget/b/d: rho 2 was requested"):
        nested[0].spend(2)


@given(st.fractions(Fraction(1, 10**12), 1000))
def test_precision_is_one_over_the_scale_of_noise(amount: Fraction) -> None:
    pure, concentrated = Budget(amount), Budget(amount, concentrated=True)
    assert pure.precision() == pure.precision(amount) == float(amount)
    assert concentrated.precision() == concentrated.precision(amount) == math.sqrt(2 * amount)
    assert concentrated.precision(amount / 4) == pytest.approx(concentrated.precision() / 2)
    assert pure.precision(amount / 4) == pytest.approx(pure.precision() / 4)
    concentrated.spend(amount / 4)
    assert concentrated.precision() == pytest.approx(math.sqrt(1.5 * amount))


def test_an_exchanged_budget_is_a_pure_one() -> None:
    whole = Budget.of(Promise.of(2, 1e-8))
    assert not whole.exchange(Fraction(2), Fraction(1, 4), before=Fraction(1, 9))  # nothing was spent so far
    assert whole.concentrated
    assert whole.exchange(Fraction(2), Fraction(1, 4), before=Fraction(0))
    assert not whole.exchange(Fraction(9), Fraction(0), before=Fraction(1, 4))
    assert (whole.amount, whole.left, whole.concentrated) == (2, Fraction(7, 4), False)
    assert whole.precision() == 1.75
    with pytest.raises(BudgetError, match="epsilon 1.8 was requested and 1.75 of 2 is left"):
        whole.spend("1.8")
    assert not any(part.concentrated for part in whole.split(a=1, b=1))
