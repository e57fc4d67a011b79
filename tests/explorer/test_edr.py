"""EDR as it is served: a check for each conformance class that is declared, and a client that was made for others.

The checks follow the abstract tests of the standard, which OGC publishes. They are not OGC's own test suite.
"""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import shapely
from covjson_pydantic.coverage import Coverage, CoverageCollection
from edr_pydantic.capabilities import ConformanceModel, LandingPageModel
from edr_pydantic.collections import Collection, Collections
from starlette.requests import Request

from dqam.explorer.edr import root_of
from dqam.explorer.edr_metadata import CONFORMANCE, EDR, QUERIES
from tests.explorer.conftest import Served
from tests.explorer.test_edr_queries import BOX, POLYGON, TWO

COMMON = "http://www.opengis.net/spec/ogcapi-common-"
JSON, GEOJSON, COVERAGE = "application/json", "application/geo+json", "application/prs.coverage+json"
IN_METRES = {
    "position": {"coords": "POINT(305000 5805000)"},
    "area": {"coords": "POLYGON((305000 5805000,320000 5805000,310000 5815000,305000 5805000))"},
    "cube": {"bbox": "305000,5805000,307000,5807000"},
}
HERE = {"position": {"coords": "POINT(-30 45)"}, "area": {"coords": POLYGON}, "cube": {"bbox": "-30.02,44.98,-30,45"}}


def get(url: str, **parameters: Any) -> httpx.Response:
    return httpx.get(url, params={name.replace("_", "-"): value for name, value in parameters.items()})


def collections(served: Served) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = get(f"{served.address}/edr/collections").json()["collections"]
    return found


def queries(served: Served) -> list[tuple[str, dict[str, Any], dict[str, str]]]:
    """Address, collection and valid parameters of each query of each collection."""
    found = []
    for one in collections(served):
        metres = "EPSG:28355" in one["crs"]
        for name, query in one["data_queries"].items():
            options = {**IN_METRES[name], "crs": "EPSG:28355"} if metres else HERE[name]
            found.append((query["link"]["href"], one, options))
    return found


def check_common_core(served: Served) -> None:
    told = get(f"{served.address}/edr")
    links = {link["rel"]: link for link in told.json()["links"]}
    assert {"self", "service-desc", "service-doc", "conformance", "data"} <= set(links)
    for link in links.values():
        assert get(link["href"]).status_code == 200
    assert get(links["service-desc"]["href"]).json()["openapi"].startswith("3.1")
    assert get(links["conformance"]["href"]).json() == {"conformsTo": list(CONFORMANCE)}


def check_common_collections(served: Served) -> None:
    told = get(f"{served.address}/edr/collections").json()
    assert [one["id"] for one in told["collections"]] == [name for name, _ in served.releases]
    assert "self" in [link["rel"] for link in told["links"]]
    for one in told["collections"]:
        ((west, south, east, north),) = one["extent"]["spatial"]["bbox"]
        assert west < east
        assert south < north
        (own,) = [link["href"] for link in one["links"] if link["rel"] == "self"]
        assert own == f"{served.address}/edr/collections/{one['id']}"
        assert get(own).json() == one


def check_core(served: Served) -> None:
    LandingPageModel.model_validate_json(get(f"{served.address}/edr").content)
    ConformanceModel.model_validate_json(get(f"{served.address}/edr/conformance").content)
    assert get(f"{served.address}/edr/nothing").status_code == 404
    assert get(f"{served.address}/edr/collections/nothing").status_code == 404
    assert get(f"{served.address}/edr/collections/nothing/area", coords=POLYGON).status_code == 404
    assert httpx.post(f"{served.address}/edr").status_code == 405


