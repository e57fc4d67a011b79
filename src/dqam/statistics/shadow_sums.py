"""Sums of the shadows of all trips, with a cap on the size of each shadow, and private quantiles to choose that cap."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field

import numpy as np
from numba import njit

from dqam.errors import InputError
from dqam.geometry.arrays import Integers
from dqam.geometry.grid import Grid
from dqam.geometry.lattice import Lattice
from dqam.runtime.threads import cores, each_span, spans
from dqam.statistics.aggregate import Aggregate, Part, ranks
from dqam.statistics.limits import MOST_CAP
from dqam.statistics.quantile import Quantile
from dqam.statistics.question import OnLattice
from dqam.statistics.shadows import SHADOW
from dqam.statistics.walk_sums import ScaledWalks, WalkSums


@dataclass(frozen=True, eq=False)
class CappedShadows(Aggregate):
    """int64[caps, lattice.numbers]: sums of shadows as in `ShadowSums`, for each of several increasing caps."""

    lattice: Lattice
    endpoint_weight: int
    caps: Integers

    def add_up(self, part: Part) -> Integers:
        """One pass over the shadows, on all cores."""
        offsets, slots, values = part.shadows(self.lattice)
        shape = self.lattice.numbers, len(self.caps)

        def added(first: int, last: int) -> Integers:
            sums, span = np.zeros(shape, np.int64), offsets[first : last + 1]
            _add_shadows(span, slots, values, self.lattice.cells, self.endpoint_weight, self.caps * SHADOW, sums)
            return sums

        total = sum(each_span(added, spans(offsets, cores())), np.zeros(shape, np.int64))
        return np.ascontiguousarray(total.T)

    def covered_by(self, other: Aggregate) -> bool:
        """Sums for more caps include those for fewer."""
        return (
            type(other) is CappedShadows
            and (self.lattice, self.endpoint_weight) == (other.lattice, other.endpoint_weight)
            and bool(np.isin(self.caps, other.caps).all())
        )

    def read_from(self, other: Aggregate, total: Integers) -> Integers:
        """The rows for the same caps."""
        assert isinstance(other, CappedShadows)
        return total[np.searchsorted(other.caps, self.caps)]


@dataclass(frozen=True, eq=False)
class ShadowSizes(Aggregate):
    """int64[caps + 1]: the number of trips whose shadow is at most as large as each cap.

    The last number is that of all trips with a shadow.
    """

    lattice: Lattice
    endpoint_weight: int
    caps: Integers
    finer: tuple[tuple[Lattice, tuple[int, ...]], ...] = field(default=(), compare=False)

    def add_up(self, part: Part) -> Integers:
        """Count the shadows by size, rounded up to whole numbers."""
        shadows = part.shadows(self.lattice)
        sizes = _shadow_sizes(*shadows, self.lattice.cells, self.endpoint_weight)
        return ranks(-(-sizes[np.diff(shadows.offsets) > 0] // SHADOW), self.caps)

    def companions(self) -> tuple[Aggregate, ...]:
        """The sums of shadows for every cap that may be chosen, and the walks on finer lattices."""
        walks = (ScaledWalks(lattice, self.endpoint_weight, np.array(caps)) for lattice, caps in self.finer)
        return CappedShadows(self.lattice, self.endpoint_weight, self.caps), *walks


@dataclass(frozen=True, eq=False)
class ShadowSums(OnLattice):
    """The sum of the shadows of all trips, int64[lattice.numbers], in units of 1/SHADOW; see `dqam.statistics.shadows`.

    Endpoints come first and are multiplied by their weight.

    The size of a shadow is the sum of its weighted numbers in absolute value. If it is above the cap C = `cap` *
    SHADOW, each number x counts as sign(x) max(|x| - t, 0) instead, with the least integer t that brings the size to at
    most C. Except for rounding, this is the vector within the cap that is closest to the shadow.

    Sensitivity C: a shadow is a function of its trip alone, and so is t. In the L1 norm, the trip changes the vector by
    the size of its capped shadow, or by less if two of its numbers are in the same place.

    Bits: C <= 2^31. A shadow of up to 128 visits has up to 255 numbers of at most 2^22, and weights are at most 2^8, so
    that its size is below 2^38. A longer one is the trip itself, with up to 2^24 crossings of 2^16 each and two
    endpoints.
    """

    lattice: Lattice
    cap: int
    endpoint_weight: int = 1
    name: str = field(default="Starts, ends and crossings on a coarse lattice", init=False)
    resolution: int = field(default=SHADOW, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "cap", operator.index(self.cap))
        if not 1 <= self.cap <= MOST_CAP:
            raise InputError(f"The cap on a trip's shadow must be 1 to {MOST_CAP:,}; got {self.cap:,}.")

    @property
    def sensitivity(self) -> int:
        """The cap, in units of 1/SHADOW."""
        return self.cap * SHADOW

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """The sums of shadows with this cap."""
        return (CappedShadows(self.lattice, self.endpoint_weight, np.array([self.cap])),)

    def value(self, *totals: Integers) -> Integers:
        """The only row."""
        return totals[0][0]


@dataclass(frozen=True, eq=False)
class ShadowQuantile(Quantile, OnLattice):
    """Scores of candidate caps for a quantile of the size of shadows, as `ShadowSums` defines it, rounded up.

    The proof of `Quantile` applies, because the size of a shadow depends on its trip alone. `finer` has lattices with
    caps, on which walks may be measured next (`WalkSums`); engines add them up in the same scan.
    """

    lattice: Lattice
    endpoint_weight: int = 1
    finer: tuple[tuple[Lattice, tuple[int, ...]], ...] = ()
    name: str = field(default="Cap on one trip's contribution", init=False)

    def __post_init__(self) -> None:
        Quantile.__post_init__(self)
        OnLattice.__post_init__(self)
        finer = [
            (lattice, tuple(sorted({WalkSums(lattice, cap, self.endpoint_weight).cap for cap in caps})))
            for lattice, caps in self.finer
        ]
        object.__setattr__(self, "finer", tuple(finer))

    def check(self, grid: Grid) -> None:
        """Check that all lattices are of this grid."""
        OnLattice.check(self, grid)
        for lattice, caps in self.finer:
            for cap in caps[:1]:
                WalkSums(lattice, cap, self.endpoint_weight).check(grid)

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """The number of shadows up to each size."""
        return (ShadowSizes(self.lattice, self.endpoint_weight, self.candidates, self.finer),)


@njit(nogil=True, cache=True)
def _shadow_sizes(offsets, slots, values, cells, endpoint_weight):  # type: ignore[no-untyped-def]
    sizes = np.zeros(len(offsets) - 1, np.int64)
    for trip in range(len(sizes)):
        for k in range(offsets[trip], offsets[trip + 1]):
            sizes[trip] += abs(np.int64(values[k])) * (endpoint_weight if slots[k] < cells else 1)
    return sizes


@njit(nogil=True, cache=True)
def _weighted(first, last, slots, values, cells, endpoint_weight):  # type: ignore[no-untyped-def]
    """Absolute values of the numbers of one shadow, with endpoints times their weight: at most 2^30 each."""
    numbers = np.empty(last - first, np.int64)
    for k in range(first, last):
        numbers[k - first] = abs(np.int64(values[k])) * (endpoint_weight if slots[k] < cells else 1)
    return numbers


@njit(nogil=True, cache=True)
def _excesses(falling, caps, less):  # type: ignore[no-untyped-def]
    """For each of several increasing caps, find the least integer t >= 0 such that the sum of max(number - t, 0) is at
    most the cap.

    The numbers are in descending order. If the first k of them are those above t, the sum of these minus k t is at most
    the cap if and only if t is at least (sum - cap) / k, rounded up; and k is the right one if the next number is not
    above this t. No smaller k passes this test, and none does for a larger cap either, because its t is no larger.
    """
    k, total = 1, falling[0]
    for i in range(len(caps)):
        t = max(np.int64(0), -((caps[i] - total) // k))
        while k < len(falling) and t < falling[k]:
            total += falling[k]
            k += 1
            t = max(np.int64(0), -((caps[i] - total) // k))
        less[i] = t


@njit(nogil=True, cache=True)
def _add_shadows(offsets, slots, values, cells, endpoint_weight, caps, sums):  # type: ignore[no-untyped-def]
    """Add shadows, reduced to each of several increasing caps, to `sums`, int64[lattice.numbers, caps]."""
    less = np.zeros(len(caps), np.int64)
    for trip in range(len(offsets) - 1):
        start, stop = offsets[trip], offsets[trip + 1]
        if start == stop:
            continue
        numbers = _weighted(start, stop, slots, values, cells, endpoint_weight)
        _excesses(np.sort(numbers)[::-1], caps, less)
        for k in range(start, stop):
            number, places = numbers[k - start], sums[slots[k]]
            sign = 1 if values[k] > 0 else -1
            for i in range(len(caps)):
                places[i] += sign * max(np.int64(0), number - less[i])
