"""One machine, DuckDB and Spark on the same shuffled points: the same release, and the time beside a plain scan.

A plain scan reads all columns of all points with the same engine and hands them over as Arrow batches; for this machine
it is a plain PyArrow read. Ours brings the points of each trip together, lays the trips on 2^8 x 2^8 cells and takes
all sums that flux needs: in a first scan trips, shares, ends, lengths and the distinct counts of 16,000 rectangles, and
in a second one the shadows. What is done with the sums after that is the same for all, and not in the times.

    python -m benchmarks.engines [--timed 100000] [--trips 1000000] [--points 50000000]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from benchmarks.measure import BUILD, city, claim, peak_gib
from dqam import cities
from dqam.grid import Grid
from dqam.mechanisms.flux import MOST_SIDE
from dqam.partition.lattice import Lattice
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.keeping import Keep
from dqam.privacy.noise import SeededNoise
from dqam.publishing import Plan, records_of
from dqam.release.release import Release
from dqam.sources import read

FILES = 16
ENGINES = ("local", "duckdb", "spark")
PARTS = ("faces", "vertical", "horizontal")
GIB = 1 << 30


def shuffled(trips: int, times: int = 1) -> Path:
    """Generated points at random over many files; so many times over, with other ids."""
    folder = BUILD / f"shuffled-{trips}-{times}"
    if not folder.exists():
        making = folder.with_suffix(".part")
        making.mkdir(parents=True, exist_ok=True)
        with duckdb.connect(config={"memory_limit": "8GB", "temp_directory": str(BUILD)}) as base:
            base.execute("SELECT setseed(0.5)")
            points = f"SELECT uid, tid + {10**9} * copy AS tid, datetime, lng, lat FROM read_parquet('{city(trips)}'), "
            base.execute(f"CREATE TABLE points AS {points} range({times}) AS copies(copy) ORDER BY random()")
            for part in range(FILES):
                where = f"SELECT * FROM points WHERE rowid % {FILES} = {part}"
                base.execute(f"COPY ({where}) TO '{making}/{part:02}.parquet' (FORMAT parquet)")
        making.rename(folder)
    return folder


def spark_session() -> Any:
    """Spark on this machine."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {"spark.ui.enabled": "false", "spark.driver.memory": "6g", "spark.ui.showConsoleProgress": "false"}
    builder = SparkSession.builder.master("local[*]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """How many rows there are, in a data frame of Spark."""
    yield pa.record_batch({"rows": pa.array([sum(batch.num_rows for batch in batches)])})


def plain_scan(engine: str, folder: Path, session: Any) -> int:
    """All points, handed over as Arrow batches."""
    if engine == "local":
        return sum(batch.num_rows for batch in ds.dataset(folder).to_batches())
    if engine == "duckdb":
        with duckdb.connect() as base:
            query = base.sql(f"SELECT * FROM read_parquet('{folder}/*.parquet')")
            reader = getattr(query, "to_arrow_reader", None) or query.fetch_record_batch
            return sum(batch.num_rows for batch in reader(1 << 18))
    return int(session.read.parquet(str(folder)).mapInArrow(count, "rows long").groupBy().sum().first()[0])


def sums_by(engine: str, folder: Path, session: Any) -> tuple[float, float]:
    """Seconds until the first sums are there, and then the shadows."""
    plan = Plan.of(Grid.over(cities.BOUNDS, 8), 1)
    lattice = Lattice.even(plan.grid, MOST_SIDE)
    caps = np.unique(np.rint(np.geomspace(3, 162, 40)).astype(np.int64))
    trips = session.read.parquet(str(folder)) if engine == "spark" else read(folder)
    began = time.perf_counter()
    with records_of(plan, trips, Keep(plan.unit, ""), engine) as records:
        records.distinct(plan.queries)
        records.shares()
        first = time.perf_counter()
        records.shadow_sizes(lattice, 3, caps)
        records.shadow_sums(lattice, 3, int(caps[-1]))
    return first - began, time.perf_counter() - first


def release_by(engine: str, folder: Path, session: Any, memory: int = 4 * GIB) -> Release:
    """A release with noise from a seed: the same, if the sums are."""
    plan = Plan.of(Grid.over(cities.BOUNDS, 8), 1)
    trips = session.read.parquet(str(folder)) if engine == "spark" else read(folder)
    with records_of(plan, trips, Keep(plan.unit, ""), engine, memory) as records:
        return plan.release(Curator(records, Budget(1), SeededNoise(7)), "benchmark")


def compare(trips: int) -> None:
    """The time of the sums beside a plain scan."""
    folder, small, session = shuffled(trips), shuffled(1_000), spark_session()
    for engine in ENGINES:
        plain_scan(engine, small, session)
        sums_by(engine, small, session)  # compile, and start workers
        took = []
        for _ in range(3):
            began = time.perf_counter()
            points = plain_scan(engine, folder, session)
            took.append(time.perf_counter() - began)
        plain = min(took)
        first, second = sums_by(engine, folder, session)
        print(
            f"{engine:>6}: {points:,} points; plain scan {plain:.1f} s, first scan {first:.1f} s, second {second:.1f} s"
        )
        speeds = " ".join(f"{points / seconds / 1e6:.2f}" for seconds in (plain, first, second))
        print(f"        million points a second: {speeds}")
        claim(f"{engine}: first scan / plain scan", first / plain, 4, at_most=True)
        claim(f"{engine}: both scans / plain scan", (first + second) / plain, 4, at_most=True)


def same(trips: int) -> None:
    """Whether releases with noise from a seed are the same to the last bit."""
    folder, session = shuffled(trips), spark_session()
    made: dict[str, Release] = {}
    for engine in ENGINES:
        began = time.perf_counter()
        made[engine] = release_by(engine, folder, session)
        one, other = made["local"].histogram, made[engine].histogram
        agree = all(np.array_equal(getattr(one, part), getattr(other, part)) for part in PARTS)
        took = time.perf_counter() - began
        print(
            f"{'  ok' if agree else 'MISS'}  {engine}: {trips:,} trips in {took:.0f} s; the same release: {agree}",
            flush=True,
        )


def on_disk(points: int) -> None:
    """DuckDB within 1 GiB, in a process of its own."""
    folder = shuffled(100_000, -(-points // 2_850_000))
    began = time.perf_counter()
    release = release_by("duckdb", folder, None, GIB)
    rows = ds.dataset(folder).count_rows()
    print(f"duckdb: {rows:,} points in {time.perf_counter() - began:.0f} s, {release.trips} trips")
    claim("peak memory of the process, GiB", peak_gib(), 1, at_most=True)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--trips", type=int, default=1_000_000)
    options.add_argument("--timed", type=int, default=100_000, help="trips that are timed")
    options.add_argument("--points", type=int, default=50_000_000)
    options.add_argument("--on-disk", action="store_true", help="only what needs little memory")
    given = options.parse_args()
    if given.on_disk:
        on_disk(given.points)
        return
    compare(given.timed)
    same(given.trips)
    shuffled(100_000, -(-given.points // 2_850_000))
    subprocess.run([sys.executable, "-m", "benchmarks.engines", "--on-disk", "--points", str(given.points)], check=True)


if __name__ == "__main__":
    main()
