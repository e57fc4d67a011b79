"""Rectangles from files: CSV with west, south, east and north, or the bounding boxes of GeoJSON features."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import shapely

from dqam.errors import InputError
from dqam.geometry.arrays import Floats
from dqam.geometry.grid import DEGREES, Grid
from dqam.geometry.rectangles import HEADER, Snapped, snap


def read_rectangles(path: str | Path, grid: Grid, crs: str | None = None) -> Snapped:
    """Read rectangles from a file and snap them to `grid`.

    A CSV file has the header west,south,east,north and is in `crs` (default: that of the grid). A GeoJSON file is in
    degrees.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path.") from None
    if not content.strip():
        raise InputError(f"{path.name} is empty; it must contain rectangles as CSV or GeoJSON.")
    if content.lstrip().startswith(b"{"):
        if crs is not None:
            raise InputError(f"{path.name} is GeoJSON, which is in degrees (EPSG:4326); leave out the CRS {crs}.")
        return snap(_geojson(content, path.name), grid, DEGREES, f"{path.name}: rectangle")
    return snap(_csv(content, path.name), grid, crs, f"{path.name}: rectangle")


def _csv(content: bytes, name: str) -> Floats:
    try:
        table = pa.csv.read_csv(pa.BufferReader(content.decode("utf-8-sig").encode()))
    except (pa.ArrowException, UnicodeDecodeError):
        raise InputError(
            f"{name} is not a CSV file of rectangles in UTF-8 with equally long rows; repair it."
        ) from None
    found = {column.strip().lower(): column for column in table.column_names}
    if len(found) < len(table.column_names):
        raise InputError(f"{name} has two columns with the same name; its columns are {', '.join(table.column_names)}.")
    if not found.keys() >= set(HEADER):
        raise InputError(
            f"{name} has the columns {', '.join(table.column_names)}; a file of rectangles must have "
            f"{', '.join(HEADER)}."
        )
    try:
        sides = [table[found[side]].cast(pa.float64()).to_numpy() for side in HEADER]
    except pa.ArrowException:
        raise InputError(f"{name} has a side that is not a number; repair it.") from None
    if not table.num_rows:
        raise InputError(f"{name} has a header but no rectangles; add one per line.")
    return np.stack(sides, axis=1)


def _geojson(content: bytes, name: str) -> Floats:
    try:
        shapes = shapely.get_parts(shapely.from_geojson(content))
    except (shapely.errors.GEOSException, UnicodeDecodeError):
        raise InputError(
            f"{name} is not GeoJSON with a geometry in every feature; check it with a GIS, or give CSV."
        ) from None
    if not len(shapes):
        raise InputError(f"{name} contains no rectangles; add a feature for each.")
    single = (shapely.get_type_id(shapes) == shapely.GeometryType.MULTIPOLYGON) & (
        shapely.get_num_geometries(shapes) == 1
    )
    shapes[single] = shapely.get_geometry(shapes[single], 0)
    bounds = shapely.bounds(shapes)
    filled = np.isclose(shapely.area(shapely.box(*bounds.T)), shapely.area(shapes), rtol=1e-6, atol=0)
    odd = (shapely.get_type_id(shapes) != shapely.GeometryType.POLYGON) | ~filled
    if odd.any():
        row = int(np.argmax(odd))
        raise InputError(
            f"Feature {row + 1} of {name} ({shapes[row].geom_type}) is not a rectangle along the axes; "
            f"its bounding box is {tuple(map(float, bounds[row]))}."
        )
    return bounds
