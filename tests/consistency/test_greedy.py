import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqam.consistency.greedy import clamp_edges
from dqam.consistency.pairwise import is_consistent, make_consistent
from dqam.geometry.histogram import SpatialHistogram
from tests.oracles.linear_program import distance, histogram, parts


def made_up(seed: int, rows: int, columns: int, negative: bool) -> SpatialHistogram:
    rng = np.random.default_rng(seed)
    shapes = ((rows, columns), (rows, columns - 1), (rows - 1, columns))
    return histogram(*(rng.normal(1, 1, shape) if negative else rng.exponential(1, shape) for shape in shapes))


cases = given(st.integers(0, 2**32), st.integers(1, 7), st.integers(1, 7), st.booleans())


@cases
@settings(max_examples=200, deadline=None)
def test_every_edge_goes_just_as_far_as_its_faces_ask(seed: int, rows: int, columns: int, negative: bool) -> None:
    given = made_up(seed, rows, columns, negative)
    before = parts(given).copy()
    made = clamp_edges(given)
    assert is_consistent(made)
    np.testing.assert_array_equal(made.faces, np.where(given.faces > 0, given.faces, 0))
    for row, column in np.ndindex(given.vertical.shape):
        least = max(0, min(given.faces[row, column], given.faces[row, column + 1]))
        assert made.vertical[row, column] == min(max(given.vertical[row, column], 0), least)
    for row, column in np.ndindex(given.horizontal.shape):
        least = max(0, min(given.faces[row, column], given.faces[row + 1, column]))
        assert made.horizontal[row, column] == min(max(given.horizontal[row, column], 0), least)
    np.testing.assert_array_equal(parts(given), before)  # which is left as it was


@cases
@settings(max_examples=200, deadline=None)
def test_it_is_never_closer_than_the_closest(seed: int, rows: int, columns: int, negative: bool) -> None:
    given = made_up(seed, rows, columns, negative)
    assert distance(clamp_edges(given), given) >= distance(make_consistent(given), given) - 1e-9


@cases
@settings(max_examples=60, deadline=None)
def test_once_is_enough(seed: int, rows: int, columns: int, negative: bool) -> None:
    made = clamp_edges(made_up(seed, rows, columns, negative))
    assert distance(clamp_edges(made), made) == 0


def test_it_is_often_farther_than_the_closest() -> None:
    """A face with three edges above it is raised at the cost of one and not all three are lowered."""
    star = histogram(np.array([[9.0, 1.0, 9.0], [9.0, 9.0, 9.0]]), np.array([[5.0, 5.0], [0, 0]]), np.full((1, 3), 5.0))
    assert distance(clamp_edges(star), star) == 12
    assert distance(make_consistent(star), star) == 4
    farther = [
        distance(clamp_edges(given), given) > 1.05 * distance(make_consistent(given), given)
        for given in (made_up(seed, 6, 6, False) for seed in range(20))
    ]
    assert sum(farther) > 15


def test_a_consistent_histogram_stays_as_it_is() -> None:
    rng = np.random.default_rng(0)
    given = histogram(rng.uniform(1, 2, (5, 9)), rng.uniform(0, 1, (5, 8)), rng.uniform(0, 1, (4, 9)))
    assert distance(clamp_edges(given), given) == 0


def test_counts_stay_whole_numbers() -> None:
    made = clamp_edges(histogram(np.array([[5, -2]]), np.array([[3]]), np.zeros((0, 2), np.int64)))
    assert made.faces.dtype == made.vertical.dtype == np.int64
    assert (made.faces.tolist(), made.vertical.tolist()) == ([[5, 0]], [[0]])


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (4, 1)])
def test_grids_of_one_row_or_column(shape: tuple[int, int]) -> None:
    made = clamp_edges(made_up(1, *shape, negative=True))
    assert is_consistent(made)
    assert made.faces.shape == shape
