"""GeoJSON in, GeoJSON out: validated requests for areas and lines, and the answers of a release to them."""

from __future__ import annotations

import re
from typing import Any, Literal

import pydantic_core
import shapely
from fastapi import FastAPI
from pydantic import TypeAdapter, ValidationError

from dqam.errors import InputError
from dqam.explorer.facts import null_for_nan
from dqam.explorer.schema import MOST_CORNERS, AreasRequest, LinesRequest, ShapeRequest
from dqam.geometry.areas import PlacedAreas, PlacedLines
from dqam.geometry.grid import DEGREES
from dqam.release.answers import Answers
from dqam.release.release import Release

Kind = Literal["areas", "lines", "shape"]
REQUESTS: dict[Kind, TypeAdapter[Any]] = {
    "areas": TypeAdapter(AreasRequest),
    "lines": TypeAdapter(LinesRequest),
    "shape": TypeAdapter(ShapeRequest),
}
WANTED: dict[Kind, str] = {
    "areas": "Polygon or MultiPolygon",
    "lines": "LineString or MultiLineString",
    "shape": "Polygon, MultiPolygon, LineString or MultiLineString",
}
SCHEMAS = "#/components/schemas/"  # of OpenAPI
FLAGS: dict[Kind, tuple[str, ...]] = {"areas": ("grown", "cut", "repaired"), "lines": ("cut",)}
DEPTH = {"LineString": 1, "Polygon": 2, "MultiLineString": 2, "MultiPolygon": 3}  # of lists around a position
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
        if "Polygon" in geometry["type"] and any(ring[0][:2] != ring[-1][:2] for ring in lines):
            raise InvalidGeojsonError(f"Feature {i + 1} has a ring whose last position is not its first; close it.")
    if corners > MOST_CORNERS:
        raise InputError(
            f"The features have {corners:,} corners, more than {MOST_CORNERS:,}; simplify them or send fewer at a time."
        )
    return features


def to_geometries(features: list[dict[str, Any]]) -> list[Any]:
    """The features as geometries of shapely, in two dimensions: positions may have further numbers, not all as many."""

    def flat(geometry: dict[str, Any]) -> dict[str, Any]:
        kind = geometry["type"]
        return {"type": kind, "coordinates": _in_two_dimensions(geometry["coordinates"], DEPTH[kind])}

    return [shapely.geometry.shape(flat(feature["geometry"])) for feature in features]


def answer_features(
    release: Release, answers: Answers, features: list[dict[str, Any]], kind: Kind, confidence: float
) -> dict[str, Any]:
    """The features with their answers, as a FeatureCollection."""
    asked = answers.asked
    assert isinstance(asked, PlacedAreas | PlacedLines)
    numbers = {answers.counted: answers.value, "low": answers.low, "high": answers.high, **asked.sizes(release.grid)}
    columns: dict[str, list[Any]] = {name: null_for_nan(found.tolist()) for name, found in numbers.items()}
    columns |= {name: flag.tolist() for name, flag in answers.flags.items() if name in FLAGS[kind]}
    columns["outside"] = asked.outside.tolist()
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


def request_body(kind: Kind) -> dict[str, Any]:
    """The description of a body that the server reads itself, to check it in the background."""
    schema = {name: part for name, part in _schema(kind).items() if name != "$defs"}
    content = {name: {"schema": schema} for name in ("application/geo+json", "application/json")}
    return {"requestBody": {"required": True, "content": content}}


def describe_geojson(app: FastAPI) -> None:
    """Add the schemas that GeoJSON bodies refer to, which FastAPI does not know of, to the description of the API."""
    describe = app.openapi

    def with_geojson() -> dict[str, Any]:
        told = describe()
        for kind in REQUESTS:
            told["components"]["schemas"] |= _schema(kind)["$defs"]
        return told

    app.openapi = with_geojson  # type: ignore[method-assign]


def _schema(kind: Kind) -> dict[str, Any]:
    return REQUESTS[kind].json_schema(ref_template=SCHEMAS + "{model}")


def _lines(coordinates: list[Any], depth: int) -> list[list[list[float]]]:
    """The rings or lines in the coordinates of a geometry."""
    if depth == 1:
        return [coordinates]
    return [line for part in coordinates for line in _lines(part, depth - 1)]


def _in_two_dimensions(coordinates: list[Any], depth: int) -> list[Any]:
    return [one[:2] if depth == 1 else _in_two_dimensions(one, depth - 1) for one in coordinates]


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
    wanted, one = WANTED[kind], kind == "shape"
    such = ", or one such feature" if one else ", or such features"
    first = error.errors(include_url=False, include_input=False)[0]
    path = [part for part in first["loc"] if part not in ("FeatureCollection", "Feature", *DEPTH)]
    where = "The body"
    if path[:1] == ["features"] and len(path) > 1:
        number, path = int(path[1]), path[2:]
        where, told = f"Feature {number + 1}", told["features"][number]
    if path == ["geometry"] and told.get("geometry") is None:
        return f"{where} has no geometry; give a {wanted}, or leave it out."
    if first["type"] == "union_tag_invalid":
        return f"{where} is a {first['ctx']['tag'][:40]}; give a {wanted}{'' if path else such}."
    if first["type"] in ("union_tag_not_found", "model_attributes_type"):
        send = f"one {wanted}, or one such feature" if one else f"a FeatureCollection of {wanted} features"
        return f"{where} has no type; send {send}."
    send = f"a {wanted}" if one else f"{wanted} features"
    return f"{where}: {'.'.join(map(str, path))}: {first['msg']}; send {send} as in RFC 7946."
