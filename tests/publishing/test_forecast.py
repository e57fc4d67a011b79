"""What a plan says before anything is spent."""

import numpy as np
import pytest

from dqam.geometry.grid import Grid
from dqam.geometry.rectangles import size_bands
from dqam.mechanisms import Flux
from dqam.publishing.forecast import forecast
from dqam.publishing.forecast_table import measured_table
from dqam.publishing.plan import Plan

GRID = Grid.over((0.0, 0.0, 1.0, 1.0), 5)
AREAS = [(0.1, 0.1, 0.4, 0.6), (0.5, 0.2, 0.9, 0.9)]


def test_flux_is_looked_up() -> None:
    made = forecast(Plan.of(GRID, "0.5"), 20_000)
    table = measured_table()
    assert made.signal == 10_000
    assert not made.evenly
    assert made.questions == table.budget(10_000)
    assert len(made.data_sets) == len(table.data_sets)
    assert [row.band for row in made.errors] == list(size_bands(GRID))
    for row in made.errors:
        found = table.error(row.band.name, 10_000)
        assert (row.answer, row.error, row.low, row.high) == (20_000 * found.answer, found.error, found.low, found.high)


def test_the_trips_of_a_person_divide_the_signal() -> None:
    made = forecast(Plan.of(GRID, 1, unit="person", max_trips=7), 70_000)
    assert made.signal == 10_000
    assert [row.error for row in made.errors] == [row.error for row in forecast(Plan.of(GRID, 1), 10_000).errors]


@pytest.mark.parametrize("mechanism", ["flux", "uniform"])
def test_a_weak_signal_is_spread_evenly(mechanism: str) -> None:
    made = forecast(Plan.of(GRID, "0.1", mechanism), 200)
    assert made.evenly
    assert {asked.name.partition(",")[0] for asked in made.questions} == {"Number of trips and average answer"}


OTHERS = {"parameters": Plan.of(GRID, 1, Flux(side=6)), "queries": Plan.of(GRID, 1, queries=AREAS)}


@pytest.mark.parametrize("name", OTHERS)
def test_other_plans_are_simulated(name: str) -> None:
    made, table = forecast(OTHERS[name], 2_000), measured_table()
    assert made.data_sets == ("Made-up city, skewed",)
    assert [row.band for row in made.errors] == list(size_bands(GRID))
    assert all(row.low is None and row.high is None for row in made.errors)
    (city,) = (one for one in table.data_sets if one.label == made.data_sets[0])
    for row in made.errors:
        found = table.error(row.band.name, 2_000)
        assert 0.5 * found.low < row.error < 2 * found.high, row.band.name
        assert row.answer == pytest.approx(2_000 * city.answers[row.band.name], rel=0.35)


def test_the_budget_is_split_into_all_of_it() -> None:
    for mechanism in ("flux", "dqam"):
        made = forecast(Plan.of(GRID, "0.7", mechanism, unit="person", max_trips=7), 20_000)
        assert sum(asked.share for asked in made.questions) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("mechanism", ["flux", "dqam"])
def test_more_trips_and_more_epsilon_are_off_by_less(mechanism: str) -> None:
    shares = [
        np.mean([row.error for row in forecast(Plan.of(GRID, epsilon, mechanism), trips).errors])
        for trips, epsilon in ((1_000, "0.1"), (1_000, 1), (20_000, 1))
    ]
    assert shares[0] > 1.1 * shares[1] > 1.1 * 1.1 * shares[2]


def test_many_trips_are_stood_in_for_by_fewer() -> None:
    made = forecast(Plan.of(GRID, "0.1", "laplace"), 300_000)
    fewer = forecast(Plan.of(GRID, 1, "laplace"), 30_000)
    for ours, theirs in zip(made.errors, fewer.errors, strict=True):
        assert (ours.answer, ours.error) == pytest.approx((10 * theirs.answer, theirs.error))
