"""`Release`: a published map, which custodians save and analysts open and query."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dqam.release.published_map import PublishedMap

if TYPE_CHECKING:
    import geopandas
    import xarray


@dataclass(frozen=True, eq=False, repr=False)
class Release(PublishedMap):
    """A published map of trips: ask it for the distinct trips through any area.

    count(west, south, east, north)  one rectangle, with a confidence interval
    count(polygon)                   one area of any shape
    counts(areas)                    many at once; `.to_frame()` makes a table of the answers
    crossings(lines)                 how often trips cross lines, such as bridges
    slices, select(slices)           the slices that trips are in, such as hours, and the map of some of them
    profile(area)                    one area in every slice
    trips                            all distinct trips on the map
    cells()                          every cell, or blocks of cells
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

    def __repr__(self) -> str:
        return (
            f"<Release {self.provenance.title!r}, {self.provenance.mechanism}: {self.provenance.promise} {self.grid}>"
        )
