"""Tables with one point a row: rows of equal key that stand together are a trip.

The work is a chain of generators: `clean_points` makes every batch of rows one of keys, time, x and y; `_adjacent` sees
to it that a trip's rows stand together, wherever they were; `gather` cuts between trips and orders each by time.
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
from dqam.geometry.trips import Trips
from dqam.sources import geometry_column
from dqam.sources.columns import Columns, require_keys
from dqam.sources.grouping import grouped
from dqam.sources.tables import Skip, Table, ignored, translated
from dqam.sources.validation import BAD_POINTS, BAD_SHAPES, LEAVE_OUT, NO_ID, NO_TIME, Intake
from dqam.sources.values import brief, has_zone, ids_of, is_text, moments, numbers, with_nulls, without_nulls

_HELD_BATCHES = 8  # so many batches may wait for proof that their trips are complete
_IN_MEMORY = 1 << 25  # rows; beyond that DuckDB sorts them
_SORT_MEMORY = "2GB"  # and beyond that on disk


def read_points(table: Table, columns: Columns, intake: Intake, batch: int) -> Iterator[Trips]:
    """The trips of a table of points, whatever the order of its rows."""
    require_keys(columns, table.names, table.name)
    table = table.loaded(columns.used, intake.skip)
    rows = clean_points(table, columns, intake, batch)
    with translated(table.name):
        yield from gather(_adjacent(table, columns, rows, intake, batch), bool(columns.person), intake.crs)


def clean_points(table: Table, columns: Columns, intake: Intake, batch: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Batches with columns key0, key1..., t (if there is a time), x and y, and how many rows were read for them."""
    row = 0
    for rows, fraction in table.batches(columns.used, batch, intake.skip):
        keys = _keys(rows, columns, table.name)
        good = _identified(keys, columns.keys, intake, row + 1)
        x, y = intake.axes(*_places(rows, columns, table.name, intake, row + 1, good))
        inside = intake.keep(x, y, row + 1, among=good)
        good = good if inside is None else good & inside
        arrays = {f"key{i}": key for i, key in enumerate(keys)}
        if columns.time:
            arrays["t"] = _times(rows.column(columns.time), intake, row + 1, good)
            good = good & arrays["t"].is_valid().to_numpy(zero_copy_only=False) if arrays["t"].null_count else good
        cleaned = pa.record_batch(arrays | {"x": pa.array(x), "y": pa.array(y)})
        row += rows.num_rows
        intake.advance(fraction)
        if not intake.refused:
            yield cleaned if good.all() else cleaned.filter(pa.array(good)), row
    intake.finish()


def _keys(rows: pa.RecordBatch, columns: Columns, name: str) -> list[pa.Array]:
    """The ids of the person, if there are any, and of the trip; null where a required id is missing."""
    keys = [ids_of(rows.column(key), name, key) for key in columns.keys]
    return [without_nulls(keys[0]), *keys[1:]] if len(keys) > 1 else keys


def _identified(keys: Sequence[pa.Array], names: Sequence[str], intake: Intake, first_row: int) -> Mask:
    """Which rows have all their ids."""
    good = np.ones(len(keys[0]), np.bool_)
    for key, name in zip(keys, names, strict=True):
        if key.null_count:
            known = key.is_valid().to_numpy(zero_copy_only=False)
            why = f"has no {name}; give every point the id of its trip, {LEAVE_OUT}"
            intake.leave_out(good & ~known, NO_ID, first_row, why)
            good &= known
    return good


def _places(
    rows: pa.RecordBatch, columns: Columns, name: str, intake: Intake, first_row: int, good: Mask
) -> tuple[Floats, Floats]:
    """Both coordinates of each row in the order of the source, NaN where there are none."""
    if columns.geometry:
        shapes = rows.column(columns.geometry)
        first, second, bad = geometry_column.points(shapes, name)
        if not intake.drops:
            intake.leave_out(bad, BAD_SHAPES, first_row, partial(geometry_column.describe, shapes, name, "Point"))
        return first, second
    assert columns.lon is not None
    assert columns.lat is not None
    first, second = (_numbers(rows.column(column), column, intake, first_row) for column in (columns.lon, columns.lat))
    return first, second


