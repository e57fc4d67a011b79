"""The uncertainty of the answers of flux, computed at no privacy cost from what is published anyway.

There are two kinds of error. *Noise* is resampled: the release is taken as the truth, measured again with fresh noise
of the same scale, and fitted. How far the answers move estimates how far noise moved them in the first place. The error
of the *model* is one number for a release, the root of the sum of the squares of four terms:

  coarseness  half of the change when every second line of the lattice is removed from the release, which estimates
              what was lost when the trips were reduced to the lattice
  returns     a share of the trips, because trips return to rectangles in ways that no histogram can represent
  misfit      how far the fit moved the measured answers to make them consistent, beyond what noise explains
  shrinkage   how far the fit was then drawn towards an even spread, if the signal was weak

If the signal was weak, the uncertainty of each answer also includes how far this answer was drawn towards an even
spread, because it may be off by as much.

All of this is computed on the coarsest lattice. Finer lattices reduce the error due to its coarseness by more than
their own noise adds, so the coarseness term covers that noise too. `Uncertainty` adds a term for what even the finest
lattice cannot show.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dqam.geometry.arrays import Floats
from dqam.geometry.lattice import Lattice, Parts, flat
from dqam.mechanisms.flux_fit import LatticeMeasurement, ShareMeasurement
from dqam.mechanisms.mechanism import Synthesis
from dqam.mechanisms.size import SizeEstimate
from dqam.values.uncertainty import Uncertainty

RESAMPLES = 8
COARSENESS, RETURNS, MISFIT, SHRINKAGE = 0.5, 0.011, 1.3, 0.65
DERIVED = 0.015  # takes the place of RETURNS if crossings were derived from shares
UNEVEN = 0.5  # side of the squares within which trips count as even, in coarse cells, if the signal is weak
UNSEEN = 0.35  # model error as a share of the trips, if nothing but the number of trips was measured


@dataclass(frozen=True, eq=False)
class FluxEstimate(Synthesis):
    """A histogram, and how it was made; all of this may be published.

    measurement  how the trips were measured on the coarsest lattice; None if they were only counted
    kept         the final numbers on the coarsest lattice
    keep         the share of the distance to an even spread that was kept
    misfit       mean squared distance, in answers, by which the fit moved the measurement
    shrunk       mean squared distance, in answers, by which the fit was then drawn towards an even spread
    finest       side of the cells of the finest lattice, in cells of the grid; 0 if only one lattice was measured
    drawn        float64[numbers of the coarsest lattice]: how far each was drawn towards an even spread, or None
    share        the share of a public prior in what the fit was drawn towards
    """

    size: SizeEstimate
    measurement: LatticeMeasurement | None = None
    kept: Parts | None = None
    keep: float = 1.0
    misfit: float = 0.0
    shrunk: float = 0.0
    finest: float = 0.0
    drawn: Floats | None = None
    share: float = 0.0

    def uncertainty(self) -> Uncertainty:
        """The uncertainty of the answers, from resampled noise."""
        return resample(self)


def resample(estimate: FluxEstimate, seed: int = 0) -> Uncertainty:
    """The uncertainty of an estimate; the seed is for the fresh noise, which hides nothing."""
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
    finest = estimate.finest
    if estimate.drawn is not None:  # one more displacement, scaled so that its square counts in full in the mean
        times = RESAMPLES + 1
        moved = [*(np.sqrt(times / RESAMPLES) * each for each in moved), np.sqrt(times) * estimate.drawn]
        finest = finest or max(1.0, UNEVEN * max(histogram.grid.shape) / max(measurement.lattice.shape))
    returns = DERIVED if isinstance(measurement, ShareMeasurement) else RETURNS
    model = (
        COARSENESS**2 * coarseness(measurement, kept)
        + (returns * size.trips) ** 2
        + MISFIT**2 * misfit
        + SHRINKAGE**2 * estimate.shrunk
    )
    return Uncertainty(histogram, float(np.sqrt(model)), size.noise, measurement.lattice, np.stack(moved), finest)


def coarseness(measurement: LatticeMeasurement, kept: Parts) -> float:
    """The mean squared distance, in answers, to the release without every second line of its lattice; 0 if the lattice
    has all lines of the grid."""
    if (measurement.lattice.north[-1], measurement.lattice.east[-1]) == measurement.lattice.shape:
        return 0.0
    rows, columns = (np.append(np.arange(0, side, 2), side) for side in measurement.lattice.shape)
    half = Lattice(columns, rows)
    return measurement.distance(half.refine(*half.add_up(*kept)), kept)
