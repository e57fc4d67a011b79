"""Curators for audits: the log-likelihood ratios of their answers are right, and a batch of runs is many runs."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dqam.audit.cases import DELTA_QUESTION_CASES, QUESTION_CASES
from dqam.audit.curators import (
    CuratorSampler,
    ExponentialNoise,
    HalvedNoise,
    NoNoiseOnVectors,
    RepeatedNoise,
    gumbel_max_chances,
    noisy_max_chances,
)
from dqam.audit.pairs import ADVERSARIAL_PAIRS
from dqam.privacy.noise import SeededNoise
from dqam.values.guarantee import Promise
from tests.audit.cases import SLOW_WITH_DELTA, TREES, revealing_pairs

ONE, WITH_DELTA = Promise.of(1), Promise.of(1, 1e-3)


@pytest.mark.parametrize("name", [name for name in QUESTION_CASES if name not in (*TREES, "quadtree")])
def test_pairs_reach_what_a_question_claims(name: str) -> None:
    """The log-likelihood ratio of an answer never exceeds eps, and some pair reaches it: the audit has power."""
    sampler = QUESTION_CASES[name].make(ONE)
    assert isinstance(sampler, CuratorSampler)
    furthest = 0.0
    for pair in revealing_pairs(name).values():
        drawn = sampler.draw(pair, 0, 200, np.random.default_rng(3), lambda run: None)
        runs = drawn if isinstance(drawn, list) else [drawn]
        furthest = max(furthest, *(float(np.abs(run["log-likelihood ratio"]).max()) for run in runs))
    assert 0.98 <= furthest <= 1 + 1e-12


@pytest.mark.parametrize("name", [name for name in DELTA_QUESTION_CASES if name not in SLOW_WITH_DELTA])
def test_pairs_reach_what_a_question_with_a_delta_claims(name: str) -> None:
    """The log-likelihood ratio has a variance of at most 2 rho, that of Gaussian noise, and some pair reaches it.

    Its mean is at least -rho on the first data set and at most rho on the second.
    """
    sampler = DELTA_QUESTION_CASES[name].make(WITH_DELTA)
    assert isinstance(sampler, CuratorSampler)
    if name == "exchange-delta":
        sampler = replace(sampler, may_exchange=False)
    assert WITH_DELTA.rho is not None
    rho, found = float(WITH_DELTA.rho), []
    for pair in revealing_pairs(name).values():
        runs = 5_000 if sampler.batched else 500
        for side, sign in ((0, -1), (1, 1)):
            drawn = sampler.draw(pair, side, runs, np.random.default_rng(3), lambda run: None)
            ratios = np.concatenate(
                [np.atleast_1d(run["log-likelihood ratio"]) for run in (drawn if isinstance(drawn, list) else [drawn])]
            )
            assert len(ratios) == runs
            assert ratios.var() <= 2 * rho * (1 + 6 * (2 / runs) ** 0.5)
            assert sign * ratios.mean() <= rho + 6 * (2 * rho / runs) ** 0.5
            found.append(ratios.var() / (2 * rho))
    assert max(found) >= 0.9


def test_a_batch_of_runs_is_the_same_as_single_runs() -> None:
    batched = QUESTION_CASES["crossings"].make(ONE)
    assert isinstance(batched, CuratorSampler)
    pair = ADVERSARIAL_PAIRS["few trips + to and fro"]
    batch, runs = (
        sampler.draw(pair, 1, 1, np.random.default_rng(5), lambda run: None)
        for sampler in (batched, replace(batched, batched=False))
    )
    assert isinstance(batch, dict)
    assert batch.keys() == runs[0].keys()
    for name, values in batch.items():
        np.testing.assert_array_equal(values[0], runs[0][name])


def test_the_chances_of_a_selection() -> None:
    """Against the closed form for two scores, and against 100,000 draws for more."""
    np.testing.assert_allclose(noisy_max_chances(np.array([3, 0]), Fraction(2))[1], np.exp(-1.5) / 2)
    scores, scale, noise = np.array([5, 4, 4, -2, 0]), Fraction(3), SeededNoise(1)
    chances = noisy_max_chances(scores, scale)
    drawn = np.bincount([noise.noisy_max(scores, scale) for _ in range(100_000)], minlength=5) / 100_000
    np.testing.assert_allclose(chances.sum(), 1)
    np.testing.assert_allclose(drawn, chances, atol=0.006)


def test_the_chances_of_a_selection_with_gumbel_noise() -> None:
    scores, scale = np.array([5, 4, 4, -2, 0]), Fraction(3)
    chances = gumbel_max_chances(scores, scale)
    np.testing.assert_allclose(chances / chances[0], np.exp((scores - 5) / 3))
    noise = SeededNoise(1)
    singly = np.array([noise.gumbel_max(scores, scale) for _ in range(20_000)])
    at_once = RepeatedNoise(2).gumbel_max_of_runs(scores, scale, 100_000)
    for drawn, tolerance in ((singly, 0.015), (at_once, 0.006)):
        np.testing.assert_allclose(np.bincount(drawn, minlength=5) / len(drawn), chances, atol=tolerance)


def test_selections_that_are_broken_on_purpose() -> None:
    scores, scale = np.array([5, 4, 4, -2, 0]), Fraction(3)
    for noise, chances in (
        (HalvedNoise(1), gumbel_max_chances(scores, scale / 2)),
        (ExponentialNoise(1), noisy_max_chances(scores, scale)),
    ):
        at_once = noise.gumbel_max_of_runs(scores, scale, 100_000)
        singly = np.array([noise.gumbel_max(scores, scale) for _ in range(20_000)])
        for drawn, tolerance in ((singly, 0.015), (at_once, 0.006)):
            np.testing.assert_allclose(np.bincount(drawn, minlength=5) / len(drawn), chances, atol=tolerance)


def test_noise_that_is_too_small_on_purpose() -> None:
    zeros, scale = np.zeros(20_000, np.int64), Fraction(100)
    assert np.abs(HalvedNoise(2).laplace(zeros, scale)).mean() == pytest.approx(50, rel=0.05)
    assert HalvedNoise(2).gaussian(zeros, scale).std() == pytest.approx(50, rel=0.05)
    assert not NoNoiseOnVectors(2).gaussian(zeros, scale).any()
    assert NoNoiseOnVectors(2).gaussian(zeros[:1], scale).any()
    assert not NoNoiseOnVectors(2).laplace(zeros, scale).any()
    assert NoNoiseOnVectors(2).laplace(zeros[:1], scale).any()
