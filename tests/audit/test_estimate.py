"""The audit has power, passes what is sound and catches what is broken. `make audit` does the same with more runs."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dqam.audit.cases import (
    AUDITED,
    HALVED,
    QUANTILES,
    QUESTIONS,
    WHOLE_MECHANISMS,
    _Asked,
    noisy_max_chances,
)
from dqam.audit.estimate import audit, neighbours
from dqam.errors import InputError
from dqam.geometry.regions import Partition
from dqam.geometry.trips import Trips
from dqam.mechanisms import MECHANISMS
from dqam.privacy.noise import OpenDPNoise, SeededNoise

ONE = Fraction(1)
PAIRS = neighbours()


TELLING = ("no trips + one cell", "no trips + longest walk", "few trips + to and fro")
TREES = {"buckets", "privtree"}  # too slow to be caught here: `make audit` does 100,000 runs of each


def bound(name: str, runs: int, *pairs: str, epsilon: Fraction = ONE) -> float:
    audited = AUDITED[name]
    known = audited.pairs or PAIRS
    return audit(audited.make(epsilon), {pair: known[pair] for pair in pairs or known}, runs).epsilon


def telling(name: str) -> tuple[str, ...]:
    """The pairs of a question that are audited here; the usual ones are too many."""
    known = AUDITED[name.removeprefix("fault-half-")].pairs
    return TELLING if known is None else tuple(known)[-1:] if known is QUANTILES else tuple(known)[:1]


def test_plain_laplace_is_measured_at_most_of_its_epsilon() -> None:
    assert 0.8 <= bound("count", 10_000, "few trips + zig-zag") <= 1
    assert 0.4 <= bound("count", 20_000, "few trips + zig-zag", epsilon=Fraction(1, 2)) <= 0.5


def test_the_noise_of_releases_is_measured_too() -> None:
    drawn = iter(OpenDPNoise().laplace(np.zeros(80_000, np.int64), Fraction(1)).tolist())

    def mechanism(trips: Trips, rng: np.random.Generator) -> int:
        return len(trips) + int(next(drawn))

    # the noise has no seed: within 6 standard deviations, and far from the 1.9 of half the noise
    assert 0.85 <= audit(mechanism, {"pair": PAIRS["no trips + one cell"]}, 40_000).epsilon <= 1.1


@pytest.mark.parametrize("name", WHOLE_MECHANISMS)
def test_sound_mechanisms_stay_below_their_epsilon(name: str) -> None:
    assert bound(name, 100, "no trips + longest walk", "few trips + zig-zag") <= 1


@pytest.mark.parametrize("name", QUESTIONS)
def test_sound_questions_stay_below_their_epsilon(name: str) -> None:
    assert bound(name, 2_000, *telling(name)) <= 1


@pytest.mark.parametrize("name", [name for name in HALVED if name.removeprefix("fault-half-") not in TREES])
def test_half_the_noise_is_caught(name: str) -> None:
    assert bound(name, 2_000, *telling(name)) > 1


@pytest.mark.parametrize("name", [name for name in QUESTIONS if name not in ("buckets", "privtree", "quadtree")])
def test_pairs_reach_what_a_question_claims(name: str) -> None:
    """The log-likelihood ratio of an answer never exceeds eps, and some pair reaches it: the audit has power."""
    asked = QUESTIONS[name].make(ONE)
    assert isinstance(asked, _Asked)
    pairs, furthest = AUDITED[name].pairs or PAIRS, 0.0
    for pair in telling(name):
        drawn = asked.draw(pairs[pair], 0, 200, np.random.default_rng(3), lambda run: None)
        found = [run["log-likelihood ratio"] for run in drawn] if isinstance(drawn, list) else list(drawn.values())[-1]
        furthest = max(furthest, float(np.abs(found).max()))
    assert 0.98 <= furthest <= 1 + 1e-12


def test_runs_at_once_are_the_same_runs() -> None:
    one_by_one = replace(QUESTIONS["crossings"].make(ONE), at_once=False)  # type: ignore[type-var]
    pair = PAIRS["few trips + to and fro"]
    drawn = [
        asked.draw(pair, 1, 1, np.random.default_rng(5), lambda run: None)  # type: ignore[union-attr]
        for asked in (QUESTIONS["crossings"].make(ONE), one_by_one)
    ]
    np.testing.assert_array_equal(drawn[0]["Flux 0"][0], drawn[1][0]["Flux 0"])
    assert drawn[0]["log-likelihood ratio"][0] == drawn[1][0]["log-likelihood ratio"]


def test_the_chances_of_a_selection() -> None:
    """Against the closed form for two, and against 100,000 draws for more; the seed is fixed."""
    np.testing.assert_allclose(noisy_max_chances(np.array([3, 0]), Fraction(2))[1], np.exp(-1.5) / 2)
    scores, scale, noise = np.array([5, 4, 4, -2, 0]), Fraction(3), SeededNoise(1)
    chances = noisy_max_chances(scores, scale)
    drawn = np.bincount([noise.noisy_max(scores, scale) for _ in range(100_000)], minlength=5) / 100_000
    np.testing.assert_allclose(chances.sum(), 1)
    np.testing.assert_allclose(drawn, chances, atol=0.006)


@pytest.mark.parametrize(
    ("fault", "pair", "runs", "at_least"),
    [
        ("fault-no-cap", "few trips + longest walk", 1_000, 2),
        ("fault-no-shadow-cap", "few trips + on corners", 1_000, 2),
        ("fault-exact-n", "few trips + one cell", 1_000, 3),
        ("fault-printed-quadtree", None, 4_000, 1.2),
        ("fault-quiet-vectors", "no trips + longest walk", 300, 2),
        ("dqam-printed", "no trips + longest walk", 300, 2),
        ("fault-visits", "few trips + zig-zag", 1_000, 2),
        ("fault-singletons", "a crowd in one cell + on corners", 2_000, 2),
    ],
)
def test_planted_faults_are_caught(fault: str, pair: str | None, runs: int, at_least: float) -> None:
    assert bound(fault, runs, *([pair] if pair else [])) >= at_least


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
    with pytest.raises(InputError, match="cannot be a set"):
        audit(lambda trips, rng: {1}, {"pair": PAIRS["no trips + one cell"]}, 100)


def test_neighbours_differ_in_one_trip() -> None:
    for one, other in PAIRS.values():
        assert len(other) == len(one) + 1
        np.testing.assert_array_equal(other.x[: one.points], one.x)


def test_every_mechanism_that_may_publish_is_audited() -> None:
    assert set(WHOLE_MECHANISMS) == {name for name, row in MECHANISMS.items() if row.publishable}
    assert all(AUDITED[name].sound for name in WHOLE_MECHANISMS)


def test_every_question_is_audited_with_half_its_noise() -> None:
    assert {name.removeprefix("fault-half-") for name in HALVED} == set(QUESTIONS)
    assert not any(audited.sound for audited in HALVED.values())
