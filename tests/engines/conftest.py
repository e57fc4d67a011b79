"""Shuffled points for every engine."""

from pathlib import Path

import duckdb
import pytest

from dqam import cities
from tests.engines.cases import TRIPS


@pytest.fixture(scope="session")
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
