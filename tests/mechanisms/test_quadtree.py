"""The quadtree of DQAM, grown by how uneven its nodes are."""

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from dqam.mechanisms.quadtree import grow_quadtree
from tests.statistics.cases import crowded_corner


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 10_000), st.floats(0.05, 20))
@settings(max_examples=60, deadline=None)
def test_leaves_cover_any_grid_and_cost_no_more_than_the_budget(
    rows: int, columns: int, seed: int, epsilon: float
) -> None:
    gate = crowded_corner(rows, columns, seed, epsilon)
    tree = grow_quadtree(gate, gate.budget, 1.0)
    assert tree.sizes.sum() == rows * columns
    assert (tree.labels >= 0).all()
    assert gate.spent <= Fraction(repr(epsilon))


def test_dense_areas_get_small_regions() -> None:
    gate = crowded_corner(64, 64, 0, 20, n=20_000)
    tree = grow_quadtree(gate, gate.budget, 20.0)
    sizes = tree.sizes[tree.labels]
    assert sizes[:12, :12].mean() < sizes[40:, 40:].mean() / 4
    assert len(tree) > 20
