"""Validation of rows: those that cannot be used are refused, or left out and counted.

Whether a row is left out depends on that row alone: with or without it, all other rows are read the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numba import njit

from dqam.errors import InputError
from dqam.geometry.arrays import Floats, Integers, Mask
from dqam.geometry.grid import is_degrees
from dqam.geometry.trips import Trips
from dqam.sources.tables import Skip

BAD_POINTS = "points with invalid coordinates"
BAD_SHAPES = "rows without a readable trip"
NO_ID = "rows without a usable id"
NO_TIME = "points without a time"
NO_START = "rows without a time, by which trips are sliced"
EMPTY_TRIPS = "trips without points"
_LEAVE_OUT = "or leave such rows out with on_error='drop'"


@njit(nogil=True, cache=True)
def _count_outside(x: Floats, y: Floats, limit_x: float, limit_y: float) -> int:
    outside = 0
    for i in range(len(x)):
        # Written as "not inside", so that NaN counts; with & instead of `and`, so that the loop has no branch.
        outside += 1 - int((abs(x[i]) <= limit_x) & (abs(y[i]) <= limit_y))
    return outside


class Validation:
    """The validation of one source during one iteration, with what was left out and the progress so far.

    on_error  "fail" to raise an `InputError`, "drop" to leave out and count what cannot be used
    progress  the fraction of the iteration that is done, from 0 to 1
    share     the fraction of the progress that reading takes; the rest is for sorting
    dropped   what was left out: reason -> count
    joined    the number of rows that were joined to others of the same trip
    zones     whether times so far had a time zone
    """

    def __init__(self, name: str, crs: str, on_error: str, swap_axes: bool) -> None:
        self.name, self.crs, self.on_error, self.swap_axes = name, crs, on_error, swap_axes
        self.progress, self.share = 0.0, 1.0
        self.dropped: dict[str, int] = {}
        self.zones: set[bool] = set()
        self.joined = 0
        self._degrees = is_degrees(crs)
        self._limits = (180.0, 90.0) if self._degrees else (np.finfo(np.float64).max,) * 2
        self._points = self._bad = 0
        self._checked = self._valid_if_swapped = 0  # points in batches with bad ones
        self._first = ""

    @property
    def refused(self) -> bool:
        """Whether the source is already known to end in an error; from then on points are only counted."""
        return self._bad > 0 and self.on_error == "fail"

    @property
    def drops(self) -> bool:
        """Whether rows that cannot be used are left out."""
        return self.on_error == "drop"

    def count_dropped(self, reason: str, count: int) -> None:
        """Count what is left out."""
        if count:
            self.dropped[reason] = self.dropped.get(reason, 0) + count

    @property
    def skip(self) -> Skip | None:
        """The function that counts damaged rows of a file; None if they are errors."""
        return self.count_dropped if self.drops else None

    def reject(self, bad: Mask, reason: str, first_row: int, why: str | Callable[[int], str]) -> None:
        """Count rows that cannot be used, or raise an `InputError` for the first of them, i.

        `why`, or what it returns for i, says what is wrong with the row and how to repair it.
        """
        if not bad.any():
            return
        if not self.drops:
            i = int(np.argmax(bad))
            words = why if isinstance(why, str) else why(i)
            raise InputError(f"{self.name}: row {first_row + i:,} {words}, {_LEAVE_OUT}.")
        self.count_dropped(reason, int(np.count_nonzero(bad)))

    def advance(self, fraction: float) -> None:
        """Note the fraction of the source that is read."""
        self.progress = max(self.progress, self.share * fraction)

    def axes(self, first: Floats, second: Floats) -> tuple[Floats, Floats]:
        """x and y from the two coordinates in the order of the source."""
        return (second, first) if self.swap_axes else (first, second)

    def valid_points(
        self, x: Floats, y: Floats, first_row: int, offsets: Integers | None = None, among: Mask | None = None
    ) -> Mask | None:
        """Which points have valid coordinates; None if all have. A row is a point, or a trip if there are `offsets`.

        Points that are not in `among` were left out before and are not counted.
        """
        self._points += len(x)
        if not _count_outside(x, y, *self._limits):
            return None
        limit_x, limit_y = self._limits
        inside = (np.abs(x) <= limit_x) & (np.abs(y) <= limit_y)
        counted = ~inside if among is None else ~inside & among
        if not counted.any():
            return inside
        if not self._bad:
            i = int(np.argmax(counted))
            row = first_row + (i if offsets is None else int(np.searchsorted(offsets, i, side="right")) - 1)
            self._first = f"row {row:,} ({self._flaw(x[i], y[i])})"
        bad = int(np.count_nonzero(counted))
        self._bad += bad
        self._checked += len(x)
        self._valid_if_swapped += len(x) - _count_outside(y, x, *self._limits)
        if self.drops:
            self.count_dropped(BAD_POINTS, bad)
        return inside

    def _flaw(self, x: float, y: float) -> str:
        """What is wrong with a point, in words that do not tell where it is."""
        i = int(abs(x) <= self._limits[0])  # of the first coordinate that is bad
        axis, limit = (("lon", "lat") if self._degrees else ("x", "y"))[i], self._limits[i]
        if np.isnan((x, y)[i]):
            return f"{axis} is missing or not a number"
        return f"{axis} is not between -{limit:g} and {limit:g}" if self._degrees else f"{axis} is infinite"

    def valid_trips(self, trips: Trips, first_row: int) -> Trips | None:
        """The trips of rows `first_row`, `first_row` + 1, ... without bad points, empty trips and, in a source with
        trip ids, trips without one; None if the source is refused."""
        x, y = self.axes(trips.x, trips.y)
        inside = self.valid_points(x, y, first_row, trips.offsets)
        stay = np.ones(len(trips), np.bool_)
        if trips.ids is not None and trips.ids.null_count:
            stay = trips.ids.is_valid().to_numpy(zero_copy_only=False)
            self.reject(~stay, NO_ID, first_row, "has no trip id; give it one")
        if self.refused:
            return None
        valid = replace(trips, x=x, y=y, crs=self.crs).kept(inside, stay)
        filled = np.diff(valid.offsets) > 0
        if filled.all():
            return valid
        self.count_dropped(EMPTY_TRIPS, len(valid) - int(filled.sum()))
        return valid.kept(None, filled)

    def raise_if_refused(self) -> None:
        """Raise an `InputError` if any point was invalid and such points are not left out."""
        if not self.refused:
            return
        words = f"{self.name}: {self._bad:,} of {self._points:,} points have invalid coordinates, first {self._first}"
        most = max(self._checked / 2, self._checked - self._bad)
        if self._bad > self._points / 2 and self._valid_if_swapped > most:
            raise InputError(f"{words}; latitude and longitude look swapped: exchange them with swap_axes=True.")
        units = "name their CRS if they are not in degrees, crs='EPSG:...', " if self._degrees else ""
        raise InputError(f"{words}; repair them, {units}{_LEAVE_OUT}.")
