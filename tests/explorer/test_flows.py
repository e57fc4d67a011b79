"""The API of flows: what the library says, and one sentence for everything else."""

import json
from typing import Any

import httpx
import numpy as np
import pytest
import shapely

from dqam.explorer import flows
from dqam.explorer.flow_schema import MOST_PAIRED
from dqam.geometry.grid import transform
from dqam.release.release import Release
from tests.explorer.conftest import Served

A, B = (-30.02, 44.98, -29.99, 45.0), (-30.01, 45.005, -29.98, 45.03)
TRIANGLE = shapely.Polygon([(-30.02, 44.98), (-29.99, 44.985), (-30.0, 45.02)])
FAR = shapely.box(10, 50, 11, 51)
SIXTEEN = [shapely.box(-30.06 + x, 44.956 + y, -30.03 + x, 44.978 + y) for y in (0, 0.022) for x in (0, 0.03, 0.06)]


def post(served: Served, path: str, body: object, n: int = 0, **options: object) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx.post(f"{served.address}/api/releases/{n}/{path}", content=content, params=options)  # type: ignore[arg-type]


def geometry(shape: shapely.Geometry) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(shapely.to_geojson(shape))
    return found


def collection(*shapes: shapely.Geometry) -> dict[str, Any]:
    features = [{"type": "Feature", "properties": None, "geometry": geometry(shape)} for shape in shapes]
    return {"type": "FeatureCollection", "features": features}


@pytest.mark.parametrize(("origin", "destination"), [(A, B), (A, TRIANGLE), (TRIANGLE, None), (None, B), (None, None)])
@pytest.mark.parametrize("slices", [None, "weekend"])
def test_two_areas(trips_from_to: Served, flowing: Release, origin: Any, destination: Any, slices: str | None) -> None:
    body = {
        name: geometry(area) if isinstance(area, shapely.Polygon) else area
        for name, area in (("from", origin), ("to", destination))
    }
    options = {} if slices is None else {"slices": slices}
    told = post(trips_from_to, "flow", body, confidence=0.8, **options).json()
    wanted = flowing.flow(origin, destination, crs="EPSG:4326", confidence=0.8, slices=slices)
    assert [told["value"], told["low"], told["high"]] == pytest.approx(list(wanted))
    assert told["confidence"] == 0.8


@pytest.mark.parametrize("way", ["from", "to"])
def test_by_cell_by_tile_and_by_zone(trips_from_to: Served, flowing: Release, way: str) -> None:
    end = {"from_" if way == "from" else "to": A}
    table = flowing.flow_table
    assert table is not None
    tiles = flows.tiles_of(table, flowing.grid).shapes
    for more, zones, by in (
        ({}, None, "cells"),
        ({"by": "tiles"}, list(tiles), "tiles"),
        ({"zones": collection(*SIXTEEN)}, SIXTEEN, "zones"),
    ):
        told = post(trips_from_to, "flows", {way: A, **more}).json()  # type: ignore[dict-item]
        wanted = flowing.flows(zones, crs="EPSG:4326", **end)  # type: ignore[arg-type]
        assert (told["way"], told["by"], told["confidence"]) == (way, by, 0.9)
        for name in ("trips", "low", "high"):
            np.testing.assert_allclose(told[name], wanted[name], rtol=1e-9, atol=1e-9)
        assert (told["centres"] is None) == (by == "cells")
        total = flowing.flow(*((A, None) if way == "from" else (None, A)), crs="EPSG:4326")
        assert told["total"]["value"] == pytest.approx(total.value)
        if by != "zones":
            assert sum(told["trips"]) == pytest.approx(total.value)
    assert told["centres"][0] == pytest.approx([-30.045, 44.967], abs=0.002)
    assert told["area"]["grown"] is True
    assert (told["area"]["cut"], told["area"]["repaired"]) == (False, False)


def test_zones_outside_the_map_have_no_answer(trips_from_to: Served) -> None:
    told = post(trips_from_to, "flows", {"from": A, "zones": collection(FAR, SIXTEEN[1])}).json()
    assert told["trips"][0] is told["low"][0] is told["high"][0] is told["centres"][0] is None
    assert told["trips"][1] > 0
    pairs = post(trips_from_to, "flows/largest", {"zones": collection(FAR, *SIXTEEN)}).json()
    assert 0 not in pairs["origin"]
    assert 0 not in pairs["destination"]


def test_the_largest_flows(trips_from_to: Served, flowing: Release) -> None:
    for body, zones in (({}, None), ({"zones": collection(*SIXTEEN)}, SIXTEEN)):
        told = post(trips_from_to, "flows/largest", {**body, "k": 5}, slices="weekday").json()
        wanted = flowing.largest_flows(5, zones, slices="weekday")
        for name in ("origin", "destination", "trips", "low", "high"):
            np.testing.assert_allclose(told[name], wanted[name])
        assert told["by"] == ("tiles" if zones is None else "zones")


