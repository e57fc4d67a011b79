"""Conversions between (epsilon, delta) and rho: against other formulas, other code, and the exact privacy of noise."""

from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from scipy.stats import norm

from dqam.errors import InputError
from dqam.values.conversion import DIGITS, SPARE, _rho_and_order, epsilon_of, pure_epsilon, rho_of, root_above

EPSILONS = [Fraction(text) for text in ("0.000001", "0.001", "0.05", "0.3", "1", "3", "10", "100", "1000")]
DELTAS = [Fraction(1, 10**digits) for digits in (2, 4, 6, 8, 12, 20, 30)]
PAIRS = list(product(EPSILONS, DELTAS))
SPARED = float(SPARE)


def price(alpha: float, delta: float) -> float:
    """What proposition 12 of Canonne, Kamath and Steinke adds to alpha * rho."""
    return (np.log(1 / delta) - np.log(alpha - 1) + alpha * np.log1p(-1 / alpha)) / (alpha - 1)


def best(value, sign: float) -> float:  # type: ignore[no-untyped-def]
    """The least of sign * value over alpha > 1: the best of a fine grid, refined; times sign."""
    logs = np.linspace(-14, 32, 20_000)
    found = sign * value(1 + np.exp(logs))
    at = int(np.argmin(found))
    near = minimize_scalar(
        lambda log: sign * value(1 + np.exp(log)), bounds=(logs[at] - 0.01, logs[at] + 0.01), method="bounded",
        options={"xatol": 1e-12},
    )  # fmt: skip
    return sign * float(min(near.fun, found[at]))


@pytest.mark.parametrize(("epsilon", "delta"), PAIRS, ids=lambda value: f"{float(value):g}")
def test_rho_is_the_best_that_any_order_gives(epsilon: Fraction, delta: Fraction) -> None:
    wanted = best(lambda alpha: (float(epsilon) - price(alpha, float(delta))) / alpha, -1.0)
    rho = float(rho_of(epsilon, delta))
    assert rho > 0
    assert wanted * (1 - 1e-6) <= rho <= wanted * (1 + 1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), PAIRS, ids=lambda value: f"{float(value):g}")
def test_epsilon_is_the_best_that_any_order_gives(epsilon: Fraction, delta: Fraction) -> None:
    rho = rho_of(epsilon, delta)
    for times in (Fraction(1, 100), Fraction(1), Fraction(10)):
        wanted = max(0.0, best(lambda alpha, of=float(rho * times): alpha * of + price(alpha, float(delta)), 1.0))
        found = float(epsilon_of(rho * times, delta))
        assert wanted * (1 - 1e-9) <= found <= wanted * (1 + 1e-6) + SPARED
    assert epsilon * (1 - Fraction(1, 10**6)) <= epsilon_of(rho, delta) <= epsilon


