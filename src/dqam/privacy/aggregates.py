"""The totals of aggregates that the curator answers from, computed by an engine and cached.

`Aggregates` asks an engine for the totals that it does not have yet, in as few scans as possible, and keeps them. Only
the curator and the audit may hold one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dqam.errors import InputError
from dqam.geometry.arrays import Integers, Mask
from dqam.geometry.grid import Grid
from dqam.geometry.walks import AnyWalks
from dqam.privacy.sketch import Sketch
from dqam.statistics.aggregate import Aggregate, Part
from dqam.statistics.person_trips import TripsPerPerson
from dqam.statistics.question import Question, Vector
from dqam.statistics.trip_count import TripsOnGrid
from dqam.values.guarantee import Unit


class Engine(Protocol):
    """The interface of an engine: it holds the trips and adds up aggregates over them."""

    @property
    def unit(self) -> Unit | None:
        """The unit whose contribution is bounded; None if nothing is bounded, so that all trips count."""

    @property
    def grid(self) -> Grid:
        """The grid of the walks."""

    @property
    def slices(self) -> int | None:
        """The number of slices that each trip is in one of, which is public; None if there are no slices."""

    @property
    def sketch(self) -> Sketch | None:
        """A sketch of all trips that could be kept, after the first scan, if requested; for the custodian only."""

    @property
    def per_person(self) -> Integers | None:
        """int64[t + 1]: the number of persons with 0, 1, ..., t trips, kept or not, after the first scan; None if they
        were not counted, as for the unit 'trip'."""

    def add_up(self, aggregates: Sequence[Aggregate]) -> list[Integers]:
        """The total of each aggregate over all trips, in one scan."""

    def narrowed(self, max_trips: int) -> Engine:
        """The same engine, which keeps fewer trips of each person; not before the first scan."""


class InMemory:
    """The engine that has all walks in memory.

    kept  which trips count; needed for the unit 'person'
    unit  the unit that `kept` was chosen for; None if all trips count
    slices  the number of slices, if the walks are labelled with them
    per_person  the number of persons by their number of trips
    places  the place of each trip among those of its person (`ContributionBound.places`), to keep fewer of them later
    """

    def __init__(
        self,
        walks: AnyWalks,
        kept: Mask | None = None,
        unit: Unit | None = None,
        slices: int | None = None,
        per_person: Integers | None = None,
        places: Integers | None = None,
    ) -> None:
        if slices is not None and walks.slices is None:
            raise InputError(f"These walks have no slices, and {slices} were named; walk trips that have slices.")
        if unit is not None and unit.name == "person" and kept is None:
            raise InputError("For the unit 'person', kept must say which trips count.")
        self.walks, self.kept, self.unit, self.grid, self.slices = walks, kept, unit, walks.grid, slices
        self.per_person, self.places = per_person, places
        self.sketch: Sketch | None = None
        self._part = Part(walks, kept)

    def add_up(self, aggregates: Sequence[Aggregate]) -> list[Integers]:
        """Add up the aggregates over the walks in memory."""
        return [aggregate.add_up(self._part) for aggregate in aggregates]

    def narrowed(self, max_trips: int) -> InMemory:
        """See `Engine.narrowed`."""
        if self.places is None or self.kept is None:
            raise InputError("To keep fewer trips of each person, the places of trips must be known.")
        kept = self.kept & (self.places < max_trips)
        return InMemory(self.walks, kept, Unit.person(max_trips), self.slices, self.per_person, self.places)


class Aggregates:
    """Totals over the trips of an engine, each added up once.

    first  aggregates to add up in the first scan, because they are needed whatever the answers are. If it is given,
           scans are expensive, and the companions of aggregates are added up with them.
    """

    def __init__(self, engine: Engine, first: Sequence[Aggregate] = ()) -> None:
        self.engine, self._first = engine, tuple(first)
        self._totals: list[tuple[Aggregate, Integers]] = []
        self.scans = 0

    def __repr__(self) -> str:
        return f"<Aggregates by {type(self.engine).__name__} on {self.grid}, {len(self._totals)} totals>"

    @classmethod
    def of(
        cls,
        walks: AnyWalks,
        kept: Mask | None = None,
        unit: Unit | None = None,
        slices: int | None = None,
        per_person: Integers | None = None,
        places: Integers | None = None,
    ) -> Aggregates:
        """Aggregates over walks in memory; if these are labelled, `slices` is the number of slices."""
        return cls(InMemory(walks, kept, unit, slices, per_person, places))

    def narrowed(self, max_trips: int) -> Aggregates:
        """Aggregates over at most this many trips of each person, the first of those that these count."""
        if self.unit is None or self.unit.name != "person":
            raise InputError("Fewer trips can be kept only for the unit 'person'.")
        if not 1 <= max_trips <= self.unit.max_trips:
            raise InputError(f"max_trips can only be lowered, to 1 to {self.unit.max_trips}; got {max_trips}.")
        return Aggregates(self.engine.narrowed(max_trips), self._first)

    @property
    def grid(self) -> Grid:
        """The grid of the walks."""
        return self.engine.grid

    @property
    def unit(self) -> Unit | None:
        """The unit whose contribution is bounded; None for all trips."""
        return self.engine.unit

    @property
    def slices(self) -> int | None:
        """The number of slices, which is public; None if there are no slices."""
        return self.engine.slices

    @property
    def sketch(self) -> Sketch | None:
        """A sketch of all trips that could be kept, if requested; for the custodian only."""
        return self.engine.sketch

    def value(self, vector: Vector) -> Integers:
        """The exact value of a statistic or of scores."""
        return type(vector).value(vector, *self.totals(vector))

    def totals(self, question: Question) -> tuple[Integers, ...]:
        """The totals of all aggregates of a question."""
        return tuple(self.total(aggregate) for aggregate in question.aggregates)

    def total(self, aggregate: Aggregate) -> Integers:
        """The total of an aggregate: from a known one, or from a new scan."""
        if isinstance(aggregate, TripsPerPerson):
            return self._per_person()
        if (known := self._known(aggregate)) is not None:
            return known
        wanted: list[Aggregate] = []
        ahead = (*(self._first if not self.scans else ()), *(aggregate.companions() if self._first else ()))
        for each in (*ahead, aggregate):
            if not any(each.covered_by(other) for other in wanted):
                wanted.append(each)
        totals = self.engine.add_up(wanted)
        self.scans += 1
        for each, total in zip(wanted, totals, strict=True):
            total.flags.writeable = False
            self._totals.append((each, total))
        found = self._known(aggregate)
        assert found is not None
        return found

    def _per_person(self) -> Integers:
        """The number of persons by their number of trips, which the engine counts in its first scan."""
        if self.engine.per_person is None and not self.scans:
            self.total(TripsOnGrid())
        if (found := self.engine.per_person) is None:
            raise InputError("The trips of persons were not counted; they are for the unit 'person'.")
        return found

    def _known(self, aggregate: Aggregate) -> Integers | None:
        for other, total in self._totals:
            if aggregate.covered_by(other):
                return aggregate.read_from(other, total)
        return None
