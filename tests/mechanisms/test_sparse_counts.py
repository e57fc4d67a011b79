"""Estimates of sparse counts are those of Bayes' rule, and better than simpler ones."""

import numpy as np
import pytest
from scipy.stats import nbinom, norm

from dqam.mechanisms import sparse_counts
from dqam.mechanisms.sparse_counts import SHAPES, Counts, Posterior, sharpened


def by_hand(value: float, expected: float, shape: float, scale: float, gaussian: bool) -> tuple[np.ndarray, np.ndarray]:
    """Counts, and the weight of each by Bayes' rule."""
    counts = np.arange(3_000)
    prior = nbinom.pmf(counts, shape, shape / (shape + expected))
    noise = norm.pdf(value - counts, scale=scale) if gaussian else np.exp(-np.abs(value - counts) / scale)
    weights = prior * noise
    return counts, weights / weights.sum()


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("shape", [0.1, 1.0, 100.0])
@pytest.mark.parametrize(
    ("value", "expected", "scale"),
    [(0, 0.01, 1.0), (-3, 0.5, 2.0), (7, 0.5, 2.0), (40, 55.0, 3.0), (900, 870.0, 10.0), (5, 1e-6, 1.0)],
)
def test_moments_and_medians_are_those_of_bayes(
    value: float, expected: float, scale: float, shape: float, gaussian: bool
) -> None:
    counts, weights = by_hand(value, expected, shape, scale, gaussian)
    found = Posterior(Counts(np.array([value], float), scale, gaussian), np.array([expected]), shape, 0.0)
    mean, variance = found.moments()
    assert mean[0] == pytest.approx((counts * weights).sum(), rel=1e-3, abs=1e-3)
    spread = (counts**2 * weights).sum() - (counts * weights).sum() ** 2
    assert variance[0] == pytest.approx(spread, rel=1e-2, abs=1e-3)
    assert found.quantiles(0.5)[0] == counts[np.searchsorted(weights.cumsum(), 0.5)]


def test_many_counts_on_several_cores_are_the_same_as_few() -> None:
    rng = np.random.default_rng(0)
    values, expected = np.rint(rng.laplace(0, 2, 30_000)), rng.uniform(0, 3, 30_000)
    many = Posterior(Counts(values, 2.0, False), expected, 1.0, 0.0)
    few = Posterior(Counts(values[:100], 2.0, False), expected[:100], 1.0, 0.0)
    assert np.array_equal(many.moments()[0][:100], few.moments()[0])
    assert np.array_equal(many.quantiles(0.7)[:100], few.quantiles(0.7))


@pytest.mark.parametrize("shape", [0.1, 1.0, 100.0])
def test_the_shape_is_found(shape: float) -> None:
    rng = np.random.default_rng(3)
    expected = rng.uniform(0.5, 20, 20_000)
    true = nbinom.rvs(shape, shape / (shape + expected), random_state=rng)
    found = Posterior.of(Counts(true + np.rint(rng.laplace(0, 1, true.size)), 1.0, False), expected)
    assert abs(SHAPES.index(found.shape) - SHAPES.index(shape)) <= 1


@pytest.mark.parametrize("gaussian", [False, True])
def test_estimates_add_up_and_have_smaller_errors_than_noise(gaussian: bool) -> None:
    rng = np.random.default_rng(4)
    true = rng.poisson(0.2, (150, 150)) * rng.integers(0, 30, (150, 150))
    noise = rng.normal(0, 3, true.shape) if gaussian else rng.laplace(0, 3, true.shape)
    counts = Counts(np.rint(true + noise), 3.0, gaussian)
    found = Posterior.of(counts, np.full(true.shape, true.mean()))
    made = found.adding_up_to(float(true.sum()))
    assert made.min() >= 0
    assert made.sum() == pytest.approx(true.sum())
    off, cut = np.abs(made - true).sum(), np.abs(np.maximum(counts.values, 0) - true).sum()
    assert off < 0.6 * cut


def test_sharpening_finds_where_counts_are_and_leaves_even_ones_alone() -> None:
    rng = np.random.default_rng(5)
    place = np.arange(60)
    hills = 8 * np.exp(-((place[:, None] - 20) ** 2 + (place - 35) ** 2) / 80)
    counts = Counts(rng.poisson(hills) + np.rint(rng.laplace(0, 4, hills.shape)), 4.0, False)
    even = Posterior.of(counts, np.full(hills.shape, hills.mean()))
    found = sharpened(sharpened(even, 4.0), 2.0)
    assert found.fit > even.fit + 10
    assert np.abs(found.expected - hills).mean() < 0.4 * np.abs(even.expected - hills).mean()
    flat = Counts(rng.poisson(3.0, hills.shape) + np.rint(rng.laplace(0, 4, hills.shape)), 4.0, False)
    level = Posterior.of(flat, np.full(hills.shape, 3.0))
    assert np.abs(sharpened(level, 1.0).expected - 3).mean() < 0.5


def test_values_far_from_everything_expected_stay_finite() -> None:
    found = Posterior.of(Counts(np.array([1e6, -1e6, 0.0]), 1.0, False), np.array([1e-9, 1e3, 1e5]))
    mean, variance = found.moments()
    assert np.isfinite(mean).all()
    assert np.isfinite(variance).all()
    assert mean[0] == pytest.approx(1e6, rel=1e-3)
    assert found.quantiles(0.5)[1] >= 0


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("expected", [300.0, 50_000.0])
def test_large_noise_is_divided_into_units(gaussian: bool, expected: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same results up to a small part of the noise."""
    scale, values = 2_000.0, np.array([-5_000.0, 0.0, 400.0, 3_000.0, 52_000.0])
    found = {}
    for finest in (512.0, 1e9):
        monkeypatch.setattr(sparse_counts, "FINEST", finest)
        counts = Counts(values, scale, gaussian)
        assert counts.unit == max(1.0, scale / finest)
        made = Posterior(counts, np.full(5, expected), 1.0, 0.0)
        found[finest] = np.stack([*made.moments(), made.quantiles(0.5), made.quantiles(0.9)])
    rough, exact = found.values()
    np.testing.assert_allclose(rough[0], exact[0], rtol=0.01, atol=scale / 200)
    np.testing.assert_allclose(rough[1], exact[1], rtol=0.02)
    np.testing.assert_allclose(rough[2:], exact[2:], rtol=0.01, atol=scale / 100)


@pytest.mark.parametrize("gaussian", [False, True])
def test_the_work_does_not_grow_with_the_noise(gaussian: bool) -> None:
    """With a count at a time, there would be 10^16 of them."""
    values = 1e15 * np.array([-3.0, -1.0, 0.0, 2.0])
    made = Posterior.of(Counts(values, 1e15, gaussian), np.full(4, 25.0))
    assert np.isfinite(made.moments()).all()
    assert made.adding_up_to(100.0).sum() == pytest.approx(100)
