"""The same seeds give the same releases, whatever is moved or renamed in the code.

`fingerprints.json` holds sums and sampled values, which must agree to 7 digits: processors and libraries round exp,
log and LAPACK differently in the last bits. A change that is meant to change numbers stores new ones:
`python -m tests.mechanisms.test_fingerprints`.
"""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dqam import cities
from dqam.experiments.printed import PRINTED, Exact
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.rectangles import random_rectangles
from dqam.geometry.tally import spread_mass
from dqam.geometry.walks import Walks, walk
from dqam.mechanisms import MECHANISMS
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.publishing.plan import Plan
from dqam.values.guarantee import Unit

STORED = Path(__file__).with_name("fingerprints.json")
NAMES = [name for name, row in MECHANISMS.items() if row.make]
SIZES = {"few": (60, 4), "some": (2_000, 5), "many": (20_000, 6)}  # trips, resolution
EPSILON = "0.9"
KINDS = ("few/trip", "some/trip", "some/person", "many/trip", "many/person")
CASES = [*(f"{name}/{kind}" for name in NAMES for kind in KINDS), *(f"{name}/some/printed" for name in PRINTED)]


@cache
def laid(size: str) -> Walks:
    trips, resolution = SIZES[size]
    (city,) = cities.city_trips(trips, seed=5)
    return walk(city, Grid.over(cities.BOUNDS, resolution))


def arrays(case: str) -> Iterator[np.ndarray[Any, Any]]:
    """All numbers of a seeded release, its intervals among them."""
    name, size, unit = case.split("/")
    walks = laid(size)
    grid = walks.grid
    if unit == "printed":
        queries = random_rectangles(grid, 200, np.random.default_rng(3))
        histogram = SpatialHistogram.of(walks)
        exact = Exact(histogram, spread_mass(walks), walks.on_grid)
        form = PRINTED[name]
        answers, made = form.run(exact, queries, 1.0, 4, np.random.default_rng(2))
        yield answers
        yield from () if made is None else (made.faces, made.vertical, made.horizontal)
        return
    persons = [str(i % 700) for i in range(len(walks))]
    whose = {"unit": "person", "max_trips": 3} if unit == "person" else {}
    plan = Plan.of(grid, EPSILON, name, **whose)  # type: ignore[arg-type]
    curator = Curator(
        walks, Budget(EPSILON), SeededNoise(7), Unit(plan.unit.name, plan.unit.max_trips),
        persons if unit == "person" else None,
    )  # fmt: skip
    release = plan.release(curator, "fingerprint")
    histogram = release.histogram
    yield from (histogram.faces, histogram.vertical, histogram.horizontal)
    found = release.counts(grid_rectangles(grid))
    yield from (found.value, found.low, found.high)
    yield np.array([[entry.sensitivity, float(entry.epsilon), float(entry.scale)] for entry in curator.paid])


def grid_rectangles(grid: Grid) -> np.ndarray[Any, Any]:
    west, south, east, north = grid.bounds
    rng = np.random.default_rng(9)
    x, y = np.sort(rng.uniform(west, east, (300, 2))), np.sort(rng.uniform(south, north, (300, 2)))
    return np.stack([x[:, 0], y[:, 0], x[:, 1], y[:, 1]], axis=1)


def fingerprint(case: str) -> list[float]:
    """For each array: its size, its sum, the sum of its squares, and some of its values."""
    found: list[float] = []
    for array in arrays(case):
        flat = np.nan_to_num(np.ravel(array).astype(np.float64))
        found += [len(flat), float(flat.sum()), float(flat @ flat), *flat[:: max(1, len(flat) // 5)].tolist()]
    return found


@pytest.mark.parametrize("case", CASES)
def test_seeded_releases_are_what_they_were(case: str) -> None:
    stored = json.loads(STORED.read_text())[case]
    np.testing.assert_allclose(fingerprint(case), stored, rtol=1e-7, atol=1e-7)


if __name__ == "__main__":
    STORED.write_text(json.dumps({case: fingerprint(case) for case in CASES}, indent=0) + "\n")
