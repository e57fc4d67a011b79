"""What the tests of engines ask, and of which points."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np

import dqam
from dqam import cities
from dqam.geometry.grid import Grid
from dqam.geometry.lattice import Lattice
from dqam.privacy.aggregates import Aggregates, Engine
from dqam.privacy.contribution import ContributionBound
from dqam.publishing.pipeline import aggregates_of
from dqam.publishing.plan import Plan
from dqam.statistics.cell_shares import MassByCell
from dqam.statistics.distinct import DistinctTrips
from dqam.statistics.endpoints import EndpointsByCell
from dqam.statistics.trip_count import TripsOnGrid

GRID = Grid.over(cities.BOUNDS, 5)
LATTICE = Lattice.even(GRID, 7)
CAPS = np.array([3, 5, 9, 17, 40])
TRIPS = 1_500


def with_first_scan(engine: Engine, queries: np.ndarray) -> Aggregates:
    """Totals of an engine that begins with what every mechanism asks, and more."""
    first = TripsOnGrid(), DistinctTrips(queries), MassByCell(), EndpointsByCell()
    return Aggregates(engine, first)


Make = Callable[[Plan, ContributionBound], AbstractContextManager[Aggregates]]


def in_memory(shuffled: Path) -> Make:
    return lambda plan, bound: aggregates_of(plan, dqam.read(shuffled), bound)
