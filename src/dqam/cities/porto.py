"""Generate Porto-like trips: origins and destinations of real trips are resampled and joined along the city's roads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dqam.cities.journeys import journeys
from dqam.cities.roads import METRES_PER_DEGREE, RoadNetwork
from dqam.errors import InputError
from dqam.geometry.arrays import Integers32
from dqam.geometry.grid import DEGREES, transform
from dqam.geometry.trips import Trips

PORTO_BOUNDS = (-8.68, 41.11, -8.560864, 41.200044)  # 10 km x 10 km
REACH = 300.0  # metres from a node within which an origin or destination belongs to the network


def porto_like_trips(
    network: RoadNetwork,
    sample: Trips,
    n: int,
    seed: int,
    *,
    jitter: float = 150.0,
    interval: float = 15.0,
    threads: int | None = None,
) -> Iterator[Trips]:
    """Generate n trips with the origin and destination of a random trip of `sample`, each moved by about `jitter`
    metres.

    Trips of the sample that begin or end beyond the network are left out; they would all start or end at its rim.
    """
    lengths = np.diff(sample.offsets)
    firsts, lasts = sample.offsets[:-1][lengths > 1], sample.offsets[1:][lengths > 1] - 1
    ends = np.stack([firsts, lasts])
    lon, lat = transform(sample.x[ends], sample.y[ends], sample.crs, DEGREES)
    near = (network.metres_to(network.nearest(lon, lat), lon, lat) <= REACH).all(axis=0)
    if not near.any():
        raise InputError(
            f"None of the {len(sample):,} trips of sample begins and ends within {REACH:g} m of the network's "
            f"{network.nodes:,} nodes; give trips of the same city."
        )
    if not 0 <= jitter <= 5000:
        raise InputError(f"jitter must be 0 to 5,000 metres; got {jitter}.")
    lon, lat = lon[:, near], lat[:, near]
    wide = jitter / METRES_PER_DEGREE / np.cos(np.radians(lat.mean()))
    high = jitter / METRES_PER_DEGREE

    def draw(rng: np.random.Generator, size: int) -> tuple[Integers32, Integers32]:
        trip = rng.integers(0, lon.shape[1], size)
        moves = rng.standard_normal((2, 2, size))
        origins, destinations = network.nearest(lon[:, trip] + wide * moves[0], lat[:, trip] + high * moves[1])
        return origins, destinations

    return journeys(network, draw, n, seed, interval=interval, threads=threads)
