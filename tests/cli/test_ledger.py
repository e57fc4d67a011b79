"""The ledger, as a custodian reads and changes it."""

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

import dqam
from dqam.privacy.ledger import Ledger
from dqam.values.conversion import epsilon_of
from tests.cli.cases import publish
from tests.commands import run
from tests.ledgers import account, spend


def test_the_ledger_is_shown(trips: Path, tmp_path: Path, ledger: Path) -> None:
    nothing = run("ledger", "--ledger", ledger)
    assert (nothing.returncode, "There is no ledger" in nothing.stderr) == (2, True)
    assert not ledger.exists()
    publish(trips, tmp_path / "one.nc", ledger, "--total", "2", "--dataset", "taxis [1]")
    shown = run("ledger", "--ledger", ledger)
    assert "taxis [1], for one trip" in shown.stdout
    assert "1 of 2" in shown.stdout
    (account,) = json.loads(run("ledger", "--ledger", ledger, "--json").stdout)["datasets"]
    assert (account["name"], account["left"]) == ("taxis [1]", 1)
    (publication,) = account["publications"]
    assert publication["id"] == dqam.open(tmp_path / "one.nc").provenance.id
    assert publication["delivered"]
    assert run("ledger", "--ledger", ledger, "register", "buses", "5", "--unit", "person").returncode == 0
    assert publish(trips, tmp_path / "two.nc", ledger, "--dataset", "buses").returncode == 2
    renamed = publish(trips, tmp_path / "two.nc", ledger, "--dataset", "buses", "--unit", "person")
    assert renamed.returncode == 3
    assert "publish with --dataset 'taxis [1]' and --unit trip, or with --sure" in " ".join(renamed.stderr.split())
    people = publish(trips, tmp_path / "two.nc", ledger, "--dataset", "buses", "--unit", "person", "--sure")
    assert people.returncode == 0


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


def test_a_budget_with_a_delta_is_registered_and_shown(tmp_path: Path) -> None:
    where = tmp_path / "ledger.db"
    done = run("ledger", "--ledger", where, "register", "taxis", "3", "--delta", "1e-8")
    assert (done.returncode, done.stdout) == (0, "taxis: total epsilon 3 for one trip, delta = 1e-8\n")
    assert "add up" not in run("ledger", "--ledger", where).stdout  # nothing is there to add up
    ledger = Ledger.open(where)
    first, pure = spend(ledger, "taxis", 1, delta=1e-8), spend(ledger, "taxis", "0.01")
    early = spend(ledger, "taxis", 2, delta=1e-8)
    assert first.rho
    assert early.rho
    ledger.settle(early.id, early.rho / 10)
    ledger.delivered(pure.id)
    whole = spend(ledger, "trams", "0.5", delta="2.5e-7")
    assert ledger.exchange(whole.id)
    spend(ledger, "buses", 1, 2)
    shown = " ".join(run("ledger", "--ledger", where).stdout.split())
    left = account(ledger, "taxis").left
    assert "taxis, for one trip, delta = 1e-8 When (UTC) What Epsilon" in shown
    assert "flux on grid, not delivered; spent anyway 1 " in shown
    assert "flux on grid 0.01 (pure)" in shown
    used = Fraction(shown.partition("ended early: ")[2].partition(" of 2 ")[0])
    assert 0 <= used - epsilon_of(early.rho / 10, Fraction(1, 10**8)) < Fraction(1, 10**6)
    assert f"left {float(left)} of 3 With a delta, rhos add up and epsilons do not, so these rows need not" in shown
    assert "trams, for one trip, delta = 2.5e-7" in shown
    assert "flux on grid, continued without delta, not 0.5 (pure) delivered; spent anyway" in shown  # on two lines
    assert "buses, for one trip When (UTC)" in shown
    assert shown.count("rhos add up") == 2
    found = json.loads(run("ledger", "--ledger", where, "--json").stdout)["datasets"]
    taxis, trams, buses = found
    assert [each["delta"] for each in found] == [1e-8, 2.5e-7, None]
    rest = account(ledger, "taxis").left_rho
    assert rest is not None
    assert [each["left_rho"] for each in found] == [float(rest), 0, None]
    assert (taxis["total"], taxis["left"]) == (3, float(left))
    assert [one["rho"] for one in taxis["publications"]] == [float(first.rho), None, float(early.rho)]
    assert [one["epsilon"] for one in taxis["publications"]] == [1, 0.01, 2]
    assert taxis["publications"][2]["settled"] == float(early.rho / 10)
    assert whole.rho
    assert [(one["rho"], one["exchanged"]) for one in trams["publications"]] == [(None, float(whole.rho))]
    assert [(one["rho"], one["exchanged"]) for one in buses["publications"]] == [(None, None)]


def test_totals_with_a_delta(tmp_path: Path) -> None:
    where = tmp_path / "ledger.db"
    ledger = Ledger.open(where)
    for _ in range(4):
        spend(ledger, "taxis", 1, 3, delta=1e-8)
    lower = run("ledger", "--ledger", where, "total", "taxis", "2.5")
    assert (lower.returncode, lower.stdout) == (
        0,
        f"taxis: {float(account(ledger, 'taxis').left)} of 2.5 left, delta = 1e-8\n",
    )
    for total, words in (
        ("2", "is spent and cannot be taken back, so the total cannot be 2; give at least 2.0"),
        ("2000", "With a delta, epsilon must be 1e-06 to 1000; got 2000."),
    ):
        refused = run("ledger", "--ledger", where, "total", "taxis", total, "--sure")
        assert refused.returncode == 2
        assert words in " ".join(refused.stderr.split())
    for delta, words in (("0.5", "from 1e-30 to 0.01, or left out; got '0.5'"), ("much", "got 'much'")):
        refused = run("ledger", "--ledger", where, "register", "trams", "1", "--delta", delta)
        assert refused.returncode == 2
        assert words in " ".join(refused.stderr.split())
    assert [each.epsilon for each in account(ledger, "taxis").totals] == [3, Fraction(5, 2)]


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


def test_a_large_delta_is_registered_only_if_the_custodian_is_sure(tmp_path: Path) -> None:
    large = ["ledger", "--ledger", tmp_path / "ledger.db", "register", "taxis", "3", "--delta", "1e-3"]
    refused = run(*large)
    assert (refused.returncode, "confirm it with --sure" in refused.stderr) == (2, True)
    assert run(*large, "--sure").returncode == 0
