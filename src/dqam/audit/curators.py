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
from dqam.audit.faults import RECTANGLES
from dqam.audit.pairs import GRID, SLICES, Pair, persons_of, walks_of
from dqam.geometry.arrays import Floats, Integers, Numbers
from dqam.geometry.grid import Grid
from dqam.geometry.trips import Trips
from dqam.geometry.walks import Walks
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.contribution import ContributionBound
from dqam.privacy.curator import Curator
from dqam.privacy.noise import Noise, SeededNoise, within_64_bits
from dqam.statistics import DistinctCounts, QueryErrors, Scores, Statistic, TripCount
from dqam.statistics.buckets import L1Buckets
from dqam.values.guarantee import Number, Promise, Unit


class RepeatedNoise(SeededNoise):
    """Seeded noise that can select for many runs at once."""

    def gumbel_max_of_runs(self, scores: Integers, scale: Fraction, runs: int) -> Integers:
        """int64[runs]: the same as many calls of `gumbel_max`."""
        scores, width = within_64_bits(scores, scale)
        return np.argmax(scores + self._rng.gumbel(0, width, (runs, len(scores))), axis=1)


class HalvedNoise(RepeatedNoise):
    """Noise of half the requested scale."""

    def laplace(self, values: Integers, scale: Fraction) -> Integers:
        return super().laplace(values, scale / 2)

    def gaussian(self, values: Integers, scale: Fraction) -> Integers:
        return super().gaussian(values, scale / 2)

    def noisy_max(self, scores: Integers, scale: Fraction) -> int:
        return super().noisy_max(scores, scale / 2)

    def gumbel_max(self, scores: Integers, scale: Fraction) -> int:
        return super().gumbel_max(scores, scale / 2)

    def gumbel_max_of_runs(self, scores: Integers, scale: Fraction, runs: int) -> Integers:
        return super().gumbel_max_of_runs(scores, scale / 2, runs)


class NoNoiseOnVectors(RepeatedNoise):
    """Noise on single numbers only; vectors are returned as they are."""

    def laplace(self, values: Integers, scale: Fraction) -> Integers:
        return values if len(values) > 1 else super().laplace(values, scale)

    def gaussian(self, values: Integers, scale: Fraction) -> Integers:
        return values if len(values) > 1 else super().gaussian(values, scale)


class ExponentialNoise(RepeatedNoise):
    """Selections by permute and flip where Gumbel noise is requested: their range is not bounded as was charged."""

    def gumbel_max(self, scores: Integers, scale: Fraction) -> int:
        return super().noisy_max(scores, scale)

    def gumbel_max_of_runs(self, scores: Integers, scale: Fraction, runs: int) -> Integers:
        scores, width = within_64_bits(scores, scale)
        return np.argmax(scores + self._rng.exponential(width, (runs, len(scores))), axis=1)


class BatchNoise:
    """The noise of many runs of one question: its values are repeated, and noise is added in one call."""

    private = False

    def __init__(self, noise: RepeatedNoise, runs: int) -> None:
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
        return self._noise.gumbel_max_of_runs(scores, scale, self._runs)

    def generator(self) -> np.random.Generator:
        """See `Noise.generator`."""
        return self._noise.generator()


