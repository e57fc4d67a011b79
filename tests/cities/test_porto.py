"""Trips whose origins and destinations are resampled from real ones."""

from __future__ import annotations

import csv
import gzip
import json

import numpy as np
import pytest

from dqam.cities import RoadNetwork, porto_like_trips
from dqam.errors import InputError
from dqam.geometry.trips import Trips

from .conftest import metres

HERE, THERE, FAR = (10.010, 50.010), (10.030, 50.030), (11.0, 50.0)


def ends(trips: Trips):
    first, last = trips.offsets[:-1], trips.offsets[1:] - 1
    return (trips.x[first], trips.y[first]), (trips.x[last], trips.y[last])


def test_ends_are_near_those_of_the_sample_trip_by_trip(lattice):
    sample = Trips.from_lists([[HERE, FAR, THERE], [THERE, HERE], [HERE, FAR], [FAR, THERE], [HERE]])
    trips = Trips.concat(list(porto_like_trips(lattice, sample, 4000, 1)))
    (ox, oy), (dx, dy) = ends(trips)
    there = metres(ox, oy, *HERE) < 1000
    assert 0.45 < there.mean() < 0.55
    assert (metres(dx, dy, *THERE)[there] < 1000).all()
    assert (metres(ox, oy, *THERE)[~there] < 1000).all()
    assert (metres(dx, dy, *HERE)[~there] < 1000).all()
    # Jitter of 150 m, plus at most half a block of snapping, each way.
    assert 150 < metres(ox[there], HERE[1], HERE[0], HERE[1]).std() * np.sqrt(np.pi / (np.pi - 2)) < 300
    north = metres(HERE[0], oy[there], *HERE) * np.sign(oy[there] - HERE[1])
    assert 140 < north.std() < 190


def test_without_jitter_the_ends_are_exact(lattice):
    sample = Trips.from_lists([[HERE, THERE]])
    (ox, oy), (dx, dy) = ends(next(porto_like_trips(lattice, sample, 100, 1, jitter=0)))
    assert metres(ox, oy, *HERE).max() < 30
    assert metres(dx, dy, *THERE).max() < 30


@pytest.mark.parametrize(
    ("sample", "n", "jitter", "message"),
    [
        ([[HERE, FAR], [HERE]], 10, 150, "None of the 2 trips of sample begins and ends within 300 m"),
        ([[HERE]], 10, 150, "None of the 1 trips of sample"),
        ([[HERE, THERE]], 0, 150, "got 0"),
        ([[HERE, THERE]], 1, -1, "jitter must be 0 to 5,000 metres; got -1"),
    ],
)
def test_bad_parameters_are_named(lattice, sample, n, jitter, message):
    with pytest.raises(InputError, match=message):
        porto_like_trips(lattice, Trips.from_lists(sample), n, 1, jitter=jitter)


def test_trips_take_as_long_as_the_recorded_ones(real_data):
    network = RoadNetwork.from_lines(real_data("porto_roads.csv.gz"))
    with gzip.open(real_data("porto_sample.csv.gz"), "rt") as file:
        lines = [json.loads(row["POLYLINE"]) for row in csv.DictReader(file)]
    sample = Trips.from_lists([line for line in lines if line])
    trips = Trips.concat(list(porto_like_trips(network, sample, 10_000, 1)))
    assert 0.7 < np.median(np.diff(trips.offsets)) / np.median(np.diff(sample.offsets)) < 1.3
    bins = [np.linspace(41.14, 41.18, 21), np.linspace(-8.68, -8.56, 41)]
    ours, theirs = (np.histogram2d(t.y, t.x, bins)[0].ravel() for t in (trips, sample))
    assert np.corrcoef(ours, theirs)[0, 1] > 0.7
