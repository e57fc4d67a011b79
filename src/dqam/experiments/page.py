"""One page that shows everything: index.html, with all figures inside and nothing loaded from elsewhere."""

from __future__ import annotations

import base64
import inspect
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import dqam
from dqam.experiments.claims import EVEN, PAPER_DEVIATIONS, Claim, number, uneven
from dqam.experiments.datasets import DataSet
from dqam.experiments.figures import base, colour
from dqam.experiments.metrics import SMOOTHING
from dqam.experiments.plan import FIGURES, Plan
from dqam.experiments.protocol import DISTINCT, EXACT, PAPER, START
from dqam.experiments.results import Results
from dqam.mechanisms import MECHANISMS
from dqam.runtime.files import replacing

WARNING = (
    "Everything here is made with seeded noise, from exact counts: it shows how mechanisms behave, and it is not "
    "private. Nothing on this page, nor in the files beside it, may be published as if it were."
)

SHOWS = {
    "size": "The average error per query by data set, number of trips and ε. Bars span the lowest and highest run. A "
    "mechanism that is not below <em>uniform</em> has learned nothing; the exact histogram "
    "has no noise, but counts a trip again when it returns. What is fitted to answers of distinct trips can do better "
    "than that.",
    "size-paper": "The same by the paper's protocol, for the forms as printed. Dashed lines are errors of sums of "
    "faces (visits), solid ones of faces minus edges: they are not on the same scale. The dotted line is the uniform "
    "histogram with the exact number and length of trips, which dqam-printed sets out from.",
    "queries": "More queries, same data: a panel for each number of queries, at the paper's default setting.",
    "queries-paper": "The same by the paper's protocol. Crosses are the two numbers that the paper gives, where the "
    "run has 8,000 queries.",
    "resolution": "Finer grids, same data. Distinct trips are the same question at every resolution.",
    "resolution-paper": "The same by the paper's protocol: sums of faces grow with the number of cells a trip visits.",
    "kld": "How far the visits of cells are from the exact ones, whatever the queries: the Kullback-Leibler divergence "
    "of faces in nats. Lower is better; the uniform line is what is known without looking at where trips are.",
    "kld-paper": "The same for the forms as printed; the dotted line is the uniform start.",
    "time": "Seconds for one histogram, given the exact counts of the queries, one process at a time. Crosses are the "
    "paper's times, at its smallest and largest data sets (1,000 and 1,000,000 trips).",
}

STYLE = """
:root { --ink: #1d1f23; --soft: #5c6370; --line: #e3e5e8; --warm: #fff6e9; --accent: #b45309; }
* { box-sizing: border-box }
body { margin: 0; color: var(--ink); background: #fff; font: 17px/1.6 Charter, "Bitstream Charter", "Iowan Old Style",
  Georgia, serif; }
main { max-width: 1080px; margin: 0 auto; padding: 3rem 1.5rem 6rem; }
h1 { font-size: 2.1rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.45rem; margin: 3.5rem 0 .6rem; padding-top: 1.2rem; border-top: 1px solid var(--line); }
h3 { font-size: 1.1rem; margin: 2rem 0 .4rem; }
p, ul { max-width: 46rem; margin: .6rem 0; }
nav { margin: 1.4rem 0; font: 15px/1.8 system-ui, sans-serif; }
nav a { margin-right: 1.2rem; white-space: nowrap; }
a { color: #1f5fa8; text-decoration-thickness: 1px; text-underline-offset: 2px; }
.warning { background: var(--warm); border-left: 4px solid var(--accent); padding: .8rem 1.1rem; max-width: none; }
figure { margin: 1.4rem 0 .6rem; }
figure img { width: 100%; height: auto; border: 1px solid var(--line); border-radius: 4px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font: 14px/1.45 system-ui, sans-serif; margin: 1rem 0; }
th, td { padding: .45rem .8rem .45rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.claims td { min-width: 11rem; }
.claims td:first-child { font-weight: 600; }
.dot { display: inline-block; width: .7em; height: .7em; border-radius: 50%; margin-right: .45em; }
.files, .note { font: 14px/1.5 system-ui, sans-serif; color: var(--soft); }
code { font: .88em ui-monospace, Menlo, Consolas, monospace; background: #f4f5f7; padding: .05em .3em; }
details { margin: .3rem 0; } summary { cursor: pointer; }
@media print { main { max-width: none; padding: 0 } h2 { break-after: avoid } figure { break-inside: avoid } }
"""


