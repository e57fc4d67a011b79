"""The data sets of the experiments: one skewed, one nearly uniform, each in several sizes.

With a folder of real data they are those of the paper: taxi trips in Porto, and random car trips on Melbourne's roads.
Without one, both are trips in a made-up city. Trips are made once and written as Parquet, from which every process
reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from dqam import cities
from dqam.errors import InputError
from dqam.experiments.stamps import code_stamp, stamp_of
from dqam.geometry.arrays import Integers
from dqam.geometry.grid import Bounds
from dqam.geometry.trips import Trips
from dqam.sources import read

SAMPLE, ROADS = "porto_sample.csv.gz", "porto_roads.csv.gz"
NODES, LINKS = "melbourne_nodes.csv.gz", "melbourne_edges.csv.gz"
FILES = SAMPLE, ROADS, NODES, LINKS
TICK = 15_000_000  # microseconds


@dataclass(frozen=True)
class DataSet:
    """A data set that can be made in any size.

    name   for tables and file names
    label  for readers, of a data set of n trips
    make   makes n trips from a seed
    stamp  of everything that the trips are made from, except n and the seed
    """

    name: str
    about: str
    bounds: Bounds
    label: Callable[[int], str]
    make: Callable[[int, int], Iterable[Trips]]
    stamp: str

    def file(self, n: int, seed: int) -> str:
        """The name of the Parquet file of n trips."""
        return f"{self.name}-{n}-{stamp_of(self.stamp, str(seed))}.parquet"


def made_up() -> tuple[DataSet, DataSet]:
    """Trips in the made-up city: attracted by its centres, and between uniform points."""
    stamp = code_stamp("dqam.cities")
    return (
        DataSet(
            "city",
            "Trips in a made-up city, attracted by five centres: skewed, like the paper's PORTO-TAXI.",
            cities.BOUNDS,
            lambda n: "Made-up city, skewed",
            cities.city_trips,
            stamp,
        ),
        DataSet(
            "city-uniform",
            "Trips between uniform points of the same made-up city, observed for 20 time units: nearly uniform, like "
            "the paper's MELB-CAR.",
            cities.BOUNDS,
            lambda n: "Made-up city, nearly uniform",
            lambda n, seed: cities.uniform_trips(cities.made_up_city(), cities.BOUNDS, n, seed),
            stamp,
        ),
    )


def real(folder: Path) -> tuple[DataSet, DataSet]:
    """Porto and Melbourne from the files in `folder`."""
    if not folder.is_dir():
        raise InputError(f"There is no folder {folder}; data must be a folder with {', '.join(FILES)}.")
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        raise InputError(
            f"{folder} lacks {', '.join(missing)}; add what is missing, or leave out data to use a made-up city."
        )

    @cache
    def inside() -> Trips:
        return wholly_inside(read(folder / SAMPLE).trips(), cities.PORTO_BOUNDS)

    @cache
    def melbourne() -> cities.RoadNetwork:
        return cities.RoadNetwork.from_tables(folder / NODES, folder / LINKS, cities.MELBOURNE_BOUNDS)

    def porto_trips(n: int, seed: int) -> Iterable[Trips]:
        if n <= len(inside()):
            return [_chosen(inside(), n, seed)]
        roads = cities.RoadNetwork.from_lines(folder / ROADS)
        return cities.porto_like_trips(roads, read(folder / SAMPLE).trips(), n, seed)

    code = code_stamp("dqam.cities", "dqam.sources")

    def stamp(*names: str) -> str:
        return stamp_of(code, *((folder / name).read_bytes() for name in names))

    return (
        DataSet(
            "porto",
            "Taxi trips in Porto. Sets that are not larger than the sample within the 10 km square are real; larger "
            "ones are Porto-like: origins and destinations are resampled and jittered, and joined on Porto's roads.",
            cities.PORTO_BOUNDS,
            lambda n: "PORTO-TAXI" if n <= len(inside()) else "Porto-like",
            porto_trips,
            stamp(SAMPLE, ROADS),
        ),
        DataSet(
            "melbourne",
            "Car trips between uniform points on Melbourne's roads, observed for 20 time units: nearly uniform.",
            cities.MELBOURNE_BOUNDS,
            lambda n: "MELB-CAR",
            lambda n, seed: cities.uniform_trips(melbourne(), cities.MELBOURNE_BOUNDS, n, seed),
            stamp(NODES, LINKS),
        ),
    )


def generated_file(data: DataSet, n: int, seed: int, folder: Path, show: Callable[[float], None]) -> Path:
    """The Parquet file of n trips, made if it does not exist."""
    path = folder / data.file(n, seed)
    if not path.exists():
        cities.write_parquet(data.make(n, seed), path, n, lambda done, total: show(done / total))
    return path


def wholly_inside(trips: Trips, bounds: Bounds) -> Trips:
    """The trips that have all their points within `bounds`."""
    west, south, east, north = bounds
    there = (trips.x >= west) & (trips.x <= east) & (trips.y >= south) & (trips.y <= north)
    away = np.concatenate([[0], np.cumsum(~there)])[trips.offsets]
    return _taken(trips, np.flatnonzero((np.diff(away) == 0) & (np.diff(trips.offsets) > 0)))


def _chosen(trips: Trips, n: int, seed: int) -> Trips:
    """n random trips."""
    return _taken(trips, np.sort(np.random.default_rng(seed).choice(len(trips), n, replace=False)))


def _taken(trips: Trips, which: Integers) -> Trips:
    """Trips by their index, with new ids and times; other columns are dropped."""
    lengths = np.diff(trips.offsets)[which]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    points = np.arange(offsets[-1]) + np.repeat(trips.offsets[which] - offsets[:-1], lengths)
    time = (np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)) * TICK
    ids = pa.array(np.arange(len(which)))
    return Trips(trips.x[points], trips.y[points], offsets, time.astype(np.int64), ids, ids, trips.crs)
