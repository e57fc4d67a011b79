"""MWEM: the update of its authors, on the weights of cells."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqam.geometry.histogram import SpatialHistogram
from dqam.mechanisms.mwem import CellWeights, _answer
from dqam.mechanisms.spreading import lift, stretch
from tests.mechanisms.cases import seeds, sides, some_queries, unit_square


@given(sides, sides, seeds, st.floats(0, 20))
@settings(max_examples=100, deadline=None)
def test_the_kernel_answers_as_the_histogram(rows: int, columns: int, seed: int, crossings: float) -> None:
    grid = unit_square(rows, columns)
    weights = np.random.default_rng(seed).exponential(1, grid.shape)
    made = stretch(lift(grid, weights), 50.0, crossings)
    means = lift(grid, made.faces)
    edges = means.vertical.sum() + means.horizontal.sum()
    ratio = (made.vertical.sum() + made.horizontal.sum()) / edges if edges else 0.0
    queries = some_queries(grid, 20, seed)
    kernel = [_answer(made.faces, *map(int, query), ratio) for query in queries]
    np.testing.assert_allclose(kernel, made.answers(queries), rtol=1e-9, atol=1e-9)


@given(sides, sides, seeds)
@settings(max_examples=60, deadline=None)
def test_mwem_scales_what_is_inside_alike_and_the_rest_alike(rows: int, columns: int, seed: int) -> None:
    """Inside by exp(error / 2n) more than outside."""
    grid, query = unit_square(rows, columns), some_queries(unit_square(rows, columns), 1, seed)
    model = CellWeights(grid, lambda weights: stretch(lift(grid, weights), 100.0, 1.0 if rows * columns > 1 else 0.0))
    before = model.histogram()
    model.learn(query, np.array([42.0]))
    ratio = model.histogram().faces / before.faces
    west, south, east, north = query[0]
    inside = np.zeros(grid.shape, bool)
    inside[south:north, west:east] = True
    factor = np.exp((42 - before.answers(query)[0]) / 200)
    np.testing.assert_allclose(ratio[inside], ratio[inside][0])
    if not inside.all():
        np.testing.assert_allclose(ratio[~inside], ratio[~inside][0])
        assert ratio[inside][0] / ratio[~inside][0] == pytest.approx(factor)


@given(sides, sides, seeds)
@settings(max_examples=40, deadline=None)
def test_mwem_on_faces_alone_is_that_of_its_authors(rows: int, columns: int, seed: int) -> None:
    """Count by count, the newest first, with the sum of all weights restored after each."""
    grid, rng = unit_square(rows, columns), np.random.default_rng(seed)

    def bare(weights: np.ndarray) -> SpatialHistogram:
        return SpatialHistogram(
            grid, weights * (100 / weights.sum()), np.zeros((rows, columns - 1)), np.zeros((rows - 1, columns))
        )

    queries, counts = some_queries(grid, 4, seed), rng.uniform(0, 100, 4)
    model, weights = CellWeights(grid, bare), np.full(grid.shape, 100 / rows / columns)
    for last in range(1, 5):
        model.learn(queries[:last], counts[:last])
        for (west, south, east, north), count in zip(queries[:last][::-1], counts[:last][::-1], strict=True):
            inside = weights[south:north, west:east]
            inside *= np.exp((count - inside.sum()) / 200)
            weights *= 100 / weights.sum()
        np.testing.assert_allclose(model.histogram().faces, weights)
