"""Noise tests with power: the right scale passes, scales off by 5 % fail."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dqam.errors import InputError
from dqam.privacy.noise import WIDEST, Noise, OpenDPNoise, SeededNoise, within_64_bits
from dqam.values.conversion import pure_epsilon, root_above

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


def discrete_gaussian_fits(drawn: np.ndarray, scale: float) -> float:
    """The p-value of a chi-square test against the exact probabilities; values that are rare are taken together."""
    far = int(40 * scale) + 2
    numbers = np.arange(-far, far + 1)
    chances = np.exp(-(numbers**2) / (2 * scale**2))
    chances /= chances.sum()
    edge = int(np.max(np.abs(numbers[chances * len(drawn) >= 5])))
    wanted = np.bincount(np.clip(numbers, -edge - 1, edge + 1) + edge + 1, chances) * len(drawn)
    seen = np.bincount(np.clip(drawn, -edge - 1, edge + 1) + edge + 1, minlength=2 * edge + 3)
    enough = wanted >= 1  # the tails may be next to impossible: then nothing may be there
    assert seen[~enough].sum() <= 3
    return float(stats.chisquare(seen[enough], wanted[enough] * seen[enough].sum() / wanted[enough].sum()).pvalue)


GAUSSIAN_SCALES = [Fraction(3, 10), Fraction(1), Fraction(7, 2), Fraction(5)]
BOTH = pytest.mark.parametrize("noise", [OpenDPNoise(), SeededNoise(1)], ids=["opendp", "seeded"])


@BOTH
@pytest.mark.parametrize("scale", GAUSSIAN_SCALES, ids=str)
def test_gaussian_noise_is_the_discrete_gaussian_of_its_scale(noise: Noise, scale: Fraction) -> None:
    drawn = noise.gaussian(np.full(SAMPLES // 2, -70), scale) + 70
    assert discrete_gaussian_fits(drawn, float(scale)) > 1e-5
    for off in (0.95, 1.05):
        assert discrete_gaussian_fits(drawn, float(scale) * off) < 1e-7
    rounded = np.rint(np.random.default_rng(0).normal(0, float(scale), SAMPLES // 2)).astype(np.int64)
    assert scale > 1 or discrete_gaussian_fits(rounded, float(scale)) < 1e-9  # rounded normal noise is something else


@BOTH
@pytest.mark.parametrize("scale", [Fraction(2**33, 3), Fraction(2**40), Fraction(WIDEST)], ids=["33", "40", "widest"])
def test_gaussian_noise_of_a_large_scale_is_normal(noise: Noise, scale: Fraction) -> None:
    many = SAMPLES // 4
    drawn = noise.gaussian(np.zeros(many, np.int64), scale) / float(scale)
    assert stats.kstest(drawn, stats.norm.cdf).pvalue > 1e-5
    for moment, wanted, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs((drawn**moment).mean() - wanted) < 5 * np.sqrt(variance / many)
    assert abs((drawn**2).mean() * 1.1**2 - 1) > 5 * np.sqrt(2 / many)  # a scale off by 10 % would be noticed
    assert len(np.unique((drawn * float(scale)).astype(np.int64) % 16)) == 16 or scale == WIDEST  # to the last digit


@BOTH
def test_gaussian_noise_of_a_vector_is_independent(noise: Noise) -> None:
    drawn = noise.gaussian(np.zeros(SAMPLES // 2, np.int64), Fraction(5)).reshape(-1, 2)
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 5 / np.sqrt(len(drawn))
    assert abs(np.corrcoef((drawn**2).T)[0, 1]) < 5 / np.sqrt(len(drawn))


@BOTH
def test_gaussian_noise_of_next_to_no_scale_is_none(noise: Noise) -> None:
    values = np.arange(-500, 500)
    np.testing.assert_array_equal(noise.gaussian(values, Fraction(1, 20)), values)


@BOTH
def test_values_at_the_ends_of_64_bits_do_not_wrap_around(noise: Noise) -> None:
    for value in (2**63 - 1, -(2**63)):
        drawn = noise.gaussian(np.full(200, value), Fraction(WIDEST))
        assert (np.sign(drawn) == np.sign(value)).all()
        assert (np.abs(drawn / value - 0.5) < 0.1).all()  # clamped to half of it


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


@BOTH
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(4)], ids=str)
def test_the_exponential_mechanism_chooses_in_proportion_to_the_exponential_of_scores(
    noise: Noise, scale: Fraction
) -> None:
    scores, runs = np.array([0, 2, 3, 3, -1]), 10_000
    chosen = np.bincount([noise.gumbel_max(scores, scale) for _ in range(runs)], minlength=len(scores))

    def fits(of: Fraction) -> float:
        wanted = np.exp((scores - 3) / float(of))
        wanted *= runs / wanted.sum()
        often = wanted > 4
        return float(stats.chisquare(chosen[often], wanted[often] * chosen[often].sum() / wanted[often].sum()).pvalue)

    assert fits(scale) > 1e-5
    assert fits(scale * 2) < 1e-9
    assert fits(scale / 2) < 1e-9


def test_the_same_seed_gives_the_same_noise_and_says_it_is_not_private() -> None:
    values = np.arange(100)
    for draw in (SeededNoise.laplace, SeededNoise.gaussian):
        a, b, c = (draw(SeededNoise(seed), values, SCALE) for seed in (5, 5, 6))
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
            noise.gaussian(values, SCALE)
        for choose in (noise.noisy_max, noise.gumbel_max):
            with pytest.raises(InputError, match="vector of int64"):
                choose(values, SCALE)
    for scale in (Fraction(0), Fraction(-1), Fraction(2**60), Fraction(10**400)):
        for draw in (noise.laplace, noise.gaussian, noise.noisy_max, noise.gumbel_max):
            with pytest.raises(InputError, match="64 bits"):
                draw(np.array([1]), scale)


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


def test_opendp_gives_the_rho_that_is_charged() -> None:
    """OpenDP's own accounting of the scales that the curator uses for a budget of rho."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    for sensitivity, rho in ((1, Fraction(1, 100)), (2**32, Fraction(1, 3)), (7 * 2**16, Fraction(17, 10))):
        wide = np.array([sensitivity])
        space = dp.vector_domain(dp.atom_domain(T="i64"))
        _, scale = within_64_bits(wide, root_above(sensitivity**2 / (2 * rho)))
        gaussian = dp.m.make_gaussian(space, dp.l2_distance(T=float), scale=scale)
        assert float(rho) * (1 - 1e-12) <= gaussian.map(float(sensitivity)) <= float(rho) * (1 + 1e-12)
        metric = dp.linf_distance(T="i64", monotonic=False)
        _, scale = within_64_bits(wide, sensitivity / pure_epsilon(rho))
        choose = dp.m.make_noisy_max(space, metric, dp.zero_concentrated_divergence(), scale=scale)
        assert float(rho) * (1 - 1e-12) <= choose.map(sensitivity) <= float(rho) * (1 + 1e-12)
        laplace = dp.m.make_laplace(space, dp.l1_distance(T="i64"), scale=scale)
        assert laplace.map(sensitivity) ** 2 / 2 <= float(rho) * (1 + 1e-12)
