"""Areas and lines from files: GeoJSON and GeoParquet; with the extra `gis` also Shapefile, GeoPackage and FlatGeobuf.

Files are recognised by their content. Every feature has a name, which comes from a column of the file, and keeps its
other attributes, so that they can be written next to the answers.
"""

from __future__ import annotations

import json
import re
import warnings
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt
import shapely

from dqam.errors import InputError
from dqam.geometry.arrays import Shapes
from dqam.geometry.declared_crs import crs_name, declared_crs, geoparquet, primary_column
from dqam.geometry.grid import DEGREES, parse_crs
from dqam.geometry.ids import plain_array

FORMATS = "GeoJSON, GeoParquet, Shapefile (.shp, or .zip with one), GeoPackage or FlatGeobuf"
NAME_COLUMNS = ("name", "id", "code", "h3")  # tried in this order, ignoring case
GEOMETRY_COLUMNS = ("geometry", "geom", "the_geom", "wkb_geometry", "wkb")  # of Parquet files without metadata
MAGIC = (
    (b"PAR1", "GeoParquet"),
    (b"SQLite format 3\0", "GeoPackage"),
    (b"fgb\x03", "FlatGeobuf"),
    (b"\x00\x00\x27\x0a", "Shapefile"),
    (b"PK\x03\x04", "zipped Shapefile"),
)
GEOMETRY_TYPES = {kind.name for kind in shapely.GeometryType if kind >= 0}
_INDEX = re.compile(r"__index_level_\d+__")  # a column that pandas adds


@dataclass(frozen=True, eq=False)
class NamedShapes:
    """m geometries with names and attributes.

    shapes       object[m], of shapely
    names        m names, which may repeat
    crs          the CRS of the geometries
    columns      the attributes, a table of m rows
    name_column  the column that the names come from; None if they are "1", "2", ...
    """

    shapes: Shapes
    names: tuple[str, ...]
    crs: str
    columns: pa.Table
    name_column: str | None = None

    def __len__(self) -> int:
        return len(self.shapes)


def read_shapes(path: str | Path, name_column: str | None = None, crs: str | None = None) -> NamedShapes:
    """Read the features of a file; raise an `InputError` that says what is wrong with it.

    Args:
        path: a file in one of `FORMATS`.
        name_column: the column with the names. By default the first of name, id, code and h3 that the file has,
            ignoring case. Without such a column, or where it is empty, features are numbered from 1.
        crs: the CRS of the coordinates, in place of the one that the file declares.
    """
    path = Path(path)
    if crs is not None:
        parse_crs(crs)
    shapes, columns, declared = _read(path, _format(path), crs is None)
    if not len(shapes):
        raise InputError(f"{path.name} contains no features; add one for each area or line.")
    if crs is None and declared is None:
        raise InputError(f"{path.name} does not declare its CRS; name it, such as crs='EPSG:4326'.")
    named = _name_column(columns, name_column, path.name)
    names = tuple(str(i + 1) for i in range(len(shapes)))
    if named is not None:
        given = columns[named].to_pylist()
        names = tuple(number if _blank(one) else str(one) for one, number in zip(given, names, strict=True))
    missing = shapely.is_missing(shapes)
    if missing.any():
        row = int(np.argmax(missing))
        called = "" if names[row] == str(row + 1) else f" ({names[row][:60]!r})"
        raise InputError(f"Feature {row + 1}{called} of {path.name} has no geometry; give it one, or leave it out.")
    return NamedShapes(shapes, names, crs or declared or DEGREES, columns, named)


def _format(path: Path) -> str:
    """The format of a file, by its first bytes."""
    try:
        with path.open("rb") as file:
            start = file.read(512)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path.") from None
    if not start.removeprefix(b"\xef\xbb\xbf").strip():
        raise InputError(f"{path.name} is empty; give areas or lines as {FORMATS}.")
    for magic, name in MAGIC:
        if start.startswith(magic):
            return name
    if start.removeprefix(b"\xef\xbb\xbf").lstrip(b"\x1e \t\r\n").startswith((b"{", b"[")):
        return "GeoJSON"
    raise InputError(f"{path.name} is in an unknown format; give areas or lines as {FORMATS}.")


def _read(path: Path, form: str, check_crs: bool) -> tuple[Shapes, pa.Table, str | None]:
    if form == "GeoJSON":
        return _geojson(path, check_crs)
    if form == "GeoParquet":
        return _geoparquet(path, check_crs)
    return _by_gdal(path, form, check_crs)


