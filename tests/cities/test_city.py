"""The made-up city: within its bounds, skewed, and divided by a river."""

from __future__ import annotations

import numpy as np
import pytest

from dqam.cities import BOUNDS, city_trips, made_up_city
from dqam.cities.city import CENTRES, HALF_RIVER, SIDE, river, to_degrees
from dqam.errors import InputError
from dqam.geometry.grid import Grid
from dqam.geometry.trips import Trips

from .conftest import metres


def to_metres(lon, lat):
    """The inverse of `to_degrees`."""
    west, south, east, north = BOUNDS
    return ((lon - west) / (east - west) - 0.5) * SIDE, ((lat - south) / (north - south) - 0.5) * SIDE


@pytest.fixture(scope="module")
def trips() -> Trips:
    return Trips.concat(list(city_trips(10_000, 4)))


@pytest.fixture(scope="module")
def bridges():
    """Ends, in metres, of the links that have one end on each side of the river."""
    network = made_up_city()
    x, y = to_metres(network.lon, network.lat)
    north = y > river(x)
    over = north[network.tails] & ~north[network.heads]
    return x[network.tails[over]], y[network.tails[over]], x[network.heads[over]], y[network.heads[over]]


def test_bounds_are_ten_kilometres_in_the_atlantic():
    west, south, east, north = BOUNDS
    assert -40 < west < east < -20
    assert 40 < south < north < 50
    middle = (south + north) / 2
    assert metres(west, middle, east, middle) == pytest.approx(10_000, rel=0.01)
    assert metres(west, south, west, north) == pytest.approx(10_000, rel=0.01)
    x, y = np.array([-5000.0, 1200.0]), np.array([300.0, 5000.0])
    np.testing.assert_allclose(to_metres(*to_degrees(x, y)), [x, y], atol=1e-6)


def test_every_trip_lies_within_bounds(trips):
    west, south, east, north = BOUNDS
    assert ((trips.x > west) & (trips.x < east) & (trips.y > south) & (trips.y < north)).all()
    assert trips.x.max() - trips.x.min() > 0.9 * (east - west)
    assert trips.y.max() - trips.y.min() > 0.9 * (north - south)


def test_the_network_is_a_fixed_city():
    network = made_up_city()
    assert 2000 < network.nodes < 5000
    x, y = to_metres(network.lon, network.lat)
    metres = np.hypot(x[network.heads] - x[network.tails], y[network.heads] - y[network.tails])
    kmh = metres / network.seconds * 3.6
    assert 19 < kmh.min() < 21
    assert 77 < kmh.max() < 79
    made_up_city.cache_clear()
    assert made_up_city().seconds.tobytes() == network.seconds.tobytes()


def test_points_are_as_far_apart_as_cars_drive(trips):
    x, y = to_metres(trips.x, trips.y)
    within = np.ones(trips.points - 1, bool)
    within[trips.offsets[1:-1] - 1] = False
    away, seconds = np.hypot(np.diff(x), np.diff(y))[within], np.diff(trips.time)[within] / 1e6
    assert (away < 80 / 3.6 * seconds + 60).all()
    assert 15 < 3.6 * away.sum() / seconds.sum() < 60


def test_the_river_is_crossed_on_bridges_only(trips, bridges):
    tail_x, tail_y, head_x, head_y = bridges
    assert 5 <= len(tail_x) <= 9
    x, y = to_metres(trips.x, trips.y)
    off = y - river(x)
    wet = np.flatnonzero(np.abs(off) < HALF_RIVER - 40)
    assert len(wet) > 500
    along = np.linspace(0, 1, 200)[:, None]
    bridge_x, bridge_y = tail_x + along * (head_x - tail_x), tail_y + along * (head_y - tail_y)
    # Who is over water is on a bridge, but for GPS noise.
    away = np.hypot(x[wet, None] - bridge_x.ravel(), y[wet, None] - bridge_y.ravel()).min(axis=1)
    assert away.max() < 40
    trip = np.repeat(np.arange(len(trips)), np.diff(trips.offsets))
    crossing = (np.sign(off[1:]) != np.sign(off[:-1])) & (trip[1:] == trip[:-1])
    assert crossing.sum() > 2000


def test_trips_gather_around_the_centres(trips):
    u, v = Grid.over(BOUNDS, 8).to_cells(trips.x, trips.y)
    counts = np.sort(np.bincount(v.astype(int) * 256 + u.astype(int), minlength=256 * 256))
    assert counts[-len(counts) // 20 :].sum() > 0.6 * trips.points
    x, y = to_metres(trips.x[trips.offsets[:-1]], trips.y[trips.offsets[:-1]])
    near = np.hypot(x[:, None] - CENTRES[:, 0], y[:, None] - CENTRES[:, 1]) < 2 * CENTRES[:, 3]
    shares = near.mean(axis=0)
    # Two standard deviations of a round normal hold 86 %; the rest of the city adds a little.
    np.testing.assert_allclose(shares, 0.865 * CENTRES[:, 4] + 0.01, atol=0.03)
    assert (np.diff(shares) < 0).all()


def test_no_trips_can_not_be_asked():
    with pytest.raises(InputError, match="got 0"):
        city_trips(0, 1)
    assert sum(len(batch) for batch in city_trips(1, 1)) == 1
