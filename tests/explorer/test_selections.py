"""Slices in the API: what the library says about them, and what is kept."""

import json
import threading
from typing import Any

import httpx
import numpy as np
import pytest
import shapely

from dqam.errors import InputError
from dqam.explorer.layer import Layer
from dqam.explorer.selections import MOST_LAYERS, Cache, ShownRelease, largest_of_slices
from dqam.release.release import Release
from tests.explorer.conftest import Served

RECTANGLE = (-30.01, 44.99, -29.99, 45.01)
MORNING = ("07", "08")
AREAS = [shapely.Point(-30, 45).buffer(0.01), shapely.box(*RECTANGLE), shapely.box(-30.1, 44.9, -30, 45)]
LINES = [shapely.LineString([(-30.02, 44.98), (-29.99, 45.01)])]


def get(served: Served, path: str, **query: object) -> Any:
    answer = httpx.get(f"{served.address}/api/releases/{path}", params=query)  # type: ignore[arg-type]
    assert answer.status_code == 200, answer.text
    return answer.json()


def post(served: Served, path: str, body: object, **query: object) -> httpx.Response:
    address = f"{served.address}/api/releases/{path}"
    return httpx.post(address, content=json.dumps(body), params=query, headers={"Content-Type": "application/json"})  # type: ignore[arg-type]


def test_the_list_says_the_slices_and_their_rule(days: Served) -> None:
    hours, april, persons, whole, _ = httpx.get(f"{days.address}/api/releases").json()
    assert hours["slices"] == [f"{hour:02}" for hour in range(24)]
    assert (hours["sliced_by"], hours["timezone"]) == ("hour", "Europe/Lisbon")
    assert (april["slices"], april["sliced_by"], april["timezone"]) == (["weekday", "weekend"], "weekpart", "")
    assert persons["unit"] == {"name": "person", "max_trips": 5}
    assert persons["scaled_up"] is False
    assert (whole["slices"], whole["sliced_by"], whole["timezone"]) == ([], "", "")


@pytest.mark.parametrize("told", ["07,08", "08, 07", "07,08,07"])
def test_rectangles_of_some_slices_are_those_of_the_library(days: Served, hourly: Release, told: str) -> None:
    sides = dict(zip(("west", "south", "east", "north"), RECTANGLE, strict=True))
    found = get(days, "0/count", slices=told, **sides)
    wanted = hourly.count(RECTANGLE, crs="EPSG:4326", slices=MORNING)
    assert (found["value"], found["low"], found["high"]) == tuple(wanted)
    many = post(days, "0/counts", {"rectangles": [RECTANGLE, RECTANGLE]}, slices=told).json()
    assert many["value"] == [wanted.value] * 2
    assert many["low"] == [wanted.low] * 2
    assert many["high"] == [wanted.high] * 2


@pytest.mark.parametrize(("path", "shapes", "counted"), [("areas", AREAS, "trips"), ("lines", LINES, "crossings")])
def test_shapes_in_some_slices_are_those_of_the_library(
    days: Served, hourly: Release, path: str, shapes: list[shapely.Geometry], counted: str
) -> None:
    ask = hourly.counts if path == "areas" else hourly.crossings
    features = [{"type": "Feature", "geometry": shapely.geometry.mapping(one)} for one in shapes]
    body = {"type": "FeatureCollection", "features": features}
    for names in (MORNING, ("23",), hourly.slices):
        told = post(days, f"0/{path}", body, slices=",".join(names)).json()["features"]
        wanted = ask(shapes, crs="EPSG:4326", slices=names)
        for i, one in enumerate(told):
            found = one["properties"]
            assert (found[counted], found["low"], found["high"]) == tuple(wanted[i])


@pytest.mark.parametrize("shape", [*AREAS, *LINES], ids=["circle", "rectangle", "beyond the map", "line"])
def test_a_profile_is_that_of_the_library_and_adds_up_to_the_total(
    days: Served, hourly: Release, shape: shapely.Geometry
) -> None:
    line = shape.geom_type == "LineString"
    geometry = shapely.geometry.mapping(shape)
    told = post(days, "0/profile", geometry, confidence=0.8).json()
    boxed = shape.geom_type == "Polygon" and shape.equals(shapely.box(*shape.bounds))
    wanted = hourly.profile(shape.bounds if boxed else shape, crs="EPSG:4326", confidence=0.8)
    counted, other = ("crossings", "trips") if line else ("trips", "crossings")
    assert told["slices"] == list(hourly.slices)
    assert told[counted] == wanted[counted].tolist()
    assert told[other] is None
    assert (told["low"], told["high"]) == (wanted["low"].tolist(), wanted["high"].tolist())
    total = (hourly.crossings if line else hourly.count)(shape, crs="EPSG:4326", confidence=0.8)
    assert tuple(told["total"].values()) == tuple(total)
    assert sum(told[counted]) == sum(reversed(told[counted])) == total.value
    assert told["confidence"] == 0.8
    feature = {"type": "Feature", "id": 3, "properties": {"name": "x"}, "geometry": geometry}
    assert post(days, "0/profile", feature, confidence=0.8).json() == told


def test_a_profile_of_the_answered_rectangle_is_that_of_the_rectangle(days: Served, hourly: Release) -> None:
    sides = dict(zip(("west", "south", "east", "north"), RECTANGLE, strict=True))
    answered = get(days, "0/count", **sides)
    square = shapely.geometry.mapping(shapely.box(*answered["grid_bounds"]))
    told = post(days, "0/profile", square, crs="grid").json()
    assert told["total"] == {key: answered[key] for key in ("value", "low", "high")}
    for i, name in enumerate(hourly.slices[:3]):
        one = get(days, "0/count", slices=name, **sides)
        assert (told["trips"][i], told["low"][i], told["high"][i]) == (one["value"], one["low"], one["high"])


