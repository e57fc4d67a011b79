"""`dqam ledger`: what it shows, and when it asks before a total is raised."""

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from dqam.privacy.ledger import Ledger
from tests.commands import run
from tests.ledgers import account, spend


def test_a_total_is_raised_only_if_the_custodian_is_sure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = tmp_path / "ledger.db"
    ledger = Ledger.open(where)
    spend(ledger, "taxis", "0.5", 2)
    for total in ("1", "1", "0.5"):  # no confirmation is needed
        assert run("ledger", "--ledger", where, "total", "taxis", total).returncode == 0
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    refused = run("ledger", "--ledger", where, "total", "TAXIS", "0.7")
    assert refused.returncode == 2
    assert " ".join(refused.stderr.split()) == (
        "Error: Raising the total of taxis from 0.5 to 0.7 weakens the guarantee given to the people in the data; add "
        "--sure if that is what you want."
    )
    assert account(ledger, "taxis").total == Fraction(1, 2)
    asked: list[str] = []

    def answer(yes: bool) -> Callable[..., bool]:
        return lambda question, **_: bool(asked.append(question)) or yes

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    for yes, code, total in ((False, 2, "1/2"), (True, 0, "7/10")):
        monkeypatch.setattr("click.confirm", answer(yes))
        done = run("ledger", "--ledger", where, "total", "taxis", "0.7")
        assert (done.returncode, account(ledger, "taxis").total) == (code, Fraction(total))
    assert asked[0].endswith("to the people in the data. Raise it?")
    assert len(asked) == 2
    assert "0.5 of 1 left" in run("ledger", "--ledger", where, "total", "taxis", "1", "--sure").stdout
    assert len(asked) == 2
    assert run("ledger", "--ledger", where, "total", "buses", "1").returncode == 2
    assert run("ledger", "--ledger", where, "total", "taxis", "much").returncode == 2


def test_what_ended_early_is_shown(tmp_path: Path) -> None:
    where = tmp_path / "ledger.db"
    ledger = Ledger.open(where)
    ledger.settle(spend(ledger, "taxis", 1, 2).id, Fraction(1, 20))
    spend(ledger, "taxis", 1)
    shown = " ".join(run("ledger", "--ledger", where).stdout.split())
    assert "ended early: 0.05 of 1 spent" in shown
    assert "not delivered; spent anyway" in shown
    assert "0.95 of 2" in shown
    (taxis,) = json.loads(run("ledger", "--ledger", where, "--json").stdout)["datasets"]
    assert [(one["epsilon"], one["settled"]) for one in taxis["publications"]] == [(1, 0.05), (1, None)]
    assert (taxis["spent"], taxis["left"]) == (1.05, 0.95)
