"""Uniformity costs: how unevenly trips are distributed within each region; the paper's cost of a partition."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numba import njit

from dqam.errors import InputError
from dqam.geometry.arrays import Integers
from dqam.geometry.grid import Grid
from dqam.geometry.regions import coverage
from dqam.statistics.aggregate import Aggregate
from dqam.statistics.cell_shares import MASS, MassByCell
from dqam.statistics.question import OnRectangles


@dataclass(frozen=True, eq=False)
class UniformityCosts(OnRectangles):
    """How far the cell shares of each region are from uniform, for disjoint regions: int64[regions].

    For shares c_j of the p cells of a region with sum S the cost is sum over j of |c_j - floor(S / p)|.

    Sensitivity 2^31 (P - 1) / P, rounded up, where P is the size of the largest region. Let a trip add w_j >= 0 with
    sum W to a region of p cells, and let d = floor((S + W) / p) - floor(S / p); then d < W / p + 1. Each term changes
    by at most |w_j - d|. For given W, the sum of |w_j - d| is convex in w, so it is largest when all of W is in one
    cell, where it is |W - d| + (p - 1) d. If d <= W this is W + (p - 2) d < W + (p - 2)(W / p + 1) = 2 W (p - 1) / p +
    p - 2; if d > W then W = 0 (d = 1 > W as integers), and nothing changes. For p = 1 the cost is always 0. Summed over
    disjoint regions, with total mass at most MASS = 2^30 - 2^24 and at most 2^24 cells in all, a trip moves the vector
    by at most 2 MASS (P - 1) / P + sum (p - 2 where p >= 2) <= 2 (2^30 - 2^24)(P - 1) / P + 2^24 (P - 1) / P < 2^31 (P
    - 1) / P. This is why MASS is 2^24 below 2^30: so rounding costs no privacy.

    In L2 the bound is the same, because the L2 norm is at most the L1 norm, and is reached in the same way, by a trip
    within one region.

    Bits: a cost is at most the sum of the shares and of the means, 2 S <= 2^32 MASS < 2^62.
    """

    rectangles: Integers  # disjoint
    name: str = "Unevenness within each region"
    resolution: int = field(default=MASS, init=False)

    @property
    def sensitivity(self) -> int:
        """2^31 (P - 1) / P, rounded up; 1 if every region is one cell and all costs are 0."""
        west, south, east, north = self.rectangles.T
        largest = int(((east - west) * (north - south)).max())
        return max(1, -(-(2**31) * (largest - 1) // largest))

    @property
    def l2_squared(self) -> int:
        """The square of the same."""
        return self.sensitivity**2

    def check(self, grid: Grid) -> None:
        """Check that the regions are on this grid and disjoint."""
        if coverage(self.rectangles, *grid.shape).max() > 1:
            raise InputError(f"Costs are of disjoint regions; some of these {len(self.rectangles)} overlap.")

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """Mass by cell."""
        return (MassByCell(),)

    def value(self, *totals: Integers) -> Integers:
        """The cost of each region."""
        return region_costs(totals[0], self.rectangles)


def region_costs(shares: Integers, regions: Integers) -> Integers:
    """The uniformity cost of each region, as `UniformityCosts` defines it."""
    costs = np.zeros(len(regions), np.int64)
    _add_costs(shares, regions, costs)
    return costs


@njit(nogil=True, cache=True)
def _add_costs(shares, regions, costs):  # type: ignore[no-untyped-def]
    for i in range(len(regions)):
        west, south, east, north = regions[i, 0], regions[i, 1], regions[i, 2], regions[i, 3]
        total = np.int64(0)
        for row in range(south, north):
            for column in range(west, east):
                total += shares[row, column]
        mean = total // ((east - west) * (north - south))
        for row in range(south, north):
            for column in range(west, east):
                costs[i] += abs(shares[row, column] - mean)
