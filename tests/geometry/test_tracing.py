"""The cells that lines pass: against rational arithmetic, Shapely, and by hand."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqam.geometry.grid import Grid
from dqam.geometry.tracing import FRACTION_BITS
from dqam.geometry.trips import Trips
from dqam.geometry.walks import walk
from tests.geometry.cases import GRID, walk_of
from tests.oracles import naive


def lattice(low: int, high: int) -> st.SearchStrategy[float]:
    """Numbers of the lattice: often whole, half, or anywhere."""
    whole = st.integers(low, high).map(float)
    eighths = st.integers(8 * low, 8 * high).map(lambda k: k / 8)
    any_step = st.integers(low << FRACTION_BITS, high << FRACTION_BITS).map(lambda k: k / 2**FRACTION_BITS)
    return whole | eighths | any_step


def on_grid() -> st.SearchStrategy[list[tuple[float, float]]]:
    return st.lists(st.tuples(lattice(0, 6), lattice(0, 5)), min_size=1, max_size=6)


def anywhere() -> st.SearchStrategy[list[tuple[float, float]]]:
    return st.lists(st.tuples(lattice(-4, 10), lattice(-4, 9)), min_size=1, max_size=8)


@given(on_grid())
@settings(max_examples=400, deadline=None)
def test_a_walk_visits_every_cell_passed_and_no_other_but_at_corners_and_borders(
    points: list[tuple[float, float]],
) -> None:
    (cells,) = walk_of(points)
    passed, touched = naive.touched_cells(points, GRID)
    assert passed <= set(cells) <= touched


@given(on_grid())
@settings(max_examples=300, deadline=None)
def test_a_walk_is_the_walk_of_rational_arithmetic(points: list[tuple[float, float]]) -> None:
    exact = [(Fraction(u), Fraction(v)) for u, v in points]
    wanted = naive.exact_walk(exact[0], exact[0], GRID)
    for a, b in itertools.pairwise(exact):
        wanted += naive.exact_walk(a, b, GRID)[1:]
    assert walk_of(points) == [wanted]


@given(on_grid())
@settings(max_examples=200, deadline=None)
def test_a_trip_and_its_return_visit_the_same_cells(points: list[tuple[float, float]]) -> None:
    (there,), (back,) = walk_of(points), walk_of(points[::-1])
    assert there == back[::-1]


@given(st.lists(st.tuples(st.floats(-3, 9), st.floats(-3, 8)), min_size=2, max_size=6))
@settings(max_examples=300, deadline=None)
def test_points_anywhere_agree_with_shapely_up_to_a_thousandth_of_a_cell(points: list[tuple[float, float]]) -> None:
    import shapely

    visited = {cell for piece in walk_of(points) for cell in piece}
    row, column = np.divmod(np.arange(30), 6)
    line = shapely.LineString(points) if len(set(points)) > 1 else shapely.Point(points[0])
    surely = shapely.intersects(shapely.box(column + 1e-3, row + 1e-3, column + 0.999, row + 0.999), line)
    perhaps = shapely.intersects(shapely.box(column - 1e-3, row - 1e-3, column + 1.001, row + 1.001), line)
    assert set(np.flatnonzero(surely).tolist()) <= visited <= set(np.flatnonzero(perhaps).tolist())


@given(anywhere())
@settings(max_examples=300, deadline=None)
def test_walks_are_4_connected_and_pieces_are_the_parts_on_the_grid(points: list[tuple[float, float]]) -> None:
    import shapely

    pieces = walk_of(points)
    for piece in pieces:
        rows, columns = np.divmod(piece, 6)
        assert (np.abs(np.diff(rows)) + np.abs(np.diff(columns)) == 1).all()
    if len(set(points)) > 1:
        outside = shapely.difference(shapely.LineString(points), shapely.box(0, 0, 6, 5))
        if shapely.length(outside) == 0:
            assert len(pieces) == 1


@pytest.mark.parametrize(
    ("points", "pieces"),
    [
        ([(0.5, 0.5)], [[0]]),  # one point
        ([(0.5, 0.5), (0.5, 0.5)], [[0]]),  # no length
        ([(0.2, 0.2), (0.8, 0.8)], [[0]]),  # within a cell
        ([(6.0, 5.0)], [[29]]),  # the outer corner belongs to the grid
        ([(0.5, 0.5), (1.5, 1.5)], [[0, 1, 7]]),  # through a corner: by the east
        ([(1.5, 1.5), (0.5, 0.5)], [[7, 1, 0]]),
        ([(1.5, 0.5), (0.5, 1.5)], [[1, 7, 6]]),
        ([(0.5, 1.5), (1.5, 0.5)], [[6, 7, 1]]),
        ([(0.5, 0.5), (-1.0, 0.5), (-1.0, 1.5), (0.5, 1.5)], [[0], [6]]),  # leaves and returns
        ([(-2.0, 2.5), (8.0, 2.5)], [[12, 13, 14, 15, 16, 17]]),  # passes without a point inside
        ([(-1.0, -1.0), (-1.0, 9.0)], []),  # never there
        ([(-1.0, 1.0), (1.0, -1.0)], []),  # only the corner
        ([(0.5, 0.5), (2.5, 0.5), (0.5, 0.5)], [[0, 1, 2, 1, 0]]),  # there and back: visits, not cells
        ([(7.0, 0.5), (6.0, 0.5), (7.0, 0.5)], [[5]]),  # one point on the border
        ([(-1.0, 5.0), (7.0, 5.0)], [[24, 25, 26, 27, 28, 29]]),  # along the outer border
        ([(-1.0, 0.0), (7.0, 0.0)], [[0, 1, 2, 3, 4, 5]]),
        ([(6.0, -1.0), (6.0, 7.0)], [[5, 11, 17, 23, 29]]),
        ([(0.9999999, 0.5)], [[1]]),  # rounded to the lattice, not down
    ],
)
def test_by_hand(points: list[tuple[float, float]], pieces: list[list[int]]) -> None:
    assert walk_of(points) == pieces


def test_points_on_the_outer_border_belong_to_the_grid_whatever_its_size() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        west, south = rng.uniform(-50, 50, 2).round(2)
        east, north = (west + rng.uniform(0.1, 5)).round(2), (south + rng.uniform(0.1, 5)).round(2)
        grid = Grid((west, south, east, north), int(rng.integers(1, 4097)), int(rng.integers(1, 4097)))
        corners = [[(east, north)], [(west, south)], [(east, south)], [(west, north)]]
        assert walk(Trips.from_lists(corners), grid).on_grid == 4


def test_a_trip_that_cuts_a_corner_of_the_grid_and_its_return_agree() -> None:
    grid = Grid((-8.68, 41.11, -8.56, 41.20), 256, 256)
    rng = np.random.default_rng(1)
    x, y = rng.integers(-8700, -8540, (2, 20_000)) / 1000, rng.integers(41_090, 41_220, (2, 20_000)) / 1000
    offsets = np.arange(0, 40_001, 2)
    there = walk(Trips(x.T.ravel().copy(), y.T.ravel().copy(), offsets), grid)
    back = walk(Trips(x[::-1].T.ravel().copy(), y[::-1].T.ravel().copy(), offsets), grid)
    np.testing.assert_array_equal(there.visits, back.visits)
