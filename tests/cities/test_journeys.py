"""What all generated trips have in common: seeds, threads, times, persons, noise."""

from __future__ import annotations

import numpy as np
import pytest

from dqam.cities import journeys as module
from dqam.cities.journeys import journeys
from dqam.errors import InputError
from dqam.geometry.trips import Trips

from .conftest import metres


def anywhere(network):
    def draw(rng, size):
        return rng.integers(0, network.nodes, (2, size), dtype=np.int32)

    return draw


def drive(network, n, seed=1, **options) -> Trips:
    return Trips.concat(list(journeys(network, anywhere(network), n, seed, **options)))


def content(trips: Trips) -> list[bytes]:
    arrays = trips.x, trips.y, trips.offsets, trips.time, trips.ids.to_numpy(), trips.persons.to_numpy()
    return [array.tobytes() for array in arrays]


@pytest.fixture(scope="module")
def trips(lattice) -> Trips:
    return drive(lattice, 20_000)


def test_the_seed_alone_decides(lattice, trips):
    for threads in (1, 2, 7):
        assert content(drive(lattice, 20_000, threads=threads)) == content(trips)
    other = drive(lattice, 20_000, seed=2)
    assert all(ours != theirs for ours, theirs in zip(content(trips)[:2], content(other)[:2], strict=True))


def test_rounds_and_batches_join_without_a_seam(lattice, monkeypatch):
    monkeypatch.setattr(module, "BATCH", 40)
    monkeypatch.setattr(module, "ROUND", 100)
    batches = list(journeys(lattice, anywhere(lattice), 250, 3))
    assert [len(batch) for batch in batches] == [40, 40, 20, 40, 40, 20, 40, 10]
    joined = Trips.concat(batches)
    assert joined.ids.to_pylist() == list(range(250))
    assert len(np.unique(joined.x)) == joined.points  # no round repeats another


def test_points_come_every_interval_and_on_arrival(lattice, trips):
    steps = np.diff(trips.time) / 1e6
    within = np.ones(trips.points - 1, bool)
    within[trips.offsets[1:-1] - 1] = False
    last = np.zeros(trips.points - 1, bool)
    last[trips.offsets[1:] - 2] = True
    assert (np.diff(trips.offsets) >= 2).all()
    assert (steps[within & ~last] == 15).all()
    assert ((steps[last] >= 1) & (steps[last] <= 15)).all()
    assert len(np.unique(steps[last])) == 15
    away = metres(trips.x[:-1], trips.y[:-1], trips.x[1:], trips.y[1:])
    # 10 m/s everywhere, so 150 m along streets, plus noise at both ends.
    assert (away[within & ~last] < 150 + 60).all()
    assert (away[within & ~last]).mean() > 100


def test_trips_join_the_wanted_nodes_in_the_order_drawn(lattice):
    rng = np.random.default_rng(5)
    wanted = rng.integers(0, lattice.nodes, (2, 5000), dtype=np.int32)
    wanted[1] += wanted[0] == wanted[1]
    wanted[1] %= lattice.nodes
    wanted[1, :50] = wanted[0, :50]  # would stay
    trips = Trips.concat(list(journeys(lattice, lambda rng, size: tuple(wanted), 5000, 1)))
    firsts, lasts = trips.offsets[:-1], trips.offsets[1:] - 1
    for node, point in ((wanted[0], firsts), (wanted[1, 50:], lasts[50:])):
        away = metres(lattice.lon[node], lattice.lat[node], trips.x[point], trips.y[point])
        assert away.max() < 40
        assert away.mean() == pytest.approx(6 * np.sqrt(np.pi / 2), rel=0.05)
    left = metres(trips.x[firsts[:50]], trips.y[firsts[:50]], trips.x[lasts[:50]], trips.y[lasts[:50]])
    assert (left > 90).all()
    assert np.corrcoef(np.arange(5000), trips.y[firsts])[0, 1] == pytest.approx(0, abs=0.06)


def test_noise_is_six_metres_each_way(lattice, trips, monkeypatch):
    monkeypatch.setattr(module, "GPS_METRES", 0.0)
    exact = drive(lattice, 20_000)
    north = metres(exact.x, exact.y, exact.x, trips.y) * np.sign(trips.y - exact.y)
    east = metres(exact.x, exact.y, trips.x, exact.y) * np.sign(trips.x - exact.x)
    for noise in (north, east):
        assert noise.std() == pytest.approx(6, rel=0.02)
        assert noise.mean() == pytest.approx(0, abs=0.1)
    assert np.corrcoef(north, east)[0, 1] == pytest.approx(0, abs=0.02)


def test_units_cut_a_trip_short(lattice, trips):
    seen = drive(lattice, 20_000, units=4)
    np.testing.assert_array_equal(np.diff(seen.offsets), np.minimum(np.diff(trips.offsets), 5))
    cut = np.diff(trips.offsets) > 5
    assert (seen.time[seen.offsets[1:] - 1] - seen.time[seen.offsets[:-1]])[cut].tolist() == [60_000_000] * cut.sum()


def test_departures_have_a_daily_rhythm(trips):
    departures = trips.time[trips.offsets[:-1]].astype("datetime64[us]")
    assert departures.min() >= np.datetime64("2024-01-01")
    assert departures.max() < np.datetime64("2024-01-08")
    hour = departures.astype("datetime64[h]").astype(np.int64) % 24
    counts = np.bincount(hour, minlength=24)
    assert counts[8] > 8 * counts[3]
    assert abs(np.corrcoef(np.arange(len(trips)), departures.astype(np.int64))[0, 1]) < 0.03  # in no order
    assert (np.bincount(departures.astype("datetime64[D]").astype(np.int64) % 7) > 1000).all()


def test_persons_travel_ten_times_on_average_some_far_more(trips):
    counts = np.unique(trips.persons.to_numpy(), return_counts=True)[1]
    assert 9 < counts.mean() < 11
    assert np.median(counts) < 0.85 * counts.mean()
    assert counts.max() > 40


def test_one_trip(lattice):
    (only,) = journeys(lattice, anywhere(lattice), 1, 0)
    assert (len(only), only.ids.to_pylist(), only.persons.to_pylist()) == (1, [0], [0])
    assert only.points >= 2


@pytest.mark.parametrize(
    ("n", "options", "message"),
    [
        (0, {}, "at least 1; got 0"),
        (-5, {}, "at least 1; got -5"),
        (1, {"seed": -1}, "seed must be at least 0; got -1"),
        (1, {"interval": 0.0}, "positive number of seconds; got 0.0"),
        (1, {"interval": float("nan")}, "got nan"),
        (1, {"units": 0}, "units must be at least 1 interval; got 0"),
        (1, {"threads": 0}, "threads must be at least 1; got 0"),
    ],
)
def test_bad_parameters_are_named_at_once(lattice, n, options, message):
    with pytest.raises(InputError, match=message):
        journeys(lattice, anywhere(lattice), n, **{"seed": 1, **options})
