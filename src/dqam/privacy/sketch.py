"""Sketches: small samples of keyed hashes by which trips that were published under another name are recognised.

The ledger keeps a sketch of each publication. Sketches are for the custodian only and never part of a release. The key
is random and stays in the ledger and in the memory of the workers that make a sketch. Without it the hashes reveal
nothing; with it, anyone can test whether a trip they know was hashed.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dqam.errors import InputError
from dqam.geometry.arrays import Integers
from dqam.privacy.contribution import _base

K = 16_384  # most hashes in a sample
FEW = 8  # with fewer common hashes, samples are no evidence
DENSE = 8  # integer ids are dense if at least one in this many, from the smallest to the largest, is used
BATCH = 1 << 17  # rows
NO_NUMBERS = (2**63 - 1, -1)  # the smallest and the largest of an empty set
HEADER = struct.Struct("<6q")

Hashes = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Sketch:
    """A bottom-k sketch of a set of trips: two samples of 64-bit keyed hashes, the K smallest of each.

    ids             uint64[at most K], sorted: hashes of (person, trip id), of trips that have an id
    trips           uint64[at most K], sorted: hashes of the box around a trip's points and the time of its first; of
                    the box, person and trip id if the time is unknown
    trip_numbers    smallest and largest number that a trip id ends with; the smallest is -1 if an id is anything
                    but non-digits followed by 1 to 18 digits
    person_numbers  the same for persons

    If there are times, the `trips` sample does not depend on ids, so that a copy with new ids, or none, is recognised.
    Without times, ids are needed, because trips between the same two stations have the same box.

    **Merging.** The K smallest values of a union are among the K smallest of its parts. So sketches of parts merge into
    the sketch of the whole, in any order and however the set was divided. A trip that is in two parts counts once.

    **Estimating.** A sample of K hashes holds all hashes of its set up to the largest of them; a smaller sample holds
    all that there are. So both sets are known completely up to the smaller of the two thresholds. Hashes under a
    random key behave like independent uniform numbers, so this part is a random sample of the union, at the same rate
    for trips of either set and of both. The share of the smaller set's hashes in it that the other has too estimates
    the share of all, with a standard error of sqrt(p (1 - p) / m) for a share p and m hashes of the smaller set: at
    most 0.004 for sets of equal size, and 0.02 if half of a set that is 30 times smaller is in the other (m is about
    K / 30 = 546). If both sets have fewer than K trips, the answer is exact unless two different trips have equal
    hashes, which for sets of 16,384 has a probability below 10^-10. Larger sets need at least 8 common hashes;
    otherwise the answer is 0. Disjoint sets have none, and a trip or two in common cannot look like many. A subset is
    found with a probability above 0.99999 if it has at least 1/600 of the trips (m is about 27 or more).

    **Dense ids.** Ids such as 1 to n, or "trip 1" to "trip n", occur in every file and are no evidence. Two unrelated
    sets of integers that each use one in q of a range are expected to share 1/q. So ids count as evidence only if q is
    above 8 in both sets, for trip ids or for persons.
    """

    ids: Hashes = field(repr=False)
    trips: Hashes = field(repr=False)
    trip_numbers: tuple[int, int] = field(default=NO_NUMBERS, repr=False)
    person_numbers: tuple[int, int] = field(default=NO_NUMBERS, repr=False)

    def merge(self, other: Sketch) -> Sketch:
        """The sketch of the union of both sets; both must have been made with the same key."""
        return Sketch(
            _smallest(self.ids, other.ids),
            _smallest(self.trips, other.trips),
            _union(self.trip_numbers, other.trip_numbers),
            _union(self.person_numbers, other.person_numbers),
        )

    def overlap(self, other: Sketch) -> float:
        """The estimated share, from 0 to 1, of the smaller set that is also in the other.

        It is the larger of the shares by trips and by ids.
        """
        by_trips = _overlap(self.trips, other.trips)
        return by_trips if self._dense or other._dense else max(by_trips, _overlap(self.ids, other.ids))

    @property
    def _dense(self) -> bool:
        """Whether the ids are of a kind that any file may have."""
        known = len(self.ids)
        size = known if known < K else (K - 1) * 2.0**64 / float(self.ids[-1])
        return all(low >= 0 and high - low < DENSE * size for low, high in (self.trip_numbers, self.person_numbers))

    def to_bytes(self) -> bytes:
        """The sketch as bytes, the same on every machine."""
        header = HEADER.pack(len(self.ids), len(self.trips), *self.trip_numbers, *self.person_numbers)
        return header + self.ids.astype("<u8").tobytes() + self.trips.astype("<u8").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Sketch:
        """The sketch that `to_bytes` wrote, or an `InputError` if the bytes are not one."""
        if len(data) >= HEADER.size:
            ids, trips, *numbers = HEADER.unpack_from(data)
            if 0 <= ids <= K and 0 <= trips <= K and len(data) == HEADER.size + 8 * (ids + trips):
                hashes = np.frombuffer(data, "<u8", offset=HEADER.size).astype(np.uint64)
                samples = hashes[:ids], hashes[ids:]
                if all(np.all(sample[1:] > sample[:-1]) for sample in samples):
                    return cls(*samples, (numbers[0], numbers[1]), (numbers[2], numbers[3]))
        raise InputError(f"These {len(data):,} bytes are not a sketch; restore the ledger from a backup.")


NO_TRIPS = Sketch(np.empty(0, np.uint64), np.empty(0, np.uint64))


def sketch_of(trips: pa.Table, key: str) -> Sketch:
    """The sketch of a table with one row per trip.

    west, south, east, north  float64, the box around the trip's points; trips without one are left out
    person, trip              int64, uint64 or text, optional; ids that read the same, such as 17 and "17", are equal
    time                      int64, optional: when the trip began
    """
    with _base().cursor() as base:
        base.register("dqam_trips", trips)
        return sketch_sql(base, "SELECT * FROM dqam_trips", key)


def sketch_sql(base: duckdb.DuckDBPyConnection, query: str, key: str) -> Sketch:
    """The sketch of the rows that `query` returns, with the columns of `sketch_of`.

    Rows are hashed in the database and never all in memory. Boxes are compared as 32-bit floats, so that a copy that
    was stored in that precision is recognised. Texts are hashed with their lengths, so that ("a", "bc") and
    ("ab", "c") differ.
    """
    given = base.sql(f"SELECT * FROM ({query}) LIMIT 0").columns
    person, trip, time = (
        f"{name}::VARCHAR" if name in given else "NULL::VARCHAR" for name in ("person", "trip", "time")
    )
    # The key is part of the query: with a parameter, DuckDB would collect all rows before the first is read.
    secret = "'" + key.replace("'", "''") + "'"
    ids = f"concat({_spelled(person)}, {_spelled(trip)})"
    ids_without_time = f"CASE WHEN {time} IS NULL THEN {ids} END"
    # Adding 0 turns -0 into 0; values that do not fit a 32-bit float count as unknown.
    sides = (f"(TRY_CAST({side} AS FLOAT) + 0::FLOAT)::BIT::INTEGER" for side in ("west", "south", "east", "north"))
    box = ", ".join(_spelled(f"{side}::VARCHAR") for side in sides)
    found = base.sql(
        f"SELECT CASE WHEN {trip} IS NOT NULL THEN md5_number_lower(concat({secret}, 'ids', {ids})) END, "
        f"md5_number_lower(concat({secret}, 'trips', {box}, {_spelled(time)}, {ids_without_time})), "
        f"{_number(trip)}, {_number(person)} FROM ({query}) WHERE NOT isnan(west)"
    )
    sketch = NO_TRIPS
    for batch in (getattr(found, "to_arrow_reader", None) or found.fetch_record_batch)(BATCH):
        ids_in, trips_in, trip_numbers, person_numbers = (column.drop_null().to_numpy() for column in batch.columns)
        sketch = sketch.merge(Sketch(ids_in, trips_in, _range(trip_numbers), _range(person_numbers)))
    return sketch


def _spelled(text: str) -> str:
    """SQL for a text that can be separated from what follows it."""
    return f"coalesce(strlen({text}) || ':' || {text}, '-')"


def _number(text: str) -> str:
    """SQL for the number that an id ends with; -1 if the id is anything but non-digits followed by 1 to 18 digits."""
    return (
        f"CASE WHEN {text} IS NOT NULL THEN "
        f"coalesce(TRY_CAST(regexp_extract({text}, '^[^0-9]*([0-9]{{1,18}})$', 1) AS BIGINT), -1) END"
    )


def _smallest(known: Hashes, new: Hashes) -> Hashes:
    """The K smallest distinct hashes of both. Most new ones are too large and are dropped before sorting."""
    found = np.sort(np.concatenate([known, new[new < known[-1]] if len(known) == K else new]))
    return found[np.append(True, found[1:] != found[:-1])[: len(found)]][:K]


def _range(numbers: Integers) -> tuple[int, int]:
    return (int(numbers.min()), int(numbers.max())) if len(numbers) else NO_NUMBERS


def _union(ours: tuple[int, int], theirs: tuple[int, int]) -> tuple[int, int]:
    return min(ours[0], theirs[0]), max(ours[1], theirs[1])


def _overlap(ours: Hashes, theirs: Hashes) -> float:
    """The share of the smaller set that is in the other, estimated from their samples."""
    thresholds = [hashes[-1] for hashes in (ours, theirs) if len(hashes) == K]
    if thresholds:
        ours, theirs = (hashes[hashes <= min(thresholds)] for hashes in (ours, theirs))
    both = np.sort(np.concatenate([ours, theirs]), kind="stable")  # a stable sort merges sorted runs quickly
    common = int(np.count_nonzero(both[1:] == both[:-1]))
    if not common or (thresholds and common < FEW):
        return 0.0
    return common / min(len(ours), len(theirs))
