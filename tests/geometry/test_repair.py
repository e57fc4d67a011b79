"""Repaired polygons: what is inside them, and which are refused because repairing them would take too long."""

from typing import Any

import numpy as np
import pytest
import shapely
from shapely.geometry import MultiPolygon, Point, Polygon, box

from dqam.errors import InputError
from dqam.geometry.repair import MOST_PAIRS, repair

TURNS = 4 * np.pi / 5 * np.arange(5)
PENTAGRAM = Polygon(np.stack([np.sin(TURNS), np.cos(TURNS)], axis=1))
TWICE = Polygon([(0, 0), (10, 0), (10, 10), (0, 10), (0, -5), (6, -5), (6, 6), (3, 6), (3, 0)])  # overlaps itself
AT_RANDOM = np.random.default_rng(0).uniform(0, 100, (3000, 2))
ALONG_A_LINE = [*((x, 50.0) for x in AT_RANDOM[:1000, 0]), (50.0, 90.0)]
ZIGZAG = [(start + d, start - d) for d in np.linspace(0, 5, 700) for start in (10, 80)]
HOLES = [[(x, y), (x + 0.1, y), (x, y + 0.1)] for x in range(5, 95) for y in np.arange(5, 95, 0.5)]


def repaired(*shapes: Any) -> Any:
    return repair(np.array(shapes, object), lambda row: f"Area {row + 1}")


@pytest.mark.parametrize(
    ("shape", "area"),
    [
        (MultiPolygon([box(0, 0, 10, 10), box(10, 0, 20, 10)]), 200),
        (MultiPolygon([box(0, 0, 10, 10), box(5, 5, 15, 15)]), 175),
        (MultiPolygon([box(0, 0, 10, 10), box(2, 2, 4, 4)]), 100),
        (MultiPolygon([box(0, 0, 10, 10), Polygon([(50, 50), (60, 60), (50, 50), (50, 50)])]), 100),
        (PENTAGRAM, 1.1225699414489634),  # of the ten-sided star, with its middle
        (TWICE, 130),
        (Polygon([(0, 0), (2, 2), (2, 0), (0, 2)]), 2),
        (Polygon([(0, 0), (2, 2), (0, 0), (0, 0)]), 0),
    ],
    ids=["common side", "overlap", "nested", "flat part", "pentagram", "twice", "bow", "flat"],
)
def test_what_a_border_goes_around_is_inside(shape: Any, area: float) -> None:
    (found,), broken = repaired(shape)
    assert broken.tolist() == [True]
    assert found.is_valid
    assert found.area == pytest.approx(area)
    assert found.geom_type in ("Polygon", "MultiPolygon")


def test_valid_shapes_stay_as_they_are() -> None:
    shapes, broken = repaired(PENTAGRAM, box(0, 0, 1, 1), Point(0, 0).buffer(1))
    assert broken.tolist() == [True, False, False]
    assert shapely.equals_exact(shapes[1:], [box(0, 0, 1, 1), Point(0, 0).buffer(1)]).all()


@pytest.mark.parametrize(
    "shape",
    [
        Polygon(AT_RANDOM),
        Polygon(ALONG_A_LINE),
        Polygon([*ZIGZAG, (95, 70), (99, 90), (90, 90), (99, 70), (99, 1), (1, 1)]),
        Polygon([(0, 0), (100, 0), (100, 100), (98, 99), (98, 100), (100, 99), (0, 100)], HOLES),
    ],
    ids=["at random", "along a line", "zigzag", "holes"],
)
def test_areas_that_would_take_too_long_are_refused(shape: Any) -> None:
    with pytest.raises(InputError, match=r"Area 2 .* too long to repair; redraw it, or merge its parts"):
        repaired(PENTAGRAM, shape, PENTAGRAM)


def test_the_limit_is_for_all_areas_together() -> None:
    wild = Polygon(AT_RANDOM[:120])
    assert repaired(*[wild] * 10)[1].all()
    with pytest.raises(InputError, match="too long"):
        repaired(*[wild] * (2 * MOST_PAIRS // 120**2 * 4))


def test_many_small_areas_and_a_long_border_are_repaired() -> None:
    angles = np.linspace(0, 2 * np.pi, 20_000)
    radius = 40 + np.random.default_rng(0).normal(0, 1e-3, len(angles)).cumsum()
    coast = Polygon([*np.stack([radius * np.cos(angles), radius * np.sin(angles)], axis=1), (0, 60)])
    squares = MultiPolygon([box(x, y, x + 1, y + 1) for x in range(60) for y in range(60)])
    shapes, broken = repaired(coast, squares, *[PENTAGRAM] * 3000)
    assert broken.all()
    assert shapely.is_valid(shapes).all()