def _name_column(columns: pa.Table, wanted: str | None, file: str) -> str | None:
    known = columns.column_names
    if wanted is None:
        spelled = {name.lower(): name for name in reversed(known)}
        return next((spelled[name] for name in NAME_COLUMNS if name in spelled), None)
    if wanted not in known:
        has = f"its columns are {', '.join(known)}" if known else "it has no columns"
        raise InputError(f"{file} has no column {wanted!r}; {has}.")
    return wanted


def _blank(value: object) -> bool:
    return value is None or value != value or not str(value).strip()


def _geojson(path: Path, check_crs: bool) -> tuple[Shapes, pa.Table, str]:
    features, top = _features(_parsed(path), path.name)
    shapes = np.full(len(features), None, object)
    names: dict[str, None] = {}
    for i, feature in enumerate(features):
        shapes[i] = _shape(feature.get("geometry"), i, path.name)
        names.update(dict.fromkeys(_properties(feature)))
    table = {name: _column([_properties(feature).get(name) for feature in features]) for name in names}
    if "id" not in table and any(feature.get("id") is not None for feature in features):
        table["id"] = _column([feature.get("id") for feature in features])
    return shapes, pa.table(table) if table else _no_columns(len(shapes)), _old_crs(top) if check_crs else DEGREES


