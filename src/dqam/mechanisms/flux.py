"""Flux: endpoints and crossings of shadows on a lattice, made consistent, and spread over the grid.

1. How many trips there are and the average answer; with them the signal s = trips * epsilon, which all rules below
   follow.
2. A lattice of so many cells that noise and coarseness are of one size.
3. One measurement: the shadows of all trips (`dqam.statistics.shadows`) on that lattice, each capped. A shadow answers
   rectangles as its trip does, once, so that what trips count twice has mostly gone before any noise is drawn.
4. Edges are scaled so that the average answer is right: what caps cut off is put back where there is flux.
5. The fit: of all histograms whose answers grow with the rectangle, and are 0 to n, the closest to what was measured,
   by numbers (where there is noise) and by answers (where real trips are not consistent).
6. The lattice is refined to the grid, which keeps it consistent, and rounding errors are repaired.
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
from dqam.geometry.lattice import Lattice
from dqam.mechanisms.flux_fit import ENDPOINT_WEIGHT, LatticeMeasurement, calibrated, exactly
from dqam.mechanisms.flux_uncertainty import FluxEstimate
from dqam.mechanisms.size import measure_size
from dqam.mechanisms.spreading import consistent, spread_evenly
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.statistics import SHADOW, QueryTotals, Question, ShadowQuantile, ShadowSums

FIRST_LOOK = Fraction(1, 20)  # of the budget, at the size
MOST_SIDE = 48  # of the lattice: shadows on finer ones cost more and gain little
CAP = Fraction(1, 25)  # of what is left for it
ASKED = 2_000  # queries whose answers the fit tries to keep


def size_share(signal: float) -> Fraction:
    """The share of the budget for the number of trips and the average answer: half where the signal is weak, a
    twentieth where it is strong.

    >>> [float(size_share(signal)) for signal in (100, 1_000, 10_000, 1e6)]
    [0.42, 0.21, 0.11, 0.05]
    """
    return max(FIRST_LOOK, Fraction(round(100 * min(0.5, 0.21 * (max(signal, 1.0) / 1_000) ** -0.3)), 100))


def lattice_side(signal: float) -> int:
    """Cells along a side of the lattice.

    >>> [lattice_side(signal) for signal in (100, 1_000, 10_000, 1e6)]
    [5, 9, 20, 48]
    """
    return max(5, min(MOST_SIDE, round(0.8 * max(signal, 1.0) ** 0.35)))


def cap_quantile(signal: float) -> Fraction:
    """Which share of the trips is below the cap: few where noise is what matters, nearly all where bias is.

    >>> [float(cap_quantile(signal)) for signal in (1_000, 3_000, 1e5)]
    [0.7, 0.8, 0.95]
    """
    return Fraction(round(100 * min(0.95, 0.7 + 0.22 * np.log10(max(signal, 1_000.0) / 1_000))), 100)


@dataclass(frozen=True)
class Flux:
    """Flux. What is not given follows from the signal s = trips * epsilon.

    side   of the lattice, in cells
    least  signal below which trips are spread evenly
    known  signal from which the cap is measured, not guessed
    rich   signal from which no one would mistake trips for evenly spread: below, the fit is drawn to that
    """

    name: ClassVar[str] = "flux"
    about: ClassVar[str] = "shadows of trips on a lattice, with answers that grow with the area"
    monotone: ClassVar[bool] = True

    side: int | None = None
    least: float = 140.0
    known: float = 1_000.0
    rich: float = 5_000.0

    def __post_init__(self) -> None:
        if self.side is not None and self.side < 1:
            raise InputError(f"side must be at least 1 cell; got {self.side}.")

    def known_questions(self, grid: Grid, queries: Integers) -> tuple[Question, ...]:
        """The size; all others follow from it."""
        return (QueryTotals(queries),)

    def synthesize(self, curator: Curator, queries: Integers, budget: Budget) -> FluxEstimate:
        """Spend all of `budget`."""
        grid = curator.grid
        size = measure_size(curator, queries, budget, self.least, FIRST_LOOK, size_share)
        if not size.enough:
            return FluxEstimate(exactly(consistent(spread_evenly(grid, size), size), size.trips), size)
        lattice = Lattice.even(grid, self.side or lattice_side(size.signal))
        cap = self._cap(curator, lattice, size.signal, budget)
        noise = cap * curator.unit.max_trips / float(budget.left)
        sums = curator.measure(ShadowSums(lattice, cap, ENDPOINT_WEIGHT), budget) / SHADOW
        measurement = LatticeMeasurement(lattice, noise, lattice.snap(queries[:: max(1, len(queries) // ASKED)]))
        measured = calibrated(lattice, lattice.parts(sums / measurement.weights), size)
        fitted = measurement.fit(measured, size.trips)
        kept, keep = measurement.drawn_to_even(measured, fitted, size) if size.signal < self.rich else (fitted, 1.0)
        histogram = exactly(SpatialHistogram.from_flux(grid, *lattice.refine(*kept)), size.trips)
        moved = measurement.distance(measured, fitted), measurement.distance(fitted, kept)
        return FluxEstimate(histogram, size, measurement, kept, keep, *moved)

    def _cap(self, curator: Curator, lattice: Lattice, signal: float, budget: Budget) -> int:
        """The cap on a shadow's size: a guess (half a side long) or, where that can be known, a quantile.

        With 4,096 lattice cells a side it is at most 12,306, which is below the limit of `ShadowSums`.
        """
        guess = ENDPOINT_WEIGHT + max(lattice.shape) / 2
        if signal < self.known:
            return round(guess)
        caps = np.unique(np.rint(np.geomspace(ENDPOINT_WEIGHT, 6 * guess, 40)).astype(np.int64))
        scores = ShadowQuantile(caps, cap_quantile(signal), lattice, ENDPOINT_WEIGHT)
        return int(caps[curator.select(scores, budget, budget.left * CAP)])
