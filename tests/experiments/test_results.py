"""Summaries of runs."""

import csv
import math
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from dqam.experiments.plan import ExperimentPlan, Settings
from dqam.experiments.protocol import DISTINCT, PAPER, ResultRow, RunResult, Task
from dqam.experiments.results import Point, Results, save_csv


def row(task: Task, error: float) -> ResultRow:
    return ResultRow(task, RunResult(error, *([1.0] * 7)), task.run, task.key(""), "0")


def test_the_paper_reports_the_best_t(tiny: Settings) -> None:
    plan = ExperimentPlan(tiny, "city", "city-uniform")
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


def test_results_are_saved_and_missing_values_are_empty(tmp_path: Path) -> None:
    task = Task(DISTINCT, "city", 50, 4, 60, 1.0, "uniform")
    Results([row(task, math.nan)]).save(tmp_path / "results.parquet")
    assert pq.read_table(tmp_path / "results.parquet").to_pylist()[0]["mechanism"] == "uniform"
    save_csv(tmp_path / "table.csv", ("name", "value"), [("a", math.nan), ("b", 2.5)])
    with (tmp_path / "table.csv").open() as file:
        assert list(csv.reader(file)) == [["name", "value"], ["a", ""], ["b", "2.5"]]
