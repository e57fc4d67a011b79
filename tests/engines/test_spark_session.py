"""Files as data frames, and a session of its own for the command."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dqam
from dqam.errors import InputError
from dqam.privacy.contribution import ContributionBound
from dqam.publishing.pipeline import aggregates_of
from dqam.publishing.plan import Plan
from dqam.statistics.trip_count import TripsOnGrid
from tests.conftest import QUICK_JAVA
from tests.engines.cases import GRID, TRIPS


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


def test_the_command_begins_a_session_of_its_own(shuffled: Path, spark: Any, tmp_path: Path) -> None:
    """With its own Python, for its user's eyes, and with bounds that miss the points in one sentence."""
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    environment["JDK_JAVA_OPTIONS"] = QUICK_JAVA
    command = [sys.executable, "-c", "from dqam.cli import main; main()", "publish", str(shuffled), "--bounds"]
    more = ["--epsilon", "1", "-o", str(tmp_path / "map.nc"), "--ledger", str(tmp_path / "ledger.db"), "--engine"]
    done = subprocess.run(
        [*command, "1", "2", "3", "4", *more, "spark"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "hardly any trips on the map" in done.stderr
    assert "Traceback" not in done.stderr
