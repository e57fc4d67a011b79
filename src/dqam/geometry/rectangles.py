"""Range queries: rectangles of whole cells, drawn at random or given by coordinates or files.

In code a rectangle is four grid lines (west, south, east, north): it holds the columns west to east - 1 and the rows
south to north - 1. A set of rectangles is an int64 array of shape (m, 4).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dqam.errors import InputError
from dqam.geometry.arrays import Floats, Integers, Mask
from dqam.geometry.grid import Grid

HEADER = ("west", "south", "east", "north")
MANY = 25  # times the size of the map: a rectangle this large may have its sides in the wrong order
ALL = "all"  # the name of the band of all rectangles
BAND_SIDES = ((2, 4), (5, 8), (9, 16), (17, 32), (33, 64), (65, 128))  # in shares of BANDS_OF of the side of the map
BANDS_OF = 256
ON_LINE = 1e-6  # in cells: a side this close to a grid line counts as on it, because decimals are rounded


def random_rectangles(grid: Grid, count: int, rng: np.random.Generator) -> Integers:
    """Draw `count` rectangles, int64[count, 4], uniformly from all rectangles of the grid, with replacement.

    >>> random_rectangles(Grid((0, 0, 1, 1), 4, 4), 3, np.random.default_rng(0)).shape
    (3, 4)
    """
    sides = []
    for lines in (grid.columns + 1, grid.rows + 1):
        low = rng.integers(0, lines, count)
        high = (low + rng.integers(1, lines, count)) % lines  # any other line
        sides.append((np.minimum(low, high), np.maximum(low, high)))
    (west, east), (south, north) = sides
    return np.stack([west, south, east, north], axis=1).astype(np.int64)


def sized_rectangles(grid: Grid, low: int, high: int, count: int, rng: np.random.Generator) -> Integers:
    """Draw `count` rectangles, int64[count, 4], with both sides uniform in `low` to `high` cells, anywhere on the grid.

    >>> sized_rectangles(Grid((0, 0, 1, 1), 4, 4), 3, 3, 1, np.random.default_rng(0))
    array([[1, 1, 4, 4]])
    """
    if not 1 <= low <= high <= min(grid.shape):
        raise InputError(f"Sides of {low} to {high} cells do not fit a grid of {grid.rows} x {grid.columns} cells.")
    return SizeBand(f"{low}-{high}", (low, high), (low, high)).draw(grid, count, rng)


@dataclass(frozen=True)
class SizeBand:
    """Rectangles of similar size on a grid, by which accuracy is reported; or all rectangles of the grid.

    name     "all", or the sides in 256ths of the sides of the map, such as "2-4"
    widths   the smallest and the largest width, in cells
    heights  the smallest and the largest height, in cells
    """

    name: str
    widths: tuple[int, int]
    heights: tuple[int, int]

    def draw(self, grid: Grid, count: int, rng: np.random.Generator) -> Integers:
        """Draw `count` rectangles, int64[count, 4]: uniformly from all rectangles of the grid or, in a band of sizes,
        with uniform side lengths and then a uniform position."""
        if self.name == ALL:
            return random_rectangles(grid, count, rng)
        width, height = (rng.integers(low, high + 1, count) for low, high in (self.widths, self.heights))
        west, south = rng.integers(0, grid.columns - width + 1), rng.integers(0, grid.rows - height + 1)
        return np.stack([west, south, west + width, south + height], axis=1).astype(np.int64)


def size_bands(grid: Grid) -> tuple[SizeBand, ...]:
    """All rectangles, and six bands of sizes from the smallest to the largest.

    On 256 x 256 cells, both sides are 2 to 4, 5 to 8, 9 to 16, 17 to 32, 33 to 64 and 65 to 128 cells long. On another
    grid, they are the same shares of the sides of the map. Bands that contain no whole number of cells are left out.

    >>> [band.widths for band in size_bands(Grid((0, 0, 1, 1), 64, 64))]
    [(1, 64), (1, 1), (2, 2), (3, 4), (5, 8), (9, 16), (17, 32)]
    """
    found = [SizeBand(ALL, (1, grid.columns), (1, grid.rows))]
    for low, high in BAND_SIDES:
        widths, heights = ((-(-low * side // BANDS_OF), high * side // BANDS_OF) for side in (grid.columns, grid.rows))
        if widths[0] <= widths[1] and heights[0] <= heights[1]:
            found.append(SizeBand(f"{low}-{high}", widths, heights))
    return tuple(found)


def check_rectangles(rectangles: Integers, grid: Grid) -> Integers:
    """`rectangles` as int64[m, 4]; an `InputError` names the first that is not on the grid."""
    rectangles = np.asarray(rectangles)
    if rectangles.ndim != 2 or rectangles.shape[1] != 4 or rectangles.dtype.kind not in "iu":
        raise InputError(
            f"Rectangles of cells must be whole numbers of shape (m, 4); got {rectangles.dtype} of shape "
            f"{rectangles.shape}. Convert coordinates to cells with dqam.geometry.rectangles.snap."
        )
    west, south, east, north = rectangles.T
    bad = (west < 0) | (west >= east) | (east > grid.columns) | (south < 0) | (south >= north) | (north > grid.rows)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"Rectangle {row} is {tuple(int(line) for line in rectangles[row])}; on this grid "
            f"0 <= west < east <= {grid.columns} and 0 <= south < north <= {grid.rows}."
        )
    return rectangles.astype(np.int64, copy=False)


@dataclass(frozen=True, eq=False)
class Snapped:
    """Rectangles given in coordinates, grown outward to whole cells and cut at the bounds of the grid.

    asked    float64[m, 4], as they were given
    cells    int64[m, 4], grid lines
    bounds   float64[m, 4], the same in the CRS of the grid: what is answered
    grown    bool[m], whether a side was moved outward to the next grid line
    cut      bool[m], whether a part lay outside the grid
    """

    asked: Floats
    cells: Integers
    bounds: Floats
    grown: Mask
    cut: Mask

    @classmethod
    def of(cls, cells: Integers, grid: Grid) -> Snapped:
        """Rectangles given in cells, int64[m, 4]: none is grown or cut."""
        nowhere = np.zeros(len(cells), np.bool_)
        bounds = _bounds(cells, grid)
        return cls(bounds, cells, bounds, nowhere, nowhere)

    def __str__(self) -> str:
        """How many rectangles were grown and cut."""
        words = [f"{np.count_nonzero(self.grown):,} of {len(self.cells):,} rectangles extended to whole cells"]
        if self.cut.any():
            words.append(f"{np.count_nonzero(self.cut):,} clipped to the bounds of the grid")
        return ", ".join(words)


def as_rectangles(rectangles: object) -> Floats:
    """Rows of west, south, east and north, float64[m, 4]; an `InputError` if they are anything else.

    >>> as_rectangles([(0, 0, 2, 1)]).tolist(), as_rectangles([]).shape
    ([[0.0, 0.0, 2.0, 1.0]], (0, 4))
    """
    try:
        sides = np.asarray(rectangles, np.float64)
    except (TypeError, ValueError):
        sides = np.zeros(())
    if sides.ndim == 1 and not sides.size:
        return np.zeros((0, 4))
    if sides.ndim != 2 or sides.shape[1] != 4:
        raise InputError("Rectangles must be rows of four numbers (west, south, east, north), such as [(0, 0, 2, 1)].")
    return sides


def snap(bounds: ArrayLike, grid: Grid, crs: str | None = None, name: str = "Rectangle") -> Snapped:
    """Turn rectangles (west, south, east, north) in `crs`, by default that of the grid, into rectangles of cells."""
    bounds = as_rectangles(bounds)
    west, south, east, north = bounds.T
    _refuse(bounds, ~np.isfinite(bounds.sum(axis=1)), name, "has a side that is not a number; give four numbers")
    _refuse(bounds, (west > east) | (south > north), name, "is upside down; give west <= east and south <= north")
    u0, v0, u1, v1 = envelopes = _envelopes(bounds, grid, crs or grid.crs)
    _refuse_misordered(bounds, envelopes, grid, crs or grid.crs, name)
    outside = np.zeros(len(bounds), np.bool_)  # or touching the grid from outside
    for low, high, end in ((u0, u1, grid.columns), (v0, v1, grid.rows)):
        outside |= (high < 0) | (low > end) | ((low < 0) & (high <= 0)) | ((low >= end) & (high > end))
    _refuse(
        bounds,
        outside,
        name,
        f"does not meet the map, which covers {grid.bounds}; give west, south, east and north of a place on it",
    )
    wanted = np.stack([u0, v0, u1, v1], axis=1)
    lines = np.round(wanted)
    near = np.abs(wanted - lines) <= ON_LINE
    cells = np.where(near, lines, np.stack([np.floor(u0), np.floor(v0), np.ceil(u1), np.ceil(v1)], axis=1))
    sizes = np.array([grid.columns, grid.rows])
    cut = np.any((cells < 0) | (cells > np.tile(sizes, 2)), axis=1, keepdims=True).ravel()
    thin = cells[:, 2:] <= cells[:, :2]  # a rectangle without area lies in a cell too
    grown = np.any(np.concatenate([~near, thin], axis=1), axis=1, keepdims=True).ravel()
    low = np.clip(cells[:, :2], 0, sizes - 1)
    high = np.clip(np.maximum(cells[:, 2:], low + 1), None, sizes)
    cells = np.concatenate([low, high], axis=1).astype(np.int64)
    return Snapped(bounds, cells, _bounds(cells, grid), grown, cut)


def _bounds(cells: Integers, grid: Grid) -> Floats:
    west, south, east, north = cells.T.astype(np.float64)
    return np.stack([*grid.from_cells(west, south), *grid.from_cells(east, north)], axis=1)


def _envelopes(bounds: Floats, grid: Grid, crs: str) -> Floats:
    """float64[4, m]: the smallest (west, south, east, north), in cells, around each rectangle."""
    west, south, east, north = bounds.T[:, :, None]
    along = np.linspace(0, 1, 2 if crs == grid.crs else 33)  # a side may be curved in another CRS
    x, y = west + (east - west) * along, south + (north - south) * along
    level = np.zeros_like(x)
    u, v = grid.to_cells(
        np.concatenate([x, x, west + level, east + level], axis=1),
        np.concatenate([south + level, north + level, y, y], axis=1),
        crs,
    )
    return np.stack([u.min(axis=1), v.min(axis=1), u.max(axis=1), v.max(axis=1)])


def _refuse_misordered(bounds: Floats, envelopes: Floats, grid: Grid, crs: str, name: str) -> None:
    """Refuse rectangles much larger than the map that would be places on it if read as west, east, south, north.

    A rectangle on the map is never refused. One that is refused by mistake can be replaced by its part on the map,
    which has the same answer.
    """
    size = grid.rows * grid.columns
    west, south, east, north = bounds.T
    huge = (west < south) & (east < north) & (_areas(envelopes) >= MANY * size)
    meant = bounds[huge][:, [0, 2, 1, 3]]
    places = _envelopes(meant, grid, crs)
    on_map = np.clip(places, 0, np.array([grid.columns, grid.rows] * 2)[:, None])
    likely = (_areas(places) <= 2 * size) & (on_map[2] > on_map[0]) & (on_map[3] > on_map[1])
    if likely.any():
        row = int(np.argmax(likely))
        raise InputError(
            f"{name} {np.flatnonzero(huge)[row] + 1} {tuple(map(float, bounds[huge][row]))} is far larger than the map "
            f"and looks like west, east, south, north. Did you mean {tuple(map(float, meant[row]))}? If not, give the "
            f"part of it that is on the map, within {grid.bounds}."
        )


def _areas(envelopes: Floats) -> Floats:
    with np.errstate(invalid="ignore", over="ignore"):  # coordinates that cannot be projected are infinite
        areas: Floats = (envelopes[2] - envelopes[0]) * (envelopes[3] - envelopes[1])
    return areas


def _refuse(bounds: Floats, bad: Mask, name: str, why: str) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(f"{name} {row + 1} {tuple(map(float, bounds[row]))} {why}.")
