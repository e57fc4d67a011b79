"""What slices would cost and how accurate their numbers of trips would be, before anything is spent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dqam.geometry.lattice import Lattice
from dqam.mechanisms.slices import OF_SIZES, SHARE, slice_side
from dqam.privacy.budget import Budget
from dqam.publishing.forecast_table import PlannedQuestion
from dqam.publishing.plan import Plan
from dqam.statistics import GroupShares, QueryTotals, Sliced


@dataclass(frozen=True)
class SliceForecast:
    """What to expect of the slices of a map.

    count      number of slices
    share      of the budget that they cost, however many there are
    trips      average number of trips in a slice
    side       cells along a side of the lattice on which the trips of slices are measured
    deviation  standard deviation of the noise in the measured number of trips of any slice
    questions  what would be asked about them, with shares of the whole budget
    """

    count: int
    share: Fraction
    trips: float
    side: int
    deviation: float
    questions: tuple[PlannedQuestion, ...]


def forecast_slices(plan: Plan, trips: int) -> SliceForecast | None:
    """What to expect of the slices of a map of about `trips` trips; None if the plan has none."""
    if plan.slicing is None:
        return None
    count, whole = len(plan.slicing), Budget.of(plan.promise)
    budget = whole.amount * SHARE
    signal = trips * whole.precision(budget) / plan.unit.max_trips / count
    lattice = Lattice.even(plan.grid, slice_side(signal))
    # each trip adds 1, spread over two numbers: one for the rectangles that it meets, one for those that it misses
    of_one = 1.0 if whole.concentrated else math.sqrt(2)
    deviation = math.sqrt(2) * of_one * plan.unit.max_trips / whole.precision(budget * OF_SIZES)
    questions = (
        PlannedQuestion("measure", Sliced(QueryTotals(plan.queries), count).name, float(SHARE * OF_SIZES)),
        PlannedQuestion("measure", Sliced(GroupShares(lattice.labels), count).name, float(SHARE * (1 - OF_SIZES))),
    )
    return SliceForecast(count, SHARE, trips / count, max(lattice.shape), deviation, questions)
