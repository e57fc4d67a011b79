"""The OpenAPI description of the API."""

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
        "/api/releases/{n}/layer",
        "/api/releases/{n}/layer/facts",
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
