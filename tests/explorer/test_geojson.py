"""GeoJSON in, GeoJSON out: the answers of the library for areas and lines, and one sentence for everything else."""

import json
from typing import Any

import httpx
import numpy as np
import pytest
import shapely
from pydantic import ValidationError

from dqam.explorer.geojson import REQUESTS, Kind
from dqam.explorer.middleware import MOST_GEOJSON_BYTES
from dqam.explorer.schema import MOST_CORNERS, MOST_FEATURES
from dqam.geometry.grid import Grid, transform
from tests.explorer.conftest import Served

TRIANGLE = [[-30.02, 44.98], [-29.99, 44.985], [-30.0, 45.02], [-30.02, 44.98]]
LINE = [[-30.02, 44.98], [-29.99, 45.01]]
AS_LINE = shapely.LineString(LINE)


def post(served: Served, path: str, body: object, n: int = 0, **options: object) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx.post(f"{served.address}/api/releases/{n}/{path}", content=content, params=options)  # type: ignore[arg-type]


def polygon(*rings: object) -> dict[str, Any]:
    return {"type": "Polygon", "coordinates": list(rings)}


def feature(geometry: object, **more: object) -> dict[str, Any]:
    return {"type": "Feature", "properties": None, "geometry": geometry, **more}


def collection(*features: object, **more: object) -> dict[str, Any]:
    return {"type": "FeatureCollection", "features": list(features), **more}


def some_areas(grid: Grid, count: int = 12) -> list[Any]:
    rng = np.random.default_rng(0)
    west, south, east, north = grid.bounds
    centres = shapely.points(rng.uniform(west, east, count), rng.uniform(south, north, count))
    return list(shapely.buffer(centres, rng.uniform(0.05, 0.3, count) * (north - south), quad_segs=3))


def test_areas_are_answered_as_by_the_library(pair: Served) -> None:
    release = pair.releases[0][1]
    areas = some_areas(release.grid)
    features = [feature(one.__geo_interface__, id=i, properties={"name": f"Zone {i}"}) for i, one in enumerate(areas)]
    answer = post(pair, "areas", collection(*features), confidence=0.8)
    assert answer.headers["Content-Type"] == "application/geo+json"
    told, wanted = answer.json(), release.counts(areas, crs="EPSG:4326", confidence=0.8)
    assert (told["type"], told["confidence"]) == ("FeatureCollection", 0.8)
    assert (told["release"], told["promise"]) == (release.provenance.id, release.provenance.promise)
    assert "do not add up" in told["note"]
    for i, one in enumerate(told["features"]):
        assert (one["id"], one["properties"]["name"]) == (i, f"Zone {i}")
        assert one["geometry"] == json.loads(json.dumps(areas[i].__geo_interface__))
        found = one["properties"]
        assert (found["trips"], found["low"], found["high"]) == tuple(wanted[i])
        assert (found["cut"], found["grown"], found["repaired"]) == (wanted[i].cut, wanted[i].grown, wanted[i].repaired)
        assert found["cells"] == wanted.asked.cells[i]
        assert found["square_metres"] == pytest.approx(found["cells"] * np.prod(release.grid.cell_metres))
        assert found["outside"] is False


def test_lines_are_answered_as_by_the_library(pair: Served) -> None:
    release = pair.releases[1][1]
    line = shapely.LineString(LINE)
    both = shapely.MultiLineString([LINE, [[-30.0, 45.0], [-29.98, 44.99]]])
    told = post(pair, "lines", collection(*(feature(one.__geo_interface__) for one in (line, both))), n=1).json()
    wanted = release.crossings([line, both], crs="EPSG:4326")
    for i, one in enumerate(told["features"]):
        found = one["properties"]
        assert (found["crossings"], found["low"], found["high"]) == tuple(wanted[i])
        assert found["metres"] == wanted.asked.metres(release.grid)[i]
        assert "repaired" not in found
    assert "not distinct trips" in told["note"]


def test_one_feature_or_geometry_is_enough(pair: Served) -> None:
    wanted = pair.releases[0][1].count(shapely.Polygon(TRIANGLE), crs="EPSG:4326")
    for body in (polygon(TRIANGLE), feature(polygon(TRIANGLE)), polygon([[*place, 12.5] for place in TRIANGLE])):
        (one,) = post(pair, "areas", body).json()["features"]
        assert one["properties"]["trips"] == wanted.value


