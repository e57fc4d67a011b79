"""Aggregates: integer arrays that are sums over trips, so that the sums of parts of the trips can be added.

Every statistic is a function of aggregates. Aggregates can therefore be computed for parts of the trips, on other
threads or other machines, and then added. `dqam.engines` does this, and the curator requests the totals. Mechanisms
hold neither aggregates nor trips.

A trip that leaves the grid and returns is one trip. Distinct counts use all its pieces, and trips by origin and
destination its first and its last visit. Every other aggregate uses only its longest piece (the first if several are
equally long), so that there a trip is one walk. A trip that is never on the grid contributes nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import fields
from functools import cached_property
from itertools import chain

import numpy as np
from numba import njit

from dqam.errors import InputError
from dqam.geometry.arrays import Integers, Labels, Mask
from dqam.geometry.grid import Grid
from dqam.geometry.lattice import Lattice
from dqam.geometry.trips import Trips
from dqam.geometry.walks import AnyWalks, walk
from dqam.statistics.limits import MOST_TRIPS
from dqam.statistics.shadows import Shadows, compute_shadows


class Part:
    """The walks of some trips, and which of these trips count; all of them if `kept` is None."""

    def __init__(self, walks: AnyWalks, kept: Mask | None = None) -> None:
        if len(walks) > MOST_TRIPS:
            raise InputError(f"At most {MOST_TRIPS:,} trips can be counted at once; split the data set.")
        self.walks, self.kept = walks, kept
        self._shadows: tuple[Lattice, Shadows] | None = None  # on the most recently requested lattice

    @cached_property
    def longest(self) -> Integers:
        """int64[trips]: the longest piece of each trip; -1 for a trip that does not count or is not on the grid."""
        longest: Integers = _longest_pieces(self.walks.pieces, self.walks.trips)
        if self.kept is not None:
            longest[~self.kept] = -1
        return longest

    @property
    def slices(self) -> Labels:
        """int16[trips]: the slice of each trip; an `InputError` if there are no slices."""
        slices = self.walks.slices
        if slices is None:
            if not len(self.walks):
                return np.zeros(0, np.int16)
            raise InputError("These trips have no slices; read them with source.sliced(...).")
        return slices

    def of_slice(self, number: int) -> Part:
        """The trips in one slice, of those that count."""
        mine = self.slices == number
        return Part(self.walks, mine if self.kept is None else mine & self.kept)

    @property
    def lengths(self) -> Integers:
        """int64[trips on the grid]: the number of crossings of each longest piece."""
        return np.diff(self.walks.pieces)[self.longest[self.longest >= 0]] - 1

    def shadows(self, lattice: Lattice) -> Shadows:
        """The shadow of each longest piece; aggregates on the same lattice share it."""
        known = self._shadows  # read once: another thread may set it for another lattice
        if known is None or known[0] != lattice:
            known = self._shadows = lattice, compute_shadows(self.walks, self.longest, lattice)
        return known[1]


class Aggregate(ABC):
    """An integer array that is a sum over trips. Subclasses are frozen dataclasses of public values."""

    @abstractmethod
    def add_up(self, part: Part) -> Integers:
        """The sum over the trips of one part."""

    def add_up_by_slice(self, part: Part, count: int) -> Integers:
        """The sum over the trips in each of `count` slices, one by one; a trip in none adds nothing."""
        return np.stack([self.add_up(part.of_slice(number)) for number in range(count)])

    def covered_by(self, other: Aggregate) -> bool:
        """Whether this total can be derived from that of `other`; by default only if both are equal."""
        return _equal(self, other)

    def read_from(self, other: Aggregate, total: Integers) -> Integers:
        """The total of this aggregate, derived from the total of an aggregate that covers it."""
        return total

    def companions(self) -> tuple[Aggregate, ...]:
        """Aggregates that are likely to be requested next, to be computed in the same scan if scans are expensive."""
        return ()


def add_up(batches: Iterable[AnyWalks | Part], aggregates: Sequence[Aggregate], grid: Grid) -> list[Integers]:
    """Each aggregate, summed over batches of walks on `grid`, or of parts of which some trips count; there may be none.

    Every engine runs this on its parts.
    """
    nothing = walk(Trips.from_lists([], grid.crs), grid)
    totals: list[Integers] | None = None
    for batch in chain([nothing], batches):
        part = batch if isinstance(batch, Part) else Part(batch)
        totals = combined(totals, [aggregate.add_up(part) for aggregate in aggregates])
    assert totals is not None
    return totals


def combined(one: list[Integers] | None, other: list[Integers]) -> list[Integers]:
    """The totals of two parts; None for a part without trips."""
    return other if one is None else [first + second for first, second in zip(one, other, strict=True)]


def ranks(values: Integers, candidates: Integers) -> Integers:
    """int64[candidates + 1]: how many of `values` are at most each candidate, and finally how many values there are."""
    below = np.searchsorted(np.sort(values), candidates, side="right")
    return np.append(below, len(values)).astype(np.int64)


def _equal(one: Aggregate, other: Aggregate) -> bool:
    return type(one) is type(other) and all(
        np.array_equal(getattr(one, field.name), getattr(other, field.name))
        if isinstance(getattr(one, field.name), np.ndarray)
        else getattr(one, field.name) == getattr(other, field.name)
        for field in fields(one)  # type: ignore[arg-type]
        if field.compare
    )


@njit(nogil=True, cache=True)
def _longest_pieces(pieces, trips):  # type: ignore[no-untyped-def]
    """The piece of each trip with the most visits (the first if several have as many); -1 if a trip has none."""
    longest = np.full(len(trips) - 1, -1, np.int64)
    for trip in range(len(trips) - 1):
        most = 0
        for piece in range(trips[trip], trips[trip + 1]):
            visits = pieces[piece + 1] - pieces[piece]
            if visits > most:
                most, longest[trip] = visits, piece
    return longest
