"""Tables with one point per row: rows with equal keys are one trip.

The work is a chain of generators: `clean_points` reduces every batch of rows to keys, time, x and y; `_adjacent` brings
the rows of each trip together; `assemble_trips` cuts between trips and orders the points of each by time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numba import njit
from numpy.typing import NDArray

from dqam.errors import InputError
from dqam.geometry.arrays import Floats, Integers, Mask
from dqam.geometry.ids import ids_of, is_text, with_nulls, without_nulls
from dqam.geometry.slicing import Slicing, earliest_kinds
from dqam.geometry.trips import Trips
from dqam.sources import geometry_column
from dqam.sources.columns import Columns, require_keys
from dqam.sources.grouping import grouped
from dqam.sources.tables import Skip, Table, input_errors, skip_silently
from dqam.sources.validation import BAD_POINTS, BAD_SHAPES, NO_ID, NO_TIME, Validation
from dqam.sources.values import format_of, has_zone, numbers, timestamps

_HELD_BATCHES = 8  # at most so many batches wait until their trips are known to be complete
_IN_MEMORY = 1 << 25  # rows; DuckDB sorts more than that
_SORT_MEMORY = "2GB"  # DuckDB sorts on disk beyond that


def read_points(
    table: Table, columns: Columns, validation: Validation, batch: int, slicing: Slicing | None = None
) -> Iterator[Trips]:
    """The trips of a table of points, whatever the order of its rows."""
    require_keys(columns, table.names, table.name)
    table = table.loaded(columns.used, validation.skip)
    rows = clean_points(table, columns, validation, batch, slicing)
    with input_errors(table.name):
        yield from assemble_trips(
            _adjacent(table, columns, rows, validation, batch), bool(columns.person), validation.crs
        )


def clean_points(
    table: Table, columns: Columns, validation: Validation, batch: int, slicing: Slicing | None = None
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Valid rows with columns key0, key1 (with two keys), t (if there is a time), x, y and kind (the label of the value
    that decides the slice, if one does); and the number of rows read so far."""
    row = 0
    for rows, fraction in table.batches(columns.used, batch, validation.skip):
        keys = _keys(rows, columns, table.name)
        good = _identified(keys, columns.keys, validation, row + 1)
        x, y = validation.axes(*_places(rows, columns, table.name, validation, row + 1))
        inside = validation.valid_points(x, y, row + 1, among=good)
        good = good if inside is None else good & inside
        arrays = {f"key{i}": key for i, key in enumerate(keys)}
        if columns.time:
            arrays["t"] = _times(rows.column(columns.time), columns.time, validation, row + 1, good)
            good = good & arrays["t"].is_valid().to_numpy(zero_copy_only=False) if arrays["t"].null_count else good
        arrays |= {"x": pa.array(x), "y": pa.array(y)}
        if columns.kind and slicing is not None:
            arrays["kind"] = pa.array(slicing.kinds(rows.column(columns.kind)))
        cleaned = pa.record_batch(arrays)
        row += rows.num_rows
        validation.advance(fraction)
        if not validation.refused:
            yield cleaned if good.all() else cleaned.filter(pa.array(good)), row
    validation.raise_if_refused()


def _keys(rows: pa.RecordBatch, columns: Columns, name: str) -> list[pa.Array]:
    """The ids of the person, if there are any, and of the trip; null where a required id is missing."""
    keys = [ids_of(rows.column(key), name, key) for key in columns.keys]
    return [without_nulls(keys[0]), *keys[1:]] if len(keys) > 1 else keys


def _identified(keys: Sequence[pa.Array], names: Sequence[str], validation: Validation, first_row: int) -> Mask:
    """Which rows have all their ids."""
    good = np.ones(len(keys[0]), np.bool_)
    for key, name in zip(keys, names, strict=True):
        if key.null_count:
            known = key.is_valid().to_numpy(zero_copy_only=False)
            why = f"has no {name}; give every point the id of its trip"
            validation.reject(good & ~known, NO_ID, first_row, why)
            good &= known
    return good