def test_positions_may_have_further_numbers_and_not_all_as_many(pair: Served) -> None:
    release = pair.releases[0][1]
    ring = [[*place, *[12.5, 1.0][: i % 3]] for i, place in enumerate(TRIANGLE)]
    for path, body, wanted in (
        ("areas", polygon(ring), release.count(shapely.Polygon(TRIANGLE), crs="EPSG:4326")),
        ("areas", {"type": "MultiPolygon", "coordinates": [[ring]]}, release.count(shapely.Polygon(TRIANGLE))),
        ("lines", {"type": "LineString", "coordinates": [[*LINE[0], 1], LINE[1]]}, release.crossings(AS_LINE)),
        ("lines", {"type": "MultiLineString", "coordinates": [[[*LINE[0], 1], LINE[1]]]}, release.crossings(AS_LINE)),
    ):
        answer = post(pair, path, body)
        assert answer.status_code == 200, answer.text
        (one,) = answer.json()["features"]
        assert one["properties"]["trips" if path == "areas" else "crossings"] == pytest.approx(wanted.value)
        assert one["geometry"] == body


@pytest.mark.parametrize("kind", ["areas", "lines"])
def test_coordinates_that_are_too_large_get_one_sentence(mixed: Served, kind: str) -> None:
    big = 1.7e308
    places = [[-big, -big], [big, -big], [big, big / 2], [-big, -big]]
    body = polygon(places) if kind == "areas" else {"type": "LineString", "coordinates": places}
    answer = post(mixed, kind, body, n=1, crs="grid")
    assert answer.status_code == 400
    assert "too large" in answer.json()["error"]


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("areas", polygon(*[[]] * 1000)),
        ("areas", polygon([[]] * 1000)),
        ("areas", polygon([[""] * 1000])),
        ("areas", {"type": "MultiPolygon", "coordinates": [[]] * 1000}),
        ("areas", {"type": "MultiPolygon", "coordinates": [[[]] * 1000]}),
        ("areas", collection(*[{}] * 1000)),
        ("lines", {"type": "LineString", "coordinates": [[]] * 1000}),
        ("lines", {"type": "MultiLineString", "coordinates": [[]] * 1000}),
        ("lines", collection(*[{}] * 1000)),
    ],
    ids=range(9),
)
def test_validation_stops_at_the_first_mistake(kind: Kind, body: object) -> None:
    """A thousand errors would be a thousand times as large as the request."""
    with pytest.raises(ValidationError) as caught:
        REQUESTS[kind].validate_python(body)
    assert caught.value.error_count() < 10


@pytest.mark.parametrize("crs", ["EPSG:28355", "grid"])
def test_areas_in_another_crs_and_without_intervals(mixed: Served, crs: str) -> None:
    release = mixed.releases[1][1]
    places = [(310_000.0, 5_806_000.0), (318_000.0, 5_806_000.0), (312_000.0, 5_815_000.0)]
    wanted = release.count(shapely.Polygon(places))
    body = polygon([*map(list, places), list(places[0])])
    found = post(mixed, "areas", body, n=1, crs=crs).json()["features"][0]["properties"]
    assert (found["trips"], found["low"], found["high"]) == (wanted.value, None, None)
    x, y = transform(*np.array(body["coordinates"][0]).T, release.grid.crs, "EPSG:4326")
    degrees = post(mixed, "areas", polygon(np.stack([x, y], 1).tolist()), n=1).json()["features"][0]["properties"]
    assert degrees["trips"] == pytest.approx(wanted.value, rel=1e-3)


def test_what_is_outside_cut_or_repaired_is_said(pair: Served) -> None:
    away = polygon([[1, 1], [2, 1], [2, 2], [1, 1]])
    bow = polygon([[-30.01, 44.99], [-29.99, 45.01], [-29.99, 44.99], [-30.01, 45.01], [-30.01, 44.99]])
    large = polygon([[-31, 44], [-29, 44], [-30, 46], [-31, 44]])
    told = post(pair, "areas", collection(*map(feature, (away, bow, large)))).json()["features"]
    found = [one["properties"] for one in told]
    assert [one["outside"] for one in found] == [True, False, False]
    assert [one["repaired"] for one in found] == [False, True, False]
    assert [one["cut"] for one in found[1:]] == [False, True]
    assert found[0]["trips"] is found[0]["low"] is found[0]["cells"] is found[0]["square_metres"] is None


