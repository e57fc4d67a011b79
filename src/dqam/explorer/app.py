"""The explorer as an ASGI app: a page, its API and its documentation. None of them needs an internet connection."""

from __future__ import annotations

import asyncio
import json
import mimetypes
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, TypeVar

import numpy as np
import pyproj
from fastapi import FastAPI, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.staticfiles import StaticFiles

from dqam.errors import InputError
from dqam.explorer.geojson import (
    REQUESTS,
    InvalidGeojsonError,
    Kind,
    answer_features,
    null_for_nan,
    read_features,
    to_geometries,
)
from dqam.explorer.layer import Layer, check_place, in_degrees, outlines
from dqam.explorer.middleware import BodyLimitMiddleware, SecurityHeadersMiddleware, check_tiles
from dqam.explorer.schema import (
    CONFIDENCE_MEANING,
    CRS_MEANING,
    CRS_PATTERN,
    MOST_CORNERS,
    MOST_FEATURES,
    MOST_RECTANGLES,
    AnsweredAreas,
    AnsweredLines,
    BackgroundTiles,
    Count,
    Counts,
    CountsRequest,
    ErrorMessage,
    LayerInfo,
    ReleaseInfo,
)
from dqam.geometry.grid import DEGREES, Grid, is_degrees
from dqam.release.answers import Answers
from dqam.release.published_map import CONFIDENCE
from dqam.release.release import Release

FORM = "Little-endian float32, row by row from the north-west corner; NaN outside the grid."
ABOUT = f"""
Ask published maps for the number of *distinct* trips through any area, and for the number of times that trips cross a
line.

This server only has releases, not the raw trips. The privacy budget of a release was spent when it was made: questions
use none and reveal nothing more, so ask as many as you like.

A side of a rectangle between two grid lines moves outward to the next one, and what lies outside the map is cut off;
every answer says which rectangle it is for. Answers for rectangles of whole cells are those of the map itself; those
for other areas and for lines are computed along their borders. Distinct trips do not add up: a trip through two areas
counts in both.

A request has at most 1 MiB and {MOST_RECTANGLES:,} rectangles, or 8 MiB of GeoJSON with {MOST_FEATURES:,} features and
{MOST_CORNERS:,} corners in all. An error is reported as `{{"error": "one sentence"}}`.
"""
NO_SUCH_RELEASE: dict[int | str, dict[str, Any]] = {
    404: {"model": ErrorMessage, "description": "There is no release with this number."},
    422: {"model": ErrorMessage, "description": "A parameter is missing or out of range."},
}
ERRORS: dict[int | str, dict[str, Any]] = {
    400: {
        "model": ErrorMessage,
        "description": "A rectangle is invalid: upside down, outside the map, in an unknown CRS.",
    },
    **NO_SUCH_RELEASE,
}
TOO_LARGE: dict[int | str, dict[str, Any]] = {413: {"model": ErrorMessage, "description": "The body is too large."}}
SCHEMAS = "#/components/schemas/"
GEOJSON_ERRORS: dict[int | str, dict[str, Any]] = {  # unlike the answers, these are plain JSON
    status: {
        "description": words,
        "content": {"application/json": {"schema": {"$ref": f"{SCHEMAS}{ErrorMessage.__name__}"}}},
    }
    for status, words in (
        (400, "The body is not JSON, or cannot be answered: outside the map, too many corners, in an unknown CRS."),
        (404, NO_SUCH_RELEASE[404]["description"]),
        (413, TOO_LARGE[413]["description"]),
        (422, "The body is not the GeoJSON described, or a parameter is out of range."),
    )
}

AT_ONCE = 2  # long requests that are handled at the same time; the others wait
T = TypeVar("T")

Number = Annotated[int, Path(ge=0, description="Number of the release in the list of all releases.")]
Crs = Annotated[str, Query(description=CRS_MEANING, json_schema_extra={"pattern": CRS_PATTERN})]
Confidence = Annotated[float, Query(ge=0.01, le=0.9999, description=CONFIDENCE_MEANING)]


class NoSuchReleaseError(InputError):
    """A request for a release that is not on this server."""


STATUSES = {NoSuchReleaseError: 404, InvalidGeojsonError: 422}


