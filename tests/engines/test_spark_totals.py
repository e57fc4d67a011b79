"""What is found in the parts adds up, and an error in one of them is kept."""

from pathlib import Path
from typing import Any

import pytest

import dqam
from dqam.errors import InputError
from dqam.privacy.contribution import ContributionBound
from dqam.publishing.plan import Plan
from dqam.statistics.trip_count import TripsOnGrid
from dqam.values.guarantee import Unit
from tests.engines.cases import GRID, with_first_scan


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
