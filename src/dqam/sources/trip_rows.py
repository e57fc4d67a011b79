"""Tables with one trip per row (LineStrings, polylines, `Trips`): rows with the same ids are pieces of one trip.

In every format a trip is defined by its id, within its person if there is one: a trip in twenty rows counts once. If
there are no ids, every row is a trip.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dqam.geometry.arrays import Mask
from dqam.geometry.ids import ids_of, without_nulls
from dqam.geometry.slicing import Slicing, earliest_kinds
from dqam.geometry.trips import Trips, offsets_of
from dqam.sources import geometry_column
from dqam.sources.columns import Columns
from dqam.sources.tables import Batches, Skip, Table, skip_silently
from dqam.sources.validation import BAD_SHAPES, NO_START, Validation
from dqam.sources.values import timestamps

_POINTS_PER_TRIP = 32  # a guess, to read about as many rows at a time as fill a batch


def read_lines(
    table: Table, columns: Columns, validation: Validation, batch: int, slicing: Slicing | None = None
) -> Iterator[Trips]:
    """The trips of a table of LineStrings. Null and empty ones are left out and counted.

    If bad rows are left out, a Point is read as a trip of one point. `slices` are the labels of the value that decides
    the slice, if one does.
    """
    assert columns.geometry is not None
    trip, person = columns.person if columns.by_person else columns.row_id, columns.person
    names = list(dict.fromkeys(name for name in (columns.geometry, trip, person, columns.time, columns.kind) if name))
    row = 1
    for rows, fraction in table.batches(names, max(1, batch // _POINTS_PER_TRIP), validation.skip):
        shapes = rows.column(columns.geometry)
        x, y, lengths, bad = geometry_column.lines(shapes, table.name, points=validation.drops)
        validation.reject(
            bad, BAD_SHAPES, row, partial(geometry_column.describe, shapes, table.name, columns.geometry, "LineString")
        )
        ids, persons = (ids_of(rows.column(name), table.name, name) if name else None for name in (trip, person))
        time = None
        if columns.time:  # one for each row, shared by all points of its line; 1970 if unknown
            starts = timestamps(rows.column(columns.time), table.name, columns.time)
            bad = without_start(starts, bad, slicing, validation, row)
            time = np.repeat(starts.fill_null(0).to_numpy(), lengths)
        slices = slicing.kinds(rows.column(columns.kind)) if columns.kind and slicing is not None else None
        read = Trips(x, y, offsets_of(lengths), time, ids, persons, validation.crs, slices=slices)
        trips = validation.valid_trips(read if not bad.any() else read.kept(None, ~bad), row)
        row += rows.num_rows
        validation.advance(fraction)
        if trips is not None:
            yield trips


def without_start(starts: pa.Array, bad: Mask, slicing: Slicing | None, validation: Validation, first_row: int) -> Mask:
    """The `bad` rows and those without a start, if clocks decide the slice; these are rejected."""
    if slicing is None or not slicing.needs_times or not starts.null_count:
        return bad
    unknown = starts.is_null().to_numpy(zero_copy_only=False)
    validation.reject(unknown & ~bad, NO_START, first_row, "has no time, by which trips are sliced; give it one")
    return bad | unknown


def keys_of(table: Table, columns: Columns, batch: int, validation: Validation) -> Iterator[pa.RecordBatch]:
    """The ids of all rows of a table with one trip per row; none if trips have no ids."""
    names = columns.row_keys
    if not names:
        return
    for rows, _ in table.batches(names, batch, validation.skip and skip_silently):
        yield pa.record_batch({name: without_nulls(ids_of(rows.column(name), table.name, name)) for name in names})


def repeated(keys: Iterable[pa.RecordBatch]) -> pa.Table | None:
    """The ids (of the person, then of the trip) that occur in more than one row, each once; None if there are none."""
    parts = [part.rename_columns(["key0", "key1"][: part.num_columns]) for part in keys]
    if not parts:
        return None
    table = pa.Table.from_batches(parts)
    counts = table.group_by(table.column_names, use_threads=False).aggregate([([], "count_all")])
    again = counts.filter(pc.greater(counts.column("count_all"), 1)).drop_columns(["count_all"])
    return again if again.num_rows else None


def join_pieces(parts: Iterator[Trips], again: pa.Table | None, validation: Validation) -> Iterator[Trips]:
    """The same trips, except that rows whose ids are in `again` are joined by id into one trip each, at the end."""
    if again is None:
        yield from parts
        return
    held = []
    for trips in parts:
        rows = keys_in(trips).append_column("row", pa.array(np.arange(len(trips))))
        found = rows.join(again, again.column_names, join_type="left semi", use_threads=False).column("row")
        several = np.zeros(len(trips), np.bool_)
        several[found.to_numpy()] = True
        if several.any():
            held.append(trips.kept(None, several))
        if not several.all():
            yield trips.kept(None, ~several)
    if held:
        yield _join(Trips.concat(held), validation)


def _join(rows: Trips, validation: Validation) -> Trips:
    """Join rows with the same ids into one trip, with its pieces in order of time, then of appearance."""
    codes = [column.combine_chunks().dictionary_encode().indices.to_numpy() for column in keys_in(rows).columns]
    trip = np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)[1].ravel()
    starts = np.zeros(len(rows)) if rows.time is None else rows.time[rows.offsets[:-1]]
    order = np.lexsort((starts, trip))
    pieces = rows.taken(order)
    firsts = np.flatnonzero(np.diff(trip[order], prepend=-1))
    validation.joined += len(rows) - len(firsts)
    slices = None
    if rows.slices is not None:  # that of the earliest piece, or the smallest of several such; see `earliest_kinds`
        slices = earliest_kinds(pieces.starts, rows.slices[order], np.append(firsts, len(rows)))
    within = np.setdiff1d(np.arange(len(rows)), firsts)
    which = pa.array(firsts)
    return Trips(
        pieces.x,
        pieces.y,
        np.append(pieces.offsets[firsts], pieces.points),
        pieces.time,
        None if pieces.ids is None else pieces.ids.take(which),
        None if pieces.persons is None else pieces.persons.take(which),
        pieces.crs,
        np.union1d(pieces.offsets[within], [] if pieces.cuts is None else pieces.cuts).astype(np.int64),
        slices,
    )


def keys_in(trips: Trips) -> pa.Table:
    """The ids of each trip: that of its person, if any, then its own."""
    keys = [ids for ids in (trips.persons, trips.ids) if ids is not None]
    return pa.table({f"key{i}": without_nulls(ids) for i, ids in enumerate(keys)})


class GeometrySubset(Table):
    """The rows of a table whose geometries are points, or the rows whose geometries are not."""

    def __init__(self, table: Table, column: str, points: bool) -> None:
        self.name, self.names, self._table, self._column, self._points = table.name, table.names, table, column, points

    def batches(self, columns: Sequence[str], rows: int, skip: Skip | None = None) -> Batches:
        names = list(dict.fromkeys([*columns, self._column]))
        counts = skip if self._points or skip is None else skip_silently  # each damaged row is counted once
        for batch, fraction in self._table.batches(names, rows, counts):
            found = geometry_column.are_points(batch.column(self._column), self.name) == self._points
            yield batch.filter(pa.array(found)).select(list(columns)), fraction
