"""Each operation on SIMD vectors against NumPy, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

from dqam.runtime.simd import LANES, WORDS, both, either, filled, inverse_root, least, load, ones, store, without


@njit
def of_numbers(given, found):  # type: ignore[no-untyped-def]
    a, b = load(given, 0, 1), load(given, 1, 2)
    store(found, 0, 0, a + b)
    store(found, 0, 1, a - b)
    store(found, 0, 2, a * b)
    store(found, 1, 0, least(a, b))
    store(found, 1, 1, inverse_root(a * a))
    store(found, 1, 2, filled(2.5))


@njit
def of_words(given, found):  # type: ignore[no-untyped-def]
    a, b = load(given, 0, 1), load(given, 1, 2)
    store(found, 0, 0, either(a, b))
    store(found, 0, 1, both(a, b))
    store(found, 0, 2, without(a, b))
    return ones(a)


@njit
def add(array):  # type: ignore[no-untyped-def]
    return ones(load(array, 0, 0) + load(array, 0, 0))


@njit
def take(array):  # type: ignore[no-untyped-def]
    store(array, 0, 0, load(array, 0, 0))


def test_numbers() -> None:
    given = np.random.default_rng(0).normal(size=(2, 3, LANES))
    found, (a, b) = np.zeros((2, 3, LANES)), (given[0, 1], given[1, 2])
    of_numbers(given, found)
    right = [a + b, a - b, a * b, np.minimum(a, b), 1 / np.abs(a), np.full(LANES, 2.5)]
    np.testing.assert_allclose(found.reshape(6, LANES), right, rtol=1e-15)


def test_words() -> None:
    given = np.random.default_rng(0).integers(0, 2**64, (2, 3, WORDS), np.uint64)
    found, (a, b) = np.zeros((1, 3, WORDS), np.uint64), (given[0, 1], given[1, 2])
    assert of_words(given, found) == sum(int(word).bit_count() for word in a)
    np.testing.assert_array_equal(found[0], [a | b, a & b, a & ~b])


@pytest.mark.parametrize("array", [np.zeros((2, LANES)), np.zeros((2, 2, LANES), np.int32), np.zeros((4, 4, 4))[::2]])
def test_other_arrays_hold_no_simd_vectors(array: np.ndarray) -> None:
    with pytest.raises(TypingError, match="SIMD vector is the last axis"):
        take(array)


def test_words_are_no_numbers() -> None:
    with pytest.raises(TypingError):
        add(np.zeros((1, 1, WORDS), np.uint64))
