"""The plan of a publication: all of its choices, which are public and made before any trip is read."""

from __future__ import annotations

import json
import math
import operator
import os
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dqam.errors import BudgetError, InputError
from dqam.geometry.arrays import Integers
from dqam.geometry.flow_table import FlowTable
from dqam.geometry.grid import Grid, check_order
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.rectangles import Snapped, random_rectangles, snap
from dqam.geometry.sliced_histogram import SlicedHistogram
from dqam.geometry.slicing import Slicing
from dqam.geometry.walks import Gap
from dqam.mechanisms import MECHANISMS, Flux, Mechanism, Synthesis, make
from dqam.mechanisms.flows import estimate_flows, flow_questions, measure_flows
from dqam.mechanisms.flux_uncertainty import FluxEstimate
from dqam.mechanisms.persons import MOST_CHOSEN, PersonFactor, made_whole, measure_persons
from dqam.mechanisms.slices import SHARE, find_patterns, known_questions, measure_slices
from dqam.privacy.budget import Budget
from dqam.privacy.contribution import unknown_person
from dqam.privacy.curator import Curator
from dqam.publishing.priors import PublicPrior
from dqam.release.provenance import Provenance, check_crs, check_mechanism
from dqam.release.release import Release
from dqam.sources import Source
from dqam.statistics import check_question
from dqam.statistics.aggregate import Aggregate
from dqam.values.guarantee import Number, Promise, Unit, parse_epsilon, spell, spell_delta

QUERIES = 16_000
MAX_TRIPS = 10  # of a person, by default
AUTO = "auto"  # instead of a number: chosen from a private measurement
LONGEST = 200  # characters of a title
TITLE = "Distinct trips on a map"
FLOWS_SHARE, MOST_FLOWS = Fraction(1, 5), Fraction(7, 10)  # of the budget, by default and at most
LARGE, HUGE = 4, 10  # epsilons above these get a remark, and need `sure`
LARGE_DELTA = Fraction(1, 10**6)  # deltas above this need `sure`
LIBRARIES = ("dqam", "numpy", "numba", "opendp", "pyproj")


