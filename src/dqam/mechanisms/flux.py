"""Flux: endpoints and crossings of shadows on a lattice, made consistent, and spread over the grid.

1. How many trips there are and the mean answer; with them the worth w = trips * eps, which all rules below follow.
2. A lattice of so many cells that noise and coarseness are of one size.
3. One measurement: the shadows of all trips (`dqam.statistics.shadows`) on that lattice, each capped. A shadow answers
   rectangles as its trip does, once, so that what trips count twice has mostly gone before any noise is drawn.
4. Edges are scaled so that the mean answer is right: what caps cut off is put back where there is flux.
5. The fit: of all histograms whose answers grow with the rectangle, and are 0 to n, the closest to what was measured,
   by numbers (where there is noise) and by answers (where real trips are not consistent).
6. The lattice is refined to the grid, which keeps it consistent, and rounding errors are repaired.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dqam.consistency.cone import find_currents, repair
from dqam.consistency.currents import Answers, Cells, fit
from dqam.errors import InputError
from dqam.geometry.arrays import Floats, Integers
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.lattice import Lattice, Parts, flat
from dqam.mechanisms.uniform import Size, consistent, measure_size, spread_evenly
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.statistics.questions import ShadowQuantile, ShadowSums
from dqam.statistics.records import SHADOW

ENDPOINT_WEIGHT = 3  # how much better endpoints are measured than crossings
GLANCE = Fraction(1, 20)  # of the budget, for a first look at the size
MOST_SIDE = 48  # of the lattice: shadows on finer ones cost more and gain little
CAP = Fraction(1, 25)  # of what is left for it
ASKED = 2_000  # queries whose answers the fit tries to keep
TRUST = 0.01  # in these answers, against the numbers
PLENTY = 3_000.0  # worth from which missing endpoints are taken for noise, and not for what the cap cut off
BLANKS = 4  # fits to noise alone
STEPS, NEAR = 4_000, 1e-3  # of the fit


def size_share(worth: float) -> Fraction:
    """Of the budget, for the number of trips and the mean answer: half where there is little, a twentieth where much.

    >>> [float(size_share(worth)) for worth in (100, 1_000, 10_000, 1e6)]
    [0.42, 0.21, 0.11, 0.05]
    """
    return max(GLANCE, Fraction(round(100 * min(0.5, 0.21 * (max(worth, 1.0) / 1_000) ** -0.3)), 100))


def lattice_side(worth: float) -> int:
    """Cells along a side of the lattice.

    >>> [lattice_side(worth) for worth in (100, 1_000, 10_000, 1e6)]
    [5, 9, 20, 48]
    """
    return max(5, min(MOST_SIDE, round(0.8 * max(worth, 1.0) ** 0.35)))


def cap_quantile(worth: float) -> Fraction:
    """Which share of the trips is below the cap: few where noise is what matters, nearly all where bias is.

    >>> [float(cap_quantile(worth)) for worth in (1_000, 3_000, 1e5)]
    [0.7, 0.8, 0.95]
    """
    return Fraction(round(100 * min(0.95, 0.7 + 0.22 * np.log10(max(worth, 1_000.0) / 1_000))), 100)


@dataclass(frozen=True)
class Flux:
    """Flux. What is not given follows from the worth w = trips * eps.

    side   of the lattice, in cells
    least  worth below which trips are spread evenly
    known  worth from which the cap is measured, not guessed
    rich   worth from which no one would mistake trips for evenly spread: below, the fit is drawn to that
    """

    side: int | None = None
    least: float = 140.0
    known: float = 1_000.0
    rich: float = 5_000.0

    def __post_init__(self) -> None:
        if self.side is not None and self.side < 1:
            raise InputError(f"A lattice has 1 or more cells along a side; got {self.side}.")

    def synthesize(self, curator: Curator, queries: Integers, budget: Budget) -> SpatialHistogram:
        """Spend all of `budget`."""
        return self.estimate(curator, queries, budget).histogram

    def estimate(self, curator: Curator, queries: Integers, budget: Budget) -> Estimate:
        """The same with what is needed to tell how far answers may be off."""
        grid = curator.grid
        size = measure_size(curator, queries, budget, self.least, GLANCE, size_share)
        if not size.enough:
            return Estimate(exactly(consistent(spread_evenly(grid, size), size), size.trips), size)
        lattice = Lattice.even(grid, self.side or lattice_side(size.worth))
        cap = self._cap(curator, lattice, size.worth, budget)
        noise = cap * curator.unit.max_trips / float(budget.left)
        sums = curator.measure(ShadowSums(lattice, cap, ENDPOINT_WEIGHT), budget) / SHADOW
        seen = Seen(lattice, noise, lattice.snap(queries[:: max(1, len(queries) // ASKED)]))
        measured = calibrated(lattice, lattice.parts(sums / seen.weights), size)
        fitted = seen.fit(measured, size.trips)
        kept, keep = seen.drawn_to_even(measured, fitted, size) if size.worth < self.rich else (fitted, 1.0)
        histogram = exactly(SpatialHistogram.from_flux(grid, *lattice.refine(*kept)), size.trips)
        moved = seen.distance(measured, fitted), seen.distance(fitted, kept)
        return Estimate(histogram, size, seen, kept, keep, *moved)

    def _cap(self, curator: Curator, lattice: Lattice, worth: float, budget: Budget) -> int:
        """The cap on a shadow's size: a guess (half a side long) or, where that can be known, a quantile.

        With 4,096 lattice cells a side it is at most 12,306, which is below the limit of `ShadowSums`.
        """
        guess = ENDPOINT_WEIGHT + max(lattice.shape) / 2
        if worth < self.known:
            return round(guess)
        caps = np.unique(np.rint(np.geomspace(ENDPOINT_WEIGHT, 6 * guess, 40)).astype(np.int64))
        scores = ShadowQuantile(caps, cap_quantile(worth), lattice, ENDPOINT_WEIGHT)
        return int(caps[curator.select(scores, budget, budget.left * CAP)])


@dataclass(frozen=True, eq=False)
class Estimate:
    """A histogram, and what is known of how it came about; all of it may be published.

    seen    how the trips were seen; None where they were only counted
    kept    the numbers on the lattice that the histogram was refined from
    keep    how much of the distance to an even spread was kept
    misfit  the mean square distance, in answers, that consistency moved what was measured
    drawn   and that it was then drawn to an even spread
    """

    histogram: SpatialHistogram
    size: Size
    seen: Seen | None = None
    kept: Parts | None = None
    keep: float = 1.0
    misfit: float = 0.0
    drawn: float = 0.0


@dataclass(frozen=True, eq=False)
class Seen:
    """How trips were seen: on a lattice, with noise of a scale, for queries snapped to the lattice."""

    lattice: Lattice
    noise: float
    queries: Integers

    @property
    def weights(self) -> Floats:
        """What each number was multiplied by before it was measured."""
        return np.where(np.arange(self.lattice.numbers) < self.lattice.cells, float(ENDPOINT_WEIGHT), 1.0)

    def fit(self, measured: Parts, trips: float) -> Parts:
        """The consistent numbers closest to `measured`, by themselves and by their answers to the queries."""
        coarse, cells = self.lattice.coarse(), self.lattice.cells
        trust = Answers(self.queries, self._answers(measured), TRUST * cells / len(self.queries))
        near = Cells(*measured, 1.0, 1 / cells, 1 / cells)
        found = fit(coarse, trips, near, answers=trust, tolerance=NEAR, most_steps=STEPS).histogram
        return found.endpoints, found.vertical, found.horizontal

    def again(self, truth: Parts, size: Size, rng: np.random.Generator) -> tuple[Parts, Parts]:
        """What might be measured, and then fitted, if `truth` were true: with new noise."""
        noisy = flat(truth) + rng.laplace(0, self.noise, self.lattice.numbers) / self.weights
        measured = calibrated(self.lattice, self.lattice.parts(noisy), size)
        return measured, self.fit(measured, size.trips)

    def distance(self, one: Parts, other: Parts) -> float:
        """The mean square difference of the answers to the queries."""
        return float(((self._answers(one) - self._answers(other)) ** 2).mean())

    def drawn_to_even(self, measured: Parts, fitted: Parts, size: Size) -> tuple[Parts, float]:
        """The fit, drawn to trips spread evenly the more its distance to them can be noise; and what is kept of it.

        Let D be the distance from the fit to the even spread, and N that of fits to an even spread seen with new noise.
        All between the two is consistent; the part 1 - N/2D of the way is kept.
        """
        even = self.fit(even_shadows(self.lattice, measured, size), size.trips)
        rng = np.random.default_rng(0)  # as good as any: nothing here is to be hidden
        blurred = [self.distance(self.again(even, size, rng)[1], even) for _ in range(BLANKS)]
        found = self.distance(fitted, even)
        keep = max(0.0, 1 - float(np.mean(blurred)) / (2 * found)) if found > 0 else 0.0
        a, v, h = (level + keep * (part - level) for part, level in zip(fitted, even, strict=True))
        return (a, v, h), keep

    def _answers(self, parts: Parts) -> Floats:
        answers: Floats = SpatialHistogram.from_flux(self.lattice.coarse(), *parts).answers(self.queries)
        return answers


def calibrated(lattice: Lattice, measured: Parts, size: Size) -> Parts:
    """Endpoints that add up to the trips, and edges scaled so that the mean answer to the query set is right.

    Endpoints that noise hides are missing in all cells alike, those that the cap cuts off by a part of each: the more
    worth, the more of them are added evenly, and the rest by a factor (or evenly too, where most are missing).
    """
    endpoints, vertical, horizontal = measured
    faces, inner_vertical, inner_horizontal = size.covers
    factors = lattice.gather(
        faces,
        (faces[:, :-1] + faces[:, 1:]) / 2 - inner_vertical,
        (faces[:-1] + faces[1:]) / 2 - inner_horizontal,
    )
    missing = size.trips - float(endpoints.sum())
    endpoints = endpoints + min(1.0, size.worth / PLENTY) * missing / endpoints.size
    found = float(endpoints.sum())
    if found > size.trips / 2:
        endpoints = endpoints * (size.trips / found)
    else:
        endpoints = endpoints + (size.trips - found) / endpoints.size
    flux = float((factors[1] * vertical).sum() + (factors[2] * horizontal).sum())
    wanted = size.answer - float((factors[0] * endpoints).sum())
    scale = min(max(wanted / flux, 1 / 3), 3.0) if flux > 0 else 1.0
    return endpoints, vertical * scale, horizontal * scale


def even_shadows(lattice: Lattice, measured: Parts, size: Size) -> Parts:
    """Endpoints by area, and the same flux through every part of a line."""
    wide, high = np.diff(lattice.east), np.diff(lattice.north)
    _, vertical, horizontal = measured
    along, across = np.ones(vertical.shape) * high[:, None], np.ones(horizontal.shape) * wide
    flux = max(float(vertical.sum() + horizontal.sum()), 0.0) / max(float(along.sum() + across.sum()), 1.0)
    share = size.trips / float(wide.sum() * high.sum())
    return calibrated(lattice, (high[:, None] * wide * share, along * flux, across * flux), size)


def exactly(histogram: SpatialHistogram, trips: float) -> SpatialHistogram:
    """A consistent histogram without its rounding errors."""
    parts: Parts = histogram.endpoints, histogram.vertical, histogram.horizontal
    y, z = find_currents(*parts)
    made = repair(*parts, y, z, trips)
    return SpatialHistogram.from_flux(histogram.grid, made.endpoints, made.vertical, made.horizontal)
