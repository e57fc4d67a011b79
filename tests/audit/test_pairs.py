"""Pairs of neighbouring data sets."""

import numpy as np
import pytest

from dqam.audit import pairs
from dqam.audit.pairs import GRID, Pair, walks_of
from dqam.geometry.walks import walk

ONE_TRIP_APART = {
    **pairs.ADVERSARIAL_PAIRS,
    **pairs.QUANTILE_PAIRS,
    **pairs.MECHANISM_PAIRS,
    **pairs.SINGLE_TRIP_PAIRS,
    **pairs.QUADTREE_PAIRS,
}


@pytest.mark.parametrize("pair", ONE_TRIP_APART.values(), ids=ONE_TRIP_APART)
def test_neighbours_differ_in_one_trip(pair: Pair) -> None:
    one, other = pair
    assert len(other) == len(one) + 1
    np.testing.assert_array_equal(other.x[: one.points], one.x)
    np.testing.assert_array_equal(other.y[: one.points], one.y)


def test_rows_of_cells_differ_in_one_trip_in_the_middle() -> None:
    ((one, other),) = pairs.BUCKET_PAIRS.values()
    apart = np.bincount(other.x.astype(int)) - np.bincount(one.x.astype(int))
    assert apart.tolist() == [0, 0, 0, 1, 0, 0, 0]


def test_walks_are_computed_once() -> None:
    trips = pairs.ADVERSARIAL_PAIRS["no trips + zig-zag"][1]
    assert walks_of(trips) is walks_of(trips)
    np.testing.assert_array_equal(walks_of(trips).cells, walk(trips, GRID).cells)
