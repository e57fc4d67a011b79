"""One machine, DuckDB and Spark: the same integers, and with the same seed the same releases."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import dqam
from dqam import cities
from dqam.engines.disk import Disk
from dqam.engines.local import Local
from dqam.errors import InputError
from dqam.grid import Grid
from dqam.partition.lattice import Lattice
from dqam.privacy.budget import Budget, Unit
from dqam.privacy.curator import Curator
from dqam.privacy.keeping import Keep
from dqam.privacy.ledger import Ledger
from dqam.privacy.noise import SeededNoise
from dqam.publishing import Plan, publish, records_of
from dqam.records import AnyRecords, Records, Scanned

GRID = Grid.over(cities.BOUNDS, 5)
LATTICE = Lattice.even(GRID, 7)
CAPS = np.array([3, 5, 9, 17, 40])
TRIPS = 1_500


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


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A real session on this machine, in which a task may fail and be tried again."""
    sql = pytest.importorskip("pyspark.sql", reason="PySpark is not installed: pip install 'dqam[spark]'")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Java, which Spark needs, is not installed")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "4", "spark.driver.memory": "1g"}
    builder = sql.SparkSession.builder.master("local[2,3]").appName("dqam tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


Make = Callable[[Plan, Keep], AbstractContextManager[AnyRecords]]


@pytest.fixture(params=["duckdb", "spark"])
def engine(request: pytest.FixtureRequest, shuffled: Path) -> Make:
    """Records of the shuffled points by another engine."""
    if request.param == "spark":
        points = request.getfixturevalue("spark").read.parquet(str(shuffled))
        return lambda plan, keep: records_of(plan, points, keep)
    return lambda plan, keep: records_of(plan, dqam.read(shuffled), keep, "duckdb", 700 << 20)


def in_memory(shuffled: Path) -> Make:
    return lambda plan, keep: records_of(plan, dqam.read(shuffled), keep)


def test_all_sums_are_the_same_and_take_few_scans(shuffled: Path, engine: Make) -> None:
    unit = Unit.person(2)
    plan, keep = Plan.of(GRID, 1, unit=unit.name, max_trips=unit.max_trips), Keep(unit, "5a17")
    labels, weights = np.arange(GRID.rows * GRID.columns) % 5, np.array([9, 1, 2, 3, 4])
    asked: list[Callable[[AnyRecords], Any]] = [
        lambda records: records.trips(),
        lambda records: records.distinct(plan.queries),
        lambda records: records.distinct(plan.queries[[77]]),
        lambda records: records.shares(),
        lambda records: records.ends(),
        lambda records: records.lengths(np.array([0, 1, 9, 30, 256])),
        lambda records: records.shadow_sizes(LATTICE, 3, CAPS),
        *(partial(lambda cap, records: records.shadow_sums(LATTICE, 3, cap), int(cap)) for cap in CAPS),
        lambda records: records.flux(labels, weights, 20),
    ]
    with in_memory(shuffled)(plan, keep) as ours, engine(plan, keep) as theirs:
        assert isinstance(theirs, Scanned)
        assert theirs.scans == 1
        for i, ask in enumerate(asked):
            np.testing.assert_array_equal(ask(ours), ask(theirs), err_msg=str(i))
            assert theirs.scans == {6: 2, 7: 2, 8: 2, 9: 2, 10: 2, 11: 2, 12: 3}.get(i, 1)
        assert 0 < int(ours.trips()[0]) <= TRIPS


@pytest.mark.parametrize("mechanism", ["flux", "dqam"])
def test_releases_are_the_same_after_two_scans(shuffled: Path, engine: Make, mechanism: str) -> None:
    plan, keep = Plan.of(GRID, 4, mechanism), Keep(Unit.trip(), "")
    made = []
    for records_by in (in_memory(shuffled), engine):
        with records_by(plan, keep) as records:
            made.append(plan.release(Curator(records, Budget(4), SeededNoise(7)), "the same"))
            assert isinstance(records, Records) or records.scans <= 2
    ours, theirs = made
    for part in ("faces", "vertical", "horizontal"):
        np.testing.assert_array_equal(getattr(ours.histogram, part), getattr(theirs.histogram, part))
    assert ours.provenance.ledger == theirs.provenance.ledger


def test_streaming_from_files_gives_the_same(shuffled: Path) -> None:
    plan, keep = Plan.of(GRID, 1), Keep(Unit.trip(), "")
    source = dqam.read(shuffled)
    source.batch = 5_000
    streamed = Scanned(Local(source), GRID, plan.queries)
    with in_memory(shuffled)(plan, keep) as records:
        np.testing.assert_array_equal(streamed.distinct(plan.queries), records.distinct(plan.queries))
        np.testing.assert_array_equal(streamed.shares(), records.shares())


def test_a_task_that_fails_changes_nothing(spark: Any, shuffled: Path, tmp_path: Path) -> None:
    """The first tries of two tasks end: one with an error, one as its process is killed."""
    from dqam.engines.spark import Spark

    plan, keep, traces = Plan.of(GRID, 1), Keep(Unit.trip(), ""), str(tmp_path)

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

    points = spark.read.parquet(str(shuffled))
    unsteady = Spark(points, keep, partitions=5)
    unsteady._trips = unsteady._trips.mapInArrow(fail_once, unsteady._trips.schema)
    records = Scanned(unsteady, GRID, plan.queries)
    with in_memory(shuffled)(plan, keep) as ours:
        np.testing.assert_array_equal(records.distinct(plan.queries), ours.distinct(plan.queries))
        np.testing.assert_array_equal(records.shares(), ours.shares())
    assert sorted(os.listdir(traces)) == ["1", "2"]


def test_publish_from_every_engine(shuffled: Path, spark: Any, tmp_path: Path) -> None:
    book = Ledger.open(tmp_path / "ledger.db")
    for engine in ("local", "duckdb", "spark"):
        release = publish(shuffled, GRID, 50, dataset="city", total=200, ledger=book, engine=engine)
        assert abs(release.trips.value - TRIPS) < 20
    frame = publish(
        spark.read.parquet(str(shuffled)), GRID, 50, unit="person", max_trips=1, dataset="people", ledger=book
    )
    persons = pd.read_parquet(shuffled).uid.nunique()
    assert abs(frame.trips.value - persons) < 20
    assert len(frame.provenance.salt) == 32


def test_what_an_engine_can_not_do_is_refused_before_anything_is_spent(shuffled: Path, tmp_path: Path) -> None:
    book = Ledger.open(tmp_path / "ledger.db")
    how = {"dataset": "city", "ledger": book}
    (tmp_path / "trips.csv").write_text("tid,datetime,lng,lat\na,2024-01-01,-30,45\n")
    points = pd.read_parquet(shuffled)
    odd, timeless, floats = (tmp_path / f"{name}.parquet" for name in ("odd", "timeless", "floats"))
    points.assign(tid=points.tid + "\u00a0").to_parquet(odd)
    points.drop(columns="datetime").to_parquet(timeless)
    points.assign(uid=points.uid + 0.5).to_parquet(floats)
    for trips, more, says in (
        (shuffled, {"engine": "abacus"}, "no engine 'abacus'"),
        (shuffled, {"engine": "duckdb", "memory": 1000}, "too little"),
        (odd, {"engine": "duckdb"}, "white space around it"),
        (timeless, {"engine": "duckdb"}, "none for time"),
        (floats, {"engine": "duckdb"}, "ids can not be DOUBLE"),
        (tmp_path / "trips.csv", {"engine": "duckdb"}, "DuckDB sorts Parquet files"),
        (pd.read_parquet(shuffled), {"engine": "duckdb"}, "DuckDB sorts Parquet files"),
    ):
        with pytest.raises(InputError, match=says):
            publish(trips, GRID, 1, **how, **more)
    with pytest.raises(InputError, match="None of the"):
        publish(shuffled, Grid.over((0, 0, 1, 1), 4), 1, engine="duckdb", **how)
    assert not book.history()


@pytest.mark.parametrize("named", ["place", "dqam_place", 'a "quoted" name', "Tid"])
def test_names_of_columns_do_not_matter(shuffled: Path, tmp_path: Path, named: str) -> None:
    points = pd.read_parquet(shuffled).rename(columns={"uid": named})
    points.to_parquet(tmp_path / "x[1].parquet")
    points[points[named] == 1].to_parquet(tmp_path / "x1.parquet")  # what a pattern would read
    unit = Unit.person(1)
    plan, keep = Plan.of(GRID, 1, unit="person", max_trips=1), Keep(unit, "5a17")
    source = dqam.read(tmp_path / "x[1].parquet", columns={"person": named})
    with records_of(plan, source, keep) as ours, records_of(plan, source, keep, "duckdb") as theirs:
        assert ours.trips()[0] == theirs.trips()[0] == points[named].nunique()
        np.testing.assert_array_equal(ours.ends(), theirs.ends())


def test_the_unit_is_that_of_the_engine(shuffled: Path) -> None:
    plan = Plan.of(GRID, 1, unit="person", max_trips=1)
    streamed = Scanned(Local(dqam.read(shuffled)), GRID, plan.queries)
    with pytest.raises(InputError, match="whose they are"):
        Curator(streamed, Budget(1), SeededNoise(0), Unit.person(1))
    with (
        pytest.raises(InputError, match="kept for the unit"),
        records_of(plan, dqam.read(shuffled), Keep(Unit.trip())),
    ):
        pass
    with records_of(plan, dqam.read(shuffled), Keep(Unit.person(1), "5a")) as records:
        with pytest.raises(InputError, match="for the unit 'trip' give all"):
            Curator(records, Budget(1), SeededNoise(0))
        with pytest.raises(InputError, match="keep only some trips|whose they are"):
            Curator(records, Budget(1), SeededNoise(0), Unit.person(2))


def test_sorted_points_do_not_stay(shuffled: Path, tmp_path: Path) -> None:
    plan = Plan.of(GRID, 1)
    with Disk(dqam.read(shuffled), Keep(plan.unit, ""), folder=str(tmp_path)) as disk:
        Scanned(disk, GRID, plan.queries).trips()
        (folder,) = tmp_path.iterdir()
        assert folder.stat().st_mode & 0o077 == 0
    assert not list(tmp_path.iterdir())
