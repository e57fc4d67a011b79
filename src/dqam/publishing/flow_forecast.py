"""What flows would cost and how accurate they would be, before anything is spent.

Errors come from a table that was measured on several data sets, which `flow_forecast.json` holds. They depend mostly on
the signal of flows (trips * epsilon for flows / max_trips; with a delta, sqrt(2 rho) takes the place of epsilon), and
on the size of the areas, as a share of the side of the map.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from dqam.geometry.lattice import Lattice
from dqam.mechanisms.flows import OF_ENDS, OF_SLICES, SLICE_SIDE, lattices, tile_side
from dqam.privacy.budget import Budget
from dqam.publishing.forecast_table import PlannedQuestion
from dqam.publishing.person_forecast import ExpectedFactor, combined, kept_signal
from dqam.publishing.plan import Plan
from dqam.statistics import PairCounts, Sliced

FILE = "flow_forecast.json"
MEASURED_SIDE = 256  # cells along the longer side of the maps on which errors were measured
TILES = "tiles"  # the name of the error of the table between 16 x 16 tiles


@dataclass(frozen=True)
class MeasuredFlows:
    """The results for one data set.

    label    its name, for readers
    trips    how many trips it has
    answers  by side in cells, the average answer as a share of the trips
    errors   by side in cells, or "tiles", the error at each signal of the table. For sides, the mean absolute error
             of flows between two squares with this side, relative to their average. For tiles, the sum of the absolute
             errors of all pairs of 16 x 16 tiles, relative to the number of trips
    """

    label: str
    trips: int
    answers: dict[str, float]
    errors: dict[str, tuple[float, ...]]


@dataclass(frozen=True)
class FlowForecastTable:
    """The errors of flows, measured with `version` of dqam, by signal.

    signals  the signals at which flows were measured, in ascending order
    """

    version: str
    signals: tuple[float, ...]
    data_sets: tuple[MeasuredFlows, ...]

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> FlowForecastTable:
        """Read what `to_json` returned."""
        sets = [
            {**one, "errors": {name: tuple(errors) for name, errors in one["errors"].items()}}
            for one in facts["data_sets"]
        ]
        return cls(facts["version"], tuple(facts["signals"]), tuple(MeasuredFlows(**one) for one in sets))

    def to_json(self) -> dict[str, Any]:
        """The table as JSON values."""
        return {"version": self.version, "signals": self.signals, "data_sets": [vars(one) for one in self.data_sets]}

    @property
    def sides(self) -> tuple[int, ...]:
        """The sides of areas that were measured, in cells."""
        return tuple(sorted(int(name) for name in self.data_sets[0].errors if name != TILES))

    def error(self, name: str, signal: float) -> tuple[float, float, float]:
        """The median of the error over the data sets, and its range, interpolated in logarithms.

        A signal beyond the ends of the table counts as its first or last one.
        """
        logs = np.log(np.maximum(signal, 1e-9)), np.log(self.signals)
        found = [float(np.exp(np.interp(*logs, np.log(one.errors[name])))) for one in self.data_sets]
        return float(np.median(found)), min(found), max(found)

    def answer(self, name: str) -> float:
        """The median of the average answer over the data sets, as a share of the trips."""
        return float(np.median([one.answers[name] for one in self.data_sets]))


@dataclass(frozen=True)
class ExpectedFlows:
    """The error to expect of flows between two areas of about one size.

    side       of a square with the area, in cells
    answer     average answer, in trips
    error      mean absolute error, relative to the average answer
    low, high  its range over the data sets of the table
    """

    side: float
    answer: float
    error: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class FlowForecast:
    """What to expect of the flows of a map.

    share      of the budget that they cost; the map has the rest
    signal     trips * epsilon of flows / max_trips, with sqrt(2 rho) in place of epsilon if the budget is concentrated
    tiles      tiles along the longer side of the map, between all pairs of which trips are counted
    table      sum of the absolute errors of all pairs of 16 x 16 tiles, relative to the trips, with its range
    errors     by size of the areas
    questions  what would be asked about flows, with shares of the whole budget
    data_sets  labels of the data sets that the errors were measured on
    """

    share: Fraction
    signal: float
    tiles: int
    table: tuple[float, float | None, float | None]
    errors: tuple[ExpectedFlows, ...]
    questions: tuple[PlannedQuestion, ...]
    data_sets: tuple[str, ...]


def forecast_flows(plan: Plan, trips: int, factors: list[ExpectedFactor]) -> FlowForecast | None:
    """What to expect of the flows of a map of about `trips` trips; None if the plan has none.

    factors  what to expect of scaling up, for the unit 'person'
    """
    if not plan.flows:
        return None
    budget = Budget.of(plan.promise)
    amount = budget.amount * plan.flows
    whole = trips / plan.unit.max_trips * kept_signal(factors)
    signal, of_pairs = whole * budget.precision(amount), whole * budget.precision(amount * (1 - _of_slices(plan)))
    measured, longer = measured_flows(), max(plan.grid.shape)

    def expected(name: str) -> tuple[float, float | None, float | None]:
        return combined(factors, lambda times: measured.error(name, of_pairs * times / kept_signal(factors)))

    sides = [side for side in measured.sides if side * longer >= MEASURED_SIDE]
    errors = tuple(
        ExpectedFlows(side * longer / MEASURED_SIDE, measured.answer(str(side)) * trips, *expected(str(side)))
        for side in sides
    )
    side = tile_side(signal)
    tiles = max(lattices(plan.grid, side)[0].shape)
    labels = tuple(one.label for one in measured.data_sets)
    return FlowForecast(plan.flows, signal, tiles, expected(TILES), errors, _questions(plan, side), labels)


def _of_slices(plan: Plan) -> Fraction:
    """The share of the budget for flows that slices take."""
    return Fraction(0) if plan.slicing is None else OF_SLICES


def _questions(plan: Plan, side: int) -> tuple[PlannedQuestion, ...]:
    """What would be asked about flows, as in `measure_flows`."""
    (tiles, cells), whole = lattices(plan.grid, side), Lattice.even(plan.grid, 1)
    share, of_slices, found = float(plan.flows), float(_of_slices(plan)), []
    if plan.slicing is not None:
        coarse, _ = lattices(plan.grid, SLICE_SIDE)
        found.append((Sliced(PairCounts(coarse, coarse), len(plan.slicing)).name, of_slices))
    found += [(PairCounts(*pair).name, float(OF_ENDS / 2)) for pair in ((cells, whole), (whole, cells))]
    found.append((PairCounts(tiles, tiles).name, 1 - of_slices - float(OF_ENDS)))
    return tuple(PlannedQuestion("measure", name, share * part) for name, part in found)


@cache
def measured_flows() -> FlowForecastTable:
    """The table that comes with dqam."""
    text = Path(str(files("dqam.publishing") / FILE)).read_text(encoding="utf-8")
    return FlowForecastTable.from_json(json.loads(text))
