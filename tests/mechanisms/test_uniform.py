"""Uniform: all places are alike."""

import numpy as np

from dqam.mechanisms.uniform import Uniform
from tests.mechanisms.cases import city, parts, run, some_queries


def test_uniform_answers_depend_on_the_shape_of_a_rectangle_alone() -> None:
    kept = city(1000)
    made, _ = run(Uniform(), kept, some_queries(kept.grid), 1)
    rng = np.random.default_rng(0)
    for wide, high in ((1, 1), (4, 9), (31, 2), (32, 32)):
        west, south = rng.integers(0, 33 - wide, 20), rng.integers(0, 33 - high, 20)
        answers = made.answers(np.stack([west, south, west + wide, south + high], axis=1))
        np.testing.assert_allclose(answers, answers[0], rtol=1e-9)
    assert parts(made).min() > 0
