"""Trips as ragged arrays of points.

Every reader produces `Trips`, and walks are computed from them. Points of all trips stand in one array for each
coordinate, and offsets say where each trip begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dqam.geometry.arrays import Floats, Integers, Labels, Mask
from dqam.geometry.grid import DEGREES


@dataclass(frozen=True, eq=False)
class Trips:
    """n trips; trip i has the points offsets[i] to offsets[i + 1], in travel order.

    x, y     float64[points], in the units of `crs`; longitude and latitude if these are degrees
    offsets  int64[n + 1], from 0 to the number of points
    time     int64[points], microseconds since 1970 or since any fixed moment; None if unknown
    ids      n trip ids of any Arrow type; None if the source has none
    persons  n person ids of any Arrow type; None if the source has none
    cuts     int64[k], increasing: points that are not joined to the previous one; None if there are none
    slices   int16[n]: the slice that each trip is in (`dqam.geometry.slicing`); None if there are no slices
    """

    x: Floats
    y: Floats
    offsets: Integers
    time: Integers | None = None
    ids: pa.Array | None = None
    persons: pa.Array | None = None
    crs: str = DEGREES
    cuts: Integers | None = None
    slices: Labels | None = None

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y) or self.offsets[0] != 0 or self.offsets[-1] != len(self.x):
            raise ValueError(f"{len(self.x)} x and {len(self.y)} y do not fit offsets up to {self.offsets[-1]}.")
        if self.offsets.dtype != np.int64 or (np.diff(self.offsets) < 0).any():
            raise ValueError(f"offsets must be int64 and never decrease; these are {self.offsets.dtype}.")
        for name, values, size in (
            ("time", self.time, len(self.x)),
            ("ids", self.ids, len(self)),
            ("persons", self.persons, len(self)),
            ("slices", self.slices, len(self)),
        ):
            if values is not None and len(values) != size:
                raise ValueError(f"{name} must have {size} entries; got {len(values)}.")
        if self.slices is not None and self.slices.dtype != np.int16:
            raise ValueError(f"slices must be int16; these are {self.slices.dtype}.")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        known = "".join(f", {name}" for name in ("time", "ids", "persons", "slices") if getattr(self, name) is not None)
        return f"<Trips: {len(self):,} trips, {self.points:,} points{known} ({self.crs})>"

    @property
    def points(self) -> int:
        """The number of points of all trips together."""
        return len(self.x)

    @property
    def starts(self) -> Integers | None:
        """int64[n]: the earliest time of each trip, none of which may be empty; None if there are no times."""
        if self.time is None:
            return None
        firsts = self.offsets[:-1]
        return np.minimum.reduceat(self.time, firsts) if len(firsts) else np.zeros(0, np.int64)

    @classmethod
    def from_lists(cls, trips: Sequence[Sequence[tuple[float, float]]], crs: str = DEGREES) -> Trips:
        """Trips from plain lists of (x, y).

        >>> len(Trips.from_lists([[(0.0, 0.0), (1.0, 1.0)], [(2.0, 2.0)]]))
        2
        """
        offsets = np.concatenate([[0], np.cumsum([len(trip) for trip in trips], dtype=np.int64)]).astype(np.int64)
        points = np.array([point for trip in trips for point in trip], dtype=np.float64).reshape(-1, 2)
        return cls(points[:, 0].copy(), points[:, 1].copy(), offsets, crs=crs)

    def slice(self, start: int, stop: int) -> Trips:
        """Trips start to stop, without copying points."""
        first, last = self.offsets[start], self.offsets[stop]
        cuts = self.cuts
        return Trips(
            self.x[first:last],
            self.y[first:last],
            self.offsets[start : stop + 1] - first,
            None if self.time is None else self.time[first:last],
            None if self.ids is None else self.ids[start:stop],
            None if self.persons is None else self.persons[start:stop],
            self.crs,
            None if cuts is None else cuts[np.searchsorted(cuts, first) : np.searchsorted(cuts, last)] - first,
            None if self.slices is None else self.slices[start:stop],
        )

    def kept(self, points: Mask | None, trips: Mask) -> Trips:
        """The trips where `trips`, bool[n], is true, with those of their points where `points`, bool[points], is."""
        if points is None and trips.all():
            return self
        lengths = np.diff(self.offsets)
        stay = np.repeat(trips, lengths) if points is None else points & np.repeat(trips, lengths)
        before = np.concatenate([[0], np.cumsum(stay)])  # number of points that stay before each point, and in total
        stays = pa.array(trips)
        return Trips(
            self.x[stay],
            self.y[stay],
            offsets_of(np.diff(before[self.offsets])[trips]),
            None if self.time is None else self.time[stay],
            None if self.ids is None else self.ids.filter(stays),
            None if self.persons is None else self.persons.filter(stays),
            self.crs,
            None if self.cuts is None else _places(before[self.cuts], int(before[-1])),
            None if self.slices is None else self.slices[trips],
        )

    def taken(self, order: Integers) -> Trips:
        """The trips with the indices `order`, int64[any number], in this order and as often as they occur."""
        lengths = np.diff(self.offsets)[order]
        offsets = offsets_of(lengths)
        points = np.arange(offsets[-1]) + np.repeat(self.offsets[order] - offsets[:-1], lengths)
        cut = np.zeros(self.points, np.bool_)
        cut[[] if self.cuts is None else self.cuts] = True
        which = pa.array(order)
        return Trips(
            self.x[points],
            self.y[points],
            offsets,
            None if self.time is None else self.time[points],
            None if self.ids is None else self.ids.take(which),
            None if self.persons is None else self.persons.take(which),
            self.crs,
            None if self.cuts is None else np.flatnonzero(cut[points]),
            None if self.slices is None else self.slices[order],
        )

    def summary(self) -> pa.Table:
        """A row for each trip: west, south, east and north of its points, its earliest time, and its ids if any."""
        starts = self.offsets[:-1]
        sides = (np.minimum, self.x), (np.minimum, self.y), (np.maximum, self.x), (np.maximum, self.y)
        columns: dict[str, object] = {
            name: side.reduceat(values, starts) if len(starts) else np.zeros(0)
            for name, (side, values) in zip(("west", "south", "east", "north"), sides, strict=True)
        }
        if self.time is not None:
            columns["time"] = self.starts
        columns |= {name: ids for name, ids in (("person", self.persons), ("trip", self.ids)) if ids is not None}
        return pa.table(columns)

    @classmethod
    def concat(cls, batches: Sequence[Trips]) -> Trips:
        """Join batches from the same source."""
        if len(batches) == 1:
            return batches[0]
        first, starts = batches[0], np.cumsum([0, *(batch.points for batch in batches)])
        cuts = [start + batch.cuts for start, batch in zip(starts, batches, strict=False) if batch.cuts is not None]
        return cls(
            np.concatenate([batch.x for batch in batches]),
            np.concatenate([batch.y for batch in batches]),
            offsets_of(np.concatenate([np.diff(batch.offsets) for batch in batches])),
            None if first.time is None else np.concatenate([batch.time for batch in batches]),
            None if first.ids is None else _joined([batch.ids for batch in batches]),
            None if first.persons is None else _joined([batch.persons for batch in batches]),
            first.crs,
            np.concatenate(cuts) if cuts else None,
            None if first.slices is None else np.concatenate([batch.slices for batch in batches]),
        )


def offsets_of(lengths: NDArray[np.integer]) -> Integers:
    """The offsets, int64[n + 1], of trips with the given numbers of points."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _places(cuts: Integers, points: int) -> Integers:
    """Each cut once, and none after the last point."""
    return np.unique(cuts[cuts < points])


def _joined(arrays: Sequence[pa.Array | None]) -> pa.Array:
    return pa.chunked_array(arrays).combine_chunks()
