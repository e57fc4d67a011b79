"""Units, and epsilons as exact numbers."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dqam.errors import InputError
from dqam.values.conversion import rho_of
from dqam.values.guarantee import PaidQuestion, Promise, Unit, parse_delta, parse_epsilon, spell_delta


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


def test_a_promise_is_pure_without_a_delta() -> None:
    for delta in (None, 0, 0.0, Fraction(0)):
        promise = Promise.of("0.1", delta)
        assert promise == Promise(Fraction(1, 10))
        assert promise.rho is None
        assert str(promise) == "epsilon = 0.1"


def test_a_promise_with_a_delta_is_a_budget_of_rho() -> None:
    promise = Promise.of(0.5, "2.5e-7")
    assert (promise.epsilon, promise.delta) == (Fraction(1, 2), Fraction(25, 10**8))
    assert promise.rho == rho_of(Fraction(1, 2), Fraction(25, 10**8)) > 0
    assert str(promise) == "epsilon = 0.5, delta = 2.5e-7"
    assert Promise.of(1, np.float64(1e-8)) == Promise.of("1", "1e-8") == Promise.of(np.int64(1), Fraction(1, 10**8))
    with pytest.raises(AttributeError):
        promise.delta = Fraction(0)  # type: ignore[misc]


def test_with_a_delta_epsilon_has_limits() -> None:
    for epsilon in (1e-7, 1001, "1e-300", 10**30):
        assert Promise.of(epsilon).rho is None
        with pytest.raises(InputError, match="With a delta, epsilon must be 1e-06 to 1000"):
            Promise.of(epsilon, 1e-8)
    assert Promise.of(1e-6, 1e-8).rho
    assert Promise.of(1000, 1e-8).rho


NONSENSE: list[Any] = [
    *("", " ", "small", "nan", "inf", "-inf", "-1e-8", "1e-8%", "1e-8 of all", "1_0e-9", "0x1p-20", "1/0", "0/1", "0"),
    *("1e-999999999", "1e999999999", "1e-400", "1/1e8", "1" + "0" * 10_000, "1/1" + "0" * 5_000),
    *(float("nan"), float("inf"), -float("inf"), -1e-8, -0.5, 0.5, 1, 2, 0.0100001, 0.99e-30, 5e-324, 10**400),
    *(True, False, Fraction(1, 2), Fraction(1, 10**31), Fraction(-1, 10**8), 1j, b"1e-8", [1e-8], {}, object()),
    *(np.float64("nan"), np.bool_(True), np.array([1e-8, 1e-8]), Decimal("NaN")),
]


@pytest.mark.parametrize("bad", NONSENSE, ids=lambda bad: repr(bad)[:20])
def test_a_delta_is_a_small_probability(bad: Any) -> None:
    with pytest.raises(InputError, match="Delta must be a small probability, such as 1e-8"):
        parse_delta(bad)


@pytest.mark.parametrize("good", [1e-30, 0.01, "0.01", "1e-30", "1/100000000", Fraction(1, 10**8), 3e-9])
def test_deltas_are_read_as_written_and_spelled_as_read(good: Any) -> None:
    delta = parse_delta(good)
    assert delta == Fraction(repr(good) if isinstance(good, float) else good)
    assert parse_delta(spell_delta(delta)) == delta


def test_how_deltas_are_spelled() -> None:
    for text in ("1e-8", "2.5e-7", "1e-30", "1e-2", "1.23456789e-9", "9.999e-11"):
        assert spell_delta(Fraction(text)) == text
    assert spell_delta(Fraction(1, 3 * 10**6)) == "1/3000000"
    assert spell_delta(Fraction(0)) == "0e0"


def test_the_cost_of_a_question_is_what_was_spent_on_it() -> None:
    third = Fraction(1, 3)
    assert PaidQuestion("measure", "x", 1, third, Fraction(3)).cost == third
    assert PaidQuestion("measure", "x", 1, None, Fraction(3), rho=third).cost == third
    assert PaidQuestion("select", "x", 1, Fraction(2), Fraction(3), rho=third).cost == third
