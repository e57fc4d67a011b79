"""Counts of distinct trips through rectangles, and questions based on them: totals, and errors of estimates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from dqam.errors import InputError
from dqam.geometry.arrays import Floats, Integers
from dqam.geometry.counting import count_distinct
from dqam.statistics.aggregate import Aggregate, Part
from dqam.statistics.question import OnRectangles
from dqam.statistics.trip_count import TripsOnGrid


@dataclass(frozen=True, eq=False)
class DistinctTrips(Aggregate):
    """int64[m]: distinct trips in each rectangle."""

    rectangles: Integers

    def add_up(self, part: Part) -> Integers:
        """Count exactly; a trip counts once in a rectangle, however often it returns."""
        return count_distinct(part.walks, self.rectangles, part.walks.grid, part.kept)

    def covered_by(self, other: Aggregate) -> bool:
        """Whether both are equal, or the only rectangle here is one of those of `other`."""
        return self._place(other) is not None or super().covered_by(other)

    def read_from(self, other: Aggregate, total: Integers) -> Integers:
        """All counts, or the count of the only rectangle."""
        place = self._place(other)
        return total if place is None else total[[place]]

    def _place(self, other: Aggregate) -> int | None:
        """The index of the only rectangle among those of `other`, if it is there."""
        if type(other) is not DistinctTrips or len(self.rectangles) != 1:
            return None
        same = (other.rectangles == self.rectangles).all(axis=1)
        return int(np.argmax(same)) if same.any() else None


@dataclass(frozen=True, eq=False)
class DistinctCounts(OnRectangles):
    """Distinct trips in each of some rectangles: int64[m].

    Sensitivity m: a trip adds 0 or 1 to each of the m counts, whatever loops it makes. In L2 it is therefore the square
    root of m.
    """

    rectangles: Integers
    name: str = "Distinct trips through a rectangle"
    resolution: int = field(default=1, init=False)

    @property
    def sensitivity(self) -> int:
        """One for each rectangle."""
        return len(self.rectangles)

    @property
    def l2_squared(self) -> int:
        """One for each rectangle."""
        return len(self.rectangles)

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """Distinct trips."""
        return (DistinctTrips(self.rectangles),)

    def value(self, *totals: Integers) -> Integers:
        """The total as it is."""
        return totals[0]


@dataclass(frozen=True, eq=False)
class QueryTotals(OnRectangles):
    """The number of rectangles that each trip on the grid meets, and that it misses, summed over trips: int64[2].

    The first is the sum of the distinct counts, and the sum of both is m times the number of trips, for m rectangles.
    So one question measures both, and the mean count has 1/m of the noise that each count would have if all m were
    measured at once.

    Sensitivity m: a trip on the grid that meets k of the rectangles adds k and m - k, which is m in total; any other
    trip meets none, and adds nothing. m is at most 2^31. In L2 it is m as well, for k = 0 and k = m: k^2 + (m - k)^2 is
    at most m^2.
    """

    rectangles: Integers
    name: str = "Number of trips and average answer"

    @property
    def resolution(self) -> int:
        """One for each rectangle, because the sums are reported as means over rectangles."""
        return len(self.rectangles)

    @property
    def sensitivity(self) -> int:
        """One for each rectangle."""
        return len(self.rectangles)

    @property
    def l2_squared(self) -> int:
        """The square of the same."""
        return self.sensitivity**2

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """Distinct trips, and all trips."""
        return DistinctTrips(self.rectangles), TripsOnGrid()

    def value(self, *totals: Integers) -> Integers:
        """The numbers met and missed."""
        met = totals[0].sum()
        return np.array([met, len(self.rectangles) * totals[1][0] - met], np.int64)


@dataclass(frozen=True, eq=False)
class QueryErrors(OnRectangles):
    """Scores: how far public estimates are from the distinct counts of a query set, |count - estimate|: int64[m].

    Sensitivity 1: a trip changes each count by 0 or 1, the estimates not at all, and the absolute value is 1-Lipschitz.
    Estimates are rounded to integers, which is a function of public numbers; they are at most 2^53.
    """

    rectangles: Integers
    estimates: Floats
    name: str = field(default="Rectangle with the worst answer", init=False)
    resolution: int = field(default=1, init=False)
    sensitivity: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        estimates = np.array(self.estimates, np.float64)
        if estimates.shape != (len(self.rectangles),) or not (np.abs(estimates) <= 2**53).all():
            raise InputError(f"estimates must be finite numbers, one for each of {len(self.rectangles)} rectangles.")
        estimates.flags.writeable = False
        object.__setattr__(self, "estimates", estimates)

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """Distinct trips."""
        return (DistinctTrips(self.rectangles),)

    def value(self, *totals: Integers) -> Integers:
        """Absolute errors."""
        return np.abs(totals[0] - np.rint(self.estimates).astype(np.int64))
