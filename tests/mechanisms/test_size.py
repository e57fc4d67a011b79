"""The number of trips and the average answer, which every mechanism asks first."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings

from dqam.geometry.histogram import SpatialHistogram
from dqam.mechanisms.size import LOOK, cover, measure_size
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.statistics import QueryTotals
from dqam.statistics.distinct import DistinctTrips
from dqam.values.guarantee import Unit
from tests.mechanisms.cases import city, seeds, sides, some_queries, strolls, unit_square


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
