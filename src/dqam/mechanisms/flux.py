"""Flux: endpoints and crossings on nested lattices, made consistent from coarse to fine, and spread over the grid.

1. Flux measures the number of trips and the average answer. They give the signal s = trips * epsilon, which determines
   all choices below (`dqam.mechanisms.flux_rules`). With a delta, sqrt(2 rho) takes the place of epsilon, and noise is
   Gaussian; if the signal turns out to be weak, or so strong that a delta gains nothing, flux exchanges the budget for
   a pure one.
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
from dqam.mechanisms.flux_rules import CROSSED, FIRST_LOOK, GaussianRules, LaplaceRules, delta_helps
from dqam.mechanisms.flux_scales import WalkMeasurement, with_detail
from dqam.mechanisms.flux_uncertainty import FluxEstimate
from dqam.mechanisms.prior import Drawn, Prior, draw, scaled_prior
from dqam.mechanisms.size import SizeEstimate, measure_size
from dqam.mechanisms.spreading import consistent, spread_evenly
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import WIDEST
from dqam.statistics import (
    MASS,
    SHADOW,
    GroupShares,
    QueryTotals,
    Question,
    ShadowQuantile,
    ShadowSums,
    WalkSums,
)

MARGIN = 2.0  # standard deviations below the least signal at which a first look settles that it is too weak
RANDOM_SIDE = 0.16  # median of the shorter sides of random rectangles, relative to the side of the grid
ASKED = 2_000  # number of queries whose answers the fit tries to preserve


@dataclass(frozen=True)
class Flux:
    """The flux mechanism. A side that is not given follows from the signal s = trips * epsilon.

    With a delta, all thresholds but `least` are multiplied by the factors of `GaussianRules`.

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

    def synthesize(
        self, curator: Curator, queries: Integers, budget: Budget, prior: Prior | None = None
    ) -> FluxEstimate:
        """Spend all of `budget`. If the signal is weak, the fit is drawn towards `prior`, which is public and on the
        same grid; if trips are only counted, they are spread as in the prior."""
        grid, promise = curator.grid, budget.promise

        def size_share(signal: float) -> Fraction:
            return rules_of(curator).size_share(signal)  # which may change while the size is measured

        def helps(signal: float) -> bool:
            return delta_helps(signal, epsilon, precision)

        epsilon, precision = float(promise.epsilon) if promise else 0.0, budget.precision()
        size = measure_size(curator, queries, budget, self.least, FIRST_LOOK, size_share, MARGIN, helps)
        if not size.enough:
            if prior is not None:
                return FluxEstimate(scaled_prior(prior, size), size, share=1.0)
            return FluxEstimate(exactly(consistent(spread_evenly(grid, size), size), size.trips), size)
        rules = rules_of(curator)
        factors = rules.thresholds
        if (
            size.signal < self.crossed * factors["crossed"]
            and MASS * curator.unit.max_trips / budget.precision() <= WIDEST
        ):
            return self._by_shares(curator, rules, queries, size, budget, prior)
        coarsest, *finer = self._lattices(grid, rules, size.signal, self.detailed * factors["detailed"])
        detail = budget.left * rules.detail_share(size.signal, random_scale(queries, grid))
        shares = [detail * part for part in ([], [1], [rules.middle_share, 1 - rules.middle_share])[len(finer)]]
        strong, rich = size.signal >= self.strong * factors["strong"], size.signal >= self.rich * factors["rich"]
        cap = rules.caps(coarsest)[0]
        if size.signal >= self.known * factors["known"]:
            scores = cap_scores(rules, coarsest, finer, size.signal, strong)
            cap = int(scores.candidates[curator.select(scores, budget, (budget.left - sum(shares)) * rules.cap_share)])
        sums = curator.measure(
            ShadowSums(coarsest, cap, ENDPOINT_WEIGHT, rules.norm), budget, budget.left - sum(shares)
        )
        noise = laplace_scale(curator)
        asked = coarsest.snap(queries[:: max(1, len(queries) // ASKED)])
        measurement = LatticeMeasurement(coarsest, noise, asked, curator.concentrated)
        measured = calibrated(coarsest, coarsest.parts(sums / SHADOW / measurement.weights), size)
        fitted = measurement.fit(measured, size)
        made = Drawn(fitted, 1.0) if rich else draw(measurement, measured, fitted, prior, size)
        walks = []
        for fine, fine_cap, share in zip(finer, rules.walk_caps(cap, coarsest, finer, strong), shares, strict=True):
            found = curator.measure(WalkSums(fine, fine_cap, ENDPOINT_WEIGHT, rules.norm), budget, share) / SHADOW
            walks.append(WalkMeasurement(fine, fine.parts(found / endpoint_weights(fine)), laplace_scale(curator)))
        if walks:
            lowering = rules.lowering(size.signal) if strong else None
            histogram: SpatialHistogram = with_detail(grid, coarsest, made.kept, noise, walks, queries, size, lowering)
        else:
            histogram = made.histogram(grid, coarsest, size)
        moved = measurement.distance(measured, fitted), measurement.distance(fitted, made.kept)
        finest = max(grid.shape) / max(finer[-1].shape) if finer else 0.0
        drawn = None if rich else flat(fitted) - flat(made.kept)
        return FluxEstimate(histogram, size, measurement, made.kept, made.keep, *moved, finest, drawn, made.share)

    def _by_shares(
        self,
        curator: Curator,
        rules: LaplaceRules,
        queries: Integers,
        size: SizeEstimate,
        budget: Budget,
        prior: Prior | None,
    ) -> FluxEstimate:
        """A histogram from shares of the trips in coarse cells, with crossings derived from them."""
        lattice = Lattice.even(curator.grid, self.side or rules.share_side(size.signal))
        shares = curator.measure(GroupShares(lattice.labels), budget).reshape(lattice.shape) / MASS
        asked = lattice.snap(queries[:: max(1, len(queries) // ASKED)])
        measurement = ShareMeasurement(lattice, laplace_scale(curator), asked, curator.concentrated)
        measured = from_shares(lattice, shares, size)
        fitted = measurement.fit(measured, size)
        made = draw(measurement, measured, fitted, prior, size)
        histogram, drawn = made.histogram(curator.grid, lattice, size), flat(fitted) - flat(made.kept)
        moved = measurement.distance(measured, fitted), measurement.distance(fitted, made.kept)
        return FluxEstimate(histogram, size, measurement, made.kept, made.keep, *moved, 0.0, drawn, made.share)

    def _lattices(self, grid: Grid, rules: LaplaceRules, signal: float, detailed: float) -> list[Lattice]:
        """The lattices from the coarsest to the finest; the lines of each are also lines of the next."""
        side, finest = self.side or rules.coarsest_side(signal), self.finest or rules.finest_side(signal)
        fine = Lattice.even(grid, finest)
        steep = max(fine.shape) / side
        if signal < detailed or steep < 1.5:
            return [Lattice.even(grid, side)]
        if steep < rules.steep:
            return [fine.coarser(side), fine]
        middle = fine.coarser(rules.middle_side(side, max(fine.shape)))
        return [middle.coarser(side), middle, fine]


def rules_of(curator: Curator) -> LaplaceRules:
    """The rules for the curator's kind of budget."""
    return GaussianRules() if curator.concentrated else LaplaceRules()


def laplace_scale(curator: Curator) -> float:
    """The scale of the noise of the last answer, in units of 1; for Gaussian noise, that of Laplace noise with the same
    standard deviation."""
    paid = curator.paid[-1]
    return float(paid.scale / paid.resolution) / (2**0.5 if paid.epsilon is None else 1.0)


def cap_scores(
    rules: LaplaceRules, lattice: Lattice, finer: list[Lattice], signal: float, strong: bool
) -> ShadowQuantile:
    """The question for the cap on the size of a shadow: candidates for a quantile of the sizes."""
    caps = rules.caps(lattice)[1]
    walks = [rules.walk_caps(int(cap), lattice, finer, strong) for cap in caps]
    then = tuple(zip(finer, zip(*walks, strict=True), strict=True)) if finer else ()
    return ShadowQuantile(caps, rules.cap_quantile(signal), lattice, ENDPOINT_WEIGHT, then, rules.norm)


def random_scale(queries: Integers, grid: Grid) -> float:
    """How many times larger random rectangles are than the queries, measured by the medians of the shorter sides."""
    sides = np.minimum(queries[:, 2] - queries[:, 0], queries[:, 3] - queries[:, 1])
    return float(RANDOM_SIDE * min(grid.shape) / np.median(sides))
