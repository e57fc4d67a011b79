"""The totals that a Spark scan computes for some parts, their form as rows of a data frame, and how they are merged."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from dqam.geometry.arrays import Integers
from dqam.geometry.compact_walks import CompactWalks
from dqam.geometry.grid import Grid
from dqam.privacy.contribution import of_two_parts
from dqam.privacy.sketch import Sketch
from dqam.statistics.aggregate import Aggregate, Part, add_up, combined

SUMS = "parts array<bigint>, fingerprints array<bigint>, sums binary, rows bigint, dropped map<string, bigint>, "
SUMS += "sketch binary, per_person binary, error string"
WHOLE = f"walks binary, {SUMS}"


class PartTotals(NamedTuple):
    """The results of a scan over some parts.

    parts         which parts these are
    fingerprints  one for the trips of each part
    sums          the totals of the aggregates; None for no parts
    rows          number of rows read
    dropped       number of rows left out, by reason
    sketch        a sketch of the trips, as bytes
    per_person    the number of persons by their number of trips; None if they were not counted
    error         the first error, if any
    """

    parts: list[int]
    fingerprints: list[int]
    sums: list[Integers] | None
    rows: int
    dropped: dict[str, int]
    sketch: bytes | None
    per_person: Integers | None
    error: str | None = None


NO_TOTALS = PartTotals([], [], None, 0, {}, None, None)


def saved_arrays(arrays: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def to_record(found: PartTotals) -> pa.RecordBatch:
    """Return the totals as a row of a data frame."""
    sums = None if found.sums is None else saved_arrays({str(i): each for i, each in enumerate(found.sums)})
    persons = None if found.per_person is None else found.per_person.tobytes()
    values = found._replace(sums=sums, dropped=list(found.dropped.items()), per_person=persons)  # type: ignore[arg-type]
    counts = pa.map_(pa.string(), pa.int64())
    lists = pa.list_(pa.int64()), pa.list_(pa.int64())
    kinds = *lists, pa.binary(), pa.int64(), counts, pa.binary(), pa.binary(), pa.string()
    return pa.record_batch(
        [pa.array([each], kind) for each, kind in zip(values, kinds, strict=True)], PartTotals._fields
    )


def from_row(row: dict[str, Any]) -> PartTotals:
    """The inverse of `to_record`."""
    sums = None
    if row["sums"] is not None:
        with np.load(io.BytesIO(row["sums"])) as arrays:
            sums = [arrays[name] for name in arrays.files]
    persons = None if row["per_person"] is None else np.frombuffer(row["per_person"], np.int64)
    dropped, sketch = dict(row["dropped"]), row["sketch"]
    return PartTotals(row["parts"], row["fingerprints"], sums, row["rows"], dropped, sketch, persons, row["error"])


def scan_again(row: dict[str, Any], grid: Grid, aggregates: Sequence[Aggregate], most: int) -> PartTotals:
    """Scan a part again, from the compact walks in its row of the first scan; at most `most` trips of each person."""
    sums = None
    if row["walks"] is not None:
        with np.load(io.BytesIO(row["walks"])) as file:
            arrays = dict(file)
        places = arrays.pop("places", None)  # none if every trip is a unit
        kept = None if places is None else places < most
        sums = add_up([Part(CompactWalks(grid, **arrays), kept)], aggregates, grid)
    return PartTotals(row["parts"], row["fingerprints"], sums, row["rows"], {}, None, None, row["error"])


def merged(some: Iterable[PartTotals]) -> PartTotals:
    """Merge the totals of several parts, with the first error."""
    parts, fingerprints, sums, rows, _, _, persons, error = NO_TOTALS
    dropped, sketches = Counter[str](), list[Sketch]()
    for found in some:
        parts, fingerprints, rows = parts + found.parts, fingerprints + found.fingerprints, rows + found.rows
        sums = sums if found.sums is None else combined(sums, found.sums)
        dropped.update(found.dropped)
        sketches += [] if found.sketch is None else [Sketch.from_bytes(found.sketch)]
        persons = of_two_parts(persons, found.per_person)
        error = error or found.error
    sketch = reduce(Sketch.merge, sketches).to_bytes() if sketches else None
    return PartTotals(parts, fingerprints, sums, rows, dict(dropped), sketch, persons, error)
