"""Trips spread as a density says: two factors that meet two numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqam.geometry.histogram import SpatialHistogram
from dqam.mechanisms.size import SizeEstimate, cover
from dqam.mechanisms.spreading import lift, match_size, scaled_to, spread, spread_evenly, stretch
from tests.mechanisms.cases import parts, prish, seeds, sides, some_queries, unit_square


def test_scaled_to_a_total() -> None:
    made = scaled_to(prish().histogram(), 7.0)
    assert made.total == pytest.approx(7)
    empty = SpatialHistogram(unit_square(1, 2), np.ones((1, 2)), np.full((1, 1), 5.0), np.zeros((0, 2)))
    assert (parts(scaled_to(empty, 7.0)) == parts(empty)).all()  # of a negative total nothing can be made


@given(sides, sides, seeds, st.floats(1, 1e6), st.floats(0, 1), st.booleans())
@settings(max_examples=200, deadline=None)
def test_fit_meets_both_numbers(rows: int, columns: int, seed: int, trips: float, share: float, dense: bool) -> None:
    """Wherever the two equations have a solution with positive factors; and it is the only one of this form."""
    grid, rng = unit_square(rows, columns), np.random.default_rng(seed)
    queries = some_queries(grid, 1 + seed % 9, seed)
    density = rng.exponential(1, grid.shape) if dense else np.ones(grid.shape)
    before = lift(grid, density)
    size = SizeEstimate(cover(grid, queries), trips, trips * share, signal=1.0)
    made = spread(grid, density, size)
    edges = before.vertical.sum() + before.horizontal.sum()
    matrix = np.array([[before.faces.sum(), -edges], [0.0, 0.0]])
    bare = SpatialHistogram(grid, before.faces, before.vertical * 0, before.horizontal * 0)
    matrix[1, 0] = bare.answers(queries).mean()
    matrix[1, 1] = before.answers(queries).mean() - matrix[1, 0]
    if abs(np.linalg.det(matrix)) < 1e-6 * abs(matrix).max() ** 2:
        return
    faces_by, edges_by = np.linalg.solve(matrix, [trips, trips * share])
    if faces_by > 0 and edges_by >= 0:
        assert made.total == pytest.approx(trips)
        assert made.answers(queries).mean() == pytest.approx(trips * share, rel=1e-6, abs=1e-6 * trips)
        np.testing.assert_allclose(made.faces, before.faces * faces_by)
        np.testing.assert_allclose(made.vertical, before.vertical * edges_by, atol=1e-9 * trips)
    else:
        np.testing.assert_allclose(made.faces, density * trips / density.sum())
        assert not made.vertical.any()
        assert not made.horizontal.any()
        assert made.total == pytest.approx(trips)


def test_most_cases_have_positive_factors() -> None:
    """So that the test above tests something: factors are positive from even trips of one visit up to all long."""
    grid = unit_square(8, 8)
    queries = some_queries(grid, 50)
    even = cover(grid, queries)[0].mean()  # the share of trips of a single visit that a query meets
    for share in (1.01 * even, (1 + even) / 2, 0.999):
        made = spread_evenly(grid, SizeEstimate(cover(grid, queries), 100.0, 100 * share, signal=1.0))
        assert made.vertical.min() > 0
        assert made.answers(queries).mean() == pytest.approx(100 * share)
    assert not spread_evenly(grid, SizeEstimate(cover(grid, queries), 100.0, 90 * even, signal=1.0)).vertical.any()


@given(sides, sides, seeds)
@settings(max_examples=60, deadline=None)
def test_an_even_spread_has_equal_faces_and_equal_edges(rows: int, columns: int, seed: int) -> None:
    grid = unit_square(rows, columns)
    queries = some_queries(grid, 5, seed)
    share = np.random.default_rng(seed).uniform()
    made = spread_evenly(grid, SizeEstimate(cover(grid, queries), 10.0, 10 * share, signal=1.0))
    assert np.ptp(made.faces) <= 1e-9
    edges = np.concatenate([made.vertical.ravel(), made.horizontal.ravel()])
    assert not edges.size or np.ptp(edges) <= 1e-9


def test_no_border_inside_the_grid() -> None:
    """The whole grid as the only query says nothing of the length of trips: it is guessed at half a side."""
    grid = unit_square(6, 10)
    whole = np.array([[0, 0, 10, 6]])
    made = spread_evenly(grid, SizeEstimate(cover(grid, whole), 30.0, 20.0, signal=1.0))
    assert made.total == pytest.approx(30)
    assert made.faces.sum() == pytest.approx(30 * (1 + 4))


def test_single_cells_only() -> None:
    """Queries without an edge in them: the mean answer is that of faces."""
    grid = unit_square(4, 4)
    cells = np.array([[x, y, x + 1, y + 1] for x in range(4) for y in range(4)])
    made = spread_evenly(grid, SizeEstimate(cover(grid, cells), 32.0, 5.0, signal=1.0))
    np.testing.assert_allclose(made.faces, 5)
    assert made.total == pytest.approx(32)


def test_an_answer_of_all_trips_means_long_trips_and_one_of_none_means_short_ones() -> None:
    grid, queries = unit_square(8, 8), some_queries(unit_square(8, 8), 40)
    short, long = (
        spread_evenly(grid, SizeEstimate(cover(grid, queries), 50.0, answer, signal=1.0)).faces.sum()
        for answer in (0.0, 50.0)
    )
    assert short == pytest.approx(50)
    assert long > 50 * 8


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (8, 8)])
def test_no_edges_at_all(shape: tuple[int, int]) -> None:
    """Faces alone have to be the trips: there is nothing to take away from them."""
    grid = unit_square(*shape)
    queries = some_queries(grid, 5)
    bare = SpatialHistogram(
        grid, np.ones(shape), np.zeros((shape[0], shape[1] - 1)), np.zeros((shape[0] - 1, shape[1]))
    )
    for made in (stretch(bare, 40.0), match_size(bare, SizeEstimate(cover(grid, queries), 40.0, 30.0, signal=1.0))):
        assert made.total == pytest.approx(40)


def test_stretch_gives_trips_of_so_many_crossings() -> None:
    grid = unit_square(5, 7)
    before = lift(grid, np.random.default_rng(0).exponential(1, grid.shape))
    made = stretch(before, 20.0, 3.0)
    assert made.faces.sum() == pytest.approx(20 * 4)
    assert made.vertical.sum() + made.horizontal.sum() == pytest.approx(20 * 3)
    assert stretch(before, 20.0).faces.sum() == pytest.approx(20 * (1 + (5 + 7) / 4))
    np.testing.assert_allclose(made.faces / before.faces, made.faces[0, 0] / before.faces[0, 0])


def test_lift_has_edges_between_their_faces() -> None:
    density = np.array([[1.0, 3.0], [5.0, 11.0]])
    lifted = lift(unit_square(2, 2), density)
    assert lifted.faces.tolist() == density.tolist()
    assert lifted.vertical.tolist() == [[2.0], [8.0]]
    assert lifted.horizontal.tolist() == [[3.0, 7.0]]
