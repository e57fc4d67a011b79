"""The answers of a histogram for areas of any shape, and for lines (see `dqam.geometry.border`)."""

from __future__ import annotations

import numpy as np
import shapely

from dqam.geometry.areas import PlacedAreas, PlacedLines, Shapes
from dqam.geometry.arrays import Floats
from dqam.geometry.border import BorderFields, Rings
from dqam.geometry.histogram import SpatialHistogram, TwoScaleHistogram


def answer_areas(histogram: SpatialHistogram, areas: PlacedAreas) -> Floats:
    """The estimated number of distinct trips through each area, float64[m]; NaN for areas outside the grid."""
    answers = np.full(len(areas), np.nan)
    answers[areas.is_rectangle] = histogram.answers(areas.rectangles[areas.is_rectangle])
    other = np.flatnonzero(~areas.is_rectangle & ~areas.outside)
    parts, at = shapely.get_parts(areas.shapes[other], return_index=True)
    sums = np.zeros(len(other))
    np.add.at(sums, at, _filled(histogram, parts))
    answers[other] = np.minimum(sums, histogram.answers(areas.rectangles[other]))
    return answers


def answer_lines(histogram: SpatialHistogram, lines: PlacedLines) -> Floats:
    """The estimated number of crossings of each line, float64[m]; NaN for lines outside the grid."""
    answers = np.where(lines.outside, np.nan, 0.0)
    parts, at = shapely.get_parts(lines.shapes, return_index=True)
    if len(parts):
        np.add.at(answers, at, _fields(histogram).follow(Rings.of(parts))[1][:, 0])
    return answers


def _filled(histogram: SpatialHistogram, polygons: Shapes) -> Floats:
    if not len(polygons):
        return np.zeros(0)
    inside, crossings = _fields(histogram).follow(Rings.of(shapely.polygons(shapely.get_exterior_ring(polygons))))
    answers = inside + crossings / 2
    if not isinstance(histogram, TwoScaleHistogram):
        return answers[:, 0]
    return np.minimum(answers[:, 0], answers[:, 1] + histogram.offset)


def _fields(histogram: SpatialHistogram) -> BorderFields:
    several = [histogram, histogram.large] if isinstance(histogram, TwoScaleHistogram) else [histogram]
    parts = (np.stack([getattr(one, name) for one in several]) for name in ("endpoints", "vertical", "horizontal"))
    return BorderFields.of(*parts)
