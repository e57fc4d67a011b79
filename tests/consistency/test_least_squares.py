"""The answers of rectangles and their transpose, on which the fit to answers rests."""

import numpy as np
import pytest

from dqam.consistency.cone import bordered
from dqam.consistency.least_squares import answer_rectangles, spread_answers
from dqam.geometry.rectangles import random_rectangles
from tests.consistency.cases import flux_histogram, grid_of


@pytest.mark.parametrize("size", [(1, 1), (1, 6), (5, 1), (7, 4)])
def test_answers_are_those_of_the_histogram_and_spreading_is_their_transpose(size: tuple[int, int]) -> None:
    rng, (rows, columns) = np.random.default_rng(0), size
    rectangles = random_rectangles(grid_of(*size), 50, rng)
    a, v, h = (rng.normal(size=shape) for shape in (size, (rows, columns - 1), (rows - 1, columns)))
    answers, weights = np.zeros(50), rng.normal(size=50)
    answer_rectangles(rectangles, a, bordered(v, 1), bordered(h, 0), answers)
    np.testing.assert_allclose(answers, flux_histogram(a, v, h).answers(rectangles), atol=1e-9)
    pulled = np.zeros(size), np.zeros((rows, columns + 1)), np.zeros((rows + 1, columns))
    spread_answers(rectangles, weights, *pulled)
    inner = sum((one * other).sum() for one, other in zip((a, bordered(v, 1), bordered(h, 0)), pulled, strict=True))
    assert weights @ answers == pytest.approx(-inner)
