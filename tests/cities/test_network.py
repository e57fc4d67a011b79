"""Trips between uniform points of a square."""

from __future__ import annotations

import numpy as np
import pytest

from dqam.cities import MELBOURNE_BOUNDS, RoadNetwork, uniform_trips
from dqam.errors import InputError
from dqam.geometry.grid import Grid
from dqam.geometry.trips import Trips

from .conftest import SIDE, SOUTH, STEP, WEST

REACH = (SIDE - 1) * STEP
BOUNDS = (WEST, SOUTH, WEST + REACH, SOUTH + REACH)


@pytest.fixture(scope="module")
def trips(lattice) -> Trips:
    return Trips.concat(list(uniform_trips(lattice, BOUNDS, 20_000, 1)))


def test_trips_are_seen_for_twenty_units(trips):
    sizes = np.diff(trips.offsets)
    assert sizes.max() == 21
    assert 0.1 < (sizes == 21).mean() < 0.9
    assert (trips.time[trips.offsets[1:] - 1] - trips.time[trips.offsets[:-1]]).max() == 300_000_000


def test_origins_are_uniform(trips):
    u, v = Grid(BOUNDS, SIDE - 1, SIDE - 1).to_cells(trips.x[trips.offsets[:-1]], trips.y[trips.offsets[:-1]])
    node = np.rint(v).astype(int) * SIDE + np.rint(u).astype(int)
    share = np.outer(*[np.pad(np.ones(SIDE - 2), 1, constant_values=0.5)] * 2).ravel() / (SIDE - 1) ** 2
    expected = 20_000 * share
    deviation = ((np.bincount(node, minlength=SIDE * SIDE) - expected) ** 2 / expected).sum()
    freedom = SIDE * SIDE - 1
    assert abs(deviation - freedom) < 5 * np.sqrt(2 * freedom)


def test_part_of_a_network(lattice):
    west, south, east, north = WEST, SOUTH, WEST + REACH / 4, SOUTH + REACH / 4
    batch = next(uniform_trips(lattice, (west, south, east, north), 2000, 1, units=3, interval=10.0))
    assert np.diff(batch.offsets).max() == 4
    slack = 0.002
    assert batch.x.max() < east + slack
    assert batch.y.max() < north + slack


def test_bounds_without_roads_are_refused(lattice):
    with pytest.raises(InputError, match=r"no node within \(0, 0, 1, 1\); it spans 10 50 10\.04 50\.04"):
        uniform_trips(lattice, (0, 0, 1, 1), 10, 1)
    with pytest.raises(InputError, match="west < east"):
        uniform_trips(lattice, (1, 0, 0, 1), 10, 1)
    with pytest.raises(InputError, match="got 0"):
        uniform_trips(lattice, BOUNDS, 0, 1)


def test_melbourne(real_data):
    tables = real_data("melbourne_nodes.csv.gz"), real_data("melbourne_edges.csv.gz")
    network = RoadNetwork.from_tables(*tables, MELBOURNE_BOUNDS)
    assert network.nodes > 2500
    batch = next(uniform_trips(network, MELBOURNE_BOUNDS, 5000, 1))
    west, south, east, north = MELBOURNE_BOUNDS
    inside = (batch.x > west) & (batch.x < east) & (batch.y > south) & (batch.y < north)
    assert inside.mean() > 0.95
    u, v = Grid(MELBOURNE_BOUNDS, 8, 8).to_cells(batch.x[inside], batch.y[inside])
    counts = np.bincount(v.astype(int) * 8 + u.astype(int), minlength=64)
    assert (counts > 0).sum() >= 60  # the network has no road in one of the 64
    assert counts.max() < 6 * counts.mean()
