"""PriSH: faces and edges are updated apart, and stay consistent."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqam.consistency.pairwise import is_consistent
from dqam.geometry.histogram import SpatialHistogram
from dqam.mechanisms.prish import FacesAndEdges
from dqam.mechanisms.spreading import lift, stretch
from tests.mechanisms.cases import excess, parts, prish, seeds, sides, some_queries, unit_square


def turned(histogram: SpatialHistogram) -> SpatialHistogram:
    """Rows for columns."""
    return SpatialHistogram(histogram.grid, histogram.faces.T, histogram.horizontal.T, histogram.vertical.T)


@pytest.mark.parametrize("turn", [False, True], ids=["vertical", "horizontal"])
def test_prish_leaves_edges_on_the_border_of_the_query(turn: bool) -> None:
    grid = unit_square(4, 4)
    start = SpatialHistogram(grid, np.full((4, 4), 10.0), np.full((4, 3), 4.0), np.full((3, 4), 4.0))
    model, query = FacesAndEdges(start), np.array([[0, 0, 4, 2]] if turn else [[0, 0, 2, 4]])
    model.learn(query, start.answers(query) + 2 * start.total * np.log(1.25))
    made = turned(model.histogram()) if turn else model.histogram()
    scale = made.faces[0, 3] / 10
    np.testing.assert_allclose(made.faces[:, :2], 12.5 * scale)
    np.testing.assert_allclose(made.faces[:, 2:], 10 * scale)
    np.testing.assert_allclose(made.vertical, np.array([[5.0, 4.0, 4.0]] * 4) * scale)  # in, on the border, out
    np.testing.assert_allclose(made.horizontal, np.array([[5.0, 5.0, 4.0, 4.0]] * 3) * scale)


@given(sides, sides, seeds, st.booleans())
@settings(max_examples=100, deadline=None)
def test_prish_keeps_the_total_and_edges_below_faces(rows: int, columns: int, seed: int, replay: bool) -> None:
    grid, rng = unit_square(rows, columns), np.random.default_rng(seed)
    crossings = float(rng.uniform(0, (rows + columns) / 4)) if rows * columns > 1 else 0.0
    model = FacesAndEdges(stretch(lift(grid, np.ones(grid.shape)), 100.0, crossings), replay)
    queries = some_queries(grid, 6, seed)
    counts = rng.uniform(0, 100, 6)
    for last in range(1, 7):
        model.learn(queries[:last], counts[:last])
        assert excess(model.histogram()) <= 1e-12
        assert model.histogram().total == pytest.approx(100)
        assert parts(model.histogram()).min() >= 0


def test_prish_can_not_be_driven_below_zero_by_counts_that_are_out_of_reason() -> None:
    model = prish()
    for count in (-1e9, 1e9, -1e9, 0.0):
        model.learn(np.array([[1, 1, 7, 7]]), np.array([count]))
        assert is_consistent(model.histogram())
        assert model.histogram().total == pytest.approx(100)
