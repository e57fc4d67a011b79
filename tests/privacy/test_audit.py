"""The audit has power, passes what is sound and catches what is broken. `make audit` does the same with more runs."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from dqam.errors import InputError
from dqam.evaluate.audited import AUDITED, WHOLE_MECHANISMS
from dqam.mechanisms import MECHANISMS
from dqam.partition.regions import Partition
from dqam.privacy.audit import audit, neighbours
from dqam.privacy.noise import OpenDPNoise
from dqam.trips import Trips

ONE = Fraction(1)
PAIRS = neighbours()


def bound(name: str, runs: int, *pairs: str, epsilon: Fraction = ONE) -> float:
    audited = AUDITED[name]
    chosen = audited.pairs or {pair: PAIRS[pair] for pair in pairs}
    return audit(audited.make(epsilon), chosen, runs).epsilon


def test_plain_laplace_is_measured_at_most_of_its_epsilon() -> None:
    assert 0.8 <= bound("count", 10_000, "few trips + zig-zag") <= 1
    assert 0.4 <= bound("count", 20_000, "few trips + zig-zag", epsilon=Fraction(1, 2)) <= 0.5


def test_the_noise_of_releases_is_measured_too() -> None:
    drawn = iter(OpenDPNoise().laplace(np.zeros(80_000, np.int64), Fraction(1)).tolist())

    def mechanism(trips: Trips, rng: np.random.Generator) -> int:
        return len(trips) + int(next(drawn))

    # the noise has no seed: within 6 standard deviations, and far from the 1.9 of half the noise
    assert 0.85 <= audit(mechanism, {"pair": PAIRS["no trips + one cell"]}, 40_000).epsilon <= 1.1


@pytest.mark.parametrize("name", [name for name, audited in AUDITED.items() if audited.sound])
def test_sound_mechanisms_stay_below_their_epsilon(name: str) -> None:
    pairs = ("no trips + one cell", "a crowd in one cell + one cell", "few trips + longest walk")
    assert bound(name, 150 if name in WHOLE_MECHANISMS else 1_000, *pairs) <= 1


@pytest.mark.parametrize(
    ("fault", "pair", "runs", "at_least"),
    [
        ("fault-half-noise", "no trips + one cell", 2_000, 1.6),
        ("fault-no-cap", "few trips + longest walk", 1_000, 2),
        ("fault-no-shadow-cap", "few trips + on corners", 1_000, 2),
        ("fault-exact-n", "few trips + one cell", 1_000, 3),
        ("fault-printed-quadtree", "", 8_000, 1.5),
        ("fault-quiet-vectors", "", 300, 2),
        ("dqam-printed", "", 300, 2),
        ("fault-visits", "few trips + zig-zag", 1_000, 2),
        ("fault-singletons", "a crowd in one cell + on corners", 2_000, 2),
    ],
)
def test_planted_faults_are_caught(fault: str, pair: str, runs: int, at_least: float) -> None:
    assert bound(fault, runs, pair) >= at_least


def test_structure_is_an_event() -> None:
    """A partition that splits only where the extra trip is, half of the time."""

    def mechanism(trips: Trips, rng: np.random.Generator) -> Partition:
        if len(trips) and rng.random() < 0.5:
            return Partition(8, 8, np.array([[0, 0, 4, 8], [4, 0, 8, 8]]))
        return Partition.whole(8, 8)

    assert audit(mechanism, {"pair": PAIRS["no trips + one cell"]}, 2_000).epsilon > 3


def test_equal_distributions_show_nothing() -> None:
    """The bound is honest: with 200 audits of a mechanism that ignores its data, few find anything at 95 %."""

    def mechanism(trips: Trips, rng: np.random.Generator) -> float:
        return float(rng.normal())

    pair = {"pair": PAIRS["no trips + one cell"]}
    found = sum(audit(mechanism, pair, 200, seed=seed).epsilon > 0 for seed in range(200))
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
    assert audit(lambda trips, rng: leak(trips), {"pair": PAIRS["no trips + one cell"]}, 400).epsilon > 3


def test_a_tight_mechanism_is_seldom_accused() -> None:
    """Randomised response at eps = 1: at 95 % at most about one audit in twenty may say more, over several pairs."""
    chance = np.e / (1 + np.e)
    pairs = {name: PAIRS[name] for name in list(PAIRS)[:3]}

    def mechanism(trips: Trips, rng: np.random.Generator) -> bool:
        return bool((len(trips) % 2 == 1) == (rng.random() < chance))

    accused = sum(audit(mechanism, pairs, 300, seed=seed).epsilon > 1 for seed in range(100))
    assert accused <= 12


def test_bad_use() -> None:
    with pytest.raises(InputError, match="at least 100 runs"):
        audit(lambda trips, rng: 0, runs=5)
    with pytest.raises(InputError, match="Confidence"):
        audit(lambda trips, rng: 0, confidence=1.0)
    with pytest.raises(InputError, match="can not be a set"):
        audit(lambda trips, rng: {1}, {"pair": PAIRS["no trips + one cell"]}, 100)


def test_neighbours_differ_in_one_trip() -> None:
    for one, other in PAIRS.values():
        assert len(other) == len(one) + 1
        np.testing.assert_array_equal(other.x[: one.points], one.x)


def test_every_mechanism_that_may_publish_is_audited() -> None:
    assert set(WHOLE_MECHANISMS) == {name for name, row in MECHANISMS.items() if row.publishable}
    assert all(AUDITED[name].sound for name in WHOLE_MECHANISMS)
