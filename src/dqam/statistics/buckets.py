"""The first stage of DAWA (Li, Hay and Miklau, 2014) on cell shares: buckets of consecutive cells with similar shares.

Cells come in a public order. An *interval* is 2^k consecutive cells of that order, from any start. Its cost is
c(b) = sum over its cells of |x_i - floor(mean of b)|, plus a public penalty. The cost of every interval gets its own
discrete Laplace noise, of scale lambda(p) = (4 - 2/p) m 2^30 / eps for p cells and a unit of m trips. The partition
into intervals with the least noisy cost is published; the noisy costs never are.

Proof that it is eps-private. Let D' be D with a unit added or removed, and let W(b) be the unit's mass in b, which is
at most m MASS over disjoint intervals. By the lemma of `UniformityCosts`, the unit changes the cost of an interval of p
cells, up or down, by at most r(b) = 2 W(b) (1 - 1/p) + max(0, p - 2), where the second term is due to the rounding of
the mean. If p = 1, the cost does not change.

Take any partition P, and noise z with which D gives P. For D', lower the noise of the intervals of P, and of no other:
z'(b) = z(b) - floor(s(b)) with s(b) = (4 - 2/p) W(b) + a(p), where a(p) = p + max(0, p - 2), so that
s(b) = r(b) + 2 W(b) + p. Then D' with noise z' gives P too. To see this, let Q be any other partition. The intervals
that P and Q have in common add the same to both costs, whatever the noise. The remaining intervals of P and the
remaining intervals of Q cover the same set S of cells, and only those of P have lowered noise. Because costs are
integers, the cost of P minus that of Q rises from D to D' by at most

    sum over b in P, not Q of (floor(r(b)) - floor(s(b)))  +  sum over b in Q, not P of r(b).

The second sum is at most 2 W(S) + |S|, which is the sum over b in P, not Q, of the integers 2 W(b) + p(b); and
floor(s(b)) equals floor(r(b)) + 2 W(b) + p. So the cost of P minus that of any other partition does not rise. If P had
the least cost, it still has; if it was tied and a public rule chose it, it is still tied or now costs less. The map
from z to z' is one-to-one for given P, so

    P(D gives P) <= exp(sum over b in P of s(b) / lambda(p(b))) P(D' gives P).

As a(p) / (4 - 2/p) <= p / 2, the exponent is at most (m MASS + N / 2) eps / (m 2^30) for N cells, and this is at most
eps because MASS = 2^30 - 2^24 and N <= 2^22. So rounding costs no privacy.

The proof requires three things: noise on single cells too; exact sums (they are kept in more than 64 bits, so that
common intervals cancel); and noisy costs that are not clipped at 0, because clipped noise could not be lowered. The
mass of 2^31 trips is below 2^61, and penalties are at most that. Costs are then below 2^62, as `UniformityCosts` shows,
and are not clamped. The probability that the noise does not fit in 64 bits is below 2^27 exp(-128) at the largest scale
that the curator allows, and below 2^27 exp(-2^20) for eps >= 0.001 m.

In the original, the mass of a point is in one cell, scales are about half of these, single cells have no noise, and
noisy costs are clipped at 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numba import njit

from dqam.errors import InputError
from dqam.geometry.arrays import Integers
from dqam.geometry.grid import Grid
from dqam.statistics.aggregate import Aggregate
from dqam.statistics.cell_shares import MASS, MassByCell
from dqam.statistics.question import NoiseSource

MOST_CELLS = 2**22


@dataclass(frozen=True, eq=False)
class L1Buckets:
    """The question to the curator; `order` lists every cell (row * columns + column) once.

    `penalty` is added to the cost of each bucket, in trips: a larger one gives fewer buckets.
    """

    order: Integers
    penalty: float
    name: str = field(default="Groups of similar cells (DAWA buckets)", init=False)
    resolution: int = field(default=MASS, init=False)
    sensitivity: ClassVar[int] = MASS  # the mass of a trip
    delta: ClassVar[str] = "10^-47"  # that noise does not fit in 64 bits; see above

    def __post_init__(self) -> None:
        order = np.array(self.order)
        if order.ndim != 1 or order.dtype.kind not in "iu" or not 1 <= len(order) <= MOST_CELLS:
            raise InputError(f"Buckets are of 1 to {MOST_CELLS:,} cells in a row; got {order.dtype} of {order.shape}.")
        if not np.array_equal(np.sort(order), np.arange(len(order))):
            raise InputError(f"The order of {len(order)} cells must name each of them once.")
        order = order.astype(np.int64)
        order.flags.writeable = False
        object.__setattr__(self, "order", order)
        if not 0 <= self.penalty <= 2**31:
            raise InputError(f"The penalty of a bucket is a number of trips from 0 to {2**31}; got {self.penalty}.")

    def check(self, grid: Grid) -> None:
        """Check that the order lists the cells of this grid."""
        if len(self.order) != grid.rows * grid.columns:
            raise InputError(f"An order of {len(self.order)} cells does not fit a grid of {grid.shape}.")

    @staticmethod
    def scale(epsilon: Fraction, max_trips: int, length: int | None = None) -> Fraction:
        """lambda for intervals of `length` cells, in units of 1/MASS; without `length`, an upper bound for all."""
        return (4 - (Fraction(2, length) if length else 0)) * 2**30 * max_trips / epsilon

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """Mass by cell."""
        return (MassByCell(),)

    def grow(self, totals: tuple[Integers, ...], noise: NoiseSource, epsilon: Fraction, max_trips: int) -> Integers:
        """int64[buckets + 1]: where in the order buckets begin, then the number of cells.

        Only the curator may call this.
        """
        shares = totals[0].ravel()[self.order]
        noisy = np.zeros((len(shares).bit_length(), len(shares)), np.int64)
        for k in range(len(noisy)):
            costs = interval_costs(shares, 2**k)
            noisy[k, : len(costs)] = noise.laplace(costs, self.scale(epsilon, max_trips, 2**k))
        return least_partition(noisy, round(self.penalty * MASS))


def interval_costs(values: Integers, length: int) -> Integers:
    """int64[n - length + 1]: sum |x - floor(mean)| over `length` consecutive values, from every start.

    Values are at least 0 and add up to at most 2^61. A window slides over them; it keeps counts and sums by rank.
    """
    if length == 1:
        return np.zeros(len(values), np.int64)
    ranked = np.unique(values)
    return _sliding_costs(values, ranked, np.searchsorted(ranked, values) + 1, length)


def least_partition(costs: Integers, penalty: int) -> Integers:
    """Boundaries of the cheapest partition: costs[k, i] is that of the interval [i, i + 2^k), plus `penalty` for each.

    Among partitions of equal cost, the one with the longest last bucket is chosen, and so on backwards.
    """
    return np.flatnonzero(_cheapest_cuts(np.ascontiguousarray(costs), penalty))


@njit(nogil=True, cache=True)
def _sliding_costs(values, ranked, ranks, length):  # type: ignore[no-untyped-def]
    """A Fenwick tree over ranks holds the window; one descent gives the count and sum of values up to the mean."""
    distinct = len(ranked)
    top = 1
    while top * 2 <= distinct:
        top *= 2
    counts = np.zeros(distinct + 1, np.int64)
    sums = np.zeros(distinct + 1, np.int64)
    costs = np.empty(len(values) - length + 1, np.int64)
    total = np.int64(0)
    for i in range(len(values)):
        total += values[i]
        node = ranks[i]
        while node <= distinct:
            counts[node] += 1
            sums[node] += values[i]
            node += node & -node
        if i >= length:
            gone = i - length
            total -= values[gone]
            node = ranks[gone]
            while node <= distinct:
                counts[node] -= 1
                sums[node] -= values[gone]
                node += node & -node
        if i >= length - 1:
            mean = total // length
            node, step = 0, top
            count, low = np.int64(0), np.int64(0)
            while step:
                if node + step <= distinct and ranked[node + step - 1] <= mean:
                    node += step
                    count += counts[node]
                    low += sums[node]
                step //= 2
            costs[i - length + 1] = (mean * count - low) + (total - low - mean * (length - count))
    return costs


@njit(nogil=True, cache=True)
def _cheapest_cuts(costs, penalty):  # type: ignore[no-untyped-def]
    """Where the cheapest partition is cut; sums of costs are kept as high * 2^32 + low, which is exact."""
    n = costs.shape[1]
    high = np.zeros(n + 1, np.int64)
    low = np.zeros(n + 1, np.int64)
    last = np.zeros(n + 1, np.int64)  # where the last bucket of the cheapest partition of each prefix begins
    mask = np.int64(2**32 - 1)
    for end in range(1, n + 1):
        for k in range(costs.shape[0]):
            begin = end - (1 << k)
            if begin < 0:
                break
            cost = costs[k, begin]
            below = low[begin] + (cost & mask) + (penalty & mask)
            above = high[begin] + (cost >> 32) + (penalty >> 32) + (below >> 32)
            below &= mask
            if k == 0 or above < high[end] or (above == high[end] and below <= low[end]):
                high[end], low[end], last[end] = above, below, begin
    cut = np.zeros(n + 1, np.bool_)
    cut[n] = True
    while n:
        n = last[n]
        cut[n] = True
    return cut
