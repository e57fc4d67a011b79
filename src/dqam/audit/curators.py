"""Curators whose answers can be audited, and noise that is drawn for many runs at once or is too small on purpose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.polynomial.legendre import leggauss

from dqam.audit.estimate import repeat
from dqam.audit.exact import exact_vector
from dqam.audit.pairs import GRID, Pair, walks_of
from dqam.geometry.arrays import Floats, Integers, Numbers
from dqam.geometry.grid import Grid
from dqam.geometry.trips import Trips
from dqam.geometry.walks import Walks
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.contribution import ContributionBound
from dqam.privacy.curator import Curator
from dqam.privacy.noise import Noise, SeededNoise
from dqam.statistics import Scores, Statistic
from dqam.values.guarantee import Number, Unit


class HalvedNoise(SeededNoise):
    """Noise of half the requested scale."""

    def laplace(self, values: Integers, scale: Fraction) -> Integers:
        return super().laplace(values, scale / 2)

    def noisy_max(self, scores: Integers, scale: Fraction) -> int:
        return super().noisy_max(scores, scale / 2)


class NoNoiseOnVectors(SeededNoise):
    """Noise on single numbers only; vectors are returned as they are."""

    def laplace(self, values: Integers, scale: Fraction) -> Integers:
        return values if len(values) > 1 else super().laplace(values, scale)


class BatchNoise:
    """The noise of many runs of one question: its values are repeated, and noise is added in one call."""

    private = False

    def __init__(self, noise: SeededNoise, runs: int) -> None:
        self._noise, self._runs = noise, runs

    def laplace(self, values: Integers, scale: Fraction) -> Integers:
        """int64[runs, values]."""
        return self._noise.laplace(np.tile(values, self._runs), scale).reshape(self._runs, -1)

    def gaussian(self, values: Integers, scale: Fraction) -> Integers:
        """int64[runs, values]."""
        return self._noise.gaussian(np.tile(values, self._runs), scale).reshape(self._runs, -1)

    def noisy_max(self, scores: Integers, scale: Fraction) -> Any:
        """int64[runs]."""
        return np.array([self._noise.noisy_max(scores, scale) for _ in range(self._runs)])

    def gumbel_max(self, scores: Integers, scale: Fraction) -> Any:
        """int64[runs]."""
        return np.array([self._noise.gumbel_max(scores, scale) for _ in range(self._runs)])

    def generator(self) -> np.random.Generator:
        """See `Noise.generator`."""
        return self._noise.generator()


class RecordingCurator(Curator):
    """A curator that records its answers, and how much more likely they are on the second data set of a pair.

    The output of a mechanism is a function of the answers, and tells no more than they do. The noise of a measurement
    is discrete Laplace of the scale that was charged, so an answer y has the log-likelihood ratio
    sum of (|y - a| - |y - b|) / scale for the exact vectors a and b; a selection has that of `noisy_max_chances`. The
    same question is asked on both sides, because it depends only on earlier answers
    (`tests/mechanisms/test_replay.py`). A partition is recorded but adds nothing to the ratio: the noise behind it is
    not published.

    answers               by the name of the question and the number of times it was asked before
    log_likelihood_ratio  of all answers together: a number, or one for each of many runs at once
    """

    def __init__(
        self,
        source: Walks | Aggregates,
        pair: tuple[Aggregates, Aggregates],
        budget: Budget,
        noise: Noise,
        unit: Unit,
        persons: list[bool] | None,
    ) -> None:
        super().__init__(source, budget, noise, unit, persons)
        self._pair = pair
        self.answers: dict[str, Any] = {}
        self.log_likelihood_ratio: Any = 0.0

    def measure(
        self, statistic: Statistic, budget: Budget, amount: Number | None = None, *, pure: bool = False
    ) -> Integers:
        answer = super().measure(statistic, budget, amount, pure=pure)
        one, other = (exact_vector(statistic, aggregates) for aggregates in self._pair)
        further = (np.abs(answer - one) - np.abs(answer - other)).sum(axis=-1)
        self.log_likelihood_ratio += further / float(self.paid[-1].scale)
        return self._record(type(statistic).__name__, answer)

    def select(self, scores: Scores, budget: Budget, amount: Number | None = None) -> int:
        answer, scale = super().select(scores, budget, amount), self.paid[-1].scale
        one, other = (noisy_max_chances(exact_vector(scores, aggregates), scale) for aggregates in self._pair)
        self.log_likelihood_ratio += np.log(other[answer] / one[answer])
        return self._record(type(scores).__name__, answer)

    def partition(self, tree: Any, budget: Budget, amount: Number | None = None) -> Any:
        return self._record(type(tree).__name__, super().partition(tree, budget, amount))

    def _record(self, name: str, answer: Any) -> Any:
        times = sum(earlier.startswith(name) for earlier in self.answers)
        self.answers[f"{name} {times}"] = answer
        return answer


def noisy_max_chances(scores: Integers, scale: Fraction) -> Floats:
    """The probability that each index has the largest score plus exponential noise of mean `scale`.

    With w = exp((score - largest score) / scale) it is w_i times the integral over t from 0 to 1 of the product over
    j != i of (1 - t w_j), where t is the probability that the noise exceeds what i needs to be the largest. The
    integrand is a polynomial, for which Gauss-Legendre quadrature is exact.

    >>> noisy_max_chances(np.array([0, 0]), Fraction(1)).tolist()
    [0.5, 0.5]
    """
    weights = np.exp((scores - scores.max()) / float(scale))
    nodes, parts = _quadrature(len(scores) // 2 + 1)
    terms = 1 - (nodes[:, None] + 1) / 2 * weights
    return np.asarray(weights * (parts / 2 @ (terms.prod(axis=1, keepdims=True) / terms)))


_quadrature = lru_cache(leggauss)


@dataclass(frozen=True)
class CuratorSampler:
    """Runs that ask a curator one question, or all questions of a mechanism; see `dqam.audit.estimate.Sampler`.

    ask      asks the curator; if it returns a dict, its values are part of the outcome
    batched  whether the runs differ only in their noise, so that all can be drawn in one call
    """

    ask: Callable[[Curator, Budget], Any]
    epsilon: Fraction
    noise: Callable[[np.random.Generator], SeededNoise] = SeededNoise
    batched: bool = False
    grid: Grid = GRID
    unit: Unit = field(default_factory=Unit.trip)

    def draw(
        self, pair: Pair, side: int, runs: int, rng: np.random.Generator, step: Callable[[int], None]
    ) -> list[Any] | dict[str, Numbers]:
        """See `Sampler.draw`."""
        aggregates = self._exact(pair[0], rng), self._exact(pair[1], rng)

        def run(noise: Noise) -> dict[str, Any]:
            budget = Budget(self.epsilon)
            source = aggregates[side] if self.unit.name == "trip" else walks_of(pair[side], self.grid)
            curator = RecordingCurator(source, aggregates, budget, noise, self.unit, _persons(pair[side]))
            extra = self.ask(curator, budget)
            return {
                **curator.answers,
                **(extra if isinstance(extra, dict) else {}),
                "log-likelihood ratio": curator.log_likelihood_ratio,
            }

        if self.batched:
            return run(BatchNoise(self.noise(rng), runs))
        return repeat(lambda: run(self.noise(rng)), runs, step)

    def _exact(self, trips: Trips, rng: np.random.Generator) -> Aggregates:
        walks = walks_of(trips, self.grid)
        if self.unit.name == "trip":
            return Aggregates.of(walks)
        return Aggregates.of(walks, ContributionBound.of(self.unit, rng).mask(_persons(trips)), self.unit)


def _persons(trips: Trips) -> list[bool]:
    """If the unit is a person, the first twelve trips belong to one person, and the rest to another."""
    return (np.arange(len(trips)) >= 12).tolist()
