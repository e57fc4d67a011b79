"""Starts, ends and crossings of all trips on a fine lattice, each trip scaled down to a cap.

On a fine lattice a trip passes many cells, and what matters is where it passes, not how often a rectangle would count
it. The walk is therefore used directly, without its loops, and no shadow is computed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numba import njit

from dqam.geometry.arrays import Integers
from dqam.geometry.lattice import Lattice
from dqam.runtime.threads import cores, each_span, spans
from dqam.statistics.aggregate import Aggregate, Part
from dqam.statistics.question import CappedOnLattice
from dqam.statistics.shadows import SHADOW, edge_slot, lattice_cells, lattice_walk


@dataclass(frozen=True, eq=False)
class ScaledWalks(Aggregate):
    """int64[caps, lattice.numbers]: sums of walks as in `WalkSums`, for each of several caps."""

    lattice: Lattice
    endpoint_weight: int
    caps: Integers
    norm: int = 1

    def add_up(self, part: Part) -> Integers:
        """One pass over the visits of the longest pieces, on all cores."""
        walks, longest, place = part.walks, part.longest, lattice_cells(self.lattice)
        shape = self.lattice.numbers, len(self.caps)

        def added(first: int, last: int) -> Integers:
            sums = np.zeros(shape, np.int64)
            _add_walks(
                walks.cells, walks.pieces, longest[first:last], place, *self.lattice.shape, self.endpoint_weight,
                self.caps, self.norm, sums,
            )  # fmt: skip
            return sums

        total = sum(each_span(added, spans(walks.visits, cores())), np.zeros(shape, np.int64))
        return np.ascontiguousarray(total.T)

    def covered_by(self, other: Aggregate) -> bool:
        """Sums for more caps include those for fewer."""
        return (
            type(other) is ScaledWalks
            and (self.lattice, self.endpoint_weight, self.norm) == (other.lattice, other.endpoint_weight, other.norm)
            and bool(np.isin(self.caps, other.caps).all())
        )

    def read_from(self, other: Aggregate, total: Integers) -> Integers:
        """The rows of the same caps."""
        assert isinstance(other, ScaledWalks)
        return total[np.argmax(other.caps == self.caps[:, None], axis=1)]


@dataclass(frozen=True, eq=False)
class WalkSums(CappedOnLattice):
    """Starts, ends and crossings of all trips on a lattice: int64[lattice.numbers], in units of 1/SHADOW.

    Endpoints come first and are multiplied by their weight w.

    The walk of a trip is the sequence of lattice cells that its longest piece passes, without loops. Each of its k
    crossings counts u, and the first and last cell count w * floor(u / 2) each, with the largest integer u <= SHADOW
    that satisfies

        (k + w) u <= C,  C = `cap` * SHADOW,                  for `norm` 1,
        (k + w^2 / 2) u^2 <= C^2,  C^2 = `cap` * SHADOW^2,    for `norm` 2; w^2 u^2 <= C^2 if k = 0.

    Sensitivity: the walk, and therefore u, is a function of its trip alone. No term is negative. With `norm` 1, the
    trip changes the vector in the L1 norm by k u + 2 w floor(u / 2) <= (k + w) u <= C. Without loops, the cells of a
    walk are all different, and so are the edges between them: k numbers change by u each, and two by at most w u / 2
    each or, if the walk is one cell, one by at most w u. With `norm` 2, the squares therefore add up to at most C^2.

    Bits: C <= 2^31, and a trip changes a number by at most C. u^2 (2 k + w^2) is at most 2^32 (2^25 + 2^16).
    """

    lattice: Lattice
    cap: int
    endpoint_weight: int = 1
    norm: int = 1
    name: str = field(default="Starts, ends and crossings on a finer lattice", init=False)
    resolution: int = field(default=SHADOW, init=False)

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """The sums of walks with this cap."""
        return (ScaledWalks(self.lattice, self.endpoint_weight, np.array([self.cap]), self.norm),)

    def value(self, *totals: Integers) -> Integers:
        """The only row."""
        return totals[0][0]


@njit(nogil=True, cache=True)
def _unit(crossings, endpoint_weight, cap, norm):  # type: ignore[no-untyped-def]
    """The number u that each crossing of a walk counts; see `WalkSums`."""
    if norm == 1:
        return min(np.int64(SHADOW), cap * SHADOW // (crossings + endpoint_weight))
    twice = 2 * crossings + endpoint_weight**2 if crossings else 2 * endpoint_weight**2
    most = 2 * cap * SHADOW**2
    unit = min(np.int64(SHADOW), np.int64(np.sqrt(most / twice)) + 1)
    while unit * unit * twice > most:
        unit -= 1
    return unit


@njit(nogil=True, cache=True)
def _add_walks(cells, pieces, longest, place, rows, columns, endpoint_weight, caps, norm, sums):  # type: ignore[no-untyped-def]
    """Add walks, scaled to each of several caps, to `sums`, int64[lattice.numbers, caps]."""
    walk, last = np.zeros(rows * columns, np.int32), np.zeros(rows * columns, np.int64)
    units = np.zeros(len(caps), np.int64)
    for piece in longest:
        if piece < 0:
            continue
        visits = lattice_walk(cells, pieces[piece], pieces[piece + 1], place, walk, last)
        for i in range(len(caps)):
            units[i] = _unit(visits - 1, endpoint_weight, caps[i], norm)
        for end in (walk[0], walk[visits - 1]):
            for i in range(len(caps)):
                sums[end, i] += endpoint_weight * (units[i] // 2)
        for k in range(visits - 1):
            slot = edge_slot(walk[k], walk[k + 1], rows, columns)
            for i in range(len(caps)):
                sums[slot, i] += units[i]
