"""Mechanisms that are broken on purpose. An audit must catch every one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from dqam.audit.estimate import MechanismFunction
from dqam.audit.exact import exact_vector, grow
from dqam.audit.pairs import GRID, SLICES, Pair, persons_of, walks_of
from dqam.errors import InputError
from dqam.experiments.printed import PRINTED, Exact, printed_partition
from dqam.geometry.arrays import Integers, Numbers
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.lattice import Lattice
from dqam.geometry.regions import Partition
from dqam.geometry.tally import spread_mass
from dqam.geometry.trips import Trips
from dqam.geometry.walks import Walks
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.noise import SeededNoise
from dqam.statistics import (
    CROSSING,
    MASS,
    SHADOW,
    CellShares,
    Crossings,
    PairCounts,
    PersonTrips,
    ShadowSums,
    Sliced,
    TripCount,
    WalkSums,
)
from dqam.statistics.person_trips import KEPT_WEIGHT, WHOLE
from dqam.statistics.privtree import PrivTree
from dqam.values.conversion import root_above
from dqam.values.guarantee import Promise

QUARTERS = Partition(8, 8, np.array([[0, 0, 4, 4], [4, 0, 8, 4], [0, 4, 4, 8], [4, 4, 8, 8]]))
RECTANGLES = np.array([[0, 0, 8, 8], [2, 2, 3, 3], [4, 0, 8, 8], [1, 1, 7, 4], [0, 6, 8, 8]])
LATTICE = Lattice.even(GRID, 4)
TILES = Lattice.even(GRID, 2)  # the quarters
CAP = 6
L2_CAP, L2_WEIGHT = 8, 4  # a single cell and the longest walk both exceed this cap, a sum of squares
TIMES = 16  # how often a selection or a Laplace answer is asked under a delta: one reveals less than its rho pays for
FINE = Grid(GRID.bounds, 256, 256)  # the more levels a quadtree has, the more it reveals


_cached = lru_cache(maxsize=256)(Aggregates.of)  # of a data set once, for all runs


def _looks_at_walks(answer: Callable[[Walks, SeededNoise, Fraction], Any]) -> Callable[[Promise], MechanismFunction]:
    """Makes, for the epsilon of a claim, a mechanism that looks at the walks itself instead of asking a curator."""

    def make(claim: Promise) -> MechanismFunction:
        def run(trips: Trips, rng: np.random.Generator) -> Any:
            return answer(walks_of(trips), SeededNoise(rng), claim.epsilon)

        return run

    return make


Draws: TypeAlias = Callable[[Walks, SeededNoise, Promise, int], Integers]


@dataclass(frozen=True)
class DrawnAtOnce:
    """A mechanism that looks at the walks itself and draws all runs in one call; see `dqam.audit.estimate.Sampler`."""

    answers: Draws
    claim: Promise

    def draw(
        self, pair: Pair, side: int, runs: int, rng: np.random.Generator, step: Callable[[int], None]
    ) -> dict[str, Numbers]:
        """See `Sampler.draw`."""
        return {"answer": self.answers(walks_of(pair[side]), SeededNoise(rng), self.claim, runs)}


def _needs_delta(answers: Draws) -> Callable[[Promise], DrawnAtOnce]:
    """Makes, for a claim with a delta, a mechanism from a function that returns the answers of many runs."""

    def make(claim: Promise) -> DrawnAtOnce:
        if not claim.delta:
            raise InputError("This mechanism needs a claim with a delta; give a delta above 0.")
        return DrawnAtOnce(answers, claim)

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
def in_two_slices(walks: Walks, noise: SeededNoise, epsilon: Fraction) -> Any:
    """The number of trips in each slice, with noise for one slice, but each trip counts in the next slice as well."""
    counts = exact_vector(Sliced(TripCount(), SLICES), _cached(walks))
    return noise.laplace(counts + np.roll(counts, 1), 1 / epsilon)


@_looks_at_walks
def from_two_origins(walks: Walks, noise: SeededNoise, epsilon: Fraction) -> Any:
    """Trips by origin and destination, with noise for one pair, but each trip also begins in the next quarter."""
    counts = exact_vector(PairCounts(TILES, TILES), _cached(walks)).reshape(TILES.cells, TILES.cells)
    return noise.laplace((counts + np.roll(counts, 1, axis=0)).ravel(), 1 / epsilon)


@_looks_at_walks
def uncapped_persons(walks: Walks, noise: SeededNoise, epsilon: Fraction) -> Any:
    """How many trips persons have, where a person beyond the last bound counts with all trips instead of with 1."""
    question, m = PersonTrips(1, (2,)), 1
    own = np.unique(persons_of(len(walks)), return_counts=True)[1]
    exact = np.array([np.minimum(own, m).sum() * WHOLE // (KEPT_WEIGHT * m), np.maximum(own - m, 0).sum() * WHOLE])
    return noise.laplace(exact, question.sensitivity / epsilon)


@_looks_at_walks
def exact_max_trips(walks: Walks, noise: SeededNoise, epsilon: Fraction) -> Any:
    """The number of trips, at most m of each person, where m is the exact median of the trips of a person."""
    own = np.unique(persons_of(len(walks)), return_counts=True)[1]
    m = int(np.median(own))
    return noise.laplace(np.array([np.minimum(own, m).sum()]), m / epsilon)


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


@_needs_delta
def shadows_without_l2_cap(walks: Walks, noise: SeededNoise, claim: Promise, runs: int) -> Integers:
    """Shadows that are not capped, with Gaussian noise for a cap of 1 on the sum of squares."""
    return _gaussian(exact_vector(ShadowSums(LATTICE, 2**15, 3, 2), _cached(walks)), SHADOW**2, noise, claim, runs)


@_needs_delta
def walks_without_l2_cap(walks: Walks, noise: SeededNoise, claim: Promise, runs: int) -> Integers:
    """Walks that are not scaled to a cap, with Gaussian noise for a cap of 1 on the sum of squares."""
    return _gaussian(exact_vector(WalkSums(LATTICE, 2**15, 3, 2), _cached(walks)), SHADOW**2, noise, claim, runs)


@_needs_delta
def rho_for_each(walks: Walks, noise: SeededNoise, claim: Promise, runs: int) -> Integers:
    """The sum of four measurements of the number of trips, each with noise for all of rho instead of a quarter."""
    count = exact_vector(TripCount(), _cached(walks))
    return np.asarray(_gaussian(np.repeat(count, 4), 1, noise, claim, runs).sum(axis=1))


@_needs_delta
def cheap_laplace(walks: Walks, noise: SeededNoise, claim: Promise, runs: int) -> Integers:
    """How many of `TIMES` counts with Laplace noise are positive, each charged at epsilon^2 / 8, not epsilon^2 / 2."""
    assert claim.rho is not None
    count = np.repeat(exact_vector(TripCount(), _cached(walks)), TIMES * runs)
    noisy = noise.laplace(count, root_above(TIMES / (8 * claim.rho)))
    return np.asarray((noisy.reshape(runs, TIMES) > 0).sum(axis=1))


@_needs_delta
def careless_exchange(walks: Walks, noise: SeededNoise, claim: Promise, runs: int) -> Integers:
    """The number of trips with Gaussian noise for all of rho, and then again with Laplace noise for all of epsilon."""
    count = exact_vector(TripCount(), _cached(walks))
    again = noise.laplace(np.repeat(count, runs), 1 / claim.epsilon)
    return np.column_stack([_gaussian(count, 1, noise, claim, runs), again])


def _gaussian(exact: Integers, square: int, noise: SeededNoise, claim: Promise, runs: int) -> Integers:
    """int64[runs, values]: with the noise that all of rho buys for a squared L2 sensitivity."""
    assert claim.rho is not None
    return noise.gaussian(np.tile(exact, runs), root_above(square / (2 * claim.rho))).reshape(runs, -1)


def printed_quadtree(claim: Promise) -> MechanismFunction:
    """The paper's partition as printed: noise for eps1 at every level, drawn anew for parent and child."""

    def run(trips: Trips, rng: np.random.Generator) -> Any:
        partition = printed_partition(_exact(trips, FINE).shares, float(claim.epsilon), rng)
        corner = partition.regions[(partition.regions[:, :2] == 0).all(axis=1)][0]
        return {"side of the region in the corner": int(corner[2]), "number of regions": len(partition)}

    return run


def printed_dqam(claim: Promise) -> MechanismFunction:
    """DQAM as printed in the paper."""

    def run(trips: Trips, rng: np.random.Generator) -> Any:
        exact = _exact(trips, GRID)
        return histogram_values(PRINTED["dqam-printed"].run(exact, RECTANGLES, float(claim.epsilon), 10, rng)[1])

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
