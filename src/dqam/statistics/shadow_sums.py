"""Sums of the shadows of all trips, with a cap on the size of each shadow, and private quantiles to choose that cap."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numba import njit

from dqam.geometry.arrays import Integers
from dqam.geometry.grid import Grid
from dqam.geometry.lattice import Lattice
from dqam.runtime.threads import cores, each_span, spans
from dqam.statistics.aggregate import Aggregate, Part, ranks
from dqam.statistics.quantile import Quantile
from dqam.statistics.question import CappedOnLattice, OnLattice
from dqam.statistics.shadows import SHADOW
from dqam.statistics.walk_sums import ScaledWalks, WalkSums

LARGEST_SIZE = 2.0**62  # in units of SHADOW^-norm; above every cap


@dataclass(frozen=True, eq=False)
class CappedShadows(Aggregate):
    """int64[caps, lattice.numbers]: sums of shadows as in `ShadowSums`, for each of several increasing caps."""

    lattice: Lattice
    endpoint_weight: int
    caps: Integers
    norm: int = 1

    def add_up(self, part: Part) -> Integers:
        """One pass over the shadows, on all cores."""
        offsets, slots, values = part.shadows(self.lattice)
        shape = self.lattice.numbers, len(self.caps)

        def added(first: int, last: int) -> Integers:
            sums, span = np.zeros(shape, np.int64), offsets[first : last + 1]
            add = _add_shadows if self.norm == 1 else _add_scaled_shadows
            add(span, slots, values, self.lattice.cells, self.endpoint_weight, self.caps, sums)
            return sums

        total = sum(each_span(added, spans(offsets, cores())), np.zeros(shape, np.int64))
        return np.ascontiguousarray(total.T)

    def covered_by(self, other: Aggregate) -> bool:
        """Sums for more caps include those for fewer."""
        return (
            type(other) is CappedShadows
            and (self.lattice, self.endpoint_weight, self.norm) == (other.lattice, other.endpoint_weight, other.norm)
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
    norm: int = 1
    finer: tuple[tuple[Lattice, tuple[int, ...]], ...] = field(default=(), compare=False)

    def add_up(self, part: Part) -> Integers:
        """Count the shadows by size, rounded up to whole numbers."""
        shadows = part.shadows(self.lattice)
        sizes = _shadow_sizes(*shadows, self.lattice.cells, self.endpoint_weight, self.norm)
        return ranks(-(-sizes[np.diff(shadows.offsets) > 0] // SHADOW**self.norm), self.caps)

    def companions(self) -> tuple[Aggregate, ...]:
        """The sums of shadows for every cap that may be chosen, and the walks on finer lattices."""
        walks = (ScaledWalks(lattice, self.endpoint_weight, np.array(caps), self.norm) for lattice, caps in self.finer)
        return CappedShadows(self.lattice, self.endpoint_weight, self.caps, self.norm), *walks


@dataclass(frozen=True, eq=False)
class ShadowSums(CappedOnLattice):
    """The sum of the shadows of all trips, int64[lattice.numbers], in units of 1/SHADOW; see `dqam.statistics.shadows`.

    Endpoints come first and are multiplied by their weight.

    With `norm` 1, the size of a shadow is the sum of its weighted numbers in absolute value. If it is above
    C = `cap` * SHADOW, each number x counts as sign(x) max(|x| - t, 0) instead, with the least integer t that brings
    the size to at most C. With `norm` 2, the size is the sum of their squares. If it is above C^2 = `cap` * SHADOW^2,
    each number counts as sign(x) floor(r |x|) instead, with a factor r that brings the sum of the squares of these
    integers to at most C^2; this sum is computed exactly, and r is lowered until it holds. Except for rounding, both
    give the vector within the cap that is closest to the shadow.

    Sensitivity: a shadow is a function of its trip alone, and so are t and r. The numbers of a shadow are all in
    different places, because its walk has no loops, so the trip changes the vector by its reduced shadow: in the L1
    norm by at most C, or with `norm` 2 in the L2 norm by at most C.

    Bits: C <= 2^31. A shadow of up to 128 visits has up to 255 numbers of at most 2^22, and weights are at most 2^8, so
    that its size is below 2^38, and the sum of its squares below 2^68, which only a float holds. A longer one is the
    trip itself, with up to 2^24 crossings of 2^16 each and two endpoints. Once reduced, with `norm` 2, squares add up
    to little more than C^2 <= 2^47, also before r is lowered.
    """

    lattice: Lattice
    cap: int
    endpoint_weight: int = 1
    norm: int = 1
    name: str = field(default="Starts, ends and crossings on a coarse lattice", init=False)
    resolution: int = field(default=SHADOW, init=False)

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """The sums of shadows with this cap."""
        return (CappedShadows(self.lattice, self.endpoint_weight, np.array([self.cap]), self.norm),)

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
    norm: int = 1
    name: str = field(default="Cap on one trip's contribution", init=False)

    def __post_init__(self) -> None:
        Quantile.__post_init__(self)
        OnLattice.__post_init__(self)
        finer = [
            (lattice, tuple(sorted({WalkSums(lattice, cap, self.endpoint_weight, self.norm).cap for cap in caps})))
            for lattice, caps in self.finer
        ]
        object.__setattr__(self, "finer", tuple(finer))

    def check(self, grid: Grid) -> None:
        """Check that all lattices are of this grid."""
        OnLattice.check(self, grid)
        for lattice, caps in self.finer:
            for cap in caps[:1]:
                WalkSums(lattice, cap, self.endpoint_weight, self.norm).check(grid)

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """The number of shadows up to each size."""
        return (ShadowSizes(self.lattice, self.endpoint_weight, self.candidates, self.norm, self.finer),)


@njit(nogil=True, cache=True)
def _shadow_sizes(offsets, slots, values, cells, endpoint_weight, norm):  # type: ignore[no-untyped-def]
    """The size of each shadow, in units of SHADOW^-norm; at most LARGEST_SIZE."""
    sizes = np.zeros(len(offsets) - 1, np.int64)
    for trip in range(len(sizes)):
        size = 0.0
        for k in range(offsets[trip], offsets[trip + 1]):
            number = float(abs(values[k])) * (endpoint_weight if slots[k] < cells else 1)
            size += number if norm == 1 else number * number
        sizes[trip] = np.int64(min(size, LARGEST_SIZE))
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
    less, caps = np.zeros(len(caps), np.int64), caps * SHADOW
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


@njit(nogil=True, cache=True)
def _add_scaled_shadows(offsets, slots, values, cells, endpoint_weight, caps, sums):  # type: ignore[no-untyped-def]
    """Add shadows, scaled so that their squares add up to at most each of several caps, to `sums`."""
    for trip in range(len(offsets) - 1):
        start, stop = offsets[trip], offsets[trip + 1]
        if start == stop:
            continue
        numbers = _weighted(start, stop, slots, values, cells, endpoint_weight)
        size = 0.0
        for number in numbers:
            size += float(number) * float(number)
        for i in range(len(caps)):
            most = caps[i] * SHADOW * SHADOW
            ratio = min(1.0, np.sqrt(most / size)) if size > 0 else 1.0
            while _squares(numbers, ratio) > most:
                ratio *= 1 - 2.0**-40
            for k in range(start, stop):
                scaled = np.int64(np.floor(ratio * numbers[k - start]))
                sums[slots[k], i] += scaled if values[k] > 0 else -scaled


@njit(nogil=True, cache=True)
def _squares(numbers, ratio):  # type: ignore[no-untyped-def]
    """The exact sum of the squares of the scaled numbers."""
    total = np.int64(0)
    for number in numbers:
        scaled = np.int64(np.floor(ratio * number))
        total += scaled * scaled
    return total
