"""Parts of whole trips: ids are normalised before they divide, and trips have fingerprints."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import dqam
from dqam.errors import InputError
from dqam.geometry.trips import Trips
from dqam.privacy.contribution import ContributionBound
from dqam.publishing.pipeline import aggregates_of
from dqam.publishing.plan import Plan
from dqam.statistics.cell_shares import MassByCell
from dqam.statistics.trip_count import TripsOnGrid
from tests.engines.cases import GRID, in_memory, with_first_scan


def test_trips_that_are_cut_otherwise_have_another_fingerprint() -> None:
    from dqam.engines.spark_parts import _by_part, fingerprint

    place, time = np.arange(6.0), np.arange(6)
    whole = Trips(place, place, np.array([0, 2, 6]), time)
    assert fingerprint(whole) != fingerprint(Trips(place, place, np.array([0, 3, 6]), time))
    order = np.array([2, 3, 4, 5, 0, 1])
    assert fingerprint(whole) == fingerprint(Trips(place[order], place[order], np.array([0, 4, 6]), time[order]))
    sliced = [replace(whole, slices=np.array(labels, np.int16)) for labels in ([0, 1], [1, 0], [0, 0])]
    assert len({fingerprint(trips) for trips in sliced}) == 3
    empty = pa.record_batch({"trip": pa.array([], pa.int64()), "part": pa.array([], pa.int32())})
    assert _by_part([empty]).num_rows == 0


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