def _parsed(path: Path) -> list[Any]:
    """The JSON values of a file: one, or one in each line."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
        try:
            return [json.loads(text)]
        except ValueError as error:
            lines = [stripped for line in text.splitlines() if (stripped := line.strip("\x1e \t"))]
            try:
                return [json.loads(line) for line in lines]
            except ValueError:
                raise error from None
    except UnicodeDecodeError:
        raise InputError(f"{path.name} is not UTF-8 text; save it as UTF-8.") from None
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path.name} is not valid JSON (line {error.lineno}, column {error.colno}: {error.msg}); repair it, or "
            "write it again."
        ) from None
    except (ValueError, RecursionError):  # a number with too many digits, or nesting that is too deep
        raise InputError(f"{path.name} is JSON that cannot be read; write it again.") from None


def _features(values: list[Any], file: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """All features of GeoJSON values, and the first value, which may declare a CRS."""
    found: list[dict[str, Any]] = []
    for value in values:
        kind = value.get("type") if isinstance(value, dict) else None
        if kind == "FeatureCollection" and isinstance(value.get("features"), list):
            found.extend(value["features"])
        elif kind == "Feature":
            found.append(value)
        elif isinstance(kind, str) and kind.upper() in GEOMETRY_TYPES:
            found.append({"geometry": value})
        else:
            what = "TopoJSON" if kind == "Topology" else "JSON, but not GeoJSON"
            raise InputError(f"{file} is {what}; give a GeoJSON FeatureCollection.")
    for i, feature in enumerate(found):
        if not isinstance(feature, dict) or not isinstance(_properties(feature), dict):
            raise InputError(f"Feature {i + 1} of {file} is not a GeoJSON feature; repair it.")
    return found, values[0] if values else {}


def _properties(feature: dict[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = feature.get("properties") or {}
    return properties


def _shape(geometry: object, row: int, file: str) -> Any:
    if geometry is None:
        return None
    try:
        with np.errstate(all="ignore"):  # NaN as a coordinate
            return shapely.geometry.shape(geometry)
    except Exception as error:  # shapely raises errors of many kinds for wrong coordinates
        if isinstance(error, MemoryError):
            raise
        kind = str(geometry.get("type"))[:30] if isinstance(geometry, dict) else type(geometry).__name__
        raise InputError(
            f"Feature {row + 1} of {file} has coordinates that are not valid for a {kind}; correct them."
        ) from None


def _old_crs(top: dict[str, Any]) -> str:
    """The CRS of a GeoJSON file: degrees, unless the member `crs` of the older format names another."""
    about = top.get("crs")
    if about is None:
        return DEGREES
    properties = about.get("properties") if isinstance(about, dict) else None
    name = properties.get("name") if isinstance(properties, dict) else None
    return crs_name(name if isinstance(name, str) else about)


def _column(values: Sequence[Any]) -> pa.Array:
    """A column of properties; as JSON text where they are objects, lists, or of several types."""
    try:
        if not any(isinstance(value, dict | list) for value in values):
            return pa.array(values, from_pandas=True)
    except (pa.ArrowException, OverflowError):
        pass
    return pa.array([v if v is None or isinstance(v, str) else json.dumps(v, ensure_ascii=False) for v in values])


def _no_columns(rows: int) -> pa.Table:
    return pa.table({"": pa.nulls(rows)}).select([])


def _geoparquet(path: Path, check_crs: bool) -> tuple[Shapes, pa.Table, str | None]:
    try:
        table = pq.ParquetFile(path).read()
    except (pa.ArrowException, OSError):
        raise InputError(f"{path.name} is a damaged or incomplete Parquet file; copy it again.") from None
    known = geoparquet(table.schema).get("columns", {})
    spelled = {name.lower(): name for name in reversed(table.column_names)}
    column = primary_column(table.schema) or next((spelled[one] for one in GEOMETRY_COLUMNS if one in spelled), None)
    if column is None:
        raise InputError(
            f"{path.name} has no geometry column (columns: {', '.join(table.column_names) or 'none'}); write it as "
            "GeoParquet."
        )
    about = known.get(column)
    undefined = isinstance(about, dict) and "crs" in about and about["crs"] is None
    crs = None if undefined or not check_crs else declared_crs(table.schema, column)
    covering = about.get("covering") if isinstance(about, dict) else None
    drop = {column, *known}
    if isinstance(covering, dict) and isinstance(box := covering.get("bbox"), dict):
        drop |= {way[0] for way in box.values() if isinstance(way, list) and way}
    return _from_wkb(table[column], path.name), _attributes(table, drop), crs


def _by_gdal(path: Path, form: str, check_crs: bool) -> tuple[Shapes, pa.Table, str | None]:
    """Read a file with GDAL."""
    try:
        pyogrio, raw = import_module("pyogrio"), import_module("pyogrio.raw")
    except ImportError:
        raise InputError(
            f"Reading {path.name}, a {form}, needs pyogrio, which is not installed: pip install 'dqam[gis]'; or "
            "convert the file to GeoJSON."
        ) from None
    if form == "Shapefile" and not any(path.with_suffix(suffix).exists() for suffix in (".shx", ".SHX")):
        raise InputError(
            f"{path.name} cannot be read without {path.stem}.shx, which is missing; keep the .shp, .shx, .dbf and .prj "
            "files of a Shapefile together."
        )
    source = _within_zip(path) if form == "zipped Shapefile" else str(path.resolve())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            layers = [str(name) for name, kind in pyogrio.list_layers(source).tolist() if kind is not None]
            if len(layers) > 1:
                raise InputError(
                    f"{path.name} has the layers {', '.join(layers)}; save the one you need as a file of its own."
                )
            if not layers:
                raise InputError(f"{path.name} has no layer with geometries; check it in a GIS.")
            about, table = raw.read_arrow(source, layer=layers[0])
    except (RuntimeError, ValueError, OSError, pa.ArrowException) as error:
        if isinstance(error, InputError):
            raise
        reason = (str(error).splitlines() or [type(error).__name__])[0].replace(source, path.name)[:160]
        raise InputError(f"{path.name} cannot be read ({reason.rstrip('. ')}); check it, or write it again.") from None
    column = about["geometry_name"] or "wkb_geometry"
    crs = crs_name(about["crs"]) if about["crs"] and check_crs else None
    return _from_wkb(table[column], path.name), _attributes(table, {column}), crs


def _within_zip(path: Path) -> str:
    """GDAL's name of the one Shapefile in a ZIP file."""
    try:
        with zipfile.ZipFile(path) as file:
            found = [name for name in file.namelist() if name.lower().endswith(".shp") and "__MACOSX" not in name]
    except (zipfile.BadZipFile, OSError):
        raise InputError(f"{path.name} is a damaged or incomplete ZIP file; copy it again.") from None
    if len(found) != 1:
        has = f"{len(found)} Shapefiles" if found else "no Shapefile"
        raise InputError(f"{path.name} contains {has}; it must contain exactly one.")
    return f"/vsizip/{{{path.resolve()}}}/{found[0]}"


def _from_wkb(column: pa.ChunkedArray, file: str) -> Shapes:
    array = plain_array(column.combine_chunks())
    if not (pt.is_binary(array.type) or pt.is_large_binary(array.type)):
        raise InputError(f"{file} has geometries of the type {array.type}; write them as WKB.")
    shapes = np.full(len(array), None, object)
    try:
        with np.errstate(all="ignore"):  # NaN as a coordinate
            shapes[:] = shapely.from_wkb(np.array(array.to_pylist(), dtype=object))
    except (shapely.errors.ShapelyError, TypeError):
        raise InputError(
            f"{file} has geometries that are damaged or of an unknown type, such as curves; convert them to polygons "
            "or lines."
        ) from None
    return shapes


def _attributes(table: pa.Table, drop: set[str]) -> pa.Table:
    keep = [name for name in table.column_names if name not in drop and not _INDEX.fullmatch(name)]
    return table.select(keep).replace_schema_metadata(None)
