"""What a plan says before anything is spent."""

import numpy as np
import pytest

from dqam.geometry.grid import Grid
from dqam.publishing.forecast import forecast
from dqam.publishing.plan import Plan

GRID = Grid.over((0.0, 0.0, 1.0, 1.0), 5)


def test_the_budget_is_split_into_all_of_it() -> None:
    made = forecast(Plan.of(GRID, "0.7", unit="person", max_trips=7), 20_000)
    assert float(sum(entry.epsilon for entry in made.paid)) == pytest.approx(0.7)
    assert [row.largest for row in made.errors] == [0.01, 0.1, 0.3, 1.0]


def test_more_trips_and_more_epsilon_are_off_by_less() -> None:
    shares = [
        np.mean([row.off / trips for row in forecast(Plan.of(GRID, epsilon), trips).errors])
        for trips, epsilon in ((1_000, "0.1"), (1_000, 1), (20_000, 1))
    ]
    assert shares[0] > 1.5 * shares[1] > 1.5 * 1.5 * shares[2]


def test_many_trips_are_stood_in_for_by_fewer() -> None:
    made = forecast(Plan.of(GRID, "0.1"), 300_000)
    fewer = forecast(Plan.of(GRID, 1), 30_000)
    for ours, theirs in zip(made.errors, fewer.errors, strict=True):
        assert (ours.answer, ours.off) == pytest.approx((10 * theirs.answer, 10 * theirs.off))
