"""Requests that nobody thought of: no answer is a failure of the server, and all are as the description says."""

import math
from collections import Counter

import numpy as np
import pytest
import schemathesis
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
}


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


CASES = [  # where there are no parameters, there is nothing to get wrong
    pytest.param(name, mode, id=f"{name}-{mode.name.lower()}")
    for name, (_, path, *_) in OPERATIONS.items()
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE or "{n}" in path
]


@pytest.mark.parametrize(("name", "mode"), CASES)
def test_any_request(mixed: Served, name: str, mode: GenerationMode) -> None:
    method, path, examples, wanted = OPERATIONS[name]
    positive = mode is GenerationMode.POSITIVE
    operation = schemathesis.openapi.from_url(f"{mixed.address}/openapi.json")[path][method]
    seen: Counter[int] = Counter()

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode), n=st.integers(0, 2), on_the_map=st.booleans())
    def run(case: schemathesis.Case, n: int, on_the_map: bool) -> None:
        if positive and "{n}" in path:
            case.path_parameters = {"n": n}
            if on_the_map and n < 2 and name == "count":
                sides = onto([case.query[side] for side in SIDES], mixed, n)
                case.query = {**case.query, **dict(zip(SIDES, sides, strict=True)), "crs": "EPSG:4326"}
            elif on_the_map and n < 2 and name == "counts":
                rectangles = [onto(sides, mixed, n) for sides in case.body["rectangles"]]
                case.body = {**case.body, "rectangles": rectangles, "crs": "EPSG:4326"}
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
