"""Points in a Spark data frame: whole trips are brought together by a shuffle, and only sums come back.

Each task takes the trips of one partition, adds them up with the same kernel as on one machine, and gives one row of
bytes; these are added up in a tree. A task that fails is run again by Spark and counts once.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import pyarrow as pa

from dqam.engines.keys import AROUND, NAMES, check_types, is_text, keys_of, refuse_bad, roles_of
from dqam.engines.local import Progress, quiet
from dqam.errors import EmptyError, InputError
from dqam.grid import Grid
from dqam.privacy.keeping import Keep
from dqam.records import Integers, Wanted, add_up, together
from dqam.sources import Source, read
from dqam.sources.columns import recognise
from dqam.walks import Gap, walk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


SOURCE = "The data frame"


class Spark:
    """A data frame with a point a row, on whatever cluster its session is of."""

    def __init__(
        self,
        points: DataFrame,
        keep: Keep,
        columns: dict[str, str] | None = None,
        options: dict[str, Any] | None = None,
        partitions: int | None = None,
        progress: Progress = quiet,
    ) -> None:
        """`columns` by role and `options` (crs, swap_axes, on_error) are those of `dqam.read`."""
        roles = roles_of(asdict(recognise(points.columns, SOURCE, columns)), SOURCE)
        self.unit, self._options, self._progress, self._scans = keep.unit, options or {}, progress, 0
        self._names = {role: NAMES[role] for role in roles}
        keys, session, view = keys_of(roles), points.sparkSession, f"dqam_points_{uuid4().hex}"
        renamed = points.selectExpr(*(f"{_quoted(name)} AS {NAMES[role]}" for role, name in roles.items()))
        types = {name: kind for name, kind in renamed.dtypes if name in keys}
        check_types(types, SOURCE)
        tests = [renamed[key].isNull() for key in keys]
        tests += [renamed[key].rlike(AROUND) for key in keys if is_text(types[key])]
        refuse_bad(renamed.where(reduce(or_, tests)).count(), SOURCE)
        renamed.createTempView(view)
        kept = session.sql(keep.sql(view, self._names.get("person"), self._names.get("trip")))
        session.catalog.dropTempView(view)
        count = partitions or max(2 * session.sparkContext.defaultParallelism, 8)
        order = dict.fromkeys([*keys, *self._names.values()])
        self._trips = kept.repartition(count, *keys).sortWithinPartitions(*order)

    def add_up(self, grid: Grid, gap: Gap | None, wanted: Sequence[Wanted]) -> list[Integers]:
        """One scan."""
        self._scans += 1
        names, options = self._names, self._options

        def sums(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            parts = [batch for batch in batches if batch.num_rows]
            if parts:
                source = read(pa.Table.from_batches(parts), columns=names, **options)
                try:
                    total = add_up((walk(trips, grid, gap) for trips in source), wanted)
                except EmptyError:  # all points of this part were dropped
                    return
                yield pa.record_batch({"sums": pa.array([_packed(total)], pa.binary())})

        with self._progress(f"Scan {self._scans} by Spark") as show:
            rows = self._trips.mapInArrow(sums, "sums binary").rdd
            try:
                totals: list[Integers] = rows.map(lambda row: _unpacked(row.sums)).treeReduce(together)
            except ValueError:  # there is nothing to reduce
                raise InputError("The data frame has no points.") from None
            show(1.0)
        return totals


def points_of(trips: Any) -> DataFrame:
    """A data frame as it is, or Parquet files by the session that there is, or a new one."""
    if hasattr(trips, "mapInArrow"):
        return trips
    source = trips if isinstance(trips, Source) else None if "://" in str(trips) else read(trips)
    paths = [str(trips)] if source is None else [str(file) for file in source.files]
    if odd := [path for path in paths if set(path) & set("*?[]{}\\")]:
        raise InputError(f"{odd[0]}: Spark would take this name for a pattern; rename it.")
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise InputError("Spark is not installed: pip install 'dqam[spark]'.") from None
    if not paths:
        raise InputError("Spark reads Parquet files, or takes a data frame of its own.")
    return SparkSession.builder.getOrCreate().read.parquet(*paths)


def _quoted(name: str) -> str:
    """A column's name in Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"


def _packed(sums: list[Integers] | None) -> bytes:
    file = io.BytesIO()
    np.savez(file, *(sums or []))
    return file.getvalue()


def _unpacked(content: bytes) -> list[Integers]:
    with np.load(io.BytesIO(content)) as arrays:
        return [arrays[name] for name in arrays.files]