def _places(
    rows: pa.RecordBatch, columns: Columns, name: str, validation: Validation, first_row: int
) -> tuple[Floats, Floats]:
    """Both coordinates of each row in the order of the source, NaN where there are none."""
    if columns.geometry:
        shapes = rows.column(columns.geometry)
        first, second, bad = geometry_column.points(shapes, name)
        if not validation.drops:
            validation.reject(
                bad, BAD_SHAPES, first_row, partial(geometry_column.describe, shapes, name, columns.geometry, "Point")
            )
        return first, second
    assert columns.lon is not None
    assert columns.lat is not None
    first, second = (
        _numbers(rows.column(column), column, validation, first_row) for column in (columns.lon, columns.lat)
    )
    return first, second


def _numbers(column: pa.Array, what: str, validation: Validation, first_row: int) -> Floats:
    """The numbers of a column, NaN where there are none."""
    found = numbers(column, validation.name, what)
    if not validation.drops and is_text(column.type):
        words = pc.fill_null(pc.match_substring_regex(column, r"(?i)[^\s]"), False).to_numpy(zero_copy_only=False)
        why = f"where a number was expected for {what}; repair the row"
        odd = np.isnan(found) & words
        validation.reject(odd, BAD_POINTS, first_row, lambda i: f"has a value like {format_of(column[i])} {why}")
    return found


def _times(column: pa.Array, what: str, validation: Validation, first_row: int, good: Mask) -> pa.Array:
    """The time of each row, null where there is none; rows that are `good` so far but have no time are rejected."""
    times = timestamps(column, validation.name, what)
    if times.null_count:
        unknown = ~times.is_valid().to_numpy(zero_copy_only=False)

        def why(i: int) -> str:
            if not column[i].is_valid:
                return "has no time; repair it"
            return (
                f"has a value like {format_of(column[i])} where a time was expected (ISO 8601 like "
                "2013-07-01T00:00:58, or seconds since 1970, not milliseconds); repair it"
            )

        validation.reject(good & unknown, NO_TIME, first_row, why)
    if not validation.drops:
        validation.zones.update(np.unique(has_zone(column.drop_null())).tolist())
        if len(validation.zones) > 1:
            raise InputError(
                f"{validation.name}: from row {first_row:,} on, some times have a time zone and some do not; give all "
                "times a time zone, or none."
            )
    return times


# Which trips are complete


def _adjacent(
    table: Table, columns: Columns, points: Iterator[tuple[pa.RecordBatch, int]], validation: Validation, batch: int
) -> Iterator[pa.RecordBatch]:
    """The batches of `points` with the rows of each trip next to each other.

    While keys are integers in ascending order, row group statistics give a lower bound of the keys still to come; trips
    with smaller keys are complete and pass at once. When a key descends, or too many rows wait, no waiting or later row
    belongs to a trip that has passed; so one look at all keys tells whether the rest can stream or must be sorted.
    Files are ordered by person and then trip, or by trip alone; the first rows tell which key leads.
    """
    names = columns.keys
    held: list[pa.RecordBatch] = []
    lead, remaining, last = 0, None, None
    for rows, read in points:
        held.append(rows)
        keys = [key.to_numpy() for key in _key_columns(rows, len(names)) if pt.is_int64(key.type)]
        if len(keys) < len(names):
            break
        if rows.num_rows:
            if last is None:
                lead = -1 if _falls(keys[0], keys[-1]) else 0
                remaining = table.remaining_minimum(names[lead], _HELD_BATCHES * batch)
            leading, final = keys[lead], keys[-1 - lead]
            if remaining is None or (last is not None and (leading[0], final[0]) < last) or _falls(leading, final):
                break
            last = leading[-1], final[-1]
        while held and remaining is not None:
            cut = int(np.searchsorted(_key_columns(held[0], len(names))[lead].to_numpy(), remaining.after(read)))
            if cut:
                yield held[0].slice(0, cut)
            if cut < held[0].num_rows:
                held[0] = held[0].slice(cut)
                break
            del held[0]
        if sum(part.num_rows for part in held) > _HELD_BATCHES * batch:
            break
    else:
        yield from held
        return
    # Taken out one by one, so that what has passed is not kept in memory.
    rest = chain((held.pop(0) for _ in range(len(held))), (rows for rows, _ in points))
    contiguous = _is_contiguous(table, columns, batch, validation.skip and skip_silently)
    yield from rest if contiguous else _sorted(rest, validation, batch)


