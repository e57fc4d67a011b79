"""What to expect for the unit 'person': how many trips would be kept, and how far scaled-up counts may be off.

How many trips persons have is unknown before a publication, so two made-up populations stand in for them: one in which
most persons travel about equally often, as in the made-up city, and one in which a few make very many trips, as the
riders of a bike-sharing system do. The factor is measured on both as it would be for a release.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

import numpy as np

from dqam.geometry.arrays import Integers
from dqam.geometry.grid import Grid
from dqam.geometry.trips import Trips
from dqam.geometry.walks import walk
from dqam.mechanisms.persons import measure_persons
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.publishing.forecast_table import PlannedQuestion
from dqam.publishing.plan import Plan
from dqam.statistics import PersonTrips

# trips a person, their spread in logarithms, and how far the trips that are left out differ from those that are kept
POPULATIONS = (10, 0.8, 0.0), (7, 1.4, 0.45)
RUNS = 12
MOST_PERSONS = 100_000  # that are made up


@dataclass(frozen=True)
class ExpectedFactor:
    """What to expect for one population.

    kept   the share of the trips that would be kept
    spent  the share of the budget that would be spent on the factor
    error  mean absolute error of counts made whole, relative to them, even if the map of the kept trips had none
    hard   whether the map of the kept trips is as hard to make as that of the hardest data set: persons with very many
           trips repeat them, so trips are in few places
    """

    kept: float
    spent: Fraction
    error: float
    hard: bool = False


def expected_factors(plan: Plan, trips: int, seed: int = 0) -> list[ExpectedFactor]:
    """What to expect for each population with about so many trips; none for the unit 'trip'."""
    if plan.unit.name == "trip":
        return []
    found = []
    for mean, spread, different in POPULATIONS:
        own, times = made_up_persons(trips, mean, spread)
        kept = float(np.minimum(own, plan.unit.max_trips).sum() / own.sum())
        errors, spent = [], Fraction(0)
        for run in range(RUNS):
            curator = _curator(plan, np.bincount(own) * times, seed + run)
            errors.append(abs(measure_persons(curator, curator.budget).factor * kept - 1))
            spent += curator.spent / curator.budget.amount / RUNS
        error = math.hypot(float(np.mean(errors)), different * (1 - kept))
        found.append(ExpectedFactor(kept, spent, error, different > 0))
    return found


def expected_max_trips(plan: Plan, trips: int, seed: int = 0) -> tuple[int, int]:
    """The smallest and the largest m to expect for about this many trips, if a measurement chooses it: the medians of
    what is chosen for each population."""
    found = []
    for mean, spread, _ in POPULATIONS:
        own, times = made_up_persons(trips, mean, spread)
        curators = (_curator(plan, np.bincount(own) * times, seed + run) for run in range(RUNS))
        chosen = [measure_persons(curator, curator.budget, choose=True).max_trips for curator in curators]
        found.append(sorted(chosen)[RUNS // 2])
    return min(found), max(found)


def made_up_persons(trips: int, mean: float, spread: float) -> tuple[Integers, int]:
    """How many trips each of so many persons has, and for how many persons each of them stands.

    >>> own, times = made_up_persons(1_000, 10, 0.8)
    >>> len(own), times, bool(abs(own.sum() - 1_000) < 20)
    (100, 1, True)
    """
    persons = max(1, round(trips / mean))
    times = -(-persons // MOST_PERSONS)
    normal = NormalDist(math.log(mean) - spread**2 / 2, spread)
    count = max(1, persons // times)
    own = np.array([math.exp(normal.inv_cdf((i + 0.5) / count)) for i in range(count)])
    return np.maximum(1, np.rint(own)).astype(np.int64), times


def combined(
    factors: list[ExpectedFactor], error_at: Callable[[float], tuple[float, float | None, float | None]]
) -> tuple[float, float | None, float | None]:
    """The expected error and its range, where `error_at(times)` gives those of a map whose signal is `times` as large.

    Without factors, that is the map of all trips. Otherwise errors of map and factor are added in squares, and averaged
    over the populations.
    """
    if not factors:
        return error_at(1.0)
    rows = [(one.error, error_at(one.kept * float(1 - one.spent))) for one in factors]
    errors = [
        math.hypot(one.error, row[2] if one.hard and row[2] is not None else row[0])
        for one, (_, row) in zip(factors, rows, strict=True)
    ]
    low = [math.hypot(error, row[1]) for error, row in rows if row[1] is not None]
    high = [math.hypot(error, row[2]) for error, row in rows if row[2] is not None]
    return float(np.mean(errors)), min(low, default=None), max(high, default=None)


def kept_signal(factors: list[ExpectedFactor]) -> float:
    """The signal of the map of the kept trips, relative to all trips and all of the budget; 1 without factors."""
    return float(np.mean([one.kept * float(1 - one.spent) for one in factors])) if factors else 1.0


def with_persons(factors: list[ExpectedFactor], questions: tuple[PlannedQuestion, ...]) -> tuple[PlannedQuestion, ...]:
    """The division of the budget, with what is spent on the factor."""
    if not factors:
        return questions
    share = float(np.mean([float(one.spent) for one in factors]))
    others = (PlannedQuestion(asked.kind, asked.name, (1 - share) * asked.share) for asked in questions)
    return PlannedQuestion("measure", PersonTrips.name, share), *others


def _curator(plan: Plan, per_person: Integers, seed: int) -> Curator:
    """A curator of made-up persons, none of whose trips are on the map."""
    grid = Grid((0.0, 0.0, 1.0, 1.0), 1, 1)
    places = np.zeros(0, np.int64)
    nothing = walk(Trips.from_lists([]), grid)
    aggregates = Aggregates.of(nothing, places == 0, plan.unit, per_person=per_person, places=places)
    return Curator(aggregates, Budget.of(plan.promise), SeededNoise(seed), plan.unit)
