import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqam.errors import InputError
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram, TwoScaleHistogram
from dqam.geometry.rectangles import random_rectangles
from dqam.geometry.trips import Trips
from dqam.geometry.walks import walk
from tests.consistency.cases import flux_histogram, grid_of, parts, staircases
from tests.geometry.cases import GRIDS, random_trips
from tests.oracles import naive


@given(st.integers(0, 10_000), st.sampled_from(GRIDS))
@settings(max_examples=60, deadline=None)
def test_histogram_and_answers_equal_the_naive_ones(seed: int, grid: Grid) -> None:
    walks = walk(random_trips(seed), grid)
    histogram, slow = SpatialHistogram.of(walks), naive.histogram(walks)
    for name in ("faces", "vertical", "horizontal"):
        np.testing.assert_array_equal(getattr(histogram, name), getattr(slow, name))
    assert histogram.total == len(walks.pieces) - 1
    rectangles = random_rectangles(grid, 100, np.random.default_rng(seed))
    answers = histogram.answers(rectangles)
    assert answers.dtype == np.int64
    assert answers.tolist() == [naive.answer(histogram, *r) for r in rectangles.tolist()]
    np.testing.assert_allclose(answers, [naive.answer_by_flux(histogram, *r) for r in rectangles.tolist()])


def test_endpoints_are_half_the_starts_and_ends() -> None:
    walks = walk(random_trips(3), GRIDS[0])
    wanted = np.zeros(35)
    np.add.at(wanted, walks.cells[walks.pieces[:-1]], 0.5)
    np.add.at(wanted, walks.cells[walks.pieces[1:] - 1], 0.5)
    np.testing.assert_array_equal(SpatialHistogram.of(walks).endpoints.ravel(), wanted)


def test_histogram_from_endpoints_and_flux() -> None:
    histogram = SpatialHistogram.of(walk(random_trips(4), GRIDS[1]))
    again = SpatialHistogram.from_flux(GRIDS[1], histogram.endpoints, histogram.vertical, histogram.horizontal)
    np.testing.assert_array_equal(again.faces, histogram.faces)


def test_small_numbers_do_not_overflow_in_sums() -> None:
    grid = Grid((0, 0, 1, 1), 100, 100)
    for kind in (np.int16, np.uint8, np.float32):
        edges = np.zeros((100, 99), kind), np.zeros((99, 100), kind)
        histogram = SpatialHistogram(grid, np.full((100, 100), 100, kind), *edges)
        assert histogram.answers(np.array([[0, 0, 100, 100]])).tolist() == [1_000_000]


def test_estimated_histograms_answer_in_floats() -> None:
    rng = np.random.default_rng(0)
    grid = GRIDS[1]
    histogram = SpatialHistogram(grid, rng.normal(size=(16, 16)), rng.normal(size=(16, 15)), rng.normal(size=(15, 16)))
    rectangles = random_rectangles(grid, 200, rng)
    np.testing.assert_allclose(
        histogram.answers(rectangles), [naive.answer(histogram, *r) for r in rectangles.tolist()], atol=1e-9
    )


def test_no_trips_make_an_empty_histogram() -> None:
    grid = GRIDS[0]
    empty = SpatialHistogram.of(walk(Trips.from_lists([]), grid))
    assert empty.total == 0
    assert SpatialHistogram.of([], grid).faces.shape == (5, 7)
    with pytest.raises(InputError, match="grid is needed"):
        SpatialHistogram.of([])


def test_different_grids_do_not_mix() -> None:
    walks = [walk(random_trips(7), grid) for grid in GRIDS[:2]]
    with pytest.raises(InputError, match="cannot be counted in a histogram"):
        SpatialHistogram.of(walks, GRIDS[0])
    with pytest.raises(ValueError, match="faces must have the shape"):
        SpatialHistogram(GRIDS[0], np.zeros((5, 6)), np.zeros((5, 6)), np.zeros((4, 7)))


sizes = st.tuples(st.integers(1, 6), st.integers(1, 6))


def all_rectangles(grid: Grid) -> np.ndarray:
    sides = [list(itertools.combinations(range(lines + 1), 2)) for lines in (grid.columns, grid.rows)]
    return np.array([(west, south, east, north) for west, east in sides[0] for south, north in sides[1]])


def grows(of: SpatialHistogram) -> bool:
    """By definition: no rectangle has a larger answer than one that adds a row or a column to it, and hence than any
    that contains it; nor is an answer below 0 or above the total."""
    rectangles, sides = all_rectangles(of.grid), (of.grid.columns + 1, of.grid.rows + 1) * 2
    answers = np.array([naive.answer(of, *r) for r in rectangles.tolist()])
    table = np.full(sides, np.nan)  # by west, south, east and north; differences with what is no rectangle are NaN
    table[tuple(rectangles.T)] = answers
    falls = [np.diff(table, axis=axis) * sign < 0 for axis, sign in enumerate((-1, -1, 1, 1))]
    return not any(each.any() for each in falls) and answers.min() >= 0 and answers.max() <= of.total


@given(st.integers(0, 2**32), sizes, st.sampled_from([0.5, 1.0, 2.0]), st.booleans())
@settings(max_examples=400, deadline=None)
def test_monotone_by_strips_is_monotone_by_definition(
    seed: int, size: tuple[int, int], step: float, negative: bool
) -> None:
    """Histograms of walks, a little changed: about half are monotone. Halves add up without rounding errors."""
    rng = np.random.default_rng(seed)
    a, v, h = (part.copy() for part in parts(staircases(rng, *size, 6)))
    for part in (a, v, h):
        change = rng.random(part.shape) < 0.1
        part[change] += step * rng.integers(-2, 3, int(change.sum()))
        if not negative:
            np.maximum(part, 0, out=part)
    of = flux_histogram(a, v, h)
    assert of.is_monotone() == grows(of)


