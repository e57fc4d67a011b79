"""What a plan says about slices is what happens to them."""

import numpy as np
import pytest

from dqam import cities
from dqam.geometry.grid import Grid
from dqam.geometry.slicing import Slicing
from dqam.geometry.walks import Walks, walk
from dqam.mechanisms.slices import SHARE, measure_slices
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.publishing.forecast import forecast
from dqam.publishing.plan import Plan
from dqam.publishing.slice_forecast import forecast_slices

GRID = Grid.over(cities.BOUNDS, 6)
AREAS = [(-30.03, 44.98, -30.0, 45.01), (-30.01, 44.97, -29.96, 45.0)]
TRIPS = 2_000


@pytest.fixture(scope="module")
def walks() -> Walks:
    (trips,) = cities.city_trips(TRIPS, 3, rhythm=True)
    return walk(Slicing.parse("hour").labelled(trips), GRID)


def test_without_slices_there_is_nothing_to_expect() -> None:
    assert forecast_slices(Plan.of(GRID, 1), TRIPS) is None
    assert forecast(Plan.of(GRID, 1), TRIPS).slices is None


@pytest.mark.parametrize("delta", [None, "1e-8"])
def test_the_noise_in_the_trips_of_a_slice(walks: Walks, delta: str | None) -> None:
    plan = Plan.of(GRID, 2, queries=AREAS, by="hour", delta=delta)
    expected = forecast_slices(plan, TRIPS)
    assert expected is not None
    assert walks.slices is not None
    sizes, off = np.bincount(walks.slices, minlength=24), []
    sums = Aggregates.of(walks, slices=24)
    for seed in range(40):
        curator = Curator(sums, Budget.of(plan.promise), SeededNoise(seed))
        _, of_slices = curator.budget.split(map=1 - SHARE, slices=SHARE)
        measured = measure_slices(curator, plan.queries, of_slices, TRIPS)
        off.append(measured.sizes[:, 0] - sizes)
    assert max(measured.lattice.shape) == expected.side
    assert np.std(off) == pytest.approx(expected.deviation, rel=0.1)
    assert [paid.name for paid in curator.paid] == [asked.name for asked in expected.questions]
    shares = [float(paid.cost / plan.promise.rho if plan.promise.rho else paid.cost / 2) for paid in curator.paid]
    assert shares == pytest.approx([asked.share for asked in expected.questions])
    assert (expected.count, expected.trips) == (24, TRIPS / 24)


def test_persons_have_more_noise() -> None:
    one, ten = (
        forecast_slices(Plan.of(GRID, 1, unit="person", max_trips=most, by="hour"), 100_000) for most in (1, 10)
    )
    assert one is not None
    assert ten is not None
    assert ten.deviation == pytest.approx(10 * one.deviation)
    assert ten.side < one.side


@pytest.mark.parametrize("delta", [None, "1e-8"])
@pytest.mark.parametrize("queries", [None, AREAS])
def test_the_map_is_made_with_the_rest(
    walks: Walks, delta: str | None, queries: list[tuple[float, ...]] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dqam.publishing.forecast.STAND_INS", 1_000)
    plan = Plan.of(GRID, 4, queries=queries, by="hour", delta=delta)
    made = forecast(plan, TRIPS)
    assert made.concentrated == (delta is not None)  # with slices, no budget is exchanged
    assert made.budget == (plan.promise.rho or 4)
    assert sum(asked.share for asked in made.questions) == pytest.approx(1, abs=1e-3)
    assert sum(asked.share for asked in made.questions[-2:]) == pytest.approx(float(SHARE))
    curator = Curator(Aggregates.of(walks, slices=24), Budget.of(plan.promise), SeededNoise(0))
    plan.release(curator, "one")
    assert [paid.name for paid in curator.paid] == [asked.name for asked in made.questions]
    if delta is None and queries is None:
        less = forecast(Plan.of(GRID, 4 * (1 - SHARE)), TRIPS)
        assert (made.signal, made.errors) == (less.signal, less.errors)
