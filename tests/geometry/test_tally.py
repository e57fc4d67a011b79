"""Tallies are the same in any batches and on any number of threads."""

import numpy as np
import pytest

import dqam.geometry.tally
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.tally import spread_mass
from dqam.geometry.trips import Trips
from dqam.geometry.walks import walk
from tests.geometry.cases import GRIDS, random_trips
from tests.oracles import naive


def test_batches_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    trips, grid = random_trips(5, 3000), GRIDS[0]
    whole = SpatialHistogram.of(walk(trips, grid))
    parts = [walk(trips.slice(0, 1200), grid), walk(trips.slice(1200, 3000), grid)]
    monkeypatch.setenv("DQAM_THREADS", "1")
    joined, separate = SpatialHistogram.of(parts, grid), [SpatialHistogram.of(part) for part in parts]
    for name in ("faces", "vertical", "horizontal"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(joined, name))
        np.testing.assert_array_equal(getattr(whole, name), sum(getattr(each, name) for each in separate))


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_spans_and_threads_do_not_matter(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    trips, grid = random_trips(6, 3000), GRIDS[1]
    wanted = naive.histogram(walk(trips, grid))
    monkeypatch.setattr(dqam.geometry.tally, "SPAN", 100)
    monkeypatch.setattr(dqam.geometry.tally, "cores", lambda: threads)
    for _ in range(5):
        found = SpatialHistogram.of(walk(trips, grid))
        for name in ("faces", "vertical", "horizontal"):
            np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))


def test_mass_is_one_a_trip_spread_over_its_visits() -> None:
    trips = Trips.from_lists([[(0.5, 0.5), (2.5, 0.5)], [(0.5, 0.5)], [(-5.0, -5.0)]])
    mass = spread_mass(walk(trips, GRIDS[0]))
    np.testing.assert_allclose(mass[0, :4], [1 + 1 / 3, 1 / 3, 1 / 3, 0])
    walks = walk(random_trips(6), GRIDS[1])
    assert spread_mass(walks).sum() == pytest.approx(walks.on_grid)
