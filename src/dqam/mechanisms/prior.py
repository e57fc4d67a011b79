"""A public prior: a pattern of where trips probably are, known before any trip is read.

Where the signal is weak, flux draws its fit towards an even spread. With a prior, it draws the fit towards a mixture of
the prior and the even spread instead: the mixture that is closest to what was measured. A mixture has one free number,
which noise moves little, so a prior that does not resemble the trips gets a small share. The detail of the fit within
coarse cells comes from the prior too, as far as the prior explains the pattern that was measured on the lattice.

All of this is post-processing of what was measured and of public numbers, so it costs no privacy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dqam.consistency.currents import CellTargets, SumTargets, fit_histogram
from dqam.geometry.arrays import Floats, Integers
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.lattice import Lattice, Parts
from dqam.mechanisms.flux_fit import ENDPOINT_WEIGHT, LatticeMeasurement, ShareMeasurement, exactly, from_shares, mixed
from dqam.mechanisms.flux_scales import NEAR, PINNED, STEPS
from dqam.mechanisms.flux_uncertainty import DERIVED, coarseness
from dqam.mechanisms.size import SizeEstimate

DIVIDED = 8  # parts into which coarse cells are divided for the detail of a prior, along each side
SHORT = 0.06  # by which the average answer of a useless prior is smaller than that of an even spread, at least
LEAST, MOST = 0.05, 20.0  # in the ratio of a prior to itself without detail: added to both, in means, and its limit
TRUST = 3  # power of the explained share of the pattern that the detail of a prior is trusted with
COARSE = 0.125  # of the mean squared change without every second line, that counts as an error of the fit
ENOUGH = 0.93  # of the average answer, that a prior must reach
DENSE_SIDES = 64, 32, 16, 8  # cells along a side of the lattices on which a density is made consistent


@dataclass(frozen=True, eq=False)
class Prior:
    """A public pattern of trips on a grid, on any scale.

    density    float64[rows, columns], visits of each cell: not negative, with a sum above 0
    histogram  a monotone histogram with this pattern, if one is known
    """

    grid: Grid
    density: Floats
    histogram: SpatialHistogram | None = None


@dataclass(frozen=True, eq=False)
class Drawn:
    """A fit that was drawn towards an even spread, or towards a mixture of it with a prior.

    kept     numbers on the lattice
    keep     the share of the fit in them
    share    the share of the prior in the rest
    on_grid  the numbers on the grid, with the detail of the prior; None if they are the refined numbers
    """

    kept: Parts
    keep: float
    share: float = 0.0
    on_grid: Parts | None = None

    def histogram(self, grid: Grid, lattice: Lattice, size: SizeEstimate) -> SpatialHistogram:
        """The histogram on the grid."""
        parts = lattice.refine(*self.kept) if self.on_grid is None else self.on_grid
        return exactly(SpatialHistogram.from_flux(grid, *parts), size.trips)


def draw(
    measurement: LatticeMeasurement, measured: Parts, fitted: Parts, prior: Prior | None, size: SizeEstimate
) -> Drawn:
    """Draw a fit towards an even spread or, with a prior, towards the mixture of both that is closest to the fit.

    Let D be the distance from the fit to that mixture, as the measurement would see it, and N the mean distance to it
    of fits to the mixture with fresh noise, plus the error of fits that derive crossings from shares. As in James-Stein
    shrinkage, the share 1 - N/D of the fit is kept, or nothing if this is negative. The result on the grid is a mixture
    of three consistent histograms, and therefore consistent: the fit with the detail of the prior, the prior, and the
    even spread.
    """
    if prior is None:
        return Drawn(*measurement.drawn_to_even(measured, fitted, size))
    lattice, whole = measurement.lattice, scaled_prior(prior, size)
    even, seen = measurement.even(measured, size), measurement.seen(whole, size)
    short = 1 - size.mean_answer(whole) / size.mean_answer(
        SpatialHistogram.from_flux(prior.grid, *lattice.refine(*even))
    )
    share = measurement.resemblance(fitted, seen, even) * min(max(1 - short / SHORT, 0.0), 1.0)
    target = mixed(share, seen, even)
    found = measurement.distance(fitted, target)
    error = measurement.blurred(target, size)
    if isinstance(measurement, ShareMeasurement):  # whose crossings are only derived
        error += (DERIVED * size.trips) ** 2 + COARSE * coarseness(measurement, fitted)
    keep = max(0.0, 1 - error / found) if found > 0 else 0.0
    unlike = max(found - error, 0.0)
    explained = 1 - unlike / max(measurement.distance(fitted, even) - error, unlike, 1e-9)
    parts: Parts = whole.endpoints, whole.vertical, whole.horizontal
    detailed = with_detail_of(parts, share * explained**TRUST, measurement, fitted, size.trips) if keep else parts
    on_grid = mixed(keep, detailed, mixed(share, parts, lattice.refine(*even)))
    return Drawn(lattice.add_up(*on_grid), keep, share, on_grid)


def with_detail_of(prior: Parts, trust: float, measurement: LatticeMeasurement, fitted: Parts, trips: float) -> Parts:
    """Numbers on the grid that add up to the fit, approximately, with the detail of the prior within coarse cells.

    The target is the refined fit, of which the share `trust` is multiplied by the ratio of the prior to the prior
    without its detail. The result is the closest of all consistent numbers, with their sums pinned to the fit.
    """
    fine = divided(measurement.lattice)
    inner = measurement.lattice.within(fine)
    known, refined = fine.add_up(*prior), inner.refine(*fitted)
    smooth = inner.refine(*inner.add_up(*known))
    a, v, h = (
        base * (1 - trust + trust * _ratio(part, low)) for base, part, low in zip(refined, known, smooth, strict=True)
    )
    weight = 1 / (2 * measurement.noise**2)
    pin, ends = PINNED * weight, ENDPOINT_WEIGHT**2
    made = fit_histogram(
        fine.coarse(),
        trips,
        CellTargets(a, v, h, ends * weight, weight, weight),
        SumTargets(inner, fitted, ends * pin, pin),
        start=refined,
        tolerance=NEAR,
        most_steps=STEPS,
    ).histogram
    return fine.refine(made.endpoints, made.vertical, made.horizontal)


def _ratio(part: Floats, low: Floats) -> Floats:
    """The ratio of numbers to smoother ones, near 1 where both are small."""
    least = LEAST * part.mean() if part.size else 0.0
    return np.minimum((part + least) / (low + least), MOST) if least > 0 else np.ones(part.shape)


def scaled_prior(prior: Prior, size: SizeEstimate) -> SpatialHistogram:
    """The prior with the measured number of trips and average answer, as far as a consistent histogram can have it."""
    if prior.histogram is not None:
        found = _with_fewer_crossings(prior.histogram, size)
        if size.mean_answer(found) > ENOUGH * size.answer:
            return found
    return _of_density(prior.grid, prior.density, size)


def _with_fewer_crossings(histogram: SpatialHistogram, size: SizeEstimate) -> SpatialHistogram:
    """The histogram scaled to the trips, and its crossings down to the average answer, which preserves consistency."""
    factor = size.trips / float(histogram.total)
    a, v, h = (factor * part for part in (histogram.endpoints, histogram.vertical, histogram.horizontal))
    ends = size.mean_answer(SpatialHistogram.from_flux(histogram.grid, a, 0 * v, 0 * h))
    flux = size.mean_answer(SpatialHistogram.from_flux(histogram.grid, a, v, h)) - ends
    share = min(max((size.answer - ends) / flux, 0.0), 1.0) if flux > 0 else 1.0
    return exactly(SpatialHistogram.from_flux(histogram.grid, a, share * v, share * h), size.trips)


def _of_density(grid: Grid, density: Floats, size: SizeEstimate) -> SpatialHistogram:
    """Endpoints in proportion to a density, and crossings to its means, made consistent on a lattice and refined.

    Trips cannot have a density that is too rough: consistency then removes crossings. The lattice is therefore the
    finest on which enough of the average answer is left.
    """
    ends = float(ENDPOINT_WEIGHT**2)
    for side in DENSE_SIDES:
        lattice = Lattice.even(grid, side)
        share = np.add.reduceat(np.add.reduceat(density, lattice.north[:-1], axis=0), lattice.east[:-1], axis=1)
        target = CellTargets(*from_shares(lattice, share * (size.trips / share.sum()), size), ends, 1.0, 1.0)
        made = fit_histogram(lattice.coarse(), size.trips, target, tolerance=NEAR, most_steps=STEPS).histogram
        parts = lattice.refine(made.endpoints, made.vertical, made.horizontal)
        found = exactly(SpatialHistogram.from_flux(grid, *parts), size.trips)
        if size.mean_answer(found) > ENOUGH * size.answer:
            break
    return found


def divided(lattice: Lattice) -> Lattice:
    """The lattice with each of its cells divided into up to 8 x 8 parts.

    >>> divided(Lattice(np.array([0, 3, 20]), np.array([0, 1]))).east
    array([ 0,  1,  2,  3,  5,  7,  9, 12, 14, 16, 18, 20])
    """

    def lines(of: Integers) -> Integers:
        parts = np.linspace(of[:-1], of[1:], DIVIDED + 1)
        return np.unique(np.rint(parts).astype(np.int64))

    return Lattice(lines(lattice.east), lines(lattice.north))