def _numbers(column: pa.Array, what: str, intake: Intake, first_row: int) -> Floats:
    """The numbers of a column, NaN where there are none."""
    found = numbers(column, intake.name, what)
    if not intake.drops and is_text(column.type):
        words = pc.fill_null(pc.match_substring_regex(column, r"(?i)[^\s]"), False).to_numpy(zero_copy_only=False)
        why = f"where a number was expected for {what}; repair the row, {LEAVE_OUT}"
        odd = np.isnan(found) & words
        intake.leave_out(odd, BAD_POINTS, first_row, lambda i: f"has {brief(column[i])} {why}")
    return found


def _times(column: pa.Array, intake: Intake, first_row: int, good: Mask) -> pa.Array:
    """The time of each row, null where there is none; rows without a time that are `good` so far are left out."""
    times = moments(column, intake.name, first_row)
    if times.null_count:
        unknown = ~times.is_valid().to_numpy(zero_copy_only=False)

        def why(i: int) -> str:
            if not column[i].is_valid:
                return f"has no time; repair it, {LEAVE_OUT}"
            return (
                f"has {brief(column[i])} where a time was expected (ISO 8601 like 2013-07-01T00:00:58, or seconds "
                f"since 1970, not milliseconds); repair it, {LEAVE_OUT}"
            )

        intake.leave_out(good & unknown, NO_TIME, first_row, why)
    if not intake.drops:
        intake.zones.update(np.unique(has_zone(column.drop_null())).tolist())
        if len(intake.zones) > 1:
            raise InputError(
                f"{intake.name}: from row {first_row:,} some times have a time zone and some do not; give one to all."
            )
    return times


# Which trips are complete


def _adjacent(
    table: Table, columns: Columns, points: Iterator[tuple[pa.RecordBatch, int]], intake: Intake, batch: int
) -> Iterator[pa.RecordBatch]:
    """The batches of `points` with the rows of each trip next to each other.

    Where keys are integers that never fall and row group statistics show that none below some value is still to come,
    trips below that value are complete and pass at once. When the first key falls, or too much waits, nothing of what
    has not passed has a key that has: so a look at all keys tells whether the rest may stream or has to be sorted.
    Files are ordered by person and then trip, or by trip alone; the first rows tell which key leads.
    """
    names = columns.keys
    held: list[pa.RecordBatch] = []
    lead, floors, last = 0, None, None
    for rows, read in points:
        held.append(rows)
        keys = [key.to_numpy() for key in _columns_of(rows, len(names)) if pt.is_int64(key.type)]
        if len(keys) < len(names):
            break
        if rows.num_rows:
            if last is None:
                lead = -1 if _falls(keys[0], keys[-1]) else 0
                floors = table.floors(names[lead], _HELD_BATCHES * batch)
            leading, final = keys[lead], keys[-1 - lead]
            if floors is None or (last is not None and (leading[0], final[0]) < last) or _falls(leading, final):
                break
            last = leading[-1], final[-1]
        while held and floors is not None:
            cut = int(np.searchsorted(_columns_of(held[0], len(names))[lead].to_numpy(), floors.after(read)))
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
    yield from rest if _is_contiguous(table, columns, batch, intake.skip and ignored) else _sorted(rest, intake, batch)


@njit(nogil=True, cache=True)
def _falls(leading: Integers, final: Integers) -> bool:
    """Whether a pair (leading, final) is below the one before it."""
    falls = 0
    for i in range(1, len(leading)):
        falls += int(leading[i] < leading[i - 1]) | (int(leading[i] == leading[i - 1]) & int(final[i] < final[i - 1]))
    return falls > 0


def _is_contiguous(table: Table, columns: Columns, batch: int, skip: Skip | None) -> bool:
    """Whether no key comes back after another one: then there are as many runs of equal keys as keys."""
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
        if not are_distinct([part]):  # scattered rows mostly show at once
            return False
        if part.num_rows:
            runs.append(part)
    return are_distinct(runs)


def are_distinct(parts: Sequence[pa.RecordBatch]) -> bool:
    """Whether no two rows of all parts are equal."""
    if not parts:
        return True
    table = pa.Table.from_batches(parts)
    return table.group_by(table.column_names).aggregate([]).num_rows == table.num_rows


