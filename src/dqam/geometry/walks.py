"""Trips laid on a grid as 4-connected walks from cell to cell.

A segment between two points is a straight line in the grid's CRS. Coordinates are first rounded to a lattice of
2^18 steps a cell (0.15 mm for a 39 m cell), and from there on all is integer arithmetic: a walk is exactly the
sequence of cells that the line passes, the same on every machine. (Only PROJ, where points are in another CRS, and the
distances for a gap in metres can differ in their last bits between machines; see docs/promise.md.) Cells are
half-open, [west, east) x [south, north), but for the outer border, which belongs to the grid. A line through the exact
corner of four cells goes through the more eastern of the two cells beside it, so that a trip and its return visit the
same ones.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dqam.errors import InputError
from dqam.geometry.arrays import Floats, Integers, Mask
from dqam.geometry.grid import Grid, is_degrees, parse_crs, transform
from dqam.geometry.trips import Trips
from dqam.runtime.threads import cores, each_span, spans

LATTICE_BITS = 18
COUNT, FILL, TALLY = range(3)
SAMPLE = 100_000  # points that tell whether axes are swapped
EARTH_RADIUS = 6_371_008.8  # metres, the mean radius of WGS84


@dataclass(frozen=True)
class Gap:
    """The longest silence of the GPS that a trip is carried across: a longer one cuts it in two pieces.

    >>> Gap.parse("120s"), Gap.parse("500m")
    (Gap(seconds=120.0, metres=inf), Gap(seconds=inf, metres=500.0))
    """

    seconds: float = math.inf
    metres: float = math.inf

    def __post_init__(self) -> None:
        if not (self.seconds > 0 and self.metres > 0):
            raise InputError(f"A gap is longer than nothing; got {self.seconds:g} s, {self.metres:g} m.")

    def __str__(self) -> str:
        """For people.

        >>> print(Gap.parse("2min"))
        120 s
        """
        limits = ((self.seconds, "s"), (self.metres, "m"))
        return " or ".join(f"{value:g} {unit}" for value, unit in limits if math.isfinite(value)) or "none"

    @classmethod
    def parse(cls, text: str) -> Gap:
        """A gap from words like '120s', '500m' or '2km'."""
        match = re.fullmatch(r"\s*([0-9.]+)\s*(s|min|h|m|km)\s*", text)
        try:
            value = float(match[1]) if match else math.nan
        except ValueError:
            value = math.nan
        if match is None or math.isnan(value):
            raise InputError(f"A gap is a number with its unit (120s, 5min, 1h, 500m, 2km); got {text!r}.")
        match match[2]:
            case "s":
                return cls(seconds=value)
            case "min":
                return cls(seconds=60 * value)
            case "h":
                return cls(seconds=3600 * value)
            case "m":
                return cls(metres=value)
            case _:
                return cls(metres=1000 * value)


class AnyWalks(Protocol):
    """Walks of trips from cell to cell: one piece for each time a trip is on the grid, none if it never is."""

    @property
    def grid(self) -> Grid:
        """Where they are laid."""

    def __len__(self) -> int:
        """The number of trips."""

    @property
    def visits(self) -> Integers:
        """int64[n + 1]: where each trip begins in `cells`."""

    @property
    def trips(self) -> Integers:
        """int64[n + 1]: where each trip begins in `pieces`."""

    @property
    def pieces(self) -> Integers:
        """int64[pieces + 1]: where each piece begins in `cells`."""

    @property
    def cells(self) -> NDArray[np.int32]:
        """int32[visits]: row * columns + column of each visit, piece after piece."""


class Tally(NamedTuple):
    """Crossings, starts and ends of walks. A straight run of crossings is noted only where it begins and ends.

    runs  int64[rows * (columns + 1) + columns * (rows + 1)]: for each row, numbers whose running sum are the crossings
          of its vertical edges; then for each column those of its horizontal edges
    ends  int64[rows * columns]: starts plus ends in each cell
    """

    runs: Integers
    ends: Integers

    @classmethod
    def empty(cls, grid: Grid) -> Tally:
        """Nothing yet."""
        rows, columns = grid.shape
        return cls(np.zeros(rows * (columns + 1) + columns * (rows + 1), np.int64), np.zeros(rows * columns, np.int64))


@dataclass(frozen=True, eq=False)
class Walks:
    """The walks of trips, as their points have it.

    What they pass is worked out when it is first asked for, and `tally` does without the cells.
    """

    grid: Grid
    offsets: Integers  # of the trips in their points
    _lines: tuple[Any, ...]  # the arguments of `_trace` that say where the points are

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def points(self) -> int:
        """The number of points of all trips."""
        return int(self.offsets[-1])

    @property
    def inside(self) -> int:
        """How many of the points lie on the grid."""
        return self._counted[2]

    @property
    def on_grid(self) -> int:
        """The number of trips with at least one visit."""
        return int(np.count_nonzero(np.diff(self.trips)))

    @property
    def visits(self) -> Integers:
        """int64[n + 1]: where each trip begins in `cells`."""
        return self._counted[0]

    @property
    def trips(self) -> Integers:
        """int64[n + 1]: where each trip begins in `pieces`."""
        return self._counted[1]

    @property
    def cells(self) -> NDArray[np.int32]:
        """int32[visits]: row * columns + column of each visit, piece after piece."""
        return self._walked[0]

    @property
    def pieces(self) -> Integers:
        """int64[pieces + 1]: where each piece begins in `cells`."""
        return self._walked[1]

    def tally(self, tally: Tally, start: int, stop: int) -> None:
        """Add all crossings, starts and ends of trips start to stop to `tally`."""
        _trace(*self._lines, start, stop, TALLY, *_NO_COUNTS, *_NO_CELLS, *tally)

    @cached_property
    def _counted(self) -> tuple[Integers, Integers, int]:
        visits, pieces = np.zeros(len(self) + 1, np.int64), np.zeros(len(self) + 1, np.int64)

        def trace(start: int, stop: int) -> int:
            return _trace(*self._lines, start, stop, COUNT, visits, pieces, *_NO_CELLS, *_NO_TALLY)

        inside = sum(each_span(trace, spans(self.offsets, cores() if self.points > 10_000 else 1)))
        np.cumsum(visits, out=visits)
        np.cumsum(pieces, out=pieces)
        return visits, pieces, inside

    @cached_property
    def _walked(self) -> tuple[NDArray[np.int32], Integers]:
        visits, trips = self.visits, self.trips
        cells, pieces = np.empty(visits[-1], np.int32), np.empty(trips[-1] + 1, np.int64)
        pieces[-1] = visits[-1]

        def trace(start: int, stop: int) -> int:
            return _trace(*self._lines, start, stop, FILL, visits, trips, cells, pieces, *_NO_TALLY)

        each_span(trace, spans(self.offsets, cores() if self.points > 10_000 else 1))
        return cells, pieces


_NO_TALLY = Tally(np.zeros(0, np.int64), np.zeros(0, np.int64))
_NO_CELLS = np.zeros(0, np.int32), np.zeros(0, np.int64)
_NO_COUNTS = np.zeros(0, np.int64), np.zeros(0, np.int64)


def walk(trips: Trips, grid: Grid, gap: Gap | None = None) -> Walks:
    """Lay `trips` on `grid`; cut them where the GPS was silent for longer than `gap`."""
    if not isinstance(trips, Trips):
        raise InputError(f"Walks are laid from trips, and this is a {type(trips).__name__}; read it with dqam.read.")
    gap = gap or Gap()
    if math.isfinite(gap.seconds) and trips.time is None:
        raise InputError("A gap in seconds needs points with a time, and these have none; give it in metres.")
    x, y = transform(trips.x, trips.y, trips.crs, grid.crs)
    lines = x, y, _silences(trips, gap), trips.offsets, grid.bounds, grid.columns, grid.rows
    return Walks(grid, trips.offsets, lines)


def lay(source: Iterable[Trips], grid: Grid, gap: Gap | None = None, name: str = "the trips") -> Iterator[Walks]:
    """Walks of each batch of a source; an `InputError` where the bounds do not fit the points.

    `name` is what the points are called in that error.
    """
    points, found, somewhere = 0, False, ""
    for trips in source:
        if not points:
            _refuse_swapped(trips, grid, name)
            somewhere = _roughly(trips)
        walks = walk(trips, grid, gap)
        points, found = points + walks.points, found or walks.inside > 0
        yield walks
    if points and not found:
        raise InputError(
            f"None of the {points:,} points of {name} lies within {grid.bounds} ({grid.crs}); "
            f"they lie {somewhere}. Give bounds that cover them."
        )


def _refuse_swapped(trips: Trips, grid: Grid, name: str) -> None:
    x, y = trips.x[:SAMPLE], trips.y[:SAMPLE]

    def inside(x: Floats, y: Floats) -> int:
        u, v = grid.to_cells(x, y, trips.crs)
        return int(np.sum((u >= 0) & (u <= grid.columns) & (v >= 0) & (v <= grid.rows)))

    if inside(x, y) < len(x) / 2 < inside(y, x):
        raise InputError(
            f"Latitude and longitude of {name} look swapped: with x and y exchanged most points lie within the "
            f"bounds. Read it with swap_axes=True, unless it is the bounds {grid.bounds} that are not west south east "
            "north."
        )


def _roughly(trips: Trips) -> str:
    """Where most points are, in words too coarse to point at a trip."""
    x, y = np.median(trips.x), np.median(trips.y)
    if is_degrees(trips.crs):
        return f"around longitude {x:.0f}, latitude {y:.0f}"
    return f"around x {x:.2g}, y {y:.2g} ({trips.crs})"


def _silences(trips: Trips, gap: Gap) -> Mask:
    """For each point, whether the trip is cut before it because the GPS was silent for too long or another piece
    begins; empty if no trip is cut."""
    silent = np.zeros(0, np.bool_)
    if math.isfinite(gap.seconds) and trips.time is not None:
        silent = np.diff(trips.time, prepend=trips.time[:1]) > gap.seconds * 1e6
    if math.isfinite(gap.metres):
        if is_degrees(trips.crs):
            far = _great_circle(trips.x, trips.y) > gap.metres
        else:
            metres = parse_crs(trips.crs).axis_info[0].unit_conversion_factor
            step = np.hypot(np.diff(trips.x, prepend=trips.x[:1]), np.diff(trips.y, prepend=trips.y[:1]))
            far = step * metres > gap.metres
        silent = far if not len(silent) else silent | far
    if trips.cuts is not None and len(trips.cuts):
        silent = silent if len(silent) else np.zeros(trips.points, np.bool_)
        silent[trips.cuts] = True
    return silent


@njit(nogil=True, cache=True)
def _great_circle(longitude, latitude):  # type: ignore[no-untyped-def]
    """Metres from the point before (haversine on the mean sphere, within 0.6 % of the ellipsoid)."""
    metres = np.zeros(len(longitude))
    for i in range(1, len(longitude)):
        a, b = math.radians(latitude[i - 1]), math.radians(latitude[i])
        turn = math.radians(longitude[i] - longitude[i - 1])
        half = math.sin((b - a) / 2) ** 2 + math.cos(a) * math.cos(b) * math.sin(turn / 2) ** 2
        metres[i] = 2 * EARTH_RADIUS * math.asin(min(1.0, math.sqrt(half)))
    return metres


@njit(nogil=True, cache=True)
def _clip(u0, v0, u1, v1, columns, rows):  # type: ignore[no-untyped-def]
    """Both ends of the part of a segment that lies on the grid (Liang and Barsky), and whether there is one.

    The same for a segment and its reverse: it is always reckoned from the western end, or the southern of two.
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
def _lattice(value, cells):  # type: ignore[no-untyped-def]
    """A coordinate in cells, on the grid but for rounding, as a whole number of lattice steps."""
    return np.int64(min(max(value, 0.0), cells) * (1 << LATTICE_BITS) + 0.5)


