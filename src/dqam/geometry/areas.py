"""Areas and lines to query: shapely geometries, validated and placed on a grid.

Geometries may be in any CRS. They are transformed to that of the grid, repaired where rings cross themselves, clipped
to the bounds, and converted to cells: (0, 0) is the south-west corner of the grid, (columns, rows) the north-east one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import shapely

from dqam.errors import InputError
from dqam.geometry.arrays import Floats, Integers, Mask, Shapes
from dqam.geometry.grid import Grid, is_degrees, parse_crs, transform
from dqam.geometry.rectangles import ON_LINE, snap
from dqam.geometry.repair import repair
from dqam.geometry.unwrapping import unwrap

MOST_CORNERS = 200_000  # of one geometry
ALONG = 64  # sides in another CRS get extra corners at most 1/ALONG of the diagonal of the map apart
MOST_BENDS = 2000  # of these extra corners along one side, approximately
MOST_BENDS_IN_ALL = 2_000_000  # and along all sides
FARTHEST = 1e100  # cells from the corner of the map; the areas of larger shapes would be infinite
SLIGHT = 0.01  # cells; straight sides in another CRS, and rounded coordinates, reach over the bounds this far
POLYGONS = shapely.GeometryType.POLYGON, shapely.GeometryType.MULTIPOLYGON
LINES = shapely.GeometryType.LINESTRING, shapely.GeometryType.MULTILINESTRING, shapely.GeometryType.LINEARRING


@dataclass(frozen=True, eq=False)
class PlacedShapes:
    """m geometries on a grid.

    asked     object[m], the geometries as they were given
    shapes    object[m], the same in cells of the grid, valid and clipped; None where nothing is on the grid
    names     m names; "1", "2", ... if none were given
    cut       bool[m], whether a part lay outside the grid
    repaired  bool[m], whether rings crossed themselves and were repaired
    """

    asked: Shapes
    shapes: Shapes
    names: tuple[str, ...]
    cut: Mask
    repaired: Mask

    def __len__(self) -> int:
        return len(self.shapes)

    @property
    def outside(self) -> Mask:
        """bool[m], whether a geometry lies entirely outside the grid, so that it has no answer."""
        outside: Mask = shapely.is_missing(self.shapes)
        return outside


@dataclass(frozen=True, eq=False)
class PlacedAreas(PlacedShapes):
    """Areas on a grid.

    rectangles    int64[m, 4], the smallest rectangles of whole cells around the areas, as grid lines; 0 where outside
    is_rectangle  bool[m], whether the area is a rectangle along the axes, and is therefore answered by these cells
    grown         bool[m], whether it is such a rectangle and a side moved outward to the next grid line
    """

    rectangles: Integers
    is_rectangle: Mask
    grown: Mask

    @property
    def cells(self) -> Floats:
        """float64[m], the sizes of the parts on the grid, in cells; NaN where outside."""
        return np.asarray(shapely.area(self.shapes))

    def sizes(self, grid: Grid) -> dict[str, Floats]:
        """The sizes by unit, float64[m] each, with cells as large as in the middle of the grid; NaN where outside."""
        cells = self.cells
        return {"cells": cells, "square_metres": cells * np.prod(grid.cell_metres)}


@dataclass(frozen=True, eq=False)
class PlacedLines(PlacedShapes):
    """Lines on a grid."""

    def metres(self, grid: Grid) -> Floats:
        """float64[m], the lengths of the parts on the grid, with cells as large as in its middle; NaN where outside."""
        return np.asarray(shapely.length(shapely.transform(self.shapes, lambda xy: xy * grid.cell_metres)))

    def sizes(self, grid: Grid) -> dict[str, Floats]:
        """The lengths, by unit."""
        return {"metres": self.metres(grid)}


def is_geometry(value: object) -> bool:
    """Whether `value` is one geometry: of shapely, or any object with a `__geo_interface__` that is not a table."""
    return isinstance(value, shapely.Geometry) or (hasattr(value, "__geo_interface__") and not hasattr(value, "crs"))


def place_areas(
    areas: Sequence[Any] | Shapes, grid: Grid, crs: str | None = None, names: Sequence[object] | None = None
) -> PlacedAreas:
    """Place polygons and multipolygons on the grid; raise an `InputError` about the first that is not valid.

    They are in `crs` (default: that of the grid). Areas outside the grid are allowed if at least one is on it.
    """
    given, called, shapes = _checked(areas, grid, crs, names, "Area", POLYGONS)
    shapes, broken = repair(shapes, lambda row: _called("Area", called, row))
    thin = shapely.area(shapes) <= ON_LINE * shapely.length(shapes)  # rounding widens lines
    _refuse(thin, called, "Area", "has no area; give a polygon that encloses one")
    whole, cut = _clipped(shapes, grid, called, "Area")
    whole = _polygons(whole)
    inside = ~shapely.is_missing(whole)
    bounds = np.nan_to_num(shapely.bounds(whole))
    low, high = np.floor(bounds[:, :2] + ON_LINE), np.ceil(bounds[:, 2:] - ON_LINE)
    rectangles = np.concatenate([low, np.maximum(high, low + inside[:, None])], axis=1).astype(np.int64)
    box, grown = _is_box(shapes) & inside, np.zeros(len(shapes), np.bool_)
    if box.any():
        asked = shapely.bounds(_in_crs(given[box], grid, crs))
        u0, v0, u1, v1 = shapely.bounds(shapes[box]).T
        repaired = np.stack([*grid.from_cells(u0, v0), *grid.from_cells(u1, v1)], axis=1)
        asked = np.where(broken[box, None], repaired, asked)
        snapped = snap(asked, grid)
        rectangles[box], grown[box], cut[box] = snapped.cells, snapped.grown, snapped.cut
    return PlacedAreas(given, whole, called, cut, broken, rectangles, box, grown)


def place_lines(
    lines: Sequence[Any] | Shapes, grid: Grid, crs: str | None = None, names: Sequence[object] | None = None
) -> PlacedLines:
    """Place lines on the grid, in the same way."""
    given, called, shapes = _checked(lines, grid, crs, names, "Line", LINES)
    _refuse(shapely.length(shapes) == 0, called, "Line", "has no length; give a line with two different points")
    whole, cut = _clipped(shapes, grid, called, "Line")
    return PlacedLines(given, _only(whole, LINES), called, cut, np.zeros(len(shapes), np.bool_))


def on_map(shapes: Shapes, grid: Grid) -> Shapes:
    """Shapes in cells, in the CRS of the grid."""
    return np.asarray(shapely.transform(shapes, lambda xy: np.stack(grid.from_cells(xy[:, 0], xy[:, 1]), axis=1)))


def _checked(
    geometries: Sequence[Any] | Shapes,
    grid: Grid,
    crs: str | None,
    names: Sequence[object] | None,
    what: str,
    kinds: tuple[int, ...],
) -> tuple[Shapes, tuple[str, ...], Shapes]:
    """The geometries as given, their names, and the geometries in cells."""
    given = np.empty(len(geometries), object)
    for i, one in enumerate(geometries):
        given[i] = _as_geometry(one)
    called = tuple(str(i + 1) for i in range(len(given))) if names is None else tuple(map(str, names))
    if len(called) != len(given):
        raise InputError(f"There are {len(called):,} names for {len(given):,} geometries; give one for each.")
    wanted = "polygon or multipolygon" if kinds is POLYGONS else "line"
    strange = ~shapely.is_geometry(given)
    if strange.any():
        row = int(np.argmax(strange))
        found = "missing" if given[row] is None else f"a {type(given[row]).__name__}"
        raise InputError(f"{_called(what, called, row)} is {found}; give a {wanted}.")
    _refuse(shapely.is_empty(given), called, what, f"is empty; give a {wanted} with coordinates, or leave it out")
    kind = shapely.get_type_id(given)
    odd = ~np.isin(kind, kinds)
    if odd.any():
        row = int(np.argmax(odd))
        other = ", or count its crossings with `crossings`" if kind[row] in LINES else ""
        if kind[row] in POLYGONS:
            other = ", or count the trips in it with `counts`"
        raise InputError(f"{_called(what, called, row)} is a {given[row].geom_type}; give a {wanted}{other}.")
    corners = shapely.get_num_coordinates(given)
    if len(given) and corners.max() > MOST_CORNERS:
        row = int(np.argmax(corners))
        raise InputError(
            f"{_called(what, called, row)} has {corners[row]:,} corners, more than {MOST_CORNERS:,}; simplify it, for "
            "example with shapely.simplify."
        )
    flat = shapely.force_2d(given)
    infinite = np.zeros(len(given), np.bool_)
    coordinates, at = shapely.get_coordinates(flat, return_index=True)
    infinite[at[~np.isfinite(coordinates).all(axis=1)]] = True
    _refuse(infinite, called, what, "has a coordinate that is not a finite number; correct it")
    if is_degrees(crs or grid.crs):
        far = np.zeros(len(given), np.bool_)
        far[at[(np.abs(coordinates) > (540, 90)).any(axis=1)]] = True
        if far.any():
            row = int(np.argmax(far))
            x, y = coordinates[np.searchsorted(at, row)]
            raise InputError(
                f"{_called(what, called, row)} has coordinates such as {x:.10g} {y:.10g}, which are not degrees; "
                "name its CRS, such as crs='EPSG:3857'."
            )
    moved = _in_crs(flat, grid, crs)
    lost = np.zeros(len(given), np.bool_)
    coordinates, at = shapely.get_coordinates(moved, return_index=True)
    lost[at[~np.isfinite(coordinates).all(axis=1)]] = True
    _refuse(lost, called, what, f"cannot be transformed from {crs} to the CRS of the map, {grid.crs}; check its CRS")
    with np.errstate(over="ignore"):
        shapes = shapely.transform(moved, lambda xy: np.stack(grid.to_cells(xy[:, 0], xy[:, 1], grid.crs), axis=1))
    far = ~(np.abs(shapely.bounds(shapes)) <= FARTHEST).all(axis=1)
    _refuse(far, called, what, "has coordinates that are too large; check them and the CRS")
    return given, called, shapes


def _as_geometry(value: Any) -> Any:
    if isinstance(value, shapely.Geometry) or not hasattr(value, "__geo_interface__"):
        return value
    try:
        return shapely.geometry.shape(value)
    except (ValueError, TypeError, AttributeError, shapely.errors.ShapelyError):
        return value


def _in_crs(shapes: Shapes, grid: Grid, crs: str | None) -> Shapes:
    """Geometries in the CRS of the grid; long sides get extra corners, as straight sides may become curves."""
    crs = crs or grid.crs
    if is_degrees(crs):
        shapes = unwrap(shapes, grid)
    if parse_crs(crs).equals(parse_crs(grid.crs), ignore_axis_order=True):
        return shapes
    west, south, east, north = grid.bounds
    x, y = transform(np.array([west, east]), np.array([south, north]), grid.crs, crs)
    bounds = shapely.bounds(shapes)
    extent = np.maximum(bounds[:, 2] - bounds[:, 0], bounds[:, 3] - bounds[:, 1])
    longest = np.fmax(np.hypot(x[1] - x[0], y[1] - y[0]) / ALONG, extent / MOST_BENDS)
    longest = np.where(longest > 0, longest, 1.0)
    longest *= max(1.0, float((shapely.length(shapes) / longest).sum()) / MOST_BENDS_IN_ALL)
    shapes = shapely.segmentize(shapes, longest)
    return shapely.transform(shapes, lambda xy: np.stack(transform(xy[:, 0], xy[:, 1], crs, grid.crs), axis=1))


def _is_box(shapes: Shapes) -> Mask:
    """Whether each geometry is a rectangle along the axes: one ring that fills its bounding box."""
    single = shapely.get_num_geometries(shapes) == 1
    shells = np.where(single, shapely.get_geometry(shapes, 0), None)
    bounds = np.nan_to_num(shapely.bounds(shells))
    area = (bounds[:, 2] - bounds[:, 0]) * (bounds[:, 3] - bounds[:, 1])
    gap = area - np.nan_to_num(shapely.area(shells))
    around = 2 * (bounds[:, 2] - bounds[:, 0] + bounds[:, 3] - bounds[:, 1])
    length = np.nan_to_num(shapely.length(shells))
    # corners may be off the box by ON_LINE cells, as sides may be off grid lines
    box: Mask = (
        single
        & (shapely.get_num_interior_rings(shells) == 0)
        & (np.abs(gap) <= ON_LINE * around)
        & (np.abs(length - around) <= 8 * ON_LINE)
    )
    return box


def _clipped(shapes: Shapes, grid: Grid, names: tuple[str, ...], what: str) -> tuple[Shapes, Mask]:
    """The parts on the grid, None where there are none, and whether more than a trifle was cut off."""
    rows, columns = grid.shape
    west, south, east, north = shapely.bounds(shapes).T
    cut = (west < -SLIGHT) | (south < -SLIGHT) | (east > columns + SLIGHT) | (north > rows + SLIGHT)
    beyond = (west < 0) | (south < 0) | (east > columns) | (north > rows)
    clipped = shapes.copy()
    if what == "Area":
        clipped[beyond] = shapely.intersection(shapes[beyond], shapely.box(0, 0, columns, rows))
    else:  # an intersection would merge what a line passes twice
        clipped[beyond] = shapely.clip_by_rect(shapes[beyond], 0, 0, columns, rows)
    sizes = shapely.area(clipped) if what == "Area" else shapely.length(clipped)
    clipped[sizes == 0] = None
    cut |= sizes == 0
    if len(shapes) and (sizes == 0).all():
        raise InputError(
            f"{_called(what, names, 0)} {'does' if len(shapes) == 1 else 'and all others do'} not meet the map, which "
            f"covers {grid.bounds} ({grid.crs}); check the coordinates and the CRS."
        )
    return clipped, cut


def _polygons(shapes: Shapes) -> Shapes:
    """Only the polygons of each geometry, as one polygon or multipolygon."""
    return _only(shapes, POLYGONS)


def _only(shapes: Shapes, kinds: tuple[int, ...]) -> Shapes:
    """Only the parts of these kinds, where a geometry is a collection of several."""
    mixed = ~np.isin(shapely.get_type_id(shapes), (*kinds, shapely.GeometryType.MISSING))
    if mixed.any():
        shapes = shapes.copy()
        parts, at = shapely.get_parts(shapes[mixed], return_index=True)
        parts, inner = shapely.get_parts(parts, return_index=True)  # of multipolygons within collections
        at = at[inner]
        good = np.isin(shapely.get_type_id(parts), kinds)
        join = shapely.multipolygons if kinds is POLYGONS else shapely.multilinestrings
        out = np.full(int(mixed.sum()), shapely.Polygon() if kinds is POLYGONS else shapely.LineString(), object)
        if good.any():
            found = np.unique(at[good])
            out[found] = join(parts[good], indices=np.searchsorted(found, at[good]))
        shapes[mixed] = out
    return shapes


def _called(what: str, names: tuple[str, ...], row: int) -> str:
    number = str(row + 1)
    return f"{what} {number}" if names[row] == number else f"{what} {number} ({names[row][:60]!r})"


def _refuse(bad: Mask, names: tuple[str, ...], what: str, why: str) -> None:
    if bad.any():
        raise InputError(f"{_called(what, names, int(np.argmax(bad)))} {why}.")
