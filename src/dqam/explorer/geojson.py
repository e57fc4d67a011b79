"""GeoJSON in, GeoJSON out: requests for areas and lines, checked, and the answers of a release to them."""

from __future__ import annotations

import math
import re
from typing import Any, Literal

import numpy as np
import pydantic_core
import pyproj
import shapely
from pydantic import TypeAdapter, ValidationError

from dqam.errors import InputError
from dqam.explorer.schema import MOST_CORNERS, AreasRequest, LinesRequest
from dqam.geometry.areas import PlacedShapes
from dqam.geometry.arrays import Floats
from dqam.geometry.grid import DEGREES, Grid, transform
from dqam.release.answers import Answers
from dqam.release.release import Release

Kind = Literal["areas", "lines"]
REQUESTS: dict[Kind, TypeAdapter[Any]] = {"areas": TypeAdapter(AreasRequest), "lines": TypeAdapter(LinesRequest)}
DEPTH = {"LineString": 1, "Polygon": 2, "MultiLineString": 2, "MultiPolygon": 3}  # of lists around a position
EQUAL_AREA = "EPSG:6933"  # in metres
NOTES: dict[Kind, str] = {
    "areas": "Numbers of distinct trips: a trip through several areas counts in each, so they do not add up.",
    "lines": "Crossings, not distinct trips: a trip that crosses a line several times counts each time.",
}


class InvalidGeojsonError(InputError):
    """A body that is JSON, but not the GeoJSON that the API takes."""


def read_features(body: bytes, kind: Kind, crs: str) -> list[dict[str, Any]]:
    """The features of a request, as they were sent, or an `InputError` that says what is wrong with them."""
    try:
        told = pydantic_core.from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise InputError(f"The body is not valid JSON ({error}); send GeoJSON.") from None
    try:
        REQUESTS[kind].validate_python(told)
    except ValidationError as error:
        raise InvalidGeojsonError(_first_problem(error, told, kind)) from None
    if crs == DEGREES:
        _check_declared_crs(told)
    if told["type"] == "FeatureCollection":
        features: list[dict[str, Any]] = told["features"]
    else:
        features = [told if told["type"] == "Feature" else {"type": "Feature", "properties": None, "geometry": told}]
    corners = 0
    for i, feature in enumerate(features):
        geometry = feature["geometry"]
        lines = _lines(geometry["coordinates"], DEPTH[geometry["type"]])
        corners += sum(map(len, lines))
        if kind == "areas" and any(ring[0][:2] != ring[-1][:2] for ring in lines):
            raise InvalidGeojsonError(f"Feature {i + 1} has a ring whose last position is not its first; close it.")
    if corners > MOST_CORNERS:
        raise InputError(
            f"The features have {corners:,} corners, more than {MOST_CORNERS:,}; simplify them or send fewer at a time."
        )
    return features


def to_geometries(features: list[dict[str, Any]]) -> list[Any]:
    """The features as geometries of shapely, in two dimensions."""
    return [shapely.force_2d(shapely.geometry.shape(feature["geometry"])) for feature in features]


def answer_features(
    release: Release, answers: Answers, features: list[dict[str, Any]], kind: Kind, confidence: float
) -> dict[str, Any]:
    """The features with their answers, as a FeatureCollection."""
    asked = answers.asked
    assert isinstance(asked, PlacedShapes)
    numbers = {answers.counted: answers.value, "low": answers.low, "high": answers.high}
    if kind == "areas":
        numbers |= {"km2": square_kilometres(asked, release.grid), "cells": shapely.area(asked.shapes)}
    else:
        numbers |= {"km": kilometres(asked, release.grid)}
    flags = {**answers.flags, "outside": asked.outside}
    if kind == "lines":
        del flags["repaired"]
    columns = {name: null_for_nan(found.tolist()) for name, found in numbers.items()}
    columns |= {name: flag.tolist() for name, flag in flags.items()}
    answered = []
    for feature, *row in zip(features, *columns.values(), strict=True):
        told = {"id": feature["id"]} if feature.get("id") is not None else {}
        properties = {**(feature.get("properties") or {}), **dict(zip(columns, row, strict=True))}
        answered.append({"type": "Feature", **told, "geometry": feature["geometry"], "properties": properties})
    return {
        "type": "FeatureCollection",
        "release": release.provenance.id,
        "promise": release.provenance.promise,
        "confidence": confidence,
        "note": NOTES[kind],
        "features": answered,
    }


