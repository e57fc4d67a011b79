"""Exact counts of distinct trips in many rectangles at once; a trip with loops counts once.

A trip meets a rectangle if and only if one of its pieces starts inside or crosses the border. A mask of sixteen words
has one bit for each of 1,024 trips. The grid is processed line by line, so that the data in use stays in the cache: the
crossings of a line become a row of masks, a two-level table over that row gives the OR of any stretch in three steps,
and each rectangle with a side on the line adds its stretch to its own mask. The starts are found with two prefix masks,
by column and by row, in as many rounds as a trip has pieces.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import njit

from dqam.errors import InputError
from dqam.geometry.arrays import Integers, Integers32, Mask
from dqam.geometry.grid import Grid
from dqam.geometry.rectangles import check_rectangles
from dqam.geometry.walks import AnyWalks
from dqam.runtime.simd import WORDS, both, either, load, ones, store, without
from dqam.runtime.threads import cores, each_span, spans

TRIPS = 64 * WORDS  # in a block
TILE = 16_384  # rectangles whose masks are held at once, in 2 MiB


class _Sides(NamedTuple):
    """The sides of rectangles that trips can cross, ordered by grid line, vertical lines before horizontal ones."""

    first: Integers  # where the sides of each line begin; one more than there are lines
    low: Integers32  # the stretch of the line, [low, high)
    high: Integers32
    rectangle: Integers32


def count_distinct(
    walks: AnyWalks | Iterable[AnyWalks],
    rectangles: Integers,
    grid: Grid,
    keep: Mask | None = None,
) -> Integers:
    """int64[m]: the number of distinct trips of `walks` that visit each rectangle of cells.

    rectangles  int64[m, 4], grid lines (west, south, east, north)
    keep        bool[n], the trips that count; all if None
    """
    rectangles = check_rectangles(rectangles, grid)
    counts = np.zeros(len(rectangles), np.int64)
    for batch in walks if isinstance(walks, Iterable) else [walks]:
        if batch.grid != grid:
            raise InputError(f"Walks on {batch.grid} cannot be counted in rectangles of {grid}.")
        for start in range(0, len(rectangles), TILE):
            counts[start : start + TILE] += _count_tile(batch, rectangles[start : start + TILE], keep)
    return counts


def _count_tile(walks: AnyWalks, rectangles: Integers, keep: Mask | None) -> Integers:
    rows, columns = walks.grid.shape
    sides = _sides(rectangles.tobytes(), rows, columns)
    pieces = np.diff(walks.trips)
    # trips with many pieces share blocks, because each block makes as many rounds as its trips have pieces
    order = np.flatnonzero(pieces if keep is None else pieces * keep)
    order = order[np.argsort(pieces[order], kind="stable")]
    blocks = -(-len(order) // TRIPS)
    rectangles = rectangles.astype(np.int32)

    def count(first: int, last: int) -> Integers:
        counts = np.zeros(len(rectangles), np.int64)
        part = order[first * TRIPS : last * TRIPS]
        _count_blocks(walks.cells, walks.pieces, walks.trips, part, rows, columns, rectangles, *sides, counts)
        return counts

    zero = np.zeros(len(rectangles), np.int64)
    return sum(each_span(count, spans(np.arange(blocks + 1), cores())), zero)


@lru_cache(maxsize=4)
def _sides(rectangles_in_bytes: bytes, rows: int, columns: int) -> _Sides:
    """The sides of rectangles; cached, because the next batch is usually counted in the same rectangles."""
    rectangles = np.frombuffer(rectangles_in_bytes, np.int64).reshape(-1, 4)
    west, south, east, north = rectangles.T
    line = np.concatenate([west, east, south + columns, north + columns])
    low = np.concatenate([south, south, west, west])
    high = np.concatenate([north, north, east, east])
    rectangle = np.tile(np.arange(len(rectangles)), 4)
    # the outer border cannot be crossed: walks are on the grid
    inner = np.concatenate([west > 0, east < columns, south > 0, north < rows])
    order = np.flatnonzero(inner)[np.argsort(line[inner], kind="stable")]
    first = np.searchsorted(line[order], np.arange(columns + rows + 1))
    return _Sides(first, *(values[order].astype(np.int32) for values in (low, high, rectangle)))


@njit(nogil=True, cache=True)
def _line(before, cell, columns):  # type: ignore[no-untyped-def]
    """The grid line that a step crosses, vertical lines first, and the position on it."""
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
    groups = (longest >> shift) + 1  # of about the square root of a line
    masks = np.zeros((3, longest, WORDS), np.uint64)
    between = np.zeros((groups, groups, WORDS), np.uint64)  # OR over the groups i to j
    met = np.zeros((len(rectangles), 1, WORDS), np.uint64)
    started = np.zeros((2, longest + 1, WORDS), np.uint64)
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
            masks[0, :length] = 0
            for i in range(begin, ends[line]):
                place, bit = crossings[i] // TRIPS, crossings[i] % TRIPS
                masks[0, place, bit >> 6] |= np.uint64(1) << np.uint64(bit & 63)
            _build(masks, between, length, shift)
            for side in range(first[line], first[line + 1]):
                found = _stretch(masks, between, low[side], high[side] - 1, shift)
                store(met, rectangle[side], 0, either(load(met, rectangle[side], 0), found))

        for turn in range(trips[members[-1] + 1] - trips[members[-1]]):
            started[:] = 0
            for bit in range(len(members)):
                trip = members[bit]
                if trips[trip] + turn < trips[trip + 1]:
                    cell = cells[pieces[trips[trip] + turn]]
                    mask = np.uint64(1) << np.uint64(bit & 63)
                    started[0, cell % columns + 1, bit >> 6] |= mask
                    started[1, cell // columns + 1, bit >> 6] |= mask
            for way in range(2):
                for place in range(1, longest + 1):
                    store(started, way, place, either(load(started, way, place), load(started, way, place - 1)))
            for i in range(len(rectangles)):
                west, south, east, north = rectangles[i]
                by_column = without(load(started, 0, east), load(started, 0, west))
                by_row = without(load(started, 1, north), load(started, 1, south))
                store(met, i, 0, either(load(met, i, 0), both(by_column, by_row)))
        for i in range(len(rectangles)):
            counts[i] += ones(load(met, i, 0))


@njit(nogil=True, cache=True)
def _build(masks, between, length, shift):  # type: ignore[no-untyped-def]
    """Build a two-level table over masks[0, :length] in groups of 2^shift.

    masks[1] gets the OR from the start of the group, masks[2] the OR to its end, and between[i, j] that of groups i to
    j.
    """
    size = 1 << shift
    for start in range(0, length, size):
        stop = min(start + size, length)
        found = load(masks, 0, start)
        store(masks, 1, start, found)
        for place in range(start + 1, stop):
            found = either(found, load(masks, 0, place))
            store(masks, 1, place, found)
        found = load(masks, 0, stop - 1)
        store(masks, 2, stop - 1, found)
        for place in range(stop - 2, start - 1, -1):
            found = either(found, load(masks, 0, place))
            store(masks, 2, place, found)
    groups = (length + size - 1) >> shift
    for i in range(groups):
        found = load(masks, 2, i << shift)
        store(between, i, i, found)
        for j in range(i + 1, groups):
            found = either(found, load(masks, 2, j << shift))
            store(between, i, j, found)


@njit(nogil=True, cache=True)
def _stretch(masks, between, start, last, shift):  # type: ignore[no-untyped-def]
    """The OR of the masks from start to last, both included."""
    a, b = start >> shift, last >> shift
    if a == b:
        found = load(masks, 0, start)
        for place in range(start + 1, last + 1):
            found = either(found, load(masks, 0, place))
        return found
    found = either(load(masks, 2, start), load(masks, 1, last))
    if b > a + 1:
        found = either(found, load(between, a + 1, b - 1))
    return found
