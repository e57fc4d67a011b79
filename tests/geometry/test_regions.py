"""Partitions and the quadtree on grids of any size."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqam.errors import InputError
from dqam.geometry.regions import Partition, children, coverage, frozen, node_bounds, places, quadtree_depth

ROOT = np.zeros((1, 2), np.int64)


@given(st.integers(1, 40), st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_every_depth_of_the_quadtree_covers_the_grid_once(rows: int, columns: int) -> None:
    nodes = ROOT
    for depth in range(quadtree_depth(rows, columns) + 1):
        bounds = node_bounds(depth, nodes, rows, columns)
        assert (coverage(bounds, rows, columns) == 1).all()
        below = children(nodes, depth, rows, columns)
        assert (np.isin(below // 2, nodes)).all()
        nodes = below
    assert ((bounds[:, 2:] - bounds[:, :2]) == 1).all()  # the deepest nodes are cells


def test_places_finds_nodes_among_others() -> None:
    nodes = np.random.default_rng(0).permutation(np.argwhere(np.ones((9, 7), bool)))
    some = nodes[[5, 0, 62, 5]]
    assert places(some, nodes).tolist() == [5, 0, 62, 5]


def test_labels_and_sizes_are_those_of_the_regions() -> None:
    partition = Partition(3, 4, np.array([[0, 0, 4, 1], [0, 1, 1, 3], [1, 1, 4, 3]]))
    assert partition.labels.tolist() == [[0, 0, 0, 0], [1, 2, 2, 2], [1, 2, 2, 2]]
    assert partition.sizes.tolist() == [4, 2, 6]
    assert len(partition) == 3
    assert repr(partition) == "<Partition: 3 regions of 3 x 4 cells>"
    assert Partition.whole(3, 4).labels.tolist() == [[0] * 4] * 3


def test_regions_cannot_be_changed() -> None:
    given = np.array([[0, 0, 2, 2]], np.int32)
    partition = Partition(2, 2, given)
    given[:] = 0
    assert partition.regions.tolist() == [[0, 0, 2, 2]]
    for array in (partition.regions, partition.labels):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_coverage_counts_regions_that_overlap() -> None:
    assert coverage(np.array([[0, 0, 2, 2], [1, 1, 3, 2]]), 2, 3).tolist() == [[1, 1, 0], [1, 2, 1]]
    for bad in ([0, 0, 4, 2], [0, 0, 3, 3], [-1, 0, 1, 1], [1, 0, 1, 1]):
        with pytest.raises(InputError, match="rectangles of a grid of 2 x 3 cells"):
            coverage(np.array([bad]), 2, 3)


@pytest.mark.parametrize("rectangles", [np.zeros((1, 4)), np.zeros(4, int), np.zeros((2, 3), int)])
def test_other_arrays_are_no_rectangles(rectangles: np.ndarray) -> None:
    with pytest.raises(InputError, match="whole numbers of shape"):
        frozen(rectangles)


def test_regions_that_overlap_or_leave_holes_are_refused() -> None:
    for regions in ([[0, 0, 2, 2]], [[0, 0, 3, 3], [0, 0, 1, 1]], [[0, 0, 3, 2], [0, 1, 3, 3]]):
        with pytest.raises(ValueError, match="do not cover"):
            Partition(3, 3, np.array(regions))
    with pytest.raises(ValueError, match="rectangles of a grid"):
        Partition(3, 3, np.array([[0, 0, 3, 3], [0, 0, 1, 1], [1, 1, 0, 2]]))
