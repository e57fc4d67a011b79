"""Points in any order, on this machine's disk: DuckDB sorts them by trip within a limit of memory.

The sorted points are the checkpoint of all scans: a Parquet file in a folder of its own that only the user can read,
and that goes away with the engine.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import duckdb

from dqam.engines.keys import AROUND, NAMES, check_types, is_text, keys_of, refuse_alike, refuse_bad, roles_of
from dqam.engines.local import Local, Progress, quiet
from dqam.errors import InputError
from dqam.grid import Grid
from dqam.privacy.keeping import Keep
from dqam.records import Integers, Wanted
from dqam.sources import Source, read
from dqam.sources.tables import translated
from dqam.walks import Gap

OWN = 400 << 20  # bytes that this process needs beside DuckDB
LEAST = 200 << 20
ROW_GROUP = 1 << 18
BATCH = 1 << 18  # points


class Disk:
    """A Parquet file of points, or a folder of them; sorted when it is first scanned. Use it in a `with` block.

    memory  bytes that all of it may take, about
    folder  where there is room for all points; the system's temporary folder if not given
    """

    def __init__(
        self, source: Source, keep: Keep, memory: int = 4 << 30, folder: str | None = None, progress: Progress = quiet
    ) -> None:
        if not source.files or not source.is_points:
            raise InputError(
                f"{source.name}: DuckDB sorts Parquet files with a point a row, and columns for trip, time, lon and "
                "lat; give these, or use the engine 'local'."
            )
        self._roles = roles_of(source.roles, source.name)
        self.unit = keep.unit
        if memory < OWN + LEAST:
            raise InputError(f"{memory / 2**20:,.0f} MiB of memory is too little; give {(OWN + LEAST) >> 20} or more.")
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

    def _sort(self) -> Source:
        """All points, ordered by trip and then by time, as a source."""
        source, path, roles = self._source, Path(self._folder.name, "sorted.parquet"), self._roles
        keys, names = keys_of(roles), {role: NAMES[role] for role in roles}
        columns = ", ".join(f"{_quoted(name)} AS {NAMES[role]}" for role, name in roles.items())
        files = ", ".join(f"'{_literal(file)}'" for file in source.files)
        order = ", ".join(dict.fromkeys([*keys, *names.values()]))
        config = {"memory_limit": f"{self._memory - OWN}B", "temp_directory": self._folder.name}
        with translated(source.name), duckdb.connect(config=config) as base:
            base.execute("SET preserve_insertion_order = false")
            base.execute("SET enable_progress_bar_print = false")  # the bar is ours
            read_all = f"read_parquet([{files}], hive_partitioning = false)"
            found = [str(row[0]) for row in base.execute(f"DESCRIBE SELECT * FROM {read_all}").fetchall()]
            refuse_alike(found, roles, source.name)
            base.execute(f"CREATE VIEW points AS SELECT {columns} FROM {read_all}")
            types = {row[0]: str(row[1]) for row in base.execute("DESCRIBE points").fetchall() if row[0] in keys}
            check_types(types, source.name)
            tests = [f"{key} IS NULL" for key in keys]
            tests += [f"regexp_matches({key}, '{AROUND}')" for key in keys if is_text(types[key])]
            bad = base.execute(f"SELECT count(*) FROM points WHERE {' OR '.join(tests)}").fetchone()
            refuse_bad(bad[0], source.name)
            kept = self._keep.sql("points", names.get("person"), names.get("trip"))
            self._run(
                base,
                f"COPY (SELECT * FROM ({kept}) ORDER BY {order}) TO '{str(path).replace(chr(39), chr(39) * 2)}' "
                f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP})",
            )
        made = read(path, columns=names, crs=source.crs, swap_axes=source.swap_axes, on_error=source.on_error)
        made.name, made.batch = source.name, BATCH
        return made

    def _run(self, base: duckdb.DuckDBPyConnection, statement: str) -> None:
        """Execute, and show how far it is."""
        with self._progress(f"Sorting {self._source.name}") as show, ThreadPoolExecutor(1) as pool:
            running = pool.submit(base.execute, statement)
            while not wait([running], timeout=0.2).done:
                show(max(0.0, base.query_progress()) / 100)
            running.result()


def _quoted(name: str) -> str:
    """A column's name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def _literal(file: Path) -> str:
    """A file's path in SQL, with nothing in it taken for a pattern."""
    return re.sub(r"[\[*?]", r"[\g<0>]", str(file)).replace("'", "''")
