"""Ledgers in new places: an SQLite file, and a schema of a PostgreSQL server."""

import uuid
from pathlib import Path

import pytest

from dqam.privacy.ledger import Ledger
from tests.ledgers import run_sql


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new place for a ledger: a file, or a schema of the server."""
    if request.param == "sqlite":
        return str(tmp_path / "of the custodian" / "ledger.db")
    url = request.getfixturevalue("postgresql_url")
    schema = f"s{uuid.uuid4().hex}"
    run_sql(url, f"CREATE SCHEMA {schema}")
    return f"{url}&options=-csearch_path%3D{schema}"


@pytest.fixture
def ledger(where: str) -> Ledger:
    return Ledger.open(where)


OLD = """
CREATE TABLE dqam_ledger (version INTEGER NOT NULL, PRIMARY KEY (version));
CREATE TABLE dqam_data_sets (name TEXT NOT NULL, unit TEXT NOT NULL CHECK (unit IN ('trip', 'person')),
    registered TEXT NOT NULL, PRIMARY KEY (name));
CREATE TABLE dqam_totals (number {serial}, data_set TEXT NOT NULL REFERENCES dqam_data_sets (name),
    epsilon TEXT NOT NULL, noted TEXT NOT NULL, PRIMARY KEY (number));
CREATE TABLE dqam_publications (number {serial}, id TEXT NOT NULL UNIQUE,
    data_set TEXT NOT NULL REFERENCES dqam_data_sets (name), epsilon TEXT NOT NULL, unit TEXT NOT NULL,
    max_trips INTEGER NOT NULL, mechanism TEXT NOT NULL, grid TEXT NOT NULL, noted TEXT NOT NULL, release TEXT,
    PRIMARY KEY (number));
CREATE INDEX ix_dqam_totals_data_set ON dqam_totals (data_set);
CREATE INDEX ix_dqam_publications_data_set ON dqam_publications (data_set);
INSERT INTO dqam_ledger VALUES (1);
INSERT INTO dqam_data_sets VALUES ('taxis', 'trip', '2026-01-01T00:00:00.000+00:00');
INSERT INTO dqam_totals (data_set, epsilon, noted) VALUES ('taxis', '3', '2026-01-01T00:00:00.000+00:00');
INSERT INTO dqam_publications (id, data_set, epsilon, unit, max_trips, mechanism, grid, noted, release) VALUES
    ('one', 'taxis', '1/2', 'trip', 1, 'flux', 'grid', '2026-01-01T00:00:00.000+00:00', NULL)
"""


SECOND = """
CREATE TABLE dqam_secrets (name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (name));
CREATE TABLE dqam_sketches (number {serial}, data_set TEXT NOT NULL REFERENCES dqam_data_sets (name),
    digest TEXT NOT NULL, sketch {binary} NOT NULL, PRIMARY KEY (number), UNIQUE (data_set, digest));
ALTER TABLE dqam_publications ADD COLUMN settled TEXT;
INSERT INTO dqam_secrets VALUES ('sketches', '000102030405060708090a0b0c0d0e0f');
INSERT INTO dqam_publications (id, data_set, epsilon, unit, max_trips, mechanism, grid, noted, settled) VALUES
    ('two', 'taxis', '1', 'trip', 1, 'flux', 'grid', '2026-01-02T00:00:00.000+00:00', '1/3');
UPDATE dqam_ledger SET version = 2
"""


def run_script(where: str, script: str) -> None:
    types = ("SERIAL", "BYTEA") if "://" in where else ("INTEGER NOT NULL", "BLOB")
    for statement in script.format(serial=types[0], binary=types[1]).split(";"):
        run_sql(where, statement)


@pytest.fixture
def old(where: str) -> str:
    """A ledger of version 1, with 1/2 of 3 spent."""
    if "://" not in where:
        Path(where).parent.mkdir()
    run_script(where, OLD)
    return where


@pytest.fixture
def second(old: str) -> str:
    """A ledger of version 2, with 5/6 of 3 spent: of a publication of 1, which was settled, only 1/3."""
    run_script(old, SECOND)
    return old
