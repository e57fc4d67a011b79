"""Exact tests on neighbouring files, from file to measurement.

Noise is additive with a known scale, so no sampling is needed to see whether it is enough. Two files that differ in all
rows of one unit (one trip or one person) are each read by an engine and given to a curator. The second curator gives
the answers of the first, so that both are asked the same questions. For each question the exact vectors are then
compared: they may differ by at most the sensitivity that was charged, in the L1 norm if the noise is Laplace and in the
L2 norm if it is Gaussian, which it is for a promise with a delta. Anything else that the two runs reveal about the
data is a violation too: a different list of questions, or an error on one side only.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from dqam.audit.cases import WHOLE_MECHANISMS
from dqam.audit.exact import exact_vector, fingerprint
from dqam.audit.formats import FORMATS, SLICES, TripRow
from dqam.audit.hostile import GRID, NEIGHBOURS, Neighbourhood, random_neighbourhood
from dqam.geometry.arrays import Integers
from dqam.geometry.hilbert import hilbert_order
from dqam.geometry.lattice import Lattice
from dqam.geometry.rectangles import Snapped, random_rectangles
from dqam.geometry.regions import Partition
from dqam.geometry.walks import Walks
from dqam.mechanisms import Flux, Mechanism
from dqam.mechanisms.persons import measure_persons
from dqam.mechanisms.size import EmptyMapError
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.contribution import ContributionBound
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.publishing.pipeline import aggregates_of, source_of
from dqam.publishing.plan import Plan
from dqam.statistics import (
    CROSSING,
    OF_PERSONS,
    PARTITIONS,
    PROVEN,
    SCORES,
    CellShares,
    Crossings,
    DistinctCounts,
    Endpoints,
    GroupShares,
    LengthQuantile,
    PairCounts,
    PersonTrips,
    QueryErrors,
    QueryTotals,
    ShadowQuantile,
    ShadowSums,
    Sliced,
    TripCount,
    UniformityCosts,
    WalkSums,
)
from dqam.statistics.buckets import L1Buckets
from dqam.statistics.privtree import PrivTree
from dqam.values.guarantee import Promise

QUERIES = random_rectangles(GRID, 40, np.random.default_rng(0))
SKETCH_KEY = "5a17" * 16
_REGIONS = Partition(8, 12, np.array([[0, 0, 6, 4], [6, 0, 12, 4], [0, 4, 6, 8], [6, 4, 12, 8]]))
_LATTICE = Lattice.even(GRID, 6)
_WHOLE = Lattice.even(GRID, 1)
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
    *(WalkSums(_LATTICE, int(cap), 3) for cap in (4, 8)),
    ShadowQuantile(_CAPS, Fraction(2, 3), _LATTICE, 3, norm=2),
    *(ShadowSums(_LATTICE, cap, 3, 2) for cap in (4, 9)),
    *(WalkSums(_LATTICE, cap, 3, 2) for cap in (4, 9)),
    Crossings(_REGIONS, 1),
    *(Sliced(each, SLICES) for each in (TripCount(), CellShares(), GroupShares(_REGIONS.labels), QueryTotals(QUERIES))),
    *(PairCounts(*pair) for pair in ((_LATTICE, _LATTICE), (_LATTICE, _WHOLE), (_WHOLE, _LATTICE))),
    Sliced(PairCounts(_LATTICE, _LATTICE), SLICES),
    Crossings(_REGIONS, 2, np.array([CROSSING, CROSSING // 3, 1, 0])),
    *(PersonTrips(1, (2, 3, 5, 9)), PersonTrips(3, (4,))),  # last, because they are asked only for persons
)
PURE, WITH_DELTA = Promise.of(len(QUESTIONS)), Promise.of(len(QUESTIONS), 1e-8)


@dataclass(frozen=True)
class AskedQuestion:
    """A question that was asked.

    question  its type, its values and what was spent on it
    norm      of the change that noise hides: 1, 2, or 0 for the largest change of any number
    most      the largest change that was charged for; the square of it in the L2 norm
    exact     the vector that noise was added to
    """

    question: tuple[Any, ...]
    norm: int
    most: int
    exact: Integers

    def distance(self, other: AskedQuestion) -> int:
        """The distance between the exact vectors of a question on two data sets; its square in the L2 norm."""
        apart = np.abs(self.exact.astype(object) - other.exact.astype(object))  # integers of any size
        return int((apart**self.norm).sum() if self.norm else apart.max())

    def in_words(self, distance: int) -> str:
        """A distance, or the largest one that was charged for."""
        return f"{distance**0.5:,.6g} in the L2 norm" if self.norm == 2 else f"{distance:,}"


class ScriptedCurator(Curator):
    """A curator that records what it is asked, and gives the answers of a `script`, if it has one.

    aggregates  the exact aggregates behind the answers
    public      what a release says about its data in addition to these answers
    """

    script: Sequence[Any] | None = None
    public: object = None

    def __init__(self, source: Walks | Aggregates, *given: Any, **named: Any) -> None:
        super().__init__(source, *given, **named)
        self.aggregates = Aggregates.of(source) if isinstance(source, Walks) else source
        self.asked: list[AskedQuestion] = []
        self.answers: list[Any] = []

    def measure(self, statistic: Any, budget: Budget, amount: Any = None, *, pure: bool = False) -> Any:
        """See `Curator.measure`."""
        return self._reply(statistic, amount, super().measure(statistic, budget, amount, pure=pure))

    def select(self, scores: Any, budget: Budget, amount: Any = None) -> Any:
        """See `Curator.select`."""
        return self._reply(scores, amount, super().select(scores, budget, amount))

    def partition(self, tree: Any, budget: Budget, amount: Any = None) -> Any:
        """See `Curator.partition`."""
        return self._reply(tree, amount, super().partition(tree, budget, amount))

    def narrow(self, max_trips: int) -> None:
        """See `Curator.narrow`."""
        super().narrow(max_trips)
        self.aggregates = self.aggregates.narrowed(max_trips)

    def ask(self, question: Any) -> Any:
        """Ask any question of `QUESTIONS`, with an equal part of half of the budget."""
        kinds = {**dict.fromkeys(PARTITIONS, self.partition), **dict.fromkeys(SCORES, self.select)}
        part = self.budget.amount / (2 * len(QUESTIONS))
        return kinds.get(type(question), self.measure)(question, self.budget, part)

    def _reply(self, question: Any, amount: Any, answer: Any) -> Any:
        entry = self.paid[-1]
        norm = 0 if entry.kind == "select" else 1
        most = entry.sensitivity  # the sensitivity in the ledger or the one that the noise covers, if less
        if entry.epsilon is None:  # Gaussian noise
            assert entry.rho is not None
            norm, most = 2, min(most**2, int(entry.scale**2 * 2 * entry.rho))
        elif entry.kind != "partition":
            most = min(most, int(entry.scale * entry.epsilon / (2 if entry.kind == "select" else 1)))
        values = {name: _comparable(value) for name, value in vars(question).items()}
        exact = exact_vector(question, self.aggregates)
        self.asked.append(AskedQuestion((type(question), values, amount), norm, most, exact))
        if self.script is not None and len(self.answers) < len(self.script):
            answer = self.script[len(self.answers)]
        self.answers.append(answer)
        return answer.copy() if isinstance(answer, np.ndarray) else answer


def _comparable(value: Any) -> Any:
    """A value that can be compared with `==`."""
    value = value.regions if isinstance(value, Partition) else value
    if type(value) in PROVEN:
        return type(value), {name: _comparable(each) for name, each in vars(value).items()}
    return value.tobytes() if isinstance(value, np.ndarray) else value


Outcome: TypeAlias = ScriptedCurator | Exception  # a curator after all questions, or what was raised


@dataclass(frozen=True)
class FilePair:
    """Two files, with and without the rows of one unit, and how they are read and asked.

    setting    the neighbourhood they are of, for its format, unit, grid and gap
    rows       of the larger file, each with whether it belongs to the unit
    mechanism  asks its questions; None for all of `QUESTIONS`
    promise    whose budget is spent
    chooses    whether the number of trips that are kept of each person is chosen first, and paid for
    publishes  whether the mechanism, which can have slices, makes a whole release with slices and flows
    """

    setting: Neighbourhood
    rows: list[tuple[bool, TripRow]]
    engine: str
    mechanism: Mechanism | None = None
    promise: Promise = PURE
    chooses: bool = False
    publishes: bool = False

    def difference(self) -> str:
        """What tells the two files apart, in words; empty if nothing does."""
        first = self.run([row for own, row in self.rows if not own])
        return difference(first, self.run([row for _, row in self.rows], first))

    def run(self, rows: Sequence[TripRow], before: Outcome | None = None) -> Outcome:
        """Ask all questions about a file with these rows, and give the answers of `before`."""
        setting, unit = self.setting, self.setting.unit
        queries = Snapped.of(QUERIES, setting.grid)
        most = "auto" if self.chooses else unit.max_trips
        form, choices = FORMATS[setting.format], dict[str, Any]()
        if self.publishes:
            delta = self.promise.delta or None
            choices = {"mechanism": self.mechanism, "by": form.slicing, "flows": True, "delta": delta}
        plan = Plan.of(
            setting.grid, self.promise.epsilon, queries=queries, unit=unit.name, max_trips=most, gap=setting.gap,
            **choices,
        )  # fmt: skip
        try:
            with tempfile.TemporaryDirectory(prefix="dqam-") as folder:
                source = source_of(form.write(Path(folder), rows), self.engine).sliced(form.slicing)
                source.batch = setting.batch
                plan.check(source, sure=True)
                with aggregates_of(
                    plan, source, ContributionBound(plan.unit, setting.salt), self.engine, sketch_key=SKETCH_KEY
                ) as aggregates:
                    curator = ScriptedCurator(
                        aggregates, Budget.of(self.promise), SeededNoise(0), plan.unit, wary=setting.wary,
                        may_exchange=lambda: False,  # a pure budget has its own pairs
                    )  # fmt: skip
                    curator.script = before.answers if isinstance(before, ScriptedCurator) else None
                    curator.public = source.row_is_trip, source.roles, source.crs
                    with suppress(EmptyMapError):  # this follows from the answers
                        self._ask(curator, plan)
                    return curator
        except Exception as error:  # of any kind, because anyone can see that it was raised
            return error

    def _ask(self, curator: ScriptedCurator, plan: Plan) -> None:
        if self.publishes:
            made = vars(plan.release(curator, "a map", self.setting.salt, began=datetime(2024, 1, 1, tzinfo=UTC)))
            curator.public = curator.public, {name: fingerprint(part) for name, part in made.items()}
            return
        if self.chooses:
            measure_persons(curator, curator.budget, choose=True)
            curator.public = curator.public, curator.unit
        if self.mechanism is not None:
            self.mechanism.synthesize(curator, QUERIES, curator.budget)
            return
        for question in QUESTIONS:
            if type(question) not in OF_PERSONS or self.setting.unit.name == "person":
                curator.ask(question)

    def smallest(self, what: str) -> FilePair:
        """The same pair with as few rows as still show the same kind of difference as `what`."""
        kind, pair, size = what.split()[:3], self, max(1, len(self.rows) // 2)
        while size:
            for start in range(0, len(pair.rows), size):
                fewer = replace(pair, rows=[*pair.rows[:start], *pair.rows[start + size :]])
                if len(fewer.rows) < len(pair.rows) and fewer.difference().split()[:3] == kind:
                    pair = fewer
                    break
            else:
                size //= 2
        return pair

    def __str__(self) -> str:
        setting, form = self.setting, FORMATS[self.setting.format]
        rows = [f"{'+' if own else ' '} {form.shown(row)}"[:300] for own, row in self.rows]
        gap = f", gap {setting.gap}" if setting.gap else ""
        return "\n".join([f"{setting.format}, {self.engine}, {setting.unit.in_words}, {self.promise}{gap}", *rows])


def difference(first: Outcome, second: Outcome) -> str:
    """What tells the outcomes for two files apart, in words; empty if nothing does."""
    if isinstance(first, Exception) and isinstance(second, Exception):
        return ""
    for error, side in ((first, "without"), (second, "with")):
        if isinstance(error, Exception):
            return f"rejected only {side} the unit ({type(error).__name__}: {str(error)[:200]})"
    assert isinstance(first, ScriptedCurator)
    assert isinstance(second, ScriptedCurator)
    if first.public != second.public:
        return f"public values differ: {first.public} without the unit, {second.public} with it"
    if [each.question for each in first.asked] != [each.question for each in second.asked]:
        return "different questions are asked"
    return next(iter(exceeded(first, second).values()), "")


def exceeded(first: ScriptedCurator, second: ScriptedCurator) -> dict[int, str]:
    """By how much each question changed that changed by more than was charged, in words; by its place in the list."""
    changed = {}
    for i, (one, other) in enumerate(zip(first.asked, second.asked, strict=True)):
        distance, most = one.distance(other), min(one.most, other.most)
        if distance > most:
            name = one.question[0].__name__
            changed[i] = f"{name} changed by {one.in_words(distance)}, charged {one.in_words(most)}"
    return changed


@dataclass
class PairResults:
    """The results for some pairs of files.

    pairs       number of pairs compared
    rejected    pairs of which both files are rejected
    changed     pairs in which an exact vector changed, but by no more than was charged
    violations  pairs that can be told apart, and by what
    """

    pairs: int = 0
    rejected: int = 0
    changed: int = 0
    violations: list[tuple[str, FilePair]] = field(default_factory=list)

    def compare(
        self,
        files: Neighbourhood,
        engine: str,
        mechanism: Mechanism | None = None,
        promise: Promise = PURE,
        chooses: bool = False,
        publishes: bool = False,
    ) -> None:
        """Compare each neighbour with its base."""
        asked = engine, mechanism, promise, chooses, publishes
        first = FilePair(files, [], *asked).run(files.base)
        for rows in files.neighbours:
            pair = FilePair(files, rows, *asked)
            second = pair.run([row for _, row in rows], first)
            self.pairs += 1
            if what := difference(first, second):
                self.violations.append((what, pair))
            elif isinstance(first, ScriptedCurator) and isinstance(second, ScriptedCurator):
                self.changed += any(one.distance(other) for one, other in zip(first.asked, second.asked, strict=True))
            else:
                self.rejected += 1


def run_pairs(
    pairs: int,
    seed: int = 0,
    engines: Sequence[str] = ("local", "duckdb"),
    formats: Sequence[str] = tuple(FORMATS),
    show: Callable[[float], None] = lambda share: None,
    most: int = 60,
    promises: Sequence[Promise] = (PURE, WITH_DELTA),
) -> dict[tuple[str, str, str], PairResults]:
    """Compare about `pairs` pairs of files over all formats, engines and units, each under one of the `promises`.

    Returns the results by (format, engine, unit). No trip has more than about `most` rows or pieces.
    """
    cases = [
        (name, engine, unit)
        for name in formats
        for engine in engines
        if engine in FORMATS[name].engines
        for unit in FORMATS[name].units
    ]
    results = {(name, engine, unit.name): PairResults() for name, engine, unit in cases}
    neighbourhoods = max(1, pairs // NEIGHBOURS)
    whole = list(WHOLE_MECHANISMS.values())
    order = np.random.default_rng(seed).permutation(len(cases))
    for i in range(neighbourhoods):
        name, engine, unit = cases[order[i % len(cases)]]
        rng = np.random.default_rng([seed, i])
        mechanism = whole[rng.integers(len(whole))] if rng.uniform() < 0.2 else None
        files = random_neighbourhood(rng, name, unit, most=most)
        promise = promises[int(rng.integers(len(promises)))]
        chooses = unit.name == "person" and bool(rng.integers(2))
        publishes = isinstance(mechanism, Flux)  # which can have slices
        results[name, engine, unit.name].compare(files, engine, mechanism, promise, chooses, publishes)
        show((i + 1) / neighbourhoods)
    return results
