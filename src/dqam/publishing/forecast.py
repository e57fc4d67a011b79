"""Forecast the cost and the error of a publication before anything is spent, without reading the data set.

The mechanism is run on trips in the made-up city instead, on a grid with the same number of cells. The error of
answers, as a fraction of the trips, depends on the signal, trips * epsilon for one trip of a unit, so a small data set
with a large epsilon can stand in for a large one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dqam.cities import BOUNDS, city_trips
from dqam.geometry.counting import count_distinct
from dqam.geometry.grid import Grid
from dqam.geometry.rectangles import Snapped, random_rectangles
from dqam.geometry.trips import Trips
from dqam.geometry.walks import walk
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.publishing.plan import Plan
from dqam.values.guarantee import PaidQuestion, Unit

STAND_INS = 30_000  # at most so many trips are generated
ASKED = 4_000
SIZES = ((0.0, 0.01), (0.01, 0.1), (0.1, 0.3), (0.3, 1.0))  # areas of rectangles, as shares of the map


@dataclass(frozen=True)
class Expected:
    """For rectangles of one range of sizes, as fractions of the map: the mean answer and its mean error, in trips."""

    smallest: float
    largest: float
    answer: float
    off: float


@dataclass(frozen=True)
class Forecast:
    """For `trips` trips: the questions that would be asked, with their epsilon, and the errors by size of rectangle."""

    trips: int
    paid: tuple[PaidQuestion, ...]
    errors: tuple[Expected, ...]


def forecast(plan: Plan, trips: int, seed: int = 0) -> Forecast:
    """Forecast the result of `plan` for a data set of about `trips` trips."""
    stand_ins = min(trips, STAND_INS)
    scale = Fraction(trips, stand_ins)
    grid = Grid(BOUNDS, *plan.grid.shape)
    walks = walk(Trips.concat(list(city_trips(stand_ins, seed))), grid)
    budget = Budget(plan.epsilon * scale / plan.unit.max_trips)
    curator = Curator(walks, budget, SeededNoise(seed))
    release = replace(plan, grid=grid, unit=Unit.trip(), epsilon=budget.epsilon).release(curator, "forecast")
    asked = random_rectangles(grid, ASKED, np.random.default_rng(seed + 1))
    truth = count_distinct(walks, asked, grid)
    off = np.abs(release.counts(Snapped.of(asked, grid)).value - truth)
    area = (asked[:, 2] - asked[:, 0]) * (asked[:, 3] - asked[:, 1]) / (grid.rows * grid.columns)
    errors = []
    for smallest, largest in SIZES:
        found = (area > smallest) & (area <= largest)
        if found.any():
            errors.append(
                Expected(smallest, largest, *(float(values[found].mean() * scale) for values in (truth, off)))
            )
    whole = plan.epsilon / curator.spent
    paid = tuple(replace(entry, epsilon=entry.epsilon * whole) for entry in curator.paid)
    return Forecast(trips, paid, tuple(errors))
