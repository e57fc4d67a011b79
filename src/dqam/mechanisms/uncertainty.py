"""How far the answers of a flux histogram may be off, at no cost: all from what was published anyway.

Two kinds of error. *Noise* is drawn again: the release is taken for the truth, seen anew with fresh noise of the same
scales, and fitted; how far the answers move is how far they were moved. What the *model* cannot say is one number for
a release, the root of the sum of four squares:

  coarseness  half of what is lost if every second line of the lattice is taken out of the release, for what was lost
              when the lattice was laid over the trips
  turning     trips come back to a rectangle in ways that no histogram can tell: a share of the trips
  misfit      and where they do so much that what was measured is not consistent, consistency moves the answers
  drawing     towards an even spread, where there was little to see

Where an answer is near 0 or all trips, both come down to nothing: it cannot be off by more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist

import numpy as np

from dqam.errors import InputError
from dqam.geometry.arrays import Floats, Integers
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.lattice import Lattice, Parts, flat
from dqam.mechanisms.flux import Estimate, Seen

AGAIN = 8  # fresh noises
COARSENESS, TURNING, MISFIT, DRAWING = 0.5, 0.011, 1.3, 0.8
UNSEEN = 0.35  # of the trips: by how much an even spread is off, where nothing but the number of trips is known
LOW, HIGH = 0.08, 0.03  # within these shares of 0 and of all trips the model's error comes down


@dataclass(frozen=True, eq=False)
class Doubt:
    """How far the answers of `histogram` may be off.

    model    the standard deviation of what the model cannot say, in trips
    noise    the standard deviation of the number of trips
    lattice  where the trips were seen; None where they were only counted, so that all answers move with their number
    moved    float64[times, numbers of the lattice]: how far fresh noise moved what the histogram was refined from
    """

    histogram: SpatialHistogram
    model: float
    noise: float
    lattice: Lattice | None = None
    moved: Floats | None = None

    @cached_property
    def _corners(self) -> Floats | None:
        """Of all that fresh noise moved; reckoned once."""
        if self.lattice is None or self.moved is None:
            return None
        return np.stack([self.lattice.corners(*self.lattice.parts(numbers)) for numbers in self.moved])

    def deviations(self, rectangles: Integers) -> Floats:
        """The standard deviation of the answer to each rectangle."""
        total = max(float(self.histogram.total), 1e-9)
        share = np.clip(self.histogram.answers(rectangles) / total, 0, 1)
        noise = (share * self.noise) ** 2
        if self.lattice is not None and self._corners is not None:
            rows, columns = self.histogram.faces.shape
            moved, all_trips = (
                self.lattice.answers_by(self._corners, some) for some in (rectangles, np.array([[0, 0, columns, rows]]))
            )
            squares = np.square(moved - share * all_trips)  # apart from what the noise in the number of trips moves
            noise += squares.cumsum(axis=0)[-1] / len(squares)  # in the same order for any number of rectangles
        model = self.model * np.sqrt(np.minimum(1.0, np.minimum(share / LOW, (1 - share) / HIGH)))
        deviations: Floats = np.sqrt(noise + model**2)
        return deviations

    def intervals(self, rectangles: Integers, confidence: float = 0.9) -> tuple[Floats, Floats]:
        """From where to where the true count is, with this confidence; never below 0 or above what all trips may be."""
        if not 0 < confidence < 1:
            raise InputError(f"A confidence is between 0 and 1; got {confidence}.")
        wide = -NormalDist().inv_cdf((1 - confidence) / 2)
        off, most = wide * self.deviations(rectangles), self.histogram.total + wide * self.noise
        answers = self.histogram.answers(rectangles)
        return np.clip(answers - off, 0, most), np.clip(answers + off, 0, most)


def doubt(estimate: Estimate, seed: int = 0) -> Doubt:
    """How far an estimate may be off; the seed is for the fresh noise, and hides nothing."""
    histogram, size = estimate.histogram, estimate.size
    rng = np.random.default_rng(seed)
    if estimate.seen is None or estimate.kept is None:
        return Doubt(histogram, UNSEEN * size.trips, size.noise)
    seen, kept = estimate.seen, estimate.kept
    moved, moved_fits = [], []
    for _ in range(AGAIN):
        met, missed = np.array((size.answer, size.trips - size.answer)) + rng.laplace(0, size.noise / 2, 2)
        other = replace(size, trips=max(float(met + missed), 1.0), answer=max(float(min(met, met + missed)), 0.0))
        measured, fitted = seen.again(kept, other, rng)
        moved_fits.append(seen.distance(measured, fitted))
        moved.append(estimate.keep * (flat(fitted) - flat(kept)))
    misfit = max(0.0, estimate.misfit - float(np.mean(moved_fits)))
    model = (
        COARSENESS**2 * _coarseness(seen, kept)
        + (TURNING * size.trips) ** 2
        + MISFIT**2 * misfit
        + DRAWING**2 * estimate.drawn
    )
    return Doubt(histogram, float(np.sqrt(model)), size.noise, seen.lattice, np.stack(moved))


def _coarseness(seen: Seen, kept: Parts) -> float:
    """The mean square distance, in answers, to the release without every second line of its lattice; 0 where that is
    the grid."""
    if (seen.lattice.north[-1], seen.lattice.east[-1]) == seen.lattice.shape:
        return 0.0
    rows, columns = (np.append(np.arange(0, side, 2), side) for side in seen.lattice.shape)
    half = Lattice(columns, rows)
    a, v, h = kept
    merged = (
        np.add.reduceat(np.add.reduceat(a, rows[:-1], axis=0), columns[:-1], axis=1),
        np.add.reduceat(v, rows[:-1], axis=0)[:, columns[1:-1] - 1],
        np.add.reduceat(h, columns[:-1], axis=1)[rows[1:-1] - 1],
    )
    return seen.distance(half.refine(*merged), kept)
