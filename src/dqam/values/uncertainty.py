"""The uncertainty of answers, and confidence intervals: resampled noise plus the error of the model.

Both parts shrink to 0 for answers near 0 or near the number of trips, because such an answer cannot be far off.
`dqam.mechanisms.flux_uncertainty` explains how flux computes these numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
import shapely

from dqam.errors import InputError
from dqam.geometry.areas import PlacedAreas, PlacedLines
from dqam.geometry.arrays import Floats, Integers, Numbers, Shapes
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.lattice import Lattice

if TYPE_CHECKING:
    from dqam.geometry.area_answers import AreaAnswers
    from dqam.geometry.border import BorderFields

WITHIN = 0.8  # how far the answer to a rectangle within one cell of the finest lattice may be off, relative to itself
QUANTILES = 64  # number of quantiles of the normal distribution over which errors are averaged
UNKNOWN = 0.4  # standard deviation of an answer to an area, relative to its `unknown` part
RECROSSED = 0.25  # of the crossings of a line, because a trip that crosses and returns is often counted once
DIFFERENT = 0.4  # standard deviation of how much trips that were left out differ from those counted, relative
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
    factor         by which the counts of some trips were multiplied to count all; 1 if all were counted
    """

    histogram: SpatialHistogram
    model: float
    noise: float
    lattice: Lattice | None = None
    displacements: Floats | None = None
    finest: float = 0.0
    factor: float = 1.0

    @property
    def numbers(self) -> dict[str, float]:
        """The plain numbers, by name."""
        return {"model": self.model, "noise": self.noise, "finest": self.finest, "factor": self.factor}

    def made_whole(self, histogram: SpatialHistogram, factor: float, deviation: float) -> Uncertainty:
        """The uncertainty of `histogram`, which is this one multiplied by a factor of this standard deviation.

        All answers share the error of the factor, as they do that of the number of trips.
        """
        noise = float(np.hypot(factor * self.noise, deviation * float(self.histogram.total)))
        moved = None if self.displacements is None else factor * self.displacements
        return replace(
            self,
            histogram=histogram,
            model=factor * self.model,
            noise=noise,
            displacements=moved,
            factor=factor * self.factor,
        )

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
        area = (rectangles[:, 2] - rectangles[:, 0]) * (rectangles[:, 3] - rectangles[:, 1])
        moved = (
            None
            if self._corners is None or self.lattice is None
            else self.lattice.answers_by(self._corners, rectangles)
        )
        return self._deviations(share, moved, area)

    def area_deviations(self, areas: PlacedAreas, answers: AreaAnswers) -> Floats:
        """The standard deviation of the answer to each area; NaN for areas outside the grid."""
        deviations = np.full(len(areas), np.nan)
        boxes = areas.is_rectangle
        deviations[boxes] = self.deviations(areas.rectangles[boxes])
        other = np.flatnonzero(~boxes & ~areas.outside)
        if len(other):
            shapes, total = areas.shapes[other], max(float(self.histogram.total), 1e-9)
            share = np.clip(answers.value[other] / total, 0, 1)
            noise = self._deviations(share, self._moved(shapes), shapely.area(shapes))
            deviations[other] = np.hypot(noise, UNKNOWN * answers.unknown[other])
        return deviations

    def line_deviations(self, lines: PlacedLines, answers: AreaAnswers) -> Floats:
        """The standard deviation of the crossings of each line, as for a very thin area; NaN for lines outside."""
        deviations = np.full(len(lines), np.nan)
        some = np.flatnonzero(~lines.outside)
        if len(some):
            shapes, crossings = lines.shapes[some], answers.value[some]
            share = np.clip(crossings / max(float(self.histogram.total), 1e-9), 0, 1)
            noise = self._deviations(share, self._moved(shapes), shapely.length(shapes))
            squares = noise**2 + (UNKNOWN * answers.unknown[some]) ** 2 + (RECROSSED * crossings) ** 2
            deviations[some] = np.sqrt(squares)
        return deviations

    def _moved(self, shapes: Shapes) -> Floats | None:
        """How far noise moved the answers to polygons or lines: float64[times, m], to first order."""
        if self.lattice is None or self.displacements is None:
            return None
        from dqam.geometry.border import Rings  # compiled code, which rectangles do not need

        parts, at = shapely.get_parts(shapes, return_index=True)
        lines = shapely.get_dimensions(parts[0]) == 1
        rings, of = (parts, np.arange(len(parts))) if lines else shapely.get_rings(parts, return_index=True)
        followed = Rings.of(rings)
        x, y = (
            np.interp(values, axis, np.arange(len(axis)))  # in coarse cells
            for values, axis in zip(followed.corners.T, (self.lattice.east, self.lattice.north), strict=True)
        )
        sums = self._border.follow(replace(followed, corners=np.stack([x, y], axis=1)), changes=True)
        moved = np.zeros((len(shapes), len(self.displacements)))
        changes = sums.crossings if lines else sums.inside + sums.crossings / 2
        np.add.at(moved, at[of], changes[:, 1:])
        return moved.T

    @cached_property
    def _border(self) -> BorderFields:
        """The histogram on the lattice, and its displacements, in the form in which borders are followed."""
        from dqam.geometry.border import BorderFields

        assert self.lattice is not None
        assert self.displacements is not None
        parts = self.lattice.add_up(self.histogram.endpoints, self.histogram.vertical, self.histogram.horizontal)
        return BorderFields.of([parts, *map(self.lattice.parts, self.displacements)], known=False)

    def _deviations(self, share: Floats, moved: Floats | None, area: Numbers) -> Floats:
        """The standard deviation of answers, given as shares of all trips.

        moved  float64[times, m], how far noise moved them, or None if the trips were only counted
        area   float64[m], the number of cells
        """
        total = max(float(self.histogram.total), 1e-9)
        noise = (share * self.noise) ** 2
        if moved is not None and self.lattice is not None and self._corners is not None:
            rows, columns = self.histogram.faces.shape
            all_trips = self.lattice.answers_by(self._corners, np.array([[0, 0, columns, rows]]))
            squares = np.square(moved - share * all_trips)  # without the noise in the number of trips
            noise += squares.cumsum(axis=0)[-1] / len(squares)  # summed in the same order for any number of areas
        model = self.model * np.sqrt(np.minimum(1.0, np.minimum(share / LOW, (1 - share) / HIGH)))
        within = np.zeros(len(share))
        if self.finest:  # cells of the finest lattice count as even inside, which matters less for larger areas
            within = WITHIN * share * (1 - share) * total / (1 + area / self.finest**2)
        chosen = (self.factor - 1) * share * (1 - share) * total  # variance, because trips were chosen at random
        unseen = chosen + (DIFFERENT * (1 - 1 / self.factor) * share * total) ** 2
        deviations: Floats = np.sqrt(noise + model**2 + within**2 + unseen)
        return deviations

    def intervals(self, rectangles: Integers, confidence: float = 0.9) -> tuple[Floats, Floats]:
        """Lower and upper ends of the intervals, clipped to 0 and to the upper end for the number of trips."""
        return self.around(self.histogram.answers(rectangles), self.deviations(rectangles), confidence)

    def around(
        self, answers: Floats, deviations: Floats, confidence: float, most: float | None = None
    ) -> tuple[Floats, Floats]:
        """Intervals around answers with the given standard deviations, clipped to 0 and to `most`, by default the upper
        end for the number of trips."""
        if not 0 < confidence < 1:
            raise InputError(f"confidence must be between 0 and 1; got {confidence}.")
        wide = -NormalDist().inv_cdf((1 - confidence) / 2)
        most = self.histogram.total + wide * self.noise if most is None else most
        return np.clip(answers - wide * deviations, 0, most), np.clip(answers + wide * deviations, 0, most)

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
