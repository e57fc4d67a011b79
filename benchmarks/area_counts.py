"""Exact counts of areas of any shape, against a Shapely STRtree of the same trips.

Both sides start from points in degrees and polygons in cells. The time of the tree includes making the lines and the
tree; ours includes placing the sides of the areas in buckets.
"""

from __future__ import annotations

import numpy as np
import shapely

from benchmarks.measure import city, claim, options, seconds
from benchmarks.zones import random_zones
from dqam import cities
from dqam.geometry.area_counting import count_in_areas
from dqam.geometry.areas import PlacedAreas, place_areas
from dqam.geometry.arrays import Integers
from dqam.geometry.grid import Grid
from dqam.geometry.trips import Trips
from dqam.sources import read


def by_tree(trips: Trips, areas: PlacedAreas, grid: Grid) -> Integers:
    """Distinct counts from an STRtree of LineStrings."""
    points = np.stack(grid.to_cells(trips.x, trips.y, trips.crs), axis=1)
    indices = np.repeat(np.arange(len(trips)), np.diff(trips.offsets))
    lines = shapely.linestrings(points, indices=indices)
    pairs = shapely.STRtree(lines).query(areas.shapes, predicate="intersects")
    return np.bincount(pairs[0], minlength=len(areas))


def main(*arguments: str) -> None:
    tiny = options(__doc__).parse_args(arguments or None).tiny
    count, number = (1_000, 50) if tiny else (10_000, 1_000)
    grid = Grid.over(cities.BOUNDS, 8)
    trips = read(city(count)).trips()
    areas = place_areas(random_zones(grid, number), grid)
    count_in_areas([trips.slice(0, 10)], areas, grid)  # compile
    ours, counts = seconds(lambda: count_in_areas([trips], areas, grid))
    tree, same = seconds(lambda: by_tree(trips, areas, grid), runs=1)
    np.testing.assert_array_equal(counts, same)
    print(f"{number:,} areas x {count:,} trips: ours {ours:.3f} s, STRtree {tree:.2f} s; the counts are equal")
    claim("Shapely STRtree / ours", tree / ours, 10)


if __name__ == "__main__":
    main()
