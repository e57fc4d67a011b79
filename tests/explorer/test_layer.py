"""Images of releases: every pixel at its place on Earth."""

import numpy as np
import pytest

from dqam.explorer.layer import Layer, in_degrees
from dqam.geometry.grid import Grid, transform
from dqam.release.release import Release
from tests.explorer.conftest import numbered


def check_places(layer: Layer, release: Release) -> None:
    """Every pixel shows the cell at its place on Earth, found by pyproj's own Web Mercator."""
    grid = release.grid
    west, south, east, north = layer.bounds
    x, y = transform(np.array([west, east]), np.array([south, north]), "EPSG:4326", "EPSG:3857")
    if x[1] < x[0]:  # pyproj does not go on beyond the 180th meridian
        x[1] += 2 * np.pi * 6_378_137
    height, width = layer.values.shape
    pixels = np.meshgrid(
        x[0] + (np.arange(width) + 0.5) * (x[1] - x[0]) / width,
        y[1] - (np.arange(height) + 0.5) * (y[1] - y[0]) / height,
    )
    u, v = grid.to_cells(*transform(*pixels, "EPSG:3857", grid.crs), grid.crs)
    sure = (np.abs(u - np.round(u)) > 1e-4) & (np.abs(v - np.round(v)) > 1e-4)
    inside = (u > 0) & (u < grid.columns) & (v > 0) & (v < grid.rows)
    assert np.isnan(layer.values[~inside & sure]).all()
    wanted = release.histogram.faces[v[inside & sure].astype(int), u[inside & sure].astype(int)]
    np.testing.assert_array_equal(layer.values[inside & sure], wanted.astype(np.float32))
    assert set(np.unique(layer.values[inside])) >= set(release.histogram.faces.ravel().astype(np.float32))
    assert (inside & sure).mean() > 0.8


@pytest.mark.parametrize(
    "grid",
    [
        Grid((-8.68, 41.11, -8.56, 41.20), 40, 64),
        Grid((-30, -10, 60, 80), 50, 33),
        Grid((300_000.0, 5_800_000.0, 330_000.0, 5_824_000.0), 24, 30, "EPSG:28355"),
        Grid((-500_000, -500_000, 500_000, 500_000), 16, 16, "+proj=laea +lat_0=-17 +lon_0=179.5 +datum=WGS84"),
    ],
    ids=["degrees", "wide", "metres", "over the 180th meridian"],
)
def test_a_layer_is_at_the_right_place_on_earth(grid: Grid, first: Release) -> None:
    release = numbered(grid, first)
    layer = Layer.of(release)
    assert layer.block == (1, 1)
    assert max(layer.values.shape) <= 1024
    check_places(layer, release)


def test_a_rectangle_over_the_180th_meridian(first: Release) -> None:
    grid = Grid((-500_000, -500_000, 500_000, 500_000), 16, 16, "+proj=laea +lat_0=-17 +lon_0=179.5 +datum=WGS84")
    release = numbered(grid, first)
    answers = release.counts([(178.0, -18.0, 183.0, -16.0), (178.0, -18.0, 180.0, -16.0)], crs="EPSG:4326")
    wide, narrow = in_degrees(answers.rectangles.bounds, grid)
    assert narrow[2] < 182 < wide[2] < 185
    assert answers.value[1] < answers.value[0]


def test_a_large_grid_is_shown_in_blocks(first: Release) -> None:
    release = numbered(Grid.over((0, 0, 1, 1), 10), first)
    layer = Layer.of(release)
    assert (layer.values.shape, layer.block) == ((1024, 1024), (2, 2))
    assert "block of 2 x 2 cells" in layer.meaning
    assert layer.values[-1, 0] == layer.values[-2, 1] == release.histogram.faces[:2, :2].sum()
