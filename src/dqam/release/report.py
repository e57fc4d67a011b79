"""A page about a release for those who rely on it: the map, the privacy guarantee, and how accurate the answers are.

The page is one HTML file that loads nothing and runs nothing. Everything in it is computed from the release: here are
the numbers, the words are in `templates`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from dqam.geometry.arrays import Integers
from dqam.geometry.grid import Grid, is_degrees
from dqam.geometry.rectangles import ALL, Snapped, size_bands
from dqam.release.answers import Answer
from dqam.release.flow_report import describe_flows
from dqam.release.formatting import (
    Icon,
    area,
    crs_in_words,
    error_in_words,
    ground,
    icon,
    percent,
    render,
    shortest_sides,
    sides_in_cells,
    sides_on_ground,
    trips,
)
from dqam.release.picture import draw_picture
from dqam.release.promise import LARGE_EPSILON, beliefs, budget, delta_facts, factor, groups, overflow
from dqam.release.provenance import Provenance
from dqam.release.published_map import CONFIDENCE, PublishedMap
from dqam.release.slice_report import describe_slices
from dqam.values.guarantee import Promise, spell_delta

TRIED = 4_000  # rectangles of each band of sizes
RHO = "\N{GREEK SMALL LETTER RHO}"
LONGEST_BAR = 2.0  # in errors relative to the answer


@dataclass(frozen=True)
class Example:
    """A rectangle of cells, its sides as text, and the answer to it.

    icon  x, y, width and height on a map of 20 by 20, with y from the top
    """

    name: str
    sides: list[str]
    answer: Answer
    icon: Icon


@dataclass(frozen=True)
class Bar:
    """The expected error relative to the average answer, and the length of its bar in percent."""

    name: str
    ratio: float
    length: float


def report(release: PublishedMap) -> str:
    """One HTML page that explains a release."""
    from dqam import __version__

    provenance, grid, size = release.provenance, release.grid, ground(release.grid)
    epsilon = float(provenance.epsilon)
    rectangles = _rectangles(grid)
    examples = {name: _example(release, name, lines) for name, lines in rectangles.items()}
    accuracy, bars = _accuracy(release)
    picture = draw_picture(release)
    page = render(
        "release/templates/report.html",
        provenance=provenance,
        grid=grid,
        in_degrees=is_degrees(grid.crs),
        crs=crs_in_words(grid),
        size=size and area(*size),
        by_trip=provenance.unit.name == "trip",
        someone="a certain trip" if provenance.unit.name == "trip" else "a certain person",
        mechanism_about=provenance.mechanism_about,
        created=_created(provenance),
        year=_year(provenance),
        made_with=provenance.versions.get("dqam", ""),
        version=__version__,
        trips=release.trips,
        has_intervals=_has_intervals(release),
        confidence=percent(CONFIDENCE),
        picture=picture,
        slices=describe_slices(release),
        flows=describe_flows(release, picture),
        note=release.note,
        beliefs=beliefs(epsilon),
        groups=groups(provenance),
        factor=factor(epsilon),
        twice=factor(2 * epsilon),
        delta=delta_facts(provenance),
        delta_note=release.delta_note,
        is_large=epsilon >= LARGE_EPSILON,
        overflow=overflow(provenance),
        rows=budget(provenance),
        measurements=len(provenance.paid),
        tried=TRIED,
        accuracy=accuracy,
        bars=bars,
        examples=examples.values(),
        middle=examples["The middle"],
        cell=_cell(release, rectangles["The middle"]),
        bibtex=_bibtex(provenance),
        details=_details(release),
    )
    return page.encode("utf-8", "replace").decode()  # half of a surrogate pair cannot be written to a file


def _has_intervals(release: PublishedMap) -> bool:
    return not math.isnan(release.trips.low)


def _time(provenance: Provenance) -> datetime | None:
    try:
        return datetime.fromisoformat(str(provenance.created)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _created(provenance: Provenance) -> str:
    time = _time(provenance)
    return provenance.created if time is None else f"{time.day} {time:%B %Y, %H:%M} UTC"


def _year(provenance: Provenance) -> str:
    time = _time(provenance)
    return "n.d." if time is None else str(time.year)


def _accuracy(release: PublishedMap) -> tuple[list[list[str]], list[Bar]]:
    """The table of average answers and expected errors by size of the rectangle, and its bars."""
    grid, rng = release.grid, np.random.default_rng(0)
    rows, ratios = [], {}
    for band in size_bands(grid):
        cells = band.draw(grid, TRIED, rng)
        answer = float(release.counts(Snapped.of(cells, grid)).value.mean())
        on_ground = sides_on_ground(band, grid)
        row = [sides_in_cells(band), *([on_ground] if on_ground else []), trips(answer)]
        if release.uncertainty is not None:
            error = float(release.uncertainty.mean_errors(cells).mean())
            ratio = error / answer if answer > 0 else math.inf
            row += [trips(error), error_in_words(ratio)]
            ratios["all rectangles" if band.name == ALL else f"sides {on_ground or f'{row[0]} cells'}"] = ratio
        rows.append(row)
    longest = max((min(ratio, LONGEST_BAR) for ratio in ratios.values()), default=0.0) or 1.0
    return rows, [Bar(name, ratio, 72 * min(ratio, LONGEST_BAR) / longest) for name, ratio in ratios.items()]


def _rectangles(grid: Grid) -> dict[str, Integers]:
    """Rectangles of cells by name; a grid of one row or column has no quarters."""
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
        "The very centre": (left, low, columns - left, rows - low),
    }
    return {name: np.array(lines) for name, lines in named.items() if lines[0] < lines[2] and lines[1] < lines[3]}


def _example(release: PublishedMap, name: str, lines: Integers) -> Example:
    grid = release.grid
    answer = release.counts(Snapped.of(lines[None, :], grid))[0]
    return Example(name, shortest_sides(lines, grid), answer, icon(lines, grid))


def _cell(release: PublishedMap, lines: Integers) -> dict[str, Any]:
    """How to ask xarray for the cell in the middle of a rectangle, and its value."""
    grid = release.grid
    column, row = int(lines[0] + lines[2]) // 2, int(lines[1] + lines[3]) // 2
    x, y = grid.from_cells(np.array([column + 0.5]), np.array([row + 0.5]))
    names = ("lon", "lat") if is_degrees(grid.crs) else ("x", "y")
    nearest = ", ".join(f"{name}={value[0]:.9g}" for name, value in zip(names, (x, y), strict=True))
    return {"nearest": nearest, "value": release.histogram.faces[row, column]}


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
    return f"@misc{{dqam-{key},\n{lines}\n}}"


def _details(release: PublishedMap) -> list[tuple[str, Any]]:
    provenance, grid, flows = release.provenance, release.grid, release.flow_table
    unit, promise = provenance.unit, Promise(provenance.epsilon, provenance.delta)
    chosen = ", a number chosen privately" if provenance.max_trips_chosen else ""
    whose = "trip" if unit.name == "trip" else f"person, with at most {unit.max_trips:,} trips{chosen}"
    return [
        ("Id", provenance.id),
        ("Created", provenance.created),
        ("Private", "yes" if provenance.private else "NO: noise from a seed"),
        ("ε", provenance.epsilon),
        *([("δ", spell_delta(provenance.delta)), (RHO, float(promise.rho))] if promise.rho else []),
        ("Unit of privacy", whose),
        ("Neighbours", provenance.neighbours.value),
        ("Mechanism", provenance.mechanism),
        *(
            (f"{provenance.mechanism}: {name}", "chosen by the mechanism" if value is None else value)
            for name, value in provenance.parameters.items()
        ),
        ("Tuned for", provenance.queries),
        *([("Slices by", provenance.slices)] if provenance.slices else []),
        *([("Time zone", provenance.timezone)] if provenance.timezone else []),
        *([("Flows", f"between {flows.tiles.shape[0]} x {flows.tiles.shape[1]} tiles")] if flows else []),
        *([("Public prior", provenance.prior)] if provenance.prior else []),
        ("Split at gaps of", provenance.gap or "not split"),
        ("Grid", f"{grid.rows:,} rows, {grid.columns:,} columns"),
        ("Bounds", " ".join(repr(side) for side in grid.bounds)),
        ("CRS", grid.crs),
        *((f"Version of {name}", number) for name, number in provenance.versions.items()),
    ]
