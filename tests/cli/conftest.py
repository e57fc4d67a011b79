"""Trips that several commands read."""

from pathlib import Path

import pytest

from dqam import cities


@pytest.fixture
def north(tmp_path: Path) -> Path:
    """A trip in the north, where longitudes are smaller than latitudes."""
    path = tmp_path / "north.csv"
    path.write_text("tid,datetime,lng,lat\na,2024-01-01,-8.62,41.14\na,2024-01-02,-8.60,41.15\n")
    return path


@pytest.fixture(scope="module")
def trips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trips") / "city.parquet"
    cities.write_parquet(cities.city_trips(300, 0), path, 300)
    return path


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    (tmp_path / "books").mkdir()
    return tmp_path / "books" / "ledger.db"
