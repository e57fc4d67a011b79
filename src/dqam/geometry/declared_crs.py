"""The coordinate reference system that a file or data frame declares, and the metadata of GeoParquet."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyproj

from dqam.errors import InputError
from dqam.geometry.grid import DEGREES, parse_crs


def crs_name(crs: Any) -> str:
    """A short name of a CRS that a file or data frame declares; always EPSG:4326 for degrees on WGS 84."""
    try:
        known = crs if isinstance(crs, pyproj.CRS) else parse_crs(crs if isinstance(crs, str) else json.dumps(crs))
    except InputError:
        words = str(crs) if len(str(crs)) <= 40 else f"{str(crs)[:37]}..."
        raise InputError(
            f"The declared coordinate reference system {words} is not known; name the right one, crs='EPSG:...'."
        ) from None
    if known.equals(parse_crs(DEGREES), ignore_axis_order=True) or known.to_authority() == ("OGC", "CRS84"):
        return DEGREES
    authority = known.to_authority(min_confidence=100)
    return ":".join(authority) if authority else known.to_wkt()


def primary_column(schema: pa.Schema) -> str | None:
    """The geometry column that GeoParquet's metadata points to."""
    name = geoparquet(schema).get("primary_column")
    return name if name in schema.names else None


def geoparquet(schema: pa.Schema) -> dict[str, Any]:
    """The GeoParquet metadata of a file; empty if there is none or it is not valid."""
    try:
        geo = json.loads((schema.metadata or {}).get(b"geo", b"{}"))
    except ValueError:
        return {}
    return geo if isinstance(geo, dict) and isinstance(geo.get("columns", {}), dict) else {}


def declared_crs(schema: pa.Schema, column: str) -> str | None:
    """The CRS that GeoParquet or GeoArrow metadata declares for a column; None if there is no declaration."""
    about = geoparquet(schema).get("columns", {}).get(column)
    if isinstance(about, dict):
        return crs_name(about["crs"]) if about.get("crs") else DEGREES
    field = schema.field(column)
    text = (field.metadata or {}).get(b"ARROW:extension:metadata")
    if text is None and isinstance(field.type, pa.BaseExtensionType):
        text = getattr(field.type, "__arrow_ext_serialize__", lambda: None)()
    try:
        crs = json.loads(text or b"{}").get("crs")
    except (ValueError, AttributeError):
        return None
    return crs_name(crs) if crs else None
