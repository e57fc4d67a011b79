"""Pairs of neighbouring data sets, which differ in one trip or person, for audits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from dqam.geometry.grid import Grid
from dqam.geometry.trips import Trips
from dqam.geometry.walks import Walks, walk

GRID = Grid((0.0, 0.0, 8.0, 8.0), 8, 8)  # a cell is one unit
SLICES = 3

Pair: TypeAlias = tuple[Trips, Trips]
Pairs: TypeAlias = Mapping[str, Pair]


def _trips_of(lists: list[list[tuple[float, float]]]) -> Trips:
    """Trips in slices that depend on nothing but each trip."""
    trips = Trips.from_lists(lists)
    return replace(trips, slices=(np.diff(trips.offsets) % SLICES).astype(np.int16))


def _adversarial_pairs() -> dict[str, Pair]:
    """Pairs of data sets on `GRID` that differ in one trip, which changes some answers as much as any trip can."""
    rng = np.random.default_rng(7)
    few = [[tuple(rng.uniform(0, 8, 2)) for _ in range(rng.integers(1, 6))] for _ in range(12)]
    crowd = [[(2.5, 2.5)] for _ in range(12)]
    snake = [
        (column + 0.5, row + 0.5) for row in range(8) for column in (range(8) if row % 2 == 0 else range(7, -1, -1))
    ]
    added = {
        "longest walk": snake,
        "one cell": [(2.5, 2.5)],
        "zig-zag": [(3.5 + (i + 1) // 2 % 2, 0.25 + i // 2 * 0.5) for i in range(31)],
        "on corners": [(float(i), float(i)) for i in range(1, 8)],
        "to and fro": [(3.5 + i % 2, 0.5) for i in range(7)],
        "out and back": [(0.5, 3.5), (-1.0, 3.5), (-1.0, 4.5), (7.5, 4.5), (9.0, 4.5), (9.0, 0.5), (6.5, 0.5)],
    }
    pairs = {}
    for base_name, base in (("no trips", []), ("few trips", few), ("a crowd in one cell", crowd)):
        for name, trip in added.items():
            pairs[f"{base_name} + {name}"] = _trips_of(base), _trips_of([*base, trip])
    return pairs


ADVERSARIAL_PAIRS = _adversarial_pairs()


def _crowds(x: float, one: int, other: int) -> Pair:
    """Two data sets, of `one` and of `other` trips in one cell."""
    return _trips_of([[(x, x)]] * one), _trips_of([[(x, x)]] * other)


def _snakes(*crossings: int) -> Trips:
    """Trips along the longest walk, with the given number of crossings each."""
    snake = ADVERSARIAL_PAIRS["no trips + longest walk"][1]
    points = list(zip(snake.x.tolist(), snake.y.tolist(), strict=True))
    return _trips_of([points[: count + 1] for count in crossings])


def _in_a_row(*trips: int) -> Trips:
    """The given number of trips in each cell of a row."""
    return _trips_of([[(cell + 0.5, 0.5)] for cell, count in enumerate(trips) for _ in range(count)])


MECHANISM_PAIRS = {  # few, because whole mechanisms take longer to run
    name: ADVERSARIAL_PAIRS[name]
    for name in (
        "no trips + longest walk",
        "few trips + zig-zag",
        "few trips + out and back",
        "a crowd in one cell + one cell",
    )
}
SINGLE_TRIP_PAIRS = {name: ADVERSARIAL_PAIRS[name] for name in ("no trips + one cell", "no trips + longest walk")}
PERSON_PAIRS = {"a person with three trips": _crowds(2.5, 12, 15)}
# two equal scores; a long trip lowers one and raises the other by as much as any trip can
QUANTILE_PAIRS = {
    **ADVERSARIAL_PAIRS,
    "two short and two middling walks + a long one": (_snakes(0, 0, 8, 8), _snakes(0, 0, 8, 8, 40)),
}
# one more trip in the middle cell makes it resemble the full cells instead of the empty ones
BUCKET_PAIRS = {"a row of 0, 12 and 20 + one": (_in_a_row(0, 0, 0, 12, 20, 20, 20), _in_a_row(0, 0, 0, 13, 20, 20, 20))}
QUADTREE_PAIRS = {"two trips in one cell + another": _crowds(0.01, 2, 3)}


def persons_of(trips: int) -> list[bool]:
    """Whose trips these are, if the unit is a person: the first twelve belong to one person, the rest to another."""
    return (np.arange(trips) >= 12).tolist()


@lru_cache(maxsize=256)
def walks_of(trips: Trips, grid: Grid = GRID) -> Walks:
    """The walks of trips on a grid, computed once for all runs."""
    return walk(trips, grid)
