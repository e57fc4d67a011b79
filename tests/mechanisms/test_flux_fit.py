"""What flux makes of a measurement: calibrated, consistent, and drawn to even where noise is large."""

from itertools import pairwise, product

import numpy as np
import pytest

from dqam.consistency.cone import find_currents
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.lattice import Lattice, Parts
from dqam.mechanisms.flux_fit import (
    ENDPOINT_WEIGHT,
    STRONG,
    LatticeMeasurement,
    ShareMeasurement,
    calibrated,
    even_shadows,
    exactly,
    from_shares,
    less_flux,
)
from dqam.mechanisms.size import SizeEstimate, cover
from tests.mechanisms.cases import parts, some_queries, strolls, unit_square
from tests.oracles.naive import cone_excess

GRID = unit_square(16, 16)
QUERIES = some_queries(GRID, 100)


LATTICE = Lattice(np.array([0, 3, 8, 12, 16]), np.array([0, 5, 10, 16]))
SNAPPED = LATTICE.snap(QUERIES)
MEASUREMENT = LatticeMeasurement(LATTICE, 10.0, SNAPPED)
SIZE = SizeEstimate(cover(GRID, QUERIES), 1000.0, 400.0, signal=1000.0)


def blurred(noise: float, seed: int) -> Parts:
    """Most endpoints and crossings in the south-west, with noise."""
    rng = np.random.default_rng(seed)
    rows, columns = LATTICE.shape
    south, west = np.exp(-np.arange(rows))[:, None], np.exp(-np.arange(columns))
    exact = (
        south * west * 600,
        (south * west[:-1]) * 300,
        (south[:-1] * west) * 300,
    )
    a, v, h = (part + rng.laplace(0, noise, part.shape) for part in exact)
    return a, v, h


def flat(of: Parts) -> np.ndarray:
    return np.concatenate([part.ravel() for part in of])


def mean_answer(of: Parts) -> float:
    return float(SpatialHistogram.from_flux(GRID, *LATTICE.refine(*of)).answers(QUERIES).mean())


def test_calibrated_numbers_have_the_right_total_and_mean_answer() -> None:
    for seed in range(5):
        found = calibrated(LATTICE, blurred(5, seed), SIZE)
        assert found[0].sum() == pytest.approx(1000)
        assert mean_answer(found) == pytest.approx(400)


def test_edges_are_scaled_by_no_more_than_three() -> None:
    measured = blurred(0, 0)
    for answer, scale in ((1000.0, 3.0), (0.0, 1 / 3)):
        _, vertical, horizontal = calibrated(LATTICE, measured, SizeEstimate(SIZE.covers, 1000.0, answer, 1000.0))
        np.testing.assert_allclose(vertical, measured[1] * scale)
        np.testing.assert_allclose(horizontal, measured[2] * scale)


def test_endpoints_that_were_lost_in_noise_are_shifted_and_not_scaled() -> None:
    a, v, h = blurred(5, 0)
    a -= a.mean() + 2  # of a sum below 0
    found, *_ = calibrated(LATTICE, (a, v, h), SIZE)
    np.testing.assert_allclose(found - a, (1000 - a.sum()) / a.size)


def test_the_more_signal_the_more_endpoints_are_added_evenly() -> None:
    a, v, h = blurred(5, 0)
    a *= 900 / a.sum()
    for signal, evenly in ((0.0, 0.0), (STRONG / 2, 50.0), (STRONG, 100.0), (9 * STRONG, 100.0)):
        found, *_ = calibrated(LATTICE, (a, v, h), SizeEstimate(SIZE.covers, 1000.0, 400.0, signal))
        np.testing.assert_allclose(found, (a + evenly / a.size) * 1000 / (900 + evenly))


def test_no_flux_is_left_as_it_is() -> None:
    a, v, h = blurred(0, 0)
    _, vertical, horizontal = calibrated(LATTICE, (a, -v, -h), SIZE)
    np.testing.assert_array_equal(vertical, -v)
    np.testing.assert_array_equal(horizontal, -h)


