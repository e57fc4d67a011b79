"""Exact counts for areas of any shape and for lines: distinct trips that meet an area, and crossings of a line.

A trip is straight between two points, in the CRS of the grid. Each of its segments is compared with the sides of areas
or lines near it, which are found in a grid of buckets. On which side of a line a point lies is decided without rounding
errors (`dqam.geometry.orientation`), so trips that touch a corner or run along a border are counted exactly, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import shapely
from numba import njit

from dqam.geometry.areas import PlacedAreas, PlacedLines
from dqam.geometry.arrays import Floats, Integers, Integers32, Mask, Shapes
from dqam.geometry.grid import Grid
from dqam.geometry.orientation import orientation
from dqam.geometry.trips import Trips
from dqam.geometry.walks import Gap, silences
from dqam.runtime.threads import cores, each_span, spans

MOST_BUCKETS = 1024  # along each axis
FAR = 1e140  # cells; a point that is further away, or not a number, divides a trip
MARGIN = 1e-9  # cells, and share of a coordinate: far more than rounding can move a point


class _Sides(NamedTuple):
    """The sides of m shapes, and which of them are in each of rows x columns buckets.

    ends     float64[n, 4]: x and y of one end and of the other, which differ
    owner    int32[n], never decreasing: the shape that each belongs to
    first    int64[rows * columns + 1]: where each bucket begins in `members`
    members  int32[any number]: the sides in each bucket
    scale    buckets per cell, along x and y
    shape    rows and columns of buckets
    """

    ends: Floats
    owner: Integers32
    first: Integers
    members: Integers32
    scale: tuple[float, float]
    shape: tuple[int, int]


class _Rows(NamedTuple):
    """The sides of areas by row of buckets, for rays that go east from a point.

    boxes   float64[m, 4]: west, south, east, north of each area
    first   int64[rows + 1]: where each row begins in `area`
    area    int32[groups]: an area with sides in the row
    start   int64[groups + 1]: where these sides begin in `sides`
    sides   int32[any number]: the sides
    """

    boxes: Floats
    first: Integers
    area: Integers32
    start: Integers
    sides: Integers32


def count_in_areas(batches: Iterable[Trips], areas: PlacedAreas, grid: Grid, gap: Gap | None = None) -> Integers:
    """int64[m]: the number of distinct trips that meet each area; 0 for areas outside the grid.

    A trip meets an area if it has a point in common with the part of the area that is on the grid, border included.
    Rectangles are taken as they are: they do not grow to whole cells. A trip is interrupted where two points are
    further apart than `gap`, where it is cut, and where a point cannot be projected.
    """
    polygons, part_of = shapely.get_parts(areas.shapes, return_index=True)
    rings, ring_of = shapely.get_rings(polygons, return_index=True)
    sides = _placed_sides(rings, part_of[ring_of], grid)
    rows = _placed_rows(sides, shapely.bounds(areas.shapes))

    def count(x: Floats, y: Floats, silent: Mask, offsets: Integers, start: int, stop: int) -> Integers:
        counts = np.zeros(len(areas), np.int64)
        _count_meetings(x, y, silent, offsets, start, stop, sides, rows, counts)
        return counts

    return _summed(count, batches, len(areas), grid, gap)


def count_crossings(batches: Iterable[Trips], lines: PlacedLines, grid: Grid, gap: Gap | None = None) -> Integers:
    """int64[m]: how often trips cross each line; 0 for lines outside the grid.

    A trip that crosses a line three times counts three times. Trips are interrupted as for `count_in_areas`.

    Where a trip touches a line at a corner of either, or runs along it, it crosses the line once if it leaves on the
    other side, and not at all if it leaves on the side that it came from. To decide this, the trip is treated as if it
    were moved east by an infinitesimal distance, and north by a still smaller one, so that no corner lies on the other
    line. Crossings back and forth in one place then cancel out. A point on the line therefore counts as just east of
    it, or just north of it if the line runs from west to east. The same rule decides for trips that start or end on the
    line, or pass its end.
    """
    parts, part_of = shapely.get_parts(lines.shapes, return_index=True)
    sides = _placed_sides(parts, part_of, grid)

    def count(x: Floats, y: Floats, silent: Mask, offsets: Integers, start: int, stop: int) -> Integers:
        counts = np.zeros(len(lines), np.int64)
        contacts, places = _count_crossings(x, y, silent, offsets, start, stop, sides, counts)
        line, trip, stage = contacts[:, :3].T
        order = np.lexsort((places[:, 0], stage, trip, line))
        _add_contacts(contacts[order], places[order], counts)
        return counts

    return _summed(count, batches, len(lines), grid, gap)


def _summed(count: Callable[..., Integers], batches: Iterable[Trips], m: int, grid: Grid, gap: Gap | None) -> Integers:
    """The sum of `count(x, y, silent, offsets, start, stop)`, with points in cells, over all trips."""

    def of_batch(trips: Trips) -> Integers:
        points = *grid.to_cells(trips.x, trips.y, trips.crs), silences(trips, gap or Gap()), trips.offsets
        parts = spans(trips.offsets, cores() if trips.points > 10_000 else 1)
        return sum(each_span(lambda start, stop: count(*points, start, stop), parts), np.zeros(m, np.int64))

    return sum(map(of_batch, batches), np.zeros(m, np.int64))


def _placed_sides(lines: Shapes, owner: Integers, grid: Grid) -> _Sides:
    """The sides of rings or lines, in buckets; about as many buckets as there are sides."""
    corners, line = shapely.get_coordinates(lines, return_index=True)
    joined = (line[1:] == line[:-1]) & (corners[1:] != corners[:-1]).any(axis=1)
    ends = np.concatenate([corners[:-1], corners[1:]], axis=1)[joined]
    number = min(max(1, int(np.sqrt(2 * len(ends)))), MOST_BUCKETS)
    scale, shape = (number / grid.columns, number / grid.rows), (number, number)
    sizes = np.zeros(number * number + 1, np.int64)
    _fill_buckets(ends, scale, shape, sizes, np.zeros(0, np.int32))
    first = np.cumsum(sizes)
    members = np.empty(first[-1], np.int32)
    _fill_buckets(ends, scale, shape, first.copy(), members)
    return _Sides(ends, owner[line[1:][joined]].astype(np.int32), first, members, scale, shape)


def _placed_rows(sides: _Sides, boxes: Floats) -> _Rows:
    number = sides.shape[0]
    low, high = (
        np.clip(np.floor(y * sides.scale[1]), 0, number - 1).astype(np.int64)
        for y in (sides.ends[:, 1::2].min(axis=1, initial=np.inf), sides.ends[:, 1::2].max(axis=1, initial=-np.inf))
    )
    lengths = high - low + 1
    before = np.cumsum(lengths) - lengths
    side = np.repeat(np.arange(len(lengths)), lengths)
    row = np.arange(len(side)) - before[side] + low[side]
    order = np.argsort(row, kind="stable")  # within a row, the sides of an area follow one another, as before
    side, row = side[order], row[order]
    owner = sides.owner[side]
    begins = np.ones(len(side), np.bool_)
    begins[1:] = (row[1:] != row[:-1]) | (owner[1:] != owner[:-1])
    start = np.flatnonzero(begins)
    first = np.searchsorted(row[start], np.arange(number + 1))
    return _Rows(boxes, first, owner[start], np.append(start, len(side)), side.astype(np.int32))


@njit(nogil=True, cache=True)
def _bucket(position, scale, number):  # type: ignore[no-untyped-def]
    """The row or column of buckets of a coordinate in cells; those outside the grid belong to the outermost."""
    return int(min(max(position * scale, 0.0), number - 1.0))


@njit(nogil=True, cache=True)
def _columns(x0, y0, x1, y1, row, low, high, scale, number):  # type: ignore[no-untyped-def]
    """The first and last column of the buckets in a row that a segment may pass; it passes the rows low to high."""
    if y0 > y1:
        x0, y0, x1, y1 = x1, y1, x0, y0
    a, b = x0, x1
    if row > low:
        a += min(max((row / scale[1] - MARGIN - y0) / (y1 - y0), 0.0), 1.0) * (x1 - x0)
    if row < high:
        b = x0 + min(max(((row + 1) / scale[1] + MARGIN - y0) / (y1 - y0), 0.0), 1.0) * (x1 - x0)
    margin = MARGIN * (1 + abs(x0) + abs(x1))
    return _bucket(min(a, b) - margin, scale[0], number), _bucket(max(a, b) + margin, scale[0], number)


@njit(nogil=True, cache=True)
def _fill_buckets(ends, scale, shape, first, members):  # type: ignore[no-untyped-def]
    """Count the sides in each bucket, in first[bucket + 1]; or write them to `members`, from first[bucket] on."""
    for side in range(len(ends)):
        x0, y0, x1, y1 = ends[side]
        low, high = _bucket(min(y0, y1), scale[1], shape[0]), _bucket(max(y0, y1), scale[1], shape[0])
        for row in range(low, high + 1):
            west, east = _columns(x0, y0, x1, y1, row, low, high, scale, shape[1])
            for bucket in range(row * shape[1] + west, row * shape[1] + east + 1):
                if len(members):
                    members[first[bucket]] = side
                    first[bucket] += 1
                else:
                    first[bucket + 1] += 1


@njit(nogil=True, cache=True)
def _find_near(x0, y0, x1, y1, sides, seen, mark, near):  # type: ignore[no-untyped-def]
    """Write the sides whose bounding boxes meet that of a segment to `near`, each once; return how many there are."""
    west, east, south, north = min(x0, x1), max(x0, x1), min(y0, y1), max(y0, y1)
    rows, columns = sides.shape
    found = 0
    low, high = _bucket(south, sides.scale[1], rows), _bucket(north, sides.scale[1], rows)
    for row in range(low, high + 1):
        first, last = _columns(x0, y0, x1, y1, row, low, high, sides.scale, columns)
        for member in range(sides.first[row * columns + first], sides.first[row * columns + last + 1]):
            side = sides.members[member]
            if seen[side] == mark:
                continue
            seen[side] = mark
            ax, ay, bx, by = sides.ends[side]
            if min(ax, bx) <= east and max(ax, bx) >= west and min(ay, by) <= north and max(ay, by) >= south:
                near[found] = side
                found += 1
    return found


@njit(nogil=True, cache=True)
def _count_meetings(x, y, silent, offsets, start, stop, sides, rows, counts):  # type: ignore[no-untyped-def]
    """Add the trips start to stop that meet each area to `counts`.

    A piece of a trip meets an area if and only if it starts in it or meets one of its sides.
    """
    met = np.full(len(counts), -1)  # the last trip that is known to meet each area
    seen, near = np.full(len(sides.ends), -1), np.empty(len(sides.ends), np.int32)
    for trip in range(start, stop):
        joined = False
        for point in range(offsets[trip], offsets[trip + 1]):
            px, py = x[point], y[point]
            if not (abs(px) < FAR and abs(py) < FAR):
                joined = False
                continue
            if not joined or (len(silent) and silent[point]):
                row = _bucket(py, sides.scale[1], sides.shape[0])
                for group in range(rows.first[row], rows.first[row + 1]):
                    area = rows.area[group]
                    west, south, east, north = rows.boxes[area]
                    if met[area] == trip or px < west or px > east or py < south or py > north:
                        continue
                    if _contains(px, py, sides.ends, rows.sides[rows.start[group] : rows.start[group + 1]]):
                        met[area] = trip
                        counts[area] += 1
            elif px != x[point - 1] or py != y[point - 1]:
                qx, qy = x[point - 1], y[point - 1]
                for i in range(_find_near(qx, qy, px, py, sides, seen, point, near)):
                    area = sides.owner[near[i]]
                    if met[area] == trip:
                        continue
                    ax, ay, bx, by = sides.ends[near[i]]
                    if (
                        orientation(qx, qy, px, py, ax, ay) * orientation(qx, qy, px, py, bx, by) <= 0
                        and orientation(ax, ay, bx, by, qx, qy) * orientation(ax, ay, bx, by, px, py) <= 0
                    ):  # on lines that are not parallel; on the same line, segments meet if their bounding boxes do
                        met[area] = trip
                        counts[area] += 1
            joined = True


@njit(nogil=True, cache=True)
def _contains(px, py, ends, sides):  # type: ignore[no-untyped-def]
    """Whether an area contains a point, border included; `sides` are at least those at its height."""
    odd = False  # how many sides a ray to the east crosses
    for side in sides:
        ax, ay, bx, by = ends[side]
        if (px == ax and py == ay) or (ay == py and by == py and min(ax, bx) <= px <= max(ax, bx)):
            return True
        if (ay > py) != (by > py):
            turn = orientation(ax, ay, bx, by, px, py)
            if turn == 0:
                return True
            odd ^= (turn > 0) == (by > ay)
    return odd


@njit(nogil=True, cache=True)
def _count_crossings(x, y, silent, offsets, start, stop, sides, counts):  # type: ignore[no-untyped-def]
    """Add the crossings without corners by the trips start to stop to `counts`, and return what `_add_contacts` needs.

    That is, for each crossing by a trip that is moved as `count_crossings` says, and for each stretch of a trip along a
    line: the line, the trip, the stages of the trip where the contact begins and ends, and the direction of the
    crossing (1, -1 or 0), as int64[k, 5]; and where in these stages it begins and ends, as float64[k, 2]. Even stages
    are points of the trip, and odd stages are the segments between them.
    """
    contacts, places, found = np.empty((16, 5), np.int64), np.empty((16, 2)), 0
    seen, near = np.full(len(sides.ends), -1), np.empty(len(sides.ends), np.int32)
    for trip in range(start, stop):
        joined, stage = False, 0
        for point in range(offsets[trip], offsets[trip + 1]):
            px, py = x[point], y[point]
            if not (abs(px) < FAR and abs(py) < FAR):
                joined = False
                continue
            if not joined or (len(silent) and silent[point]):
                stage += 4  # so that no contact continues
                joined = True
                continue
            qx, qy = x[point - 1], y[point - 1]
            if px == qx and py == qy:
                continue
            for i in range(_find_near(qx, qy, px, py, sides, seen, point, near)):
                ax, ay, bx, by = sides.ends[near[i]]
                a, b = orientation(qx, qy, px, py, ax, ay), orientation(qx, qy, px, py, bx, by)
                q, p = orientation(ax, ay, bx, by, qx, qy), orientation(ax, ay, bx, by, px, py)
                if a * b > 0 or p * q > 0:
                    continue
                if a * b < 0 and p * q < 0:
                    counts[sides.owner[near[i]]] += 1
                    continue
                if found == len(contacts):
                    contacts, places = np.concatenate((contacts, contacts)), np.concatenate((places, places))
                # how far along the segment its ends and those of the side are, if they are on it
                way = np.sign(px - qx) if px != qx else np.sign(py - qy)
                if px != qx:
                    to_q, to_p, to_a, to_b = qx * way, px * way, ax * way, bx * way
                else:
                    to_q, to_p, to_a, to_b = qy * way, py * way, ay * way, by * way
                if a == 0 and b == 0:
                    begin, end, sign = max(to_q, min(to_a, to_b)), min(to_p, max(to_a, to_b)), 0
                else:
                    begin = end = to_q if q == 0 else to_p if p == 0 else to_a if a == 0 else to_b
                    moved, back = _east(bx - ax, by - ay), -_east(px - qx, py - qy)
                    a, b, p, q = a or back, b or back, p or moved, q or moved
                    if a == b or p == q:
                        continue
                    sign = p
                contacts[found, 0], contacts[found, 1], contacts[found, 4] = sides.owner[near[i]], trip, sign
                for end_of, where in enumerate((begin, end)):
                    part = 0 if where == to_q else 2 if where == to_p else 1
                    contacts[found, 2 + end_of] = stage + part
                    places[found, end_of] = where if part == 1 else 0.0
                found += 1
            stage += 2
    return contacts[:found], places[:found]


@njit(nogil=True, cache=True)
def _east(dx, dy):  # type: ignore[no-untyped-def]
    """The side of a line in direction (dx, dy) on which a point on it lies after moving a little to the east.

    1 is left and -1 right; if the line itself goes east or west, the point has moved to the north.
    """
    return -int(np.sign(dy)) if dy != 0 else int(np.sign(dx))


@njit(nogil=True, cache=True)
def _add_contacts(contacts, places, counts):  # type: ignore[no-untyped-def]
    """Add the crossings at corners to `counts`: for all contacts in one place, those that do not cancel out."""
    line, trip, stage, place, net = -1, -1, 0, 0.0, 0
    for i in range(len(contacts)):
        owner, by, begin, end, sign = contacts[i]
        if owner != line or by != trip or begin > stage or (begin == stage and places[i, 0] > place):
            if line >= 0:
                counts[line] += abs(net)
            line, trip, stage, place, net = owner, by, end, places[i, 1], 0
        elif end > stage or (end == stage and places[i, 1] > place):
            stage, place = end, places[i, 1]
        net += sign
    if line >= 0:
        counts[line] += abs(net)
