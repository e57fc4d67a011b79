"""Answers of a release for zones of 50 corners, against rasterstats on the raster of its cells.

The release gives distinct trips with confidence intervals. rasterstats sums the cells of each zone, so that a trip
through two cells counts twice: its numbers mean something else, and only the times are compared.
"""

from __future__ import annotations

import numpy as np
import shapely

from benchmarks.measure import claim, options, seconds
from dqam import cities
from dqam.geometry.areas import place_areas
from dqam.geometry.arrays import Shapes
from dqam.geometry.grid import Grid
from dqam.geometry.walks import walk
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.publishing.plan import Plan

CORNERS = 50


def random_zones(grid: Grid, number: int) -> Shapes:
    """Uneven polygons around places on the grid, with radii of 2 to 30 cells, in the units of the grid."""
    rng = np.random.default_rng(0)
    angles = np.linspace(0, 2 * np.pi, CORNERS, endpoint=False)
    radii = np.exp(rng.uniform(np.log(2), np.log(30), (number, 1))) * rng.uniform(0.6, 1, (number, CORNERS))
    middle = rng.uniform(0, 1, (number, 2)) * (grid.columns, grid.rows)
    x, y = middle[:, :1] + radii * np.cos(angles), middle[:, 1:] + radii * np.sin(angles)
    corners = np.stack(grid.from_cells(x.ravel(), y.ravel()), axis=1)
    zones: Shapes = shapely.polygons(corners.reshape(number, CORNERS, 2))
    return zones


def main(*arguments: str) -> None:
    from rasterio.transform import from_bounds
    from rasterstats import zonal_stats

    tiny = options(__doc__).parse_args(arguments or None).tiny
    count, number, resolution = (300, 20, 4) if tiny else (20_000, 10_000, 8)
    grid = Grid.over(cities.BOUNDS, resolution)
    trips = next(cities.city_trips(count, seed=0))
    release = Plan.of(grid, 1).release(Curator(walk(trips, grid), Budget(1), SeededNoise(0)), "a benchmark")
    zones = list(random_zones(grid, number))
    raster = release.histogram.faces[::-1].astype(np.float64)  # rows from the north
    place = from_bounds(*grid.bounds, grid.columns, grid.rows)
    release.counts(zones[:20])  # compile
    ours, _ = seconds(lambda: release.counts(zones))
    placing, _ = seconds(lambda: place_areas(zones, grid))
    sums, _ = seconds(lambda: zonal_stats(zones, raster, affine=place, stats="sum", nodata=-1), runs=1)
    print(
        f"{number:,} zones of {CORNERS} corners: ours {ours:.3f} s, of which placing {placing:.3f} s; "
        f"rasterstats {sums:.2f} s"
    )
    claim("rasterstats / ours, with intervals", sums / ours, 1)


if __name__ == "__main__":
    main()