@njit(nogil=True, cache=True)
def _set_out(U0, V0, U1, V1, columns, rows):  # type: ignore[no-untyped-def]
    """The first cell of a segment, how many columns and rows it has to go and which way, and how far the next ones are.

    Of two crossings that comes first which takes the smaller share of the way; the shares are compared as products of
    integers, which stay below 2^61. At a tie the column goes first to the east, the row to the west.
    """
    column, row = min(U0 >> LATTICE_BITS, columns - 1), min(V0 >> LATTICE_BITS, rows - 1)
    columns_left = min(U1 >> LATTICE_BITS, columns - 1) - column
    rows_left = min(V1 >> LATTICE_BITS, rows - 1) - row
    east, north = columns_left > 0, rows_left > 0
    to_column = abs(((column + east) << LATTICE_BITS) - U0) * abs(V1 - V0) - east
    to_row = abs(((row + north) << LATTICE_BITS) - V0) * abs(U1 - U0)
    across, up = 1 if east else -1, 1 if north else -1
    return column, row, abs(columns_left), abs(rows_left), across, up, to_column, to_row


@njit(nogil=True, cache=True)
def _pass_cells(U0, V0, U1, V1, columns, rows, cells, at):  # type: ignore[no-untyped-def]
    """Write the cells that a segment enters after its first one; return where writing ended."""
    column, row, columns_left, rows_left, across, up, to_column, to_row = _set_out(U0, V0, U1, V1, columns, rows)
    column_step, row_step = abs(V1 - V0) << LATTICE_BITS, abs(U1 - U0) << LATTICE_BITS
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
    """Note the crossings between the cells of `_pass_cells`, the straight end of a segment as one run."""
    column, row, columns_left, rows_left, across, up, to_column, to_row = _set_out(U0, V0, U1, V1, columns, rows)
    column_step, row_step = abs(V1 - V0) << LATTICE_BITS, abs(U1 - U0) << LATTICE_BITS
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
    """Note a run of crossings; unsigned places spare a test for negative ones."""
    runs[np.uint64(start + min(0, steps))] += 1
    runs[np.uint64(start + max(0, steps))] -= 1


