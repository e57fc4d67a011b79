"""`Release`: a published map, which custodians save and analysts open and query."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dqam.errors import InputError
from dqam.geometry.areas import is_geometry
from dqam.release.answers import Answer
from dqam.release.frames import declared_crs, is_frame, warn_of_changes
from dqam.release.published_map import CONFIDENCE, PublishedMap, geometries

if TYPE_CHECKING:
    import geopandas
    import pandas
    import xarray
    from matplotlib.axes import Axes

    from dqam.release.notebook import Explorer


@dataclass(frozen=True, eq=False, repr=False)
class Release(PublishedMap):
    """A published map of trips: ask it for the distinct trips through any area.

    count(west, south, east, north)  one rectangle, with a confidence interval
    count(polygon)                   one area of any shape
    counts(areas)                    many at once; `.to_frame()` makes a table of the answers
    crossings(lines)                 how often trips cross lines, such as bridges
    slices, select(slices)           the slices that trips are in, such as hours, and the map of some of them
    profile(area)                    one area in every slice
    flow(origin, destination)        trips from one area to another, if the release has flows
    flows(zones), largest_flows(k)   the trips between all pairs of zones, and the largest of these
    trips                            all distinct trips on the map
    cells()                          every cell, or blocks of cells
    difference(other, areas)         how many more trips there are than in another release
    plot(), explore()                a picture, and a page to ask, in a notebook
    report(), to_geodataframe(), to_h3(resolution), to_xarray(), save(path)

    `grid` is where the map is; `provenance` is how it was made and what it guarantees. Everything in a release was
    either paid for from the privacy budget or public from the start, so any use of it is safe.

    >>> import dqam
    >>> from dqam.cities import BOUNDS, city_trips
    >>> grid = dqam.Grid.over(BOUNDS, resolution=6)
    >>> release = dqam.publish(next(city_trips(1_000, seed=0)), grid, epsilon=1, dataset="another example")
    >>> answer = release.count(-30.02, 44.98, -29.98, 45.02)
    >>> 0 <= answer.low <= answer.value <= answer.high
    True
    >>> wide, narrow = (release.count(-30.02, 44.98, -29.98, 45.02, confidence=sure) for sure in (0.9, 0.5))
    >>> wide.high - wide.low > narrow.high - narrow.low
    True
    >>> found = release.counts([(-30.02, 44.98, -29.98, 45.02), (-30.03, 44.97, -29.97, 45.03)])
    >>> bool(found.value[0] <= found.value[1])  # a larger rectangle never has fewer
    True
    """

    def flow(
        self,
        origin: Any,
        destination: Any,
        *,
        crs: str | None = None,
        confidence: float = CONFIDENCE,
        slices: str | Sequence[str] | None = None,
    ) -> Answer:
        """The number of trips that begin in one area and end in another.

        An area is a polygon, or a rectangle as four numbers: west, south, east and north. None is anywhere on the map.
        A trip that comes from outside begins where it enters the map, and one that leaves ends where it was last on it.
        If the interval begins at 0, there are too few trips to tell.
        """
        from dqam.release.flow_answers import flow

        release = self if slices is None else self.select(slices)
        return flow(release, origin, destination, crs, confidence)

    def flows(
        self,
        zones: Any = None,
        *,
        from_: Any = None,
        to: Any = None,
        names: str | Sequence[object] | None = None,
        least: float | None = None,
        crs: str | None = None,
        confidence: float = CONFIDENCE,
        slices: str | Sequence[str] | None = None,
    ) -> pandas.DataFrame:
        """The trips between all pairs of zones, or between one area and every zone.

        With `zones`, a table with the columns origin, destination, trips, low and high. With `from_` or `to`, one area:
        a map (GeoDataFrame) of where its trips go or come from, by zone or, without zones, by cell.

        Zones are a GeoDataFrame, a list of polygons, or rows of west, south, east and north. Their names come from the
        column `names`; by default, from the first of the columns name, id, code and h3 that exists, or else from the
        index of the frame or the position in the list. Rows of zones that do not overlap can be added up.

        Args:
            least: rows with fewer trips are left out; 0 for up to 250,000 pairs and for one area, else 0.5.
        """
        from dqam.release.flow_answers import one_end, pairs_of_zones

        release = self if slices is None else self.select(slices)
        if from_ is not None and to is not None:
            raise InputError("Give from_ or to, not both; for two areas, use release.flow(origin, destination).")
        if from_ is not None or to is not None:
            area, leaving = (from_, True) if to is None else (to, False)
            return one_end(release, area, leaving, zones, names, crs, confidence, least)
        if zones is None:
            raise InputError("Give zones for a table of all pairs, or from_=... or to=... for a map of one area.")
        return pairs_of_zones(release, zones, names, crs, confidence, least)

    def largest_flows(
        self, k: int = 10, zones: Any = None, *, slices: str | Sequence[str] | None = None, **options: Any
    ) -> pandas.DataFrame:
        """The k pairs of zones with the most trips, as in `flows`, the largest first. Without zones, pairs of the tiles
        in which flows were measured, which are numbered row by row from the south-west."""
        from dqam.release.flow_answers import bounds_of, largest, table_of

        release = self if slices is None else self.select(slices)
        column = self.provenance.column("trips")
        if zones is None and options.get("from_") is None and options.get("to") is None:
            zones = bounds_of(table_of(release).tiles, release)
        return largest(release.flows(zones, **options), k, column)

    def difference(
        self,
        other: PublishedMap,
        areas: Any,
        *,
        crs: str | None = None,
        confidence: float = CONFIDENCE,
        slices: str | Sequence[str] | None = None,
    ) -> Any:
        """The trips through one or many areas in this release minus those in another, such as that of an earlier month.

        One area, as in `count`, gives one `Difference`; many, as in `counts`, give `Differences`, and a GeoDataFrame
        gives a copy of it with the columns trips, trips_of_other, difference, low and high (with `_not_private` in
        their names if the releases are not). The intervals are for two independent publications: variances add up.

        The maps may have different grids. Each release has its own privacy guarantee, and for someone who is in both,
        the epsilons add up. With `slices`, only the trips of these slices are counted in both.

        Raises:
            InputError: the two count different things, such as all trips and 5 trips of each person, or are from the
                same publication.
        """
        from dqam.release.difference import differences

        crs = crs or declared_crs(areas, self.grid)
        if is_frame(areas):
            found = differences(self, other, areas.geometry, crs, confidence, slices)
            warn_of_changes(found.first.asked, "area")
            return areas.assign(**found.columns)
        alone = is_geometry(areas) or (np.ndim(areas) == 1 and np.size(areas) == 4 and not geometries(areas))
        found = differences(self, other, [areas] if alone else areas, crs, confidence, slices)
        return found[0] if alone else found

    def plot(
        self,
        ax: Axes | None = None,
        area: Any = None,
        slices: str | Sequence[str] | None = None,
        *,
        blocks: int | None = None,
        crs: str | None = None,
        confidence: float = CONFIDENCE,
        legend: bool = True,
        figsize: tuple[float, float] | None = None,
        **options: Any,
    ) -> Axes:
        """Draw the map with matplotlib, in its own CRS; returns the axes.

        Args:
            ax: draws on these axes; by default on those of a new figure.
            area: a polygon or rectangle, as in `count`, to outline; the title gives its answer.
            slices: draws only the trips of these slices.
            blocks: of cells along the longer side; by default the cells themselves, or 256 blocks if there are more.
            crs: of the area, if it is not that of the map.
            confidence: of the interval in the title.
            legend: whether to draw a colour bar.
            figsize: of a new figure, in inches.
            options: for `Axes.pcolormesh`, such as cmap, norm, vmin, vmax and alpha.
        """
        from dqam.release.plot import plot

        release = self if slices is None else self.select(slices)
        return plot(release, ax, area, blocks, crs, confidence, legend, figsize, options)

    def explore(self, height: int = 640) -> Explorer:
        """The explorer in a notebook: query areas on the map, without a server or a network."""
        from dqam.release.notebook import Explorer

        return Explorer.of(self, height)

    def to_xarray(self) -> xarray.Dataset:
        """Faces, edges and everything else that is saved, by CF conventions."""
        from dqam.release.file import to_dataset

        return to_dataset(self, by_slice=True)

    def to_geodataframe(self, blocks: int | None = None) -> geopandas.GeoDataFrame:
        """A row for each cell, or block of cells (see `cells`): geometry, trips, low and high; 90 % intervals.

        Rows do not add up: a trip through two cells counts in both. `trips` is named `trips_not_private` where the
        noise came from a seed.
        """
        from dqam.release.export import to_geodataframe

        return to_geodataframe(self, blocks)

    def to_h3(self, resolution: int) -> geopandas.GeoDataFrame:
        """A row for each hexagon of H3 that meets the map: h3 (its index), trips, low, high, cut and geometry; 90 %
        intervals.

        At the border of the map, the answer is for the part of a hexagon that is on the map (`cut`), but the geometry
        is the whole hexagon. Rows do not add up: a trip through two hexagons counts in both. Counts of hexagons that
        are smaller than a cell are only interpolated.

        Args:
            resolution: of H3, from 0 (largest hexagons) to 15 (smallest); at most 1,000,000 hexagons may meet the map.
        """
        from dqam.release.export import to_h3

        return to_h3(self, resolution)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write one NetCDF-4 file, for `dqam.open`; it appears whole or not at all, and replaces no other
        file unless `overwrite` says so."""
        from dqam.release.file import save

        save(self, path, overwrite)

    def report(self) -> str:
        """One HTML page that explains the release, as text to write to a file."""
        from dqam.release.report import report

        return report(self)

    def _repr_html_(self) -> str:
        """What a notebook shows: a picture, the guarantee, the number of trips, and how to ask."""
        from dqam.release.notebook import describe

        return describe(self)

    def __repr__(self) -> str:
        flows = "" if self.flow_table is None else ", with flows"
        return (
            f"<Release {self.provenance.title!r}, {self.provenance.mechanism}: {self.provenance.promise} {self.grid}"
            f"{flows}>"
        )
