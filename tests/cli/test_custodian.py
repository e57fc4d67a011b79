"""publish, query, export, report and ledger, as a custodian and an analyst run them."""

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from unittest.mock import patch

import numpy as np
import pytest

import dqam
from dqam import cities
from dqam.cli.custodian import _saved
from dqam.privacy.ledger import Ledger
from tests.commands import run

FUZZED = int(os.environ.get("DQAM_FUZZ", "300"))
BOUNDS = ["--bounds", *map(str, cities.BOUNDS)]
MIDDLE = ["--bounds", "-30.02", "44.98", "-29.98", "45.02"]


@pytest.fixture(scope="module")
def trips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trips") / "city.parquet"
    cities.write_parquet(cities.city_trips(300, 0), path, 300)
    return path


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    (tmp_path / "books").mkdir()
    return tmp_path / "books" / "ledger.db"


def publish(
    trips: Path, output: Path, ledger: Path | str, *more: str | Path, epsilon: str = "1"
) -> CompletedProcess[str]:
    how = ["-k", "4", "--epsilon", epsilon, "-o", output, "--ledger", ledger]
    return run("publish", trips, *BOUNDS, *how, *more)


def test_publish_query_export_report(trips: Path, tmp_path: Path, ledger: Path) -> None:
    map_ = tmp_path / "map.nc"
    done = publish(trips, map_, ledger, "--title", "A city", "--total", "3")
    assert done.returncode == 0, done.stderr
    assert "Differentially private for one trip, epsilon = 1." in done.stdout
    assert "2 of 3 left" in done.stdout
    release = dqam.open(map_)
    answer = release.count(*map(float, MIDDLE[1:]))
    asked = run("query", map_, *MIDDLE, *MIDDLE, "--json")
    found = json.loads(asked.stdout)
    assert found["counts"] == [answer.value] * 2
    assert (found["low"], found["high"]) == ([answer.low] * 2, [answer.high] * 2)
    assert found["private"] is True
    assert f"{answer.value:,.0f}" in run("query", map_, *MIDDLE).stdout
    for name in ("cells.csv", "cells.parquet", "cells.tif"):
        assert run("export", map_, "-o", tmp_path / name).returncode == 0
        assert (tmp_path / name).stat().st_size
    again = run("export", map_, "-o", tmp_path / "cells.csv")
    assert (again.returncode, "--overwrite" in again.stderr) == (2, True)
    assert run("export", map_, "-o", tmp_path / "cells.csv", "--overwrite").returncode == 0
    page = run("report", map_)
    assert page.stdout.split() == [str(tmp_path / "map.html")]
    assert "A city" in (tmp_path / "map.html").read_text()
    assert sorted(os.listdir(tmp_path)) == ["books", "cells.csv", "cells.parquet", "cells.tif", "map.html", "map.nc"]


def test_rectangles_of_a_file_and_answers_in_one(trips: Path, tmp_path: Path, ledger: Path) -> None:
    publish(trips, tmp_path / "map.nc", ledger)
    (tmp_path / "areas.csv").write_text("west,south,east,north\n-30.02,44.98,-29.98,45.02\n-30.01,44.99,-30,45\n")
    done = run("query", tmp_path / "map.nc", "--rectangles", tmp_path / "areas.csv", "-o", tmp_path / "found.csv")
    assert done.returncode == 0, done.stderr
    header, first, _ = (tmp_path / "found.csv").read_text().splitlines()
    assert header == "west,south,east,north,trips,low,high,grown,cut"
    value = dqam.open(tmp_path / "map.nc").count(-30.02, 44.98, -29.98, 45.02).value
    assert float(first.split(",")[4]) == value


