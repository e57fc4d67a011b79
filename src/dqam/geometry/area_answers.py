"""The answers of a histogram for areas of any shape, and for lines.

`dqam.geometry.border` explains how a ring is answered. The answers for other shapes follow from that:

  not convex   a trip can enter several times. No more trips meet a shape than meet its convex hull, so the answer is
               at most that of the hull
  holes        trips that stay in a hole do not meet the area. A stay in the hole begins inside it or with a crossing
               of its border, and ends in one of these ways. There are a + f stays, where a are the endpoints inside and
               f half of the crossings. If begin and end are independent, a^2 / (a + f) stays begin and end inside
  parts        a trip can meet several. If the parts are met independently by the N trips that meet the convex hull of
               all parts, then N (1 - (1 - q1 / N) (1 - q2 / N) ...) trips meet at least one
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import shapely

from dqam.geometry.areas import PlacedAreas, PlacedLines
from dqam.geometry.arrays import Floats, Integers, Mask, Shapes
from dqam.geometry.border import Rings
from dqam.geometry.histogram import SpatialHistogram, TwoScaleHistogram
from dqam.geometry.sliced_histogram import SlicedHistogram


@dataclass(frozen=True, eq=False)
class AreaAnswers:
    """The answers of a histogram for areas, float64[m] each; NaN for areas outside the grid.

    value    the number of distinct trips
    unknown  how far the rules for slanted borders, for shapes that are not convex, for holes and for several parts
             moved the value: a measure of what the histogram cannot tell; 0 for rectangles
    """

    value: Floats
    unknown: Floats


def answer_areas(histogram: SpatialHistogram, areas: PlacedAreas) -> AreaAnswers:
    """Answer rectangles by their cells, and all other shapes along their borders.

    No answer exceeds that for the smallest rectangle of whole cells around the area.
    """
    if isinstance(histogram, SlicedHistogram):
        return _shared_out(histogram, lambda one: answer_areas(one, areas))
    value, unknown = np.full((2, len(areas)), np.nan)
    boxes = areas.is_rectangle
    value[boxes], unknown[boxes] = histogram.answers(areas.rectangles[boxes]), 0.0
    other = np.flatnonzero(~boxes & ~areas.outside)
    if len(other):
        found, off = _answer_polygons(histogram, areas.shapes[other])
        value[other] = np.minimum(found, histogram.answers(areas.rectangles[other]))
        unknown[other] = off
    return AreaAnswers(value, unknown)


def answer_lines(histogram: SpatialHistogram, lines: PlacedLines) -> AreaAnswers:
    """The estimated number of crossings of each line, and how far it is from that of a staircase."""
    if isinstance(histogram, SlicedHistogram):
        return _shared_out(histogram, lambda one: answer_lines(one, lines), crossings=True)
    value, unknown = (np.where(lines.outside, np.nan, 0.0) for _ in range(2))
    parts, at = shapely.get_parts(lines.shapes, return_index=True)
    if len(parts):
        sums = histogram.border.follow(Rings.of(parts))
        np.add.at(value, at, sums.crossings[:, 0])
        np.add.at(unknown, at, sums.staircase[:, 0] - sums.crossings[:, 0])
    return AreaAnswers(value, unknown)


def _shared_out(
    histogram: SlicedHistogram, answer: Callable[[SpatialHistogram], AreaAnswers], crossings: bool = False
) -> AreaAnswers:
    """The answers for the slices that are counted; `unknown` in proportion."""
    whole = answer(histogram.whole)
    value = histogram.ask(lambda one: whole.value if one is histogram.whole else answer(one).value, crossings)
    share = np.divide(value, whole.value, out=np.zeros_like(value), where=whole.value > 0)
    return AreaAnswers(value, whole.unknown * share)


def _answer_polygons(histogram: SpatialHistogram, shapes: Shapes) -> tuple[Floats, Floats]:
    """`value` and `unknown` for polygons and multipolygons."""
    parts, at = shapely.get_parts(shapes, return_index=True)
    holes, of = _holes(parts)
    filled = parts.copy()
    pierced = np.unique(of)
    filled[pierced] = shapely.polygons(shapely.get_exterior_ring(parts[pierced]))
    value, unknown = _answer_shells(histogram, filled)
    if len(holes):
        within = _answer_holes(histogram, holes)
        np.add.at(value, of, -within)
        np.add.at(unknown, of, within)
    several = np.bincount(at) > 1
    first = np.searchsorted(at, np.arange(len(shapes)))
    answers, off = value[first], unknown[first]
    if several.any():
        answers[several], off[several] = _join(histogram, shapes, value, unknown, at, several)
    return answers, off


def _answer_shells(histogram: SpatialHistogram, polygons: Shapes) -> tuple[Floats, Floats]:
    """`value` and `unknown` for polygons without holes."""
    value, unknown = _answer_rings(histogram, polygons)
    hulls = shapely.convex_hull(polygons)
    dented = np.flatnonzero(shapely.area(hulls) > shapely.area(polygons) * (1 + 1e-9))
    if len(dented):
        around, _ = _answer_rings(histogram, hulls[dented])
        unknown[dented] += np.maximum(value[dented] - around, 0)
        value[dented] = np.minimum(value[dented], around)
    return value, unknown


def _answer_rings(histogram: SpatialHistogram, polygons: Shapes) -> tuple[Floats, Floats]:
    """Endpoints inside plus half of the crossings of the border; and how far that is from a staircase of cells.

    With two histograms, small shapes are answered by the first, as small rectangles are, and others by the smaller of
    the two answers.
    """
    sums = histogram.border.follow(Rings.of(shapely.get_exterior_ring(polygons)))
    answers, slanted = sums.inside + sums.crossings / 2, (sums.staircase - sums.crossings) / 2
    if not isinstance(histogram, TwoScaleHistogram):
        return answers[:, 0], slanted[:, 0]
    bounds = shapely.bounds(polygons)
    large = (bounds[:, 2:] - bounds[:, :2] > histogram.side).any(axis=1) & (
        answers[:, 1] + histogram.offset < answers[:, 0]
    )
    value = np.where(large, answers[:, 1] + histogram.offset, answers[:, 0])
    return np.minimum(value, histogram.most), np.where(large, slanted[:, 1], slanted[:, 0])


def _holes(polygons: Shapes) -> tuple[Shapes, Integers]:
    """All holes of polygons, and which polygon each is in."""
    rings, of = shapely.get_rings(polygons, return_index=True)
    inner = np.concatenate([[False], of[1:] == of[:-1]])  # the first ring of a polygon is its shell
    return rings[inner], of[inner]


def _answer_holes(histogram: SpatialHistogram, rings: Shapes) -> Floats:
    """The trips that stay in each hole."""
    sums = histogram.border.follow(Rings.of(rings))
    ends, crossed = np.maximum(sums.inside[:, -1], 0), sums.crossings[:, -1] / 2
    within: Floats = np.divide(ends**2, ends + crossed, out=np.zeros_like(ends), where=ends > 0)
    return within


def _join(
    histogram: SpatialHistogram, shapes: Shapes, value: Floats, unknown: Floats, at: Integers, several: Mask
) -> tuple[Floats, Floats]:
    """`value` and `unknown` for shapes of several parts."""
    around, largest, sums, spread = np.zeros((4, len(shapes)))
    missed = np.ones(len(shapes))
    around[several] = np.maximum(_answer_rings(histogram, shapely.convex_hull(shapes[several]))[0], 0)
    part = np.clip(value, 0, None)
    np.maximum.at(largest, at, part)
    np.add.at(sums, at, part)
    np.add.at(spread, at, unknown)
    around = np.maximum(around, largest)  # as they are all within it
    share = np.divide(part, around[at], out=np.zeros_like(part), where=around[at] > 0)
    np.multiply.at(missed, at, 1 - np.minimum(share, 1))
    answers = around * (1 - missed)
    return answers[several], (spread + np.minimum(sums - answers, answers - largest))[several]
