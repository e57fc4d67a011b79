"""Intervals: they hold the answer, grow with confidence, and come down to nothing where nothing can be off."""

import numpy as np
import pytest

from dqam.errors import InputError
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.lattice import Lattice
from dqam.geometry.rectangles import random_rectangles
from dqam.values.uncertainty import Uncertainty

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
