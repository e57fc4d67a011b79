"""Areas and lines on a grid: what is placed where, what is said about it, and what is refused."""

import re
from typing import Any

import numpy as np
import pytest
import shapely
from shapely.geometry import LineString, MultiLineString, MultiPolygon, Point, Polygon, box

from dqam.errors import InputError
from dqam.geometry.areas import MOST_CORNERS, is_geometry, place_areas, place_lines
from dqam.geometry.grid import DEGREES, Grid, transform
from dqam.geometry.rectangles import snap

GRID = Grid((10.0, 50.0, 10.8, 50.4), 4, 8)  # a cell is 0.1 x 0.1 degrees
BOW = Polygon([(10.1, 50.1), (10.3, 50.3), (10.3, 50.1), (10.1, 50.3)])
TURN = np.linspace(0, 2 * np.pi, MOST_CORNERS + 1)
ROUND = np.stack([10.4 + 0.1 * np.cos(TURN), 50.2 + 0.1 * np.sin(TURN)], axis=1)


def test_a_polygon_is_placed_in_cells() -> None:
    placed = place_areas([Polygon([(10.1, 50.1), (10.3, 50.1), (10.2, 50.25)])], GRID)
    np.testing.assert_allclose(
        shapely.get_coordinates(placed.shapes), [(1, 1), (3, 1), (2, 2.5), (1, 1)], rtol=0, atol=1e-9
    )
    assert placed.rectangles.tolist() == [[1, 1, 3, 3]]
    assert placed.names == ("1",)
    assert not (placed.is_rectangle | placed.cut | placed.repaired | placed.grown | placed.outside).any()


def test_rectangles_along_the_axes_are_snapped_as_bounds_are() -> None:
    rng = np.random.default_rng(3)
    corners = np.sort(rng.uniform((9.9, 49.9), (10.9, 50.5), (200, 2, 2)), axis=1).reshape(200, 4)
    corners = corners[
        (corners[:, 0] < 10.79) & (corners[:, 2] > 10.01) & (corners[:, 1] < 50.39) & (corners[:, 3] > 50.01)
    ]
    assert len(corners) > 100
    placed, snapped = place_areas(shapely.box(*corners.T), GRID), snap(corners, GRID)
    assert placed.is_rectangle.all()
    np.testing.assert_array_equal(placed.rectangles, snapped.cells)
    np.testing.assert_array_equal(placed.grown, snapped.grown)
    np.testing.assert_array_equal(placed.cut, snapped.cut)


@pytest.mark.parametrize(
    ("shape", "is_rectangle"),
    [
        (box(10.1, 50.1, 10.3, 50.2), True),
        (Polygon([(10.1, 50.1), (10.2, 50.1), (10.3, 50.1), (10.3, 50.2), (10.1, 50.2)]), True),  # a corner more
        (MultiPolygon([box(10.1, 50.1, 10.3, 50.2)]), True),
        (Polygon([(10.1, 50.1), (10.3, 50.1), (10.3, 50.2), (10.1, 50.201)]), False),
        (box(10.1, 50.1, 10.3, 50.3) - box(10.15, 50.15, 10.2, 50.2), False),
        (MultiPolygon([box(10.1, 50.1, 10.2, 50.2), box(10.3, 50.1, 10.4, 50.2)]), False),
        (Polygon([(10.1, 50.2), (10.2, 50.1), (10.3, 50.2), (10.2, 50.3)]), False),
    ],
)
def test_what_counts_as_a_rectangle(shape: Any, is_rectangle: bool) -> None:
    assert place_areas([shape], GRID).is_rectangle.tolist() == [is_rectangle]


def test_what_lies_outside_is_cut_off_and_said() -> None:
    triangle = Polygon([(9.9, 50.1), (10.3, 50.1), (10.3, 50.3)])
    far = Polygon([(20, 20), (21, 20), (20, 21)])
    placed = place_areas([triangle, far, Polygon([(10.1, 50.1), (10.3, 50.1), (10.2, 50.2)])], GRID)
    assert placed.cut.tolist() == [True, True, False]
    assert placed.outside.tolist() == [False, True, False]
    wanted = triangle.intersection(box(*GRID.bounds)).area * 100
    assert shapely.area(placed.shapes[0]) == pytest.approx(wanted)


def test_rings_that_cross_themselves_are_repaired_and_it_is_said() -> None:
    placed = place_areas([BOW, box(10.1, 50.1, 10.2, 50.2)], GRID)
    assert placed.repaired.tolist() == [True, False]
    assert shapely.is_valid(placed.shapes).all()
    assert shapely.area(placed.shapes[0]) == pytest.approx(2.0)


def test_a_repaired_rectangle_is_answered_by_what_is_left() -> None:
    spike = [(10.1, 50.1), (10.2, 50.1), (10.2, 50.15), (10.7, 50.15), (10.2, 50.15), (10.2, 50.2), (10.1, 50.2)]
    placed = place_areas([Polygon(spike), box(10.1, 50.1, 10.2, 50.2)], GRID)
    assert placed.repaired.tolist() == [True, False]
    assert placed.rectangles.tolist() == [[1, 1, 2, 2]] * 2
    assert placed.is_rectangle.all()
    assert not placed.grown.any()


