"""publish and ledger, as a custodian runs them."""

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

import dqam
from dqam import cities
from dqam.cli.custodian import _saved
from dqam.privacy.ledger import Ledger
from dqam.values.conversion import rho_of
from tests.cli.cases import CITY, MIDDLE, publish
from tests.commands import run
from tests.ledgers import account, spend

FUZZED = int(os.environ.get("DQAM_FUZZ", "150"))


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


def test_a_plan_spends_nothing_and_writes_nothing(trips: Path, tmp_path: Path, ledger: Path) -> None:
    how = ["-k", "4", "--epsilon", "1", "--plan", "--expect", "2000", "--ledger", ledger]
    done = run("publish", trips, *CITY, *how, "-o", tmp_path / "map.nc")
    assert done.returncode == 0, done.stderr
    assert "Nothing was spent" in done.stdout
    assert not ledger.exists()
    assert not (tmp_path / "map.nc").exists()


def test_a_release_is_not_replaced_by_chance(trips: Path, tmp_path: Path, ledger: Path) -> None:
    done = publish(trips, tmp_path / "map.nc", ledger, "--total", "9")
    assert "Differentially private for one trip, epsilon = 1." in done.stdout
    assert "8 of 9 left" in done.stdout
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
        (["--epsilon", "11"], "publish anyway with --sure."),
        (["--bounds", "-30.06", "-29.94", "44.96", "45.04"], "Did you mean -30.06 44.96 -29.94 45.04?"),
        (["-o", "map.csv"], "end with .nc"),
        (["--epsilon", "x"], "positive number, such as 1 or 0.1; got 'x'"),
        (["--mechanism", "magic"], "no mechanism 'magic'"),
        (["--mechanism", "dawa-printed"], "not private"),
        (["--max-trips", "2"], "--max-trips 2 needs --unit person"),
        (["--max-trips", "auto"], "--max-trips auto needs --unit person"),
        (["--unit", "person", "--max-trips", "many"], "'many' is not a whole number of at least 1"),
        (["--unit", "person", "--max-trips", "0"], "'0' is not a whole number of at least 1"),
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
    done = publish(trips, tmp_path / "map.nc", ledger, "--sure", epsilon="0.01")
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


@pytest.fixture(params=["sqlite", "postgresql"])
def any_ledger(request: pytest.FixtureRequest, ledger: Path) -> str:
    return str(ledger) if request.param == "sqlite" else request.getfixturevalue("postgresql_url")


def forked(
    trips: Path, output: Path, ledger: str, dataset: str, dies_in: str = "", delta: str = "", mechanism: str = "flux"
) -> int:
    """A separate process that publishes, with all modules loaded. It may be killed at the start of a function."""
    child = os.fork()
    if not child:
        code = 1
        try:
            if dies_in:
                patch(dies_in, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)).start()
            how = ("--delta", delta, "--sure") if delta else ("--total", "100")
            code = publish(trips, output, ledger, "--dataset", dataset, "--mechanism", mechanism, *how).returncode
        finally:
            os._exit(code)
    return child


def test_a_kill_at_any_moment_leaves_all_in_order(trips: Path, tmp_path: Path, any_ledger: str) -> None:
    """Kill it 50 times, and once each before it pays and before it saves: what is spent is recorded, and a file is
    complete or not there. A quick mechanism leaves most of the time to reading, paying and saving."""
    folder, name = tmp_path / "out", f"kills {os.getpid()}"
    folder.mkdir()
    assert publish(trips, folder / "first.nc", any_ledger, "--dataset", name, "--total", "100").returncode == 0
    begun = time.monotonic()
    assert os.waitpid(forked(trips, folder / "second.nc", any_ledger, name, mechanism="laplace"), 0)[1] == 0
    whole = time.monotonic() - begun
    moments = random.Random(0)
    for kill in range(50):
        child = forked(trips, folder / f"{kill}.nc", any_ledger, name, mechanism="laplace")
        time.sleep(moments.uniform(0, 1.1 * whole))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    for place in ("dqam.privacy.ledger.Ledger.spend", "dqam.release.file.write_whole"):
        child = forked(trips, folder / "never.nc", any_ledger, name, place, mechanism="laplace")
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


