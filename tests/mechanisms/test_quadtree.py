"""The quadtree of DQAM, grown by how uneven its nodes are."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqam.mechanisms.quadtree import grow_quadtree
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from tests.mechanisms.cases import strolls, unit_square
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


def test_the_threshold_is_as_large_as_the_noise() -> None:
    """With either kind of noise, at the same precision for each of 4 levels, trees are about equally large."""
    amounts = {False: Fraction(2), True: 4 * (Fraction(2) / 4) ** 2 / 2}
    leaves = {(kind, n): 0 for kind in amounts for n in (0, 300)}
    for kind, n in leaves:
        kept = strolls(n, unit_square(16, 16), wide=0.01)
        for seed in range(20):
            curator = Curator(kept, Budget(amounts[kind], concentrated=kind), SeededNoise(seed))
            leaves[kind, n] += len(grow_quadtree(curator, curator.budget, max_depth=3)) - 1
            assert curator.spent <= amounts[kind]
    assert leaves[False, 300] > 20 * 5
    assert leaves[True, 300] == pytest.approx(leaves[False, 300], rel=0.25)
    assert leaves[True, 0] <= leaves[False, 0] < leaves[False, 300] / 2
