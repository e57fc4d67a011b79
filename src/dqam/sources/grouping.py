"""Group the points of each trip in memory, on all cores.

Rows are scattered to buckets by a hash of their keys, each to a position computed beforehand, so that threads need no
locks. Then each bucket, which fits into the cache, is ordered by trip and time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numba import njit
from numpy.typing import NDArray

from dqam.geometry.arrays import Floats, Integers, Labels
from dqam.runtime.threads import ahead, cores, each_span, spans

BUCKET = 1 << 15  # rows, approximately
MOST_BUCKETS = 1 << 10
SHORT = 64  # trips of at most so many rows are sorted by insertion

PointArrays = tuple[Integers, Integers, Integers, Floats, Floats, Labels]  # two keys, time, x, y and kind


def grouped(parts: Sequence[pa.RecordBatch], batch: int) -> Iterator[pa.RecordBatch]:
    """The rows of all parts, those of a trip together, ordered by time and then as they came; the trips in any order.

    Columns are one or two keys, t (if there is a time), x, y and kind (if there is one).
    """
    if not any(part.num_rows for part in parts):
        return iter([])
    table = pa.Table.from_batches(parts)
    names = table.column_names
    texts = dict[str, pa.Array]()  # the dictionaries of keys that are not integers
    for i, name in enumerate(names):
        if name.startswith("key") and not pt.is_int64(table.schema.types[i]):
            table = table.set_column(i, name, table.column(name).dictionary_encode().unify_dictionaries())
            texts[name] = table.column(name).chunk(0).dictionary
            places = [chunk.indices.cast(pa.int64()) for chunk in table.column(name).chunks]
            table = table.set_column(i, name, pa.chunked_array(places))
    rows = _ordered_rows([_columns_of(part) for part in table.to_batches()])
    columns: dict[str, NDArray[Any]] = dict(zip(("key0", "key1", "t", "x", "y", "kind"), rows, strict=True))

    def cut(start: int) -> pa.RecordBatch:
        arrays = {name: pa.array(columns[name][start : start + batch]) for name in names}
        return pa.record_batch(arrays | {name: text.take(arrays[name]) for name, text in texts.items()})

    return ahead(cut, range(0, len(columns["x"]), batch))


def _columns_of(part: pa.RecordBatch) -> PointArrays:
    """The columns of a part. A single key is used twice, a missing time is 0, and missing kinds are empty."""
    given = {name: part.column(name).to_numpy() for name in part.schema.names}
    time = given["t"] if "t" in given else np.zeros(part.num_rows, np.int64)
    kind = given.get("kind", np.zeros(0, np.int16))
    return given["key0"], given.get("key1", given["key0"]), time, given["x"], given["y"], kind


def _ordered_rows(parts: list[PointArrays]) -> PointArrays:
    """All rows, in the order of `grouped`."""
    total = sum(len(part[0]) for part in parts)
    buckets = 1 << min(MOST_BUCKETS, max(1, total // BUCKET)).bit_length() - 1
    each = [(i, i + 1) for i in range(len(parts))]
    counts = np.array(each_span(lambda i, _: _count(*parts[i][:2], buckets), each)).reshape(-1, buckets)
    ends = np.cumsum(counts.T).reshape(buckets, -1).T  # bucket by bucket, and part by part in each
    rows: PointArrays = tuple(  # type: ignore[assignment]
        np.empty(sum(map(len, columns)), columns[0].dtype) for columns in zip(*parts, strict=True)
    )
    each_span(lambda i, _: _scatter(*parts[i], ends[i] - counts[i], *rows), each)
    edges = np.append(0, ends[-1])
    each_span(lambda i, j: _order_buckets(edges[i : j + 1], *rows), spans(edges, 4 * cores()))
    return rows


@njit(nogil=True, cache=True)
def _hash(one, other):  # type: ignore[no-untyped-def]
    """A 64-bit hash of two keys."""
    mixed = np.uint64(one) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(other)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return mixed ^ (mixed >> np.uint64(32))


@njit(nogil=True, cache=True)
def _count(ones, others, buckets):  # type: ignore[no-untyped-def]
    """The number of rows of each bucket."""
    counts = np.zeros(buckets, np.int64)
    for row in range(len(ones)):
        counts[_hash(ones[row], others[row]) & np.uint64(buckets - 1)] += 1
    return counts


@njit(nogil=True, cache=True)
def _scatter(  # type: ignore[no-untyped-def]
    ones, others, time, x, y, kind, places, to_ones, to_others, to_time, to_x, to_y, to_kind
):
    """Copy rows to their buckets; `places` is where the next row of each bucket goes."""
    for row in range(len(ones)):
        bucket = _hash(ones[row], others[row]) & np.uint64(len(places) - 1)
        at = places[bucket]
        places[bucket] = at + 1
        to_ones[at], to_others[at], to_time[at], to_x[at], to_y[at] = ones[row], others[row], time[row], x[row], y[row]
        if len(to_kind):
            to_kind[at] = kind[row]


@njit(nogil=True, cache=True)
def _order_buckets(edges, ones, others, time, x, y, kind):  # type: ignore[no-untyped-def]
    for bucket in range(len(edges) - 1):
        rows = slice(edges[bucket], edges[bucket + 1])
        order = _order(ones[rows], others[rows], time[rows])
        for column in (ones, others, time):
            column[rows] = column[rows][order]
        for column in (x, y):
            column[rows] = column[rows][order]
        if len(kind):
            kind[rows] = kind[rows][order]


@njit(nogil=True, cache=True)
def _order(ones, others, time):  # type: ignore[no-untyped-def]
    """The order of rows by trip, and within a trip by time."""
    rows, room = len(ones), 1
    while room < 2 * rows:
        room *= 2
    known = np.full(room, -1, np.int64)  # hash table of trips
    first, trip = np.empty(rows, np.int64), np.empty(rows, np.int64)
    ends = np.zeros(rows + 1, np.int64)
    trips = 0
    for row in range(rows):
        at = (_hash(ones[row], others[row]) >> np.uint64(32)) & np.uint64(room - 1)
        while known[at] >= 0 and (ones[first[known[at]]] != ones[row] or others[first[known[at]]] != others[row]):
            at = (at + np.uint64(1)) & np.uint64(room - 1)
        if known[at] < 0:
            known[at], first[trips] = trips, row
            trips += 1
        trip[row] = known[at]
        ends[known[at] + 1] += 1
    starts = np.cumsum(ends)
    order = np.empty(rows, np.int64)
    places = starts.copy()
    for row in range(rows):
        order[places[trip[row]]] = row
        places[trip[row]] += 1
    for k in range(trips):
        mine = order[starts[k] : starts[k + 1]]
        if len(mine) > SHORT:
            mine[:] = mine[np.argsort(time[mine], kind="mergesort")]
            continue
        for i in range(1, len(mine)):
            row, at = mine[i], i
            while at > 0 and time[mine[at - 1]] > time[row]:
                mine[at] = mine[at - 1]
                at -= 1
            mine[at] = row
    return order
