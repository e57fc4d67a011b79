"""The explorer as an ASGI app: a page, its API and its documentation. All of it works without a network."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Annotated, Any, TypeVar

import numpy as np
import pyproj
from fastapi import FastAPI, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from dqam.errors import InputError
from dqam.explorer.layer import Layer, check_place, in_degrees, outlines
from dqam.explorer.middleware import Guard, check_tiles
from dqam.explorer.schema import (
    CONFIDENCE_MEANING,
    CRS_MEANING,
    CRS_PATTERN,
    MOST_RECTANGLES,
    Asked,
    Background,
    Counted,
    CountedAll,
    LayerFacts,
    Problem,
    Published,
)
from dqam.geometry.grid import DEGREES, is_degrees
from dqam.release.release import CONFIDENCE, Answers, Release

KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
}
FORM = "little-endian float32, row by row from the north-west; NaN outside of the grid"
ABOUT = f"""
Ask published maps for the number of *distinct* trips through any rectangle.

All that this server has is releases: files whose privacy was paid for when they were made. Asking costs nothing,
reveals nothing more, and may be done as often as one likes. The raw trips are not here.

Sides of a rectangle that lie between grid lines move outward to the next one, and what lies outside of the map is cut
off; every answer says which rectangle it is really for. A body has at most 1 MiB and {MOST_RECTANGLES:,} rectangles.
Whatever goes wrong is told as `{{"error": "one sentence"}}`.
"""
NO_SUCH_RELEASE: dict[int | str, dict[str, Any]] = {
    404: {"model": Problem, "description": "There is no release with this number."},
    422: {"model": Problem, "description": "A parameter is missing or out of range."},
}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "A rectangle cannot be answered: upside down, outside of the map..."},
    **NO_SUCH_RELEASE,
}

AT_ONCE = 2  # long answers that are worked on at the same time; the others wait
Made = TypeVar("Made")

Number = Annotated[int, Path(ge=0, description="The release: its number in the list of all.")]
Crs = Annotated[str, Query(description=CRS_MEANING, json_schema_extra={"pattern": CRS_PATTERN})]
Confidence = Annotated[float, Query(ge=0.01, le=0.9999, description=CONFIDENCE_MEANING)]


class NoSuchReleaseError(InputError):
    """A release was asked that is not here."""


class Json(JSONResponse):
    """JSON with every number to its last digit, and nothing but ASCII."""

    def render(self, content: Any) -> bytes:
        """The body."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


@dataclass(frozen=True, eq=False)
class Shown:
    """A release and its name."""

    name: str
    release: Release

    @cached_property
    def layer(self) -> Layer:
        """Its image, made when it is first looked at."""
        layer = Layer.of(self.release)
        _ = layer.compressed, layer.tag
        return layer

    @property
    def seen(self) -> bool:
        """Whether its image is made."""
        return "layer" in vars(self)