def test_the_budget_is_refused_with_3(trips: Path, tmp_path: Path, ledger: Path) -> None:
    assert publish(trips, tmp_path / "one.nc", ledger).returncode == 0
    done = publish(trips, tmp_path / "two.nc", ledger, epsilon="0.1")
    assert done.returncode == 3
    assert "0 of 1 is left" in done.stderr
    assert "dqam ledger total city" in done.stderr
    assert not (tmp_path / "two.nc").exists()
    assert run("ledger", "--ledger", ledger, "total", "city", "1.1", "--sure").returncode == 0
    assert publish(trips, tmp_path / "two.nc", ledger, "--sure", epsilon="0.1").returncode == 0
    assert publish(trips, tmp_path / "x.nc", ledger, "--total", "0.1", "--dataset", "y").returncode == 3


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
    assert publication["saved"]
    assert run("ledger", "--ledger", ledger, "register", "buses", "5", "--unit", "person").returncode == 0
    assert publish(trips, tmp_path / "two.nc", ledger, "--dataset", "buses").returncode == 2
    renamed = publish(trips, tmp_path / "two.nc", ledger, "--dataset", "buses", "--unit", "person")
    assert renamed.returncode == 3
    assert "(--dataset 'taxis [1]' --unit trip), or add --sure" in " ".join(renamed.stderr.split())
    people = publish(trips, tmp_path / "two.nc", ledger, "--dataset", "buses", "--unit", "person", "--sure")
    assert people.returncode == 0


def test_a_plan_spends_nothing_and_writes_nothing(trips: Path, tmp_path: Path, ledger: Path) -> None:
    how = ["-k", "4", "--epsilon", "1", "--plan", "--expect", "2000", "--ledger", ledger]
    done = run("publish", trips, *BOUNDS, *how, "-o", tmp_path / "map.nc")
    assert done.returncode == 0, done.stderr
    assert "Nothing was spent" in done.stdout
    assert "Number of trips and average answer" in " ".join(done.stdout.split())
    plan = json.loads(run("publish", trips, *BOUNDS, *how, "--json").stdout)
    assert sum(row["epsilon"] for row in plan["plans"][0]["budget"]) == pytest.approx(1)
    assert not ledger.exists()
    assert not (tmp_path / "map.nc").exists()


def test_a_release_is_not_replaced_by_chance(trips: Path, tmp_path: Path, ledger: Path) -> None:
    publish(trips, tmp_path / "map.nc", ledger, "--total", "9")
    before = (tmp_path / "map.nc").read_bytes()
    done = publish(trips, tmp_path / "map.nc", ledger)
    assert done.returncode == 2
    assert "--overwrite" in done.stderr
    assert (tmp_path / "map.nc").read_bytes() == before
    assert publish(trips, tmp_path / "map.nc", ledger, "--overwrite").returncode == 0
    assert (tmp_path / "map.nc").read_bytes() != before


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--epsilon", "0"], "such as 1 or 0.1; got 0."),
        (["--epsilon", "11"], "publish anyway with --sure"),
        (["--bounds", "-30.06", "-29.94", "44.96", "45.04"], "Did you mean -30.06 44.96 -29.94 45.04?"),
        (["-o", "map.csv"], "end with .nc"),
        (["--epsilon", "x"], "positive number, such as 1 or 0.1; got 'x'"),
        (["--mechanism", "magic"], "no mechanism 'magic'"),
        (["--mechanism", "dawa-printed"], "not private"),
        (["--max-trips", "2"], "needs --unit person"),
        (["--queries", "nowhere.csv"], "cannot be read"),
        (["-o", "no/such/folder/map.nc"], "no folder"),
        (["--ledger", "mysql://host/x"], "SQLite or PostgreSQL"),
        (["--ledger", "postgresql://me:secret@127.0.0.1:1/x"], "cannot be used"),
        (["--dataset", ""], "1 to 200 characters"),
    ],
)
def test_bad_input_is_one_sentence_and_costs_nothing(
    trips: Path, tmp_path: Path, ledger: Path, more: list[str], words: str
) -> None:
    done = publish(trips, tmp_path / "map.nc", ledger, *more)
    assert done.returncode == 2
    assert words in " ".join(done.stderr.split())
    assert "secret" not in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "map.nc").exists()
    assert not Ledger.open(ledger).history()


