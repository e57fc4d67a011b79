"""Exact numbers of distinct trips in many rectangles at once, whatever loops the trips make.

A trip meets a rectangle if and only if a piece of it starts inside or crosses the rectangle's border. 1,024 trips
are the bits of sixteen words, and the work goes grid line by grid line, so that all it touches stays in the cache:
the crossings of one line become a row of masks, a two-level table over that row gives the OR of any stretch in
three steps, and each rectangle with a side on that line takes its stretch into its own mask. Starts are tested
with two prefix masks, by column and by row, once for every piece a trip may have.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dqam.errors import InputError
from dqam.grid import Grid
from dqam.rectangles import check_rectangles
from dqam.threads import cores, each_span, spans
from dqam.walks import Walks

WORDS = 16  # of 64 trips each
TRIPS = 64 * WORDS
TILE = 16_384  # rectangles whose masks are held at once, 2 MiB


class _Sides(NamedTuple):
    """The sides of rectangles that trips can cross, ordered by grid line: vertical lines, then horizontal ones."""

    first: NDArray[np.int64]  # where the sides of each line begin; one more than there are lines
    low: NDArray[np.int32]  # the stretch of the line, [low, high)
    high: NDArray[np.int32]
    rectangle: NDArray[np.int32]


def count_distinct(
    walks: Walks | Iterable[Walks], rectangles: NDArray[np.int64], grid: Grid, keep: NDArray[np.bool_] | None = None
) -> NDArray[np.int64]:
    """The number of distinct trips of `walks` that visit each rectangle of cells: int64[m].

    With `keep`, bool[n], only those trips count.
    """
    rectangles = check_rectangles(rectangles, grid)
    counts = np.zeros(len(rectangles), np.int64)
    for batch in [walks] if isinstance(walks, Walks) else walks:
        if batch.grid != grid:
            raise InputError(f"Walks on {batch.grid} can not be counted in rectangles of {grid}.")
        for start in range(0, len(rectangles), TILE):
            counts[start : start + TILE] += _count_tile(batch, rectangles[start : start + TILE], keep)
    return counts


def _count_tile(walks: Walks, rectangles: NDArray[np.int64], keep: NDArray[np.bool_] | None) -> NDArray[np.int64]:
    rows, columns = walks.grid.shape
    sides = _sides(rectangles, rows, columns)
    pieces = np.diff(walks.trips)
    # trips with many pieces share blocks, since each block makes as many rounds as its trips have pieces
    order = np.flatnonzero(pieces if keep is None else pieces * keep)
    order = order[np.argsort(pieces[order], kind="stable")]
    blocks = -(-len(order) // TRIPS)
    rectangles = rectangles.astype(np.int32)

    def count(first: int, last: int) -> NDArray[np.int64]:
        counts = np.zeros(len(rectangles), np.int64)
        part = order[first * TRIPS : last * TRIPS]
        _count_blocks(walks.cells, walks.pieces, walks.trips, part, rows, columns, rectangles, *sides, counts)
        return counts

    zero = np.zeros(len(rectangles), np.int64)
    return sum(each_span(count, spans(np.arange(blocks + 1), cores())), zero)


def _sides(rectangles: NDArray[np.int64], rows: int, columns: int) -> _Sides:
    west, south, east, north = rectangles.T
    line = np.concatenate([west, east, south + columns, north + columns])
    low = np.concatenate([south, south, west, west])
    high = np.concatenate([north, north, east, east])
    rectangle = np.tile(np.arange(len(rectangles)), 4)
    # the outer border can not be crossed: walks are on the grid
    inner = np.concatenate([west > 0, east < columns, south > 0, north < rows])
    order = np.flatnonzero(inner)[np.argsort(line[inner], kind="stable")]
    first = np.searchsorted(line[order], np.arange(columns + rows + 1))
    return _Sides(first, *(values[order].astype(np.int32) for values in (low, high, rectangle)))


@njit(nogil=True, cache=True)
def _line(before, cell, columns):  # type: ignore[no-untyped-def]
    """The grid line that a step crosses and the place on it: vertical lines first, then horizontal ones."""
    further = max(before, cell)
    row = further // columns
    column = further - row * columns
    if abs(cell - before) == columns:
        return columns + row, column
    return column, row


@njit(nogil=True, cache=True)
def _count_blocks(  # type: ignore[no-untyped-def]
    cells, pieces, trips, order, rows, columns, rectangles, first, low, high, rectangle, counts
):
    """Add to `counts` the trips in `order` that meet each rectangle, a block of trips at a time."""
    lines = columns + rows
    longest = max(rows, columns)
    shift = 0
    while (1 << (2 * shift)) < longest:
        shift += 1
    size = 1 << shift  # cells in a group of the two-level table, about the square root of a line
    groups = (longest + size - 1) >> shift
    masks = np.zeros((longest, WORDS), np.uint64)
    heads = np.zeros((longest, WORDS), np.uint64)  # OR from the start of the group to here
    tails = np.zeros((longest, WORDS), np.uint64)  # OR from here to the end of the group
    between = np.zeros((groups, groups, WORDS), np.uint64)  # OR of the groups i to j
    met = np.zeros((len(rectangles), WORDS), np.uint64)
    by_column = np.zeros((columns + 1, WORDS), np.uint64)
    by_row = np.zeros((rows + 1, WORDS), np.uint64)
    ends = np.zeros(lines + 1, np.int64)
    crossings = np.zeros(0, np.int64)

    for block in range(0, len(order), TRIPS):
        members = order[block : block + TRIPS]
        met[:] = 0

        # the crossings of each line: a counting sort by line
        ends[:] = 0
        for trip in members:
            for piece in range(trips[trip], trips[trip + 1]):
                before = cells[pieces[piece]]
                for visit in range(pieces[piece] + 1, pieces[piece + 1]):
                    cell = cells[visit]
                    line, _ = _line(before, cell, columns)
                    ends[line + 1] += 1
                    before = cell
        for line in range(lines):
            ends[line + 1] += ends[line]
        if ends[lines] > len(crossings):
            crossings = np.zeros(2 * ends[lines], np.int64)
        for bit in range(len(members)):
            trip = members[bit]
            for piece in range(trips[trip], trips[trip + 1]):
                before = cells[pieces[piece]]
                for visit in range(pieces[piece] + 1, pieces[piece + 1]):
                    cell = cells[visit]
                    line, place = _line(before, cell, columns)
                    crossings[ends[line]] = place * TRIPS + bit
                    ends[line] += 1
                    before = cell
        # ends[line] is now where the crossings of that line end

        for line in range(lines):
            begin = ends[line - 1] if line else 0
            if begin == ends[line] or first[line] == first[line + 1]:
                continue
            length = rows if line < columns else columns
            masks[:length] = 0
            for i in range(begin, ends[line]):
                place, bit = crossings[i] // TRIPS, crossings[i] % TRIPS
                masks[place, bit >> 6] |= np.uint64(1) << np.uint64(bit & 63)
            _build(masks, heads, tails, between, length, shift)
            for side in range(first[line], first[line + 1]):
                _take(masks, heads, tails, between, low[side], high[side] - 1, shift, met, rectangle[side])

        for turn in range(trips[members[-1] + 1] - trips[members[-1]]):
            by_column[:] = 0
            by_row[:] = 0
            for bit in range(len(members)):
                trip = members[bit]
                if trips[trip] + turn < trips[trip + 1]:
                    cell = cells[pieces[trips[trip] + turn]]
                    mask = np.uint64(1) << np.uint64(bit & 63)
                    by_column[cell % columns + 1, bit >> 6] |= mask
                    by_row[cell // columns + 1, bit >> 6] |= mask
            for place in range(1, columns + 1):
                for word in range(WORDS):
                    by_column[place, word] |= by_column[place - 1, word]
            for place in range(1, rows + 1):
                for word in range(WORDS):
                    by_row[place, word] |= by_row[place - 1, word]
            for i in range(len(rectangles)):
                west, south, east, north = (
                    rectangles[i, 0],
                    rectangles[i, 1],
                    rectangles[i, 2],
                    rectangles[i, 3],
                )
                for word in range(WORDS):
                    met[i, word] |= (by_column[east, word] & ~by_column[west, word]) & (
                        by_row[north, word] & ~by_row[south, word]
                    )
        for i in range(len(rectangles)):
            total = np.uint64(0)
            for word in range(WORDS):
                total += _ones(met[i, word])
            counts[i] += np.int64(total)


@njit(nogil=True, cache=True)
def _build(masks, heads, tails, between, length, shift):  # type: ignore[no-untyped-def]
    """The two-level table over masks[:length], in groups of 2^shift."""
    within = (1 << shift) - 1
    for place in range(length):
        for word in range(WORDS):
            heads[place, word] = masks[place, word]
        if place & within:
            for word in range(WORDS):
                heads[place, word] |= heads[place - 1, word]
    for place in range(length - 1, -1, -1):
        for word in range(WORDS):
            tails[place, word] = masks[place, word]
        if (place & within) != within and place + 1 < length:
            for word in range(WORDS):
                tails[place, word] |= tails[place + 1, word]
    groups = (length + within) >> shift
    for i in range(groups):
        for word in range(WORDS):
            between[i, i, word] = tails[i << shift, word]
        for j in range(i + 1, groups):
            for word in range(WORDS):
                between[i, j, word] = between[i, j - 1, word] | tails[j << shift, word]


@njit(nogil=True, cache=True)
def _take(masks, heads, tails, between, start, last, shift, met, i):  # type: ignore[no-untyped-def]
    """OR the masks from start to last, both included, into met[i]."""
    a, b = start >> shift, last >> shift
    if a == b:
        for place in range(start, last + 1):
            for word in range(WORDS):
                met[i, word] |= masks[place, word]
    elif b == a + 1:
        for word in range(WORDS):
            met[i, word] |= tails[start, word] | heads[last, word]
    else:
        for word in range(WORDS):
            met[i, word] |= tails[start, word] | heads[last, word] | between[a + 1, b - 1, word]


@njit(nogil=True, cache=True)
def _ones(word):  # type: ignore[no-untyped-def]
    """The number of set bits (the compiler knows this pattern and makes it one instruction)."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)
