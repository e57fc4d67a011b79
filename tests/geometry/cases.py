"""Trips with loops, and grids to lay them on."""

import itertools

import numpy as np

from dqam.geometry.grid import Grid
from dqam.geometry.trips import Trips
from dqam.geometry.walks import Gap, walk
from tests.oracles import naive

GRIDS = [Grid((0, 0, 7, 5), 5, 7), Grid((0, 0, 7, 5), 16, 16), Grid((0, 0, 7, 5), 1, 6), Grid((0, 0, 7, 5), 9, 1)]


def random_trips(seed: int, n: int = 40) -> Trips:
    """Trips with loops, of 1 to 20 points, partly outside 7 x 5."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 21, n)
    steps = rng.normal(0, 1.2, (lengths.sum(), 2))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    points = np.concatenate(
        [np.cumsum(steps[a:b], axis=0) + rng.uniform((0, 0), (7, 5)) for a, b in itertools.pairwise(starts)]
    )
    return Trips(points[:, 0].copy(), points[:, 1].copy(), starts)


GRID = Grid((0, 0, 6, 5), 5, 6)  # a cell is one unit


def walk_of(points: list[tuple[float, float]], grid: Grid = GRID, gap: Gap | None = None) -> list[list[int]]:
    return naive.pieces_of(walk(Trips.from_lists([points]), grid, gap))[0]
