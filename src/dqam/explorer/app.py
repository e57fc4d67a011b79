"""The explorer as an ASGI app: a page, its API and its documentation. None of them needs an internet connection."""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import numpy as np
from fastapi import FastAPI, Query, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.middleware.gzip import GZipMiddleware
from starlette.staticfiles import StaticFiles

from dqam.errors import InputError
from dqam.explorer.answering import ask_rectangles, ask_release, columns
from dqam.explorer.edr import make_router
from dqam.explorer.facts import release_info
from dqam.explorer.flows import add_flows
from dqam.explorer.geojson import (
    InvalidGeojsonError,
    Kind,
    answer_features,
    describe_geojson,
    read_features,
    request_body,
    to_geometries,
)
from dqam.explorer.layer import check_place, outlines
from dqam.explorer.middleware import BodyLimitMiddleware, SecurityHeadersMiddleware, check_tiles
from dqam.explorer.parameters import Confidence, Crs, Number, Slices
from dqam.explorer.responses import (
    ERRORS,
    GEOJSON_ERRORS,
    LAYER_ERRORS,
    TOO_LARGE,
    GeoJson,
    Json,
    NoSuchReleaseError,
    explain_errors,
)
from dqam.explorer.schema import (
    MOST_CORNERS,
    MOST_FEATURES,
    MOST_RECTANGLES,
    AnsweredAreas,
    AnsweredLines,
    BackgroundTiles,
    Count,
    Counts,
    CountsRequest,
    LayerInfo,
    Profile,
    ReleaseInfo,
)
from dqam.explorer.selections import Cache, ShownRelease
from dqam.geometry.grid import DEGREES
from dqam.release.published_map import CONFIDENCE
from dqam.release.release import Release

FORM = "Little-endian float32, row by row from the north-west corner; NaN outside the grid."
ABOUT = f"""
Ask published maps for the number of *distinct* trips through any area, and for the number of times that trips cross a
line.

This server only has releases, not the raw trips. The privacy budget of a release was spent when it was made: questions
use none and reveal nothing more, so ask as many as you like.

A side of a rectangle between two grid lines moves outward to the next one, and what lies outside the map is cut off;
every answer says which rectangle it is for. Rectangles of whole cells are answered by the map itself. Answers for
other areas and for lines are approximations, computed along their borders. Distinct trips do not add up: a trip through
two areas counts in both.

Some releases have flows: how many trips go from one area to another. A trip has one origin and one destination, so
flows do add up.

A release can have slices, such as the hours of the day. Every trip is in exactly one, so answers of slices do add up.

A request has at most 1 MiB and {MOST_RECTANGLES:,} rectangles, or 8 MiB of GeoJSON with {MOST_FEATURES:,} features and
{MOST_CORNERS:,} corners in all. An error is reported as `{{"error": "one sentence"}}`.

Below `/edr`, the server speaks OGC API - Environmental Data Retrieval 1.1, for tools that know this standard.
"""
AT_ONCE = 2  # long requests that are handled at the same time; the others wait
K = TypeVar("K")
T = TypeVar("T")


