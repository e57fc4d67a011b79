"""Areas and lines near the 180th meridian, as files and people write them."""

from typing import Any

import numpy as np
import pytest
import shapely
from shapely.geometry import LineString, MultiLineString, MultiPolygon, Polygon, box

from dqam.geometry.areas import place_areas, place_lines
from dqam.geometry.grid import DEGREES, Grid
from dqam.geometry.unwrapping import unwrap

EAST = Grid((177.0, -19.0, 179.9, -16.0), 64, 64)
WIDE, HIGH = 64 / 2.9, 64 / 3  # cells to a degree
WEST = Grid((-179.9, -19.0, -177.0, -16.0), 64, 64)
METRES = np.radians(1) * 6378137
FIJI = Grid((29 * METRES, -1.9e6, 31 * METRES, -1.8e6), 4, 8, "EPSG:3832")  # Mercator around 150 degrees east


@pytest.mark.parametrize(
    ("bounds", "cells"),
    [
        ((-180, -90, 180, 90), 64 * 64),
        ((0, -30, 180, 10), 64 * 64),
        ((-10, -30, 180, 10), 64 * 64),
        ((176, -20, 184, -10), 64 * 64),
        ((178, -18, 184, -17), 1.9 * WIDE * HIGH),
        ((-182, -18, -181, -17), WIDE * HIGH),
    ],
)
def test_wide_rectangles_are_answered_as_polygons_too(bounds: tuple[float, ...], cells: float) -> None:
    placed = place_areas([box(*bounds)], EAST)
    assert placed.cells[0] == pytest.approx(cells)
    assert placed.is_rectangle[0]


ACROSS = [
    Polygon([(178, -18), (-179, -18), (-179, -17), (178, -17)]),
    Polygon([(-179, -17), (178, -17), (178, -18), (-179, -18)]),
    Polygon([(178, -18), (180, -18), (-179, -18), (-179, -17), (180, -17), (178, -17)]),
    Polygon([(178, -18), (180, -18), (-180, -18), (-179, -18), (-179, -17), (-180, -17), (180, -17), (178, -17)]),
    MultiPolygon([box(178, -18, 180, -17), box(-180, -18, -179, -17)]),
    box(178, -18, 181, -17),
    box(-182, -18, -179, -17),
]


@pytest.mark.parametrize("shape", ACROSS, ids=range(len(ACROSS)))
def test_areas_across_the_meridian_are_in_one_piece_and_not_called_repaired(shape: Any) -> None:
    for grid, degrees in ((EAST, 1.9), (WEST, 0.9)):
        placed = place_areas([shape], grid)
        assert placed.cells[0] == pytest.approx(degrees * WIDE * HIGH)
        assert placed.is_rectangle[0]
        assert not placed.repaired[0]


def test_parts_that_meet_on_the_meridian_are_one_on_a_map_across_it() -> None:
    split = MultiPolygon([box(179.5, -16.8, 180, -16.3), box(-180, -16.8, -179.5, -16.2)])
    placed = place_areas([split], FIJI, DEGREES)
    west, _, east, _ = shapely.bounds(placed.shapes[0])
    assert (west, east) == pytest.approx((2, 6))
    assert placed.shapes[0].geom_type == "Polygon"
    assert not placed.repaired[0]


def test_holes_go_with_their_shells() -> None:
    shell = [(178, -18), (-179, -18), (-179, -17), (178, -17)]
    hole = [(-179.5, -17.8), (-179.4, -17.8), (-179.4, -17.6)]
    (found,) = unwrap(np.array([Polygon(shell, [hole])], object), EAST)
    assert found.is_valid
    assert found.area == pytest.approx(2.99)
    assert found.interiors[0].bounds == pytest.approx((180.5, -17.8, 180.6, -17.6))


def test_a_ring_around_a_pole_stays_as_it_is() -> None:
    south = Polygon([(-180, -90), (-180, -17), (0, -20), (180, -17), (180, -90)])
    assert unwrap(np.array([south], object), EAST)[0].equals(south)


def test_areas_that_overlap_in_the_file_are_still_repaired() -> None:
    both = MultiPolygon([box(177.5, -18, 179, -17), box(178, -18, 179.5, -17)])
    placed = place_areas([both], EAST)
    assert placed.repaired[0]
    assert placed.cells[0] == pytest.approx(2 * WIDE * HIGH)


@pytest.mark.parametrize(
    "line",
    [
        LineString([(178, -17), (-179, -17)]),
        LineString([(-179, -17), (178, -17)]),
        MultiLineString([[(178, -17), (180, -17)], [(-180, -17), (-179, -17)]]),
    ],
    ids=["east", "west", "split"],
)
def test_lines_across_the_meridian(line: Any) -> None:
    assert shapely.length(place_lines([line], EAST).shapes[0]) == pytest.approx(1.9 * WIDE)


def test_elsewhere_nothing_is_moved() -> None:
    shapes = np.array([box(-170, 0, 170, 1), box(0, 0, 1, 1)], object)
    assert unwrap(shapes, Grid((0, 0, 1, 1), 4, 4)) is shapes
