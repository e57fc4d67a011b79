"""audit and mechanisms: what they say and how they end."""

import json
from pathlib import Path

from tests.commands import run, run_apart


def test_audit_exits_with_1_when_a_mechanism_is_above_its_claim(tmp_path: Path) -> None:
    figure = tmp_path / "audit.png"
    done = run("audit", "count", "--runs", "300", "--figure", figure)
    assert done.returncode == 0, done.stderr
    assert "below its claim" in done.stdout
    assert figure.read_bytes().startswith(b"\x89PNG")
    done = run("audit", "fault-half-count", "--runs", "1000", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["failed"] == ["fault-half-count"]


def test_audit_of_a_claim_with_a_delta() -> None:
    done = run("audit", "count-delta", "--runs", "20000", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["delta"], found["audits"][0]["delta"]) == (0.001, 0.001)
    assert 0.2 < found["audits"][0]["epsilon_hat"] <= 1
    done = run("audit", "fault-half-count-delta", "--delta", "1e-2", "--epsilon", "2", "--runs", "20000")
    assert done.returncode == 1
    assert "claimed epsilon 2 and delta 0.01" in done.stdout
    for arguments, status in ((["count", "--delta", "1e-3"], 0), (["count-delta", "--delta", "0"], 2)):
        done = run("audit", *arguments, "--runs", "1000")
        assert done.returncode == status
    assert "leave --delta out" in done.stderr
    assert json.loads(run("audit", "count", "--runs", "300", "--json").stdout)["delta"] == 0


def test_audit_of_a_callable_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def leak(trips, rng):\n    return len(trips)\n")
    done = run_apart("audit", "mine:leak", "--runs", "200", folder=tmp_path)
    assert done.returncode == 1, done.stderr
    for name, says in (("mine", "is not known"), ("nowhere:f", "cannot be imported")):
        done = run("audit", name)
        assert (done.returncode, says in done.stderr) == (2, True)


def test_the_table_of_mechanisms() -> None:
    done = run("mechanisms", "--json")
    assert done.returncode == 0, done.stderr
    table = json.loads(done.stdout)
    assert table["dqam"]["publishable"]
    assert not table["dqam-printed"]["publishable"]
    assert "DQAM as printed" in run("mechanisms").stdout
