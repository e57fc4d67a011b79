"""The public grid of a map: bounds, a coordinate reference system, and the number of rows and columns.

Nothing in a grid may be derived from the data, because the bounds are part of what is published. Rows count from the
south, columns from the west, and the bounds are divided evenly along each axis of their CRS.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from numbers import Integral, Real

import numpy as np
import pyproj

from dqam.errors import InputError
from dqam.geometry.arrays import Floats

DEGREES = "EPSG:4326"
RESOLUTIONS = range(1, 13)
MAX_SIDE = 2 ** RESOLUTIONS[-1]

Bounds = tuple[float, float, float, float]


@lru_cache(maxsize=32)
def parse_crs(name: str) -> pyproj.CRS:
    """The coordinate reference system that `name` stands for ("EPSG:28355", WKT, PROJJSON...)."""
    try:
        return pyproj.CRS.from_user_input(name)
    except pyproj.exceptions.CRSError:
        raise InputError(f"{name!r} is not a coordinate reference system; give one like 'EPSG:4326'.") from None


@lru_cache(maxsize=32)
def is_degrees(crs: str) -> bool:
    """Whether coordinates in `crs` are longitude and latitude."""
    return parse_crs(crs).is_geographic


@lru_cache(maxsize=32)
def _transformer(source: str, target: str) -> pyproj.Transformer | None:
    """The transformation from one CRS to another in (x, y) order; None if they are the same."""
    a, b = parse_crs(source), parse_crs(target)
    if a.equals(b, ignore_axis_order=True):
        return None
    return pyproj.Transformer.from_crs(a, b, always_xy=True)


def transform(x: Floats, y: Floats, source: str, target: str) -> tuple[Floats, Floats]:
    """Transform coordinates from the CRS `source` to `target`, always as (x, y): (longitude, latitude) in degrees."""
    way = _transformer(source, target)
    return (x, y) if way is None else way.transform(x, y)


@dataclass(frozen=True)
class Grid:
    """`rows` x `columns` cells of equal size over public bounds (west, south, east, north).

    The bounds are in `crs` and are part of what is published: take them from a map, never from the trips.

    >>> grid = Grid.over((-8.68, 41.11, -8.56, 41.20), resolution=8)
    >>> grid.shape
    (256, 256)
    """

    bounds: Bounds
    rows: int
    columns: int
    crs: str = DEGREES

    def __post_init__(self) -> None:
        if not isinstance(self.crs, str):
            raise InputError(f"crs must be a string such as 'EPSG:4326'; got {_brief(self.crs)}.")
        if (given := _numbers(self.bounds, 4)) is None:
            raise InputError(f"bounds must be four numbers (west, south, east, north); got {_brief(self.bounds)}.")
        west, south, east, north = bounds = given
        object.__setattr__(self, "bounds", bounds)
        if not np.isfinite((*bounds, east - west, north - south)).all():
            raise InputError(f"bounds must be finite numbers; got {_spell(bounds)}.")
        if is_degrees(self.crs) and west > 0 > east and south < north:
            raise InputError(
                f"bounds in degrees cannot cross the 180th meridian; got {_spell(bounds)}. "
                "Give them in a projected CRS instead."
            )
        if west >= east or south >= north:
            ordered = min(west, east), min(south, north), max(west, east), max(south, north)
            hint = f" Did you mean {_spell(ordered)}?" if west != east and south != north else ""
            raise InputError(
                "bounds must be (west, south, east, north) with west < east and south < north; "
                f"got {_spell(bounds)}.{hint}"
            )
        if is_degrees(self.crs) and not (-180 <= west < east <= 180 and -90 <= south < north <= 90):
            raise InputError(
                f"bounds in degrees must lie within -180..180 and -90..90; got {_spell(bounds)}. "
                "Give their CRS too if they are in other units."
            )
        for name, given_count, width in (("rows", self.rows, north - south), ("columns", self.columns, east - west)):
            count = _whole(given_count)
            if count is None or not 1 <= count <= MAX_SIDE:
                raise InputError(f"{name} must be a whole number from 1 to {MAX_SIDE}; got {_brief(given_count)}.")
            object.__setattr__(self, name, count)
            if width / count < 1000 * np.spacing(max(map(abs, bounds))):
                raise InputError(f"bounds are too close together for {count} {name}; got {_spell(bounds)}.")

    @classmethod
    def of(cls, value: Grid | Sequence[float]) -> Grid:
        """`value` itself if it is a grid; for four numbers in degrees, the grid of the default resolution over them.

        >>> Grid.of((-8.68, 41.11, -8.56, 41.20)) == Grid.over((-8.68, 41.11, -8.56, 41.20))
        True
        """
        if isinstance(value, Grid):
            return value
        if (bounds := _numbers(value, 4)) is None:
            raise InputError(
                "grid must be a Grid, such as Grid.over(bounds, resolution), or bounds as four numbers "
                f"(west, south, east, north) in degrees; got {_brief(value)}."
            )
        west, south, east, north = bounds
        return cls.over((west, south, east, north))

    @classmethod
    def over(cls, bounds: Bounds, resolution: int = 8, crs: str = DEGREES) -> Grid:
        """A grid of 2^resolution x 2^resolution cells over `bounds`.

        >>> print(Grid.over((310_000, 5_805_000, 330_000, 5_825_000), resolution=8, crs="EPSG:28355"))
        256 x 256 cells of 78 m x 78 m over 310000 5805000 330000 5825000 (EPSG:28355)
        """
        if (power := _whole(resolution)) is None or power not in RESOLUTIONS:
            raise InputError(
                f"resolution k means 2^k x 2^k cells and must be a whole number from {RESOLUTIONS[0]} to "
                f"{RESOLUTIONS[-1]}; got {_brief(resolution)}."
            )
        return cls(bounds, 2**power, 2**power, crs)

    @classmethod
    def square(cls, center: tuple[float, float], side_km: float, resolution: int = 8) -> Grid:
        """A grid over a square of `side_km` around `center` (longitude, latitude), in degrees.

        The sides are measured on the ellipsoid along the meridian and the parallel through the centre.

        >>> grid = Grid.square((-8.62, 41.155), side_km=10)
        >>> [round(metres, 1) for metres in grid.cell_metres]
        [39.1, 39.1]
        """
        if (given := _numbers(center, 2)) is None or not (-180 <= given[0] <= 180 and -90 < given[1] < 90):
            raise InputError(f"center must be (longitude, latitude) in degrees; got {_brief(center)}.")
        if (side := _numbers([side_km], 1)) is None or not 0 < side[0] <= 2000:
            raise InputError(f"side_km must be a positive number of at most 2,000; got {_brief(side_km)}.")
        longitude, latitude = given
        ellipsoid = pyproj.Geod(ellps="WGS84")
        _, north, _ = ellipsoid.fwd(longitude, latitude, 0, side_km * 500)
        _, south, _ = ellipsoid.fwd(longitude, latitude, 180, side_km * 500)
        degree_metres = ellipsoid.inv(longitude - 5e-4, latitude, longitude + 5e-4, latitude)[2] * 1000
        half = side_km * 500 / degree_metres
        return cls.over((longitude - half, south, longitude + half, north), resolution)

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return self.rows, self.columns

    @cached_property
    def cell_metres(self) -> tuple[float, float]:
        """Width and height of a cell on the ground, in metres, at the middle of the grid."""
        west, south, east, north = self.bounds
        x, y = (west + east) / 2, (south + north) / 2
        dx, dy = (east - west) / self.columns / 2, (north - south) / self.rows / 2
        xs, ys = np.array([x - dx, x + dx, x, x]), np.array([y, y, y - dy, y + dy])
        longitude, latitude = transform(xs, ys, self.crs, DEGREES)
        ellipsoid = pyproj.Geod(ellps="WGS84")
        metres = ellipsoid.inv(longitude[[0, 2]], latitude[[0, 2]], longitude[[1, 3]], latitude[[1, 3]])[2]
        return float(metres[0]), float(metres[1])

    def to_cells(self, x: Floats, y: Floats, crs: str = DEGREES) -> tuple[Floats, Floats]:
        """Coordinates of `crs` in cells: (0, 0) is the south-west corner, (columns, rows) the north-east one."""
        x, y = transform(x, y, crs, self.crs)
        west, south, east, north = self.bounds
        return (x - west) * (self.columns / (east - west)), (y - south) * (self.rows / (north - south))

    def from_cells(self, u: Floats, v: Floats) -> tuple[Floats, Floats]:
        """The inverse of `to_cells`, in the grid's own CRS."""
        west, south, east, north = self.bounds
        return west + u * ((east - west) / self.columns), south + v * ((north - south) / self.rows)

    def __str__(self) -> str:
        width, height = self.cell_metres
        return (
            f"{self.rows} x {self.columns} cells of {width:,.0f} m x {height:,.0f} m "
            f"over {_spell(self.bounds)} ({self.crs})"
        )


