"""The table of measured errors: interpolation checked by hand, and the shipped table against a fresh measurement."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import dqam
from dqam import cities
from dqam.geometry.counting import count_distinct
from dqam.geometry.grid import Grid
from dqam.geometry.rectangles import size_bands
from dqam.geometry.walks import walk
from dqam.mechanisms import Flux
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.publishing.forecast_table import ForecastTable, MeasuredDataSet, PlannedQuestion, measured_table
from dqam.publishing.plan import default_queries

COUNT, WALKS = ("measure", "trips"), ("measure", "walks")
TABLE = ForecastTable(
    "1.2.3",
    "flux",
    (100, 10_000, 1_000_000),
    (
        (PlannedQuestion(*COUNT, 1.0),),
        (PlannedQuestion(*COUNT, 0.6), PlannedQuestion(*WALKS, 0.4)),
        (PlannedQuestion(*COUNT, 0.2), PlannedQuestion(*WALKS, 0.8)),
    ),
    (
        MeasuredDataSet("one", (1_000,), {"all": 0.3}, {"all": (0.4, 0.1, 0.025)}),
        MeasuredDataSet("two", (1_000,), {"all": 0.5}, {"all": (0.9, 0.3, 0.1)}),
        MeasuredDataSet("few", (10,), {"all": 0.1}, {"all": (0.5, None, None)}),
    ),
)


def test_errors_are_interpolated_in_the_logarithm_of_the_signal() -> None:
    found = TABLE.error("all", 1_000)
    assert (found.low, found.high) == pytest.approx((0.2, np.sqrt(0.27)))
    assert found.error == pytest.approx((found.low + found.high) / 2)
    assert found.answer == pytest.approx(0.4)
    assert TABLE.error("all", 10_000).low == pytest.approx(0.1)


def test_a_data_set_counts_only_where_it_was_measured() -> None:
    assert TABLE.error("all", 100).error == pytest.approx(0.5)
    assert TABLE.error("all", 100).answer == pytest.approx(0.3)
    assert TABLE.error("all", 101).answer == pytest.approx(0.4)


def test_beyond_the_table_its_ends_count() -> None:
    assert TABLE.error("all", 1) == TABLE.error("all", 100)
    assert TABLE.error("all", 1e9) == TABLE.error("all", 1_000_000)
    assert TABLE.budget(1) == TABLE.budgets[0]
    assert TABLE.budget(1e9) == TABLE.budgets[2]


def test_budgets_are_interpolated_if_the_questions_are_the_same() -> None:
    assert [asked.share for asked in TABLE.budget(100_000)] == pytest.approx([0.4, 0.6])
    assert TABLE.budget(900) == TABLE.budgets[0]
    assert TABLE.budget(1_100) == TABLE.budgets[1]


def test_a_table_is_written_and_read() -> None:
    assert ForecastTable.from_json(TABLE.to_json()) == replace(TABLE)


@pytest.mark.parametrize("concentrated", [False, True])
def test_the_shipped_tables_are_complete(concentrated: bool) -> None:
    table = measured_table(concentrated)
    assert (table.version, table.mechanism) == (dqam.__version__, "flux")
    bands = [band.name for band in size_bands(Grid((0, 0, 1, 1), 256, 256))]
    for one in table.data_sets:
        assert list(one.errors) == list(one.answers) == bands
        assert all(0 < share <= 1 for share in one.answers.values())
        for errors in one.errors.values():
            known = [error for error in errors if error is not None]
            assert len(errors) == len(table.signals)
            assert known[-1] < known[0]
    assert sum("real" in one.label for one in table.data_sets) == 3
    for budget in table.budgets:
        assert sum(asked.share for asked in budget) == pytest.approx(1, abs=1e-3)
    assert table.signals[0] < Flux().least < 100 < 200_000 < table.signals[-1]


def test_the_two_tables_are_of_the_same_data_sets() -> None:
    pure, gaussian = ([(one.label, one.trips, one.answers) for one in measured_table(c).data_sets] for c in (0, 1))
    assert pure == gaussian
    names = {asked.name for budget in measured_table(True).budgets for asked in budget}
    assert names == {asked.name for budget in measured_table(False).budgets for asked in budget}


@pytest.mark.parametrize("epsilon", ["0.3", "1", "5"])
def test_the_shipped_table_says_what_flux_does(epsilon: str) -> None:
    """On trips that the table was not measured on."""
    (trips,) = cities.city_trips(2_000, 7)
    grid = Grid.over(cities.BOUNDS, 8)
    walks, rng = walk(trips, grid), np.random.default_rng(7)
    judges = {band.name: band.draw(grid, 1_000, rng) for band in size_bands(grid)}
    errors = {band: [] for band in judges}
    for seed in range(4):
        curator = Curator(walks, Budget(epsilon), SeededNoise(seed))
        histogram = Flux().synthesize(curator, default_queries(grid), curator.budget).histogram
        for band, rectangles in judges.items():
            truth = count_distinct(walks, rectangles, grid)
            errors[band].append(np.abs(histogram.answers(rectangles) - truth).mean() / truth.mean())
    table, signal = measured_table(), float(2_000 * Fraction(epsilon))
    for band, found in errors.items():
        expected = table.error(band, signal)
        assert 1 / 1.5 < np.mean(found) / expected.error < 1.5, band
        assert 0.85 * expected.low < np.mean(found) < 1.15 * expected.high, band
    asked = [(paid.kind, paid.name, float(paid.epsilon / curator.budget.amount)) for paid in curator.paid]
    planned = [(asked.kind, asked.name, asked.share) for asked in table.budget(signal)]
    assert [row[:2] for row in asked] == [row[:2] for row in planned]
    assert [row[2] for row in asked] == pytest.approx([row[2] for row in planned], abs=0.03)
