"""Walks: trips on a grid as sequences of 4-connected cells.

A segment between two points is a straight line in the grid's CRS, and `dqam.geometry.tracing` finds the cells it passes
in integer arithmetic, the same on every machine. Only PROJ, where points are in another CRS, and the distances for a
gap in metres can differ in their last bits between machines; see docs/promise.md. Cells are half-open, [west, east) x
[south, north), except that the outer border belongs to the grid.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn, Protocol

import numpy as np
from numba import njit

from dqam.errors import InputError
from dqam.geometry.arrays import Floats, Integers, Integers32, Labels, Mask
from dqam.geometry.grid import Grid, is_degrees, parse_crs, transform
from dqam.geometry.tracing import COUNT, FILL, TALLY, EdgeTally, trace
from dqam.geometry.trips import Trips
from dqam.runtime.threads import cores, each_span, spans

SAMPLE = 100_000  # points that show whether axes are swapped
EARTH_RADIUS = 6_371_008.8  # metres, the mean radius of WGS84


@dataclass(frozen=True)
class Gap:
    """The longest time or distance between two points of a trip; a longer one cuts the trip into two pieces.

    >>> Gap.parse("120s"), Gap.parse("500m")
    (Gap(seconds=120.0, metres=inf), Gap(seconds=inf, metres=500.0))
    """

    seconds: float = math.inf
    metres: float = math.inf

    def __post_init__(self) -> None:
        if not (self.seconds > 0 and self.metres > 0):
            raise InputError(f"gap must be positive; got {self.seconds:g} s, {self.metres:g} m.")

    def __str__(self) -> str:
        """The gap with its unit.

        >>> print(Gap.parse("2min"))
        120 s
        """
        limits = ((self.seconds, "s"), (self.metres, "m"))
        return " or ".join(f"{value:g} {unit}" for value, unit in limits if math.isfinite(value)) or "none"

    @classmethod
    def parse(cls, text: str) -> Gap:
        """The gap that a text such as '120s', '500m' or '2km' stands for."""
        match = re.fullmatch(r"\s*([0-9.]+)\s*(s|min|h|m|km)\s*", text)
        try:
            value = float(match[1]) if match else math.nan
        except ValueError:
            value = math.nan
        if match is None or math.isnan(value):
            raise InputError(f"A gap must be a number with a unit (120s, 5min, 1h, 500m, 2km); got {text!r}.")
        match match[2]:
            case "s":
                return cls(seconds=value)
            case "min":
                return cls(seconds=60 * value)
            case "h":
                return cls(seconds=3600 * value)
            case "m":
                return cls(metres=value)
            case _:
                return cls(metres=1000 * value)


class AnyWalks(Protocol):
    """The walks of n trips from cell to cell: one piece for each stay of a trip on the grid."""

    @property
    def grid(self) -> Grid:
        """The grid that the trips are laid on."""

    def __len__(self) -> int:
        """The number of trips."""

    @property
    def visits(self) -> Integers:
        """int64[n + 1]: where each trip begins in `cells`."""

    @property
    def trips(self) -> Integers:
        """int64[n + 1]: where each trip begins in `pieces`."""

    @property
    def pieces(self) -> Integers:
        """int64[pieces + 1]: where each piece begins in `cells`."""

    @property
    def cells(self) -> Integers32:
        """int32[visits]: row * columns + column of each visit, piece after piece."""

    @property
    def slices(self) -> Labels | None:
        """int16[n]: the slice of each trip; None if there are no slices."""


@dataclass(frozen=True, eq=False)
class Walks:
    """The walks of n trips, computed from their points when first needed; `tally` never stores the cells.

    offsets  int64[n + 1]: where each trip begins in its points
    slices   int16[n]: the slice of each trip; None if there are no slices
    """

    grid: Grid
    offsets: Integers
    _lines: tuple[Any, ...]  # the first arguments of `trace`: where the points are
    slices: Labels | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return f"<Walks: {len(self):,} trips, {self.points:,} points on {self.grid}>"

    @property
    def points(self) -> int:
        """The number of points of all trips."""
        return int(self.offsets[-1])

    @property
    def inside(self) -> int:
        """The number of points on the grid."""
        return self._counted[2]

    @property
    def on_grid(self) -> int:
        """The number of trips with at least one visit."""
        return int(np.count_nonzero(np.diff(self.trips)))

    @property
    def visits(self) -> Integers:
        """int64[n + 1]: where each trip begins in `cells`."""
        return self._counted[0]

    @property
    def trips(self) -> Integers:
        """int64[n + 1]: where each trip begins in `pieces`."""
        return self._counted[1]

    @property
    def cells(self) -> Integers32:
        """int32[visits]: row * columns + column of each visit, piece after piece."""
        return self._walked[0]

    @property
    def pieces(self) -> Integers:
        """int64[pieces + 1]: where each piece begins in `cells`."""
        return self._walked[1]

    def tally(self, tally: EdgeTally, start: int, stop: int) -> None:
        """Add all crossings, starts and ends of trips start to stop to `tally`."""
        trace(*self._lines, start, stop, TALLY, *_NO_COUNTS, *_NO_CELLS, *tally)

    @cached_property
    def _counted(self) -> tuple[Integers, Integers, int]:
        visits, pieces = np.zeros(len(self) + 1, np.int64), np.zeros(len(self) + 1, np.int64)

        def traced(start: int, stop: int) -> int:
            return trace(*self._lines, start, stop, COUNT, visits, pieces, *_NO_CELLS, *_NO_TALLY)

        inside = sum(each_span(traced, spans(self.offsets, cores() if self.points > 10_000 else 1)))
        np.cumsum(visits, out=visits)
        np.cumsum(pieces, out=pieces)
        return visits, pieces, inside

    @cached_property
    def _walked(self) -> tuple[Integers32, Integers]:
        visits, trips = self.visits, self.trips
        cells, pieces = np.empty(visits[-1], np.int32), np.empty(trips[-1] + 1, np.int64)
        pieces[-1] = visits[-1]

        def traced(start: int, stop: int) -> int:
            return trace(*self._lines, start, stop, FILL, visits, trips, cells, pieces, *_NO_TALLY)

        each_span(traced, spans(self.offsets, cores() if self.points > 10_000 else 1))
        return cells, pieces


_NO_TALLY = EdgeTally(np.zeros(0, np.int64), np.zeros(0, np.int64))
_NO_CELLS = np.zeros(0, np.int32), np.zeros(0, np.int64)
_NO_COUNTS = np.zeros(0, np.int64), np.zeros(0, np.int64)


def walk(trips: Trips, grid: Grid, gap: Gap | None = None) -> Walks:
    """Lay `trips` on `grid`, and cut them where two points are further apart than `gap`."""
    if not isinstance(trips, Trips):
        raise InputError(f"trips must be a Trips object, not a {type(trips).__name__}; read it with dqam.read.")
    x, y = transform(trips.x, trips.y, trips.crs, grid.crs)
    lines = x, y, silences(trips, gap or Gap()), trips.offsets, grid.bounds, grid.columns, grid.rows
    return Walks(grid, trips.offsets, lines, trips.slices)


def lay(source: Iterable[Trips], grid: Grid, gap: Gap | None = None, name: str = "the trips") -> Iterator[Walks]:
    """Lay each batch of a source on `grid`; raise an `InputError` if the bounds do not fit the points.

    `name` is what errors call the source.
    """
    points, found, somewhere = 0, False, ""
    for trips in source:
        if not points:
            _refuse_swapped(trips, grid, name)
            somewhere = _roughly(trips)
        walks = walk(trips, grid, gap)
        points, found = points + walks.points, found or walks.inside > 0
        yield walks
    if points and not found:
        _refuse_elsewhere(points, somewhere, grid, name)


def fitting(source: Iterable[Trips], grid: Grid, name: str = "the trips") -> Iterator[Trips]:
    """The batches of a source, unchanged; raise the same errors as `lay` if the bounds do not fit the points."""
    points, found, somewhere = 0, False, ""
    for trips in source:
        if not points:
            _refuse_swapped(trips, grid, name)
            somewhere = _roughly(trips)
        points, found = points + trips.points, found or _inside(trips.x, trips.y, trips.crs, grid) > 0
        yield trips
    if points and not found:
        _refuse_elsewhere(points, somewhere, grid, name)


def _inside(x: Floats, y: Floats, crs: str, grid: Grid) -> int:
    """How many points are on the grid."""
    u, v = grid.to_cells(x, y, crs)
    return int(np.sum((u >= 0) & (u <= grid.columns) & (v >= 0) & (v <= grid.rows)))


def _refuse_elsewhere(points: int, somewhere: str, grid: Grid, name: str) -> NoReturn:
    raise InputError(
        f"None of the {points:,} points of {name} lies within {grid.bounds} ({grid.crs}); "
        f"they lie {somewhere}. Give bounds that cover them."
    )


def _refuse_swapped(trips: Trips, grid: Grid, name: str) -> None:
    x, y = trips.x[:SAMPLE], trips.y[:SAMPLE]
    if _inside(x, y, trips.crs, grid) < len(x) / 2 < _inside(y, x, trips.crs, grid):
        raise InputError(
            f"Latitude and longitude of {name} look swapped: with x and y exchanged most points lie within the "
            f"bounds. Read the data with swap_axes=True, or correct the bounds {grid.bounds}: they must be "
            "(west, south, east, north)."
        )


def _roughly(trips: Trips) -> str:
    """The median of the points, rounded to whole degrees or to 100,000 units of the CRS, which tells no place."""
    x, y = np.median(trips.x), np.median(trips.y)
    if is_degrees(trips.crs):
        return f"around longitude {x:.0f}, latitude {y:.0f}"
    return f"around x {round(x, -5):,.0f}, y {round(y, -5):,.0f} ({trips.crs})"


def silences(trips: Trips, gap: Gap) -> Mask:
    """bool[points]: whether the trip is cut before each point, by the gap or by `trips.cuts`; empty if none is."""
    silent = np.zeros(0, np.bool_)
    if math.isfinite(gap.seconds):
        if trips.time is None:
            raise InputError("A gap in seconds needs points with a time, and these have none; give the gap in metres.")
        silent = np.diff(trips.time, prepend=trips.time[:1]) > gap.seconds * 1e6
    if math.isfinite(gap.metres):
        if is_degrees(trips.crs):
            far = _great_circle(trips.x, trips.y) > gap.metres
        else:
            metres = parse_crs(trips.crs).axis_info[0].unit_conversion_factor
            step = np.hypot(np.diff(trips.x, prepend=trips.x[:1]), np.diff(trips.y, prepend=trips.y[:1]))
            far = step * metres > gap.metres
        silent = far if not len(silent) else silent | far
    if trips.cuts is not None and len(trips.cuts):
        silent = silent if len(silent) else np.zeros(trips.points, np.bool_)
        silent[trips.cuts] = True
    return silent


@njit(nogil=True, cache=True)
def _great_circle(longitude, latitude):  # type: ignore[no-untyped-def]
    """Metres from the previous point, by the haversine formula on the mean sphere, within 0.6 % of the ellipsoid."""
    metres = np.zeros(len(longitude))
    for i in range(1, len(longitude)):
        a, b = math.radians(latitude[i - 1]), math.radians(latitude[i])
        turn = math.radians(longitude[i] - longitude[i - 1])
        half = math.sin((b - a) / 2) ** 2 + math.cos(a) * math.cos(b) * math.sin(turn / 2) ** 2
        metres[i] = 2 * EARTH_RADIUS * math.asin(min(1.0, math.sqrt(half)))
    return metres
