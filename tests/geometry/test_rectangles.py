import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dqam.errors import InputError
from dqam.geometry.grid import DEGREES, Grid
from dqam.geometry.rectangles import Snapped, random_rectangles, sized_rectangles, snap

GRID = Grid((0, 0, 4, 2), rows=4, columns=8)  # cells of half a degree


def test_random_rectangles_are_uniform_over_all_rectangles() -> None:
    from scipy.stats import chisquare

    grid = Grid((0, 0, 1, 1), 3, 4)  # 6 x 10 rectangles
    drawn = random_rectangles(grid, 60_000, np.random.default_rng(0))
    _, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(counts) == 60
    assert chisquare(counts).pvalue > 1e-4
    assert drawn.min() == 0
    assert (drawn[:, 2] <= 4).all()
    assert (drawn[:, 3] <= 3).all()
    again = random_rectangles(grid, 60_000, np.random.default_rng(0))
    np.testing.assert_array_equal(drawn, again)


@given(st.tuples(*[st.floats(0, 4)] * 2), st.tuples(*[st.floats(0, 2)] * 2))
def test_snapping_grows_by_less_than_a_cell_a_side(x: tuple[float, float], y: tuple[float, float]) -> None:
    asked = np.array([[min(x), min(y), max(x), max(y)]])
    snapped = snap(asked, GRID)
    (bounds,) = snapped.bounds
    tolerance = 1e-6
    assert (bounds[:2] <= asked[0, :2] + tolerance).all()
    assert (bounds[2:] >= asked[0, 2:] - tolerance).all()
    assert (np.abs(bounds - asked[0]) <= 0.5 + tolerance).all()
    assert not snapped.cut.any()


@given(st.integers(0, 7), st.integers(0, 3), st.data())
def test_grid_lines_stay_where_they_are(west: int, south: int, data: st.DataObject) -> None:
    cells = np.array([[west, south, data.draw(st.integers(west + 1, 8)), data.draw(st.integers(south + 1, 4))]])
    grid = Grid((-8.68, 41.11, -8.56, 41.20), 4, 8)  # sides without an exact decimal form
    snapped = snap(Snapped.of(cells, grid).bounds, grid)
    np.testing.assert_array_equal(snapped.cells, cells)
    assert not snapped.grown.any()


@pytest.mark.parametrize(
    ("asked", "cells", "grown", "cut"),
    [
        ((0.1, 0.1, 0.4, 0.4), (0, 0, 1, 1), True, False),
        ((0.1, 0.1, 0.6, 0.4), (0, 0, 2, 1), True, False),
        ((1, 1, 1, 1), (2, 2, 3, 3), True, False),  # a point on a corner: the cell it belongs to
        ((4, 2, 4, 2), (7, 3, 8, 4), True, False),
        ((-9, -9, 9, 9), (0, 0, 8, 4), False, True),
        ((3.5, 1.5, 5, 2), (7, 3, 8, 4), False, True),
    ],
)
def test_snapping_by_hand(asked: tuple[float, ...], cells: tuple[int, ...], grown: bool, cut: bool) -> None:
    snapped = snap(np.array([asked]), GRID)
    assert snapped.cells.tolist() == [list(cells)]
    assert (snapped.grown.tolist(), snapped.cut.tolist()) == ([grown], [cut])


def test_what_was_done_is_said() -> None:
    snapped = snap(np.array([[0.1, 0, 1, 1], [0, 0, 1, 1], [0, 0, 9, 1]]), GRID)
    assert str(snapped) == "1 of 3 rectangles extended to whole cells, 1 clipped to the bounds of the grid"


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ((2, 0, 1, 1), r"Rectangle 2 \(2.0, 0.0, 1.0, 1.0\) is upside down"),
        ((5, 0, 6, 1), "Rectangle 2 .* does not meet the map"),
        ((-3, 0, 0, 1), "Rectangle 2 .* does not meet the map"),  # touches it from outside
        ((4, 0, 6, 1), "Rectangle 2 .* does not meet the map"),
        ((0, 0, float("nan"), 1), "Rectangle 2 .* not a number"),
        ((0, 0, float("inf"), 1), "Rectangle 2 .* not a number"),
    ],
)
def test_bad_rectangles(asked: tuple[float, ...], says: str) -> None:
    with pytest.raises(InputError, match=says):
        snap(np.array([(0, 0, 1, 1), asked]), GRID)


PORTO = Grid((-8.68, 41.11, -8.56, 41.20), 64, 64)
MELBOURNE = Grid((310_000, 5_805_000, 330_000, 5_825_000), 64, 64, "EPSG:28355")
LISBON = Grid((480_000, 4_280_000, 500_000, 4_300_000), 32, 32, "EPSG:32629")


@pytest.mark.parametrize(
    ("grid", "crs", "meant"),
    [
        (PORTO, None, (-8.62, 41.14, -8.60, 41.15)),
        (PORTO, None, (-8.70, 41.0, -8.60, 41.15)),  # partly on the map
        (PORTO, None, PORTO.bounds),
        (MELBOURNE, None, (315_000.0, 5_810_000.0, 316_000.0, 5_812_000.0)),
        (LISBON, DEGREES, (-9.15, 38.70, -9.10, 38.75)),
    ],
)
def test_a_rectangle_in_another_order_is_noticed(grid: Grid, crs: str | None, meant: tuple[float, ...]) -> None:
    west, south, east, north = meant
    snap([meant], grid, crs)
    slip = west, east, south, north
    with pytest.raises(InputError, match="west, east, south, north. Did you mean") as found:
        snap([meant, slip], grid, crs)
    assert f"Rectangle 2 {slip}" in str(found.value)
    assert f"Did you mean {meant}?" in str(found.value)


def test_no_other_rectangle_raises_an_alarm() -> None:
    rng = np.random.default_rng(0)
    for grid in (PORTO, MELBOURNE, LISBON, Grid((30.0, 30.5, 36.0, 36.1), 40, 40), GRID):
        wide = grid.bounds[2] - grid.bounds[0]
        on_map = Snapped.of(random_rectangles(grid, 2_000, rng), grid).bounds
        snap(on_map, grid)
        beyond = on_map + rng.uniform(0, 2, on_map.shape) * np.array([-1, -1, 1, 1]) * wide
        assert snap(beyond, grid).cut.any()
    snap([(-180, -90, 180, 90), (-10, 36, 4, 44), (-9.5, 36.9, -6.1, 42.2)], PORTO)  # the world, Iberia, Portugal


def test_rectangles_of_a_size() -> None:
    grid = Grid((0.0, 0.0, 1.0, 1.0), 20, 30)
    found = sized_rectangles(grid, 3, 5, 2_000, np.random.default_rng(0))
    width, height = (found[:, 2:] - found[:, :2]).T
    assert set(width.tolist()) == set(height.tolist()) == {3, 4, 5}
    assert found.min() == 0
    assert found[:, 2].max() == 30
    assert found[:, 3].max() == 20
    for low, high in ((0, 3), (4, 3), (3, 21)):
        with pytest.raises(InputError, match="do not fit a grid of 20 x 30"):
            sized_rectangles(grid, low, high, 1, np.random.default_rng(0))
