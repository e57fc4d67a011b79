"""A page about a release for whoever relies on it: the map, the promise in plain words, what answers are worth.

One HTML file that loads nothing and runs nothing. All in it is computed from the release; whatever a release holds in
words is escaped, as anyone may have written it. The frame is in report.html.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.resources import files
from itertools import pairwise
from string import Template
from typing import Any

import numpy as np

from dqam.geometry.arrays import Integers
from dqam.geometry.grid import Grid, is_degrees
from dqam.geometry.rectangles import Snapped, random_rectangles, snap
from dqam.mechanisms import MECHANISMS
from dqam.release.markup import area, crs_name, decimal, ground, percent, plain, table, trips
from dqam.release.picture import figure
from dqam.release.promise import budget, promise
from dqam.release.release import CONFIDENCE, Answer, Provenance, Release

TRIED = 20_000  # random rectangles
SIZES = (0.0, 0.01, 0.1, 0.3, math.inf)  # shares of the map between which rectangles are put together
SURE = percent(CONFIDENCE)
HEADINGS = {
    "map": "Map",
    "promise": "Promise",
    "budget": "Budget",
    "error": "Error",
    "answers": "Answers",
    "query": "Ask it yourself",
    "cite": "Cite",
    "details": "Parameters",
}
BANNER = (
    '<div class="banner" role="note"><strong>NOT PRIVATE</strong><p>Made with noise from a seed, for tests and '
    "experiments: who knows the seed can take the noise away. It comes with no promise. Do not publish it, nor this "
    "page.</p></div>"
)
TRIALS = (  # docs/mechanisms.md
    f"They were set by trials with trips of several cities, where 84 to 98 of 100 intervals of {SURE} held the true "
    "count; of large rectangles on maps of 100,000 trips or more as few as 65 did."
)


def report(release: Release) -> str:
    """One HTML page that explains a release."""
    from dqam import __version__

    provenance, private = release.provenance, release.provenance.private
    title = plain(provenance.title)
    examples = _examples(release.grid)
    middle = examples["The middle"]
    sides = _short(middle, release.grid)
    whose = "trip is" if provenance.unit.name == "trip" else "person's trips are"
    hidden = f"The trips themselves are not in it, and noise hides whether any one {whose} among them."
    contents = (f'<a href="#{name}">{words}</a>' for name, words in HEADINGS.items() if private or name != "promise")
    page = Template(files("dqam.release").joinpath("report.html").read_text(encoding="utf-8")).substitute(
        page_title=title if private else f"NOT PRIVATE: {title}",
        banner="" if private else BANNER,
        title=title,
        byline=_byline(provenance),
        hidden=hidden if private else "",
        facts=_facts(release),
        contents=" ".join(contents),
        map=figure(release) + (f"<p><strong>{plain(release.note)}</strong></p>" if release.note else ""),
        promise=promise(release) if private else "",
        budget=budget(provenance),
        error=_error(release),
        answers=_answers(release, examples),
        coordinates="degrees" if is_degrees(release.grid.crs) else f"the coordinates of {crs_name(release.grid)}",
        bounds=" ".join(sides),
        arguments=", ".join(sides),
        answer=plain(_ask(release, middle)),
        **_cell(release, middle),
        citation=_citation(provenance),
        bibtex=_bibtex(provenance),
        details=_details(release),
        version=plain(__version__),
    )
    return page.encode("utf-8", "replace").decode()  # half a surrogate could not be written to a file


def _byline(provenance: Provenance) -> str:
    made, when = "Published" if provenance.private else "Made", _when(provenance)
    words = plain(provenance.created) if when is None else f"{when.day} {when:%B %Y, %H:%M} UTC"
    return (
        f'{made} <time datetime="{plain(provenance.created)}">{words}</time> under the id '
        f"<code>{plain(provenance.id)}</code>. The file does not name its publisher."
    )


def _when(provenance: Provenance) -> datetime | None:
    try:
        return datetime.fromisoformat(str(provenance.created)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _facts(release: Release) -> str:
    """The four things to know first."""
    provenance, grid, whole = release.provenance, release.grid, release.trips
    unit, size = provenance.unit, ground(grid)
    cells = f"{grid.columns:,} &times; {grid.rows:,} cells"
    kept = f"for one person, of whom at most {unit.max_trips:,} trip{'s' * (unit.max_trips > 1)} count"
    about = MECHANISMS[provenance.mechanism].about if provenance.mechanism in MECHANISMS else ""
    shown = (
        (
            "Distinct trips",
            trips(whole.value),
            f"{_interval(whole)}<br>{SURE} interval" if release.doubt else "estimate",
        ),
        ("Privacy", f"ε = {decimal(provenance.epsilon)}", "for one trip" if unit.name == "trip" else kept)
        if provenance.private
        else ("Privacy", "none", "noise from a seed"),
        ("Map", cells, "") if size is None else ("Map", area(*size), cells),
        ("Mechanism", plain(provenance.mechanism), plain(about)),
    )
    return "\n".join(f"<div><dt>{name}</dt><dd>{value}<small>{note}</small></dd></div>" for name, value, note in shown)


def _interval(answer: Answer) -> str:
    return f"{trips(answer.low)} to {trips(answer.high)}"


def _ask(release: Release, lines: Integers) -> Answer:
    return release.counts(Snapped.of(lines[None, :], release.grid))[0]


# what answers are worth


def _error(release: Release) -> str:
    """Answers and intervals of random rectangles by their size."""
    grid, doubted = release.grid, release.doubt is not None
    cells = random_rectangles(grid, TRIED, np.random.default_rng(0))
    answers = release.counts(Snapped.of(cells, grid))
    share = (cells[:, 2] - cells[:, 0]) * (cells[:, 3] - cells[:, 1]) / (grid.rows * grid.columns)
    half = (answers.high - answers.low) / 2
    relative = np.divide(half, answers.value, out=np.full(len(half), np.inf), where=answers.value > 0)
    size, rows, bars = ground(grid), [], []
    for low, high in pairwise(SIZES):
        inside = (low <= share) & (share < high)
        name = _size(low, high)
        row = [name, *([] if size is None else [_area(low, high, size[0] * size[1] / 1e6)]), f"{inside.sum():,}"]
        if not inside.any():
            rows.append([*row, *["none"] * (3 if doubted else 1)])
            continue
        row.append(trips(float(np.median(answers.value[inside]))))
        if doubted:
            ratio = float(np.median(relative[inside]))
            row += [f"± {trips(float(np.median(half[inside])))}", f"± {percent(ratio)}"]
            bars.append((name, ratio))
        rows.append(row)
    header = ["Part of the map", *([] if size is None else ["km²"]), "Rectangles", "Typical answer"]
    asked = f"<p>{TRIED:,} random rectangles were asked, every rectangle of the map equally likely. "
    if not doubted:
        return (
            f"<p><strong>The mechanism {plain(release.provenance.mechanism)} gives no intervals:</strong> how far an "
            "answer may be off cannot be told from this release. Small rectangles, with few trips, are usually the "
            f"worst.</p>\n{asked}Given are medians.</p>\n" + table(header, rows)
        )
    return (
        f"{asked}Given are medians: half of the rectangles are better than that, half are worse. The half-width is "
        f"that of the {SURE} interval.</p>\n"
        + table([*header, "Half-width", "Relative to the answer"], rows)
        + _bars(bars)
        + "<p>The intervals cost no privacy: they come from drawing noise like that of this release again, and from "
        f"what such a map cannot tell, as which trips come back. They are no guarantee. {TRIALS}</p>\n"
    )


def _size(low: float, high: float) -> str:
    if low == 0:
        return f"below {percent(high)}"
    return f"above {percent(low)}" if math.isinf(high) else f"{100 * low:g} to {percent(high)}"


def _area(low: float, high: float, whole: float) -> str:
    high = min(high, 1.0)
    return f"below {high * whole:,.3g}" if low == 0 else f"{low * whole:,.3g} to {high * whole:,.3g}"


def _bars(bars: Sequence[tuple[str, float]]) -> str:
    """Bars of half-widths, in SVG; those beyond twice the answer end there."""
    longest = max((min(ratio, 2.0) for _, ratio in bars), default=0.0) or 1.0
    lines = []
    for i, (name, ratio) in enumerate(bars):
        wide, top = 72 * min(ratio, 2.0) / longest, 46 * i
        lines.append(
            f'<text x="0" y="{top + 14}">{name} of the map</text>'
            f'<rect x="0" y="{top + 20}" width="{wide:.4g}%" height="16" rx="2"/>'
            f'<text x="{wide:.4g}%" dx="8" y="{top + 33}">± {percent(ratio)}</text>\n'
        )
    told, high = "; ".join(f"{name} of the map: ± {percent(ratio)}" for name, ratio in bars), 46 * len(bars)
    return (
        f'<figure><svg class="bars" role="img" aria-label="Bar chart. {told}." width="100%" height="{high}">\n'
        f"{''.join(lines)}</svg><figcaption>Half-width of the {SURE} interval relative to the answer, by the size of "
        "the rectangle.</figcaption></figure>\n"
    )


def _examples(grid: Grid) -> dict[str, Integers]:
    """Some rectangles by name; a grid of one row or column has no quarters."""
    rows, columns = grid.shape
    x, y = columns // 2, rows // 2
    wide, high = columns // 4, rows // 4
    left, low = columns * 7 // 16, rows * 7 // 16
    named = {
        "The whole map": (0, 0, columns, rows),
        "North-west quarter": (0, y, x, rows),
        "North-east quarter": (x, y, columns, rows),
        "South-west quarter": (0, 0, x, y),
        "South-east quarter": (x, 0, columns, y),
        "The middle": (wide, high, columns - wide, rows - high),
        "Its very centre": (left, low, columns - left, rows - low),
    }
    return {name: np.array(lines) for name, lines in named.items() if lines[0] < lines[2] and lines[1] < lines[3]}


def _answers(release: Release, examples: dict[str, Integers]) -> str:
    grid, rows = release.grid, []
    for name, lines in examples.items():
        answer = _ask(release, lines)
        place = f"{name}<small>{' '.join(_short(lines, grid))}</small>"
        row = [f'<div class="place">{_icon(lines, grid)}<div>{place}</div></div>', trips(answer.value)]
        rows.append([*row, _interval(answer)] if release.doubt else row)
    header = ["Rectangle: west south east north", "Trips", *([f"{SURE} interval"] if release.doubt else [])]
    return (
        "<p>Parts need not add up to the whole: a trip through two quarters counts in both, and once on the map.</p>\n"
        + table(header, rows)
    )


def _icon(lines: Integers, grid: Grid) -> str:
    """Where a rectangle is, very small."""
    west, south, east, north = (
        20 * float(line) / cells for line, cells in zip(lines, (grid.columns, grid.rows) * 2, strict=True)
    )
    return (
        '<svg class="where" width="22" height="22" viewBox="-1 -1 22 22" aria-hidden="true"><rect class="part" '
        f'x="{west:.3g}" y="{20 - north:.3g}" width="{east - west:.3g}" height="{north - south:.3g}"/>'
        '<rect class="whole" x="0" y="0" width="20" height="20"/></svg>'
    )


def _short(lines: Integers, grid: Grid) -> list[str]:
    """The sides of a rectangle of cells, drawn in to as few decimals as are answered with the same cells."""
    low, high = np.split(Snapped.of(lines[None, :], grid).bounds[0], 2)
    for digits in range(12):
        unit = 10.0**digits
        inward = np.concatenate([np.ceil(low * unit), np.floor(high * unit)]) / unit + 0.0  # which makes -0 a 0
        sides = [f"{side:.{digits}f}" for side in inward]
        west, south, east, north = map(float, sides)
        if west < east and south < north:
            again = snap(np.array([[west, south, east, north]]), grid).cells[0]
            if np.array_equal(again, lines):
                return sides
    return [repr(float(side)) for side in (*low, *high)]


# asking and citing


def _cell(release: Release, lines: Integers) -> dict[str, str]:
    """How xarray is asked for the cell in the middle of a rectangle, and what it says."""
    grid = release.grid
    column, row = int(lines[0] + lines[2]) // 2, int(lines[1] + lines[3]) // 2
    x, y = grid.from_cells(np.array([column + 0.5]), np.array([row + 0.5]))
    names = ("lon", "lat") if is_degrees(grid.crs) else ("x", "y")
    nearest = ", ".join(f"{name}={value[0]:.9g}" for name, value in zip(names, (x, y), strict=True))
    return {"nearest": nearest, "cell": f"{release.histogram.faces[row, column]:.4g}"}


def _year(provenance: Provenance) -> str:
    when = _when(provenance)
    return "n.d." if when is None else str(when.year)


def _citation(provenance: Provenance) -> str:
    return (
        f"<em>{plain(provenance.title)}</em> ({_year(provenance)}). Map of distinct trips. {plain(provenance.promise)} "
        f"Made with dqam {plain(provenance.versions.get('dqam', ''))}, mechanism {plain(provenance.mechanism)}. "
        f"Publication <code>{plain(provenance.id)}</code>."
    )


def _bibtex(provenance: Provenance) -> str:
    signs = {**{sign: f"\\{sign}" for sign in "{}$&#%_"}, "\\": r"\textbackslash ", "~": r"\~{}", "^": r"\^{}"}
    key = "".join(sign for sign in str(provenance.id) if sign.isalnum() and sign.isascii())[:12]

    def tex(value: object) -> str:
        return "".join(signs.get(sign, sign) for sign in " ".join(str(value).split()))

    fields = {
        "author": "{[Publisher]}",
        "title": f"{{{tex(provenance.title)}}}",
        "year": _year(provenance),
        "howpublished": f"Map of distinct trips, made with dqam {tex(provenance.versions.get('dqam', ''))}",
        "note": f"{tex(provenance.promise)} Publication {tex(provenance.id)}",
    }
    lines = "\n".join(f"  {name:<12} = {{{value}}}," for name, value in fields.items())
    return plain(f"@misc{{dqam-{key},\n{lines}\n}}")


def _details(release: Release) -> str:
    provenance, grid = release.provenance, release.grid
    unit, parameters = provenance.unit, provenance.parameters
    rows: list[tuple[str, Any]] = [
        ("Id", provenance.id),
        ("Created", provenance.created),
        ("Private", "yes" if provenance.private else "NO: noise from a seed"),
        ("ε", provenance.epsilon),
        ("Unit", "trip" if unit.name == "trip" else f"person, with at most {unit.max_trips:,} trips"),
        ("Neighbours", provenance.neighbours.value),
        ("Mechanism", provenance.mechanism),
        *(
            (f"{provenance.mechanism}: {name}", "by its own rule" if parameters[name] is None else parameters[name])
            for name in parameters
        ),
        ("Rectangles to be good at", provenance.queries),
        ("Trips cut at gaps of", provenance.gap or "not cut"),
        ("Grid", f"{grid.rows:,} rows x {grid.columns:,} columns"),
        ("Bounds", " ".join(repr(side) for side in grid.bounds)),
        ("CRS", grid.crs),
        *((f"Version of {name}", number) for name, number in provenance.versions.items()),
    ]
    body = "\n".join(f'<tr><th scope="row">{plain(name)}</th><td>{plain(value)}</td></tr>' for name, value in rows)
    return f'<div class="wide"><table class="key"><tbody>\n{body}\n</tbody></table></div>'
