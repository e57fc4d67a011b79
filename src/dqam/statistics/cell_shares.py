"""Cell shares: how much of the trips is in each cell, with the mass of each trip spread evenly over its visits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dqam.errors import InputError
from dqam.geometry.arrays import Integers
from dqam.geometry.grid import Grid
from dqam.statistics.aggregate import Aggregate, Part
from dqam.statistics.question import OnAnyGrid

MASS = 2**30 - 2**24  # of a trip; `dqam.statistics.uniformity.UniformityCosts` explains the 2^24


@dataclass(frozen=True)
class MassByCell(Aggregate):
    """int64[rows, columns]: MASS // visits for each visit of each trip's longest piece."""

    def add_up(self, part: Part) -> Integers:
        """One pass over the visits of the longest pieces."""
        grid = part.walks.grid
        mass = np.zeros(grid.rows * grid.columns, np.int64)
        _add_shares(part.walks.cells, part.walks.pieces, part.longest, mass)
        return mass.reshape(grid.shape)

    def add_up_by_slice(self, part: Part, count: int) -> Integers:
        """The same in one pass."""
        grid = part.walks.grid
        mass = np.zeros((count, grid.rows * grid.columns), np.int64)
        _add_sliced_shares(part.walks.cells, part.walks.pieces, part.longest, part.slices, mass)
        return mass.reshape(count, *grid.shape)


@dataclass(frozen=True)
class CellShares(OnAnyGrid):
    """Each trip's mass spread evenly over its visits, by cell: int64[rows * columns], in units of 1/MASS.

    Sensitivity MASS: a trip with k visits adds k times floor(MASS / k) <= MASS in total, and all terms are positive. In
    L2 it is MASS as well: a trip with one visit adds MASS to one cell, and the L2 norm is at most the L1 norm.
    """

    name: str = field(default="Share of the trips in each cell", init=False)
    resolution: int = field(default=MASS, init=False)
    sensitivity: ClassVar[int] = MASS
    l2_squared: ClassVar[int] = MASS**2

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """Mass by cell."""
        return (MassByCell(),)

    def value(self, *totals: Integers) -> Integers:
        """The cells row by row."""
        return totals[0].ravel()


@dataclass(frozen=True, eq=False)
class GroupShares:
    """Cell shares added up over disjoint groups of cells: int64[groups], in units of 1/MASS.

    `labels` (int, rows x columns) names the group of each cell, from 0; cells labelled -1 are left out.

    Sensitivity MASS: a trip adds positive terms of at most MASS in total to the cells (see `CellShares`), and each cell
    is in at most one group. In L2 it is MASS as well: all cells of a trip may be in one group.
    """

    labels: NDArray[np.integer]
    name: str = "Share of the trips in each group of cells"
    resolution: int = field(default=MASS, init=False)
    sensitivity: ClassVar[int] = MASS
    l2_squared: ClassVar[int] = MASS**2

    def __post_init__(self) -> None:
        labels = np.array(self.labels)
        if labels.ndim != 2 or labels.dtype.kind not in "iu" or labels.min() < -1 or labels.max() < 0:
            raise InputError(
                f"labels must be whole numbers from 0, or -1, for rows x columns of cells; got {labels.dtype}."
            )
        labels.flags.writeable = False
        object.__setattr__(self, "labels", labels)

    def check(self, grid: Grid) -> None:
        """Every cell of this grid must have a label."""
        if self.labels.shape != grid.shape:
            raise InputError(f"Labels of {self.labels.shape} cells do not fit a grid of {grid.shape}.")

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """Mass by cell."""
        return (MassByCell(),)

    def value(self, *totals: Integers) -> Integers:
        """The cells of each group added up."""
        groups = np.zeros(int(self.labels.max()) + 1, np.int64)
        inside = self.labels >= 0
        np.add.at(groups, self.labels[inside], totals[0][inside])
        return groups


@njit(nogil=True, cache=True)
def _add_shares(cells, pieces, longest, mass):  # type: ignore[no-untyped-def]
    for piece in longest:
        if piece >= 0:
            share = MASS // (pieces[piece + 1] - pieces[piece])
            for visit in range(pieces[piece], pieces[piece + 1]):
                mass[cells[visit]] += share


@njit(nogil=True, cache=True)
def _add_sliced_shares(cells, pieces, longest, slices, mass):  # type: ignore[no-untyped-def]
    """The same, each trip in the row of its slice; a trip in no slice adds nothing."""
    for trip in range(len(longest)):
        piece = longest[trip]
        if piece >= 0 and 0 <= slices[trip] < len(mass):
            share = MASS // (pieces[piece + 1] - pieces[piece])
            for visit in range(pieces[piece], pieces[piece + 1]):
                mass[slices[trip], cells[visit]] += share
