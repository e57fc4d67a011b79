"""Points in any order, on this machine's disk: DuckDB sorts them by trip within a limit of memory.

The sorted points are the checkpoint of all scans: a Parquet file in a folder of its own that only the user can read,
and that goes away with the engine. DuckDB gets points as `dqam.read` has checked them, under names of our own, so that
ids mean the same as in memory.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from dqam.engines.local import Local, Progress, quiet
from dqam.errors import EmptyError, InputError
from dqam.grid import Grid
from dqam.privacy.keeping import Keep
from dqam.records import Integers, Wanted
from dqam.sources import Source, regrouped
from dqam.sources.points import gather
from dqam.sources.tables import ParquetTable, translated
from dqam.trips import Trips
from dqam.walks import Gap

OWN = 520 << 20  # bytes that this process needs beside DuckDB
LEAST = 200 << 20
BATCH = 1 << 18  # points, of a row group and of a batch


class Disk:
    """A source with a point a row; sorted when it is first scanned. Use it in a `with` block.

    memory  bytes that all of it may take, about
    folder  where there is room for all points; the system's temporary folder if not given
    """

    def __init__(
        self, source: Source, keep: Keep, memory: int = 4 << 30, folder: str | None = None, progress: Progress = quiet
    ) -> None:
        if memory < OWN + LEAST:
            raise InputError(
                f"{memory / 2**20:,.1f} MiB of memory is too little for DuckDB; give {(OWN + LEAST) >> 20}MiB or more."
            )
        if source.roles.keys() & {"lon", "geometry"} and "time" not in source.roles:
            raise InputError(
                f"{source.name} has no time, by which DuckDB would order the points of a trip; name it, --column "
                "time=NAME, or use the engine 'local' if the rows are in order."
            )
        self.unit = keep.unit
        self._source, self._keep, self._memory, self._progress = source, keep, memory, progress
        self._folder = tempfile.TemporaryDirectory(prefix="dqam-", dir=folder)
        self._sorted: Local | None = None

    def __enter__(self) -> Disk:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def add_up(self, grid: Grid, gap: Gap | None, wanted: Sequence[Wanted]) -> list[Integers]:
        """One scan of the sorted points."""
        if self._sorted is None:
            self._sorted = Local(self._sort(), self._progress)
        return self._sorted.add_up(grid, gap, wanted)

    def _sort(self) -> Sorted:
        """All points of the trips that are kept, ordered by trip, then by time, then as they came."""
        source, folder = self._source, Path(self._folder.name)
        path, base_path, roles = folder / "sorted.parquet", folder / "points.db", source.roles
        config = {"memory_limit": f"{self._memory - OWN}B", "temp_directory": str(folder)}
        with (
            translated(source.name),
            _explained(source.name, folder),
            duckdb.connect(base_path, config=config) as base,
        ):
            base.execute("SET preserve_insertion_order = false")  # of what is not ordered
            base.execute("SET enable_progress_bar = true")
            base.execute("SET enable_progress_bar_print = false")  # the bar is ours
            names = self._load(base)
            person, trip = "key0" if "person" in roles else None, "key1" if "key1" in names else None
            kept = self._keep.sql("points", person, trip)
            order = ", ".join(name for name in names if name not in ("x", "y"))
            target = str(path).replace("'", "''")
            self._run(
                base,
                f"COPY (SELECT * EXCLUDE (row) FROM ({kept}) ORDER BY {order}) TO '{target}' "
                f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {BATCH})",
                "Sorting",
                lambda: max(0.0, base.query_progress()) / 100,
            )
        base_path.unlink()
        return Sorted(source.name, path, person is not None, source.crs)

    def _load(self, base: duckdb.DuckDBPyConnection) -> list[str]:
        """All points into a table of the database; the names of its columns."""
        source, failures = self._source, list[Exception]()

        def numbered() -> Iterator[pa.RecordBatch]:
            row = 0
            try:
                for part in source.points():
                    yield part.append_column("row", pa.array(np.arange(row, row + part.num_rows, dtype=np.int64)))
                    row += part.num_rows
            except Exception as error:  # which DuckDB would put in its own words
                failures.append(error)
                raise

        parts = numbered()
        if (first := next(parts, None)) is None:
            raise EmptyError(f"{source.name} has no points; give a source with some.")
        base.register("parts", pa.RecordBatchReader.from_batches(first.schema, chain([first], parts)))
        try:
            self._run(base, "CREATE TABLE points AS FROM parts", "Reading", lambda: source.progress)
        except duckdb.Error:
            if failures:
                raise failures[0] from None
            raise
        base.unregister("parts")
        return [str(name) for name in first.schema.names]

    def _run(self, base: duckdb.DuckDBPyConnection, statement: str, what: str, share: Callable[[], float]) -> None:
        """Execute, and show how far it is."""
        with self._progress(f"{what} {self._source.name}") as show, ThreadPoolExecutor(1) as pool:
            running = pool.submit(base.execute, statement)
            try:
                while not wait([running], timeout=0.2).done:
                    show(share())
            except BaseException:  # the user wants it to stop
                base.interrupt()
                raise
            running.result()


@contextmanager
def _explained(name: str, folder: Path) -> Iterator[None]:
    """What DuckDB has to say about the disk or its memory, in a sentence."""
    try:
        yield
    except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
        free = shutil.disk_usage(folder).free / 2**20
        raise InputError(
            f"There was no room to sort {name} ({str(error).splitlines()[0][:120]}): {folder.parent} has {free:,.0f} "
            "MiB left, and some 60 bytes a point are needed; set TMPDIR to a larger disk, or give more --memory."
        ) from None


class Sorted:
    """Trips of a Parquet file with clean points, those of a trip together."""

    def __init__(self, name: str, path: Path, has_person: bool, crs: str) -> None:
        self.name, self.progress = name, 0.0
        self._path, self._has_person, self._crs = path, has_person, crs

    def __iter__(self) -> Iterator[Trips]:
        return regrouped(gather(self._points(), self._has_person, self._crs), BATCH)

    def _points(self) -> Iterator[pa.RecordBatch]:
        table = ParquetTable(self.name, [self._path])
        for rows, self.progress in table.batches(table.names, BATCH):
            yield rows
