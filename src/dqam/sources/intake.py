"""What happens to points on their way in: invalid coordinates are refused or dropped, and counted.

One `Intake` belongs to one iteration over a source; it also knows how far that iteration is.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dqam.errors import InputError
from dqam.grid import is_degrees
from dqam.trips import Trips

BAD_POINTS = "points with invalid coordinates"
NO_TIME = "points without a time"
EMPTY_TRIPS = "trips without points"

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@njit(nogil=True, cache=True)
def _count_outside(x: Floats, y: Floats, limit_x: float, limit_y: float) -> int:
    outside = 0
    for i in range(len(x)):
        # Written as "not inside", so that NaN counts; & instead of `and`, so that the loop has no branch.
        outside += 1 - int((abs(x[i]) <= limit_x) & (abs(y[i]) <= limit_y))
    return outside


class Intake:
    """The rules for points of one source, and what became of its points so far."""

    def __init__(self, name: str, crs: str, on_error: str, swap_axes: bool) -> None:
        self.name, self.crs, self.on_error, self.swap_axes = name, crs, on_error, swap_axes
        self.progress = 0.0
        self.share = 1.0  # of the progress that belongs to reading; what is left is for work that comes after it
        self.dropped: dict[str, int] = {}
        self.zones: set[bool] = set()  # whether times so far had a time zone
        self._degrees = is_degrees(crs)
        self._limits = (180.0, 90.0) if self._degrees else (np.finfo(np.float64).max,) * 2
        self._seen = self._bad = 0
        self._exchangeable = self._suspects = 0
        self._first = ""

    @property
    def refused(self) -> bool:
        """Whether the source is already known to end in an error; then points are only counted."""
        return self._bad > 0 and self.on_error == "fail"

    def drop(self, reason: str, count: int) -> None:
        """Count what is left out."""
        if count:
            self.dropped[reason] = self.dropped.get(reason, 0) + count

    def advance(self, fraction: float) -> None:
        """Note the part of the source that is read."""
        self.progress = max(self.progress, self.share * fraction)

    def axes(self, first: Floats, second: Floats) -> tuple[Floats, Floats]:
        """x and y of two columns as they stand in the source."""
        return (second, first) if self.swap_axes else (first, second)

    def keep(self, x: Floats, y: Floats, first_row: int, offsets: Ints | None = None) -> NDArray[np.bool_] | None:
        """Which points may stay; None where all may. A row of the source is a point, or a trip if there are offsets."""
        self._seen += len(x)
        if not (bad := _count_outside(x, y, *self._limits)):
            return None
        limit_x, limit_y = self._limits
        inside = (np.abs(x) <= limit_x) & (np.abs(y) <= limit_y)
        if not self._bad:
            i = int(np.argmin(inside))
            row = first_row + (i if offsets is None else int(np.searchsorted(offsets, i, side="right")) - 1)
            self._first = f"row {row:,} ({'lon' if self._degrees else 'x'} {x[i]:.10g}, "
            self._first += f"{'lat' if self._degrees else 'y'} {y[i]:.10g})"
        self._bad += bad
        self._suspects += len(x)
        self._exchangeable += len(x) - _count_outside(y, x, *self._limits)
        if self.on_error == "drop":
            self.drop(BAD_POINTS, bad)
        return inside

    def sift(self, trips: Trips, first_row: int) -> Trips | None:
        """Trips of rows `first_row`, `first_row` + 1... without bad points and without empty trips; None if refused."""
        x, y = self.axes(trips.x, trips.y)
        inside = self.keep(x, y, first_row, trips.offsets)
        if self.refused:
            return None
        time, lengths = trips.time, np.diff(trips.offsets)
        if inside is not None:
            lengths = np.diff(np.concatenate([[0], np.cumsum(inside)])[trips.offsets])
            x, y, time = x[inside], y[inside], None if time is None else time[inside]
        ids, persons = trips.ids, trips.persons
        if not lengths.all():
            stay = lengths > 0
            self.drop(EMPTY_TRIPS, len(stay) - int(stay.sum()))
            lengths = lengths[stay]
            ids = None if ids is None else ids.filter(stay)
            persons = None if persons is None else persons.filter(stay)
        return Trips(x, y, offsets_of(lengths), time, ids, persons, self.crs)

    def finish(self) -> None:
        """Raise what the points have earned."""
        if not self.refused:
            return
        words = f"{self.name}: {self._bad:,} of {self._seen:,} points have invalid coordinates, first {self._first}"
        if self._bad > self._seen / 2 and self._exchangeable > max(self._suspects / 2, self._suspects - self._bad):
            raise InputError(
                f"{words}; latitude and longitude look swapped: exchange them with swap_axes=True (--swap-axes)."
            )
        units = "give their CRS if they are not in degrees (crs=..., --source-crs), " if self._degrees else ""
        raise InputError(f"{words}; repair them, {units}or leave them out with on_error='drop' (--on-error drop).")


def offsets_of(lengths: NDArray[np.integer]) -> Ints:
    """Offsets of trips with so many points each."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
