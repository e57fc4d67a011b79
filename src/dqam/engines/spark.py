"""The engine "spark": a Spark cluster adds up whole trips in parts, and only sums are returned.

1. Points are divided into parts by a hash of the id of their trip or person. For each million points, a task writes one
   row of bytes per part, because Spark moves few large rows much faster than many small ones.
2. Spark groups these rows by part. Each group is read as `dqam.read` reads a table on one machine, with the same
   contribution bounding. Only the grouping guarantees that trips are whole, whatever plan Spark chooses: Spark may drop
   a plain repartition from a plan or read it in pieces, and a trip would then count twice.
3. The trips of a part are added up by the same kernel as on one machine. The first scan does this as it reads them, and
   keeps their compact walks, a row for each part, for later scans. Sums are added up in a tree. A failed task is run
   again and counts once; each scan checks which parts were added up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dqam.engines.spark_parts import divided_into_parts, fingerprint, only_kept, ordered_by_time_and_place, points_of
from dqam.engines.spark_session import spark_errors, use_task_cores
from dqam.engines.spark_totals import (
    NO_TOTALS,
    SUMS,
    WHOLE,
    PartTotals,
    from_row,
    merged,
    saved_arrays,
    scan_again,
    to_record,
)
from dqam.errors import InputError
from dqam.geometry.arrays import Integers
from dqam.geometry.compact_walks import CompactWalks
from dqam.geometry.grid import Grid
from dqam.geometry.walks import Gap, walk
from dqam.privacy.contribution import ContributionBound, persons_by_trips
from dqam.privacy.sketch import NO_TRIPS, Sketch, sketch_of
from dqam.runtime.progress import Progress, polling, quiet
from dqam.sources import Source
from dqam.sources.columns import Columns
from dqam.sources.tables import ArrowTable
from dqam.sources.validation import NO_ID
from dqam.statistics.aggregate import Aggregate, add_up

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LEAST, PART = 1 << 14, 1 << 20  # approximate number of points in a part, at least and at most
SPREAD = 12  # parts per core, if there are enough points, so that no core is idle long before the others
NOBODY = np.zeros(0, np.int64)
EVERY = 0.5  # seconds between two requests for Spark's progress


class Spark:
    """The engine for a Spark data frame with one point per row, on its session's cluster. Use it in a `with` block.

    The first scan reads each part and adds up its trips. The cluster keeps them as compact walks on `grid` for later
    scans, on disk if memory is short. Each scan checks that no part was added up twice, and each later scan that the
    trips are the same as before: if the ids of a frame change each time it is evaluated, and Spark evaluates a lost
    part again, a trip could be in two parts.
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
        self.per_person: Integers | None = None
        self.grid, self.unit, self._progress, self._scans = grid, bound.unit, progress, 0
        self._source, self._bound, self._gap = source, bound, gap
        self.slices = None if source.slicing is None else len(source.slicing)
        self._whole: DataFrame | None = None  # a row for each part, with its compact walks; set by the first scan
        self._seen: dict[int, int] | None = None  # the fingerprint of the trips of each part
        with spark_errors():
            points, count = points_of(source)
            self._rows = count
            session = points.sparkSession
            context = getattr(session, "sparkContext", None)  # remote sessions have none
            self._tracker = None if context is None else context.statusTracker()
            cores = context.defaultParallelism if context else int(session.conf.get("spark.sql.shuffle.partitions"))
            self._parts = parts or max(1, min(SPREAD * cores, count // LEAST), count // PART)
            self._divided = divided_into_parts(points, bound, self._parts, source.slicing)

    def __enter__(self) -> Spark:
        return self

    def __exit__(self, *_: object) -> None:
        if self._whole is not None:
            with suppress(Exception):  # such as a lost cluster, which another error reports
                self._whole.unpersist()

    def add_up(self, aggregates: Sequence[Aggregate]) -> list[Integers]:
        """Add up the aggregates in one scan."""
        self._scans += 1
        grid, most = self.grid, self.unit.max_trips

        def again(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            use_task_cores()
            rows = (row for batch in batches for row in batch.to_pylist())
            yield to_record(merged(scan_again(row, grid, aggregates, most) for row in rows))

        def added(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield to_record(merged(from_row(row) for batch in batches for row in batch.to_pylist()))

        with spark_errors(), self._watched():
            if self._whole is None:
                each = self._whole = self._first_scan(aggregates).persist()
            else:
                each = self._whole.select("walks", "parts", "fingerprints", "rows", "error").mapInArrow(again, SUMS)
            tree = (
                each.select(*PartTotals._fields).repartition(math.isqrt(self._parts), "parts").mapInArrow(added, SUMS)
            )
            found = merged(from_row(row.asDict()) for row in tree.collect())
        if found.error is not None:
            raise InputError(found.error)
        self._check(found)
        unknown_rows = self._rows - found.rows
        if unknown_rows and self._source.on_error == "fail":
            raise InputError(f"The data frame: {unknown_rows:,} rows have no trip id; repair them.")
        if self._scans == 1 and self.unit.name == "person":
            self.per_person = persons_by_trips(NOBODY, NOBODY) if found.per_person is None else found.per_person
        if found.sketch is not None:
            self.sketch = Sketch.from_bytes(found.sketch)
        if self._scans == 1:
            self._source.note(found.dropped | ({NO_ID: unknown_rows} if unknown_rows else {}))
        return add_up([], aggregates, grid) if found.sums is None else found.sums

    def narrowed(self, max_trips: int) -> Spark:
        """See `Engine.narrowed`; the cluster keeps the walks until the `with` block of the first engine ends."""
        if self._whole is None:
            raise InputError("Fewer trips of each person can be kept only after the first scan.")
        made = copy(self)
        made.unit = replace(self.unit, max_trips=max_trips)
        return made

    def _first_scan(self, aggregates: Sequence[Aggregate]) -> DataFrame:
        """Return a row for each part: the totals and the compact walks of its trips.

        Trips are read, validated and bounded as on one machine.
        """
        bound, source, grid, gap = self._bound, self._source, self.grid, self._gap
        crs, swap_axes, on_error, key = source.crs, source.swap_axes, source.on_error, self._sketch_key
        slicing = source.slicing

        def read_part(rows: pa.Table) -> pa.Table:
            use_task_cores()
            part, kept_walks, found = rows.column("part")[0].as_py(), None, NO_TOTALS
            try:
                streams = [pa.ipc.open_stream(points.as_buffer()).read_all() for points in rows.column("points")]
                table = ArrowTable("A part of the data frame", pa.concat_tables(streams).combine_chunks())
                columns = Columns(**{role: role for role in table.names})
                part_of = Source(table, columns, crs, swap_axes, on_error, slicing=slicing)
                trips = ordered_by_time_and_place(part_of.gathered())
                places = bound.places(trips.persons, trips.ids)
                keep = None if places is None else places < bound.unit.max_trips
                kept = only_kept(trips, keep)
                walks = walk(kept, grid, gap)
                sums = add_up([walks], aggregates, grid)
                sketch = None if key is None else sketch_of(bound.candidates(trips).summary(), key).to_bytes()
                rows_in = sum(len(each) for each in streams)
                persons = bound.per_person(trips.persons)
                found = PartTotals([part], [fingerprint(kept)], sums, rows_in, part_of.dropped, sketch, persons)
                arrays = CompactWalks.of(walks).arrays
                kept_walks = saved_arrays(arrays if places is None else arrays | {"places": places[keep]})
            except InputError as reason:
                kept_walks, found = None, NO_TOTALS._replace(error=str(reason))
            record = to_record(found)
            return pa.table([pa.array([kept_walks], pa.binary()), *record.columns], ["walks", *record.schema.names])

        return self._divided.repartition(self._parts, "part").groupBy("part").applyInArrow(read_part, WHOLE)

    def _check(self, found: PartTotals) -> None:
        """Raise an `InputError` if some trips were added up twice, or differ from those of the previous scan."""
        fingerprints = dict(zip(found.parts, found.fingerprints, strict=True))
        if len(fingerprints) < len(found.parts):
            raise InputError("Spark counted some trips twice, so the result was discarded; publish again.")
        if self._seen is not None and self._seen != fingerprints:
            raise InputError("The data frame has changed since the first scan; write it to files and publish those.")
        self._seen = fingerprints

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Show a progress bar for each stage that Spark runs in the block; their number is not known beforehand."""
        what, tracker = f"Scan {self._scans} by Spark", self._tracker
        with ExitStack() as bars:
            show = bars.enter_context(self._progress(what))
            if tracker is None:
                yield
                return
            before, jobs, latest, step = set(tracker.getActiveJobsIds()), set[int](), -1, 0

            def look() -> None:
                nonlocal jobs, latest, step, show
                with suppress(Exception):  # such as a lost cluster: missing progress is no reason to stop
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

            with polling(look, EVERY):
                yield
