"""The trips behind the curator, as sums: integer vectors that add up over any division of the trips.

All that statistics are made of is a sum over trips, so that it can be taken of parts of the trips, on other threads or
other machines, and added. `Records` has the trips of one part; `dqam.engines` add up parts. Mechanisms hold neither.

A trip that leaves the grid and returns is one trip. Distinct counts look at all its pieces, all else at its longest
piece (the first of equals), so that a trip is one walk there. A trip that is never on the grid contributes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dqam.errors import InputError
from dqam.geometry.arrays import Integers, Mask
from dqam.geometry.counting import count_distinct
from dqam.geometry.grid import Grid
from dqam.geometry.lattice import Lattice
from dqam.geometry.trips import Trips
from dqam.geometry.walks import AnyWalks, walk
from dqam.runtime.threads import cores, each_span, spans
from dqam.statistics.shadows import UNIT, Shadows, cast
from dqam.values.guarantee import Unit

if TYPE_CHECKING:
    from dqam.privacy.sketch import Sketch


MASS = 2**30 - 2**24  # of a trip, spread over its visits; see `UniformityCosts` for what the difference is for
MOST_TRIPS = 2**31  # on the grid, so that sums fit 64 bits; see `dqam.statistics.questions`
SHADOW = UNIT  # of a number of a shadow


class AnyRecords(Protocol):
    """What can be asked of trips, wherever they are. Every method is a sum over trips."""

    sketch: Sketch | None  # of all trips that could be kept, if requested; for the custodian only

    @property
    def grid(self) -> Grid:
        """Where the trips are laid."""

    def trips(self) -> Integers:
        """int64[1]: trips on the grid."""

    def distinct(self, rectangles: Integers) -> Integers:
        """int64[m]: distinct trips in each rectangle."""

    def shares(self) -> Integers:
        """int64[rows, columns]: MASS // visits for each visit of each trip's longest piece."""

    def ends(self) -> Integers:
        """int64[rows * columns]: starts plus ends in each cell."""

    def lengths(self, candidates: Integers) -> Integers:
        """int64[k + 1]: trips with at most so many crossings, for each candidate; and trips on the grid."""

    def flux(self, labels: NDArray[np.integer], weights: Integers, cap: int) -> Integers:
        """int64[2 * regions]: crossings by region, capped, as `dqam.statistics.questions.Flux` has it."""

    def shadow_sizes(self, lattice: Lattice, endpoint_weight: int, caps: Integers) -> Integers:
        """int64[k + 1]: trips whose shadow has at most the size of each cap; and trips with a shadow."""

    def shadow_sums(self, lattice: Lattice, endpoint_weight: int, cap: int) -> Integers:
        """int64[lattice.numbers]: shadows added up, capped, as `dqam.statistics.questions.ShadowSums` has it."""


