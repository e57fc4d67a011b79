"""The experiments from end to end, tiny."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from dqam import cities
from dqam.errors import InputError
from dqam.experiments import datasets, runner
from dqam.experiments import reproduce as experiments
from dqam.experiments.claims import MISSING, claims
from dqam.experiments.plan import FIGURES, Plan, Settings
from dqam.experiments.protocol import DISTINCT, PAPER, Bench, Measured, Row, Task
from dqam.experiments.reproduce import StoppedError, reproduce
from dqam.experiments.results import Point, Results
from dqam.geometry.trips import Trips
from tests.html import Page

CURVES = [name + suffix for name in experiments.CURVES for suffix in ("", "-paper")]


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Task]:
    """The tasks that are really run, from now on."""
    calls: list[Task] = []
    run = Bench.run

    def note(self: Bench, task: Task) -> Measured:
        calls.append(task)
        return run(self, task)

    monkeypatch.setattr(Bench, "run", note)
    return calls


def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what takes long."""
    monkeypatch.setattr(experiments, "_draw", lambda *_: {})
    monkeypatch.setattr(experiments, "_draw_times", lambda *_: {})


def test_everything(tmp_path: Path, tiny: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = counted(monkeypatch)
    page = reproduce(tmp_path, tiny)
    for name in CURVES:
        for ending in ("png", "svg", "csv"):
            assert (tmp_path / f"{name}.{ending}").stat().st_size > 100
    table = pq.read_table(tmp_path / "results.parquet")
    wanted = Plan(tiny, "city", "city-uniform").tasks("claims")
    assert table.num_rows == len(wanted) == len({*calls})
    assert {"error", "error_fresh", "seed", "version", "kld", "seconds", "evenness"} <= set(table.column_names)
    check_page(page)
    calls.clear()
    undrawn(monkeypatch)
    assert reproduce(tmp_path, tiny) == page
    assert not calls


def check_page(path: Path) -> None:
    page = Page(path.read_text())
    page.assert_loads_nothing()
    assert len(page.all("img")) >= len(CURVES)
    assert "http" not in re.sub(r'src="data:[^"]*"', "", path.read_text())
    assert "Not for publication" in page.text
    assert set(FIGURES) <= set(page.ids)
    assert all((path.parent / link).is_file() for link in page.links if not link.startswith("#"))


def test_only_one_figure_then_another(tmp_path: Path, tiny: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(tiny, epsilons=(1.0,), runs=1)
    undrawn(monkeypatch)
    reproduce(tmp_path, small, ["queries"])
    calls = counted(monkeypatch)
    page = Page(reproduce(tmp_path, small, ["resolution"]).read_text())
    assert calls
    assert all(task.resolution == 3 for task in calls)  # the other was shared
    assert "queries" in page.ids
    assert "size" not in page.ids


def test_an_interrupted_run_goes_on(tmp_path: Path, tiny: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(tiny, epsilons=(1.0,), runs=1)
    run, left = Bench.run, [5]

    def interrupted(self: Bench, task: Task) -> Measured:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return run(self, task)

    monkeypatch.setattr(Bench, "run", interrupted)
    with pytest.raises(StoppedError, match="5 of .* kept"):
        reproduce(tmp_path, small, ["deviation"])
    monkeypatch.setattr(Bench, "run", run)
    calls = counted(monkeypatch)
    reproduce(tmp_path, small, ["deviation"])
    assert len(calls) == len(Plan(small, "city", "city-uniform").tasks("deviation")) - 5


def test_other_code_is_run_again(tmp_path: Path, tiny: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(tiny, epsilons=(1.0,), runs=1)
    reproduce(tmp_path, small, ["deviation"])
    calls = counted(monkeypatch)
    monkeypatch.setattr(experiments, "deciding_code", lambda: "changed")
    reproduce(tmp_path, small, ["deviation"])
    assert len(calls) == len(Plan(small, "city", "city-uniform").tasks("deviation"))


def test_processes_give_the_same_numbers(tmp_path: Path, tiny: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan(replace(tiny, epsilons=(1.0,), runs=1), "city", "city-uniform")
    tasks = [task for task in plan.tasks("deviation") if task.protocol == DISTINCT]
    path = tmp_path / "city.parquet"
    cities.write_parquet(cities.city_trips(50, 0), path, 50)
    place = runner.Place(path, cities.BOUNDS, 0, "stamp")
    monkeypatch.setattr(runner, "CHUNK", 2)
    kept: list[dict[str, float]] = []
    for processes in (1, 2):
        rows: list[Row] = []
        runner.run_all(runner.chunked(tasks, {("city", 50): place}), processes, rows.extend)
        kept.append({row.key: row.measured.error for row in rows})
    assert kept[0] == kept[1]
    assert len(kept[0]) == len(tasks) > 2


def test_damaged_parts_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"task": 1')
    with pytest.raises(InputError, match=r"a\.jsonl is damaged"):
        runner.Parts(tmp_path).rows(set())


def row(task: Task, error: float) -> Row:
    return Row(task, Measured(error, *([1.0] * 7)), task.run, task.key(""), "0")


def test_the_paper_reports_the_best_t(tiny: Settings) -> None:
    plan = Plan(tiny, "city", "city-uniform")
    spot = plan.home
    where = (spot.data, spot.trips, spot.resolution, spot.queries, 1.0)
    errors = {10: (4.0, 6.0), 20: (1.0, 3.0)}
    rows = [
        row(Task(protocol, *where, "mwem", rounds, run), error)
        for protocol in (DISTINCT, PAPER)
        for rounds, pair in errors.items()
        for run, error in enumerate(pair)
    ]
    rows += [row(Task(DISTINCT, *where, "mwem", 0, run), 8.0) for run in range(2)]
    results = Results(rows)
    best = results.point(PAPER, spot, "mwem", 1.0)
    assert best == Point(2.0, float(np.std([1, 3], ddof=1)), 1.0, 3.0, 2, 20)
    own = results.point(DISTINCT, spot, "mwem", 1.0)
    hindsight = results.point(DISTINCT, spot, "mwem", 1.0, hindsight=True)
    assert own is not None
    assert hindsight is not None
    assert (own.mean, hindsight.mean) == (8.0, 2.0)


def test_claims_say_what_is_missing(tiny: Settings) -> None:
    told = claims(Plan(tiny, "city", "city-uniform"), Results([]))
    assert len(told) >= 10
    assert sum(claim.measured == MISSING for claim in told) >= 10
    assert all(claim.reported and claim.why for claim in told)


def test_every_figure_of_the_paper_fits_the_settings() -> None:
    full, quick = Settings(), Settings.quick()
    assert full.sizes == (1_000, 100_000, 1_000_000)
    assert (full.queries, full.resolution, full.runs) == (16_000, 8, 5)
    for settings in (full, quick):
        assert settings.queries in settings.query_counts
        assert settings.resolution in settings.resolutions


def test_trips_wholly_inside_are_chosen_by_seed() -> None:
    trips = Trips.from_lists([[(0, 0), (1, 1)], [(0.5, 0.5), (3, 3)], [(0.2, 0.2)], [(1, 0), (0, 1), (0.5, 0.5)]])
    inside = datasets.wholly_inside(trips, (0, 0, 1, 1))
    assert np.diff(inside.offsets).tolist() == [2, 1, 3]
    assert inside.x.tolist() == [0, 1, 0.2, 1, 0, 0.5]
    assert len(datasets._chosen(inside, 2, 0)) == 2
    assert inside.time is not None
    assert inside.time[:3].tolist() == [0, 15_000_000, 0]


def command(*arguments: Any) -> subprocess.CompletedProcess[str]:
    code = "from dqam.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, "reproduce", *map(str, arguments)], capture_output=True, text=True
    )


def test_an_unknown_figure_lists_the_known(tmp_path: Path) -> None:
    done = command("-o", tmp_path / "out", "--only", "sise")
    assert done.returncode == 2
    assert all(name in done.stderr for name in ("sise", *FIGURES))
    assert not (tmp_path / "out").exists()


def test_bad_folders_are_refused(tmp_path: Path, tiny: Settings) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        reproduce(tmp_path / "file", tiny)
    with pytest.raises(InputError, match="There is no folder"):
        reproduce(tmp_path / "out", tiny, data=tmp_path / "nowhere")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "porto_roads.csv.gz").write_bytes(b"")
    with pytest.raises(InputError, match="lacks porto_sample.csv.gz, melbourne_nodes.csv.gz, melbourne_edges.csv.gz;"):
        reproduce(tmp_path / "out", tiny, data=tmp_path / "data")
    assert not (tmp_path / "out").exists()


def test_results_of_other_settings_are_left_alone(tmp_path: Path, tiny: Settings) -> None:
    asked = {"settings": {"seed": 5}, "data": None}
    (tmp_path / "settings.json").write_text(json.dumps(asked))
    with pytest.raises(InputError, match="other settings .* another folder"):
        reproduce(tmp_path, tiny)
    assert json.loads((tmp_path / "settings.json").read_text()) == asked
