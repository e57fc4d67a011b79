"""PrivTree: its regions, and the privacy loss of the code that is released, computed exactly."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqam.geometry.grid import Grid
from dqam.geometry.trips import Trips
from dqam.geometry.walks import walk
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.noise import SeededNoise
from dqam.statistics import MASS
from dqam.statistics.privtree import PrivTree
from tests.statistics.cases import crowded_corner


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 10_000), st.floats(0.05, 20))
@settings(max_examples=60, deadline=None)
def test_leaves_cover_any_grid_exactly(rows: int, columns: int, seed: int, epsilon: float) -> None:
    gate = crowded_corner(rows, columns, seed, epsilon)
    tree = gate.partition(PrivTree(), gate.budget)
    assert tree.sizes.sum() == rows * columns
    assert (tree.labels >= 0).all()


def test_dense_areas_get_small_regions() -> None:
    gate = crowded_corner(64, 64, 0, 1, n=20_000)
    tree = gate.partition(PrivTree(), gate.budget)
    sizes = tree.sizes[tree.labels]
    assert sizes[:12, :12].mean() < sizes[40:, 40:].mean() / 4
    assert len(tree) > 20


def test_little_data_stays_one_region() -> None:
    gates = [crowded_corner(64, 64, seed, n=10) for seed in range(50)]
    assert np.mean([len(gate.partition(PrivTree(30.0), gate.budget)) for gate in gates]) < 1.5


def test_the_greatest_depth_is_kept() -> None:
    gate = crowded_corner(64, 64, 0, 10, n=20_000)
    tree = gate.partition(PrivTree(max_depth=2), gate.budget)
    assert tree.sizes.min() == 16 * 16


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(4), Fraction(12)])
def test_the_privacy_loss_along_a_path_of_privtree_is_below_epsilon(epsilon: Fraction) -> None:
    """The proof's sum of r, computed exactly for the worst heights at which a path can pass the threshold.

    In units of 1/64 of a trip, so that the lattice is small enough to sum over.
    """
    unit = 64
    scale = float(PrivTree.scale(epsilon, 1)) / MASS * unit
    decay = int(np.floor(PrivTree.decay(epsilon, 1) / MASS * unit))
    q = np.exp(-1 / scale)

    top = int(decay * 12)
    k = np.arange(top + 1)
    above = np.log1p(q**k * (1 - q) / (1 + q - q**k))  # s(threshold + k)
    steps = np.concatenate([np.full(decay, 1 / scale), above])  # from threshold - decay upward
    sums = np.concatenate([[0], np.cumsum(steps)])

    def mean_slope(height: int) -> float:
        """r at a height above threshold - decay."""
        reach = min(unit, height)
        return float((sums[height] - sums[height - reach]) / reach)

    worst = max(sum(mean_slope(h) for h in range(start, top, decay)) for start in range(1, decay + 1))
    assert worst * unit <= float(epsilon) * (1 + 1e-12)
    assert worst * unit >= 0.85 * float(epsilon)  # the bound is not slack


class Script(SeededNoise):
    """Noise that makes PrivTree split as told, and reckons how likely that was."""

    def __init__(self, depth: int) -> None:
        super().__init__(0)
        self.depth, self.level, self.log_chance = depth, 0, 0.0

    def laplace(self, values: np.ndarray, scale: Fraction) -> np.ndarray:
        """Split the fullest node of each level down to a depth, and no other."""
        width = float(scale)
        split = np.zeros(len(values), bool)
        split[np.argmax(values)] = self.level < self.depth
        self.level += 1
        gap = -values.astype(float)  # noise has to be above this; the threshold is 0
        half = np.log1p(np.exp(-1 / width))
        with np.errstate(all="ignore"):  # where the other case holds
            above = np.where(gap >= 0, -(gap + 1) / width - half, np.log1p(-np.exp(gap / width - half)))
            below = np.where(gap < 0, gap / width - half, np.log1p(-np.exp(-(gap + 1) / width - half)))
        self.log_chance += float(np.where(split, above, below).sum())
        return np.where(split, 1, 0)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(4)])
@pytest.mark.parametrize("trips_a_unit", [1, 3])
def test_no_tree_becomes_much_likelier_by_one_unit(epsilon: Fraction, trips_a_unit: int) -> None:
    """Exact log-likelihood ratios of trees along one path, for crowds of every size, from the code that is released."""
    grid = Grid((0.0, 0.0, 1.0, 1.0), 1, 64)

    def log_chance(n: int, depth: int) -> float:
        trips = Trips(np.full(n, 0.001), np.full(n, 0.5), np.arange(n + 1))
        noise = Script(depth)
        tree = PrivTree()
        tree.grow(Aggregates.of(walk(trips, grid)).totals(tree), noise, epsilon, trips_a_unit)
        return noise.log_chance

    step = max(1, int(4 / epsilon) // 4)
    worst = 0.0
    for n in range(0, 60 * step, step):
        for depth in range(7):
            worst = max(worst, abs(log_chance(n + trips_a_unit, depth) - log_chance(n, depth)))
    assert worst <= float(epsilon)
    assert worst >= 0.3 * float(epsilon)
