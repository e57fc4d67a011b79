"""The uncertainty of the answers for slices: that of the map, in proportion, and that of the shares of the slices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import shapely

from dqam.geometry.areas import PlacedAreas, PlacedLines
from dqam.geometry.arrays import Floats, Integers, Shapes
from dqam.geometry.lattice import Lattice
from dqam.geometry.sliced_histogram import SlicedHistogram
from dqam.values.uncertainty import Uncertainty

if TYPE_CHECKING:
    from dqam.geometry.area_answers import AreaAnswers

UNLIKE = 0.6  # standard deviation of what shares on a lattice cannot show, relative to an answer, times its side


@dataclass(frozen=True, eq=False)
class ShareNoise:
    """How far noise may have moved the shares of slices.

    lattice  the coarse cells on which shares were measured
    moved    float64[times, slices, cells]: how far fresh noise of the same scale moved the share of each slice in each
             coarse cell
    weight   float64[cells]: the trips in each coarse cell, up to a factor
    sizes    standard deviation of the noise in the number of trips of each slice
    """

    lattice: Lattice
    moved: Floats
    weight: Floats
    sizes: float

    def deviations(
        self,
        slices: Sequence[int],
        rectangles: Integers,
        whole: Floats,
        value: Floats,
        of_whole: Floats,
        trips: float,
    ) -> Floats:
        """The standard deviation of the answers for some slices together, float64[m].

        rectangles  int64[m, 4], the rectangles, or those around the areas or lines, as grid lines
        whole       the answers for all trips
        value       the answers for these slices
        of_whole    the standard deviations of `whole`
        trips       the number of trips in all slices
        """
        weight = np.maximum(self._sums(self.weight[None], rectangles)[0], 1e-12)
        moved = self._sums(self.moved[:, list(slices)].sum(axis=1) * self.weight, rectangles) / weight
        share = np.divide(value, whole, out=np.zeros(len(value)), where=whole > 0)
        least = len(slices) * (self.sizes / max(trips, 1e-9)) ** 2 * (1 - share)  # however well patterns explain slices
        inside = np.sqrt(np.clip(1 - whole / max(trips, 1e-9), 0, 1))  # nothing is unlike if all trips are counted
        unlike = UNLIKE / max(self.lattice.shape) * inside
        noise = np.maximum((moved**2).mean(axis=0), least) * whole**2
        return np.asarray(np.sqrt((share * of_whole) ** 2 + noise + (unlike * value * (1 - share)) ** 2))

    def _sums(self, cells: Floats, rectangles: Integers) -> Floats:
        """Sums over the coarse cells in each rectangle: float64[times, m], of float64[times, cells]."""
        (rows, columns), none = self.lattice.shape, np.zeros
        corners = np.stack(
            [
                self.lattice.corners(each.reshape(rows, columns), none((rows, columns - 1)), none((rows - 1, columns)))
                for each in cells
            ]
        )
        return self.lattice.answers_by(corners, rectangles)


@dataclass(frozen=True, eq=False)
class SliceUncertainty(Uncertainty):
    """The uncertainty of the answers for some slices of a map; its `histogram` is a `SlicedHistogram`.

    whole   the uncertainty of the answers for all trips
    shares  how far the shares of slices may be off
    """

    whole: Uncertainty | None = None
    shares: ShareNoise | None = None

    @classmethod
    def of(cls, whole: Uncertainty, shares: ShareNoise, histogram: SlicedHistogram) -> SliceUncertainty:
        """The uncertainty of the slices that `histogram` counts; `whole` is that of all slices, or of more of them."""
        if isinstance(whole, SliceUncertainty) and whole.whole is not None:
            whole = whole.whole
        known = whole.model, whole.noise, whole.lattice, whole.displacements, whole.finest, whole.factor
        return cls(histogram, *known, whole, shares)

    def deviations(self, rectangles: Integers) -> Floats:
        """The standard deviation of the answer to each rectangle."""
        sliced, of_all, shares = self._parts
        whole, value = sliced.whole.answers(rectangles), sliced.answers(rectangles)
        return shares.deviations(
            sliced.chosen, rectangles, whole, value, of_all.deviations(rectangles), sliced.all_trips
        )

    def area_deviations(self, areas: PlacedAreas, answers: AreaAnswers) -> Floats:
        """The standard deviation of the answer to each area; NaN for areas outside the grid."""
        from dqam.geometry.area_answers import answer_areas  # compiled code, which rectangles do not need

        sliced, of_all, shares = self._parts
        whole = answer_areas(sliced.whole, areas)
        off = of_all.area_deviations(areas, whole)
        return shares.deviations(sliced.chosen, areas.rectangles, whole.value, answers.value, off, sliced.all_trips)

    def line_deviations(self, lines: PlacedLines, answers: AreaAnswers) -> Floats:
        """The standard deviation of the crossings of each line; NaN for lines outside."""
        from dqam.geometry.area_answers import answer_lines

        sliced, of_all, shares = self._parts
        whole = answer_lines(sliced.whole, lines)
        off = of_all.line_deviations(lines, whole)
        return shares.deviations(
            sliced.chosen, rectangles_around(lines.shapes), whole.value, answers.value, off, sliced.all_trips
        )

    def around(
        self, answers: Floats, deviations: Floats, confidence: float, most: float | None = None
    ) -> tuple[Floats, Floats]:
        """Intervals around answers with the given standard deviations, clipped to 0."""
        return super().around(answers, deviations, confidence, math.inf if most is None else most)

    @cached_property
    def _parts(self) -> tuple[SlicedHistogram, Uncertainty, ShareNoise]:
        assert isinstance(self.histogram, SlicedHistogram)
        assert self.whole is not None
        assert self.shares is not None
        return self.histogram, self.whole, self.shares


def rectangles_around(shapes: Shapes) -> Integers:
    """int64[m, 4]: the smallest rectangles of whole cells around shapes in cells, of at least one cell; about the first
    cell for missing shapes."""
    bounds = np.nan_to_num(shapely.bounds(shapes))
    low = np.floor(bounds[:, :2])
    return np.asarray(np.concatenate([low, np.maximum(np.ceil(bounds[:, 2:]), low + 1)], axis=1), np.int64)
