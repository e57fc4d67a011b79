"""The page of the experiments, from results that were never run."""

from pathlib import Path

import pytest

from dqam.experiments.claims import Claim
from dqam.experiments.datasets import made_up
from dqam.experiments.page import PageContent, write_page
from dqam.experiments.plan import FIGURES, ExperimentPlan, Settings
from dqam.experiments.protocol import ResultRow, RunResult
from dqam.experiments.results import Results
from dqam.mechanisms import MECHANISMS
from tests.html import Page

BAD = '<script>alert("1")</script>'


@pytest.fixture
def plan(tiny: Settings) -> ExperimentPlan:
    return ExperimentPlan(tiny, "city", "city-uniform")


def results_of(plan: ExperimentPlan) -> Results:
    """Every run of the plan, with an error of 2 where every other number is 1."""
    return Results(
        [ResultRow(task, RunResult(2.0, *([1.0] * 7)), task.run, task.key(""), "0") for task in plan.tasks("claims")]
    )


def page_of(folder: Path, plan: ExperimentPlan, results: Results, figures: list[str]) -> Page:
    drawn = {name: folder / f"{name}.svg" for name in ("size", "size-paper")}
    for path in drawn.values():
        path.write_text("<svg/>")
    content = PageContent(figures, drawn, [Claim(BAD, "<1 %", "2 & 3", "why not")], True, BAD)
    write_page(folder / "index.html", plan, made_up(), results, content)
    return Page((folder / "index.html").read_text())


def test_page_loads_nothing_and_escapes_what_it_is_given(tmp_path: Path, plan: ExperimentPlan) -> None:
    page = page_of(tmp_path, plan, results_of(plan), list(FIGURES))
    page.assert_loads_nothing()
    assert BAD in page.text
    assert page.table("Claim") == [[BAD, "<1 %", "2 & 3", "why not"]]
    assert "Not for publication." in page.text
    assert "This is a quick run" in page.text


def test_page_has_a_section_for_each_figure(tmp_path: Path, plan: ExperimentPlan) -> None:
    page = page_of(tmp_path, plan, results_of(plan), list(FIGURES))
    assert page.ids == ["settings", "mechanisms", *(name for name in FIGURES if name != "claims"), "uniform", "claims"]
    assert [link for link in page.links if link.startswith("#")] == [
        f"#{name}" for name in ("settings", "mechanisms", *FIGURES)
    ]
    assert len(page.all("img")) == 2
    assert all(image["alt"] for image in page.all("img"))
    assert page.text.count("None of the mechanisms that this figure is about is in this version.") == 4
    only = page_of(tmp_path, plan, results_of(plan), ["queries"])
    assert only.ids == ["settings", "mechanisms", "queries", "uniform"]


def test_tables_have_the_results(tmp_path: Path, plan: ExperimentPlan) -> None:
    page = page_of(tmp_path, plan, results_of(plan), list(FIGURES))
    described, errors, deviations = (table for table in page.tables if table[0][0] == "Mechanism")
    assert [row[0] for row in described[1:]] == list(MECHANISMS)
    assert errors[0] == ["Mechanism", "ε = 0.01", "ε = 1"]
    assert {cell for row in errors[1:] for cell in row[1:]} == {"2.00 / 1.00 200 %"}
    assert deviations[0][2] == "Paper reports"
    assert [row[0] for row in page.table("ε")] == ["0.01", "1"]
    assert dict(page.tables[0])["Trips"] == "50, 80"


def test_without_results_the_page_says_only_what_is_planned(tmp_path: Path, plan: ExperimentPlan) -> None:
    page = page_of(tmp_path, plan, Results([]), [])
    assert page.ids == ["settings", "mechanisms"]
    assert len(page.tables) == 2
