"""Shadows: what is left of a trip when rectangles shall count it once.

A histogram answers a rectangle with the endpoints inside and half the crossings of its border, and a trip that comes
back to the rectangle is counted again. The shadow of a trip is another set of endpoints and crossings, on the lattice
cells and lines that the trip passes: those whose answers are closest to 1 where a rectangle meets the trip and to 0
where not. A part of the way that runs beside another then weighs less than 1, and where weights change there is a part
of an endpoint.

Closest means least squares over all rectangles of the grid, each as likely as any other, their lines moved to the
closest line of the lattice. Let phi_i(R) be what a unit of number i adds to the answer of R: 1 for an endpoint in R,
1/2 for a crossing of its border, else 0. The shadow minimises E[(sum of x_i phi_i(R) - met(R))^2] plus a ridge that
draws it to the trip itself (half an endpoint at each end, weight 1 for each crossing), with endpoints that add up to 1.
Where phi_i is not 0 the trip is met, so that E[phi_i met] = E[phi_i]; and E[phi_i phi_j] is a product of two numbers,
one for columns and one for rows, each a product of counts of lattice lines. So it is a small linear system, with no
rectangle in it. Loops are cut out first: a rectangle that meets one of them and not the rest of the trip misses it.

It is a function of one trip and of public numbers. Shadows of different trips do not know of each other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dqam.partition.lattice import Integers, Lattice, nearest_line
from dqam.threads import cores, each_span, spans
from dqam.walks import Walks

UNIT = 2**16  # of a number of a shadow, in fixed point
LARGEST = 2**22  # in units; a shadow with a larger number, or with one that is none, is the trip itself
RIDGE = 0.05  # relative to the square of each number
SPAN = 2**16  # visits that are worth a thread
MOST_VISITS = 128  # of lattice cells; a longer trip is its own shadow


class Shadows(NamedTuple):
    """The shadows of trips, in units of 1 / UNIT.

    offsets  int64[trips + 1]: where each trip begins; a trip that does not count has nothing
    slots    int32: which number of the lattice: endpoints by cell, then vertical, then horizontal edges
    values   int32: how much of it
    """

    offsets: NDArray[np.int64]
    slots: NDArray[np.int32]
    values: NDArray[np.int32]


def cast(walks: Walks, longest: Integers, lattice: Lattice) -> Shadows:
    """The shadow of the longest piece of each trip."""
    cells, pieces = walks.cells, walks.pieces
    east, north = (np.repeat(np.arange(len(lines) - 1), np.diff(lines)) for lines in (lattice.east, lattice.north))
    place = (north[:, None] * lattice.shape[1] + east).ravel().astype(np.int32)
    weights = np.concatenate([[0], np.cumsum(1 + np.diff(walks.visits))])
    parts = spans(weights, min(4 * cores(), 1 + int(weights[-1]) // SPAN))
    counts = each_span(lambda i, j: _count(cells, pieces, longest[i:j], place, lattice.cells), parts)
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(counts))]) if counts else np.zeros(1, np.int64)
    slots, values = np.zeros(offsets[-1], np.int32), np.zeros(offsets[-1], np.int32)
    across = [np.bincount(nearest_line(lines)).astype(np.float64) for lines in (lattice.east, lattice.north)]
    each_span(
        lambda i, j: _fill(
            cells, pieces, longest[i:j], place, *lattice.shape, across[0], across[1], offsets[i : j + 1], slots, values
        ),
        parts,
    )
    for part in (offsets, slots, values):
        part.flags.writeable = False
    return Shadows(offsets, slots, values)


@njit(nogil=True, cache=True)
def _lay(cells, start, stop, place, walk, last):  # type: ignore[no-untyped-def]
    """The lattice cells of a walk, loops cut out, into `walk`; how many. `last` is where each cell was laid last."""
    visits = 0
    for visit in range(start, stop):
        cell = place[cells[visit]]
        at = last[cell]
        if at < visits and walk[at] == cell:
            visits = at + 1
        else:
            walk[visits] = cell
            last[cell] = visits
            visits += 1
    return visits


@njit(nogil=True, cache=True)
def _count(cells, pieces, longest, place, places):  # type: ignore[no-untyped-def]
    """How many numbers each shadow has: one for each visit and each crossing."""
    walk, last = np.zeros(places, np.int32), np.zeros(places, np.int64)
    counts = np.zeros(len(longest), np.int64)
    for trip in range(len(longest)):
        piece = longest[trip]
        if piece >= 0:
            counts[trip] = 2 * _lay(cells, pieces[piece], pieces[piece + 1], place, walk, last) - 1
    return counts


@njit(nogil=True, cache=True, error_model="numpy")
def _fill(cells, pieces, longest, place, rows, columns, east, north, offsets, slots, values):  # type: ignore[no-untyped-def]
    walk, last = np.zeros(rows * columns, np.int32), np.zeros(rows * columns, np.int64)
    west, south = np.cumsum(east), np.cumsum(north)  # lines up to each
    x, y = np.zeros((2, rows * columns), np.int64)
    held = np.zeros((4, 2 * MOST_VISITS))
    square = np.zeros((2 * MOST_VISITS, 2 * MOST_VISITS))
    wanted, ends = np.zeros((2, 2 * MOST_VISITS))
    for trip in range(len(longest)):
        piece = longest[trip]
        if piece < 0:
            continue
        visits = _lay(cells, pieces[piece], pieces[piece + 1], place, walk, last)
        numbers = 2 * visits - 1
        slot, value = slots[offsets[trip] : offsets[trip + 1]], values[offsets[trip] : offsets[trip + 1]]
        for k in range(visits):
            slot[k] = walk[k]
            x[k], y[k] = walk[k] % columns, walk[k] // columns
        for k in range(visits - 1):
            low = min(walk[k], walk[k + 1])
            if x[k] != x[k + 1]:
                slot[visits + k] = rows * columns + low - low // columns
            else:
                slot[visits + k] = rows * columns + rows * (columns - 1) + low
        value[0] += UNIT // 2
        value[visits - 1] += UNIT // 2
        value[visits:] = UNIT
        if 2 < visits <= MOST_VISITS:
            _expect(visits, x, y, west, south, held, square, wanted)
            for k in range(numbers):
                ridge = RIDGE * square[k, k]
                square[k, k] += ridge
                wanted[k] += ridge * value[k] / UNIT
                ends[k] = 1.0 if k < visits else 0.0
            _solve(square, numbers, wanted, ends)
            missing = (1.0 - wanted[:visits].sum()) / ends[:visits].sum()
            sound = True
            for k in range(numbers):
                wanted[k] = np.rint((wanted[k] + ends[k] * missing) * UNIT)
                sound &= abs(wanted[k]) <= LARGEST
            if sound:
                value[:] = wanted[:numbers].astype(np.int32)


@njit(nogil=True, cache=True)
def _expect(visits, x, y, west, south, held, square, wanted):  # type: ignore[no-untyped-def]
    """E[phi_i phi_j], the lower half, and E[phi_i], up to a common factor.

    That a rectangle holds a stretch of cells is that its first line is at most the stretch's first and its last line
    beyond the stretch's last: so many of the lines up to the one, times so many from the other on (`held`, for columns
    and then for rows). To hold two stretches it has to keep to the smaller number of each. An endpoint is that its cell
    is held; a crossing is half that of each of its two cells, less that of both together. All numbers are multiples of
    1/4 below 2^51, so that nothing is rounded.
    """
    numbers = 2 * visits - 1
    for k in range(numbers):
        first, last = (k, k) if k < visits else (k - visits, k - visits + 1)
        held[0, k], held[1, k] = west[min(x[first], x[last])], west[-1] - west[max(x[first], x[last])]
        held[2, k], held[3, k] = south[min(y[first], y[last])], south[-1] - south[max(y[first], y[last])]
    for i in range(numbers):
        a, b, c, d = held[0, i], held[1, i], held[2, i], held[3, i]
        for j in range(numbers):
            along = (held[0, j] if held[0, j] < a else a) * (held[1, j] if held[1, j] < b else b)
            across = (held[2, j] if held[2, j] < c else c) * (held[3, j] if held[3, j] < d else d)
            square[i, j] = along * across
    for i in range(visits, numbers):
        before, after, row = square[i - visits], square[i - visits + 1], square[i]
        for j in range(numbers):
            row[j] = 0.5 * (before[j] + after[j]) - row[j]
        for j in range(visits - 1):
            row[visits + j] = 0.5 * (row[j] + row[j + 1]) - row[visits + j]
    for i in range(numbers):
        wanted[i] = square[i, i] if i < visits else 2 * square[i, i]


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"}, error_model="numpy")
def _solve(square, size, first, second):  # type: ignore[no-untyped-def]
    """Solve for two right sides in place; `square` is positive definite, its lower half becomes its Cholesky factor.

    Four columns are done at a time, so that a row that is in registers is used four times.
    """
    for i in range(size):
        row = square[i]
        fours = i - i % 4
        for j in range(0, fours, 4):
            a, b, c, d = square[j], square[j + 1], square[j + 2], square[j + 3]
            by_a = by_b = by_c = by_d = 0.0
            for k in range(j):
                by_a += row[k] * a[k]
                by_b += row[k] * b[k]
                by_c += row[k] * c[k]
                by_d += row[k] * d[k]
            row[j] = (row[j] - by_a) / a[j]
            row[j + 1] = (row[j + 1] - by_b - row[j] * b[j]) / b[j + 1]
            row[j + 2] = (row[j + 2] - by_c - row[j] * c[j] - row[j + 1] * c[j + 1]) / c[j + 2]
            row[j + 3] = (row[j + 3] - by_d - row[j] * d[j] - row[j + 1] * d[j + 1] - row[j + 2] * d[j + 2]) / d[j + 3]
        for j in range(fours, i):
            dot = 0.0
            for k in range(j):
                dot += row[k] * square[j, k]
            row[j] = (row[j] - dot) / square[j, j]
        dot = one = two = 0.0
        for k in range(i):
            dot += row[k] * row[k]
            one += row[k] * first[k]
            two += row[k] * second[k]
        row[i] = np.sqrt(row[i] - dot)
        first[i], second[i] = (first[i] - one) / row[i], (second[i] - two) / row[i]
    for i in range(size - 1, -1, -1):
        row = square[i]
        first[i] /= row[i]
        second[i] /= row[i]
        one, two = first[i], second[i]
        for k in range(i):
            first[k] -= row[k] * one
            second[k] -= row[k] * two
