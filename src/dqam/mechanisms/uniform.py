"""The floor: trips spread evenly over the grid. Also what every other mechanism starts from.

A spatial histogram of n trips with on average `length` visits has faces that add up to n * length, and edges that add
up to n * (length - 1). Where only a density of visits is known, edges follow the mean of their two faces, by the one
ratio that makes the sums right (`spread`). For a constant density all faces are equal and all edges are equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dqam.grid import Grid
from dqam.histogram import SpatialHistogram
from dqam.partition.regions import Partition
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.statistics import FLUX, Flux, TripCount

LOOK = Fraction(1, 10)  # of the budget, to see how much there is to measure


@dataclass(frozen=True)
class Size:
    """How many trips there are, and how many visits a trip makes on average; both noisy.

    worth   trips * eps for one trip of a unit: how much can be learned at all
    enough  whether that is what the mechanism needs
    """

    trips: float
    length: float
    worth: float
    enough: bool = True


def measure_size(curator: Curator, budget: Budget, least: float = 0.0) -> Size:
    """The size of the data set, for a small part of `budget`; for all of it where the worth is below `least`.

    A mechanism whose size is not `enough` has spent everything on it and should spread the trips evenly.
    """
    epsilon = budget.left
    looks = [_look(curator, budget, epsilon * LOOK)]
    size = _sized(curator, looks, epsilon)
    if size.worth >= least > 0:
        return size
    looks.append(_look(curator, budget, budget.left))
    return Size(**{**vars(_sized(curator, looks, epsilon)), "enough": False})


def _side(grid: Grid) -> int:
    return max(1, (grid.rows + grid.columns) // 2)


def _look(curator: Curator, budget: Budget, epsilon: Fraction) -> tuple[float, float, float]:
    """Noisy trips and crossings, at most one side of the grid a trip, and the eps of each."""
    whole = Partition.whole(*curator.grid.shape)
    trips = float(curator.measure(TripCount(), budget, epsilon / 2)[0])
    crossings = float(curator.measure(Flux(whole, _side(curator.grid)), budget, epsilon / 2).sum()) / FLUX
    return float(epsilon / 2), trips, crossings


def _sized(curator: Curator, looks: list[tuple[float, float, float]], epsilon: Fraction) -> Size:
    """Looks put together by the inverse of their variances.

    The length is drawn to what one would guess without data (half a side, give or take a quarter) by as much as the
    noise is wide: both widths are public.
    """
    side, one = _side(curator.grid), curator.unit.max_trips
    weights = np.array([look[0] ** 2 for look in looks])
    trips = max(1.0, float(np.average([look[1] for look in looks], weights=weights)))
    crossings = float(np.average([look[2] for look in looks], weights=weights))
    width = 2 * side * one / np.sqrt(weights.sum()) / trips  # vertical and horizontal ones have noise of their own
    trust = 1 / (1 + (width / (side / 4)) ** 2)
    length = 1 + trust * crossings / trips + (1 - trust) * side / 2
    return Size(trips, min(max(1.0, length), side + 1.0), trips * float(epsilon) / one)


def spread(grid: Grid, density: NDArray[np.float64], size: Size) -> SpatialHistogram:
    """The histogram of `size.trips` trips of `size.length` visits, whose visits lie as `density` (rows x columns) says.

    >>> four = spread(Grid((0, 0, 1, 1), 2, 2), np.ones((2, 2)), Size(trips=6.0, length=2.0, worth=6.0))
    >>> four.faces.sum(), four.total
    (np.float64(12.0), np.float64(6.0))
    """
    total = density.sum()
    faces = density * (size.trips * size.length / total) if total > 0 else np.zeros(grid.shape)
    vertical = (faces[:, :-1] + faces[:, 1:]) / 2
    horizontal = (faces[:-1] + faces[1:]) / 2
    edges = vertical.sum() + horizontal.sum()
    ratio = size.trips * (size.length - 1) / edges if edges > 0 else 0.0
    return SpatialHistogram(grid, faces, vertical * ratio, horizontal * ratio)


def spread_evenly(grid: Grid, size: Size) -> SpatialHistogram:
    """All faces equal, all edges equal."""
    return spread(grid, np.ones(grid.shape), size)


@dataclass(frozen=True)
class Uniform:
    """Trips spread evenly: only their number and mean length are measured."""

    def synthesize(self, curator: Curator, queries: NDArray[np.int64], budget: Budget) -> SpatialHistogram:
        """Spend all of `budget`; `queries` are not looked at."""
        return spread_evenly(curator.grid, measure_size(curator, budget))
