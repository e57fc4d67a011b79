"""Geometry columns as coordinates: WKB, WKT and GeoArrow's native points and lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
import shapely
from numpy.typing import NDArray

from dqam.errors import InputError
from dqam.geometry.arrays import Floats, Integers, Mask
from dqam.geometry.ids import is_text, plain_array
from dqam.sources.values import numbers

_MISSING, _POINT, _LINE = -1, 0, 1
_WKB_POINT = 21  # bytes: order, type, x, y


def are_points(array: pa.Array, name: str) -> Mask:
    """Which geometries are points; false where there is no geometry."""
    array = plain_array(array)
    kind = array.type
    valid: Mask = array.is_valid().to_numpy(zero_copy_only=False)
    if pt.is_struct(kind) or pt.is_fixed_size_list(kind) or _wkb_points(array) is not None:
        return valid
    if pt.is_list(kind) or pt.is_large_list(kind):
        return np.zeros(len(array), np.bool_)
    found: Mask = shapely.get_type_id(_shapes(array, name)[0]) == _POINT
    return found


def points(array: pa.Array, name: str) -> tuple[Floats, Floats, Mask]:
    """x and y of a column of points, NaN where there is none; and which rows have some other or an invalid geometry."""
    array = plain_array(array)
    if pt.is_struct(array.type) or pt.is_fixed_size_list(array.type):
        return *_native_points(array, name), np.zeros(len(array), np.bool_)
    if pt.is_list(array.type) or pt.is_large_list(array.type):  # of points: a line
        nowhere = np.full(len(array), np.nan)
        return nowhere, nowhere, array.is_valid().to_numpy(zero_copy_only=False)
    if (ends := _wkb_points(array)) is not None:
        return *ends, np.zeros(len(array), np.bool_)
    shapes, bad = _shapes(array, name)
    kinds = shapely.get_type_id(shapes)
    bad |= (kinds != _POINT) & (kinds != _MISSING)
    shapes[bad | shapely.is_empty(shapes)] = None
    return shapely.get_x(shapes), shapely.get_y(shapes), bad


def lines(array: pa.Array, name: str, points: bool) -> tuple[Floats, Floats, Integers, Mask]:
    """x and y of all points of a column of LineStrings (and of Points, with `points`), the number of points in each
    row, and which rows have some other or an invalid geometry."""
    array = plain_array(array)
    if pt.is_list(array.type) or pt.is_large_list(array.type):
        lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int64()).to_numpy()
        return *_native_points(plain_array(array.flatten()), name), lengths, np.zeros(len(array), np.bool_)
    shapes, bad = _shapes(array, name)
    bad |= ~np.isin(shapely.get_type_id(shapes), (_MISSING, _LINE, _POINT) if points else (_MISSING, _LINE))
    shapes[bad] = None
    coordinates = shapely.get_coordinates(shapes)
    lengths = np.where(shapely.is_missing(shapes), 0, shapely.get_num_coordinates(shapes)).astype(np.int64)
    return np.ascontiguousarray(coordinates[:, 0]), np.ascontiguousarray(coordinates[:, 1]), lengths, bad


def describe(array: pa.Array, name: str, column: str, wanted: str, i: int) -> str:
    """What is wrong with row i, whose geometry is not of the wanted type; in words that show no coordinates."""
    one = plain_array(array)[i : i + 1]
    shape = _shapes(one, name)[0][0]
    if shape is None and not is_text(one.type):
        return f"has no valid WKB in {column}; repair the row"
    if shape is None:
        polyline = str(one[0]).lstrip().startswith("[")
        way_out = (
            f"if it is a JSON list of [lon, lat], name it columns={{'polyline': {column!r}}}; else " if polyline else ""
        )
        return f"has no valid WKT in {column}; {way_out}repair the row"
    way_out = "one LineString per trip, or one Point per row" if wanted == "LineString" else "one Point per row"
    return f"is a {shape.geom_type} where a {wanted} was expected; give {way_out}"


def _shapes(array: pa.Array, name: str) -> tuple[NDArray[Any], Mask]:
    """Shapes from WKB, or from text with WKT or hexadecimal WKB (None where there is none); and which are invalid."""
    kind = array.type
    values = np.array(array.to_pylist(), dtype=object)
    if pt.is_null(kind):
        return np.full(len(array), None), np.zeros(len(array), np.bool_)
    if is_text(kind):
        shapes = _parsed(values, shapely.from_wkt)
        rest = shapely.is_missing(shapes) & (values != None)  # noqa: E711 - elementwise
        shapes[rest] = _parsed(values[rest], shapely.from_wkb)
    elif pt.is_binary(kind) or pt.is_large_binary(kind):
        shapes = _parsed(values, shapely.from_wkb)
    else:
        raise InputError(f"{name}: a geometry column of {kind} is not known; write it as WKB or WKT.")
    return shapes, shapely.is_missing(shapes) & (values != None)  # noqa: E711 - elementwise


def _parsed(values: NDArray[Any], parse: Callable[..., NDArray[Any]]) -> NDArray[Any]:
    """Shapes, each parsed by itself; None where one cannot be parsed."""
    try:
        with np.errstate(all="ignore"):  # NaN as a coordinate
            return parse(values, on_invalid="ignore")
    except Exception:  # a type that Shapely does not have, such as an arc
        if len(values) == 1:
            return np.full(1, None)
        middle = len(values) // 2
        return np.concatenate([_parsed(values[:middle], parse), _parsed(values[middle:], parse)])


def _wkb_points(array: pa.Array) -> tuple[Floats, Floats] | None:
    """Coordinates straight from the bytes if all are two-dimensional little-endian WKB points; otherwise None."""
    wide = pt.is_large_binary(array.type)
    if not (wide or pt.is_binary(array.type)) or array.null_count or not len(array):
        return None
    _, ends, data = array.buffers()
    offsets = np.frombuffer(ends, np.int64 if wide else np.int32)[array.offset : array.offset + len(array) + 1]
    if data is None or not (np.diff(offsets) == _WKB_POINT).all():
        return None
    layout = np.dtype([("order", "u1"), ("kind", "<u4"), ("x", "<f8"), ("y", "<f8")])
    records = np.frombuffer(data, layout, len(array), offset=int(offsets[0]))
    if not ((records["order"] == 1) & (records["kind"] == 1)).all():
        return None
    return records["x"].copy(), records["y"].copy()


def _native_points(array: pa.Array, name: str) -> tuple[Floats, Floats]:
    if pt.is_struct(array.type) and {"x", "y"} <= {field.name for field in array.type.fields}:
        x, y = (numbers(pc.struct_field(array, axis), name, axis) for axis in ("x", "y"))
        return x, y
    if pt.is_fixed_size_list(array.type) and (size := array.type.list_size) >= 2:
        values = array.values[array.offset * size : (array.offset + len(array)) * size]
        table = numbers(values, name, "the geometry").reshape(-1, size).copy()
        if array.null_count:
            table[array.is_null().to_numpy(zero_copy_only=False)] = np.nan
        return np.ascontiguousarray(table[:, 0]), np.ascontiguousarray(table[:, 1])
    raise InputError(f"{name}: a geometry column of {array.type} is not known; write it as WKB or WKT.")
