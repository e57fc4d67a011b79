"""What a forecast says about zones."""

import numpy as np
import pytest
import shapely

from dqam.geometry.areas import PlacedAreas, place_areas
from dqam.geometry.grid import Grid
from dqam.publishing.forecast import forecast
from dqam.publishing.plan import Plan
from dqam.publishing.zone_forecast import below_one_cell, equivalent_sides, forecast_zones

GRID = Grid((0, 0, 256, 256), 256, 256, "EPSG:32631")  # of cells of 1 m x 1 m


def squares(*sides: float, grid: Grid = GRID) -> PlacedAreas:
    return place_areas([shapely.box(0, 0, side, side) for side in sides], grid)


@pytest.mark.parametrize(
    ("side", "band", "beyond"),
    [
        (0.3, "2-4", -1),
        (1.4, "2-4", -1),
        (1.6, "2-4", 0),
        (4.4, "2-4", 0),
        (4.6, "5-8", 0),
        (12, "9-16", 0),
        (64.4, "33-64", 0),
        (64.6, "65-128", 0),
        (128, "65-128", 0),
        (129, "65-128", 1),
        (256, "65-128", 1),
    ],
)
def test_a_zone_has_the_error_of_the_nearest_band(side: float, band: str, beyond: int) -> None:
    made = forecast(Plan.of(GRID, 1), 20_000)
    (row,) = (row for row in made.errors if row.band.name == band)
    found = forecast_zones(made, squares(side))
    (one,) = found.classes
    assert (one.zones, one.expected, one.beyond) == (1, row, beyond)
    assert (one.smallest, one.largest) == (pytest.approx(side), pytest.approx(side))
    assert found.errors.tolist() == [row.error]


def test_classes_go_from_small_to_large_and_count_the_zones() -> None:
    found = forecast_zones(forecast(Plan.of(GRID, 1), 20_000), squares(100, 6, 3, 7, 200, 1, 5))
    assert [(one.zones, one.expected.band.name, one.beyond) for one in found.classes] == [
        (1, "2-4", -1),
        (1, "2-4", 0),
        (3, "5-8", 0),
        (1, "65-128", 0),
        (1, "65-128", 1),
    ]
    assert (found.classes[2].smallest, found.classes[2].largest) == (pytest.approx(5), pytest.approx(7))
    assert found.errors[1] == found.errors[3] == found.errors[6] == found.classes[2].expected.error


def test_only_the_area_on_the_map_matters_and_not_the_shape() -> None:
    zones = place_areas(
        [
            shapely.box(-50, 10, 4, 74),
            shapely.Point(100, 100).buffer(16 / np.pi**0.5, 64),
            shapely.box(300, 0, 310, 10),
        ],
        GRID,
    )
    assert equivalent_sides(zones)[:2].tolist() == pytest.approx([16, 16], rel=1e-3)
    found = forecast_zones(forecast(Plan.of(GRID, 1), 20_000), zones)
    assert [(one.zones, one.expected.band.name) for one in found.classes] == [(2, "9-16")]
    assert np.isnan(found.errors).tolist() == [False, False, True]


def test_zones_below_one_cell() -> None:
    zones = place_areas(
        [
            shapely.box(3.5, 3.5, 4.5, 4.5),
            shapely.box(3, 3, 3.9, 4),
            shapely.box(0, 0, 1 - 1e-9, 1),
            shapely.box(300, 0, 301, 1),
        ],
        GRID,
    )
    assert below_one_cell(zones).tolist() == [False, True, False, False]


@pytest.mark.parametrize(("rows", "columns"), [(1, 64), (2, 2), (16, 64), (4096, 4096)])
def test_other_grids(rows: int, columns: int) -> None:
    """Where no band has a whole number of cells, the error is that of all rectangles."""
    grid = Grid((0, 0, columns, rows), rows, columns, "EPSG:32631")
    made = forecast(Plan.of(grid, 1), 20_000)
    found = forecast_zones(made, squares(*np.geomspace(0.1, rows, 20), grid=grid))
    assert sum(one.zones for one in found.classes) == 20
    assert (np.diff(found.errors) <= 0).all()
    assert {one.expected.band.name == "all" for one in found.classes} == {rows == 1}
