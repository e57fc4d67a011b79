"""The curator, the only object through which mechanisms access trips: it charges the budget and adds noise.

A mechanism holds a curator and a budget, never trips. It may `measure` a statistic, `select` the best of some scores,
or request a private `partition` of the cells. The curator charges the budget, records the question as paid and only
then answers it; nothing that depends on the trips leaves it before that.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeVar

import pyarrow as pa

from dqam.errors import BudgetError, InputError
from dqam.geometry.arrays import Integers
from dqam.geometry.grid import Grid
from dqam.geometry.walks import Walks
from dqam.privacy.aggregates import Aggregates, InMemory
from dqam.privacy.budget import Budget
from dqam.privacy.contribution import ContributionBound, unknown_person
from dqam.privacy.noise import Noise, check_scale
from dqam.statistics import (
    PARTITIONS,
    SCORES,
    STATISTICS,
    PrivatePartition,
    Question,
    Scores,
    Statistic,
    check_question,
)
from dqam.values.guarantee import Neighbours, Number, PaidQuestion, Unit, parse_epsilon, spell

T = TypeVar("T")


class Curator:
    """Answers questions about trips with noise, and records what was paid for each.

    It is created from walks, or from aggregates that several curators share, so that experiments compute exact counts
    only once. What such curators spend adds up, and none of them knows of the others. At most `unit.max_trips` trips of
    each person are kept, chosen by a random order that depends on nothing else. If it is `wary`, mechanisms end early
    if their first look at the size finds hardly anything (`measure_size`).
    """

    neighbours = Neighbours.ADD_OR_REMOVE_ONE_UNIT

    def __init__(
        self,
        trips: Walks | Aggregates,
        budget: Budget,
        noise: Noise,
        unit: Unit | None = None,
        persons: Sequence[object] | pa.Array | None = None,
        wary: bool = False,
    ) -> None:
        self.wary = wary
        self._unit = unit or Unit.trip()
        self._budget = budget
        self._noise = noise
        self._paid: list[PaidQuestion] = []
        self._spent = Fraction(0)
        self._closed = False
        self._lock = threading.Lock()
        aggregates = Aggregates.of(trips) if isinstance(trips, Walks) else trips
        self._aggregates = self._bounded(aggregates, persons) if self.unit.name == "person" else aggregates
        if self._aggregates.unit not in (None, self.unit):
            raise InputError("These aggregates count only some trips of a person; for the unit 'trip' give all trips.")

    def _bounded(self, aggregates: Aggregates, persons: Sequence[object] | pa.Array | None) -> Aggregates:
        """Aggregates over at most `max_trips` trips of each person."""
        if aggregates.unit == self.unit:
            return aggregates
        engine = aggregates.engine
        if not isinstance(engine, InMemory) or persons is None or len(persons) != len(engine.walks):
            raise unknown_person()
        if engine.kept is not None:
            raise InputError("These aggregates count only some trips already; for the unit 'person' give the walks.")
        bound = ContributionBound.of(self.unit, self._noise.generator())
        return Aggregates.of(engine.walks, bound.mask(persons), self.unit)

    @property
    def unit(self) -> Unit:
        """Whose presence is hidden."""
        return self._unit

    @property
    def budget(self) -> Budget:
        """The budget; only it and its parts are accepted as payment."""
        return self._budget

    @property
    def grid(self) -> Grid:
        """The grid of the walks, which is public."""
        return self._aggregates.grid

    @property
    def paid(self) -> tuple[PaidQuestion, ...]:
        """Every question asked so far."""
        return tuple(self._paid)

    @property
    def spent(self) -> Fraction:
        """The sum of what all questions cost."""
        return self._spent

    def close(self) -> None:
        """Answer no more questions; what has been spent is final."""
        with self._lock:
            self._closed = True

    def __repr__(self) -> str:
        spent = f"epsilon {spell(self.spent)} of {spell(self.budget.epsilon)} spent"
        return f"<Curator of trips on {self.grid}, unit {self.unit}, {spent}>"

    @property
    def private(self) -> bool:
        """Whether the answers may be published."""
        return self._noise.private

    def measure(self, statistic: Statistic, budget: Budget, epsilon: Number | None = None) -> Integers:
        """The statistic plus discrete Laplace noise of scale sensitivity / epsilon; all of `budget` by default."""
        check_question(statistic, self.grid, STATISTICS)
        sensitivity = operator.index(statistic.sensitivity) * self.unit.max_trips
        entry = self._charge("measure", statistic, sensitivity, sensitivity, budget, epsilon)
        return self._noise.laplace(self._aggregates.value(statistic), entry.scale)

    def select(self, scores: Scores, budget: Budget, epsilon: Number | None = None) -> int:
        """The index of the noisy maximum (permute and flip, scale 2 sensitivity / epsilon)."""
        check_question(scores, self.grid, SCORES)
        sensitivity = operator.index(scores.sensitivity) * self.unit.max_trips
        entry = self._charge("select", scores, sensitivity, 2 * sensitivity, budget, epsilon)
        return self._noise.noisy_max(self._aggregates.value(scores), entry.scale)

    def partition(self, tree: PrivatePartition[T], budget: Budget, epsilon: Number | None = None) -> T:
        """The leaves of a tree, or where buckets begin; the proofs are in `dqam.statistics.privtree` and `.buckets`.

        If noise of several scales is drawn, the largest scale is recorded.
        """
        check_question(tree, self.grid, PARTITIONS)
        most, kind = self.unit.max_trips, type(tree)
        scale = tree.scale(Fraction(1), most)
        entry = self._charge(
            "partition", tree, operator.index(tree.sensitivity) * most, scale, budget, epsilon, tree.delta
        )
        return kind.grow(tree, self._aggregates.totals(tree), self._noise, entry.epsilon, most)

    def _charge(
        self,
        kind: str,
        question: Question,
        sensitivity: int,
        numerator: Number,
        budget: Budget,
        epsilon: Number | None,
        delta: str = "",
    ) -> PaidQuestion:
        """Spend the budget and record the question. No data is read before this returns."""
        if type(budget) is not Budget:
            raise BudgetError(f"A question must be paid from a Budget; got {type(budget).__name__}.")
        if not budget.is_part_of(self.budget):
            raise BudgetError(f"{budget.name} is not part of {self.budget.name}, which pays for this data set.")
        with self._lock:
            if self._closed:
                raise BudgetError("The publication has ended; nothing more can be asked.")
            if epsilon is None and not budget.left:
                raise BudgetError(f"{budget.name} is spent; nothing is left to ask with.")
            asked = budget.left if epsilon is None else parse_epsilon(epsilon)
            scale = Fraction(numerator) / asked
            check_scale(scale)
            budget.spend(asked)
            if self._spent + asked > self.budget.epsilon:  # holds even if a part of the budget was tampered with
                raise BudgetError(f"{self.budget.name}: more than epsilon {spell(self.budget.epsilon)} was requested.")
            entry = PaidQuestion(kind, question.name, sensitivity, asked, scale, question.resolution, delta)
            self._paid.append(entry)
            self._spent += asked
            return entry
