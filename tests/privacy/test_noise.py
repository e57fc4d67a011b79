"""Noise tests with power: the right scale passes, scales off by 5 % fail."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dqam.errors import InputError
from dqam.privacy.noise import Noise, OpenDPNoise, SeededNoise, within_64_bits

SAMPLES = 100_000
SCALE = Fraction(7, 2)


def discrete_laplace_fits(drawn: np.ndarray, scale: float) -> float:
    """The p-value of a chi-square test."""
    edge = int(scale * 6)
    ratio = np.exp(-1 / scale)
    inner = (1 - ratio) / (1 + ratio) * ratio ** np.abs(np.arange(-edge, edge + 1))
    tail = ratio ** (edge + 1) / (1 + ratio)
    seen = np.bincount(np.clip(drawn, -edge - 1, edge + 1) + edge + 1, minlength=2 * edge + 3)
    return float(stats.chisquare(seen, len(drawn) * np.concatenate([[tail], inner, [tail]])).pvalue)


@pytest.fixture(scope="module", params=["opendp", "seeded"])
def drawn(request: pytest.FixtureRequest) -> np.ndarray:
    noise: Noise = OpenDPNoise() if request.param == "opendp" else SeededNoise(1)
    return noise.laplace(np.full(SAMPLES, 1000), SCALE) - 1000


def test_the_right_scale_passes(drawn: np.ndarray) -> None:
    assert discrete_laplace_fits(drawn, float(SCALE)) > 1e-5


@pytest.mark.parametrize("off", [0.95, 1.05])
def test_a_scale_off_by_5_percent_fails(drawn: np.ndarray, off: float) -> None:
    assert discrete_laplace_fits(drawn, float(SCALE) * off) < 1e-9


def test_large_scales_are_continuous_laplace() -> None:
    for noise in (OpenDPNoise(), SeededNoise(2)):
        drawn = noise.laplace(np.zeros(SAMPLES, np.int64), Fraction(2**33, 3))
        assert stats.kstest(drawn, stats.laplace(scale=2**33 / 3).cdf).pvalue > 1e-5
        assert stats.kstest(drawn, stats.laplace(scale=2**33 / 3 * 1.05).cdf).pvalue < 1e-3


def choices(noise: Noise, scores: np.ndarray, scale: Fraction, runs: int) -> np.ndarray:
    return np.bincount([noise.noisy_max(scores, scale) for _ in range(runs)], minlength=len(scores))


def test_selection_agrees_between_the_two_and_with_permute_and_flip() -> None:
    scores, scale, runs = np.array([0, 2, 3, 1]), Fraction(2), 20_000
    # permute and flip: try the options in random order, take one with chance exp((score - best) / scale)
    rng = np.random.default_rng(0)
    accept = np.exp((scores - 3) / 2)
    wanted = np.zeros(4)
    for order in map(rng.permutation, [4] * 40_000):
        flips = rng.random(4) < accept[order]
        wanted[order[np.argmax(flips)]] += 1
    seen = [choices(noise, scores, scale, runs) for noise in (OpenDPNoise(), SeededNoise(3))]
    assert stats.chi2_contingency(seen).pvalue > 1e-5
    for counts in seen:
        assert stats.chi2_contingency([counts, wanted]).pvalue > 1e-5
        off = choices(SeededNoise(4), scores, scale * Fraction(5, 4), runs)
        assert stats.chi2_contingency([counts, off]).pvalue < 1e-5


def test_the_same_seed_gives_the_same_noise_and_says_it_is_not_private() -> None:
    values = np.arange(100)
    a, b, c = (SeededNoise(seed).laplace(values, SCALE) for seed in (5, 5, 6))
    assert (a == b).all()
    assert (a != c).any()
    assert not SeededNoise(5).private
    assert OpenDPNoise().private


@pytest.mark.parametrize("noise", [OpenDPNoise(), SeededNoise(0)])
def test_bad_input_never_reaches_a_sampler(noise: Noise) -> None:
    for values in (np.zeros(3), np.zeros((2, 2), np.int64), np.zeros(0, np.int64), np.zeros(3, np.int32)):
        with pytest.raises(InputError, match="vector of int64"):
            noise.laplace(values, SCALE)
        with pytest.raises(InputError, match="vector of int64"):
            noise.noisy_max(values, SCALE)
    for scale in (Fraction(0), Fraction(-1), Fraction(2**60), Fraction(10**400)):
        with pytest.raises(InputError, match="64 bits"):
            noise.laplace(np.array([1]), scale)


def test_large_values_are_clamped_and_not_refused() -> None:
    values, scale = within_64_bits(np.array([2**63 - 1, -(2**63), 7]), Fraction(1, 3))
    assert values.tolist() == [2**62, -(2**62), 7]
    assert Fraction(scale) >= Fraction(1, 3)
    for exact in (Fraction(1, 3), Fraction(10**15 + 1, 7), Fraction(22, 7)):
        assert exact <= Fraction(within_64_bits(values, exact)[1]) <= exact * (1 + Fraction(1, 10**15))


def test_opendp_gives_the_epsilon_that_is_charged() -> None:
    """OpenDP's own accounting of the scale that the curator would use."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    for sensitivity, epsilon in ((1, Fraction(1, 10)), (2**32, Fraction(1, 3)), (7 * 2**16, Fraction(17, 10))):
        scale = float(sensitivity / epsilon)
        laplace = dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), scale=scale)
        assert laplace.map(sensitivity) <= float(epsilon) * (1 + 1e-12)
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64", monotonic=False)
        choose = dp.m.make_noisy_max(*space, dp.max_divergence(), scale=2 * scale)
        assert choose.map(sensitivity) <= float(epsilon) * (1 + 1e-12)
