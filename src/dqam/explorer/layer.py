"""A release as an image for a Web Mercator map, whatever the CRS of its grid."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import pyproj
from numpy.typing import NDArray

from dqam.errors import InputError
from dqam.geometry.arrays import Floats
from dqam.geometry.grid import DEGREES, Bounds, Grid, transform
from dqam.geometry.lattice import Lattice
from dqam.release.release import Release

MOST_BLOCKS = 512  # along a side
FEWEST_PIXELS = 512  # along a side, so that a pixel is at most half as wide as a block
MERCATOR_END = 85.0511287798066  # degrees north and south, where a Web Mercator map ends
ALONG = 8  # points along a side, which may be curved on the map


@dataclass(frozen=True, eq=False)
class Layer:
    """Number of trips in the cell, or block of cells, at the centre of each pixel.

    values   float32[height, width], rows from the north, NaN outside the grid
    bounds   west, south, east, north of the image in degrees; its pixels have equal size in Web Mercator
    block    rows and columns of cells in the largest block
    """

    values: NDArray[np.float32]
    bounds: Bounds
    block: tuple[int, int]

    @classmethod
    def of(cls, release: Release) -> Layer:
        """The layer of a release."""
        grid = release.grid
        lattice = Lattice.even(grid, min(MOST_BLOCKS, max(grid.shape)))
        trips = release.cells(min(MOST_BLOCKS, max(grid.shape))).value.reshape(lattice.shape)
        bounds = _on_mercator(in_degrees(np.array([grid.bounds]), grid)[0])
        west, south, east, north = bounds
        height, width = (_pixels(blocks) for blocks in lattice.shape)
        longitude = west + (np.arange(width) + 0.5) * ((east - west) / width)
        high, low = _mercator(north), _mercator(south)
        latitude = np.degrees(np.arctan(np.sinh(high - (np.arange(height) + 0.5) * ((high - low) / height))))
        x, y = np.meshgrid(longitude, latitude)
        u, v = grid.to_cells(x, y, DEGREES)
        inside = (u >= 0) & (u < grid.columns) & (v >= 0) & (v < grid.rows)
        column = np.searchsorted(lattice.east, u[inside], "right") - 1
        row = np.searchsorted(lattice.north, v[inside], "right") - 1
        values = np.full((height, width), np.nan, np.float32)
        values[inside] = trips[row, column]
        return cls(values, bounds, (int(np.diff(lattice.north).max()), int(np.diff(lattice.east).max())))

    @property
    def meaning(self) -> str:
        """What a value means, in words."""
        rows, columns = self.block
        where = "cell" if (rows, columns) == (1, 1) else f"block of {rows} x {columns} cells"
        return f"Estimated number of distinct trips through the {where} at the centre of the pixel."

    @cached_property
    def content(self) -> bytes:
        """The values as little-endian bytes, row by row from the north-west corner."""
        return self.values.astype("<f4").tobytes()

    @cached_property
    def tag(self) -> str:
        """The ETag: equal for equal layers only."""
        digest = hashlib.sha256(repr((self.values.shape, self.bounds, self.block)).encode())
        digest.update(self.content)
        return f'W/"{digest.hexdigest()[:32]}"'


def in_degrees(bounds: Floats, grid: Grid) -> Floats:
    """The smallest rectangles in degrees around rectangles in the CRS of a grid: float64[m, 4] both."""
    longitude, latitude = outlines(bounds, grid)
    return np.stack([longitude.min(1), latitude.min(1), longitude.max(1), latitude.max(1)], axis=1)


def outlines(bounds: Floats, grid: Grid) -> tuple[Floats, Floats]:
    """Longitudes and latitudes along the border of each rectangle, float64[m, points] each, counterclockwise.

    Longitudes continue beyond the 180th meridian, so that a grid across it stays in one piece.
    """
    west, south, east, north = bounds.T[:, :, None]
    if not is_turned(grid):
        return np.concatenate([west, east, east, west], axis=1), np.concatenate([south, south, north, north], axis=1)
    go = np.arange(ALONG) / ALONG
    stay = np.zeros(ALONG)
    x = np.concatenate([west + (east - west) * go, east + stay, east + (west - east) * go, west + stay], axis=1)
    y = np.concatenate([south + stay, south + (north - south) * go, north + stay, north + (south - north) * go], axis=1)
    middle = _middle(grid)
    longitude, latitude = transform(x, y, grid.crs, DEGREES)
    return (longitude - middle + 180) % 360 - 180 + middle, latitude


def check_place(grid: Grid, name: str) -> None:
    """Raise an `InputError` if the grid cannot be shown on a world map."""
    try:
        with np.errstate(invalid="ignore"):
            _, south, _, north = placed = in_degrees(np.array([grid.bounds]), grid)[0]
        good = bool(np.isfinite(placed).all()) and south < MERCATOR_END and north > -MERCATOR_END
    except pyproj.exceptions.ProjError:
        good = False
    if not good:
        raise InputError(f"{name} has a grid over {grid.bounds} in {grid.crs}, which cannot be shown on a world map.")


@lru_cache(maxsize=32)
def is_turned(grid: Grid) -> bool:
    """Whether the axes of the grid are not longitude and latitude."""
    x, y = np.array(grid.bounds[:2]), np.array(grid.bounds[2:])
    return transform(x, y, grid.crs, DEGREES)[0] is not x


@lru_cache(maxsize=32)
def _middle(grid: Grid) -> float:
    """The longitude of the centre of the grid."""
    west, south, east, north = grid.bounds
    longitude, _ = transform(np.array([(west + east) / 2]), np.array([(south + north) / 2]), grid.crs, DEGREES)
    return float(longitude[0])


def _pixels(blocks: int) -> int:
    return blocks * max(2, -(-FEWEST_PIXELS // blocks))


def _mercator(latitude: float) -> float:
    return float(np.arcsinh(np.tan(np.radians(latitude))))


def _on_mercator(bounds: Floats) -> Bounds:
    west, south, east, north = (float(side) for side in bounds)
    return west, max(south, -MERCATOR_END), east, min(north, MERCATOR_END)
