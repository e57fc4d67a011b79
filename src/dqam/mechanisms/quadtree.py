"""The paper's quadtree on uniformity costs, with a sound charge for each of its levels.

The paper adds noise for eps1 at every level and charges eps1 once, because only the leaves are revealed. But the leaves
reveal every split above them: each level is a separate measurement, and their costs add up. Here every level gets
eps1 / levels, all costs of a level are one measurement of disjoint regions, and the noisy cost of a node is drawn once
and used both when the node is a child and when it is a parent.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dqam.geometry.regions import Partition, children, node_bounds, places, quadtree_depth
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.statistics import MASS, UniformityCosts


def grow_quadtree(
    curator: Curator,
    budget: Budget,
    threshold: float | None = None,
    max_depth: int | None = None,
    amount: Fraction | None = None,
) -> Partition:
    """Split a node if its cost exceeds the mean of its children's by more than `threshold`, in trips.

    By default, the threshold is as large as the noise of a cost. A tree of smaller depth has fewer levels to pay for.
    Spends `amount`, by default all of `budget`, or less if the tree ends early.
    """
    rows, columns = curator.grid.shape
    deepest = quadtree_depth(rows, columns)
    levels = deepest if max_depth is None else min(deepest, max_depth)
    if not levels:
        return Partition.whole(rows, columns)
    measured = levels if levels == deepest else levels + 1  # single cells have no cost to measure
    each = (budget.left if amount is None else amount) / measured
    if threshold is None:
        threshold = 2 * curator.unit.max_trips / budget.precision(each)

    def measure(bounds: np.ndarray) -> np.ndarray:
        """Noisy costs in trips; those of single cells are always 0, which is public."""
        costs = np.zeros(len(bounds))
        large = (bounds[:, 2] - bounds[:, 0]) * (bounds[:, 3] - bounds[:, 1]) > 1
        if large.any():
            statistic = UniformityCosts(bounds[large], f"Unevenness within each of {large.sum()} regions")
            costs[large] = curator.measure(statistic, budget, each) / MASS
        return costs

    nodes, leaves = np.zeros((1, 2), np.int64), []
    costs = measure(node_bounds(0, nodes, rows, columns))
    for depth in range(levels):
        below = children(nodes, depth, rows, columns)
        below_costs = measure(node_bounds(depth + 1, below, rows, columns)) if len(below) else np.zeros(0)
        parent = places(below >> 1, nodes)
        mean = np.bincount(parent, below_costs, len(nodes)) / np.maximum(np.bincount(parent, minlength=len(nodes)), 1)
        bounds = node_bounds(depth, nodes, rows, columns)
        split = (costs - mean > threshold) & ((bounds[:, 2] - bounds[:, 0]) * (bounds[:, 3] - bounds[:, 1]) > 1)
        leaves.append(bounds[~split])
        kept = split[parent]
        nodes, costs = below[kept], below_costs[kept]
        if not len(nodes):
            break
    leaves.append(node_bounds(levels, nodes, rows, columns) if len(nodes) else np.zeros((0, 4), np.int64))
    return Partition(rows, columns, np.concatenate(leaves))
