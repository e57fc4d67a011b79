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
from dqam.privacy.noise import OpenDPNoise

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


def test_bad_use() -> None:
    with pytest.raises(InputError, match="at least 100 runs"):
        audit(lambda trips, rng: 0, runs=5)
    with pytest.raises(InputError, match="Confidence"):
        audit(lambda trips, rng: 0, confidence=1.0)
    with pytest.raises(InputError, match="cannot be a set"):
        audit(lambda trips, rng: {1}, PAIR, 100)
