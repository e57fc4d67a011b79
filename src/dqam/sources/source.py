"""`Source`: trips that are read in batches of whole trips, with little memory, each time the source is iterated."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dqam.errors import InputError
from dqam.geometry.ids import ids_of
from dqam.geometry.slicing import Slicing
from dqam.geometry.trips import Trips
from dqam.sources import geometry_column
from dqam.sources.columns import Columns, check_kind
from dqam.sources.frames import SparkTable
from dqam.sources.points import clean_points, read_points
from dqam.sources.porto import read_polylines
from dqam.sources.tables import Table, input_errors, skip_silently
from dqam.sources.trip_rows import GeometrySubset, join_pieces, keys_in, keys_of, read_lines, repeated
from dqam.sources.validation import Validation

BATCH = 1 << 20  # points


class Source:
    """Trips that are read anew at each iteration, in batches of whole trips.

    name       the name of the file, or the type of the object
    path       the file or URL; None if the source is an object
    crs        the coordinate reference system of the trips
    swap_axes  as given to `read`
    on_error   as given to `read`
    batch      the approximate number of points in a batch
    slicing    the rule that puts each trip into a slice; None if there are no slices (`sliced`)

    A trip is defined by its id, within its person if there is one: in every format, rows with the same ids are one
    trip. In a table with one trip per row and no ids, every row is a trip of its own.
    """

    def __init__(
        self,
        table: Table | Trips,
        columns: Columns,
        crs: str,
        swap_axes: bool,
        on_error: str | None = None,
        batch: int = BATCH,
        slicing: Slicing | None = None,
    ) -> None:
        self._table, self._columns = table, columns
        self.swap_axes, self.on_error = swap_axes, on_error
        self.name = "Trips" if isinstance(table, Trips) else table.name
        self.path: Path | str | None = None
        self.crs, self.batch, self.slicing = crs, batch, slicing
        self._validation = self._new_validation()

    def __repr__(self) -> str:
        kind = "" if isinstance(self._table, Trips) else f", {self._table.kind}"
        return f"<Source {self.name!r}{kind}, columns={self.roles}, crs={self.crs!r}>"

    @property
    def progress(self) -> float:
        """The fraction of the source that the latest iteration has read, from 0 to 1; safe to read from any thread."""
        return self._validation.progress

    @property
    def dropped(self) -> dict[str, int]:
        """What the latest iteration has left out: reason -> count."""
        return self._validation.dropped

    def note(self, dropped: Mapping[str, int]) -> None:
        """Add the counts of rows that another reader of the source has left out."""
        for reason, count in dropped.items():
            self._validation.count_dropped(reason, count)

    @property
    def joined(self) -> int:
        """How many rows the latest iteration joined to others with the same ids, in a table with one trip per row."""
        return self._validation.joined

    @property
    def left_out(self) -> list[str]:
        """What the latest iteration left out, and how many rows it joined, in sentences for the custodian."""
        notes = [f"Left out: {number:,} {reason}" for reason, number in self.dropped.items()]
        return notes + ([f"Joined: {self.joined:,} rows to others with the same trip id"] if self.joined else [])

    @property
    def row_is_trip(self) -> bool:
        """Whether every row is a trip of its own, because trips have no ids."""
        if isinstance(self._table, Trips):
            return self._table.ids is None
        return not (self._columns.lon or self._columns.row_id or self._columns.by_person)

    @property
    def person_is_trip(self) -> bool:
        """Whether all points of a person are one trip, because trips have no ids."""
        return self._columns.by_person

    @property
    def has_persons(self) -> bool:
        """Whether the source has person ids."""
        return self._table.persons is not None if isinstance(self._table, Trips) else bool(self._columns.person)

    @property
    def has_times(self) -> bool:
        """Whether points have times."""
        if isinstance(self._table, Trips):
            return self._table.time is not None
        return bool(self._columns.time)

    def for_publishing(self) -> Source:
        """The same source, which leaves out rows that cannot be used unless `on_error` was given."""
        if self.on_error is not None:
            return self
        made = copy(self)
        made.on_error = "drop"
        made._validation = made._new_validation()
        return made

    def check_slicing(self, slicing: Slicing) -> None:
        """Raise an `InputError` if trips cannot be sliced so, for reasons that are public: no row is looked at."""
        if slicing.needs_times and not self.has_times:
            raise InputError(
                f"{self.name} has no times, by which slices by {slicing} are told; name their column, "
                "columns={'time': 'NAME'}."
            )
        if slicing.column is not None:
            if isinstance(self._table, Trips):
                raise InputError(
                    f"{self.name} in memory have no column {slicing.column!r} for slices; give a table that has it."
                )
            check_kind(self._table.names, self.name, slicing.column)

    def sliced(self, slicing: Slicing) -> Source:
        """The same source, in which each trip is labelled with its slice (`Trips.slices`).

        The slice is that of the earliest point. If several points are equally early, or if there are no times, that
        with the smallest number, so that it depends neither on the order of the rows nor on the engine.
        """
        self.check_slicing(slicing)
        made = copy(self)
        made.slicing, made._columns = slicing, replace(self._columns, kind=slicing.column)
        made._validation = made._new_validation()
        return made

    @property
    def roles(self) -> dict[str, str]:
        """The columns in use, by role."""
        return {role: name for role, name in asdict(self._columns).items() if name is not None}

    @property
    def frame(self) -> Any:
        """The data frame of Spark; None for any other source."""
        return self._table.frame if isinstance(self._table, SparkTable) else None

    def points(self, batch: int) -> Iterator[pa.RecordBatch]:
        """The valid points of a table with one point per row in the order of the rows, at most `batch` at a time.

        Columns are key0 and key1 (the person and the trip; only key0 if there is one of them), t (if there is a time),
        x, y and kind (if there is one; see `clean_points`).
        """
        columns = self._columns
        if isinstance(self._table, Trips) or columns.polyline or not columns.keys:
            raise InputError(f"{self.name} is not a table with one point per row; use engine='local'.")
        validation = self._validation = self._new_validation()
        with self._explained():
            for rows, _ in clean_points(self._table, columns, validation, batch, self.slicing):
                yield rows

    @property
    def notes(self) -> list[str]:
        """What a user should know about how the source is read, in sentences."""
        columns, notes = self._columns, []
        if isinstance(self._table, Trips):
            return []
        if self.person_is_trip:
            notes.append(
                f"{self.name} has no trip ids: all points of a {columns.person} are one trip. If a column has trip "
                "ids, name it, columns={'trip': 'NAME'}."
            )
        if self.row_is_trip:
            notes.append(
                f"{self.name} has no trip ids: every row is a trip. If a column has trip ids, name it, "
                "columns={'trip': 'NAME'}."
            )
        if columns.lon and not columns.time:
            notes.append(
                f"{self.name} has no time: points of a trip are taken in the order of the rows. If a column has the "
                "time, name it, columns={'time': 'NAME'}."
            )
        return notes

    def __iter__(self) -> Iterator[Trips]:
        trips = 0
        for batch in self._batches():
            trips += len(batch)
            yield batch
        if not trips:
            left_out = ", ".join(f"{count:,} {reason}" for reason, count in self.dropped.items())
            reason = f"all were dropped: {left_out}" if left_out else "it has no rows"
            raise InputError(f"{self.name} has no trips ({reason}); give a source with some.")

    def trips(self) -> Trips:
        """All trips at once; an `InputError` if there are none."""
        return _read_only(Trips.concat(list(self)))

    def gathered(self) -> Trips:
        """All trips at once; there may be none."""
        ids, persons, time = pa.array([], pa.string()), pa.array([], pa.string()), np.zeros(0, np.int64)
        none = Trips(
            np.zeros(0),
            np.zeros(0),
            np.zeros(1, np.int64),
            time if self.has_times else None,
            None if self.row_is_trip else ids,
            persons if self.has_persons else None,
            self.crs,
            slices=None if self.slicing is None else np.zeros(0, np.int16),
        )
        return Trips.concat(list(self._batches()) or [none])

    def _batches(self) -> Iterator[Trips]:
        validation = self._validation = self._new_validation()
        with self._explained():
            for batch in regrouped(self._pieces(validation), self.batch):
                yield _read_only(batch)
            validation.raise_if_refused()
        validation.progress = 1.0

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn errors into an `InputError` that says in which file of the source the row is."""
        try:
            with input_errors(self.name):  # for example, text in Parquet files is not validated earlier
                yield
        except InputError as error:
            if isinstance(self._table, Trips):
                raise
            words, locate = str(error), self._table.locate
            named = len(self.name) if words.startswith(self.name) else 0  # the name of the source is not a location
            told = re.sub(r"\brow ([\d,]+)", lambda row: locate(int(row[1].replace(",", ""))), words[named:], count=1)
            raise type(error)(words[:named] + told) from None

    def _new_validation(self) -> Validation:
        return Validation(self.name, self.crs, self.on_error or "fail", self.swap_axes)

    def _pieces(self, validation: Validation) -> Iterator[Trips]:
        """Whole trips, in any order."""
        table, columns, slicing = self._table, self._columns, self.slicing
        if isinstance(table, Trips):
            named = replace(table, ids=_plain_ids(table.ids, "trip"), persons=_plain_ids(table.persons, "person"))
            sifted = validation.valid_trips(named, first_row=1)
            again = repeated([] if named.ids is None else keys_in(named).to_batches())
            return join_pieces(self._labelled([] if sifted is None else [sifted]), again, validation)
        if columns.lon or (columns.geometry and not self._has_lines(table, columns, validation)):
            return self._labelled(read_points(table, columns, validation, self.batch, slicing))
        table = table.loaded(columns.used_by_rows, validation.skip)
        again = repeated(keys_of(table, columns, self.batch, validation))
        given = columns, validation, self.batch, slicing
        if columns.geometry is None:
            return join_pieces(self._labelled(read_polylines(table, *given)), again, validation)
        if not validation.drops or not (columns.trip or columns.by_person):
            return join_pieces(self._labelled(read_lines(table, *given)), again, validation)
        points, rest = (GeometrySubset(table, columns.geometry, points) for points in (True, False))
        both = chain(read_points(points, *given), read_lines(rest, *given))
        return join_pieces(self._labelled(both), again, validation)

    def _labelled(self, parts: Iterable[Trips]) -> Iterator[Trips]:
        """The same trips, or pieces of trips, with their slices if the source is sliced."""
        return iter(parts) if self.slicing is None else map(self.slicing.labelled, parts)

    def _has_lines(self, table: Table, columns: Columns, validation: Validation) -> bool:
        """Whether a table of geometries has anything but points, which must be grouped into trips.

        If bad rows are left out, points and lines may be mixed; otherwise all must be of the type of the first.
        """
        assert columns.geometry is not None
        if validation.drops:
            batches = table.batches([columns.geometry], self.batch, skip_silently)
            put_together = columns.trip or columns.by_person
            return not put_together or not all(
                geometry_column.are_points(rows.column(columns.geometry).drop_null(), table.name).all()
                for rows, _ in batches
            )
        for rows, _ in table.batches([columns.geometry], 1024):
            known = rows.column(columns.geometry).drop_null()
            if len(known):
                return not geometry_column.are_points(known[:1], table.name)[0]
        raise InputError(
            f"{table.name} has no trips (no row has a geometry in {columns.geometry!r}); give a source with some."
        )


