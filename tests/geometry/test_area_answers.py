"""Answers for areas of any shape: what must hold for them, and how close they come to exact counts of known trips."""

from unittest.mock import patch

import numpy as np
import pytest
import shapely
import shapely.affinity
from shapely.geometry import LineString, MultiPolygon, Point, Polygon, box

from dqam.geometry.area_answers import answer_areas, answer_lines
from dqam.geometry.area_counting import count_crossings, count_in_areas
from dqam.geometry.areas import place_areas, place_lines
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram, TwoScaleHistogram
from dqam.geometry.rectangles import random_rectangles
from dqam.geometry.trips import Trips
from dqam.geometry.walks import walk

GRID = Grid((0, 0, 64, 64), 64, 64)  # a cell is one unit


def straight(n: int = 20_000) -> Trips:
    """Straight trips in all directions."""
    rng = np.random.default_rng(0)
    points = rng.uniform(0, 64, (2 * n, 2))
    return Trips(points[:, 0].copy(), points[:, 1].copy(), np.arange(0, 2 * n + 1, 2))


TRIPS = straight()
EXACT = SpatialHistogram.of(walk(TRIPS, GRID))
LARGE = SpatialHistogram.of(walk(straight(15_000), GRID))


@pytest.mark.parametrize("turn", [0, 1, 2, 3])
def test_rectangles_are_answered_bit_for_bit_as_rectangles(turn: int) -> None:
    cells = random_rectangles(GRID, 300, np.random.default_rng(1))
    boxes = shapely.box(*cells.T.astype(float), ccw=turn % 2 == 0)
    if turn > 1:  # begin at another corner
        boxes = np.array([Polygon(np.roll(np.array(one.exterior.coords)[:-1], turn, axis=0)) for one in boxes], object)
    found = answer_areas(EXACT, place_areas(boxes, GRID))
    np.testing.assert_array_equal(found.value, EXACT.answers(cells))
    assert (found.unknown == 0).all()


@pytest.mark.parametrize(
    ("shape", "within"),
    [
        (Point(32, 32).buffer(12), 0.04),
        (Polygon([(32, 12), (52, 32), (32, 52), (12, 32)]), 0.04),
        (box(10, 10, 50, 50) - box(30, 30, 50, 50), 0.1),
        (Point(32, 32).buffer(20) - Point(32, 32).buffer(14), 0.12),
        (MultiPolygon([box(5, 5, 20, 20).buffer(1), box(40, 40, 60, 60).buffer(1)]), 0.12),
        (Polygon([(10, 10), (54, 52), (52, 54), (8, 12)]), 0.12),
    ],
    ids=["disc", "diamond", "L", "ring", "two parts", "corridor"],
)
def test_answers_of_the_exact_histogram_are_close(shape: Polygon, within: float) -> None:
    areas = place_areas([shape], GRID)
    true = count_in_areas([TRIPS], areas, GRID)[0]
    assert answer_areas(EXACT, areas).value[0] == pytest.approx(true, rel=within)


def test_no_answer_exceeds_that_of_the_rectangle_around_it() -> None:
    rng = np.random.default_rng(5)
    wild = [Polygon(rng.uniform(0, 64, (7, 2))) for _ in range(200)]
    areas = place_areas(wild, GRID)
    assert areas.repaired.any()
    found = answer_areas(EXACT, areas)
    assert (found.value <= EXACT.answers(areas.rectangles) + 1e-9).all()
    assert (found.unknown >= 0).all()


def test_a_shape_that_is_not_convex_is_at_most_its_hull() -> None:
    comb = shapely.union_all([box(10, 10, 54, 12), *(box(x, 10, x + 1, 54) for x in range(10, 54, 2))])
    comb = shapely.affinity.rotate(comb, 1)  # not along the axes
    one, hull = answer_areas(EXACT, place_areas([comb, comb.convex_hull], GRID)).value
    assert one == pytest.approx(hull)


def test_parts_give_at_least_the_largest_and_at_most_their_sum() -> None:
    parts = [Point(15, 15).buffer(6), Point(45, 20).buffer(9), Point(30, 50).buffer(4)]
    *alone, together = answer_areas(EXACT, place_areas([*parts, MultiPolygon(parts)], GRID)).value
    assert max(alone) < together < sum(alone)


def test_a_hole_takes_away_only_those_that_stay_in_it() -> None:
    filled, ring = Point(32, 32).buffer(25), Point(32, 32).buffer(25) - Point(32, 32).buffer(20)
    disc, rest = answer_areas(EXACT, place_areas([filled, ring], GRID)).value
    assert 0.7 * disc < rest < disc


def test_areas_outside_have_no_answer() -> None:
    areas = place_areas([Point(32, 32).buffer(5), Point(80, 80).buffer(5)], GRID)
    assert np.isnan(answer_areas(EXACT, areas).value).tolist() == [False, True]


def test_two_scales_answer_small_shapes_in_detail_and_others_by_the_smaller_answer() -> None:
    two = TwoScaleHistogram.of_two(EXACT, LARGE, 100.0, 16)
    small, big = Point(32, 32).buffer(5), Point(32, 32).buffer(20)
    areas = place_areas([small, big], GRID)
    found = answer_areas(two, areas).value
    detail, large = answer_areas(EXACT, areas).value, answer_areas(LARGE, areas).value
    assert found[0] == detail[0]
    assert found[1] == pytest.approx(min(detail[1], large[1] + 100.0), rel=0.005)  # directions are those of the first


def test_crossings_of_lines_are_close_and_add_up() -> None:
    lines = [LineString([(10, 12), (50, 40)]), LineString([(20, 50), (40, 10)]), LineString([(8, 32), (56, 32)])]
    placed = place_lines(lines, GRID)
    true = count_crossings([TRIPS], placed, GRID)
    found = answer_lines(EXACT, placed)
    np.testing.assert_allclose(found.value, true, rtol=0.08)
    both = answer_lines(EXACT, place_lines([shapely.multilinestrings(lines[:2])], GRID))
    np.testing.assert_allclose(both.value[0], found.value[:2].sum())


def test_a_shell_with_many_holes_is_copied_once() -> None:
    angles = np.linspace(0, 2 * np.pi, 5000)
    shell = np.stack([32 + 30 * np.cos(angles), 32 + 30 * np.sin(angles)], axis=1)
    holes = [[(x, y), (x + 0.1, y), (x, y + 0.1)] for x in range(20, 44) for y in range(20, 44)]
    areas = place_areas([Polygon(shell, holes)], GRID)
    with patch("shapely.polygons", wraps=shapely.polygons) as filled:
        found = answer_areas(EXACT, areas)
    assert max(np.size(call.args[0]) for call in filled.call_args_list) == 1
    assert 0 < found.value[0] < EXACT.total
