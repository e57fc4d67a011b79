"""Random areas and lines on a map, of all kinds: convex or not, with holes, in parts, along or across its border."""

from typing import Any

import numpy as np
import shapely
from shapely import LineString, MultiLineString, Polygon, affinity, box

from dqam.geometry.grid import Grid

KINDS = 9


def rectangles(rng: np.random.Generator, grid: Grid, count: int) -> np.ndarray:
    """float64[count, 4] in the CRS of the grid, some of whole cells, some across its border."""
    sides = [np.sort(rng.uniform(-3, cells + 3, (count, 2)), axis=1) for cells in (grid.columns, grid.rows)]
    x, y = (np.where(rng.random((count, 1)) < 0.3, np.round(one), one) for one in sides)
    x[:, 1], y[:, 1] = np.maximum(x[:, 1], 0.5), np.maximum(y[:, 1], 0.5)
    x[:, 0], y[:, 0] = np.minimum(x[:, 0], grid.columns - 0.5), np.minimum(y[:, 0], grid.rows - 0.5)
    return np.stack([*grid.from_cells(x[:, 0], y[:, 0]), *grid.from_cells(x[:, 1], y[:, 1])], axis=1)


def areas(rng: np.random.Generator, grid: Grid, count: int) -> list[Any]:
    """Valid polygons and multipolygons in the CRS of the grid; all meet it."""
    return [_placed(_until(lambda kind=i % KINDS: _area(rng, grid, kind), grid, 1e-3), grid) for i in range(count)]


def lines(rng: np.random.Generator, grid: Grid, count: int) -> list[Any]:
    """Lines and multilines, likewise."""
    return [_placed(_until(lambda: _line(rng, grid), grid, 1e-3), grid) for _ in range(count)]


def _until(draw: Any, grid: Grid, least: float) -> Any:
    """The first that is valid where it will be, and of which enough is on the map."""
    while True:
        shape = draw()
        if shape.geom_type == "GeometryCollection" or not shape.is_valid or not _placed(shape, grid).is_valid:
            continue
        if "Polygon" in shape.geom_type:
            inside = shapely.intersection(shape, box(0, 0, grid.columns, grid.rows)).area
        else:
            inside = shapely.clip_by_rect(shape, 0, 0, grid.columns, grid.rows).length
        if inside > least:
            return shape


def _placed(shape: Any, grid: Grid) -> Any:
    return shapely.transform(shape, lambda xy: np.stack(grid.from_cells(xy[:, 0], xy[:, 1]), axis=1))


def _star(rng: np.random.Generator, centre: np.ndarray, radius: float, corners: int, dent: float) -> Polygon:
    while True:
        angles = np.sort(rng.uniform(0, 2 * np.pi, corners))
        far = radius * (1 - dent * rng.random(corners))
        star = Polygon(centre + np.stack([far * np.cos(angles), far * np.sin(angles)], axis=1))
        if star.is_valid:
            return star


def _area(rng: np.random.Generator, grid: Grid, kind: int) -> Any:
    """An area in cells."""
    size = max(grid.shape) * float(rng.choice([0.03, 0.1, 0.3, 0.8]))
    extent = np.array([grid.columns, grid.rows])
    centre = rng.uniform(-0.1, 1.1, 2) * extent
    if kind == 0:
        return _star(rng, centre, size, int(rng.integers(3, 7)), 0)
    if kind == 1:
        return _star(rng, centre, size, int(rng.integers(5, 40)), 0.8)
    if kind == 2:  # with holes
        holes = [_star(rng, centre + rng.normal(0, size * 0.3, 2), size * 0.15, 6, 0.5) for _ in range(3)]
        return _star(rng, centre, size, 24, 0.2).difference(shapely.union_all(holes))
    if kind == 3:  # in parts
        return shapely.union_all([_star(rng, centre + rng.normal(0, size, 2), size * 0.4, 12, 0.6) for _ in range(4)])
    if kind == 4:
        return box(*centre, *(centre + rng.uniform(0.01, 1, 2) * extent))
    if kind == 5:  # of whole cells, often along the border of the map
        one, other = (_whole_cells(rng, grid, beyond) for beyond in (0, 2))
        return one.union(other) if rng.random() < 0.5 else one.difference(other)
    if kind == 6:  # around the whole map, with a hole
        around = box(*(-rng.random(2) * extent), *((1 + rng.random(2)) * extent))
        return around.difference(_star(rng, centre, size, 15, 0.5))
    if kind == 7:
        return affinity.rotate(box(*centre, *(centre + np.array([size, size * 0.3]))), rng.uniform(0, 90))
    x = np.linspace(-5, grid.columns + 5, 13)  # a comb that the border cuts into several parts
    y = grid.rows * np.where(np.arange(13) % 2, 0.9, 1.1) + rng.normal(0, grid.rows / 100, 13)
    comb = Polygon([*zip(x, y, strict=True), (x[-1], 1.4 * grid.rows), (x[0], 1.4 * grid.rows)])
    return affinity.rotate(comb, 90 * int(rng.integers(4)), tuple(extent / 2))


def _whole_cells(rng: np.random.Generator, grid: Grid, beyond: int) -> Polygon:
    low = [rng.integers(-beyond, cells - 1) for cells in (grid.columns, grid.rows)]
    sizes = zip(low, (grid.columns, grid.rows), strict=True)
    high = [rng.integers(start + 1, cells + 1 + beyond) for start, cells in sizes]
    return box(*low, *high)


def _line(rng: np.random.Generator, grid: Grid) -> Any:
    def one() -> np.ndarray:
        steps = rng.normal(0, max(grid.shape) * float(rng.choice([0.02, 0.2])), (int(rng.integers(1, 11)), 2))
        start = rng.uniform(0, 1, (1, 2)) * [grid.columns, grid.rows]
        return np.cumsum(np.concatenate([start, steps]), axis=0)

    kind = rng.integers(4)
    if kind == 0:
        return LineString(np.round(one()))  # often along grid lines
    return MultiLineString([one() for _ in range(3)]) if kind == 1 else LineString(one())


def touching(rng: np.random.Generator, count: int) -> list[Any]:
    """Polygons and multipolygons with corners at few places, so that most touch or cross themselves."""

    def ring(low: int, high: int, most: int) -> list[Any]:
        return rng.integers(low, high, (int(rng.integers(3, most)), 2)).astype(float).tolist()

    def polygon() -> Polygon:
        whole = (
            [(-3, -3), (11, -3), (11, 9), (-3, 9)],
            [(0, 0), (8, 0), (8, 6), (0, 6)],
            ring(-3, 12, 7),
            ring(-3, 12, 7),
        )
        return Polygon(whole[rng.integers(4)], [ring(-1, 9, 5) for _ in range(int(rng.integers(3)))])

    made = []
    while len(made) < count:
        parts = [polygon() for _ in range(1 if rng.random() < 0.7 else 2)]
        made.append(parts[0] if len(parts) == 1 else shapely.MultiPolygon(parts))
    return made
