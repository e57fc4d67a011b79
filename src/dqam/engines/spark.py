"""Points in a Spark data frame: Spark divides them into parts of whole trips, and only sums come back.

1. Points go to parts by a hash of their trip's id, or of their person's: a row of bytes for each part and a million
   points, as Spark moves few large rows much faster than many small ones.
2. Spark groups these rows by part. Each group is read as `dqam.read` reads a table on one machine, and at most m trips
   of a person are kept as there. It is the grouping that makes trips whole, whatever plan Spark chooses: a plain
   repartition may be taken out of a plan, or be read in pieces, and a trip would count twice.
3. The trips of a part are added up with the same kernel as on one machine: in the first scan as they are read, and then
   their steps are kept, a row for each part, for the next. Sums are added up in a tree. A task that fails is run again,
   and counts once; which parts were added up is checked.
"""

from __future__ import annotations

import io
import math
import os
import re
import shutil
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dqam.errors import InputError
from dqam.geometry.arrays import Integers, Mask
from dqam.geometry.compact_walks import CompactWalks
from dqam.geometry.grid import Grid
from dqam.geometry.ids import LONGEST_ID as LONGEST
from dqam.geometry.trips import Trips, offsets_of
from dqam.geometry.walks import Gap, walk
from dqam.privacy.contribution import ContributionBound, unknown_person
from dqam.privacy.sketch import NO_TRIPS, Sketch, sketch_of
from dqam.runtime import stopping
from dqam.runtime.progress import Progress, looking, quiet
from dqam.sources import Source
from dqam.sources.columns import Columns
from dqam.sources.parquet_table import ParquetTable
from dqam.sources.reading import open_path
from dqam.sources.tables import ArrowTable
from dqam.sources.validation import NO_ID
from dqam.statistics.aggregate import Aggregate, add_up, combined

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HELD = 1 << 20  # points that a task holds while it divides them
LEAST, PART = 1 << 14, 1 << 20  # points, about, that a part has
SPREAD = 12  # parts for each core, where there are points enough, so that all have work to the end
EVERY = 0.5  # seconds, Spark is asked how far it is
SPACES = "".join(chr(code) for code in range(0x3001) if chr(code).isspace())  # what Arrow trims, and therefore `ids_of`
IDS = {"tinyint", "smallint", "int", "bigint", "string"}
ROLES = ("person", "trip", "time", "lon", "lat")
DIVIDED = "part int, points binary"
SUMS = "parts array<bigint>, marks array<bigint>, sums binary, rows bigint, dropped map<string, bigint>, "
SUMS += "sketch binary, error string"
WHOLE = f"steps binary, {SUMS}"
MIXERS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93)  # odd, and otherwise any


class Found(NamedTuple):
    """What a scan found in some parts: which parts these are, a mark of each, the sums, the number of rows, the number
    of rows left out by reason, and a sketch of the trips."""

    parts: list[int]
    marks: list[int]
    sums: list[Integers] | None
    rows: int
    dropped: dict[str, int]
    sketch: bytes | None
    error: str | None = None


NOTHING = Found([], [], None, 0, {}, None)


