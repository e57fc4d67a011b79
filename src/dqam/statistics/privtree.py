"""PrivTree (Zhang, Xiao and Xie, 2016) on cell shares: a private quadtree that splits dense areas into small regions.

A node at depth d with mass c has the bias b = max(c - d * decay, threshold - decay). It is split if and only if
b + noise > threshold, with discrete Laplace noise of scale lambda. The privacy cost does not grow with the depth. Only
the tree is published, never a count.

Proof that it is eps-private. Let one unit add mass w(v) >= 0 to each node v, at most U in total over disjoint nodes,
and let lambda = 7 U / (3 eps) and decay >= lambda ln 4 + U. Let g(x) = ln P(x + noise > threshold) and
s(z) = g(z + 1) - g(z). For discrete Laplace noise, with q = exp(-1 / lambda),

    s(z) = 1 / lambda                                                         for z <= threshold,
    s(threshold + k) = ln(1 + q^k (1 - q) / (1 + q - q^k)) <= q^k / lambda    for k >= 1,

since 1 + q - q^k >= 1 and 1 - q <= 1 / lambda; so s never increases. Take any tree, and let x(v) = c(v) - d * decay
with the unit present.

Leaves. The unit multiplies the probability that v is not split by a factor of at least exp(-w(v) / lambda). Leaves are
disjoint, so over all of them the factor is at least exp(-U / lambda) >= exp(-eps).

Splits. The unit multiplies the probability of a split by exp(g(b) - g(b')) with b' = max(x - w, threshold - decay), and
does not change it if x <= threshold - decay. The exponent is the sum of s over [b', b). Let r(x) be the mean of s over
the U steps below x, or over the steps down to threshold - decay if these are fewer. The exponent is at most w r(x): s
is no smaller for steps further down, so its mean over fewer steps below x is at most r(x), and the bias can only stop
the w steps early. Now spread w(v) over the cells of v: the sum of w(v) r(x(v)) over split nodes is the sum, over cells
weighted by the mass that the unit has there, of the sum of r along the path from the root to the cell. Along a path, x
falls by at least `decay` from node to node, because a child has no more mass than its parent. Number the nodes with
x > threshold - decay from the last one backwards. The last has r <= 1 / lambda. The one before has x > threshold and
r <= 1 / lambda. The node j >= 1 places before that has x > threshold + j * decay; its U steps all lie above
threshold + j * decay - U >= threshold + j lambda ln 4, so r <= 4^-j / lambda. The sum of r along the path is at most
(2 + 1/3) / lambda, so the total exponent is at most 7 U / (3 lambda) = eps.

Single cells, and nodes at the greatest depth, are leaves by a public rule.

The additional U in the decay is needed because the mass of a unit is spread out; in the original proof, records are
points, and it is not needed.

All of this is exact in 64 bits: the mass is at most 2^31 MASS < 2^61, and the threshold is within +-2^61. The curator
allows lambda <= 2^55 and units of up to 2^20 trips, so that decay < 2^56 and, as the greatest depth is 12, d * decay is
below 2^60. The bias is then within +-(2^61 + 2^60), and is not clamped before noise is added. OpenDP clamps bias plus
noise to 64 bits; these limits lie beyond every threshold, so clamping does not change the comparison.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dqam.errors import InputError
from dqam.geometry.arrays import Integers
from dqam.geometry.grid import Grid
from dqam.geometry.regions import Partition, children, node_bounds, quadtree_depth
from dqam.statistics.aggregate import Aggregate
from dqam.statistics.cell_shares import MASS, MassByCell
from dqam.statistics.limits import MOST_TRIPS
from dqam.statistics.question import NoiseSource


@dataclass(frozen=True)
class PrivTree:
    """The question to the curator. `threshold` is in trips; `max_depth` can end the tree before single cells."""

    threshold: float = 0.0
    max_depth: int | None = None
    name: str = field(default="Regions of similar density (PrivTree)", init=False)
    resolution: int = field(default=MASS, init=False)
    sensitivity: ClassVar[int] = MASS  # the mass of a trip
    delta: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if not abs(self.threshold) <= MOST_TRIPS:
            raise InputError(
                f"The threshold of PrivTree must be a number of trips from {-MOST_TRIPS} to {MOST_TRIPS}; "
                f"got {self.threshold}."
            )
        if self.max_depth is not None and self.max_depth < 0:
            raise InputError(f"max_depth must be at least 0; got {self.max_depth}.")

    def check(self, grid: Grid) -> None:
        """Nothing to check: any grid is allowed."""

    @staticmethod
    def scale(epsilon: Fraction, max_trips: int) -> Fraction:
        """lambda, in units of 1/MASS, for a unit of `max_trips` trips."""
        return Fraction(7 * MASS * max_trips, 3) / epsilon

    @classmethod
    def decay(cls, epsilon: Fraction, max_trips: int) -> int:
        """lambda ln 4 plus a unit's mass, rounded up."""
        return math.ceil(float(cls.scale(epsilon, max_trips)) * math.log(4) * (1 + 1e-9)) + MASS * max_trips

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """Mass by cell."""
        return (MassByCell(),)

    def grow(self, totals: tuple[Integers, ...], noise: NoiseSource, epsilon: Fraction, max_trips: int) -> Partition:
        """The partition. Only the curator may call this."""
        (shares,) = totals
        rows, columns = shares.shape
        scale = self.scale(epsilon, max_trips)
        decay = self.decay(epsilon, max_trips)
        threshold = round(self.threshold * MASS)
        sums = np.zeros((rows + 1, columns + 1), np.int64)
        sums[1:, 1:] = shares.cumsum(axis=0).cumsum(axis=1)

        leaves, nodes = [], np.zeros((1, 2), np.int64)
        deepest = quadtree_depth(rows, columns)
        deepest = deepest if self.max_depth is None else min(deepest, self.max_depth)
        for depth in range(deepest + 1):
            bounds = node_bounds(depth, nodes, rows, columns)
            west, south, east, north = bounds.T
            open_ = (east - west) * (north - south) > 1 if depth < deepest else np.zeros(len(nodes), bool)
            if open_.any():
                mass = sums[north, east] - sums[south, east] - sums[north, west] + sums[south, west]
                bias = np.maximum(mass[open_] - depth * decay, threshold - decay)
                open_[open_] = noise.laplace(bias, scale) > threshold
            leaves.append(bounds[~open_])
            nodes = children(nodes[open_], depth, rows, columns)
            if not len(nodes):
                break
        return Partition(rows, columns, np.concatenate(leaves))
