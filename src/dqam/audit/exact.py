"""The exact values behind noisy answers. Only audits may read them, and nothing computed from them is private."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from dqam.geometry.arrays import Integers
from dqam.geometry.regions import Partition
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.noise import Noise
from dqam.statistics import PARTITIONS, PrivTree


def exact_vector(question: Any, aggregates: Aggregates) -> Integers:
    """The vector of a question before noise is added; for a partition, the totals that it is grown on."""
    if type(question) in PARTITIONS:
        return np.concatenate([total.ravel() for total in aggregates.totals(question)])
    return aggregates.value(question)


def grow(tree: PrivTree, aggregates: Aggregates, noise: Noise, epsilon: Fraction) -> Partition:
    """The partition of a tree, grown on its exact totals with noise for `epsilon`."""
    return tree.grow(aggregates.totals(tree), noise, epsilon, 1)
