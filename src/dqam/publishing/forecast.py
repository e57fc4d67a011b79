"""Forecast the division of the budget and the errors of a publication before anything is spent, without reading trips.

For flux with its default parameters and queries, errors come from a table that was measured on several data sets. Any
other plan is tried on trips in the made-up city, on a grid with the same number of cells. Relative to the average
answer, errors depend on the signal (trips * epsilon / max_trips), so a small data set with a large epsilon can stand in
for a large one. With a delta, sqrt(2 rho) takes the place of epsilon, unless the mechanism would exchange the budget
for a pure one: flux does so where a delta does not help (`delta_helps`), all others do so at once. If there are slices
or flows, the map has what they leave, and the budget is never exchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dqam.cities import BOUNDS, city_trips
from dqam.geometry.counting import count_distinct
from dqam.geometry.grid import Grid
from dqam.geometry.rectangles import SizeBand, size_bands
from dqam.geometry.trips import Trips
from dqam.geometry.walks import walk
from dqam.mechanisms import Flux
from dqam.mechanisms.flux_rules import FIRST_LOOK, delta_helps
from dqam.mechanisms.size import REFINED
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.publishing.flow_forecast import FlowForecast, forecast_flows
from dqam.publishing.forecast_table import PlannedQuestion, measured_table
from dqam.publishing.person_forecast import (
    combined,
    expected_factors,
    expected_max_trips,
    kept_signal,
    with_persons,
)
from dqam.publishing.plan import Plan, default_queries
from dqam.publishing.slice_forecast import SliceForecast, forecast_slices
from dqam.values.guarantee import Promise, Unit

STAND_INS = 30_000  # at most so many trips are generated
ASKED = 2_000  # rectangles of each band


@dataclass(frozen=True)
class ExpectedError:
    """The errors to expect for the rectangles of one band.

    answer     average answer, in trips
    error      mean absolute error, relative to the average answer
    low, high  range of `error` over the data sets of the table; None if there is only one data set
    """

    band: SizeBand
    answer: float
    error: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Forecast:
    """What to expect for `trips` trips.

    signal     trips * epsilon / max_trips, with sqrt(2 rho) in place of epsilon if the budget is concentrated; for the
               unit 'person', only of the trips kept; of what persons, slices and flows leave of the budget
    budget     what would be spent: an epsilon, or a rho if it is concentrated
    concentrated  whether the delta of the plan would be used
    evenly     whether the signal is so weak that the trips would only be counted, and spread evenly over the map
    questions  what would be asked
    errors     the expected error of each band of sizes
    data_sets  labels of the data sets that the errors were measured on
    slices     what to expect of the slices; None if there are none
    flows      what to expect of the flows; None if there are none
    max_trips  the smallest and the largest number of trips kept of each person to expect, if a measurement chooses it;
               the rest of the forecast is for their geometric mean
    """

    trips: int
    signal: float
    budget: Fraction
    concentrated: bool
    evenly: bool
    questions: tuple[PlannedQuestion, ...]
    errors: tuple[ExpectedError, ...]
    data_sets: tuple[str, ...]
    slices: SliceForecast | None = None
    flows: FlowForecast | None = None
    max_trips: tuple[int, int] | None = None


def forecast(plan: Plan, trips: int, seed: int = 0, whole: bool = True) -> Forecast:
    """Forecast the result of `plan` for a data set of about `trips` trips; only simulations use the seed.

    whole  whether the publication takes the whole budget of its data set. Only then can a budget with a delta be
           exchanged for a pure one
    """
    if plan.chooses_max_trips:
        low, high = expected_max_trips(plan, trips, seed)
        unit = Unit.person(round((low * high) ** 0.5))
        made = forecast(replace(plan, unit=unit, chooses_max_trips=False), trips, seed, whole)
        return replace(made, max_trips=(low, high))
    if is_measured(plan):
        return _looked_up(plan, trips, whole)
    return _simulated(plan, trips, seed, whole)


def is_measured(plan: Plan) -> bool:
    """Whether the table has the errors of this plan: those of flux with its default parameters and queries."""
    return plan.mechanism == Flux() and np.array_equal(plan.queries, default_queries(plan.grid))


def _looked_up(plan: Plan, trips: int, whole: bool) -> Forecast:
    budget, slices = Budget.of(plan.promise), forecast_slices(plan, trips)
    factors = expected_factors(plan, trips)
    epsilon, precision, signal = float(plan.epsilon), budget.precision(), trips / plan.unit.max_trips
    signal *= kept_signal(factors)
    flows, shared = forecast_flows(plan, trips, factors), plan.flows > 0 or slices is not None
    if not shared and budget.concentrated and whole and not delta_helps(signal * epsilon, epsilon, precision):
        budget = Budget(plan.epsilon)
    of_map = budget.amount * _left(slices, flows)
    table, signal = measured_table(budget.concentrated), signal * budget.precision(of_map)
    errors = []
    for band in size_bands(plan.grid):
        found = table.error(band.name, signal)

        def error_at(times: float, name: str = band.name) -> tuple[float, float | None, float | None]:
            there = table.error(name, signal * times / kept_signal(factors))
            return there.error, there.low, there.high

        errors.append(ExpectedError(band, found.answer * trips, *combined(factors, error_at)))
    questions = table.budget(signal)
    if budget.concentrated and not shared:
        questions = _with_pure_look(questions, epsilon / precision)
    questions = with_persons(factors, _with_parts(questions, slices, flows))
    labels = tuple(one.label for one in table.data_sets)
    evenly = signal < Flux().least
    concentrated, found_errors = budget.concentrated, tuple(errors)
    return Forecast(trips, signal, budget.amount, concentrated, evenly, questions, found_errors, labels, slices, flows)


def _left(slices: SliceForecast | None, flows: FlowForecast | None) -> Fraction:
    """The share of the budget that slices and flows leave for the map."""
    return 1 - sum((part.share for part in (slices, flows) if part is not None), Fraction(0))


def _with_parts(
    questions: tuple[PlannedQuestion, ...], slices: SliceForecast | None, flows: FlowForecast | None
) -> tuple[PlannedQuestion, ...]:
    """The questions about the map, with what slices and flows leave of the budget, and those about these."""
    left = float(_left(slices, flows))
    of_map = (replace(asked, share=left * asked.share) for asked in questions) if left < 1 else questions
    return *of_map, *(asked for part in (slices, flows) if part is not None for asked in part.questions)


def _with_pure_look(questions: tuple[PlannedQuestion, ...], ratio: float) -> tuple[PlannedQuestion, ...]:
    """The division of a budget of rho whose first question is answered as for the pure budget (`measure_size`).

    ratio  of the epsilon of the pure budget to sqrt(2 rho)

    The table was measured without a promise, where the first question has a share of `FIRST_LOOK`. The refinement makes
    up for the difference; if that is not enough, all other questions have less.
    """
    first, *others = questions
    share = min((ratio * float(FIRST_LOOK)) ** 2, 0.25)
    refined = others.pop(0).share if others[0].name == REFINED else 0.0
    left = first.share + refined - share
    looks = [replace(first, share=share)]
    if left > 1e-9:
        looks.append(PlannedQuestion(first.kind, REFINED, left))
    less = min(1.0, (1 - share) / sum(asked.share for asked in others))
    return *looks, *(replace(asked, share=less * asked.share) for asked in others)


def _simulated(plan: Plan, trips: int, seed: int, whole: bool) -> Forecast:
    stand_ins = min(trips, STAND_INS)
    grid = Grid(BOUNDS, *plan.grid.shape)
    walks = walk(Trips.concat(list(city_trips(stand_ins, seed))), grid)
    factors = expected_factors(plan, trips, seed)
    less = Fraction(kept_signal(factors)).limit_denominator(10**6)
    budget = _scaled(plan.promise, less * Fraction(trips, plan.unit.max_trips * stand_ins))
    curator = Curator(walks, budget, SeededNoise(seed), may_exchange=lambda: whole)
    slices, flows, of_map = forecast_slices(plan, trips), forecast_flows(plan, trips, factors), budget
    if (left := _left(slices, flows)) < 1:
        of_map, _ = budget.split(map=left, others=1 - left)
    made = plan.mechanism.synthesize(curator, plan.queries, of_map)
    histogram, uncertainty = made.histogram, made.uncertainty()
    rng, errors = np.random.default_rng(seed + 1), []
    for band in size_bands(grid):
        asked = band.draw(grid, ASKED, rng)
        truth = count_distinct(walks, asked, grid)
        off = np.abs(np.clip(histogram.answers(asked), 0, max(histogram.total, 0)) - truth)
        answer = float(truth.mean())
        error = float(off.mean()) / max(answer, 1e-9)
        whole_error = float(np.mean([np.hypot(error, one.error) for one in factors])) if factors else error
        errors.append(ExpectedError(band, answer * trips / stand_ins, whole_error))
    evenly = plan.name == "uniform" or (uncertainty is not None and uncertainty.lattice is None)
    asked_for = (PlannedQuestion(paid.kind, paid.name, float(paid.cost / curator.spent)) for paid in curator.paid)
    questions = _with_parts(tuple(asked_for), slices, flows)
    spent = plan.promise.rho if curator.concentrated else plan.epsilon
    assert spent is not None
    signal = stand_ins * of_map.precision(of_map.amount)
    labels = ("Made-up city, skewed",)
    asked_of = with_persons(factors, questions)
    concentrated, found = curator.concentrated, tuple(errors)
    return Forecast(trips, signal, spent, concentrated, evenly, asked_of, found, labels, slices, flows)


def _scaled(promise: Promise, times: Fraction) -> Budget:
    """A budget whose noise is 1 / `times` as wide as that of a promise, both before and after an exchange.

    Epsilon and sqrt(2 rho) grow by the same factor, so mechanisms choose between them as they would with the promise.
    No promise has exactly these two amounts; the budget is for simulations only.
    """
    if promise.rho is None:
        return Budget(times * promise.epsilon)
    made = Budget(times**2 * promise.rho, concentrated=True)
    made._promise = replace(promise, epsilon=times * promise.epsilon)
    return made
