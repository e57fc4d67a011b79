"""The figures, with the axes of the paper: average error against epsilon on log scales, one panel per setting.

A mechanism has the same colour in all figures. As in the paper, lines are dashed if the histogram may be inconsistent.
References that are not private are thin: dotted, or dashed for the best T in hindsight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dqam.errors import InputError
from dqam.experiments.plan import TIMED, ExperimentPlan, Spot
from dqam.experiments.protocol import DISTINCT, EXACT, PAPER, START, has_rounds
from dqam.experiments.results import Point, Results, save_csv
from dqam.mechanisms import MECHANISMS
from dqam.runtime.files import replacing

COLOURS = {
    "flux": "#c2185b",
    "dqam": "#d95f02",  # orange, green and blue as in the paper
    "prish": "#1b9e77",
    "mwem": "#3268b8",
    "dawa": "#8e44ad",
    "laplace": "#b8860b",
    "uniform": "#7f7f7f",
    EXACT: "#111111",
    START: "#7f7f7f",
}
OTHERS = ("#00838f", "#5d4037", "#6a8f00", "#455a64")
MARKERS = {"flux": "*", "dqam": "o", "prish": "s", "mwem": "^", "dawa": "D", "laplace": "v", "uniform": ""}
PAPER_SECONDS = ({1_000: 3600.0, 1_000_000: 10.0}, {1_000: 1500.0, 1_000_000: 8.0})  # skewed, near uniform; about
PAPER_POINTS = {"prish-printed": 14.0654, "dqam-printed": 1.901}  # at 8,000 queries and eps = 0.01
HEADER = ("protocol", "data", "trips", "resolution", "queries", "epsilon", "mechanism", "measure")
SUMMARY = ("mean", "deviation", "low", "high", "runs", "best_rounds")


def base(mechanism: str) -> str:
    """The name of a mechanism without the ending of its printed form."""
    return mechanism.removesuffix("-printed")


def colour(mechanism: str) -> str:
    """The colour of a mechanism, in every figure."""
    name = base(mechanism)
    if name in COLOURS:
        return COLOURS[name]
    others = [other for other in dict.fromkeys(map(base, MECHANISMS)) if other not in COLOURS]
    return OTHERS[others.index(name) % len(OTHERS)] if name in others else OTHERS[-1]


def label(mechanism: str, hindsight: bool = False) -> str:
    """The name of a mechanism in legends."""
    if mechanism == EXACT:
        return "exact histogram (not private)"
    if mechanism == START:
        return "uniform, exact n (not private)"
    return f"{mechanism}, best T in hindsight (not private)" if hindsight else mechanism


@dataclass(frozen=True)
class Line:
    """One mechanism in one panel: its points by epsilon; a single point at infinity is drawn as a horizontal line."""

    mechanism: str
    points: dict[float, Point]
    hindsight: bool = False

    @property
    def style(self) -> dict[str, Any]:
        """Its style in matplotlib."""
        known = MECHANISMS.get(self.mechanism)
        chosen = {"color": colour(self.mechanism), "label": label(self.mechanism, self.hindsight)}
        if self.mechanism in (EXACT, START):
            return {**chosen, "linestyle": (0, (1, 1.6)), "linewidth": 1.5, "zorder": 2}
        if self.hindsight:
            return {**chosen, "linestyle": (0, (5, 3)), "linewidth": 0.8, "alpha": 0.8, "zorder": 3}
        if self.mechanism == "uniform":
            return {**chosen, "linewidth": 5, "alpha": 0.35, "zorder": 1}  # wide, because others often lie on it
        consistent = known is None or bool(known.consistent)
        return {
            **chosen,
            "linestyle": "-" if consistent else (0, (4, 2)),
            "linewidth": 2.2 if base(self.mechanism) == "dqam" else 1.5,
            "marker": MARKERS.get(base(self.mechanism), "P"),
            "markersize": 5,
            "zorder": 4,
        }


@dataclass(frozen=True)
class Panel:
    """One setting with all its mechanisms; `marks` are points that the paper reports."""

    title: str
    spot: Spot
    lines: list[Line]
    note: str = ""
    marks: list[tuple[float, float, str]] = field(default_factory=list)  # epsilon, value, mechanism


def panels(
    plan: ExperimentPlan, figure: str, protocol: str, results: Results, labels: dict[tuple[str, int], str]
) -> list[Panel]:
    """The panels of a figure under a protocol; panels without lines are left out."""
    measure = "kld" if figure == "kld" else "error"
    drawn = []
    for spot in plan.spots(figure):
        lines = [_line(plan, results, protocol, spot, name, measure) for name in plan.mechanisms(figure, protocol)]
        if protocol == DISTINCT:
            lines += [
                _line(plan, results, protocol, spot, name, measure, hindsight=True)
                for name in plan.mechanisms(figure, protocol)
                if name != TIMED and has_rounds(name)
            ]
        reference = EXACT if protocol == DISTINCT else START
        still = results.point(protocol, spot, reference, measure=measure)
        if still is not None and not (figure == "kld" and protocol == DISTINCT):
            lines.append(Line(reference, {math.inf: still}))
        lines = [line for line in lines if line.points]
        if not lines:
            continue
        marks = []
        if protocol == PAPER and figure == "queries" and spot.queries == 8_000:
            marks = [(0.01, value, name) for name, value in PAPER_POINTS.items()]
        mean = results.point(protocol, spot, reference, measure="mean_answer")
        note = f"mean answer {mean.mean:,.0f}" if mean is not None and figure != "kld" else ""
        if protocol == PAPER and note:
            note += " (faces minus edges)"
        drawn.append(Panel(_title(figure, spot, labels), spot, lines, note, marks))
    return drawn


def _line(
    plan: ExperimentPlan, results: Results, protocol: str, spot: Spot, name: str, measure: str, hindsight: bool = False
) -> Line:
    found = {
        epsilon: results.point(protocol, spot, name, epsilon, measure, hindsight) for epsilon in plan.settings.epsilons
    }
    return Line(name, {epsilon: point for epsilon, point in found.items() if point is not None}, hindsight)


def _title(figure: str, spot: Spot, labels: dict[tuple[str, int], str]) -> str:
    if figure == "queries":
        return f"{spot.queries:,} queries"
    if figure == "resolution":
        return f"resolution {spot.resolution}: {2**spot.resolution} x {2**spot.resolution} cells"
    return f"{labels[spot.data, spot.trips]}, n = {spot.trips:,}"


def draw_panels(shown: list[Panel], columns: int, title: str, what: str, note: str, path: Path, share: bool) -> None:
    """Save panels in rows of `columns`, as PNG and SVG; `path` has no suffix, and `share` shares the y axis."""
    rows = -(-len(shown) // columns)
    figure = _figure(3.9 * columns if columns > 2 else 4.6 * columns, 3.0 * rows + 1.7)
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=share)
    epsilons = sorted(
        {epsilon for panel in shown for line in panel.lines for epsilon in line.points if math.isfinite(epsilon)}
    )
    for place, (axes, panel) in enumerate(zip(grid.ravel(), shown, strict=False)):
        _draw(axes, panel, epsilons)
        _scale(axes, shown if share else [panel])
        if place + columns >= len(shown):
            axes.set_xlabel("privacy budget ε", fontsize=9)
    for axes in grid.ravel()[len(shown) :]:
        axes.set_visible(False)
    figure.supylabel(f"{what} (log scale)", fontsize=9)
    _finish(figure, grid.ravel()[: len(shown)], title, note, path)


def _draw(axes: Any, panel: Panel, epsilons: list[float]) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    for line in panel.lines:
        if list(line.points) == [math.inf]:
            axes.axhline(line.points[math.inf].mean, **line.style)
            continue
        at = sorted(line.points)
        axes.plot(at, [line.points[epsilon].mean for epsilon in at], **line.style)
        if not line.hindsight:
            low, high = ([getattr(line.points[epsilon], end) for epsilon in at] for end in ("low", "high"))
            axes.vlines(at, low, high, color=colour(line.mechanism), linewidth=0.9, alpha=0.7, zorder=2)
    for epsilon, value, mechanism in panel.marks:
        axes.plot(epsilon, value, "x", color=colour(mechanism), markersize=8, markeredgewidth=2, zorder=4)
        axes.annotate(
            f"paper: {value:.3g}",
            (epsilon, value),
            xytext=(8, 0),
            textcoords="offset points",
            fontsize=8,
            va="center",
            color=colour(mechanism),
        )
    axes.set_title(panel.title, fontsize=10, loc="left", fontweight="bold", parse_math=False)
    if panel.note:
        axes.text(0.99, 0.985, panel.note, transform=axes.transAxes, ha="right", va="top", fontsize=8, color="#555555")
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons], fontsize=8)
    axes.xaxis.set_minor_locator(_nothing())
    _tidy(axes)


def _scale(axes: Any, together: list[Panel]) -> None:
    """A log scale that spans at least a factor of 3, so that small differences look small."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    values = [
        end for panel in together for line in panel.lines for p in line.points.values() for end in (p.low, p.high)
    ]
    values = [value for value in values + [mark[1] for panel in together for mark in panel.marks] if value > 0]
    low, high = (min(values), max(values)) if values else (1.0, 1.0)
    wider = max(1.0, math.sqrt(3 * low / high))
    low, high = low / wider, high * wider
    axes.set_ylim(low / (high / low) ** 0.06, high * (high / low) ** 0.14)
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 150 * low else (1.0,), numticks=12))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))
    axes.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: ""))


