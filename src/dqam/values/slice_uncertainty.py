"""The uncertainty of the answers for slices: that of the map, in proportion, and that of the shares of the slices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import shapely

from dqam.geometry.areas import PlacedAreas, PlacedLines, Shapes
from dqam.geometry.arrays import Floats, Integers
from dqam.geometry.lattice import Lattice
from dqam.geometry.sliced_histogram import SlicedHistogram
from dqam.values.uncertainty import Uncertainty

if TYPE_CHECKING:
    from dqam.geometry.area_answers import AreaAnswers

UNLIKE = 0.08  # standard deviation of what patterns do not explain, relative to an answer for slices


@dataclass(frozen=True, eq=False)
class ShareNoise:
    """How far noise may have moved the shares of slices.

    lattice  the coarse cells on which shares were measured
    moved    float64[times, slices, cells]: how far fresh noise of the same scale moved the share of each slice in each
             coarse cell
    weight   float64[cells]: the trips in each coarse cell, up to a factor
    """

    lattice: Lattice
    moved: Floats
    weight: Floats


@dataclass(frozen=True, eq=False)
class SliceUncertainty(Uncertainty):
    """The uncertainty of the answers for some slices of a map.

    whole   the uncertainty of the answers for all trips
    shares  how far the shares of slices may be off
    """

    whole: Uncertainty | None = None
    shares: ShareNoise | None = None

    @classmethod
    def of(cls, whole: Uncertainty, shares: ShareNoise, histogram: SlicedHistogram) -> SliceUncertainty:
        """The uncertainty of the slices that `histogram` counts, which are not all.

        whole  the uncertainty of all slices, or of more of them
        """
        if isinstance(whole, SliceUncertainty):
            assert whole.whole is not None
            whole = whole.whole
        rows, columns = histogram.grid.shape
        lattice, displacements, finest = whole.lattice, whole.displacements, whole.finest
        made = cls(histogram, whole.model, 0.0, lattice, displacements, finest, whole=whole, shares=shares)
        noise = made.deviations(np.array([[0, 0, columns, rows]]))[0]
        return replace(made, noise=float(noise))

    def deviations(self, rectangles: Integers) -> Floats:
        """The standard deviation of the answer to each rectangle."""
        histogram = self._histogram
        whole = histogram.whole.answers(rectangles)
        assert self.whole is not None
        return self._joined(whole, histogram.answers(rectangles), self.whole.deviations(rectangles), rectangles)

    def area_deviations(self, areas: PlacedAreas, answers: AreaAnswers) -> Floats:
        """The standard deviation of the answer to each area; NaN for areas outside the grid."""
        from dqam.geometry.area_answers import answer_areas  # compiled code, which rectangles do not need

        assert self.whole is not None
        whole = answer_areas(self._histogram.whole, areas)
        return self._joined(whole.value, answers.value, self.whole.area_deviations(areas, whole), areas.rectangles)

    def line_deviations(self, lines: PlacedLines, answers: AreaAnswers) -> Floats:
        """The standard deviation of the crossings of each line; NaN for lines outside."""
        from dqam.geometry.area_answers import answer_lines

        assert self.whole is not None
        whole = answer_lines(self._histogram.whole, lines)
        deviations = self.whole.line_deviations(lines, whole)
        return self._joined(whole.value, answers.value, deviations, _around(lines.shapes))

    @property
    def _histogram(self) -> SlicedHistogram:
        assert isinstance(self.histogram, SlicedHistogram)
        return self.histogram

    @cached_property
    def _corners(self) -> Floats | None:
        """Running sums over coarse cells: first of the weights, then of the displacements times the weights."""
        assert self.shares is not None
        lattice, chosen = self.shares.lattice, list(self._histogram.chosen)
        moved = self.shares.moved[:, chosen].sum(axis=1) * self.shares.weight
        (rows, columns), tables = lattice.shape, []
        for values in (self.shares.weight, *moved):
            cells = values.reshape(rows, columns)
            tables.append(lattice.corners(cells, np.zeros((rows, columns - 1)), np.zeros((rows - 1, columns))))
        return np.stack(tables)

    def _joined(self, whole: Floats, value: Floats, deviations: Floats, rectangles: Integers) -> Floats:
        """The deviations of the map in proportion, joined with those of the shares in the smallest rectangles."""
        assert self.shares is not None
        corners = self._corners
        assert corners is not None
        weight, *moved = self.shares.lattice.answers_by(corners, rectangles)
        known = np.maximum(weight, 1e-12)
        shares = np.sqrt(np.mean([(each / known) ** 2 for each in moved], axis=0)) * whole
        share = np.divide(value, whole, out=np.zeros(len(value)), where=whole > 0)
        unlike = UNLIKE * value * (1 - share)
        return np.asarray(np.sqrt((share * deviations) ** 2 + shares**2 + unlike**2))


def _around(shapes: Shapes) -> Integers:
    """The smallest rectangles of whole cells around shapes in cells, of at least one cell; 0 for missing ones."""
    bounds = np.nan_to_num(shapely.bounds(shapes))
    low = np.floor(bounds[:, :2])
    return np.asarray(np.concatenate([low, np.maximum(np.ceil(bounds[:, 2:]), low + 1)], axis=1), np.int64)
