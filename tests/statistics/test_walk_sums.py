"""Walks on a lattice, scaled to a cap."""

import math
from itertools import product

import numpy as np
import pytest

from dqam.errors import InputError
from dqam.geometry.grid import Grid
from dqam.geometry.lattice import Lattice
from dqam.geometry.trips import Trips
from dqam.geometry.walks import walk
from dqam.privacy.aggregates import Aggregates
from dqam.statistics import SHADOW, WalkSums
from dqam.statistics.aggregate import Part
from dqam.statistics.limits import MOST_CAP
from dqam.statistics.walk_sums import ScaledWalks, _unit
from tests.statistics.cases import CROSS, EACH, SHAPES, assert_adds_up, laid, spelled, square_sum


@pytest.mark.parametrize(
    ("statistic", "reached", "reached_l2"),
    [
        (WalkSums(CROSS, 1), 1 - 1e-4, 1),
        (WalkSums(CROSS, 3, 2), 1 - 1e-4, 2 / 3),  # of a trip within one cell, whose endpoints count 2
        (WalkSums(EACH, 2, 3), 1 - 1e-4, 1 - 1e-4),
        (WalkSums(EACH, 11, 3), 1.0, 3 / 11),
        (WalkSums(EACH, 40, 3), 0.2, 3 / 40),
        (WalkSums(CROSS, 1, norm=2), 0.4, 1),
        (WalkSums(CROSS, 3, 2, norm=2), 0.4, 1 - 1e-4),
        (WalkSums(EACH, 2, 3, norm=2), 0.3, 1 - 1e-4),
        (WalkSums(EACH, 5, 1, norm=2), 0.3, 1 - 1e-4),
        (WalkSums(EACH, 7, 256, norm=2), 0.2, 1 - 1e-2),  # u is small: 384
        (WalkSums(EACH, 9, 3, norm=2), 0.2, 1),
        (WalkSums(EACH, 40, 3, norm=2), 0.1, (12.49 / 40) ** 0.5),
    ],
    ids=spelled,
)
def test_a_trip_adds_no_more_than_the_cap(statistic: WalkSums, reached: float, reached_l2: float) -> None:
    assert_adds_up(statistic, reached, reached_l2)


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
    for norm in (0, 3):
        with pytest.raises(InputError, match="norm must be 1 to 2"):
            WalkSums(EACH, 2, norm=norm)


def test_walks_in_different_norms_do_not_stand_for_each_other() -> None:
    caps = np.array([4, 1])
    for norm, other in ((1, 2), (2, 1)):
        asked = ScaledWalks(EACH, 3, caps[:1], norm)
        assert asked.covered_by(ScaledWalks(EACH, 3, caps, norm))
        assert not asked.covered_by(ScaledWalks(EACH, 3, caps, other))
        total = np.arange(2)[:, None] * np.ones((2, 5), np.int64)
        assert ScaledWalks(EACH, 3, caps[1:], norm).read_from(ScaledWalks(EACH, 3, caps, norm), total).tolist() == [
            [1] * 5
        ]


def test_what_a_crossing_counts_is_the_largest_number_that_fits() -> None:
    """Against integers without limit, for the longest walks, the largest weights and the highest caps."""
    rng = np.random.default_rng(0)
    lengths = [0, 1, 2, 3, 8, 127, 4095, 2**24 - 1, *rng.integers(0, 2**24, 20).tolist()]
    weights = [1, 2, 3, 255, 256, *rng.integers(1, 257, 5).tolist()]
    caps = [1, 2, 3, 100, MOST_CAP - 1, MOST_CAP, *rng.integers(1, MOST_CAP, 20).tolist()]
    limited = 0
    for k, w, cap in product(lengths, weights, caps):
        most = cap * SHADOW
        assert _unit(k, w, cap, 1) == min(SHADOW, most // (k + w))
        most, twice = 2 * cap * SHADOW**2, 2 * k + w**2 if k else 2 * w**2
        u = int(_unit(k, w, cap, 2))
        assert u * u * twice <= most
        assert u == SHADOW or (u + 1) ** 2 * twice > most
        assert u == min(SHADOW, math.isqrt(most // twice))
        ends = 2 * (w * (u // 2)) ** 2 if k else (2 * w * (u // 2)) ** 2
        assert k * u * u + ends <= cap * SHADOW**2
        limited += u < SHADOW
    assert 0.1 < limited / (len(lengths) * len(weights) * len(caps)) < 0.99


@pytest.mark.parametrize("weight", [1, 3, 2**8])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_squares_of_any_walk_add_up_to_at_most_the_cap(shape: str, weight: int) -> None:
    """On 64 x 64 cells, in exact integers; each crossing counts the same, and as much as fits."""
    walks, lattice = laid(SHAPES[shape])
    caps = np.array([1, 2, 37, 1000, MOST_CAP])
    for cap, row in zip(caps.tolist(), ScaledWalks(lattice, weight, caps, 2).add_up(Part(walks)), strict=True):
        crossings, ends = row[lattice.cells :], row[: lattice.cells]
        k = np.count_nonzero(crossings)
        assert len(np.unique(crossings[crossings != 0])) == min(k, 1)
        assert np.count_nonzero(ends) == (2 if k else 1)
        u = int(crossings.max()) if k else int(_unit(0, weight, cap, 2))
        assert ends.sum() == 2 * weight * (u // 2)
        assert square_sum(row) <= cap * SHADOW**2
        twice = 2 * k + weight**2 if k else 2 * weight**2
        assert u == SHADOW or twice * (u + 1) ** 2 > 2 * cap * SHADOW**2


def test_what_a_walk_adds_in_l2_depends_on_no_other_trip() -> None:
    each = [SHAPES[name] for name in ("one cell", "snake", "spiral", "comb", "one cell", "random walk")]
    walks, lattice = laid(*each)
    asked = ScaledWalks(lattice, 3, np.array([1, 50, MOST_CAP]), 2)
    apart = sum(asked.add_up(Part(laid(points)[0])) for points in each)
    np.testing.assert_array_equal(asked.add_up(Part(walks)), apart)
