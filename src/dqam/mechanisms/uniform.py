"""The baseline: trips are spread evenly over the grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dqam.geometry.arrays import Integers
from dqam.geometry.grid import Grid
from dqam.mechanisms.mechanism import Synthesis
from dqam.mechanisms.size import measure_size
from dqam.mechanisms.spreading import consistent, spread_evenly
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.statistics import QueryTotals, Question


@dataclass(frozen=True)
class Uniform:
    """Spread trips evenly; only their number and the average answer are measured."""

    name: ClassVar[str] = "uniform"
    about: ClassVar[str] = "trips spread evenly: the baseline"
    monotone: ClassVar[bool] = False

    def known_questions(self, grid: Grid, queries: Integers) -> tuple[Question, ...]:
        """The size."""
        return (QueryTotals(queries),)

    def synthesize(self, curator: Curator, queries: Integers, budget: Budget) -> Synthesis:
        """Spend all of `budget`."""
        size = measure_size(curator, queries, budget)
        return Synthesis(consistent(spread_evenly(curator.grid, size), size))
