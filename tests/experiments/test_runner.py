"""Tasks in several processes, and finished runs on disk."""

from dataclasses import replace
from pathlib import Path

import pytest

from dqam import cities
from dqam.errors import InputError
from dqam.experiments import runner
from dqam.experiments.plan import ExperimentPlan, Settings
from dqam.experiments.protocol import DISTINCT, ResultRow


def test_processes_give_the_same_numbers(tmp_path: Path, tiny: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = ExperimentPlan(replace(tiny, epsilons=(1.0,), runs=1), "city", "city-uniform")
    tasks = [task for task in plan.tasks("deviation") if task.protocol == DISTINCT]
    path = tmp_path / "city.parquet"
    cities.write_parquet(cities.city_trips(50, 0), path, 50)
    place = runner.Place(path, cities.BOUNDS, 0, "stamp")
    monkeypatch.setattr(runner, "CHUNK", 2)
    kept: list[dict[str, float]] = []
    for processes in (1, 2):
        rows: list[ResultRow] = []
        runner.run_all(runner.chunked(tasks, {("city", 50): place}), processes, rows.extend)
        kept.append({row.key: row.measured.error for row in rows})
    assert kept[0] == kept[1]
    assert len(kept[0]) == len(tasks) > 2


def test_damaged_parts_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"task": 1')
    with pytest.raises(InputError, match=r"a\.jsonl is damaged"):
        runner.Parts(tmp_path).rows(set())