def check_collections(served: Served) -> None:
    told = get(f"{served.address}/edr/collections").json()
    for one in told["collections"]:
        assert {"promise", "epsilon", "delta", "unit"} <= set(one.pop("privacy"))
        for member in ("links", "id", "extent", "data_queries", "parameter_names", "output_formats", "crs"):
            assert one[member], member  # what the standard requires
        assert list(one["data_queries"]) == list(QUERIES)
        for name, query in one["data_queries"].items():
            assert query["link"]["variables"]["query_type"] == name
            assert query["link"]["variables"]["default_output_format"] in one["output_formats"]
            assert get(query["link"]["href"]).status_code == 400  # it is there, but needs parameters
        for name, parameter in one["parameter_names"].items():
            assert parameter["type"] == "Parameter"
            assert parameter["observedProperty"]["label"]
            assert parameter["unit"]["label"] == "trips", name
        Collection.model_validate_json(json.dumps(one))
    Collections.model_validate_json(json.dumps(told))


def check_json(served: Served) -> None:
    for path in ("", "/conformance", "/collections", *(f"/collections/{one['id']}" for one in collections(served))):
        for told in (get(f"{served.address}/edr{path}"), get(f"{served.address}/edr{path}", f="json")):
            assert (told.status_code, told.headers["Content-Type"]) == (200, JSON)
        assert get(f"{served.address}/edr{path}", f="html").status_code == 400


def check_geojson(served: Served) -> None:
    for url, _, options in queries(served):
        told = get(url, **options, f="GeoJSON")
        assert (told.status_code, told.headers["Content-Type"]) == (200, GEOJSON)
        assert told.json()["type"] == "FeatureCollection"
        for feature in told.json()["features"]:
            assert feature["type"] == "Feature"
            shape = shapely.geometry.shape(feature["geometry"])
            assert shape.is_valid
            assert abs(shape.centroid.y) < 90
        accepted = httpx.get(url, params=options, headers={"Accept": GEOJSON})
        assert accepted.content == told.content


def check_covjson(served: Served) -> None:
    for url, one, options in queries(served):
        for told in (get(url, **options), get(url, **options, f="CoverageJSON")):
            assert (told.status_code, told.headers["Content-Type"]) == (200, COVERAGE)
            coverage = Coverage.model_validate_json(told.content)
            assert coverage.parameters is not None
            assert list(coverage.parameters) == list(coverage.ranges) == list(one["parameter_names"])
        if "custom" in one["extent"]:
            ends = "/".join(one["extent"]["custom"][0]["interval"][0])
            found = CoverageCollection.model_validate_json(get(url, **options, slice=ends).content)
            names = [(coverage.model_extra or {})["dqam:slice"] for coverage in found.coverages]
            assert names == one["extent"]["custom"][0]["values"]


def check_queries(served: Served) -> None:
    for url, one, options in queries(served):
        wrong = {"coords": "POINT(x)"} if "coords" in options else {"bbox": "1,2,3"}
        (first, *_) = one["parameter_names"]
        for refused in (
            {},
            {"f": "CoverageJSON"},
            {**options, **wrong},
            {**options, "parameter-name": "speed"},
            {**options, "crs": "EPSG:9999"},
            {**options, "f": "netCDF4"},
            {**options, "slice": "never"},
            {**options, "datetime": "2026-01-01T00:00:00Z"},
            {**options, "z": "100"},
            {**options, "unknown": "1"},
        ):
            told = httpx.get(url, params=refused)
            assert (told.status_code, list(told.json())) == (400, ["error"]), refused
        for crs in one["crs"]:
            if "EPSG:28355" not in one["crs"]:
                assert get(url, **{**options, "crs": crs}).status_code == 200
        for f in one["output_formats"]:
            assert get(url, **options, f=f).status_code == 200
        assert list(get(url, **options, parameter_name=first).json()["ranges"]) == [first]


CHECKS: dict[str, Callable[[Served], None]] = {
    f"{COMMON}1/1.0/conf/core": check_common_core,
    f"{COMMON}2/1.0/conf/collections": check_common_collections,
    f"{EDR}core": check_core,
    f"{EDR}collections": check_collections,
    f"{EDR}json": check_json,
    f"{EDR}geojson": check_geojson,
    f"{EDR}covjson": check_covjson,
    f"{EDR}queries": check_queries,
}


