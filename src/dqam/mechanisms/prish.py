"""PriSH (Ghane, Kulik and Ramamohanarao, 2018): MWEM on faces and edges, reconstructed from the text available to us.

Faces and edges inside the query are scaled. An edge on the border of the query is not, and may then exceed the face
inside; a greedy rule lowers such edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dqam.consistency.greedy import clamp_edges
from dqam.geometry.arrays import Floats, Integers
from dqam.geometry.histogram import SpatialHistogram
from dqam.mechanisms.mechanism import Synthesis
from dqam.mechanisms.rounds import ByRounds, curator_oracle, measure_crossings, rounds_for, run_rounds
from dqam.mechanisms.size import measure_size
from dqam.mechanisms.spreading import lift, match_size, scaled_to, spread_evenly, stretch
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator


class FacesAndEdges:
    """A weight for each face and edge; F - E over the grid never changes. `replay` is as for `CellWeights`."""

    def __init__(self, start: SpatialHistogram, replay: bool = True) -> None:
        self._now, self._total, self._replay = clamp_edges(start), float(start.total), replay

    def histogram(self) -> SpatialHistogram:
        """The current estimate."""
        return self._now

    def learn(self, rectangles: Integers, counts: Floats) -> None:
        """Scale what is inside each rectangle by exp(error / 2n), the newest rectangle first, and clamp edges."""
        last = len(counts) if self._replay else 1
        for rectangle, count in zip(rectangles[::-1][:last], counts[::-1][:last], strict=True):
            now = self._now
            answer = float(now.answers(rectangle[None])[0])
            factor = np.exp(np.clip((count - answer) / (2 * self._total), -0.5, 0.5))
            if answer > self._total:  # F - E loses (1 - factor) * answer, and must stay positive
                factor = max(factor, 1 - self._total / 2 / answer)
            west, south, east, north = rectangle
            faces, vertical, horizontal = now.faces.copy(), now.vertical.copy(), now.horizontal.copy()
            faces[south:north, west:east] *= factor
            vertical[south:north, west : east - 1] *= factor
            horizontal[south : north - 1, west:east] *= factor
            self._now = scaled_to(clamp_edges(SpatialHistogram(now.grid, faces, vertical, horizontal)), self._total)


@dataclass(frozen=True)
class Prish(ByRounds):
    """PriSH; below a signal (trips * epsilon) of `least`, trips are spread evenly."""

    name: ClassVar[str] = "prish"
    about: ClassVar[str] = "MWEM on faces and edges (PriSH)"

    def synthesize(self, curator: Curator, queries: Integers, budget: Budget) -> Synthesis:
        """Spend all of `budget`."""
        grid, size = curator.grid, measure_size(curator, queries, budget, self.least)
        if not size.enough:
            return Synthesis(clamp_edges(spread_evenly(grid, size)))
        crossings = measure_crossings(curator, budget, size.trips)
        rounds = self.rounds or rounds_for(size.signal, most=5)
        start = stretch(lift(grid, np.ones(grid.shape)), size.trips, crossings)
        model = FacesAndEdges(start)
        played = run_rounds(model, queries, rounds, curator_oracle(curator, queries, budget, rounds), size.trips)
        return Synthesis(clamp_edges(match_size(played, size)))
