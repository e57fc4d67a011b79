"""Rounds of multiplicative weights: select the query that is answered worst, count it, correct the model, and repeat.

MWEM, PriSH and DQAM share these rounds. They differ in their model: which of its numbers a count changes, and how the
model is made consistent afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from dqam.errors import InputError
from dqam.geometry.arrays import Floats, Integers
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.regions import Partition
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.statistics import CROSSING, Crossings, DistinctCounts, QueryErrors, QueryTotals, Question

MOST_ROUNDS = 4_000  # each asks two questions, and a release lists at most 10,000


class Model(Protocol):
    """A histogram that learns from counts of rectangles."""

    def histogram(self) -> SpatialHistogram:
        """The current estimate."""

    def learn(self, rectangles: Integers, counts: Floats) -> None:
        """Update the model; `counts` are all counts so far, and the last one is new."""


@dataclass(frozen=True)
class Oracle:
    """Answers about the data: which estimate of the query set is worst, and the count of a query."""

    choose: Callable[[Floats], int]
    count: Callable[[int], float]


def curator_oracle(curator: Curator, queries: Integers, budget: Budget, rounds: int) -> Oracle:
    """The curator as an oracle; each round gets the same part of `budget`, half to choose and half to count."""
    each = budget.left / (2 * rounds)
    return Oracle(
        choose=lambda estimates: curator.select(QueryErrors(queries, estimates), budget, each),
        count=lambda chosen: float(curator.measure(DistinctCounts(queries[[chosen]]), budget, each)[0]),
    )


def run_rounds(model: Model, queries: Integers, rounds: int, oracle: Oracle, trips: float) -> SpatialHistogram:
    """Run the rounds. Estimates and counts below 0 or above `trips` cannot be true, and are clipped."""
    chosen = np.zeros(0, np.int64)
    counts = np.zeros(0)
    for _ in range(rounds):
        estimates = np.clip(model.histogram().answers(queries), 0, trips)
        worst = oracle.choose(estimates)
        chosen = np.append(chosen, worst)
        counts = np.append(counts, min(max(oracle.count(worst), 0.0), trips))
        model.learn(queries[chosen], counts)
    return model.histogram()


def whole_crossings(grid: Grid) -> Crossings:
    """Crossings on the whole grid, capped for each trip at a side of the grid."""
    return Crossings(Partition.whole(*grid.shape), max(1, (grid.rows + grid.columns) // 2))


def measure_crossings(curator: Curator, budget: Budget, trips: float) -> float:
    """The mean number of crossings of a trip, capped at a side of the grid for each trip, for 1/20 of `budget`.

    The estimate is shrunk towards a guess made without data (half a side, with a standard deviation of a quarter), the
    more the wider the noise is; both widths are public.
    """
    amount, question = budget.left / 20, whole_crossings(curator.grid)
    side = question.cap
    crossings = float(curator.measure(question, budget, amount).sum()) / CROSSING
    scales = math.sqrt(2) if budget.concentrated else 2  # standard deviation of the noise of the sum of both
    width = scales * side * curator.unit.max_trips / budget.precision(amount) / trips
    trust = 1 / (1 + (width / (side / 4)) ** 2)
    return min(max(trust * crossings / trips + (1 - trust) * side / 2, 0.0), float(side))


@dataclass(frozen=True)
class ByRounds:
    """What MWEM and PriSH have in common: their parameters and first questions.

    rounds  the number of rounds; by default it follows from the signal, trips * epsilon
    least   the signal below which trips are spread evenly
    """

    rounds: int | None = None
    least: float = 200.0
    monotone: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_rounds(self.rounds)

    def known_questions(self, grid: Grid, queries: Integers) -> tuple[Question, ...]:
        """The size and the number of crossings."""
        return QueryTotals(queries), whole_crossings(grid)


def check_rounds(rounds: int | None, least: int = 1) -> None:
    """Raise an `InputError` if the number of rounds is invalid."""
    if rounds is not None and (not isinstance(rounds, int | np.integer) or not least <= rounds <= MOST_ROUNDS):
        raise InputError(
            f"rounds must be a whole number from {least} to {MOST_ROUNDS:,}, or None to follow from the signal; "
            f"got {rounds}."
        )


def rounds_for(signal: float, most: int) -> int:
    """A public rule for the number of rounds: twice the logarithm of trips * epsilon, at most `most`.

    >>> [rounds_for(signal, 20) for signal in (40, 1_000, 100_000)]
    [7, 14, 20]
    """
    return max(1, min(most, round(2 * np.log(max(signal, 1.0)))))
