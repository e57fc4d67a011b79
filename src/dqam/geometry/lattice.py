"""A lattice: some of a grid's lines, and histograms on the coarse cells between them.

A histogram on a lattice becomes one on the grid by `refine`: endpoints and crossings are spread evenly along a coarse
edge and over a coarse cell, and between two lattice lines the crossings of the lines in between go over from those of
one to those of the other. In a coarse cell of w x h cells all differences of the current cone (`dqam.consistency.cone`)
are then 1 / (w h) of what they are on the lattice, and so is a: what is consistent stays consistent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dqam.errors import InputError
from dqam.geometry.arrays import Floats, Integers
from dqam.geometry.grid import Grid

Parts = tuple[Floats, Floats, Floats]  # endpoints, vertical and horizontal edges


@dataclass(frozen=True, eq=False)
class Lattice:
    """Grid lines, from 0 to the last of the grid, rising: `east` of the columns and `north` of the rows."""

    east: Integers
    north: Integers

    def __post_init__(self) -> None:
        object.__setattr__(self, "east", _lines(self.east))
        object.__setattr__(self, "north", _lines(self.north))

    def __eq__(self, other: object) -> bool:
        """Whether all lines are the same."""
        return (
            isinstance(other, Lattice)
            and np.array_equal(self.east, other.east)
            and np.array_equal(self.north, other.north)
        )

    def __hash__(self) -> int:
        return hash((self.east.tobytes(), self.north.tobytes()))

    @classmethod
    def even(cls, grid: Grid, side: int) -> Lattice:
        """About square coarse cells, `side` of them along the longer side of the grid, or all cells if it has fewer.

        >>> Lattice.even(Grid((0, 0, 1, 1), 4, 8), 3).east
        array([0, 3, 5, 8])
        """
        if side < 1:
            raise InputError(f"A lattice has 1 or more cells along a side; got {side}.")
        longer = max(grid.shape)
        east, north = (
            np.rint(np.linspace(0, cells, 1 + max(1, min(cells, round(side * cells / longer))))).astype(np.int64)
            for cells in (grid.columns, grid.rows)
        )
        return cls(east, north)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of coarse cells."""
        return len(self.north) - 1, len(self.east) - 1

    @property
    def cells(self) -> int:
        """The number of coarse cells."""
        return self.shape[0] * self.shape[1]

    @property
    def numbers(self) -> int:
        """How many endpoints and edges there are together."""
        rows, columns = self.shape
        return rows * columns + rows * (columns - 1) + (rows - 1) * columns

    def coarse(self) -> Grid:
        """A grid with the coarse cells as its cells; where they are is not told."""
        rows, columns = self.shape
        return Grid((0.0, 0.0, float(columns), float(rows)), rows, columns)

    def fits(self, grid: Grid) -> bool:
        """Whether the lines are those of this grid."""
        return (int(self.north[-1]), int(self.east[-1])) == grid.shape

    def parts(self, numbers: Floats) -> Parts:
        """Endpoints, vertical and horizontal edges from one vector of all."""
        rows, columns = self.shape
        a, v, h = np.split(numbers, [rows * columns, rows * columns + rows * (columns - 1)])
        return a.reshape(rows, columns), v.reshape(rows, columns - 1), h.reshape(rows - 1, columns)

    def refine(self, endpoints: Floats, vertical: Floats, horizontal: Floats) -> Parts:
        """The same on the grid.

        >>> Lattice(np.array([0, 2]), np.array([0, 1, 2])).refine(np.ones((2, 1)), np.zeros((2, 0)), np.ones((1, 1)))[2]
        array([[0.5, 0.5]])
        """
        wide, high = np.diff(self.east), np.diff(self.north)
        column, row = _cell_of(self.east), _cell_of(self.north)
        a = (endpoints / (wide * high[:, None]))[row][:, column]
        v = (_between(self.east, np.pad(vertical, ((0, 0), (1, 1))).T).T / high[:, None])[row]
        h = (_between(self.north, np.pad(horizontal, ((1, 1), (0, 0)))) / wide)[:, column]
        return a, v, h

    def answers(self, endpoints: Floats, vertical: Floats, horizontal: Floats, rectangles: Integers) -> Floats:
        """What the refined histogram would answer to rectangles of the grid.

        That is the endpoints in a rectangle and half of what crosses its border. As all is spread evenly, or goes over
        evenly from line to line, the running sums of each are linear in x and in y between the points of the lattice.

        >>> lattice = Lattice(np.array([0, 2, 4]), np.array([0, 2]))
        >>> parts = np.ones((1, 2)), np.ones((1, 1)), np.zeros((0, 2))
        >>> lattice.answers(*parts, np.array([[0, 0, 2, 2], [0, 0, 1, 2]]))
        array([1.5 , 0.75])
        """
        return self.answers_by(self.corners(endpoints, vertical, horizontal), rectangles)

    def corners(self, endpoints: Floats, vertical: Floats, horizontal: Floats) -> Floats:
        """float64[4, rows + 1, columns + 1]: what each corner of a rectangle (north-east, north-west, south-east,
        south-west) adds to its answer, if it is at that point of the lattice."""
        ends = np.pad(endpoints.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
        across = np.pad(vertical.cumsum(axis=0), ((1, 0), (1, 1))) / 2
        along = np.pad(horizontal.cumsum(axis=1), ((1, 1), (1, 0))) / 2
        return np.stack([ends + across + along, across - ends - along, along - ends - across, ends - across - along])

    def answers_by(self, corners: Floats, rectangles: Integers) -> Floats:
        """`answers` from `corners`, of one histogram or of many: float64[..., m]."""
        west, south, east, north = rectangles.T
        places = (north, east), (north, west), (south, east), (south, west)
        answers: Floats = np.zeros(1)
        for i, (row, column) in enumerate(places):
            table = corners[..., i, :, :]
            answers = answers + _interpolated(table, _place(self.north, row), _place(self.east, column))
        return answers

    def refine_adjoint(self, endpoints: Floats, vertical: Floats, horizontal: Floats) -> Parts:
        """What factors of the numbers on the grid are as factors of those on the lattice: the adjoint of `refine`."""
        wide, high = np.diff(self.east), np.diff(self.north)
        a = _sums(_sums(endpoints, self.north).T, self.east).T / (wide * high[:, None])
        v = _back(self.east, (_sums(vertical, self.north) / high[:, None]).T).T
        h = _back(self.north, _sums(horizontal.T, self.east).T / wide)
        return a, v, h

    def snap(self, rectangles: Integers) -> Integers:
        """The rectangles of coarse cells closest to rectangles of the grid."""
        snapped = np.empty_like(rectangles)
        for lines, low, high in ((self.east, 0, 2), (self.north, 1, 3)):
            nearest = nearest_line(lines)
            start, stop = nearest[rectangles[:, low]], nearest[rectangles[:, high]]
            # where both are one line: the coarse cell before or after it, whichever is less off
            before, after = lines[np.maximum(stop - 1, 0)], lines[np.minimum(start + 1, len(lines) - 1)]
            west, east = rectangles[:, low], rectangles[:, high]
            back = np.abs(before - west) + np.abs(lines[stop] - east) < np.abs(lines[start] - west) + np.abs(
                after - east
            )
            start = np.clip(start - ((start == stop) & back), 0, len(lines) - 2)
            snapped[:, low], snapped[:, high] = start, np.maximum(stop, start + 1)
        return snapped


def flat(parts: Parts) -> Floats:
    """One vector of all numbers: the inverse of `Lattice.parts`."""
    return np.concatenate([part.ravel() for part in parts])


def _lines(of: NDArray[np.integer]) -> Integers:
    """A copy that nobody can change, or an `InputError`."""
    given = np.asarray(of)
    lines = given.astype(np.int64) if given.dtype.kind in "iu" and given.ndim == 1 else np.zeros(0, np.int64)
    if len(lines) < 2 or lines[0] or np.diff(lines).min() < 1:
        raise InputError(f"The lines of a lattice are whole numbers that rise from 0; got {given}.")
    lines.flags.writeable = False
    return lines


def nearest_line(lines: Integers) -> Integers:
    """For each grid line, from 0 to the last, which of the lattice lines is closest.

    >>> nearest_line(np.array([0, 3, 4]))
    array([0, 0, 1, 1, 2])
    """
    middles = (lines[1:] + lines[:-1]) / 2
    return np.searchsorted(middles, np.arange(lines[-1] + 1), side="left")


def _cell_of(lines: Integers) -> Integers:
    """For each cell of the grid along a side, the coarse cell that holds it."""
    return np.repeat(np.arange(len(lines) - 1), np.diff(lines))


def _weights(lines: Integers) -> tuple[Integers, Floats]:
    """For each inner grid line the coarse cell it is in, and how far on it is towards that cell's far line."""
    inner = np.arange(1, lines[-1])
    cell = _cell_of(lines)[inner]
    return cell, (inner - lines[cell]) / np.diff(lines)[cell]


def _place(lines: Integers, at: Integers) -> tuple[Integers, Floats]:
    """For grid lines the coarse cell they are in, and how far on they are in it."""
    cell = np.minimum(np.searchsorted(lines, at, side="right"), len(lines) - 1) - 1
    return cell, (at - lines[cell]) / (lines[cell + 1] - lines[cell])


def _interpolated(table: Floats, rows: tuple[Integers, Floats], columns: tuple[Integers, Floats]) -> Floats:
    """Values between those of `table`, linear along each axis."""
    (row, up), (column, right) = rows, columns
    low = table[..., row, column] * (1 - right) + table[..., row, column + 1] * right
    high = table[..., row + 1, column] * (1 - right) + table[..., row + 1, column + 1] * right
    return low * (1 - up) + high * up


def _between(lines: Integers, values: Floats) -> Floats:
    """Values of lattice lines, first axis, as values of all inner grid lines."""
    cell, share = _weights(lines)
    return values[cell] * (1 - share)[:, None] + values[cell + 1] * share[:, None]


def _back(lines: Integers, factors: Floats) -> Floats:
    """The adjoint of `_between`, without the outer lines."""
    cell, share = _weights(lines)
    gathered = np.zeros((len(lines), factors.shape[1]))
    np.add.at(gathered, cell, factors * (1 - share)[:, None])
    np.add.at(gathered, cell + 1, factors * share[:, None])
    return gathered[1:-1]


def _sums(values: Floats, lines: Integers) -> Floats:
    """Sums over the first axis between the lines."""
    return np.add.reduceat(values, lines[:-1], axis=0)