def test_the_lattice_has_the_corners_of_cells_and_tiles(trips_from_to: Served, flowing: Release) -> None:
    for n in (0, 2):
        grid, table = trips_from_to.releases[n][1].grid, flowing.flow_table
        assert table is not None
        for by, lattice in (("cells", table.cells), ("tiles", table.tiles)):
            told = httpx.get(f"{trips_from_to.address}/api/releases/{n}/flows/lattice?by={by}").json()
            assert (told["rows"], told["columns"]) == lattice.shape
            x, y = transform(np.array(told["longitude"]), np.array(told["latitude"]), "EPSG:4326", grid.crs)
            corners = np.stack([x, y], axis=1).reshape(told["rows"] + 1, told["columns"] + 1, 2)
            np.testing.assert_allclose(corners[0, 0], grid.bounds[:2], rtol=1e-7)
            np.testing.assert_allclose(corners[-1, -1], grid.bounds[2:], rtol=1e-7)


def test_areas_in_other_coordinates(trips_from_to: Served) -> None:
    release = trips_from_to.releases[2][1]
    box = (303_750.0, 5_803_000.0, 311_250.0, 5_811_250.0)  # along lines of the grid
    told = post(trips_from_to, "flow", {"from": box}, n=2, crs="grid").json()
    assert told["value"] == pytest.approx(release.flow(box, None).value)
    ring = np.array(shapely.box(*box).exterior.coords)
    degrees = np.stack(transform(*ring.T, "EPSG:28355", "EPSG:4326"), axis=1)
    told = post(trips_from_to, "flows", {"to": geometry(shapely.Polygon(degrees)), "by": "tiles"}, n=2).json()
    assert told["total"]["value"] == pytest.approx(release.flow(None, box).value, rel=1e-3)
    assert told["area"]["centre"] == pytest.approx(degrees[:-1].mean(axis=0), abs=1e-3)


@pytest.mark.parametrize("path", ["flow", "flows", "flows/largest", "flows/lattice"])
def test_a_release_without_flows(trips_from_to: Served, path: str) -> None:
    address = f"{trips_from_to.address}/api/releases/1/{path}"
    answer = httpx.get(address) if path.endswith("lattice") else post(trips_from_to, path, {}, n=1)
    assert (answer.status_code, "published along with the map" in answer.json()["error"]) == (400, True)
    told = httpx.get(f"{trips_from_to.address}/api/releases").json()
    assert [one["flows"] for one in told] == [True, False, True]


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("flow", b"{", 400, "not valid JSON"),
        ("flow", [1, 2], 422, "must be an object with some of the members from, to"),
        ("flow", {"type": "Polygon"}, 422, "must be an object"),
        ("flow", {"from": A, "towards": B}, 422, "a member 'towards'; give only from, to"),
        ("flow", {"from": [1, 2, 3]}, 422, "from must be four numbers"),
        ("flow", {"from": [1, 2, 3, "4"]}, 422, "from must be four numbers"),
        ("flow", {"to": [1, 2, 3, 10**400]}, 422, "too large"),
        ("flow", {"from": 5}, 422, "from has no type"),
        ("flow", {"from": geometry(shapely.LineString([(0, 0), (1, 1)]))}, 422, "from is a LineString"),
        ("flow", {"from": collection(*SIXTEEN)}, 422, "from has 6 features; give one area"),
        ("flow", {"from": geometry(FAR)}, 400, "does not meet the map"),
        ("flow", {"from": [10, 50, 11, 51]}, 400, "does not meet the map"),
        ("flow", {"from": [-29.98, 44.98, -30.0, 45.0]}, 400, "west"),
        ("flows", {}, 400, "Give one area, as from or as to"),
        ("flows", {"from": A, "to": B}, 400, "for the trips between two areas, use /flow"),
        ("flows", {"from": A, "by": "streets"}, 422, "by must be"),
        ("flows", {"from": A, "zones": {"type": "FeatureCollection", "features": []}}, 422, "zones"),
        ("flows", {"from": A, "zones": collection(FAR)}, 400, "does not meet the map"),
        ("flows/largest", {"k": 0}, 422, "k must be"),
        ("flows/largest", {"k": True}, 422, "k must be"),
        ("flows/largest", {"zones": collection(*[SIXTEEN[0]] * (MOST_PAIRED + 1))}, 400, "2,001 zones"),
    ],
)
def test_errors_in_one_sentence(trips_from_to: Served, path: str, body: object, status: int, words: str) -> None:
    answer = post(trips_from_to, path, body)
    assert (answer.status_code, words in answer.json()["error"]) == (status, True), answer.text


def test_zones_that_cover_the_map_too_often(trips_from_to: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "MOST_COVERED", 1000)
    body = {"from": A, "zones": collection(*[shapely.box(-30.07, 44.9, -29.9, 45.1)] * 4)}
    answer = post(trips_from_to, "flows", body)
    assert (answer.status_code, "overlap too much" in answer.json()["error"]) == (400, True)


def test_other_errors(trips_from_to: Served) -> None:
    assert post(trips_from_to, "flow", {}, n=7).status_code == 404
    assert post(trips_from_to, "flow", {}, slices="noon").status_code == 400
    assert post(trips_from_to, "flow", {}, crs="here").status_code == 400
    assert post(trips_from_to, "flow", {}, confidence=2).status_code == 422
    assert post(trips_from_to, "flows", b" " * (9 << 20)).status_code == 413
