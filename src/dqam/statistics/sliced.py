"""Statistics of all slices at once: a trip is in exactly one slice, so the budget is not divided among them."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field, fields

import numpy as np

from dqam.errors import InputError
from dqam.geometry.arrays import Integers
from dqam.geometry.grid import Grid
from dqam.geometry.slicing import MOST_SLICES
from dqam.statistics.aggregate import Aggregate, Part
from dqam.statistics.cell_shares import CellShares, GroupShares
from dqam.statistics.distinct import QueryTotals
from dqam.statistics.pair_counts import PairCounts
from dqam.statistics.question import Statistic
from dqam.statistics.trip_count import TripCount

SLICEABLE = frozenset(
    {TripCount, QueryTotals, GroupShares, CellShares, PairCounts}
)  # linear functions of sums over trips
MOST_NUMBERS = 2**28  # in the aggregates of one question, 2 GiB


@dataclass(frozen=True)
class SlicedAggregate(Aggregate):
    """int64[count, ...]: an aggregate, summed over the trips of each slice."""

    inner: Aggregate
    count: int

    def add_up(self, part: Part) -> Integers:
        """Each trip adds to its slice; a trip whose slice is not one of these adds nothing."""
        return self.inner.add_up_by_slice(part, self.count)

    def covered_by(self, other: Aggregate) -> bool:
        """Whether the same holds for the aggregates of the slices."""
        return type(other) is SlicedAggregate and self.count == other.count and self.inner.covered_by(other.inner)

    def read_from(self, other: Aggregate, total: Integers) -> Integers:
        """The same in each slice."""
        assert isinstance(other, SlicedAggregate)
        return np.stack([self.inner.read_from(other.inner, each) for each in total])

    def companions(self) -> tuple[Aggregate, ...]:
        """The same by slice."""
        return tuple(SlicedAggregate(each, self.count) for each in self.inner.companions())


@dataclass(frozen=True, eq=False)
class Sliced:
    """A statistic of each of `count` slices, one after the other: int64[count * the length of the statistic].

    Sensitivity: that of the statistic, in L1 and in L2. Let f(D) be the statistic of the trips D, and D_s the trips in
    slice s. Which slice a trip is in depends on the trip alone (`dqam.geometry.slicing`) and is the same whatever other
    trips there are; and it is in one slice only, because its label is a single number. So a trip that is added to D is
    added to one D_s, and all other D_t stay as they are: one block of the vector changes, from f(D_s) to f(D_s + trip),
    and by no more than any trip changes f, in either norm. Should a label be none of 0 to count - 1, no block changes.
    Contributions are bounded before trips are sliced: a person has at most m trips over all slices together, and m
    trips change the vector by at most m times as much as one.

    Bits: each block is the statistic of some of the trips.
    """

    statistic: Statistic
    count: int
    name: str = field(default="", init=False)

    def __post_init__(self) -> None:
        if not any(type(self.statistic) is known for known in SLICEABLE):
            names = ", ".join(sorted(kind.__name__ for kind in SLICEABLE))
            raise InputError(f"{type(self.statistic).__name__} cannot be sliced; the statistics that can are {names}.")
        object.__setattr__(self, "count", operator.index(self.count))
        if not 1 <= self.count <= MOST_SLICES:
            raise InputError(f"The number of slices must be 1 to {MOST_SLICES}; got {self.count}.")
        object.__setattr__(self, "name", f"{self.statistic.name}, by slice")

    @property
    def resolution(self) -> int:
        """That of the statistic."""
        return self.statistic.resolution

    @property
    def sensitivity(self) -> int:
        """That of the statistic."""
        return self.statistic.sensitivity

    @property
    def l2_squared(self) -> int:
        """That of the statistic."""
        return self.statistic.l2_squared

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """Those of the statistic, by slice."""
        return tuple(SlicedAggregate(each, self.count) for each in self.statistic.aggregates)

    def check(self, grid: Grid) -> None:
        """The statistic must be as its class defines it, fit the grid, and fit into memory once for each slice."""
        kind = type(self.statistic)
        if kind not in SLICEABLE or vars(self.statistic).keys() - {each.name for each in fields(kind)}:  # type: ignore[arg-type]
            raise InputError(f"{kind.__name__} was changed, so that it cannot be sliced; make a new one.")
        kind.check(self.statistic, grid)
        if kind in (CellShares, GroupShares) and self.count * grid.rows * grid.columns > MOST_NUMBERS:
            raise InputError(
                f"{self.count} slices of {grid.rows} x {grid.columns} cells do not fit into memory; use fewer slices "
                "or larger cells."
            )
        if isinstance(self.statistic, PairCounts):
            pairs = self.statistic.origins.cells * self.statistic.destinations.cells
            if self.count * pairs > MOST_NUMBERS:
                raise InputError(
                    f"{self.count} slices of {pairs:,} pairs do not fit into memory; use fewer slices or coarser "
                    "lattices."
                )

    def check_slices(self, slices: int | None) -> None:
        """Raise an `InputError` unless the trips have this number of slices, which is public."""
        if slices != self.count:
            have = "have no slices" if slices is None else f"have {slices} slices"
            raise InputError(f"{self.name} was asked of {self.count} slices, but the trips {have}; ask about those.")

    def value(self, *totals: Integers) -> Integers:
        """The statistic of each slice."""
        kind = type(self.statistic)
        return np.concatenate([kind.value(self.statistic, *each) for each in zip(*totals, strict=True)])
