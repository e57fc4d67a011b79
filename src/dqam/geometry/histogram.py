"""The spatial histogram: visits of cells (faces) and crossings of the edges between them.

For a rectangle R of cells, q(R) = faces inside minus edges inside counts how often walks enter R or start in it: during
each stay, a walk visits one face more than it crosses edges. The same number is the endpoints in R plus half the flux
through the border of R, and a histogram can be given either way.

To answer queries, faces and edges are laid out together in one array of (2 rows - 1) x (2 columns - 1), with faces at
even indices and the edge between two faces at the index between theirs. One summed-area table then answers any
rectangle with four look-ups.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dqam.errors import InputError
from dqam.geometry.arrays import Floats, Integers, Numbers
from dqam.geometry.grid import Grid
from dqam.geometry.rectangles import check_rectangles

if TYPE_CHECKING:
    from dqam.geometry.border import BorderFields
    from dqam.geometry.walks import Walks


@dataclass(frozen=True, eq=False)
class SpatialHistogram:
    """Numbers of visits and crossings on a grid; rows count from the south.

    faces       [rows, columns], visits of each cell
    vertical    [rows, columns - 1], crossings between the cells (i, j) and (i, j + 1)
    horizontal  [rows - 1, columns], crossings between the cells (i, j) and (i + 1, j)
    """

    grid: Grid
    faces: Numbers
    vertical: Numbers
    horizontal: Numbers

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
        from dqam.geometry.tally import tally_crossings  # compiled code, which opening a release does not need
        from dqam.geometry.walks import Walks

        if isinstance(walks, Walks):
            return cls.of([walks], walks.grid)
        if grid is None:
            raise InputError("grid is needed for the histogram of batches of walks.")
        ends, vertical, horizontal = tally_crossings(walks, grid)
        # a walk enters and leaves each visit by an edge, or starts or ends there
        return cls(grid, (ends + _edges_around(vertical, horizontal)) // 2, vertical, horizontal)

    @classmethod
    def from_flux(cls, grid: Grid, endpoints: Numbers, vertical: Numbers, horizontal: Numbers) -> SpatialHistogram:
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
    def _table(self) -> Numbers:
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

    def answers(self, rectangles: Integers) -> Numbers:
        """q(R) for each rectangle of cells, given as grid lines (west, south, east, north), in O(1) each."""
        west, south, east, north = check_rectangles(rectangles, self.grid).T
        table, width = self._table.ravel(), 2 * self.grid.columns
        left, right, low, high = 2 * west, 2 * east - 1, 2 * south * width, (2 * north - 1) * width
        return table[high + right] - table[low + right] - table[high + left] + table[low + left]

    @cached_property
    def border(self) -> BorderFields:
        """This histogram in the form needed for integrals along the borders of areas."""
        from dqam.geometry.border import BorderFields  # compiled code, which rectangles do not need

        return BorderFields.of([(self.endpoints, self.vertical, self.horizontal)])

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


@dataclass(frozen=True, eq=False)
class TwoScaleHistogram(SpatialHistogram):
    """A histogram for small rectangles, joined with another one for large rectangles so that answers stay monotone.

    No single histogram is right at all scales: where trips return, small rectangles have to count every pass, and large
    ones must not. A rectangle of at most `side` x `side` cells is small, and the faces and edges of this histogram
    answer it. For a larger one, the answer is the smaller of two numbers: the answer of this histogram, and the answer
    of `large` plus `offset`. If a small rectangle inside it has a larger answer, the largest such answer is used. No
    answer exceeds `most`, the answer of `large` for the whole grid plus `offset`.

    If both histograms are monotone, so are these answers. This is clear among small rectangles, and for the smaller of
    the two numbers (rounding is monotone when a constant is added). A rectangle that grows contains more small ones, so
    the largest of their answers never shrinks. The answer for a large rectangle is never less than that for a small one
    inside it.
    """

    large: SpatialHistogram
    offset: float
    side: int

    @classmethod
    def of_two(cls, small: SpatialHistogram, large: SpatialHistogram, offset: float, side: int) -> TwoScaleHistogram:
        """Join two histograms on the same grid."""
        return cls(small.grid, small.faces, small.vertical, small.horizontal, large, offset, side)

    @cached_property
    def most(self) -> float:
        """The largest answer that is possible."""
        return float(self.large.total) + self.offset

    @property
    def total(self) -> float:
        """The answer for the whole grid."""
        return min(float(super().total), self.most)

    def answers(self, rectangles: Integers) -> Numbers:
        """The answer to each rectangle of cells, given as grid lines (west, south, east, north)."""
        found = super().answers(rectangles).astype(np.float64)
        rectangles = np.asarray(rectangles)
        wide = (rectangles[:, 2:] - rectangles[:, :2] > self.side).any(axis=1)
        if wide.any():
            some = rectangles[wide]
            limit = np.minimum(found[wide], self.large.answers(some) + self.offset)
            found[wide] = np.maximum(limit, self._largest_inside(some))
        return np.minimum(found, self.most)

    @cached_property
    def border(self) -> BorderFields:
        """Both histograms, the one for small rectangles first."""
        from dqam.geometry.border import BorderFields

        both = (self, self.large)
        return BorderFields.of([(one.endpoints, one.vertical, one.horizontal) for one in both])

    def is_monotone(self, tolerance: float = 0.0) -> bool:
        """Whether both histograms are monotone, up to `tolerance`."""
        return super().is_monotone(tolerance) and self.large.is_monotone(tolerance)

    def _largest_inside(self, rectangles: Integers) -> Numbers:
        """The largest answer of a small rectangle inside each of `rectangles`.

        Answers are monotone, so only small rectangles of the largest size that fits need to be compared. Those of
        `side` x `side` cells are looked up in tables of maxima along rows; the others are answered one by one.
        """
        west, south, east, north = rectangles.T
        wide, high = np.minimum(east - west, self.side), np.minimum(north - south, self.side)
        largest = np.full(len(rectangles), -np.inf)
        both = (wide == self.side) & (high == self.side)
        tables = self._window_maxima if both.any() else []
        length = east - west - wide + 1  # number of places along a row
        level = np.frexp(length)[1] - 1
        for up in range(int((north - south - high).max()) + 1):
            here = np.flatnonzero((south + up + high <= north) & both)
            row, first = south[here] + up, west[here]
            last = first + length[here] - (1 << level[here])
            for power in np.unique(level[here]):
                at = level[here] == power
                table = tables[power]
                found = np.maximum(table[row[at], first[at]], table[row[at], last[at]])
                largest[here[at]] = np.maximum(largest[here[at]], found)
        for along in range(int(np.where(both, 0, np.maximum(length, north - south - high + 1)).max())):
            inside = (west + wide + along <= east) | (south + high + along <= north)
            here = np.flatnonzero(inside & ~both)
            x = west[here] + np.where(length[here] > 1, along, 0)
            y = south[here] + np.where(length[here] > 1, 0, along)
            windows = np.stack([x, y, x + wide[here], y + high[here]], axis=1)
            largest[here] = np.maximum(largest[here], SpatialHistogram.answers(self, windows))
        return largest

    @cached_property
    def _window_maxima(self) -> list[Floats]:
        """Tables of the largest answer of 1, 2, 4, ... neighbouring places of a small square, along each row."""
        rows, columns = self.grid.rows - self.side + 1, self.grid.columns - self.side + 1
        south, west = (axis.ravel() for axis in np.indices((rows, columns)))
        squares = np.stack([west, south, west + self.side, south + self.side], axis=1)
        tables: list[Floats] = [SpatialHistogram.answers(self, squares).reshape(rows, columns)]
        while 2 ** len(tables) <= columns:
            step, table = 2 ** (len(tables) - 1), tables[-1]
            tables.append(np.maximum(table[:, :-step], table[:, step:]))
        return tables


def _edges_around(vertical: Numbers, horizontal: Numbers) -> Numbers:
    """The sum of the edges of each cell: [rows, columns]."""
    around = np.zeros((vertical.shape[0], horizontal.shape[1]), np.result_type(vertical, horizontal))
    around[:, :-1] += vertical
    around[:, 1:] += vertical
    around[:-1] += horizontal
    around[1:] += horizontal
    return around


def _least_gain(endpoints: Floats, beside: Floats, across: Floats) -> float:
    """The smallest gain of a strip of a row, put on top of a rectangle or below it; all rows at once."""
    rows, columns = endpoints.shape
    rise = np.zeros((rows, columns))
    rise[:-1] += across / 2
    rise[1:] -= across / 2
    edge = np.zeros((rows, columns + 1))  # half the edges west and east of each cell
    edge[:, 1:-1] = beside / 2
    least = np.inf
    for gain in (endpoints + rise, endpoints - rise):
        smallest = np.full(rows, np.inf)
        for column in range(columns):
            smallest = np.minimum(smallest, edge[:, column]) + gain[:, column]
            least = min(least, float((smallest + edge[:, column + 1]).min()))
    return least
