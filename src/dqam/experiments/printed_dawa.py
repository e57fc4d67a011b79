"""DAWA as in the paper's comparison: on the exact faces along a Hilbert curve. NOT private, for reproduction only.

It assumes that a trip is one count in one face, although it adds one to every face that it visits. As in the public
code of DAWA's authors, the noise of the cost of a bucket has scale (2 - 1/p - 1/N) / eps1 for p of N cells, single
cells have none, and negative noisy costs become 0; even for trips of one visit this is too little noise.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dqam.geometry.arrays import Floats, Integers
from dqam.geometry.hilbert import hilbert_order
from dqam.mechanisms.dawa import estimate, fill, level_usage
from dqam.statistics.buckets import interval_costs, least_partition

UNIT = 2**20  # of a count, so that costs are whole numbers
RATIO = 0.5  # of epsilon, for the buckets


def printed_dawa(faces: Floats, queries: Integers, epsilon: float, rng: np.random.Generator) -> Floats:
    """float64[rows, columns]: noisy faces, for queries that sum them."""
    order = hilbert_order(*faces.shape)
    counts = faces.ravel()[order].astype(np.float64)
    first, second = epsilon * RATIO, epsilon * (1 - RATIO)
    whole = np.rint(counts * UNIT).astype(np.int64)
    noisy = np.zeros((len(whole).bit_length(), len(whole)), np.int64)
    for k in range(1, len(noisy)):
        costs = interval_costs(whole, 2**k)
        noise = rng.laplace(0, UNIT * (2 - 1 / 2**k - 1 / len(whole)) / first, len(costs))
        noisy[k, : len(costs)] = np.maximum(0, costs + np.rint(noise).astype(np.int64))
    starts = least_partition(noisy, round(UNIT / second))

    def ask(groups: Integers, share: Fraction) -> Floats:
        sums = np.bincount(groups, counts)
        return sums + rng.laplace(0, 1 / (float(share) * second), len(sums))

    masses = estimate(starts, level_usage(starts, order, faces.shape[1], queries), ask)
    return fill(starts, order, masses).reshape(faces.shape)