@dataclass(frozen=True)
class Shown:
    """What there is to show: figures that are done, drawn files by name (size, size-paper, ...), and the claims."""

    figures: Sequence[str]
    drawn: dict[str, Path]
    claims: Sequence[Claim]
    quick: bool
    code: str


def write_page(path: Path, plan: Plan, data: Sequence[DataSet], results: Results, shown: Shown) -> None:
    """Write index.html."""
    parts = [
        f"<h1>The experiments of the DQAM paper, run again</h1>{_opening(shown)}{_contents(shown.figures)}",
        _settings(plan, data, results, shown),
        _mechanisms(),
    ]
    for name in shown.figures:
        if name == "deviation":
            parts.append(_deviation(plan, results))
        elif name == "claims":
            parts.append(_claims(shown.claims))
        else:
            parts.append(_section(name, shown.drawn, _at_home(plan, results) if name == "size" else ""))
    if uneven(plan, results):
        parts.insert(-1 if "claims" in shown.figures else len(parts), _uniform(plan, results))
    body = "\n".join(parts)
    html = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>dqam: the paper's experiments</title><style>{STYLE}</style></head>"
        f"<body><main>{body}</main></body></html>\n"
    )
    with replacing(path) as temporary:
        temporary.write_text(html, encoding="utf-8")


def table(header: Sequence[str], rows: Iterable[Sequence[str]], numeric: int = 1000, kind: str = "") -> str:
    """An HTML table of cells that are HTML already; columns from `numeric` on are aligned as numbers."""

    def line(cells: Sequence[str], tag: str) -> str:
        marked = (f"<{tag}{' class=n' if i >= numeric else ''}>{cell}</{tag}>" for i, cell in enumerate(cells))
        return f"<tr>{''.join(marked)}</tr>"

    head, body = line(header, "th"), "".join(line(row, "td") for row in rows)
    return f'<div class="wide"><table class="{kind}"><thead>{head}</thead><tbody>{body}</tbody></table></div>'


def _opening(shown: Shown) -> str:
    size = "A quick run: fewer trips, query sets, resolutions and runs than the paper. " if shown.quick else ""
    return (
        f"<p>{size}Two protocols are shown side by side. <strong>Distinct</strong> is the main one: every mechanism "
        "answers the same question, how many distinct trips meet a rectangle, and the truth is counted on the trips. "
        "<strong>Paper</strong> repeats the paper's own measurement with its mechanisms as printed.</p>"
        f'<p class="warning"><strong>Not for publication.</strong> {escape(WARNING)}</p>'
    )


def _contents(figures: Sequence[str]) -> str:
    links = [("settings", "Settings"), ("mechanisms", "Mechanisms")]
    links += [(name, FIGURES[name]) for name in figures]
    return "<nav>" + " ".join(f'<a href="#{name}">{escape(text)}</a>' for name, text in links) + "</nav>"


def _settings(plan: Plan, data: Sequence[DataSet], results: Results, shown: Shown) -> str:
    chosen = plan.settings
    rows = [
        ("Trips", ", ".join(f"{size:,}" for size in chosen.sizes)),
        ("ε", ", ".join(f"{epsilon:g}" for epsilon in chosen.epsilons)),
        ("Runs a point", f"{chosen.runs}, seeds {1000 * chosen.seed} to {1000 * chosen.seed + chosen.runs - 1}"),
        (
            "Queries",
            f"{chosen.queries:,} rectangles, all equally likely; as many fresh ones that no mechanism is given",
        ),
        (
            "Resolution",
            f"{chosen.resolution}: {2**chosen.resolution} by {2**chosen.resolution} cells over 10 km by 10 km",
        ),
        ("T, paper's protocol", f"best of {', '.join(map(str, chosen.rounds))}, as the paper does (not private)"),
        ("Code", f"dqam {escape(dqam.__version__)}, fingerprint of what decides the numbers {escape(shown.code)}"),
    ]
    facts = []
    for spot in plan.spots("size"):
        exact = results.runs(DISTINCT, spot, EXACT).get(0)
        if exact:
            measured = exact[0].measured
            label = next(one.label(spot.trips) for one in data if one.name == spot.data)
            facts.append(
                (
                    escape(label),
                    f"{spot.trips:,}",
                    f"{measured.visits / spot.trips:,.1f}",
                    f"{measured.mean_answer:,.1f}",
                    f"{measured.error:,.1f}",
                )
            )
    abouts = "".join(f"<li><strong>{escape(one.name)}</strong>: {escape(one.about)}</li>" for one in data)
    header = ("Data set", "Trips", "Visits a trip", "Mean distinct answer", "Error of the exact histogram")
    return (
        '<h2 id="settings">Settings</h2>'
        + table(("", ""), rows)
        + f"<ul>{abouts}</ul>"
        + (table(header, facts, 1) if facts else "")
        + "<p>Under <em>distinct</em>, answers of all mechanisms alike are cut to 0 … the total of their histogram, as "
        "a number of trips cannot lie elsewhere. The error is the mean absolute error per query. The same seeds and "
        "queries are used for all mechanisms. All rows, also the errors on fresh rectangles, are in "
        '<a href="results.parquet">results.parquet</a>.</p>'
        f"<p>Divergences add the same constant to every cell of both histograms before both are normalised: "
        f"{SMOOTHING:g} of the mean exact face. Tied to the mean it moves one percent of the mass at any size and "
        "resolution; without it one empty cell would make the divergence infinite.</p>"
    )


