"""A release as a STAC 1.1 item, so that geodata catalogues can list it.

The item says where the map is and which privacy it guarantees, and identifies the file of the release by its checksum.
STAC requires a time. A release does not say when its trips took place, so unless the period is given, the time is that
of the publication, and the description says so.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import shapely
from shapely.affinity import translate

from dqam.errors import InputError
from dqam.geometry.grid import DEGREES, Grid, is_degrees, transform
from dqam.release.published_map import PublishedMap
from dqam.runtime.files import write_whole

SUFFIX = ".stac.json"
EXTENSIONS = (
    "https://stac-extensions.github.io/file/v2.1.0/schema.json",
    "https://stac-extensions.github.io/projection/v2.0.0/schema.json",
)
SHA256 = "1220"  # begins the multihash of a SHA-256: its code, and its length of 32 bytes
ALONG = 32  # points along a side of the map, which may be curved in degrees


def export_item(
    release: PublishedMap, file: str | os.PathLike[str], path: str | os.PathLike[str], period: str | None = None
) -> None:
    """Write the item of a release that is saved in `file`. `path` should end with ".stac.json".

    Args:
        period: the first and the last day of the trips, such as "2026-03-01/2026-03-31", if that is public.
    """
    found = item(release, file, Path(path).absolute().parent, period)
    write_whole(path, json.dumps(found, indent=2, ensure_ascii=False).encode() + b"\n")


def item(
    release: PublishedMap, file: str | os.PathLike[str], folder: Path | None = None, period: str | None = None
) -> dict[str, Any]:
    """The item of a release that is saved in `file`, with a path relative to `folder`."""
    provenance, grid, source = release.provenance, release.grid, Path(file)
    content = source.read_bytes()
    place = outline(grid)
    _, south, _, north = shapely.bounds(place).tolist()
    west, east = place.geoms[0].bounds[0], place.geoms[-1].bounds[2]
    href = os.path.relpath(source.absolute(), folder) if folder is not None else source.name
    published = _published(provenance.created)
    when: dict[str, str | None] = {"datetime": published} if period is None else _period(period)
    about = (
        f"{provenance.promise} Number of distinct trips through any area. Distinct trips must not be added up across "
        "cells or areas: a trip through two of them counts in both."
    )
    if period is None:
        about += " The time is that of the publication; the release does not say when the trips took place."
    return {
        "type": "Feature",
        "stac_version": "1.1.0",
        "stac_extensions": list(EXTENSIONS),
        "id": provenance.id,
        "bbox": [west, south, east, north],
        "geometry": json.loads(shapely.to_geojson(place if len(place.geoms) > 1 else place.geoms[0])),
        "properties": {
            "title": provenance.title,
            "description": about,
            **when,
            "created": published,
            "proj:code": grid.crs,
            "proj:bbox": list(grid.bounds),
            "proj:shape": list(grid.shape),
            "dqam:promise": provenance.promise,
            "dqam:private": provenance.private,
            "dqam:epsilon": float(provenance.epsilon),
            "dqam:delta": float(provenance.delta),
            "dqam:unit": provenance.unit.name,
            "dqam:max_trips": provenance.unit.max_trips,
            "dqam:counted": provenance.counted or "all trips",
            "dqam:mechanism": provenance.mechanism,
            **({"dqam:slices": list(release.slices), "dqam:sliced_by": provenance.slices} if release.slices else {}),
        },
        "links": [],
        "assets": {
            "release": {
                "href": Path(href).as_posix(),
                "type": "application/netcdf",
                "title": "Release, for dqam.open; also opens as NetCDF",
                "roles": ["data"],
                "file:checksum": SHA256 + hashlib.sha256(content).hexdigest(),
                "file:size": len(content),
            }
        },
    }


def outline(grid: Grid) -> shapely.MultiPolygon:
    """The area of a grid in degrees, counterclockwise. If the 180th meridian divides it, there is a polygon on either
    side, and the first is that of the west of the map."""
    box = shapely.box(*grid.bounds)
    if is_degrees(grid.crs):
        return shapely.MultiPolygon([box])
    west, south, east, north = grid.bounds
    box = shapely.segmentize(box, max(east - west, north - south) / ALONG)
    x, _ = transform(np.array([(west + east) / 2]), np.array([(south + north) / 2]), grid.crs, DEGREES)
    middle = float(x[0])

    def onto(xy: Any) -> Any:
        longitude, latitude = transform(xy[:, 0], xy[:, 1], grid.crs, DEGREES)
        return np.stack([(longitude - middle + 180) % 360 - 180 + middle, latitude], axis=1)

    placed = shapely.transform(box, onto)
    low, _, high, _ = shapely.bounds(placed).tolist()
    if low >= -180 and high <= 180:
        return shapely.MultiPolygon([shapely.geometry.polygon.orient(placed)])
    side = -180 if low < -180 else 180
    west_half, east_half = (
        shapely.intersection(placed, shapely.box(start, -90, start + 360, 90)) for start in (side - 360, side)
    )
    turned = translate(west_half, 180 - side), translate(east_half, -180 - side)
    return shapely.MultiPolygon([shapely.geometry.polygon.orient(half) for half in turned])


def _published(created: str) -> str:
    """The time of a publication, as STAC writes it."""
    try:
        time = datetime.fromisoformat(created)
        time = (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InputError(f"The release says that it was made at {created!r:.60}, which is not a time.") from None
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"


def _period(text: str) -> dict[str, str | None]:
    """The times of a period of whole days."""
    if not re.fullmatch(r"\d{4}-\d\d-\d\d/\d{4}-\d\d-\d\d", text, re.ASCII):
        raise InputError(f"The period must be two days, such as 2026-03-01/2026-03-31; got {text!r:.60}.")
    try:
        first, last = (date.fromisoformat(day) for day in text.split("/"))
    except ValueError as error:
        raise InputError(f"The period {text!r} names a day that does not exist ({error}).") from None
    if first > last:
        raise InputError(f"The period {text!r} ends before it begins; give the first day first.")
    return {
        "datetime": None,
        "start_datetime": f"{first}T00:00:00Z",
        "end_datetime": f"{last}T23:59:59Z",
    }
