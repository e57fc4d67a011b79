"""Ledgers of version 1 are upgraded, and newer ones are refused."""

import sqlite3
from fractions import Fraction

import psycopg
import pytest

from dqam.errors import InputError
from dqam.privacy.ledger import Ledger, SameTripsError
from tests.ledgers import TRIP, check_same, run_sql, spend, trips


def test_a_newer_ledger(where: str, ledger: Ledger) -> None:
    run_sql(where, "UPDATE dqam_ledger SET version = 3")
    for use in (lambda: Ledger.open(where), ledger.history, lambda: spend(ledger, "porto", 1)):
        with pytest.raises(InputError, match="has version 3 and this dqam knows version 2; install a newer dqam"):
            use()
    run_sql(where, "DELETE FROM dqam_ledger")
    with pytest.raises(InputError, match="damaged: it has no version"):
        Ledger.open(where)


def test_an_old_ledger_is_upgraded(old: str) -> None:
    ledger = Ledger.open(old)
    assert run_sql(old, "SELECT version FROM dqam_ledger") == [(2,)]
    (taxis,) = ledger.history()
    assert (taxis.name, taxis.left, taxis.publications[0].settled) == ("taxis", Fraction(5, 2), None)
    ledger.settle("one", Fraction(1, 4))
    spent = ledger.spend("taxis", 1, TRIP, "flux", "grid", sketch=trips(ledger, 0, 100))
    assert (spent.left, spent.new_ledger, spent.new_data_set) == (Fraction(7, 4), False, False)
    with pytest.raises(SameTripsError):
        check_same(Ledger.open(old), "copy", TRIP, trips(ledger, 0, 100))


def test_an_upgrade_is_whole_or_not_at_all(old: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(size: int) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr("secrets.token_hex", fail)
        with pytest.raises(KeyboardInterrupt):
            Ledger.open(old)
    assert run_sql(old, "SELECT version FROM dqam_ledger") == [(1,)]
    for new in ("SELECT * FROM dqam_secrets", "SELECT settled FROM dqam_publications"):
        with pytest.raises((sqlite3.OperationalError, psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn)):
            run_sql(old, new)
    test_an_old_ledger_is_upgraded(old)