def _plain_ids(ids: pa.Array | None, what: str) -> pa.Array | None:
    return None if ids is None else ids_of(ids, "Trips", what)


def regrouped(pieces: Iterator[Trips], batch: int) -> Iterator[Trips]:
    """The same trips in pieces of about `batch` points: small pieces are joined, large ones cut."""
    small: list[Trips] = []
    points = 0
    for piece in pieces:
        if points and (points >= batch or piece.points > batch // 2):
            yield Trips.concat(small)
            small, points = [], 0
        if piece.points <= batch // 2:
            small.append(piece)
            points += piece.points
            continue
        start = 0
        while start < len(piece):
            stop = int(np.searchsorted(piece.offsets, piece.offsets[start] + 1.5 * batch, side="right")) - 1
            if stop < len(piece):  # more than a batch and a half are left: take one
                stop = int(np.searchsorted(piece.offsets, piece.offsets[start] + batch, side="right")) - 1
            stop = max(stop, start + 1)
            yield piece.slice(start, stop)
            start = stop
    if points:
        yield Trips.concat(small)


def _read_only(trips: Trips) -> Trips:
    """The trips with read-only arrays, as those in Arrow's memory are, so that all batches are alike."""
    arrays = [None if values is None else values.view() for values in (trips.x, trips.y, trips.time)]
    for values in arrays:
        if values is not None:
            values.flags.writeable = False
    x, y, time = arrays
    return replace(trips, x=x, y=y, time=time)  # type: ignore[arg-type]