def make_app(releases: Sequence[tuple[str, Release]], tiles: str | None = None, attribution: str = "") -> FastAPI:
    """The explorer of some releases, each with a name.

    tiles   address of map tiles with {z}, {x} and {y}, which browsers will ask; none if not given
    """
    if not releases:
        raise InputError("There is nothing to show; give at least one release.")
    for name, release in releases:
        check_place(release.grid, name)
    shown = [Shown(name, release) for name, release in releases]
    facts = [_published(n, one) for n, one in enumerate(shown)]
    background = {"tiles": None if tiles is None else check_tiles(tiles), "attribution": attribution}
    app = FastAPI(
        title="dqam explorer",
        summary="Distinct trips through any rectangle of a published map.",
        description=ABOUT,
        version="1",
        docs_url=None,
        redoc_url=None,
        default_response_class=Json,
    )
    app.add_middleware(Guard, tiles=tiles)
    _tell_problems(app)
    _show_pages(app)

    def find(n: int) -> Shown:
        if n >= len(shown):
            raise NoSuchReleaseError(f"There is no release {n}; the last one here is {len(shown) - 1}.")
        return shown[n]

    busy = asyncio.Semaphore(AT_ONCE)

    async def aside(work: Callable[[], Made]) -> Made:
        async with busy:
            return await run_in_threadpool(work)

    async def look(one: Shown) -> Layer:
        return one.layer if one.seen else await aside(lambda: one.layer)

    @app.get("/api/releases", response_model=list[Published], summary="All releases", tags=["releases"])
    async def list_releases() -> Response:
        """What each release promises, where it is, and how many trips it shows."""
        return Json(facts)

    @app.get("/api/background", response_model=Background, summary="The map below", tags=["pictures"])
    async def show_background() -> Response:
        """Which tiles the page lays below the releases, if any."""
        return Json(background)

    @app.get(
        "/api/releases/{n}/count",
        response_model=Counted,
        responses=PROBLEMS,
        summary="Trips through a rectangle",
        tags=["answers"],
    )
    async def count(
        n: Number,
        west: Annotated[float, Query(description="Western side.", examples=[-30.02])],
        south: Annotated[float, Query(description="Southern side.", examples=[44.98])],
        east: Annotated[float, Query(description="Eastern side.", examples=[-29.98])],
        north: Annotated[float, Query(description="Northern side.", examples=[45.02])],
        crs: Crs = DEGREES,
        confidence: Confidence = CONFIDENCE,
    ) -> Response:
        """The estimated number of distinct trips through one rectangle, and from where to where the true one may be."""
        release = find(n).release
        answers = _answers(release, [(west, south, east, north)], crs, confidence)
        longitude, latitude = outlines(answers.rectangles.bounds, release.grid)
        made = {key: column[0] for key, column in _columns(release, answers).items()}
        outline = np.stack([longitude[0], latitude[0]], axis=1).tolist()
        return Json({**made, "confidence": confidence, "outline": outline})

    @app.post(
        "/api/releases/{n}/counts",
        response_model=CountedAll,
        responses={**PROBLEMS, 413: {"model": Problem, "description": "The body is too large."}},
        summary="Trips through many rectangles",
        tags=["answers"],
    )
    async def counts(n: Number, asked: Asked) -> Response:
        """The same for up to 10,000 rectangles at once. One that cannot be answered refuses all."""
        release = find(n).release

        def answer() -> Response:
            answers = _answers(release, asked.rectangles, asked.crs, asked.confidence)
            return Json({**_columns(release, answers), "confidence": asked.confidence})

        return await aside(answer)

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
                        ("X-Bounds", "West, south, east, north of the image in degrees."),
                    )
                },
            },
            304: {"description": "The same as what the browser has already."},
            **NO_SUCH_RELEASE,
        },
        summary="A release as an image of numbers",
        tags=["pictures"],
    )
    async def show_layer(n: Number, request: Request) -> Response:
        """Trips in each cell, or in each block of cells of a large grid, on pixels that are even in Web Mercator."""
        layer = await look(find(n))
        height, width = layer.values.shape
        told = {
            "ETag": layer.tag,
            "Cache-Control": "no-cache",
            "Vary": "Accept-Encoding",
            "X-Width": str(width),
            "X-Height": str(height),
            "X-Bounds": ",".join(map(repr, layer.bounds)),
        }
        if layer.tag in request.headers.get("If-None-Match", ""):
            return Response(status_code=304, headers=told)
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            told["Content-Encoding"] = "gzip"
            return Response(layer.compressed, media_type="application/octet-stream", headers=told)
        return Response(layer.content, media_type="application/octet-stream", headers=told)

    @app.get(
        "/api/releases/{n}/layer/facts",
        response_model=LayerFacts,
        responses=NO_SUCH_RELEASE,
        summary="What the image is",
        tags=["pictures"],
    )
    async def show_layer_facts(n: Number) -> Response:
        """Size and place of the image, and what its numbers mean."""
        layer = await look(find(n))
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
    """The library's answers, or an `InputError` that says where the map is."""
    grid = release.grid
    if not re.fullmatch(CRS_PATTERN, crs):  # others may name files
        raise InputError(f"{crs[:40]!r} is not the code of a coordinate reference system; give one like {DEGREES!r}.")
    try:
        with np.errstate(invalid="ignore", over="ignore"):
            return release.counts(rectangles, crs=grid.crs if crs == "grid" else crs, confidence=confidence)
    except pyproj.exceptions.ProjError:
        raise InputError(f"Coordinates in {crs} cannot be found on this map; give degrees, {DEGREES}.") from None
    except InputError as error:
        if is_degrees(grid.crs) or crs == "grid":
            raise
        west, south, east, north = in_degrees(np.array([grid.bounds]), grid)[0]
        raise InputError(
            f"{error} In degrees the map is within {west:.6f} {south:.6f} {east:.6f} {north:.6f}."
        ) from None


