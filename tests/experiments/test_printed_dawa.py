"""DAWA as printed, on exact faces."""

import numpy as np

from dqam.experiments.printed_dawa import printed_dawa

FACES = np.random.default_rng(0).poisson(20, (16, 16)).astype(float)
QUERIES = np.array([[0, 0, 16, 16], [2, 3, 9, 11]])


def test_without_noise_to_speak_of_the_faces_are_exact() -> None:
    made = printed_dawa(FACES, QUERIES, 1e6, np.random.default_rng(0))
    np.testing.assert_allclose(made, FACES, atol=0.5)


def test_less_epsilon_is_more_noise() -> None:
    off = [np.abs(printed_dawa(FACES, QUERIES, e, np.random.default_rng(0)) - FACES).mean() for e in (10, 1, 0.01)]
    assert off[0] < off[1] < off[2]
