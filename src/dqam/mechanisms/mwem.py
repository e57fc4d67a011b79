"""MWEM (Hardt, Ligett and McSherry, 2012): one weight per cell, corrected by multiplicative weights.

The original works on counts of records in cells, and uses the exact number of records. Here the weight of a cell is its
face, and edges follow the mean of their two faces. An answer is therefore still a sum of weights with factors of at
least 0: 1 minus what the edges subtract, which is less at the border of the rectangle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit

from dqam.geometry.arrays import Floats, Integers
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.mechanisms.mechanism import Synthesis
from dqam.mechanisms.rounds import ByRounds, curator_oracle, measure_crossings, rounds_for, run_rounds
from dqam.mechanisms.size import measure_size
from dqam.mechanisms.spreading import lift, match_size, spread_evenly, stretch
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator


class CellWeights:
    """A weight for each cell; `lift` turns them into a histogram whose edges, if any, follow the mean of their faces.

    With `replay`, every update uses all counts so far, not only the new one, as the authors of MWEM recommend.
    """

    def __init__(self, grid: Grid, lift: Callable[[Floats], SpatialHistogram], replay: bool = True) -> None:
        self._lift, self._replay = lift, replay
        self._now = lift(np.ones(grid.shape))

    def histogram(self) -> SpatialHistogram:
        """The current estimate."""
        return self._now

    def learn(self, rectangles: Integers, counts: Floats) -> None:
        """Scale the weights inside each rectangle by exp(error / 2n), the newest rectangle first."""
        weights, now = self._now.faces.copy(), self._now
        means = (weights[:, :-1].sum() + weights[:, 1:].sum() + weights[:-1].sum() + weights[1:].sum()) / 2
        ratio = (now.vertical.sum() + now.horizontal.sum()) / means if means > 0 else 0.0
        last = len(counts) if self._replay else 1
        _scale(weights, rectangles[::-1][:last], counts[::-1][:last], ratio, now.total)
        self._now = self._lift(weights)


@njit(nogil=True, cache=True)
def _answer(weights, west, south, east, north, ratio):  # type: ignore[no-untyped-def]
    """The answer of a rectangle: each cell loses half of `ratio` for each of its edges that is inside."""
    inside = border = 0.0
    for row in range(south, north):
        for column in range(west, east):
            inside += weights[row, column]
        border += weights[row, west] + weights[row, east - 1]
    for column in range(west, east):
        border += weights[south, column] + weights[north - 1, column]
    return inside * (1 - 2 * ratio) + border * ratio / 2


@njit(nogil=True, cache=True)
def _scale(weights, rectangles, counts, ratio, total):  # type: ignore[no-untyped-def]
    for i in range(len(counts)):
        west, south, east, north = rectangles[i]
        error = counts[i] - _answer(weights, west, south, east, north, ratio)
        weights[south:north, west:east] *= np.exp(error / (2 * total))
        weights *= total / _answer(weights, 0, 0, weights.shape[1], weights.shape[0], ratio)


@dataclass(frozen=True)
class Mwem(ByRounds):
    """MWEM; below a signal (trips * epsilon) of `least`, trips are spread evenly."""

    name: ClassVar[str] = "mwem"
    about: ClassVar[str] = "multiplicative weights on cells (MWEM)"

    def synthesize(self, curator: Curator, queries: Integers, budget: Budget) -> Synthesis:
        """Spend all of `budget`."""
        grid, size = curator.grid, measure_size(curator, queries, budget, self.least)
        if not size.enough:
            return Synthesis(spread_evenly(grid, size))
        crossings = measure_crossings(curator, budget, size.trips)
        rounds = self.rounds or rounds_for(size.signal, most=20)
        model = CellWeights(grid, lambda weights: stretch(lift(grid, weights), size.trips, crossings))
        played = run_rounds(model, queries, rounds, curator_oracle(curator, queries, budget, rounds), size.trips)
        return Synthesis(match_size(played, size))
