"""Trips from files and data frames, recognised by what is in them.

`read` gives a `Source`, which yields batches of whole trips, each time it is iterated, in little memory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dqam.errors import InputError
from dqam.geometry.grid import DEGREES, parse_crs
from dqam.geometry.trips import Trips
from dqam.sources import geometry_column
from dqam.sources.columns import Columns, recognise
from dqam.sources.frames import SparkTable, open_object
from dqam.sources.points import clean_points, read_points
from dqam.sources.porto import read_polylines
from dqam.sources.rows import OfOneKind, joined, keys_in, keys_of, read_lines, repeated
from dqam.sources.tables import Table, ignored, open_path, open_url, translated
from dqam.sources.validation import Intake
from dqam.sources.values import ids_of

BATCH = 1 << 20  # points
ON_ERROR = ("fail", "drop")

__all__ = ["Source", "read"]


def read(
    path_or_object: Any,
    *,
    columns: Mapping[str, str] | None = None,
    crs: str | None = None,
    swap_axes: bool = False,
    on_error: str | None = None,
) -> Source:
    """Trips of a file, a folder of Parquet files, a URL of them, a data frame, MovingPandas trajectories or `Trips`.

    A data frame of Spark stays where it is, and is for `dqam.publish`.

    columns    names of columns by role (trip, person, time, lon, lat, geometry, polyline), where not recognised;
               an empty name for a role that should not be used
    crs        the coordinate reference system, where the source declares none or a wrong one
    swap_axes  exchange x and y
    on_error   "fail" on the first row that cannot be used, or "drop" such rows and count them in `Source.dropped`. If
               not given, `dqam.publish` drops them, so that no row decides whether there is a release; all else fails

    >>> import pyarrow as pa
    >>> points = pa.table({"ride": [1, 1, 2], "x": [-30.01, -30.0, -29.99], "y": [45.0, 45.0, 45.01]})
    >>> source = read(points, columns={"trip": "ride"})
    >>> source.roles
    {'trip': 'ride', 'lon': 'x', 'lat': 'y'}
    >>> len(source.trips())
    2
    """
    if on_error not in (None, *ON_ERROR):
        raise InputError(f"on_error is 'fail' or 'drop'; got {on_error!r}.")
    if crs is not None:
        parse_crs(crs)
    if isinstance(path_or_object, Trips):
        return Source(path_or_object, Columns(), crs or path_or_object.crs, swap_axes, on_error)
    hints: dict[str, str] = {}
    if isinstance(path_or_object, str) and "://" in path_or_object:
        table = open_url(path_or_object)
    elif isinstance(path_or_object, str | os.PathLike):
        table = open_path(Path(path_or_object))
    else:
        table, hints = open_object(path_or_object)
    if table.geometry is not None:
        hints["geometry"] = table.geometry
    found = recognise(table.names, table.name, columns, hints)
    if crs is None and found.geometry:
        crs = table.crs(found.geometry)
    made = Source(table, found, crs or DEGREES, swap_axes, on_error)
    if isinstance(path_or_object, str | os.PathLike):
        made.path = path_or_object if isinstance(path_or_object, str) else Path(path_or_object)
    return made


class Source:
    """Trips that are read anew at each iteration, in batches of whole trips.

    name   the file's name, or the type of the object
    path   the file or URL; None where the source is an object
    crs    the coordinate reference system of the trips; swap_axes and on_error as they were given to `read`
    batch  approximate number of points in a batch

    A trip is defined by its id, within its person where there is one: rows with the same ids are one trip in every
    format. In a table with one trip per row and no ids, every row is a trip of its own.
    """

    def __init__(
        self,
        table: Table | Trips,
        columns: Columns,
        crs: str,
        swap_axes: bool,
        on_error: str | None = None,
        batch: int = BATCH,
    ) -> None:
        self._table, self._columns = table, columns
        self.swap_axes, self.on_error = swap_axes, on_error
        self.name = "Trips" if isinstance(table, Trips) else table.name
        self.path: Path | str | None = None
        self.crs, self.batch = crs, batch
        self._intake = self._new_intake()

    @property
    def progress(self) -> float:
        """The part of the source that the latest iteration has read, from 0 to 1; any thread may ask."""
        return self._intake.progress

    @property
    def dropped(self) -> dict[str, int]:
        """What the latest iteration has left out: reason -> count."""
        return self._intake.dropped

    def note(self, dropped: Mapping[str, int]) -> None:
        """Add counts of rows that were left out by another reader of the source."""
        for reason, count in dropped.items():
            self._intake.drop(reason, count)

    @property
    def joined(self) -> int:
        """How many rows the latest iteration joined to others with the same ids, in a table with one trip per row."""
        return self._intake.joined

    @property
    def left_out(self) -> list[str]:
        """What the latest iteration did not use, and how many rows it joined, in words for the custodian."""
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
        """The same source, with rows that cannot be used left out, unless `on_error` was given."""
        if self.on_error is not None:
            return self
        made = copy(self)
        made.on_error = "drop"
        made._intake = made._new_intake()
        return made

    @property
    def roles(self) -> dict[str, str]:
        """The columns in use, by role."""
        return {role: name for role, name in asdict(self._columns).items() if name is not None}

    @property
    def frame(self) -> Any:
        """Spark's data frame, if it is one."""
        return self._table.frame if isinstance(self._table, SparkTable) else None

    def points(self, batch: int) -> Iterator[pa.RecordBatch]:
        """The points of a table with a point a row, as they come and each checked as for trips, at most so many at a
        time: columns key0 (of the person), key1 (of the trip; or one of them), t (if there is a time), x and y."""
        columns = self._columns
        if isinstance(self._table, Trips) or columns.polyline or not columns.keys:
            raise InputError(f"{self.name} is not a table with a point a row; use the engine 'local'.")
        intake = self._intake = self._new_intake()
        with self._explained():
            for rows, _ in clean_points(self._table, columns, intake, batch):
                yield rows

    @property
    def notes(self) -> list[str]:
        """What a user should know of how the source is read."""
        columns, notes = self._columns, []
        if isinstance(self._table, Trips):
            return []
        if self.person_is_trip:
            notes.append(
                f"{self.name} has no trip ids: all points of a {columns.person} are one trip. If a column has "
                "trip ids, name it: --column trip=NAME."
            )
        if self.row_is_trip:
            notes.append(
                f"{self.name} has no trip ids: every row is a trip. If a column has trip ids, name it: "
                "--column trip=NAME."
            )
        if columns.lon and not columns.time:
            notes.append(
                f"{self.name} has no time: points of a trip are taken in the order of the rows. If a column has "
                "the time, name it: --column time=NAME."
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
        )
        return Trips.concat(list(self._batches()) or [none])

    def _batches(self) -> Iterator[Trips]:
        intake = self._intake = self._new_intake()
        with self._explained():
            for batch in regrouped(self._pieces(intake), self.batch):
                yield _read_only(batch)
            intake.finish()
        intake.progress = 1.0

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """What is wrong with the source, in a sentence, and in which of its files."""
        try:
            with translated(self.name):  # text in Parquet, for one, is not checked before it is used
                yield
        except InputError as error:
            if isinstance(self._table, Trips):
                raise
            words, place = str(error), self._table.place
            named = len(self.name) if words.startswith(self.name) else 0  # rows are counted through all files
            told = re.sub(r"\brow ([\d,]+)", lambda row: place(int(row[1].replace(",", ""))), words[named:], count=1)
            raise type(error)(words[:named] + told) from None

    def _new_intake(self) -> Intake:
        return Intake(self.name, self.crs, self.on_error or "fail", self.swap_axes)

    def _pieces(self, intake: Intake) -> Iterator[Trips]:
        """Whole trips, in any order."""
        table, columns = self._table, self._columns
        if isinstance(table, Trips):
            named = replace(table, ids=_plain_ids(table.ids, "trip"), persons=_plain_ids(table.persons, "person"))
            sifted = intake.sift(named, first_row=1)
            again = repeated([] if named.ids is None else keys_in(named).to_batches())
            return joined(iter([] if sifted is None else [sifted]), again, intake)
        if columns.lon or (columns.geometry and not self._has_lines(table, columns, intake)):
            return read_points(table, columns, intake, self.batch)
        table = table.loaded(columns.used_by_rows, intake.skip)
        again = repeated(keys_of(table, columns, self.batch, intake))
        if columns.geometry is None:
            return joined(read_polylines(table, columns, intake, self.batch), again, intake)
        if not intake.drops or not (columns.trip or columns.by_person):
            return joined(read_lines(table, columns, intake, self.batch), again, intake)
        points, rest = (OfOneKind(table, columns.geometry, points) for points in (True, False))
        both = chain(read_points(points, columns, intake, self.batch), read_lines(rest, columns, intake, self.batch))
        return joined(both, again, intake)

    def _has_lines(self, table: Table, columns: Columns, intake: Intake) -> bool:
        """Whether a table of geometries has anything but points, which must be grouped into trips.

        If bad rows are left out, each row is read as what it is; otherwise all must be of the kind of the first.
        """
        assert columns.geometry is not None
        if intake.drops:
            batches = table.batches([columns.geometry], self.batch, ignored)
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
    """The same trips in pieces of about `batch` points: small ones joined, large ones cut, the rest left alone."""
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
    """Views that cannot be written to, as Arrow's memory cannot: all batches of a source are alike."""
    arrays = [None if values is None else values.view() for values in (trips.x, trips.y, trips.time)]
    for values in arrays:
        if values is not None:
            values.flags.writeable = False
    x, y, time = arrays
    return replace(trips, x=x, y=y, time=time)  # type: ignore[arg-type]
