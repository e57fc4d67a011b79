"""Walks on a lattice, scaled to a cap."""

import numpy as np
import pytest

from dqam.errors import InputError
from dqam.geometry.grid import Grid
from dqam.geometry.lattice import Lattice
from dqam.geometry.trips import Trips
from dqam.geometry.walks import walk
from dqam.privacy.aggregates import Aggregates
from dqam.statistics import SHADOW, WalkSums
from dqam.statistics.limits import MOST_CAP
from dqam.statistics.walk_sums import ScaledWalks
from tests.statistics.cases import CROSS, EACH, assert_adds_up


@pytest.mark.parametrize(
    ("statistic", "reached"),
    [
        (WalkSums(CROSS, 1), 1 - 1e-4),
        (WalkSums(CROSS, 3, 2), 1 - 1e-4),
        (WalkSums(EACH, 2, 3), 1 - 1e-4),
        (WalkSums(EACH, 11, 3), 1.0),
        (WalkSums(EACH, 40, 3), 0.2),
    ],
    ids=["coarse", "coarse, weighted", "weighted", "the longest walk", "high cap"],
)
def test_a_trip_adds_no_more_than_the_cap(statistic: WalkSums, reached: float) -> None:
    assert_adds_up(statistic, reached)


def sums_of(points: list[tuple[float, float]], cap: int, weight: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Endpoints, vertical and horizontal edges of one trip on 4 x 4 cells."""
    grid = Grid((0.0, 0.0, 4.0, 4.0), 4, 4)
    lattice = Lattice.even(grid, 4)
    kept = Aggregates.of(walk(Trips.from_lists([points], grid.crs), grid))
    return lattice.parts(kept.value(WalkSums(lattice, cap, weight)) / SHADOW)


def test_a_short_walk_counts_as_it_is() -> None:
    ends, vertical, horizontal = sums_of([(0.5, 0.5), (2.5, 0.5), (2.5, 1.5)], 6)
    assert ends.nonzero()[0].tolist() == [0, 1]
    assert ends.nonzero()[1].tolist() == [0, 2]
    assert ends.sum() == 3  # two halves, times the weight
    assert vertical[0].tolist() == [1, 1, 0]
    assert horizontal[0].tolist() == [0, 0, 1, 0]


def test_loops_are_left_out() -> None:
    straight, around = [(0.5, 0.5), (3.5, 0.5)], [(0.5, 0.5), (1.5, 0.5), (1.5, 2.5), (1.5, 0.5), (3.5, 0.5)]
    for one, other in zip(sums_of(straight, 9), sums_of(around, 9), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_long_walk_is_scaled_as_a_whole() -> None:
    ends, vertical, horizontal = sums_of([(0.5, 0.5), (3.5, 0.5)], 3)
    assert vertical[0].tolist() == [0.5, 0.5, 0.5]
    assert ends.sum() == 1.5
    assert not horizontal.any()


def test_walks_for_many_caps_are_those_for_each() -> None:
    grid = Grid((0.0, 0.0, 4.0, 4.0), 4, 4)
    lattice, rng = Lattice.even(grid, 3), np.random.default_rng(0)
    trips = Trips.from_lists([[tuple(point) for point in rng.uniform(0, 4, (6, 2))] for _ in range(50)], grid.crs)
    kept = Aggregates.of(walk(trips, grid))
    caps = np.array([1, 4, 9])
    together = kept.total(ScaledWalks(lattice, 3, caps))
    for cap, sums in zip(caps, together, strict=True):
        np.testing.assert_array_equal(Aggregates.of(kept.engine.walks).value(WalkSums(lattice, int(cap), 3)), sums)
    scans = kept.scans
    np.testing.assert_array_equal(kept.value(WalkSums(lattice, 4, 3)), together[1])
    assert kept.scans == scans


def test_bounds_are_checked() -> None:
    for cap in (0, -1, MOST_CAP + 1):
        with pytest.raises(InputError, match="cap on a trip's size"):
            WalkSums(EACH, cap)
    with pytest.raises(InputError, match="endpoint_weight"):
        WalkSums(EACH, 2, 0)
