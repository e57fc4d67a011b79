"""Errors and coverage of flux by shape of the area: python -m benchmarks.area_accuracy [--data DIR].

256 x 256 cells and areas at random places, judged against exact distinct counts. For each shape: the mean answer, the
mean absolute error in % of it with the exact histogram (which is not private), with flux, and with flux if borders were
staircases of cells (of its detailed histogram, and the smaller of the answers of both its histograms); and how often
the 90 % intervals of flux contain the truth. For lines, the same with crossings. Without the folder of real data there
are only trips in the made-up city.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import shapely
import shapely.affinity

from benchmarks.measure import claim, options
from dqam.experiments.datasets import made_up, real
from dqam.geometry.area_answers import answer_areas, answer_lines
from dqam.geometry.area_counting import count_crossings, count_in_areas
from dqam.geometry.areas import PlacedAreas, place_areas, place_lines
from dqam.geometry.arrays import Floats, Shapes
from dqam.geometry.border import Rings
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram, TwoScaleHistogram
from dqam.geometry.trips import Trips
from dqam.geometry.walks import walk
from dqam.mechanisms.flux import Flux
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.publishing.plan import default_queries
from dqam.values.guarantee import Promise
from dqam.values.uncertainty import Uncertainty

CONFIDENCE = 0.9
SQUARES = (8, 16, 24, 42, 64)  # sides in cells; discs, diamonds and hexagons have about the same areas
TURNS = (0, 20, 45, 70, 90)  # degrees
LIKE = {"discs": 1.7, "zones": 1.7, "diamonds": 2.2}  # times the error of squares of the same size, at most


def areas_by_shape(cells: int, count: int) -> dict[str, list[shapely.Geometry]]:
    """Areas in cells, at random places on a grid of cells x cells."""
    rng = np.random.default_rng(7)
    scale = cells / 256
    whole = shapely.box(0, 0, cells, cells)

    def placed(shape: Callable[[], shapely.Geometry]) -> list[shapely.Geometry]:
        found = []
        for _ in range(count):
            one = shapely.affinity.scale(shape(), scale, scale, origin=(0, 0))
            west, south, east, north = one.bounds
            found.append(shapely.affinity.translate(one, *rng.uniform((-west, -south), (cells - east, cells - north))))
        return found

    def on_lines(side: int) -> list[shapely.Geometry]:
        side = max(1, round(side * scale))
        corners = rng.integers(0, cells - side + 1, (count, 2))
        return list(shapely.box(*corners.T, *(corners + side).T))

    def zones(number: int) -> list[shapely.Geometry]:
        points = shapely.multipoints(rng.uniform(0, cells, (number, 2)))
        parts = shapely.get_parts(shapely.voronoi_polygons(points, extend_to=whole))
        return list(shapely.intersection(parts, whole))

    def turned(shape: shapely.Geometry, angle: float) -> shapely.Geometry:
        return shapely.affinity.rotate(shape, angle, origin=(0, 0))

    def corner(side: float) -> shapely.Geometry:
        return shapely.box(0, 0, side, side) - shapely.box(side / 2, side / 2, side, side)

    found = {f"squares {side}": on_lines(side) for side in SQUARES}
    for side in SQUARES:
        disc = shapely.Point(0, 0).buffer(side / np.sqrt(np.pi), 16)
        found[f"discs {side}"] = placed(lambda disc=disc: disc)  # type: ignore[misc]
    for side in SQUARES:
        diamond = turned(shapely.box(0, 0, side, side), 45)
        found[f"diamonds {side}"] = placed(lambda diamond=diamond: diamond)  # type: ignore[misc]
    for number in (60, 400):
        found[f"zones {number}"] = [zone for _ in range(max(1, count // 60)) for zone in zones(number)][: 3 * count]
    for side in (32, 64):
        found[f"L-shapes {side}"] = placed(lambda side=side: turned(corner(side), 90.0 * int(rng.integers(4))))  # type: ignore[misc]
    found["L-shapes 64, turned"] = placed(lambda: turned(corner(64), rng.uniform(0, 360)))
    for angle in TURNS:
        corridor = turned(shapely.box(0, 0, 60, 3), angle)
        found[f"corridors 3 x 60, {angle}°"] = placed(lambda corridor=corridor: corridor)  # type: ignore[misc]
    return found


def lines_by_length(cells: int, count: int) -> dict[str, list[shapely.Geometry]]:
    """Straight lines in cells, at random places and angles."""
    rng, found = np.random.default_rng(8), {}
    for length in (10, 30, 60):
        half, angle = length * cells / 512, rng.uniform(0, np.pi, count)
        middle = rng.uniform(half, cells - half, (count, 2))
        reach = half * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        found[f"lines {length}"] = list(shapely.linestrings(np.stack([middle - reach, middle + reach], axis=1)))
    return found


def staircases(histogram: SpatialHistogram, areas: PlacedAreas) -> tuple[Floats, Floats]:
    """The answers of |nx| V + |ny| H along each border, for polygons without holes: of the detailed histogram, and the
    smaller of those of both histograms."""
    sums = histogram.border.follow(Rings.of(shapely.get_exterior_ring(areas.shapes)))
    answers: Floats = sums.inside + sums.staircase / 2
    if not isinstance(histogram, TwoScaleHistogram):
        return answers[:, 0], answers[:, 0]
    bounds = shapely.bounds(areas.shapes)
    small = (bounds[:, 2:] - bounds[:, :2] <= histogram.side).all(axis=1)
    return answers[:, 0], np.minimum(answers[:, 0], np.where(small, np.inf, answers[:, 1] + histogram.offset))


def main(*arguments: str) -> None:
    """Print a table for each data set, and what holds of the targets."""
    parser = options(__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--trips", type=int, default=100_000)
    parser.add_argument("--epsilon", default="1")
    given = parser.parse_args(arguments or None)
    if given.tiny:
        given.runs, given.trips = 1, 300
    for data in [made_up()[0], *(real(given.data) if given.data else [])]:
        grid = Grid.over(data.bounds, 5 if given.tiny else 8)
        trips = Trips.concat(list(data.make(given.trips, 1)))
        walks = walk(trips, grid)
        exact, kept = SpatialHistogram.of(walks), Aggregates.of(walks)
        made: list[tuple[SpatialHistogram, Uncertainty]] = []
        for seed in range(given.runs):
            curator = Curator(kept, Budget.of(Promise.of(given.epsilon)), SeededNoise(seed))
            release = Flux().synthesize(curator, default_queries(grid), curator.budget)
            uncertainty = release.uncertainty()
            assert uncertainty is not None
            made.append((release.histogram, uncertainty))
        print(f"\n{data.label(given.trips)}, {given.trips:,} trips, eps = {given.epsilon}\n")
        print("| shape | mean answer | exact histogram | flux | staircase | smaller of two | within 90 % intervals |")
        print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
        found: dict[str, list[float]] = {}
        for shape, asked in areas_by_shape(grid.columns, 10 if given.tiny else 300).items():
            areas = place_areas(_on_map(asked, grid), grid)
            truth = count_in_areas([trips], areas, grid)
            off = [np.abs(answer_areas(exact, areas).value - truth).mean()]
            errors: list[float] = []
            detailed: list[float] = []
            smaller: list[float] = []
            held: list[float] = []
            for histogram, uncertainty in made:
                answers = answer_areas(histogram, areas)
                deviations = uncertainty.area_deviations(areas, answers)
                low, high = uncertainty.around(answers.value, deviations, CONFIDENCE)
                errors.append(np.abs(np.clip(answers.value, 0, histogram.total) - truth).mean())
                for stairs, other in zip((detailed, smaller), staircases(histogram, areas), strict=True):
                    stairs.append(np.abs(other - truth).mean())
                held.append(((low <= truth) & (truth <= high)).mean())
            found[shape] = _print_row(shape, truth.mean(), [off, errors, detailed, smaller], held)
        for shape, asked in lines_by_length(grid.columns, 10 if given.tiny else 300).items():
            lines = place_lines(_on_map(asked, grid), grid)
            truth = count_crossings([trips], lines, grid)
            off = [np.abs(answer_lines(exact, lines).value - truth).mean()]
            errors, held = [], []
            for histogram, uncertainty in made:
                answers = answer_lines(histogram, lines)
                deviations = uncertainty.line_deviations(lines, answers)
                low, high = uncertainty.around(answers.value, deviations, CONFIDENCE, np.inf)
                errors.append(np.abs(answers.value - truth).mean())
                held.append(((low <= truth) & (truth <= high)).mean())
            _print_row(shape, truth.mean(), [off, errors, [], []], held)
        _judge(found)


def _on_map(shapes: list[shapely.Geometry], grid: Grid) -> Shapes:
    """Shapes in cells in the coordinates of the map."""
    west, south, east, north = grid.bounds
    size = np.array([(east - west) / grid.columns, (north - south) / grid.rows])
    moved: Shapes = shapely.transform(np.array(shapes, object), lambda xy: xy * size + (west, south))
    return moved


def _print_row(shape: str, mean: float, errors: list[list[float]], held: list[float]) -> list[float]:
    """Print a row of the table; gives the errors of each way in % of the mean answer."""
    found = [100 * float(np.mean(part)) / mean if part else np.nan for part in errors]
    cells = [
        f"{mean:,.0f}",
        *(f"{part:.1f} %" if part == part else "" for part in found),
        f"{100 * np.mean(held):.0f} %",
    ]
    print(f"| {shape} | {' | '.join(cells)} |", flush=True)
    return found


def _judge(found: dict[str, list[float]]) -> None:
    """Print which targets hold; zones are compared with squares of their mean size."""
    print()
    squares = {side: found[f"squares {side}"][1] for side in SQUARES}
    for kind in ("discs", "diamonds"):
        for side in SQUARES:
            claim(f"{kind} {side}, error / squares", found[f"{kind} {side}"][1] / squares[side], LIKE[kind], True)
    for number in (60, 400):
        like = np.exp(np.interp(np.log(256 / np.sqrt(number)), np.log(SQUARES), np.log(list(squares.values()))))
        claim(f"zones {number}, error / squares", found[f"zones {number}"][1] / like, LIKE["zones"], True)
    for shape in (*(f"{kind} {side}" for kind in ("discs", "diamonds") for side in (24, 42, 64)), "zones 60"):
        claim(f"{shape}, error of the staircase / error", found[shape][2] / found[shape][1], 1.8)
    for shape in found:
        if shape.startswith(("discs", "zones")):
            claim(f"{shape}, error with the exact histogram in %", found[shape][0], 8, True)


if __name__ == "__main__":
    main()
