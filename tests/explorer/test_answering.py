"""Facts and answers of the API: those of the library, and clear sentences for bad rectangles."""

import httpx
import numpy as np
import pytest

from dqam.geometry.grid import Grid, transform
from dqam.geometry.rectangles import Snapped, random_rectangles
from tests.explorer.conftest import Served

SIDES = ("west", "south", "east", "north")


def ask(served: Served, n: int, rectangle: object, **options: object) -> httpx.Response:
    sides = dict(zip(SIDES, rectangle, strict=True))  # type: ignore[call-overload]
    return httpx.get(f"{served.address}/api/releases/{n}/count", params={**sides, **options})


def some_rectangles(grid: Grid, count: int) -> np.ndarray:
    """Rectangles between grid lines, in the CRS of the grid."""
    rng = np.random.default_rng(0)
    bounds = Snapped.of(random_rectangles(grid, count, rng), grid).bounds
    return bounds + rng.uniform(0, 0.3, bounds.shape) * [-1, -1, 1, 1] * (bounds[0, 2] - bounds[0, 0])


def test_the_list_says_all_there_is_to_know(pair: Served, mixed: Served) -> None:
    told = httpx.get(f"{pair.address}/api/releases").json()
    assert [(one["n"], one["name"]) for one in told] == [(0, "monday"), (1, "tuesday")]
    release = pair.releases[0][1]
    assert told[0]["promise"] == "Differentially private for one trip, epsilon = 1."
    assert told[0]["private"] is True
    assert (told[0]["epsilon"], told[0]["unit"]) == (1, {"name": "trip", "max_trips": 1})
    assert told[0]["grid"]["bounds"] == told[0]["grid"]["degrees"] == list(release.grid.bounds)
    assert (told[0]["grid"]["rows"], told[0]["grid"]["columns"]) == release.grid.shape
    trips = release.trips
    assert told[0]["trips"] == {"value": trips.value, "low": trips.low, "high": trips.high}
    open_one, metres = httpx.get(f"{mixed.address}/api/releases").json()
    assert open_one["private"] is False
    assert "NOT PRIVATE" in open_one["promise"]
    assert metres["grid"]["crs"] == "EPSG:28355"
    assert metres["trips"]["low"] is metres["trips"]["high"] is None
    west, south, east, north = metres["grid"]["degrees"]
    assert 144 < west < east < 146
    assert -38.5 < south < north < -37


def test_the_list_says_which_delta(promises: Served) -> None:
    pure, other = httpx.get(f"{promises.address}/api/releases").json()
    assert (pure["epsilon"], pure["delta"]) == (1, None)
    assert (other["epsilon"], other["delta"]) == (1, 1e-8)
    assert other["promise"] == "Differentially private for one trip, epsilon = 1, delta = 1e-8."


@pytest.mark.parametrize("confidence", [None, 0.5])
def test_a_count_is_that_of_the_library(pair: Served, confidence: float | None) -> None:
    release = pair.releases[0][1]
    options = {} if confidence is None else {"confidence": confidence}
    for rectangle in some_rectangles(release.grid, 10).tolist():
        told = ask(pair, 0, rectangle, **options).json()
        wanted = release.count(*rectangle, crs="EPSG:4326", **options)
        assert (told["value"], told["low"], told["high"]) == (wanted.value, wanted.low, wanted.high)
        answered = release.counts([rectangle]).rectangles
        assert told["bounds"] == told["grid_bounds"] == answered.bounds[0].tolist()
        assert (told["grown"], told["cut"]) == (answered.grown[0], answered.cut[0])


def test_many_counts_are_those_of_the_library(pair: Served) -> None:
    release = pair.releases[1][1]
    rectangles = some_rectangles(release.grid, 10_000)
    answer = httpx.post(f"{pair.address}/api/releases/1/counts", json={"rectangles": rectangles.tolist()})
    told, wanted = answer.json(), release.counts(rectangles, crs="EPSG:4326")
    assert told["value"] == wanted.value.tolist()
    assert told["low"] == wanted.low.tolist()
    assert told["high"] == wanted.high.tolist()
    assert told["grid_bounds"] == wanted.rectangles.bounds.tolist()
    assert told["cut"] == wanted.rectangles.cut.tolist()


@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:28355", "grid", "EPSG:3857"])
def test_counts_on_a_projected_grid(mixed: Served, crs: str) -> None:
    release = mixed.releases[1][1]
    name = release.grid.crs if crs == "grid" else crs
    x, y = transform(np.array([310_000.0, 318_000]), np.array([5_806_000.0, 5_811_000]), release.grid.crs, name)
    rectangle = float(x[0]), float(y[0]), float(x[1]), float(y[1])
    told = ask(mixed, 1, rectangle, crs=crs).json()
    wanted = release.counts([rectangle], crs=name)
    assert told["value"] == wanted.value[0]
    assert told["low"] is told["high"] is None
    assert told["grid_bounds"] == wanted.rectangles.bounds[0].tolist()
    outline = np.array(told["outline"])
    np.testing.assert_array_equal(told["bounds"], [*outline.min(axis=0), *outline.max(axis=0)])
    x, y = transform(*outline.T, "EPSG:4326", release.grid.crs)
    np.testing.assert_allclose([x.min(), y.min(), x.max(), y.max()], told["grid_bounds"], atol=1e-3)


@pytest.mark.parametrize(
    ("rectangle", "crs", "words"),
    [
        ((-29.99, 44.98, -30.01, 45.02), None, "west <= east"),
        ((-30.01, 45.02, -29.99, 44.98), None, "south <= north"),
        (("nan", 44.98, -29.99, 45.02), None, "not a number"),
        ((-30.01, "-inf", -29.99, 45.02), None, "not a number"),
        ((1e308, 1e308, 1.5e308, 1.5e308), None, "not a number"),
        ((1, 1, 2, 2), None, "does not meet the map"),
        ((-30.01, 44.98, -29.99, 45.02), "EPSG:99999", "'EPSG:99999' is not a coordinate reference system"),
        ((-30.01, 44.98, -29.99, 45.02), "/etc/passwd", "give one such as 'EPSG:4326'"),
        ((-30.01, 44.98, -29.99, 45.02), "+proj=utm +zone=5 +nadgrids=/etc/passwd", "give one such as 'EPSG:4326'"),
        ((1, 1, 2, 2), "EPSG:5773", ""),
        ((1, 1, 2, 2), "EPSG:4978", ""),
    ],
)
def test_a_bad_rectangle_gets_a_helpful_sentence(
    pair: Served, rectangle: tuple[object, ...], crs: str | None, words: str
) -> None:
    answer = ask(pair, 0, rectangle, **({} if crs is None else {"crs": crs}))
    assert answer.status_code == 400
    assert words in answer.json()["error"]
    assert answer.json()["error"].endswith(".")


def test_outside_of_a_projected_map_it_says_where_the_map_is(mixed: Served) -> None:
    said = ask(mixed, 1, (0, 0, 1, 1)).json()["error"]
    assert "In degrees, the map covers 144." in said


def test_a_rectangle_in_another_order_is_refused(pair: Served) -> None:
    west, south, east, north = -30.02, 44.98, -29.98, 45.02
    slip = west, east, south, north
    place = f"{pair.address}/api/releases/0/counts"
    for answer in (ask(pair, 0, slip), httpx.post(place, json={"rectangles": [slip]})):
        assert answer.status_code == 400
        assert f"Did you mean ({west}, {south}, {east}, {north})?" in answer.json()["error"]
