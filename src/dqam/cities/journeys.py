"""Turn origins and destinations into trips, with routes, departures in one week, persons, points and GPS noise.

The work goes in rounds. The trips of a round are routed in the order of their origins, so that trips with the same
origin share one tree, but their points are written in the random order in which they were drawn. One generator draws
all random numbers in that order; threads only compute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pyarrow as pa

from dqam.cities.paths import find_routes, place_points
from dqam.cities.roads import METRES_PER_DEGREE, RoadNetwork
from dqam.errors import InputError
from dqam.geometry.arrays import Floats, Integers, Integers32
from dqam.geometry.trips import Trips
from dqam.runtime.threads import cores

BATCH = 20_000  # trips in a batch
ROUND = 5 * BATCH  # trips routed together: more trips share more trees but need more memory
CHUNKS = 32  # of a round; more than there are threads, so that no thread waits long for the last chunk
GPS_METRES = 6.0  # standard deviation along each axis
TRIPS_PER_PERSON = 10
PERSON_SPREAD = 0.8  # standard deviation of the log of how much a person travels: most travel little, a few a lot
MONDAY = int(np.datetime64("2024-01-01", "s").astype(np.int64))

# relative numbers of trips that begin in each hour of a day
WEEKDAY = (6, 3, 2, 2, 4, 12, 34, 72, 88, 60, 46, 46, 50, 50, 50, 58, 74, 92, 84, 58, 40, 30, 22, 12)
WEEKEND = (16, 12, 8, 6, 4, 6, 10, 16, 26, 40, 52, 58, 58, 54, 52, 52, 52, 52, 50, 44, 36, 30, 26, 22)
HOURS = np.array(WEEKDAY * 5 + WEEKEND * 2, dtype=np.float64)

Ends = tuple[Integers32, Integers32]  # the nodes where trips begin and end
Draw = Callable[[np.random.Generator, int], Ends]
DrawAt = Callable[[np.random.Generator, Integers], Ends]


def journeys(
    network: RoadNetwork,
    draw: Draw | None,
    n: int,
    seed: int,
    *,
    draw_at: DrawAt | None = None,
    interval: float = 15.0,
    units: int | None = None,
    threads: int | None = None,
) -> Iterator[Trips]:
    """Generate n trips between nodes that `draw(rng, count)` draws, with a point every `interval` seconds and on
    arrival. With `draw_at(rng, hours)` instead, where they go depends on the hour of the week at which they begin.

    With `units`, only the first `units` intervals of a trip are observed. A trip that was drawn from a node to itself
    goes to a neighbouring node instead.
    """
    if n < 1:
        raise InputError(f"n, the number of trips, must be at least 1; got {n}.")
    if seed < 0:
        raise InputError(f"seed must be at least 0; got {seed}.")
    if not 0 < interval < np.inf:
        raise InputError(f"interval must be a positive number of seconds; got {interval}.")
    if units is not None and units < 1:
        raise InputError(f"units must be at least 1 interval; got {units}.")
    if threads is not None and threads < 1:
        raise InputError(f"threads must be at least 1; got {threads}.")
    most = units if units is not None else np.iinfo(np.int32).max
    if (draw is None) == (draw_at is None):
        raise TypeError("Give either draw or draw_at.")
    return _batches(network, draw, draw_at, n, seed, interval, most, threads or cores())


def _batches(
    network: RoadNetwork,
    draw: Draw | None,
    draw_at: DrawAt | None,
    n: int,
    seed: int,
    interval: float,
    units: int,
    threads: int,
) -> Iterator[Trips]:
    rng = np.random.default_rng(seed)
    travels = np.cumsum(rng.lognormal(sigma=PERSON_SPREAD, size=max(1, round(n / TRIPS_PER_PERSON))))
    with ThreadPoolExecutor(threads) as pool:
        for first in range(0, n, ROUND):
            size = min(ROUND, n - first)
            if draw is not None:
                origins, destinations = draw(rng, size)
            else:
                assert draw_at is not None
                departures = _departures(rng, size)
                origins, destinations = draw_at(rng, (departures // 1_000_000 - MONDAY) // 3600)
            stays = origins == destinations
            destinations = np.where(stays, network.heads[network.starts[origins]], destinations)
            persons = np.searchsorted(travels, rng.random(size) * travels[-1], side="right")
            if draw is not None:
                departures = _departures(rng, size)
            trips = _drive(pool, network, origins, destinations, departures, interval, units)
            _blur(rng, trips)
            done = Trips(
                trips.x,
                trips.y,
                trips.offsets,
                trips.time,
                pa.array(np.arange(first, first + size, dtype=np.int64)),
                pa.array(persons.astype(np.int64)),
            )
            for start in range(0, size, BATCH):
                yield done.slice(start, min(start + BATCH, size))


def _departures(rng: np.random.Generator, size: int) -> Integers:
    """int64[size]: when trips begin, in microseconds since 1970; full seconds of one week, with a daily rhythm."""
    hours = np.cumsum(HOURS) / HOURS.sum()
    hour = np.searchsorted(hours, rng.random(size), side="right")
    return (MONDAY + hour * 3600 + rng.integers(0, 3600, size)) * 1_000_000


def _drive(
    pool: ThreadPoolExecutor,
    network: RoadNetwork,
    origins: Integers32,
    destinations: Integers32,
    departures: Integers,
    interval: float,
    units: int,
) -> Trips:
    """Trips along the fastest routes, without noise, in the given order."""
    order = np.argsort(origins, kind="stable")
    changes = np.flatnonzero(np.diff(origins[order], prepend=-1))
    # chunks end where an origin ends, so that no tree is grown twice
    cuts = np.unique(np.append(changes[:: max(1, len(changes) // CHUNKS)], len(order)))
    chunks = [order[start:stop] for start, stop in pairwise(cuts)]

    def route(chunk: Integers) -> tuple[Floats, Integers, Integers32]:
        return find_routes(
            network.starts, network.tails, network.heads, network.seconds, origins[chunk], destinations[chunk]
        )

    routes = list(pool.map(route, chunks))
    sizes = np.empty(len(order), np.int64)
    durations = np.concatenate([duration for duration, _, _ in routes])
    sizes[order] = np.minimum(np.ceil(durations / interval), units) + 1
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    lon, lat, time = np.empty(offsets[-1]), np.empty(offsets[-1]), np.empty(offsets[-1], np.int64)

    def place(chunk: Integers, route: tuple[Floats, Integers, Integers32]) -> None:
        place_points(
            network.seconds,
            network.shape_starts,
            network.shape_lon,
            network.shape_lat,
            network.shape_share,
            *route,
            chunk,
            interval,
            units,
            departures,
            offsets,
            lon,
            lat,
            time,
        )

    list(pool.map(place, chunks, routes))
    return Trips(lon, lat, offsets, time)


def _blur(rng: np.random.Generator, trips: Trips) -> None:
    """Add GPS noise to every point, in place."""
    sigma = GPS_METRES / METRES_PER_DEGREE
    trips.x[:] += rng.standard_normal(trips.points) * (sigma / np.cos(np.radians(trips.y)))
    trips.y[:] += rng.standard_normal(trips.points) * sigma
