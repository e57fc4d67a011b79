"""The direct solution against the linear program solved by HiGHS."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from dqam.consistency.pairwise import is_consistent, make_consistent
from dqam.geometry.histogram import SpatialHistogram
from tests.oracles.linear_program import distance, histogram, linear_program


def least_distance(of: SpatialHistogram) -> float:
    cost, matrix, bound = linear_program(of)
    solved = linprog(cost, A_ub=matrix, b_ub=bound, bounds=(0, None), method="highs")
    assert solved.status == 0
    return float(solved.fun)


def check(of: SpatialHistogram) -> None:
    made = make_consistent(of)
    assert is_consistent(made)
    assert distance(made, of) == pytest.approx(least_distance(of), abs=1e-6)


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 6), st.sampled_from(["ties", "any", "edges high"]))
@settings(max_examples=600, deadline=None)
def test_the_optimum_of_the_linear_program(seed: int, rows: int, columns: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    shapes = ((rows, columns), (rows, columns - 1), (rows - 1, columns))
    if kind == "ties":
        faces, vertical, horizontal = (rng.integers(0, 4, shape).astype(float) for shape in shapes)
    else:
        faces, vertical, horizontal = (rng.exponential(1.0, shape) for shape in shapes)
        if kind == "edges high":
            vertical, horizontal = 2 * vertical, 2 * horizontal
    check(histogram(faces, vertical, horizontal))


def test_edges_violated_at_both_ends_and_chains() -> None:
    faces = np.zeros((3, 3))
    check(histogram(faces, np.ones((3, 2)), np.ones((2, 3))))  # every face in the core
    check(histogram(np.zeros((1, 5)), np.array([[5.0, 1.0, 1.0, 5.0]]), np.zeros((0, 5))))  # a chain
    check(histogram(np.zeros((2, 2)), np.array([[3.0], [2.0]]), np.array([[4.0, 1.0]])))  # a cycle


def test_negative_numbers_are_forced_to_zero() -> None:
    of = histogram(np.array([[-2.0, 1.0]]), np.array([[-1.0]]), np.zeros((0, 2)))
    made = make_consistent(of)
    assert made.faces.tolist() == [[0.0, 1.0]]
    assert made.vertical.tolist() == [[0.0]]
    check(of)


def test_a_consistent_histogram_stays_as_it_is() -> None:
    rng = np.random.default_rng(0)
    faces = rng.uniform(1, 2, (20, 30))
    of = histogram(faces, rng.uniform(0, 1, (20, 29)), rng.uniform(0, 1, (19, 30)))
    assert is_consistent(of)
    assert distance(make_consistent(of), of) == 0


def test_a_face_with_one_violated_edge_is_not_raised() -> None:
    made = make_consistent(histogram(np.array([[1.0, 5.0]]), np.array([[4.0]]), np.zeros((0, 2))))
    assert made.faces.tolist() == [[1.0, 5.0]]
    assert made.vertical.tolist() == [[1.0]]


def test_a_large_grid_once() -> None:
    rng = np.random.default_rng(3)
    check(histogram(rng.exponential(1, (40, 40)), rng.exponential(1, (40, 39)), rng.exponential(1, (39, 40))))
