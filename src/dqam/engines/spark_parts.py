"""Divide the points of a Spark data frame into parts of whole trips, by a hash of the trip's or the person's id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dqam.errors import InputError
from dqam.geometry.arrays import Integers, Integers32, Mask
from dqam.geometry.ids import LONGEST_ID
from dqam.geometry.slicing import Slicing
from dqam.geometry.trips import Trips, offsets_of
from dqam.privacy.contribution import ContributionBound, unknown_person
from dqam.sources import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HELD = 1 << 20  # points that a task holds in memory while it divides them
SPACES = "".join(chr(code) for code in range(0x3001) if chr(code).isspace())  # what Arrow trims, and therefore `ids_of`
IDS = {"tinyint", "smallint", "int", "bigint", "string"}
ROLES = ("person", "trip", "time", "lon", "lat", "kind")
DIVIDED = "part int, points binary"
MIXERS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93)  # any odd numbers


def points_of(source: Source) -> tuple[DataFrame, int]:
    """Return the columns in use, named by their roles, and the number of points."""
    frame, roles = source.frame, {role: name for role, name in source.roles.items() if role in ROLES}
    missing = {"time", "lon", "lat"} - roles.keys() or ({"trip"} if not roles.keys() & {"person", "trip"} else set())
    if missing:
        raise InputError(
            f"{source.name}: Spark needs one row per point, with columns for trip, time, lon and lat; there is none "
            f"for {', '.join(sorted(missing))}. Name it: columns={{'{min(missing)}': 'NAME'}}."
        )
    points = frame.select(*(frame[f"`{name.replace('`', '``')}`"].alias(role) for role, name in roles.items()))
    for key, kind in points.dtypes:
        if key in ("person", "trip") and kind not in IDS:
            raise InputError(f"{source.name}: ids cannot be {kind} in Spark ({key}); make them whole numbers or text.")
    return points, int(points.count())


def divided_into_parts(
    points: DataFrame, bound: ContributionBound, parts: int, slicing: Slicing | None = None
) -> DataFrame:
    """Return rows that each hold the number of a part and some of its points.

    Of a value that decides the slice no more is kept than which of the public values it is, if any.

    All points of a trip are in one part, and so are all points of a person if the unit is a person: ids are normalised
    here as in `ids_of`, so that no id changes when it is read.
    """
    from pyspark.sql import functions

    keys = [key for key in ("person", "trip") if key in points.columns]
    for key, kind in points.dtypes:
        if key in keys:
            text = functions.btrim(functions.try_validate_utf8(points[key]), functions.lit(SPACES))
            short = functions.when(functions.octet_length(text) <= LONGEST_ID, text)
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
            if slicing is not None and "kind" in batch.schema.names:
                place = batch.schema.names.index("kind")
                batch = batch.set_column(place, "kind", slicing.listed(batch.column(place)))
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


def _order(part: Integers32) -> Integers:
    """Indices that sort rows by part and keep their order within a part; 16-bit numbers are sorted much faster."""
    return np.argsort(part.astype(np.uint16) if part.max(initial=0) < 1 << 16 else part, kind="stable")


def _stream(table: pa.Table) -> bytes:
    """A table in the bytes of an Arrow stream."""
    stream = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")  # so that Spark moves less
    with pa.ipc.new_stream(stream, table.schema, options=options) as writer:
        writer.write_table(table)
    return stream.getvalue().to_pybytes()


def ordered_by_time_and_place(trips: Trips) -> Trips:
    """Order points of a trip with the same time by their coordinates: a shuffle delivers them in any order."""
    assert trips.time is not None
    trip = np.repeat(np.arange(len(trips)), np.diff(trips.offsets))
    if not ((np.diff(trips.time) == 0) & (np.diff(trip) == 0)).any():
        return trips
    order = np.lexsort((trips.y, trips.x, trips.time, trip))
    return replace(trips, x=trips.x[order], y=trips.y[order], time=trips.time[order])


def only_kept(trips: Trips, keep: Mask | None) -> Trips:
    """The trips to keep, without their ids."""
    lengths = np.diff(trips.offsets)
    points = np.ones(trips.points, np.bool_) if keep is None else np.repeat(keep, lengths)
    offsets = offsets_of(lengths if keep is None else lengths[keep])
    assert trips.time is not None
    slices = trips.slices if keep is None or trips.slices is None else trips.slices[keep]
    return Trips(trips.x[points], trips.y[points], offsets, trips.time[points], crs=trips.crs, slices=slices)


def fingerprint(trips: Trips) -> int:
    """A number that does not depend on the order of the trips; other trips, or other cuts, almost surely change it."""
    assert trips.time is not None
    lengths = np.diff(trips.offsets)
    place = np.arange(trips.points) - np.repeat(trips.offsets[:-1], lengths)  # index within the trip
    if trips.slices is not None:
        place += np.repeat(trips.slices.astype(np.int64) << 32, lengths)
    bits = np.zeros(trips.points, np.uint64)
    for values, mixer in zip((trips.x, trips.y, trips.time, place), MIXERS, strict=True):
        bits = (bits ^ values.view(np.uint64)) * np.uint64(mixer)
        bits ^= bits >> np.uint64(29)
    return int(bits.sum(dtype=np.uint64).view(np.int64))