@pytest.mark.parametrize("names", [(), ("08",), MORNING])
def test_a_layer_of_some_slices(days: Served, hourly: Release, names: tuple[str, ...]) -> None:
    chosen = hourly.select(names) if names else hourly
    layer, query = Layer.of(chosen), {"slices": ",".join(names)} if names else {}
    address = f"{days.address}/api/releases/0/layer"
    answer = httpx.get(address, params=query)
    np.testing.assert_array_equal(np.frombuffer(answer.content, "<f4").reshape(layer.values.shape), layer.values)
    again = httpx.get(address, params=query, headers={"If-None-Match": answer.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert answer.headers["ETag"] == layer.tag
    other = httpx.get(address, params={"slices": "12"}, headers={"If-None-Match": answer.headers["ETag"]})
    assert other.status_code == 200
    facts = get(days, "0/layer/facts", **query)
    assert facts["largest"] == np.nanmax(layer.values)
    assert tuple(facts["trips"].values()) == tuple(chosen.trips)
    assert facts["largest_of_slices"] == largest_of_slices(hourly)


def test_the_largest_of_slices_is_that_of_all_layers(hourly: Release, first: Release, monkeypatch: Any) -> None:
    wanted = max(hourly.select(name).cells().value.max() for name in hourly.slices)
    assert largest_of_slices(hourly) == wanted
    monkeypatch.setattr("dqam.explorer.selections.AT_A_TIME", 1000)
    assert largest_of_slices(hourly) == wanted
    assert largest_of_slices(first) is None


@pytest.mark.parametrize("path", ["count?west=-30.01&south=44.99&east=-29.99&north=45.01&", "layer?", "layer/facts?"])
def test_names_that_are_no_slices(days: Served, path: str) -> None:
    for n, told, words in (
        (0, "7", "There is no slice '7'; the slices are 00, 01, 02, ..., 23."),
        (0, "", "There is no slice ''; the slices are 00, 01, 02, ..., 23."),
        (0, "07,,08", "There is no slice ''; the slices are 00, 01, 02, ..., 23."),
        (1, "07", "There is no slice '07'; the slices are weekday, weekend."),
        (3, "07", "This release has no slices; leave out the parameter slices."),
    ):
        answer = httpx.get(f"{days.address}/api/releases/{n}/{path}slices={told}")
        assert (answer.status_code, answer.json()) == (400, {"error": words})


def test_mistakes_in_other_requests(days: Served) -> None:
    square = shapely.geometry.mapping(AREAS[0])
    no_slice = "There is no slice 'x'; the slices are 00, 01, 02, ..., 23."
    both = {"type": "FeatureCollection", "features": [{"type": "Feature", "geometry": square}]}
    far = shapely.geometry.mapping(shapely.box(1, 1, 2, 2))
    wanted = "Polygon, MultiPolygon, LineString or MultiLineString"
    for path, body, query, status, words in (
        ("0/areas", square, {"slices": "x"}, 400, no_slice),
        ("0/counts", {"rectangles": [RECTANGLE]}, {"slices": "x"}, 400, no_slice),
        ("0/profile", both, {}, 422, f"The body is a FeatureCollection; give a {wanted}, or one such feature."),
        ("0/profile", [], {}, 422, f"The body has no type; send one {wanted}, or one such feature."),
        ("0/profile", {"type": "Feature", "geometry": None}, {}, 422, f"has no geometry; give a {wanted}"),
        ("0/profile", far, {}, 400, "does not meet the map"),
        ("0/profile", square, {"confidence": 1}, 422, "confidence: "),
        ("3/profile", square, {}, 400, "This release has no slices"),
        ("9/profile", square, {}, 404, "There is no release 9"),
    ):
        answer = post(days, path, body, **query)  # type: ignore[arg-type]
        assert answer.status_code == status, answer.text
        assert words in answer.json()["error"]
        assert answer.json()["error"].endswith(".")


def test_a_cache_keeps_what_was_used_last() -> None:
    made: list[int] = []
    cache = Cache[int, int](lambda key: made.append(key) or -key, 2)  # type: ignore[func-returns-value]
    assert [cache(key) for key in (1, 2, 1, 3, 1, 2)] == [-1, -2, -1, -3, -1, -2]
    assert made == [1, 2, 3, 2]
    assert [key in cache for key in (1, 2, 3)] == [True, True, False]


def test_threads_share_one_computation_and_one_that_failed_is_tried_again() -> None:
    made: list[int] = []
    barrier = threading.Barrier(3)

    def make(key: int) -> int:
        made.append(key)
        barrier.wait(10)
        return key

    cache = Cache(make, 1)
    threads = [threading.Thread(target=cache, args=(5,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    other = threading.Thread(target=Cache(make, 1), args=(6,))
    other.start()
    barrier.wait(10)  # one thread for 5, the one for 6, and this one
    for thread in (*threads, other):
        thread.join(10)
    assert sorted(made) == [5, 6]
    assert cache(5) == 5

    def fail_once(key: int) -> int:
        made.append(key)
        if made.count(key) == 1:
            raise InputError("Not yet.")
        return key

    fickle = Cache(fail_once, 1)
    with pytest.raises(InputError):
        fickle(7)
    assert 7 not in fickle
    assert fickle(7) == 7


def test_few_layers_are_kept(hourly: Release) -> None:
    shown = ShownRelease("hours", hourly)
    names = shown.names("08,07")
    assert names == MORNING
    assert shown.names(",".join(hourly.slices)) == shown.names(None) == ()
    assert shown.select(()) is hourly
    assert names not in shown.layer
    assert shown.layer(names) is shown.layer(names)
    assert names in shown.select
    assert shown.layer.limit == MOST_LAYERS == 32
