"""Write tables of geometries and their attributes as CSV, GeoJSON or GeoParquet, depending on the suffix of the file.

GeoJSON is always in degrees (RFC 7946); GeoParquet is in the CRS of the geometries; CSV has no geometries.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shapely

from dqam.errors import InputError
from dqam.geometry.arrays import Shapes
from dqam.geometry.grid import DEGREES, parse_crs, transform

SUFFIXES = (".csv", ".geojson", ".json", ".parquet")
GEOMETRY = "geometry"


def check_suffix(path: Path) -> Path:
    """`path`, if a table can be written to it; an `InputError` otherwise."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{path.name}: answers can be saved as {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}.")
    return path


def write_shapes(
    path: Path, columns: Mapping[str, Any], shapes: Shapes, crs: str, notes: Mapping[str, str], suffix: str = ""
) -> None:
    """Write a row for each of `shapes`, object[m] in `crs`.

    Args:
        path: the file to write, in the format of its suffix or of `suffix`.
        columns: m values each, by name: arrays, lists or Arrow columns. NaN is written as a missing value.
        shapes: the geometries.
        crs: their CRS.
        notes: text that must accompany the numbers; left out of CSV, which has no place for it.
    """
    suffix = suffix or path.suffix.lower()
    if suffix == ".csv":
        _csv(path, columns)
    elif suffix == ".parquet":
        _geoparquet(path, columns, shapes, crs, notes)
    else:
        _geojson(path, columns, shapes, crs, notes)


def _csv(path: Path, columns: Mapping[str, Any]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(map(_in_csv, listed(values)) for values in columns.values()), strict=True))


def _in_csv(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    return json.dumps(value, default=str) if isinstance(value, dict | list) else value


def _geojson(path: Path, columns: Mapping[str, Any], shapes: Shapes, crs: str, notes: Mapping[str, str]) -> None:
    shapes = _counterclockwise(in_degrees(shapes, crs))
    rows = zip(*map(listed, columns.values()), strict=True)
    with path.open("w", encoding="utf-8") as file:
        top = {"type": "FeatureCollection", **{name.lower(): text for name, text in notes.items()}}
        file.write(f'{json.dumps(top)[:-1]}, "features": [')
        for i, (row, shape) in enumerate(zip(rows, shapely.to_geojson(shapes), strict=True)):
            properties = json.dumps(dict(zip(columns, row, strict=True)), default=str)
            file.write(f'{"," if i else ""}\n{{"type": "Feature", "properties": {properties}, "geometry": {shape}}}')
        file.write("\n]}\n")


def in_degrees(shapes: Shapes, crs: str) -> Shapes:
    """Geometries of `crs`, transformed to longitude and latitude on WGS 84."""
    if parse_crs(crs).equals(parse_crs(DEGREES), ignore_axis_order=True):
        return shapes
    return shapely.transform(shapes, lambda xy: np.stack(transform(xy[:, 0], xy[:, 1], crs, DEGREES), axis=1))


def _counterclockwise(shapes: Shapes) -> Shapes:
    """The same with rings in the direction that RFC 7946 demands: outer ones counterclockwise, holes clockwise."""
    parts, at = shapely.get_parts(shapes, return_index=True)
    parts = parts.copy()
    areal = shapely.get_type_id(parts) == shapely.GeometryType.POLYGON
    wrong = areal & ~shapely.is_ccw(shapely.get_exterior_ring(parts))
    holes = areal & (shapely.get_num_interior_rings(parts) > 0)
    turned = np.zeros(len(shapes), np.bool_)
    for i in np.flatnonzero(wrong | holes):
        parts[i] = shapely.geometry.polygon.orient(parts[i])
        turned[at[i]] = True
    shapes = shapes.copy()
    single = turned & (shapely.get_type_id(shapes) == shapely.GeometryType.POLYGON)
    shapes[single] = parts[np.searchsorted(at, np.flatnonzero(single))]
    for i in np.flatnonzero(turned & ~single):
        shapes[i] = shapely.MultiPolygon(list(parts[slice(*np.searchsorted(at, [i, i + 1]))]))
    return shapes


def _geoparquet(path: Path, columns: Mapping[str, Any], shapes: Shapes, crs: str, notes: Mapping[str, str]) -> None:
    names, arrays = list(columns), [_array(values) for values in columns.values()]
    wkb = pa.array(shapely.to_wkb(shapes), pa.binary())
    about = {
        "encoding": "WKB",
        "geometry_types": sorted({shape.geom_type + (" Z" if shape.has_z else "") for shape in shapes}),
        "crs": parse_crs(crs).to_json_dict(),
        "bbox": [float(side) for side in shapely.total_bounds(shapes)],
    }
    geo = {"version": "1.0.0", "primary_column": GEOMETRY, "columns": {GEOMETRY: about}}
    table = pa.Table.from_arrays([*arrays, wkb], [*names, GEOMETRY])
    pq.write_table(table.replace_schema_metadata({"geo": json.dumps(geo), **notes}), path)


def _array(values: Any) -> Any:
    return values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, from_pandas=True)


def listed(values: Any) -> Iterable[Any]:
    """The values as Python objects, None where one is missing or not a finite number, which JSON cannot hold."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        values = values.to_pylist()
    elif isinstance(values, np.ndarray):
        values = values.tolist()
    return (None if isinstance(value, float) and not math.isfinite(value) else value for value in values)