def test_a_delta_is_published_charged_and_said(trips: Path, tmp_path: Path, ledger: Path) -> None:
    how = ("--delta", "1e-8", "--mechanism", "laplace", "--total", "3", "--dataset", "taxis")
    done = publish(trips, tmp_path / "part.nc", ledger, *how)
    assert done.returncode == 0, done.stderr
    assert "epsilon = 1, delta = 1e-8." in done.stdout
    assert "epsilons do not add up" in done.stdout
    assert dqam.open(tmp_path / "part.nc").provenance.delta == Fraction(1, 10**8)
    whole = publish(trips, tmp_path / "whole.nc", ledger, "--delta", "1e-8", "--dataset", "buses", "--sure", "--json")
    assert whole.returncode == 0, whole.stderr
    assert json.loads(whole.stdout)["delta"] is None  # there are few trips, so that none is used
    pure = dqam.open(tmp_path / "whole.nc").provenance
    assert (pure.epsilon, pure.delta) == (1, 0)
    taxis, buses = account(Ledger.open(ledger), "taxis"), account(Ledger.open(ledger), "buses")
    assert [one.rho is None for one in (*taxis.publications, *buses.publications)] == [False, True]
    assert (buses.publications[0].exchanged, buses.left) == (rho_of(Fraction(1), Fraction(1, 10**8)), 0)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--delta", "2e-6"), "A delta of 2e-6 is large"),
        (("--delta", "1e-7", "--expect", "1000000"), "is large for 1,000,000 trips"),
        (("--delta", "abc"), "must be a small probability"),
        (("--delta", "-1e-8"), "must be a small probability"),
        (("--delta", "1e-8", "--dataset", "pure"), "has a pure budget"),
        (("--delta", "1e-9", "--dataset", "mixed"), "delta=1e-8"),
    ],
)
def test_a_delta_that_cannot_be_costs_nothing(
    trips: Path, tmp_path: Path, ledger: Path, options: tuple[str, ...], says: str
) -> None:
    Ledger.open(ledger).register("pure", 1, "trip")
    Ledger.open(ledger).register("mixed", 1, "trip", 1e-8)
    done = publish(trips, tmp_path / "map.nc", ledger, *options)
    assert done.returncode in (2, 3)
    assert says in " ".join(done.stderr.split()).replace("--delta ", "delta=")
    assert not (tmp_path / "map.nc").exists()
    assert not any(each.publications for each in Ledger.open(ledger).history())


def test_a_plan_says_what_publish_would_refuse_and_asks_the_ledger(trips: Path, tmp_path: Path, ledger: Path) -> None:
    how = ["-k", "4", "--epsilon", "1", "--plan", "--expect", "2000", "--ledger", ledger]
    warned = run("publish", trips, *CITY, *how, "--delta", "1e-5")
    assert (warned.returncode, "--sure would be needed: A delta of 1e-5 is large" in warned.stderr) == (0, True)
    free = json.loads(run("publish", trips, *CITY, *how, "--delta", "1e-8", "--json", "--dataset", "taxis").stdout)
    assert not free["plans"][0]["concentrated"]
    Ledger.open(ledger).register("taxis", 3, "trip", 1e-8)
    part = json.loads(run("publish", trips, *CITY, *how, "--delta", "1e-8", "--json", "--dataset", "taxis").stdout)
    assert part["plans"][0]["concentrated"]  # the budget cannot be exchanged


def test_what_is_left_without_a_delta_is_said(trips: Path, tmp_path: Path, ledger: Path) -> None:
    Ledger.open(ledger).register("taxis", 2, "trip", 1e-8)
    spend(Ledger.open(ledger), "taxis", 1)
    refused = publish(trips, tmp_path / "map.nc", ledger, "--dataset", "taxis", "--delta", "1e-8")
    assert refused.returncode == 3
    assert "publish without a delta, for which enough is left" in " ".join(refused.stderr.split())
    assert publish(trips, tmp_path / "map.nc", ledger, "--dataset", "taxis").returncode == 0


@pytest.mark.parametrize("place", ["dqam.privacy.budget.Budget.exchange", "dqam.release.file.write_whole"])
def test_a_kill_after_an_exchange_leaves_the_pure_epsilon_spent(
    trips: Path, tmp_path: Path, any_ledger: str, place: str
) -> None:
    name = f"exchanges {os.getpid()} {place}"
    child = forked(trips, tmp_path / "never.nc", any_ledger, name, place, delta="1e-8")
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    (account,) = Ledger.open(any_ledger).history(name)
    (publication,) = account.publications
    assert (publication.rho, publication.epsilon, publication.delivered) == (None, 1, None)
    assert (account.spent, account.left) == (1, 0)
    assert not (tmp_path / "never.nc").exists()


def test_a_prior_is_declared(trips: Path, tmp_path: Path, ledger: Path) -> None:
    assert publish(trips, tmp_path / "old.nc", ledger, "--dataset", "old").returncode == 0
    prior = ["--prior", tmp_path / "old.nc"]
    plan = publish(trips, tmp_path / "new.nc", ledger, *prior, "--plan")
    assert plan.returncode == 0, plan.stderr
    assert "Prior, declared public in the release" in plan.stdout
    in_json = json.loads(publish(trips, tmp_path / "new.nc", ledger, *prior, "--plan", "--json").stdout)
    assert in_json["prior"].startswith("release ")
    done = publish(trips, tmp_path / "new.nc", ledger, *prior, "--dataset", "new", "--sure")
    assert done.returncode == 0, done.stderr
    assert dqam.open(tmp_path / "new.nc").provenance.prior == in_json["prior"]
    done = publish(trips, tmp_path / "no.nc", ledger, "--prior", tmp_path / "none.tif", "--dataset", "no")
    assert done.returncode == 2
    assert "none.tif" in done.stderr
