"""Measures against plain loops."""

import math

import numpy as np
import pytest

from dqam.experiments.metrics import SMOOTHING, cut, divergence, evenness, face_sums, mean_error
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.rectangles import random_rectangles


def test_mean_error_is_the_mean_of_absolute_differences() -> None:
    rng = np.random.default_rng(0)
    answers, truth = rng.normal(size=50), rng.integers(0, 9, 50)
    assert mean_error(answers, truth) == pytest.approx(
        sum(abs(a - t) for a, t in zip(answers, truth, strict=True)) / 50
    )


@pytest.mark.parametrize(("total", "wanted"), [(5.0, [0.0, 2.0, 5.0]), (-1.0, [0.0, 0.0, 0.0])])
def test_answers_are_cut_to_what_a_number_of_trips_can_be(total: float, wanted: list[float]) -> None:
    assert cut(np.array([-3.0, 2.0, 9.0]), total).tolist() == wanted


def test_face_sums_leave_edges_out() -> None:
    grid, rng = Grid((0, 0, 1, 1), 5, 7), np.random.default_rng(1)
    made = SpatialHistogram(grid, rng.random((5, 7)), rng.random((5, 6)), rng.random((4, 7)))
    asked = random_rectangles(grid, 40, rng)
    naive = [made.faces[south:north, west:east].sum() for west, south, east, north in asked]
    assert face_sums(made, asked) == pytest.approx(naive)


def test_divergence_adds_the_same_constant_to_both() -> None:
    rng = np.random.default_rng(2)
    exact, estimate = rng.integers(0, 5, (4, 6)), rng.normal(1, 2, (4, 6))
    constant = SMOOTHING * exact.mean()
    p = [face + constant for face in exact.ravel()]
    q = [max(face, 0) + constant for face in estimate.ravel()]
    naive = sum(a / sum(p) * math.log((a / sum(p)) / (b / sum(q))) for a, b in zip(p, q, strict=True))
    assert divergence(exact, estimate) == pytest.approx(naive)
    assert divergence(exact, estimate) > 0


def test_divergence_of_the_truth_is_zero_at_any_scale_and_of_nothing_is_finite() -> None:
    exact = np.arange(12.0).reshape(3, 4)
    assert divergence(exact, exact) == pytest.approx(0, abs=1e-12)
    assert math.isfinite(divergence(exact, np.zeros((3, 4))))
    assert divergence(1000 * exact, 1000 * np.ones((3, 4))) == pytest.approx(divergence(exact, np.ones((3, 4))))
    assert divergence(np.zeros((3, 4)), np.zeros((3, 4))) == 0


def test_evenness() -> None:
    assert evenness(np.full((3, 3), 0.7)) == 0
    assert evenness(np.array([1.0, 3.0])) == 1
    assert evenness(np.zeros(4)) == 0