def _mechanisms() -> str:
    rows = []
    for name, known in MECHANISMS.items():
        about = escape(known.about)
        if known.make is not None:
            words = inspect.getdoc(sys.modules[type(known.make()).__module__]) or ""
            paragraphs = "".join(f"<p>{_coded(part)}</p>" for part in words.split("\n\n"))
            about = f"<details><summary>{about}</summary>{paragraphs}</details>"
        rows.append(
            (
                f'<span class="dot" style="background:{colour(name)}"></span>{escape(name)}',
                about,
                "yes" if known.data_aware else "",
                "yes" if known.query_aware else "",
                escape(known.consistent) or "no",
                "yes" if known.publishable else "<strong>no</strong>",
            )
        )
    header = ("Mechanism", "What it is", "Data-aware", "Query-aware", "Consistent", "Private")
    return (
        '<h2 id="mechanisms">Mechanisms</h2><p>From the table of mechanisms of this version. What is not private '
        "exists here only to repeat the paper, and cannot be published with. PriSH is known from the paper's "
        "description alone, so both forms are PriSH-like.</p>" + table(header, rows)
    )


def _coded(text: str) -> str:
    """Text whose `names` become code."""
    pieces = escape(" ".join(text.split())).split("`")
    return "".join(f"<code>{piece}</code>" if i % 2 else piece for i, piece in enumerate(pieces))


def _section(name: str, drawn: dict[str, Path], beside: str) -> str:
    """The figures of both protocols, with what goes `beside` the first."""
    parts = [f'<h2 id="{name}">{escape(FIGURES[name])}</h2>']
    for key, kind in ((name, "distinct trips"), (f"{name}-paper", "the paper's protocol")):
        if key not in drawn:
            continue
        if f"{name}-paper" in drawn:
            parts.append(f"<h3>{escape(kind.capitalize())}</h3>")
        picture = base64.b64encode(drawn[key].read_bytes()).decode()
        parts.append(
            f'<p>{SHOWS[key]}</p><figure><img alt="{escape(FIGURES[name])}, {escape(kind)}" '
            f'src="data:image/svg+xml;base64,{picture}"></figure>'
            f'<p class="files">Files: <a href="{key}.svg">SVG</a>, <a href="{key}.png">PNG</a>, '
            f'<a href="{key}.csv">numbers</a></p>'
        )
        if key == name:
            parts.append(beside)
    if len(parts) == 1:
        parts.append("<p>None of the mechanisms that this figure is about is in this version.</p>")
    return "".join(parts)


def _at_home(plan: Plan, results: Results) -> str:
    """Errors at the paper's default setting, on given and on fresh rectangles, and as a part of the mean answer."""
    chosen, rows = plan.settings, []
    mean = results.point(DISTINCT, plan.home, EXACT, measure="mean_answer")
    if mean is None:
        return ""
    for name in plan.mechanisms("size", DISTINCT):
        cells = []
        for epsilon in chosen.epsilons:
            points = [results.point(DISTINCT, plan.home, name, epsilon, kind) for kind in ("error", "error_fresh")]
            means = ["" if point is None else number(point.mean) for point in points]
            share = "" if points[0] is None else f"{100 * points[0].mean / max(mean.mean, 1e-9):.0f} %"
            cells.append(f"{means[0]} / {means[1]}<br>{share}")
        rows.append((f'<span class="dot" style="background:{colour(name)}"></span>{escape(name)}', *cells))
    header = ("Mechanism", *(f"ε = {epsilon:g}" for epsilon in chosen.epsilons))
    return (
        f"<p>Distinct trips at {plan.home.trips:,} trips: the error on the given queries / on as many fresh "
        f"rectangles, and below the first divided by the mean true answer of {number(mean.mean)}.</p>"
        + table(header, rows, 1)
    )


