"""Current-consistent inference: the closest histogram whose answers never shrink when a rectangle grows.

`dqam.consistency.cone` defines current-consistent histograms and shows that they are the monotone ones. Among those
with a given sum of endpoints, `fit_histogram` finds the one with the least weighted squared distance to what was
measured: cells, edges and, if given, answers. The solver stops when it can prove that the optimum is near, and `repair`
makes its result exactly consistent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dqam.consistency.cone import bordered, raise_endpoints, repair
from dqam.consistency.least_squares import LatticeSums, LeastSquares, RectangleAnswers
from dqam.consistency.solver import solve
from dqam.errors import InputError
from dqam.geometry.arrays import Floats, Integers
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.lattice import Lattice, Parts, flat
from dqam.geometry.regions import coverage


@dataclass(frozen=True, eq=False)
class CellTargets:
    """What was measured for every cell and edge, with weights: arrays of the same shape, or one number for all.

    A target measured with noise of variance s^2 has the weight 1 / s^2. All weights must be positive: this makes the
    optimum unique and the gap finite.

    endpoints   float64[rows, columns]
    vertical    float64[rows, columns - 1], crossings between a cell and the next one to the east
    horizontal  float64[rows - 1, columns], crossings between a cell and the next one to the north
    """

    endpoints: Floats
    vertical: Floats
    horizontal: Floats
    endpoint_weights: ArrayLike = 1.0
    vertical_weights: ArrayLike = 1e-4
    horizontal_weights: ArrayLike = 1e-4


@dataclass(frozen=True, eq=False)
class AnswerTargets:
    """Measured answers to rectangles, with weights.

    rectangles  int64[m, 4], grid lines (west, south, east, north)
    counts      float64[m]
    weights     float64[m], or one number for all
    """

    rectangles: Integers
    counts: Floats
    weights: ArrayLike = 1.0


@dataclass(frozen=True, eq=False)
class SumTargets:
    """Targets for the numbers of a lattice: endpoints added up over its cells, and edges along its lines.

    lattice  a lattice of the histogram's grid
    parts    target sums: endpoints, vertical and horizontal edges of the lattice
    """

    lattice: Lattice
    parts: Parts
    endpoint_weight: float = 1.0
    edge_weight: float = 1.0


@dataclass(frozen=True, eq=False)
class FittedHistogram:
    """The consistent histogram found, and how close it is to the optimum.

    steps      number of steps the solver took
    objective  weighted squared distance of `histogram` to the targets
    bound      lower bound on the objective of every consistent histogram
    raised     sum by which endpoints were raised for consistency, as a share of the total
    converged  whether `gap` and `raised` were within the tolerance before the steps ran out
    """

    histogram: SpatialHistogram
    steps: int
    objective: float
    bound: float
    raised: float
    converged: bool

    @property
    def gap(self) -> float:
        """objective - bound, which is at least the weighted squared distance from `histogram` to the optimum."""
        return self.objective - self.bound


def fit_histogram(
    grid: Grid,
    total: float | None,
    cells: CellTargets,
    also: AnswerTargets | SumTargets | None = None,
    *,
    start: Parts | None = None,
    tolerance: float = 1e-3,
    most_steps: int = 20_000,
) -> FittedHistogram:
    """The current-consistent histogram of `total` with the least weighted squared distance to the targets.

    If `total` is None, the endpoints may have any sum.

    The fit has converged when its objective exceeds the minimum by at most the share `tolerance` of itself, and
    endpoints need to be raised by at most this share of the total. Its distance to the optimum is then at most
    sqrt(tolerance) times its distance to the targets. It begins at `start` or, by default, at the targets.
    """
    if total is not None and not (np.isfinite(total) and total >= 0):
        raise InputError(f"total must be a finite number of at least 0; got {total}.")
    problem = _problem(grid, np.nan if total is None else float(total), cells, also)
    first = None if start is None else (start[0].copy(), bordered(start[1], 1), bordered(start[2], 0))
    solution = solve(problem, tolerance, most_steps, first)
    a, v, h, y, z = solution.numbers
    if total is None:
        raise_endpoints(a, v, h, y, z)
        total = float(a.sum())
    made = repair(a, v[:, 1:-1], h[1:-1], y[:, 1:-1], z[1:-1], total)
    histogram = SpatialHistogram.from_flux(grid, made.endpoints, made.vertical, made.horizontal)
    return FittedHistogram(histogram, *solution[1:])


def _problem(grid: Grid, total: float, cells: CellTargets, also: AnswerTargets | SumTargets | None) -> LeastSquares:
    """The least-squares problem: targets and weights, checked and with borders."""
    rows, columns = grid.shape
    shapes = ((rows, columns), (rows, columns - 1), (rows - 1, columns))
    names = ("endpoints", "vertical", "horizontal")
    given = cells.endpoints, cells.vertical, cells.horizontal
    weights = cells.endpoint_weights, cells.vertical_weights, cells.horizontal_weights
    inner = [_checked(part, shape, name) for part, shape, name in zip(given, shapes, names, strict=True)]
    targets = inner[0], bordered(inner[1], 1), bordered(inner[2], 0)
    doubled = tuple(
        _doubled(weight, shape, target.shape, f"weights of {name}")
        for weight, shape, target, name in zip(weights, shapes, targets, names, strict=True)
    )
    if also is None:
        nothing = RectangleAnswers(np.zeros((0, 4), np.int64))
        return LeastSquares(total, targets, doubled, nothing, np.zeros(0), np.zeros(0))
    if isinstance(also, SumTargets):
        if not also.lattice.fits(grid):
            raise InputError(f"The lattice does not fit a grid of {rows} x {columns} cells.")
        counts = _checked(flat(also.parts), (also.lattice.numbers,), "sums")
        ends = np.arange(len(counts)) < also.lattice.cells
        pins = _positive(np.where(ends, also.endpoint_weight, also.edge_weight), counts.shape, "weights of sums")
        return LeastSquares(total, targets, doubled, LatticeSums(also.lattice), counts, pins)
    coverage(also.rectangles, rows, columns)
    rectangles = np.ascontiguousarray(also.rectangles, np.int64)
    counts = _checked(also.counts, (len(rectangles),), "counts")
    trust = _positive(also.weights, counts.shape, "weights of answers")
    return LeastSquares(total, targets, doubled, RectangleAnswers(rectangles), counts, trust)


def _checked(values: ArrayLike, shape: tuple[int, ...], name: str) -> Floats:
    array = np.array(values, np.float64)
    if array.shape != shape:
        raise InputError(f"{name} must have the shape {shape}; got {array.shape}.")
    if not np.isfinite(array).all():
        raise InputError(f"{name} must be finite numbers.")
    return array


def _positive(values: ArrayLike, shape: tuple[int, ...], name: str) -> Floats:
    array = _checked(np.broadcast_to(np.asarray(values, np.float64), shape), shape, name)
    if (array <= 0).any():
        raise InputError(f"{name} must be positive; the smallest is {array.min()}.")
    return array


def _doubled(weights: ArrayLike, shape: tuple[int, ...], outer: tuple[int, ...], name: str) -> Floats:
    """Twice the weights, with 1 on the border, where nothing depends on them."""
    doubled = np.ones(outer)
    border = outer[0] - shape[0], outer[1] - shape[1]
    inner = tuple(slice(wide // 2, size - wide // 2) for wide, size in zip(border, outer, strict=True))
    doubled[inner] = 2 * _positive(weights, shape, name)
    return doubled