@njit(nogil=True, cache=True)
def _falls(leading: Integers, final: Integers) -> bool:
    """Whether any pair (leading, final) is below the one before it."""
    falls = 0
    for i in range(1, len(leading)):
        falls += int(leading[i] < leading[i - 1]) | (int(leading[i] == leading[i - 1]) & int(final[i] < final[i - 1]))
    return falls > 0


def _is_contiguous(table: Table, columns: Columns, batch: int, skip: Skip | None) -> bool:
    """Whether the rows of each key are adjacent: then there are as many runs of equal keys as distinct keys."""
    runs: list[pa.RecordBatch] = []
    names = columns.keys
    for rows, _ in table.batches(names, batch, skip):
        known = pa.table(_keys(rows, columns, table.name), columns.keys).drop_null()
        keys = [column.combine_chunks() for column in known.columns]
        if not known.num_rows:
            continue
        starts = pa.array(_run_starts(keys))
        part = pa.record_batch({f"key{i}": key.take(starts) for i, key in enumerate(keys)})
        if runs and _key_at(runs[-1], -1, len(names)) == _key_at(part, 0, len(names)):
            part = part.slice(1)
        if not are_distinct([part]):  # scattered rows usually show in the first batch
            return False
        if part.num_rows:
            runs.append(part)
    return are_distinct(runs)


def are_distinct(parts: Sequence[pa.RecordBatch]) -> bool:
    """Whether no two rows of the parts are equal."""
    if not parts:
        return True
    table = pa.Table.from_batches(parts)
    return table.group_by(table.column_names).aggregate([]).num_rows == table.num_rows


def _sorted(parts: Iterator[pa.RecordBatch], validation: Validation, batch: int) -> Iterator[pa.RecordBatch]:
    """All rows, with those of a trip together, ordered by time and then as they came; by DuckDB if they are many."""
    validation.share = 0.5
    held: list[pa.RecordBatch] = []
    for part in parts:
        held.append(part)
        if sum(some.num_rows for some in held) > _IN_MEMORY:
            break
    else:
        together = grouped(held, batch)
        held.clear()
        yield from together
        return
    parts = chain((held.pop(0) for _ in range(len(held))), parts)
    schema, row = None, 0
    with (
        tempfile.TemporaryDirectory(prefix="dqam-") as folder,
        duckdb.connect(config={"temp_directory": folder, "memory_limit": _SORT_MEMORY}) as base,
    ):
        for part in parts:
            numbered = pa.Table.from_batches([part]).append_column(
                "row", pa.array(np.arange(row, row + part.num_rows, dtype=np.int64))
            )
            base.register("part", numbered)
            base.execute("CREATE TABLE points AS FROM part" if schema is None else "INSERT INTO points FROM part")
            base.unregister("part")
            schema, row = part.schema, row + part.num_rows
        if schema is None:
            return
        order = ", ".join(name for name in (*schema.names, "row") if name not in ("x", "y", "kind"))
        query = base.sql(f"SELECT * EXCLUDE (row) FROM points ORDER BY {order}")
        # Before DuckDB 1.4 the same method had another name.
        reader = getattr(query, "to_arrow_reader", None) or query.fetch_record_batch
        out = 0
        for part in reader(batch):
            out += part.num_rows
            validation.progress = max(validation.progress, 0.5 + 0.5 * out / row)
            yield part.cast(schema)


# From rows to trips


