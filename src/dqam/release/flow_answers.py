"""Answers about flows: how many trips go from one area to another."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, fields
from numbers import Real
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import shapely

from dqam.errors import InputError
from dqam.geometry.areas import PlacedAreas, is_geometry, on_map, place_areas
from dqam.geometry.arrays import Floats, Integers, Mask, Shapes
from dqam.geometry.flow_table import Covered, FlowTable, boxes
from dqam.geometry.lattice import Lattice
from dqam.geometry.rectangles import as_rectangles, snap
from dqam.release.answers import Answer
from dqam.release.frames import declared_crs, is_frame
from dqam.release.published_map import PublishedMap, check_confidence, geometries

if TYPE_CHECKING:
    import geopandas
    import pandas

ALL_PAIRS = 250_000  # pairs of zones, up to which a table has all of them
LEAST = 0.5  # trips of a pair that a longer table has
AT_ONCE = 2_000  # zones at either end for which pairs are computed together
TOO_FEW = 0.5  # trips; an interval that begins below this contains 0
MOST_ROWS = 10_000_000
NAME_COLUMNS = ("name", "id", "code", "h3")
NO_FLOWS = "This release has no flows. To have them, publish with flows=True; they cannot be added to a release later."


def table_of(release: PublishedMap) -> FlowTable:
    """The table of flows; an `InputError` if the release has none."""
    if release.flow_table is None:
        raise InputError(NO_FLOWS)
    return release.flow_table


def flow_note(release: PublishedMap) -> str:
    """What readers must know about all flows of a release; empty for most releases."""
    if table_of(release).tiles.cells > 1:
        return ""
    return (
        "There were too few trips for this epsilon to measure which places they connect: origins and destinations are "
        "assumed to be independent of each other."
    )


@dataclass(frozen=True, eq=False)
class Flows:
    """The trips of m pairs of areas.

    origin, destination  int64[m], positions in the list of areas
    trips, low, high     float64[m], with the ends of confidence intervals
    """

    origin: Integers
    destination: Integers
    trips: Floats
    low: Floats
    high: Floats

    def __len__(self) -> int:
        return len(self.trips)

    @property
    def too_few(self) -> Mask:
        """bool[m], whether the interval contains 0, so that there are too few trips to tell."""
        return self.low < TOO_FEW

    def some(self, chosen: Integers | Mask) -> Flows:
        """Some of the pairs."""
        return Flows(*(getattr(self, each.name)[chosen] for each in fields(self)))

    def largest(self, k: int) -> Flows:
        """The k pairs with the most trips, the largest first."""
        return self.some(np.argsort(-self.trips, kind="stable")[:k])


def flow(release: PublishedMap, origin: Any, destination: Any, crs: str | None, confidence: float) -> Answer:
    """The trips from one area to another; None is anywhere on the map."""
    check_confidence(confidence)
    table = table_of(release)
    if origin is None and destination is None:
        return release.trips
    ends = [None if area is None else _place_one(area, release, crs) for area in (origin, destination)]
    flags = {
        name: any(bool(getattr(end, name)[0]) for end in ends if end is not None)
        for name in ("grown", "cut", "repaired")
    }
    out, into = (_shapes(end, release) for end in ends)
    value, variance = table.between(table.leaving(out), table.arriving(into))
    low, high = _interval(value[0], variance[0], confidence)
    column = release.provenance.column("trips")
    return Answer(float(value[0, 0]), float(low[0]), float(high[0]), **flags, column=column)


def flows_between(release: PublishedMap, placed: PlacedAreas, confidence: float, least: float | None = None) -> Flows:
    """The pairs of areas on the map with at least `least` trips, origin by origin."""
    check_confidence(confidence)
    table = table_of(release)
    if least is None:
        least = default_least(len(placed))
    _check_least(least)
    shapes = _shapes(placed, release)
    found = list(_pairs(table, table.leaving(shapes), table.arriving(shapes), ~placed.outside, least))
    origin, destination, value, variance = (np.concatenate(each) for each in zip(*found, strict=True))
    order = np.lexsort((destination, origin))
    origin, destination, value, variance = (each[order] for each in (origin, destination, value, variance))
    return Flows(origin, destination, value, *_interval(value, variance, confidence))


def default_least(zones: int) -> float:
    """The trips that pairs of so many zones must have to be in a table."""
    return 0.0 if zones**2 <= ALL_PAIRS else LEAST


def _check_least(least: Any) -> None:
    if not isinstance(least, Real) or not float(least) >= 0:
        raise InputError(f"least must be a number of trips of at least 0; got {least!r:.60}.")


def _pairs(
    table: FlowTable, out: Covered, into: Covered, known: Mask, least: float
) -> Iterator[tuple[Integers, Integers, Floats, Floats]]:
    """Origins, destinations, trips and variances of the pairs with enough trips, in blocks."""
    rows = 0
    for start in range(0, len(into), AT_ONCE):
        inflow = table.leading_to(into.rows(start, start + AT_ONCE))
        for first in range(0, len(out), AT_ONCE):
            value, variance = inflow.coming_from(out.rows(first, first + AT_ONCE))
            enough = (value >= least) & known[first : first + AT_ONCE, None] & known[start : start + AT_ONCE]
            origin, destination = np.nonzero(enough)
            rows += len(origin)
            if rows > MOST_ROWS:
                more = f"least={max(1.0, 2 * least):g}"
                raise InputError(
                    f"More than {MOST_ROWS:,} pairs of zones have at least {least:g} trips; ask only for those with "
                    f"more, such as {more}."
                )
            yield origin + first, destination + start, value[enough], variance[enough]


def flows_of(
    release: PublishedMap,
    area: Any,
    leaving: bool,
    placed: PlacedAreas | None,
    confidence: float,
    least: float | None = None,
    crs: str | None = None,
) -> Flows:
    """The trips from one area to others (`leaving`), or from others to it; without others, to and from every cell.

    The position of the one area is 0, whatever the others are.
    """
    check_confidence(confidence)
    table, here = table_of(release), _shapes(_place_one(area, release, crs), release)
    if least is not None:
        _check_least(least)
    shapes = boxes(table.cells) if placed is None else _shapes(placed, release)
    if leaving:
        value, variance = (each[0] for each in table.between(table.leaving(here), table.arriving(shapes)))
    else:
        value, variance = (each[:, 0] for each in table.between(table.leaving(shapes), table.arriving(here)))
    known = np.ones(len(shapes), np.bool_) if placed is None else ~placed.outside
    chosen = np.flatnonzero(known & (value >= (least or 0.0)))
    value, none = value[chosen], np.zeros(len(chosen), np.int64)
    ends = (none, chosen) if leaving else (chosen, none)
    return Flows(*ends, value, *_interval(value, variance[chosen], confidence))


def pairs_of_zones(
    release: PublishedMap, zones: Any, names: Any, crs: str | None, confidence: float, least: float | None
) -> pandas.DataFrame:
    """The table of all pairs of zones with at least `least` trips."""
    import pandas

    table_of(release)  # which raises if there is none
    placed, called = _zones(zones, names, release, crs)
    found = flows_between(release, placed, confidence, least)
    columns = {"origin": called[found.origin], "destination": called[found.destination]}
    return pandas.DataFrame(
        {**columns, release.provenance.column("trips"): found.trips, "low": found.low, "high": found.high}
    )


def one_end(
    release: PublishedMap,
    area: Any,
    leaving: bool,
    zones: Any,
    names: Any,
    crs: str | None,
    confidence: float,
    least: float | None,
) -> geopandas.GeoDataFrame:
    """A map of where the trips from an area go (`leaving`), or where those to it come from, by zone or by cell."""
    import geopandas

    table = table_of(release)
    if zones is None:
        placed, geometry = None, on_map(boxes(table.cells), release.grid)
        called = np.arange(len(geometry))
    else:
        placed, called = _zones(zones, names, release, crs)
        geometry = on_map(placed.shapes, release.grid)
    found = flows_of(release, area, leaving, placed, confidence, least, crs)
    at = found.destination if leaving else found.origin
    columns = {
        "destination" if leaving else "origin": called[at],
        release.provenance.column("trips"): found.trips,
        "low": found.low,
        "high": found.high,
    }
    return geopandas.GeoDataFrame(columns, geometry=geometry[at], crs=release.grid.crs)


def bounds_of(lattice: Lattice, release: PublishedMap) -> Floats:
    """float64[cells, 4]: west, south, east and north of the cells of a lattice, row by row from the south."""
    return np.asarray(shapely.bounds(on_map(boxes(lattice), release.grid)))


def _interval(value: Floats, variance: Floats, confidence: float) -> tuple[Floats, Floats]:
    """The ends of confidence intervals."""
    reach = NormalDist().inv_cdf(0.5 + confidence / 2) * np.sqrt(variance)
    return np.maximum(value - reach, 0.0), value + reach


def _place_one(area: Any, release: PublishedMap, crs: str | None) -> PlacedAreas:
    """One area on the grid of the map."""
    return area if isinstance(area, PlacedAreas) else place([area], release, crs)


def place(areas: Any, release: PublishedMap, crs: str | None = None) -> PlacedAreas:
    """Areas on the grid of the map, where rectangles are extended to grid lines."""
    if isinstance(areas, PlacedAreas):
        return areas
    if hasattr(areas, "__iter__") and all(is_geometry(area) for area in areas):
        return place_areas(areas, release.grid, crs)
    snapped = snap(as_rectangles(areas), release.grid, crs)
    west, south = release.grid.from_cells(*snapped.cells[:, :2].T.astype(float))
    east, north = release.grid.from_cells(*snapped.cells[:, 2:].T.astype(float))
    placed = place_areas(shapely.box(west, south, east, north), release.grid)
    placed.grown[:], placed.cut[:] = snapped.grown, snapped.cut
    return placed


def _shapes(placed: PlacedAreas | None, release: PublishedMap) -> Shapes:
    """Areas in cells of the grid; rectangles of whole cells as they are counted, and the whole map for None."""
    rows, columns = release.grid.shape
    if placed is None:
        return np.array([shapely.box(0, 0, columns, rows)], object)
    shapes, boxes = placed.shapes.copy(), placed.is_rectangle
    shapes[boxes] = shapely.box(*placed.rectangles[boxes].T.astype(float))
    return shapes


def _zones(zones: Any, names: Any, release: PublishedMap, crs: str | None) -> tuple[PlacedAreas, Any]:
    """Zones on the grid, and their names; a warning says how many have no answer."""
    crs = crs or declared_crs(zones, release.grid)
    called: Any = None
    if is_frame(zones):
        column = names if isinstance(names, str) else next((c for c in NAME_COLUMNS if c in zones.columns), None)
        if isinstance(names, str) and names not in zones.columns:
            raise InputError(f"The zones have no column {names!r:.60}; they have {', '.join(map(str, zones.columns))}.")
        called = zones.index if column is None else zones[column]
        zones = zones.geometry
    shapes = None if isinstance(zones, PlacedAreas) else geometries(zones)
    placed = place(zones if shapes is None else shapes, release, crs)
    if called is None:
        called = np.arange(len(placed)) if names is None else names
    called = np.asarray(called)
    if called.shape != (len(placed),):
        raise InputError(f"There are {called.size:,} names for {len(placed):,} zones; give one for each.")
    if (count := int(placed.outside.sum())) and placed is not zones:  # whoever placed them knows
        warnings.warn(
            f"{count:,} of {len(placed):,} zones {'is' if count == 1 else 'are'} outside the map and left out.",
            UserWarning,
            stacklevel=4,
        )
    return placed, called


def largest(frame: pandas.DataFrame, k: int, column: str) -> pandas.DataFrame:
    """The k rows with the most trips."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise InputError(f"k must be a whole number of at least 1; got {k!r:.60}.")
    order = np.argsort(-frame[column].to_numpy(), kind="stable")[:k]
    return frame.iloc[order].reset_index(drop=True)