def test_what_begins_is_said(trips: Path, tmp_path: Path, ledger: Path) -> None:
    assert "is new. If you had another" in publish(trips, tmp_path / "one.nc", ledger, "--total", "3").stderr
    assert "new" not in publish(trips, tmp_path / "two.nc", ledger, "--dataset", "CITY").stderr
    refused = publish(trips, tmp_path / "three.nc", ledger, "--dataset", "copy")
    assert (refused.returncode, "new data set" in refused.stderr) == (3, False)  # because nothing was recorded
    copied = publish(trips, tmp_path / "three.nc", ledger, "--dataset", "copy", "--sure")
    assert "copy is a new data set in the ledger, alongside city." in " ".join(copied.stderr.split())


def test_a_large_epsilon_is_remarked_upon(trips: Path, tmp_path: Path, ledger: Path) -> None:
    assert "can become 99.3 % sure" in publish(trips, tmp_path / "one.nc", ledger, epsilon="5").stderr
    done = publish(trips, tmp_path / "two.nc", ledger, "--sure", "--dataset", "more", epsilon="1000")
    assert (done.returncode, "more than 99.9 %" in done.stderr) == (0, True)


def test_few_trips_are_said_to_be_spread_evenly(trips: Path, tmp_path: Path, ledger: Path) -> None:
    done = publish(trips, tmp_path / "map.nc", ledger, "--sure", epsilon="0.1")
    assert "spread evenly" in done.stdout
    assert "spread evenly" in run("query", tmp_path / "map.nc", *MIDDLE).stdout
    run("report", tmp_path / "map.nc")
    assert "spread evenly" in (tmp_path / "map.html").read_text()


def test_a_release_that_is_paid_for_is_saved_beside_one_that_came_first(trips: Path, tmp_path: Path) -> None:
    release = dqam.publish(trips, dqam.Grid.over(cities.BOUNDS, 4), 1, dataset="beside", ledger=tmp_path / "l.db")
    (tmp_path / "map.nc").write_text("first")
    saved = _saved(release, tmp_path / "map.nc", overwrite=False)
    assert saved == tmp_path / f"map-{release.provenance.id[:8]}.nc"
    assert dqam.open(saved).provenance == release.provenance
    assert (tmp_path / "map.nc").read_text() == "first"


def test_a_full_disk_costs_nothing(trips: Path, tmp_path: Path, ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dqam.cli.custodian.shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    done = publish(trips, tmp_path / "map.nc", ledger)
    assert done.returncode == 2
    assert "no room" in done.stderr
    assert not Ledger.open(ledger).history()


@pytest.mark.parametrize("command", [["query", *MIDDLE], ["export", "-o", "x.csv"], ["report"], ["serve"]])
def test_what_is_no_release_is_refused(command: list[str], trips: Path, tmp_path: Path) -> None:
    name, *more = command
    done = run(name, trips, *more)
    assert done.returncode == 2
    assert "city.parquet" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.fixture(params=["sqlite", "postgresql"])
def any_ledger(request: pytest.FixtureRequest, ledger: Path) -> str:
    return str(ledger) if request.param == "sqlite" else request.getfixturevalue("postgresql_url")


def forked(trips: Path, output: Path, ledger: str, dataset: str, dies_in: str = "") -> int:
    """A separate process that publishes, with all modules loaded. It may be killed at the start of a function."""
    child = os.fork()
    if not child:
        code = 1
        try:
            if dies_in:
                patch(dies_in, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)).start()
            code = publish(trips, output, ledger, "--dataset", dataset, "--total", "100").returncode
        finally:
            os._exit(code)
    return child


