"""Errors of flows, beside simple ways to publish them: python -m benchmarks.flows [--data DIR] [--runs N].

256 x 256 cells. First, the table of all pairs of 16 x 16 tiles, where eps is the budget for flows alone: the sum of
absolute errors over the number of trips, the total over the number of trips, and the error of the 1,000 largest pairs
in % of their trips. "Cut" is Laplace noise on every pair, cut at 0; "threshold" sets every pair below 4 scales of noise
to 0. Then random pairs of squares, by their side in cells, and flows from a square to anywhere: the error in % of the
mean, and how often the 90 % intervals contain the truth, for all and for the upper half of the estimates. Then the
error of the map by size, with flows at the default share of the budget, relative to a map without them. Last, the time
and memory that a table of 10,000 zones takes.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import shapely

from benchmarks.flux_accuracy import data_sets, judges
from benchmarks.measure import claim, options, peak_gib, seconds
from dqam.geometry.arrays import Floats, Integers
from dqam.geometry.flow_table import FlowTable
from dqam.geometry.grid import Grid
from dqam.geometry.lattice import Lattice
from dqam.geometry.walks import Walks
from dqam.mechanisms.flows import estimate_flows, measure_flows
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.publishing.plan import Plan
from dqam.release.release import Release
from dqam.statistics import TripCount
from dqam.statistics.distinct import DistinctTrips
from dqam.values.guarantee import Promise

EPSILONS = ("1/3", "1")
OF_COUNT = Fraction(1, 20)  # epsilon for the number of trips, which a release knows from the map
TILES = 16
SIDES = (8, 16, 32, 64)
Z = 1.6449  # for intervals with a confidence of 90 %


def ends(walks: Walks) -> tuple[Integers, Integers]:
    """The first and the last cell of every trip on the grid."""
    on_grid = np.diff(walks.visits) > 0
    starts, stops = walks.visits[:-1][on_grid], walks.visits[1:][on_grid] - 1
    return walks.cells[starts].astype(np.int64), walks.cells[stops].astype(np.int64)


def flow_table(walks: Walks, epsilon: str, seed: int) -> FlowTable:
    """Flows with this budget, and a little more for the number of trips."""
    budget = Budget.of(Promise.of(Fraction(epsilon) + OF_COUNT))
    curator = Curator(Aggregates.of(walks), budget, SeededNoise(seed))
    trips = float(curator.measure(TripCount(), budget, OF_COUNT)[0])
    return estimate_flows(measure_flows(curator, budget, trips), trips)


def counted(first: Integers, last: Integers, tiles: Lattice) -> Integers:
    """int64[tiles, tiles]: the exact table."""
    labels = tiles.labels.ravel()
    pairs = labels[first] * tiles.cells + labels[last]
    return np.bincount(pairs, minlength=tiles.cells**2).reshape(tiles.cells, -1)


def asked(table: FlowTable, origins: Integers, destinations: Integers) -> tuple[Floats, Floats]:
    """Trips and standard deviations for pairs of rectangles, one by one."""
    out = table.leaving(np.asarray(shapely.box(*origins.T.astype(float))))
    into = table.arriving(np.asarray(shapely.box(*destinations.T.astype(float))))
    each = [table.between(out.rows(i, i + 1), into.rows(i, i + 1)) for i in range(len(origins))]
    value, variance = (np.array([pair[which][0, 0] for pair in each]) for which in (0, 1))
    return value, np.sqrt(variance)


def exact(first: Integers, last: Integers, grid: Grid, origins: Integers, destinations: Integers) -> Integers:
    """The exact trips for pairs of rectangles."""

    def inside(cells: Integers, box: Integers) -> Integers:
        row, column = np.divmod(cells, grid.columns)
        found = (column >= box[0]) & (column < box[2]) & (row >= box[1]) & (row < box[3])
        return np.asarray(found)

    pairs = zip(origins, destinations, strict=True)
    return np.array([np.count_nonzero(inside(first, a) & inside(last, b)) for a, b in pairs])


def squares(grid: Grid, side: int, count: int, rng: np.random.Generator) -> Integers:
    """Squares at random places."""
    side = min(side, *grid.shape)
    west = rng.integers(0, grid.columns - side + 1, count)
    south = rng.integers(0, grid.rows - side + 1, count)
    return np.stack([west, south, west + side, south + side], axis=1)


def main(*arguments: str) -> None:
    """Print the tables, and what holds of the targets."""
    parser = options(__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--trips", type=int, default=100_000)
    parser.add_argument("--epsilons", nargs="+", default=EPSILONS)
    parser.add_argument("--pairs", type=int, default=1_000, help="random pairs of squares of each size")
    parser.add_argument("--parts", nargs="+", default=["tables", "areas", "map", "zones"])
    given = parser.parse_args(arguments or None)
    if given.tiny:
        given.runs, given.trips, given.pairs, given.epsilons = 1, 300, 20, ["1"]
    for name, walks in data_sets(given.data, [given.trips], 5 if given.tiny else 8):
        grid, (first, last) = walks.grid, ends(walks)
        print(f"\n{name}", flush=True)
        made = {epsilon: [flow_table(walks, epsilon, seed) for seed in range(given.runs)] for epsilon in given.epsilons}
        if "tables" in given.parts:
            _tables(made, first, last, grid)
        if "areas" in given.parts:
            _areas(made, first, last, grid, given.pairs)
        if "map" in given.parts:
            _maps(walks, given.runs, 100 if given.tiny else 8_000)
        if "zones" in given.parts:
            _zones(walks, 20 if given.tiny else 100)


def _tables(made: dict[str, list[FlowTable]], first: Integers, last: Integers, grid: Grid) -> None:
    """Errors of the table of all pairs of tiles."""
    tiles = Lattice.even(grid, TILES)
    truth, trips = counted(first, last, tiles), len(first)
    shapes = np.asarray(shapely.box(*tiles.rectangles.T.astype(float)))
    largest = np.argsort(-truth, axis=None)[: min(1_000, np.count_nonzero(truth))]
    print("| eps | | sum of errors / n | total / n | largest pairs |\n| --- | --- | ---: | ---: | ---: |")
    for epsilon, tables in made.items():
        scale, rows = 1 / float(Fraction(epsilon)), dict[str, list[Floats]]()
        for seed, table in enumerate(tables):
            noisy = truth + np.rint(np.random.default_rng(seed).laplace(0, scale, truth.shape))
            ours = table.between(table.leaving(shapes), table.arriving(shapes))[0]
            tried = {"flows": ours, "cut": np.maximum(noisy, 0), "threshold": np.where(noisy < 4 * scale, 0, noisy)}
            for way, found in tried.items():
                off = np.abs(found - truth)
                top = off.ravel()[largest].sum() / truth.ravel()[largest].sum()
                rows.setdefault(way, []).append(np.array([off.sum() / trips, found.sum() / trips, top]))
        means = {way: np.mean(each, axis=0) for way, each in rows.items()}
        for way, (error, total, top) in means.items():
            print(f"| {epsilon} | {way} | {error:.3f} | {total:.3f} | {100 * top:.1f} % |", flush=True)
        claim(f"eps {epsilon}: cut / flows", means["cut"][0] / means["flows"][0], 2.5)
        claim(f"eps {epsilon}: threshold / flows", means["threshold"][0] / means["flows"][0], 1)
        claim(f"eps {epsilon}: total off by", abs(means["flows"][1] - 1), 0.01, True)


def _areas(made: dict[str, list[FlowTable]], first: Integers, last: Integers, grid: Grid, count: int) -> None:
    """Errors and coverage for pairs of squares."""
    rng, everywhere = np.random.default_rng(5), np.array([[0, 0, grid.columns, grid.rows]])
    print("| eps | squares of | mean | error | 90 % intervals: all | upper half |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    kinds = {f"{side} cells": (squares(grid, side, count, rng), squares(grid, side, count, rng)) for side in SIDES}
    kinds |= {f"{side} cells, to anywhere": (pair[0], np.repeat(everywhere, count, axis=0))
              for side, pair in zip(SIDES, list(kinds.values()), strict=True)}  # fmt: skip
    truths = {kind: exact(first, last, grid, *pair) for kind, pair in kinds.items()}
    for epsilon, tables in made.items():
        for kind, pair in kinds.items():
            truth, off, held, busy = truths[kind], [], [], []
            for table in tables:
                value, deviation = asked(table, *pair)
                low, high = np.maximum(value - Z * deviation, 0), value + Z * deviation
                inside = (np.rint(low) <= truth) & (truth <= np.rint(high))
                off.append(np.abs(value - truth).mean())
                held.append(inside.mean())
                busy.append(inside[value >= np.median(value)].mean())
            error = 100 * np.mean(off) / max(truth.mean(), 1e-9)
            print(
                f"| {epsilon} | {kind} | {truth.mean():,.1f} | {error:.0f} % | {100 * np.mean(held):.0f} % "
                f"| {100 * np.mean(busy):.0f} % |",
                flush=True,
            )


def _release(walks: Walks, seed: int, flows: bool) -> Release:
    """A release at eps = 1 with noise from a seed."""
    plan = Plan.of(walks.grid, 1, flows=flows)
    return plan.release(Curator(Aggregates.of(walks), Budget.of(plan.promise), SeededNoise(seed)), "benchmark")


def _maps(walks: Walks, runs: int, count: int) -> None:
    """The error of the map with flows relative to that without."""
    bands, sums = judges(walks.grid, count), Aggregates.of(walks)
    truth = {band: sums.total(DistinctTrips(cells)) for band, cells in bands.items()}
    errors = np.zeros((2, len(bands)))
    for seed in range(runs):
        for row, flows in enumerate((False, True)):
            histogram = _release(walks, seed, flows).histogram
            errors[row] += [np.abs(histogram.answers(cells) - truth[band]).mean() for band, cells in bands.items()]
    for band, (without, within) in zip(bands, errors.T, strict=True):
        claim(f"map at eps 1, {band}: error with flows / without", within / without, 1.15, True)


def _zones(walks: Walks, side: int) -> None:
    """The time that a table of side x side zones takes, and the peak of memory of the process."""
    release = _release(walks, 0, True)
    west, south, east, north = walks.grid.bounds
    x, y = np.meshgrid(np.linspace(west, east, side + 1), np.linspace(south, north, side + 1))
    moves = np.random.default_rng(0).uniform(-0.3, 0.3, (2, *x.shape)) * [[[east - west]], [[north - south]]] / side
    moves[:, (0, -1)] = moves[:, :, (0, -1)] = 0
    x, y = x + moves[0], y + moves[1]
    around = (0, 0), (0, 1), (1, 1), (1, 0)
    corners = [np.stack([x[i : i + side, j : j + side], y[i : i + side, j : j + side]], axis=-1) for i, j in around]
    zones = shapely.polygons(np.stack(corners, axis=2).reshape(-1, 4, 2))
    took, table = seconds(lambda: release.flows(list(zones)), 1)
    print(f"{len(zones):,} zones: {len(table):,} pairs in {took:.1f} s; peak of the process {peak_gib():.1f} GiB")


if __name__ == "__main__":
    main()
