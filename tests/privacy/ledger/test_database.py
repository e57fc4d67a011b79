"""Transactions are durable, and a database that fails charges nothing and says why."""

import sqlite3
import time
from fractions import Fraction
from pathlib import Path

import pytest
from sqlalchemy import event

from dqam.errors import InputError
from dqam.privacy.ledger import Ledger
from tests.ledgers import TRIP, account, run_sql, spend


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("This is no database. " * 100)
    for place, words in (
        (tmp_path, "unable to open"),
        (tmp_path / "text", "not a database"),
        (tmp_path / "text" / "ledger.db", "folder of the ledger .* cannot be created"),
        (Path("/dev/full"), "disk is full"),
    ):
        with pytest.raises(InputError, match=words):
            Ledger.open(place)
    assert (tmp_path / "text").read_text().startswith("This is no database.")


def test_text_that_no_database_takes(ledger: Ledger) -> None:
    with pytest.raises(InputError, match="cannot be used"):
        ledger.spend("porto", 1, TRIP, "flux", "a\udc80")
    assert ledger.history() == []


def test_a_full_disk_charges_nothing(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    spend(ledger, "porto", "0.1", 1)

    def fill(connection: sqlite3.Connection, _: object) -> None:
        connection.execute("PRAGMA max_page_count = 1")  # as many as there are

    event.listen(ledger._database.engine, "connect", fill)
    with pytest.raises(InputError, match="database or disk is full"):
        ledger.spend("porto", "0.1", TRIP, "flux", "x" * 100_000)
    event.remove(ledger._database.engine, "connect", fill)
    assert account(ledger, "porto").left == Fraction(9, 10)


def test_a_ledger_that_can_only_be_read(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    spend(ledger, "porto", "0.1", 1)
    event.listen(ledger._database.engine, "connect", lambda connection, _: connection.execute("PRAGMA query_only = ON"))
    assert account(ledger, "porto").left == Fraction(9, 10)
    with pytest.raises(InputError, match="readonly"):
        spend(ledger, "porto", "0.1")


def test_a_busy_ledger(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dqam.privacy.ledger.database.TIMEOUT", 0.1)
    ledger = Ledger.open(where)
    ledger.register("porto", 1, "trip")
    with Ledger.open(where)._database.transaction():
        with pytest.raises(InputError, match="busy for more than"):
            spend(ledger, "porto", 1)
        assert account(ledger, "porto").left == 1  # reading goes on
    spend(ledger, "porto", 1)


def test_sqlite_is_durable(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    with ledger._database.transaction() as connection:
        asked = [connection.exec_driver_sql(f"PRAGMA {p}").scalar() for p in ("synchronous", "journal_mode")]
        assert asked == [3, "delete"]  # EXTRA
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.db"]


def test_postgresql_is_durable(postgresql_url: str) -> None:
    ledger = Ledger.open(f"{postgresql_url}&options=-csynchronous_commit%3Doff")
    for write, setting in ((True, "on"), (False, "off")):
        with ledger._database.transaction(write) as connection:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == setting
            assert connection.exec_driver_sql("SHOW fsync").scalar() == "on"


def test_no_connection_stays_open(postgresql_url: str) -> None:
    ledger = Ledger.open(postgresql_url)
    for _ in range(3):
        with pytest.raises(InputError):
            ledger.delivered("nothing")
    rest = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    deadline = time.monotonic() + 60
    while run_sql(postgresql_url, rest) != [(0,)]:  # the server takes a moment to notice
        assert time.monotonic() < deadline, "a connection stays open"
        time.sleep(0.02)