def null_for_nan(numbers: list[float]) -> list[float | None]:
    """The numbers, with None for NaN, which JSON does not have."""
    return [None if math.isnan(number) else number for number in numbers]


def square_kilometres(areas: PlacedShapes, grid: Grid) -> Floats:
    """The size of the part of each area on the map, on the ellipsoid, float64[m]; NaN where there is none."""

    def spread(cells: Floats) -> Floats:
        return np.stack(transform(*_on_earth(cells, grid), grid.crs, EQUAL_AREA), axis=1)

    size: Floats = shapely.area(shapely.transform(areas.shapes, spread)) / 1e6
    return size


def kilometres(lines: PlacedShapes, grid: Grid) -> Floats:
    """The length of the part of each line on the map, on the ellipsoid, float64[m]; NaN where there is none."""
    parts, line = shapely.get_parts(lines.shapes, return_index=True)
    cells, part = shapely.get_coordinates(parts, return_index=True)
    x, y = transform(*_on_earth(cells, grid), grid.crs, DEGREES)
    _, _, metres = pyproj.Geod(ellps="WGS84").inv(x[:-1], y[:-1], x[1:], y[1:])
    together = part[:-1] == part[1:]
    length = np.where(lines.outside, np.nan, 0.0)
    np.add.at(length, line[part[:-1][together]], metres[together] / 1000)
    return length


def _on_earth(cells: Floats, grid: Grid) -> tuple[Floats, Floats]:
    """Positions in cells, float64[n, 2], as x and y in the CRS of the grid."""
    west, south, east, north = grid.bounds
    return (
        west + cells[:, 0] * ((east - west) / grid.columns),
        south + cells[:, 1] * ((north - south) / grid.rows),
    )


def _lines(coordinates: list[Any], depth: int) -> list[list[list[float]]]:
    """The rings or lines in the coordinates of a geometry."""
    if depth == 1:
        return [coordinates]
    return [line for part in coordinates for line in _lines(part, depth - 1)]


def _check_declared_crs(told: dict[str, Any]) -> None:
    """Raise an `InputError` if GeoJSON names a CRS other than degrees, as was allowed before RFC 7946."""
    declared = told.get("crs")
    if declared is None:
        return
    properties = declared.get("properties") if isinstance(declared, dict) else None
    name = properties.get("name") if isinstance(properties, dict) else None
    if not (isinstance(name, str) and re.search(r"(\bCRS84|\bEPSG:[\d.]*:?4326)$", name)):
        called = f"{name[:60]!r}" if isinstance(name, str) else "another CRS"
        raise InputError(
            f"The member crs says that coordinates are in {called}; send degrees, or name the CRS in the query, such "
            "as ?crs=EPSG:28355."
        )


def _first_problem(error: ValidationError, told: Any, kind: Kind) -> str:
    """One sentence about the first thing that is wrong with a request."""
    wanted = "Polygon or MultiPolygon" if kind == "areas" else "LineString or MultiLineString"
    first = error.errors(include_url=False, include_input=False)[0]
    path = [part for part in first["loc"] if part not in ("FeatureCollection", "Feature", *DEPTH)]
    where = "The body"
    if path[:1] == ["features"] and len(path) > 1:
        number, path = int(path[1]), path[2:]
        where, told = f"Feature {number + 1}", told["features"][number]
    if path == ["geometry"] and told.get("geometry") is None:
        return f"{where} has no geometry; give a {wanted}, or leave it out."
    if first["type"] == "union_tag_invalid":
        return f"{where} is a {first['ctx']['tag'][:40]}; give a {wanted}{'' if path else ', or features of these'}."
    if first["type"] in ("union_tag_not_found", "model_attributes_type"):
        return f"{where} has no type; send a FeatureCollection of {wanted} features."
    return f"{where}: {'.'.join(map(str, path))}: {first['msg']}; send {wanted} features as in RFC 7946."
