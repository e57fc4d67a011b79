"""The number of trips."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from dqam.geometry.arrays import Integers
from dqam.statistics.aggregate import Aggregate, Part
from dqam.statistics.question import OnAnyGrid


@dataclass(frozen=True)
class TripsOnGrid(Aggregate):
    """int64[1]: trips on the grid."""

    def add_up(self, part: Part) -> Integers:
        """Count the trips that have a longest piece."""
        return np.array([np.count_nonzero(part.longest >= 0)], np.int64)

    def add_up_by_slice(self, part: Part, count: int) -> Integers:
        """The same in one pass."""
        slices = part.slices[part.longest >= 0]
        known = slices[(slices >= 0) & (slices < count)]
        return np.bincount(known, minlength=count).astype(np.int64)[:, None]


@dataclass(frozen=True)
class TripCount(OnAnyGrid):
    """The number of trips on the grid: int64[1].

    Sensitivity 1, in L1 and in L2: a trip adds 1 if it is on the grid and 0 if not.
    """

    name: str = field(default="Number of trips", init=False)
    resolution: int = field(default=1, init=False)
    sensitivity: ClassVar[int] = 1
    l2_squared: ClassVar[int] = 1

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """Trips on the grid."""
        return (TripsOnGrid(),)

    def value(self, *totals: Integers) -> Integers:
        """The total itself."""
        return totals[0]
