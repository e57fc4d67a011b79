"""The uncertainty of answers, and confidence intervals: resampled noise plus the error of the model.

Both parts shrink to 0 for answers near 0 or near the number of trips, because such an answer cannot be far off.
`dqam.mechanisms.flux_uncertainty` explains how flux computes these numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np

from dqam.errors import InputError
from dqam.geometry.arrays import Floats, Integers
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.lattice import Lattice

WITHIN = 0.8  # how far the answer to a rectangle within one cell of the finest lattice may be off, relative to itself
QUANTILES = 64  # number of quantiles of the normal distribution over which errors are averaged
LOW, HIGH = 0.08, 0.03  # within these fractions of 0 and of all trips, the model's error is reduced


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """The uncertainty of the answers of `histogram`.

    model          the standard deviation of the model error (what a histogram cannot represent), in trips
    noise          the standard deviation of the number of trips
    lattice        the lattice on which the trips were measured; None if they were only counted, so that the noise of
                   every answer comes from that count
    displacements  float64[times, numbers of the lattice]: how far fresh noise of the same scale moved the numbers on
                   the lattice from which the histogram was refined
    finest         side of the cells of a finer lattice that shows detail, in cells of the grid; 0 if there is none
    """

    histogram: SpatialHistogram
    model: float
    noise: float
    lattice: Lattice | None = None
    displacements: Floats | None = None
    finest: float = 0.0

    @property
    def numbers(self) -> dict[str, float]:
        """The plain numbers, by name."""
        return {"model": self.model, "noise": self.noise, "finest": self.finest}

    @cached_property
    def _corners(self) -> Floats | None:
        """Running sums of the displacements; computed once."""
        if self.lattice is None or self.displacements is None:
            return None
        return np.stack([self.lattice.corners(*self.lattice.parts(numbers)) for numbers in self.displacements])

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
            squares = np.square(moved - share * all_trips)  # without the noise in the number of trips
            noise += squares.cumsum(axis=0)[-1] / len(squares)  # summed in the same order for any number of rectangles
        model = self.model * np.sqrt(np.minimum(1.0, np.minimum(share / LOW, (1 - share) / HIGH)))
        deviations: Floats = np.sqrt(noise + model**2 + self._within(rectangles, share * (1 - share) * total) ** 2)
        return deviations

    def _within(self, rectangles: Integers, answers: Floats) -> Floats:
        """What may be off because cells of the finest lattice count as even inside; less for larger rectangles."""
        if not self.finest:
            return np.zeros(len(rectangles))
        area = (rectangles[:, 2] - rectangles[:, 0]) * (rectangles[:, 3] - rectangles[:, 1])
        within: Floats = WITHIN * answers / (1 + area / self.finest**2)
        return within

    def intervals(self, rectangles: Integers, confidence: float = 0.9) -> tuple[Floats, Floats]:
        """Lower and upper ends of the intervals, clipped to 0 and to the upper end for the number of trips."""
        if not 0 < confidence < 1:
            raise InputError(f"confidence must be between 0 and 1; got {confidence}.")
        wide = -NormalDist().inv_cdf((1 - confidence) / 2)
        off, most = wide * self.deviations(rectangles), self.histogram.total + wide * self.noise
        answers = self.histogram.answers(rectangles)
        return np.clip(answers - off, 0, most), np.clip(answers + off, 0, most)

    def mean_errors(self, rectangles: Integers) -> Floats:
        """The expected absolute error of each answer, averaged over quantiles of the normal distribution.

        The true count is taken to be at least 0 and at most the number of trips.
        """
        answers, deviations = self.histogram.answers(rectangles), self.deviations(rectangles)
        errors, total = np.zeros(len(answers)), self.histogram.total
        for k in range(QUANTILES):
            z = NormalDist().inv_cdf((k + 0.5) / QUANTILES)
            most = total + abs(z) * self.noise
            errors += np.abs(np.clip(answers + z * deviations, 0, most) - answers) / QUANTILES
        return errors
