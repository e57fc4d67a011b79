"""Walks stored compactly: the first cell of each piece, and two bits for each step to a neighbouring cell.

Engines keep trips in this form between two scans. A trip of 28 points that visits 155 cells takes 60 bytes as a compact
walk and 690 as points, and a compact walk does not reveal when and exactly where the points were, but for its slice.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numba import njit

from dqam.geometry.arrays import Bytes, Integers, Integers32, Labels
from dqam.geometry.grid import Grid
from dqam.geometry.walks import AnyWalks
from dqam.runtime.threads import cores, each_span, spans


@dataclass(frozen=True, eq=False)
class CompactWalks:
    """The walks of n trips; their cells are computed when first needed.

    trips   int64[n + 1]: where each trip begins in `pieces`
    pieces  int64[pieces + 1]: where each piece begins in `cells`
    starts  int32[pieces]: the first cell of each piece
    moves   uint8[visits / 4, rounded up]: two bits for each visit, the lowest first: whether the step to it goes west
            or south, and whether it leads to another row. The bits of the first visit of a piece mean nothing.
    slices  int16[n]: the slice of each trip; None if there are no slices
    """

    ARRAYS: ClassVar = ("trips", "pieces", "starts", "moves", "slices")  # the last only if there are slices

    grid: Grid
    trips: Integers
    pieces: Integers
    starts: Integers32
    moves: Bytes
    slices: Labels | None = None

    @classmethod
    def of(cls, walks: AnyWalks) -> CompactWalks:
        """The compact form of `walks`."""
        cells, pieces = walks.cells, walks.pieces
        moves = np.empty(-(-len(cells) // 4), np.uint8)
        each_span(lambda i, j: _note(cells, i, j, moves), spans(np.arange(len(moves) + 1), cores()))
        return cls(walks.grid, walks.trips, pieces, cells[pieces[:-1]], moves, walks.slices)

    @property
    def arrays(self) -> dict[str, Any]:
        """What to store, by name; `CompactWalks(grid, **arrays)` are the same walks."""
        named = {name: getattr(self, name) for name in self.ARRAYS}
        return {name: array for name, array in named.items() if array is not None}

    def __len__(self) -> int:
        return len(self.trips) - 1

    def __repr__(self) -> str:
        return f"<CompactWalks: {len(self):,} trips, {self.pieces[-1]:,} visits on {self.grid}>"

    @property
    def visits(self) -> Integers:
        """int64[n + 1]: where each trip begins in `cells`."""
        return self.pieces[self.trips]

    @cached_property
    def cells(self) -> Integers32:
        """int32[visits]: row * columns + column of each visit, piece after piece."""
        cells = np.empty(self.pieces[-1], np.int32)
        arrays = self.pieces, self.starts, self.moves
        each_span(lambda i, j: _follow(*arrays, self.grid.columns, i, j, cells), spans(self.pieces, cores()))
        return cells


@njit(nogil=True, cache=True)
def _note(cells, first, last, moves):  # type: ignore[no-untyped-def]
    """Write moves[first:last]."""
    for i in range(first, last):
        bits = 0
        for visit in range(max(1, 4 * i), min(4 * i + 4, len(cells))):
            step = cells[visit] - cells[visit - 1]
            bits |= ((step < 0) | (abs(step) != 1) << 1) << 2 * (visit & 3)
        moves[i] = bits


@njit(nogil=True, cache=True)
def _follow(pieces, starts, moves, columns, first, last, cells):  # type: ignore[no-untyped-def]
    """Write the cells of pieces first to last."""
    for piece in range(first, last):
        cell = starts[piece]
        cells[pieces[piece]] = cell
        for visit in range(pieces[piece] + 1, pieces[piece + 1]):
            move = moves[visit >> 2] >> 2 * (visit & 3)
            step = columns if move & 2 else 1
            cell += -step if move & 1 else step
            cells[visit] = cell