@dataclass(frozen=True, eq=False)
class Plan:
    """All choices of a publication, which are public and made before any trip is read.

    queries           int64[m, 4], rectangles of cells that the map is tuned for
    queries_in_words  what they are
    name, about, monotone, parameters  of the mechanism, read once, before it sees any answer
    chooses_max_trips  whether a private measurement chooses how many trips of each person are kept; `unit` then has the
                      largest number that it can choose
    slicing           the rule that puts each trip into a slice; None if there are no slices
    prior             public pattern of trips for flux; None if there is none
    flows             share of the budget for flows from origins to destinations; 0 if there are none

    >>> plan = Plan.of(Grid.over((-8.68, 41.11, -8.56, 41.20)), "0.5", unit="person", max_trips=5)
    >>> plan.epsilon, plan.unit, plan.queries_in_words
    (Fraction(1, 2), Unit(name='person', max_trips=5), '16,000 random rectangles, all equally likely')
    """

    grid: Grid
    epsilon: Fraction
    mechanism: Mechanism
    unit: Unit
    queries: Integers
    queries_in_words: str
    gap: Gap | None
    title: str
    name: str
    about: str
    monotone: bool
    parameters: dict[str, Any]
    delta: Fraction = Fraction(0)
    slicing: Slicing | None = None
    prior: PublicPrior | None = None
    chooses_max_trips: bool = False
    flows: Fraction = Fraction(0)

    @property
    def promise(self) -> Promise:
        """What is promised: epsilon, and a delta if there is one."""
        return Promise(self.epsilon, self.delta)

    @classmethod
    def of(
        cls,
        grid: Grid | Sequence[float],
        epsilon: Number,
        mechanism: str | Mechanism = "flux",
        queries: ArrayLike | Snapped | None = None,
        unit: str = "trip",
        max_trips: int | str | None = None,
        gap: Gap | str | None = None,
        title: str = TITLE,
        delta: Number | None = None,
        by: str | Slicing | None = None,
        timezone: str | None = None,
        prior: Release | str | os.PathLike[str] | None = None,
        flows: bool | Number = False,
    ) -> Plan:
        """Make a plan from the arguments of `publish`, and check it."""
        made = make(mechanism)
        name, about = made.name, made.about
        check_mechanism(name)
        if name in MECHANISMS and type(made) is not MECHANISMS[name].make:
            raise InputError(f"{name!r} is the name of a built-in mechanism; give {type(made).__name__} another.")
        grid = Grid.of(grid)
        check_crs(grid.crs)
        for what, text in (("title", title), ("about of the mechanism", about)):
            if not isinstance(text, str) or not text.isprintable() or not 0 < len(text) <= LONGEST:
                raise InputError(f"{what} must be one line of 1 to {LONGEST} characters; got {text!r:.60}.")
        chooses = isinstance(max_trips, str) and max_trips == AUTO
        if chooses and unit != "person":
            raise InputError(f"max_trips='auto' needs unit='person'; with unit={unit!r} every trip counts once.")
        whose = Unit(unit, MOST_CHOSEN if chooses else _whole_max_trips(unit, max_trips))
        if queries is None:
            cells = default_queries(grid)
            in_words = f"{QUERIES:,} random rectangles, all equally likely"
        else:
            cells = (queries if isinstance(queries, Snapped) else snap(queries, grid)).cells
            if not len(cells):
                raise InputError("queries must contain at least one rectangle; got none.")
            in_words = f"{len(cells):,} rectangles chosen by the publisher"
        if not isinstance(gap, Gap | str | None):
            raise InputError(f"gap must be a text such as '120s' or '500m'; got {gap!r:.60}.")
        silence = Gap.parse(gap) if isinstance(gap, str) else gap
        says = name, about, bool(made.monotone), _parameters(made)
        promise = Promise.of(epsilon, delta)
        if by is None and timezone is not None:
            raise InputError(f"timezone={timezone!r} is for slices; name these as well, such as by='hour'.")
        slicing = Slicing.parse(by, timezone) if isinstance(by, str) else by
        if slicing is not None and name != "flux":
            raise InputError(f"Slices by {slicing} need the mechanism 'flux'; got {name!r}.")
        if prior is not None and not isinstance(made, Flux):
            raise InputError(f"A prior needs the mechanism 'flux'; got {name!r}.")
        public = None if prior is None else PublicPrior.of(prior, grid)
        plan = cls(
            grid, promise.epsilon, made, whose, cells, in_words, silence, title, *says, promise.delta, slicing, public,
            chooses, share_of_flows(flows),
        )  # fmt: skip
        plan.first_scan()  # raises if the mechanism cannot be used
        return plan

    def check(self, source: Source, sure: bool = False, expect: int | None = None) -> None:
        """Raise an `InputError` if columns are missing or, unless the custodian is `sure`, if something looks like a
        mistake; `expect` is the approximate number of trips. Looks at no row."""
        if self.unit.name == "person" and not source.has_persons:
            raise unknown_person()
        if self.slicing is not None:
            source.check_slicing(self.slicing)
        if self.gap is not None and math.isfinite(self.gap.seconds) and not source.has_times:
            raise InputError(
                "A gap in seconds needs points with times, and these have none; give it in metres, such as gap='500m'."
            )
        if sure:
            return
        check_order(self.grid.bounds, self.grid.crs)
        if self.epsilon > HUGE:
            raise InputError(
                f"{remark(self.epsilon)} Give a smaller one (1 is common), or publish anyway with sure=True."
            )
        check_delta(self.delta)
        if expect is not None and self.delta * 100 * expect > 1:
            raise InputError(
                f"A delta of {spell_delta(self.delta)} is large for {expect:,} trips: it would allow "
                f"{float(self.delta * expect):.2g} of them, on average, to be published unprotected. Give at most "
                f"{spell_delta(Fraction(1, 10 ** len(str(100 * expect - 1))))}, or publish anyway with sure=True."
            )
        if source.person_is_trip:
            rows = " If every row is a whole trip, leave out the time: columns={'time': ''}."
            raise InputError(
                f"{source.name} has no trip ids: all points of a {source.roles['person']} would be one trip. Name the "
                "column that has them, columns={'trip': 'NAME'}, or publish anyway with sure=True."
                f"{rows if 'geometry' in source.roles else ''}"
            )

    def first_scan(self) -> list[Aggregate]:
        """The aggregates of the first scan: those that are needed whatever the answers are."""
        known, aggregates = tuple(self.mechanism.known_questions(self.grid, self.queries)), list[Aggregate]()
        if not known:
            raise InputError(f"known_questions of the mechanism {self.name} is empty; return at least one question.")
        count = None if self.slicing is None else len(self.slicing)
        known += () if count is None else known_questions(self.queries, count)
        known += flow_questions(self.grid, count) if self.flows else ()
        for question in known:
            check_question(question, self.grid, slices=count)
            aggregates += question.aggregates
        return aggregates

    def release(
        self,
        curator: Curator,
        publication: str,
        salt: str = "",
        row_is_trip: bool = False,
        began: datetime | None = None,
    ) -> Release:
        """Run the mechanism with all of the curator's budget, and return the release."""
        if curator.grid != self.grid or curator.unit != self.unit:
            raise InputError("The curator has a different grid or unit from the plan.")
        if curator.slices != (None if self.slicing is None else len(self.slicing)):
            raise InputError("The curator's trips have different slices from the plan.")
        budget = curator.budget
        persons = measure_persons(curator, budget, self.chooses_max_trips) if self.unit.name == "person" else None
        parts = {"slices": SHARE if self.slicing is not None else Fraction(0), "flows": self.flows}
        if parts := {name: share for name, share in parts.items() if share}:
            budget, *others = curator.budget.split(map=1 - sum(parts.values()), **parts)
            parts_of = dict(zip(parts, others, strict=True))
        if self.prior is not None and isinstance(self.mechanism, Flux):
            made: Synthesis = self.mechanism.synthesize(curator, self.queries, budget, self.prior.pattern)
        else:
            made = self.mechanism.synthesize(curator, self.queries, budget)
        histogram, uncertainty = made.histogram, made.uncertainty()  # which may ask more, so before the curator closes
        if histogram.grid != self.grid:
            raise InputError("The histogram of the mechanism has a different grid from the plan.")
        if persons is not None:
            if curator.unit.max_trips != persons.max_trips:  # the factor would be wrong
                raise InputError(f"The mechanism {self.name} calls curator.narrow; leave that to max_trips='auto'.")
            histogram = made_whole(histogram, persons.factor, self.monotone)
            uncertainty = uncertainty and uncertainty.made_whole(histogram, persons.factor, persons.deviation)
        share_noise = None
        if self.slicing is not None:
            assert isinstance(made, FluxEstimate)
            measured = measure_slices(curator, self.queries, parts_of["slices"], made.size.trips)
            patterns, share_noise = find_patterns(measured, self.slicing.names, histogram, self.queries)
            times = 1.0 if persons is None else persons.factor
            share_noise = replace(share_noise, sizes=times * share_noise.sizes)
            histogram = SlicedHistogram.of_patterns(histogram, patterns)
            uncertainty = uncertainty and replace(uncertainty, histogram=histogram)
        table = None
        if self.flows:
            table = self._flows(curator, parts_of["flows"], histogram, persons)
        curator.close()
        if not curator.paid:
            raise InputError("The mechanism asked no question, not even those of known_questions.")
        most = (self.promise.rho or Fraction(0)) if curator.concentrated else self.epsilon
        if curator.spent > most:
            raise BudgetError(
                f"The curator spent {curator.budget.currency} {spell(curator.spent)}, more than {spell(most)}."
            )
        provenance = Provenance(
            id=publication,
            title=self.title,
            created=(began or datetime.now(UTC)).isoformat(timespec="seconds"),
            mechanism=self.name,
            mechanism_about=self.about,
            monotone=self.monotone,
            parameters=self.parameters,
            epsilon=self.epsilon if curator.concentrated else curator.spent,
            delta=self.delta if curator.concentrated else Fraction(0),
            unit=curator.unit,
            queries=self.queries_in_words,
            gap="" if self.gap is None else str(self.gap),
            salt=salt if self.unit.name == "person" else "",
            row_is_trip=row_is_trip,
            paid=curator.paid,
            private=curator.private,
            versions={name: version(name) for name in LIBRARIES},
            slices="" if self.slicing is None else str(self.slicing),
            timezone=(self.slicing and self.slicing.timezone) or "",
            prior="" if self.prior is None else self.prior.source,
            factor=1.0 if persons is None else persons.factor,
            scaled_up_to=0 if persons is None else persons.most,
            max_trips_chosen=self.chooses_max_trips,
        )
        return Release(histogram, provenance, uncertainty, share_noise, table)

    def _flows(
        self, curator: Curator, budget: Budget, histogram: SpatialHistogram, persons: PersonFactor | None
    ) -> FlowTable:
        """The flows, measured with all of `budget`; they add up to the trips of the histogram."""
        whole = histogram.whole if isinstance(histogram, SlicedHistogram) else histogram
        factor = 1.0 if persons is None else persons.factor
        trips = max(float(whole.total), 0.0) / factor
        measured = measure_flows(curator, budget, trips)
        if isinstance(histogram, SlicedHistogram):
            table = estimate_flows(measured, trips, histogram.names, histogram.sizes / factor)
        else:
            table = estimate_flows(measured, trips)
        return table if persons is None else table.scaled(factor, persons.deviation)


