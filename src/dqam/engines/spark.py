"""Points in a Spark data frame: Spark divides them into parts of whole trips, and only sums come back.

1. Points go to parts by a hash of their trip's id, or of their person's: a row of bytes for each part and a million
   points, as Spark moves few large rows much faster than many small ones.
2. Spark groups these rows by part. Each group is read as `dqam.read` reads a table on one machine, and at most m trips
   of a person are kept as there. It is the grouping that makes trips whole, whatever plan Spark chooses: a plain
   repartition may be taken out of a plan, or be read in pieces, and a trip would count twice.
3. In each scan a task takes some of these rows of whole trips, and adds them up with the same kernel as on one machine,
   to one row of sums; these are added up in a tree. A task that fails is run again by Spark and counts once, and which
   tasks were added up is checked.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from operator import or_
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dqam.engines.local import Progress, quiet
from dqam.errors import EmptyError, InputError
from dqam.grid import Grid
from dqam.privacy.keeping import Keep, unknown
from dqam.records import Integers, Wanted, add_up, together
from dqam.sources import Source, regrouped
from dqam.sources.columns import Columns
from dqam.sources.intake import offsets_of
from dqam.sources.tables import ArrowTable
from dqam.trips import Trips
from dqam.walks import Gap, walk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HELD = 1 << 20  # points that a task holds while it divides them
LEAST, PART = 1 << 14, 1 << 20  # points, about, that a part has
SPREAD = 12  # parts for each core, where there are points enough, so that all have work to the end
BATCH = 1 << 18  # points of a row of whole trips
IDS = {"tinyint", "smallint", "int", "bigint", "string"}
AROUND = r"^[\s\p{Z}\p{C}]|[\s\p{Z}\p{C}]$"  # what would be trimmed from an id
ROLES = ("person", "trip", "time", "lon", "lat")
DIVIDED = "part int, points binary"
WHOLE = "trips binary, error string"
SUMS = "tasks array<int>, sums binary, error string"
EVERY = 0.5  # seconds, the progress is looked at


class Spark:
    """A data frame with a point a row, on whatever cluster its session is of. Use it in a `with` block.

    The trips are kept on the disks of the cluster between scans, and are gone after the block.
    """

    def __init__(self, source: Source, keep: Keep, parts: int | None = None, progress: Progress = quiet) -> None:
        self.unit, self._progress, self._scans = keep.unit, progress, 0
        with _translated():
            points, count = _points(source)
            session = points.sparkSession
            context = getattr(session, "sparkContext", None)  # not there where the session is remote
            self._tracker = None if context is None else context.statusTracker()
            cores = context.defaultParallelism if context else int(session.conf.get("spark.sql.shuffle.partitions"))
            self._parts = parts or max(1, min(SPREAD * cores, count // LEAST), count // PART)
            self._trips = _whole(_divided(points, keep, self._parts), self._parts, source, keep)

    def __enter__(self) -> Spark:
        from pyspark import StorageLevel

        self._trips = self._trips.persist(StorageLevel.DISK_ONLY)
        return self

    def __exit__(self, *_: object) -> None:
        self._trips.unpersist()

    def add_up(self, grid: Grid, gap: Gap | None, wanted: Sequence[Wanted]) -> list[Integers]:
        """One scan."""
        self._scans += 1

        def sums(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from pyspark import TaskContext

            task: Any = TaskContext.get()
            os.environ["DQAM_THREADS"] = str(task.cpus())
            rows = (row for batch in batches for row in zip(batch.column("trips"), batch.column("error"), strict=True))
            total, error = None, None
            try:
                total = add_up((walk(_unpacked(*row), grid, gap) for row in rows), wanted)
            except InputError as reason:
                error = str(reason)
            if total is not None or error is not None:
                yield _sums([task.partitionId()], total, error)

        def added(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            if rows := [row for batch in batches for row in batch.to_pylist()]:
                yield _sums(*_together(rows))

        with _translated(), self._watched():
            each = self._trips.mapInArrow(sums, SUMS).repartition(math.isqrt(self._parts), "tasks")
            rows = [row.asDict() for row in each.mapInArrow(added, SUMS).collect()]
        tasks, total, error = _together(rows)
        if error is not None:
            raise InputError(error)
        if len(set(tasks)) < len(tasks):
            raise InputError("Spark has added up a task twice; nothing of this is kept. Publish again.")
        if total is None:
            raise EmptyError("The data frame has no points; give one that has some.")
        return total

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """A progress bar for what Spark does in the block."""
        with self._progress(f"Scan {self._scans} by Spark") as show:
            if self._tracker is None:
                yield
                return
            done, before = Event(), set(self._tracker.getActiveJobsIds())
            watcher = Thread(target=_watch, args=(self._tracker, before, show, done), daemon=True)
            watcher.start()
            try:
                yield
            finally:
                done.set()
                watcher.join()


def frame_of(path: str | os.PathLike[str]) -> DataFrame:
    """Parquet files, or a folder of them, by the session of Spark that there is, or a new one."""
    if odd := set(str(path)) & set("*?[]{}\\"):
        raise InputError(f"{path}: Spark would take {min(odd)} in a name for a pattern; rename it.")
    if "://" not in str(path) and not os.path.exists(path):
        raise InputError(f"{path} does not exist; check the path.")
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise InputError("Spark is not installed: pip install 'dqam[spark]'.") from None
    with _translated():
        reader = SparkSession.builder.getOrCreate().read
        return reader.option("recursiveFileLookup", "true").parquet(str(path))  # and no columns from folders' names


def _points(source: Source) -> tuple[DataFrame, int]:
    """The columns in use, named by their roles, their ids checked; and how many points there are."""
    from pyspark.sql import functions

    frame, roles = source.frame, {role: name for role, name in source.roles.items() if role in ROLES}
    missing = {"time", "lon", "lat"} - roles.keys() or ({"trip"} if not roles.keys() & {"person", "trip"} else set())
    if missing:
        raise InputError(
            f"{source.name}: Spark needs a point a row, with columns for its trip, time, lon and lat; there is none "
            f"for {', '.join(sorted(missing))}. Name it, columns={{...}} of dqam.read."
        )
    points = frame.select(*(frame[f"`{name.replace('`', '``')}`"].alias(role) for role, name in roles.items()))
    keys = [(key, kind) for key, kind in points.dtypes if key in ("person", "trip")]
    for key, kind in keys:
        if kind not in IDS:
            raise InputError(f"{source.name}: ids can not be {kind} in Spark ({key}); make them whole numbers or text.")
    tests = [points[key].isNull() for key, _ in keys]
    tests += [points[key].rlike(AROUND) for key, kind in keys if kind == "string"]
    bad = functions.count_if(reduce(or_, tests))
    count, wrong = points.agg(functions.count(functions.lit(1)), bad).first()
    if wrong:
        raise InputError(
            f"{source.name}: {wrong:,} points have no id of their trip or person, or one with white space around it; "
            "repair these."
        )
    return points, int(count)


def _divided(points: DataFrame, keep: Keep, parts: int) -> DataFrame:
    """A row for each part and some points of it. All points of a trip, and of a person who is to be hidden, are of one
    part."""
    from pyspark.sql import functions

    keys = [key for key in ("person", "trip") if key in points.columns]
    if keep.unit.name == "person":
        if "person" not in keys:
            raise unknown("person")
        keys = ["person"]

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
    order = np.argsort(part, kind="stable")
    which, starts = np.unique(part[order], return_index=True)
    table = table.drop_columns(["part"]).take(pa.array(order))
    packed = []
    for start, stop in zip(starts, np.append(starts[1:], len(part)), strict=True):
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, table.schema) as writer:
            writer.write_table(table.slice(start, stop - start))
        packed.append(stream.getvalue().to_pybytes())
    return pa.record_batch([pa.array(which, pa.int32()), pa.array(packed, pa.binary())], ["part", "points"])


def _whole(divided: DataFrame, parts: int, source: Source, keep: Keep) -> DataFrame:
    """Rows of whole trips, those that are kept: read, checked and chosen as on one machine."""
    crs, swap_axes, on_error = source.crs, source.swap_axes, source.on_error

    def read_part(rows: pa.Table) -> pa.Table:
        parts = [pa.ipc.open_stream(points.as_buffer()).read_all() for points in rows.column("points")]
        table = ArrowTable("A part of the data frame", pa.concat_tables(parts).combine_chunks())
        columns = Columns(**{role: role for role in table.names})
        packed, error = [], None
        try:
            trips = _settled(Trips.concat(list(Source(table, columns, crs, swap_axes, on_error))))
            chosen = _only(trips, keep.mask(trips.persons, trips.ids))
            packed = [_packed(some) for some in regrouped(iter([chosen]), BATCH)]
        except EmptyError:  # all points of this part were dropped
            pass
        except InputError as reason:
            packed, error = [b""], str(reason)
        return pa.table({"trips": pa.array(packed, pa.binary()), "error": pa.array([error] * len(packed), pa.string())})

    return divided.repartition(parts, "part").groupBy("part").applyInArrow(read_part, WHOLE)


def _settled(trips: Trips) -> Trips:
    """Points of a trip that have the same time, by place: a shuffle brings them in any order."""
    assert trips.time is not None
    trip = np.repeat(np.arange(len(trips)), np.diff(trips.offsets))
    if not ((np.diff(trips.time) == 0) & (np.diff(trip) == 0)).any():
        return trips
    order = np.lexsort((trips.y, trips.x, trips.time, trip))
    return replace(trips, x=trips.x[order], y=trips.y[order], time=trips.time[order])


def _only(trips: Trips, keep: NDArray[np.bool_] | None) -> Trips:
    """The trips to keep, without their ids."""
    lengths = np.diff(trips.offsets)
    points = np.ones(trips.points, np.bool_) if keep is None else np.repeat(keep, lengths)
    offsets = offsets_of(lengths if keep is None else lengths[keep])
    assert trips.time is not None
    return Trips(trips.x[points], trips.y[points], offsets, trips.time[points], crs=trips.crs)


def _packed(trips: Trips) -> bytes:
    return _saved(
        {"x": trips.x, "y": trips.y, "offsets": trips.offsets, "time": trips.time, "crs": np.array(trips.crs)}
    )


def _unpacked(trips: pa.Scalar, error: pa.Scalar) -> Trips:
    if error.is_valid:
        raise InputError(error.as_py())
    with np.load(io.BytesIO(trips.as_buffer())) as arrays:
        return Trips(arrays["x"], arrays["y"], arrays["offsets"], arrays["time"], crs=str(arrays["crs"]))


def _saved(arrays: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _sums(tasks: list[int], sums: list[Integers] | None, error: str | None) -> pa.RecordBatch:
    """A row with the sums of some tasks."""
    packed = None if sums is None else _saved({str(i): each for i, each in enumerate(sums)})
    columns = pa.array([tasks], pa.list_(pa.int32())), pa.array([packed], pa.binary()), pa.array([error], pa.string())
    return pa.record_batch(list(columns), ["tasks", "sums", "error"])


def _together(rows: list[dict[str, Any]]) -> tuple[list[int], list[Integers] | None, str | None]:
    """What some rows have in sum: of which tasks, how much, and the first error."""
    tasks, total, error = [], None, None
    for row in rows:
        tasks += row["tasks"]
        error = error or row["error"]
        if row["sums"] is not None:
            with np.load(io.BytesIO(row["sums"])) as arrays:
                total = together(total, [arrays[name] for name in arrays.files])
    return tasks, total, error


def _watch(tracker: Any, before: set[int], show: Callable[[float], None], done: Event) -> None:
    """Show the share of tasks that have ended, until it is all done."""
    jobs: set[int] = set()
    while not done.wait(EVERY):
        jobs |= set(tracker.getActiveJobsIds()) - before
        found = [
            tracker.getStageInfo(stage) for job in jobs if (of := tracker.getJobInfo(job)) for stage in of.stageIds
        ]
        stages = [stage for stage in found if stage]
        show(sum(stage.numCompletedTasks for stage in stages) / max(1, sum(stage.numTasks for stage in stages)))


@contextmanager
def _translated() -> Iterator[None]:
    """What Spark has to say, in a sentence."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        words = str(error).strip().splitlines()
        raise InputError(f"Spark could not do this ({words[0][:200] if words else type(error).__name__}).") from error
