"""One machine, DuckDB and Spark: the same integers, and with the same seed the same releases."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import dqam
from dqam import cities
from dqam.engines.disk import Disk
from dqam.errors import InputError
from dqam.geometry.grid import Grid
from dqam.geometry.lattice import Lattice
from dqam.geometry.trips import Trips
from dqam.mechanisms import MECHANISMS
from dqam.privacy.aggregates import Aggregates, Engine
from dqam.privacy.budget import Budget
from dqam.privacy.contribution import ContributionBound
from dqam.privacy.curator import Curator
from dqam.privacy.ledger import Ledger
from dqam.privacy.noise import SeededNoise
from dqam.publishing.pipeline import aggregates_of, publish
from dqam.publishing.plan import Plan
from dqam.statistics.cell_shares import MassByCell
from dqam.statistics.crossings import CappedCrossings
from dqam.statistics.distinct import DistinctTrips
from dqam.statistics.endpoints import EndpointsByCell
from dqam.statistics.quantile import Lengths
from dqam.statistics.shadow_sums import CappedShadows, ShadowSizes
from dqam.statistics.trip_count import TripsOnGrid
from dqam.values.guarantee import Unit
from tests.commands import run

GRID = Grid.over(cities.BOUNDS, 5)
LATTICE = Lattice.even(GRID, 7)
CAPS = np.array([3, 5, 9, 17, 40])
TRIPS = 1_500


def with_first_scan(engine: Engine, queries: np.ndarray) -> Aggregates:
    """Totals of an engine that begins with what every mechanism asks, and more."""
    first = TripsOnGrid(), DistinctTrips(queries), MassByCell(), EndpointsByCell()
    return Aggregates(engine, first)


@pytest.fixture(scope="module")
def shuffled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Points at random over many files; trips carry text and people numbers for ids."""
    folder = tmp_path_factory.mktemp("shuffled")
    cities.write_parquet(cities.city_trips(TRIPS, 0), folder / "whole", TRIPS)
    with duckdb.connect() as base:
        base.execute("SELECT setseed(0.5)")
        base.execute(
            f"CREATE TABLE points AS SELECT uid, 'trip ' || tid AS tid, datetime, lng, lat "
            f"FROM read_parquet('{folder}/whole') ORDER BY random()"
        )
        for part in range(7):
            base.execute(
                f"COPY (SELECT * FROM points WHERE rowid % 7 = {part}) TO '{folder}/{part}.parquet' (FORMAT parquet)"
            )
    (folder / "whole").unlink()
    return folder


Make = Callable[[Plan, ContributionBound], AbstractContextManager[Aggregates]]


@pytest.fixture(params=["duckdb", "spark"])
def engine(request: pytest.FixtureRequest, shuffled: Path) -> Make:
    """Aggregates of the shuffled points by another engine."""
    if request.param == "spark":
        points = request.getfixturevalue("spark").read.parquet(str(shuffled))
        return lambda plan, bound: aggregates_of(plan, points, bound)
    return lambda plan, bound: aggregates_of(plan, dqam.read(shuffled), bound, "duckdb", 800 << 20)


def in_memory(shuffled: Path) -> Make:
    return lambda plan, bound: aggregates_of(plan, dqam.read(shuffled), bound)


