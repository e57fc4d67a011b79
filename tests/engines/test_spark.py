"""Spark counts every trip once, whatever fails, changes or is planned otherwise."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dqam
from dqam.errors import InputError
from dqam.privacy.contribution import ContributionBound
from dqam.publishing.pipeline import aggregates_of
from dqam.publishing.plan import Plan
from dqam.statistics.cell_shares import MassByCell
from dqam.statistics.distinct import DistinctTrips
from dqam.statistics.endpoints import EndpointsByCell
from dqam.statistics.shadow_sums import ShadowSizes
from dqam.statistics.trip_count import TripsOnGrid
from dqam.values.guarantee import Unit
from tests.engines.cases import CAPS, GRID, LATTICE, TRIPS, in_memory, with_first_scan


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
