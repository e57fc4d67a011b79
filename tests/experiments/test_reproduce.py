"""The experiments from start to finish, with tiny settings."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dqam.errors import InputError
from dqam.experiments import reproduce as experiments
from dqam.experiments.plan import FIGURES, ExperimentPlan, Settings
from dqam.experiments.protocol import Bench, RunResult, Task
from dqam.experiments.reproduce import StoppedError, reproduce
from tests.commands import run
from tests.html import Page

CURVES = [name + suffix for name in experiments.CURVES for suffix in ("", "-paper")]


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Task]:
    """The tasks that are really run, from now on."""
    calls: list[Task] = []
    run = Bench.run

    def note(self: Bench, task: Task) -> RunResult:
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
    wanted = ExperimentPlan(tiny, "city", "city-uniform").tasks("claims")
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

    def interrupted(self: Bench, task: Task) -> RunResult:
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
    assert len(calls) == len(ExperimentPlan(small, "city", "city-uniform").tasks("deviation")) - 5


def test_other_code_is_run_again(tmp_path: Path, tiny: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(tiny, epsilons=(1.0,), runs=1)
    reproduce(tmp_path, small, ["deviation"])
    calls = counted(monkeypatch)
    monkeypatch.setattr(experiments, "code_stamp", lambda *_: "changed")
    reproduce(tmp_path, small, ["deviation"])
    assert len(calls) == len(ExperimentPlan(small, "city", "city-uniform").tasks("deviation"))


def test_an_unknown_figure_lists_the_known(tmp_path: Path) -> None:
    done = run("reproduce", "-o", tmp_path / "out", "--only", "sise")
    assert done.returncode == 2
    assert all(name in done.stderr for name in ("sise", *FIGURES))
    assert not (tmp_path / "out").exists()


def test_bad_folders_are_refused(tmp_path: Path, tiny: Settings) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        reproduce(tmp_path / "file", tiny)
    with pytest.raises(InputError, match="There is no folder"):
        reproduce(tmp_path / "out", tiny, data=tmp_path / "nowhere")
    assert not (tmp_path / "out").exists()


def test_results_of_other_settings_are_left_alone(tmp_path: Path, tiny: Settings) -> None:
    asked = {"settings": {"seed": 5}, "data": None}
    (tmp_path / "settings.json").write_text(json.dumps(asked))
    with pytest.raises(InputError, match="other settings .* another folder"):
        reproduce(tmp_path, tiny)
    assert json.loads((tmp_path / "settings.json").read_text()) == asked
