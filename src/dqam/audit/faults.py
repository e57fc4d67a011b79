"""Mechanisms that are broken on purpose. An audit must catch every one of them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from dqam.audit.estimate import MechanismFunction
from dqam.audit.exact import exact_vector, grow
from dqam.audit.pairs import GRID, walks_of
from dqam.experiments.printed import PRINTED, Exact, printed_partition
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.lattice import Lattice
from dqam.geometry.regions import Partition
from dqam.geometry.tally import spread_mass
from dqam.geometry.trips import Trips
from dqam.geometry.walks import Walks
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.noise import SeededNoise
from dqam.statistics import CROSSING, MASS, SHADOW, CellShares, Crossings, ShadowSums, TripCount, WalkSums
from dqam.statistics.privtree import PrivTree

QUARTERS = Partition(8, 8, np.array([[0, 0, 4, 4], [4, 0, 8, 4], [0, 4, 4, 8], [4, 4, 8, 8]]))
RECTANGLES = np.array([[0, 0, 8, 8], [2, 2, 3, 3], [4, 0, 8, 8], [1, 1, 7, 4], [0, 6, 8, 8]])
LATTICE = Lattice.even(GRID, 4)
CAP = 6
FINE = Grid(GRID.bounds, 256, 256)  # the more levels a quadtree has, the more it reveals


_cached = lru_cache(maxsize=256)(Aggregates.of)  # of a data set once, for all runs


def _looks_at_walks(answer: Callable[[Walks, SeededNoise, Fraction], Any]) -> Callable[[Fraction], MechanismFunction]:
    """Makes, for an epsilon, a mechanism that looks at the walks itself instead of asking a curator."""

    def make(epsilon: Fraction) -> MechanismFunction:
        def run(trips: Trips, rng: np.random.Generator) -> Any:
            return answer(walks_of(trips), SeededNoise(rng), epsilon)

        return run

    return make


@_looks_at_walks
def bare_singletons(walks: Walks, noise: SeededNoise, epsilon: Fraction) -> Any:
    """Region masses with noise, except that regions of one cell have none."""
    aggregates = _cached(walks)
    tree = grow(PrivTree(), aggregates, noise, epsilon / 2)
    masses = np.bincount(tree.labels.ravel(), exact_vector(CellShares(), aggregates).astype(float))
    noisy = noise.laplace(masses.astype(np.int64), MASS / (epsilon / 2)) / MASS
    values = np.where(tree.sizes == 1, masses / MASS, noisy)
    return values[tree.labels]


@_looks_at_walks
def exact_total(walks: Walks, noise: SeededNoise, epsilon: Fraction) -> Any:
    """Noisy cell shares, scaled so that they add up to the exact number of trips."""
    aggregates = _cached(walks)
    noisy = np.maximum(noise.laplace(exact_vector(CellShares(), aggregates), MASS / epsilon), 0).astype(float)
    return noisy / max(noisy.sum(), 1.0) * exact_vector(TripCount(), aggregates)[0]


@_looks_at_walks
def visits_as_distinct(walks: Walks, noise: SeededNoise, epsilon: Fraction) -> Any:
    """Faces minus edges, which counts a trip again when it returns, with noise for a distinct count."""
    answers = SpatialHistogram.of(walks).answers(np.array([[4, 0, 8, 8]]))
    return noise.laplace(answers, 1 / epsilon)


@_looks_at_walks
def uncapped_crossings(walks: Walks, noise: SeededNoise, epsilon: Fraction) -> Any:
    """Crossings that are not capped, with noise for a cap of `CAP`."""
    return noise.laplace(exact_vector(Crossings(QUARTERS, 2**15), _cached(walks)), CAP * CROSSING / epsilon)


@_looks_at_walks
def uncapped_shadows(walks: Walks, noise: SeededNoise, epsilon: Fraction) -> Any:
    """Shadows that are not capped, with noise for a cap of 1."""
    return noise.laplace(exact_vector(ShadowSums(LATTICE, 2**15, 3), _cached(walks)), SHADOW / epsilon)


@_looks_at_walks
def uncapped_walks(walks: Walks, noise: SeededNoise, epsilon: Fraction) -> Any:
    """Walks that are not scaled to a cap, with noise for a cap of 1."""
    return noise.laplace(exact_vector(WalkSums(LATTICE, 2**15, 3), _cached(walks)), SHADOW / epsilon)


@_looks_at_walks
def twice_the_budget(walks: Walks, noise: SeededNoise, epsilon: Fraction) -> Any:
    """Shadows and walks, each with noise as if it had the whole budget: one of the two levels is not paid for."""
    levels = (ShadowSums(LATTICE, CAP, CAP), WalkSums(LATTICE, CAP, CAP))
    exact = np.concatenate([exact_vector(level, _cached(walks)) for level in levels])
    return noise.laplace(exact, CAP * SHADOW / epsilon)


def printed_quadtree(epsilon: Fraction) -> MechanismFunction:
    """The paper's partition as printed: noise for eps1 at every level, drawn anew for parent and child."""

    def run(trips: Trips, rng: np.random.Generator) -> Any:
        partition = printed_partition(_exact(trips, FINE).shares, float(epsilon), rng)
        corner = partition.regions[(partition.regions[:, :2] == 0).all(axis=1)][0]
        return {"side of the region in the corner": int(corner[2]), "number of regions": len(partition)}

    return run


def printed_dqam(epsilon: Fraction) -> MechanismFunction:
    """DQAM as printed in the paper."""

    def run(trips: Trips, rng: np.random.Generator) -> Any:
        exact = _exact(trips, GRID)
        return histogram_values(PRINTED["dqam-printed"].run(exact, RECTANGLES, float(epsilon), 10, rng)[1])

    return run


@lru_cache(maxsize=256)
def _exact(trips: Trips, grid: Grid) -> Exact:
    walks = walks_of(trips, grid)
    return Exact(SpatialHistogram.of(walks), spread_mass(walks), walks.on_grid)


def histogram_values(histogram: SpatialHistogram | None) -> dict[str, Any]:
    """Everything that a histogram says about the data."""
    assert histogram is not None
    return {
        "face": histogram.faces,
        "face share": histogram.faces / max(float(histogram.faces.sum()), 1e-9),
        "vertical edge": histogram.vertical,
        "horizontal edge": histogram.horizontal,
        "total": float(histogram.total),
        "answer": histogram.answers(RECTANGLES),
    }
