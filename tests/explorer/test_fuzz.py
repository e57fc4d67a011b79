"""Requests that nobody thought of: no answer is a failure of the server, and all are as the description says."""

import math
from collections import Counter

import numpy as np
import pytest
import schemathesis
import shapely
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from dqam.explorer.layer import in_degrees
from tests.explorer.conftest import Served

SIDES = ("west", "south", "east", "north")
KNOWN = {*SIDES, "crs", "confidence", "slices"}  # parameters in addresses
OPERATIONS = {
    "count": ("GET", "/api/releases/{n}/count", 60, {200, 400, 404}),
    "counts": ("POST", "/api/releases/{n}/counts", 60, {200, 400, 404}),
    "layer": ("GET", "/api/releases/{n}/layer", 15, {200, 404}),
    "facts": ("GET", "/api/releases/{n}/layer/facts", 15, {200, 404}),
    "releases": ("GET", "/api/releases", 1, {200}),
    "background": ("GET", "/api/background", 1, {200}),
    "flow": ("POST", "/api/releases/{n}/flow", 30, {200, 400, 404}),
    "flows": ("POST", "/api/releases/{n}/flows", 30, {200, 400, 404}),
    "largest": ("POST", "/api/releases/{n}/flows/largest", 30, {200, 400, 404}),
    "lattice": ("GET", "/api/releases/{n}/flows/lattice", 40, {200, 400, 404}),
    "edr": ("GET", "/edr", 1, {200}),
    "conformance": ("GET", "/edr/conformance", 1, {200}),
    "collections": ("GET", "/edr/collections", 1, {200}),
    "collection": ("GET", "/edr/collections/{collection}", 10, {200, 404}),
    "position": ("GET", "/edr/collections/{collection}/position", 40, {200, 400, 404}),
    "area": ("GET", "/edr/collections/{collection}/area", 40, {200, 400, 404}),
    "cube": ("GET", "/edr/collections/{collection}/cube", 40, {200, 400, 404}),
}
FLOWS = {"flow", "flows", "largest", "lattice"}
KEYS = ("open", "metres", "none")  # of collections


def onto(sides: list[float], served: Served, n: int) -> list[float]:
    """Any four numbers as a rectangle on the map, in degrees."""
    grid = served.releases[n][1].grid
    west, south, east, north = in_degrees(np.array([grid.bounds]), grid)[0].tolist()
    a, b, c, d = (0.5 + math.atan(float(side)) / 4 for side in sides)
    x, y = sorted((a, c)), sorted((b, d))
    return [
        west + (east - west) * x[0],
        south + (north - south) * y[0],
        west + (east - west) * x[1],
        south + (north - south) * y[1],
    ]


EDR = {  # parameters that name a place
    "position": lambda sides: {"coords": "POINT({} {})".format(*sides)},
    "area": lambda sides: {"coords": shapely.box(*sides).wkt},
    "cube": lambda sides: {"bbox": ",".join(map(repr, sides)), "resolution-x": 3, "resolution-y": 2},
}
CASES = [  # where there are no parameters, there is nothing to get wrong
    pytest.param(name, mode, id=f"{name}-{mode.name.lower()}")
    for name, (_, path, *_) in OPERATIONS.items()
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE or "{" in path
]


@pytest.mark.parametrize(("name", "mode"), CASES)
def test_any_request(request: pytest.FixtureRequest, name: str, mode: GenerationMode) -> None:
    served: Served = request.getfixturevalue("trips_from_to" if name in FLOWS else "mixed")
    method, path, examples, wanted = OPERATIONS[name]
    positive = mode is GenerationMode.POSITIVE
    operation = schemathesis.openapi.from_url(f"{served.address}/openapi.json")[path][method]
    seen: Counter[int] = Counter()

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        case=operation.as_strategy(generation_mode=mode),
        n=st.integers(0, len(served.releases)),
        on_the_map=st.booleans(),
    )
    def run(case: schemathesis.Case, n: int, on_the_map: bool) -> None:
        if positive and "{n}" in path:
            case.path_parameters = {"n": n}
            if on_the_map and n < 2 and name == "count":
                sides = onto([case.query[side] for side in SIDES], served, n)
                case.query = {**case.query, **dict(zip(SIDES, sides, strict=True)), "crs": "EPSG:4326"}
            elif on_the_map and n < 2 and name == "counts":
                rectangles = [onto(sides, served, n) for sides in case.body["rectangles"]]
                case.body = {**case.body, "rectangles": rectangles, "crs": "EPSG:4326"}
            elif on_the_map and name in FLOWS and isinstance(case.body, dict):
                case.query = {**case.query, "crs": "EPSG:4326"}
                case.query.pop("slices", None)
                case.body = {key: value for key, value in case.body.items() if key in ("by", "k")}
                if name == "flows" and n < len(served.releases):
                    case.body |= {"from": onto([0.0, 0.0, 1.0, 1.0], served, n)}
        if positive and "{collection}" in path:
            case.path_parameters = {"collection": KEYS[n]}
            if on_the_map and n < 2 and name in EDR:
                case.query = {**case.query, **EDR[name](onto([n, -1, 1, 0.5], served, n))}
                for option in ("crs", "slice", "parameter-name", "parameter_names"):
                    case.query.pop(option, None)
                if name == "cube" and n == 1:
                    case.query = {**case.query, "bbox": "305000,5805000,307000,5807000", "crs": "EPSG:28355"}
        # a sound rectangle may well lie off the map
        status = case.call_and_validate(excluded_checks=[positive_data_acceptance]).status_code
        if method == "GET" and not positive and status == 200 and not KNOWN & set(case.query or {}):
            return  # only parameters that do not exist were wrong, and those do nothing
        seen[status] += 1

    run()
    if positive:
        assert set(seen) >= wanted, seen
    else:
        assert not seen[200], seen
