"""Answers about flows: how many trips go from one area to another."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import shapely

from dqam.errors import InputError
from dqam.geometry.areas import PlacedAreas, is_geometry, on_map, place_areas
from dqam.geometry.arrays import Floats, Integers, Shapes
from dqam.geometry.flow_table import Covered, FlowTable
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
MOST_ROWS = 10_000_000
NAME_COLUMNS = ("name", "id", "code", "h3")
NO_FLOWS = (
    "This release has no flows. They are published with flows=True, or `dqam publish --flows`; they cannot be added to "
    "a release later."
)


def table_of(release: PublishedMap) -> FlowTable:
    """The table of flows; an `InputError` if the release has none."""
    if release.flow_table is None:
        raise InputError(NO_FLOWS)
    return release.flow_table


def flow(release: PublishedMap, origin: Any, destination: Any, crs: str | None, confidence: float) -> Answer:
    """The trips from one area to another; None is anywhere on the map."""
    check_confidence(confidence)
    table = table_of(release)
    if origin is None and destination is None:
        return release.trips
    ends = [None if area is None else _placed([area], release, crs) for area in (origin, destination)]
    flags = {
        name: any(bool(getattr(end, name)[0]) for end in ends if end is not None)
        for name in ("grown", "cut", "repaired")
    }
    out, into = (_shapes(end, release) for end in ends)
    value, variance = table.between(table.leaving(out), table.arriving(into))
    low, high = _interval(value[0], variance[0], confidence)
    column = release.provenance.column("trips")
    return Answer(float(value[0, 0]), float(low[0]), float(high[0]), **flags, column=column)


def pairs_of_zones(
    release: PublishedMap, zones: Any, names: Any, crs: str | None, confidence: float, least: float | None
) -> pandas.DataFrame:
    """The table of all pairs of zones with at least `least` trips."""
    import pandas

    check_confidence(confidence)
    table, (placed, called) = table_of(release), _zones(zones, names, release, crs)
    if least is None:
        least = 0.0 if len(called) ** 2 <= ALL_PAIRS else LEAST
    if not least >= 0:
        raise InputError(f"least must be a number of trips of at least 0; got {least!r:.60}.")
    shapes = _shapes(placed, release)
    found = list(_pairs(table, table.leaving(shapes), table.arriving(shapes), ~placed.outside, least))
    origin, destination, value, variance = (np.concatenate(each) for each in zip(*found, strict=True))
    low, high = _interval(value, variance, confidence)
    columns = {"origin": called[origin], "destination": called[destination]}
    return pandas.DataFrame({**columns, release.provenance.column("trips"): value, "low": low, "high": high})


def _pairs(
    table: FlowTable, out: Covered, into: Covered, known: Any, least: float
) -> Iterator[tuple[Integers, Integers, Floats, Floats]]:
    """Origins, destinations, trips and variances of the pairs with enough trips, origin by origin."""
    rows = 0
    for first in range(0, len(out), AT_ONCE):
        parts = []
        for start in range(0, len(into), AT_ONCE):
            value, variance = table.between(out.rows(first, first + AT_ONCE), into.rows(start, start + AT_ONCE))
            enough = (value >= least) & known[first : first + AT_ONCE, None] & known[start : start + AT_ONCE]
            origin, destination = np.nonzero(enough)
            parts.append((origin + first, destination + start, value[enough], variance[enough]))
            rows += len(origin)
            if rows > MOST_ROWS:
                raise InputError(
                    f"More than {MOST_ROWS:,} pairs of zones have at least {least:g} trips; give a larger least=..., "
                    "such as 1."
                )
        origin, destination, value, variance = (np.concatenate(each) for each in zip(*parts, strict=True))
        order = np.lexsort((destination, origin))
        yield origin[order], destination[order], value[order], variance[order]


def one_end(
    release: PublishedMap,
    area: Any,
    leaving: bool,
    zones: Any,
    names: Any,
    crs: str | None,
    confidence: float,
) -> geopandas.GeoDataFrame:
    """A map of where the trips from an area go (`leaving`), or where those to it come from, by zone or by cell."""
    import geopandas

    check_confidence(confidence)
    table, here = table_of(release), _shapes(_placed([area], release, crs), release)
    if zones is None:
        shapes = _cells(table.cells)
        called, geometry = np.arange(len(shapes)), on_map(shapes, release.grid)
        known = np.ones(len(shapes), np.bool_)
    else:
        placed, called = _zones(zones, names, release, crs)
        shapes, geometry, known = _shapes(placed, release), on_map(placed.shapes, release.grid), ~placed.outside
    if leaving:
        value, variance = (each[0] for each in table.between(table.leaving(here), table.arriving(shapes)))
    else:
        value, variance = (each[:, 0] for each in table.between(table.leaving(shapes), table.arriving(here)))
    low, high = _interval(value, variance, confidence)
    columns = {
        "destination" if leaving else "origin": called,
        release.provenance.column("trips"): value,
        "low": low,
        "high": high,
    }
    frame = geopandas.GeoDataFrame(columns, geometry=geometry, crs=release.grid.crs)
    return frame[known].reset_index(drop=True)


def tile_bounds(release: PublishedMap) -> Floats:
    """float64[tiles, 4]: west, south, east and north of the tiles of the table, row by row from the south."""
    return np.asarray(shapely.bounds(on_map(_cells(table_of(release).tiles), release.grid)))


def _interval(value: Floats, variance: Floats, confidence: float) -> tuple[Floats, Floats]:
    """The ends of confidence intervals."""
    reach = NormalDist().inv_cdf(0.5 + confidence / 2) * np.sqrt(variance)
    return np.maximum(value - reach, 0.0), value + reach


def _placed(areas: Any, release: PublishedMap, crs: str | None) -> PlacedAreas:
    """Areas on the grid of the map, where rectangles are extended to grid lines."""
    if all(is_geometry(area) for area in areas):
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
    shapes = geometries(zones)
    placed = _placed(zones if shapes is None else shapes, release, crs)
    if called is None:
        called = np.arange(len(placed)) if names is None else names
    called = np.asarray(called)
    if called.shape != (len(placed),):
        raise InputError(f"There are {called.size:,} names for {len(placed):,} zones; give one for each.")
    if count := int(placed.outside.sum()):
        warnings.warn(
            f"{count:,} of {len(placed):,} zones {'is' if count == 1 else 'are'} outside the map and left out.",
            UserWarning,
            stacklevel=4,
        )
    return placed, called


def _cells(lattice: Lattice) -> Shapes:
    """The cells of a lattice as rectangles in cells of the grid."""
    return np.asarray(shapely.box(*lattice.rectangles.T.astype(np.float64)))


def largest(frame: pandas.DataFrame, k: int, column: str) -> pandas.DataFrame:
    """The k rows with most trips."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise InputError(f"k must be a whole number of at least 1; got {k!r:.60}.")
    order = np.argsort(-frame[column].to_numpy(), kind="stable")[:k]
    return frame.iloc[order].reset_index(drop=True)
