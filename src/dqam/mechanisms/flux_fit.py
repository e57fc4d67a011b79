"""How flux turns one noisy measurement on a lattice into consistent numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dqam.consistency.cone import find_currents, repair
from dqam.consistency.currents import AnswerTargets, CellTargets, fit_histogram
from dqam.geometry.arrays import Floats, Integers
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.lattice import Lattice, Parts, flat
from dqam.mechanisms.size import SizeEstimate

ENDPOINT_WEIGHT = 3  # how much better endpoints are measured than crossings
TRUST = 0.01  # in the answers to the queries, against the numbers
STRONG = 3_000.0  # signal from which missing endpoints are taken for noise, and not for what the cap cut off
BLANKS = 4  # fits to noise alone
STEPS, NEAR = 4_000, 1e-3  # of the fit


@dataclass(frozen=True, eq=False)
class LatticeMeasurement:
    """How trips were measured: on a lattice, with noise of a scale, for queries snapped to the lattice."""

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
        trust = AnswerTargets(self.queries, self._answers(measured), TRUST * cells / len(self.queries))
        near = CellTargets(*measured, 1.0, 1 / cells, 1 / cells)
        found = fit_histogram(coarse, trips, near, answers=trust, tolerance=NEAR, most_steps=STEPS).histogram
        return found.endpoints, found.vertical, found.horizontal

    def again(self, truth: Parts, size: SizeEstimate, rng: np.random.Generator) -> tuple[Parts, Parts]:
        """What might be measured, and then fitted, if `truth` were true: with new noise."""
        noisy = flat(truth) + rng.laplace(0, self.noise, self.lattice.numbers) / self.weights
        measured = calibrated(self.lattice, self.lattice.parts(noisy), size)
        return measured, self.fit(measured, size.trips)

    def distance(self, one: Parts, other: Parts) -> float:
        """The mean square difference of the answers to the queries."""
        return float(((self._answers(one) - self._answers(other)) ** 2).mean())

    def drawn_to_even(self, measured: Parts, fitted: Parts, size: SizeEstimate) -> tuple[Parts, float]:
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


def calibrated(lattice: Lattice, measured: Parts, size: SizeEstimate) -> Parts:
    """Endpoints that add up to the trips, and edges scaled so that the mean answer to the query set is right.

    Endpoints that noise hides are missing in all cells alike, those that the cap cuts off by a part of each: the more
    signal, the more of them are added evenly, and the rest by a factor (or evenly too, where most are missing).
    """
    endpoints, vertical, horizontal = measured
    faces, inner_vertical, inner_horizontal = size.covers
    factors = lattice.refine_adjoint(
        faces,
        (faces[:, :-1] + faces[:, 1:]) / 2 - inner_vertical,
        (faces[:-1] + faces[1:]) / 2 - inner_horizontal,
    )
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
