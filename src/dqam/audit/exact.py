"""The exact values behind noisy answers. Only audits may read them, and nothing computed from them is private.

Fingerprints tell whether two releases are exactly the same.
"""

from __future__ import annotations

from dataclasses import is_dataclass
from fractions import Fraction
from hashlib import sha256
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


def fingerprint(value: Any) -> str:
    """A hash of all that a part of a release holds, to the last bit."""

    def parts(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value.dtype, value.shape, value.tobytes()
        if isinstance(value, tuple | list):
            return [parts(each) for each in value]
        return {name: parts(each) for name, each in vars(value).items()} if is_dataclass(value) else value

    return sha256(repr(parts(value)).encode()).hexdigest()[:16]
