"""Names that a reader would take for one are one data set; others are told apart."""

import unicodedata
from pathlib import Path

import pytest

from dqam.errors import BudgetError, InputError
from dqam.privacy.ledger import Ledger
from dqam.privacy.ledger.names import canonical_name
from tests.ledgers import TRIP, account, spend


@pytest.mark.parametrize("name", ["", "  ", "x" * 201, "a\nb", "a\x00b", "\x1b[2J", "a\udc80", "a\u2028b", None])
def test_bad_names(tmp_path: Path, name: str) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    with pytest.raises(InputError, match="The name of a data set"):
        spend(ledger, name, 1)
    assert ledger.history() == []


@pytest.mark.parametrize("name", ["x" * 200, "Évora", "город 7", "'; DROP TABLE dqam_totals; --", "%s :x ?"])
def test_good_names(ledger: Ledger, name: str) -> None:
    spend(ledger, f" {name}", 1, 3)
    spend(ledger, unicodedata.normalize("NFD", name), 1)  # the same name
    with pytest.raises(BudgetError):
        spend(ledger, f"{name.upper()}\u200b", 2)
    assert account(ledger, name).left == 1


@pytest.mark.parametrize(
    ("name", "alike"),
    [
        ("taxis", "ta\u0445is"),  # with a Cyrillic letter
        ("taxis", "\u0442\u0430\u0445\u0456\u0455"),  # with nothing but Cyrillic letters
        ("taxis", "\u0422AXIS"),  # this looks like a T only in upper case
        ("taxis", "tax\ufe0fis"),  # with an invisible mark
        ("taxis", "\U0001d42d\U0001d41a\U0001d431\U0001d422\U0001d42c"),
        ("\u0442\u0430\u043a\u0441\u0438", "\u0422\u0410\u041a\u0421\u0418"),  # lower and upper case
        ("run1", "runl"),
        ("run1", "RUNI"),
        ("2010", "2o1O"),
        ("march", "rnarch"),
        ("a-b", "a\u2013b"),
    ],
)
def test_names_that_look_alike_are_one(tmp_path: Path, name: str, alike: str) -> None:
    for first, second in ((name, alike), (alike, name)):
        ledger = Ledger.open(tmp_path / f"{first == name}.db")
        spend(ledger, first, 1, 2)
        assert spend(ledger, second, 1).data_set == canonical_name(first)
        (only,) = ledger.history(second)
        assert only.left == 0
        with pytest.raises(BudgetError):
            spend(ledger, second, 1)
        with pytest.raises(BudgetError):
            ledger.check(second, 1, TRIP)
        with pytest.raises(InputError, match="in the ledger already"):
            ledger.register(second, 1, "trip")
        ledger.set_total(second, 3)
        assert [each.name for each in ledger.history()] == [canonical_name(first)]
        assert account(ledger, first).left == 1


def test_a_name_that_only_looks_like_another_is_told(ledger: Ledger) -> None:
    spend(ledger, "taxis", 1)
    with pytest.raises(
        BudgetError,
        match=r"^taxis \(which 'ta\u0445is' looks like\): epsilon 1 .*`Ledger.set_total\('taxis', EPSILON\)`",
    ):
        spend(ledger, "ta\u0445is", 1)


def test_ordinary_names_are_told_apart(ledger: Ledger) -> None:
    names = [
        "m",
        "n",
        "march",
        "april",
        "a-b",
        "a_b",
        "a b",
        "ab",
        "run 1",
        "run 2",
        "run 10",
        "2010",
        "2011",
        "e",
        "\xe9",
    ]
    names += [
        "mile",
        "mlle",
        "phase 2",
        "phase 3",
        "trips (1)",
        "trips [1]",
        "a.b",
        "a,b",
        "u",
        "v",
        "w",
        "vv",
        "d",
        "cl",
    ]
    for name in names:
        spend(ledger, name, 1)
    assert [each.name for each in ledger.history()] == names


def test_an_exact_name_goes_before_one_that_looks_alike(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:  # as in ledgers of version 1
        before.setattr("dqam.privacy.ledger.rows.looks", lambda name: frozenset([name]))
        for name in ("runl", "run1"):
            spend(ledger, name, 1, 2)
    assert spend(ledger, "run1", 1).data_set == "run1"
    assert spend(ledger, "run|", 1).data_set == "runl"  # the oldest
    assert [each.left for each in ledger.history()] == [0, 0]
