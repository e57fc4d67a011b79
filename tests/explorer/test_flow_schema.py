"""What the description of the API says about flows."""

import httpx
import pytest
from pydantic import ValidationError

from dqam.explorer.flow_schema import MOST_PAIRED, MOST_ROWS, FlowRequest, Flows, FlowsRequest, LargestRequest
from tests.explorer.conftest import Served

SQUARE = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.0, 0.0]]


def test_requests_take_bounds_and_geojson() -> None:
    polygon = {"type": "Polygon", "coordinates": [SQUARE]}
    asked = FlowRequest.model_validate({"from": [0, 0, 1, 1], "to": polygon})
    assert (asked.from_, asked.to.type) == ([0, 0, 1, 1], "Polygon")  # type: ignore[union-attr]
    assert FlowsRequest.model_validate({"to": polygon}).by == "cells"
    for wrong in ({"from": [0, 0, 1]}, {"from": "here"}, {"towards": polygon}):
        with pytest.raises(ValidationError):
            FlowRequest.model_validate(wrong)
    for k in (0, MOST_ROWS + 1, 2.5):
        with pytest.raises(ValidationError):
            LargestRequest.model_validate({"k": k})


def test_flows_are_described(trips_from_to: Served) -> None:
    told = httpx.get(f"{trips_from_to.address}/openapi.json").json()
    schemas = told["components"]["schemas"]
    for path, name in (("flow", "FlowRequest"), ("flows", "FlowsRequest"), ("flows/largest", "LargestRequest")):
        about = told["paths"][f"/api/releases/{{n}}/{path}"]["post"]
        assert about["requestBody"]["content"]["application/json"]["schema"] == {"$ref": f"#/components/schemas/{name}"}
        assert set(about["responses"]) == {"200", "400", "404", "413", "422"}
        assert {"crs", "confidence", "slices"} < {one["name"] for one in about["parameters"]}
        assert all(one["description"] for one in schemas[name]["properties"].values())
    assert set(schemas["FlowRequest"]["properties"]) == {"from", "to"}
    assert f"{MOST_PAIRED:,}" in schemas["LargestRequest"]["properties"]["zones"]["description"]
    assert set(schemas["Flows"]["properties"]) == set(Flows.model_fields)
