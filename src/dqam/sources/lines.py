"""Tables with one trip a row, its way a LineString."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from dqam.errors import InputError
from dqam.sources import geometry
from dqam.sources.columns import Columns
from dqam.sources.intake import Intake, offsets_of
from dqam.sources.points import are_distinct
from dqam.sources.tables import Table
from dqam.sources.values import ids_of
from dqam.trips import Trips

_POINTS_A_TRIP = 32  # a guess, to read about as many rows at once as fill a batch


def read_lines(table: Table, columns: Columns, intake: Intake, batch: int) -> Iterator[Trips]:
    """The trips of a table of LineStrings. Null and empty ones are dropped and counted.

    Where there is a trip id, no two rows may have the same: a trip in two rows would be counted twice.
    """
    assert columns.geometry is not None
    trip = columns.trip or columns.id
    names = list(dict.fromkeys(name for name in (columns.geometry, trip, columns.person) if name))
    row, seen = 1, []
    for rows, fraction in table.batches(names, max(1, batch // _POINTS_A_TRIP)):
        x, y, lengths = geometry.lines(rows.column(columns.geometry), table.name, row)
        ids = ids_of(rows.column(trip), table.name, trip) if trip else None
        if columns.trip:
            seen.append(pa.record_batch({key: ids_of(rows.column(key), table.name, key) for key in columns.keys}))
        persons = ids_of(rows.column(columns.person), table.name, columns.person) if columns.person else None
        trips = intake.sift(Trips(x, y, offsets_of(lengths), None, ids, persons, intake.crs), row)
        row += rows.num_rows
        intake.advance(fraction)
        if trips is not None:
            yield trips
    if not are_distinct(seen):
        raise InputError(
            f"{table.name} has several rows with the same {columns.trip}, and a trip is one row here; join the lines "
            "of each trip, give its points instead, or rename the column if rows are trips of their own."
        )