@pytest.mark.parametrize("delta", DELTAS[:6], ids=lambda value: f"{float(value):g}")
def test_opendp_converts_alike(delta: Fraction) -> None:
    """Both ways: its epsilon is ours, and at our rho its delta is no more than what was asked for."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
    for epsilon in EPSILONS[2:8]:
        rho = rho_of(epsilon, delta)
        noise = dp.m.make_gaussian(*space, scale=float(root_above(1 / (2 * rho))))
        curve = dp.c.make_zCDP_to_approxDP(noise).map(1.0)
        assert curve.epsilon(float(delta)) == pytest.approx(float(epsilon_of(rho, delta)), rel=1e-6)
        assert curve.epsilon(float(delta)) == pytest.approx(float(epsilon), rel=1e-6)
        assert float(delta) * (1 - 1e-5) <= curve.delta(float(epsilon)) <= float(delta) * (1 + 1e-6)


def log_delta_of_normal_noise(epsilon: float, rho: float) -> float:
    """The exact delta of normal noise of standard deviation 1 / sqrt(2 rho) for a shift by 1 (Balle and Wang, 2018)."""
    mu = np.sqrt(2 * rho)
    more, less = norm.logcdf(mu / 2 - epsilon / mu), epsilon + norm.logcdf(-mu / 2 - epsilon / mu)
    return float(more + np.log1p(-np.exp(less - more)))


def log_delta_of_discrete_noise(epsilon: float, rho: float, shift: int) -> float:
    """The exact delta of discrete Gaussian noise of scale shift / sqrt(2 rho), for a shift, by adding all up."""
    scale = shift / np.sqrt(2 * rho)
    reach = int(np.ceil(epsilon * scale**2 / shift + 45 * scale)) + shift
    numbers = np.arange(-reach, reach + 1, dtype=np.float64)
    plain, shifted = -(numbers**2) / (2 * scale**2), -((numbers - shift) ** 2) / (2 * scale**2)
    ratio = epsilon + shifted - plain
    worse = ratio < 0
    return float(logsumexp(plain[worse] + np.log(-np.expm1(ratio[worse]))) - logsumexp(plain))


@pytest.mark.parametrize(("epsilon", "delta"), PAIRS, ids=lambda value: f"{float(value):g}")
def test_gaussian_noise_is_as_private_as_promised(epsilon: Fraction, delta: Fraction) -> None:
    """The hockey-stick divergence of the noise itself is at most delta, and not much less."""
    rho, wanted = float(rho_of(epsilon, delta)), np.log(float(delta))
    normal = log_delta_of_normal_noise(float(epsilon), rho)
    assert normal <= wanted
    if epsilon >= Fraction(1, 20):
        assert normal >= wanted - 5  # a loss of at most exp(5), or little of epsilon
        assert log_delta_of_normal_noise(float(epsilon), 2 * rho) > wanted  # more would be too much
    if Fraction(1, 20) <= epsilon <= 100:
        for shift in (1, 2, 7):
            assert log_delta_of_discrete_noise(float(epsilon), rho, shift) <= wanted + 1e-9


def test_both_sums_agree_where_noise_is_wide() -> None:
    """So that neither is right by mistake."""
    for epsilon, rho in ((0.5, 0.004), (1.0, 0.0172), (3.0, 0.1)):
        exact = log_delta_of_normal_noise(epsilon, rho)
        assert log_delta_of_discrete_noise(epsilon, rho, 200) == pytest.approx(exact, abs=1e-2)
        scale, shift = 1 / np.sqrt(2 * rho), 1.0
        x = np.linspace(-60 * scale, 60 * scale, 2_000_001)
        gap = norm.pdf(x, shift, scale) - np.exp(epsilon) * norm.pdf(x, 0, scale)
        assert np.log(np.maximum(gap, 0).sum() * (x[1] - x[0])) == pytest.approx(exact, abs=1e-4)


def test_what_is_spared_of_delta_is_taken_off() -> None:
    """The numbers are those of delta (1 - 10^-9), which leaves room for noise beyond 64 bits."""
    delta = Fraction(1, 10**8)
    less = delta * (1 - Fraction(str(SPARE)))
    for epsilon in (Fraction(1, 10), Fraction(1), Fraction(10)):
        rho = rho_of(epsilon, delta)
        assert rho < rho_of(epsilon, delta * (1 + 2 * Fraction(str(SPARE))))
        assert rho_of(epsilon, less) < rho
        slope = (rho_of(epsilon, 2 * delta) - rho) / rho  # for twice the delta
        lost = (rho - rho_of(epsilon, less)) / rho
        assert 0 < float(lost) < 2 * SPARED * float(slope)


def test_rounding_is_to_the_safe_side() -> None:
    """A number of few digits, next to that of 35 digits: rho is no larger, epsilon no smaller."""
    for epsilon, delta in PAIRS:
        rho = rho_of(epsilon, delta)
        assert epsilon_of(rho, delta) <= epsilon
        assert epsilon_of(rho * (1 + Fraction(2, 10 ** (DIGITS - 1))), delta) > epsilon * (1 - Fraction(1, 10**12))
        for number in (rho, epsilon_of(rho, delta)):
            digits = f"{number.numerator * 10**60 // number.denominator}".rstrip("0")
            assert len(digits) <= DIGITS


@given(st.fractions(Fraction(1, 10**5), 900), st.sampled_from(DELTAS), st.fractions(Fraction(1, 1000), 1))
@settings(max_examples=25, deadline=None)
def test_there_and_back_is_nearly_where_it_began(epsilon: Fraction, delta: Fraction, part: Fraction) -> None:
    rho = rho_of(epsilon, delta)
    assert epsilon_of(rho, delta) <= epsilon * (1 + Fraction(10, 10**DIGITS))  # rounded up to so many digits
    assert epsilon_of(rho * part, delta) <= epsilon_of(rho, delta)
    back = epsilon_of(rho * part, delta)
    if back >= Fraction(1, 10**6):
        assert rho_of(back, delta) >= rho * part * (1 - Fraction(1, 10**9))


def test_more_of_one_is_more_of_the_other() -> None:
    for delta in DELTAS:
        rhos = [rho_of(epsilon, delta) for epsilon in EPSILONS]
        assert all(less < more for less, more in pairwise(rhos))
        epsilons = [epsilon_of(Fraction(1, 10**digits), delta) for digits in range(9, -1, -1)]
        assert all(less < more for less, more in pairwise(epsilons) if more)
    for epsilon in EPSILONS:
        rhos = [rho_of(epsilon, delta) for delta in DELTAS]
        assert all(more > less for more, less in pairwise(rhos))
        assert all(rho_of(epsilon, delta) < max(epsilon, epsilon**2 / 2) for delta in DELTAS[2:])


def test_the_same_numbers_each_time_and_on_every_machine() -> None:
    known = {
        ("1", 8): "0.0172053180382643",
        ("1", 6): None,
        ("0.1", 8): None,
        ("10", 12): None,
    }
    for (epsilon, digits), wanted in known.items():
        given = Fraction(epsilon), Fraction(1, 10**digits)
        first = rho_of(*given)
        back = epsilon_of(first, given[1])
        _rho_and_order.cache_clear()
        epsilon_of.cache_clear()
        assert rho_of(*given) == first
        assert epsilon_of(first, given[1]) == back
        assert wanted is None or first == Fraction(wanted)


def test_nothing_buys_nothing_and_some_numbers_are_refused() -> None:
    assert rho_of(Fraction(0), Fraction(1, 10**8)) == 0
    assert epsilon_of(Fraction(0), Fraction(1, 10**8)) == 0
    for epsilon in (Fraction(1, 10**7), Fraction(1001), Fraction(10**400)):
        with pytest.raises((InputError, OverflowError), match="epsilon must be 1e-06 to 1000|too large"):
            rho_of(epsilon, Fraction(1, 10**8))


@given(st.fractions(Fraction(1, 10**40), 10**40))
@settings(max_examples=300, deadline=None)
def test_roots_and_prices_of_pure_answers_hold_exactly(square: Fraction) -> None:
    root = root_above(square)
    assert square <= root**2 < square * (1 + Fraction(2, 10**15)) ** 2
    epsilon = pure_epsilon(square)
    assert epsilon**2 / 2 <= square < (epsilon * (1 + Fraction(2, 10**15))) ** 2 / 2


def test_roots_of_squares_are_exact() -> None:
    for numerator, denominator in product((1, 3, 2**40, 2**31 - 1), (1, 2, 2**20)):
        assert root_above(Fraction(numerator**2, denominator**2)) == Fraction(numerator, denominator)
    assert pure_epsilon(Fraction(1, 2)) == 1
