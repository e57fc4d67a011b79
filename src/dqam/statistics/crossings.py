"""Crossings: how often trips move from one cell to the next, by region."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dqam.errors import InputError
from dqam.geometry.arrays import Integers
from dqam.geometry.regions import Partition
from dqam.statistics.aggregate import Aggregate, Part
from dqam.statistics.limits import MOST_CAP
from dqam.statistics.question import OnPartition

CROSSING = 2**16  # units per crossing, in fixed point


@dataclass(frozen=True, eq=False)
class CappedCrossings(Aggregate):
    """int64[2 * regions]: crossings by region, weighted and capped as `Crossings` defines it."""

    labels: NDArray[np.integer]
    weights: Integers
    cap: int

    def add_up(self, part: Part) -> Integers:
        """One pass over the crossings of the longest pieces."""
        walks, crossings = part.walks, np.zeros(2 * len(self.weights), np.int64)
        _add_crossings(
            walks.cells, walks.pieces, part.longest, walks.grid.columns, self.labels, self.weights, self.cap, crossings
        )
        return crossings


@dataclass(frozen=True, eq=False)
class Crossings(OnPartition):
    """Crossings by region, of vertical edges and then of horizontal ones: int64[2 * regions], in units of 1/CROSSING.

    An edge belongs to the region of the cell west or south of it. A crossing in region p weighs weights[p] (CROSSING if
    no weights are given). If the weights of a trip add up to W above the cap C = `cap` * CROSSING, each of its
    crossings counts as floor(weight * C / W) instead.

    Sensitivity C: if W <= C the trip changes the vector by W in the L1 norm, as all its terms are positive; if not, by
    the sum of floor(weight * C / W) <= (C / W) * sum of weights = C. In L2 it is C as well, because all crossings of a
    trip may be in one number, and the L2 norm is at most the L1 norm.

    Bits: C <= 2^31, so that weight * C <= 2^47, and W < 2^62 as a walk of 2^46 visits would fill 2^48 bytes.
    """

    partition: Partition
    cap: int
    weights: Integers | None = None
    name: str = field(default="Crossings by region", init=False)
    resolution: int = field(default=CROSSING, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cap", operator.index(self.cap))
        if not 1 <= self.cap <= MOST_CAP:
            raise InputError(f"The cap on a trip's crossings must be 1 to {MOST_CAP:,}; got {self.cap:,}.")
        if self.weights is not None:
            weights = np.array(self.weights)
            if (
                weights.shape != (len(self.partition),)
                or weights.dtype.kind not in "iu"
                or weights.min() < 0
                or weights.max() > CROSSING
            ):
                raise InputError(
                    f"weights must be whole numbers from 0 to {CROSSING}, one for each of the "
                    f"{len(self.partition)} regions."
                )
            weights = weights.astype(np.int64)
            weights.flags.writeable = False
            object.__setattr__(self, "weights", weights)

    @property
    def sensitivity(self) -> int:
        """The cap, in units of 1/CROSSING."""
        return self.cap * CROSSING

    @property
    def l2_squared(self) -> int:
        """The square of the same."""
        return self.sensitivity**2

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """The capped crossings."""
        weights = np.full(len(self.partition), CROSSING, np.int64) if self.weights is None else self.weights
        return (CappedCrossings(self.partition.labels.ravel(), weights, self.sensitivity),)

    def value(self, *totals: Integers) -> Integers:
        """The total as it is."""
        return totals[0]


@njit(nogil=True, cache=True)
def _add_crossings(cells, pieces, longest, columns, labels, weights, cap, crossings):  # type: ignore[no-untyped-def]
    regions = len(weights)
    for piece in longest:
        if piece < 0:
            continue
        total = 0
        for visit in range(pieces[piece] + 1, pieces[piece + 1]):
            total += weights[labels[min(cells[visit - 1], cells[visit])]]
        for visit in range(pieces[piece] + 1, pieces[piece + 1]):
            region = labels[min(cells[visit - 1], cells[visit])]
            weight = weights[region] if total <= cap else weights[region] * cap // total
            crossings[region + (regions if abs(cells[visit] - cells[visit - 1]) == columns else 0)] += weight
