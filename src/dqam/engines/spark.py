"""Points in a Spark data frame: Spark makes each trip one row, and only sums come back.

Each task takes some trips, adds them up with the same kernel as on one machine, and gives one row of bytes; rows are
added up in a tree. As a trip is a row, no plan that Spark may choose can count it twice; a task that fails is run again
by Spark and counts once, and which tasks were added up is checked.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import or_
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dqam.engines.local import Progress, quiet
from dqam.errors import EmptyError, InputError
from dqam.grid import Grid, is_degrees
from dqam.privacy.keeping import Keep, unknown
from dqam.records import Integers, Wanted, add_up, together
from dqam.sources import Source, regrouped
from dqam.sources.columns import Columns
from dqam.sources.points import gather
from dqam.sources.tables import ArrowTable
from dqam.walks import Gap, walk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BATCH = 1 << 18  # points
IDS = {"tinyint", "smallint", "int", "bigint", "string"}
AROUND = r"^[\s\p{Z}\p{C}]|[\s\p{Z}\p{C}]$"  # what would be trimmed from an id
ROLES = ("person", "trip", "time", "lon", "lat")
PART = "parts array<int>, sums binary, error string"
EVERY = 0.5  # seconds, the progress is looked at


class Spark:
    """A data frame with a point a row, on whatever cluster its session is of. Use it in a `with` block.

    The trips are kept on the disks of the cluster between scans, and are gone after the block.
    """

    def __init__(self, source: Source, keep: Keep, partitions: int | None = None, progress: Progress = quiet) -> None:
        self.unit, self._crs, self._progress, self._scans = keep.unit, source.crs, progress, 0
        with _translated():
            points = _points(source)
            self._columns = Columns(**{role: role for role in points.columns})
            session = points.sparkSession
            context = getattr(session, "sparkContext", None)  # not there where the session is remote
            self._tracker = None if context is None else context.statusTracker()
            many = 3 * context.defaultParallelism if context else int(session.conf.get("spark.sql.shuffle.partitions"))
            self._partitions = partitions or max(many, 4)
            self._trips = _kept(_trips(points, self._columns.keys, self._partitions), keep, self._columns)

    def __enter__(self) -> Spark:
        from pyspark import StorageLevel

        self._trips.persist(StorageLevel.DISK_ONLY)
        return self

    def __exit__(self, *_: object) -> None:
        self._trips.unpersist()

    def add_up(self, grid: Grid, gap: Gap | None, wanted: Sequence[Wanted]) -> list[Integers]:
        """One scan."""
        self._scans += 1
        crs, columns = self._crs, self._columns

        def sums(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from pyspark import TaskContext

            task: Any = TaskContext.get()
            os.environ["DQAM_THREADS"] = str(task.cpus())
            points = (part for batch in batches for part in Source(_rows(batch), columns, crs, False, "fail").points())
            total, error = None, None
            try:
                trips = regrouped(gather(points, columns.person is not None, crs), BATCH)
                total = add_up((walk(some, grid, gap) for some in trips), wanted)
            except InputError as reason:
                error = str(reason)
            if total is not None or error is not None:
                yield _part([task.partitionId()], total, error)

        def added(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            rows = [row for batch in batches for row in batch.to_pylist()]
            if rows:
                yield _part(*_together(rows))

        some = math.isqrt(self._partitions)
        parts = self._trips.mapInArrow(sums, PART).repartition(some, "parts").mapInArrow(added, PART)
        with _translated(), self._watched():
            rows = [row.asDict() for row in parts.collect()]
        which, total, error = _together(rows)
        if error is not None:
            raise InputError(error)
        if len(set(which)) < len(which):
            raise InputError("Spark has added up a task twice; publish again, and nothing of this is spent or kept.")
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
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise InputError("Spark is not installed: pip install 'dqam[spark]'.") from None
    with _translated():
        reader = SparkSession.builder.getOrCreate().read
        return reader.option("recursiveFileLookup", "true").parquet(str(path))  # and no columns from folders' names


def _points(source: Source) -> DataFrame:
    """The columns in use, named by their roles, checked."""
    from pyspark.sql import functions

    frame, roles = source.frame, {role: name for role, name in source.roles.items() if role in ROLES}
    missing = {"time", "lon", "lat"} - roles.keys() or ({"trip"} if not roles.keys() & {"person", "trip"} else set())
    if missing:
        raise InputError(
            f"{source.name}: Spark needs a point a row, with columns for its trip, time, lon and lat; there is none "
            f"for {', '.join(sorted(missing))}. Name it, columns={{...}} of dqam.read."
        )
    picked = frame.select(*(frame[f"`{name.replace('`', '``')}`"].alias(role) for role, name in roles.items()))
    kinds = dict(picked.dtypes)
    keys = [role for role in ("person", "trip") if role in roles]
    for key in keys:
        if kinds[key] not in IDS:
            raise InputError(f"{source.name}: ids can not be {kinds[key]} in Spark; make them whole numbers or text.")
    tests = [picked[key].isNull() for key in keys]
    tests += [picked[key].rlike(AROUND) for key in keys if kinds[key] == "string"]
    if bad := picked.where(reduce(or_, tests)).count():
        raise InputError(
            f"{source.name}: {bad:,} points have no id of their trip or person, or one with white space around it; "
            "repair these."
        )
    x, y = (picked[role].cast("double") for role in (("lat", "lon") if source.swap_axes else ("lon", "lat")))
    points = picked.select(*keys, "time", x.alias("lon"), y.alias("lat"))
    if source.on_error == "fail":
        return points
    limits = (180.0, 90.0) if is_degrees(source.crs) else (float(np.finfo(np.float64).max),) * 2
    valid = (functions.abs(points["lon"]) <= limits[0]) & (functions.abs(points["lat"]) <= limits[1])
    return points.where(valid & points["time"].isNotNull())


def _trips(points: DataFrame, keys: list[str], partitions: int) -> DataFrame:
    """A row for each trip, its points in the order of time. It is the grouping that makes trips whole, whatever plan
    Spark chooses; to divide the points before it only saves the grouping of parts."""
    from pyspark.sql import functions

    listed = functions.sort_array(functions.collect_list(functions.struct("time", "lon", "lat")))
    return points.repartition(partitions, *keys).groupBy(*keys).agg(listed.alias("points"))


def _kept(trips: DataFrame, keep: Keep, columns: Columns) -> DataFrame:
    """The trips that are kept, as `Keep` has it; without ids of trips a person is one trip."""
    from pyspark.sql import Window, functions

    if keep.unit.name == "person" and columns.person is None:
        raise unknown("person")
    if keep.unit.name == "trip" or columns.trip is None:
        return trips
    mixed = functions.md5(functions.concat(functions.lit(keep.salt), functions.col("trip").cast("string")))
    place = functions.row_number().over(Window.partitionBy("person").orderBy(mixed, "trip"))
    return trips.withColumn("place", place).where(functions.col("place") <= keep.unit.max_trips).drop("place")


def _rows(trips: pa.RecordBatch) -> ArrowTable:
    """A point a row again."""
    lists = trips.column("points")
    points, trip = lists.flatten(), pa.array(np.repeat(np.arange(len(lists)), lists.value_lengths()))
    keys = {name: trips.column(name).take(trip) for name in trips.schema.names if name != "points"}
    return ArrowTable("A part of the data frame", pa.table(keys | {n: points.field(n) for n in ("time", "lon", "lat")}))


def _part(parts: list[int], sums: list[Integers] | None, error: str | None) -> pa.RecordBatch:
    """A row with the sums of some tasks."""
    packed = None
    if sums is not None:
        file = io.BytesIO()
        np.savez(file, *sums)
        packed = file.getvalue()
    columns = pa.array([parts], pa.list_(pa.int32())), pa.array([packed], pa.binary()), pa.array([error], pa.string())
    return pa.record_batch(list(columns), ["parts", "sums", "error"])


def _together(rows: list[dict[str, Any]]) -> tuple[list[int], list[Integers] | None, str | None]:
    """What some rows have in sum: of which tasks, how much, and the first error."""
    which, total, error = [], None, None
    for row in rows:
        which += row["parts"]
        error = error or row["error"]
        if row["sums"] is not None:
            with np.load(io.BytesIO(row["sums"])) as arrays:
                total = together(total, [arrays[name] for name in arrays.files])
    return which, total, error


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