class Records:
    """Trips in memory, all or those to `keep`, and what was counted of them.

    walks    all walks; only trips to keep count
    longest  int64[n]: the longest piece of each trip that counts, -1 for others and where a trip is not on the grid
    unit     whose trips `keep` limits; None where it has not been limited for any
    """

    def __init__(self, walks: AnyWalks, keep: Mask | None = None, unit: Unit | None = None) -> None:
        if len(walks) > MOST_TRIPS:
            raise InputError(f"At most {MOST_TRIPS:,} trips can be asked at once; split the data set.")
        self.walks = walks
        if unit is not None and unit.name == "person" and keep is None:
            raise InputError("Records for the unit 'person' say which trips are kept.")
        self.keep = keep
        self.unit = unit
        self.sketch: Sketch | None = None
        self.longest = _longest_pieces(walks.pieces, walks.trips)
        if keep is not None:
            self.longest[~keep] = -1
        self._counted: list[tuple[Integers, Integers]] = []  # query sets and their counts
        self._shares: Integers | None = None
        self._shadows: tuple[Lattice, Shadows] | None = None  # of the last lattice

    @property
    def grid(self) -> Grid:
        """Where the walks are laid."""
        return self.walks.grid

    def trips(self) -> Integers:
        """int64[1]: trips on the grid."""
        return np.array([np.count_nonzero(self.longest >= 0)], np.int64)

    def distinct(self, rectangles: Integers) -> Integers:
        """The exact distinct counts of a query set; a set that was counted, or one query of it, is looked up."""
        for known, counts in self._counted:
            if np.array_equal(known, rectangles):
                return counts
            if len(rectangles) == 1 and (same := (known == rectangles).all(axis=1)).any():
                return counts[[int(np.argmax(same))]]
        counts = count_distinct(self.walks, rectangles, self.walks.grid, self.keep)
        counts.flags.writeable = False
        self._counted.append((rectangles.copy(), counts))
        return counts

    def shares(self) -> Integers:
        """int64[rows, columns]: MASS // visits for each visit of each trip's longest piece; added up once."""
        if self._shares is None:
            mass = np.zeros(self.walks.grid.rows * self.walks.grid.columns, np.int64)
            _add_shares(self.walks.cells, self.walks.pieces, self.longest, mass)
            mass.flags.writeable = False
            self._shares = mass.reshape(self.walks.grid.shape)
        return self._shares

    def ends(self) -> Integers:
        """int64[rows * columns]: starts plus ends in each cell."""
        walks, pieces = self.walks, self.longest[self.longest >= 0]
        ends = np.concatenate([walks.cells[walks.pieces[pieces]], walks.cells[walks.pieces[pieces + 1] - 1]])
        return np.bincount(ends, minlength=self.grid.rows * self.grid.columns).astype(np.int64)

    def lengths(self, candidates: Integers) -> Integers:
        """int64[k + 1]: trips with at most so many crossings, for each candidate; and trips on the grid."""
        return _not_above(np.diff(self.walks.pieces)[self.longest[self.longest >= 0]] - 1, candidates)

    def flux(self, labels: NDArray[np.integer], weights: Integers, cap: int) -> Integers:
        """int64[2 * regions]: crossings by region, capped, as `dqam.statistics.questions.Flux` has it."""
        walks, flux = self.walks, np.zeros(2 * len(weights), np.int64)
        _add_flux(walks.cells, walks.pieces, self.longest, self.grid.columns, labels, weights, cap, flux)
        return flux

    def shadow_sizes(self, lattice: Lattice, endpoint_weight: int, caps: Integers) -> Integers:
        """int64[k + 1]: trips whose shadow has at most the size of each cap; and trips with a shadow."""
        shadows = self.shadows(lattice)
        sizes = _shadow_sizes(*shadows, lattice.cells, endpoint_weight)
        return _not_above(-(-sizes[np.diff(shadows.offsets) > 0] // SHADOW), caps)

    def shadow_sums(self, lattice: Lattice, endpoint_weight: int, cap: int) -> Integers:
        """int64[lattice.numbers]: shadows added up, capped, as `dqam.statistics.questions.ShadowSums` has it."""
        return self.shadow_table(lattice, endpoint_weight, np.array([cap]))[0]

    def shadow_table(self, lattice: Lattice, endpoint_weight: int, caps: Integers) -> Integers:
        """int64[k, lattice.numbers]: `shadow_sums` for each of some rising caps."""
        offsets, slots, values = self.shadows(lattice)

        def added(first: int, last: int) -> Integers:
            sums, part = np.zeros((lattice.numbers, len(caps)), np.int64), offsets[first : last + 1]
            _add_shadows(part, slots, values, lattice.cells, endpoint_weight, caps * SHADOW, sums)
            return sums

        none = np.zeros((lattice.numbers, len(caps)), np.int64)
        return np.ascontiguousarray(sum(each_span(added, spans(offsets, cores())), none).T)

    def shadows(self, lattice: Lattice) -> Shadows:
        """The shadow of each trip's longest piece; cast once for a lattice."""
        known = self._shadows  # threads may share these records, each with a lattice of its own
        if known is None or known[0] != lattice:
            known = self._shadows = lattice, cast(self.walks, self.longest, lattice)
        return known[1]


Wanted = tuple[str, tuple[Any, ...]]  # a method of `Records` that is a sum over trips, and its arguments


class Engine(Protocol):
    """Whatever has the trips, and can add up sums over them."""

    @property
    def unit(self) -> Unit:
        """Whose trips it limits: of a person at most so many are added up."""

    @property
    def grid(self) -> Grid:
        """Where it lays the trips."""

    @property
    def sketch(self) -> Sketch | None:
        """A sketch of all trips, after the first scan, if requested."""

    def add_up(self, wanted: Sequence[Wanted]) -> list[Integers]:
        """Each of the sums over all trips, in one scan."""


class Scanned:
    """Trips that an engine has: what is asked of them is added up there, in as few scans as can be.

    The first scan has all that does not depend on answers, the distinct counts of the query set among it. Where the
    size of shadows is asked, their sums are taken in the same scan, for every cap that may be chosen.
    """

    def __init__(self, engine: Engine, queries: Integers) -> None:
        self._engine, self.grid, self.unit = engine, engine.grid, engine.unit
        self.sketch: Sketch | None = None
        queries = queries.copy()
        self._known: list[tuple[Wanted, Integers]] = []
        self.scans = 0
        side = 8 * max(self.grid.shape)
        self._first: list[Wanted] = [
            *(("trips", ()), ("distinct", (queries,)), ("shares", ()), ("ends", ())),
            ("lengths", (np.arange(side + 1),)),
        ]

    def trips(self) -> Integers:
        """int64[1]: trips on the grid."""
        return self._get("trips")

    def distinct(self, rectangles: Integers) -> Integers:
        """int64[m]: distinct trips in each rectangle."""
        self.trips()
        for (name, arguments), counts in self._known:
            if name == "distinct" and len(rectangles) == 1 and (same := (arguments[0] == rectangles).all(axis=1)).any():
                return counts[[int(np.argmax(same))]]
        return self._get("distinct", rectangles)

    def shares(self) -> Integers:
        """int64[rows, columns]: MASS // visits for each visit of each trip's longest piece."""
        return self._get("shares")

    def ends(self) -> Integers:
        """int64[rows * columns]: starts plus ends in each cell."""
        return self._get("ends")

    def lengths(self, candidates: Integers) -> Integers:
        """int64[k + 1]: trips with at most so many crossings, for each candidate; and trips on the grid."""
        known = self._get("lengths", self._first[-1][1][0])
        if candidates.min() < 0 or candidates.max() >= len(known) - 1:
            return self._get("lengths", candidates)
        return np.append(known[candidates], known[-1])

    def flux(self, labels: NDArray[np.integer], weights: Integers, cap: int) -> Integers:
        """int64[2 * regions]: crossings by region, capped."""
        return self._get("flux", labels, weights, cap)

    def shadow_sizes(self, lattice: Lattice, endpoint_weight: int, caps: Integers) -> Integers:
        """int64[k + 1]: trips whose shadow has at most the size of each cap; and trips with a shadow."""
        both: list[Wanted] = [(name, (lattice, endpoint_weight, caps)) for name in ("shadow_sizes", "shadow_table")]
        return self._get(*both[0][:1], *both[0][1], scan=both)

    def shadow_sums(self, lattice: Lattice, endpoint_weight: int, cap: int) -> Integers:
        """int64[lattice.numbers]: shadows added up, capped."""
        for (name, arguments), table in self._known:
            if name == "shadow_table" and arguments[:2] == (lattice, endpoint_weight) and cap in arguments[2]:
                return table[int(np.flatnonzero(arguments[2] == cap)[0])]
        return self._get("shadow_sums", lattice, endpoint_weight, cap)

    def _get(self, name: str, *arguments: Any, scan: Sequence[Wanted] = ()) -> Integers:
        """A sum that is known, or what a scan finds."""
        for (known, given), found in self._known:
            if known == name and len(given) == len(arguments) and all(map(_same, given, arguments)):
                return found
        if not self.scans and not scan:
            scan = self._first
            if not any(known == name for known, _ in scan):
                scan = [*scan, (name, arguments)]
        scan = scan or [(name, arguments)]
        totals = self._engine.add_up(scan)
        self.scans += 1
        for wanted, total in zip(scan, totals, strict=True):
            total.flags.writeable = False
            self._known.append((wanted, total))
        return self._get(name, *arguments)


def add_up(walks: Iterable[AnyWalks], wanted: Sequence[Wanted], grid: Grid) -> list[Integers]:
    """Each of the sums over all batches of walks; there may be none. Every engine runs this on its parts."""
    none = walk(Trips.from_lists([], grid.crs), grid)
    totals: list[Integers] | None = None
    for batch in chain([none], walks):
        records = Records(batch)
        totals = together(totals, [getattr(records, name)(*arguments) for name, arguments in wanted])
    assert totals is not None
    return totals


def together(one: list[Integers] | None, other: list[Integers]) -> list[Integers]:
    """The sums of two parts, the first of which may have no trips."""
    return other if one is None else [first + second for first, second in zip(one, other, strict=True)]


def _same(one: Any, other: Any) -> bool:
    return np.array_equal(one, other) if isinstance(one, np.ndarray) else bool(one == other)


def _not_above(found: Integers, candidates: Integers) -> Integers:
    """How many of `found` are at most each candidate; and how many there are."""
    shorter = np.searchsorted(np.sort(found), candidates, side="right")
    return np.append(shorter, len(found)).astype(np.int64)


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


@njit(nogil=True, cache=True)
def _add_shares(cells, pieces, longest, mass):  # type: ignore[no-untyped-def]
    for piece in longest:
        if piece >= 0:
            share = MASS // (pieces[piece + 1] - pieces[piece])
            for visit in range(pieces[piece], pieces[piece + 1]):
                mass[cells[visit]] += share


@njit(nogil=True, cache=True)
def _add_flux(cells, pieces, longest, columns, labels, weights, cap, flux):  # type: ignore[no-untyped-def]
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
            flux[region + (regions if abs(cells[visit] - cells[visit - 1]) == columns else 0)] += weight


@njit(nogil=True, cache=True)
def _shadow_sizes(offsets, slots, values, cells, endpoint_weight):  # type: ignore[no-untyped-def]
    sizes = np.zeros(len(offsets) - 1, np.int64)
    for trip in range(len(sizes)):
        for k in range(offsets[trip], offsets[trip + 1]):
            sizes[trip] += abs(np.int64(values[k])) * (endpoint_weight if slots[k] < cells else 1)
    return sizes


@njit(nogil=True, cache=True)
def _weighted(first, last, slots, values, cells, endpoint_weight):  # type: ignore[no-untyped-def]
    """The absolute numbers of one shadow, endpoints times their weight: at most 2^30 each."""
    numbers = np.empty(last - first, np.int64)
    for k in range(first, last):
        numbers[k - first] = abs(np.int64(values[k])) * (endpoint_weight if slots[k] < cells else 1)
    return numbers


@njit(nogil=True, cache=True)
def _excesses(falling, caps, less):  # type: ignore[no-untyped-def]
    """For each of some rising caps the least whole t such that the numbers, none rising, have a sum of at most the cap
    when each is less by t, or 0.

    If the first k are those above t, their sum less k t is at most the cap from t = (sum - cap) / k on, rounded up; and
    the k is the right one where the next number is not above that. No k before the right one passes this test, nor does
    it for a larger cap, for which t is no larger.
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
    """Shadows, cut for each of some rising caps, added to `sums`, int64[lattice.numbers, caps]."""
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
