"""Forecast the division of the budget and the errors of a publication before anything is spent, without reading trips.

For flux with its default parameters and queries, errors come from a table that was measured on several data sets. Any
other plan is tried on trips in the made-up city, on a grid with the same number of cells. Relative to the average
answer, errors depend on the signal (trips * epsilon / max_trips), so a small data set with a large epsilon can stand in
for a large one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dqam.cities import BOUNDS, city_trips
from dqam.geometry.counting import count_distinct
from dqam.geometry.grid import Grid
from dqam.geometry.rectangles import SizeBand, Snapped, size_bands
from dqam.geometry.trips import Trips
from dqam.geometry.walks import walk
from dqam.mechanisms import Flux
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.publishing.forecast_table import PlannedQuestion, measured_table
from dqam.publishing.plan import Plan, default_queries
from dqam.values.guarantee import Unit

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

    signal     trips * epsilon / max_trips
    evenly     whether the signal is so weak that the trips would only be counted, and spread evenly over the map
    questions  what would be asked
    errors     the expected error of each band of sizes
    data_sets  labels of the data sets that the errors were measured on
    """

    trips: int
    signal: float
    evenly: bool
    questions: tuple[PlannedQuestion, ...]
    errors: tuple[ExpectedError, ...]
    data_sets: tuple[str, ...]


def forecast(plan: Plan, trips: int, seed: int = 0) -> Forecast:
    """Forecast the result of `plan` for a data set of about `trips` trips; only simulations use the seed."""
    if plan.mechanism == Flux() and np.array_equal(plan.queries, default_queries(plan.grid)):
        return _looked_up(plan, trips)
    return _simulated(plan, trips, seed)


def _looked_up(plan: Plan, trips: int) -> Forecast:
    table, signal = measured_table(), float(_signal(plan, trips))
    errors = []
    for band in size_bands(plan.grid):
        found = table.error(band.name, signal)
        errors.append(ExpectedError(band, found.answer * trips, found.error, found.low, found.high))
    labels = tuple(one.label for one in table.data_sets)
    return Forecast(trips, signal, signal < Flux().least, table.budget(signal), tuple(errors), labels)


def _simulated(plan: Plan, trips: int, seed: int) -> Forecast:
    stand_ins, signal = min(trips, STAND_INS), _signal(plan, trips)
    grid = Grid(BOUNDS, *plan.grid.shape)
    walks = walk(Trips.concat(list(city_trips(stand_ins, seed))), grid)
    budget = Budget(signal / stand_ins)
    curator = Curator(walks, budget, SeededNoise(seed))
    release = replace(plan, grid=grid, unit=Unit.trip(), epsilon=budget.amount).release(curator, "forecast")
    rng, errors = np.random.default_rng(seed + 1), []
    for band in size_bands(grid):
        asked = band.draw(grid, ASKED, rng)
        truth = count_distinct(walks, asked, grid)
        off = np.abs(release.counts(Snapped.of(asked, grid)).value - truth)
        answer = float(truth.mean())
        errors.append(ExpectedError(band, answer * trips / stand_ins, float(off.mean()) / max(answer, 1e-9)))
    questions = (PlannedQuestion(paid.kind, paid.name, float(paid.cost / curator.spent)) for paid in curator.paid)
    labels = ("Made-up city, skewed",)
    return Forecast(trips, float(signal), bool(release.note), tuple(questions), tuple(errors), labels)


def _signal(plan: Plan, trips: int) -> Fraction:
    return trips * plan.epsilon / plan.unit.max_trips
