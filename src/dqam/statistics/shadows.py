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

It is a function of one trip and of public numbers. Shadows of different trips do not depend on each other.
Nor does the processor matter: the system is solved by operations that IEEE 754 rounds the same way everywhere
(`dqam.runtime.simd`), and the machines of a mixed cluster agree in every bit.
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

SHADOW = 2**16  # of a number of a shadow, in fixed point
LARGEST = 2**22  # in units; a shadow with a larger number, or with one that is none, is the trip itself
RIDGE = 0.05  # relative to the square of each number
SPAN = 2**16  # visits that are worth a thread
MOST_VISITS = 128  # of lattice cells; a longer trip is its own shadow


class Shadows(NamedTuple):
    """The shadows of trips, in units of 1 / SHADOW.

    offsets  int64[trips + 1]: where each trip begins; a trip that does not count has nothing
    slots    int32: which number of the lattice: endpoints by cell, then vertical, then horizontal edges
    values   int32: how much of it
    """

    offsets: Integers
    slots: Integers32
    values: Integers32


def cast(walks: AnyWalks, longest: Integers, lattice: Lattice) -> Shadows:
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
    """Trips with as many visits are solved together, one in each lane; the last one has all lanes that are left."""
    walk, last = np.zeros(rows * columns, np.int32), np.zeros(rows * columns, np.int64)
    west, south = np.cumsum(east), np.cumsum(north)  # lines up to each
    held = np.zeros((4, 2 * MOST_VISITS, LANES))
    room = np.zeros((2 * MOST_VISITS + 2) * 2 * MOST_VISITS * LANES)
    sizes = np.diff(offsets)
    order = np.argsort(sizes, kind="mergesort")
    start = np.searchsorted(sizes[order], 1)  # those before have no shadow
    while start < len(order):
        size, stop = sizes[order[start]], start + 1
        while stop < len(order) and stop < start + LANES and sizes[order[stop]] == size:
            stop += 1
        visits = (size + 1) // 2
        for lane in range(LANES):
            trip = order[min(start + lane, stop - 1)]
            _lay(cells, pieces[longest[trip]], pieces[longest[trip] + 1], place, walk, last)
            shadow = slice(offsets[trip], offsets[trip + 1])
            _as_walked(walk, visits, rows, columns, slots[shadow], values[shadow])
            if visits <= MOST_VISITS:
                _hold(walk, visits, columns, west, south, held[:, :, lane])
        if 2 < visits <= MOST_VISITS:
            wide = 4 * ((size + 3) // 4)
            square = room[: (wide + 2) * wide * LANES].reshape(wide + 2, wide, LANES)
            _expect(visits, held, square)
            _draw(visits, square)
            _solve(square)
            for lane in range(stop - start):
                trip = order[start + lane]
                value = values[offsets[trip] : offsets[trip + 1]]
                _settle(visits, square[wide, :, lane], square[wide + 1, :, lane], value)
        start = stop


@njit(nogil=True, cache=True)
def _as_walked(walk, visits, rows, columns, slot, value):  # type: ignore[no-untyped-def]
    """The numbers of a walk as it is: half an endpoint at each end, and 1 for each crossing."""
    value[:visits] = 0
    value[0] += SHADOW // 2
    value[visits - 1] += SHADOW // 2
    value[visits:] = SHADOW
    slot[:visits] = walk[:visits]
    for k in range(visits - 1):
        low = min(walk[k], walk[k + 1])
        if abs(walk[k] - walk[k + 1]) < columns:
            slot[visits + k] = rows * columns + low - low // columns
        else:
            slot[visits + k] = rows * columns + rows * (columns - 1) + low


@njit(nogil=True, cache=True)
def _hold(walk, visits, columns, west, south, held):  # type: ignore[no-untyped-def]
    """How many lines leave a rectangle that holds each cell, and then each two cells in turn: for columns and for rows,
    lines up to the first of the stretch, and lines from the last on. Their product are the rectangles."""
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
def _expect(visits, held, square):  # type: ignore[no-untyped-def]
    """E[phi_i phi_j] in the lower half of a square, up to a common factor.

    To hold two stretches a rectangle has to keep to the smaller number of lines of each. An endpoint is that its cell
    is held; a crossing is half that of each of its two cells, less that of both together. All numbers are multiples of
    1/4 below 2^51, so that nothing is rounded.
    """
    numbers, half = 2 * visits - 1, filled(0.5)
    for i in range(numbers):
        a, b, c, d = load(held, 0, i), load(held, 1, i), load(held, 2, i), load(held, 3, i)
        for j in range(i + 1):
            along = least(a, load(held, 0, j)) * least(b, load(held, 1, j))
            across = least(c, load(held, 2, j)) * least(d, load(held, 3, j))
            if j < visits <= i:  # in the upper half, as the place below is for what becomes of it
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
def _draw(visits, square):  # type: ignore[no-untyped-def]
    """What makes a linear system of it, for `_solve`: the ridge; E[phi_i], with its ridge, as the first right side; and
    a second one that tells endpoints from crossings. Numbers there are none for are 0."""
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
    """Solve in place for right sides, the rows of float64[n + some, n, LANES] after the first n; 4 divides n.

    The lower half of the rest is positive definite, and becomes its Cholesky factor with the diagonal inverted. A right
    side is a row like the others until it has to be solved backwards. Four columns are done at a time, so that their
    rows stay in the cache, and two rows, so that what is loaded is used more than once.
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
    """Four numbers of a row, less what comes of the columns before these four: what they are in the factor."""
    a = _set(square, i, j, a)
    b = _set(square, i, j + 1, b - a * load(square, j + 1, j))
    c = _set(square, i, j + 2, c - a * load(square, j + 2, j) - b * load(square, j + 2, j + 1))
    d = d - a * load(square, j + 3, j) - b * load(square, j + 3, j + 1) - c * load(square, j + 3, j + 2)
    _set(square, i, j + 3, d)


@njit(nogil=True, cache=True)
def _set(square, i, j, number):  # type: ignore[no-untyped-def]
    """Divide by the diagonal, or invert it there; what is set above it does not matter."""
    number = inverse_root(number) if i == j else number * load(square, j, j)
    store(square, i, j, number)
    return number


@njit(nogil=True, cache=True, error_model="numpy")
def _settle(visits, wanted, ends, value):  # type: ignore[no-untyped-def]
    """The shadow: endpoints add up to 1 by some of the second solution. Where it is not sound, `value` stays."""
    missing = (1.0 - wanted[:visits].sum()) / ends[:visits].sum()
    for k in range(len(value)):
        wanted[k] = np.rint((wanted[k] + ends[k] * missing) * SHADOW)
        if not abs(wanted[k]) <= LARGEST:
            return
    for k in range(len(value)):
        value[k] = np.int32(wanted[k])