@pytest.mark.parametrize("seed", range(6))
def test_monotone_by_strips_on_a_larger_grid(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, v, h = (part.copy() for part in parts(staircases(rng, 16, 16, 60)))
    assert grows(flux_histogram(a, v, h))
    assert flux_histogram(a, v, h).is_monotone()
    a[tuple(rng.integers(16, size=2))] -= 0.5 * (seed % 2)
    v[tuple(rng.integers(15, size=2))] += 0.5 * (seed % 3)
    of = flux_histogram(a, v, h)
    assert of.is_monotone() == grows(of)


def test_both_verdicts_are_common() -> None:
    """The comparison above has power: it meets monotone histograms and others."""
    verdicts = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        a, v, h = (part.copy() for part in parts(staircases(rng, 5, 5, 6)))
        change = rng.random(v.shape) < 0.1
        v[change] += rng.integers(-1, 2, int(change.sum()))
        verdicts.append(flux_histogram(a, v, h).is_monotone())
    assert 20 < sum(verdicts) < 80


def test_a_face_below_zero_among_edges_below_zero_is_seen() -> None:
    """No strip loses anything here; what is wrong is one cell alone."""
    faces, v, h = np.zeros((3, 3)), np.zeros((3, 2)), np.zeros((2, 3))
    faces[1, 1], v[1], h[:, 1] = -1, -2, -2
    of = SpatialHistogram(grid_of(3, 3), faces, v, h)
    assert not of.is_monotone()
    assert not grows(of)
    faces[1, 1] = 0
    of = SpatialHistogram(grid_of(3, 3), faces, v, h)
    assert of.is_monotone() == grows(of)


def test_the_tolerance_is_what_a_strip_may_lose() -> None:
    of = SpatialHistogram(grid_of(1, 2), np.array([[1.0, 1.0]]), np.array([[1.25]]), np.zeros((0, 2)))
    assert not of.is_monotone()
    assert not of.is_monotone(0.2)
    assert of.is_monotone(0.25)
    assert not SpatialHistogram(of.grid, np.array([[np.nan, 1.0]]), of.vertical, of.horizontal).is_monotone(1.0)


def test_histograms_print_their_total_and_grid() -> None:
    histogram = SpatialHistogram.of(walk(random_trips(4), GRIDS[1]))
    assert repr(histogram).startswith(f"<SpatialHistogram: total {histogram.total} on 16 x 16 cells")
    half = SpatialHistogram(grid_of(1, 1), np.array([[1234.5]]), np.zeros((1, 0)), np.zeros((0, 1)))
    assert repr(half).startswith("<SpatialHistogram: total 1,234.5 on 1 x 1 cells")


def every_rectangle(rows: int, columns: int) -> np.ndarray:
    west, east = np.array(list(itertools.combinations(range(columns + 1), 2))).T
    south, north = np.array(list(itertools.combinations(range(rows + 1), 2))).T
    return np.array([(w, s, e, n) for w, e in zip(west, east, strict=True) for s, n in zip(south, north, strict=True)])


def are_inside(one: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which of the others are inside one."""
    return (others[:, :2] >= one[:2]).all(axis=1) & (others[:, 2:] <= one[2:]).all(axis=1)


@pytest.mark.parametrize("shape", [(7, 9), (4, 12), (11, 3), (1, 9), (9, 1), (2, 2)])
@pytest.mark.parametrize(("side", "scale"), [(1, 2.0), (3, 2.0), (3, 20.0)])
def test_two_scales_are_joined_as_defined_and_monotone(shape: tuple[int, int], side: int, scale: float) -> None:
    rows, columns = shape
    rng = np.random.default_rng(rows * columns)

    def monotone(times: float) -> SpatialHistogram:  # so many endpoints that no answer can shrink
        edges = rng.integers(0, 4, (rows, columns - 1)) / 4, rng.integers(0, 4, (rows - 1, columns)) / 4
        ends = rng.integers(2, 9, shape) + 0.0
        return SpatialHistogram.from_flux(grid_of(rows, columns), times * ends, times * edges[0], times * edges[1])

    small, large = monotone(scale), monotone(1.0)
    joined = TwoScaleHistogram.of_two(small, large, 3.0, side)
    rectangles = every_rectangle(rows, columns)
    found = joined.answers(rectangles)
    own, limit = small.answers(rectangles), large.answers(rectangles) + 3
    is_small = (rectangles[:, 2:] - rectangles[:, :2] <= side).all(axis=1)
    for answer, rectangle, mine, most, little in zip(found, rectangles, own, limit, is_small, strict=True):
        inside = own[is_small & are_inside(rectangle, rectangles)].max()
        assert answer == min(mine if little else max(min(mine, most), inside), large.total + 3)
        assert answer >= found[are_inside(rectangle, rectangles)].max()
        assert answer == joined.answers(rectangle[None])[0]
    assert joined.is_monotone()
    assert joined.total == found[(rectangles == (0, 0, columns, rows)).all(axis=1)][0]
    assert not TwoScaleHistogram.of_two(small, replace(large, faces=large.faces - 20), 3.0, side).is_monotone()
    assert not TwoScaleHistogram.of_two(replace(small, faces=small.faces - 400), large, 3.0, side).is_monotone()
