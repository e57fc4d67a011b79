"""How many trips go from one area to another, from a table of trips between the tiles of a coarse lattice.

Within a tile, trips are divided in proportion to how many begin, or end, in each cell of a finer lattice. Between two
given tiles, origins and destinations are assumed to be independent. An area covers a share of the origins and a share
of the destinations of each tile, so the number of trips from A to B is the sum over all pairs of tiles (i, j) of

    share of A in the origins of i  *  trips from i to j  *  share of B in the destinations of j.

Answers for disjoint areas therefore add up, and those for all pairs of areas that cover the map add up to all trips.

The variance of an answer has four parts: that of the trips between tiles, those of the shares at either end, and one
for tiles of which the areas cover only a part. Trips between the same two tiles resemble each other more than if each
trip chose its cells independently (`alike`), which increases the last part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import shapely

from dqam.geometry.arrays import Floats, Integers, Shapes
from dqam.geometry.lattice import Lattice

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MOST_VARIANCE = 0.25  # of a share, which is between 0 and 1
UNEVEN = 0.5  # how unevenly trips begin within a cell: 1 if all of them do so at one point
AT_ONCE = 500  # areas whose covered cells are found together


@dataclass(frozen=True, eq=False)
class Ends:
    """One end of trips: where within its tile a trip begins, or ends.

    shares    float64[cells], the share of the trips of its tile; adds up to 1 in each tile
    variance  float64[cells], of the trips of a cell relative to those of its tile
    """

    shares: Floats
    variance: Floats


@dataclass(frozen=True, eq=False)
class Covered:
    """The parts of all tiles that m areas cover, for one end of trips.

    shares    float64[m, tiles], the shares of the trips of each tile
    variance  float64[m, tiles], of these shares
    """

    shares: csr_array
    variance: csr_array

    def __len__(self) -> int:
        return int(self.shares.shape[0])

    def rows(self, first: int, last: int) -> Covered:
        """Some of the areas."""
        return Covered(self.shares[first:last], self.variance[first:last])


@dataclass(frozen=True, eq=False)
class FlowTable:
    """Trips by origin and destination.

    tiles         the lattice of the table
    cells         a finer lattice with all lines of `tiles`
    trips         float64[tiles, tiles], from each tile to each tile
    variance      float64[tiles, tiles], of the true numbers around these
    origins       where trips begin within tiles
    destinations  where they end
    alike         how alike trips between the same two tiles are, from 0 to 1
    by_slice      how they are divided among slices; None if there are no slices
    """

    tiles: Lattice
    cells: Lattice
    trips: Floats
    variance: Floats
    origins: Ends
    destinations: Ends
    alike: float
    by_slice: FlowSlices | None = None

    @property
    def total(self) -> float:
        """The number of all trips."""
        return float(self.trips.sum())

    def scaled(self, factor: float, deviation: float) -> FlowTable:
        """The table with all numbers multiplied by a factor with this standard deviation."""
        variance = factor**2 * self.variance + (deviation * self.trips) ** 2
        return replace(self, trips=factor * self.trips, variance=variance)

    def leaving(self, areas: Shapes) -> Covered:
        """The shares of the origins that areas, in cells of the grid, cover; None covers nothing."""
        return self._covered(areas, self.origins)

    def arriving(self, areas: Shapes) -> Covered:
        """The shares of the destinations that areas cover."""
        return self._covered(areas, self.destinations)

    def between(self, origins: Covered, destinations: Covered) -> tuple[Floats, Floats]:
        """float64[m, k] each: the trips from each of m areas to each of k, and their variances."""
        return self.leading_to(destinations).coming_from(origins)

    def leading_to(self, destinations: Covered) -> Inflow:
        """The trips from each tile to areas."""
        into, split = destinations.shares, self.trips * (1 + self.alike * np.maximum(self.trips - 1, 0))

        def added_up(shares: csr_array, numbers: Floats) -> Floats:
            return np.ascontiguousarray((shares @ numbers.T).T)

        return Inflow(
            self,
            added_up(into, self.trips),
            added_up(into.power(2), self.variance - split),
            added_up(into, split),
            destinations.variance,
        )

    def _covered(self, areas: Shapes, ends: Ends) -> Covered:
        """The parts of the tiles that areas cover."""
        from scipy.sparse import csr_array  # slow to import, and only needed here

        tile_of = self.tiles.within(self.cells).labels.ravel()
        places = boxes(self.cells)
        tree = shapely.STRtree(places)
        starts = range(0, max(len(areas), 1), AT_ONCE)
        parts = [_fractions(areas[first : first + AT_ONCE], places, tree) for first in starts]
        area = np.concatenate([part[0] + first for first, part in zip(starts, parts, strict=True)])
        cell, fraction = (np.concatenate([part[which] for part in parts]) for which in (1, 2))
        shape = len(areas), self.tiles.cells
        pairs, place = np.unique(area * shape[1] + tile_of[cell], return_inverse=True)

        def added(values: Floats) -> Floats:
            """The sum over the cells of each pair of an area and a tile."""
            return np.asarray(np.bincount(place, values, len(pairs)), np.float64)

        share = np.minimum(added(fraction * ends.shares[cell]), 1.0)
        inside = added(fraction**2 * ends.variance[cell])
        cut = added(UNEVEN * fraction * (1 - fraction) * ends.shares[cell] ** 2)
        rows, columns = np.divmod(pairs, shape[1])
        outside = np.bincount(tile_of, ends.variance, shape[1])[columns] - inside
        # if x and y are uncertain, the share s = x / (x + y) has the variance (1 - s)^2 var(x) + s^2 var(y)
        variance = (1 - share) ** 2 * inside + share**2 * np.maximum(outside, 0.0) + cut
        variance[share >= 1 - 1e-9] = 0.0
        variance = np.minimum(variance, MOST_VARIANCE)
        return Covered(*(csr_array((each, (rows, columns)), shape=shape) for each in (share, variance)))


@dataclass(frozen=True, eq=False)
class Inflow:
    """The trips from each tile to k areas.

    table     the table of flows
    trips     float64[tiles, k]
    variance  float64[tiles, k], of trips between tiles, in excess of `split`
    split     float64[tiles, k], variance that stems from which trips between two tiles end in an area
    shares    float64[k, tiles], variance of the shares of the areas
    """

    table: FlowTable
    trips: Floats
    variance: Floats
    split: Floats
    shares: csr_array

    def coming_from(self, origins: Covered) -> tuple[Floats, Floats]:
        """float64[m, k] each: the trips from each of m areas, and their variances."""
        out = origins.shares
        variance = out.power(2) @ self.variance
        variance += out @ self.split
        variance += origins.variance @ self.trips**2
        variance += (self.shares @ (out @ self.table.trips).T ** 2).T
        return np.asarray(out @ self.trips), np.maximum(np.asarray(variance), 0.0)


@dataclass(frozen=True, eq=False)
class FlowSlices:
    """How trips between the tiles of a coarser lattice are divided among slices.

    names   of all slices, in order
    tiles   the lattice
    shares  float64[slices, tiles, tiles], the share of each slice in the trips of a pair; adds up to 1 over slices
    noise   float64[slices, tiles, tiles], standard deviations of these shares
    """

    names: tuple[str, ...]
    tiles: Lattice
    shares: Floats
    noise: Floats

    def of(self, table: FlowTable, names: Sequence[str]) -> FlowTable:
        """The table of the trips in some slices."""
        chosen = [self.names.index(name) for name in names]
        pair = np.ix_(*[coarse_places(self.tiles, table.tiles)] * 2)
        share = self.shares[chosen].sum(axis=0)[pair]
        noise = np.sqrt((self.noise[chosen] ** 2).sum(axis=0))[pair]
        trips = table.trips * share
        variance = share**2 * table.variance + (table.trips * noise) ** 2 + table.trips * share * (1 - share)
        return replace(table, trips=trips, variance=variance, by_slice=None)


def coarse_places(coarse: Lattice, tiles: Lattice) -> Integers:
    """int64[tiles]: the coarse tile in which the middle of each tile lies."""
    rows, columns = (
        np.searchsorted(lines, (cuts[1:] + cuts[:-1]) / 2, side="right") - 1
        for lines, cuts in ((coarse.north, tiles.north), (coarse.east, tiles.east))
    )
    return np.asarray(rows[:, None] * coarse.shape[1] + columns).ravel()


def boxes(lattice: Lattice) -> Shapes:
    """The cells of a lattice as rectangles in cells of the grid, row by row from the south."""
    return np.asarray(shapely.box(*lattice.rectangles.T.astype(np.float64)))


def _fractions(areas: Shapes, places: Shapes, tree: shapely.STRtree) -> tuple[Integers, Integers, Floats]:
    """Which areas meet which cells, and the fractions of the cells that they cover."""
    area, cell = tree.query(areas, predicate="intersects")
    inner = np.stack(tree.query(areas, predicate="contains"))
    partly = ~np.isin(area * len(places) + cell, inner[0] * len(places) + inner[1])
    fraction = np.ones(len(area))
    cut = shapely.intersection(areas[area[partly]], places[cell[partly]])
    fraction[partly] = shapely.area(cut) / shapely.area(places[cell[partly]])
    return area, cell, fraction
