import numpy as np
import pyproj
import pytest

from dqam.errors import InputError
from dqam.geometry.grid import Grid, check_order


def test_square_has_the_wanted_sides_on_the_ground() -> None:
    grid = Grid.square((-8.62, 41.155), side_km=10, resolution=8)
    west, south, east, north = grid.bounds
    ellipsoid = pyproj.Geod(ellps="WGS84")
    middle = (south + north) / 2
    assert ellipsoid.inv(west, 41.155, east, 41.155)[2] == pytest.approx(10_000, rel=1e-5)
    assert ellipsoid.inv(-8.62, south, -8.62, north)[2] == pytest.approx(10_000, rel=1e-5)
    assert middle == pytest.approx(41.155, abs=1e-4)
    assert grid.shape == (256, 256)
    assert grid.cell_metres == pytest.approx((10_000 / 256, 10_000 / 256), rel=1e-4)


def test_degrees_are_divided_evenly_and_counted_from_the_south_west() -> None:
    grid = Grid((10.0, 40.0, 14.0, 42.0), rows=2, columns=8)
    u, v = grid.to_cells(np.array([10.0, 14.0, 11.0]), np.array([40.0, 42.0, 41.5]))
    np.testing.assert_allclose(u, [0, 8, 2])
    np.testing.assert_allclose(v, [0, 2, 1.5])
    x, y = grid.from_cells(u, v)
    np.testing.assert_allclose(x, [10, 14, 11])
    np.testing.assert_allclose(y, [40, 42, 41.5])


def test_other_crs_places_points_where_pyproj_does() -> None:
    grid = Grid((320_000, 5_810_000, 330_000, 5_820_000), 100, 100, "EPSG:28355")
    x, y = pyproj.Transformer.from_crs("EPSG:4326", "EPSG:28355", always_xy=True).transform(144.98, -37.80)
    u, v = grid.to_cells(np.array([144.98]), np.array([-37.80]))
    assert u[0] == pytest.approx((x - 320_000) / 100)
    assert v[0] == pytest.approx((y - 5_810_000) / 100)
    assert grid.cell_metres == pytest.approx((100, 100), rel=1e-3)


@pytest.mark.parametrize(
    ("bounds", "says"),
    [
        ((1.0, 0.0, 0.0, 1.0), "Did you mean 0 0 1 1"),
        ((0.0, 1.0, 1.0, 0.0), "got 0 1 1 0"),
        ((0.0, 0.0, 0.0, 1.0), "west < east"),
        ((0.0, 0.0, float("nan"), 1.0), "finite"),
        ((0.0, 0.0, 500.0, 1.0), "-180..180"),
        ((0.0, 0.0, 1.0), "four numbers"),
    ],
)
def test_bad_bounds_are_named(bounds: tuple[float, ...], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Grid.over(bounds)  # type: ignore[arg-type]


@pytest.mark.parametrize("resolution", [0, 13, -1])
def test_resolution_out_of_range(resolution: int) -> None:
    with pytest.raises(InputError, match=f"1 to 12; got {resolution}"):
        Grid.over((0, 0, 1, 1), resolution)


def test_unknown_crs() -> None:
    with pytest.raises(InputError, match="'EPSG:0' is not a coordinate reference system"):
        Grid.over((0, 0, 1, 1), 4, "EPSG:0")


def test_rectangular_grid_limits() -> None:
    assert Grid((0, 0, 1, 1), 3, 7).shape == (3, 7)
    with pytest.raises(InputError, match="1 to 4096 rows; got 0"):
        Grid((0, 0, 1, 1), 0, 7)


SLIPS = [
    ((-8.68, -8.56, 41.11, 41.20), "EPSG:4326", "-8.68 41.11 -8.56 41.2"),
    ((-74.05, -73.9, 40.6, 40.9), "EPSG:4326", "-74.05 40.6 -73.9 40.9"),
    ((310_000, 330_000, 5_805_000, 5_825_000), "EPSG:28355", "310000 5805000 330000 5825000"),
]


@pytest.mark.parametrize(("bounds", "crs", "meant"), SLIPS)
def test_bounds_in_another_order_are_noticed(bounds: tuple[float, ...], crs: str, meant: str) -> None:
    grid = Grid.over(bounds, 8, crs)  # on purpose
    with pytest.raises(InputError, match=f"Did you mean {meant}\\? If not, confirm with sure=True\\."):
        check_order(grid.bounds, crs)
    west, east, south, north = bounds
    check_order((west, south, east, north), crs)


@pytest.mark.parametrize(
    ("bounds", "crs"),
    [
        ((-180, -90, 180, 90), "EPSG:4326"),
        ((-25, 34, 45, 72), "EPSG:4326"),  # Europe
        ((-170, -60, -100, 80), "EPSG:4326"),
        ((30.0, 30.5, 36.0, 36.1), "EPSG:4326"),  # where longitude and latitude are similar
        ((0, 0, 1, 1), "EPSG:4326"),
        ((-20_000_000, -20_000_000, 20_000_000, 20_000_000), "EPSG:3857"),
    ],
)
def test_other_bounds_raise_no_alarm(bounds: tuple[float, float, float, float], crs: str) -> None:
    check_order(bounds, crs)
