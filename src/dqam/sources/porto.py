"""The layout of the Porto taxi data: one trip per row, with POLYLINE a JSON list of its points, one every 15 seconds.

Compiled code parses polylines straight from Arrow's text buffer. A mantissa of at most 15 digits and a power of ten up
to 10^22 are exact as doubles, and their quotient is correctly rounded; so the result is the double that `json.loads`
returns. Rows with any other notation of numbers are left to `json`.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from dqam.errors import InputError
from dqam.geometry.arrays import Bytes, Floats, Integers, Mask
from dqam.geometry.ids import cast_each, ids_of, plain_array
from dqam.geometry.slicing import Slicing
from dqam.geometry.trips import Trips, offsets_of
from dqam.runtime.threads import cores
from dqam.sources.columns import Columns
from dqam.sources.tables import Table
from dqam.sources.trip_rows import without_start
from dqam.sources.validation import BAD_SHAPES, Validation
from dqam.sources.values import timestamps

SECONDS_BETWEEN_POINTS = 15
_CHUNK = 4096  # rows that a thread parses at a time
_SHORTEST_POINT = 5  # bytes: [0,0]
_POWERS = 10.0 ** np.arange(23)
_UNREAD = -1


def read_polylines(
    table: Table, columns: Columns, validation: Validation, batch: int, slicing: Slicing | None = None
) -> Iterator[Trips]:
    """The trips of a table with one polyline per row, parsed on all cores. Empty ones are left out and counted.

    A trip whose start is unknown starts in 1970, so that the time between its points is still right; it is left out if
    its start decides its slice. `slices` are the labels of the value that decides the slice, if one does.
    """
    waiting: deque[tuple[Future[tuple[Trips, Mask, pa.Array, pa.Array]], int, float]] = deque()
    workers, column = cores(), columns.polyline
    assert column is not None
    row = 1
    with ThreadPoolExecutor(workers) as pool:

        def ready(at_most: int) -> Iterator[Trips]:
            while len(waiting) > at_most:
                future, first_row, fraction = waiting.popleft()
                read, bad, texts, starts = future.result()
                validation.reject(bad, BAD_SHAPES, first_row, partial(_not_a_list, texts, column))
                bad = without_start(starts, bad, slicing, validation, first_row)
                trips = validation.valid_trips(read if not bad.any() else read.kept(None, ~bad), first_row)
                validation.advance(fraction)
                if trips is not None:
                    yield trips

        for rows, fraction in table.batches(columns.used_by_rows, _CHUNK, validation.skip):
            waiting.append((pool.submit(_trips, rows, columns, table.name, validation.crs, slicing), row, fraction))
            row += rows.num_rows
            yield from ready(2 * workers)
        yield from ready(0)


def _trips(
    rows: pa.RecordBatch, columns: Columns, name: str, crs: str, slicing: Slicing | None
) -> tuple[Trips, Mask, pa.Array, pa.Array]:
    """The trips of some rows, which rows cannot be read, their polylines, and their starts if there are times."""
    assert columns.polyline is not None
    polylines = rows.column(columns.polyline)
    x, y, lengths, bad = parse(polylines, name)
    offsets = offsets_of(lengths)
    time, starts = None, pa.array([], pa.int64())
    if columns.time:
        starts = timestamps(rows.column(columns.time), name, columns.time)
        time = _point_times(starts.fill_null(0).to_numpy(), offsets, SECONDS_BETWEEN_POINTS * 1_000_000)
    ids, persons = (
        ids_of(rows.column(column), name, column) if column else None for column in (columns.row_id, columns.person)
    )
    slices = slicing.kinds(rows.column(columns.kind)) if columns.kind and slicing is not None else None
    return Trips(x, y, offsets, time, ids, persons, crs, slices=slices), bad, polylines, starts


def _not_a_list(polylines: pa.Array, column: str, i: int) -> str:
    wkt = str(polylines[i]).lstrip().upper().startswith("LINESTRING")
    way_out = f"if the column is WKT, name it columns={{'geometry': {column!r}}}; else " if wkt else ""
    return f"has a polyline that is not a JSON list of [lon, lat] pairs; {way_out}repair the row"


def parse(polylines: pa.Array, name: str) -> tuple[Floats, Floats, Integers, Mask]:
    """x and y of JSON lists of [x, y], the number of points in each list (0 for null), and which are not such lists.

    >>> x, y, lengths, bad = parse(pa.array(["[[1,2.5],[3,4]]", "[]", "[["]), "demo")
    >>> x.tolist(), y.tolist(), lengths.tolist(), bad.tolist()
    ([1.0, 3.0], [2.5, 4.0], [2, 0, 0], [False, False, True])
    """
    try:
        texts = cast_each(plain_array(polylines), pa.large_string())
    except pa.ArrowException:
        raise InputError(f"{name}: polylines must be JSON text, not {polylines.type}; convert them.") from None
    bad = pc.and_(texts.is_null(), polylines.is_valid()).to_numpy(zero_copy_only=False).copy()  # not UTF-8
    texts = texts.fill_null("")
    _, ends, data = texts.buffers()
    if not len(texts) or data is None:
        return np.empty(0), np.empty(0), np.zeros(len(texts), np.int64), bad
    offsets = np.frombuffer(ends, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    room = int(offsets[-1] - offsets[0]) // _SHORTEST_POINT + 1
    x, y, lengths = np.empty(room), np.empty(room), np.empty(len(texts), np.int64)
    points = _parse(np.frombuffer(data, np.uint8), offsets, x, y, lengths)
    x, y = x[:points], y[:points]
    unread = np.flatnonzero(lengths == _UNREAD)
    if len(unread):
        lists = [_by_json(texts[int(i)].as_py()) for i in unread]
        bad[unread] = [points is None for points in lists]
        found = [np.empty((0, 2)) if points is None else points for points in lists]
        lengths[unread] = 0
        places = np.repeat(offsets_of(lengths)[unread], [len(points) for points in found])
        lengths[unread] = [len(points) for points in found]
        x = np.insert(x, places, np.concatenate([points[:, 0] for points in found]))
        y = np.insert(y, places, np.concatenate([points[:, 1] for points in found]))
    return x, y, lengths, bad


def _by_json(text: str) -> Floats | None:
    """The points of a list; None if it is not a list of points."""
    try:
        points = json.loads(text)
        if isinstance(points, list) and all(
            isinstance(point, list) and len(point) == 2 and {type(value) for value in point} <= {int, float}
            for point in points
        ):
            return np.array(points, np.float64).reshape(-1, 2)
    except (ValueError, OverflowError, RecursionError):
        pass
    return None


@njit(nogil=True, cache=True)
def _point_times(start: Integers, offsets: Integers, step: int) -> Integers:
    time = np.empty(offsets[-1], np.int64)
    for trip in range(len(start)):
        for i in range(offsets[trip], offsets[trip + 1]):
            time[i] = start[trip] + step * (i - offsets[trip])
    return time


@njit(nogil=True, cache=True)
def _skip(data: Bytes, at: int, end: int) -> int:
    """The first position from `at` on that is not white space."""
    while at < end and data[at] <= 32 and (data[at] == 32 or data[at] == 9 or data[at] == 10 or data[at] == 13):
        at += 1
    return at


@njit(nogil=True, cache=True)
def _digits(data: Bytes, at: int, end: int, value: np.int64) -> tuple[np.int64, int]:
    """`value` extended by the digits from `at` on, and the position after them."""
    while at < end:
        digit = np.uint64(data[at]) - np.uint64(48)  # wraps around below "0", so one comparison is enough
        if digit > 9:
            break
        value = 10 * value + np.int64(digit)
        at += 1
    return value, at


@njit(nogil=True, cache=True)
def _number(data: Bytes, at: int, end: int) -> tuple[float, int]:
    """A decimal of at most 15 digits and the position after it, or position -1."""
    negative = at < end and data[at] == 45
    if negative:
        at += 1
    first = at
    mantissa, at = _digits(data, at, end, np.int64(0))
    digits, decimals = at - first, 0
    if digits == 0 or (data[first] == 48 and digits > 1):  # "" and "01" are not JSON numbers
        return 0.0, -1
    if at < end and data[at] == 46:
        first = at + 1
        mantissa, at = _digits(data, first, end, mantissa)
        decimals = at - first
        if decimals == 0:
            return 0.0, -1
    if digits + decimals > 18 or mantissa >= 10**15:  # beyond 18 digits the mantissa may have overflowed
        return 0.0, -1
    value = mantissa / _POWERS[decimals]
    return (-value if negative else value), at


@njit(nogil=True, cache=True)
def _parse(data: Bytes, offsets: Integers, x: Floats, y: Floats, lengths: Integers) -> int:
    """Fill x, y and lengths (-1 for rows in another notation) and return the number of points."""
    points = 0
    for row in range(len(offsets) - 1):
        at, end = offsets[row], offsets[row + 1]
        before = points
        lengths[row] = _UNREAD
        if at == end:
            lengths[row] = 0
            continue
        at = _skip(data, at, end)
        if at == end or data[at] != 91:
            continue
        at = _skip(data, at + 1, end)
        good = at < end
        closed = good and data[at] == 93
        while good and not closed:
            good = data[at] == 91
            if not good:
                break
            x[points], at = _number(data, _skip(data, at + 1, end), end)
            good = at >= 0
            if good:
                at = _skip(data, at, end)
                good = at < end and data[at] == 44
            if good:
                y[points], at = _number(data, _skip(data, at + 1, end), end)
                good = at >= 0
            if good:
                at = _skip(data, at, end)
                good = at < end and data[at] == 93
            if good:
                points += 1
                at = _skip(data, at + 1, end)
                good = at < end and (data[at] == 44 or data[at] == 93)
            if good:
                closed = data[at] == 93
                if not closed:
                    at = _skip(data, at + 1, end)
                    good = at < end
        if good and closed and _skip(data, at + 1, end) == end:
            lengths[row] = points - before
        else:
            points = before
    return points
