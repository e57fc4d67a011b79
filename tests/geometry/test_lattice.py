"""Lattices: what is refined stays consistent and keeps its answers."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqam.consistency.currents import CellTargets, fit_histogram
from dqam.errors import InputError
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.lattice import Lattice, Parts, nearest_line


@st.composite
def lattices(draw: st.DrawFn, most: int = 12, cells: int = 5) -> Lattice:
    """Any lines of a grid of up to `most` lines a side, up to `cells` coarse cells a side."""
    sides = []
    for _ in range(2):
        last = draw(st.integers(1, most))
        inner = draw(st.sets(st.integers(1, last - 1), max_size=cells - 1)) if last > 1 else set()
        sides.append(np.array([0, *sorted(inner), last]))
    return Lattice(*sides)


def grid_of(lattice: Lattice) -> Grid:
    return Grid((0.0, 0.0, 1.0, 1.0), int(lattice.north[-1]), int(lattice.east[-1]))


def random_parts(rng: np.random.Generator, rows: int, columns: int) -> Parts:
    return (
        rng.normal(size=(rows, columns)),
        rng.normal(size=(rows, columns - 1)),
        rng.normal(size=(rows - 1, columns)),
    )


def member(rng: np.random.Generator, lattice: Lattice, total: float) -> SpatialHistogram:
    """A consistent histogram on the coarse cells, on the border of the cone: noise, and the closest to it."""
    a, v, h = random_parts(rng, *lattice.shape)
    scale = total / lattice.cells
    noise = CellTargets(scale * (1 + a), scale * (3 + 2 * v) * rng.uniform(0, 2), scale * (3 + 2 * h))
    return fit_histogram(lattice.coarse(), total, noise).histogram


def refined(lattice: Lattice, coarse: SpatialHistogram) -> SpatialHistogram:
    parts = lattice.refine(coarse.endpoints, coarse.vertical, coarse.horizontal)
    return SpatialHistogram.from_flux(grid_of(lattice), *parts)


def intervals(lines: int) -> list[tuple[int, int]]:
    return list(combinations(range(lines), 2))


def all_rectangles(rows: int, columns: int) -> np.ndarray:
    return np.array([(w, s, e, n) for w, e in intervals(columns + 1) for s, n in intervals(rows + 1)])


@given(lattices(), st.integers(0, 10**6), st.sampled_from([1.0, 300.0, 1e7]))
@settings(max_examples=60, deadline=None)
def test_what_is_consistent_on_a_lattice_is_so_on_the_grid(lattice: Lattice, seed: int, total: float) -> None:
    coarse = member(np.random.default_rng(seed), lattice, total)
    assert coarse.is_monotone()
    fine = refined(lattice, coarse)
    assert fine.is_monotone(1e-9 * total)
    assert min(part.min(initial=0.0) for part in (fine.endpoints, fine.vertical, fine.horizontal)) >= -1e-9 * total


@given(lattices(), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_the_total_and_answers_of_coarse_cells_are_kept(lattice: Lattice, seed: int) -> None:
    """Of any numbers, consistent or not."""
    coarse = SpatialHistogram.from_flux(lattice.coarse(), *random_parts(np.random.default_rng(seed), *lattice.shape))
    fine = refined(lattice, coarse)
    rectangles = all_rectangles(*lattice.shape)
    west, south, east, north = rectangles.T
    there = np.stack([lattice.east[west], lattice.north[south], lattice.east[east], lattice.north[north]], axis=1)
    np.testing.assert_allclose(fine.answers(there), coarse.answers(rectangles), rtol=1e-9, atol=1e-9)
    assert fine.total == pytest.approx(coarse.total, rel=1e-9, abs=1e-9)


def test_crossings_go_over_from_one_line_to_the_next() -> None:
    """From 4 to 8 in a cell 4 wide, and to 0 at the border; half of them in each of two rows."""
    lattice = Lattice(np.array([0, 2, 6, 7]), np.array([0, 2]))
    a, v, h = lattice.refine(np.array([[4.0, 8.0, 2.0]]), np.array([[4.0, 8.0]]), np.zeros((0, 3)))
    np.testing.assert_allclose(a, [[1, 1, 1, 1, 1, 1, 1]] * 2)
    np.testing.assert_allclose(v, [[1, 2, 2.5, 3, 3.5, 4]] * 2)
    np.testing.assert_allclose(h, np.zeros((1, 7)))


def test_the_lattice_of_all_lines_changes_nothing() -> None:
    lattice = Lattice(np.arange(6), np.arange(4))
    parts = random_parts(np.random.default_rng(0), 3, 5)
    for found in (lattice.refine(*parts), lattice.refine_adjoint(*parts)):
        for part, wanted in zip(found, parts, strict=True):
            np.testing.assert_allclose(part, wanted, rtol=1e-12)


@given(lattices(), st.integers(0, 2**32 - 1))
def test_answers_of_a_lattice_are_those_of_its_refinement(lattice: Lattice, seed: int) -> None:
    parts, grid = random_parts(np.random.default_rng(seed), *lattice.shape), grid_of(lattice)
    rectangles = all_rectangles(*grid.shape)
    expected = SpatialHistogram.from_flux(grid, *lattice.refine(*parts)).answers(rectangles)
    np.testing.assert_allclose(lattice.answers_by(lattice.corners(*parts), rectangles), expected, atol=1e-12)


@given(lattices(), st.integers(0, 10**6))
@settings(max_examples=100, deadline=None)
def test_refine_adjoint_is_the_adjoint_of_refine(lattice: Lattice, seed: int) -> None:
    rng = np.random.default_rng(seed)
    numbers, factors = random_parts(rng, *lattice.shape), random_parts(rng, *grid_of(lattice).shape)
    fine, coarse = lattice.refine(*numbers), lattice.refine_adjoint(*factors)
    assert [part.shape for part in coarse] == [part.shape for part in numbers]
    assert [part.shape for part in fine] == [part.shape for part in factors]
    there = sum(float((part * factor).sum()) for part, factor in zip(fine, factors, strict=True))
    here = sum(float((part * factor).sum()) for part, factor in zip(numbers, coarse, strict=True))
    assert there == pytest.approx(here, rel=1e-9, abs=1e-9)


@given(lattices(most=9))
@settings(max_examples=60, deadline=None)
def test_snapped_rectangles_are_the_closest(lattice: Lattice) -> None:
    """Of all intervals of lattice lines none has ends that are less off in all, for columns as for rows."""
    rectangles = all_rectangles(*grid_of(lattice).shape)
    snapped = lattice.snap(rectangles)
    assert snapped.dtype == np.int64
    for lines, low, high in ((lattice.east, 0, 2), (lattice.north, 1, 3)):
        start, stop = snapped[:, low], snapped[:, high]
        assert start.min() >= 0
        assert (start < stop).all()
        assert stop.max() < len(lines)
        off = np.abs(lines[start] - rectangles[:, low]) + np.abs(lines[stop] - rectangles[:, high])
        least = np.min(
            [
                np.abs(lines[one] - rectangles[:, low]) + np.abs(lines[other] - rectangles[:, high])
                for one, other in intervals(len(lines))
            ],
            axis=0,
        )
        np.testing.assert_array_equal(off, least)


def test_rectangles_of_coarse_cells_stay_where_they_are() -> None:
    lattice = Lattice(np.array([0, 1, 5, 6]), np.array([0, 3, 7]))
    coarse = all_rectangles(*lattice.shape)
    west, south, east, north = coarse.T
    there = np.stack([lattice.east[west], lattice.north[south], lattice.east[east], lattice.north[north]], axis=1)
    kept = there.copy()
    np.testing.assert_array_equal(lattice.snap(there), coarse)
    np.testing.assert_array_equal(there, kept)


@given(lattices(most=30, cells=8))
@settings(max_examples=60, deadline=None)
def test_the_nearest_line_is_the_lower_of_two(lattice: Lattice) -> None:
    for lines in (lattice.east, lattice.north):
        wanted = np.abs(np.arange(lines[-1] + 1)[:, None] - lines).argmin(axis=1)
        np.testing.assert_array_equal(nearest_line(lines), wanted)


@given(st.integers(1, 70), st.integers(1, 70), st.integers(1, 80))
@settings(max_examples=150, deadline=None)
def test_even_lattices_have_about_square_cells(rows: int, columns: int, side: int) -> None:
    grid = Grid((0.0, 0.0, 1.0, 1.0), rows, columns)
    lattice = Lattice.even(grid, side)
    assert lattice.fits(grid)
    assert max(lattice.shape) == min(side, max(rows, columns))
    for lines in (lattice.east, lattice.north):
        sizes = np.diff(lines)
        assert sizes.max() - sizes.min() <= 1 + (sizes.min() > 1)  # rounding moves both ends of a cell
        cells, longer = int(lines[-1]), max(rows, columns)
        assert abs(len(lines) - 1 - max(1, cells * min(side, longer) / longer)) <= 0.5 or len(lines) - 1 == cells


def test_even_lattices_of_some_grids() -> None:
    for rows, columns, side, shape in (
        (8, 8, 3, (3, 3)),
        (8, 8, 100, (8, 8)),
        (8, 32, 8, (2, 8)),
        (32, 8, 8, (8, 2)),
        (1, 50, 5, (1, 5)),
        (50, 1, 5, (5, 1)),
        (3, 50, 5, (1, 5)),
        (1, 1, 9, (1, 1)),
    ):
        assert Lattice.even(Grid((0.0, 0.0, 1.0, 1.0), rows, columns), side).shape == shape
    for side in (0, -3):
        with pytest.raises(InputError, match="at least 1 cell"):
            Lattice.even(Grid((0.0, 0.0, 1.0, 1.0), 4, 4), side)


@pytest.mark.parametrize(
    "lines",
    [
        np.array([0]),
        np.array([], np.int64),
        np.array([1, 2]),
        np.array([-1, 0, 2]),
        np.array([0, 2, 2]),
        np.array([0, 3, 2]),
        np.array([0, 3, 2], np.uint8),
        np.array([0, 3, 2], np.uint64),
        np.array([0.0, 2.0]),
        np.array([False, True]),
        np.array([[0, 2]]),
        np.array(7),
    ],
    ids=lambda lines: f"{lines.dtype} {lines.tolist()}",
)
def test_lines_that_do_not_rise_from_0_are_refused(lines: np.ndarray) -> None:
    good = np.array([0, 2, 3])
    for east, north in ((lines, good), (good, lines)):
        with pytest.raises(InputError, match="rise from 0"):
            Lattice(east, north)


def test_lines_can_not_be_changed() -> None:
    east = np.array([0, 2, 3], np.int16)
    lattice = Lattice(east, np.array([0, 4]))
    east[1] = 1
    assert lattice.east.tolist() == [0, 2, 3]
    assert lattice.east.dtype == np.int64
    with pytest.raises(ValueError, match="read-only"):
        lattice.east[1] = 1


def test_numbers_are_endpoints_then_vertical_then_horizontal_edges() -> None:
    lattice = Lattice(np.array([0, 2, 3, 7]), np.array([0, 4, 5]))
    assert lattice.shape == (2, 3)
    assert lattice.cells == 6
    assert lattice.numbers == 6 + 4 + 3
    a, v, h = lattice.parts(np.arange(13.0))
    assert a.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert v.tolist() == [[6, 7], [8, 9]]
    assert h.tolist() == [[10, 11, 12]]
    assert lattice.coarse().shape == (2, 3)


def test_lattices_are_the_same_if_their_lines_are() -> None:
    one = Lattice(np.array([0, 2, 3]), np.array([0, 3]))
    again = Lattice(np.array([0, 2, 3], np.uint8), np.array([0, 3]))
    assert one == again
    assert hash(one) == hash(again)
    assert one != (one.east, one.north)
    for other in (
        Lattice(np.array([0, 1, 3]), np.array([0, 3])),
        Lattice(np.array([0, 2, 3]), np.array([0, 1, 3])),
        Lattice(np.array([0, 3]), np.array([0, 2, 3])),
    ):
        assert one != other
    assert one.fits(Grid((0.0, 0.0, 1.0, 1.0), 3, 3))
    assert not one.fits(Grid((0.0, 0.0, 1.0, 1.0), 3, 4))
    assert not one.fits(Grid((0.0, 0.0, 1.0, 1.0), 4, 3))


def test_lattices_print_their_shape() -> None:
    lattice = Lattice(np.array([0, 2, 3, 7]), np.array([0, 4, 5]))
    assert repr(lattice) == "<Lattice: 2 x 3 coarse cells over 5 x 7 cells>"


def test_lattices_finer_than_degrees_go() -> None:
    """The coarse grid does not pose as degrees: there are more cells than degrees of longitude."""
    lattice = Lattice(np.arange(401), np.arange(301))
    assert lattice.coarse().shape == (300, 400)


def test_sums_over_a_lattice_are_what_was_refined() -> None:
    fine = Lattice(np.arange(13), np.arange(9))
    coarse = Lattice(np.array([0, 5, 6, 12]), np.array([0, 3, 8]))
    rng = np.random.default_rng(0)
    numbers = coarse.parts(rng.uniform(size=coarse.numbers))
    for part, wanted in zip(coarse.within(fine).add_up(*coarse.refine(*numbers)), numbers, strict=True):
        np.testing.assert_allclose(part, wanted)


def test_a_coarser_lattice_has_some_of_the_lines() -> None:
    fine = Lattice.even(Grid((0.0, 0.0, 1.0, 1.0), 200, 300), 120)
    for side in (1, 7, 50, 120, 500):
        coarse = fine.coarser(side)
        assert set(coarse.east.tolist()) <= set(fine.east.tolist())
        assert max(coarse.shape) == min(side, 120)
        np.testing.assert_array_equal(fine.east[coarse.within(fine).east], coarse.east)


def test_labels_name_the_coarse_cell_of_each_cell() -> None:
    lattice = Lattice(np.array([0, 2, 3]), np.array([0, 1, 4, 5]))
    assert lattice.labels.tolist() == [[0, 0, 1], [2, 2, 3], [2, 2, 3], [2, 2, 3], [4, 4, 5]]
    assert np.bincount(lattice.labels.ravel()).tolist() == lattice.areas.ravel().tolist() == [2, 1, 6, 3, 2, 1]
