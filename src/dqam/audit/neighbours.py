"""Exact neighbour tests, from files to measurements.

Noise is additive with a known scale, so no sampling is needed to see whether it is enough. Two files that differ in all
rows of one unit (one trip or one person) are each read by an engine and given to a curator. The curator of the second
gives the answers of the first, so that both are asked the same questions. For each question the exact vectors are then
compared: they may differ by at most the sensitivity that was charged. Anything else that the two runs reveal about the
data is a violation too: a different list of questions, or an error on one side only.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from dqam.audit.cases import WHOLE_MECHANISMS
from dqam.audit.hostile import FORMATS, GRID, STAR, Row, Star, star
from dqam.geometry.arrays import Integers
from dqam.geometry.hilbert import hilbert_order
from dqam.geometry.lattice import Lattice
from dqam.geometry.rectangles import Snapped, random_rectangles
from dqam.geometry.regions import Partition
from dqam.geometry.walks import Walks
from dqam.mechanisms import Mechanism
from dqam.mechanisms.uniform import EmptyMapError
from dqam.privacy.budget import Budget
from dqam.privacy.contribution import Keep
from dqam.privacy.curator import TREES, Curator
from dqam.privacy.noise import SeededNoise
from dqam.publishing.pipeline import Plan, records_of, source_of
from dqam.statistics.buckets import L1Buckets
from dqam.statistics.privtree import PrivTree
from dqam.statistics.questions import (
    FLUX,
    SCORES,
    CellShares,
    DistinctCounts,
    Endpoints,
    Flux,
    GroupShares,
    LengthQuantile,
    QueryErrors,
    QueryTotals,
    ShadowQuantile,
    ShadowSums,
    TripCount,
    UniformityCosts,
)
from dqam.statistics.records import AnyRecords, Records

QUERIES = random_rectangles(GRID, 40, np.random.default_rng(0))
SKETCH_KEY = "5a17" * 16
_REGIONS = Partition(8, 12, np.array([[0, 0, 6, 4], [6, 0, 12, 4], [0, 4, 6, 8], [6, 4, 12, 8]]))
_LATTICE = Lattice.even(GRID, 6)
_CAPS = np.array([1, 2, 4, 8])
QUESTIONS: tuple[Any, ...] = (
    TripCount(),
    DistinctCounts(QUERIES),
    DistinctCounts(QUERIES[[3]]),
    QueryTotals(QUERIES),
    QueryErrors(QUERIES, np.linspace(-3, 9, len(QUERIES))),
    CellShares(),
    GroupShares(_REGIONS.labels),
    UniformityCosts(_REGIONS.regions),
    Endpoints(_REGIONS),
    LengthQuantile(np.array([0, 1, 4, 16, 64]), Fraction(3, 4)),
    PrivTree(),
    L1Buckets(hilbert_order(*GRID.shape), 1.0),
    ShadowQuantile(_CAPS, Fraction(2, 3), _LATTICE, 3),
    *(ShadowSums(_LATTICE, int(cap), 3) for cap in _CAPS),
    Flux(_REGIONS, 1),
    Flux(_REGIONS, 2, np.array([FLUX, FLUX // 3, 1, 0])),
)


@dataclass(frozen=True)
class Asked:
    """A question, the sensitivity that was charged for it, and the exact vector that noise was added to."""

    question: tuple[Any, ...]  # its type, its values and its epsilon
    sensitivity: int
    exact: Integers

    def moved(self, other: Asked) -> int:
        """The distance between two exact vectors, in the norm of the sensitivity."""
        apart = np.abs(self.exact.astype(object) - other.exact.astype(object))  # integers of any size
        return int(apart.max() if self.question[0] in SCORES else apart.sum())


class Prompted(Curator):
    """A curator that notes what it is asked, and gives the answers of a `script`, if it has one.

    trips   the records that are asked
    public  what a release tells about its data in addition to these answers
    """

    script: Sequence[Any] | None = None
    public: object = None

    def __init__(self, trips: Walks | AnyRecords, *given: Any, **named: Any) -> None:
        super().__init__(trips, *given, **named)
        self.trips = Records(trips) if isinstance(trips, Walks) else trips
        self.asked: list[Asked] = []
        self.answers: list[Any] = []

    def measure(self, statistic: Any, budget: Budget, epsilon: Any = None) -> Any:
        """See `Curator.measure`."""
        return self._reply(statistic, epsilon, super().measure(statistic, budget, epsilon))

    def select(self, scores: Any, budget: Budget, epsilon: Any = None) -> Any:
        """See `Curator.select`."""
        return self._reply(scores, epsilon, super().select(scores, budget, epsilon))

    def partition(self, tree: Any, budget: Budget, epsilon: Any = None) -> Any:
        """See `Curator.partition`."""
        return self._reply(tree, epsilon, super().partition(tree, budget, epsilon))

    def ask(self, question: Any) -> Any:
        """Any question, at epsilon 1."""
        kinds = {**dict.fromkeys(TREES, self.partition), **dict.fromkeys(SCORES, self.select)}
        return kinds.get(type(question), self.measure)(question, self.budget, 1)

    def _reply(self, question: Any, epsilon: Any, answer: Any) -> Any:
        entry = self.ledger[-1]
        sensitivity = entry.sensitivity
        if entry.question == "partition":
            exact = self.trips.shares().ravel()
        else:  # the sensitivity that was noted or the one that the noise covers, whichever is less
            exact = type(question).of(question, self.trips)
            sensitivity = min(sensitivity, int(entry.scale * entry.epsilon / (2 if entry.question == "select" else 1)))
        values = {name: _plain(value) for name, value in vars(question).items()}
        self.asked.append(Asked((type(question), values, epsilon), sensitivity, exact))
        if self.script is not None and len(self.answers) < len(self.script):
            answer = self.script[len(self.answers)]
        self.answers.append(answer)
        return answer.copy() if isinstance(answer, np.ndarray) else answer


def _plain(value: Any) -> Any:
    """A value that can be compared."""
    value = value.regions if isinstance(value, Partition) else value
    return value.tobytes() if isinstance(value, np.ndarray) else value


@dataclass(frozen=True)
class Pair:
    """Two files, with and without the rows of one unit, and how they are read and asked."""

    some: Star
    rows: list[tuple[bool, Row]]
    engine: str
    mechanism: Mechanism | None = None

    def told(self) -> str:
        """What distinguishes the two files, in words; empty if nothing does."""
        first = self.run([row for own, row in self.rows if not own])
        return told(first, self.run([row for _, row in self.rows], first))

    def run(self, rows: Sequence[Row], before: Prompted | Exception | None = None) -> Prompted | Exception:
        """A curator of a file with these rows, after all questions, answered as in `before`; or what was raised."""
        some, unit = self.some, self.some.unit
        queries = Snapped.of(QUERIES, some.grid)
        plan = Plan.of(some.grid, 1, queries=queries, unit=unit.name, max_trips=unit.max_trips, gap=some.gap)
        try:
            with tempfile.TemporaryDirectory(prefix="dqam-") as folder:
                source = source_of(FORMATS[some.form].write(Path(folder), rows), self.engine)
                source.batch = some.batch
                plan.check(source, sure=True)
                with records_of(plan, source, Keep(unit, some.salt), self.engine, sketch_key=SKETCH_KEY) as records:
                    curator = Prompted(records, Budget(len(QUESTIONS)), SeededNoise(0), unit, wary=some.wary)
                    curator.script = before.answers if isinstance(before, Prompted) else None
                    curator.public = source.row_is_trip, source.roles, source.crs
                    with suppress(EmptyMapError):  # this follows from answers
                        self._ask(curator)
                    return curator
        except Exception as error:  # of any kind: that it was raised is visible
            return error

    def _ask(self, curator: Prompted) -> None:
        if self.mechanism is not None:
            self.mechanism.synthesize(curator, QUERIES, curator.budget)
            return
        for question in QUESTIONS:
            curator.ask(question)

    def smallest(self, what: str) -> Pair:
        """The same pair with as few rows as still show the same kind of violation."""
        kind, pair, size = what.split()[:3], self, max(1, len(self.rows) // 2)
        while size:
            for start in range(0, len(pair.rows), size):
                fewer = replace(pair, rows=[*pair.rows[:start], *pair.rows[start + size :]])
                if len(fewer.rows) < len(pair.rows) and fewer.told().split()[:3] == kind:
                    pair = fewer
                    break
            else:
                size //= 2
        return pair

    def __str__(self) -> str:
        form = FORMATS[self.some.form]
        rows = [f"{'+' if own else ' '} {form.shown(row)}"[:300] for own, row in self.rows]
        gap = f", gap {self.some.gap}" if self.some.gap else ""
        return "\n".join([f"{self.some.form}, {self.engine}, {self.some.unit}{gap}", *rows])


def told(first: Prompted | Exception, second: Prompted | Exception) -> str:
    """What distinguishes two runs, in words; empty if nothing does."""
    if isinstance(first, Exception) and isinstance(second, Exception):
        return ""
    for error, side in ((first, "without"), (second, "with")):
        if isinstance(error, Exception):
            return f"refused only {side} the unit ({type(error).__name__}: {str(error)[:200]})"
    assert isinstance(first, Prompted)
    assert isinstance(second, Prompted)
    if first.public != second.public:
        return f"what is public differs: {first.public} without the unit, {second.public} with it"
    if [each.question for each in first.asked] != [each.question for each in second.asked]:
        return "different questions are asked"
    return next(iter(exceeded(first, second).values()), "")


def exceeded(first: Prompted, second: Prompted) -> dict[int, str]:
    """For each question that moved by too much, how far, in words; keyed by its place in the list of questions."""
    return {
        i: f"{one.question[0].__name__} moved by {one.moved(other):,}, and {one.sensitivity:,} was charged"
        for i, (one, other) in enumerate(zip(first.asked, second.asked, strict=True))
        if one.moved(other) > min(one.sensitivity, other.sensitivity)
    }


@dataclass
class Count:
    """The results for some pairs.

    pairs       number of pairs compared
    refused     pairs refused on both sides
    moved       pairs in which an exact vector moved, but by no more than was charged
    violations  pairs that can be told apart, and by what
    """

    pairs: int = 0
    refused: int = 0
    moved: int = 0
    violations: list[tuple[str, Pair]] = field(default_factory=list)

    def compare(self, some: Star, engine: str, mechanism: Mechanism | None = None) -> None:
        """Compare each neighbour of a star with its base."""
        first = Pair(some, [], engine, mechanism).run(some.base)
        for rows in some.files:
            pair = Pair(some, rows, engine, mechanism)
            second = pair.run([row for _, row in rows], first)
            self.pairs += 1
            if what := told(first, second):
                self.violations.append((what, pair))
            elif isinstance(first, Prompted) and isinstance(second, Prompted):
                self.moved += any(one.moved(other) for one, other in zip(first.asked, second.asked, strict=True))
            else:
                self.refused += 1


def run_pairs(
    pairs: int,
    seed: int = 0,
    engines: Sequence[str] = ("local", "duckdb"),
    formats: Sequence[str] = tuple(FORMATS),
    show: Callable[[float], None] = lambda share: None,
    most: int = 60,
) -> dict[tuple[str, str, str], Count]:
    """Compare about `pairs` pairs over all formats, engines and units; return the results for each."""
    cases = [
        (name, engine, unit)
        for name in formats
        for engine in engines
        if engine in FORMATS[name].engines
        for unit in FORMATS[name].units
    ]
    counts = {(name, engine, unit.name): Count() for name, engine, unit in cases}
    stars = max(1, pairs // STAR)
    whole = list(WHOLE_MECHANISMS.values())
    order = np.random.default_rng(seed).permutation(len(cases))
    for i in range(stars):
        name, engine, unit = cases[order[i % len(cases)]]
        rng = np.random.default_rng([seed, i])
        mechanism = whole[rng.integers(len(whole))] if rng.uniform() < 0.2 else None
        counts[name, engine, unit.name].compare(star(rng, name, unit, most=most), engine, mechanism)
        show((i + 1) / stars)
    return counts