def test_all_sums_are_the_same_and_take_few_scans(shuffled: Path, engine: Make) -> None:
    unit = Unit.person(2)
    plan, bound = Plan.of(GRID, 1, unit=unit.name, max_trips=unit.max_trips), ContributionBound(unit, "5a17")
    labels, weights = np.arange(GRID.rows * GRID.columns) % 5, np.array([9, 1, 2, 3, 4])
    asked: list[Callable[[Aggregates], Any]] = [
        lambda aggregates: aggregates.total(TripsOnGrid()),
        lambda aggregates: aggregates.total(DistinctTrips(plan.queries)),
        lambda aggregates: aggregates.total(DistinctTrips(plan.queries[[77]])),
        lambda aggregates: aggregates.total(MassByCell()),
        lambda aggregates: aggregates.total(EndpointsByCell()),
        lambda aggregates: aggregates.total(Lengths(np.array([0, 1, 9, 30, 256]))),
        lambda aggregates: aggregates.total(ShadowSizes(LATTICE, 3, CAPS)),
        *(
            partial(lambda cap, aggregates: aggregates.total(CappedShadows(LATTICE, 3, np.array([cap])))[0], int(cap))
            for cap in CAPS
        ),
        lambda aggregates: aggregates.total(CappedCrossings(labels, weights, 20)),
    ]
    with in_memory(shuffled)(plan, bound) as ours, engine(plan, bound) as theirs:
        assert isinstance(theirs, Aggregates)
        assert theirs.scans == 1
        for i, ask in enumerate(asked):
            np.testing.assert_array_equal(ask(ours), ask(theirs), err_msg=str(i))
            # the first scan adds up what flux asks; the shadows for all caps take one scan
            assert theirs.scans == (1, 1, 1, 2, 3, 4, 5, 5, 5, 5, 5, 5, 6)[i]
        assert 0 < int(ours.total(TripsOnGrid())[0]) <= TRIPS


@pytest.mark.parametrize("mechanism", ["flux", "dqam"])
def test_releases_are_the_same_after_two_scans(shuffled: Path, engine: Make, mechanism: str) -> None:
    plan, bound = Plan.of(GRID, 4, mechanism), ContributionBound(Unit.trip(), "")
    made = []
    for scan_by in (in_memory(shuffled), engine):
        with scan_by(plan, bound) as aggregates:
            made.append(plan.release(Curator(aggregates, Budget(4), SeededNoise(7)), "the same"))
            assert isinstance(aggregates, Aggregates) or aggregates.scans <= 2
    ours, theirs = made
    for part in ("faces", "vertical", "horizontal"):
        np.testing.assert_array_equal(getattr(ours.histogram, part), getattr(theirs.histogram, part))
    assert ours.provenance.paid == theirs.provenance.paid


@pytest.mark.parametrize("mechanism", [name for name, row in MECHANISMS.items() if row.publishable])
def test_no_mechanism_needs_a_third_scan(shuffled: Path, mechanism: str) -> None:
    plan = Plan.of(GRID, 4, mechanism)
    with aggregates_of(plan, shuffled, ContributionBound(plan.unit), "duckdb") as aggregates:
        assert isinstance(aggregates, Aggregates)
        plan.release(Curator(aggregates, Budget(4), SeededNoise(7)), "counted")
        assert 1 <= aggregates.scans <= 2


