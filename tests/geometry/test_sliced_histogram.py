"""Slices share out a histogram: exactly, for whatever is asked, and none gets more than it has."""

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from dqam.errors import InputError
from dqam.geometry.area_answers import answer_areas, answer_lines
from dqam.geometry.areas import place_areas, place_lines
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram, TwoScaleHistogram
from dqam.geometry.lattice import Lattice
from dqam.geometry.rectangles import random_rectangles
from dqam.geometry.sliced_histogram import UNITS, Patterns, SlicedHistogram, interpolation

GRID = Grid((0.0, 0.0, 12.0, 8.0), 8, 12)


def histogram(seed: int) -> SpatialHistogram:
    """Consistent enough: many endpoints, few crossings."""
    rng = np.random.default_rng(seed)
    parts = rng.uniform(5, 90, (8, 12)), rng.uniform(0, 9, (8, 11)), rng.uniform(0, 9, (7, 12))
    return SpatialHistogram.from_flux(GRID, *parts)


def patterns(seed: int, slices: int = 5, count: int = 3) -> Patterns:
    rng, lattice = np.random.default_rng(seed), Lattice.even(GRID, 3)

    def shares(*shape: int) -> np.ndarray:
        values = rng.dirichlet(np.ones(shape[0]), shape[1:])
        return np.moveaxis(values, -1, 0)

    names = tuple(f"s{i}" for i in range(slices))
    return Patterns(names, lattice, shares(slices, count), shares(count, *lattice.shape), shares(count, *lattice.shape))


def sliced(seed: int, whole: SpatialHistogram | None = None) -> SlicedHistogram:
    return SlicedHistogram.of_patterns(whole or histogram(seed), patterns(seed))


@pytest.mark.parametrize("lines", [[0, 1], [0, 5], [0, 1, 2, 7], [0, 3, 4, 9, 20]])
def test_interpolation_adds_up_to_one_and_keeps_constants(lines: list[int]) -> None:
    weights = interpolation(np.array(lines))
    assert weights.shape == (lines[-1], len(lines) - 1)
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    assert weights.min() >= 0


def test_the_patterns_add_up_to_the_histogram() -> None:
    found = sliced(1)
    for name in ("faces", "vertical", "horizontal"):
        total = sum(getattr(part, name) for part in found.parts)
        np.testing.assert_allclose(total, getattr(found.whole, name))


def test_of_two_histograms_the_one_for_large_rectangles_is_shared_out() -> None:
    small, large = histogram(2), histogram(3)
    both = SlicedHistogram.of_patterns(TwoScaleHistogram.of_two(small, large, 0.0, 2), patterns(2))
    np.testing.assert_allclose(sum(part.faces for part in both.parts), large.faces)
    asked = random_rectangles(GRID, 50, np.random.default_rng(0))
    np.testing.assert_allclose(both.answers(asked), both.whole.answers(asked), atol=1 / UNITS)


@given(st.integers(0, 10**6))
def test_slices_add_up_to_the_bit_and_none_exceeds_its_size(seed: int) -> None:
    found, asked = sliced(seed), random_rectangles(GRID, 40, np.random.default_rng(seed))
    asked[0] = [0, 0, 12, 8]
    each = found.ask_each(lambda one: one.answers(asked))
    assert (each.sum(axis=0) == found.answers(asked)).all()
    assert (each[::-1].sum(axis=0) == found.answers(asked)).all()  # in any order
    np.testing.assert_allclose(found.answers(asked), found.whole.answers(asked), atol=1 / UNITS)
    assert each.min() >= 0
    assert (each <= found.sizes[:, None] + 2 / UNITS).all()
    np.testing.assert_allclose(each[:, 0], found.sizes, atol=2 / UNITS)
    assert (each * UNITS == np.rint(each * UNITS)).all()


@given(st.integers(0, 10**6), st.sets(st.integers(0, 4), min_size=1, max_size=4))
def test_a_selection_is_the_sum_of_its_slices(seed: int, chosen: set[int]) -> None:
    found, asked = sliced(seed), random_rectangles(GRID, 20, np.random.default_rng(seed))
    names = [f"s{i}" for i in chosen]
    some, rest = found.select(names), found.select([name for name in found.names if name not in names])
    each = found.ask_each(lambda one: one.answers(asked))
    assert (some.answers(asked) == each[sorted(chosen)].sum(axis=0)).all()
    assert (some.answers(asked) + rest.answers(asked) == found.answers(asked)).all()
    assert some.total + rest.total == found.total
    assert some.names == tuple(sorted(names))
    one = some.select([names[0]])
    assert (one.answers(asked) == found.select([names[0]]).answers(asked)).all()


def test_areas_and_lines_of_slices_add_up_too() -> None:
    found = sliced(4)
    shapes = [
        shapely.Point(6, 4).buffer(2.3),
        shapely.Polygon([(1, 1), (11, 2), (5, 7)]),
        shapely.Point(30, 30).buffer(1),
    ]
    areas = place_areas(shapes, GRID)
    lines = place_lines([shapely.LineString([(1, 1), (10, 7)])], GRID)
    for answer, asked in ((answer_areas, areas), (answer_lines, lines)):
        parts = [answer(found.select([name]), asked).value for name in found.names]  # type: ignore[operator]
        whole = answer(found, asked).value  # type: ignore[operator]
        np.testing.assert_array_equal(np.sum(parts, axis=0), whole)
        np.testing.assert_allclose(whole, answer(found.whole, asked).value, atol=1 / UNITS)  # type: ignore[operator]
    assert np.isnan(answer_areas(found.select(["s1"]), areas).value[2])


def test_crossings_are_not_bounded_by_trips() -> None:
    """One slice has few trips, and many crossings of a line that runs to and fro."""
    found = sliced(5)
    back = shapely.LineString([(0.5, 0.5), (11.5, 7.5)] * 200)
    crossings = answer_lines(found.select(["s0"]), place_lines([back], GRID)).value
    assert crossings[0] > found.select(["s0"]).total


def test_where_nothing_is_known_slices_have_their_average_share() -> None:
    whole = histogram(6)
    faces = whole.faces.copy()
    empty = SpatialHistogram(GRID, faces * 0, whole.vertical * 0, whole.horizontal * 0)
    found = SlicedHistogram.of_patterns(empty, patterns(6))
    assert (found.ask_each(lambda one: one.answers(np.array([[0, 0, 2, 2]]))) == 0).all()


def test_what_does_not_fit_is_refused() -> None:
    given = patterns(7)
    small = Grid((0, 0, 1, 1), 2, 2)
    other = SpatialHistogram.from_flux(small, np.zeros((2, 2)), np.zeros((2, 1)), np.zeros((1, 2)))
    with pytest.raises(InputError, match="does not fit"):
        SlicedHistogram.of_patterns(other, given)
    with pytest.raises(ValueError, match="do not fit 4 slices"):
        Patterns(given.names[:-1], given.lattice, given.mixture, given.endpoints, given.crossings)
