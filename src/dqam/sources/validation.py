"""Validation of rows: those that cannot be used are refused, or left out and counted.

Whether a row is left out depends on that row alone: with or without it, all others are read the same.
An `Intake` belongs to one iteration over a source; it also tracks the progress of that iteration.
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
LEAVE_OUT = "or leave such rows out with on_error='drop' (--on-error drop)"
EMPTY_TRIPS = "trips without points"


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
        self.joined = 0  # rows that were joined to others of the same trip
        self._degrees = is_degrees(crs)
        self._limits = (180.0, 90.0) if self._degrees else (np.finfo(np.float64).max,) * 2
        self._seen = self._bad = 0
        self._exchangeable = self._suspects = 0
        self._first = ""

    @property
    def refused(self) -> bool:
        """Whether the source is already known to end in an error; then points are only counted."""
        return self._bad > 0 and self.on_error == "fail"

    @property
    def drops(self) -> bool:
        """Whether rows that cannot be used are left out."""
        return self.on_error == "drop"

    def drop(self, reason: str, count: int) -> None:
        """Count what is left out."""
        if count:
            self.dropped[reason] = self.dropped.get(reason, 0) + count

    @property
    def skip(self) -> Skip | None:
        """The function that counts rows of a file that are left out; None if they are not left out."""
        return self.drop if self.drops else None

    def leave_out(self, bad: Mask, reason: str, first_row: int, why: str | Callable[[int], str]) -> None:
        """Count rows that cannot be used, or refuse the source because of the first of them, i. The message is `why`,
        or what `why` returns for i."""
        if not bad.any():
            return
        if not self.drops:
            i = int(np.argmax(bad))
            words = why if isinstance(why, str) else why(i)
            raise InputError(f"{self.name}: row {first_row + i:,} {words}.")
        self.drop(reason, int(np.count_nonzero(bad)))

    def advance(self, fraction: float) -> None:
        """Note the part of the source that is read."""
        self.progress = max(self.progress, self.share * fraction)

    def axes(self, first: Floats, second: Floats) -> tuple[Floats, Floats]:
        """x and y of two columns as they stand in the source."""
        return (second, first) if self.swap_axes else (first, second)

    def keep(
        self, x: Floats, y: Floats, first_row: int, offsets: Integers | None = None, among: Mask | None = None
    ) -> Mask | None:
        """Which points may stay; None if all may. A row of the source is a point, or a trip if there are offsets.

        Points that are not in `among` were left out before and are not counted.
        """
        self._seen += len(x)
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
            self._first = f"row {row:,} ({'lon' if self._degrees else 'x'} {x[i]:.10g}, "
            self._first += f"{'lat' if self._degrees else 'y'} {y[i]:.10g})"
        bad = int(np.count_nonzero(counted))
        self._bad += bad
        self._suspects += len(x)
        self._exchangeable += len(x) - _count_outside(y, x, *self._limits)
        if self.drops:
            self.drop(BAD_POINTS, bad)
        return inside

    def sift(self, trips: Trips, first_row: int) -> Trips | None:
        """The trips of rows `first_row`, `first_row` + 1, ... without bad points, empty trips and, in a source with
        trip ids, trips without one; None if refused."""
        x, y = self.axes(trips.x, trips.y)
        inside = self.keep(x, y, first_row, trips.offsets)
        stay = np.ones(len(trips), np.bool_)
        if trips.ids is not None and trips.ids.null_count:
            stay = trips.ids.is_valid().to_numpy(zero_copy_only=False)
            self.leave_out(~stay, NO_ID, first_row, f"has no trip id; give it one, {LEAVE_OUT}")
        if self.refused:
            return None
        sifted = replace(trips, x=x, y=y, crs=self.crs).kept(inside, stay)
        filled = np.diff(sifted.offsets) > 0
        if filled.all():
            return sifted
        self.drop(EMPTY_TRIPS, len(sifted) - int(filled.sum()))
        return sifted.kept(None, filled)

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
