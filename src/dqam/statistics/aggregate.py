"""Aggregates: integer arrays that are sums over trips, and so add up over any division of the trips.

Every statistic is a function of aggregates. An aggregate can therefore be taken of parts of the trips, on other threads
or other machines, and added: `dqam.engines` does that, and the curator asks for the totals. Mechanisms hold neither
aggregates nor trips.

A trip that leaves the grid and returns is one trip. Distinct counts look at all its pieces; every other aggregate looks
at its longest piece (the first of equals), so that a trip is one walk there. A trip that is never on the grid
contributes nothing.
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
from dqam.geometry.arrays import Integers, Mask
from dqam.geometry.grid import Grid
from dqam.geometry.lattice import Lattice
from dqam.geometry.trips import Trips
from dqam.geometry.walks import AnyWalks, walk
from dqam.statistics.limits import MOST_TRIPS
from dqam.statistics.shadows import Shadows, cast


class Part:
    """The walks of some of the trips, and which of these trips count; all of them if `kept` is None."""

    def __init__(self, walks: AnyWalks, kept: Mask | None = None) -> None:
        if len(walks) > MOST_TRIPS:
            raise InputError(f"At most {MOST_TRIPS:,} trips can be counted at once; split the data set.")
        self.walks, self.kept = walks, kept
        self._shadows: tuple[Lattice, Shadows] | None = None  # on the lattice that was asked for last

    @cached_property
    def longest(self) -> Integers:
        """int64[trips]: the longest piece of each trip; -1 for a trip that does not count or is not on the grid."""
        longest: Integers = _longest_pieces(self.walks.pieces, self.walks.trips)
        if self.kept is not None:
            longest[~self.kept] = -1
        return longest

    @property
    def lengths(self) -> Integers:
        """int64[trips on the grid]: the number of crossings of each longest piece."""
        return np.diff(self.walks.pieces)[self.longest[self.longest >= 0]] - 1

    def shadows(self, lattice: Lattice) -> Shadows:
        """The shadow of each longest piece; several aggregates on one lattice share it."""
        known = self._shadows  # threads may share a part, each with a lattice of its own
        if known is None or known[0] != lattice:
            known = self._shadows = lattice, cast(self.walks, self.longest, lattice)
        return known[1]


class Aggregate(ABC):
    """An integer array that is a sum over trips. Subclasses are frozen dataclasses of public values."""

    @abstractmethod
    def add_up(self, part: Part) -> Integers:
        """The sum over the trips of one part."""

    def covered_by(self, other: Aggregate) -> bool:
        """Whether the total of `other` tells this one; by default only if both are the same."""
        return _equal(self, other)

    def read_from(self, other: Aggregate, total: Integers) -> Integers:
        """The total, from that of another aggregate that covers it."""
        return total

    def companions(self) -> tuple[Aggregate, ...]:
        """Aggregates that are likely to be asked for next, to be taken in the same scan where a scan is expensive."""
        return ()


def add_up(batches: Iterable[AnyWalks], aggregates: Sequence[Aggregate], grid: Grid) -> list[Integers]:
    """Each aggregate over all batches of walks on `grid`, of which there may be none. Every engine runs this on its
    parts."""
    nothing = walk(Trips.from_lists([], grid.crs), grid)
    totals: list[Integers] | None = None
    for batch in chain([nothing], batches):
        part = Part(batch)
        totals = combined(totals, [aggregate.add_up(part) for aggregate in aggregates])
    assert totals is not None
    return totals


def combined(one: list[Integers] | None, other: list[Integers]) -> list[Integers]:
    """The totals of two parts; None for a part without trips."""
    return other if one is None else [first + second for first, second in zip(one, other, strict=True)]


def ranks(values: Integers, candidates: Integers) -> Integers:
    """int64[candidates + 1]: how many of `values` are at most each candidate; and how many there are."""
    below = np.searchsorted(np.sort(values), candidates, side="right")
    return np.append(below, len(values)).astype(np.int64)


def _equal(one: Aggregate, other: Aggregate) -> bool:
    return type(one) is type(other) and all(
        np.array_equal(getattr(one, field.name), getattr(other, field.name))
        if isinstance(getattr(one, field.name), np.ndarray)
        else getattr(one, field.name) == getattr(other, field.name)
        for field in fields(one)  # type: ignore[arg-type]
    )


@njit(nogil=True, cache=True)
def _longest_pieces(pieces, trips):  # type: ignore[no-untyped-def]
    """The piece of each trip with the most visits, the first of equals; -1 where a trip has none."""
    longest = np.full(len(trips) - 1, -1, np.int64)
    for trip in range(len(trips) - 1):
        most = 0
        for piece in range(trips[trip], trips[trip + 1]):
            visits = pieces[piece + 1] - pieces[piece]
            if visits > most:
                most, longest[trip] = visits, piece
    return longest