def make_app(releases: Sequence[tuple[str, Release]], tiles: str | None = None, attribution: str = "") -> FastAPI:
    """The explorer of some releases, each with a name.

    tiles        URL of map tiles with {z}, {x} and {y}, which browsers will load; no background map by default
    attribution  whom to credit for the tiles
    """
    if not releases:
        raise InputError("There is nothing to show; give at least one release.")
    for name, release in releases:
        check_place(release.grid, name)
    named = [ShownRelease(name, release) for name, release in releases]
    info = [release_info(n, one.name, one.release) for n, one in enumerate(named)]
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
    explain_errors(app)
    describe_geojson(app)
    _serve_pages(app)

    def find(n: int) -> ShownRelease:
        if n >= len(named):
            raise NoSuchReleaseError(f"There is no release {n}; the last one here is {len(named) - 1}.")
        return named[n]

    busy = asyncio.Semaphore(AT_ONCE)

    async def in_background(work: Callable[[], T]) -> T:
        async with busy:
            return await run_in_threadpool(work)

    async def kept(cache: Cache[K, T], key: K) -> T:
        return cache(key) if key in cache else await in_background(lambda: cache(key))

    async def selected(n: int, slices: str | None) -> Release:
        one = find(n)
        return await kept(one.select, one.names(slices))

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
        slices: Slices = None,
    ) -> Response:
        """The estimated number of distinct trips through one rectangle, with its confidence interval."""
        release = await selected(n, slices)
        answers = ask_rectangles(release, [(west, south, east, north)], crs, confidence)
        longitude, latitude = outlines(answers.rectangles.bounds, release.grid)
        answer = {key: column[0] for key, column in columns(release, answers).items()}
        outline = np.stack([longitude[0], latitude[0]], axis=1).tolist()
        return Json({**answer, "confidence": confidence, "outline": outline})

    @app.post(
        "/api/releases/{n}/counts",
        response_model=Counts,
        responses={**ERRORS, **TOO_LARGE},
        summary="Trips through many rectangles",
        tags=["answers"],
    )
    async def counts(n: Number, request: CountsRequest, slices: Slices = None) -> Response:
        """The same for up to 10,000 rectangles at once. If one is invalid, none is answered."""
        release = await selected(n, slices)

        def answer() -> Response:
            answers = ask_rectangles(release, request.rectangles, request.crs, request.confidence)
            return Json({**columns(release, answers), "confidence": request.confidence})

        return await in_background(answer)

    async def answer_geojson(
        n: int, request: Request, kind: Kind, crs: str, confidence: float, slices: str | None
    ) -> Response:
        release, body = await selected(n, slices), await request.body()

        def answer() -> Response:
            features = read_features(body, kind, crs)
            ask = release.counts if kind == "areas" else release.crossings
            answers = ask_release(ask, release.grid, to_geometries(features), crs, confidence)
            try:
                return GeoJson(answer_features(release, answers, features, kind, confidence))
            except ValueError:  # only numbers from the request can cause this
                raise InvalidGeojsonError("A property or id is a number that JSON cannot express; remove it.") from None

        return await in_background(answer)

    @app.post(
        "/api/releases/{n}/areas",
        response_class=GeoJson,
        response_model=AnsweredAreas,
        responses=GEOJSON_ERRORS,
        openapi_extra=request_body("areas"),
        summary="Trips through areas of any shape",
        tags=["answers"],
    )
    async def areas(
        n: Number,
        request: Request,
        crs: Crs = DEGREES,
        confidence: Confidence = CONFIDENCE,
        slices: Slices = None,
    ) -> Response:
        """Accepts GeoJSON: a FeatureCollection of Polygon and MultiPolygon features, one feature, or one geometry.
        Returns a FeatureCollection of the same features, with the answer among the properties of each.

        Rectangles along the axes of the grid are answered as rectangles of whole cells. Areas outside the map have no
        answer. If no area is on the map, the response is an error.
        """
        return await answer_geojson(n, request, "areas", crs, confidence, slices)

    @app.post(
        "/api/releases/{n}/lines",
        response_class=GeoJson,
        response_model=AnsweredLines,
        responses=GEOJSON_ERRORS,
        openapi_extra=request_body("lines"),
        summary="Crossings of lines",
        tags=["answers"],
    )
    async def lines(
        n: Number,
        request: Request,
        crs: Crs = DEGREES,
        confidence: Confidence = CONFIDENCE,
        slices: Slices = None,
    ) -> Response:
        """The same for LineString and MultiLineString features: how often trips cross each line, such as a bridge or a
        cordon. These are crossings, not distinct trips.
        """
        return await answer_geojson(n, request, "lines", crs, confidence, slices)

    @app.post(
        "/api/releases/{n}/profile",
        response_model=Profile,
        responses=GEOJSON_ERRORS,
        openapi_extra=request_body("shape"),
        summary="An area or line in every slice",
        tags=["answers"],
    )
    async def profile(n: Number, request: Request, crs: Crs = DEGREES, confidence: Confidence = CONFIDENCE) -> Response:
        """How the trips through one area, or the crossings of one line, are divided among the slices of a release, such
        as the hours of the day. Accepts GeoJSON: one feature or one geometry.

        Every trip is in exactly one slice, so the answers of slices add up exactly to that of all slices. If the
        release has no slices, the response is an error.
        """
        one, body = find(n), await request.body()

        def answer() -> Response:
            (shape,) = to_geometries(read_features(body, "shape", crs))
            return Json(one.profile(shape, crs, confidence))

        return await in_background(answer)

    add_flows(app, selected, in_background)

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
            **LAYER_ERRORS,
        },
        summary="Image of a release, as numbers",
        tags=["pictures"],
    )
    async def show_layer(n: Number, request: Request, slices: Slices = None) -> Response:
        """Trips in each cell, or in each block of cells of a large grid, on pixels of equal size in Web Mercator."""
        one = find(n)
        layer = await kept(one.layer, one.names(slices))
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
        responses=LAYER_ERRORS,
        summary="Size and meaning of the image",
        tags=["pictures"],
    )
    async def show_layer_facts(n: Number, slices: Slices = None) -> Response:
        """Size and bounds of the image, and what its numbers mean."""
        one = find(n)
        facts: dict[str, Any] = await kept(one.layer_facts, one.names(slices))
        return Json({**facts, "form": FORM})

    app.include_router(make_router(named, in_background))
    return app


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
