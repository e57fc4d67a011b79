"""Compiled kernels that trace trips over a grid, cell by cell.

Coordinates are first rounded to fixed point, with 2^18 steps a cell (0.15 mm for a 39 m cell). From there on, all
arithmetic is in integers, so a walk is exactly the sequence of cells that the line passes, the same on every machine. A
line through the exact corner of four cells goes through the more eastern of the two cells beside it, so that a trip and
its return visit the same cells.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from dqam.geometry.arrays import Integers
from dqam.geometry.grid import Grid

FRACTION_BITS = 18  # of a fixed-point coordinate in cells
COUNT, FILL, TALLY = range(3)  # what `trace` does


class EdgeTally(NamedTuple):
    """Numbers of crossings, starts and ends. A straight run of crossings is recorded only where it begins and ends.

    runs  int64[rows * (columns + 1) + columns * (rows + 1)]: for each row, numbers whose running sums are the crossings
          of its vertical edges; then, for each column, those of its horizontal edges
    ends  int64[rows * columns]: starts plus ends in each cell
    """

    runs: Integers
    ends: Integers

    @classmethod
    def empty(cls, grid: Grid) -> EdgeTally:
        """A tally of no trips."""
        rows, columns = grid.shape
        return cls(np.zeros(rows * (columns + 1) + columns * (rows + 1), np.int64), np.zeros(rows * columns, np.int64))


@njit(nogil=True, cache=True)
def _clip(u0, v0, u1, v1, columns, rows):  # type: ignore[no-untyped-def]
    """Both ends of the part of a segment that lies on the grid (Liang and Barsky), and whether there is one.

    A segment and its reverse give the same part: it is always computed from the western end, or the southern one if
    both ends are equally far west.
    """
    turned = u0 > u1 or (u0 == u1 and v0 > v1)
    if turned:
        u0, v0, u1, v1 = u1, v1, u0, v0
    t0, t1 = 0.0, 1.0
    for start, change, end in ((u0, u1 - u0, columns), (v0, v1 - v0, rows)):
        if change == 0.0:
            if start < 0.0 or start > end:
                return 0.0, 0.0, 0.0, 0.0, False
        else:
            a, b = -start / change, (end - start) / change
            t0, t1 = max(t0, min(a, b)), min(t1, max(a, b))
    ua, va, ub, vb = u0 + t0 * (u1 - u0), v0 + t0 * (v1 - v0), u0 + t1 * (u1 - u0), v0 + t1 * (v1 - v0)
    if turned:
        return ub, vb, ua, va, t0 < t1
    return ua, va, ub, vb, t0 < t1


@njit(nogil=True, cache=True)
def _fixed_point(value, cells):  # type: ignore[no-untyped-def]
    """A coordinate in cells, on the grid up to rounding, as a fixed-point number."""
    return np.int64(min(max(value, 0.0), cells) * (1 << FRACTION_BITS) + 0.5)


@njit(nogil=True, cache=True)
def _set_out(U0, V0, U1, V1, columns, rows):  # type: ignore[no-untyped-def]
    """The first cell of a segment, how many columns and rows it crosses, in which directions, and the next crossings.

    Of two crossings, the one after the smaller share of the segment comes first. Shares are compared as products of
    integers, which stay below 2^61. In a tie, the column comes first on the way east, and the row on the way west.
    """
    column, row = min(U0 >> FRACTION_BITS, columns - 1), min(V0 >> FRACTION_BITS, rows - 1)
    columns_left = min(U1 >> FRACTION_BITS, columns - 1) - column
    rows_left = min(V1 >> FRACTION_BITS, rows - 1) - row
    east, north = columns_left > 0, rows_left > 0
    to_column = abs(((column + east) << FRACTION_BITS) - U0) * abs(V1 - V0) - east
    to_row = abs(((row + north) << FRACTION_BITS) - V0) * abs(U1 - U0)
    across, up = 1 if east else -1, 1 if north else -1
    return column, row, abs(columns_left), abs(rows_left), across, up, to_column, to_row


@njit(nogil=True, cache=True)
def _pass_cells(U0, V0, U1, V1, columns, rows, cells, at):  # type: ignore[no-untyped-def]
    """Write the cells that a segment enters after its first one; return where writing ended."""
    column, row, columns_left, rows_left, across, up, to_column, to_row = _set_out(U0, V0, U1, V1, columns, rows)
    column_step, row_step = abs(V1 - V0) << FRACTION_BITS, abs(U1 - U0) << FRACTION_BITS
    cell = row * columns + column
    while columns_left and rows_left:
        if to_column < to_row:
            cell += across
            columns_left -= 1
            to_column += column_step
        else:
            cell += up * columns
            rows_left -= 1
            to_row += row_step
        cells[at] = cell
        at += 1
    for _ in range(columns_left + rows_left):
        cell += across if columns_left else up * columns
        cells[at] = cell
        at += 1
    return at


@njit(nogil=True, cache=True)
def _tally_line(U0, V0, U1, V1, columns, rows, runs):  # type: ignore[no-untyped-def]
    """Record the crossings between the cells that `_pass_cells` writes; the straight end of a segment is one run."""
    column, row, columns_left, rows_left, across, up, to_column, to_row = _set_out(U0, V0, U1, V1, columns, rows)
    column_step, row_step = abs(V1 - V0) << FRACTION_BITS, abs(U1 - U0) << FRACTION_BITS
    in_row = row * (columns + 1) + column  # where the cell is in the runs of its row, and of its column
    in_column = rows * (columns + 1) + column * (rows + 1) + row
    while columns_left and rows_left:
        if to_column < to_row:
            _note(runs, in_row, across)
            in_row += across
            in_column += across * (rows + 1)
            columns_left -= 1
            to_column += column_step
        else:
            _note(runs, in_column, up)
            in_column += up
            in_row += up * (columns + 1)
            rows_left -= 1
            to_row += row_step
    _note(runs, in_row, across * columns_left)
    _note(runs, in_column, up * rows_left)


@njit(nogil=True, cache=True)
def _note(runs, start, steps):  # type: ignore[no-untyped-def]
    """Record a run of crossings; with unsigned indices, Numba omits the test for negative ones."""
    runs[np.uint64(start + min(0, steps))] += 1
    runs[np.uint64(start + max(0, steps))] -= 1


@njit(nogil=True, cache=True)
def trace(  # type: ignore[no-untyped-def]
    x, y, silent, offsets, bounds, columns, rows, start, stop,
    mode, visits, pieces, cells, piece_starts, runs, ends,
):  # fmt: skip
    """Trace trips start to stop in one of three modes, and return the number of points on the grid.

    COUNT sets visits[i + 1] and pieces[i + 1]. FILL writes `cells` and `piece_starts`; `visits` and `pieces` are then
    cumulative sums. TALLY adds crossings to `runs`, and starts and ends to `ends`.
    """
    west, south, east, north = bounds
    scale_x, scale_y = columns / (east - west), rows / (north - south)
    inside = 0
    for trip in range(start, stop):
        at, piece = (visits[trip], pieces[trip]) if mode == FILL else (np.int64(0), np.int64(0))
        u0 = v0 = 0.0
        U0 = V0 = last = np.int64(0)
        connected = within = False  # whether the previous point is joined to this one, and on the grid
        for point in range(offsets[trip], offsets[trip + 1]):
            u, v = (x[point] - west) * scale_x, (y[point] - south) * scale_y
            here = x[point] >= west and x[point] <= east and y[point] >= south and y[point] <= north
            inside += here
            finite = here or (math.isfinite(u) and math.isfinite(v))  # some points cannot be projected
            if not finite or (len(silent) and silent[point]):
                connected = False
            U, V = (_fixed_point(u, columns), _fixed_point(v, rows)) if here else (np.int64(0), np.int64(0))
            U1, V1 = U, V  # where this segment ends on the grid
            passes = here
            if connected and not (within and here):
                ua, va, ub, vb, crosses = _clip(u0, v0, u, v, columns, rows)
                if not here:
                    passes = crosses
                    U1, V1 = _fixed_point(ub, columns), _fixed_point(vb, rows)
                if not within:  # a segment that touches the grid at its end alone begins there
                    U0, V0 = (_fixed_point(ua, columns), _fixed_point(va, rows)) if crosses else (U, V)
            elif not connected:
                U0, V0 = U, V
            if passes:
                if not (connected and within):  # a new piece begins
                    if mode == FILL:
                        piece_starts[piece] = at
                        cells[at] = _cell(U0, V0, columns, rows)
                    elif mode == TALLY:
                        if piece:
                            ends[last] += 1
                        ends[_cell(U0, V0, columns, rows)] += 1
                    piece += 1
                    at += 1
                if mode == FILL:
                    at = _pass_cells(U0, V0, U1, V1, columns, rows, cells, at)
                elif mode == TALLY:
                    _tally_line(U0, V0, U1, V1, columns, rows, runs)
                    last = _cell(U1, V1, columns, rows)
                else:
                    at += abs(min(U1 >> FRACTION_BITS, columns - 1) - min(U0 >> FRACTION_BITS, columns - 1))
                    at += abs(min(V1 >> FRACTION_BITS, rows - 1) - min(V0 >> FRACTION_BITS, rows - 1))
            u0, v0, U0, V0, within = u, v, U, V, here
            connected = finite
        if mode == COUNT:
            visits[trip + 1], pieces[trip + 1] = at, piece
        elif mode == TALLY and piece:
            ends[last] += 1
    return inside


@njit(nogil=True, cache=True)
def _cell(U, V, columns, rows):  # type: ignore[no-untyped-def]
    """The cell of a point; the outer border belongs to the grid."""
    return min(V >> FRACTION_BITS, rows - 1) * columns + min(U >> FRACTION_BITS, columns - 1)
