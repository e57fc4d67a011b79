"""The curator, the only object through which mechanisms access trips: it charges the budget and adds noise.

A mechanism holds a curator and a budget, never trips. It may `measure` a statistic, `select` the best of some scores,
or request a private `partition` of the cells. The curator charges the budget, records the question as paid and only
then answers it; nothing that depends on the trips leaves it before that.

What a question costs, for a unit that can change the answer by at most S, where p = epsilon or, for a budget with a
delta, p = sqrt(2 rho):

    question   pure budget: epsilon                        budget with a delta: rho
    measure    discrete Laplace of scale S / p (S in L1)   discrete Gaussian of scale S / p (S in L2), or Laplace
    select     permute and flip, scale 2 S / p             exponential mechanism (Gumbel noise), scale S / p
    partition  its own proof, for epsilon                  the same with p for epsilon

Discrete Gaussian noise of scale s on integers is S^2 / (2 s^2)-zCDP, also for vectors (Canonne, Kamath and Steinke,
2020). An epsilon-private answer is epsilon^2 / 2-zCDP, which gives the price of Laplace noise and of partitions. The
exponential mechanism with scale b chooses index i with a probability proportional to exp(score_i / b). Between
neighbours, ln P'(i) - ln P(i) = (score'_i - score_i) / b - c with a c that is the same for all i; so these logarithms
lie in an interval of length 2 S / b = 2 p. Such a bounded range of e makes a selection e^2 / 8-zCDP (Cesar and Rogers,
2021, by Hoeffding's lemma), here p^2 / 2 = rho; it is also e-private. Permute and flip has no such bound: if of two
equal scores one falls by S and the other rises by S, the logarithms are more than e apart.
"""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
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
    OF_PERSONS,
    PARTITIONS,
    SCORES,
    STATISTICS,
    PrivatePartition,
    Question,
    Scores,
    Statistic,
    check_question,
)
from dqam.values.conversion import pure_epsilon, root_above
from dqam.values.guarantee import Neighbours, Number, PaidQuestion, Unit, parse_epsilon, spell

T = TypeVar("T")


