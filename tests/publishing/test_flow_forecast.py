"""What a plan says about flows is what happens to them; its errors are interpolated in a measured table."""

import numpy as np
import pytest

from dqam import cities
from dqam.geometry.grid import Grid
from dqam.geometry.slicing import Slicing
from dqam.geometry.walks import Walks, walk
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.publishing.flow_forecast import FlowForecastTable, MeasuredFlows, forecast_flows, measured_flows
from dqam.publishing.forecast import forecast
from dqam.publishing.plan import Plan

GRID = Grid.over(cities.BOUNDS, 6)
TRIPS = 2_000
AREAS = [(-30.03, 44.98, -30.0, 45.01), (-30.01, 44.97, -29.96, 45.0)]
TABLE = FlowForecastTable(
    "1.2.3",
    (100, 10_000),
    (
        MeasuredFlows("one", 1_000, {"8": 0.1}, {"8": (0.4, 0.1), "tiles": (1.6, 0.4)}),
        MeasuredFlows("two", 1_000, {"8": 0.3}, {"8": (0.9, 0.4), "tiles": (1.0, 0.01)}),
        MeasuredFlows("three", 1_000, {"8": 0.2}, {"8": (1.0, 1.0), "tiles": (1.0, 0.01)}),
    ),
)


@pytest.fixture(scope="module")
def walks() -> Walks:
    (trips,) = cities.city_trips(TRIPS, 3, rhythm=True)
    return walk(Slicing.parse("hour").labelled(trips), GRID)


def test_errors_are_interpolated_in_logarithms() -> None:
    assert TABLE.error("8", 1_000) == pytest.approx((0.6, 0.2, 1.0))
    assert TABLE.error("tiles", 1_000) == pytest.approx((0.1, 0.1, 0.8))
    assert TABLE.error("8", 1) == TABLE.error("8", 100) == pytest.approx((0.9, 0.4, 1.0))
    assert TABLE.error("8", 1e9) == TABLE.error("8", 10_000) == pytest.approx((0.4, 0.1, 1.0))
    assert (TABLE.answer("8"), TABLE.sides) == (0.2, (8,))
    assert FlowForecastTable.from_json(TABLE.to_json()) == TABLE


def test_the_table_that_comes_with_dqam() -> None:
    table = measured_flows()
    assert table.sides == (8, 16, 32, 64)
    assert list(table.signals) == sorted(table.signals)
    for one in table.data_sets:
        assert set(one.errors) == {"8", "16", "32", "64", "tiles"}
        assert all(len(errors) == len(table.signals) and min(errors) > 0 for errors in one.errors.values())
        assert set(one.answers) == {"8", "16", "32", "64"}
        assert one.errors["64"][0] > one.errors["64"][-1]


def test_without_flows_there_is_nothing_to_expect() -> None:
    assert forecast_flows(Plan.of(GRID, 1), TRIPS, []) is None
    assert forecast(Plan.of(GRID, 1), TRIPS).flows is None


def test_the_signal_is_that_of_the_share() -> None:
    plan = Plan.of(Grid.over(cities.BOUNDS, 8), 2, flows="0.25")
    found = forecast_flows(plan, 40_000, [])
    assert found is not None
    assert (found.signal, found.tiles, found.share) == (20_000, 16, plan.flows)
    assert [row.side for row in found.errors] == [8, 16, 32, 64]
    assert [row.error for row in found.errors] == [
        measured_flows().error(str(int(row.side)), 20_000)[0] for row in found.errors
    ]
    assert found.table == measured_flows().error("tiles", 20_000)
    assert found.errors[0].answer == 40_000 * measured_flows().answer("8")
    small = forecast_flows(Plan.of(Grid.over(cities.BOUNDS, 4), 2, flows=True), 40_000, [])
    assert small is not None
    assert [row.side for row in small.errors] == [1, 2, 4]  # none is smaller than a cell
    persons = forecast(Plan.of(GRID, 2, unit="person", max_trips=5, flows="0.25"), 40_000).flows
    assert persons is not None
    assert persons.signal < 20_000 / 5
    assert persons.errors[-1].error > found.errors[-1].error


@pytest.mark.parametrize("delta", [None, "1e-8"])
@pytest.mark.parametrize("by", [None, "hour"])
@pytest.mark.parametrize("queries", [None, AREAS])
def test_the_map_is_made_with_the_rest(
    walks: Walks,
    delta: str | None,
    by: str | None,
    queries: list[tuple[float, ...]] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dqam.publishing.forecast.STAND_INS", 1_000)
    plan = Plan.of(GRID, 4, queries=queries, delta=delta, by=by, flows="0.3")
    made = forecast(plan, TRIPS)
    assert made.flows is not None
    assert made.concentrated == (delta is not None)
    assert sum(asked.share for asked in made.questions) == pytest.approx(1, abs=1e-3)
    of_flows = made.flows.questions
    assert sum(asked.share for asked in of_flows) == pytest.approx(0.3)
    curator = Curator(Aggregates.of(walks, slices=by and 24), Budget.of(plan.promise), SeededNoise(0))
    release = plan.release(curator, "one")
    last = [paid.name for paid in curator.paid[-len(of_flows) :]]
    assert last == [asked.name for asked in made.questions[-len(of_flows) :]] == [asked.name for asked in of_flows]
    total = plan.promise.rho or 4
    spent = [float(paid.cost / total) for paid in curator.paid[-len(of_flows) :]]
    assert spent == pytest.approx([asked.share for asked in of_flows])
    assert release.flow_table is not None
    assert max(release.flow_table.tiles.shape) == made.flows.tiles
    if delta is None and by is None and queries is None:
        less = forecast(Plan.of(GRID, 4 * (1 - plan.flows)), TRIPS)
        assert (made.signal, made.errors) == (less.signal, less.errors)


def test_more_for_flows_is_less_for_the_map() -> None:
    grid = Grid.over(cities.BOUNDS, 8)
    little, much = (forecast(Plan.of(grid, 1, flows=share), 100_000) for share in ("0.1", "0.6"))
    assert little.flows is not None
    assert much.flows is not None
    assert np.all([one.error < other.error for one, other in zip(little.errors, much.errors, strict=True)])
    assert np.all([one.error > other.error for one, other in zip(little.flows.errors, much.flows.errors, strict=True)])
