"""Endpoints: how many trips start and end in each region."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from dqam.geometry.arrays import Integers
from dqam.geometry.regions import Partition
from dqam.statistics.aggregate import Aggregate, Part
from dqam.statistics.question import OnPartition


@dataclass(frozen=True)
class EndpointsByCell(Aggregate):
    """int64[rows * columns]: starts plus ends in each cell."""

    def add_up(self, part: Part) -> Integers:
        """The first and the last cell of each longest piece."""
        walks, pieces = part.walks, part.longest[part.longest >= 0]
        ends = np.concatenate([walks.cells[walks.pieces[pieces]], walks.cells[walks.pieces[pieces + 1] - 1]])
        return np.bincount(ends, minlength=walks.grid.rows * walks.grid.columns).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Endpoints(OnPartition):
    """Starts plus ends in each region: int64[regions].

    Sensitivity 2: a trip has one longest piece, with one start and one end, each in exactly one region. In L2 it is 2
    as well, if both are in the same region.
    """

    partition: Partition
    name: str = field(default="Starts and ends by region", init=False)
    resolution: int = field(default=1, init=False)
    sensitivity: ClassVar[int] = 2
    l2_squared: ClassVar[int] = 4

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """Starts and ends by cell."""
        return (EndpointsByCell(),)

    def value(self, *totals: Integers) -> Integers:
        """The cells of each region added up."""
        ends = np.zeros(len(self.partition), np.int64)
        np.add.at(ends, self.partition.labels.ravel(), totals[0])
        return ends
