"""Current-consistent inference: the histogram closest to what was measured whose answers all grow with the rectangle.

`dqam.consistency.cone` says what current-consistent histograms are, and why these are the monotone ones. Among those
with a given sum of endpoints, `fit_histogram` finds the one with the least weighted squares off what was measured: cells
and edges, and if there are any, sums by region and answers. `dqam.consistency.descent` walks there until it can prove that
the optimum is near; in the end `repair` makes what it found exactly consistent.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from dqam.consistency.cone import bordered, repair
from dqam.consistency.descent import Iterate, LeastSquares, first_iterate, solve
from dqam.errors import InputError
from dqam.geometry.arrays import Floats, Integers
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.regions import Partition, coverage


@dataclass(frozen=True, eq=False)
class CellTargets:
    """What is known of every cell and edge: targets and their weights, arrays of the same shape or one number for all.

    A target measured with noise of variance s^2 has the weight 1 / s^2. All weights must be above 0: they are what
    makes the optimum unique and the gap finite.
    """

    endpoints: Floats
    vertical: Floats
    horizontal: Floats
    endpoint_weights: ArrayLike = 1.0
    vertical_weights: ArrayLike = 1e-4
    horizontal_weights: ArrayLike = 1e-4


@dataclass(frozen=True, eq=False)
class RegionSums:
    """Sums over the regions of a partition, as `dqam.statistics.questions` measures them, each array float64[regions].

    An edge belongs to the region of the cell west or south of it.
    """

    partition: Partition
    endpoints: Floats
    vertical: Floats
    horizontal: Floats
    endpoint_weights: ArrayLike = 1.0
    vertical_weights: ArrayLike = 1.0
    horizontal_weights: ArrayLike = 1.0


@dataclass(frozen=True, eq=False)
class AnswerTargets:
    """Measured answers of rectangles: int64[m, 4] grid lines (west, south, east, north), float64[m] counts and weights."""

    rectangles: Integers
    counts: Floats
    weights: ArrayLike = 1.0


@dataclass(frozen=True, eq=False)
class FittedHistogram:
    """The consistent histogram found, and how good it is.

    objective  the weighted squares of `histogram`
    bound      no consistent histogram has less
    raised     the share of the total by which `repair` raised endpoints in the end
    imbalance  how far the last step moved primal and dual variables, relative to their size
    converged  whether objective - bound and `raised` were within the tolerance before the steps ran out
    """

    histogram: SpatialHistogram
    steps: int
    objective: float
    bound: float
    raised: float
    imbalance: tuple[float, float]
    converged: bool
    state: Iterate = field(repr=False)

    @property
    def gap(self) -> float:
        """objective - bound: at least the weighted squared distance from here to the optimum."""
        return self.objective - self.bound


def project(histogram: SpatialHistogram, total: float, edge_weight: float = 1e-4) -> SpatialHistogram:
    """The current-consistent histogram of `total` closest to `histogram`: least squares of a plus weighted of edges."""
    cells = CellTargets(histogram.endpoints, histogram.vertical, histogram.horizontal, 1.0, edge_weight, edge_weight)
    return fit_histogram(histogram.grid, total, cells).histogram


def fit_histogram(
    grid: Grid,
    total: float,
    cells: CellTargets,
    regions: RegionSums | None = None,
    answers: AnswerTargets | None = None,
    *,
    start: FittedHistogram | None = None,
    tolerance: float = 1e-3,
    most_steps: int = 20_000,
) -> FittedHistogram:
    """The current-consistent histogram of `total` with the least sum of weighted squares off what was measured.

    It is found when its squares are at most `tolerance` above the least possible, relative to themselves, and `repair`
    adds at most this share of the total. Its distance to the optimum is then at most sqrt(tolerance) of its distance to
    what was measured. `start` may be the fit to other measurements on this grid; answers added to its own come last.
    """
    if not (np.isfinite(total) and total >= 0):
        raise InputError(f"The total of a consistent histogram is 0 or more; got {total}.")
    problem = _problem(grid, float(total), cells, regions, answers)
    if start is not None and start.histogram.grid != grid:
        raise InputError(f"A fit on {start.histogram.grid} is no start for one on {grid}.")
    found = solve(problem, first_iterate(problem, start.state if start else None), tolerance, most_steps)
    a, v, h, y, z = found.state.numbers
    made = repair(a, v[:, 1:-1], h[1:-1], y[:, 1:-1], z[1:-1], problem.total)
    return FittedHistogram(SpatialHistogram.from_flux(grid, made.endpoints, made.vertical, made.horizontal), *found)


def _problem(
    grid: Grid, total: float, cells: CellTargets, regions: RegionSums | None, answers: AnswerTargets | None
) -> LeastSquares:
    """What was measured, checked and put into arrays."""
    rows, columns = grid.shape
    shapes = ((rows, columns), (rows, columns - 1), (rows - 1, columns))
    names = ("endpoints", "vertical", "horizontal")
    inner = [_checked(part, shape, name) for part, shape, name in zip(_parts(cells), shapes, names, strict=True)]
    targets = inner[0], bordered(inner[1], 1), bordered(inner[2], 0)
    doubled = tuple(
        _doubled(weights, shape, target.shape, f"weights of {name}")
        for weights, shape, target, name in zip(_weights(cells), shapes, targets, names, strict=True)
    )
    labels, size = np.zeros((0, columns), np.int32), 0
    rectangles = np.zeros((0, 4), np.int64)
    counts, weights = [np.zeros(0)], [np.zeros(0)]
    if regions is not None:
        if (regions.partition.rows, regions.partition.columns) != grid.shape:
            raise InputError(f"The partition is not of {grid}.")
        labels, size = regions.partition.labels, len(regions.partition)
        for part, weight, name in zip(_parts(regions), _weights(regions), names, strict=True):
            counts.append(_checked(part, (size,), f"{name} by region"))
            weights.append(_positive(weight, (size,), f"weights of {name} by region"))
    if answers is not None:
        coverage(answers.rectangles, rows, columns)
        rectangles = np.ascontiguousarray(answers.rectangles, np.int64)
        counts.append(_checked(answers.counts, (len(rectangles),), "counts"))
        weights.append(_positive(answers.weights, (len(rectangles),), "weights of answers"))
    return LeastSquares(
        total, targets, doubled, labels, size, rectangles, np.concatenate(counts), np.concatenate(weights)
    )


def _parts(of: CellTargets | RegionSums) -> tuple[ArrayLike, ...]:
    return of.endpoints, of.vertical, of.horizontal


def _weights(of: CellTargets | RegionSums) -> tuple[ArrayLike, ...]:
    return of.endpoint_weights, of.vertical_weights, of.horizontal_weights


def _checked(values: ArrayLike, shape: tuple[int, ...], name: str) -> Floats:
    array = np.array(values, np.float64)
    if array.shape != shape:
        raise InputError(f"{name} have the shape {array.shape}; {shape} is needed.")
    if not np.isfinite(array).all():
        raise InputError(f"{name} must be finite.")
    return array


def _positive(values: ArrayLike, shape: tuple[int, ...], name: str) -> Floats:
    array = _checked(np.broadcast_to(np.asarray(values, np.float64), shape), shape, name)
    if (array <= 0).any():
        raise InputError(f"{name} must be above 0; the least is {array.min()}.")
    return array


def _doubled(weights: ArrayLike, shape: tuple[int, ...], outer: tuple[int, ...], name: str) -> Floats:
    """Twice the weights, with 1 on the border, where nothing depends on them."""
    doubled = np.ones(outer)
    border = outer[0] - shape[0], outer[1] - shape[1]
    inner = tuple(slice(wide // 2, size - wide // 2) for wide, size in zip(border, outer, strict=True))
    doubled[inner] = 2 * _positive(weights, shape, name)
    return doubled
