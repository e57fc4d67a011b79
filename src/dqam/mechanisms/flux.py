"""Flux: endpoints and crossings on nested lattices, made consistent from coarse to fine, and spread over the grid.

1. Flux measures the number of trips and the average answer. They give the signal s = trips * epsilon, which determines
   all choices below.
   If the signal is weak, flux measures only the share of the trips in each cell of one coarse lattice, to which each
   trip contributes 1 in total, and derives crossings from these shares. It then continues with steps 4 and 6.
2. It chooses nested lattices: the lines of each are also lines of the next finer one. The coarsest has so many cells
   that the errors due to noise and to coarseness are about equal. If the signal is strong, finer ones add detail.
3. It measures the shadows of all trips (`dqam.statistics.shadows`) on the coarsest lattice, each capped. A shadow
   counts a trip about once in every rectangle that it meets, so most double counts are gone before any noise is drawn.
   Edges are then scaled so that the average answer is correct. This restores what the caps cut off, in proportion to
   the flux that is there.
4. It fits a histogram. Among all histograms whose answers lie between 0 and n and never shrink when a rectangle grows,
   it takes the one closest to the measurement, both in its numbers (which have noise) and in its answers (in which real
   trips are not consistent).
5. It measures the walks of all trips on each finer lattice. Fits add their detail to the numbers known so far, once for
   large rectangles, which count a returning trip only once, and once for small ones, which count every pass.
6. It refines the lattices to the grid, which preserves consistency, repairs rounding errors, and joins both histograms
   so that answers still never shrink when a rectangle grows.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dqam.errors import InputError
from dqam.geometry.arrays import Integers
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.lattice import Lattice, flat
from dqam.mechanisms.flux_fit import (
    ENDPOINT_WEIGHT,
    LatticeMeasurement,
    ShareMeasurement,
    calibrated,
    endpoint_weights,
    exactly,
    from_shares,
)
from dqam.mechanisms.flux_scales import WalkMeasurement, with_detail
from dqam.mechanisms.flux_uncertainty import FluxEstimate
from dqam.mechanisms.size import SizeEstimate, measure_size
from dqam.mechanisms.spreading import consistent, spread_evenly
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import WIDEST
from dqam.statistics import (
    MASS,
    MOST_CAP,
    SHADOW,
    GroupShares,
    QueryTotals,
    Question,
    ShadowQuantile,
    ShadowSums,
    WalkSums,
)

FIRST_LOOK = Fraction(1, 20)  # share of the budget for the first measurement of the size
MARGIN = 2.0  # standard deviations below the least signal at which a first look settles that it is too weak
CROSSED = 600.0  # signal from which measured crossings are better than crossings derived from shares
CAP = Fraction(1, 25)  # part of the share of the coarsest lattice that pays for the cap on its shadows
MIDDLE = Fraction(2, 5)  # part of the share of all detail for a lattice between the coarsest and the finest
MOST_FINE = 256  # cells along a side of the finest lattice: the time of its fit grows with the square
STEEP = 4.5  # ratio of the finest to the coarsest side from which a lattice between them pays off
WHOLE_WALKS = 1.3  # replaces WALKS where nearly all walks are to remain unchanged
WALKS = 0.55  # size of the largest walk that is not scaled down, relative to the largest such shadow
RANDOM_SIDE = 0.16  # median of the shorter sides of random rectangles, relative to the side of the grid
ASKED = 2_000  # number of queries whose answers the fit tries to preserve


def size_share(signal: float) -> Fraction:
    """The share of the budget for the number of trips and the average answer.

    It is larger if the signal is weaker, and if nothing but shares is measured besides.

    >>> [float(size_share(signal)) for signal in (50, 100, 200, 500, 1_000, 10_000, 1e6)]
    [0.75, 0.68, 0.58, 0.47, 0.24, 0.11, 0.05]
    """
    signal = max(signal, 1.0)
    if signal < CROSSED:
        return Fraction(round(100 * min(0.75, 0.68 * (signal / 100) ** -0.23)), 100)
    share = 0.24 * (signal / 1_000) ** -0.38 if signal < 5_000 else 0.21 * (signal / 1_000) ** -0.3
    return max(FIRST_LOOK, Fraction(round(100 * share), 100))


def share_side(signal: float) -> int:
    """Cells along a side of the lattice if only shares are measured.

    >>> [share_side(signal) for signal in (100, 200, 400, 500)]
    [6, 6, 8, 9]
    """
    return max(6, round(max(signal, 1.0) ** 0.35))


def coarsest_side(signal: float) -> int:
    """Cells along a side of the coarsest lattice, which answers large rectangles.

    >>> [coarsest_side(signal) for signal in (100, 1_000, 10_000, 100_000, 1e6)]
    [5, 9, 20, 32, 51]
    """
    signal = max(signal, 1.0)
    return max(5, round(min(0.8 * signal**0.35, 3.2 * signal**0.2)))


def finest_side(signal: float) -> int:
    """Cells along a side of the finest lattice, which answers small rectangles.

    >>> [finest_side(signal) for signal in (10_000, 50_000, 100_000, 1e6)]
    [60, 165, 256, 256]
    """
    return max(1, min(MOST_FINE, round(60 * (max(signal, 1.0) / 10_000) ** 0.63)))


def detail_share(signal: float, scale: float = 1.0) -> Fraction:
    """The share of the budget left after the size that finer lattices get: more if the signal is stronger, and if the
    queries are smaller than random rectangles by a factor `scale` above 1.

    >>> [float(detail_share(signal)) for signal in (1_000, 10_000, 100_000, 1e6)]
    [0.1, 0.27, 0.5, 0.65]
    """
    share = min(max(0.27 + 0.23 * np.log10(max(signal, 1.0) / 10_000), 0.1), 0.65)
    return Fraction(round(100 * min(max(share + 0.08 * np.log2(scale), 0.05), 0.8)), 100)


def cap_quantile(signal: float) -> Fraction:
    """The share of the trips to leave below the cap: fewer if noise dominates the error, nearly all if bias does.

    >>> [float(cap_quantile(signal)) for signal in (1_000, 3_000, 1e5)]
    [0.7, 0.8, 0.95]
    """
    return Fraction(round(100 * min(0.95, 0.7 + 0.22 * np.log10(max(signal, 1_000.0) / 1_000))), 100)


@dataclass(frozen=True)
class Flux:
    """The flux mechanism. A side that is not given follows from the signal s = trips * epsilon.

    side      cells along a side of the coarsest lattice
    finest    cells along a side of the finest lattice
    least     signal below which trips are spread evenly
    crossed   signal from which crossings are measured, not derived from shares
    known     signal from which the cap is measured, not guessed
    rich      signal below which the fit is drawn towards an even spread
    detailed  signal from which finer lattices than the coarsest are measured
    strong    signal from which the histogram for small rectangles is fitted to walks alone
    """

    name: ClassVar[str] = "flux"
    about: ClassVar[str] = "shadows of trips on nested lattices, with answers that never shrink when the area grows"
    monotone: ClassVar[bool] = True

    side: int | None = None
    finest: int | None = None
    least: float = 30.0
    crossed: float = CROSSED
    known: float = 1_000.0
    rich: float = 5_000.0
    detailed: float = 5_000.0
    strong: float = 500_000.0

    def __post_init__(self) -> None:
        for name, side in (("side", self.side), ("finest", self.finest)):
            if side is not None and not (isinstance(side, int | np.integer) and side >= 1):
                raise InputError(f"{name} must be a whole number of cells, at least 1; got {side}.")

    def known_questions(self, grid: Grid, queries: Integers) -> tuple[Question, ...]:
        """The size; all other questions depend on its answer."""
        return (QueryTotals(queries),)

    def synthesize(self, curator: Curator, queries: Integers, budget: Budget) -> FluxEstimate:
        """Spend all of `budget`."""
        grid = curator.grid
        size = measure_size(curator, queries, budget, self.least, FIRST_LOOK, size_share, MARGIN)
        if not size.enough:
            return FluxEstimate(exactly(consistent(spread_evenly(grid, size), size), size.trips), size)
        if size.signal < self.crossed and MASS * curator.unit.max_trips / budget.left <= WIDEST:
            return self._by_shares(curator, queries, size, budget)
        coarsest, *finer = self._lattices(grid, size.signal)
        detail = budget.left * detail_share(size.signal, random_scale(queries, grid))
        shares = [detail * part for part in ([], [1], [MIDDLE, 1 - MIDDLE])[len(finer)]]
        coarse = budget.left - sum(shares)
        cap = self._cap(curator, coarsest, finer, size.signal, budget, coarse * CAP)
        epsilon = budget.left - sum(shares)
        sums = curator.measure(ShadowSums(coarsest, cap, ENDPOINT_WEIGHT), budget, epsilon) / SHADOW
        noise = cap * curator.unit.max_trips / float(epsilon)
        measurement = LatticeMeasurement(coarsest, noise, coarsest.snap(queries[:: max(1, len(queries) // ASKED)]))
        measured = calibrated(coarsest, coarsest.parts(sums / measurement.weights), size)
        fitted = measurement.fit(measured, size)
        kept, keep = measurement.drawn_to_even(measured, fitted, size) if size.signal < self.rich else (fitted, 1.0)
        strong = size.signal >= self.strong
        walks = []
        for fine, fine_cap, share in zip(finer, walk_caps(cap, coarsest, finer, strong), shares, strict=True):
            found = curator.measure(WalkSums(fine, fine_cap, ENDPOINT_WEIGHT), budget, share) / SHADOW
            scale = fine_cap * curator.unit.max_trips / float(share)
            walks.append(WalkMeasurement(fine, fine.parts(found / endpoint_weights(fine)), scale))
        if walks:
            histogram: SpatialHistogram = with_detail(grid, coarsest, kept, noise, walks, queries, size, strong)
        else:
            histogram = exactly(SpatialHistogram.from_flux(grid, *coarsest.refine(*kept)), size.trips)
        moved = measurement.distance(measured, fitted), measurement.distance(fitted, kept)
        finest = max(grid.shape) / max(finer[-1].shape) if finer else 0.0
        drawn = flat(fitted) - flat(kept) if size.signal < self.rich else None
        return FluxEstimate(histogram, size, measurement, kept, keep, *moved, finest, drawn)

    def _by_shares(self, curator: Curator, queries: Integers, size: SizeEstimate, budget: Budget) -> FluxEstimate:
        """A histogram from shares of the trips in coarse cells, with crossings derived from them."""
        lattice = Lattice.even(curator.grid, self.side or share_side(size.signal))
        noise = curator.unit.max_trips / float(budget.left)
        shares = curator.measure(GroupShares(lattice.labels), budget, budget.left).reshape(lattice.shape) / MASS
        measurement = ShareMeasurement(lattice, noise, lattice.snap(queries[:: max(1, len(queries) // ASKED)]))
        measured = from_shares(lattice, shares, size)
        fitted = measurement.fit(measured, size)
        kept, keep = measurement.drawn_to_even(measured, fitted, size)
        histogram = exactly(SpatialHistogram.from_flux(curator.grid, *lattice.refine(*kept)), size.trips)
        moved = measurement.distance(measured, fitted), measurement.distance(fitted, kept)
        return FluxEstimate(histogram, size, measurement, kept, keep, *moved, drawn=flat(fitted) - flat(kept))

    def _lattices(self, grid: Grid, signal: float) -> list[Lattice]:
        """The lattices from the coarsest to the finest; the lines of each are also lines of the next."""
        side, finest = self.side or coarsest_side(signal), self.finest or finest_side(signal)
        fine = Lattice.even(grid, finest)
        steep = max(fine.shape) / side
        if signal < self.detailed or steep < 1.5:
            return [Lattice.even(grid, side)]
        if steep < STEEP:
            return [fine.coarser(side), fine]
        middle = fine.coarser(2 * side)
        return [middle.coarser(side), middle, fine]

    def _cap(
        self,
        curator: Curator,
        lattice: Lattice,
        finer: list[Lattice],
        signal: float,
        budget: Budget,
        epsilon: Fraction,
    ) -> int:
        """The cap on the size of a shadow: a guess (half a side long) or, from the signal `known`, a measured quantile.

        With 4,096 lattice cells along a side it is at most 12,306, which is below the limit of `ShadowSums`.
        """
        guess = ENDPOINT_WEIGHT + max(lattice.shape) / 2
        if signal < self.known:
            return round(guess)
        caps = np.unique(np.rint(np.geomspace(ENDPOINT_WEIGHT, 6 * guess, 40)).astype(np.int64))
        walks = [walk_caps(int(cap), lattice, finer, signal >= self.strong) for cap in caps]
        then = tuple(zip(finer, zip(*walks, strict=True), strict=True)) if finer else ()
        scores = ShadowQuantile(caps, cap_quantile(signal), lattice, ENDPOINT_WEIGHT, then)
        return int(caps[curator.select(scores, budget, epsilon)])


def walk_caps(cap: int, coarse: Lattice, finer: list[Lattice], strong: bool) -> list[int]:
    """The caps on walks on finer lattices: about half as long as the longest shadow that is not reduced.

    At least half of the trips are then scaled down. The lower noise is worth more than what this loses, because only
    where trips pass matters here. If the signal is strong, the first finer lattice shows how often trips pass small
    rectangles, so its cap leaves nearly all walks unchanged. Caps are rounded to powers of the square root of 2, so
    that engines need sums for only a few.

    >>> grid = Grid((0, 0, 1, 1), 256, 256)
    >>> [walk_caps(cap, Lattice.even(grid, 32), [Lattice.even(grid, 256)], False) for cap in (10, 26, 49)]
    [[32], [91], [181]]
    """
    caps = []
    for i, fine in enumerate(finer):
        share = WHOLE_WALKS if strong and i == 0 else WALKS
        size = ENDPOINT_WEIGHT + share * (cap - ENDPOINT_WEIGHT) * max(fine.shape) / max(coarse.shape)
        caps.append(min(round(2 ** (round(2 * np.log2(max(size, 1.0))) / 2)), MOST_CAP))
    return caps


def random_scale(queries: Integers, grid: Grid) -> float:
    """How many times larger random rectangles are than the queries, measured by the medians of the shorter sides."""
    sides = np.minimum(queries[:, 2] - queries[:, 0], queries[:, 3] - queries[:, 1])
    return float(RANDOM_SIDE * min(grid.shape) / np.median(sides))