class Curator:
    """Answers questions about trips with noise, and records what was paid for each.

    It is created from walks, or from aggregates that several curators share, so that experiments compute exact counts
    only once. What such curators spend adds up, and none of them knows of the others. At most `unit.max_trips` trips of
    each person are kept, chosen by a random order that depends on nothing else. If it is `wary`, mechanisms end early
    if their first look at the size finds hardly anything (`measure_size`). `may_exchange` is asked before a budget with
    a delta becomes a pure one (`exchange`); by default that is allowed.
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
        may_exchange: Callable[[], bool] = lambda: True,
    ) -> None:
        self.wary = wary
        self._may_exchange = may_exchange
        self._granted, self._concentrated = budget.amount, budget.concentrated
        self._promise = budget.promise  # kept here, because a mechanism could replace that of the budget
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
        places, per_person = bound.places(persons), bound.per_person(persons)
        assert places is not None
        kept = places < self.unit.max_trips
        return Aggregates.of(engine.walks, kept, self.unit, engine.slices, per_person, places)

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
    def slices(self) -> int | None:
        """The number of slices that `Sliced` statistics can be asked about, which is public; None if there are none."""
        return self._aggregates.slices

    @property
    def paid(self) -> tuple[PaidQuestion, ...]:
        """Every question asked so far."""
        return tuple(self._paid)

    @property
    def spent(self) -> Fraction:
        """The sum of what all questions cost, in epsilon or, if it is `concentrated`, in rho."""
        return self._spent

    @property
    def concentrated(self) -> bool:
        """Whether the budget is an amount of rho."""
        return self._concentrated

    def close(self) -> None:
        """Answer no more questions; what has been spent is final."""
        with self._lock:
            self._closed = True

    def __repr__(self) -> str:
        spent = f"{self.budget.currency} {spell(self.spent)} of {spell(self._granted)} spent"
        return f"<Curator of trips on {self.grid}, unit {self.unit}, {spent}>"

    @property
    def private(self) -> bool:
        """Whether the answers may be published."""
        return self._noise.private

    def measure(
        self, statistic: Statistic, budget: Budget, amount: Number | None = None, *, pure: bool = False
    ) -> Integers:
        """The statistic plus discrete Laplace noise of scale sensitivity / epsilon, or discrete Gaussian noise if the
        budget has a delta and the answer need not be `pure`. Spends `amount`, by default all of `budget`."""
        check_question(statistic, self.grid, STATISTICS, self.slices)
        most = self._trips_charged(statistic)
        if self.concentrated and not pure:
            square = operator.index(statistic.l2_squared) * most**2
            if square < 1:
                raise InputError(f"{statistic.name} has no sensitivity; ask about at least one rectangle.")
            sensitivity = math.isqrt(square - 1) + 1
            entry = self._charge("measure", statistic, sensitivity, square, budget, amount, gaussian=True)
            return self._noise.gaussian(self._aggregates.value(statistic), entry.scale)
        sensitivity = operator.index(statistic.sensitivity) * most
        entry = self._charge("measure", statistic, sensitivity, sensitivity, budget, amount)
        return self._noise.laplace(self._aggregates.value(statistic), entry.scale)

    def select(self, scores: Scores, budget: Budget, amount: Number | None = None) -> int:
        """The index of the noisy maximum: permute and flip with scale 2 sensitivity / epsilon, or, if the budget has a
        delta, the exponential mechanism with a bounded range of epsilon, at the price of epsilon^2 / 8."""
        check_question(scores, self.grid, SCORES)
        sensitivity = operator.index(scores.sensitivity) * self.unit.max_trips
        entry = self._charge("select", scores, sensitivity, 2 * sensitivity, budget, amount, bounded_range=True)
        choose = self._noise.gumbel_max if entry.rho is not None else self._noise.noisy_max
        return choose(self._aggregates.value(scores), entry.scale)

    def partition(self, tree: PrivatePartition[T], budget: Budget, amount: Number | None = None) -> T:
        """The leaves of a tree, or where buckets begin; the proofs are in `dqam.statistics.privtree` and `.buckets`.

        If noise of several scales is drawn, the largest scale is recorded.
        """
        check_question(tree, self.grid, PARTITIONS)
        most, kind = self.unit.max_trips, type(tree)
        scale = tree.scale(Fraction(1), most)
        entry = self._charge(
            "partition", tree, operator.index(tree.sensitivity) * most, scale, budget, amount, delta=tree.delta
        )
        assert entry.epsilon is not None
        return kind.grow(tree, self._aggregates.totals(tree), self._noise, entry.epsilon, most)

    def narrow(self, max_trips: int) -> None:
        """From now on, keep at most `max_trips` trips of each person and charge only for these; it cannot be raised.

        The number may depend on the answers so far. To see this, fix these answers and so the number m: then every
        later question is about the first m trips of each person in the order of `dqam.privacy.contribution`. A person
        changes these by at most m trips, which is what later questions are charged for. So each answer costs its
        epsilon whatever the answers before it were, and epsilons (or rhos) add up as for any questions that depend on
        earlier answers. No data is looked at here.
        """
        with self._lock:
            if self._closed:
                raise BudgetError("The publication has ended; nothing more can be asked.")
            narrowed = self._aggregates.narrowed(operator.index(max_trips))
            self._aggregates = narrowed  # first: a question that is asked meanwhile is then charged for too many trips
            self._unit = Unit.person(max_trips)

    def exchange(self) -> bool:
        """Continue with the pure budget of the same epsilon, if all answers so far are epsilon-private; say whether.

        What comes out is then epsilon-private, which is more than the promise of (epsilon, delta). The choice may
        depend on the answers so far. To see this, let A be the set of answers after which the budget is exchanged. On
        A, no output is more than exp(epsilon) times as likely on one data set as on its neighbour, because all answers
        and all that follow are epsilon-private together; so A adds nothing to delta. Off A, the output is that of a
        mechanism which stops wherever the answers are in A; this mechanism is rho-zCDP, so that it adds at most delta.
        The budget must not have been split.
        """
        with self._lock:
            promise, budget = self._promise, self._budget
            if self._closed or not self._concentrated or promise is None or budget.left != self._granted - self._spent:
                return False
            spent = Fraction(0)
            for entry in self._paid:
                if entry.epsilon is None:
                    return False
                spent += entry.epsilon
            if spent >= promise.epsilon:
                return False
            self._closed = True  # if this fails, the ledger may have agreed all the same: then nothing more is answered
            if not self._may_exchange():
                self._closed = False
                return False
            if not budget.exchange(promise.epsilon, spent, self._spent):
                raise BudgetError(
                    f"{budget.name} was spent elsewhere while it was exchanged; nothing more can be asked."
                )
            self._granted, self._concentrated, self._spent = promise.epsilon, False, spent
            self._paid = [replace(entry, rho=None) for entry in self._paid]
            self._closed = False
            return True

    def _trips_charged(self, statistic: Statistic) -> int:
        """By how many trips a unit can change a statistic: the factor on its sensitivity. It is 1 for questions about
        persons, whose sensitivity is proved for a whole person."""
        if type(statistic) not in OF_PERSONS:
            return self.unit.max_trips
        if self.unit.name != "person":
            raise InputError(f"{statistic.name} can be asked only for the unit 'person'; this curator protects trips.")
        return 1

    def _charge(
        self,
        kind: str,
        question: Question,
        sensitivity: int,
        numerator: Number,
        budget: Budget,
        amount: Number | None,
        *,
        gaussian: bool = False,
        bounded_range: bool = False,
        delta: str = "",
    ) -> PaidQuestion:
        """Spend the budget and record the question. No data is read before this returns.

        The scale of the noise is `numerator` / epsilon; that of `gaussian` noise is sqrt(numerator / (2 rho)). With a
        bounded range, rho buys twice the epsilon (see above).
        """
        if type(budget) is not Budget:
            raise BudgetError(f"A question must be paid from a Budget; got {type(budget).__name__}.")
        with self._lock:
            if not budget.is_part_of(self.budget) or budget.concentrated != self._concentrated:
                raise BudgetError(f"{budget.name} is not part of {self.budget.name}, which pays for this data set.")
            if gaussian and not self._concentrated:
                raise BudgetError(f"{self.budget.name} was exchanged for a pure budget while this was being asked.")
            if self._closed:
                raise BudgetError("The publication has ended; nothing more can be asked.")
            if amount is None and not budget.left:
                raise BudgetError(f"{budget.name} is spent; nothing is left to ask with.")
            asked = budget.left if amount is None else parse_epsilon(amount)
            if gaussian:
                epsilon, scale = None, root_above(Fraction(numerator) / (2 * asked))
            else:
                epsilon = pure_epsilon(asked) * (2 if bounded_range else 1) if self._concentrated else asked
                scale = Fraction(numerator) / epsilon
            check_scale(scale)
            budget.spend(asked)
            if self._spent + asked > self._granted:  # holds even if a part of the budget was tampered with
                raise BudgetError(
                    f"{self.budget.name}: more than {self.budget.currency} {spell(self._granted)} was requested."
                )
            rho = asked if self._concentrated else None
            entry = PaidQuestion(kind, question.name, sensitivity, epsilon, scale, question.resolution, delta, rho)
            self._paid.append(entry)
            self._spent += asked
            return entry
