"""Trips spread as a density says: two factors that meet two numbers."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqam.geometry.histogram import SpatialHistogram
from dqam.mechanisms.size import LOOK, SizeEstimate, cover, measure_size
from dqam.mechanisms.spreading import lift, match_size, spread, spread_evenly, stretch
from dqam.mechanisms.uniform import Uniform
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.statistics import QueryTotals
from dqam.statistics.distinct import DistinctTrips
from dqam.values.guarantee import Unit
from tests.mechanisms.cases import city, parts, run, some_queries, strolls, unit_square

sides = st.integers(1, 8)
seeds = st.integers(0, 10**6)


def naive_cover(rows: int, columns: int, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Query by query and cell by cell."""
    faces, vertical, horizontal = (
        np.zeros((rows, columns)),
        np.zeros((rows, columns - 1)),
        np.zeros((rows - 1, columns)),
    )
    for west, south, east, north in queries:
        for row in range(south, north):
            for column in range(west, east):
                faces[row, column] += 1
                if column + 1 < east:
                    vertical[row, column] += 1
                if row + 1 < north:
                    horizontal[row, column] += 1
    return faces / len(queries), vertical / len(queries), horizontal / len(queries)


@given(sides, sides, seeds)
@settings(max_examples=60, deadline=None)
def test_cover_is_the_share_of_queries_that_hold_each_piece(rows: int, columns: int, seed: int) -> None:
    grid = unit_square(rows, columns)
    queries = some_queries(grid, 1 + seed % 12, seed)
    for share, wanted in zip(cover(grid, queries), naive_cover(rows, columns, queries), strict=True):
        assert share.shape == wanted.shape
        np.testing.assert_allclose(share, wanted)


@given(sides, sides, seeds)
@settings(max_examples=60, deadline=None)
def test_covers_give_the_mean_answer(rows: int, columns: int, seed: int) -> None:
    grid, rng = unit_square(rows, columns), np.random.default_rng(seed)
    queries = some_queries(grid, 7, seed)
    shapes = ((rows, columns), (rows, columns - 1), (rows - 1, columns))
    histogram = SpatialHistogram(grid, *(rng.normal(0, 1, shape) for shape in shapes))
    faces, vertical, horizontal = cover(grid, queries)
    mean = (faces * histogram.faces).sum() - (vertical * histogram.vertical).sum()
    mean -= (horizontal * histogram.horizontal).sum()
    assert mean == pytest.approx(histogram.answers(queries).mean())


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


def test_the_size_costs_a_part_and_all_where_there_is_too_little() -> None:
    kept = city(300)
    queries = some_queries(kept.grid)
    for least, share, spent, looks in (
        (10.0, LOOK, LOOK, 1),
        (10.0, 2 * LOOK, 2 * LOOK, 2),
        (10_000.0, 2 * LOOK, Fraction(1), 2),
    ):
        curator = Curator(kept, Budget(1), SeededNoise(0))
        size = measure_size(curator, queries, curator.budget, least, share=lambda _, share=share: share)
        assert size.enough == (least == 10)
        assert curator.spent == spent
        assert [entry.name.removesuffix(", refined") for entry in curator.paid] == [QueryTotals.name] * looks


def test_a_second_look_may_find_too_little() -> None:
    kept, queries = city(300), some_queries(city(300).grid)
    seen = set()
    for seed in range(30):
        curator = Curator(kept, Budget(1), SeededNoise(seed))
        size = measure_size(curator, queries, curator.budget, 300.0, share=lambda _: 2 * LOOK)
        assert curator.spent == (2 * LOOK if size.enough else 1)
        seen.add((size.enough, len(curator.paid)))
    assert seen == {(True, 2), (False, 2), (False, 3)}


def test_the_size_is_right_at_a_large_epsilon() -> None:
    kept = city(300)
    queries = some_queries(kept.grid)
    curator = Curator(kept, Budget(10_000), SeededNoise(0))
    size = measure_size(curator, queries, curator.budget, 0)
    assert size.trips == pytest.approx(300, abs=0.01)
    assert size.answer == pytest.approx(kept.total(DistinctTrips(queries)).mean(), rel=1e-4)
    assert size.signal == pytest.approx(300 * 10_000)


def test_a_size_is_never_out_of_reason() -> None:
    """At least one trip, and a mean answer between none and all of them."""
    kept = strolls(0, unit_square(4, 4))
    for seed in range(40):
        curator = Curator(kept, Budget("0.01"), SeededNoise(seed))
        size = measure_size(curator, some_queries(unit_square(4, 4), 5, seed), curator.budget)
        assert size.trips >= 1
        assert 0 <= size.answer <= size.trips


def test_two_looks_are_better_than_the_first() -> None:
    kept = city(300)
    queries = some_queries(kept.grid)

    def misses(least: float) -> float:
        errors = []
        for seed in range(200):
            curator = Curator(kept, Budget("0.5"), SeededNoise(seed))
            errors.append(measure_size(curator, queries, curator.budget, least).trips - 300)
        return float(np.std(errors))

    assert misses(np.inf) < 0.4 * misses(0)  # 0.4 of eps and 0.1 of eps; 0.1 of eps alone


def test_the_signal_is_by_unit() -> None:
    kept = city(300)
    queries = some_queries(kept.grid)
    curator = Curator(kept, Budget(1000), SeededNoise(0), Unit.person(5), list(range(300)))
    assert measure_size(curator, queries, curator.budget, 0).signal == pytest.approx(300 * 1000 / 5, rel=0.01)


def test_uniform_answers_depend_on_the_shape_of_a_rectangle_alone() -> None:
    kept = city(1000)
    made, _ = run(Uniform(), kept, some_queries(kept.grid), 1)
    rng = np.random.default_rng(0)
    for wide, high in ((1, 1), (4, 9), (31, 2), (32, 32)):
        west, south = rng.integers(0, 33 - wide, 20), rng.integers(0, 33 - high, 20)
        answers = made.answers(np.stack([west, south, west + wide, south + high], axis=1))
        np.testing.assert_allclose(answers, answers[0], rtol=1e-9)
    assert parts(made).min() > 0
