"""The endpoints for flows: how many trips go from one area to another."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import shapely
from fastapi import FastAPI, Query, Request, Response
from pydantic import BaseModel

from dqam.errors import InputError
from dqam.explorer.answering import ask_release, check_crs
from dqam.explorer.facts import estimate
from dqam.explorer.flow_schema import (
    MOST_PAIRED,
    MOST_ROWS,
    By,
    Flow,
    FlowLattice,
    FlowRequest,
    Flows,
    FlowsRequest,
    LargestFlows,
    LargestRequest,
)
from dqam.explorer.geojson import SCHEMAS, InvalidGeojsonError, check_features, read_json, to_geometries
from dqam.explorer.parameters import Confidence, Crs, Number, Slices
from dqam.explorer.responses import GEOJSON_ERRORS, NO_SUCH_RELEASE, Json
from dqam.explorer.schema import ErrorMessage
from dqam.geometry.areas import place_areas
from dqam.geometry.arrays import Floats, Integers, Shapes
from dqam.geometry.flow_table import FlowTable
from dqam.geometry.grid import DEGREES, Grid, transform
from dqam.geometry.lattice import Lattice
from dqam.geometry.rectangles import snap
from dqam.release.flow_answers import flows_between, flows_of
from dqam.release.published_map import CONFIDENCE
from dqam.release.release import Release

MOST_COVERED = 4_000_000  # cells that the rectangles around zones cover, added up
NO_FLOWS = "This release has no flows. They must be published along with the map and cannot be added later."


@dataclass(frozen=True, eq=False)
class Areas:
    """Areas in the CRS of the map; rectangles along its axes consist of whole cells.

    shapes   object[m]; None for those outside the map
    """

    shapes: Shapes
    grown: list[bool]
    cut: list[bool]
    repaired: list[bool]
    grid: Grid

    @property
    def inside(self) -> Integers:
        """The positions of those on the map."""
        return np.flatnonzero(~shapely.is_missing(self.shapes))

    def centres(self) -> list[list[float] | None]:
        """Longitudes and latitudes of points in the middle of each; None outside the map."""
        middle = shapely.centroid(self.shapes)
        middle = np.where(shapely.covers(self.shapes, middle), middle, shapely.point_on_surface(self.shapes))
        x, y = transform(shapely.get_x(middle), shapely.get_y(middle), self.grid.crs, DEGREES)
        return [[a, b] if math.isfinite(a + b) else None for a, b in zip(x.tolist(), y.tolist(), strict=True)]


def place(areas: list[Any], grid: Grid, crs: str, names: list[str] | None = None) -> Areas:
    """Areas from the requests of users: bounds, or geometries."""

    def placed(areas: list[Any], crs: str, confidence: float) -> Areas:
        boxes = [isinstance(area, list) for area in areas]
        if any(boxes):  # one at a time
            snapped = snap(np.array(areas), grid, crs, name="Rectangle" if names is None else f"Area {names[0]}")
            return Areas(
                np.asarray(shapely.box(*snapped.bounds.T)), snapped.grown.tolist(), snapped.cut.tolist(), [False], grid
            )
        found = place_areas(areas, grid, crs, names)
        shapes, box = found.shapes.copy(), found.is_rectangle
        shapes[box] = shapely.box(*found.rectangles[box].T.astype(float))
        shapes = shapely.transform(shapes, lambda xy: np.stack(grid.from_cells(xy[:, 0], xy[:, 1]), axis=1))
        return Areas(np.asarray(shapes), found.grown.tolist(), found.cut.tolist(), found.repaired.tolist(), grid)

    return ask_release(placed, grid, areas, crs, CONFIDENCE)


def read_request(body: bytes, names: tuple[str, ...], crs: str) -> dict[str, Any]:
    """The object in a body: areas (`from` and `to`) and zones as geometries, other values as they were sent."""
    told = read_json(body)
    if not isinstance(told, dict) or "type" in told:
        raise InvalidGeojsonError(f"The body must be an object with some of the members {', '.join(names)}.")
    if unknown := sorted(set(told).difference(names)):
        raise InvalidGeojsonError(f"The body has a member {unknown[0][:40]!r}; give only {', '.join(names)}.")
    found: dict[str, Any] = {name: value for name, value in told.items() if value is not None}
    for name in ("from", "to"):
        if name in found:
            found[name] = _read_area(found[name], name, crs)
    if "zones" in found:
        found["zones"] = to_geometries(check_features(found["zones"], "areas", crs, "zones"))
    if found.get("by", "cells") not in ("cells", "tiles"):
        raise InvalidGeojsonError("by must be 'cells' or 'tiles'.")
    k = found.get("k", 1)
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MOST_ROWS:
        raise InvalidGeojsonError(f"k must be a whole number from 1 to {MOST_ROWS:,}.")
    return found


def _read_area(told: Any, name: str, crs: str) -> Any:
    """One area: its bounds as a list, or its geometry."""
    if isinstance(told, list):
        if len(told) != 4 or any(isinstance(side, bool) or not isinstance(side, int | float) for side in told):
            raise InvalidGeojsonError(f"{name} must be four numbers, west, south, east and north, or GeoJSON.")
        try:
            return [float(side) for side in told]
        except OverflowError:
            raise InvalidGeojsonError(f"{name} has a number that is too large.") from None
    features = check_features(told, "areas", crs, name)
    if len(features) != 1:
        raise InvalidGeojsonError(f"{name} has {len(features):,} features; give one area.")
    return to_geometries(features)[0]


def table_of(release: Release) -> FlowTable:
    """The table of flows, or an `InputError`."""
    if release.flow_table is None:
        raise InputError(NO_FLOWS)
    return release.flow_table


def answer_flow(release: Release, asked: dict[str, Any], crs: str, confidence: float) -> dict[str, Any]:
    """`release.flow` of two areas."""
    table_of(release)
    ends = [place([asked[name]], release.grid, crs, [name]).shapes[0] if name in asked else None
            for name in ("from", "to")]  # fmt: skip
    return {**estimate(release.flow(*ends, confidence=confidence)), "confidence": confidence}


def answer_flows(release: Release, asked: dict[str, Any], crs: str, confidence: float) -> dict[str, Any]:
    """`release.flows` from or to one area."""
    table, grid = table_of(release), release.grid
    ways = [name for name in ("from", "to") if name in asked]
    if len(ways) != 1:
        raise InputError("Give one area, as from or as to; for the trips between two areas, use /flow.")
    way, by = ways[0], asked.get("by", "cells")
    area = place([asked[way]], grid, crs, [way])
    shape, zones = area.shapes[0], None
    if "zones" in asked:
        zones, by = _zones(asked["zones"], table, grid, crs), "zones"
    elif by == "tiles":
        zones = tiles_of(table, grid)
    known = None if zones is None else zones.inside
    placed = None if zones is None else place_areas(zones.shapes[known], grid)
    found = flows_of(release, shape, way == "from", placed, confidence)
    columns: dict[str, list[float | None]] = {}
    for name, values in (("trips", found.trips), ("low", found.low), ("high", found.high)):
        columns[name] = values.tolist()
        if zones is not None and known is not None:
            columns[name] = [None] * len(zones.shapes)
            for i, value in zip(known.tolist(), values.tolist(), strict=True):
                columns[name][i] = value
    total = release.flow(*((shape, None) if way == "from" else (None, shape)), confidence=confidence)
    return {
        "way": way,
        "by": by,
        **columns,
        "centres": None if zones is None else zones.centres(),
        "area": {
            "centre": area.centres()[0], "grown": area.grown[0], "cut": area.cut[0], "repaired": area.repaired[0],
        },
        "total": estimate(total),
        "confidence": confidence,
    }  # fmt: skip


def answer_largest(release: Release, asked: dict[str, Any], crs: str, confidence: float) -> dict[str, Any]:
    """`release.largest_flows` of zones, or of tiles."""
    table, grid = table_of(release), release.grid
    by, zones = "tiles", tiles_of(table, grid)
    if "zones" in asked:
        if len(asked["zones"]) > MOST_PAIRED:
            raise InputError(
                f"There are {len(asked['zones']):,} zones, more than {MOST_PAIRED:,}; send fewer, or ask for the flows "
                "from or to one area."
            )
        by, zones = "zones", _zones(asked["zones"], table, grid, crs)
    known = zones.inside
    found = flows_between(release, place_areas(zones.shapes[known], grid), confidence).largest(asked.get("k", 10))
    return {
        "by": by,
        "origin": known[found.origin].tolist(),
        "destination": known[found.destination].tolist(),
        "trips": found.trips.tolist(),
        "low": found.low.tolist(),
        "high": found.high.tolist(),
        "confidence": confidence,
    }


def describe_lattice(release: Release, by: str) -> dict[str, Any]:
    """The corners of cells or tiles."""
    table, grid = table_of(release), release.grid
    lattice = table.cells if by == "cells" else table.tiles
    u, v = (each.astype(np.float64) for each in np.meshgrid(lattice.east, lattice.north))
    longitude, latitude = transform(*grid.from_cells(u.ravel(), v.ravel()), grid.crs, DEGREES)
    rows, columns = lattice.shape
    return {
        "rows": rows,
        "columns": columns,
        "longitude": longitude.tolist(),
        "latitude": latitude.tolist(),
        "bounds": list(grid.bounds),
    }


def tiles_of(table: FlowTable, grid: Grid) -> Areas:
    """The tiles, row by row from the south-west."""
    lattice = table.tiles
    u, v = (each.astype(np.float64) for each in np.meshgrid(lattice.east, lattice.north))
    west, south = grid.from_cells(u[:-1, :-1].ravel(), v[:-1, :-1].ravel())
    east, north = grid.from_cells(u[1:, 1:].ravel(), v[1:, 1:].ravel())
    none = [False] * len(west)
    return Areas(np.asarray(shapely.box(west, south, east, north)), none, none, none, grid)


def _zones(geometries: list[Any], table: FlowTable, grid: Grid, crs: str) -> Areas:
    """Zones on the map, unless together they cover it too often."""
    zones = place(geometries, grid, crs)
    bounds = shapely.bounds(zones.shapes[zones.inside])
    (u0, v0), (u1, v1) = grid.to_cells(*bounds[:, :2].T), grid.to_cells(*bounds[:, 2:].T)
    covered = _spanned(table.cells, u0, u1, v0, v1)
    if covered > MOST_COVERED:
        raise InputError("The zones overlap too much; send fewer at a time.")
    return zones


def _spanned(lattice: Lattice, u0: Floats, u1: Floats, v0: Floats, v1: Floats) -> int:
    """The number of cells of a lattice that rectangles meet, added up."""
    wide = np.searchsorted(lattice.east, u1) - np.searchsorted(lattice.east, u0) + 1
    high = np.searchsorted(lattice.north, v1) - np.searchsorted(lattice.north, v0) + 1
    return int((wide * high).sum())


def request_of(model: type[BaseModel]) -> dict[str, Any]:
    """The description of a body that the server reads itself, to check it in the background."""
    return {
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": SCHEMAS + model.__name__}}},
        }
    }


NO_FLOWS_HERE = "The release has no flows, or there is no such slice; or the body is not JSON or is outside the map."
ERRORS = {**GEOJSON_ERRORS, 400: {**GEOJSON_ERRORS[400], "description": NO_FLOWS_HERE}}
Selected = Callable[[int, str | None], Awaitable[Release]]
Answer = Callable[[Release, dict[str, Any], str, float], dict[str, Any]]


def add_flows(app: FastAPI, selected: Selected, in_background: Callable[[Callable[[], Any]], Awaitable[Any]]) -> None:
    """Add the endpoints. `selected` finds slices of a release, and `in_background` does what takes long."""
    describe = app.openapi

    def with_requests() -> dict[str, Any]:
        told = describe()
        for model in (FlowRequest, FlowsRequest, LargestRequest):
            schema = model.model_json_schema(ref_template=SCHEMAS + "{model}")
            told["components"]["schemas"] |= {**schema.pop("$defs"), model.__name__: schema}
        return told

    app.openapi = with_requests  # type: ignore[method-assign]

    def endpoint(path: str, request_model: type[BaseModel], **about: Any) -> Callable[[Any], Any]:
        options: dict[str, Any] = {
            "responses": ERRORS,
            "openapi_extra": request_of(request_model),
            "tags": ["flows"],
        }
        return app.post(f"/api/releases/{{n}}/{path}", **options, **about)

    async def answered(
        n: int,
        request: Request,
        answer: Answer,
        names: tuple[str, ...],
        crs: str,
        confidence: float,
        slices: str | None,
    ) -> Response:
        release, body = await selected(n, slices), await request.body()

        def found() -> Response:
            check_crs(crs)  # even if there are no areas in it
            return Json(answer(release, read_request(body, names, crs), crs, confidence))

        made: Response = await in_background(found)
        return made

    @endpoint("flow", FlowRequest, response_model=Flow, summary="Trips from one area to another")
    async def flow(
        n: Number, request: Request, crs: Crs = DEGREES, confidence: Confidence = CONFIDENCE, slices: Slices = None
    ) -> Response:
        """The estimated number of trips that begin in one area and end in another, with its confidence interval.

        A trip that comes from outside begins where it enters the map, and one that leaves ends where it was last on it.
        If the release has no flows, the response is an error.
        """
        return await answered(n, request, answer_flow, ("from", "to"), crs, confidence, slices)

    @endpoint("flows", FlowsRequest, response_model=Flows, summary="Where trips from an area go, or come from")
    async def flows(
        n: Number, request: Request, crs: Crs = DEGREES, confidence: Confidence = CONFIDENCE, slices: Slices = None
    ) -> Response:
        """With the area as `from`, its trips by destination; with the area as `to`, its trips by origin: by zone, or by
        cell or tile of `/flows/lattice`. Numbers of places that do not overlap can be added up.
        """
        return await answered(n, request, answer_flows, ("from", "to", "zones", "by"), crs, confidence, slices)

    @endpoint("flows/largest", LargestRequest, response_model=LargestFlows, summary="The largest flows")
    async def largest(
        n: Number, request: Request, crs: Crs = DEGREES, confidence: Confidence = CONFIDENCE, slices: Slices = None
    ) -> Response:
        """The pairs of zones with the most trips from one to the other, or pairs of tiles if no zones are given."""
        return await answered(n, request, answer_largest, ("zones", "k"), crs, confidence, slices)

    @app.get(
        "/api/releases/{n}/flows/lattice",
        response_model=FlowLattice,
        responses={**NO_SUCH_RELEASE, 400: {"model": ErrorMessage, "description": "The release has no flows."}},
        summary="The cells and tiles of flows",
        tags=["flows"],
    )
    async def lattice(n: Number, by: Annotated[By, Query()] = "cells") -> Response:
        """The corners of the cells, in which flows are shown, or of the tiles, between which they were measured."""
        return Json(describe_lattice(await selected(n, None), by))
