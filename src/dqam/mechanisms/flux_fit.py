"""How flux turns a noisy measurement on the coarsest lattice into consistent numbers.

The fit considers both the numbers and the answers (`LatticeMeasurement`). If the signal is too weak for shadows, only
shares of the trips are measured (`ShareMeasurement`). `dqam.mechanisms.flux_scales` adds the detail of finer lattices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dqam.consistency.cone import find_currents, repair
from dqam.consistency.currents import AnswerTargets, CellTargets, fit_histogram
from dqam.geometry.arrays import Floats, Integers
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.lattice import Lattice, Parts, flat
from dqam.mechanisms.size import SizeEstimate

ENDPOINT_WEIGHT = 3  # endpoints are measured with this many times less noise than crossings
TRUST = 0.01  # weight of the answers to the queries, relative to the numbers
STRONG = 3_000.0  # signal from which missing endpoints are attributed to noise, not to the cap
BLANKS = 8  # number of fits to an even spread with fresh noise
STEPS, NEAR = 4_000, 1e-3  # step limit and tolerance of the fit


@dataclass(frozen=True, eq=False)
class LatticeMeasurement:
    """How trips were measured.

    noise     the scale of Laplace noise with the same standard deviation as the noise that was added
    queries   snapped to the lattice
    gaussian  whether the noise was Gaussian
    """

    lattice: Lattice
    noise: float
    queries: Integers
    gaussian: bool = False

    @property
    def weights(self) -> Floats:
        """The factor by which each number was multiplied before it was measured."""
        return endpoint_weights(self.lattice)

    def fit(self, measured: Parts, size: SizeEstimate) -> Parts:
        """The consistent numbers closest to `measured`, both in themselves and in their answers to the queries."""
        coarse, cells = self.lattice.coarse(), self.lattice.cells
        trust = AnswerTargets(self.queries, self._answers(measured), TRUST * cells / len(self.queries))
        near = CellTargets(*measured, 1.0, 1 / cells, 1 / cells)
        found = fit_histogram(coarse, size.trips, near, trust, tolerance=NEAR, most_steps=STEPS).histogram
        return less_flux(self.lattice, (found.endpoints, found.vertical, found.horizontal), size, 1.0)

    def again(self, truth: Parts, size: SizeEstimate, rng: np.random.Generator) -> tuple[Parts, Parts]:
        """A measurement of `truth` with fresh noise, and the fit to it."""
        noisy = flat(truth) + self._fresh(self.lattice.numbers, rng) / self.weights
        measured = calibrated(self.lattice, self.lattice.parts(noisy), size)
        return measured, self.fit(measured, size)

    def distance(self, one: Parts, other: Parts) -> float:
        """The mean squared difference between the answers to the queries."""
        return float(((self._answers(one) - self._answers(other)) ** 2).mean())

    def even(self, measured: Parts, size: SizeEstimate) -> Parts:
        """The fit to trips that are spread evenly."""
        return self.fit(even_shadows(self.lattice, measured, size), size)

    def seen(self, histogram: SpatialHistogram, size: SizeEstimate) -> Parts:
        """The fit to a measurement, without noise, of trips that have this consistent histogram."""
        return self.fit(self.lattice.add_up(histogram.endpoints, histogram.vertical, histogram.horizontal), size)

    def blurred(self, target: Parts, size: SizeEstimate) -> float:
        """The mean distance from `target` of fits to it with fresh noise."""
        rng = np.random.default_rng(0)  # any seed will do: this noise hides nothing
        return float(np.mean([self.distance(self.again(target, size, rng)[1], target) for _ in range(BLANKS)]))

    def drawn_to_even(self, measured: Parts, fitted: Parts, size: SizeEstimate) -> tuple[Parts, float]:
        """The fit, drawn towards an even spread if the distance between them may be noise; and the share that is kept.

        Let D be the distance from the fit to the even spread, and N the mean distance to it of fits to the even spread
        with fresh noise. As in James-Stein shrinkage, the share 1 - N/D of the way from the even spread to the fit is
        kept, or nothing if this is negative. Everything between the two is consistent.
        """
        even = self.even(measured, size)
        noise, found = self.blurred(even, size), self.distance(fitted, even)
        keep = max(0.0, 1 - noise / found) if found > 0 else 0.0
        return mixed(keep, fitted, even), keep

    def resemblance(self, fitted: Parts, one: Parts, other: Parts) -> float:
        """The share of `one` in that mixture of `one` and `other` whose answers are closest to those of the fit."""
        base = self._answers(other)
        way = self._answers(one) - base
        length = float(way @ way)
        return min(max(float((self._answers(fitted) - base) @ way) / length, 0.0), 1.0) if length > 0 else 1.0

    def _fresh(self, shape: int | tuple[int, ...], rng: np.random.Generator) -> Floats:
        """Fresh noise; it hides nothing."""
        return rng.normal(0, 2**0.5 * self.noise, shape) if self.gaussian else rng.laplace(0, self.noise, shape)

    def _answers(self, parts: Parts) -> Floats:
        answers: Floats = SpatialHistogram.from_flux(self.lattice.coarse(), *parts).answers(self.queries)
        return answers


@dataclass(frozen=True, eq=False)
class ShareMeasurement(LatticeMeasurement):
    """How trips were measured if only the share of the trips in each coarse cell was measured.

    Each trip contributes 1 in total. A shadow has several times that size, so shares have less noise.
    """

    def again(self, truth: Parts, size: SizeEstimate, rng: np.random.Generator) -> tuple[Parts, Parts]:
        """A measurement of the endpoints of `truth` as shares with fresh noise, and the fit to it."""
        measured = from_shares(self.lattice, truth[0] + self._fresh(truth[0].shape, rng), size)
        return measured, self.fit(measured, size)

    def seen(self, histogram: SpatialHistogram, size: SizeEstimate) -> Parts:
        """The fit to the shares, without noise, of trips that have this consistent histogram."""
        mass = self.lattice.add_up(histogram.faces, histogram.vertical, histogram.horizontal)[0]
        return self.fit(from_shares(self.lattice, size.trips * mass / mass.sum(), size), size)

    def even(self, measured: Parts, size: SizeEstimate) -> Parts:
        """The fit to equal shares."""
        area = self.lattice.areas
        return self.fit(from_shares(self.lattice, size.trips * area / area.sum(), size), size)


def mixed(share: float, one: Parts, other: Parts) -> Parts:
    """`other`, and from there this share of the way to `one`."""
    a, v, h = (level + share * (part - level) for part, level in zip(one, other, strict=True))
    return a, v, h


def from_shares(lattice: Lattice, shares: Floats, size: SizeEstimate) -> Parts:
    """Endpoints and crossings on the lattice, from noisy shares of the trips (rows x columns of coarse cells).

    Endpoints are the nearest numbers to the shares that are not negative and add up to the number of trips. Crossings
    of a line are proportional to the mean density on its two sides, with one factor for all crossings that makes the
    mean answer to the query set correct.
    """
    falling = np.sort(shares, axis=None)[::-1]
    excess = (falling.cumsum() - size.trips) / np.arange(1, falling.size + 1)
    endpoints = np.maximum(shares - excess[np.flatnonzero(falling > excess)[-1]], 0.0)
    density = endpoints / lattice.areas
    vertical = (density[:, :-1] + density[:, 1:]) / 2 * np.diff(lattice.north)[:, None]
    horizontal = (density[:-1] + density[1:]) / 2 * np.diff(lattice.east)
    of_ends, of_vertical, of_horizontal = answer_factors(lattice, size)
    flux = float((of_vertical * vertical).sum() + (of_horizontal * horizontal).sum())
    wanted = size.answer - float((of_ends * endpoints).sum())
    scale = max(wanted / flux, 0.0) if flux > 0 else 0.0
    return endpoints, vertical * scale, horizontal * scale


def endpoint_weights(lattice: Lattice) -> Floats:
    """The factor by which each number of a lattice is multiplied before it is measured."""
    return np.where(np.arange(lattice.numbers) < lattice.cells, float(ENDPOINT_WEIGHT), 1.0)


def less_flux(lattice: Lattice, parts: Parts, size: SizeEstimate, share: float = 0.5) -> Parts:
    """Numbers with edges scaled down so that, if their mean answer to the query set exceeds the measured one, the
    excess shrinks by `share`.

    Edges cannot be negative, so noise adds flux between the pinned lines. Scaling edges down preserves consistency,
    because fewer crossings need no more endpoints. The default is half-way, because small rectangles tend to have too
    little flux.
    """
    of_ends, of_vertical, of_horizontal = answer_factors(lattice, size)
    endpoints, vertical, horizontal = parts
    flux = float((of_vertical * vertical).sum() + (of_horizontal * horizontal).sum())
    wanted = size.answer - float((of_ends * endpoints).sum())
    scale = 1 - share * (1 - min(max(wanted / flux, 0.0), 1.0)) if flux > 0 else 1.0
    return endpoints, vertical * scale, horizontal * scale


def answer_factors(lattice: Lattice, size: SizeEstimate) -> Parts:
    """The factor with which each number of the lattice enters the mean answer to the query set."""
    faces, inner_vertical, inner_horizontal = size.covers
    return lattice.refine_adjoint(
        faces,
        (faces[:, :-1] + faces[:, 1:]) / 2 - inner_vertical,
        (faces[:-1] + faces[1:]) / 2 - inner_horizontal,
    )


def calibrated(lattice: Lattice, measured: Parts, size: SizeEstimate) -> Parts:
    """Endpoints adjusted to add up to the trips, and edges scaled so that the mean answer to the query set is correct.

    Endpoints that are missing because of noise are missing from all cells alike; the cap removes them in proportion.
    The stronger the signal, the more of the missing endpoints are therefore added evenly. The rest are added by a
    factor, or evenly too if at least half of all endpoints are missing.
    """
    endpoints, vertical, horizontal = measured
    factors = answer_factors(lattice, size)
    missing = size.trips - float(endpoints.sum())
    endpoints = endpoints + min(1.0, size.signal / STRONG) * missing / endpoints.size
    found = float(endpoints.sum())
    if found > size.trips / 2:
        endpoints = endpoints * (size.trips / found)
    else:
        endpoints = endpoints + (size.trips - found) / endpoints.size
    flux = float((factors[1] * vertical).sum() + (factors[2] * horizontal).sum())
    wanted = size.answer - float((factors[0] * endpoints).sum())
    scale = min(max(wanted / flux, 1 / 3), 3.0) if flux > 0 else 1.0
    return endpoints, vertical * scale, horizontal * scale


def even_shadows(lattice: Lattice, measured: Parts, size: SizeEstimate) -> Parts:
    """Endpoints in proportion to area, and the same flux through every part of a line."""
    wide, high = np.diff(lattice.east), np.diff(lattice.north)
    _, vertical, horizontal = measured
    along, across = np.ones(vertical.shape) * high[:, None], np.ones(horizontal.shape) * wide
    flux = max(float(vertical.sum() + horizontal.sum()), 0.0) / max(float(along.sum() + across.sum()), 1.0)
    share = size.trips / float(wide.sum() * high.sum())
    return calibrated(lattice, (high[:, None] * wide * share, along * flux, across * flux), size)


def exactly(histogram: SpatialHistogram, trips: float) -> SpatialHistogram:
    """The histogram, which must be consistent up to rounding errors, without these errors."""
    parts: Parts = histogram.endpoints, histogram.vertical, histogram.horizontal
    y, z = find_currents(*parts)
    made = repair(*parts, y, z, trips)
    return SpatialHistogram.from_flux(histogram.grid, made.endpoints, made.vertical, made.horizontal)
