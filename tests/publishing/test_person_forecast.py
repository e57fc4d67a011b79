"""The forecast for persons: what is kept, what the factor costs, and how errors add up."""

from fractions import Fraction

import numpy as np
import pytest

from dqam.geometry.grid import Grid
from dqam.mechanisms.persons import LOOKS
from dqam.publishing.forecast_table import PlannedQuestion
from dqam.publishing.person_forecast import (
    MOST_PERSONS,
    ExpectedFactor,
    combined,
    expected_factors,
    kept_signal,
    made_up_persons,
    with_persons,
)
from dqam.publishing.plan import Plan

GRID = Grid.over((0.0, 0.0, 1.0, 1.0), 5)


def plan_of(m: int, epsilon: str = "1", **more: str) -> Plan:
    return Plan.of(GRID, epsilon, unit="person", max_trips=m, **more)  # type: ignore[arg-type]


def test_nothing_changes_for_trips() -> None:
    assert expected_factors(Plan.of(GRID, 1), 1_000) == []
    assert kept_signal([]) == 1
    assert combined([], lambda times: (times, 0.5, None)) == (1.0, 0.5, None)
    questions = (PlannedQuestion("measure", "one", 1.0),)
    assert with_persons([], questions) is questions


def test_more_trips_of_a_person_are_kept_with_a_larger_m() -> None:
    kept = [[one.kept for one in expected_factors(plan_of(m), 20_000)] for m in (1, 5, 20)]
    assert kept == sorted(kept)
    assert kept[0][0] == pytest.approx(0.1, abs=0.02)
    assert all(0 < share <= 1 for row in kept for share in row)


def test_more_data_costs_less_and_is_off_by_less() -> None:
    few, many = (expected_factors(plan_of(10), trips)[0] for trips in (2_000, 2_000_000))
    assert many.error < 0.03 < few.error
    assert many.spent < few.spent <= sum(share for share, _ in LOOKS)


@pytest.mark.parametrize("trips", [1, 50, 5_000, 50_000_000])
def test_made_up_persons_have_about_so_many_trips(trips: int) -> None:
    own, times = made_up_persons(trips, 10, 0.8)
    assert len(own) <= MOST_PERSONS
    assert own.min() >= 1
    assert own.sum() * times == pytest.approx(max(trips, 7), rel=0.1)


def test_errors_add_up_in_squares() -> None:
    factors = [ExpectedFactor(0.5, Fraction(1, 5), 0.3), ExpectedFactor(1.0, Fraction(0), 0.0)]
    error, low, high = combined(factors, lambda times: (0.16 / times, 0.08 / times, None))
    assert error == pytest.approx((0.5 + 0.16) / 2)
    assert (low, high) == (pytest.approx(0.08), None)
    assert kept_signal(factors) == pytest.approx(0.7)
    questions = with_persons(factors, (PlannedQuestion("measure", "one", 1.0),))
    assert [asked.share for asked in questions] == pytest.approx([0.1, 0.9])


def test_a_delta_is_charged_as_well() -> None:
    (city, _) = expected_factors(plan_of(10, delta="1e-8"), 100_000)
    assert np.isfinite(city.error)
    assert 0 < city.spent < 0.4
