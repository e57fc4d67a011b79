"""Small histograms for tests of consistency, and what they are checked against."""

from __future__ import annotations

import numpy as np

from dqam import cities
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.walks import Walks, walk

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


def grid_of(rows: int, columns: int) -> Grid:
    return Grid((0.0, 0.0, 1.0, 1.0), rows, columns)


def flux_histogram(a: np.ndarray, v: np.ndarray, h: np.ndarray) -> SpatialHistogram:
    return SpatialHistogram.from_flux(grid_of(*a.shape), a, v, h)


def parts(of: SpatialHistogram) -> Arrays:
    return of.endpoints, of.vertical, of.horizontal


def staircases(rng: np.random.Generator, rows: int, columns: int, trips: int) -> SpatialHistogram:
    """Walks that go straight, or turn between two directions only: they come to every rectangle at most once."""
    faces, v, h = np.zeros((rows, columns)), np.zeros((rows, columns - 1)), np.zeros((rows - 1, columns))
    for _ in range(trips):
        i, j = int(rng.integers(rows)), int(rng.integers(columns))
        up, right, share = rng.choice([-1, 1]), rng.choice([-1, 1]), rng.choice([0, 0.5, 1])
        faces[i, j] += 1
        for _ in range(int(rng.integers(0, rows + columns))):
            to = (i, j + right) if rng.random() < share else (i + up, j)
            if not (0 <= to[0] < rows and 0 <= to[1] < columns):
                break
            if to[0] == i:
                v[i, min(j, to[1])] += 1
            else:
                h[min(i, to[0]), j] += 1
            i, j = to
            faces[i, j] += 1
    return SpatialHistogram(grid_of(rows, columns), faces, v, h)


def noisy_city(resolution: int, scale: float) -> tuple[list[Walks], SpatialHistogram, SpatialHistogram]:
    """2,000 trips, their histogram, and this with Laplace noise: of `scale` in a, 40 times as much in edges."""
    grid = Grid.over(cities.BOUNDS, resolution)
    walks = [walk(trips, grid) for trips in cities.city_trips(2000, 0)]
    exact = SpatialHistogram.of(walks, grid)
    rng = np.random.default_rng(0)
    a, v, h = (
        part + rng.laplace(0, noise, part.shape)
        for part, noise in zip(parts(exact), (scale, 40 * scale, 40 * scale), strict=True)
    )
    return walks, exact, SpatialHistogram.from_flux(grid, a, v, h)
