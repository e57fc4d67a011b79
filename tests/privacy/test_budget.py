from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqam.errors import BudgetError, InputError
from dqam.privacy.budget import Budget
from dqam.values.guarantee import parse_epsilon


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
