"""How uneven regions are: the bound holds for all walks, for all small masses and on large regions."""

from itertools import product

import numpy as np
import pytest

from dqam.geometry.regions import Partition
from dqam.statistics import (
    MASS,
    UniformityCosts,
)
from dqam.statistics.uniformity import region_costs
from tests.statistics.cases import BASES, CELLS, ROWS, SINGLE, TRIPS, changes, some, squares


@pytest.mark.parametrize("partition", [Partition.whole(3, 3), ROWS, CELLS], ids=["whole", "rows", "cells"])
def test_uniformity_costs(partition: Partition) -> None:
    statistic = UniformityCosts(partition.regions)
    changed = np.concatenate([changes(statistic, [[]], TRIPS), changes(statistic, BASES[1:], SINGLE[:9] + some(150))])
    added = changed.sum(axis=1)
    assert added.max() <= statistic.sensitivity
    assert squares(changed) <= statistic.l2_squared == statistic.sensitivity**2
    if partition is not CELLS:
        assert added.max() >= 0.98 * statistic.sensitivity
        assert squares(changed) >= 0.98**2 * statistic.l2_squared
    else:
        assert added.max() == 0


def test_uniformity_costs_of_any_masses() -> None:
    """The bound also holds for all ways to lay a small mass on a small base, where rounding matters most."""
    region = np.array([[0, 0, 2, 2]])
    for base in product(range(4), repeat=4):
        before = region_costs(np.array(base).reshape(2, 2), region)[0]
        for more in product(range(3), repeat=4):
            after = region_costs(np.array(base).reshape(2, 2) + np.array(more).reshape(2, 2), region)[0]
            assert abs(after - before) <= 2 * sum(more) * 3 / 4 + 2


def test_large_regions_and_small_masses() -> None:
    """Rounding the mean moves every cell's term by up to one; the mass left out of a trip pays for it."""
    side = 300
    region = np.array([[0, 0, side, side]])
    rng = np.random.default_rng(0)
    for _ in range(20):
        base = rng.integers(0, 3, (side, side))
        short = -int(base.sum()) % (side * side)  # what is missing to the next whole mean
        base[rng.integers(side), rng.integers(side)] += max(0, short - 1)
        more = base.copy()
        more[0, 0] += MASS
        change = abs(int(region_costs(more, region)[0] - region_costs(base, region)[0]))
        assert change <= UniformityCosts(region).sensitivity
