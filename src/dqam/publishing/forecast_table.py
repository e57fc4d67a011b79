"""The measured errors of flux by signal and size of the rectangle, which `forecast.json` holds.

Relative to the average answer, the errors of flux depend mostly on the signal and on the size of the rectangles, so a
table measured on several data sets shows what to expect for another. There is one table for pure budgets and one for
budgets with a delta, whose noise is Gaussian. `python -m benchmarks.forecast_table` writes the file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from dqam.geometry.arrays import Floats

FILE = "forecast.json"
PURE, GAUSSIAN = "pure", "gaussian"  # names of the two tables


@dataclass(frozen=True)
class PlannedQuestion:
    """A question that a mechanism would ask, and the share of the budget (epsilon or rho) that it would spend on it.

    kind  "measure", "select" or "partition"
    name  the question in words
    """

    kind: str
    name: str
    share: float


@dataclass(frozen=True)
class MeasuredError:
    """What the data sets of the table show for one band of sizes.

    answer     median of the average answer, as a share of the trips
    error      median of the mean absolute error, relative to the average answer of the same data set
    low, high  its range over the data sets
    """

    answer: float
    error: float
    low: float
    high: float


@dataclass(frozen=True)
class MeasuredDataSet:
    """The results for one data set.

    label    its name, for readers
    trips    the numbers of trips that were used
    answers  by band, the average answer as a share of the trips
    errors   by band, the relative error at each signal of the table; None where the data set has too few trips
    """

    label: str
    trips: tuple[int, ...]
    answers: dict[str, float]
    errors: dict[str, tuple[float | None, ...]]


@dataclass(frozen=True)
class ForecastTable:
    """The errors of a mechanism, measured with `version` of dqam, by signal.

    signals  the signals at which it was run, in ascending order: trips * epsilon or, with a delta, trips * sqrt(2 rho)
    budgets  the questions that it asked at each of them
    """

    version: str
    mechanism: str
    signals: tuple[float, ...]
    budgets: tuple[tuple[PlannedQuestion, ...], ...]
    data_sets: tuple[MeasuredDataSet, ...]

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> ForecastTable:
        """Read what `to_json` returned."""
        return cls(
            facts["version"],
            facts["mechanism"],
            tuple(facts["signals"]),
            tuple(tuple(PlannedQuestion(**asked) for asked in budget) for budget in facts["budgets"]),
            tuple(
                MeasuredDataSet(
                    one["label"],
                    tuple(one["trips"]),
                    one["answers"],
                    {band: tuple(errors) for band, errors in one["errors"].items()},
                )
                for one in facts["data_sets"]
            ),
        )

    def to_json(self) -> dict[str, Any]:
        """The table as JSON values."""
        return {
            "version": self.version,
            "mechanism": self.mechanism,
            "signals": self.signals,
            "budgets": [[vars(asked) for asked in budget] for budget in self.budgets],
            "data_sets": [vars(one) for one in self.data_sets],
        }

    def error(self, band: str, signal: float) -> MeasuredError:
        """The error to expect for a band of sizes at a signal, interpolated between the signals of the table.

        A signal beyond the ends of the table counts as its first or last one.
        """
        signal = min(max(signal, self.signals[0]), self.signals[-1])
        answers, errors = [], []
        for one in self.data_sets:
            found = _interpolate(self.signals, one.errors[band], signal)
            if found is not None:
                answers.append(one.answers[band])
                errors.append(found)
        return MeasuredError(float(np.median(answers)), float(np.median(errors)), min(errors), max(errors))

    def budget(self, signal: float) -> tuple[PlannedQuestion, ...]:
        """The division of the budget at a signal, interpolated between the neighbouring signals of the table; if these
        have different questions, the division at the nearer one."""
        logs = np.log(self.signals)
        place = float(np.interp(np.log(signal), logs, np.arange(len(logs))))
        before, after = self.budgets[int(np.floor(place))], self.budgets[int(np.ceil(place))]
        part = place - np.floor(place)
        if [asked.name for asked in before] != [asked.name for asked in after]:
            return before if part < 0.5 else after
        return tuple(
            PlannedQuestion(one.kind, one.name, float((1 - part) * one.share + part * other.share))
            for one, other in zip(before, after, strict=True)
        )


def _interpolate(signals: tuple[float, ...], errors: tuple[float | None, ...], signal: float) -> float | None:
    """The error at a signal, interpolated in logarithms; None outside the range of signals that were measured."""
    known = [(at, error) for at, error in zip(signals, errors, strict=True) if error is not None]
    x, y = (np.array(values) for values in zip(*known, strict=True))
    if not x[0] <= signal <= x[-1]:
        return None
    logs: Floats = np.interp(np.log(signal), np.log(x), np.log(y))
    return float(np.exp(logs))


@cache
def measured_tables() -> dict[str, ForecastTable]:
    """The tables of flux that come with dqam, by name: "pure" and "gaussian"."""
    facts = json.loads(Path(str(files("dqam.publishing") / FILE)).read_text(encoding="utf-8"))
    return {name: ForecastTable.from_json(table) for name, table in facts.items()}


def measured_table(concentrated: bool = False) -> ForecastTable:
    """The table of flux for a budget of epsilon or, if it is `concentrated`, of rho."""
    return measured_tables()[GAUSSIAN if concentrated else PURE]