@njit(nogil=True, cache=True)
def _trace(  # type: ignore[no-untyped-def]
    x, y, silent, offsets, bounds, columns, rows, start, stop,
    mode, visits, pieces, cells, piece_starts, runs, ends,
):  # fmt: skip
    """Walk trips start to stop, and do what `mode` says with what they pass.

    COUNT visits[i + 1] and pieces[i + 1]; or FILL `cells` and `piece_starts`, for which `visits` and `pieces` are
    cumulative sums; or TALLY crossings, starts and ends. Returns the number of points on the grid.
    """
    west, south, east, north = bounds
    scale_x, scale_y = columns / (east - west), rows / (north - south)
    inside = 0
    for trip in range(start, stop):
        at, piece = (visits[trip], pieces[trip]) if mode == FILL else (np.int64(0), np.int64(0))
        u0 = v0 = 0.0
        U0 = V0 = last = np.int64(0)
        connected = within = False  # whether the point before is joined to this one; whether it is on the grid
        for point in range(offsets[trip], offsets[trip + 1]):
            u, v = (x[point] - west) * scale_x, (y[point] - south) * scale_y
            here = x[point] >= west and x[point] <= east and y[point] >= south and y[point] <= north
            inside += here
            finite = here or (math.isfinite(u) and math.isfinite(v))  # a projection may have no place for a point
            if not finite or (len(silent) and silent[point]):
                connected = False
            U, V = (_lattice(u, columns), _lattice(v, rows)) if here else (np.int64(0), np.int64(0))
            U1, V1 = U, V  # where this segment ends on the grid
            passes = here
            if connected and not (within and here):
                ua, va, ub, vb, crosses = _clip(u0, v0, u, v, columns, rows)
                if not here:
                    passes = crosses
                    U1, V1 = _lattice(ub, columns), _lattice(vb, rows)
                if not within:  # a segment that touches the grid at its end alone begins there
                    U0, V0 = (_lattice(ua, columns), _lattice(va, rows)) if crosses else (U, V)
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
                    at += abs(min(U1 >> LATTICE_BITS, columns - 1) - min(U0 >> LATTICE_BITS, columns - 1))
                    at += abs(min(V1 >> LATTICE_BITS, rows - 1) - min(V0 >> LATTICE_BITS, rows - 1))
            u0, v0, U0, V0, within = u, v, U, V, here
            connected = finite
        if mode == COUNT:
            visits[trip + 1], pieces[trip + 1] = at, piece
        elif mode == TALLY and piece:
            ends[last] += 1
    return inside


@njit(nogil=True, cache=True)
def _cell(U, V, columns, rows):  # type: ignore[no-untyped-def]
    return min(V >> LATTICE_BITS, rows - 1) * columns + min(U >> LATTICE_BITS, columns - 1)
