"""Shadows: trips as weighted endpoints and crossings that a histogram counts about once per rectangle.

A histogram answers a rectangle with the endpoints inside plus half the crossings of its border, so a trip that returns
to the rectangle is counted again. The shadow of a trip is another set of endpoints and crossings, on the lattice cells
and lines that the trip passes: the set whose answers are closest to 1 for rectangles that meet the trip and to 0 for
all others. Where the trip runs beside another part of itself, crossings then have weights below 1, and where the
weights change, there is a fraction of an endpoint.

"Closest" means least squares over all rectangles of the grid, each equally likely, with their sides moved to the
nearest lattice lines. Let phi_i(R) be what one unit of number i adds to the answer of R: 1 for an endpoint in R, 1/2
for a crossing of its border, else 0. The shadow minimises E[(sum of x_i phi_i(R) - met(R))^2] plus a ridge term that
draws it towards the trip itself (half an endpoint at each end, weight 1 for each crossing), with endpoints that add up
to 1. If phi_i is not 0, R meets the trip, so that E[phi_i met] = E[phi_i]; and E[phi_i phi_j] is a linear combination
of products of two numbers, one for columns and one for rows, each a product of two counts of lines. This is a small
linear system, and no rectangle has to be enumerated. Loops are removed first; a rectangle that meets only a loop of the
trip then misses the trip.

A shadow is a function of one trip and of public numbers; the shadows of different trips do not depend on each other.
Nor does the processor matter: the system is solved with operations that IEEE 754 rounds the same way everywhere
(`dqam.runtime.simd`), so that the machines of a mixed cluster agree in every bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from dqam.geometry.arrays import Integers, Integers32
from dqam.geometry.lattice import Lattice, nearest_line
from dqam.geometry.walks import AnyWalks
from dqam.runtime.simd import LANES, filled, inverse_root, least, load, store
from dqam.runtime.threads import cores, each_span, spans

SHADOW = 2**16  # units per 1, in fixed point
LARGEST = 2**22  # in units; if a number of the shadow is larger or not finite, the trip itself is used instead
RIDGE = 0.05  # relative to the square of each number
SPAN = 2**16  # visits that justify another thread
MOST_VISITS = 128  # of lattice cells; a longer trip is its own shadow


class Shadows(NamedTuple):
    """The shadows of trips, in units of 1 / SHADOW.

    offsets  int64[trips + 1]: where each trip begins; a trip that does not count has no numbers
    slots    int32: the index of each number on the lattice: endpoints by cell, then vertical, then horizontal edges
    values   int32: the number itself
    """

    offsets: Integers
    slots: Integers32
    values: Integers32


def compute_shadows(walks: AnyWalks, longest: Integers, lattice: Lattice) -> Shadows:
    """The shadow of the longest piece of each trip."""
    cells, pieces, place = walks.cells, walks.pieces, lattice_cells(lattice)
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


def lattice_cells(lattice: Lattice) -> Integers32:
    """int32[cells of the grid]: the lattice cell of each, row by row."""
    east, north = (np.repeat(np.arange(len(lines) - 1), np.diff(lines)) for lines in (lattice.east, lattice.north))
    return (north[:, None] * lattice.shape[1] + east).ravel().astype(np.int32)


@njit(nogil=True, cache=True)
def lattice_walk(cells, start, stop, place, walk, last):  # type: ignore[no-untyped-def]
    """Write the lattice cells of a walk, without loops, to `walk`, and return their number.

    `last` is the latest position of each cell in `walk`.
    """
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
    """The number of numbers in each shadow: one for each visit and each crossing."""
    walk, last = np.zeros(places, np.int32), np.zeros(places, np.int64)
    counts = np.zeros(len(longest), np.int64)
    for trip in range(len(longest)):
        piece = longest[trip]
        if piece >= 0:
            counts[trip] = 2 * lattice_walk(cells, pieces[piece], pieces[piece + 1], place, walk, last) - 1
    return counts


@njit(nogil=True, cache=True, error_model="numpy")
def _fill(cells, pieces, longest, place, rows, columns, east, north, offsets, slots, values):  # type: ignore[no-untyped-def]
    """Write all shadows.

    Trips with the same number of visits are solved together, one in each lane; the last one fills all remaining lanes.
    """
    walk, last = np.zeros(rows * columns, np.int32), np.zeros(rows * columns, np.int64)
    west, south = np.cumsum(east), np.cumsum(north)  # number of lines up to each column and row
    held = np.zeros((4, 2 * MOST_VISITS, LANES))
    room = np.zeros((2 * MOST_VISITS + 2) * 2 * MOST_VISITS * LANES)
    sizes = np.diff(offsets)
    order = np.argsort(sizes, kind="mergesort")
    start = np.searchsorted(sizes[order], 1)  # trips before have no shadow
    while start < len(order):
        size, stop = sizes[order[start]], start + 1
        while stop < len(order) and stop < start + LANES and sizes[order[stop]] == size:
            stop += 1
        visits = (size + 1) // 2
        for lane in range(LANES):
            trip = order[min(start + lane, stop - 1)]
            lattice_walk(cells, pieces[longest[trip]], pieces[longest[trip] + 1], place, walk, last)
            shadow = slice(offsets[trip], offsets[trip + 1])
            _as_walked(walk, visits, rows, columns, slots[shadow], values[shadow])
            if visits <= MOST_VISITS:
                _count_lines(walk, visits, columns, west, south, held[:, :, lane])
        if 2 < visits <= MOST_VISITS:
            wide = 4 * ((size + 3) // 4)
            square = room[: (wide + 2) * wide * LANES].reshape(wide + 2, wide, LANES)
            _expected_products(visits, held, square)
            _complete_system(visits, square)
            _solve(square)
            for lane in range(stop - start):
                trip = order[start + lane]
                value = values[offsets[trip] : offsets[trip + 1]]
                _write_shadow(visits, square[wide, :, lane], square[wide + 1, :, lane], value)
        start = stop


@njit(nogil=True, cache=True)
def edge_slot(one, other, rows, columns):  # type: ignore[no-untyped-def]
    """Which number of a lattice is the edge between two neighbouring cells."""
    low = min(one, other)
    if abs(one - other) < columns:
        return rows * columns + low - low // columns
    return rows * columns + rows * (columns - 1) + low


@njit(nogil=True, cache=True)
def _as_walked(walk, visits, rows, columns, slot, value):  # type: ignore[no-untyped-def]
    """Write the numbers of the walk itself: half an endpoint at each end, and 1 for each crossing."""
    value[:visits] = 0
    value[0] += SHADOW // 2
    value[visits - 1] += SHADOW // 2
    value[visits:] = SHADOW
    slot[:visits] = walk[:visits]
    for k in range(visits - 1):
        slot[visits + k] = edge_slot(walk[k], walk[k + 1], rows, columns)


@njit(nogil=True, cache=True)
def _count_lines(walk, visits, columns, west, south, held):  # type: ignore[no-untyped-def]
    """Count the lines that can bound a rectangle around each cell, and then around each two consecutive cells.

    Lines are those of the grid, moved to the nearest lattice lines. held[0] and held[1] count the lines west and east
    of the cells, held[2] and held[3] those south and north. The product of all four is the number of rectangles that
    contain the cells.
    """
    before, below = walk[0] % columns, walk[0] // columns
    for k in range(visits):
        column, row = walk[k] % columns, walk[k] // columns
        held[0, k], held[1, k] = west[column], west[-1] - west[column]
        held[2, k], held[3, k] = south[row], south[-1] - south[row]
        if k:
            pair = visits + k - 1
            held[0, pair], held[1, pair] = west[min(before, column)], west[-1] - west[max(before, column)]
            held[2, pair], held[3, pair] = south[min(below, row)], south[-1] - south[max(below, row)]
        before, below = column, row


@njit(nogil=True, cache=True)
def _expected_products(visits, held, square):  # type: ignore[no-untyped-def]
    """Write E[phi_i phi_j], up to a common factor, to the lower half of `square`.

    A rectangle contains two sets of cells if it is bounded, on each side, by one of the lines that bound both, which is
    the smaller of the two counts. phi of an endpoint is 1 if the rectangle contains its cell; phi of a crossing is half
    the sum of this for its two cells, minus 1 if the rectangle contains both. All numbers are multiples of 1/4 below
    2^51, so nothing is rounded.
    """
    numbers, half = 2 * visits - 1, filled(0.5)
    for i in range(numbers):
        a, b, c, d = load(held, 0, i), load(held, 1, i), load(held, 2, i), load(held, 3, i)
        for j in range(i + 1):
            along = least(a, load(held, 0, j)) * least(b, load(held, 1, j))
            across = least(c, load(held, 2, j)) * least(d, load(held, 3, j))
            if j < visits <= i:  # stored in the upper half, because the result goes to the lower half
                store(square, j, i, along * across)
            else:
                store(square, i, j, along * across)
    for k in range(visits - 1):
        i = visits + k
        for j in range(visits):
            cells = load(square, max(k, j), min(k, j)) + load(square, max(k + 1, j), min(k + 1, j))
            store(square, i, j, half * cells - load(square, j, i))
        for j in range(k + 1):
            cells = load(square, i, j) + load(square, i, j + 1)
            both = load(square, k, visits + j) + load(square, k + 1, visits + j)
            store(square, i, visits + j, half * (cells - both) + load(square, i, visits + j))


@njit(nogil=True, cache=True)
def _complete_system(visits, square):  # type: ignore[no-untyped-def]
    """Complete the linear system for `_solve`: add the ridge and write the right-hand sides.

    The first right-hand side is E[phi_i] plus its part of the ridge; the second is 1 for endpoints and 0 for crossings.
    Unused rows and columns become those of the identity matrix.
    """
    numbers, wide = 2 * visits - 1, square.shape[1]
    none, one, half, ridge = filled(0.0), filled(1.0), filled(0.5), filled(RIDGE)
    for k in range(numbers):
        found = load(square, k, k)
        drawn = ridge * found
        store(square, k, k, found + drawn)
        if k >= visits:
            found += found + drawn
        elif k == 0 or k == visits - 1:
            found += half * drawn
        store(square, wide, k, found)
        store(square, wide + 1, k, one if k < visits else none)
    for i in range(numbers, wide):
        for j in range(i):
            store(square, i, j, none)
        store(square, i, i, one)
        store(square, wide, i, none)
        store(square, wide + 1, i, none)


@njit(nogil=True, cache=True)
def _solve(square):  # type: ignore[no-untyped-def]
    """Solve a linear system in place; the right-hand sides are the rows of float64[n + some, n, LANES] after the first
    n.

    n is a multiple of 4. The lower half of the first n rows holds a positive definite matrix, and becomes its Cholesky
    factor with the diagonal inverted. A right-hand side is treated like the other rows until the backward substitution.
    Four columns are processed at a time, so that their rows stay in the cache, and two rows at a time, so that loaded
    numbers are used more than once.
    """
    rows, wide = square.shape[:2]
    for j in range(0, wide, 4):
        for i in range(j, rows, 2):
            a, b, c, d = _four(square, i, j)
            e, f, g, h = _four(square, i + 1, j)
            for k in range(j):
                one, other = load(square, i, k), load(square, i + 1, k)
                p, q = load(square, j, k), load(square, j + 1, k)
                r, s = load(square, j + 2, k), load(square, j + 3, k)
                a, b, c, d = a - one * p, b - one * q, c - one * r, d - one * s
                e, f, g, h = e - other * p, f - other * q, g - other * r, h - other * s
            _divide(square, i, j, a, b, c, d)
            _divide(square, i + 1, j, e, f, g, h)
    for side in range(wide, rows):
        for i in range(wide - 1, -1, -1):
            a = load(square, side, i) * load(square, i, i)
            store(square, side, i, a)
            for k in range(i):
                store(square, side, k, load(square, side, k) - load(square, i, k) * a)


@njit(nogil=True, cache=True)
def _four(square, i, j):  # type: ignore[no-untyped-def]
    return load(square, i, j), load(square, i, j + 1), load(square, i, j + 2), load(square, i, j + 3)


@njit(nogil=True, cache=True)
def _divide(square, i, j, a, b, c, d):  # type: ignore[no-untyped-def]
    """Write four numbers of a row of the factor, from which the columns before these four are already eliminated."""
    a = _set(square, i, j, a)
    b = _set(square, i, j + 1, b - a * load(square, j + 1, j))
    c = _set(square, i, j + 2, c - a * load(square, j + 2, j) - b * load(square, j + 2, j + 1))
    d = d - a * load(square, j + 3, j) - b * load(square, j + 3, j + 1) - c * load(square, j + 3, j + 2)
    _set(square, i, j + 3, d)


@njit(nogil=True, cache=True)
def _set(square, i, j, number):  # type: ignore[no-untyped-def]
    """Store a number divided by the diagonal, or the inverted diagonal; entries above it do not matter."""
    number = inverse_root(number) if i == j else number * load(square, j, j)
    store(square, i, j, number)
    return number


@njit(nogil=True, cache=True, error_model="numpy")
def _write_shadow(visits, wanted, ends, value):  # type: ignore[no-untyped-def]
    """Write the shadow: the first solution plus the multiple of the second with which endpoints add up to 1.

    If a number is too large or not finite, `value` stays as it is.
    """
    missing = (1.0 - wanted[:visits].sum()) / ends[:visits].sum()
    for k in range(len(value)):
        wanted[k] = np.rint((wanted[k] + ends[k] * missing) * SHADOW)
        if not abs(wanted[k]) <= LARGEST:
            return
    for k in range(len(value)):
        value[k] = np.int32(wanted[k])