def assemble_trips(parts: Iterable[pa.RecordBatch], has_person: bool, crs: str) -> Iterator[Trips]:
    """Whole trips from the rows of `clean_points`, in which the points of a trip must be adjacent.

    A trip that spans two batches becomes a `Trips` of its own, so that nothing else is copied. With `has_person`, the
    first key is that of the person. If rows have labels, `slices` are those of the trips (`earliest_kinds`).
    """
    tail: list[pa.RecordBatch] = []  # rows of one trip that may go on in the next batch
    for part in parts:
        if not part.num_rows:
            continue
        key_count = part.schema.names.index("x") - ("t" in part.schema.names)
        starts = _run_starts(_key_columns(part, key_count))
        if tail:
            cut = 0
            if _key_at(tail[-1], -1, key_count) == _key_at(part, 0, key_count):
                cut = int(starts[1]) if len(starts) > 1 else part.num_rows
                tail.append(part.slice(0, cut))
                if cut == part.num_rows:
                    continue
            yield _as_trips(tail, np.zeros(1, np.int64), key_count, has_person, crs)
            part, starts = part.slice(cut), starts[starts >= cut] - cut
        last = int(starts[-1])
        if last:
            yield _as_trips([part.slice(0, last)], starts[:-1], key_count, has_person, crs)
        tail = [part.slice(last)]
    if tail:
        yield _as_trips(tail, np.zeros(1, np.int64), key_count, has_person, crs)


def _as_trips(parts: Sequence[pa.RecordBatch], starts: Integers, key_count: int, has_person: bool, crs: str) -> Trips:
    """The trips that begin at `starts` of the first part; if there are more parts, all of them are one trip."""
    first = parts[0]
    x, y, time, kinds = (
        _concatenated([part.column(name) for part in parts if name in part.schema.names])
        for name in ("x", "y", "t", "kind")
    )
    assert x is not None
    assert y is not None
    offsets = np.append(starts, len(x))
    slices = None if kinds is None else earliest_kinds(time, kinds, offsets)
    if time is not None and not _is_ordered(time, offsets):
        trip = np.repeat(np.arange(len(starts)), np.diff(offsets))
        order = np.lexsort((time, trip))
        x, y, time = x[order], y[order], time[order]
    firsts = [key.take(pa.array(starts)) for key in _key_columns(first, key_count)]
    # Keys are the person's, if any, then the trip's; a single key is both.
    persons = with_nulls(firsts[0]) if has_person else None
    return Trips(x, y, offsets, time, firsts[-1], persons, crs, slices=slices)


def _concatenated(columns: Sequence[pa.Array]) -> NDArray[Any] | None:
    arrays = [column.to_numpy() for column in columns]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays) if arrays else None


@njit(nogil=True, cache=True)
def _is_ordered(time: Integers, offsets: Integers) -> bool:
    """Whether times never decrease within a trip."""
    falls = 0
    for i in range(1, len(time)):
        falls += int(time[i] < time[i - 1])
    for trip in range(1, len(offsets) - 1):
        falls -= int(time[offsets[trip]] < time[offsets[trip] - 1])
    return falls == 0


def _run_starts(keys: Sequence[pa.Array]) -> Integers:
    """The rows whose keys differ from those of the row before; row 0 is one of them."""
    if all(pt.is_int64(key.type) for key in keys):
        return _integer_run_starts(keys[0].to_numpy(), keys[-1].to_numpy())
    ends = [np.asarray(pc.run_end_encode(key, run_end_type=pa.int64()).run_ends) for key in keys]
    joined = ends[0] if len(ends) == 1 else np.unique(np.concatenate(ends))
    return np.concatenate([[0], joined[:-1]]).astype(np.int64)


@njit(nogil=True, cache=True)
def _integer_run_starts(leading: Integers, final: Integers) -> Integers:
    # Every row is written, and overwritten by the next unless a run starts there. So there is no branch to predict, and
    # only the pages that are written take memory.
    starts = np.empty(len(leading) + 1, np.int64)
    starts[0] = 0
    runs = 1
    for i in range(1, len(leading)):
        starts[runs] = i
        runs += int((leading[i] != leading[i - 1]) | (final[i] != final[i - 1]))
    return starts[:runs].copy()


def _key_columns(rows: pa.RecordBatch, key_count: int) -> list[pa.Array]:
    return [rows.column(i) for i in range(key_count)]


def _key_at(rows: pa.RecordBatch, i: int, key_count: int) -> list[object]:
    return [rows.column(k)[i].as_py() for k in range(key_count)]
