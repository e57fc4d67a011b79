"""The spatial histogram: visits of cells (faces) and crossings of the edges between them.

For a rectangle R of cells, q(R) = faces inside minus edges inside counts how often walks enter R or start in it: during
each stay, a walk visits one face more than it crosses edges. The same number is the endpoints in R plus half the flux
through the border of R, and a histogram can be given either way.

For answers, faces and edges are laid out together in one array of (2 rows - 1) x (2 columns - 1), with faces at even
indices and the edge between two faces at the index between theirs. One summed-area table then answers any rectangle
with four look-ups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dqam.errors import InputError
from dqam.geometry.arrays import Floats, Integers
from dqam.geometry.grid import Grid
from dqam.geometry.rectangles import check_rectangles
from dqam.geometry.tracing import EdgeTally
from dqam.geometry.walks import Walks
from dqam.runtime.threads import cores, each_task, spans

SPAN = 2**19  # points that a thread tallies at a time
TALLIED = 2**26  # cells that all threads together may tally at once, in 1.5 GiB
Counts = NDArray[Any]  # int64 if counted, float64 if estimated


@dataclass(frozen=True, eq=False)
class SpatialHistogram:
    """Numbers of visits and crossings on a grid; rows count from the south.

    faces       [rows, columns], visits of each cell
    vertical    [rows, columns - 1], crossings between the cells (i, j) and (i, j + 1)
    horizontal  [rows - 1, columns], crossings between the cells (i, j) and (i + 1, j)
    """

    grid: Grid
    faces: Counts
    vertical: Counts
    horizontal: Counts

    def __post_init__(self) -> None:
        rows, columns = self.grid.shape
        for name, wanted in (
            ("faces", (rows, columns)),
            ("vertical", (rows, columns - 1)),
            ("horizontal", (rows - 1, columns)),
        ):
            found = getattr(self, name).shape
            if found != wanted:
                raise ValueError(f"{name} must have the shape {wanted} on {rows} x {columns} cells; got {found}.")

    def __repr__(self) -> str:
        return f"<SpatialHistogram: total {self.total:,.6g} on {self.grid}>"

    @classmethod
    def of(cls, walks: Walks | Iterable[Walks], grid: Grid | None = None) -> SpatialHistogram:
        """The histogram of walks, or of batches of walks on `grid`: 1 for each visit and each crossing."""
        if isinstance(walks, Walks):
            return cls.of([walks], walks.grid)
        if grid is None:
            raise InputError("grid is needed for the histogram of batches of walks.")
        runs, ends = _tallied(walks, grid)
        rows, columns = grid.shape
        by_row, by_column = np.split(runs, [rows * (columns + 1)])
        vertical = np.cumsum(by_row.reshape(rows, columns + 1), axis=1)[:, : columns - 1]
        horizontal = np.cumsum(by_column.reshape(columns, rows + 1), axis=1)[:, : rows - 1].T.copy()
        # a walk enters and leaves each visit by an edge, or starts or ends there
        faces = (ends.reshape(grid.shape) + _edges_around(vertical, horizontal)) // 2
        return cls(grid, faces, vertical, horizontal)

    @classmethod
    def from_flux(cls, grid: Grid, endpoints: Counts, vertical: Counts, horizontal: Counts) -> SpatialHistogram:
        """The histogram with the given endpoints (see `endpoints`) and edges."""
        return cls(grid, endpoints + _edges_around(vertical, horizontal) / 2, vertical, horizontal)

    @property
    def endpoints(self) -> Floats:
        """float64[rows, columns]: half the starts and ends in each cell, which is the face minus half its edges."""
        return self.faces - _edges_around(self.vertical, self.horizontal) / 2

    @property
    def total(self) -> float:
        """Faces minus edges over the grid: the number of pieces of all walks."""
        return self.faces.sum() - self.vertical.sum() - self.horizontal.sum()

    @cached_property
    def _table(self) -> Counts:
        """Sums of faces minus edges over [0, i) x [0, j) of the common layout."""
        rows, columns = self.grid.shape
        kind = np.result_type(self.faces, self.vertical, self.horizontal, np.int64)  # small types would overflow
        table = np.zeros((2 * rows, 2 * columns), kind)
        table[1::2, 1::2] = self.faces
        table[1::2, 2::2] = -self.vertical
        table[2::2, 1::2] = -self.horizontal
        np.cumsum(table, axis=0, out=table)
        np.cumsum(table, axis=1, out=table)
        return table

    def answers(self, rectangles: Integers) -> Counts:
        """q(R) for each rectangle of cells, given as grid lines (west, south, east, north), in O(1) each."""
        west, south, east, north = check_rectangles(rectangles, self.grid).T
        table, width = self._table.ravel(), 2 * self.grid.columns
        left, right, low, high = 2 * west, 2 * east - 1, 2 * south * width, (2 * north - 1) * width
        return table[high + right] - table[low + right] - table[high + left] + table[low + left]

    def is_monotone(self, tolerance: float = 0.0) -> bool:
        """Whether no answer falls when its rectangle grows and all lie between 0 and the total, up to `tolerance`.

        Let S be the columns l to r of one row, with endpoints a, edges `low` south and `high` north of each cell and
        `west` and `east` beside S; an edge beyond the grid is 0. Put on top of a rectangle, S adds

            gain(S) = sum of (a + (high - low) / 2) over S + (west + east) / 2,

        and `low` and `high` change places if S is put below. The answers are monotone and not negative if and only if
        no strip of a row or of a column has a negative gain in either direction, and no face is negative.

        The condition is necessary: if there are cells before S, its gain is the difference of two answers; if there
        are none, low = 0 and the gain is the answer of S. It is sufficient: a chain of strips joins nested rectangles,
        so every answer lies between a face in its rectangle and the answer of the whole grid, which is the total.

        Among the strips that end at r, the smallest gain without half the edge east of r is

            m(r) = min(m(r - 1), half the edge west of r) + a + (high - low) / 2,

        so one pass in each direction is enough. Unlike prefix sums, m never grows beyond the numbers around it.
        """
        edges = self.vertical.astype(np.float64), self.horizontal.astype(np.float64)
        endpoints = self.endpoints
        if not np.isfinite(self.faces).all() or not np.isfinite(endpoints).all():
            return False
        least = min(
            _least_gain(endpoints, *edges), _least_gain(endpoints.T, edges[1].T, edges[0].T), float(self.faces.min())
        )
        return least >= -tolerance


def _tallied(walks: Iterable[Walks], grid: Grid) -> EdgeTally:
    """The tallies of all batches, added up; new batches are read while threads work on earlier ones."""

    def parts() -> Iterator[tuple[Walks, int, int]]:
        for batch in walks:
            if batch.grid != grid:
                raise InputError(f"Walks on {batch.grid} cannot be counted in a histogram on {grid}.")
            for start, stop in spans(batch.offsets, 1 + batch.points // SPAN):
                yield batch, start, stop

    tallies = [EdgeTally.empty(grid) for _ in range(min(cores(), 1 + TALLIED // (grid.rows * grid.columns)))]
    each_task(lambda tally, part: part[0].tally(tally, *part[1:]), parts(), tallies)
    for tally in tallies[1:]:
        for total, part in zip(tallies[0], tally, strict=True):
            total += part
    return tallies[0]


def spread_mass(walks: Walks) -> Floats:
    """float64[rows, columns]: a mass of 1 for each trip on the grid, spread evenly over its visits."""
    lengths = np.diff(walks.visits)
    shares = np.repeat(1 / np.maximum(lengths, 1), lengths)
    mass = np.zeros(walks.grid.rows * walks.grid.columns)
    np.add.at(mass, walks.cells, shares)
    return mass.reshape(walks.grid.shape)


def _edges_around(vertical: Counts, horizontal: Counts) -> Counts:
    """The sum of the edges of each cell: [rows, columns]."""
    around = np.zeros((vertical.shape[0], horizontal.shape[1]), np.result_type(vertical, horizontal))
    around[:, :-1] += vertical
    around[:, 1:] += vertical
    around[:-1] += horizontal
    around[1:] += horizontal
    return around


@njit(nogil=True, cache=True)
def _least_gain(endpoints, beside, across):  # type: ignore[no-untyped-def]
    """The smallest gain of a strip of a row, added to a rectangle below or above it."""
    rows, columns = endpoints.shape
    least = np.inf
    for row in range(rows):
        up = down = np.inf
        west = 0.0
        for column in range(columns):
            rise = 0.0
            if row < rows - 1:
                rise += across[row, column] / 2
            if row > 0:
                rise -= across[row - 1, column] / 2
            east = beside[row, column] / 2 if column < columns - 1 else 0.0
            up = min(up, west) + (endpoints[row, column] + rise)
            down = min(down, west) + (endpoints[row, column] - rise)
            least = min(least, up + east, down + east)
            west = east
    return least