def draw_times(
    results: Results, plan: ExperimentPlan, labels: dict[tuple[str, int], str], names: list[str], note: str, path: Path
) -> None:
    """Running time against the number of trips on log scales, with the times that the paper reports."""
    figure = _figure(9.6, 5.2)
    pair = figure.subplots(1, 2, squeeze=False, sharey=True).ravel()
    sizes = plan.settings.sizes
    ticks = sorted({*sizes, *PAPER_SECONDS[0]})
    for place, (axes, data) in enumerate(zip(pair, (plan.skewed, plan.even), strict=True)):
        for protocol, name in timed_lines(names):
            points = {
                spot.trips: results.point(
                    protocol, spot, name, plan.settings.timed_epsilon, measure="seconds", alone=True
                )
                for spot in plan.spots("time")
                if spot.data == data
            }
            found = {trips: point for trips, point in points.items() if point is not None}
            style = {**Line(name, {}).style, "linestyle": "-" if protocol == DISTINCT else (0, (1, 1))}
            axes.plot(list(found), [point.mean for point in found.values()], **style)
            for trips, point in found.items():
                axes.annotate(
                    f"{point.mean:.2g} s",
                    (trips, point.mean),
                    xytext=(0, 7 if protocol == PAPER else -15),
                    textcoords="offset points",
                    fontsize=8,
                    ha="center",
                    color="#333333",
                )
        axes.plot(
            list(PAPER_SECONDS[place]),
            list(PAPER_SECONDS[place].values()),
            "x",
            color="#111111",
            markersize=8,
            markeredgewidth=1.8,
            label="the paper's DQAM",
        )
        for trips, seconds in PAPER_SECONDS[place].items():
            words = f"{seconds / 60:.0f} min" if seconds > 100 else f"{seconds:.0f} s"
            axes.annotate(words, (trips, seconds), xytext=(0, 8), textcoords="offset points", fontsize=8, ha="center")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.margins(x=0.12, y=0.14)
        axes.set_xticks(ticks, [f"{size:,}" for size in ticks], fontsize=8)
        axes.xaxis.set_minor_locator(_nothing())
        axes.set_xlabel("trips", fontsize=9)
        named = " / ".join(dict.fromkeys(labels[data, size] for size in sizes))
        axes.set_title(named, fontsize=10, loc="left", fontweight="bold", parse_math=False)
        _tidy(axes)
    figure.supylabel("seconds (log scale)", fontsize=9)
    _finish(figure, pair, f"Running time of {TIMED}, ε = {plan.settings.timed_epsilon:g}", note, path)


