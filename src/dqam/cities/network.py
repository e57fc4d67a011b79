"""Trips between uniform origins and destinations on a given road network, as in the paper's MELB-CAR data set."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dqam.cities.journeys import journeys
from dqam.cities.roads import RoadNetwork
from dqam.errors import InputError
from dqam.geometry.arrays import Integers32
from dqam.geometry.grid import Bounds, Grid
from dqam.geometry.trips import Trips

# 10 km x 10 km around the inner city, placed north-east of the bay so that there are streets nearly everywhere.
MELBOURNE_BOUNDS = Grid.square((144.99, -37.81), side_km=10).bounds


def uniform_trips(
    network: RoadNetwork,
    bounds: Bounds,
    n: int,
    seed: int,
    *,
    units: int = 20,
    interval: float = 15.0,
    threads: int | None = None,
) -> Iterator[Trips]:
    """Generate n trips between uniform points of `bounds`, moved to the nearest node and seen for `units` intervals."""
    west, south, east, north = Grid.over(bounds).bounds
    inside = (network.lon >= west) & (network.lon <= east) & (network.lat >= south) & (network.lat <= north)
    if not inside.any():
        raise InputError(
            f"The network has no node within {bounds}; it spans {network.lon.min():.6g} {network.lat.min():.6g} "
            f"{network.lon.max():.6g} {network.lat.max():.6g} (west south east north)."
        )

    def draw(rng: np.random.Generator, size: int) -> tuple[Integers32, Integers32]:
        points = rng.random((2, 2, size))
        lon, lat = west + (east - west) * points[0], south + (north - south) * points[1]
        origins, destinations = network.nearest(lon, lat)
        return origins, destinations

    return journeys(network, draw, n, seed, interval=interval, units=units, threads=threads)
