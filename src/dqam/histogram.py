"""The spatial histogram: visits of cells and crossings of the edges between them.

For a rectangle R of cells, q(R) = faces inside minus edges inside counts how often walks come to R: every time a
walk is in R it visits one face more than it crosses edges. The same number is the endpoints in R plus half the
flux through R's border; a histogram can be given either way.

Faces and edges are also laid out together in one array of (2 rows - 1) x (2 columns - 1), faces at even places,
the edge between two faces in the middle between them. There the edge of a step from one cell to the next is the
mean of two positions, and one summed-area table answers any rectangle with four look-ups.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dqam.errors import InputError
from dqam.grid import Grid
from dqam.rectangles import check_rectangles
from dqam.threads import cores, each_span, spans
from dqam.walks import Walks

Counts = NDArray[Any]  # int64 where counted, float64 where estimated


@dataclass(frozen=True, eq=False)
class SpatialHistogram:
    """Faces (rows x columns), vertical edges (rows x columns-1) and horizontal edges (rows-1 x columns).

    vertical[i, j] counts crossings between the cells (i, j) and (i, j + 1), horizontal[i, j] those between
    (i, j) and (i + 1, j). Rows count from the south.
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
                raise ValueError(f"{name} have the shape {found}; a grid of {rows} x {columns} needs {wanted}.")

    @classmethod
    def of(cls, walks: Walks | Iterable[Walks], grid: Grid | None = None) -> SpatialHistogram:
        """The histogram of walks, or of batches of walks on `grid`: 1 for each visit and each crossing."""
        batches = [walks] if isinstance(walks, Walks) else walks
        total: NDArray[np.int64] | None = None
        for batch in batches:
            grid = grid or batch.grid
            if batch.grid != grid:
                raise InputError(f"Walks on different grids can not be added: {batch.grid} and {grid}.")
            total = _add_steps(batch, total)
        if grid is None:
            raise InputError("There are no walks to make a histogram of.")
        if total is None:
            total = np.zeros((2 * grid.rows - 1, 2 * grid.columns - 1), np.int64)
        vertical, horizontal = total[::2, 1::2].copy(), total[1::2, ::2].copy()
        faces = (total[::2, ::2] + _edges_around(vertical, horizontal)) // 2
        return cls(grid, faces, vertical, horizontal)

    @classmethod
    def from_flux(cls, grid: Grid, endpoints: Counts, vertical: Counts, horizontal: Counts) -> SpatialHistogram:
        """The histogram with given `endpoints` (see there) and edges."""
        return cls(grid, endpoints + _edges_around(vertical, horizontal) / 2, vertical, horizontal)

    @property
    def endpoints(self) -> NDArray[np.float64]:
        """Half the starts and ends in each cell: what a face has beyond half its edges."""
        return self.faces - _edges_around(self.vertical, self.horizontal) / 2

    @property
    def total(self) -> float:
        """Faces minus edges over the grid: the number of pieces of the walks counted."""
        return self.faces.sum() - self.vertical.sum() - self.horizontal.sum()

    @cached_property
    def _table(self) -> Counts:
        """Sums of faces minus edges over [0, i) x [0, j) of the common layout."""
        rows, columns = self.grid.shape
        kind = np.result_type(self.faces, self.vertical, self.horizontal)
        table = np.zeros((2 * rows, 2 * columns), kind)
        table[1::2, 1::2] = self.faces
        table[1::2, 2::2] = -self.vertical
        table[2::2, 1::2] = -self.horizontal
        np.cumsum(table, axis=0, out=table)
        np.cumsum(table, axis=1, out=table)
        return table

    def answers(self, rectangles: NDArray[np.int64]) -> Counts:
        """q(R) for each rectangle of cells, given as grid lines (west, south, east, north), in O(1) each."""
        west, south, east, north = check_rectangles(rectangles, self.grid).T
        table, width = self._table.ravel(), 2 * self.grid.columns
        left, right, low, high = 2 * west, 2 * east - 1, 2 * south * width, (2 * north - 1) * width
        return table[high + right] - table[low + right] - table[high + left] + table[low + left]

    def __add__(self, other: SpatialHistogram) -> SpatialHistogram:
        self._check_same_grid(other)
        return SpatialHistogram(
            self.grid,
            self.faces + other.faces,
            self.vertical + other.vertical,
            self.horizontal + other.horizontal,
        )

    def __sub__(self, other: SpatialHistogram) -> SpatialHistogram:
        self._check_same_grid(other)
        return SpatialHistogram(
            self.grid,
            self.faces - other.faces,
            self.vertical - other.vertical,
            self.horizontal - other.horizontal,
        )

    def _check_same_grid(self, other: SpatialHistogram) -> None:
        if self.grid != other.grid:
            raise InputError(f"Histograms of different grids do not add up: {self.grid} and {other.grid}.")


def spread_mass(walks: Walks) -> NDArray[np.float64]:
    """Mass 1 for each trip on the grid, spread evenly over its visits: float64[rows, columns]."""
    mass = np.zeros(walks.grid.rows * walks.grid.columns)
    _spread(walks.cells, walks.trip_visits, mass)
    return mass.reshape(walks.grid.shape)


def _edges_around(vertical: Counts, horizontal: Counts) -> Counts:
    """The sum of each cell's edges."""
    around = np.zeros((vertical.shape[0], horizontal.shape[1]), np.result_type(vertical, horizontal))
    around[:, :-1] += vertical
    around[:, 1:] += vertical
    around[:-1] += horizontal
    around[1:] += horizontal
    return around


def _add_steps(walks: Walks, total: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """`total`, in the common layout, with the crossings, starts and ends of `walks` added to it.

    Faces need no counting of their own: a visit is entered and left by an edge or is a start or an end.
    """
    shape = (2 * walks.grid.rows - 1, 2 * walks.grid.columns - 1)
    # a further thread needs a layout of its own, which must be worth its memory
    parts = spans(walks.pieces, min(cores(), 1 + len(walks.cells) // (shape[0] * shape[1])))

    def count(first: int, last: int) -> NDArray[np.int64]:
        layout = np.zeros(shape, np.int64) if total is None or first else total
        _count_steps(walks.cells, walks.pieces, first, last, walks.grid.columns, layout.ravel())
        return layout

    layouts = each_span(count, parts) or [np.zeros(shape, np.int64) if total is None else total]
    for layout in layouts[1:]:
        layouts[0] += layout
    return layouts[0]


@njit(nogil=True, cache=True)
def _count_steps(cells, pieces, first, last, columns, layout):  # type: ignore[no-untyped-def]
    width = 2 * columns - 1
    for piece in range(first, last):
        before = np.int64(cells[pieces[piece]])
        here = 2 * (before // columns) * width + 2 * (before % columns)
        layout[here] += 1
        for visit in range(pieces[piece] + 1, pieces[piece + 1]):
            cell = np.int64(cells[visit])
            step = cell - before  # to the next place of the layout: 1 sideways, its width up or down
            step = width if step == columns else (-width if step == -columns else step)
            layout[here + step] += 1
            here += 2 * step
            before = cell
        layout[here] += 1


@njit(nogil=True, cache=True)
def _spread(cells, trip_visits, mass):  # type: ignore[no-untyped-def]
    for trip in range(len(trip_visits) - 1):
        visits = trip_visits[trip + 1] - trip_visits[trip]
        for visit in range(trip_visits[trip], trip_visits[trip + 1]):
            mass[cells[visit]] += 1.0 / visits