def timed_lines(names: list[str]) -> list[tuple[str, str]]:
    """The (protocol, mechanism) of each timed mechanism."""
    return [(PAPER if name.endswith("-printed") else DISTINCT, name) for name in names]


def save_points(shown: list[Panel], protocol: str, measure: str, path: Path) -> None:
    """The numbers behind a figure of curves."""
    rows = []
    for panel in shown:
        spot = panel.spot
        for line in panel.lines:
            for epsilon, point in line.points.items():
                name = f"{line.mechanism} (best T in hindsight)" if line.hindsight else line.mechanism
                where = (protocol, spot.data, spot.trips, spot.resolution, spot.queries, epsilon, name, measure)
                rows.append((*where, point.mean, point.deviation, point.low, point.high, point.runs, point.rounds))
    save_csv(path, (*HEADER, *SUMMARY), rows)


def require_matplotlib() -> None:
    """Fail before the runs if the figures could not be drawn after them."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InputError("Drawing the figures needs matplotlib: pip install 'dqam[plot]'.") from None


def _figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=130, layout="constrained")


def _nothing() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()


def _tidy(axes: Any) -> None:
    axes.tick_params(labelsize=8, labelbottom=True)
    axes.grid(True, color="#e4e4e4", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _finish(figure: Any, axes: Any, title: str, note: str, path: Path) -> None:
    """Add the title, the note and one legend for all panels, and save both files."""
    import matplotlib

    entries: dict[str, Any] = {}
    for one in axes:
        for handle, name in zip(*one.get_legend_handles_labels(), strict=True):
            entries.setdefault(name, handle)
    width = figure.get_figwidth()
    longest = max(map(len, entries), default=1)
    fitting = max(1, min(len(entries), int(width / (0.95 + 0.062 * longest))))
    figure.legend(
        entries.values(),
        entries.keys(),
        loc="outside lower left",
        ncols=fitting,
        fontsize=8.5,
        frameon=False,
        handlelength=3.2,
    )
    inch = 1 / figure.get_figheight()
    figure.suptitle(f"{title}\n ", fontsize=12, fontweight="bold", x=0.06 / width, ha="left", linespacing=1.6)
    figure.text(0.06 / width, 1 - 0.48 * inch, note, fontsize=8, color="#555555", va="bottom", parse_math=False)
    with matplotlib.rc_context({"svg.hashsalt": "dqam"}):
        for ending, extra in ((".png", {}), (".svg", {"metadata": {"Date": None}})):
            with replacing(path.with_name(path.name + ending)) as temporary:
                figure.savefig(temporary, **extra)
            figure.set_layout_engine("none")  # keep the layout of the first file for the second
