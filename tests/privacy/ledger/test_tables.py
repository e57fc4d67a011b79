"""Ledgers of versions 1 and 2 are upgraded, and newer ones are refused."""

import sqlite3
from fractions import Fraction

import psycopg
import pytest

from dqam.errors import InputError
from dqam.privacy.ledger import Ledger, SameTripsError
from tests.ledgers import TRIP, check_same, run_sql, spend, trips


def test_a_newer_ledger(where: str, ledger: Ledger) -> None:
    run_sql(where, "UPDATE dqam_ledger SET version = 4")
    for use in (lambda: Ledger.open(where), ledger.history, lambda: spend(ledger, "porto", 1)):
        with pytest.raises(InputError, match="has version 4 and this dqam knows version 3; install a newer dqam"):
            use()
    run_sql(where, "DELETE FROM dqam_ledger")
    with pytest.raises(InputError, match="damaged: it has no version"):
        Ledger.open(where)


def test_an_old_ledger_is_upgraded(old: str) -> None:
    ledger = Ledger.open(old)
    assert run_sql(old, "SELECT version FROM dqam_ledger") == [(3,)]
    (taxis,) = ledger.history()
    assert (taxis.delta, taxis.left_rho, taxis.publications[0].rho) == (0, None, None)
    assert (taxis.name, taxis.left, taxis.publications[0].settled) == ("taxis", Fraction(5, 2), None)
    ledger.settle("one", Fraction(1, 4))
    spent = ledger.spend("taxis", 1, TRIP, "flux", "grid", sketch=trips(ledger, 0, 100))
    assert (spent.left, spent.new_ledger, spent.new_data_set) == (Fraction(7, 4), False, False)
    with pytest.raises(SameTripsError):
        check_same(Ledger.open(old), "copy", TRIP, trips(ledger, 0, 100))
    check_both_promises(old)


def test_a_ledger_of_version_2_is_upgraded(second: str) -> None:
    ledger = Ledger.open(second)
    assert run_sql(second, "SELECT version FROM dqam_ledger") == [(3,)]
    assert ledger.sketch_key == "000102030405060708090a0b0c0d0e0f"
    (taxis,) = ledger.history()
    assert (taxis.delta, taxis.spent, taxis.left, taxis.left_rho) == (0, Fraction(5, 6), Fraction(13, 6), None)
    assert [(one.cost, one.settled, one.rho) for one in taxis.publications] == [
        (Fraction(1, 2), None, None),
        (Fraction(1, 3), Fraction(1, 3), None),
    ]
    check_both_promises(second)


def check_both_promises(where: str) -> None:
    """After an upgrade, the old data set is still pure, and new ones can have a delta."""
    ledger = Ledger.open(where)
    with pytest.raises(InputError, match="taxis has a pure budget"):
        spend(ledger, "taxis", "0.1", delta=1e-8)
    assert not ledger.exchange("one")
    charge = spend(ledger, "buses", 1, delta=1e-8)
    assert ledger.exchange(charge.id)
    assert run_sql(where, "SELECT name, delta FROM dqam_data_sets ORDER BY name DESC") == [
        ("taxis", None),
        ("buses", "1/100000000"),
    ]


def test_an_upgrade_is_whole_or_not_at_all(old: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(size: int) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr("secrets.token_hex", fail)
        with pytest.raises(KeyboardInterrupt):
            Ledger.open(old)
    assert run_sql(old, "SELECT version FROM dqam_ledger") == [(1,)]
    added = ("settled FROM dqam_publications", "rho FROM dqam_publications", "delta FROM dqam_data_sets")
    for new in ("SELECT * FROM dqam_secrets", *(f"SELECT {column}" for column in added)):
        with pytest.raises((sqlite3.OperationalError, psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn)):
            run_sql(old, new)
    test_an_old_ledger_is_upgraded(old)
