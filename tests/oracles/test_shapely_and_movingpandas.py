"""Distinct counts against geometry that we did not write."""

from __future__ import annotations

from datetime import datetime, timedelta

import geopandas
import movingpandas
import numpy as np
import pandas
import pytest
import shapely

from dqam.geometry.counting import count_distinct
from dqam.geometry.grid import Grid
from dqam.geometry.rectangles import random_rectangles
from dqam.geometry.trips import Trips
from dqam.geometry.walks import walk

GRID = Grid.square((-30.0, 45.0), side_km=10, resolution=6)


def wandering_trips(n: int) -> Trips:
    """Trips of 2 to 60 points, some leaving the grid, with many turns."""
    rng = np.random.default_rng(11)
    west, south, east, north = GRID.bounds
    lengths = rng.integers(2, 61, n)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    x, y = np.empty(offsets[-1]), np.empty(offsets[-1])
    for i, length in enumerate(lengths):
        heading = np.cumsum(rng.normal(0, 0.9, length))
        here = slice(offsets[i], offsets[i + 1])
        x[here] = rng.uniform(west, east) + np.cumsum(0.002 * np.cos(heading))
        y[here] = rng.uniform(south, north) + np.cumsum(0.002 * np.sin(heading))
    return Trips(x, y, offsets)


@pytest.fixture(scope="module")
def case() -> tuple[Trips, np.ndarray, np.ndarray]:
    trips = wandering_trips(250)
    rectangles = random_rectangles(GRID, 600, np.random.default_rng(5))
    x0, y0 = GRID.from_cells(rectangles[:, 0].astype(float), rectangles[:, 1].astype(float))
    x1, y1 = GRID.from_cells(rectangles[:, 2].astype(float), rectangles[:, 3].astype(float))
    return trips, rectangles, shapely.box(x0, y0, x1, y1)


def test_counts_equal_shapely(case: tuple[Trips, np.ndarray, np.ndarray]) -> None:
    trips, rectangles, boxes = case
    indices = np.repeat(np.arange(len(trips)), np.diff(trips.offsets))
    lines = shapely.linestrings(np.stack([trips.x, trips.y], axis=1), indices=indices)
    wanted = shapely.intersects(boxes[:, None], lines[None, :]).sum(axis=1)
    assert wanted.std() > 10
    np.testing.assert_array_equal(count_distinct(walk(trips, GRID), rectangles, GRID), wanted)


def test_counts_equal_movingpandas(case: tuple[Trips, np.ndarray, np.ndarray]) -> None:
    trips, rectangles, boxes = case
    indices = np.repeat(np.arange(len(trips)), np.diff(trips.offsets))
    moments = [datetime(2024, 1, 1) + timedelta(seconds=15 * k) for k in range(trips.points)]
    frame = geopandas.GeoDataFrame(
        {"traj_id": indices, "t": moments}, geometry=geopandas.points_from_xy(trips.x, trips.y), crs="EPSG:4326"
    ).set_index("t")
    collection = movingpandas.TrajectoryCollection(frame, "traj_id", min_length=0)
    assert len(collection) == len(trips)
    wanted = [len(collection.get_intersecting(box)) for box in boxes[:40]]
    lines = pandas.Series([trajectory.to_linestring() for trajectory in collection])
    more = [int(shapely.intersects(lines.to_numpy(), box).sum()) for box in boxes[40:]]
    np.testing.assert_array_equal(count_distinct(walk(trips, GRID), rectangles, GRID), wanted + more)
