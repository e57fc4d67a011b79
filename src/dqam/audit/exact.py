"""The exact values behind noisy answers. Only audits may look at them; whatever is made of them is not private."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, TypeAlias

from dqam.geometry.arrays import Integers, Mask
from dqam.geometry.regions import Partition
from dqam.geometry.walks import Walks
from dqam.privacy.curator import TREES
from dqam.privacy.noise import Noise
from dqam.statistics.records import MASS, SHADOW, AnyRecords, Records
from dqam.values.guarantee import Unit

SHARE_UNIT, SHADOW_UNIT = MASS, SHADOW  # what one trip's mass and one number of a shadow are counted in

Aggregates: TypeAlias = AnyRecords


def aggregates_of(walks: Walks, keep: Mask | None = None, unit: Unit | None = None) -> Aggregates:
    """The aggregates of walks, of which a curator answers questions; of all trips, or of those to `keep` for `unit`."""
    return Records(walks, keep, unit)


def exact_vector(question: Any, aggregates: Aggregates) -> Integers:
    """The vector of a question before noise is added; for a partition, the cell shares that it is grown on."""
    if type(question) in TREES:
        return aggregates.shares().ravel()
    return type(question).of(question, aggregates)


def grow(tree: Any, aggregates: Aggregates, noise: Noise, epsilon: Fraction) -> Partition:
    """The partition of a tree, grown on the exact cell shares with noise for `epsilon`."""
    return tree.grow(aggregates, noise, epsilon, 1)
