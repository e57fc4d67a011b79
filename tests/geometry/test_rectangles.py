import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dqam.errors import InputError
from dqam.geometry.grid import DEGREES, Grid
from dqam.geometry.rectangles import Snapped, random_rectangles, size_bands, sized_rectangles, snap

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


def sides_of(rows: int, columns: int) -> dict[str, tuple[tuple[int, int], tuple[int, int]]]:
    return {band.name: (band.widths, band.heights) for band in size_bands(Grid((0, 0, 1, 1), rows, columns))}


def test_bands_are_shares_of_the_sides_of_the_map() -> None:
    names = ["all", "2-4", "5-8", "9-16", "17-32", "33-64", "65-128"]
    sides = [(1, 256), (2, 4), (5, 8), (9, 16), (17, 32), (33, 64), (65, 128)]
    assert sides_of(256, 256) == {name: (side, side) for name, side in zip(names, sides, strict=True)}
    assert sides_of(512, 128)["5-8"] == ((3, 4), (10, 16))
    assert list(sides_of(512, 128)) == names


@pytest.mark.parametrize("side", [1, 2, 3, 7, 31, 32, 100, 255, 257, 1000])
def test_bands_are_whole_cells_and_do_not_overlap(side: int) -> None:
    (_, everything), *bands = sides_of(side, side).items()
    assert everything == ((1, side), (1, side))
    ends = [end for _, (widths, heights) in bands for end in (widths[0] - 1, widths[1]) if widths == heights]
    assert len(ends) == 2 * len(bands)
    assert ends == sorted(ends)
    assert all(0 <= end <= side / 2 for end in ends)
    for name, ((low, high), _) in bands:
        least, most = map(int, name.split("-"))
        assert least * side <= 256 * low <= 256 * high <= most * side


def test_bands_without_whole_cells_are_left_out() -> None:
    assert list(sides_of(16, 16)) == ["all", "9-16", "17-32", "33-64", "65-128"]
    assert list(sides_of(1, 1000)) == ["all"]


def test_rectangles_of_a_band() -> None:
    grid = Grid((0, 0, 1, 1), 40, 80)
    for band in size_bands(grid):
        drawn = band.draw(grid, 20_000, np.random.default_rng(0))
        width, height = (drawn[:, 2:] - drawn[:, :2]).T
        assert (width.min(), width.max(), height.min(), height.max()) == (*band.widths, *band.heights)
    everything, *_ = size_bands(grid)
    np.testing.assert_array_equal(
        everything.draw(grid, 9, np.random.default_rng(1)), random_rectangles(grid, 9, np.random.default_rng(1))
    )