def test_even_shadows_are_even_by_area_and_length() -> None:
    a, v, h = even_shadows(LATTICE, blurred(5, 1), SIZE)
    wide, high = np.diff(LATTICE.east), np.diff(LATTICE.north)
    np.testing.assert_allclose(a / (high[:, None] * wide), 1000 / 256)
    np.testing.assert_allclose(v / high[:, None], v[0, 0] / high[0])
    np.testing.assert_allclose(h / wide, v[0, 0] / high[0])
    assert mean_answer((a, v, h)) == pytest.approx(400)


def test_a_fit_is_consistent_and_has_the_total() -> None:
    for noise, seed in product((0.0, 20.0, 2000.0), range(3)):
        found = MEASUREMENT.fit(calibrated(LATTICE, blurred(noise, seed), SIZE), SIZE)
        assert cone_excess(*found, *find_currents(*found)) <= 0
        assert found[0].sum() == pytest.approx(1000)


def test_what_is_consistent_is_its_own_fit() -> None:
    """Straight trips are."""
    exact = SpatialHistogram.of(strolls(1000, unit_square(*LATTICE.shape)).engine.walks)
    measured = exact.endpoints, exact.vertical.astype(float), exact.horizontal.astype(float)
    np.testing.assert_allclose(flat(MEASUREMENT.fit(measured, SIZE)), flat(measured), atol=0.1)


def part_of_the_way(noise: float, seed: int = 3) -> float:
    """How far from even to the fit the result is; that it is between them is checked for every number."""
    measured = calibrated(LATTICE, blurred(noise / ENDPOINT_WEIGHT, seed), SIZE)
    fitted = MEASUREMENT.fit(measured, SIZE)
    even = MEASUREMENT.fit(even_shadows(LATTICE, measured, SIZE), SIZE)
    drawn, _ = LatticeMeasurement(LATTICE, noise, SNAPPED).drawn_to_even(measured, fitted, SIZE)
    start, stop, found = flat(even), flat(fitted), flat(drawn)
    far = np.abs(stop - start) > 1e-6
    ways = (found - start)[far] / (stop - start)[far]
    np.testing.assert_allclose(found[~far], start[~far], atol=1e-6)
    np.testing.assert_allclose(ways, ways[0], rtol=1e-6, atol=1e-6)
    assert -1e-9 <= ways[0] <= 1 + 1e-9
    assert SpatialHistogram.from_flux(LATTICE.coarse(), *drawn).is_monotone(1e-9 * 1000)
    assert drawn[0].sum() == pytest.approx(1000)
    return float(ways[0])


def test_the_more_noise_the_more_even() -> None:
    """The share of the way that is kept falls from 1 to little."""
    ways = [np.mean([part_of_the_way(noise, seed) for seed in range(4)]) for noise in (0.01, 30.0, 100.0, 300.0, 1e3)]
    assert all(less > more for less, more in pairwise(ways))
    assert ways[0] > 0.99
    assert ways[4] < 0.3


SHARES = ShareMeasurement(LATTICE, 10.0, SNAPPED)


def test_shares_become_numbers_with_the_right_total_and_mean_answer() -> None:
    for seed in range(5):
        shares = blurred(30, seed)[0]
        a, v, h = from_shares(LATTICE, shares, SIZE)
        assert min(a.min(), v.min(), h.min()) >= 0
        assert a.sum() == pytest.approx(1000)
        assert mean_answer((a, v, h)) == pytest.approx(400)
        lowered = (shares - a)[a > 0]
        np.testing.assert_allclose(lowered, lowered[0])  # the nearest numbers with this sum
        assert (shares[a == 0] <= lowered[0]).all()