def test_less_than_a_hundredth_of_a_cell_is_not_called_cut() -> None:
    def corner(beyond: float) -> Polygon:
        return Polygon([(10 - beyond, 50), (10.2, 50), (10.2, 50.2)])

    def line(beyond: float) -> LineString:
        return LineString([(10 - beyond, 50.1), (10.2, 50.2)])

    for place, shape in ((place_areas, corner), (place_lines, line)):
        assert place([shape(0.0009), shape(0.0011)], GRID).cut.tolist() == [False, True]


def test_coordinates_that_are_too_large_in_cells_are_refused() -> None:
    metres, big = Grid((0, 0, 1, 1), 10, 10, "EPSG:32631"), 1.7e308
    for place, shape in ((place_areas, Polygon), (place_lines, LineString)):
        with pytest.raises(InputError, match="too large"):
            place([shape([(-big, -big), (big, -big), (big, big / 2), (-big, -big)])], metres)


def test_geometries_in_another_crs_are_transformed_with_bent_sides() -> None:
    disc = Point(10.4, 50.2).buffer(0.12, 32)
    there = shapely.transform(disc, lambda xy: np.stack(transform(xy[:, 0], xy[:, 1], DEGREES, "EPSG:3857"), axis=1))
    here, moved = place_areas([disc], GRID), place_areas([there], GRID, "EPSG:3857")
    assert shapely.symmetric_difference(here.shapes[0], moved.shapes[0]).area < 1e-3
    wide = box(*np.ravel(transform(np.array([10.0, 10.8]), np.array([50.1, 50.3]), DEGREES, "EPSG:32632"), order="F"))
    bent = place_areas([wide], GRID, "EPSG:32632")
    assert shapely.get_num_coordinates(bent.shapes[0]) > 60  # sides of a grid in UTM are curves in degrees
    assert not bent.is_rectangle[0]


def test_lines_are_placed_and_cut() -> None:
    lines = [LineString([(9.9, 50.1), (10.3, 50.1)]), MultiLineString([[(10.1, 50.1), (10.2, 50.2)]])]
    placed = place_lines(lines, GRID, names=["bridge", "cordon"])
    np.testing.assert_allclose(shapely.length(placed.shapes), [3, np.sqrt(2)])
    assert placed.cut.tolist() == [True, False]
    assert placed.names == ("bridge", "cordon")


def test_a_line_that_is_cut_keeps_what_it_passes_twice() -> None:
    there_and_back = LineString([(9.9, 50.1), (10.3, 50.1), (9.9, 50.1)])
    assert shapely.length(place_lines([there_and_back], GRID).shapes[0]) == pytest.approx(6)


@pytest.mark.parametrize(
    ("areas", "crs", "words"),
    [
        ([None], None, "Area 1 is missing; give a polygon or multipolygon"),
        (["POLYGON"], None, "Area 1 is a str"),
        ([Polygon()], None, "Area 1 is empty"),
        ([BOW, Point(10.1, 50.1)], None, "Area 2 is a Point; give a polygon"),
        ([LineString([(10.1, 50.1), (10.2, 50.2)])], None, "with `crossings`"),
        ([Polygon([(10.1, 50.1), (10.2, 50.2), (10.3, 50.3)])], None, "Area 1 has no area"),
        ([Polygon([(10.1, 50.1), (np.inf, 50.1), (10.3, 50.3)])], None, "not a finite number"),
        ([box(500_000, 5_500_000, 500_100, 5_500_100)], None, "such as 500100 5500000, which are not degrees; name"),
        ([Polygon([(0, 0), (1, 0), (0, 1)])], None, "Area 1 does not meet the map"),
        ([box(0, 0, 1, 1), box(2, 2, 3, 3)], None, "Area 1 and all others do not meet the map"),
        ([BOW], "EPSG:123456789", "EPSG:123456789"),
        ([Polygon(ROUND)], None, f"more than {MOST_CORNERS:,}; simplify it"),
    ],
)
def test_bad_areas_get_one_sentence(areas: list[Any], crs: str | None, words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)) as caught:
        place_areas(areas, GRID, crs)
    assert "\n" not in str(caught.value)


def test_bad_lines_get_one_sentence() -> None:
    with pytest.raises(InputError, match="Line 1 is a Polygon; give a line, or count the trips in it with `counts`"):
        place_lines([BOW], GRID)
    with pytest.raises(InputError, match="has no length"):
        place_lines([LineString([(10.1, 50.1), (10.1, 50.1)])], GRID)
    with pytest.raises(InputError, match="1 names for 2 geometries"):
        place_lines([LineString([(10.1, 50.1), (10.2, 50.1)])] * 2, GRID, names=["a"])


def test_geometries_are_told_from_tables() -> None:
    class Feature:
        __geo_interface__ = shapely.geometry.mapping(BOW)

    assert is_geometry(BOW)
    assert is_geometry(Feature())
    assert not is_geometry([BOW])
    assert not is_geometry((1, 2, 3, 4))
    assert place_areas([Feature()], GRID).repaired.all()
