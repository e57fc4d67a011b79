"""The lines and panels of figures."""

import math

import pytest

from dqam.experiments.figures import colour, label, panels
from dqam.experiments.plan import ExperimentPlan, Settings
from dqam.experiments.protocol import DISTINCT, EXACT, NO_NOISE, ResultRow, RunResult, Task
from dqam.experiments.results import Results
from dqam.mechanisms import MECHANISMS

pytest.importorskip("matplotlib")


def test_a_mechanism_has_the_same_colour_in_both_forms() -> None:
    colours = {name: colour(name) for name in MECHANISMS}
    assert len(set(colours.values())) == len({name.removesuffix("-printed") for name in MECHANISMS})
    assert colours["dqam"] == colours["dqam-printed"]
    assert "not private" in label(EXACT)


def test_panels_without_runs_are_left_out(tiny: Settings) -> None:
    plan = ExperimentPlan(tiny, "city", "city-uniform")
    spot = plan.spots("queries")[1]
    where = (spot.data, spot.trips, spot.resolution, spot.queries)
    tasks = [Task(DISTINCT, *where, 1.0, "uniform", 0, run) for run in range(2)]
    tasks.append(Task(DISTINCT, *where, NO_NOISE, EXACT))
    results = Results(
        [ResultRow(task, RunResult(3.0 + task.run, *([1.0] * 7)), 0, task.key(""), "0") for task in tasks]
    )
    (panel,) = panels(plan, "queries", DISTINCT, results, {})
    assert panel.title == "60 queries"
    lines = {line.mechanism: line.points for line in panel.lines}
    assert lines.keys() == {"uniform", EXACT}
    assert lines["uniform"][1.0].mean == 3.5
    assert list(lines[EXACT]) == [math.inf]