def test_equal_shares_are_even() -> None:
    a, v, h = from_shares(LATTICE, LATTICE.areas * 1000 / 256, SIZE)
    np.testing.assert_allclose(a, 1000 * LATTICE.areas / 256, rtol=1e-6)
    np.testing.assert_allclose(v / np.diff(LATTICE.north)[:, None], v[0, 0] / 5, rtol=1e-6)
    np.testing.assert_allclose(h / np.diff(LATTICE.east), h[0, 0] / 3, rtol=1e-6)


def test_shares_seen_again_have_the_noise_that_was_measured_with() -> None:
    truth = SHARES.even(blurred(5, 1), SIZE)
    rng = np.random.default_rng(0)
    off = [np.abs(SHARES.again(truth, SIZE, rng)[0][0] - truth[0]).mean() for _ in range(200)]
    assert np.mean(off) == pytest.approx(10, rel=0.15)


def test_what_is_even_stays_so() -> None:
    measured = even_shadows(LATTICE, blurred(0, 0), SIZE)
    even = MEASUREMENT.fit(measured, SIZE)
    for noise in (1e-9, 10.0):
        drawn, _ = LatticeMeasurement(LATTICE, noise, SNAPPED).drawn_to_even(measured, even, SIZE)
        np.testing.assert_allclose(flat(drawn), flat(even), atol=1e-9 * 1000)


def test_distances_are_mean_squares_of_answers() -> None:
    one, other = blurred(5, 0), blurred(5, 1)
    answers = [SpatialHistogram.from_flux(LATTICE.coarse(), *of).answers(SNAPPED) for of in (one, other)]
    assert MEASUREMENT.distance(one, other) == pytest.approx(np.mean((answers[0] - answers[1]) ** 2))
    assert MEASUREMENT.distance(one, one) == 0


def test_what_is_seen_again_has_the_noise_that_was_measured_with() -> None:
    """Of scale 10 in crossings, and a third of it in endpoints; all is scaled a little then."""
    truth = calibrated(LATTICE, blurred(0, 0), SIZE)
    rng = np.random.default_rng(0)
    measured = [MEASUREMENT.again(truth, SIZE, rng)[0] for _ in range(200)]
    off = [np.mean([np.abs(of[k] - truth[k]).mean() for of in measured]) for k in range(3)]
    np.testing.assert_allclose(off, [10 / ENDPOINT_WEIGHT, 10, 10], rtol=0.15)
    seen = measured[0], MEASUREMENT.again(truth, SIZE, np.random.default_rng(0))
    np.testing.assert_array_equal(flat(seen[0]), flat(seen[1][0]))
    np.testing.assert_array_equal(flat(seen[1][1]), flat(MEASUREMENT.fit(seen[1][0], SIZE)))


def test_rounding_errors_are_repaired_and_nothing_else_changes() -> None:
    for seed in range(5):
        fitted = MEASUREMENT.fit(calibrated(LATTICE, blurred(20, seed), SIZE), SIZE)
        rough = SpatialHistogram.from_flux(GRID, *LATTICE.refine(*fitted))
        made = exactly(rough, 1000.0)
        assert made.is_monotone()
        assert made.total == 1000
        np.testing.assert_allclose(parts(made), parts(rough), rtol=1e-9, atol=1e-9)


FINE = Lattice(np.arange(17), np.arange(17))


def test_the_closer_the_average_answer_the_less_flux() -> None:
    refined = LATTICE.within(FINE).refine(*blurred(0, 0))

    def mean(of: Parts) -> float:
        return float(SpatialHistogram.from_flux(GRID, *of).answers(QUERIES).mean())

    before = mean(refined)
    low, high = (SizeEstimate(SIZE.covers, 1000.0, before + more, 1000.0) for more in (-10, 10))
    assert mean(less_flux(FINE, refined, low)) == pytest.approx(before - 5)
    assert mean(less_flux(FINE, refined, low, 1.0)) == pytest.approx(before - 10)
    assert mean(less_flux(FINE, refined, high, 1.0)) == pytest.approx(before)
