"""The audit is honest and has power: it bounds what it should, and seldom accuses what is sound."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from dqam.audit.estimate import audit
from dqam.audit.pairs import ADVERSARIAL_PAIRS, Pair
from dqam.errors import InputError
from dqam.geometry.regions import Partition
from dqam.geometry.trips import Trips
from dqam.privacy.noise import OpenDPNoise, SeededNoise
from dqam.values.guarantee import Promise

PAIR = {"pair": ADVERSARIAL_PAIRS["no trips + one cell"]}


@dataclass(frozen=True)
class DrawnAtOnce:
    """A sampler that draws all runs in one call."""

    outcomes: Callable[[Trips, int, np.random.Generator], np.ndarray]

    def draw(
        self, pair: Pair, side: int, runs: int, rng: np.random.Generator, step: Callable[[int], None]
    ) -> dict[str, np.ndarray]:
        return {"outcome": self.outcomes(pair[side], runs, rng)}


def test_the_noise_of_releases_is_measured_too() -> None:
    sampler = DrawnAtOnce(lambda trips, runs, rng: OpenDPNoise().laplace(np.full(runs, len(trips)), Fraction(1)))
    # the noise has no seed: within 6 standard deviations, and far from the 1.9 of half the noise
    assert 0.85 <= audit(sampler, PAIR, 40_000).epsilon <= 1.1


def test_structure_is_an_event() -> None:
    """A partition that splits only where the extra trip is, half of the time."""

    def mechanism(trips: Trips, rng: np.random.Generator) -> Partition:
        if len(trips) and rng.random() < 0.5:
            return Partition(8, 8, np.array([[0, 0, 4, 8], [4, 0, 8, 8]]))
        return Partition.whole(8, 8)

    assert audit(mechanism, PAIR, 2_000).epsilon > 3


def test_equal_distributions_show_nothing() -> None:
    """The bound is honest: with 200 audits of a mechanism that ignores its data, few find anything at 95 %."""
    sampler = DrawnAtOnce(lambda trips, runs, rng: rng.normal(size=runs))
    found = sum(audit(sampler, PAIR, 200, seed=seed).epsilon > 0 for seed in range(200))
    assert found <= 20


@pytest.mark.parametrize(
    "leak",
    [
        lambda trips: float("nan") if len(trips) else 0.0,
        lambda trips: np.array([1.0, np.nan]) if len(trips) else np.array([1.0, 0.0]),
        lambda trips: np.zeros(2 + len(trips)),
        lambda trips: np.array([2**60 + len(trips)]),
        lambda trips: 1 // len(trips),
    ],
    ids=["nan", "nan in an array", "length", "last bits", "exception"],
)
def test_leaks_that_are_no_numbers(leak: Callable[[Trips], object]) -> None:
    assert audit(lambda trips, rng: leak(trips), PAIR, 400).epsilon > 3


def test_a_tight_mechanism_is_seldom_accused() -> None:
    """Randomised response at eps = 1: at 95 % at most about one audit in twenty may say more, over several pairs."""
    chance = np.e / (1 + np.e)
    pairs = {name: ADVERSARIAL_PAIRS[name] for name in list(ADVERSARIAL_PAIRS)[:3]}

    sampler = DrawnAtOnce(lambda trips, runs, rng: (len(trips) % 2 == 1) == (rng.random(runs) < chance))
    accused = sum(audit(sampler, pairs, 300, seed=seed).epsilon > 1 for seed in range(100))
    assert accused <= 12


# Claims with a delta

NUMBERS = np.arange(-4000, 4001)


def gaussian(scale: float) -> np.ndarray:
    weights = np.exp(-(NUMBERS**2) / (2 * scale**2))
    return weights / weights.sum()


def laplace(scale: float) -> np.ndarray:
    weights = np.exp(-np.abs(NUMBERS) / scale)
    return weights / weights.sum()


def exact_epsilon(one: np.ndarray, other: np.ndarray, delta: float) -> float:
    """The smallest epsilon for which the hockey-stick divergence, either way, is at most `delta`."""
    low, high = 0.0, 50.0
    for _ in range(60):
        middle = (low + high) / 2
        apart = max(np.maximum(p - np.exp(middle) * q, 0).sum() for p, q in ((one, other), (other, one)))
        low, high = (middle, high) if apart > delta else (low, middle)
    return high


def test_how_much_of_a_claim_one_gaussian_answer_uses() -> None:
    """The conversion to rho is not tight, so that no audit can measure all of a claim; the docstring says how much."""
    for epsilon, delta, share in (
        (1, "0.01", 0.818),
        (1, "0.001", 0.868),
        (1, "0.00000001", 0.943),
        (2, "0.001", 0.861),
    ):
        claim = Promise.of(epsilon, delta)
        assert claim.rho is not None
        noise = gaussian(float(2 * claim.rho) ** -0.5)
        exact = exact_epsilon(noise, np.roll(noise, 1), float(claim.delta))
        assert exact / epsilon == pytest.approx(share, abs=0.002)


@pytest.mark.parametrize("delta", ["0.01", "0.001", "0.0001"])
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_the_bound_is_close_to_the_exact_epsilon(kind: str, delta: str) -> None:
    """It never exceeds it, at a confidence of 1 - 10^-6, and is not far below."""
    scale = Fraction(3, 2)
    noise = (gaussian if kind == "gaussian" else laplace)(float(scale))
    exact = exact_epsilon(noise, np.roll(noise, 1), float(Fraction(delta)))

    def outcomes(trips: Trips, runs: int, rng: np.random.Generator) -> np.ndarray:
        return getattr(SeededNoise(rng), kind)(np.full(runs, len(trips)), scale)

    found = audit(DrawnAtOnce(outcomes), PAIR, 400_000, 1 - 1e-6, delta=delta)
    assert found.delta == Fraction(delta)
    assert (0.6 if delta == "0.0001" else 0.75) * exact <= found.epsilon <= exact


def test_a_rare_event_without_a_bound_is_hidden_by_delta() -> None:
    """An event that happens on one side only, with probability p: no epsilon covers it unless delta is at least p."""

    def outcomes(trips: Trips, runs: int, rng: np.random.Generator) -> np.ndarray:
        return (rng.random(runs) < 0.005) & (len(trips) > 0)

    sampler = DrawnAtOnce(outcomes)
    assert audit(sampler, PAIR, 100_000, delta=1e-3).epsilon > 3
    assert audit(sampler, PAIR, 100_000, delta=1e-2).epsilon == 0
    assert audit(sampler, PAIR, 100_000).epsilon > audit(sampler, PAIR, 100_000, delta=1e-3).epsilon


def test_a_tight_mechanism_with_a_delta_is_seldom_accused() -> None:
    """Randomised response at eps = 1 that tells the truth with probability delta: at 95 % few audits say more."""
    chance, delta = np.e / (1 + np.e), 0.01

    def outcomes(trips: Trips, runs: int, rng: np.random.Generator) -> np.ndarray:
        truth = len(trips) % 2
        told = np.where(rng.random(runs) < chance, truth, 1 - truth)
        return np.where(rng.random(runs) < delta, 2 + truth, told)

    epsilons = [audit(DrawnAtOnce(outcomes), PAIR, 1_000, seed=seed, delta=delta).epsilon for seed in range(100)]
    assert sum(epsilon > 1 for epsilon in epsilons) <= 12
    assert np.median(epsilons) > 0.6


def test_bad_use() -> None:
    with pytest.raises(InputError, match="at least 100 runs"):
        audit(lambda trips, rng: 0, runs=5)
    with pytest.raises(InputError, match="Confidence"):
        audit(lambda trips, rng: 0, confidence=1.0)
    with pytest.raises(InputError, match="Delta must be"):
        audit(lambda trips, rng: 0, delta=0.5)
    with pytest.raises(InputError, match="cannot be a set"):
        audit(lambda trips, rng: {1}, PAIR, 100)
