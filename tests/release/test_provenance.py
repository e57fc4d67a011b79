"""What a release says of how it came about."""

from dataclasses import replace
from fractions import Fraction

import pytest

from dqam.values.guarantee import PaidQuestion
from tests.release.cases import seeded


@pytest.mark.parametrize(
    ("deltas", "sum_is_at_most"),
    [
        ([""], ""),
        (["10^-47"], "10^-47"),
        (["10^-47", "", "10^-47"], "10^-46"),
        (["10^-47"] * 10, "10^-46"),
        (["10^-47"] * 40, "10^-45"),
        (["10^-50", "10^-47"], "10^-46"),
        (["10^-1"] * 1_000, "10^-0"),
    ],
)
def test_the_deltas_of_all_questions_add_up(deltas: list[str], sum_is_at_most: str) -> None:
    paid = tuple(PaidQuestion("partition", "buckets", 1, Fraction(1), Fraction(1), delta=delta) for delta in deltas)
    assert replace(seeded().provenance, paid=paid, epsilon=Fraction(len(paid))).delta == sum_is_at_most
