"""One machine, DuckDB and Spark on the same shuffled points: the same release, and the time beside a plain scan.

A plain scan reads all columns of all points with the same engine and hands them over as Arrow batches; for this machine
it is PyArrow that reads. Whole trips are the same with the points of each trip brought together and in order, which all
work on trips has to begin with; for DuckDB, which is for more than memory holds, also what it takes to have the points
in a table on its disk. Ours then lays the trips on 2^8 x 2^8 cells and takes all sums that flux needs: in a first scan
the trips and the distinct counts of 16,000 rectangles, and in a second the shadows for 40 caps. What is done with the
sums after that is the same for all, and not in the times. The fastest of three counts.

    python -m benchmarks.engines [--trips 1000000] [--points 50000000]
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from benchmarks.measure import build, city, claim, options, peak_gib, seconds
from dqam import cities
from dqam.engines.spark import Spark
from dqam.geometry.arrays import Integers
from dqam.geometry.grid import Grid
from dqam.geometry.lattice import Lattice
from dqam.mechanisms.flux_rules import LaplaceRules
from dqam.privacy.aggregates import Aggregates, Engine
from dqam.privacy.budget import Budget
from dqam.privacy.contribution import ContributionBound
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.publishing.pipeline import aggregates_of
from dqam.publishing.plan import Plan
from dqam.release.release import Release
from dqam.sources import read
from dqam.statistics.distinct import DistinctTrips
from dqam.statistics.shadow_sums import CappedShadows, ShadowSizes
from dqam.statistics.trip_count import TripsOnGrid

FILES = 16
ENGINES = ("local", "duckdb", "spark")
PARTS = ("faces", "vertical", "horizontal")
GIB = 1 << 30


def with_first_scan(engine: Engine, queries: np.ndarray) -> Aggregates:
    """Totals of an engine that begins with what flux asks first."""
    return Aggregates(engine, (TripsOnGrid(), DistinctTrips(queries)))


def shuffled(trips: int, times: int = 1) -> Path:
    """Generated points at random over many files; so many times over, with other ids."""
    folder, files = build() / f"shuffled-{trips}-{times}", min(FILES, -(-trips // 100))
    if not folder.exists():
        making = folder.with_suffix(".part")
        making.mkdir(parents=True, exist_ok=True)
        with duckdb.connect(config={"memory_limit": "8GB", "temp_directory": str(build())}) as base:
            base.execute("SELECT setseed(0.5)")
            points = f"SELECT uid, tid + {10**9} * copy AS tid, datetime, lng, lat FROM read_parquet('{city(trips)}'), "
            base.execute(f"CREATE TABLE points AS {points} range({times}) AS copies(copy) ORDER BY random()")
            for part in range(files):
                where = f"SELECT * FROM points WHERE rowid % {files} = {part}"
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
        return by_duckdb(f"SELECT * FROM read_parquet('{folder}/*.parquet')")
    return int(session.read.parquet(str(folder)).mapInArrow(count, "rows long").groupBy().sum().first()[0])


def whole_trips(engine: str, folder: Path, session: Any) -> int:
    """The same, with the points of each trip together."""
    if engine == "local":
        return sum(trips.points for trips in read(folder))
    if engine == "duckdb":
        return by_duckdb(f"SELECT * FROM read_parquet('{folder}/*.parquet') ORDER BY uid, tid, datetime")
    points = session.read.parquet(str(folder)).repartition(3 * session.sparkContext.defaultParallelism, "uid", "tid")
    trips = points.sortWithinPartitions("uid", "tid", "datetime")
    return int(trips.mapInArrow(count, "rows long").groupBy().sum().first()[0])


def by_duckdb(query: str) -> int:
    """The rows of a query, handed over as Arrow batches."""
    with duckdb.connect() as base:
        base.execute("SET enable_progress_bar = false")
        found = base.sql(query)
        reader = getattr(found, "to_arrow_reader", None) or found.fetch_record_batch
        return sum(batch.num_rows for batch in reader(1 << 18))


def to_disk(folder: Path) -> None:
    """All points in a table on the disk, in no order: the least that DuckDB does for what is larger than memory."""
    with TemporaryDirectory(dir=build()) as made, duckdb.connect(f"{made}/points.db") as base:
        base.execute("SET preserve_insertion_order = false; SET enable_progress_bar = false")
        base.execute(f"CREATE TABLE points AS FROM read_parquet('{folder}/*.parquet')")


class Run(NamedTuple):
    """Seconds of the two scans, and what they found."""

    first: float
    second: float
    sums: list[Integers]
    release: Release


def asked(resolution: int) -> tuple[Plan, Lattice, Integers]:
    """What a release by flux asks of many trips: the plan, the lattice of shadows, and their caps."""
    plan = Plan.of(Grid.over(cities.BOUNDS, resolution), 1)
    return (
        plan,
        Lattice.even(plan.grid, LaplaceRules().coarsest_side(1e6)),
        np.unique(np.rint(np.geomspace(3, 162, 40)).astype(np.int64)),
    )


def first_sums(aggregates: Aggregates, plan: Plan) -> list[Integers]:
    """What the first scan adds up."""
    return [aggregates.total(TripsOnGrid()), aggregates.total(DistinctTrips(plan.queries))]


def run(engine: str, folder: Path, session: Any, memory: int = 4 * GIB, resolution: int = 8) -> Run:
    """Both scans, and a release with noise from a seed."""
    plan, lattice, caps = asked(resolution)
    trips = session.read.parquet(str(folder)) if engine == "spark" else read(folder)
    began = time.perf_counter()
    with aggregates_of(plan, trips, ContributionBound(plan.unit, ""), engine, memory) as aggregates:
        sums = first_sums(aggregates, plan)
        between = time.perf_counter()
        sums.append(aggregates.total(ShadowSizes(lattice, 3, caps)))
        sums.append(aggregates.total(CappedShadows(lattice, 3, np.array([int(caps[-1])])))[0])
        ended = time.perf_counter()
        sums += [aggregates.total(CappedShadows(lattice, 3, np.array([int(cap)])))[0] for cap in caps[:-1:4]]
        release = plan.release(Curator(aggregates, Budget(1), SeededNoise(7)), "benchmark")
    return Run(between - began, ended - between, sums, release)


def compare(trips: int, times: int = 3, resolution: int = 8) -> None:
    """All engines: the same sums and releases, and the time of the scans beside a plain one."""
    folder, small, session = shuffled(trips), shuffled(1_000) if times > 1 else None, spark_session()
    ours: Run | None = None
    for engine in ENGINES:
        for work in (plain_scan, whole_trips, run):
            if small is None:
                break
            work(engine, small, session)  # compile, and start workers
        plain, points = seconds(partial(plain_scan, engine, folder, session), times)
        whole, _ = seconds(partial(whole_trips, engine, folder, session), times)
        runs = [run(engine, folder, session, resolution=resolution) for _ in range(times)]
        made, first, second = runs[0], min(each.first for each in runs), min(each.second for each in runs)
        took = {"plain scan": plain, "whole trips": whole, "first scan": first, "second scan": second}
        if engine == "duckdb":
            took["points to disk"], _ = seconds(partial(to_disk, folder), times)
        for what, each in took.items():
            print(f"{engine:>7} {what:>14}: {each:6.1f} s, {points / each / 1e6:6.2f} million points a second")
        claim(f"{engine}: first scan / plain scan", first / plain, 4, at_most=True)
        claim(f"{engine}: second scan / plain scan", second / plain, 4, at_most=True)
        claim(f"{engine}: both scans / plain scan", (first + second) / plain, 4, at_most=True)
        claim(f"{engine}: both scans / whole trips", (first + second) / whole, 4, at_most=True)
        ours = ours or made
        sums = all(np.array_equal(one, other) for one, other in zip(ours.sums, made.sums, strict=True))
        histograms = ours.release.histogram, made.release.histogram
        same = all(np.array_equal(*(getattr(each, part) for each in histograms)) for part in PARTS)
        verdict = "  ok" if sums and same else "MISS"
        print(f"{verdict}  {engine}: {trips:,} trips; the same sums: {sums}, the same release: {same}", flush=True)


def killed(trips: int) -> None:
    """Spark with two executors, processes of their own, of which one is killed in each scan."""
    from pyspark.sql import SparkSession

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(Path(find_spec("pyspark").origin).parent)}  # type: ignore[union-attr, arg-type]
    builder = SparkSession.builder.master("local-cluster[2,1,1500]").config("spark.executor.memory", "1200m")
    session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    folder, killed_in = shuffled(trips), list[int]()
    plan, lattice, caps = asked(8)
    ours = run("local", folder, None)
    with Spark(read(session.read.parquet(str(folder))), ContributionBound(plan.unit, ""), plan.grid) as engine:
        aggregates = with_first_scan(engine, plan.queries)

        def kill() -> None:
            found = subprocess.run(["pgrep", "-f", "CoarseGrainedExecutorBackend"], capture_output=True, text=True)
            os.kill(int(found.stdout.split()[0]), signal.SIGKILL)
            killed_in.append(1 + aggregates.scans)

        killers = [Timer(5, kill), Timer(2, kill)]
        killers[0].start()
        sums = first_sums(aggregates, plan)
        killers[1].start()
        sums += [
            aggregates.total(ShadowSizes(lattice, 3, caps)),
            aggregates.total(CappedShadows(lattice, 3, np.array([int(caps[-1])])))[0],
        ]
    for killer in killers:
        killer.join()
    same = all(np.array_equal(one, other) for one, other in zip(ours.sums, sums, strict=False))
    verdict = "  ok" if same and killed_in == [1, 2] else "MISS"
    print(f"{verdict}  spark: {trips:,} trips, executors killed in scans {killed_in}; the same sums: {same}")
    session.stop()


def on_disk(times: int, trips: int = 100_000) -> None:
    """DuckDB within 1 GiB, in a process of its own, on the trips so many times over."""
    folder = shuffled(trips, times)
    began = time.perf_counter()
    release = run("duckdb", folder, None, GIB).release
    rows = ds.dataset(folder).count_rows()
    print(f"duckdb: {rows:,} points in {time.perf_counter() - began:.0f} s, {release.trips} trips")
    claim("peak memory of the process, GiB", peak_gib(), 1, at_most=True)


def main(*arguments: str) -> None:
    parser = options(__doc__)
    parser.add_argument("--trips", type=int, default=1_000_000)
    parser.add_argument("--points", type=int, default=50_000_000)
    parser.add_argument("--only", choices=["compare", "on-disk", "killed"], help="each in a process of its own")
    given = parser.parse_args(arguments or None)
    if given.tiny:
        compare(200, 1, 4)
        on_disk(1, 200)
    elif given.only == "compare":
        compare(given.trips)
    elif given.only == "killed":
        killed(100_000)
    elif given.only == "on-disk":
        on_disk(-(-given.points // 2_850_000))
    else:
        for only in ("compare", "killed", "on-disk"):
            command = [sys.executable, "-m", "benchmarks.engines", "--only", only]
            subprocess.run([*command, "--trips", str(given.trips), "--points", str(given.points)], check=True)


if __name__ == "__main__":
    main()
