"""generate: the same trips for the same seed, and nothing left when it is ended."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dqam import cities
from tests.commands import listen_to_signals, run


def test_generate_is_seeded(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.parquet", "b.parquet", "c.parquet")]
    for path, seed in zip(files, ("1", "1", "2"), strict=True):
        done = run("generate", "city", "-n", "200", "--seed", seed, "-o", path, "--json")
        assert json.loads(done.stdout)["trips"] == 200
    a, b, c = (pq.read_table(path) for path in files)
    assert a.equals(b)
    assert not a.equals(c)


def test_a_city_with_a_rhythm(tmp_path: Path) -> None:
    for name, more in (("flat.parquet", []), ("week.parquet", ["--rhythm"])):
        assert run("generate", "city", "-n", "200", *more, "-o", tmp_path / name).returncode == 0
    (expected,) = cities.city_trips(200, 0, rhythm=True)
    flat, week = (pq.read_table(tmp_path / name) for name in ("flat.parquet", "week.parquet"))
    assert week.column("lng").to_numpy() == pytest.approx(expected.x)
    assert not flat.equals(week)


def test_nothing_stays_when_the_command_is_ended(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from dqam.cli import main; main()", "generate", "city", "-n", "2000000"]
    for ending in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        process = subprocess.Popen(
            [*command, "-o", str(tmp_path / "big.parquet")], stderr=subprocess.DEVNULL, preexec_fn=listen_to_signals
        )
        try:
            while not list(tmp_path.iterdir()):
                assert process.poll() is None
                time.sleep(0.05)
            process.send_signal(ending)
            assert process.wait(30) in (143, 129, 130)
        finally:
            process.kill()
        assert list(tmp_path.iterdir()) == []


def test_nohup_is_heard(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from dqam.cli import main; main()", "generate", "city", "-n", "60000"]
    process = subprocess.Popen(
        [*command, "-o", str(tmp_path / "big.parquet")],
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    while not list(tmp_path.iterdir()):
        time.sleep(0.05)
    process.send_signal(signal.SIGHUP)
    assert process.wait(60) == 0
