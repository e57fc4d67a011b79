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
from dqam.mechanisms.flux_fit import ENDPOINT_WEIGHT, LatticeMeasurement, exactly, mixed
from dqam.mechanisms.flux_scales import NEAR, PINNED, STEPS
from dqam.mechanisms.flux_uncertainty import coarseness, returns
from dqam.mechanisms.size import SizeEstimate

DIVIDED = 8  # parts into which coarse cells are divided for the detail of a prior, along each side
COARSE = 0.125  # of the mean squared change without every second line, that counts as an error of the fit
HALVINGS = 30  # steps in which the factor on crossings is found
DENSE_SIDE = 64  # cells along a side of the lattice on which a density is made consistent
DENSE_TRIPS = 10_000.0  # number of trips in the pattern of a density


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
    measurement: LatticeMeasurement, measured: Parts, fitted: Parts, prior: SpatialHistogram | None, size: SizeEstimate
) -> Drawn:
    """Draw a fit towards an even spread or, with a prior, towards the mixture of both that is closest to the fit.

    Let D be the distance from the fit to that mixture, as the measurement would see it, and N the mean distance to it
    of fits to the mixture with fresh noise, plus the error of the fit that is not due to noise. As in James-Stein
    shrinkage, the share 1 - N/D of the fit is kept, or nothing if this is negative. The result on the grid is a mixture
    of three consistent histograms, and therefore consistent: the fit with the detail of the prior, the prior, and the
    even spread.
    """
    if prior is None:
        return Drawn(*measurement.drawn_to_even(measured, fitted, size))
    lattice, whole = measurement.lattice, scaled_prior(prior, size)
    even, seen = measurement.even(measured, size), measurement.seen(whole, size)
    share = measurement.resemblance(fitted, seen, even)
    target = mixed(share, seen, even)
    found = measurement.distance(fitted, target)
    model = (returns(measurement) * size.trips) ** 2 + COARSE * coarseness(measurement, fitted)
    error = measurement.blurred(target, size) + model
    keep = max(0.0, 1 - error / found) if found > 0 else 0.0
    unlike = max(found - error, 0.0)
    explained = 1 - unlike / max(measurement.distance(fitted, even) - error, unlike, 1e-9)
    parts: Parts = whole.endpoints, whole.vertical, whole.horizontal
    detailed = with_detail_of(parts, share * explained**2, measurement, fitted, size.trips) if keep else parts
    on_grid = mixed(keep, detailed, mixed(share, parts, lattice.refine(*even)))
    return Drawn(lattice.add_up(*on_grid), keep, share, on_grid)


def with_detail_of(
    prior: Parts, trust: float, measurement: LatticeMeasurement, fitted: Parts, trips: float
) -> Parts:
    """Numbers on the grid that add up to the fit, approximately, with the detail of the prior within coarse cells.

    The target is the refined fit, of which the share `trust` is multiplied by the ratio of the prior to the prior
    without its detail. The result is the closest of all consistent numbers, with their sums pinned to the fit.
    """
    fine = divided(measurement.lattice)
    inner = measurement.lattice.within(fine)
    known, refined = fine.add_up(*prior), inner.refine(*fitted)
    smooth = inner.refine(*inner.add_up(*known))
    a, v, h = (
        base * (1 - trust) + trust * np.divide(base * part, low, out=base.copy(), where=low > 0)
        for base, part, low in zip(refined, known, smooth, strict=True)
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


def scaled_prior(prior: SpatialHistogram, size: SizeEstimate) -> SpatialHistogram:
    """The prior with the measured number of trips and, as far as its pattern allows, the measured average answer.

    All crossings are scaled down by one factor, which preserves consistency. More crossings could need more endpoints,
    so they are never scaled up.
    """
    factor = size.trips / float(prior.total)
    a, v, h = (factor * part for part in (prior.endpoints, prior.vertical, prior.horizontal))

    def with_crossings(share: float) -> SpatialHistogram:
        return SpatialHistogram.from_flux(prior.grid, a, share * v, share * h)

    low, high = 0.0, 1.0
    if size.mean_answer(with_crossings(1.0)) > size.answer:
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if size.mean_answer(with_crossings(middle)) < size.answer else (low, middle)
    return exactly(with_crossings(high), size.trips)


def divided(lattice: Lattice) -> Lattice:
    """The lattice with each of its cells divided into up to 8 x 8 parts.

    >>> divided(Lattice(np.array([0, 3, 20]), np.array([0, 1]))).east
    array([ 0,  1,  2,  3,  5,  7,  9, 12, 14, 16, 18, 20])
    """

    def lines(of: Integers) -> Integers:
        parts = np.linspace(of[:-1], of[1:], DIVIDED + 1)
        return np.unique(np.rint(parts).astype(np.int64))

    return Lattice(lines(lattice.east), lines(lattice.north))


def pattern_of_density(grid: Grid, density: Floats) -> SpatialHistogram:
    """The pattern of trips whose visits have this density (rows x columns, not negative, with a sum above 0).

    Endpoints and crossings of a line are proportional to the density, and trips are half a side of the map long. The
    result is the closest consistent histogram on a lattice of up to 64 x 64 cells, refined.
    """
    lattice = Lattice.even(grid, DENSE_SIDE)
    rows, columns = lattice.shape
    share = np.add.reduceat(np.add.reduceat(density, lattice.north[:-1], axis=0), lattice.east[:-1], axis=1)
    ends = share * (DENSE_TRIPS / share.sum())
    local = ends / lattice.areas
    vertical = (local[:, :-1] + local[:, 1:]) / 2 * np.diff(lattice.north)[:, None]
    horizontal = (local[:-1] + local[1:]) / 2 * np.diff(lattice.east)
    flux = float(vertical.sum() + horizontal.sum())
    scale = DENSE_TRIPS * (rows + columns) / 4 / flux if flux > 0 else 0.0
    target = CellTargets(ends, scale * vertical, scale * horizontal, float(ENDPOINT_WEIGHT**2), 1.0, 1.0)
    made = fit_histogram(lattice.coarse(), DENSE_TRIPS, target, tolerance=NEAR, most_steps=STEPS).histogram
    parts = lattice.refine(made.endpoints, made.vertical, made.horizontal)
    return exactly(SpatialHistogram.from_flux(grid, *parts), DENSE_TRIPS)