def _whole_max_trips(unit: str, max_trips: int | str | None) -> int:
    """How many trips of a unit count, as given or by default."""
    if max_trips is None:
        return MAX_TRIPS if unit == "person" else 1
    try:
        return operator.index(max_trips)  # type: ignore[arg-type]  # which refuses text, and 2.5
    except TypeError:
        raise InputError(f"max_trips must be a whole number or 'auto'; got {max_trips!r:.60}.") from None


def share_of_flows(flows: bool | Number) -> Fraction:
    """The share of the budget for flows: a fifth by default, 0 without flows."""
    if isinstance(flows, bool):
        return FLOWS_SHARE if flows else Fraction(0)
    try:
        share = parse_epsilon(flows)
    except InputError:
        share = Fraction(0)
    if not 0 < share <= MOST_FLOWS:
        raise InputError(
            f"flows must be True or a share of the budget, above 0 and at most {spell(MOST_FLOWS)}, such as 0.2; got "
            f"{flows!r:.60}."
        )
    return share


def default_queries(grid: Grid) -> Integers:
    """The rectangles, int64[m, 4], that a map is tuned for unless the publisher chooses others."""
    return random_rectangles(grid, QUERIES, np.random.default_rng(0))


def remark(epsilon: Fraction) -> str:
    """What the guarantee still means at a large epsilon.

    >>> remark(Fraction(5))
    'Epsilon 5 is large: someone who is 50 % sure that a trip is in the data can become 99.3 % sure.'
    """
    after = 1 / (1 + math.exp(-min(float(epsilon), 700.0)))
    shown = f"{math.floor(1000 * after) / 10:g} %" if after < 0.999 else "more than 99.9 %"
    suspects = "someone who is 50 % sure that a trip is in the data"
    return f"Epsilon {spell(epsilon)} is large: {suspects} can become {shown} sure."


