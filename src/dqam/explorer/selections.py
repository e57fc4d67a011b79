"""Releases as the explorer shows them: whole, or some of their slices. What takes long to compute is kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from dqam.errors import InputError
from dqam.explorer.answering import ask_release
from dqam.explorer.facts import estimate
from dqam.explorer.layer import MOST_BLOCKS, Layer
from dqam.geometry.areas import PlacedAreas, PlacedShapes, place_areas, place_lines
from dqam.geometry.lattice import Lattice
from dqam.geometry.rectangles import Snapped
from dqam.release.answers import Answers
from dqam.release.release import Release

MOST_LAYERS = 32  # of a release that are kept
FEWEST_SELECTIONS = 32  # of a release that are kept; more of them if its grid is small
KEPT_NUMBERS = 1 << 25  # in all selections of a release together, at 8 bytes each
AT_A_TIME = 1 << 22  # answers that are held in memory
Names = tuple[str, ...]
K = TypeVar("K")
V = TypeVar("V")


@dataclass(eq=False)
class _Entry(Generic[V]):
    lock: threading.Lock = field(default_factory=threading.Lock)
    found: list[V] = field(default_factory=list)


class Cache(Generic[K, V]):
    """The values of a function that were used last. Threads that want the same value wait for one computation."""

    def __init__(self, make: Callable[[K], V], limit: int) -> None:
        self.make, self.limit = make, limit
        self._entries: OrderedDict[K, _Entry[V]] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, key: K) -> V:
        """The value, computed unless it is kept."""
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            while len(self._entries) > self.limit:
                self._entries.popitem(last=False)
        with entry.lock:
            if not entry.found:
                entry.found.append(self.make(key))
            return entry.found[0]

    def __contains__(self, key: K) -> bool:
        """Whether the value is kept, so that it takes no time."""
        entry = self._entries.get(key)
        return entry is not None and bool(entry.found)


class ShownRelease:
    """A release and the name it is shown with.

    select(names)       some slices of it
    layer(names)        their image
    layer_facts(names)  facts about the image

    What these gave last is kept. The names are in the order of the release; none stand for the whole release.
    """

    def __init__(self, name: str, release: Release) -> None:
        self.name, self.release = name, release
        rows, columns = release.grid.shape
        limit = max(FEWEST_SELECTIONS, KEPT_NUMBERS // (3 * rows * columns))
        self.select: Cache[Names, Release] = Cache(lambda names: release.select(names) if names else release, limit)
        self.layer: Cache[Names, Layer] = Cache(lambda names: Layer.of(self.select(names)), MOST_LAYERS)
        self.layer_facts: Cache[Names, dict[str, Any]] = Cache(self._describe, limit)
        self._largest: Cache[Names, float | None] = Cache(lambda _: largest_of_slices(release), 1)

    def names(self, told: str | None) -> Names:
        """The slices that a request names, separated by commas; an `InputError` if there is none of that name."""
        if told is None:
            return ()
        if not self.release.slices:
            raise InputError("This release has no slices; leave out the parameter slices.")
        names = {name.strip() for name in told.split(",")}
        if unknown := sorted(names.difference(self.release.slices)):
            self.release.select(unknown[0])  # raises, and lists a few
        return () if len(names) == len(self.release.slices) else tuple(n for n in self.release.slices if n in names)

    def _describe(self, names: Names) -> dict[str, Any]:
        layer = self.layer(names)
        height, width = layer.values.shape
        return {
            "width": width,
            "height": height,
            "bounds": layer.bounds,
            "block": layer.block,
            "largest": float(np.nanmax(layer.values)),
            "largest_of_slices": self._largest(()),
            "trips": estimate(self.select(names).trips),
            "meaning": layer.meaning,
        }

    def profile(self, shape: Any, crs: str, confidence: float) -> dict[str, Any]:
        """`release.profile` of an area or line, by the names in the API, with the answer for all slices."""
        if not self.release.slices:
            raise InputError("This release has no slices, so there is no profile; ask for areas or lines.")
        release, line = self.release, shape.geom_type in ("LineString", "MultiLineString")

        def ask(shapes: list[Any], crs: str, confidence: float) -> list[Answers]:
            asked: PlacedShapes | Snapped = (place_lines if line else place_areas)(shapes, release.grid, crs)
            if isinstance(asked, PlacedAreas) and asked.is_rectangle.all():
                asked = Snapped.of(asked.rectangles, release.grid)
            whole = (release.crossings if line else release.counts)(asked, confidence=confidence)
            return [whole, *release.by_slice(asked, confidence)]

        total, *each = (estimate(one[0]) for one in ask_release(ask, release.grid, [shape], crs, confidence))
        values = [one["value"] for one in each]
        return {
            "slices": list(self.release.slices),
            "trips": None if line else values,
            "crossings": values if line else None,
            "low": [one["low"] for one in each],
            "high": [one["high"] for one in each],
            "total": total,
            "confidence": confidence,
        }


def largest_of_slices(release: Release) -> float | None:
    """The largest number of trips in a cell of the image of any single slice; None without slices."""
    if not release.slices:
        return None
    lattice = Lattice.even(release.grid, min(MOST_BLOCKS, max(release.grid.shape)))
    (west, south), (east, north) = (
        np.meshgrid(lattice.east[side], lattice.north[side]) for side in (slice(0, -1), slice(1, None))
    )
    rectangles = np.stack([side.ravel() for side in (west, south, east, north)], axis=1)
    largest = 0.0
    for some in np.array_split(rectangles, 1 + len(rectangles) * len(release.slices) // AT_A_TIME):
        largest = max(largest, float(release.values_by_slice(Snapped.of(some, release.grid)).max()))
    return largest