def _columns(release: Release, answers: Answers) -> dict[str, list[Any]]:
    """Answers as lists."""
    bounds = answers.rectangles.bounds
    return {
        "value": answers.value.tolist(),
        "low": _known(answers.low.tolist()),
        "high": _known(answers.high.tolist()),
        "bounds": in_degrees(bounds, release.grid).tolist(),
        "grid_bounds": bounds.tolist(),
        "grown": answers.rectangles.grown.tolist(),
        "cut": answers.rectangles.cut.tolist(),
    }


def _known(numbers: list[float]) -> list[float | None]:
    return [None if math.isnan(number) else number for number in numbers]


def _published(n: int, shown: Shown) -> dict[str, Any]:
    """All that the list of releases says of one."""
    provenance, grid = shown.release.provenance, shown.release.grid
    west, south, east, north = degrees = in_degrees(np.array([grid.bounds]), grid)[0].tolist()
    trips = shown.release.trips
    value, low, high = _known([trips.value, trips.low, trips.high])
    return {
        "n": n,
        "name": shown.name,
        **{name: getattr(provenance, name) for name in ("title", "promise", "private", "mechanism", "queries", "gap")},
        "epsilon": float(provenance.epsilon),
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


def _tell_problems(app: FastAPI) -> None:
    """Whatever a user did wrong is told in one sentence."""

    @app.exception_handler(InputError)
    async def tell_input(request: Request, error: InputError) -> Response:
        return Json({"error": str(error)}, 404 if isinstance(error, NoSuchReleaseError) else 400)

    @app.exception_handler(HTTPException)
    async def tell_http(request: Request, error: HTTPException) -> Response:
        where = f"{request.url.path}; the API is described at /api."
        words = {
            400: 'The body cannot be read; send JSON such as {"rectangles": [[west, south, east, north]]}.',
            404: f"There is nothing at {where}",
            405: f"{request.method} cannot be used at {where}",
        }
        return Json({"error": words.get(error.status_code, error.detail)}, error.status_code, headers=error.headers)

    @app.exception_handler(RequestValidationError)
    async def tell_validation(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:]) or "The body"
        return Json({"error": f"{where}: {first['msg']}; see /api for what can be asked."}, 422)


def _show_pages(app: FastAPI) -> None:
    """The files that come with the package, read once: no path is ever made from what a browser asks for."""
    bundled = _bundled(files("dqam.explorer") / "static")

    pages = {"/": "index.html", "/api": "api.html"}

    async def page(request: Request) -> Response:
        path = request.path_params.get("path", pages.get(request.url.path))
        if path not in bundled:
            raise HTTPException(404)
        content, kind, tag = bundled[path]
        told = {"ETag": tag, "Cache-Control": "no-cache"}
        if tag in request.headers.get("If-None-Match", ""):
            return Response(status_code=304, headers=told)
        return Response(content, media_type=kind, headers=told)

    for place in ("/", "/api", "/static/{path:path}"):
        app.add_route(place, page, include_in_schema=False)


def _bundled(folder: Traversable, under: str = "") -> dict[str, tuple[bytes, str, str]]:
    """Content, kind and tag of all files in a folder that a page may use."""
    found: dict[str, tuple[bytes, str, str]] = {}
    for item in folder.iterdir():
        if item.is_dir():
            found |= _bundled(item, f"{under}{item.name}/")
        elif (kind := KINDS.get(item.name.rpartition(".")[2])) is not None:
            content = item.read_bytes()
            found[under + item.name] = content, kind, f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return found
