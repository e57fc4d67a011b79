"""The closest current-consistent histogram, by our steps, against HiGHS on the same cone.

HiGHS gets the same constraints and inputs with the weighted L1 distance in place of squares: a linear program, which is
what it does best, and the paper's way to be consistent. Ours ends at a proven gap of 1e-3 of the squares and is then
exactly consistent; HiGHS ends at its default tolerances, or at a limit of time, which makes the ratio a lower bound.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import block_array, csr_array, eye_array, kron

from benchmarks.measure import claim, options, seconds
from dqam import cities
from dqam.consistency.currents import CellTargets, FittedHistogram, fit_histogram
from dqam.geometry.arrays import Floats
from dqam.geometry.counting import count_distinct
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.rectangles import random_rectangles
from dqam.geometry.walks import Walks, walk

TRIPS = 2000
EDGE_WEIGHT = 1e-4
Program = tuple[Floats, csr_array, Floats, csr_array]


def city(resolution: int, noise: float) -> tuple[list[Walks], CellTargets, Grid]:
    """Trips of a city, and their endpoints and edges with Laplace noise of `noise` and 40 times as much."""
    grid = Grid.over(cities.BOUNDS, resolution)
    walks = [walk(trips, grid) for trips in cities.city_trips(TRIPS, 0)]
    exact = SpatialHistogram.of(walks, grid)
    rng = np.random.default_rng(0)
    a = exact.endpoints + rng.laplace(0, noise, exact.faces.shape)
    v = exact.vertical + rng.laplace(0, 40 * noise, exact.vertical.shape)
    h = exact.horizontal + rng.laplace(0, 40 * noise, exact.horizontal.shape)
    return walks, CellTargets(a, v, h, 1.0, EDGE_WEIGHT, EDGE_WEIGHT), grid


def linear_program(cells: CellTargets) -> Program:
    """Costs, inequalities and the total over (a, v, h, y, z, how far a, v and h are from where they were)."""
    rows, columns = cells.endpoints.shape
    east = csr_array(eye_array(columns, columns - 1) - eye_array(columns, columns - 1, k=-1))  # edges to differences
    north = csr_array(eye_array(rows, rows - 1) - eye_array(rows, rows - 1, k=-1))
    across, up = kron(eye_array(rows), east), kron(north, eye_array(columns))
    a, v, h = (eye_array(part.size) for part in (cells.endpoints, cells.vertical, cells.horizontal))
    target = np.concatenate([part.ravel() for part in (cells.endpoints, cells.vertical, cells.horizontal)])
    none: list[None] = [None] * 3
    cone = [
        row
        for sign in (-1, 1)
        for row in (
            [None, -v / 2, None, sign * v, None, *none],
            [None, None, -h / 2, None, sign * h, *none],
            [-a, None, -sign * up / 2, sign * across, None, *none],
            [-a, -sign * across / 2, None, None, sign * up, *none],
        )
    ]
    away = [
        row
        for sign in (-1, 1)
        for row in (
            [sign * a, None, None, None, None, -a, None, None],
            [None, sign * v, None, None, None, None, -v, None],
            [None, None, sign * h, None, None, None, None, -h],
        )
    ]
    matrix = csr_array(block_array([*cone, *away]))
    bound = np.concatenate([np.zeros(matrix.shape[0] - 2 * len(target)), -target, target])
    cost = np.zeros(matrix.shape[1])
    cost[-len(target) :] = np.where(np.arange(len(target)) < a.shape[0], 1.0, np.sqrt(EDGE_WEIGHT))
    total = csr_array((np.ones(a.shape[0]), (np.zeros(a.shape[0], int), np.arange(a.shape[0]))), (1, len(cost)))
    return cost, matrix, bound, total


def solve(program: Program, most_seconds: float) -> bool:
    """HiGHS by interior points, its faster way here; whether it was done in time."""
    cost, matrix, bound, total = program
    solved = linprog(
        cost, matrix, bound, total, [TRIPS], (None, None), method="highs-ipm", options={"time_limit": most_seconds}
    )
    return bool(solved.status == 0)


def main(*arguments: str) -> None:
    tiny = options(__doc__).parse_args(arguments or None).tiny
    fit_histogram(*_problem(city(3, 1.0)))  # compile
    for resolution in (3,) if tiny else (5, 6, 7):
        given = city(resolution, 1.0)
        side = 2**resolution
        ours, found = seconds(lambda g=given: fit_histogram(*_problem(g)))  # type: ignore[misc]
        slow, done = seconds(lambda p=linear_program(given[1]): solve(p, 120), runs=1)  # type: ignore[misc]  # noqa: B008
        print(f"{side:>4} x {side:<4} ours {ours:6.3f} s, {_words(found)}; HiGHS {'' if done else 'over '}{slow:.1f} s")
        if resolution == 7:
            claim("HiGHS / ours at 128 x 128", slow / ours, 50)
    paces = []
    for resolution in (3, 4) if tiny else (6, 7, 8, 9, 10):
        walks, cells, grid = city(resolution, 1.0)
        steps = 2 if tiny else max(2, 2**24 // 4**resolution)
        taken, found = seconds(lambda c=cells, g=grid, s=steps: fit_histogram(g, TRIPS, c, tolerance=0, most_steps=s))  # type: ignore[misc]
        paces.append(taken / found.steps / 4**resolution * 1e9)
        print(f"{grid.rows:>4} x {grid.columns:<4} {paces[-1]:6.2f} ns a cell and step")
    claim("a step's time per cell, slowest grid / fastest", max(paces) / min(paces), 3, at_most=True)
    for noise in (1.0,) if tiny else (0.2, 1.0, 5.0):
        walks, cells, grid = city(4 if tiny else 8, noise)
        taken, found = seconds(lambda c=cells, g=grid: fit_histogram(g, TRIPS, c), runs=1)  # type: ignore[misc]
        rectangles = random_rectangles(grid, 2000, np.random.default_rng(5))
        truth = count_distinct(walks, rectangles, grid)
        noisy = SpatialHistogram.from_flux(grid, cells.endpoints, cells.vertical, cells.horizontal)
        before, after = (np.abs(of.answers(rectangles) - truth).mean() for of in (noisy, found.histogram))
        print(
            f"{grid.rows:>4} x {grid.columns:<4} noise {noise}: {taken:.2f} s, {_words(found)}; "
            f"error {before:.0f} -> {after:.0f}"
        )


def _problem(given: tuple[list[Walks], CellTargets, Grid]) -> tuple[Grid, float, CellTargets]:
    return given[2], TRIPS, given[1]


def _words(found: FittedHistogram) -> str:
    return f"{found.steps} steps, gap {found.gap / found.objective:.1e}, raised {found.raised:.1e} of the mass"


if __name__ == "__main__":
    main()
