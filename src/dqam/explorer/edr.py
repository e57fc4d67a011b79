"""OGC API - Environmental Data Retrieval (EDR) 1.1, next to the explorer's own API: releases as collections, which can
be asked for a position, an area and a cube."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Literal

from covjson_pydantic.coverage import Coverage, CoverageCollection
from edr_pydantic.capabilities import ConformanceModel, LandingPageModel
from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from dqam.errors import InputError
from dqam.explorer.edr_coverages import to_coverage, to_geojson
from dqam.explorer.edr_metadata import (
    COVERAGE_TYPE,
    GEOJSON,
    GEOJSON_TYPE,
    QUERIES,
    MapCollection,
    MapCollections,
    collection,
    collection_ids,
    collections,
    conformance,
    landing_page,
)
from dqam.explorer.edr_queries import NO_SUCH_DIMENSION, Area, Cube, Options, Position
from dqam.explorer.responses import EDR_ERRORS, GeoJson, NoSuchReleaseError
from dqam.explorer.selections import ShownRelease

HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?", re.ASCII)
Key = Annotated[str, Path(alias="collection", description="Id of the collection, from `/edr/collections`.")]


class Metadata(BaseModel):
    """The parameters of requests for metadata."""

    f: Literal["json"] = Field("json", description="Format.")


class Model(JSONResponse):
    """JSON of a model, without what is not set."""

    def render(self, content: BaseModel) -> bytes:
        """The body."""
        return content.model_dump_json(exclude_none=True, by_alias=True).encode()


class CoverageJson(Model):
    """CoverageJSON."""

    media_type = COVERAGE_TYPE


def only(query: type[BaseModel]) -> Any:
    """A dependency that refuses parameters which are not in the description, rather than ignore what they ask for."""
    known = [field.alias or name for name, field in query.model_fields.items()]

    def check(request: Request) -> None:
        for name in request.query_params:
            if name not in known:
                why = NO_SUCH_DIMENSION.get(name, f"the parameters here are {', '.join(known)}")
                raise InputError(f"The parameter {name[:60]!r} cannot be used: {why}.")

    return Depends(check)


def root_of(request: Request) -> str:
    """The address of the server as the client knows it, for links; empty if it did not say, so that links are paths."""
    host = request.headers.get("host", "")
    path = str(request.scope.get("root_path", "")).rstrip("/")
    return f"{request.scope['scheme']}://{host}{path}" if HOST.fullmatch(host) else path


def make_router(
    shown: Sequence[ShownRelease], in_background: Callable[[Callable[[], Response]], Awaitable[Response]]
) -> APIRouter:
    """All of EDR for some releases; `in_background` runs what takes long in another thread."""
    ids = collection_ids([one.name for one in shown])
    named = dict(zip(ids, shown, strict=True))
    router = APIRouter(prefix="/edr", tags=["EDR"], responses=EDR_ERRORS)
    metadata: dict[str, Any] = {"dependencies": [only(Metadata)]}

    def find(key: str) -> ShownRelease:
        if key not in named:
            raise NoSuchReleaseError(f"There is no collection {key[:60]!r}; /edr/collections lists all of them.")
        return named[key]

    @router.get("", response_model=LandingPageModel, summary="OGC API - EDR", **metadata)
    async def land(request: Request, query: Annotated[Metadata, Query()]) -> Response:
        """The landing page of OGC API - Environmental Data Retrieval 1.1, a standard that many tools support."""
        return Model(landing_page(root_of(request)))

    @router.get("/conformance", response_model=ConformanceModel, summary="Supported parts of EDR", **metadata)
    async def conform(query: Annotated[Metadata, Query()]) -> Response:
        """The conformance classes of the standard that are supported."""
        return Model(conformance())

    @router.get("/collections", response_model=MapCollections, summary="All releases as collections", **metadata)
    async def list_collections(request: Request, query: Annotated[Metadata, Query()]) -> Response:
        """The extent, the privacy guarantee, the parameters and the queries of each release."""
        return Model(collections(root_of(request), {key: one.release for key, one in named.items()}))

    @router.get(
        "/collections/{collection}", response_model=MapCollection, summary="One release as a collection", **metadata
    )
    async def show_collection(request: Request, key: Key, query: Annotated[Metadata, Query()]) -> Response:
        """The same for one release."""
        return Model(collection(root_of(request), key, find(key).release))

    async def answer(key: str, query: Options, request: Request) -> Response:
        one = find(key)
        if query.f is None and GEOJSON_TYPE in request.headers.get("accept", ""):
            query.f = "GeoJSON"

        def work() -> Response:
            found = query.answer(one)
            if query.f == GEOJSON:
                return GeoJson(to_geojson(found))
            return CoverageJson(to_coverage(found))

        return await in_background(work)

    def about(name: str, query: type[Options]) -> dict[str, Any]:
        return {
            "path": f"/collections/{{collection}}/{name}",
            "response_class": CoverageJson,
            "response_model": Coverage | CoverageCollection,
            "responses": {200: {"content": {GEOJSON_TYPE: {"schema": {"type": "object", "title": GEOJSON}}}}},
            "summary": QUERIES[name].rstrip("."),
            "dependencies": [only(query)],
        }

    @router.get(**about("position", Position))
    async def position(request: Request, key: Key, query: Annotated[Position, Query()]) -> Response:
        """A point between cells is in the one to the north-east."""
        return await answer(key, query, request)

    @router.get(**about("area", Area))
    async def area(request: Request, key: Key, query: Annotated[Area, Query()]) -> Response:
        """The number that the library gives for this polygon, with its confidence interval. Polygons that do not fit
        into an address can be sent to `/api/releases/{n}/areas`."""
        return await answer(key, query, request)

    @router.get(**about("cube", Cube))
    async def cube(request: Request, key: Key, query: Annotated[Cube, Query()]) -> Response:
        """The cells do not add up: a trip through two of them counts in both. An answer has at most 65,536 values of a
        parameter, or 10,000 features as GeoJSON; if the box has more cells, they are combined into blocks. The grid is
        in the CRS of the map, and the box must be too."""
        return await answer(key, query, request)

    return router
