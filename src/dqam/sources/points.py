"""Tables with one point a row: rows of equal key that stand together are a trip.

The work is a chain of generators: `clean_points` makes every batch of rows one of keys, time, x and y; `_adjacent` sees
to it that a trip's rows stand together, wherever they were; `gather` cuts between trips and orders each by time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numba import njit
from numpy.typing import NDArray

from dqam.errors import InputError
from dqam.sources import geometry
from dqam.sources.columns import Columns, require_keys
from dqam.sources.grouping import grouped
from dqam.sources.intake import NO_TIME, Intake
from dqam.sources.tables import Table, translated
from dqam.sources.values import ids_of, moments, numbers
from dqam.trips import Trips

_HELD_BATCHES = 8  # so many batches may wait for proof that their trips are complete
_IN_MEMORY = 1 << 25  # rows; beyond that DuckDB sorts them
_SORT_MEMORY = "2GB"  # and beyond that on disk

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def read_points(table: Table, columns: Columns, intake: Intake, batch: int) -> Iterator[Trips]:
    """The trips of a table of points, whatever the order of its rows."""
    keys = require_keys(columns, table.names, table.name)
    table = table.loaded(columns.used, _numeric(columns))
    rows = clean_points(table, columns, intake, batch)
    with translated(table.name):
        yield from gather(_adjacent(table, keys, rows, intake, batch), bool(columns.person), intake.crs)


def _numeric(columns: Columns) -> list[str]:
    return [name for name in (columns.lon, columns.lat) if name]


def clean_points(table: Table, columns: Columns, intake: Intake, batch: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Batches with columns key0, key1..., t (if there is a time), x and y, and how many rows were read for them."""
    row, numeric = 0, _numeric(columns)
    for rows, fraction in table.batches(columns.used, batch, numeric):
        keys = _keys(rows, columns.keys, table.name, row)
        if columns.geometry:
            first, second = geometry.points(rows.column(columns.geometry), table.name, row + 1)
        else:
            first, second = (numbers(rows.column(name), table.name, row + 1, name) for name in numeric)
        x, y = intake.axes(first, second)
        keep = intake.keep(x, y, row + 1)
        arrays = {f"key{i}": key for i, key in enumerate(keys)}
        if columns.time:
            arrays["t"] = moments(rows.column(columns.time), table.name, row + 1, intake.zones)
            keep = _timed(arrays["t"], keep, intake, row)
        cleaned = pa.record_batch(arrays | {"x": pa.array(x), "y": pa.array(y)})
        row += rows.num_rows
        intake.advance(fraction)
        if not intake.refused:
            yield cleaned if keep is None else cleaned.filter(pa.array(keep)), row
    intake.finish()


def _timed(time: pa.Array, keep: NDArray[np.bool_] | None, intake: Intake, row: int) -> NDArray[np.bool_] | None:
    """`keep` without the points that have no time."""
    if not time.null_count:
        return keep
    untimed = time.is_null().to_numpy(zero_copy_only=False)
    if intake.on_error != "drop":
        raise InputError(
            f"{intake.name}: row {row + 1 + int(np.argmax(untimed)):,} has no time; repair it, "
            "or leave such points out with on_error='drop' (--on-error drop)."
        )
    valid = np.ones(len(time), np.bool_) if keep is None else keep
    intake.drop(NO_TIME, int((valid & untimed).sum()))
    return valid & ~untimed


def _keys(rows: pa.RecordBatch, names: Sequence[str], source: str, row: int) -> list[pa.Array]:
    """The key columns as int64 or text, which every step below can compare."""
    keys = []
    for name in names:
        key = ids_of(rows.column(name), source, name)
        if key.null_count:
            i = int(np.argmax(key.is_null().to_numpy(zero_copy_only=False)))
            raise InputError(f"{source}: row {row + i + 1:,} has no {name}; give every point the id of its trip.")
        keys.append(key)
    return keys


# Which trips are complete


def _adjacent(
    table: Table, names: Sequence[str], points: Iterator[tuple[pa.RecordBatch, int]], intake: Intake, batch: int
) -> Iterator[pa.RecordBatch]:
    """The batches of `points` with the rows of each trip next to each other.

    Where keys are integers that never fall and row group statistics show that none below some value is still to come,
    trips below that value are complete and pass at once. When the first key falls, or too much waits, nothing of what
    has not passed has a key that has: so a look at all keys tells whether the rest may stream or has to be sorted.
    Files are ordered by person and then trip, or by trip alone; the first rows tell which key leads.
    """
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
    yield from rest if _is_contiguous(table, names, batch) else _sorted(rest, intake, batch)


@njit(nogil=True, cache=True)
def _falls(leading: Ints, final: Ints) -> bool:
    """Whether a pair (leading, final) is below the one before it."""
    falls = 0
    for i in range(1, len(leading)):
        falls += int(leading[i] < leading[i - 1]) | (int(leading[i] == leading[i - 1]) & int(final[i] < final[i - 1]))
    return falls > 0


def _is_contiguous(table: Table, names: Sequence[str], batch: int) -> bool:
    """Whether no key comes back after another one: then there are as many runs of equal keys as keys."""
    runs: list[pa.RecordBatch] = []
    row = 0
    for rows, _ in table.batches(names, batch):
        keys = _keys(rows, names, table.name, row)
        row += rows.num_rows
        if not rows.num_rows:
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


def _as_trips(parts: Sequence[pa.RecordBatch], starts: Ints, key_count: int, has_person: bool, crs: str) -> Trips:
    rows = parts[0] if len(parts) == 1 else pa.Table.from_batches(parts).combine_chunks().to_batches()[0]
    offsets = np.append(starts, rows.num_rows)
    x, y = rows.column("x").to_numpy(), rows.column("y").to_numpy()
    time = rows.column("t").to_numpy() if "t" in rows.schema.names else None
    if time is not None and not _is_ordered(time, offsets):
        trip = np.repeat(np.arange(len(starts)), np.diff(offsets))
        order = np.lexsort((time, trip))
        x, y, time = x[order], y[order], time[order]
    firsts = [key.take(pa.array(starts)) for key in _columns_of(rows, key_count)]
    # Keys are the person's, if there is one, then the trip's; where there is one only, it is both.
    return Trips(x, y, offsets, time, firsts[-1], firsts[0] if has_person else None, crs)


@njit(nogil=True, cache=True)
def _is_ordered(time: Ints, offsets: Ints) -> bool:
    """Whether time never falls within a trip."""
    falls = 0
    for i in range(1, len(time)):
        falls += int(time[i] < time[i - 1])
    for trip in range(1, len(offsets) - 1):
        falls -= int(time[offsets[trip]] < time[offsets[trip] - 1])
    return falls == 0


def _run_starts(keys: Sequence[pa.Array]) -> Ints:
    """Where a row's keys differ from those of the row before, and 0."""
    if all(pt.is_int64(key.type) for key in keys):
        return _integer_run_starts(keys[0].to_numpy(), keys[-1].to_numpy())
    ends = [np.asarray(pc.run_end_encode(key, run_end_type=pa.int64()).run_ends) for key in keys]
    joined = ends[0] if len(ends) == 1 else np.unique(np.concatenate(ends))
    return np.concatenate([[0], joined[:-1]]).astype(np.int64)


@njit(nogil=True, cache=True)
def _integer_run_starts(leading: Ints, final: Ints) -> Ints:
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