TOO_MANY = collection(*[feature(polygon(TRIANGLE))] * (MOST_FEATURES + 1))
RING = [[-30 + 0.01 * np.cos(t), 45 + 0.01 * np.sin(t)] for t in np.linspace(0, 2 * np.pi, 30_000)]
RING[-1] = RING[0]


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("areas", b"", 400, "not valid JSON"),
        ("areas", b"{", 400, "not valid JSON"),
        ("areas", b"[" * 100_000, 400, "not valid JSON"),
        ("areas", b"[]", 422, "has no type"),
        ("areas", b"1", 422, "has no type"),
        ("areas", {"type": "Topology"}, 422, "The body is a Topology; give a Polygon or MultiPolygon"),
        ("areas", collection(), 422, "features"),
        ("areas", collection(feature(None)), 422, "Feature 1 has no geometry"),
        ("areas", collection(feature({"type": "Point", "coordinates": [1, 2]})), 422, "Feature 1 is a Point; give a"),
        ("areas", feature({"type": "LineString", "coordinates": LINE}), 422, "is a LineString; give a Polygon"),
        ("lines", polygon(TRIANGLE), 422, "is a Polygon; give a LineString or MultiLineString"),
        ("areas", polygon(TRIANGLE[:3]), 422, "coordinates.0"),
        ("areas", polygon([*TRIANGLE, [1, 2]]), 422, "Feature 1 has a ring whose last position is not its first"),
        ("areas", polygon([*TRIANGLE[:2], ["1", 2], TRIANGLE[0]]), 422, "number"),
        ("areas", polygon([[1, 1], [2, 1], [2, 2], [1, 1]]), 400, "does not meet the map"),
        ("areas", polygon([TRIANGLE[0]] * 4), 400, "has no area"),
        ("areas", b'{"type":"Polygon","coordinates":[[[NaN,1],[2,1],[2,2],[1,1]]]}', 400, "not valid JSON"),
        ("areas", {**polygon(TRIANGLE), "crs": {"properties": {"name": "EPSG:28355"}}}, 400, "?crs=EPSG:28355"),
        ("areas", TOO_MANY, 422, "at most 10000 items"),
        ("areas", collection(*[feature(polygon(RING))] * 11), 400, f"more than {MOST_CORNERS:,}; simplify"),
        ("areas", b" " * (MOST_GEOJSON_BYTES + 1), 413, "fewer areas"),
        ("lines", b" " * (MOST_GEOJSON_BYTES + 1), 413, "larger than"),
    ],
    ids=range(22),
)
def test_a_bad_body_gets_one_sentence(pair: Served, path: str, body: object, status: int, words: str) -> None:
    if isinstance(body, dict) and len(str(body)) > 5_000_000:  # shorter numbers, to stay below the limit on bytes
        body = json.dumps(json.loads(json.dumps(body), parse_float=lambda text: round(float(text), 6))).encode()
    answer = post(pair, path, body)
    assert answer.status_code == status, answer.text[:200]
    assert words in answer.json()["error"]
    assert answer.json()["error"].endswith(".")


def test_other_mistakes(pair: Served) -> None:
    assert post(pair, "areas", polygon(TRIANGLE), n=2).status_code == 404
    assert post(pair, "areas", polygon(TRIANGLE), confidence=1).status_code == 422
    assert "give one such as" in post(pair, "areas", polygon(TRIANGLE), crs="/etc/passwd").json()["error"]


def test_rectangles_tell_their_size(pair: Served) -> None:
    grid = pair.releases[0][1].grid
    query = dict(zip(("west", "south", "east", "north"), (-30.01, 44.99, -29.99, 45.01), strict=True))
    told = httpx.get(f"{pair.address}/api/releases/0/count", params=query).json()  # type: ignore[arg-type]
    columns, rows = told["cells"]
    assert told["metres"] == [columns * grid.cell_metres[0], rows * grid.cell_metres[1]]
    west, south, east, north = told["grid_bounds"]
    assert columns == round((east - west) / (grid.bounds[2] - grid.bounds[0]) * grid.columns)
    assert rows == round((north - south) / (grid.bounds[3] - grid.bounds[1]) * grid.rows)