def _numbers(values: object, count: int) -> tuple[float, ...] | None:
    """`values` as `count` floats; None if they are anything else."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        return None
    found = tuple(values)
    numbers = all(isinstance(value, Real) and not isinstance(value, bool) for value in found)
    return tuple(map(float, found)) if len(found) == count and numbers else None


def _whole(value: object) -> int | None:
    """`value` as an int; None if it is not a whole number."""
    return int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None


def _brief(value: object) -> str:
    """A wrong parameter for an error message: its value if short, else only its type, because it may hold data."""
    plain = isinstance(value, str | int | float | None) or (
        isinstance(value, tuple | list) and len(value) <= 6 and all(isinstance(v, str | int | float) for v in value)
    )
    return repr(value) if plain and len(repr(value)) <= 80 else f"a {type(value).__name__}"


def _spell(bounds: tuple[float, ...]) -> str:
    return " ".join(f"{value:.10g}" for value in bounds)


def check_order(bounds: Bounds, crs: str) -> None:
    """Raise an `InputError` for bounds of a huge area that would be a city's if read as west, east, south, north.

    Grids do not check this themselves, so that users who really want such a grid can have it.
    """
    west, south, east, north = bounds
    if not (west < south and east < north) or (is_degrees(crs) and east < -90):
        return
    if (south - west) * (north - east) < (east - west) * (north - south) / 1000:
        raise InputError(
            f"bounds must be (west, south, east, north); {_spell(bounds)} look like west, east, south, north. "
            f"Did you mean {_spell((west, east, south, north))}? If not, confirm with sure=True."
        )
