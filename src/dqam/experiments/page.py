"""The page with all results of the experiments: index.html, which contains all figures and loads nothing else."""

from __future__ import annotations

import base64
import inspect
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dqam import __version__
from dqam.experiments.claims import EVEN, PAPER_DEVIATIONS, Claim, rounded, uneven
from dqam.experiments.datasets import DataSet
from dqam.experiments.figures import base, colour
from dqam.experiments.metrics import SMOOTHING
from dqam.experiments.plan import FIGURES, ExperimentPlan
from dqam.experiments.protocol import DISTINCT, EXACT, PAPER, START
from dqam.experiments.results import Point, Results
from dqam.mechanisms import MECHANISMS
from dqam.release.formatting import render
from dqam.runtime.files import replacing


@dataclass(frozen=True)
class PageContent:
    """What the page shows besides the results.

    figures  names of the figures that are complete
    drawn    SVG files by name (size, size-paper, ...)
    quick    whether the settings are those of a quick run
    code     fingerprint of the code that decides the numbers
    """

    figures: Sequence[str]
    drawn: dict[str, Path]
    claims: Sequence[Claim]
    quick: bool
    code: str


def write_page(
    path: Path, plan: ExperimentPlan, data: Sequence[DataSet], results: Results, content: PageContent
) -> None:
    """Write index.html."""
    mean = results.point(DISTINCT, plan.home, EXACT, measure="mean_answer")
    html = render(
        "experiments/templates/page.html",
        content=content,
        titles=FIGURES,
        home=plan.home,
        runs=plan.settings.runs,
        epsilons=plan.settings.epsilons,
        smoothing=SMOOTHING,
        colour=colour,
        base=base,
        settings=_settings(plan, content.code),
        data=data,
        data_sets=_data_sets(plan, data, results),
        mechanisms=MECHANISMS,
        descriptions=_descriptions(),
        pictures={name: base64.b64encode(file.read_bytes()).decode() for name, file in content.drawn.items()},
        mean_answer="" if mean is None else rounded(mean.mean),
        home_errors={} if mean is None else _home_errors(plan, results, mean.mean),
        deviations=[
            (name, epsilon, ["" if math.isnan(value) else rounded(value) for value in values])
            for name, epsilon, *values in deviation_rows(plan, results)
        ],
        uniform=_uniform(plan, results),
        claims=[(claim.about, claim.reported, claim.measured, claim.why) for claim in content.claims],
    )
    with replacing(path) as temporary:
        temporary.write_text(html, encoding="utf-8")


def _settings(plan: ExperimentPlan, code: str) -> list[tuple[str, str]]:
    chosen, side = plan.settings, 2**plan.settings.resolution
    return [
        ("Trips", ", ".join(f"{size:,}" for size in chosen.sizes)),
        ("ε", ", ".join(f"{epsilon:g}" for epsilon in chosen.epsilons)),
        ("Runs per point", f"{chosen.runs}, seeds {1000 * chosen.seed} to {1000 * chosen.seed + chosen.runs - 1}"),
        (
            "Queries",
            f"{chosen.queries:,} rectangles, all equally likely; as many fresh ones that no mechanism is given",
        ),
        ("Resolution", f"{chosen.resolution}: {side} by {side} cells over 10 km by 10 km"),
        ("T, paper's protocol", f"best of {', '.join(map(str, chosen.rounds))}, as in the paper (not private)"),
        ("Code", f"dqam {__version__}; fingerprint of the code that decides the numbers: {code}"),
    ]


def _data_sets(plan: ExperimentPlan, data: Sequence[DataSet], results: Results) -> list[tuple[str, ...]]:
    rows = []
    for spot in plan.spots("size"):
        exact = results.runs(DISTINCT, spot, EXACT).get(0)
        if exact:
            measured = exact[0].measured
            label = next(one.label(spot.trips) for one in data if one.name == spot.data)
            numbers = (measured.visits / spot.trips, measured.mean_answer, measured.error)
            rows.append((label, f"{spot.trips:,}", *(f"{value:,.1f}" for value in numbers)))
    return rows


def _descriptions() -> dict[str, list[str]]:
    """The paragraphs that describe each mechanism, from its module."""
    made = {name: known.make() for name, known in MECHANISMS.items() if known.make is not None}
    docs = {name: inspect.getdoc(sys.modules[type(one).__module__]) or "" for name, one in made.items()}
    return {name: docs[name].split("\n\n") if name in docs else [] for name in MECHANISMS}


def _home_errors(plan: ExperimentPlan, results: Results, mean_answer: float) -> dict[str, list[tuple[str, str, str]]]:
    """For each mechanism and epsilon at the paper's default setting: the errors on given and on fresh rectangles, and
    the first as a share of the mean answer."""

    def spell(point: Point | None) -> str:
        return "" if point is None else rounded(point.mean)

    def errors(name: str, epsilon: float) -> tuple[str, str, str]:
        given, fresh = (
            results.point(DISTINCT, plan.home, name, epsilon, measure) for measure in ("error", "error_fresh")
        )
        share = "" if given is None else f"{100 * given.mean / max(mean_answer, 1e-9):.0f} %"
        return spell(given), spell(fresh), share

    names = plan.mechanisms("size", DISTINCT)
    return {name: [errors(name, epsilon) for epsilon in plan.settings.epsilons] for name in names}


def deviation_rows(plan: ExperimentPlan, results: Results) -> list[tuple[str, float, float, float, float]]:
    """(mechanism, epsilon, the paper's deviation, as printed, sound form) at the paper's default setting."""
    rows = []
    names = dict.fromkeys([*PAPER_DEVIATIONS, *plan.mechanisms("deviation", DISTINCT)])
    for name in names:
        for epsilon in plan.settings.epsilons:
            reported = PAPER_DEVIATIONS.get(name, {}).get(epsilon, math.nan)
            points = (
                results.point(protocol, plan.home, name + suffix, epsilon)
                for protocol, suffix in ((PAPER, "-printed"), (DISTINCT, ""))
            )
            printed, sound = (math.nan if point is None else point.deviation for point in points)
            rows.append((name, epsilon, reported, printed, sound))
    return rows


def _uniform(plan: ExperimentPlan, results: Results) -> list[tuple[Any, ...]]:
    """How uniform dqam-printed is, by epsilon."""
    start = results.point(PAPER, plan.home, START)
    rows = []
    for epsilon, spread in uneven(plan, results).items():
        printed = results.point(PAPER, plan.home, "dqam-printed", epsilon)
        rows.append(
            (
                f"{epsilon:g}",
                f"{4 / (epsilon / 4) ** 2:,.0f}",
                f"{2 * plan.home.trips:,}",
                f"{spread:.2g}",
                "yes" if spread <= EVEN else "no",
                *("" if point is None else rounded(point.mean) for point in (printed, start)),
            )
        )
    return rows