def deviation_rows(plan: Plan, results: Results) -> list[tuple[str, float, float, float, float]]:
    """(mechanism, eps, the paper's deviation, as printed, sound form) at the paper's default setting."""
    rows = []
    names = dict.fromkeys([*PAPER_DEVIATIONS, *plan.mechanisms("deviation", DISTINCT)])
    for name in names:
        for epsilon in plan.settings.epsilons:
            told = PAPER_DEVIATIONS.get(name, {}).get(epsilon, math.nan)
            points = (
                results.point(protocol, plan.home, name + suffix, epsilon)
                for protocol, suffix in ((PAPER, "-printed"), (DISTINCT, ""))
            )
            printed, sound = (math.nan if point is None else point.deviation for point in points)
            rows.append((name, epsilon, told, printed, sound))
    return rows


def _deviation(plan: Plan, results: Results) -> str:
    rows = [
        (
            f'<span class="dot" style="background:{colour(name)}"></span>{escape(base(name))}',
            f"{epsilon:g}",
            *("" if math.isnan(value) else number(value) for value in values),
        )
        for name, epsilon, *values in deviation_rows(plan, results)
    ]
    header = ("Mechanism", "ε", "Paper reports", "As printed, paper's protocol", "Sound form, distinct trips")
    return (
        f'<h2 id="deviation">{escape(FIGURES["deviation"])}</h2><p>Of the average error over {plan.settings.runs} '
        f"runs, on {plan.home.trips:,} trips. Under the paper's protocol at the T with the lowest mean. Where a "
        "mechanism finds too little to learn from it spreads trips evenly, and only the noise of their number is left."
        f"</p>{table(header, rows, 1)}" + '<p class="files">File: <a href="deviation.csv">numbers</a></p>'
    )


def _uniform(plan: Plan, results: Results) -> str:
    spreads = uneven(plan, results)
    start = results.point(PAPER, plan.home, START)
    rows = []
    for epsilon, spread in spreads.items():
        own = results.point(PAPER, plan.home, "dqam-printed", epsilon)
        rows.append(
            (
                f"{epsilon:g}",
                f"{4 / (epsilon / 4) ** 2:,.0f}",
                f"{2 * plan.home.trips:,}",
                f"{spread:.2g}",
                "yes" if spread <= EVEN else "no",
                "" if own is None else number(own.mean),
                "" if start is None else number(start.mean),
            )
        )
    header = (
        "ε",
        "δ = 4/ε₁²",
        "Largest possible cost, 2n",
        "Largest spread of faces",
        "Uniform",
        "Error of dqam-printed",
        "Error of the uniform start",
    )
    return (
        '<h2 id="uniform">Why dqam-printed is the uniform histogram at small ε</h2>'
        "<p>The paper splits a region when its noisy cost exceeds the mean of its children's by more than δ = 4/ε₁², "
        "with ε₁ = ε/4. That is a variance, in squared trips, compared with a cost in trips, and it grows with the "
        "square of 1/ε. The cost of a region cannot exceed 2n, twice the mass of all trips. Where δ is far above 2n "
        "the root is never split. With one region every update multiplies all faces and edges by the same factor, and "
        "rescaling to n trips undoes it: what comes out is what went in, all faces equal.</p>"
        f"<p>What the runs gave for {plan.home.trips:,} trips; the spread is (largest minus smallest face) / mean "
        "face, the largest over all runs and all T:</p>" + table(header, rows, 0)
    )


def _claims(claims: Sequence[Claim]) -> str:
    rows = [tuple(map(escape, (claim.about, claim.reported, claim.measured, claim.why))) for claim in claims]
    header = ("Claim", "The paper reports", "Measured here", "Why")
    return (
        f'<h2 id="claims">{escape(FIGURES["claims"])}</h2>{table(header, rows, kind="claims")}'
        '<p class="files">File: <a href="claims.csv">the table</a></p>'
    )
