"""Write trips to one Parquet file of points, with the column names of scikit-mobility: uid, tid, datetime, lng, lat."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dqam.errors import InputError
from dqam.geometry.trips import Trips
from dqam.runtime.files import replacing

SCHEMA = pa.schema(
    [
        ("uid", pa.int64()),
        ("tid", pa.int64()),
        ("datetime", pa.timestamp("us")),
        ("lng", pa.float64()),
        ("lat", pa.float64()),
    ]
)
# Snappy was faster to read than zstd; times stored as differences are faster and smaller than in a dictionary.
STORED = {
    "compression": "snappy",
    "use_dictionary": ["uid", "tid", "lng", "lat"],
    "column_encoding": {"datetime": "DELTA_BINARY_PACKED"},
}
GROUP = 1_000_000  # rows of a row group: enough to read fast, few enough to hold several in memory


def write_parquet(
    batches: Iterable[Trips],
    path: str | os.PathLike[str],
    total: int,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Write trips as points, with coordinates rounded to 1e-6 degrees, and return the number of points.

    `progress(done, total)` is called after each batch with numbers of trips. The file appears when it is complete;
    until then a temporary file stands beside it, which is removed if anything goes wrong.
    """
    trips = points = waiting = 0
    tables: list[pa.Table] = []
    with replacing(path) as temporary, pq.ParquetWriter(temporary, SCHEMA, **STORED) as writer:
        for batch in batches:
            tables.append(_points(batch))
            trips, points, waiting = trips + len(batch), points + batch.points, waiting + batch.points
            if waiting >= GROUP:
                writer.write_table(pa.concat_tables(tables), row_group_size=waiting)
                tables, waiting = [], 0
            if progress is not None:
                progress(trips, total)
        if waiting:
            writer.write_table(pa.concat_tables(tables), row_group_size=waiting)
    return points


def _points(trips: Trips) -> pa.Table:
    """A table with one row for each point."""
    if trips.time is None or trips.ids is None or trips.persons is None:
        raise InputError("A table of points needs the time, id and person of every trip; these trips lack some.")
    trip = np.repeat(np.arange(len(trips)), np.diff(trips.offsets))
    columns = [
        trips.persons.take(pa.array(trip)),
        trips.ids.take(pa.array(trip)),
        pa.array(trips.time, pa.timestamp("us")),
        pa.array(trips.x.round(6)),
        pa.array(trips.y.round(6)),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)
