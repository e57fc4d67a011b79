"""How far the answers of flux may be off, at no cost: all from what was published anyway.

There are two kinds of error. *Noise* is resampled: the release is taken for the truth, measured anew with fresh noise
of the same scales, and fitted; how far the answers move is how far they were moved. What the *model* cannot represent
is one number for a release, the root of the sum of four squares:

  coarseness  half of what is lost if every second line of the lattice is taken out of the release, as an estimate of
              what was lost when the lattice was laid over the trips
  returns     trips come back to a rectangle in ways that no histogram can represent: a share of the trips
  misfit      and where they do so much that what was measured is not consistent, consistency moves the answers
  shrinkage   towards an even spread, where there was little to see

All of this is about the coarsest lattice. Finer ones take away more of its coarseness than their own noise adds, so
what is left over pays for that noise. What even the finest one cannot show is added by `Uncertainty`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dqam.geometry.lattice import Lattice, Parts, flat
from dqam.mechanisms.flux_fit import LatticeMeasurement
from dqam.mechanisms.mechanism import Synthesis
from dqam.mechanisms.size import SizeEstimate
from dqam.values.uncertainty import Uncertainty

RESAMPLES = 8
COARSENESS, RETURNS, MISFIT, SHRINKAGE = 0.5, 0.011, 1.3, 0.8
UNSEEN = 0.35  # of the trips: by how much an even spread is off, where nothing but the number of trips is known


@dataclass(frozen=True, eq=False)
class FluxEstimate(Synthesis):
    """A histogram, and what is known of how it came about; all of it may be published.

    measurement  how the trips were measured; None where they were only counted
    kept         the numbers on the lattice that the histogram was refined from
    keep         how much of the distance to an even spread was kept
    misfit       the mean square distance, in answers, that consistency moved what was measured
    shrunk       and that it was then moved towards an even spread
    finest       side of the cells of the finest lattice, in cells of the grid; 0 where only one lattice was measured
    """

    size: SizeEstimate
    measurement: LatticeMeasurement | None = None
    kept: Parts | None = None
    keep: float = 1.0
    misfit: float = 0.0
    shrunk: float = 0.0
    finest: float = 0.0

    def uncertainty(self) -> Uncertainty:
        """Resampled."""
        return resample(self)


def resample(estimate: FluxEstimate, seed: int = 0) -> Uncertainty:
    """How far an estimate may be off; the seed is for the fresh noise, and hides nothing."""
    histogram, size = estimate.histogram, estimate.size
    rng = np.random.default_rng(seed)
    if estimate.measurement is None or estimate.kept is None:
        return Uncertainty(histogram, UNSEEN * size.trips, size.noise)
    measurement, kept = estimate.measurement, estimate.kept
    moved, moved_fits = [], []
    for _ in range(RESAMPLES):
        met, missed = np.array((size.answer, size.trips - size.answer)) + rng.laplace(0, size.noise / 2, 2)
        other = replace(size, trips=max(float(met + missed), 1.0), answer=max(float(min(met, met + missed)), 0.0))
        measured, fitted = measurement.again(kept, other, rng)
        moved_fits.append(measurement.distance(measured, fitted))
        moved.append(estimate.keep * (flat(fitted) - flat(kept)))
    misfit = max(0.0, estimate.misfit - float(np.mean(moved_fits)))
    model = (
        COARSENESS**2 * _coarseness(measurement, kept)
        + (RETURNS * size.trips) ** 2
        + MISFIT**2 * misfit
        + SHRINKAGE**2 * estimate.shrunk
    )
    return Uncertainty(
        histogram, float(np.sqrt(model)), size.noise, measurement.lattice, np.stack(moved), estimate.finest
    )


def _coarseness(measurement: LatticeMeasurement, kept: Parts) -> float:
    """The mean square distance, in answers, to the release without every second line of its lattice; 0 where that is
    the grid."""
    if (measurement.lattice.north[-1], measurement.lattice.east[-1]) == measurement.lattice.shape:
        return 0.0
    rows, columns = (np.append(np.arange(0, side, 2), side) for side in measurement.lattice.shape)
    half = Lattice(columns, rows)
    return measurement.distance(half.refine(*half.add_up(*kept)), kept)
