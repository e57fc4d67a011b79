"""The one gate between trips and mechanisms.

A mechanism holds a curator and a budget, never trips. It may `measure` a statistic, `select` the best of some scores,
or have cells put together (`partition`); the curator charges the budget, writes the ledger and only then looks at the
data.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from fractions import Fraction
from typing import overload

import pyarrow as pa

from dqam.errors import BudgetError, InputError
from dqam.geometry.arrays import Integers
from dqam.geometry.grid import Grid
from dqam.geometry.regions import Partition
from dqam.geometry.walks import Walks
from dqam.privacy.budget import Budget
from dqam.privacy.contribution import Keep, unknown
from dqam.privacy.noise import Noise, check_scale
from dqam.statistics.buckets import L1Buckets
from dqam.statistics.privtree import PrivTree
from dqam.statistics.questions import SCORES, STATISTICS, Question, Scores, Statistic
from dqam.statistics.records import MASS, AnyRecords, Records
from dqam.values.guarantee import LedgerEntry, Neighbours, Number, Unit, parse_epsilon

TREES: frozenset[type] = frozenset({PrivTree, L1Buckets})


class Curator:
    """Answers questions about trips with noise, and keeps the ledger.

    It is made of walks, or of records of them that many curators share, so that experiments count exactly only once:
    what these curators spend adds up, and none of them knows of the others.
    Of a person's trips at most `unit.max_trips` are kept, chosen by a random order that looks at nothing else.
    If it is `wary`, mechanisms end early if their first look at the size finds hardly anything (`measure_size`).
    """

    neighbours = Neighbours.ADD_OR_REMOVE_ONE_UNIT

    def __init__(
        self,
        walks: Walks | AnyRecords,
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
        self._ledger: list[LedgerEntry] = []
        self._records = Records(walks) if isinstance(walks, Walks) else walks
        if self.unit.name == "person":
            self._records = self._limited(self._records, persons)
        elif getattr(self._records, "unit", None) not in (None, self.unit):
            raise InputError("These records keep only some trips of a person; for the unit 'trip' give all.")

    def _limited(self, records: AnyRecords, persons: Sequence[object] | pa.Array | None) -> AnyRecords:
        """Records with at most `max_trips` trips of each person."""
        if getattr(records, "unit", None) == self.unit:
            return records
        if not isinstance(records, Records) or persons is None or len(persons) != len(records.walks):
            raise unknown("person")
        if records.keep is not None:
            raise InputError("These records keep only some trips already; for the unit 'person' give the walks.")
        return Records(records.walks, Keep.of(self.unit, self._noise.generator()).mask(persons), self.unit)

    @property
    def unit(self) -> Unit:
        """Whose presence is hidden."""
        return self._unit

    @property
    def budget(self) -> Budget:
        """Only this, and what it is split into, is taken in payment."""
        return self._budget

    @property
    def grid(self) -> Grid:
        """Where the walks are laid: public."""
        return self._records.grid

    @property
    def ledger(self) -> tuple[LedgerEntry, ...]:
        """Every question asked so far."""
        return tuple(self._ledger)

    @property
    def spent(self) -> Fraction:
        """The sum of what all questions cost."""
        return sum((entry.epsilon for entry in self._ledger), Fraction(0))

    @property
    def private(self) -> bool:
        """Whether the answers may be published."""
        return self._noise.private

    def measure(self, statistic: Statistic, budget: Budget, epsilon: Number | None = None) -> Integers:
        """The statistic plus discrete Laplace noise of scale sensitivity / epsilon; all of `budget` if not said."""
        self._check(statistic, STATISTICS)
        sensitivity = operator.index(statistic.sensitivity) * self.unit.max_trips
        entry = self._charge("measure", statistic.name, sensitivity, sensitivity, budget, epsilon)
        return self._noise.laplace(type(statistic).of(statistic, self._records), entry.scale)

    def select(self, scores: Scores, budget: Budget, epsilon: Number | None = None) -> int:
        """The index of the noisy maximum (permute and flip, scale 2 sensitivity / epsilon)."""
        self._check(scores, SCORES)
        sensitivity = operator.index(scores.sensitivity) * self.unit.max_trips
        entry = self._charge("select", scores.name, sensitivity, 2 * sensitivity, budget, epsilon)
        return self._noise.noisy_max(type(scores).of(scores, self._records), entry.scale)

    @overload
    def partition(self, tree: PrivTree, budget: Budget, epsilon: Number | None = None) -> Partition: ...

    @overload
    def partition(self, tree: L1Buckets, budget: Budget, epsilon: Number | None = None) -> Integers: ...

    def partition(
        self, tree: PrivTree | L1Buckets, budget: Budget, epsilon: Number | None = None
    ) -> Partition | Integers:
        """A tree's leaves, or where buckets begin; the proofs are in `dqam.statistics.privtree` and `.buckets`.

        Where noise of several scales is drawn, the ledger has the widest.
        """
        self._check(tree, TREES)
        numerator = type(tree).scale(Fraction(1), self.unit.max_trips)
        entry = self._charge("partition", tree.name, MASS * self.unit.max_trips, numerator, budget, epsilon)
        return type(tree).grow(tree, self._records, self._noise, entry.epsilon, self.unit.max_trips)  # type: ignore[arg-type]

    def _check(self, question: Question | PrivTree | L1Buckets, known: frozenset[type]) -> None:
        """Only questions with a proof are answered, and only where they fit the grid."""
        if not any(type(question) is kind for kind in known):
            raise InputError(f"{type(question).__name__} is not a question with a proof; see dqam.statistics.")
        question.check(self.grid)

    def _charge(
        self, question: str, name: str, sensitivity: int, numerator: Number, budget: Budget, epsilon: Number | None
    ) -> LedgerEntry:
        """Spend and note; nothing has looked at the data before this returns."""
        if budget.root is not self.budget.root:
            raise BudgetError(f"{budget.name} is no part of {self.budget.name}, which pays for this data set.")
        if epsilon is None and not budget.left:
            raise BudgetError(f"{budget.name} is spent; nothing is left to ask with.")
        asked = budget.left if epsilon is None else parse_epsilon(epsilon)
        scale = Fraction(numerator) / asked
        check_scale(scale)
        budget.spend(asked)
        entry = LedgerEntry(question, name, sensitivity, asked, scale)
        self._ledger.append(entry)
        return entry
