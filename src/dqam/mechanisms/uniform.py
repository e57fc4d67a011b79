"""The floor: trips spread evenly over the grid. Also what every other mechanism starts from.

Where only a density of visits is known, it is taken for the faces, and edges follow the mean of their two faces
(`spread`). Faces together and edges together then have one factor each, and two numbers to meet: F - E over the grid is
the number of trips, and the answers to the query set are right on average (`fit`). The second is what makes a histogram
of visits answer distinct counts: a trip that comes back to a rectangle crosses its border again and again, but counts
once. For a constant density all faces are equal and all edges are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dqam.consistency.pairwise import is_consistent, make_consistent
from dqam.errors import InputError
from dqam.geometry.arrays import Floats, Integers
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.regions import coverage
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.statistics.questions import QueryTotals
from dqam.statistics.records import MOST_TRIPS
from dqam.values.guarantee import spell

LOOK = Fraction(1, 5)  # of the budget, to see how much there is to measure
POOR = 400.0  # worth below which it is looked at twice
GLIMPSE, CLEAR = 1.25, 5.0  # standard deviations that the number of trips must be above 0, after one look and after two
DOUBT = 0.3  # by how much of itself the guess at the mean answer may be wrong


class EmptyMapError(InputError):
    """A noisy look found hardly anything on the map; what it cost is spent, and nothing else."""

    def __init__(self, curator: Curator) -> None:
        super().__init__(
            "A private look at the number of trips found hardly anything on the map. The publication ended there: "
            f"epsilon {spell(curator.spent)} was spent, and nothing was published. Check bounds, axes and CRS against "
            "a public map and look at the data with `dqam inspect`, or publish anyway with sure=True (--sure)."
        )


@dataclass(frozen=True, eq=False)
class Size:
    """How many trips there are, and the mean answer to the queries; both noisy.

    covers  the share of the queries that hold each face, each vertical and each horizontal edge
    worth   trips * eps for one trip of a unit: how much can be learned at all
    noise   the standard deviation of trips; that of the answer, and of trips less the answer, is 0.71 of it
    enough  whether there is what the mechanism needs
    """

    covers: tuple[Floats, Floats, Floats]
    trips: float
    answer: float
    worth: float
    noise: float = 0.0
    enough: bool = True

    def unclear(self, deviations: float) -> bool:
        """Whether the number of trips is within so many standard deviations of 0."""
        return self.trips < deviations * self.noise


def two_looks(worth: float) -> Fraction:
    """A fifth of the budget for the size, or two where there is little to see anyway."""
    return 2 * LOOK if worth < POOR else LOOK


def measure_size(
    curator: Curator,
    queries: Integers,
    budget: Budget,
    least: float = np.inf,
    first: Fraction = LOOK,
    share: Callable[[float], Fraction] = two_looks,
) -> Size:
    """The size of the data set, measured with the share `first` of `budget`. A second look may bring that to the share
    `share(worth)`, for the worth that the first look finds.

    If the worth after any look is below `least`, the size is not `enough`: all of the remaining budget goes into it,
    and a mechanism should spread the trips evenly.

    With a wary curator, the publication ends with an `EmptyMapError` if the number of trips cannot be distinguished
    from 0: after the first look if it is below 1.25 standard deviations of its noise, after another look if it is below
    5. For a first look of 1/20 of the budget, 1.25 is half-way between an empty map and a worth of 100. An empty map is
    then noticed in 91 % of all cases; a worth of 100 is taken for empty in 9 %, and a worth of 200 in 0.2 %. What the
    first look misses is noticed when about half of the budget is spent. All of this follows from answers of the
    curator, and tells no more than they do.
    """
    if not len(queries):
        raise InputError("A mechanism needs at least one query to be good at; got none.")
    epsilon, covers = budget.left, cover(curator.grid, queries)
    looks = [_look(curator, queries, budget, epsilon * first)]
    size = _sized(curator, covers, looks, epsilon)
    if curator.wary and size.unclear(GLIMPSE):
        raise EmptyMapError(curator)
    if size.worth >= least and share(size.worth) > first:
        looks.append(_look(curator, queries, budget, epsilon * (share(size.worth) - first)))
        size = _sized(curator, covers, looks, epsilon)
        if curator.wary and size.unclear(CLEAR):
            raise EmptyMapError(curator)
    if size.worth < least:
        if curator.wary:  # all that is left is spent on nothing only if half of it says the same
            looks.append(_look(curator, queries, budget, budget.left / 2))
            if _sized(curator, covers, looks, epsilon).unclear(CLEAR):
                raise EmptyMapError(curator)
        looks.append(_look(curator, queries, budget, budget.left))
        size = replace(_sized(curator, covers, looks, epsilon), enough=False)
    return size


def cover(grid: Grid, queries: Integers) -> tuple[Floats, Floats, Floats]:
    """The share of the queries that hold each face, each vertical and each horizontal edge.

    >>> faces, vertical, horizontal = cover(Grid((0, 0, 1, 1), 1, 2), np.array([[0, 0, 1, 1], [0, 0, 2, 1]]))
    >>> faces, vertical
    (array([[1. , 0.5]]), array([[0.5]]))
    """
    shares = []
    for less_wide, less_high in ((0, 0), (1, 0), (0, 1)):
        inner = queries - np.array([0, 0, less_wide, less_high])
        inner = inner[(inner[:, 0] < inner[:, 2]) & (inner[:, 1] < inner[:, 3])]
        shares.append(coverage(inner, grid.rows - less_high, grid.columns - less_wide) / len(queries))
    return shares[0], shares[1], shares[2]


def _look(curator: Curator, queries: Integers, budget: Budget, epsilon: Fraction) -> tuple[float, float, float]:
    """The eps, noisy trips and the noisy mean answer."""
    met, missed = curator.measure(QueryTotals(queries), budget, epsilon) / len(queries)
    return float(epsilon), float(met + missed), float(met)


def _sized(
    curator: Curator, covers: tuple[Floats, Floats, Floats], looks: list[tuple[float, float, float]], epsilon: Fraction
) -> Size:
    """Looks put together by the inverse of their variances.

    The answer is drawn to what one would guess without data (even trips, half a side long) by as much as the noise is
    wide: both widths are public.
    """
    one = curator.unit.max_trips
    weights = np.array([look[0] ** 2 for look in looks])
    trips = min(max(1.0, float(np.average([look[1] for look in looks], weights=weights))), float(MOST_TRIPS))
    measured = float(np.average([look[2] for look in looks], weights=weights))
    evenly = stretch(lift(curator.grid, np.ones(curator.grid.shape)), trips)
    guess = sum(float((share * part).sum()) for share, part in zip(covers, _parts(evenly), strict=True))
    trust = 1 / (1 + 2 / weights.sum() * (one / (DOUBT * guess)) ** 2)
    answer = min(max(trust * measured + (1 - trust) * guess, 0.0), trips)
    return Size(covers, trips, answer, trips * float(epsilon) / one, 2 * one / float(np.sqrt(weights.sum())))


def _parts(histogram: SpatialHistogram) -> tuple[Floats, Floats, Floats]:
    """Faces and, negative, edges: what an answer adds up."""
    return histogram.faces, -histogram.vertical, -histogram.horizontal


def _scaled(histogram: SpatialHistogram, faces: float, edges: float) -> SpatialHistogram:
    return SpatialHistogram(
        histogram.grid, histogram.faces * faces, histogram.vertical * edges, histogram.horizontal * edges
    )


def lift(grid: Grid, density: Floats) -> SpatialHistogram:
    """A density as faces, and edges as their means; to be brought to the right sums."""
    return SpatialHistogram(grid, density, (density[:, :-1] + density[:, 1:]) / 2, (density[:-1] + density[1:]) / 2)


def stretch(histogram: SpatialHistogram, trips: float, crossings: float | None = None) -> SpatialHistogram:
    """Faces and edges scaled to be those of trips with so many crossings; half a side of the grid, as a guess."""
    if crossings is None:
        crossings = (histogram.grid.rows + histogram.grid.columns) / 4
    edges = histogram.vertical.sum() + histogram.horizontal.sum()
    if edges <= 0:
        crossings = 0.0
    return _scaled(histogram, trips * (1 + crossings) / histogram.faces.sum(), trips * crossings / max(edges, 1e-300))


def fit(histogram: SpatialHistogram, size: Size) -> SpatialHistogram:
    """All faces scaled alike, and all edges, so that F - E is the number of trips and the mean answer is right.

    Where no query has a border inside the grid, or the factors would not be positive, trips are half a side long, or
    have no edges.
    """
    means = [float((share * part).sum()) for share, part in zip(size.covers, _parts(histogram), strict=True)]
    sums = [float(part.sum()) for part in _parts(histogram)]
    matrix = np.array([[sums[0], sums[1] + sums[2]], [means[0], means[1] + means[2]]])
    scale = matrix[:, :1]
    if scale.min() <= 0 or abs(np.linalg.det(matrix / scale)) < 1e-9 * abs(matrix / scale).max():
        return stretch(histogram, size.trips)
    faces, edges = np.linalg.solve(matrix, [size.trips, size.answer])
    if faces <= 0 or edges < 0:
        faces, edges = size.trips / sums[0], 0.0
    return _scaled(histogram, float(faces), float(edges))


def spread(grid: Grid, density: Floats, size: Size) -> SpatialHistogram:
    """The histogram of trips whose visits lie as `density` (rows x columns, with a sum above 0) says.

    >>> grid, queries = Grid((0, 0, 1, 1), 2, 2), np.array([[0, 0, 2, 1], [0, 0, 1, 2]])
    >>> four = spread(grid, np.ones((2, 2)), Size(cover(grid, queries), trips=6.0, answer=5.0, worth=6.0))
    >>> round(four.total, 9), round(four.answers(queries).mean(), 9)
    (np.float64(6.0), np.float64(5.0))
    """
    return fit(lift(grid, density), size)


def scaled_to(histogram: SpatialHistogram, total: float) -> SpatialHistogram:
    """All faces and edges scaled alike so that F - E over the grid is `total`, where it is above 0."""
    even = total / histogram.total if histogram.total > 0 else 1.0
    return _scaled(histogram, even, even)


def consistent(histogram: SpatialHistogram, size: Size) -> SpatialHistogram:
    """The histogram, or the nearest in which no edge is above a face, scaled back to the number of trips."""
    return histogram if is_consistent(histogram) else scaled_to(make_consistent(histogram), size.trips)


def spread_evenly(grid: Grid, size: Size) -> SpatialHistogram:
    """All faces equal, all edges equal."""
    return spread(grid, np.ones(grid.shape), size)


@dataclass(frozen=True)
class Uniform:
    """Trips spread evenly: only their number and the mean answer are measured."""

    def synthesize(self, curator: Curator, queries: Integers, budget: Budget) -> SpatialHistogram:
        """Spend all of `budget`."""
        size = measure_size(curator, queries, budget)
        return consistent(spread_evenly(curator.grid, size), size)
