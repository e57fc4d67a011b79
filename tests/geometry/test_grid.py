from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pyarrow as pa
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
    with pytest.raises(InputError, match=f"resolution .* from 1 to 12; got {resolution}"):
        Grid.over((0, 0, 1, 1), resolution)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((None, 4, 4), r"bounds must be four numbers \(west, south, east, north\); got None"),
        (("0 0 1 1", 4, 4), "bounds must be four numbers .* got '0 0 1 1'"),
        ((("0", "0", "1", "1"), 4, 4), "bounds must be four numbers"),
        (((0, 0, 1, 1, 2), 4, 4), "bounds must be four numbers"),
        (((0, 0, 1, None), 4, 4), "bounds must be four numbers"),
        ((7, 4, 4), "bounds must be four numbers .* got 7"),
        ((np.arange(1000.0), 4, 4), "bounds must be four numbers .* got a ndarray"),
        (((0, 0, 1, 1), "4", 4), "rows must be a whole number from 1 to 4096; got '4'"),
        (((0, 0, 1, 1), 4.0, 4), "rows must be a whole number from 1 to 4096; got 4.0"),
        (((0, 0, 1, 1), 4, None), "columns must be a whole number from 1 to 4096; got None"),
        (((0, 0, 1, 1), 4, 4, None), "crs must be a string such as 'EPSG:4326'; got None"),
        (((0, 0, 1, 1), 4, 4, 4326), "crs must be a string such as 'EPSG:4326'; got 4326"),
    ],
)
def test_parameters_of_a_wrong_kind_are_named(arguments: tuple[object, ...], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Grid(*arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Grid.over((0, 0, 1, 1), "8"), "resolution .* got '8'"),  # type: ignore[arg-type]
        (lambda: Grid.over((0, 0, 1, 1), 8.0), "resolution .* got 8.0"),  # type: ignore[arg-type]
        (lambda: Grid.over(None), "bounds must be four numbers"),  # type: ignore[arg-type]
        (lambda: Grid.square(5, 10), r"center must be \(longitude, latitude\) in degrees; got 5"),  # type: ignore[arg-type]
        (lambda: Grid.square((0, 95), 10), "center must be"),
        (lambda: Grid.square((0, 0), "10"), "side_km must be a positive number of at most 2,000; got '10'"),  # type: ignore[arg-type]
        (lambda: Grid.square((0, 0), -1), "side_km must be"),
    ],
)
def test_other_ways_to_a_grid_name_their_parameters(make: Callable[[], Grid], says: str) -> None:
    with pytest.raises(InputError, match=says):
        make()


def test_numbers_of_numpy_and_fractions_make_a_grid() -> None:
    grid = Grid(np.array([0, 0, 1, 1], np.float32), np.int16(3), np.uint8(4))  # type: ignore[arg-type]
    assert grid == Grid((0.0, 0.0, 1.0, 1.0), 3, 4)
    assert [type(side) for side in grid.bounds] == [float] * 4
    assert type(grid.rows) is int
    assert Grid((0, 0, Fraction(1, 2), 1), 1, 1).bounds[2] == 0.5


def test_bounds_stand_for_a_grid() -> None:
    grid = Grid((0, 0, 1, 1), 3, 4, "EPSG:3857")
    assert Grid.of(grid) is grid
    for bounds in ((-8.68, 41.11, -8.56, 41.2), [-8.68, 41.11, -8.56, 41.2], np.array([-8.68, 41.11, -8.56, 41.2])):
        assert Grid.of(bounds) == Grid.over((-8.68, 41.11, -8.56, 41.2))
    with pytest.raises(InputError, match="Did you mean"):
        Grid.of((1, 1, 0, 0))


@pytest.mark.parametrize("value", [None, "porto", "0 0 1 1", 8, (0, 0, 1), {"bounds": 1}, np.zeros((4, 2))])
def test_what_is_no_grid_is_told_what_is_wanted(value: object) -> None:
    with pytest.raises(InputError, match=r"grid must be a Grid, .* \(west, south, east, north\) in degrees; got"):
        Grid.of(value)  # type: ignore[arg-type]


def test_errors_never_print_a_table() -> None:
    with pytest.raises(InputError) as caught:
        Grid.of(pa.table({"x": [41.123456]}))  # type: ignore[arg-type]
    assert "41.12" not in str(caught.value)
    assert "a Table" in str(caught.value)


def test_unknown_crs() -> None:
    with pytest.raises(InputError, match="'EPSG:0' is not a coordinate reference system"):
        Grid.over((0, 0, 1, 1), 4, "EPSG:0")


def test_rectangular_grid_limits() -> None:
    assert Grid((0, 0, 1, 1), 3, 7).shape == (3, 7)
    with pytest.raises(InputError, match="rows must be a whole number from 1 to 4096; got 0"):
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
