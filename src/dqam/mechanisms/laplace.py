"""LM: noise on every cell, the same everywhere.

The paper's LM adds noise to the answer of every query; a trip can be in all of them, so the noise is as wide as there
are queries. The strongest sound form of the idea puts the noise on the cells, where a trip's mass is 1 in all, and
answers any number of queries from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dqam.geometry.arrays import Integers
from dqam.geometry.grid import Grid
from dqam.mechanisms.mechanism import Synthesis
from dqam.mechanisms.size import measure_size
from dqam.mechanisms.spreading import spread, spread_evenly
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.statistics import MASS, CellShares, QueryTotals, Question


@dataclass(frozen=True)
class Laplace:
    """Noisy cell shares. Below a signal (trips * epsilon) of `least` they hold only noise, and trips are spread evenly.

    The noise of a rectangle grows with the root of its border times the length of trips: `least` is 5 side^1.5 if not
    given, about where the noise gets less than what spreading evenly misses.
    """

    name: ClassVar[str] = "laplace"
    about: ClassVar[str] = "noise on every cell (LM)"
    monotone: ClassVar[bool] = False

    least: float | None = None

    def known_questions(self, grid: Grid, queries: Integers) -> tuple[Question, ...]:
        """The size and the cells."""
        return (QueryTotals(queries), CellShares())

    def synthesize(self, curator: Curator, queries: Integers, budget: Budget) -> Synthesis:
        """Spend all of `budget`."""
        side = sum(curator.grid.shape) / 2
        size = measure_size(curator, queries, budget, 5 * side**1.5 if self.least is None else self.least)
        if not size.enough:
            return Synthesis(spread_evenly(curator.grid, size))
        shares = curator.measure(CellShares(), budget).reshape(curator.grid.shape) / MASS
        shares += (size.trips - shares.sum()) / shares.size  # their sum is the noisiest number of all
        return Synthesis(spread(curator.grid, shares, size))
