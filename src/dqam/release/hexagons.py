"""The answers of a release for the hexagons of H3, a grid of the whole Earth (https://h3geo.org)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib import import_module
from numbers import Integral
from typing import Any

import numpy as np
import pyproj
import shapely

from dqam.errors import InputError
from dqam.geometry.areas import place_areas
from dqam.geometry.arrays import Floats, Mask, Shapes
from dqam.geometry.grid import DEGREES, Grid, transform
from dqam.release.answers import Answers
from dqam.release.published_map import PublishedMap

RESOLUTIONS = range(16)
MOST_HEXAGONS = 1_000_000
SIDE_POINTS = 64  # on each side of the map, which may be curved in degrees
STEPS = 2  # points on the border of the map for each side of a hexagon


@dataclass(frozen=True, eq=False)
class Hexagons:
    """The hexagons that meet a map, m of them, and the answers for the parts of them on the map.

    index   m indices of H3, as text
    shapes  object[m], whole hexagons in degrees
    value, low, high  float64[m]
    cut     bool[m], whether a part lay outside the map
    by_slice  float64[slices, m], the answers for each slice of the release; none if it has no slices
    """

    index: list[str]
    shapes: Shapes
    value: Floats
    low: Floats
    high: Floats
    cut: Mask
    by_slice: Floats


def answer_hexagons(release: PublishedMap, resolution: int) -> Hexagons:
    """The answers for all hexagons of a resolution, 0 to 15, that meet the map."""
    h3 = _library()
    _check_number(release.grid, resolution, h3)
    cells = _candidates(release.grid, resolution, h3)
    shapes = _outlines(cells, h3)
    areas = place_areas(shapes, release.grid, DEGREES)
    found: Answers = release.counts(areas)
    on_map = ~areas.outside
    value, low, high = (numbers[on_map] for numbers in (found.value, found.low, found.high))
    index = [h3.int_to_str(cell) for cell in cells[on_map].tolist()]
    by_slice = release.values_by_slice(areas)[:, on_map]
    return Hexagons(index, shapes[on_map], value, low, high, areas.cut[on_map], by_slice)


def note_on_size(release: PublishedMap, resolution: int) -> str:
    """What readers must know if hexagons are smaller than a cell of the map; empty otherwise."""
    hexagon, (width, height) = _library().average_hexagon_area(resolution, "m^2"), release.grid.cell_metres
    if hexagon >= width * height:
        return ""
    return (
        f"A hexagon of resolution {resolution} is smaller than a cell of the map ({hexagon:,.0f} and "
        f"{width * height:,.0f} m²), so its count is only interpolated."
    )


def _library() -> Any:
    """The variant of the library with indices as NumPy integers."""
    try:
        return import_module("h3.api.numpy_int")
    except ImportError:
        raise InputError("Hexagons need h3, which is not installed: pip install 'dqam[h3]'.") from None


def _check_number(grid: Grid, resolution: int, h3: Any) -> None:
    if not isinstance(resolution, Integral) or isinstance(resolution, bool) or resolution not in RESOLUTIONS:
        raise InputError(f"resolution must be a whole number from 0 to 15; got {resolution!r:.60}.")
    area, around = _size(grid)
    if not math.isfinite(area + around):
        raise InputError(
            f"The border of the map, {grid.bounds} ({grid.crs}), is not on Earth, so no hexagons meet the map."
        )

    def number(one: int) -> float:
        """About how many hexagons meet the map."""
        side = h3.average_hexagon_edge_length(one, "m")
        return area / h3.average_hexagon_area(one, "m^2") + around / side

    if number(resolution) > MOST_HEXAGONS:
        coarser = max((one for one in RESOLUTIONS if number(one) <= MOST_HEXAGONS), default=0)
        raise InputError(
            f"About {float(f'{number(resolution):.2g}'):,.0f} hexagons of resolution {resolution} meet the map, more "
            f"than {MOST_HEXAGONS:,}; use resolution {coarser} or less."
        )


def _outline(grid: Grid, points: int) -> Floats:
    """float64[4 * points, 2]: longitudes and latitudes along the border of the map, counterclockwise."""
    west, south, east, north = grid.bounds
    along = np.arange(points) / points
    there, back = along, 1 - along
    x = np.concatenate([west + (east - west) * there, east + 0 * there, west + (east - west) * back, west + 0 * there])
    y = np.concatenate(
        [south + 0 * there, south + (north - south) * there, north + 0 * there, south + (north - south) * back]
    )
    return np.stack(transform(x, y, grid.crs, DEGREES), axis=1)


def _size(grid: Grid) -> tuple[float, float]:
    """The area of the map in square metres and the length of its border in metres."""
    area, around = pyproj.Geod(ellps="WGS84").polygon_area_perimeter(*_outline(grid, SIDE_POINTS).T)
    return abs(area), around


def _candidates(grid: Grid, resolution: int, h3: Any) -> Any:
    """All hexagons that meet the map, and some that do not; uint64[any number], in increasing order.

    A hexagon that meets the map contains a part of the map's border, or has its centre inside the map.
    """
    inner = h3.polygon_to_cells(h3.LatLngPoly(_outline(grid, SIDE_POINTS)[:, ::-1].tolist()), resolution)
    points = math.ceil(STEPS * _size(grid)[1] / h3.average_hexagon_edge_length(resolution, "m"))
    dense = _outline(grid, max(SIDE_POINTS, points))
    border = {h3.latlng_to_cell(lat, lon, resolution) for lon, lat in dense.tolist()}
    near = [h3.grid_disk(cell, 1) for cell in border]  # corners of a hexagon may lie between two points
    return np.unique(np.concatenate([inner, *near]).astype(np.uint64))


def _outlines(cells: Any, h3: Any) -> Shapes:
    """The hexagons (and pentagons) as polygons in degrees, each in one piece where it crosses the 180th meridian."""
    corners = [h3.cell_to_boundary(cell) for cell in cells]
    sizes = np.array([len(one) for one in corners])
    at = np.repeat(np.arange(len(corners)), sizes)
    latitude, longitude = np.array([corner for one in corners for corner in one]).T
    first = longitude[np.cumsum(sizes) - sizes][at]
    longitude = longitude - 360 * np.round((longitude - first) / 360)
    shapes: Shapes = shapely.polygons(shapely.linearrings(np.stack([longitude, latitude], axis=1), indices=at))
    return shapes
