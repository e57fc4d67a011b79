"""Small data sets and all mechanisms, for the tests of this folder."""

from functools import cache

import numpy as np
import pytest
from hypothesis import strategies as st

from dqam import cities
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.rectangles import random_rectangles
from dqam.geometry.trips import Trips
from dqam.geometry.walks import walk
from dqam.mechanisms import MECHANISMS, Mechanism
from dqam.mechanisms.dawa import Dawa
from dqam.mechanisms.dqam import Dqam
from dqam.mechanisms.flux import Flux
from dqam.mechanisms.laplace import Laplace
from dqam.mechanisms.mwem import CellWeights, Mwem
from dqam.mechanisms.prish import FacesAndEdges, Prish
from dqam.mechanisms.spreading import lift, stretch
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import Noise, SeededNoise
from dqam.values.guarantee import Number, Promise

PUBLISHABLE = {name: row.make for name, row in MECHANISMS.items() if row.make is not None}
FORCED: dict[str, Mechanism] = {  # such as work on however little there is
    "flux": Flux(least=0, crossed=0, known=0),
    "laplace": Laplace(least=0),
    "mwem": Mwem(rounds=3, least=0),
    "dawa": Dawa(least=0),
    "prish": Prish(rounds=3, least=0),
    "dqam": Dqam(rounds=3, least=0),
}
ALL: dict[str, Mechanism] = {
    **{name: make() for name, make in PUBLISHABLE.items()},
    **{f"{name}, forced": mechanism for name, mechanism in FORCED.items()},
    "dqam, deep": Dqam(depth=9, rounds=0, least=0),
}
sides = st.integers(1, 8)
seeds = st.integers(0, 10**6)
each = pytest.mark.parametrize("mechanism", ALL.values(), ids=ALL.keys())


@cache
def city(n: int = 300, seed: int = 1, resolution: int = 5) -> Aggregates:
    """Trips of the made-up city: skewed, and 20 visits long on 32 x 32 cells."""
    (trips,) = cities.city_trips(n, seed)
    return Aggregates.of(walk(trips, Grid.over(cities.BOUNDS, resolution)))


def strolls(n: int, grid: Grid, seed: int = 0, wide: float = 0.15) -> Aggregates:
    """Straight trips from anywhere in the unit square, near enough even; `wide` 0 for trips of a single cell."""
    rng = np.random.default_rng(seed)
    start = rng.uniform(0, 1, (n, 2))
    end = np.clip(start + rng.normal(0, wide, (n, 2)), 0, 1) if wide else start
    x, y = np.stack([start, end], axis=1).reshape(-1, 2).T.copy()
    return Aggregates.of(walk(Trips(x, y, np.arange(0, 2 * n + 1, 2)), grid))


def unit_square(rows: int, columns: int) -> Grid:
    return Grid((0.0, 0.0, 1.0, 1.0), rows, columns)


def some_queries(grid: Grid, count: int = 60, seed: int = 1) -> np.ndarray:
    return random_rectangles(grid, count, np.random.default_rng(seed))


def run(
    mechanism: Mechanism,
    kept: Aggregates,
    queries: np.ndarray,
    epsilon: Number | Promise,
    noise: int | Noise = 0,
    exchange: bool = True,
) -> tuple[SpatialHistogram, Curator]:
    """What it makes, and the curator that it asked, which may or may not `exchange` a budget with a delta."""
    budget = Budget.of(epsilon) if isinstance(epsilon, Promise) else Budget(epsilon)
    noise = SeededNoise(noise) if isinstance(noise, int) else noise
    curator = Curator(kept, budget, noise, may_exchange=lambda: exchange)
    return mechanism.synthesize(curator, queries, curator.budget).histogram, curator


def parts(of: SpatialHistogram) -> np.ndarray:
    """Faces and edges in one row."""
    return np.concatenate([of.faces.ravel(), of.vertical.ravel(), of.horizontal.ravel()])


def excess(of: SpatialHistogram) -> float:
    """By how much edges are above their faces, or anything below 0, at most; relative to the highest face."""
    faces, vertical, horizontal = of.faces, of.vertical, of.horizontal
    over = np.concatenate(
        [
            (vertical - np.minimum(faces[:, :-1], faces[:, 1:])).ravel(),
            (horizontal - np.minimum(faces[:-1], faces[1:])).ravel(),
            -parts(of),
        ]
    )
    return float(over.max() / faces.max())


def mwem(rows: int = 8, columns: int = 8, replay: bool = True) -> CellWeights:
    grid = unit_square(rows, columns)
    return CellWeights(grid, lambda weights: stretch(lift(grid, weights), 100.0, 3.0), replay)


def prish(rows: int = 8, columns: int = 8, replay: bool = True) -> FacesAndEdges:
    grid = unit_square(rows, columns)
    return FacesAndEdges(stretch(lift(grid, np.ones(grid.shape)), 100.0, 3.0), replay)