def _sorted(parts: Iterator[pa.RecordBatch], intake: Intake, batch: int) -> Iterator[pa.RecordBatch]:
    """All rows, those of a trip together, by time and then as they came; by DuckDB where they are many for memory."""
    intake.share = 0.5
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
        order = ", ".join(name for name in (*schema.names, "row") if name not in ("x", "y"))
        query = base.sql(f"SELECT * EXCLUDE (row) FROM points ORDER BY {order}")
        # Before DuckDB 1.4 the same method had another name.
        reader = getattr(query, "to_arrow_reader", None) or query.fetch_record_batch
        out = 0
        for part in reader(batch):
            out += part.num_rows
            intake.progress = max(intake.progress, 0.5 + 0.5 * out / row)
            yield part.cast(schema)


# From rows to trips


def gather(parts: Iterable[pa.RecordBatch], has_person: bool, crs: str) -> Iterator[Trips]:
    """Whole trips of clean points, those of a trip together, the first key that of a person or not.

    What stands between two batches becomes a `Trips` of its own, so that nothing else is copied.
    """
    tail: list[pa.RecordBatch] = []  # rows of one trip that may go on in the next batch
    for part in parts:
        if not part.num_rows:
            continue
        key_count = part.schema.names.index("x") - ("t" in part.schema.names)
        starts = _run_starts(_columns_of(part, key_count))
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
    """The trips that begin at `starts` of the first part; where there are more parts, it is one trip."""
    first = parts[0]
    x, y, time = (
        _joined([part.column(name) for part in parts if name in part.schema.names]) for name in ("x", "y", "t")
    )
    assert x is not None
    assert y is not None
    offsets = np.append(starts, len(x))
    if time is not None and not _is_ordered(time, offsets):
        trip = np.repeat(np.arange(len(starts)), np.diff(offsets))
        order = np.lexsort((time, trip))
        x, y, time = x[order], y[order], time[order]
    firsts = [key.take(pa.array(starts)) for key in _columns_of(first, key_count)]
    # Keys are the person's, if there is one, then the trip's; where there is one only, it is both.
    return Trips(x, y, offsets, time, firsts[-1], with_nulls(firsts[0]) if has_person else None, crs)


def _joined(columns: Sequence[pa.Array]) -> NDArray[Any] | None:
    arrays = [column.to_numpy() for column in columns]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays) if arrays else None


@njit(nogil=True, cache=True)
def _is_ordered(time: Integers, offsets: Integers) -> bool:
    """Whether time never falls within a trip."""
    falls = 0
    for i in range(1, len(time)):
        falls += int(time[i] < time[i - 1])
    for trip in range(1, len(offsets) - 1):
        falls -= int(time[offsets[trip]] < time[offsets[trip] - 1])
    return falls == 0


def _run_starts(keys: Sequence[pa.Array]) -> Integers:
    """Where a row's keys differ from those of the row before, and 0."""
    if all(pt.is_int64(key.type) for key in keys):
        return _integer_run_starts(keys[0].to_numpy(), keys[-1].to_numpy())
    ends = [np.asarray(pc.run_end_encode(key, run_end_type=pa.int64()).run_ends) for key in keys]
    joined = ends[0] if len(ends) == 1 else np.unique(np.concatenate(ends))
    return np.concatenate([[0], joined[:-1]]).astype(np.int64)


@njit(nogil=True, cache=True)
def _integer_run_starts(leading: Integers, final: Integers) -> Integers:
    # A place is written for every row, and kept if a run starts there: so there is no branch to predict,
    # and of the room for all rows only the part that is filled takes memory.
    starts = np.empty(len(leading) + 1, np.int64)
    starts[0] = 0
    runs = 1
    for i in range(1, len(leading)):
        starts[runs] = i
        runs += int((leading[i] != leading[i - 1]) | (final[i] != final[i - 1]))
    return starts[:runs].copy()


def _columns_of(rows: pa.RecordBatch, key_count: int) -> list[pa.Array]:
    return [rows.column(i) for i in range(key_count)]


def _key_at(rows: pa.RecordBatch, i: int, key_count: int) -> list[object]:
    return [rows.column(k)[i].as_py() for k in range(key_count)]