def test_every_class_that_is_declared_has_a_check() -> None:
    assert list(CHECKS) == list(CONFORMANCE)


@pytest.mark.parametrize("conformance_class", CONFORMANCE)
def test_conformance(conformance_class: str, mixed: Served, days: Served) -> None:
    for served in (mixed, days):
        CHECKS[conformance_class](served)


def test_the_explorer_is_still_there_and_names_edr(pair: Served) -> None:
    assert "text/html" in get(pair.address).headers["Content-Type"]
    paths = get(f"{pair.address}/openapi.json").json()["paths"]
    assert {"/edr", *(f"/edr/collections/{{collection}}/{name}" for name in QUERIES)} <= set(paths)
    assert all("422" not in about["get"]["responses"] for path, about in paths.items() if path.startswith("/edr"))


def test_a_polygon_has_the_number_of_the_library_and_of_the_other_api(pair: Served) -> None:
    for n, (name, release) in enumerate(pair.releases):
        for wkt in (POLYGON, TWO, BOX):
            shape = shapely.from_wkt(wkt)
            wanted = release.count(shape, crs="EPSG:4326")
            told = get(f"{pair.address}/edr/collections/{name}/area", coords=wkt).json()["ranges"]
            assert [told[part]["values"] for part in ("trips", "low", "high")] == [[value] for value in wanted]
            body = shapely.geometry.mapping(shape)
            (other,) = httpx.post(f"{pair.address}/api/releases/{n}/areas", json=body).json()["features"]
            assert other["properties"]["trips"] == wanted.value


def test_links_lead_to_the_server_as_it_was_asked(pair: Served) -> None:
    for host, wanted in (("maps.example.org", "http://maps.example.org/edr"), ("[", "/edr"), ('x"y', "/edr")):
        told = httpx.get(f"{pair.address}/edr", headers={"Host": host})
        assert told.status_code in (200, 400)  # some are refused before anything reads them
        if told.status_code == 200:
            assert told.json()["links"][0]["href"] == wanted
    scope = {"type": "http", "scheme": "https", "root_path": "/trips/", "headers": [(b"host", b"[::1]:80")]}
    assert root_of(Request(scope)) == "https://[::1]:80/trips"
    assert root_of(Request({**scope, "headers": []})) == "/trips"


def test_the_client_of_owslib(days: Served) -> None:
    client = pytest.importorskip("owslib.ogcapi.edr").EnvironmentalDataRetrieval(f"{days.address}/edr")
    names = [name for name, _ in days.releases]
    assert client.data() == names
    assert client.conformance()["conformsTo"] == list(CONFORMANCE)
    hours = client.collection("hours")
    assert hours["privacy"]["epsilon"] == 4
    release = dict(days.releases)["hours"]
    area = client.query_data("hours", "area", coords=POLYGON, parameter_names=["trips", "high"])
    wanted = release.count(shapely.from_wkt(POLYGON), crs="EPSG:4326")
    assert {name: part["values"] for name, part in area["ranges"].items()} == {
        "trips": [wanted.value],
        "high": [wanted.high],
    }
    west, south, east, north = release.grid.bounds
    cube = client.query_data("hours", "cube", bbox=[west, south, east, north], resolution_x=4, resolution_y=4)
    assert cube["ranges"]["trips"]["shape"] == [4, 4]
    whole = client.query_data("hours", "cube", bbox=[west, south, east, north], resolution_x=1, resolution_y=1)
    assert whole["ranges"]["trips"]["values"] == [release.trips.value]
    point = client.query_data("hours", "position", coords="POINT(-30 45)")
    assert point["ranges"]["trips"]["values"] == [release.count(-30, 45, -30, 45).value]
