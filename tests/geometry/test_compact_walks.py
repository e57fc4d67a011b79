"""Compact walks are the same walks, in less memory."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dqam import cities
from dqam.geometry.compact_walks import CompactWalks
from dqam.geometry.grid import Grid
from dqam.geometry.trips import Trips
from dqam.geometry.walks import AnyWalks, walk
from dqam.statistics.aggregate import Part
from dqam.statistics.cell_shares import MassByCell
from dqam.statistics.distinct import DistinctTrips
from dqam.statistics.endpoints import EndpointsByCell
from dqam.statistics.trip_count import TripsOnGrid

BOUNDS = (0.0, 0.0, 8.0, 8.0)


def same(one: AnyWalks, other: AnyWalks) -> None:
    assert len(one) == len(other)
    for name in ("grid", "visits", "trips", "pieces", "cells"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
        assert getattr(getattr(one, name), "dtype", None) == getattr(getattr(other, name), "dtype", None)


points = st.tuples(st.floats(-4, 12), st.floats(-4, 12))


@given(st.lists(st.lists(points, min_size=1, max_size=12), min_size=1, max_size=9), st.sampled_from([1, 3]))
def test_compact_walks_are_the_walks(trips: list[list[tuple[float, float]]], resolution: int) -> None:
    """Trips that leave the grid, come back and are never on it."""
    x, y = (np.array([point[axis] for trip in trips for point in trip]) for axis in (0, 1))
    offsets = np.concatenate([[0], np.cumsum([len(trip) for trip in trips])])
    walks = walk(Trips(x, y, offsets), Grid.over(BOUNDS, resolution))
    same(CompactWalks.of(walks), walks)


@pytest.mark.parametrize(("columns", "rows"), [(1, 7), (7, 1), (1, 1), (5, 3)])
def test_a_grid_may_be_narrow(columns: int, rows: int) -> None:
    rng = np.random.default_rng(0)
    trips = Trips(*rng.uniform(-1, 9, (2, 400)), np.arange(0, 401, 8))
    walks = walk(trips, Grid(BOUNDS, columns, rows))
    same(CompactWalks.of(walks), walks)


def test_sums_of_compact_walks_are_those_of_walks_and_in_a_tenth_of_the_memory() -> None:
    (trips,) = cities.city_trips(3_000, 0)
    walks = walk(trips, Grid.over(cities.BOUNDS, 8))
    compact = CompactWalks.of(walks)
    same(CompactWalks.of(compact), walks)
    rectangles = np.array([[0, 0, 256, 256], [90, 90, 140, 150], [128, 128, 129, 129]])
    for aggregate in (TripsOnGrid(), DistinctTrips(rectangles), MassByCell(), EndpointsByCell()):
        ours, theirs = (aggregate.add_up(Part(each)) for each in (walks, compact))
        np.testing.assert_array_equal(ours, theirs)
    stored = sum(array.nbytes for array in compact.arrays.values())
    assert stored < (trips.x.nbytes + trips.y.nbytes + trips.points * 8) / 10


def test_slices_are_stored_with_the_walks() -> None:
    grid = Grid(BOUNDS, 8, 8)
    trips = Trips.from_lists([[(0.5, 0.5), (2.5, 0.5)], [(-9.0, 0.0)], [(7.5, 0.5)]])
    assert walk(trips, grid).slices is None
    assert [*CompactWalks.of(walk(trips, grid)).arrays] == list(CompactWalks.ARRAYS[:-1])
    labelled = walk(replace(trips, slices=np.array([2, 0, 1], np.int16)), grid)
    compact = CompactWalks.of(labelled)
    again = CompactWalks.of(CompactWalks(grid, **compact.arrays))
    same(again, labelled)
    assert again.slices is not None
    assert again.slices.tolist() == [2, 0, 1]


def test_compact_walks_print_their_numbers() -> None:
    walks = walk(Trips.from_lists([[(0.5, 0.5), (2.5, 0.5)], [(-9.0, 0.0)]]), Grid(BOUNDS, 8, 8))
    assert repr(CompactWalks.of(walks)).startswith("<CompactWalks: 2 trips, 3 visits on 8 x 8 cells")
