"""LM, the Laplace mechanism: noise of the same scale on every cell.

The paper's LM adds noise to the answer of every query. A trip can be in all of them, so the scale of the noise is
proportional to the number of queries. The strongest sound form of this idea adds the noise to the cells, where the mass
of a trip is 1 in total, and answers any number of queries from them.
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
    """Noisy cell shares. Below a signal (trips * epsilon) of `least`, which is mostly noise, trips are spread evenly.

    The noise of a rectangle grows with the square root of its border times the length of trips. By default, `least` is
    5 side^1.5, which is about where the noise becomes smaller than the error of an even spread.
    """

    name: ClassVar[str] = "laplace"
    about: ClassVar[str] = "noise on every cell (LM)"
    monotone: ClassVar[bool] = False

    least: float | None = None

    def known_questions(self, grid: Grid, queries: Integers) -> tuple[Question, ...]:
        """The size and the cell shares."""
        return (QueryTotals(queries), CellShares())

    def synthesize(self, curator: Curator, queries: Integers, budget: Budget) -> Synthesis:
        """Spend all of `budget`."""
        side = sum(curator.grid.shape) / 2
        size = measure_size(curator, queries, budget, 5 * side**1.5 if self.least is None else self.least)
        if not size.enough:
            return Synthesis(spread_evenly(curator.grid, size))
        shares = curator.measure(CellShares(), budget).reshape(curator.grid.shape) / MASS
        shares += (size.trips - shares.sum()) / shares.size  # `trips` is less noisy than the sum
        return Synthesis(spread(curator.grid, shares, size))
