"""Units, and epsilons as exact numbers."""

from fractions import Fraction

import pytest

from dqam.errors import InputError
from dqam.values.guarantee import Unit, parse_epsilon


def test_floats_are_read_as_written() -> None:
    assert parse_epsilon(0.1) == Fraction(1, 10)
    assert parse_epsilon("1/3") * 3 == 1
    assert sum([parse_epsilon(0.1)] * 10) == 1


@pytest.mark.parametrize(
    "bad", [0, -1, -0.5, float("nan"), float("inf"), "much", None, "1/0", "1e999999999", "1e-999999999"]
)
def test_epsilon_is_a_number_above_0(bad: object) -> None:
    with pytest.raises(InputError, match="positive number"):
        parse_epsilon(bad)  # type: ignore[arg-type]


def test_units() -> None:
    assert Unit.person(3).max_trips == 3
    assert Unit.trip().in_words == "one trip"
    assert Unit.person(1).in_words == "one person with at most 1 trip"
    assert Unit.person(2_000).in_words == "one person with at most 2,000 trips"
    for name, trips in (("trip", 2), ("person", 0), ("family", 1)):
        with pytest.raises(InputError):
            Unit(name, trips)