def test_a_kill_at_any_moment_leaves_all_in_order(trips: Path, tmp_path: Path, any_ledger: str) -> None:
    """Kill it 50 times, and once each before it pays and before it saves: what is spent is recorded, and a file is
    complete or not there."""
    folder, name = tmp_path / "out", f"kills {os.getpid()}"
    folder.mkdir()
    assert publish(trips, folder / "first.nc", any_ledger, "--dataset", name, "--total", "100").returncode == 0
    begun = time.monotonic()
    assert os.waitpid(forked(trips, folder / "second.nc", any_ledger, name), 0)[1] == 0
    whole = time.monotonic() - begun
    moments = random.Random(0)
    for kill in range(50):
        child = forked(trips, folder / f"{kill}.nc", any_ledger, name)
        time.sleep(moments.uniform(0, 1.1 * whole))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    for place in ("dqam.privacy.ledger.Ledger.spend", "dqam.release.file.write_whole"):
        child = forked(trips, folder / "never.nc", any_ledger, name, place)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    (account,) = Ledger.open(any_ledger).history(name)
    recorded = {publication.id for publication in account.publications}
    files = sorted(folder.iterdir())
    published = [dqam.open(path).provenance.id for path in files]  # all whole, or this fails
    assert len(set(published)) == len(files)
    assert recorded >= set(published)
    assert len(recorded) < 54  # at least one was killed before it paid
    assert len(files) < len(recorded)  # and at least one after it
    assert account.spent == len(recorded)
    saved = {publication.id for publication in account.publications if publication.delivered}
    assert saved <= set(published)
    assert publish(trips, folder / "last.nc", any_ledger, "--dataset", name).returncode == 0


def mutations(content: bytes, seed: int) -> Iterator[bytes]:
    """Bits flipped, pieces cut out, doubled, exchanged, and words put in that are likely to hurt."""
    rng = np.random.default_rng(seed)
    hurtful = [b"nan", b"inf", b"-1e308", b"\x00", b"\xff\xfe", b'"', b"\n\n", b",,,,", b"\r", b"9" * 400, b"1e999"]
    while True:
        mutated = bytearray(content)
        for _ in range(rng.integers(1, 4)):
            start, stop = np.sort(rng.integers(0, len(mutated) + 1, 2))
            stop = min(stop, start + rng.integers(1, 200))
            match rng.integers(6):
                case 0:
                    mutated[start : start + 1] = rng.bytes(1)
                case 1:
                    del mutated[start:stop]
                case 2:
                    mutated[start:start] = mutated[start:stop]
                case 3:
                    mutated[start:stop] = hurtful[rng.integers(len(hurtful))]
                case 4:
                    del mutated[max(start, 1) :]
                case 5:
                    mutated[start:stop] = mutated[start:stop][::-1]
        yield bytes(mutated)


CSV = "tid,uid,datetime,lng,lat\n" + "".join(
    f"t{i // 3},u{i // 9},2024-01-01 00:{i:02d}:00,{-30 + i * 0.0007:.5f},{45 - i * 0.0003:.5f}\n" for i in range(60)
)
AREAS = '{"type":"Polygon","coordinates":[[[-30.01,44.99],[-30,44.99],[-30,45],[-30.01,45],[-30.01,44.99]]]}'


@pytest.mark.parametrize("form", ["csv", "parquet", "queries"])
def test_damaged_input_gives_clean_errors_and_writes_nothing(
    form: str, trips: Path, tmp_path: Path, ledger: Path
) -> None:
    contents = {"csv": CSV.encode(), "parquet": trips.read_bytes()[-6000:], "queries": AREAS.encode()}
    if form == "parquet":
        contents[form] = trips.read_bytes()
    damaged, output = tmp_path / f"damaged.{form}", tmp_path / "out" / "map.nc"
    output.parent.mkdir()
    refused = 0
    for content, _ in zip(mutations(contents[form], 0), range(FUZZED), strict=False):
        damaged.write_bytes(content)
        how = ["--mechanism", "uniform", "--dataset", "fuzz", "--total", "100000"]
        if form == "queries":
            done = publish(trips, output, ledger, *how, "--queries", damaged)
        else:
            done = publish(damaged, output, ledger, *how, "--on-error", "drop")
        assert done.returncode in (0, 2), done.stderr
        if done.returncode:
            refused += 1
            assert done.stderr.splitlines()[-1].startswith("Error: ")
            assert not list(output.parent.iterdir())
        else:
            assert dqam.open(output).provenance.private
            output.unlink()
    assert refused > FUZZED // 10
    (account,) = Ledger.open(ledger).history()
    assert sum(one.settled is None for one in account.publications) == FUZZED - refused
