"""Trips laid on a grid as 4-connected walks from cell to cell.

A segment between two points is a straight line in the grid's CRS. Coordinates are first rounded to a lattice of
2^18 steps a cell (0.15 mm for a 39 m cell), and from there on all is integer arithmetic: a walk is exactly the
sequence of cells that the line passes, the same on every machine. Cells are half-open, [west, east) x
[south, north), but for the outer border, which belongs to the grid. A line through the exact corner of four
cells goes through the more eastern of the two cells beside it, so that a trip and its return visit the same ones.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dqam.errors import InputError
from dqam.grid import Grid, is_degrees, parse_crs, transform
from dqam.threads import cores, each_span, spans
from dqam.trips import Trips

LATTICE_BITS = 18
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

    @classmethod
    def parse(cls, text: str) -> Gap:
        """A gap from words like '120s', '500m' or '2km'."""
        match = re.fullmatch(r"\s*([0-9.]+)\s*(s|min|m|km)\s*", text)
        try:
            value = float(match[1]) if match else math.nan
        except ValueError:
            value = math.nan
        if match is None or math.isnan(value):
            raise InputError(f"A gap is a number with its unit (120s, 5min, 500m, 2km); got {text!r}.")
        match match[2]:
            case "s":
                return cls(seconds=value)
            case "min":
                return cls(seconds=60 * value)
            case "m":
                return cls(metres=value)
            case _:
                return cls(metres=1000 * value)


@dataclass(frozen=True, eq=False)
class Walks:
    """The walks of n trips. A trip has one piece for each time it is on the grid, none if it never is.

    cells   int32[visits], row * columns + column of each visit, piece after piece
    pieces  int64[pieces + 1], where each piece begins in `cells`
    trips   int64[n + 1], where each trip begins in `pieces`
    points  how many points the trips have
    inside  how many of them lie on the grid
    """

    grid: Grid
    cells: NDArray[np.int32]
    pieces: NDArray[np.int64]
    trips: NDArray[np.int64]
    points: int
    inside: int

    def __len__(self) -> int:
        return len(self.trips) - 1

    @property
    def on_grid(self) -> int:
        """The number of trips with at least one visit."""
        return int(np.count_nonzero(np.diff(self.trips)))

    @property
    def trip_visits(self) -> NDArray[np.int64]:
        """int64[n + 1], where each trip begins in `cells`."""
        return self.pieces[self.trips]

    @classmethod
    def concat(cls, batches: list[Walks]) -> Walks:
        """One `Walks` of several on the same grid."""

        def joined(offsets: list[NDArray[np.int64]]) -> NDArray[np.int64]:
            return np.concatenate([[0], np.cumsum(np.concatenate([np.diff(part) for part in offsets]))])

        return cls(
            batches[0].grid,
            np.concatenate([batch.cells for batch in batches]),
            joined([batch.pieces for batch in batches]),
            joined([batch.trips for batch in batches]),
            sum(batch.points for batch in batches),
            sum(batch.inside for batch in batches),
        )


def walk(trips: Trips, grid: Grid, gap: Gap | None = None) -> Walks:
    """Lay `trips` on `grid`; cut them where the GPS was silent for longer than `gap`."""
    gap = gap or Gap()
    if math.isfinite(gap.seconds) and trips.time is None:
        raise InputError("A gap in seconds needs points with a time, and these have none; give it in metres.")
    silent = _silences(trips, gap)
    x, y = transform(trips.x, trips.y, trips.crs, grid.crs)
    west, south, east, north = grid.bounds
    place = (west, south, grid.columns / (east - west), grid.rows / (north - south), grid.columns, grid.rows)
    parts = spans(trips.offsets, cores() if trips.points > 10_000 else 1)

    visits, pieces = np.zeros(len(trips) + 1, np.int64), np.zeros(len(trips) + 1, np.int64)
    nothing, nowhere = np.empty(0, np.int32), np.empty(0, np.int64)

    def count(start: int, stop: int) -> int:
        return _trace(x, y, silent, trips.offsets, start, stop, *place, False, visits, pieces, nothing, nowhere)

    inside = sum(each_span(count, parts))
    np.cumsum(visits, out=visits)
    np.cumsum(pieces, out=pieces)
    cells, piece_starts = np.empty(visits[-1], np.int32), np.empty(pieces[-1] + 1, np.int64)
    piece_starts[-1] = visits[-1]

    def fill(start: int, stop: int) -> int:
        return _trace(x, y, silent, trips.offsets, start, stop, *place, True, visits, pieces, cells, piece_starts)

    each_span(fill, parts)
    return Walks(grid, cells, piece_starts, pieces, trips.points, inside)


def lay(source: Iterable[Trips], grid: Grid, gap: Gap | None = None, name: str = "the trips") -> Iterator[Walks]:
    """Walks of each batch of a source; an `InputError` where the bounds do not fit the points.

    `name` is what the points are called in that error.
    """
    points, inside, somewhere = 0, 0, ""
    for trips in source:
        walks = walk(trips, grid, gap)
        if not points and walks.inside < trips.points / 2:
            _refuse_swapped(trips, grid, walks.inside, name)
            somewhere = _roughly(trips)
        points, inside = points + trips.points, inside + walks.inside
        yield walks
    if points and not inside:
        raise InputError(
            f"None of the {points:,} points of {name} lies within {grid.bounds} ({grid.crs}); "
            f"they lie {somewhere}. Give bounds that cover them."
        )


def _refuse_swapped(trips: Trips, grid: Grid, inside: int, name: str) -> None:
    sample = slice(0, 100_000)
    u, v = grid.to_cells(trips.y[sample], trips.x[sample], trips.crs)
    swapped = np.count_nonzero((u >= 0) & (u <= grid.columns) & (v >= 0) & (v <= grid.rows))
    if swapped > len(u) / 2 and swapped / len(u) > inside / trips.points:
        raise InputError(
            f"Latitude and longitude of {name} look swapped: with x and y exchanged most points lie within the "
            "bounds. Read it with --swap-axes (swap_axes=True)."
        )


def _roughly(trips: Trips) -> str:
    """Where most points are, in words too coarse to point at a trip."""
    x, y = np.median(trips.x), np.median(trips.y)
    if is_degrees(trips.crs):
        return f"around longitude {x:.0f}, latitude {y:.0f}"
    return f"around x {x:.2g}, y {y:.2g} ({trips.crs})"


def _silences(trips: Trips, gap: Gap) -> NDArray[np.bool_]:
    """For each point, whether the GPS was silent for too long before it; empty where no gap is set."""
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
    """The share [t0, t1] of a segment that lies on the grid (Liang and Barsky); t0 >= t1 where none does."""
    t0, t1 = 0.0, 1.0
    for start, change, end in ((u0, u1 - u0, columns), (v0, v1 - v0, rows)):
        if change == 0.0:
            if start < 0.0 or start > end:
                return 1.0, 0.0
        else:
            a, b = -start / change, (end - start) / change
            t0, t1 = max(t0, min(a, b)), min(t1, max(a, b))
    return t0, t1


@njit(nogil=True, cache=True)
def _lattice(value, cells):  # type: ignore[no-untyped-def]
    """A coordinate in cells as a whole number of lattice steps, within the grid."""
    return min(max(np.int64(math.floor(value * (1 << LATTICE_BITS) + 0.5)), 0), cells << LATTICE_BITS)


@njit(nogil=True, cache=True)
def _pass_cells(U0, V0, U1, V1, columns, rows, cells, at):  # type: ignore[no-untyped-def]
    """Write the cells that a segment enters after its first one; return where writing ended.

    The next crossing is the one with the smaller share of the way, compared as products of integers below 2^61.
    """
    column, row = min(U0 >> LATTICE_BITS, columns - 1), min(V0 >> LATTICE_BITS, rows - 1)
    columns_left = min(U1 >> LATTICE_BITS, columns - 1) - column
    rows_left = min(V1 >> LATTICE_BITS, rows - 1) - row
    east, north = columns_left > 0, rows_left > 0
    columns_left, rows_left = abs(columns_left), abs(rows_left)
    across, up = 1 if east else -1, columns if north else -columns
    dU, dV = abs(U1 - U0), abs(V1 - V0)
    to_column = abs(((column + east) << LATTICE_BITS) - U0) * dV - east  # to the east the column goes first
    to_row = abs(((row + north) << LATTICE_BITS) - V0) * dU
    cell = row * columns + column
    while columns_left and rows_left:
        if to_column < to_row:
            cell += across
            columns_left -= 1
            to_column += dV << LATTICE_BITS
        else:
            cell += up
            rows_left -= 1
            to_row += dU << LATTICE_BITS
        cells[at] = cell
        at += 1
    for _ in range(columns_left + rows_left):
        cell += across if columns_left else up
        cells[at] = cell
        at += 1
    return at


@njit(nogil=True, cache=True)
def _trace(  # type: ignore[no-untyped-def]
    x, y, silent, offsets, start, stop, west, south, scale_x, scale_y, columns, rows,
    fill, visits, pieces, cells, piece_starts,
):  # fmt: skip
    """Walk trips start to stop: count visits[i + 1] and pieces[i + 1], or fill `cells` and `piece_starts`.

    Filling wants `visits` and `pieces` as cumulative sums. Returns the number of points on the grid.
    """
    inside = 0
    for trip in range(start, stop):
        at, piece = (visits[trip], pieces[trip]) if fill else (np.int64(0), np.int64(0))
        u0 = v0 = 0.0
        U0 = V0 = np.int64(0)
        connected = within = False  # whether the point before is joined to this one; whether it is on the grid
        for point in range(offsets[trip], offsets[trip + 1]):
            u, v = (x[point] - west) * scale_x, (y[point] - south) * scale_y
            here = u >= 0.0 and u <= columns and v >= 0.0 and v <= rows
            inside += here
            finite = math.isfinite(u) and math.isfinite(v)  # a projection may have no place for a point
            if not finite or (len(silent) and silent[point]):
                connected = False
            U, V = (_lattice(u, columns), _lattice(v, rows)) if here else (np.int64(0), np.int64(0))
            U1, V1 = U, V  # where this segment ends on the grid
            passes = here
            if connected and not (within and here):
                t0, t1 = _clip(u0, v0, u, v, columns, rows)
                if not here:
                    passes = t0 < t1
                    if passes:
                        U1 = _lattice(u0 + t1 * (u - u0), columns)
                        V1 = _lattice(v0 + t1 * (v - v0), rows)
                if passes and not within:
                    if t0 < t1:
                        U0 = _lattice(u0 + t0 * (u - u0), columns)
                        V0 = _lattice(v0 + t0 * (v - v0), rows)
                    else:  # touches the grid at its end alone
                        U0, V0 = U, V
            elif not connected:
                U0, V0 = U, V
            if passes:
                if not (connected and within):  # a new piece begins
                    if fill:
                        piece_starts[piece] = at
                        cells[at] = min(V0 >> LATTICE_BITS, rows - 1) * columns + min(U0 >> LATTICE_BITS, columns - 1)
                    piece += 1
                    at += 1
                if fill:
                    at = _pass_cells(U0, V0, U1, V1, columns, rows, cells, at)
                else:
                    at += abs(min(U1 >> LATTICE_BITS, columns - 1) - min(U0 >> LATTICE_BITS, columns - 1))
                    at += abs(min(V1 >> LATTICE_BITS, rows - 1) - min(V0 >> LATTICE_BITS, rows - 1))
            u0, v0, U0, V0, within = u, v, U, V, here
            connected = finite
        if not fill:
            visits[trip + 1], pieces[trip + 1] = at, piece
    return inside
