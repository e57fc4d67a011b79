"""Forecast the errors of a publication for given zones, by the sizes of the zones.

A forecast knows nothing about the trips, so neither the place nor the shape of a zone matters. Each zone gets the
expected error of rectangles whose sides are about as long as those of a square with the area of the zone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dqam.geometry.areas import PlacedAreas
from dqam.geometry.arrays import Floats, Integers, Mask
from dqam.geometry.rectangles import ALL, ON_LINE, SizeBand
from dqam.publishing.forecast import ExpectedError, Forecast


@dataclass(frozen=True)
class ZoneClass:
    """Zones of similar size, and the error to expect for them.

    zones      the number of zones
    smallest   side of a square with the area of the smallest of them, in cells
    largest    the same of the largest
    expected   the errors of rectangles of about this size
    beyond     -1 if the zones are smaller than the rectangles of the smallest band, so that their error is at least
               that of the band; 1 if they are larger than those of the largest band, so that it is at most that; else 0
    """

    zones: int
    smallest: float
    largest: float
    expected: ExpectedError
    beyond: int = 0


@dataclass(frozen=True, eq=False)
class ZoneForecast:
    """What to expect for m zones.

    classes  from the smallest zones to the largest, without empty ones
    errors   float64[m], the expected error of each zone, relative to the average answer; NaN outside the map
    """

    classes: tuple[ZoneClass, ...]
    errors: Floats


def forecast_zones(made: Forecast, zones: PlacedAreas) -> ZoneForecast:
    """What a forecast says about zones on the same grid.

    >>> import shapely
    >>> from dqam.geometry.areas import place_areas
    >>> from dqam.geometry.grid import Grid
    >>> from dqam.publishing.forecast import forecast
    >>> from dqam.publishing.plan import Plan
    >>> plan = Plan.of(Grid.over((0, 0, 256, 256), crs="EPSG:32631"), epsilon=1)
    >>> zones = place_areas([shapely.box(10, 10, 22, 22), shapely.Point(100, 100).buffer(60)], plan.grid)
    >>> found = forecast_zones(forecast(plan, 20_000), zones)
    >>> [(one.zones, one.expected.band.name, round(one.expected.error, 2)) for one in found.classes]
    [(1, '9-16', 0.23), (1, '65-128', 0.03)]
    """
    rows = [row for row in made.errors if row.band.name != ALL] or list(made.errors)
    sides = equivalent_sides(zones)
    place = _places(sides, [row.band for row in rows])
    classes, errors = [], np.full(len(zones), np.nan)
    for at in range(-1, len(rows) + 1):
        inside = place == at
        if inside.any():
            row, beyond = rows[min(max(at, 0), len(rows) - 1)], (at == len(rows)) - (at < 0)
            errors[inside] = row.error
            here = sides[inside]
            classes.append(ZoneClass(len(here), float(here.min()), float(here.max()), row, beyond))
    return ZoneForecast(tuple(classes), errors)


def equivalent_sides(zones: PlacedAreas) -> Floats:
    """float64[m], the sides of squares with the areas of the zones on the map, in cells; NaN outside the map."""
    sides: Floats = np.sqrt(zones.cells)
    return sides


def below_one_cell(zones: PlacedAreas) -> Mask:
    """bool[m], whether the part of a zone on the map is smaller than one cell."""
    small: Mask = zones.cells < 1 - 4 * ON_LINE
    return small


def _places(sides: Floats, bands: list[SizeBand]) -> Integers:
    """int64[m], the band of each side: -1 below all of them, len(bands) above all of them, and -2 where it is NaN.

    Bands have whole numbers of cells, so there is a gap of one cell between two of them, which they share.
    """
    low, high = (np.array([(band.widths[end] * band.heights[end]) ** 0.5 for band in bands]) for end in (0, 1))
    edges = np.concatenate([[low[0] - 0.5], (high[:-1] + low[1:]) / 2, [high[-1] + 0.5]])
    found = np.searchsorted(edges, sides, side="right") - 1
    return np.where(np.isnan(sides), -2, found).astype(np.int64)
