"""A lattice: some of the lines of a grid, and histograms on the coarse cells between them.

`Lattice.refine` turns a histogram on a lattice into one on the grid. It spreads endpoints evenly over a coarse cell and
crossings evenly along a coarse edge; on the grid lines between two lattice lines, crossings change linearly from those
of one to those of the other. In a coarse cell of w x h cells, the endpoints a and all differences in the definition of
the current cone (`dqam.consistency.cone`) are then 1 / (w h) of those on the lattice, so consistent histograms stay
consistent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dqam.errors import InputError
from dqam.geometry.arrays import Floats, Integers
from dqam.geometry.grid import Grid

Parts = tuple[Floats, Floats, Floats]  # endpoints, vertical and horizontal edges, as in `SpatialHistogram`


@dataclass(frozen=True, eq=False)
class Lattice:
    """Increasing grid lines from 0 to the last line of the grid, which divide it into coarse cells.

    east   int64[coarse columns + 1], lines between columns
    north  int64[coarse rows + 1], lines between rows
    """

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

    def __repr__(self) -> str:
        (rows, columns), height, width = self.shape, self.north[-1], self.east[-1]
        return f"<Lattice: {rows} x {columns} coarse cells over {height} x {width} cells>"

    @classmethod
    def even(cls, grid: Grid, side: int) -> Lattice:
        """Nearly square coarse cells, `side` of them along the longer side of the grid; its own cells if it has fewer.

        >>> Lattice.even(Grid((0, 0, 1, 1), 4, 8), 3).east
        array([0, 3, 5, 8])
        """
        if side < 1:
            raise InputError(f"side must be at least 1 cell; got {side}.")
        longer = max(grid.shape)
        east, north = (
            np.rint(np.linspace(0, cells, 1 + max(1, min(cells, round(side * cells / longer))))).astype(np.int64)
            for cells in (grid.columns, grid.rows)
        )
        return cls(east, north)

    def coarser(self, side: int) -> Lattice:
        """A lattice with some of these lines: nearly even, with about `side` cells along the longer side.

        >>> Lattice(np.array([0, 3, 5, 8]), np.array([0, 4])).coarser(2).east
        array([0, 5, 8])
        """
        chosen = Lattice.even(self.coarse(), side)
        return Lattice(self.east[chosen.east], self.north[chosen.north])

    def within(self, finer: Lattice) -> Lattice:
        """This lattice with its lines counted in cells of `finer`, which must have all of these lines.

        >>> finer = Lattice(np.array([0, 3, 5, 8]), np.array([0, 4]))
        >>> Lattice(np.array([0, 5, 8]), np.array([0, 4])).within(finer).east
        array([0, 2, 3])
        """
        return Lattice(np.searchsorted(finer.east, self.east), np.searchsorted(finer.north, self.north))

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns) of coarse cells."""
        return len(self.north) - 1, len(self.east) - 1

    @property
    def cells(self) -> int:
        """The number of coarse cells."""
        return self.shape[0] * self.shape[1]

    @property
    def numbers(self) -> int:
        """The number of endpoints and edges together."""
        rows, columns = self.shape
        return rows * columns + rows * (columns - 1) + (rows - 1) * columns

    @property
    def areas(self) -> Integers:
        """The number of grid cells in each coarse cell."""
        areas: Integers = np.outer(np.diff(self.north), np.diff(self.east))
        return areas

    @property
    def rectangles(self) -> Integers:
        """int64[cells, 4]: the coarse cells as grid lines (west, south, east, north), row by row from the south.

        >>> Lattice(np.array([0, 3, 5]), np.array([0, 4])).rectangles.tolist()
        [[0, 0, 3, 4], [3, 0, 5, 4]]
        """
        west, south = np.meshgrid(self.east[:-1], self.north[:-1])
        east, north = np.meshgrid(self.east[1:], self.north[1:])
        rectangles: Integers = np.stack([west, south, east, north], axis=-1).reshape(-1, 4)
        return rectangles

    @property
    def labels(self) -> Integers:
        """The number of the coarse cell of each grid cell, row by row from 0."""
        rows, columns = (np.repeat(np.arange(len(lines) - 1), np.diff(lines)) for lines in (self.north, self.east))
        labels: Integers = rows[:, None] * self.shape[1] + columns
        return labels

    def coarse(self) -> Grid:
        """A grid with as many cells as there are coarse cells, over the unit square instead of the real bounds."""
        return Grid((0.0, 0.0, 1.0, 1.0), *self.shape)

    def fits(self, grid: Grid) -> bool:
        """Whether the last lines are those of `grid`."""
        return (int(self.north[-1]), int(self.east[-1])) == grid.shape

    def parts(self, numbers: Floats) -> Parts:
        """Split one vector of all numbers, float64[numbers], into endpoints, vertical and horizontal edges."""
        rows, columns = self.shape
        a, v, h = np.split(numbers, [rows * columns, rows * columns + rows * (columns - 1)])
        return a.reshape(rows, columns), v.reshape(rows, columns - 1), h.reshape(rows - 1, columns)

    def refine(self, endpoints: Floats, vertical: Floats, horizontal: Floats) -> Parts:
        """The histogram on the grid that these numbers on the lattice stand for.

        >>> Lattice(np.array([0, 2]), np.array([0, 1, 2])).refine(np.ones((2, 1)), np.zeros((2, 0)), np.ones((1, 1)))[2]
        array([[0.5, 0.5]])
        """
        wide, high = np.diff(self.east), np.diff(self.north)
        column, row = _cell_of(self.east), _cell_of(self.north)
        a = (endpoints / (wide * high[:, None]))[row][:, column]
        v = (_between(self.east, np.pad(vertical, ((0, 0), (1, 1))).T).T / high[:, None])[row]
        h = (_between(self.north, np.pad(horizontal, ((1, 1), (0, 0)))) / wide)[:, column]
        return a, v, h

    def add_up(self, endpoints: Floats, vertical: Floats, horizontal: Floats) -> Parts:
        """The numbers on the lattice, computed from those on the grid: a left inverse of `refine`.

        Endpoints are added up over coarse cells, and edges along the lines of the lattice.
        """
        a = _sums(_sums(endpoints, self.north).T, self.east).T
        v, h = (
            _sums(vertical, self.north)[:, self.east[1:-1] - 1],
            _sums(horizontal.T, self.east).T[self.north[1:-1] - 1],
        )
        return a, v, h

    def corners(self, endpoints: Floats, vertical: Floats, horizontal: Floats) -> Floats:
        """What each corner of a rectangle adds to its answer, for every lattice point where the corner may be.

        Returns float64[4, rows + 1, columns + 1], for the north-east, north-west, south-east and south-west corner.
        """
        ends = np.pad(endpoints.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
        across = np.pad(vertical.cumsum(axis=0), ((1, 0), (1, 1))) / 2
        along = np.pad(horizontal.cumsum(axis=1), ((1, 1), (1, 0))) / 2
        return np.stack([ends + across + along, across - ends - along, along - ends - across, ends - across - along])

    def answers_by(self, corners: Floats, rectangles: Integers) -> Floats:
        """The answers of the refined histogram, or of many, to rectangles of the grid: float64[..., m].

        An answer is the endpoints in the rectangle plus half of what crosses its border. Both are spread evenly, or
        change linearly from line to line, so their running sums are linear in x and in y between lattice points.

        >>> lattice = Lattice(np.array([0, 2, 4]), np.array([0, 2]))
        >>> corners = lattice.corners(np.ones((1, 2)), np.ones((1, 1)), np.zeros((0, 2)))
        >>> lattice.answers_by(corners, np.array([[0, 0, 2, 2], [0, 0, 1, 2]]))
        array([1.5 , 0.75])
        """
        west, south, east, north = rectangles.T
        places = (north, east), (north, west), (south, east), (south, west)
        answers: Floats = np.zeros(1)
        for i, (row, column) in enumerate(places):
            table = corners[..., i, :, :]
            answers = answers + _interpolated(table, _place(self.north, row), _place(self.east, column))
        return answers

    def refine_adjoint(self, endpoints: Floats, vertical: Floats, horizontal: Floats) -> Parts:
        """The adjoint of `refine`: turn factors of the numbers on the grid into factors of those on the lattice."""
        wide, high = np.diff(self.east), np.diff(self.north)
        a = _sums(_sums(endpoints, self.north).T, self.east).T / (wide * high[:, None])
        v = _back(self.east, (_sums(vertical, self.north) / high[:, None]).T).T
        h = _back(self.north, _sums(horizontal.T, self.east).T / wide)
        return a, v, h

    def snap(self, rectangles: Integers) -> Integers:
        """The rectangles of coarse cells, int64[m, 4], closest to rectangles of the grid."""
        snapped = np.empty_like(rectangles)
        for lines, low, high in ((self.east, 0, 2), (self.north, 1, 3)):
            nearest = nearest_line(lines)
            start, stop = nearest[rectangles[:, low]], nearest[rectangles[:, high]]
            # if both snap to one line, take the coarse cell before or after it, whichever is closer
            before, after = lines[np.maximum(stop - 1, 0)], lines[np.minimum(start + 1, len(lines) - 1)]
            west, east = rectangles[:, low], rectangles[:, high]
            back = np.abs(before - west) + np.abs(lines[stop] - east) < np.abs(lines[start] - west) + np.abs(
                after - east
            )
            start = np.clip(start - ((start == stop) & back), 0, len(lines) - 2)
            snapped[:, low], snapped[:, high] = start, np.maximum(stop, start + 1)
        return snapped


def flat(parts: Parts) -> Floats:
    """Join all numbers into one vector: the inverse of `Lattice.parts`."""
    return np.concatenate([part.ravel() for part in parts])


def _lines(of: NDArray[np.integer]) -> Integers:
    """A read-only copy of lattice lines, or an `InputError`."""
    given = np.asarray(of)
    lines = given.astype(np.int64) if given.dtype.kind in "iu" and given.ndim == 1 else np.zeros(0, np.int64)
    if len(lines) < 2 or lines[0] or np.diff(lines).min() < 1:
        raise InputError(f"The lines of a lattice must be whole numbers that rise from 0; got {given}.")
    lines.flags.writeable = False
    return lines


def nearest_line(lines: Integers) -> Integers:
    """For each grid line, from 0 to the last, the index of the closest lattice line.

    >>> nearest_line(np.array([0, 3, 4]))
    array([0, 0, 1, 1, 2])
    """
    middles = (lines[1:] + lines[:-1]) / 2
    return np.searchsorted(middles, np.arange(lines[-1] + 1), side="left")


def _cell_of(lines: Integers) -> Integers:
    """For each cell of the grid along a side, the coarse cell that holds it."""
    return np.repeat(np.arange(len(lines) - 1), np.diff(lines))


def _weights(lines: Integers) -> tuple[Integers, Floats]:
    """For each inner grid line, the coarse cell it is in and its position between the lines of that cell, 0 to 1."""
    inner = np.arange(1, lines[-1])
    cell = _cell_of(lines)[inner]
    return cell, (inner - lines[cell]) / np.diff(lines)[cell]


def _place(lines: Integers, at: Integers) -> tuple[Integers, Floats]:
    """For any grid lines, the coarse cells they are in and their positions between the lines of these, 0 to 1."""
    cell = np.minimum(np.searchsorted(lines, at, side="right"), len(lines) - 1) - 1
    return cell, (at - lines[cell]) / (lines[cell + 1] - lines[cell])


def _interpolated(table: Floats, rows: tuple[Integers, Floats], columns: tuple[Integers, Floats]) -> Floats:
    """Values between those of `table`, interpolated linearly along each axis."""
    (row, up), (column, right) = rows, columns
    low = table[..., row, column] * (1 - right) + table[..., row, column + 1] * right
    high = table[..., row + 1, column] * (1 - right) + table[..., row + 1, column + 1] * right
    return low * (1 - up) + high * up


def _between(lines: Integers, values: Floats) -> Floats:
    """Interpolate values of lattice lines, along the first axis, to all inner grid lines."""
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
