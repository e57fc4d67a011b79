"""Intervals: they hold the answer, grow with confidence, and come down to nothing where nothing can be off."""

from dataclasses import replace

import numpy as np
import pytest
import shapely
import shapely.affinity

from dqam.errors import InputError
from dqam.geometry.area_answers import answer_areas, answer_lines
from dqam.geometry.areas import place_areas, place_lines
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.lattice import Lattice
from dqam.geometry.rectangles import random_rectangles
from dqam.values.uncertainty import RECROSSED, Uncertainty

GRID = Grid((0.0, 0.0, 1.0, 1.0), 8, 8)
WHOLE = np.array([[0, 0, 8, 8]])


@pytest.fixture(params=["counted", "measured"])
def uncertainty(request: pytest.FixtureRequest) -> Uncertainty:
    """Even trips, counted only or measured on a lattice with noise."""
    histogram = SpatialHistogram.from_flux(GRID, np.full((8, 8), 10.0), np.full((8, 7), 2.0), np.full((7, 8), 2.0))
    if request.param == "counted":
        return Uncertainty(histogram, 5.0, 7.0)
    lattice = Lattice.even(GRID, 4)
    moved = np.random.default_rng(0).laplace(0, 3, (20, lattice.numbers))
    return Uncertainty(histogram, 5.0, 7.0, lattice, moved)


def test_an_interval_holds_the_answer_and_grows_with_confidence(uncertainty: Uncertainty) -> None:
    asked = random_rectangles(GRID, 100, np.random.default_rng(9))
    answers, before = uncertainty.histogram.answers(asked), np.zeros(100)
    for confidence in (0.5, 0.9, 0.99):
        low, high = uncertainty.intervals(asked, confidence)
        assert (low >= 0).all()
        assert ((low <= answers) & (answers <= high)).all()
        assert (high - low >= before).all()
        before = high - low
    for confidence in (0, 1, -0.5, np.nan):
        with pytest.raises(InputError, match="between 0 and 1"):
            uncertainty.intervals(asked, confidence)


def test_of_the_whole_map_only_the_number_of_trips_is_uncertain(uncertainty: Uncertainty) -> None:
    np.testing.assert_allclose(uncertainty.deviations(WHOLE), 7.0)


def test_mean_errors_are_those_of_clipped_normal_errors(uncertainty: Uncertainty) -> None:
    asked = np.array([[0, 0, 1, 1], [2, 3, 6, 8], [0, 0, 8, 7]])
    answers, deviations = uncertainty.histogram.answers(asked), uncertainty.deviations(asked)
    drawn = np.random.default_rng(0).normal(size=(100_000, 1))
    most = uncertainty.histogram.total + np.abs(drawn) * 7.0
    wanted = np.abs(np.clip(answers + drawn * deviations, 0, most) - answers).mean(axis=0)
    np.testing.assert_allclose(uncertainty.mean_errors(asked), wanted, rtol=0.02)


def test_mean_errors_are_at_most_those_of_errors_that_are_not_clipped(uncertainty: Uncertainty) -> None:
    asked = random_rectangles(GRID, 100, np.random.default_rng(9))
    unclipped = np.sqrt(2 / np.pi) * uncertainty.deviations(asked)
    assert (uncertainty.mean_errors(asked) <= unclipped).all()


def test_areas_that_are_rectangles_have_the_deviations_of_rectangles(uncertainty: Uncertainty) -> None:
    asked = random_rectangles(GRID, 50, np.random.default_rng(1))
    areas = place_areas(shapely.box(*(asked.T / 8)), GRID)
    found = uncertainty.area_deviations(areas, answer_areas(uncertainty.histogram, areas))
    np.testing.assert_array_equal(found, uncertainty.deviations(asked))


def test_noise_moves_the_borders_of_areas_as_it_moves_rectangles(uncertainty: Uncertainty) -> None:
    corners = np.array([[1, 1, 5, 7], [2, 0, 8, 3], [0, 2, 4, 4]])
    almost = [shapely.affinity.rotate(shapely.box(*sides), 0.05) for sides in corners / 8]  # not along the axes
    areas = place_areas(almost, GRID)
    assert not areas.is_rectangle.any()
    found = uncertainty.area_deviations(areas, answer_areas(uncertainty.histogram, areas))
    np.testing.assert_allclose(found, uncertainty.deviations(corners), rtol=0.02)


def test_what_is_unknown_makes_intervals_wider(uncertainty: Uncertainty) -> None:
    areas = place_areas([shapely.Point(0.5, 0.5).buffer(0.3), shapely.Point(9, 9).buffer(1)], GRID)
    answers = answer_areas(uncertainty.histogram, areas)
    some = replace(answers, unknown=answers.unknown + 50.0)
    before, after = (uncertainty.area_deviations(areas, one) for one in (answers, some))
    assert after[0] > before[0] > 0
    assert np.isnan(before[1])


def test_crossings_of_lines_have_deviations(uncertainty: Uncertainty) -> None:
    lines = place_lines([shapely.LineString([(0.1, 0.2), (0.8, 0.7)]), shapely.LineString([(3, 3), (4, 4)])], GRID)
    answers = answer_lines(uncertainty.histogram, lines)
    found = uncertainty.line_deviations(lines, answers)
    assert found[0] >= RECROSSED * answers.value[0] > 0
    assert np.isnan(found[1])
    low, high = uncertainty.around(answers.value, found, 0.9, np.inf)
    assert low[0] < answers.value[0] < high[0]
