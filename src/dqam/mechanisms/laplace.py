"""LM: noise on every cell, the same everywhere.

The paper's LM adds noise to the answer of every query; a trip can be in all of them, so the noise is as wide as there
are queries. The strongest sound form of the idea puts the noise on the cells, where a trip's mass is 1 in all, and
answers any number of queries from them.
"""

from __future__ import annotations

from dataclasses import dataclass

from dqam.geometry.arrays import Integers
from dqam.geometry.histogram import SpatialHistogram
from dqam.mechanisms.uniform import measure_size, spread, spread_evenly
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.statistics.questions import CellShares
from dqam.statistics.records import MASS


@dataclass(frozen=True)
class Laplace:
    """Noisy cell shares. Below a worth (trips * eps) of `least` they hold only noise, and trips are spread evenly.

    The noise of a rectangle grows with the root of its border times the length of trips: `least` is 5 side^1.5 if not
    given, about where the noise gets less than what spreading evenly misses.
    """

    least: float | None = None

    def synthesize(self, curator: Curator, queries: Integers, budget: Budget) -> SpatialHistogram:
        """Spend all of `budget`."""
        side = sum(curator.grid.shape) / 2
        size = measure_size(curator, queries, budget, 5 * side**1.5 if self.least is None else self.least)
        if not size.enough:
            return spread_evenly(curator.grid, size)
        shares = curator.measure(CellShares(), budget).reshape(curator.grid.shape) / MASS
        shares += (size.trips - shares.sum()) / shares.size  # their sum is the noisiest number of all
        return spread(curator.grid, shares, size)
