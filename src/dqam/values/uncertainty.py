"""How far the answers of a release may be off: noise, resampled, and what the model cannot represent.

Where an answer is near 0 or near all trips, both come down to nothing: it cannot be off by more. How a mechanism comes
to these numbers is told in `dqam.mechanisms.flux_uncertainty`.
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

LOW, HIGH = 0.08, 0.03  # within these shares of 0 and of all trips the model's error comes down


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """How far the answers of `histogram` may be off.

    model          the standard deviation of what the model cannot represent, in trips
    noise          the standard deviation of the number of trips
    lattice        where the trips were measured; None where they were only counted, so that all answers vary with their
                   number
    displacements  float64[times, numbers of the lattice]: how far fresh noise of the same scale moved the numbers that
                   the histogram was refined from
    """

    histogram: SpatialHistogram
    model: float
    noise: float
    lattice: Lattice | None = None
    displacements: Floats | None = None

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
            squares = np.square(moved - share * all_trips)  # apart from what the noise in the number of trips moves
            noise += squares.cumsum(axis=0)[-1] / len(squares)  # in the same order for any number of rectangles
        model = self.model * np.sqrt(np.minimum(1.0, np.minimum(share / LOW, (1 - share) / HIGH)))
        deviations: Floats = np.sqrt(noise + model**2)
        return deviations

    def intervals(self, rectangles: Integers, confidence: float = 0.9) -> tuple[Floats, Floats]:
        """Lower and upper ends of the confidence intervals, between 0 and what the number of trips may be."""
        if not 0 < confidence < 1:
            raise InputError(f"confidence must be between 0 and 1; got {confidence}.")
        wide = -NormalDist().inv_cdf((1 - confidence) / 2)
        off, most = wide * self.deviations(rectangles), self.histogram.total + wide * self.noise
        answers = self.histogram.answers(rectangles)
        return np.clip(answers - off, 0, most), np.clip(answers + off, 0, most)