class Spark:
    """A data frame with a point a row, on whatever cluster its session is of. Use it in a `with` block.

    The first scan adds up trips where they are brought together, and the cluster keeps their steps on `grid` for those
    that follow, on its disks where memory is short. Each scan checks that no part was added up twice, and the second
    that the trips are those of the first: a frame whose ids come out anew each time it is evaluated, and of which Spark
    has to evaluate a lost part again, would have a trip in two parts.
    """

    def __init__(
        self,
        source: Source,
        bound: ContributionBound,
        grid: Grid,
        gap: Gap | None = None,
        parts: int | None = None,
        progress: Progress = quiet,
        sketch_key: str | None = None,
    ) -> None:
        self._sketch_key, self.sketch = sketch_key, None if sketch_key is None else NO_TRIPS
        self.grid, self.unit, self._progress, self._scans = grid, bound.unit, progress, 0
        self._source, self._bound, self._gap = source, bound, gap
        self._whole: DataFrame | None = None  # a row for each part, after the first scan
        self._seen: dict[int, int] | None = None  # a mark of the trips of each part
        with _translated():
            points, count = _points(source)
            self._rows = count
            session = points.sparkSession
            context = getattr(session, "sparkContext", None)  # not there where the session is remote
            self._tracker = None if context is None else context.statusTracker()
            cores = context.defaultParallelism if context else int(session.conf.get("spark.sql.shuffle.partitions"))
            self._parts = parts or max(1, min(SPREAD * cores, count // LEAST), count // PART)
            self._divided = _divided(points, bound, self._parts)

    def __enter__(self) -> Spark:
        return self

    def __exit__(self, *_: object) -> None:
        if self._whole is not None:
            with suppress(Exception):  # of a cluster that is gone, for one, which is not what has to be told
                self._whole.unpersist()

    def add_up(self, aggregates: Sequence[Aggregate]) -> list[Integers]:
        """One scan."""
        self._scans += 1
        grid = self.grid

        def again(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            _keep_to_cores()
            rows = (row for batch in batches for row in batch.to_pylist())
            yield _record(_together(_scanned(row, grid, aggregates) for row in rows))

        def added(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield _record(_together(_found(row) for batch in batches for row in batch.to_pylist()))

        with _translated(), self._watched():
            if self._whole is None:
                each = self._whole = self._first_scan(aggregates).persist()
            else:
                each = self._whole.select("steps", "parts", "marks", "rows", "error").mapInArrow(again, SUMS)
            tree = each.select(*Found._fields).repartition(math.isqrt(self._parts), "parts").mapInArrow(added, SUMS)
            found = _together(_found(row.asDict()) for row in tree.collect())
        if found.error is not None:
            raise InputError(found.error)
        self._check(found)
        unknown_rows = self._rows - found.rows
        if unknown_rows and self._source.on_error == "fail":
            raise InputError(f"The data frame: {unknown_rows:,} rows have no trip id; repair them.")
        if found.sketch is not None:
            self.sketch = Sketch.from_bytes(found.sketch)
        if self._scans == 1:
            self._source.note(found.dropped | ({NO_ID: unknown_rows} if unknown_rows else {}))
        return add_up([], aggregates, grid) if found.sums is None else found.sums

    def _first_scan(self, aggregates: Sequence[Aggregate]) -> DataFrame:
        """What is found in the trips of each part that are kept, read and checked and chosen as on one machine; and
        their steps."""
        bound, source, grid, gap = self._bound, self._source, self.grid, self._gap
        crs, swap_axes, on_error, key = source.crs, source.swap_axes, source.on_error, self._sketch_key

        def read_part(rows: pa.Table) -> pa.Table:
            _keep_to_cores()
            part, steps, found = rows.column("part")[0].as_py(), None, NOTHING
            try:
                streams = [pa.ipc.open_stream(points.as_buffer()).read_all() for points in rows.column("points")]
                table = ArrowTable("A part of the data frame", pa.concat_tables(streams).combine_chunks())
                columns = Columns(**{role: role for role in table.names})
                part_of = Source(table, columns, crs, swap_axes, on_error)
                trips = _settled(part_of.gathered())
                kept = _only(trips, bound.mask(trips.persons, trips.ids))
                walks = walk(kept, grid, gap)
                sums = add_up([walks], aggregates, grid)
                sketch = None if key is None else sketch_of(bound.candidates(trips).summary(), key).to_bytes()
                rows_in = sum(len(each) for each in streams)
                found = Found([part], [_mark(kept)], sums, rows_in, part_of.dropped, sketch)
                noted = CompactWalks.of(walks)
                steps = _saved({name: getattr(noted, name) for name in CompactWalks.ARRAYS})
            except InputError as reason:
                steps, found = None, NOTHING._replace(error=str(reason))
            record = _record(found)
            return pa.table([pa.array([steps], pa.binary()), *record.columns], ["steps", *record.schema.names])

        return self._divided.repartition(self._parts, "part").groupBy("part").applyInArrow(read_part, WHOLE)

    def _check(self, found: Found) -> None:
        """An `InputError` where some trips were added up twice, or are others than those of the scan before."""
        marks = dict(zip(found.parts, found.marks, strict=True))
        if len(marks) < len(found.parts):
            raise InputError("Spark has added up some trips twice; nothing of this is kept. Publish again.")
        if self._seen is not None and self._seen != marks:
            raise InputError(
                "The data frame is not what it was in the first scan; write it to files, and publish these."
            )
        self._seen = marks

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """A progress bar for each step of what Spark does in the block; it alone knows how many there will be."""
        what, tracker = f"Scan {self._scans} by Spark", self._tracker
        with ExitStack() as bars:
            show = bars.enter_context(self._progress(what))
            if tracker is None:
                yield
                return
            before, jobs, latest, step = set(tracker.getActiveJobsIds()), set[int](), -1, 0

            def look() -> None:
                nonlocal jobs, latest, step, show
                with suppress(Exception):  # of a cluster that is gone: to show nothing more is no reason to stop
                    jobs |= set(tracker.getActiveJobsIds()) - before
                    known = [job for number in jobs if (job := tracker.getJobInfo(number))]
                    stages = [stage for job in known for each in job.stageIds if (stage := tracker.getStageInfo(each))]
                    for stage in sorted(stages, key=lambda stage: stage.stageId):
                        if stage.numActiveTasks and stage.stageId > latest:
                            latest, step = stage.stageId, step + 1
                            bars.close()
                            show = bars.enter_context(self._progress(f"{what}, step {step}"))
                        if stage.stageId == latest:
                            show(stage.numCompletedTasks / max(1, stage.numTasks))

            with looking(look, EVERY):
                yield


def frame_of(path: str | os.PathLike[str]) -> DataFrame:
    """Parquet files by the session of Spark that there is, or a new one: those that `dqam.read` finds at a path, or all
    below a URL."""
    paths = [str(path)]
    if "://" not in str(path):
        table = open_path(Path(path))
        if not isinstance(table, ParquetTable):
            raise InputError(f"{path}: Spark reads Parquet files, or takes a data frame of its own.")
        paths = [f"file://{file.absolute()}" for file in table.paths]  # whatever Spark's own file system is
    for each in paths:
        if odd := set(each) & set("*?[]{}\\"):
            raise InputError(f"{each}: Spark would take {min(odd)} in a name for a pattern; rename it.")
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise InputError("Spark is not installed: pip install 'dqam[spark]'.") from None
    begins = SparkSession.getActiveSession() is None and not os.environ.get("SPARK_REMOTE")
    if begins and not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        raise InputError("Spark needs Java, 17 or later, and there is none; install it, or set JAVA_HOME.")
    before = os.umask(0o077)  # what a session that begins here writes is for this user alone
    try:
        with _translated(), stopping.later() if begins else nullcontext():  # as half a session would stay
            builder = SparkSession.builder
            if begins:  # with this Python, and no words of its own beside our bars
                os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
                warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
                builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.log.level", "OFF")
            reader = builder.getOrCreate().read
            return reader.option("recursiveFileLookup", "true").parquet(*paths)  # and no columns from folders' names
    finally:
        os.umask(before)


def _points(source: Source) -> tuple[DataFrame, int]:
    """The columns in use, named by their roles; and how many points there are."""
    frame, roles = source.frame, {role: name for role, name in source.roles.items() if role in ROLES}
    missing = {"time", "lon", "lat"} - roles.keys() or ({"trip"} if not roles.keys() & {"person", "trip"} else set())
    if missing:
        raise InputError(
            f"{source.name}: Spark needs a point a row, with columns for its trip, time, lon and lat; there is none "
            f"for {', '.join(sorted(missing))}. Name it: --column ROLE=NAME, or columns={{...}} of dqam.read."
        )
    points = frame.select(*(frame[f"`{name.replace('`', '``')}`"].alias(role) for role, name in roles.items()))
    for key, kind in points.dtypes:
        if key in ("person", "trip") and kind not in IDS:
            raise InputError(f"{source.name}: ids cannot be {kind} in Spark ({key}); make them whole numbers or text.")
    return points, int(points.count())


def _divided(points: DataFrame, bound: ContributionBound, parts: int) -> DataFrame:
    """A row for each part and some points of it. All points of a trip, and of a person who is to be hidden, are in
    one part: ids are normalised here as in `ids_of`, so that no id changes when it is read."""
    from pyspark.sql import functions

    keys = [key for key in ("person", "trip") if key in points.columns]
    for key, kind in points.dtypes:
        if key in keys:
            text = functions.btrim(functions.try_validate_utf8(points[key]), functions.lit(SPACES))
            short = functions.when(functions.octet_length(text) <= LONGEST, text)
            plain = (short, "") if kind == "string" else (points[key].cast("bigint"), 2**63 - 1)
            points = points.withColumn(key, functions.nullif(plain[0], functions.lit(plain[1])))
    points = points.where(points[keys[-1]].isNotNull())
    if bound.unit.name == "person":
        if "person" not in keys:
            raise unknown_person()
        points, keys = points.where(points["person"].isNotNull()), ["person"]

    def divide(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        for batch in batches:
            held.append(batch)
            if sum(some.num_rows for some in held) >= HELD:
                yield _by_part(held)
                held = []
        if held:
            yield _by_part(held)

    part = functions.pmod(functions.xxhash64(*keys), functions.lit(parts)).cast("int")
    return points.withColumn("part", part).mapInArrow(divide, DIVIDED)


def _by_part(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """A row for each part, with its points in the bytes of an Arrow stream."""
    table = pa.Table.from_batches(batches)
    part = table.column("part").to_numpy()
    counts = np.bincount(part)
    which = np.flatnonzero(counts)
    table = table.drop_columns(["part"]).take(pa.array(_order(part)))
    ends = np.cumsum(counts)[which]
    points = [_stream(table.slice(i, j - i)) for i, j in zip(ends - counts[which], ends, strict=True)]
    return pa.record_batch([pa.array(which, pa.int32()), pa.array(points, pa.binary())], ["part", "points"])


def _order(part: NDArray[np.int32]) -> Integers:
    """The rows by part, in the order they have there; 16 bits are sorted much faster."""
    return np.argsort(part.astype(np.uint16) if part.max(initial=0) < 1 << 16 else part, kind="stable")


def _stream(table: pa.Table) -> bytes:
    """A table in the bytes of an Arrow stream."""
    stream = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")  # less for Spark to move
    with pa.ipc.new_stream(stream, table.schema, options=options) as writer:
        writer.write_table(table)
    return stream.getvalue().to_pybytes()


def _keep_to_cores() -> None:
    """Threads for the cores that Spark has given this task, and no more."""
    from pyspark import TaskContext

    os.environ["DQAM_THREADS"] = str(TaskContext.get().cpus())


def _settled(trips: Trips) -> Trips:
    """Points of a trip that have the same time, by place: a shuffle brings them in any order."""
    assert trips.time is not None
    trip = np.repeat(np.arange(len(trips)), np.diff(trips.offsets))
    if not ((np.diff(trips.time) == 0) & (np.diff(trip) == 0)).any():
        return trips
    order = np.lexsort((trips.y, trips.x, trips.time, trip))
    return replace(trips, x=trips.x[order], y=trips.y[order], time=trips.time[order])


def _only(trips: Trips, keep: Mask | None) -> Trips:
    """The trips to keep, without their ids."""
    lengths = np.diff(trips.offsets)
    points = np.ones(trips.points, np.bool_) if keep is None else np.repeat(keep, lengths)
    offsets = offsets_of(lengths if keep is None else lengths[keep])
    assert trips.time is not None
    return Trips(trips.x[points], trips.y[points], offsets, trips.time[points], crs=trips.crs)


def _mark(trips: Trips) -> int:
    """A mark of some trips, in any order: others, or their points cut otherwise, have another but for great chance."""
    assert trips.time is not None
    place = np.arange(trips.points) - np.repeat(trips.offsets[:-1], np.diff(trips.offsets))  # of a point in its trip
    bits = np.zeros(trips.points, np.uint64)
    for values, mixer in zip((trips.x, trips.y, trips.time, place), MIXERS, strict=True):
        bits = (bits ^ values.view(np.uint64)) * np.uint64(mixer)
        bits ^= bits >> np.uint64(29)
    return int(bits.sum(dtype=np.uint64).view(np.int64))


def _saved(arrays: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _record(found: Found) -> pa.RecordBatch:
    """A row of a data frame with what was found."""
    sums = None if found.sums is None else _saved({str(i): each for i, each in enumerate(found.sums)})
    values = found._replace(sums=sums, dropped=list(found.dropped.items()))  # type: ignore[arg-type]
    counts = pa.map_(pa.string(), pa.int64())
    kinds = pa.list_(pa.int64()), pa.list_(pa.int64()), pa.binary(), pa.int64(), counts, pa.binary(), pa.string()
    return pa.record_batch([pa.array([each], kind) for each, kind in zip(values, kinds, strict=True)], Found._fields)


def _found(row: dict[str, Any]) -> Found:
    """What is in such a row."""
    sums = None
    if row["sums"] is not None:
        with np.load(io.BytesIO(row["sums"])) as arrays:
            sums = [arrays[name] for name in arrays.files]
    return Found(row["parts"], row["marks"], sums, row["rows"], dict(row["dropped"]), row["sketch"], row["error"])


def _scanned(row: dict[str, Any], grid: Grid, aggregates: Sequence[Aggregate]) -> Found:
    """What another scan finds in a part, by its row of the first."""
    sums = None
    if row["steps"] is not None:
        with np.load(io.BytesIO(row["steps"])) as arrays:
            sums = add_up([CompactWalks(grid, *(arrays[name] for name in CompactWalks.ARRAYS))], aggregates, grid)
    return Found(row["parts"], row["marks"], sums, row["rows"], {}, None, row["error"])


def _together(some: Iterable[Found]) -> Found:
    """What was found in all these, and the first error."""
    parts, marks, sums, rows, _, _, error = NOTHING
    dropped, sketches = Counter[str](), list[Sketch]()
    for found in some:
        parts, marks, rows = parts + found.parts, marks + found.marks, rows + found.rows
        sums = sums if found.sums is None else combined(sums, found.sums)
        dropped.update(found.dropped)
        sketches += [] if found.sketch is None else [Sketch.from_bytes(found.sketch)]
        error = error or found.error
    sketch = reduce(Sketch.merge, sketches).to_bytes() if sketches else None
    return Found(parts, marks, sums, rows, dict(dropped), sketch, error)


@contextmanager
def _translated() -> Iterator[None]:
    """What Spark has to say, in a sentence."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        before: BaseException | None = error
        while before := before and before.__context__:
            if isinstance(before, KeyboardInterrupt | SystemExit):  # which ended more than was still in use
                raise before from None
        words = str(error).strip().splitlines() or [type(error).__name__]
        told = [line for line in words if re.match(r"\w*(Error|Exception): ", line)]  # of a Python worker
        hint = "; its workers need dqam, and the Python of the driver (PYSPARK_PYTHON)" if "'dqam'" in str(told) else ""
        raise InputError(f"Spark could not do this ({(told or words)[-1 if told else 0][:200]}){hint}.") from error