class RecordingCurator(Curator):
    """A curator that records its answers, and how much more likely they are on the second data set of a pair.

    The output of a mechanism is a function of the answers, and tells no more than they do. The noise of a measurement
    is discrete Laplace or Gaussian of the scale that was charged, so an answer y has the log-likelihood ratio
    sum of (|y - a| - |y - b|) / scale or sum of ((y - a)^2 - (y - b)^2) / (2 scale^2) for the exact vectors a and b; a
    selection has that of `noisy_max_chances` or, with Gumbel noise, of `gumbel_max_chances`. The same question is asked
    on both sides, because it depends only on earlier answers (`tests/mechanisms/test_replay.py`). A partition is
    recorded but adds nothing to the ratio: the noise behind it is not published.

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
        may_exchange: bool = True,
    ) -> None:
        super().__init__(source, budget, noise, unit, persons, may_exchange=lambda: may_exchange)
        self._pair = pair
        self.answers: dict[str, Any] = {}
        self.log_likelihood_ratio: Any = 0.0

    def measure(
        self, statistic: Statistic, budget: Budget, amount: Number | None = None, *, pure: bool = False
    ) -> Integers:
        answer = super().measure(statistic, budget, amount, pure=pure)
        one, other = (exact_vector(statistic, aggregates) for aggregates in self._pair)
        entry, scale = self.paid[-1], float(self.paid[-1].scale)
        if entry.epsilon is None:  # the noise is Gaussian
            further = ((other - one) / scale * ((2 * answer - one - other) / scale)).sum(axis=-1) / 2
        else:
            further = (np.abs(answer - one) - np.abs(answer - other)).sum(axis=-1) / scale
        self.log_likelihood_ratio += further
        return self._record(type(statistic).__name__, answer)

    def select(self, scores: Scores, budget: Budget, amount: Number | None = None) -> int:
        answer, entry = super().select(scores, budget, amount), self.paid[-1]
        chances = noisy_max_chances if entry.rho is None else gumbel_max_chances
        one, other = (chances(exact_vector(scores, aggregates), entry.scale) for aggregates in self._pair)
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


def gumbel_max_chances(scores: Integers, scale: Fraction) -> Floats:
    """The probability that each index has the largest score plus Gumbel noise: proportional to exp(score / scale).

    >>> gumbel_max_chances(np.array([0, 0]), Fraction(1)).tolist()
    [0.5, 0.5]
    """
    weights = np.exp((scores - scores.max()) / float(scale))
    return np.asarray(weights / weights.sum())


@dataclass(frozen=True)
class CuratorSampler:
    """Runs that ask a curator one question, or all questions of a mechanism; see `dqam.audit.estimate.Sampler`.

    ask           asks the curator; if it returns a dict, its values are part of the outcome
    promise       the claim, whose budget is spent
    batched       whether the runs differ only in their noise, so that all can be drawn in one call
    times         how often a run asks, each time with an equal part of the budget
    may_exchange  whether a budget with a delta may be exchanged for a pure one
    """

    ask: Callable[[Curator, Budget], Any]
    promise: Promise
    noise: Callable[[np.random.Generator], RepeatedNoise] = RepeatedNoise
    batched: bool = False
    grid: Grid = GRID
    unit: Unit = field(default_factory=Unit.trip)
    times: int = 1
    may_exchange: bool = True

    def draw(
        self, pair: Pair, side: int, runs: int, rng: np.random.Generator, step: Callable[[int], None]
    ) -> list[Any] | dict[str, Numbers]:
        """See `Sampler.draw`."""
        aggregates = self._exact(pair[0], rng), self._exact(pair[1], rng)

        def run(noise: Noise) -> dict[str, Any]:
            budget = Budget.of(self.promise)
            whole = Aggregates.of(walks_of(pair[side], self.grid), slices=SLICES)
            source = aggregates[side] if self.unit.name == "trip" else whole
            curator = RecordingCurator(
                source, aggregates, budget, noise, self.unit, persons_of(len(pair[side])), self.may_exchange
            )
            extra: dict[str, Any] = {}
            for i, part in enumerate(self._parts(budget)):
                values = self.ask(curator, part)
                if isinstance(values, dict):
                    extra.update({f"{name}{f' {i}' * (i > 0)}": value for name, value in values.items()})
            return {
                **curator.answers,
                **extra,
                "log-likelihood ratio": curator.log_likelihood_ratio,
            }

        if self.batched:
            return run(BatchNoise(self.noise(rng), runs))
        return repeat(lambda: run(self.noise(rng)), runs, step)

    def _parts(self, budget: Budget) -> list[Budget]:
        """The budget itself, or equal parts of it."""
        if self.times == 1:
            return [budget]
        return budget.split(**{f"part {i}": 1 for i in range(self.times)})

    def _exact(self, trips: Trips, rng: np.random.Generator) -> Aggregates:
        walks = walks_of(trips, self.grid)
        if self.unit.name == "trip":
            return Aggregates.of(walks, slices=SLICES)
        bound, persons = ContributionBound.of(self.unit, rng), persons_of(len(trips))
        return Aggregates.of(walks, bound.mask(persons), self.unit, SLICES, bound.per_person(persons))


# What they are asked, where that takes more than one line


def select_and_measure(curator: Curator, budget: Budget) -> None:
    """Select one of two rectangles by its error, and count it.

    A trip in both makes the error of one estimate smaller and that of the other larger.
    """
    choosing, counting = budget.split(choosing=1, counting=1)
    chosen = curator.select(QueryErrors(RECTANGLES[:2], np.array([1.0, -1.0])), choosing)
    curator.measure(DistinctCounts(RECTANGLES[[chosen]]), counting)


def select_and_count(curator: Curator, budget: Budget) -> None:
    """The same without a choice, so that all runs can be drawn at once: the first rectangle is counted."""
    choosing, counting = budget.split(choosing=1, counting=1)
    curator.select(QueryErrors(RECTANGLES[:2], np.array([1.0, -1.0])), choosing)
    curator.measure(DistinctCounts(RECTANGLES[:1]), counting)


def buckets(curator: Curator, budget: Budget) -> dict[str, Any]:
    """Partition a row of cells into so few buckets that the middle cell joins its western or its eastern neighbours."""
    starts = curator.partition(L1Buckets(np.arange(7), penalty=10.0), budget)
    return {"buckets": tuple(starts.tolist())}


def exchange_or_not(curator: Curator, budget: Budget) -> None:
    """Let a first, pure answer decide whether the rest of the budget is exchanged for a pure one."""
    (first,) = curator.measure(TripCount(), budget, budget.left / 4, pure=True)
    if first > 0:
        curator.exchange()
    curator.measure(TripCount(), budget)
