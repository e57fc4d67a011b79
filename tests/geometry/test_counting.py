import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dqam.geometry.counting
from dqam.errors import InputError
from dqam.geometry.counting import TRIPS, count_distinct
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.rectangles import random_rectangles
from dqam.geometry.trips import Trips
from dqam.geometry.walks import Gap, walk
from tests.geometry.cases import GRIDS, random_trips
from tests.oracles import naive


@given(st.integers(0, 10_000), st.sampled_from([*GRIDS, Grid((0, 0, 7, 5), 37, 100)]))
@settings(max_examples=40, deadline=None)
def test_distinct_counts_equal_brute_force_on_loops(seed: int, grid: Grid) -> None:
    walks = walk(random_trips(seed), grid)
    rectangles = random_rectangles(grid, 60, np.random.default_rng(seed))
    assert count_distinct(walks, rectangles, grid).tolist() == [naive.distinct(walks, *r) for r in rectangles.tolist()]


def test_trips_in_many_pieces() -> None:
    grid = Grid((0, 0, 7, 5), 20, 28)
    trips = random_trips(1, 60)
    walks = walk(trips, grid, Gap(metres=60_000))  # cut wherever a step is longer than half a cell row
    assert np.diff(walks.trips).max() > 10
    rectangles = random_rectangles(grid, 200, np.random.default_rng(0))
    assert count_distinct(walks, rectangles, grid).tolist() == [naive.distinct(walks, *r) for r in rectangles.tolist()]


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_more_trips_than_a_block_and_more_rectangles_than_a_tile(threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dqam.geometry.counting, "cores", lambda: threads)
    monkeypatch.setattr(dqam.geometry.counting, "TILE", 64)
    grid = GRIDS[1]
    trips = random_trips(2, 2 * TRIPS + 17)
    walks = walk(trips, grid)
    rectangles = random_rectangles(grid, 150, np.random.default_rng(0))
    counts = count_distinct(walks, rectangles, grid)
    visited = np.zeros((len(walks), 256), bool)
    visited[np.repeat(np.arange(len(walks)), np.diff(walks.visits)), walks.cells] = True
    by_cell = visited.reshape(-1, 16, 16)
    wanted = [by_cell[:, s:n, w:e].any(axis=(1, 2)).sum() for w, s, e, n in rectangles]
    assert counts.tolist() == wanted
    batches = [walk(trips.slice(0, 100), grid), walk(trips.slice(100, len(trips)), grid)]
    assert count_distinct(batches, rectangles, grid).tolist() == wanted


def test_straight_trips_are_counted_as_the_histogram_answers() -> None:
    """A straight trip comes to a rectangle at most once, so there F - E is the distinct count."""
    grid = Grid((0, 0, 1, 1), 64, 64)
    points = np.random.default_rng(0).uniform(-0.2, 1.2, (3000, 2))
    walks = walk(Trips(points[:, 0].copy(), points[:, 1].copy(), np.arange(0, 3001, 2)), grid)
    rectangles = random_rectangles(grid, 2000, np.random.default_rng(1))
    np.testing.assert_array_equal(
        count_distinct(walks, rectangles, grid), SpatialHistogram.of(walks).answers(rectangles)
    )


def test_no_trips_and_no_rectangles() -> None:
    grid = GRIDS[0]
    everything = np.array([[0, 0, 7, 5]])
    assert count_distinct(walk(Trips.from_lists([]), grid), everything, grid).tolist() == [0]
    assert count_distinct(walk(Trips.from_lists([[(-9.0, -9.0)]]), grid), everything, grid).tolist() == [0]
    assert count_distinct(walk(random_trips(0), grid), np.zeros((0, 4), int), grid).shape == (0,)


@pytest.mark.parametrize("bad", [(0, 0, 8, 5), (-1, 0, 3, 3), (3, 0, 3, 2), (0, 4, 2, 1), (0, 0, 1, 6)])
def test_rectangles_off_the_grid_are_refused(bad: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="Rectangle 1 is"):
        count_distinct(walk(random_trips(0), GRIDS[0]), np.array([(0, 0, 1, 1), bad]), GRIDS[0])


def test_walks_on_another_grid_are_refused() -> None:
    with pytest.raises(InputError, match="cannot be counted"):
        count_distinct(walk(random_trips(0), GRIDS[0]), np.array([[0, 0, 1, 1]]), GRIDS[1])


def test_only_trips_to_keep_count() -> None:
    trips, grid = random_trips(3, 200), GRIDS[1]
    keep = np.random.default_rng(0).random(200) < 0.4
    rectangles = random_rectangles(grid, 50, np.random.default_rng(1))
    kept = [trips.slice(i, i + 1) for i in np.flatnonzero(keep)]
    wanted = count_distinct([walk(trip, grid) for trip in kept], rectangles, grid)
    np.testing.assert_array_equal(count_distinct(walk(trips, grid), rectangles, grid, keep), wanted)


def test_rectangles_of_another_kind_are_refused() -> None:
    with pytest.raises(InputError, match="whole numbers of shape .*snap"):
        count_distinct(walk(random_trips(0), GRIDS[0]), np.array([[0.0, 0.0, 1.0, 1.0]]), GRIDS[0])
