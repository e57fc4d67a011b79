"""DQAM: the paper's quadtree and multiplicative weights, with sound privacy accounting.

Step 1 grows a quadtree on uniformity costs and measures the noisy mass of each of its regions. Step 2 runs rounds of
multiplicative weights: a count rescales all regions that the query meets, each according to its density.

This differs from the paper in more than the accounting. The synthesis starts from the densities of step 1, not from
evenly spread trips. A density is relative to the densest region. The depth of the tree, its threshold and the number of
rounds follow from the signal, trips * epsilon, which is measured. And the densities are *graded*: a cell has at least
about a third of the density of each of its neighbours, depending on the ratio of edges to faces. Edges then do not
exceed faces, and the exact consistent inference, which is run if they still do, has little to correct. Without grading,
it would correct a steep border between regions by raising faces far beyond that border.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numba import njit

from dqam.errors import InputError
from dqam.geometry.arrays import Floats, Integers, Mask
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.regions import Partition
from dqam.mechanisms.mechanism import Synthesis
from dqam.mechanisms.quadtree import grow_quadtree
from dqam.mechanisms.rounds import check_rounds, curator_oracle, run_rounds
from dqam.mechanisms.size import SizeEstimate, measure_size
from dqam.mechanisms.spreading import consistent, spread, spread_evenly
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.statistics import MASS, CellShares, GroupShares, QueryTotals, Question
from dqam.values.guarantee import parse_epsilon

TRIES = 6  # attempts at grading, until no edge exceeds a face
EMPTY = 1e-3  # the least density of a region, relative to the mean, so that it can be scaled up again


class Regions:
    """A density for each region, and the histogram computed from these."""

    def __init__(self, grid: Grid, partition: Partition, masses: Floats, size: SizeEstimate) -> None:
        self._grid, self._partition, self._size = grid, partition, size
        even = partition.sizes / partition.sizes.sum()
        shares = np.maximum(masses, 0) / max(np.maximum(masses, 0).sum(), 1e-9)
        self._masses = np.maximum(shares, EMPTY * even)
        self._densities = self._masses / self._masses.max()  # the weight of a region in updates
        self._grade = 0.0
        self._now = self._made()

    def histogram(self) -> SpatialHistogram:
        """The current estimate, which is consistent."""
        return self._now

    def learn(self, rectangles: Integers, counts: Floats) -> None:
        """Scale all regions that the newest rectangle meets by exp(error * density / 2n)."""
        error = counts[-1] - float(self._now.answers(rectangles[-1:])[0])
        met = meets(self._partition, rectangles[-1])
        self._masses = self._masses * np.exp(met * self._densities * error / (2 * self._size.trips))
        self._masses /= self._masses.sum()
        self._now = self._made()

    def _made(self) -> SpatialHistogram:
        cells = (self._masses / self._partition.sizes)[self._partition.labels]
        for _ in range(TRIES):
            _raise_steps(cells, self._grade)
            made = spread(self._grid, cells, self._size)
            needed = _grade(made)
            if needed <= self._grade:
                break
            self._grade = min(1.0, 1.02 * needed)
        return consistent(made, self._size)


def meets(partition: Partition, rectangle: Integers) -> Mask:
    """bool[regions]: whether each region has a cell in common with the rectangle."""
    west, south, east, north = partition.regions.T
    return (west < rectangle[2]) & (east > rectangle[0]) & (south < rectangle[3]) & (north > rectangle[1])


def _grade(histogram: SpatialHistogram) -> float:
    """The smallest ratio of the densities of neighbouring cells with which the edge between them exceeds neither face.

    Edges are r times the mean of their faces. If one face is g times the other, that is r (1 + g) / 2 times the larger
    one, and this is at most g times the larger one if g >= r / (2 - r).
    """
    faces = histogram.faces
    means = (faces[:, :-1].sum() + faces[:, 1:].sum() + faces[:-1].sum() + faces[1:].sum()) / 2
    ratio = float((histogram.vertical.sum() + histogram.horizontal.sum()) / means) if means > 0 else 0.0
    return min(1.0, ratio / (2 - min(ratio, 1.0)))


@njit(nogil=True, cache=True)
def _raise_steps(cells, grade):  # type: ignore[no-untyped-def]
    """Raise cells to at least `grade` times each of their neighbours, in place; two passes are enough."""
    rows, columns = cells.shape
    for row in range(rows):
        for column in range(columns):
            if row:
                cells[row, column] = max(cells[row, column], grade * cells[row - 1, column])
            if column:
                cells[row, column] = max(cells[row, column], grade * cells[row, column - 1])
    for row in range(rows - 1, -1, -1):
        for column in range(columns - 1, -1, -1):
            if row < rows - 1:
                cells[row, column] = max(cells[row, column], grade * cells[row + 1, column])
            if column < columns - 1:
                cells[row, column] = max(cells[row, column], grade * cells[row, column + 1])


@dataclass(frozen=True)
class Dqam:
    """DQAM. By default, `depth` and `rounds` follow from the signal s = trips * epsilon.

    depth   of the quadtree; by default log4(s) - 1, between 2 and 4
    rounds  of step 2; by default ln(s) - 3, and none below s = 1,000, where step 1 makes better use of the budget
    share   the fraction of the budget left after the size that is spent on the rounds
    least   the signal below which trips are spread evenly
    """

    name: ClassVar[str] = "dqam"
    about: ClassVar[str] = "regions of a quadtree, reweighted (DQAM)"
    monotone: ClassVar[bool] = False

    depth: int | None = None
    rounds: int | None = None
    share: Fraction = Fraction(1, 4)
    least: float = 150.0

    def __post_init__(self) -> None:
        check_rounds(self.rounds, least=0)
        if self.depth is not None and (not isinstance(self.depth, int | np.integer) or self.depth < 0):
            raise InputError(f"depth must be a whole number of at least 0; got {self.depth}.")
        object.__setattr__(self, "share", parse_epsilon(self.share))  # exact, so that the parts add up
        if not 0 < self.share < 1:
            raise InputError(f"share must be between 0 and 1; got {self.share}.")

    def known_questions(self, grid: Grid, queries: Integers) -> tuple[Question, ...]:
        """The size, and the cell shares from which the tree and its masses are computed."""
        return (QueryTotals(queries), CellShares())

    def synthesize(self, curator: Curator, queries: Integers, budget: Budget) -> Synthesis:
        """Spend all of `budget`."""
        grid, size = curator.grid, measure_size(curator, queries, budget, self.least)
        if not size.enough:
            return Synthesis(consistent(spread_evenly(grid, size), size))
        rounds = self.rounds
        if rounds is None:
            rounds = round(math.log(size.signal) - 3) if size.signal >= 1_000 else 0
        depth = self.depth
        if depth is None:
            depth = min(4, max(2, int(math.log(size.signal, 4)) - 1))
        learning = budget.left * self.share if rounds else Fraction(0)
        partition = grow_quadtree(curator, budget, max_depth=depth, amount=(budget.left - learning) / 2)
        masses = curator.measure(GroupShares(partition.labels), budget, budget.left - learning) / MASS
        model = Regions(grid, partition, masses, size)
        if not rounds:
            return Synthesis(model.histogram())
        return Synthesis(
            run_rounds(model, queries, rounds, curator_oracle(curator, queries, budget, rounds), size.trips)
        )
