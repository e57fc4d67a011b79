"""Intervals of slices: those of the map in proportion, and wider where noise moved the shares."""

from dataclasses import replace

import numpy as np
import pytest
import shapely

from dqam.geometry.area_answers import answer_areas, answer_lines
from dqam.geometry.areas import place_areas, place_lines
from dqam.geometry.rectangles import random_rectangles
from dqam.geometry.sliced_histogram import SlicedHistogram
from dqam.values.slice_uncertainty import ShareNoise, SliceUncertainty, rectangles_around
from dqam.values.uncertainty import Uncertainty
from tests.geometry.test_sliced_histogram import GRID, histogram, patterns

ASKED = random_rectangles(GRID, 60, np.random.default_rng(0))
SLICED = SlicedHistogram.of_patterns(histogram(1), patterns(1))
WHOLE = Uncertainty(SLICED.whole, 30.0, 10.0)
CELLS = SLICED.patterns.lattice.cells
NOISE = ShareNoise(
    SLICED.patterns.lattice, np.random.default_rng(2).normal(0, 0.03, (8, 5, CELLS)), np.ones(CELLS), 12.0
)


def deviations(names: list[str], noise: ShareNoise = NOISE, whole: Uncertainty = WHOLE) -> np.ndarray:
    return SliceUncertainty.of(whole, noise, SLICED.select(names)).deviations(ASKED)


def test_more_noise_makes_wider_intervals() -> None:
    quiet = replace(NOISE, moved=0 * NOISE.moved, sizes=0.0)
    assert (deviations(["s1"], quiet) < deviations(["s1"])).all()
    assert (deviations(["s1"]) < deviations(["s1"], replace(NOISE, moved=3 * NOISE.moved))).all()
    assert (deviations(["s1"], quiet) < deviations(["s1"], replace(quiet, sizes=50.0))).all()


def test_the_uncertainty_of_the_map_is_shared_out() -> None:
    quiet = replace(NOISE, moved=0 * NOISE.moved, sizes=0.0)
    wide = deviations(["s1", "s3"], quiet, replace(WHOLE, model=300.0)) ** 2 - deviations(["s1", "s3"], quiet) ** 2
    some = SLICED.select(["s1", "s3"])
    share = some.answers(ASKED) / SLICED.whole.answers(ASKED)
    more = replace(WHOLE, model=300.0).deviations(ASKED) ** 2 - WHOLE.deviations(ASKED) ** 2
    np.testing.assert_allclose(wide, share**2 * more, rtol=1e-6, atol=1e-6)


def test_a_selection_of_a_selection_knows_the_whole() -> None:
    both = SliceUncertainty.of(WHOLE, NOISE, SLICED.select(["s1", "s3"]))
    one = SliceUncertainty.of(both, NOISE, SLICED.select(["s3"]))
    np.testing.assert_array_equal(one.deviations(ASKED), deviations(["s3"]))


def test_areas_and_lines_have_intervals() -> None:
    uncertainty = SliceUncertainty.of(WHOLE, NOISE, SLICED.select(["s2"]))
    areas = place_areas([shapely.box(1, 1, 5, 4), shapely.Point(6, 4).buffer(2), shapely.box(40, 40, 41, 41)], GRID)
    off = uncertainty.area_deviations(areas, answer_areas(uncertainty.histogram, areas))
    rectangle = uncertainty.deviations(areas.rectangles[:1])
    np.testing.assert_allclose(off[0], rectangle[0])
    assert (off[:2] > 0).all()
    assert np.isnan(off[2])
    lines = place_lines([shapely.LineString([(1, 1), (9, 6)])], GRID)
    assert uncertainty.line_deviations(lines, answer_lines(uncertainty.histogram, lines))[0] > 0
    low, high = uncertainty.around(np.array([5.0]), np.array([10.0]), 0.9)
    assert low[0] == 0
    assert high[0] == pytest.approx(21.4, abs=0.1)


def test_rectangles_around_shapes() -> None:
    shapes = np.array([shapely.box(1.2, 2.0, 3.0, 2.5), shapely.LineString([(2, 1), (2, 5)]), None], object)
    np.testing.assert_array_equal(rectangles_around(shapes), [[1, 2, 3, 3], [2, 1, 3, 5], [0, 0, 1, 1]])
