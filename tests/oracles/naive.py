"""Slow, obviously right answers to compare with."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import shapely

from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.walks import Walks


def answer(histogram: SpatialHistogram, west: int, south: int, east: int, north: int) -> float:
    """Faces inside minus edges inside, summed one by one over the area."""
    faces = histogram.faces[south:north, west:east].sum()
    vertical = histogram.vertical[south:north, west : east - 1].sum()
    horizontal = histogram.horizontal[south : north - 1, west:east].sum()
    return faces - vertical - horizontal


def answer_by_flux(histogram: SpatialHistogram, west: int, south: int, east: int, north: int) -> float:
    """Endpoints inside plus half the flux through the border."""
    rows, columns = histogram.grid.shape
    flux = 0.0
    if west > 0:
        flux += histogram.vertical[south:north, west - 1].sum()
    if east < columns:
        flux += histogram.vertical[south:north, east - 1].sum()
    if south > 0:
        flux += histogram.horizontal[south - 1, west:east].sum()
    if north < rows:
        flux += histogram.horizontal[north - 1, west:east].sum()
    return histogram.endpoints[south:north, west:east].sum() + flux / 2


def pieces_of(walks: Walks) -> list[list[list[int]]]:
    """Trips as lists of pieces as lists of cells."""
    return [
        [walks.cells[walks.pieces[p] : walks.pieces[p + 1]].tolist() for p in range(first, last)]
        for first, last in zip(walks.trips[:-1], walks.trips[1:], strict=True)
    ]


def distinct(walks: Walks, west: int, south: int, east: int, north: int) -> int:
    """Trips with a visit in the rectangle, looked up visit by visit."""
    columns = walks.grid.columns
    return sum(
        any(west <= cell % columns < east and south <= cell // columns < north for piece in trip for cell in piece)
        for trip in pieces_of(walks)
    )


def histogram(walks: Walks) -> SpatialHistogram:
    """Visits and crossings counted one by one."""
    rows, columns = walks.grid.shape
    faces = np.zeros((rows, columns), int)
    vertical, horizontal = np.zeros((rows, columns - 1), int), np.zeros((rows - 1, columns), int)
    for trip in pieces_of(walks):
        for piece in trip:
            places = [divmod(cell, columns) for cell in piece]
            for row, column in places:
                faces[row, column] += 1
            for (row, column), (next_row, next_column) in itertools.pairwise(places):
                if row == next_row:
                    assert abs(column - next_column) == 1
                    vertical[row, min(column, next_column)] += 1
                else:
                    assert column == next_column
                    assert abs(row - next_row) == 1
                    horizontal[min(row, next_row), column] += 1
    return SpatialHistogram(walks.grid, faces, vertical, horizontal)


def touched_cells(points: list[tuple[float, float]], grid: Grid) -> tuple[set[int], set[int]]:
    """Cells whose interior a polyline in cell coordinates passes, and cells it touches at all, by Shapely."""
    rows, columns = grid.shape
    row, column = np.divmod(np.arange(rows * columns), columns)
    boxes = shapely.box(column, row, column + 1, row + 1)
    line = shapely.Point(points[0]) if len(set(points)) == 1 else shapely.LineString(points)
    passed = shapely.relate_pattern(boxes, line, "T********")
    touched = shapely.intersects(boxes, line)
    return set(np.flatnonzero(passed).tolist()), set(np.flatnonzero(touched).tolist())


def exact_walk(a: tuple[Fraction, Fraction], b: tuple[Fraction, Fraction], grid: Grid) -> list[int]:
    """The cells of a segment inside the grid in rational arithmetic: at each crossing, the rule of the module."""
    rows, columns = grid.shape
    (u0, v0), (u1, v1) = a, b

    def place(value: Fraction, cells: int) -> int:
        return min(value.numerator // value.denominator, cells - 1)

    column, row = place(u0, columns), place(v0, rows)
    last_column, last_row = place(u1, columns), place(v1, rows)
    east, north = last_column > column, last_row > row
    crossings = []
    step = 1 if east else -1
    for line in range(column + east, last_column + east, step):
        crossings.append(((line - u0) / (u1 - u0), 0 if east else 1, "column"))
    for line in range(row + north, last_row + north, 1 if north else -1):
        crossings.append(((line - v0) / (v1 - v0), 1 if east else 0, "row"))
    cells = [row * columns + column]
    for _, _, kind in sorted(crossings):
        if kind == "column":
            column += step
        else:
            row += 1 if north else -1
        cells.append(row * columns + column)
    return cells


def cone_excess(
    endpoints: np.ndarray, vertical: np.ndarray, horizontal: np.ndarray, y: np.ndarray, z: np.ndarray
) -> float:
    """The most by which an inequality of the current cone (`dqam.consistency.cone`) is violated; at most 0 inside."""
    v, y = (np.pad(edges, ((0, 0), (1, 1))) for edges in (vertical, y))
    h, z = (np.pad(edges, ((1, 1), (0, 0))) for edges in (horizontal, z))
    along = np.abs(np.diff(y, axis=1) - np.diff(h, axis=0) / 2) - endpoints
    across = np.abs(np.diff(z, axis=0) - np.diff(v, axis=1) / 2) - endpoints
    return float(max(along.max(), across.max(), (np.abs(y) - v / 2).max(), (np.abs(z) - h / 2).max()))