class Json(JSONResponse):
    """JSON in ASCII, with all digits of every number."""

    def render(self, content: Any) -> bytes:
        """The body."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


class GeoJson(Json):
    """GeoJSON."""

    media_type = "application/geo+json"


@dataclass(frozen=True, eq=False)
class NamedRelease:
    """A release and the name it is shown with."""

    name: str
    release: Release

    @cached_property
    def layer(self) -> Layer:
        """Its image, made at the first request."""
        return Layer.of(self.release)

    @property
    def has_layer(self) -> bool:
        """Whether its image has been made."""
        return "layer" in vars(self)


def make_app(releases: Sequence[tuple[str, Release]], tiles: str | None = None, attribution: str = "") -> FastAPI:
    """The explorer of some releases, each with a name.

    tiles        URL of map tiles with {z}, {x} and {y}, which browsers will load; no background map by default
    attribution  whom to credit for the tiles
    """
    if not releases:
        raise InputError("There is nothing to show; give at least one release.")
    for name, release in releases:
        check_place(release.grid, name)
    named = [NamedRelease(name, release) for name, release in releases]
    info = [_release_info(n, one) for n, one in enumerate(named)]
    background = {"tiles": None if tiles is None else check_tiles(tiles), "attribution": attribution}
    app = FastAPI(
        title="dqam explorer",
        summary="Number of distinct trips through any area of a published map.",
        description=ABOUT,
        version="1",
        docs_url=None,
        redoc_url=None,
        default_response_class=Json,
    )
    app.add_middleware(GZipMiddleware, compresslevel=1)
    app.add_middleware(BodyLimitMiddleware)
    app.add_middleware(SecurityHeadersMiddleware, tiles=tiles)
    _explain_errors(app)
    _describe_geojson(app)
    _serve_pages(app)

    def find(n: int) -> NamedRelease:
        if n >= len(named):
            raise NoSuchReleaseError(f"There is no release {n}; the last one here is {len(named) - 1}.")
        return named[n]

    busy = asyncio.Semaphore(AT_ONCE)

    async def in_background(work: Callable[[], T]) -> T:
        async with busy:
            return await run_in_threadpool(work)

    async def layer_of(one: NamedRelease) -> Layer:
        return one.layer if one.has_layer else await in_background(lambda: one.layer)

    @app.get("/api/releases", response_model=list[ReleaseInfo], summary="All releases", tags=["releases"])
    async def list_releases() -> Response:
        """The privacy guarantee, the grid and the number of trips of each release."""
        return Json(info)

    @app.get("/api/background", response_model=BackgroundTiles, summary="Background map", tags=["pictures"])
    async def show_background() -> Response:
        """The tiles that the page shows below the releases, if any."""
        return Json(background)

    @app.get(
        "/api/releases/{n}/count",
        response_model=Count,
        responses=ERRORS,
        summary="Trips through a rectangle",
        tags=["answers"],
    )
    async def count(
        n: Number,
        west: Annotated[float, Query(description="West side.", examples=[-30.02])],
        south: Annotated[float, Query(description="South side.", examples=[44.98])],
        east: Annotated[float, Query(description="East side.", examples=[-29.98])],
        north: Annotated[float, Query(description="North side.", examples=[45.02])],
        crs: Crs = DEGREES,
        confidence: Confidence = CONFIDENCE,
    ) -> Response:
        """The estimated number of distinct trips through one rectangle, with its confidence interval."""
        release = find(n).release
        answers = _answers(release, [(west, south, east, north)], crs, confidence)
        longitude, latitude = outlines(answers.rectangles.bounds, release.grid)
        answer = {key: column[0] for key, column in _columns(release, answers).items()}
        outline = np.stack([longitude[0], latitude[0]], axis=1).tolist()
        return Json({**answer, "confidence": confidence, "outline": outline})

    @app.post(
        "/api/releases/{n}/counts",
        response_model=Counts,
        responses={**ERRORS, **TOO_LARGE},
        summary="Trips through many rectangles",
        tags=["answers"],
    )
    async def counts(n: Number, request: CountsRequest) -> Response:
        """The same for up to 10,000 rectangles at once. If one is invalid, none is answered."""
        release = find(n).release

        def answer() -> Response:
            answers = _answers(release, request.rectangles, request.crs, request.confidence)
            return Json({**_columns(release, answers), "confidence": request.confidence})

        return await in_background(answer)

    async def answer_geojson(n: int, request: Request, kind: Kind, crs: str, confidence: float) -> Response:
        release, body = find(n).release, await request.body()

        def answer() -> Response:
            features = read_features(body, kind, crs)
            ask = release.counts if kind == "areas" else release.crossings
            answers = _asked(ask, release.grid, to_geometries(features), crs, confidence)
            try:
                return GeoJson(answer_features(release, answers, features, kind, confidence))
            except ValueError:  # the only numbers not made here
                raise InvalidGeojsonError("A property or id is a number that JSON cannot express; remove it.") from None

        return await in_background(answer)

    @app.post(
        "/api/releases/{n}/areas",
        response_class=GeoJson,
        response_model=AnsweredAreas,
        responses=GEOJSON_ERRORS,
        openapi_extra=_request_body("areas"),
        summary="Trips through areas of any shape",
        tags=["answers"],
    )
    async def areas(n: Number, request: Request, crs: Crs = DEGREES, confidence: Confidence = CONFIDENCE) -> Response:
        """Takes GeoJSON: a FeatureCollection of Polygon and MultiPolygon features, one feature, or one geometry.
        Gives back a FeatureCollection of the same features, with the answer among the properties of each.

        Rectangles along the axes of the grid are answered as rectangles of whole cells. Areas outside the map have no
        answer; if none is on the map, that is an error.
        """
        return await answer_geojson(n, request, "areas", crs, confidence)

    @app.post(
        "/api/releases/{n}/lines",
        response_class=GeoJson,
        response_model=AnsweredLines,
        responses=GEOJSON_ERRORS,
        openapi_extra=_request_body("lines"),
        summary="Crossings of lines",
        tags=["answers"],
    )
    async def lines(n: Number, request: Request, crs: Crs = DEGREES, confidence: Confidence = CONFIDENCE) -> Response:
        """The same for LineString and MultiLineString features: how often trips cross each line, such as a bridge or a
        cordon. These are crossings, not distinct trips.
        """
        return await answer_geojson(n, request, "lines", crs, confidence)

    @app.get(
        "/api/releases/{n}/layer",
        response_class=Response,
        responses={
            200: {
                "description": FORM,
                "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
                "headers": {
                    name: {"schema": {"type": "string"}, "description": what}
                    for name, what in (
                        ("X-Width", "Pixels from west to east."),
                        ("X-Height", "Pixels from north to south."),
                        ("X-Bounds", "West, south, east and north side of the image in degrees."),
                    )
                },
            },
            304: {"description": "The layer has not changed."},
            **NO_SUCH_RELEASE,
        },
        summary="Image of a release, as numbers",
        tags=["pictures"],
    )
    async def show_layer(n: Number, request: Request) -> Response:
        """Trips in each cell, or in each block of cells of a large grid, on pixels of equal size in Web Mercator."""
        layer = await layer_of(find(n))
        height, width = layer.values.shape
        headers = {
            "ETag": layer.tag,
            "X-Width": str(width),
            "X-Height": str(height),
            "X-Bounds": ",".join(map(repr, layer.bounds)),
        }
        if layer.tag in request.headers.get("If-None-Match", ""):
            return Response(status_code=304, headers=headers)
        return Response(layer.content, media_type="application/octet-stream", headers=headers)

    @app.get(
        "/api/releases/{n}/layer/facts",
        response_model=LayerInfo,
        responses=NO_SUCH_RELEASE,
        summary="Size and meaning of the image",
        tags=["pictures"],
    )
    async def show_layer_facts(n: Number) -> Response:
        """Size and bounds of the image, and what its numbers mean."""
        layer = await layer_of(find(n))
        height, width = layer.values.shape
        return Json(
            {
                "width": width,
                "height": height,
                "bounds": layer.bounds,
                "block": layer.block,
                "largest": float(np.nanmax(layer.values)),
                "meaning": layer.meaning,
                "form": FORM,
            }
        )

    return app


def _answers(release: Release, rectangles: Sequence[Sequence[float]], crs: str, confidence: float) -> Answers:
    """The answers of a release, or an `InputError` that says where the map is."""
    return _asked(release.counts, release.grid, rectangles, crs, confidence)


def _asked(ask: Callable[..., Answers], grid: Grid, asked: Any, crs: str, confidence: float) -> Answers:
    if not re.fullmatch(CRS_PATTERN, crs):  # other ways to write a CRS can name files
        raise InputError(
            f"{crs[:40]!r} is not the code of a coordinate reference system; give one such as {DEGREES!r}."
        )
    try:
        with np.errstate(invalid="ignore", over="ignore"):
            return ask(asked, crs=grid.crs if crs == "grid" else crs, confidence=confidence)
    except pyproj.exceptions.ProjError:
        raise InputError(f"Coordinates in {crs} cannot be converted to those of the map; use {DEGREES}.") from None
    except InputError as error:
        if is_degrees(grid.crs) or crs == "grid":
            raise
        west, south, east, north = in_degrees(np.array([grid.bounds]), grid)[0]
        raise InputError(f"{error} In degrees, the map covers {west:.6f} {south:.6f} {east:.6f} {north:.6f}.") from None


def _columns(release: Release, answers: Answers) -> dict[str, list[Any]]:
    """Answers as lists, by the names in the API."""
    bounds, cells = answers.rectangles.bounds, answers.rectangles.cells
    sides = cells[:, 2:] - cells[:, :2]
    return {
        "value": answers.value.tolist(),
        "low": null_for_nan(answers.low.tolist()),
        "high": null_for_nan(answers.high.tolist()),
        "bounds": in_degrees(bounds, release.grid).tolist(),
        "grid_bounds": bounds.tolist(),
        "cells": sides.tolist(),
        "metres": [null_for_nan(row) for row in (sides * release.grid.cell_metres).tolist()],
        "grown": answers.rectangles.grown.tolist(),
        "cut": answers.rectangles.cut.tolist(),
    }


def _release_info(n: int, named: NamedRelease) -> dict[str, Any]:
    """What the list of releases says about one."""
    provenance, grid = named.release.provenance, named.release.grid
    west, south, east, north = degrees = in_degrees(np.array([grid.bounds]), grid)[0].tolist()
    trips = named.release.trips
    value, low, high = null_for_nan([trips.value, trips.low, trips.high])
    return {
        "n": n,
        "name": named.name,
        **{name: getattr(provenance, name) for name in ("title", "promise", "private", "mechanism", "queries", "gap")},
        "epsilon": float(provenance.epsilon),
        "delta": float(provenance.delta) or None,
        "unit": {"name": provenance.unit.name, "max_trips": provenance.unit.max_trips},
        "created": provenance.created,
        "id": provenance.id,
        "grid": {
            "bounds": list(grid.bounds),
            "crs": grid.crs,
            "rows": grid.rows,
            "columns": grid.columns,
            "degrees": degrees,
            "cell_degrees": [(east - west) / grid.columns, (north - south) / grid.rows],
            "cell_metres": list(grid.cell_metres),
        },
        "trips": {"value": value, "low": low, "high": high},
    }


def _request_body(kind: Kind) -> dict[str, Any]:
    """The description of a body that the server reads itself, to check it in the background."""
    schema = {name: part for name, part in _schema(kind).items() if name != "$defs"}
    content = {name: {"schema": schema} for name in (GeoJson.media_type, Json.media_type)}
    return {"requestBody": {"required": True, "content": content}}


def _schema(kind: Kind) -> dict[str, Any]:
    return REQUESTS[kind].json_schema(ref_template=SCHEMAS + "{model}")


def _describe_geojson(app: FastAPI) -> None:
    """Add the schemas that GeoJSON bodies refer to, which FastAPI does not know of, to the description of the API."""
    describe = app.openapi

    def with_geojson() -> dict[str, Any]:
        told = describe()
        for kind in REQUESTS:
            told["components"]["schemas"] |= _schema(kind)["$defs"]
        return told

    app.openapi = with_geojson  # type: ignore[method-assign]


def _explain_errors(app: FastAPI) -> None:
    """Answer every error of a user with one sentence."""

    @app.exception_handler(InputError)
    async def explain_input_error(request: Request, error: InputError) -> Response:
        return Json({"error": str(error)}, STATUSES.get(type(error), 400))

    @app.exception_handler(HTTPException)
    async def explain_http_error(request: Request, error: HTTPException) -> Response:
        where = f"{request.url.path}; the API is described at /api."
        words = {
            400: 'The body is not valid JSON; send JSON such as {"rectangles": [[west, south, east, north]]}.',
            404: f"There is nothing at {where}",
            405: f"{request.method} cannot be used at {where}",
        }
        return Json({"error": words.get(error.status_code, error.detail)}, error.status_code, headers=error.headers)

    @app.exception_handler(RequestValidationError)
    async def explain_validation_error(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:]) or "The body"
        return Json({"error": f"{where}: {first['msg']}; see /api for the parameters."}, 422)


def _serve_pages(app: FastAPI) -> None:
    """The page, the documentation of the API, and the files that both use."""
    for ending, kind in (("js", "text/javascript"), ("css", "text/css"), ("svg", "image/svg+xml")):
        mimetypes.add_type(kind, f".{ending}")  # some systems have other ones, which strict browsers refuse
    static = StaticFiles(packages=[("dqam.explorer", "static")])
    app.mount("/static", static)

    async def page(request: Request) -> Response:
        return await static.get_response("index.html" if request.url.path == "/" else "api.html", request.scope)

    for path in ("/", "/api"):
        app.add_route(path, page, include_in_schema=False)
