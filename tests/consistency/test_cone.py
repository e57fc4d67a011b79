"""The current cone against monotonicity by definition, and repair to the last bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqam.consistency.cone import find_currents, repair
from dqam.errors import InputError
from dqam.geometry.rectangles import random_rectangles
from tests.consistency.cases import flux_histogram, parts, staircases
from tests.oracles.naive import cone_excess


@given(st.integers(0, 2**32), st.tuples(st.integers(1, 9), st.integers(1, 9)))
@settings(max_examples=200, deadline=None)
def test_trips_that_come_once_are_in_the_cone(seed: int, size: tuple[int, int]) -> None:
    a, v, h = parts(staircases(np.random.default_rng(seed), *size, 8))
    y, z = find_currents(a, v, h)
    assert cone_excess(a, v, h, y, z) <= 0
    assert flux_histogram(a, v, h).is_monotone()


@given(st.integers(0, 2**32), st.tuples(st.integers(1, 6), st.integers(1, 6)))
@settings(max_examples=400, deadline=None)
def test_the_cone_is_what_is_monotone_and_nowhere_negative(seed: int, size: tuple[int, int]) -> None:
    rng = np.random.default_rng(seed)
    a, v, h = (part.copy() for part in parts(staircases(rng, *size, 6)))
    for part in (a, v, h):
        change = rng.random(part.shape) < 0.1
        part[change] += rng.integers(-2, 3, int(change.sum())) / 2
    within = cone_excess(a, v, h, *find_currents(a, v, h)) <= 0
    monotone = flux_histogram(a, v, h).is_monotone() and min(part.min(initial=0) for part in (a, v, h)) >= 0
    assert within == monotone


@given(st.integers(0, 2**32), st.tuples(st.integers(1, 12), st.integers(1, 12)), st.floats(0.001, 1e9))
@settings(max_examples=300, deadline=None)
def test_anything_repaired_is_exactly_in_the_cone(seed: int, size: tuple[int, int], total: float) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = size
    shapes = [(rows, columns), *[(rows, columns - 1), (rows - 1, columns)] * 2]
    made = repair(*(rng.normal(rng.integers(0, 3), 10.0 ** rng.integers(-6, 6), shape) for shape in shapes), total)
    assert cone_excess(made.endpoints, made.vertical, made.horizontal, made.y, made.z) <= 0
    of = flux_histogram(made.endpoints, made.vertical, made.horizontal)
    assert of.is_monotone()
    assert of.total == pytest.approx(total, rel=1e-11)
    rectangles = random_rectangles(of.grid, 50, rng)
    wider = rectangles + np.array([-1, -1, 1, 1])
    wider = np.clip(wider, 0, [columns, rows, columns, rows])
    assert (of.answers(rectangles) <= of.answers(wider)).all()  # not even a rounding error is off
    assert (of.answers(rectangles) >= 0).all()
    assert of.answers(np.array([[0, 0, columns, rows]])) == of.total


def test_whole_totals_are_kept_to_the_last_bit() -> None:
    rng = np.random.default_rng(1)
    shapes = [(50, 70), (50, 69), (49, 70), (50, 69), (49, 70)]
    made = repair(*(rng.exponential(3, shape) for shape in shapes), 123_457)
    assert flux_histogram(made.endpoints, made.vertical, made.horizontal).total == 123_457


def test_what_is_in_the_cone_is_repaired_to_itself() -> None:
    a, v, h = parts(staircases(np.random.default_rng(2), 12, 9, 40))
    made = repair(a, v, h, *find_currents(a, v, h), 40)
    for part, wanted in ((made.endpoints, a), (made.vertical, v), (made.horizontal, h)):
        np.testing.assert_allclose(part, wanted, rtol=1e-11, atol=1e-9)


def test_nothing_stays_nothing() -> None:
    empty = [np.zeros(shape) for shape in ((3, 4), (3, 3), (2, 4), (3, 3), (2, 4))]
    assert repair(*empty, 0).endpoints.sum() == 0
    assert repair(*empty, 12).endpoints.tolist() == [[1.0] * 4] * 3
    with pytest.raises(InputError, match="at least 0; got -1"):
        repair(*empty, -1)
