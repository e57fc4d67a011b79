"""All walks of a 3 x 3 grid, on which sensitivities are tested exhaustively: never exceeded, and reached."""

from itertools import product

import numpy as np

from dqam.geometry.grid import Grid
from dqam.geometry.lattice import Lattice
from dqam.geometry.regions import Partition
from dqam.geometry.trips import Trips
from dqam.geometry.walks import Gap, walk
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.statistics import (
    Scores,
    Statistic,
)

GRID = Grid((0.0, 0.0, 3.0, 3.0), 3, 3)
ROWS = Partition(3, 3, np.array([[0, 0, 3, 1], [0, 1, 2, 3], [2, 1, 3, 3]]))
CELLS = Partition(3, 3, np.array([[x, y, x + 1, y + 1] for y, x in product(range(3), range(3))]))
ALL = np.array(
    [[w, s, e, n] for w, e in product(range(4), repeat=2) for s, n in product(range(4), repeat=2) if w < e and s < n]
)
GROUPS = np.array([[0, 0, 1], [1, -1, -1], [2, 0, 1]])  # of cells that are not together, and some in none
CROSS = Lattice(np.array([0, 1, 3]), np.array([0, 2, 3]))
EACH = Lattice(np.arange(4), np.arange(4))
SILENCE = 10**9  # microseconds, longer than the gap that cuts

Piece = tuple[tuple[int, int], ...]


def all_walks(visits: int) -> list[Piece]:
    """All 4-connected walks of 1 to `visits` visits."""
    walks: list[Piece] = [((row, column),) for row, column in product(range(3), range(3))]
    longest = walks
    for _ in range(visits - 1):
        longest = [
            (*walk, (row, column))
            for walk in longest
            for row, column in (
                (walk[-1][0] + up, walk[-1][1] + right) for up, right in ((0, 1), (1, 0), (0, -1), (-1, 0))
            )
            if 0 <= row < 3 and 0 <= column < 3
        ]
        walks = walks + longest
    return walks


def aggregates_of(trips: list[list[Piece]]) -> Aggregates:
    """Trips of given pieces: points in the middles of cells, with a silence between pieces."""
    points = [(column + 0.5, row + 0.5) for trip in trips for piece in trip for row, column in piece]
    times = [i + p * SILENCE for trip in trips for p, piece in enumerate(trip) for i in range(len(piece))]
    lengths = [sum(map(len, trip)) for trip in trips]
    x, y = np.array(points, float).reshape(-1, 2).T.copy()
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    laid = walk(Trips(x, y, offsets, np.array(times, np.int64)), GRID, Gap(seconds=100))
    return Aggregates.of(laid)


SINGLE = [[piece] for piece in all_walks(6)]
SHORT = all_walks(3)


def several_pieces(seed: int, count: int) -> list[list[Piece]]:
    """Trips of two or three short pieces."""
    rng = np.random.default_rng(seed)
    return [[SHORT[i] for i in rng.integers(0, len(SHORT), rng.integers(2, 4))] for _ in range(count)]


LONG = [[tuple((row, c if row % 2 == 0 else 2 - c) for row in range(3) for c in range(3)) * 1]]
TRIPS = SINGLE + several_pieces(0, 1500) + LONG


def some(count: int, seed: int = 0) -> list[list[Piece]]:
    """Any of all trips, the same for the same seed."""
    return [TRIPS[i] for i in np.random.default_rng(seed).integers(0, len(TRIPS), count)]


BASES = [[], *(some(size, size) for size in (1, 2, 5, 20))]


def changes(question: Statistic | Scores, bases: list[list[list[Piece]]], trips: list[list[Piece]]) -> np.ndarray:
    """|f(D + trip) - f(D)|, a row for each D and trip."""
    rows = []
    for base in bases:
        before = aggregates_of(base).value(question)
        rows += [np.abs(aggregates_of([*base, trip]).value(question) - before) for trip in trips]
    return np.array(rows)


def assert_adds_up(statistic: Statistic, reached: float) -> None:
    """Its sensitivity is never exceeded, and reached but for a factor; what a trip adds depends on no other trip."""
    added = changes(statistic, [[]], TRIPS).sum(axis=1)
    assert added.max() <= statistic.sensitivity
    assert added.max() >= reached * statistic.sensitivity
    alone = changes(statistic, [[]], some(40))
    np.testing.assert_array_equal(changes(statistic, BASES[1:], some(40)), np.tile(alone, (len(BASES) - 1, 1)))


def assert_scores(scores: Scores) -> None:
    """The sensitivity is never exceeded, and reached."""
    assert changes(scores, BASES, SINGLE[:9] + some(150)).max() == scores.sensitivity


def crowded_corner(rows: int, columns: int, seed: int, epsilon: float = 1, n: int = 300) -> Curator:
    """A crowd in one corner and a few trips everywhere."""
    rng = np.random.default_rng(seed)
    dense, thin = rng.uniform(0, 0.2, (n, 2)), rng.uniform(0, 1, (n // 10, 2))
    points = np.concatenate([dense, thin])
    trips = Trips(points[:, 0].copy(), points[:, 1].copy(), np.arange(len(points) + 1))
    return Curator(walk(trips, Grid((0.0, 0.0, 1.0, 1.0), rows, columns)), Budget(epsilon), SeededNoise(seed))
