"""Pair counts: how many trips begin in one cell and end in another, for the cells of two lattices."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from dqam.errors import InputError
from dqam.geometry.arrays import Integers, Mask
from dqam.geometry.grid import Grid
from dqam.geometry.lattice import Lattice
from dqam.statistics.aggregate import Aggregate, Part

MOST_PAIRS = 2**24  # of cells, in one question


@dataclass(frozen=True)
class PairsByCell(Aggregate):
    """int64[cells of `origins`, cells of `destinations`]: trips by the cells of their first and of their last visit."""

    origins: Lattice
    destinations: Lattice

    def add_up(self, part: Part) -> Integers:
        """One pass over the trips."""
        on_grid = part.longest >= 0
        return self._counted(part, on_grid, np.zeros(int(on_grid.sum()), np.int64), 1)[0]

    def add_up_by_slice(self, part: Part, count: int) -> Integers:
        """The same in one pass; a trip in none of the slices adds nothing."""
        counted = (part.longest >= 0) & (part.slices >= 0) & (part.slices < count)
        return self._counted(part, counted, part.slices[counted].astype(np.int64), count)

    def _counted(self, part: Part, counted: Mask, groups: Integers, count: int) -> Integers:
        """int64[count, origins, destinations]: the trips that are `counted`, by their group."""
        visits, cells = part.walks.visits, part.walks.cells
        first, last = cells[visits[:-1][counted]], cells[visits[1:][counted] - 1]
        shape = self.origins.cells, self.destinations.cells
        pairs = self.origins.labels.ravel()[first] * shape[1] + self.destinations.labels.ravel()[last]
        size = shape[0] * shape[1]
        return np.bincount(groups * size + pairs, minlength=count * size).reshape(count, *shape).astype(np.int64)

    def covered_by(self, other: Aggregate) -> bool:
        """Counts for finer lattices with all of these lines include those for coarser ones."""
        return (
            type(other) is PairsByCell
            and _has_lines(other.origins, self.origins)
            and _has_lines(other.destinations, self.destinations)
        )

    def read_from(self, other: Aggregate, total: Integers) -> Integers:
        """The finer cells of each pair added up."""
        assert isinstance(other, PairsByCell)
        return _added_up(_added_up(total, self.origins, other.origins).T, self.destinations, other.destinations).T


@dataclass(frozen=True, eq=False)
class PairCounts:
    """The number of trips from each cell of one lattice to each cell of another: int64[origins * destinations].

    A trip begins in the cell of its first visit to the grid and ends in that of its last, whatever it does in between,
    and however often it leaves the grid. With a lattice of a single cell, these are trips by their origin or by their
    destination.

    Sensitivity 1, in L1 and in L2: each cell of the grid is in exactly one cell of either lattice. So a trip has
    exactly one pair, to which it adds 1, if it is on the grid, and adds nothing if it is not. Its pair is a function of
    the trip alone.

    Bits: every number is at most the number of trips.
    """

    origins: Lattice
    destinations: Lattice
    name: str = field(default="", init=False)
    resolution: int = field(default=1, init=False)
    sensitivity: ClassVar[int] = 1
    l2_squared: ClassVar[int] = 1

    def __post_init__(self) -> None:
        origin, destination = (getattr(lattice, "cells", 0) != 1 for lattice in (self.origins, self.destinations))
        ends = "origin and destination" if origin == destination else "origin" if origin else "destination"
        object.__setattr__(self, "name", f"Trips by {ends}")

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """Trips by pair of cells."""
        return (PairsByCell(self.origins, self.destinations),)

    def check(self, grid: Grid) -> None:
        """Both lattices must be of this grid, and their pairs must fit into memory."""
        for name in ("origins", "destinations"):
            lattice = getattr(self, name)
            if type(lattice) is not Lattice:
                raise InputError(f"{name} must be a Lattice; got {type(lattice).__name__}.")
            if not lattice.fits(grid):
                raise InputError(f"The lattice of {name} does not fit a grid of {grid.rows} x {grid.columns} cells.")
        if self.origins.cells * self.destinations.cells > MOST_PAIRS:
            raise InputError(
                f"{self.origins.cells:,} origins and {self.destinations.cells:,} destinations are more than "
                f"{MOST_PAIRS:,} pairs; use coarser lattices."
            )

    def value(self, *totals: Integers) -> Integers:
        """The pairs, origin by origin."""
        return totals[0].ravel()


def _has_lines(finer: Lattice, coarser: Lattice) -> bool:
    """Whether the coarser lattice has no lines that the finer one does not have."""
    return bool(np.isin(coarser.east, finer.east).all() and np.isin(coarser.north, finer.north).all())


def _added_up(numbers: Integers, lattice: Lattice, finer: Lattice) -> Integers:
    """int64[cells of `lattice`, ...]: numbers for the cells of `finer`, added up."""
    if lattice == finer:
        return numbers
    sums = np.zeros((lattice.cells, numbers.shape[1]), np.int64)
    np.add.at(sums, lattice.within(finer).labels.ravel(), numbers)
    return sums