def test_a_task_that_fails_changes_nothing(spark: Any, shuffled: Path, tmp_path: Path) -> None:
    """The first tries of two tasks end: one with an error, one as its process is killed."""
    from dqam.engines.spark import Spark

    plan, bound, traces = Plan.of(GRID, 1), ContributionBound(Unit.trip(), ""), str(tmp_path)

    def fail_once(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        partition = TaskContext.get().partitionId()  # type: ignore[union-attr]
        yield from batches
        trace = os.path.join(traces, str(partition))
        if partition in (1, 2) and not os.path.exists(trace):
            open(trace, "w").close()
            if partition == 1:
                raise RuntimeError("on purpose")
            os._exit(1)

    class Unsteady(Spark):
        def _first_scan(self, wanted: Any) -> Any:
            found = super()._first_scan(wanted)
            return found.mapInArrow(fail_once, found.schema)

    with (
        Unsteady(dqam.read(spark.read.parquet(str(shuffled))), bound, GRID, parts=5) as unsteady,
        in_memory(shuffled)(plan, bound) as ours,
    ):
        aggregates = with_first_scan(unsteady, plan.queries)
        np.testing.assert_array_equal(
            aggregates.total(DistinctTrips(plan.queries)), ours.total(DistinctTrips(plan.queries))
        )
        np.testing.assert_array_equal(aggregates.total(MassByCell()), ours.total(MassByCell()))
    assert sorted(os.listdir(traces)) == ["1", "2"]


def test_no_plan_of_spark_counts_a_trip_twice(spark: Any, shuffled: Path, tmp_path: Path) -> None:
    """A join that is already divided by trip, of which Spark reads a large part in pieces: a plain repartition of it
    counts trips in two tasks."""
    points = pd.read_parquet(shuffled).query("uid < 40")
    times = pd.date_range("2024-01-01", periods=5_000, freq="s", unit="us")
    long = pd.DataFrame({"uid": 7, "tid": "long", "datetime": times, "lng": -30.0, "lat": 45.0})
    every = pd.concat([points, long]).sample(frac=1, random_state=0)
    (tmp_path / "points").mkdir()
    for part in range(6):
        every.iloc[part::6].to_parquet(tmp_path / "points" / f"{part}.parquet", index=False)
    every[["uid", "tid"]].drop_duplicates().to_parquet(tmp_path / "info.parquet", index=False)
    settings = {
        "spark.sql.shuffle.partitions": "6",  # as many as the engine has here
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "1000",
        "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "1.2",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "20000",
        "spark.sql.adaptive.coalescePartitions.minPartitionSize": "10000",
        "spark.sql.files.maxPartitionBytes": "200000",
        "spark.sql.files.openCostInBytes": "200000",
    }
    before = {name: spark.conf.get(name, None) for name in settings}

    plan, bound = Plan.of(GRID, 1, unit="person", max_trips=2), ContributionBound(Unit.person(2), "5a17")
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        frame = spark.read.parquet(str(tmp_path / "points"))
        joined = frame.join(spark.read.parquet(str(tmp_path / "info.parquet")), ["uid", "tid"])
        pieces = joined.repartition(6, "uid", "tid").mapInPandas(_distinct, "trips long").toPandas().trips.sum()
        with in_memory(tmp_path / "points")(plan, bound) as ours:
            for some in (frame, joined):
                with aggregates_of(plan, some, bound) as theirs:
                    np.testing.assert_array_equal(ours.total(TripsOnGrid()), theirs.total(TripsOnGrid()))
                    np.testing.assert_array_equal(ours.total(EndpointsByCell()), theirs.total(EndpointsByCell()))
        if pieces == points.tid.nunique() + 1:
            pytest.skip("this Spark keeps the repartition, and what was asserted shows nothing")
    finally:
        for name, old in before.items():
            spark.conf.unset(name) if old is None else spark.conf.set(name, old)


def _distinct(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """How many trips a task sees."""
    seen = {trip for frame in frames for trip in zip(frame.uid, frame.tid, strict=True)}
    yield pd.DataFrame({"trips": [len(seen)]})


def test_parts_that_are_added_up_twice_are_found(spark: Any, shuffled: Path) -> None:
    """In the first scan, which has their sums from where they are read, and in the second."""
    from dqam.engines.spark import Spark

    class Twice(Spark):
        def _first_scan(self, wanted: Any) -> Any:
            return super()._first_scan(wanted).union(super()._first_scan(wanted))

    plan, source, bound = (
        Plan.of(GRID, 1),
        dqam.read(spark.read.parquet(str(shuffled))),
        ContributionBound(Unit.trip(), ""),
    )
    with Twice(source, bound, GRID, parts=3) as twice, pytest.raises(InputError, match="some trips twice"):
        with_first_scan(twice, plan.queries).total(TripsOnGrid())
    with Spark(source, bound, GRID, parts=3) as engine:
        aggregates = with_first_scan(engine, plan.queries)
        aggregates.total(TripsOnGrid())
        assert engine._whole is not None
        engine._whole = engine._whole.union(engine._whole)
        with pytest.raises(InputError, match="some trips twice"):
            aggregates.total(ShadowSizes(LATTICE, 3, CAPS))


def test_what_an_engine_can_not_take_is_said(spark: Any, shuffled: Path) -> None:
    bound = ContributionBound(Unit.trip(), "")
    for given, engine, memory, words in (
        (spark.read.parquet(str(shuffled)), "duckdb", 1 << 30, "counted only by Spark"),
        (shuffled, "duckdb", "1GiB", "number of bytes"),
    ):
        with pytest.raises(InputError, match=words), aggregates_of(Plan.of(GRID, 1), given, bound, engine, memory):  # type: ignore[arg-type]
            pass


def test_trips_that_are_cut_otherwise_have_anotherfingerprint() -> None:
    from dqam.engines.spark_parts import _by_part, fingerprint

    place, time = np.arange(6.0), np.arange(6)
    whole = Trips(place, place, np.array([0, 2, 6]), time)
    assert fingerprint(whole) != fingerprint(Trips(place, place, np.array([0, 3, 6]), time))
    order = np.array([2, 3, 4, 5, 0, 1])
    assert fingerprint(whole) == fingerprint(Trips(place[order], place[order], np.array([0, 4, 6]), time[order]))
    empty = pa.record_batch({"trip": pa.array([], pa.int64()), "part": pa.array([], pa.int32())})
    assert _by_part([empty]).num_rows == 0


def test_a_frame_that_changes_between_scans_is_found(spark: Any, shuffled: Path) -> None:
    """When the trips that are kept in between are lost, a frame that ids are drawn for is another one in each scan."""
    from pyspark.sql import functions

    from dqam.engines.spark import Spark

    plan, points = Plan.of(GRID, 1), spark.read.parquet(str(shuffled))
    trips = points.select("uid", "tid").distinct()

    def draw(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield batch.append_column("ride", pa.array([str(uuid4()) for _ in range(batch.num_rows)]))

    names = trips.mapInArrow(draw, trips.withColumn("ride", functions.lit("")).schema)
    for frame, same in ((points, True), (points.join(names, ["uid", "tid"]), False)):
        columns = {"person": "", "trip": "tid" if same else "ride"}
        engine = Spark(dqam.read(frame, columns=columns), ContributionBound(plan.unit, ""), GRID)
        aggregates = with_first_scan(engine, plan.queries)
        assert aggregates.total(TripsOnGrid())[0] == TRIPS
        assert engine._whole is not None
        engine._whole.unpersist(blocking=True)
        if same:
            aggregates.total(ShadowSizes(LATTICE, 3, CAPS))
        else:
            with pytest.raises(InputError, match="has changed since"):
                aggregates.total(ShadowSizes(LATTICE, 3, CAPS))


@pytest.mark.parametrize("parts", [2, 5, 40])
def test_an_error_in_one_part_is_not_lost_among_the_others(spark: Any, shuffled: Path, parts: int) -> None:
    from pyspark.sql import functions

    from dqam.engines.spark import Spark

    points = spark.read.parquet(str(shuffled))
    first = points.first().tid
    bad = functions.when(points.tid == first, float("nan")).otherwise(points.lng)
    source, queries = dqam.read(points.withColumn("lng", bad)), Plan.of(GRID, 1).queries
    with (
        Spark(source, ContributionBound(Unit.trip(), ""), GRID, parts=parts) as engine,
        pytest.raises(InputError, match="invalid coord"),
    ):
        with_first_scan(engine, queries).total(TripsOnGrid())


def test_ids_are_made_plain_where_they_divide(spark: Any, shuffled: Path, tmp_path: Path) -> None:
    """A frame whose ids are sound when it is counted, and not when it is divided."""
    trace, schema = tmp_path / "trace", spark.read.parquet(str(shuffled)).schema

    def later(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            ids = batch.column("tid")
            if trace.exists():
                some = pc.equal(pc.bit_wise_and(batch.column("datetime").cast(pa.int64()), 1000), 0)
                ids = pc.binary_join_element_wise(ids, pc.if_else(some, " ", "\u2003"), "")
            yield batch.set_column(batch.schema.get_field_index("tid"), "tid", ids)

    plan = Plan.of(GRID, 1)
    frame = spark.read.parquet(str(shuffled)).mapInArrow(later, schema)
    aggregates = with_first_scan(engine_of(frame, plan), plan.queries)
    trace.touch()
    with in_memory(shuffled)(plan, ContributionBound(plan.unit, "")) as ours:
        assert aggregates.total(TripsOnGrid()) == ours.total(TripsOnGrid())
        np.testing.assert_array_equal(aggregates.total(MassByCell()), ours.total(MassByCell()))


def engine_of(frame: Any, plan: Plan) -> Any:
    from dqam.engines.spark import Spark

    return Spark(dqam.read(frame), ContributionBound(plan.unit, ""), plan.grid)


def test_points_that_are_dropped_do_not_keep_a_place(shuffled: Path, spark: Any, tmp_path: Path) -> None:
    """Trips of which nothing is left are gone before a person's trips are chosen, in every engine; some parts of
    Spark have no trips then."""
    points = pd.read_parquet(shuffled)
    points = points[points.uid.isin(points.uid.unique()[:40])]
    names = points.tid.unique()
    points.loc[points.tid.isin(names[::2]), "lng"] = 999.0
    points.loc[points.tid.isin(names[1::6]), "datetime"] = pd.NaT
    points.to_parquet(tmp_path / "drop.parquet", coerce_timestamps="us")
    plan, bound = Plan.of(GRID, 1, unit="person", max_trips=1), ContributionBound(Unit.person(1), "5a17")
    frame = spark.read.parquet(str(tmp_path))
    made = []
    for trips, engine in ((tmp_path, "local"), (tmp_path, "duckdb"), (frame, "spark")):
        with aggregates_of(plan, dqam.read(trips, on_error="drop"), bound, engine) as aggregates:
            made.append((int(aggregates.total(TripsOnGrid())[0]), aggregates.total(EndpointsByCell()).tolist()))
        with (
            pytest.raises(InputError, match="invalid coordinates|no time"),
            aggregates_of(plan, dqam.read(trips, on_error="fail"), bound, engine),
        ):
            pass
    assert made[0] == made[1] == made[2]
    assert made[0][0] > 0


@pytest.mark.parametrize("escaped", ["true", "false"])
def test_ids_are_made_plain_by_spark_as_elsewhere(spark: Any, shuffled: Path, escaped: str) -> None:
    from pyspark.sql import functions

    plan = Plan.of(GRID, 1)
    points = spark.read.parquet(str(shuffled))
    spark.conf.set("spark.sql.parser.escapedStringLiterals", escaped)
    try:
        minute = functions.minute("datetime") % 2 == 0
        spaces = functions.when(minute, functions.lit("\t \u00a0")).otherwise(functions.lit("\u2003\x1c"))
        odd = points.withColumn("tid", functions.concat(spaces, "tid", spaces))
        nobody = points.withColumn("tid", functions.when(functions.col("uid") % 2 == 0, " ").otherwise(points.tid))
        half = pd.read_parquet(shuffled).query("uid % 2 != 0")
        for frame, expected in ((odd, shuffled), (nobody, half)):
            with (
                aggregates_of(plan, frame, ContributionBound(plan.unit, "")) as theirs,
                aggregates_of(plan, expected, ContributionBound(plan.unit, "")) as ours,
            ):
                assert theirs.total(TripsOnGrid()) == ours.total(TripsOnGrid())
                np.testing.assert_array_equal(theirs.total(MassByCell()), ours.total(MassByCell()))
        with (
            pytest.raises(InputError, match="ids cannot be double"),
            aggregates_of(plan, points.withColumn("uid", functions.rand()), ContributionBound(plan.unit, "")),
        ):
            pass
    finally:
        spark.conf.unset("spark.sql.parser.escapedStringLiterals")


def test_a_role_that_is_switched_off_stays_off(spark: Any, shuffled: Path) -> None:
    """Trip ids are unique here: without persons there are as many trips, and none can be kept by person."""
    frame = spark.read.parquet(str(shuffled))
    nobody = dqam.read(frame, columns={"person": ""})
    plan = Plan.of(GRID, 1)
    with aggregates_of(plan, nobody, ContributionBound(plan.unit, "")) as aggregates:
        assert aggregates.total(TripsOnGrid())[0] == TRIPS
    people = Plan.of(GRID, 1, unit="person")
    with (
        pytest.raises(InputError, match="no person column"),
        aggregates_of(people, nobody, ContributionBound(people.unit, "5a")),
    ):
        pass


def test_persons_are_trips_where_trips_have_no_ids(spark: Any, shuffled: Path) -> None:
    """Points at the same time stay as they came, but in Spark, where that is not known."""
    plan, bound = Plan.of(GRID, 1, unit="person", max_trips=1), ContributionBound(Unit.person(1), "5a")
    found = []
    for trips, engine in ((shuffled, "local"), (shuffled, "duckdb"), (spark.read.parquet(str(shuffled)), "spark")):
        with aggregates_of(plan, dqam.read(trips, columns={"trip": ""}), bound, engine) as aggregates:
            found.append((int(aggregates.total(TripsOnGrid())[0]), aggregates.total(MassByCell()).tolist()))
    assert found[0] == found[1]
    assert found[0][0] == found[2][0] == pd.read_parquet(shuffled).uid.nunique()


def test_spark_reads_files_as_they_are(spark: Any, shuffled: Path, tmp_path: Path) -> None:
    """Names of folders are no columns, and names of files no patterns."""
    folder = tmp_path / "tid=7"
    folder.mkdir()
    pd.read_parquet(shuffled).to_parquet(folder / "points.parquet", coerce_timestamps="us")
    plan = Plan.of(GRID, 1)
    for path in (folder, f"file://{tmp_path}"):
        with aggregates_of(plan, path, ContributionBound(plan.unit, ""), "spark") as aggregates:
            assert aggregates.total(TripsOnGrid())[0] == TRIPS
    odd = shutil.copy(folder / "points.parquet", tmp_path / "x[1].parquet")
    (tmp_path / "points.csv").write_text("tid,datetime,lng,lat\na,2024-01-01,-30,45\n")
    for path, says in (
        (odd, "as a pattern"),
        (tmp_path / "nothing", "does not exist"),
        (tmp_path / "points.csv", "is not Parquet"),
    ):
        with (
            pytest.raises(InputError, match=says),
            aggregates_of(plan, path, ContributionBound(plan.unit, ""), "spark"),
        ):
            pass
    with (
        pytest.raises(InputError, match="not a Spark data frame"),
        aggregates_of(plan, dqam.read(shuffled), ContributionBound(plan.unit, ""), "spark"),
    ):
        pass
    frame = spark.read.parquet(str(shuffled)).withColumnRenamed("datetime", "when_it_was")
    with pytest.raises(InputError, match="none for time"), aggregates_of(plan, frame, ContributionBound(plan.unit, "")):
        pass
    with pytest.raises(InputError, match="on a cluster"):
        dqam.read(frame).trips()


def test_any_source_of_points_can_be_sorted_on_disk(shuffled: Path, tmp_path: Path) -> None:
    points = pd.read_parquet(shuffled)
    points.to_csv(tmp_path / "points.csv", index=False)
    plan, bound = Plan.of(GRID, 1), ContributionBound(Unit.trip(), "")
    for trips in (points, tmp_path / "points.csv", f"file://{shuffled}"):
        with in_memory(shuffled)(plan, bound) as ours, aggregates_of(plan, trips, bound, "duckdb") as theirs:
            np.testing.assert_array_equal(ours.total(EndpointsByCell()), theirs.total(EndpointsByCell()))
    with pytest.raises(InputError, match="not a table with one point per row"):
        publish(next(cities.city_trips(10, 0)), GRID, 1, dataset="x", engine="duckdb")
    with pytest.raises(InputError, match="no files that end with .parquet"):
        dqam.read(f"file://{tmp_path}")


def test_publish_from_every_engine(shuffled: Path, spark: Any, tmp_path: Path) -> None:
    book = Ledger.open(tmp_path / "ledger.db")
    for engine in ("local", "duckdb", "spark"):
        release = publish(shuffled, GRID, 50, dataset="city", total=200, ledger=book, engine=engine, sure=True)
        assert abs(release.trips.value - TRIPS) < 20
    frame = publish(
        spark.read.parquet(str(shuffled)),
        GRID,
        50,
        unit="person",
        max_trips=1,
        dataset="people",
        ledger=book,
        sure=True,
    )
    persons = pd.read_parquet(shuffled).uid.nunique()
    assert abs(frame.trips.value - persons) < 20
    assert len(frame.provenance.salt) == 32


def test_the_command_takes_paths_and_urls(shuffled: Path, spark: Any, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.db"
    where = [str(side) for side in cities.BOUNDS]
    for i, (path, engine) in enumerate(
        ((f"file://{shuffled}", "spark"), (shuffled, "spark"), (f"file://{shuffled}", "duckdb"), (shuffled, "local"))
    ):
        saved = tmp_path / f"map{i}.nc"
        how = ["--engine", engine, "--memory", "800MiB", "--dataset", "city", "--ledger", ledger, "--total", "40"]
        done = run("publish", path, "--bounds", *where, "-k", "5", "--epsilon", "10", "-o", saved, *how)
        assert done.returncode == 0, done.stderr
        assert abs(dqam.open(saved).trips.value - TRIPS) < 60
    for path, engine, says in (
        (tmp_path / "nothing", "spark", "does not exist"),
        ("nowhere://x", "duckdb", "Unrecognized filesystem type"),
        (shuffled, "duckdb", "36.2 MiB of memory is too little"),
    ):
        more = ["--memory", "38MB"] if path == shuffled else []
        done = run(
            "publish", path, "--bounds", *where, "--epsilon", "1", "-o", tmp_path / "no.nc", "--engine", engine, *more,
            "--ledger", tmp_path / "other.db",
        )  # fmt: skip
        assert done.returncode == 2
        assert says in " ".join(done.stderr.split())
    assert not (tmp_path / "no.nc").exists()


def test_the_command_begins_a_session_of_its_own(shuffled: Path, spark: Any, tmp_path: Path) -> None:
    """With its own Python, for its user's eyes, and with bounds that miss the points in one sentence."""
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    command = [sys.executable, "-c", "from dqam.cli import main; main()", "publish", str(shuffled), "--bounds"]
    more = ["--epsilon", "1", "-o", str(tmp_path / "map.nc"), "--ledger", str(tmp_path / "ledger.db"), "--engine"]
    done = subprocess.run(
        [*command, "1", "2", "3", "4", *more, "spark"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "hardly any trips on the map" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_an_engine_can_not_do_is_refused_before_anything_is_spent(shuffled: Path, tmp_path: Path) -> None:
    book = Ledger.open(tmp_path / "ledger.db")
    book.register("known", 1, "trip")
    how: dict[str, Any] = {"dataset": "city", "ledger": book}
    points = pd.read_parquet(shuffled)
    for trips, more, says in (
        (shuffled, {"engine": "abacus"}, "no engine 'abacus'"),
        (shuffled, {"engine": "duckdb", "memory": 1000}, "too little"),
        (points.drop(columns="datetime"), {"engine": "duckdb"}, "has no time"),
        (dqam.read(points.assign(lng=999.0), on_error="fail"), {"engine": "duckdb"}, "^DataFrame: .* invalid coord"),
        (shuffled, {"engine": "duckdb", "unit": "person", "dataset": "known"}, "budget for the unit 'trip'"),
    ):
        with pytest.raises(InputError, match=says):
            publish(trips, GRID, 1, **(how | more))
    assert [(account.name, account.spent) for account in book.history()] == [("known", 0)]


@pytest.mark.parametrize("named", ["place", "dqam_place", 'a "quoted" name', "Tid", "UID", "UID_1"])
def test_names_of_columns_do_not_matter(shuffled: Path, tmp_path: Path, named: str) -> None:
    points = pd.read_parquet(shuffled).rename(columns={"uid": named})
    for other in {"uid", "UID"} - {named}:  # which SQL would take for the same
        points.insert(0, other, np.arange(len(points)))
    points.to_parquet(tmp_path / "x[1].parquet")
    points[points[named] == 1].to_parquet(tmp_path / "x1.parquet")  # what a pattern would read
    unit = Unit.person(1)
    plan, bound = Plan.of(GRID, 1, unit="person", max_trips=1), ContributionBound(unit, "5a17")
    source = dqam.read(tmp_path / "x[1].parquet", columns={"person": named})
    with aggregates_of(plan, source, bound) as ours, aggregates_of(plan, source, bound, "duckdb") as theirs:
        assert ours.total(TripsOnGrid())[0] == theirs.total(TripsOnGrid())[0] == points[named].nunique()
        np.testing.assert_array_equal(ours.total(EndpointsByCell()), theirs.total(EndpointsByCell()))


def test_the_unit_is_that_of_the_engine(shuffled: Path) -> None:
    plan = Plan.of(GRID, 1, unit="person", max_trips=1)
    with (
        Disk(dqam.read(shuffled), ContributionBound(Unit.trip()), GRID) as disk,
        pytest.raises(InputError, match="no person column"),
    ):
        Curator(with_first_scan(disk, plan.queries), Budget(1), SeededNoise(0), Unit.person(1))
    with (
        pytest.raises(InputError, match="bounded for the unit"),
        aggregates_of(plan, dqam.read(shuffled), ContributionBound(Unit.trip())),
    ):
        pass
    with aggregates_of(plan, dqam.read(shuffled), ContributionBound(Unit.person(1), "5a")) as aggregates:
        with pytest.raises(InputError, match="for the unit 'trip' give all"):
            Curator(aggregates, Budget(1), SeededNoise(0))
        with pytest.raises(InputError, match="keep only some trips|no person column"):
            Curator(aggregates, Budget(1), SeededNoise(0), Unit.person(2))


def test_sorted_points_do_not_stay(shuffled: Path, tmp_path: Path) -> None:
    plan = Plan.of(GRID, 1)
    with Disk(dqam.read(shuffled), ContributionBound(plan.unit, ""), GRID, folder=str(tmp_path)) as disk:
        with_first_scan(disk, plan.queries).total(TripsOnGrid())
        (folder,) = tmp_path.iterdir()
        assert folder.stat().st_mode & 0o077 == 0
    assert not list(tmp_path.iterdir())


def test_a_disk_that_is_full_in_the_end_is_said(shuffled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What DuckDB has sorted still has to be noted; where that fails nothing is taken for the first scan."""
    plan = Plan.of(GRID, 1)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with Disk(dqam.read(shuffled), ContributionBound(plan.unit, ""), GRID) as disk:
        with monkeypatch.context() as patched:
            patched.setattr(np, "save", full)
            with pytest.raises(InputError, match=r"no room to sort .*No space left.* set TMPDIR"):
                with_first_scan(disk, plan.queries).total(TripsOnGrid())
        assert disk._walks_file is None


def test_a_first_scan_that_failed_can_be_done_again(shuffled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what it had open is closed when it fails, though the error is still held."""
    plan, bound = Plan.of(GRID, 1), ContributionBound(Unit.trip(), "")
    with Disk(dqam.read(shuffled), bound, GRID) as disk, in_memory(shuffled)(plan, bound) as ours:
        aggregates = with_first_scan(disk, plan.queries)
        with monkeypatch.context() as patched:
            patched.setattr("dqam.engines.disk.walk", lambda *_: (_ for _ in ()).throw(InputError("on purpose")))
            with pytest.raises(InputError, match="on purpose") as held:
                aggregates.total(TripsOnGrid())
            assert held.value is not None
            assert not list(disk._folder.glob("*/points.db"))
        np.testing.assert_array_equal(aggregates.total(EndpointsByCell()), ours.total(EndpointsByCell()))
