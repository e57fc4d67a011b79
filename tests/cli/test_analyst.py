"""query, export, report and serve, as an analyst runs them."""

import json
import os
from pathlib import Path

import pytest

import dqam
from tests.cli.cases import MIDDLE, publish
from tests.commands import run
from tests.release.cases import as_if_private, seeded, with_delta


def test_query_export_and_report(trips: Path, tmp_path: Path, ledger: Path) -> None:
    map_ = tmp_path / "map.nc"
    assert publish(trips, map_, ledger, "--title", "A city").returncode == 0
    answer = dqam.open(map_).count(*map(float, MIDDLE[1:]))
    asked = run("query", map_, *MIDDLE, *MIDDLE, "--json")
    found = json.loads(asked.stdout)
    assert found["counts"] == [answer.value] * 2
    assert (found["low"], found["high"]) == ([answer.low] * 2, [answer.high] * 2)
    assert found["private"] is True
    assert (found["epsilon"], found["delta"]) == (1, None)
    assert found["promise"] == "Differentially private for one trip, epsilon = 1."
    assert f"{answer.value:,.0f}" in run("query", map_, *MIDDLE).stdout
    for name in ("cells.csv", "cells.parquet", "cells.tif"):
        assert run("export", map_, "-o", tmp_path / name).returncode == 0
        assert (tmp_path / name).stat().st_size
    again = run("export", map_, "-o", tmp_path / "cells.csv")
    assert (again.returncode, "--overwrite" in again.stderr) == (2, True)
    assert run("export", map_, "-o", tmp_path / "cells.csv", "--overwrite").returncode == 0
    assert run("export", map_, "-o", tmp_path / "page.html").returncode == 0
    assert "A city" in (tmp_path / "page.html").read_text()
    for option in (("--blocks", "8"), ("--h3", "8"), ("--slices", "07")):
        refused = run("export", map_, "-o", tmp_path / "other.html", *option)
        assert (refused.returncode, f"leave out {option[0]}" in refused.stderr) == (2, True)
    page = run("report", map_)
    assert page.stdout.split() == [str(tmp_path / "map.html")]
    assert "A city" in (tmp_path / "map.html").read_text()
    assert sorted(os.listdir(tmp_path)) == [
        "books",
        "cells.csv",
        "cells.parquet",
        "cells.tif",
        "map.html",
        "map.nc",
        "page.html",
    ]


def test_export_of_an_item_for_catalogues(tmp_path: Path) -> None:
    as_if_private(seeded()).save(tmp_path / "map.nc")
    target = tmp_path / "map.stac.json"
    done = run("export", tmp_path / "map.nc", "-o", target, "--period", "2026-03-01/2026-03-31")
    assert (done.returncode, done.stdout.split()) == (0, [str(target)])
    told = json.loads(target.read_text())
    assert told["assets"]["release"]["href"] == "map.nc"
    assert told["properties"]["start_datetime"] == "2026-03-01T00:00:00Z"
    assert run("export", tmp_path / "map.nc", "-o", target).returncode == 2
    for options, words in (
        (["-o", target, "--overwrite", "--blocks", "4"], "leave out --blocks"),
        (["-o", tmp_path / "cells.csv", "--period", "2026-03-01/2026-03-31"], "--period is only for"),
    ):
        refused = run("export", tmp_path / "map.nc", *options)
        assert refused.returncode == 2
        assert words in refused.stderr


def test_query_says_which_delta(tmp_path: Path) -> None:
    with_delta(as_if_private(seeded())).save(tmp_path / "map.nc")
    found = json.loads(run("query", tmp_path / "map.nc", *MIDDLE, "--json").stdout)
    assert (found["epsilon"], found["delta"]) == (1, 1e-8)
    assert "epsilon = 1, delta = 1e-8." in run("query", tmp_path / "map.nc", *MIDDLE).stdout


def test_rectangles_of_a_file_and_answers_in_one(trips: Path, tmp_path: Path, ledger: Path) -> None:
    publish(trips, tmp_path / "map.nc", ledger)
    (tmp_path / "areas.csv").write_text("west,south,east,north\n-30.02,44.98,-29.98,45.02\n-30.01,44.99,-30,45\n")
    done = run("query", tmp_path / "map.nc", "--rectangles", tmp_path / "areas.csv", "-o", tmp_path / "found.csv")
    assert done.returncode == 0, done.stderr
    header, first, _ = (tmp_path / "found.csv").read_text().splitlines()
    assert header == "west,south,east,north,trips,low,high,grown,cut"
    value = dqam.open(tmp_path / "map.nc").count(-30.02, 44.98, -29.98, 45.02).value
    assert float(first.split(",")[4]) == value


@pytest.mark.parametrize("command", [["query", *MIDDLE], ["export", "-o", "x.csv"], ["report"], ["serve"]])
def test_what_is_no_release_is_refused(command: list[str], trips: Path, tmp_path: Path) -> None:
    name, *more = command
    done = run(name, trips, *more)
    assert done.returncode == 2
    assert "city.parquet" in done.stderr
    assert not list(tmp_path.iterdir())
