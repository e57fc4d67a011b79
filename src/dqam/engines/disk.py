"""The engine "duckdb": DuckDB sorts points by trip on this machine's disk, within a memory limit.

DuckDB gets the points that `dqam.read` has validated, with fixed column names, so that ids mean the same as in memory.
The first scan adds up trips as they come out of the sort, and stores them as compact walks, which all later scans read.
All files are in a temporary folder that only the user can read, and that is removed with the engine.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeVar

import duckdb
import numpy as np
import pyarrow as pa

from dqam.errors import InputError
from dqam.geometry.arrays import Integers
from dqam.geometry.compact_walks import CompactWalks
from dqam.geometry.grid import Grid
from dqam.geometry.ids import missing_id, with_nulls
from dqam.geometry.trips import Trips
from dqam.geometry.walks import AnyWalks, Gap, walk
from dqam.privacy.contribution import ContributionBound, persons_by_trips
from dqam.privacy.sketch import NO_TRIPS, Sketch, sketch_sql
from dqam.runtime import stopping
from dqam.runtime.progress import EVERY, Progress, Show, quiet
from dqam.sources import Source, regrouped
from dqam.sources.points import assemble_trips
from dqam.statistics.aggregate import Aggregate, Part, add_up

T = TypeVar("T")

OWN = 640 << 20  # bytes that this process needs in addition to DuckDB
LEAST = 160 << 20
BATCH = 1 << 18  # points
NOBODY = np.zeros(0, np.int64)


class Disk:
    """The engine for a source with one point per row, which is sorted at the first scan. Use it in a `with` block.

    grid    the grid on which trips become walks; they are cut at a `gap`
    memory  approximate limit on memory, in bytes
    folder  a folder with enough room for all points; by default the system's temporary folder
    """

    def __init__(
        self,
        source: Source,
        bound: ContributionBound,
        grid: Grid,
        gap: Gap | None = None,
        memory: int = 4 << 30,
        folder: str | None = None,
        progress: Progress = quiet,
        sketch_key: str | None = None,
    ) -> None:
        if memory < OWN + LEAST:
            raise InputError(
                f"{memory / 2**20:,.1f} MiB of memory is too little for DuckDB; give at least memory={OWN + LEAST}."
            )
        if source.roles.keys() & {"lon", "geometry"} and "time" not in source.roles:
            raise InputError(
                f"{source.name} has no time column, which DuckDB needs to order the points of a trip; name it, "
                "columns={'time': 'NAME'}, or use engine='local' if the rows are in order."
            )
        self.grid, self.unit = grid, bound.unit
        self.slices = None if source.slicing is None else len(source.slicing)
        self._source, self._bound, self._gap, self._memory, self._progress = source, bound, gap, memory, progress
        with stopping.delay_signals():
            self._temporary = tempfile.TemporaryDirectory(prefix="dqam-", dir=folder)
        self._folder = Path(self._temporary.name)
        self._walks_file: Path | None = None  # the compact walks of all trips, after the first scan
        self._scans = 0
        self._sketch_key, self.sketch = sketch_key, None if sketch_key is None else NO_TRIPS
        self.per_person: Integers | None = None

    def __enter__(self) -> Disk:
        return self

    def __exit__(self, *_: object) -> None:
        with stopping.delay_signals():
            self._temporary.cleanup()

    def narrowed(self, max_trips: int) -> Disk:
        """See `Engine.narrowed`; the files are kept until the `with` block of the first engine ends."""
        if self._walks_file is None:
            raise InputError("Fewer trips of each person can be kept only after the first scan.")
        made = copy(self)
        made.unit = replace(self.unit, max_trips=max_trips)
        return made

    def add_up(self, aggregates: Sequence[Aggregate]) -> list[Integers]:
        """Add up the aggregates in one scan."""
        self._scans += 1
        with closing(self._first_scan() if self._walks_file is None else self._next_scan(self._walks_file)) as walks:
            return add_up(walks, aggregates, self.grid)

    def _first_scan(self) -> Generator[AnyWalks]:
        """Yield all walks, computed from the points, and store them as compact walks.

        Trips are sorted by their place among those of their person. So the first trips in the file, as many as persons
        have at most m of, are those that are kept for m.
        """
        path, trips_found = self._folder / "compact_walks", 0
        with path.open("wb") as file, closing(self._sorted()) as points:
            trips: Iterator[Trips] = assemble_trips(points, "person" in self._source.roles, self._source.crs)
            if self._source.slicing is not None:
                trips = map(self._source.slicing.labelled, trips)
            for walks in (walk(each, self.grid, self._gap) for each in regrouped(trips, BATCH)):
                yield walks
                trips_found += len(walks)
                compact = CompactWalks.of(walks)
                with self._explained():
                    for array in compact.arrays.values():
                        np.save(file, array)
                    file.flush()
        if self._kept not in (None, trips_found):  # the places of trips would be wrong
            raise InputError(f"{self._source.name} changed while it was read; publish again.")
        self._walks_file = path

    @property
    def _kept(self) -> int | None:
        """The number of trips that are kept; None for all."""
        if self.per_person is None:
            return None
        return int(self.per_person @ np.minimum(np.arange(len(self.per_person)), self.unit.max_trips))

    def _next_scan(self, path: Path) -> Generator[AnyWalks | Part]:
        """Yield the walks of the trips that are kept, read from the compact walks."""
        size, names = path.stat().st_size, CompactWalks.ARRAYS[: None if self.slices else -1]
        left = self._kept
        with path.open("rb") as file, self._scanning() as show:
            while file.tell() < size and left != 0:
                walks = CompactWalks(self.grid, **{name: np.load(file) for name in names})
                if left is None or left >= len(walks):
                    yield walks
                else:
                    yield Part(walks, np.arange(len(walks)) < left)
                left = None if left is None else max(left - len(walks), 0)
                show(file.tell() / size)

    def _scanning(self) -> AbstractContextManager[Show]:
        return self._progress(f"Scan {self._scans} of {self._source.name}")

    def _sorted(self) -> Generator[pa.RecordBatch]:
        """Yield all points of the trips that are kept, ordered by trip, then by time, then as in the source."""
        with (
            self._explained(),
            tempfile.TemporaryDirectory(dir=self._folder) as room,
            duckdb.connect(
                f"{room}/points.db", config={"memory_limit": f"{self._memory - OWN}B", "temp_directory": room}
            ) as base,
        ):
            base.execute("SET preserve_insertion_order = false")  # applies only to results without ORDER BY
            base.execute("SET enable_progress_bar = true")
            base.execute("SET enable_progress_bar_print = false")  # we show our own
            columns = self._load(base)
            if columns is None:
                self.per_person = persons_by_trips(NOBODY, NOBODY) if self.unit.name == "person" else None
                return
            names = list(columns.names)
            if self._sketch_key is not None:
                sketched = partial(self._sketched, base, columns, self._sketch_key)
                self.sketch = self._run(base, sketched, "Comparing", lambda: max(0.0, base.query_progress()) / 100)
            person, trip = "key0" if "person" in self._source.roles else None, "key1" if "key1" in names else None
            if person is not None and self.unit.name == "person":
                counts = partial(self._count_persons, base, self._bound.per_person_sql("points", person, trip))
                self.per_person = self._run(base, counts, "Counting", lambda: max(0.0, base.query_progress()) / 100)
            order = ", ".join(name for name in names if name not in ("x", "y", "kind"))
            kept = self._bound.sql("points", person, trip)
            query = f"SELECT * EXCLUDE (row, dqam_place) FROM ({kept}) ORDER BY dqam_place, {order}"
            rows, done = base.sql("SELECT count(*) FROM points").fetchall()[0][0], 0

            def sort() -> Iterator[pa.RecordBatch]:
                found = base.sql(query)
                # Before DuckDB 1.4 the same method had another name.
                return iter((getattr(found, "to_arrow_reader", None) or found.fetch_record_batch)(BATCH))

            parts = self._run(base, sort, "Sorting", lambda: max(0.0, base.query_progress()) / 100)
            with self._scanning() as show:
                for part in parts:
                    yield part
                    done += part.num_rows
                    show(done / max(1, rows))

    def _sketched(self, base: duckdb.DuckDBPyConnection, columns: pa.Schema, key: str) -> Sketch:
        """A sketch of all trips, the same as one made from `Trips.summary`."""
        keys = [name for name in columns.names if name.startswith("key")]
        none = missing_id(columns.field("key0").type).as_py()
        person = f"nullif(key0, {none!r}) AS person, " if "person" in self._source.roles else ""
        sides = "min(x) AS west, min(y) AS south, max(x) AS east, max(y) AS north"
        time = ", min(t) AS time" if "t" in columns.names else ""
        trips = f"SELECT {person}{keys[-1]} AS trip, {sides}{time} FROM points GROUP BY {', '.join(keys)}"
        return sketch_sql(base, trips, key)

    def _count_persons(self, base: duckdb.DuckDBPyConnection, query: str) -> Integers:
        """The number of persons by their number of trips."""
        found = base.sql(query).fetchnumpy()
        return persons_by_trips(found["trips"].astype(np.int64), found["persons"].astype(np.int64))

    def _load(self, base: duckdb.DuckDBPyConnection) -> pa.Schema | None:
        """Load all points into a table of the database; return its columns, or None if there are no points."""
        source, failures = self._source, list[Exception]()

        def numbered() -> Iterator[pa.RecordBatch]:
            row = 0
            try:
                for part in source.points(BATCH // 2):
                    if self._bound.unit.name == "person":
                        part = part.filter(with_nulls(part.column("key0")).is_valid())
                    yield part.append_column("row", pa.array(np.arange(row, row + part.num_rows, dtype=np.int64)))
                    row += part.num_rows
            except Exception as error:  # DuckDB would replace it by an error of its own
                failures.append(error)
                raise

        parts = numbered()
        if (first := next(parts, None)) is None:
            return None
        base.register("parts", pa.RecordBatchReader.from_batches(first.schema, chain([first], parts)))
        try:
            load = partial(base.execute, "CREATE TABLE points AS FROM parts")
            self._run(base, load, "Reading", lambda: source.progress)
        except duckdb.Error:
            if failures:
                raise failures[0] from None
            raise
        base.unregister("parts")
        return first.schema

    def _run(self, base: duckdb.DuckDBPyConnection, work: Callable[[], T], what: str, share: Callable[[], float]) -> T:
        """Return the result of a DuckDB call, and show its progress."""
        with self._progress(f"{what} {self._source.name}") as show, ThreadPoolExecutor(1) as pool:
            running = pool.submit(work)
            try:
                while not wait([running], timeout=EVERY).done:
                    show(share())
            finally:
                while not running.done():  # an interrupt: stop DuckDB, whatever further interrupts arrive
                    with suppress(KeyboardInterrupt, SystemExit):
                        base.interrupt()
                        wait([running], timeout=EVERY)
            return running.result()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn errors about memory and disk space into an `InputError` of one sentence."""
        try:
            yield
        except (duckdb.IOException, duckdb.OutOfMemoryException, pa.ArrowException, OSError) as error:
            free = shutil.disk_usage(self._folder).free / 2**20
            raise InputError(
                f"There was no room to sort {self._source.name} ({str(error).splitlines()[0][:120]}): "
                f"{self._folder.parent} has {free:,.0f} MiB left, and about 50 bytes per point are needed; set TMPDIR "
                "to a larger disk, or give more memory=..."
            ) from None
