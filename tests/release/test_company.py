"""A rectangle has one answer, bit for bit: alone or with others, and wherever it is asked."""

import csv
import json
from functools import cache
from pathlib import Path

import httpx
import numpy as np
import pytest

import dqam
from dqam import cities
from dqam.geometry.grid import Grid
from dqam.geometry.rectangles import Snapped, random_rectangles
from dqam.release.answers import Answers
from dqam.release.release import Release
from tests.commands import run
from tests.explorer.conftest import serving
from tests.release.cases import seeded, strolls

METRES = Grid((320_000, 5_812_000, 324_000, 5_816_000), 24, 40, "EPSG:28355")
CASES = {
    "a city": (Grid.over(cities.BOUNDS, 5), "flux", "2", 0),
    "another seed": (Grid.over(cities.BOUNDS, 5), "flux", "0.7", 1),
    "no square": (Grid(cities.BOUNDS, 13, 57), "flux", "4", 2),
    "in metres": (METRES, "flux", "3", 3),
    "only counted": (Grid.over(cities.BOUNDS, 4), "flux", "0.05", 4),
    "no intervals": (Grid.over(cities.BOUNDS, 5), "laplace", "1", 5),
    "mwem": (Grid.over(cities.BOUNDS, 4), "mwem", "1", 6),
}
SIZES = (1, 2, 3, 7, 8, 9, 1000)
each = pytest.mark.parametrize("case", CASES)


@cache
def made(case: str) -> Release:
    grid, mechanism, epsilon, seed = CASES[case]
    trips = strolls(METRES.bounds, crs=METRES.crs) if grid is METRES else None
    return seeded(grid, mechanism, epsilon, trips, seed)


def some(grid: Grid, count: int, seed: int) -> np.ndarray:
    """Rectangles between grid lines, as coordinates; the first is the whole map and the second a single cell."""
    rng = np.random.default_rng(seed)
    cells = np.concatenate([[[0, 0, grid.columns, grid.rows], [1, 1, 2, 2]], random_rectangles(grid, count - 2, rng)])
    bounds = Snapped.of(cells, grid).bounds
    cell = [(grid.bounds[2] - grid.bounds[0]) / grid.columns, (grid.bounds[3] - grid.bounds[1]) / grid.rows]
    return bounds + rng.uniform(0, 0.4, bounds.shape) * np.array([1, 1, -1, -1]) * np.tile(cell, 2)


def bits(answers: Answers) -> np.ndarray:
    """The value and both ends of each interval, as they are in memory."""
    return np.stack([answers.value, answers.low, answers.high], axis=1).view(np.int64)


def alone(release: Release, rectangles: np.ndarray) -> np.ndarray:
    """The answer to each rectangle when it is asked by itself."""
    found = [release.count(*sides) for sides in rectangles.tolist()]
    return np.array([[one.value, one.low, one.high] for one in found]).view(np.int64)


@each
def test_company_does_not_matter(case: str) -> None:
    release, rng = made(case), np.random.default_rng(7)
    rectangles = some(release.grid, 1000, 8)
    right = alone(release, rectangles)
    np.testing.assert_array_equal(bits(release.counts(rectangles)), right)
    for size in SIZES:
        for _ in range(40 if size < 10 else 3):
            which = rng.integers(0, len(rectangles), size)  # in any order, some more than once
            np.testing.assert_array_equal(bits(release.counts(rectangles[which])), right[which])
            np.testing.assert_array_equal(bits(release.counts(rectangles[which].tolist())), right[which])
        apart = np.zeros((size, 2, 4))[:, 0]  # not contiguous
        apart[:] = rectangles[:size]
        for one in (rectangles[:size], apart, np.asfortranarray(apart), rectangles[::-1][-size:][::-1]):
            np.testing.assert_array_equal(bits(release.counts(one)), right[:size])
        np.testing.assert_array_equal(bits(release.counts(rectangles[:size][::-1])), right[:size][::-1])
    np.testing.assert_array_equal(bits(release.counts(rectangles[::7])), right[::7])


@each
def test_nor_does_the_way_that_it_is_asked(case: str, tmp_path: Path) -> None:
    release, path = made(case), tmp_path / "map.nc"
    release.save(path)
    opened, rectangles = dqam.open(path), some(release.grid, 9, 9)
    right = alone(release, rectangles)
    np.testing.assert_array_equal(alone(opened, rectangles), right)
    np.testing.assert_array_equal(bits(opened.counts(rectangles)), right)

    asked = [word for sides in rectangles.tolist() for word in ("--area", *map(repr, sides))]
    told = json.loads(run("query", path, *asked, "--json").stdout)
    np.testing.assert_array_equal(_bits(told["counts"], told["low"], told["high"]), right)
    with (tmp_path / "areas.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["west", "south", "east", "north"], *rectangles.tolist()])
    run("query", path, "--rectangles", tmp_path / "areas.csv", "-o", tmp_path / "found.csv")
    rows = list(csv.reader((tmp_path / "found.csv").open()))[1:]
    np.testing.assert_array_equal(_bits(*([row[i] for row in rows] for i in (4, 5, 6))), right)

    with serving([("map", opened)]) as served:
        place, how = f"{served.address}/api/releases/0", {"crs": "grid"}
        told = httpx.post(f"{place}/counts", json={"rectangles": rectangles.tolist(), **how}).json()
        np.testing.assert_array_equal(_bits(told["value"], told["low"], told["high"]), right)
        for sides, one in zip(rectangles.tolist(), right, strict=True):
            asked_for = dict(zip(("west", "south", "east", "north"), sides, strict=True))
            told = httpx.get(f"{place}/count", params={**asked_for, **how}).json()
            np.testing.assert_array_equal(_bits([told["value"]], [told["low"]], [told["high"]])[0], one)


@each
@pytest.mark.parametrize("side", [None, 3])
def test_cells_of_an_export_have_the_same_answers(case: str, side: int | None, tmp_path: Path) -> None:
    release = made(case)
    blocks = release.cells(side)
    which = np.random.default_rng(11).permutation(len(blocks))[:100]
    right = alone(release, blocks.rectangles.bounds[which])
    np.testing.assert_array_equal(bits(blocks)[which], right)
    release.save(tmp_path / "map.nc")
    sides = [] if side is None else ["--blocks", str(side)]
    assert run("export", tmp_path / "map.nc", "-o", tmp_path / "cells.csv", *sides).returncode == 0
    rows = list(csv.reader((tmp_path / "cells.csv").open()))[1:]
    np.testing.assert_array_equal(_bits(*([row[i] for row in rows] for i in (4, 5, 6)))[which], right)


def test_a_projection_does_not_know_of_other_rectangles() -> None:
    release = made("in metres")
    rng = np.random.default_rng(10)
    low = rng.uniform([144.96, -37.815], [144.985, -37.79], (100, 2))
    rectangles = np.concatenate([low, low + rng.uniform(0.001, 0.01, (100, 2))], axis=1)
    together = release.counts(rectangles, crs="EPSG:4326")
    single = [release.counts([sides], crs="EPSG:4326") for sides in rectangles.tolist()]
    np.testing.assert_array_equal(np.concatenate([bits(one) for one in single]), bits(together))
    np.testing.assert_array_equal(np.concatenate([one.rectangles.bounds for one in single]), together.rectangles.bounds)


def _bits(*columns: list[float | str | None]) -> np.ndarray:
    """Columns of a file or an answer, as `bits` has them."""
    numbers = [[float("nan") if value in (None, "", "nan") else float(value) for value in column] for column in columns]
    return np.array(numbers).T.copy().view(np.int64)
