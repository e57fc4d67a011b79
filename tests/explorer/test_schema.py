"""The OpenAPI description of the API."""

import json
import re

import httpx

from tests.explorer.conftest import Served


def test_the_description_is_complete(pair: Served) -> None:
    told = httpx.get(f"{pair.address}/openapi.json").json()
    assert told["openapi"].startswith("3.1")
    assert set(told["paths"]) == {
        "/api/releases",
        "/api/background",
        "/api/releases/{n}/count",
        "/api/releases/{n}/counts",
        "/api/releases/{n}/areas",
        "/api/releases/{n}/lines",
        "/api/releases/{n}/profile",
        "/api/releases/{n}/flow",
        "/api/releases/{n}/flows",
        "/api/releases/{n}/flows/largest",
        "/api/releases/{n}/flows/lattice",
        "/api/releases/{n}/layer",
        "/api/releases/{n}/layer/facts",
        "/edr",
        "/edr/conformance",
        "/edr/collections",
        "/edr/collections/{collection}",
        "/edr/collections/{collection}/position",
        "/edr/collections/{collection}/area",
        "/edr/collections/{collection}/cube",
    }
    for methods in told["paths"].values():
        for about in methods.values():
            assert about["summary"]
            assert about["description"]
            assert all(one["description"] for one in about.get("parameters", []))
            for status, response in about["responses"].items():
                if status.startswith("4"):
                    schema = response["content"]["application/json"]["schema"]
                    assert schema == {"$ref": "#/components/schemas/ErrorMessage"}
    assert set(told["paths"]["/api/releases/{n}/counts"]["post"]["responses"]) == {"200", "400", "404", "413", "422"}
    assert "HTTPValidationError" not in told["components"]["schemas"]
    info = told["components"]["schemas"]["ReleaseInfo"]
    assert info["properties"]["delta"]["anyOf"] == [{"type": "number"}, {"type": "null"}]
    assert {"epsilon", "delta", "promise"} <= set(info["required"])


def test_edr_is_described(pair: Served) -> None:
    told = httpx.get(f"{pair.address}/openapi.json").json()
    for name in ("position", "area", "cube"):
        about = told["paths"][f"/edr/collections/{{collection}}/{name}"]["get"]
        needed = {one["name"] for one in about["parameters"] if one["required"]}
        assert needed == {"collection", "bbox" if name == "cube" else "coords"}
        assert {"parameter-name", "slice", "crs", "f", "confidence"} <= {one["name"] for one in about["parameters"]}
        assert set(about["responses"]) == {"200", "4XX"}
        assert set(about["responses"]["200"]["content"]) == {"application/prs.coverage+json", "application/geo+json"}


def test_geojson_is_described(pair: Served) -> None:
    told = httpx.get(f"{pair.address}/openapi.json").json()
    schemas = told["components"]["schemas"]
    for name in re.findall(r'"#/components/schemas/(\w+)"', json.dumps(told)):
        assert name in schemas
    assert set(re.findall(r'"\$ref": "(#/\w+)', json.dumps(told))) == {"#/components"}
    for path, sent, answered in (
        ("areas", {"AreaFeatures", "AreaFeature", "Polygon", "MultiPolygon"}, "AnsweredAreas"),
        ("lines", {"LineFeatures", "LineFeature", "LineString", "MultiLineString"}, "AnsweredLines"),
    ):
        about = told["paths"][f"/api/releases/{{n}}/{path}"]["post"]
        schema = about["requestBody"]["content"]["application/geo+json"]["schema"]
        assert {one["$ref"].rpartition("/")[2] for one in schema["oneOf"]} == sent
        assert schemas[f"{path[:-1].title()}Features"]["properties"]["features"]["maxItems"] == 10_000
        good = about["responses"]["200"]["content"]["application/geo+json"]["schema"]
        assert good == {"$ref": f"#/components/schemas/{answered}"}
        assert set(about["responses"]) == {"200", "400", "404", "413", "422"}


def test_slices_are_described(pair: Served) -> None:
    told = httpx.get(f"{pair.address}/openapi.json").json()
    some = {
        path.rpartition("/")[2]
        for path, methods in told["paths"].items()
        for about in methods.values()
        if "slices" in {one["name"] for one in about.get("parameters", [])}
    }
    assert some == {"count", "counts", "areas", "lines", "layer", "facts", "flow", "flows", "largest"}
    about = told["paths"]["/api/releases/{n}/profile"]["post"]
    sent = about["requestBody"]["content"]["application/geo+json"]["schema"]["oneOf"]
    assert {one["$ref"].rpartition("/")[2] for one in sent} == {
        *("ShapeFeature", "Polygon", "MultiPolygon", "LineString", "MultiLineString")
    }
    good = about["responses"]["200"]["content"]["application/json"]["schema"]
    assert good == {"$ref": "#/components/schemas/Profile"}
    assert set(about["responses"]) == {"200", "400", "404", "413", "422"}
    assert {"slices", "sliced_by", "timezone"} <= set(told["components"]["schemas"]["ReleaseInfo"]["required"])