def check_delta(delta: Fraction) -> None:
    """Raise an `InputError` if a delta is so large that a custodian must be sure."""
    if delta > LARGE_DELTA:
        raise InputError(f"{remark_on_delta(delta)} Give a smaller one (1e-8 is common), or confirm it with sure=True.")


def remark_on_delta(delta: Fraction) -> str:
    """What a large delta allows.

    >>> remark_on_delta(Fraction(1, 10**4))
    'A delta of 1e-4 is large: it would not rule out that one in 10,000 trips is published unprotected.'
    """
    one_in = f"one in {round(1 / delta):,} trips"
    return f"A delta of {spell_delta(delta)} is large: it would not rule out that {one_in} is published unprotected."


def usual_delta(trips: int) -> Fraction:
    """The delta to suggest for so many trips: the largest power of ten that is at most 1e-8 and 1 / (100 trips).

    >>> usual_delta(1_000_000) == Fraction(1, 10**8), usual_delta(1_000_001) == Fraction(1, 10**9)
    (True, True)
    """
    return Fraction(1, 10 ** max(8, 2 + len(str(trips - 1))))


def _parameters(mechanism: Mechanism) -> dict[str, Any]:
    """The parameters of a mechanism as JSON values; fractions become text, NumPy numbers become Python numbers."""
    if not is_dataclass(mechanism):
        raise InputError(
            f"A mechanism must be a dataclass whose fields are its parameters; {type(mechanism).__name__} is not."
        )
    found = {}
    for each in fields(mechanism):
        value = getattr(mechanism, each.name)
        try:
            found[each.name] = json.loads(json.dumps(value, default=_plain, allow_nan=False))
        except (TypeError, ValueError, RecursionError):
            raise InputError(
                f"{each.name} of the mechanism must be a plain value, such as a finite number; "
                f"got {type(value).__name__} {value!r:.60}."
            ) from None
    return found


def _plain(value: object) -> object:
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError
