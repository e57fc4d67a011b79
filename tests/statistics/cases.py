"""All walks of a 3 x 3 grid, on which sensitivities are tested exhaustively: never exceeded, and reached."""

from functools import cache
from itertools import product

import numpy as np

from dqam.geometry.grid import Grid
from dqam.geometry.lattice import Lattice
from dqam.geometry.regions import Partition
from dqam.geometry.trips import Trips
from dqam.geometry.walks import Gap, Walks, walk
from dqam.privacy.aggregates import Aggregates, InMemory
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.statistics import Scores, ShadowSums, Statistic, WalkSums

GRID = Grid((0.0, 0.0, 3.0, 3.0), 3, 3)
ROWS = Partition(3, 3, np.array([[0, 0, 3, 1], [0, 1, 2, 3], [2, 1, 3, 3]]))
CELLS = Partition(3, 3, np.array([[x, y, x + 1, y + 1] for y, x in product(range(3), range(3))]))
ALL = np.array(
    [[w, s, e, n] for w, e in product(range(4), repeat=2) for s, n in product(range(4), repeat=2) if w < e and s < n]
)
GROUPS = np.array([[0, 0, 1], [1, -1, -1], [2, 0, 1]])  # of cells that are not together, and some in none
CROSS = Lattice(np.array([0, 1, 3]), np.array([0, 2, 3]))
EACH = Lattice(np.arange(4), np.arange(4))
SLICES = 3
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
    """Trips of given pieces: points in the middles of cells, with a silence between pieces; each in a slice."""
    points = [(column + 0.5, row + 0.5) for trip in trips for piece in trip for row, column in piece]
    times = [i + p * SILENCE for trip in trips for p, piece in enumerate(trip) for i in range(len(piece))]
    lengths = [sum(map(len, trip)) for trip in trips]
    x, y = np.array(points, float).reshape(-1, 2).T.copy()
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    slices = np.array([slice_of(trip) for trip in trips], np.int16)
    laid = walk(Trips(x, y, offsets, np.array(times, np.int64), slices=slices), GRID, Gap(seconds=100))
    return Aggregates.of(laid, slices=SLICES)


def slice_of(trip: list[Piece]) -> int:
    """A slice that depends on nothing but the trip."""
    return (len(trip) + sum(map(len, trip)) + sum(trip[0][0])) % SLICES


@cache
def walks_of_one(trip: tuple[Piece, ...]) -> Walks:
    """The walks of one trip, which many tests need."""
    engine = aggregates_of([list(trip)]).engine
    assert isinstance(engine, InMemory)
    return engine.walks


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
        for trip in trips:
            kept = Aggregates.of(walks_of_one(tuple(trip))) if not base else aggregates_of([*base, trip])
            rows.append(np.abs(kept.value(question) - before))
    return np.array(rows)


def squares(added: np.ndarray) -> int:
    """The largest sum of squares of a row, in integers without limit; only rows that may have it are added up."""
    sums = (added.astype(float) ** 2).sum(axis=1)
    near = added[sums >= sums.max() * (1 - 1e-9)]
    return max(map(square_sum, np.unique(near, axis=0)))


def assert_adds_up(statistic: Statistic, reached: float, reached_l2: float | None = None) -> None:
    """Its sensitivities are never exceeded, and reached but for a factor; what a trip adds depends on no other trip.

    The factor of the L2 sensitivity is the same, unless one is given.
    """
    changed = changes(statistic, [[]], TRIPS)
    added, square = changed.sum(axis=1), squares(changed)
    assert added.max() <= statistic.sensitivity
    assert added.max() >= reached * statistic.sensitivity
    assert square <= statistic.l2_squared <= statistic.sensitivity**2
    assert square >= (reached if reached_l2 is None else reached_l2) ** 2 * statistic.l2_squared
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


def _random_walk(steps: int, seed: int) -> Piece:
    rng = np.random.default_rng(seed)
    at, cells = np.array([32, 32]), [(32, 32)]
    for step in rng.integers(0, 4, steps):
        at = np.clip(at + ((0, 1), (1, 0), (0, -1), (-1, 0))[step], 0, 63)
        if tuple(at) != cells[-1]:
            cells.append((int(at[0]), int(at[1])))
    return tuple(cells)


def _snake(rows: int, columns: int) -> Piece:
    return tuple((row, c if row % 2 == 0 else columns - 1 - c) for row in range(rows) for c in range(columns))


def _spiral(visits: int) -> Piece:
    cells, at, ahead, side = [(32, 32)], (32, 32), 0, 1
    while len(cells) < visits:
        for _ in range(2):
            for _ in range(side):
                at = (at[0] + (0, 1, 0, -1)[ahead % 4], at[1] + (1, 0, -1, 0)[ahead % 4])
                cells.append(at)
            ahead += 1
        side += 1
    return tuple(cells[:visits])


def _comb(teeth: int, length: int) -> Piece:
    """Up one side of each tooth and down the other, two columns apart."""
    cells: list[tuple[int, int]] = []
    for tooth in range(teeth):
        up = [(row, 2 * tooth) for row in range(length)]
        cells += up if tooth % 2 == 0 else up[::-1]
        cells.append((cells[-1][0], 2 * tooth + 1))
    return tuple(cells)


def _staircase(steps: int) -> Piece:
    return tuple((i // 2, (i + 1) // 2) for i in range(steps))


SHAPES: dict[str, Piece] = {  # of one trip on 64 x 64 cells, by row and column
    "one cell": ((5, 7),),
    "two cells": ((5, 7), (5, 8)),
    "three cells": ((5, 7), (5, 8), (6, 8)),
    "back and forth": ((5, 7), (5, 8)) * 40,
    "snake": _snake(64, 64),
    "dense snake": _snake(8, 16),  # 128 cells, the most for which a shadow is computed
    "longer snake": _snake(3, 43),  # 129 cells
    "spiral": _spiral(128),
    "long spiral": _spiral(3_000),
    "comb": _comb(8, 15),
    "long comb": _comb(32, 64),
    "staircase": _staircase(127),
    "random walk": _random_walk(300, 0),
    "long random walk": _random_walk(20_000, 1),
    "diagonal and back": _staircase(100) + _staircase(99)[::-1],
}


def laid(*shapes: Piece) -> tuple[Walks, Lattice]:
    """Trips of such shapes on 64 x 64 cells, and the lattice of all its lines."""
    grid = Grid((0.0, 0.0, 64.0, 64.0), 64, 64)
    points = [[(column + 0.5, row + 0.5) for row, column in shape] for shape in shapes]
    return walk(Trips.from_lists(points, grid.crs), grid), Lattice.even(grid, 64)


def square_sum(row: np.ndarray) -> int:
    """The sum of squares in integers without limit."""
    return sum(int(number) ** 2 for number in row[row != 0])


def spelled(value: object) -> str:
    """A name for a statistic with a cap, for lists of cases; none for numbers."""
    if isinstance(value, ShadowSums | WalkSums):
        cells = "coarse" if value.lattice is CROSS else "fine"
        return f"{cells}, cap {value.cap}, weight {value.endpoint_weight}, L{value.norm}"
    return ""
