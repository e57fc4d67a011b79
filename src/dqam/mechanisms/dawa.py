"""DAWA (Li, Hay and Miklau, 2014): buckets of cells adapted to the data, then noisy counts adapted to the queries.

First, cells along a Hilbert curve are grouped into buckets of nearly equal shares (`dqam.statistics.buckets`). Second,
a binary tree over the buckets is measured level by level. Each level gets a share of the budget that is chosen from the
queries alone (GreedyH), and the levels are reconciled by least squares. The mass of a bucket is spread evenly over its
cells.

The answer to a rectangle is linear in the shares of cells. A share inside the rectangle counts once; a cell with s
sides on the border of the rectangle counts 1 + s (length - 1) / 4 times for trips of `length` visits (see `spread`). A
query reads a node of the tree if its mean weight is constant over the node, but not over the node's parent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numba import njit

from dqam.errors import InputError
from dqam.geometry.arrays import Floats, Integers
from dqam.geometry.grid import Grid
from dqam.geometry.hilbert import hilbert_order
from dqam.mechanisms.mechanism import Synthesis
from dqam.mechanisms.size import LOOK, measure_size
from dqam.mechanisms.spreading import spread, spread_evenly
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.statistics import MASS, MOST_TRIPS, CellShares, GroupShares, L1Buckets, QueryTotals, Question
from dqam.statistics.buckets import MOST_CELLS
from dqam.values.guarantee import parse_epsilon

SAMPLE = 500  # at most so many queries are used to choose the shares of levels
STEPS = 32  # number of shares that are tried for a level


@dataclass(frozen=True)
class Dawa:
    """DAWA; `ratio` of the budget is spent on the buckets, the rest on the counts.

    width  part of the penalty of a bucket, in addition to the noise of its count and in units of the noise of costs.
           Without it, noise alone would create buckets, because noisy costs may be negative. By default 2 + ln(cells) /
           8
    grain  the least penalty of a bucket if trips are long, as a fraction of all trips: edges are estimated from faces,
           and smoother faces give better estimates
    least  the signal (trips * epsilon) below which trips are spread evenly; by default 120 + sqrt(cells) / 3
    """

    name: ClassVar[str] = "dawa"
    about: ClassVar[str] = "buckets of similar cells (DAWA)"
    monotone: ClassVar[bool] = False

    ratio: float = 0.25
    width: float | None = None
    grain: float = 0.001
    least: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.ratio < 1:
            raise InputError(f"ratio must be between 0 and 1; got {self.ratio}.")
        if not self.grain >= 0 or not (self.width is None or self.width >= 0):
            raise InputError(f"width and grain must be at least 0; got {self.width} and {self.grain}.")

    def known_questions(self, grid: Grid, queries: Integers) -> tuple[Question, ...]:
        """The size, and the cell shares from which buckets and counts are computed."""
        cells = math.prod(grid.shape)
        if cells > MOST_CELLS:
            raise InputError(f"dawa supports at most {MOST_CELLS:,} cells; got {cells:,}. Use a lower resolution.")
        return (QueryTotals(queries), CellShares())

    def synthesize(self, curator: Curator, queries: Integers, budget: Budget) -> Synthesis:
        """Spend all of `budget`; counts are tuned for `queries`."""
        self.known_questions(curator.grid, queries)  # raises if the grid is too large
        cells = math.prod(curator.grid.shape)
        least = 120 + math.sqrt(cells) / 3 if self.least is None else self.least
        size = measure_size(curator, queries, budget, least, share=lambda _: LOOK)  # the rest is for buckets and counts
        even = spread_evenly(curator.grid, size)
        if not size.enough:
            return Synthesis(even)
        length = max(1.0, float(even.faces.sum()) / size.trips)
        smooth = self.grain * size.trips * (1 - 1 / length)
        shares = self.shares(curator, queries, budget, smooth, (length - 1) / 4)
        return Synthesis(spread(curator.grid, shares, size) if shares.any() else even)

    def shares(
        self, curator: Curator, queries: Integers, budget: Budget, smooth: float = 0.0, border: float = 0.0
    ) -> Floats:
        """float64[rows, columns]: the mass of each cell in trips, for all of `budget`.

        smooth  the least penalty of a bucket, in trips
        border  added to the weight of a cell for each of its sides that is on the query's border
        """
        grid, one = curator.grid, curator.unit.max_trips
        ratio = parse_epsilon(self.ratio)
        first, second = budget.split(buckets=ratio, counts=1 - ratio)
        counted = second.left
        order = hilbert_order(*grid.shape)
        width = 2 + math.log(len(order)) / 8 if self.width is None else self.width
        penalty = one / second.precision() + width * 4 * one / first.precision()
        starts = curator.partition(L1Buckets(order, min(max(penalty, smooth), MOST_TRIPS)), first)

        def ask(groups: Integers, share: Fraction) -> Floats:
            labels = np.empty(len(order), np.int64)
            labels[order] = groups
            return curator.measure(GroupShares(labels.reshape(grid.shape)), second, share * counted) / MASS

        power = 1 if second.concentrated else 2
        masses = estimate(starts, level_usage(starts, order, grid.columns, queries, border), ask, power)
        return fill(starts, order, without_negatives(masses)).reshape(grid.shape)


def level_usage(starts: Integers, order: Integers, columns: int, queries: Integers, border: float = 0.0) -> Floats:
    """How much queries read of each level of the binary tree over buckets, as sums of squared weights; leaves first.

    A cell of a query weighs 1, and `border` more for each of its sides that is on the query's border.
    """
    some = queries[np.linspace(0, len(queries) - 1, min(SAMPLE, len(queries))).astype(np.int64)]
    levels = (len(starts) - 2).bit_length() + 1
    return _level_usage(starts, order // columns, order % columns, some, border, levels)


def level_shares(usage: Floats, power: int = 2) -> list[Fraction]:
    """The shares of the budget for the levels, leaves first, that minimise the squared error of what queries read.

    The variance of noise is proportional to share^-power: 2 for a pure budget, 1 for a budget of rho. The levels are
    added from the leaves up: the share of the levels below is divided with the new level in the best of `STEPS` ways.
    """
    shares = [Fraction(1)]
    variances = np.array([2.0])  # of the estimate of a node, for a budget of 1
    tried = np.arange(STEPS) / STEPS
    for k in range(1, len(usage)):
        below = variances[:, None] / (1 - tried) ** power
        own = 1 / (tried**power / 2 + 1 / (2 * below[-1]))
        best = int(np.argmin(usage[:k] @ below + usage[k] * own))
        variances = np.append(below[:, best], own[best])
        shares = [share * Fraction(STEPS - best, STEPS) for share in shares] + [Fraction(best, STEPS)]
    return shares


def estimate(starts: Integers, usage: Floats, ask: Callable[[Integers, Fraction], Floats], power: int = 2) -> Floats:
    """float64[buckets]: the estimated mass of each bucket.

    ask    returns noisy sums by group, given the group of each cell and the share of the budget to spend
    power  of the share, to which the variance of noise is inversely proportional
    """
    sizes = np.diff(starts)
    bucket = np.repeat(np.arange(len(sizes)), sizes)
    shares = level_shares(usage, power)
    sums = [ask(bucket >> k, share) if share else None for k, share in enumerate(shares)]
    variances = [1 / float(share) ** power if share else np.inf for share in shares]
    return reconcile(sums, variances)


def fill(starts: Integers, order: Integers, masses: Floats) -> Floats:
    """float64[cells]: the masses of buckets, spread evenly over their cells."""
    sizes = np.diff(starts)
    cells = np.empty(len(order))
    cells[order] = np.repeat(masses / sizes, sizes)
    return cells


def reconcile(sums: Sequence[Floats | None], variances: Sequence[float]) -> Floats:
    """Least squares on a binary tree: the leaves that best fit noisy sums of its nodes; levels from the leaves up.

    A level that was not measured is None; the leaves are always measured. Node i has the children 2i and 2i + 1 on the
    level below.
    """
    leaves = sums[0]
    assert leaves is not None
    fits, widths = [leaves], [np.full(len(leaves), variances[0])]
    for own, variance in zip(sums[1:], variances[1:], strict=True):
        fit, width = _pairs(fits[-1]), _pairs(widths[-1])
        if own is not None:
            fit, width = (fit * variance + own * width) / (variance + width), variance * width / (variance + width)
        fits.append(fit)
        widths.append(width)
    final = fits[-1]
    for fit, width in zip(fits[-2::-1], widths[-2::-1], strict=True):
        missing = (final - _pairs(fit)) / _pairs(width)
        final = fit + np.repeat(missing, 2)[: len(fit)] * width
    return final


def without_negatives(values: Floats) -> Floats:
    """The nearest vector without negative entries that has the same sum; all 0 if the sum is negative.

    >>> without_negatives(np.array([5.0, -1.0, 0.5, 3.5])).round(2).tolist()
    [4.67, 0.0, 0.17, 3.17]
    """
    total = values.sum()
    if total <= 0:
        return np.zeros(len(values))
    falling = np.sort(values)[::-1]
    lower = (np.cumsum(falling) - total) / np.arange(1, len(values) + 1)  # by the number of entries that stay positive
    return np.maximum(values - lower[np.flatnonzero(falling > lower)[-1]], 0.0)


def _pairs(values: Floats) -> Floats:
    """Sums of consecutive pairs; the last entry may be alone."""
    return np.add.reduceat(values, np.arange(0, len(values), 2))


@njit(nogil=True, cache=True)
def _level_usage(starts, rows, columns, queries, border, levels):  # type: ignore[no-untyped-def]
    usage = np.zeros(levels)
    for q in range(len(queries)):
        west, south, east, north = queries[q]
        count = len(starts) - 1
        weights = np.zeros(count)
        even = np.ones(count, np.bool_)
        for b in range(count):
            for i in range(starts[b], starts[b + 1]):
                row, column = rows[i], columns[i]
                if west <= column < east and south <= row < north:
                    sides = (column == west) + (column == east - 1) + (row == south) + (row == north - 1)
                    weights[b] += 1 + border * sides
            weights[b] /= starts[b + 1] - starts[b]
        for k in range(levels - 1):
            above = (count + 1) // 2
            for i in range(above):
                one, other = 2 * i, min(2 * i + 1, count - 1)
                same = even[one] and even[other] and weights[one] == weights[other]
                if not same:
                    usage[k] += weights[one] ** 2 if even[one] else 0.0
                    usage[k] += weights[other] ** 2 if even[other] and other != one else 0.0
                weights[i], even[i] = weights[one], same
            count = above
        if even[0]:
            usage[levels - 1] += weights[0] ** 2
    return usage
