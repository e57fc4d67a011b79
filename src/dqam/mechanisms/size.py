"""How much there is to measure: the number of trips and the average answer, both noisy.

Every mechanism begins with this. The signal, trips * epsilon for one trip of a unit, is what its rules follow: how fine
a lattice, how many rounds, or whether anything but an even spread can be learned at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dqam.errors import InputError
from dqam.geometry.arrays import Floats, Integers
from dqam.geometry.grid import Grid
from dqam.geometry.regions import coverage
from dqam.mechanisms.spreading import lift, parts_of_answers, stretch
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.statistics import MOST_TRIPS, QueryTotals
from dqam.values.guarantee import spell

LOOK = Fraction(1, 5)  # of the budget, to see how much there is to measure
WEAK = 400.0  # signal below which a second look is taken
GLIMPSE, CLEAR = 1.25, 5.0  # standard deviations that the number of trips must be above 0, after one look and after two
GUESS_ERROR = 0.3  # by how much of itself the guess at the average answer may be wrong


class EmptyMapError(InputError):
    """A noisy look found hardly anything on the map; what it cost is spent, and nothing else."""

    def __init__(self, curator: Curator) -> None:
        super().__init__(
            "A first, private measurement found hardly any trips on the map. The publication ended there: "
            f"epsilon {spell(curator.spent)} was spent, and nothing was published. Check bounds, axes and CRS against "
            "a public map and look at the data with `dqam inspect`, or publish anyway with sure=True."
        )


@dataclass(frozen=True, eq=False)
class SizeEstimate:
    """How many trips there are, and the average answer to the queries; both noisy.

    covers  the share of the queries that contain each face, each vertical and each horizontal edge
    signal  trips * epsilon for one trip of a unit: how much can be learned at all
    noise   the standard deviation of trips; that of the answer, and of trips less the answer, is 0.71 of it
    enough  whether there is what the mechanism needs
    """

    covers: tuple[Floats, Floats, Floats]
    trips: float
    answer: float
    signal: float
    noise: float = 0.0
    enough: bool = True

    def unclear(self, deviations: float) -> bool:
        """Whether the number of trips is within so many standard deviations of 0."""
        return self.trips < deviations * self.noise


def two_looks(signal: float) -> Fraction:
    """A fifth of the budget for the size, or two where there is little to see anyway."""
    return 2 * LOOK if signal < WEAK else LOOK


def measure_size(
    curator: Curator,
    queries: Integers,
    budget: Budget,
    least: float = np.inf,
    first: Fraction = LOOK,
    share: Callable[[float], Fraction] = two_looks,
) -> SizeEstimate:
    """The size of the data set, measured with the share `first` of `budget`. A second look may bring that to the share
    `share(signal)`, for the signal that the first look finds.

    If the signal after any look is below `least`, the size is not `enough`: all of the remaining budget goes into it,
    and a mechanism should spread the trips evenly.

    With a wary curator, the publication ends with an `EmptyMapError` if the number of trips cannot be distinguished
    from 0: after the first look if it is below 1.25 standard deviations of its noise, after another look if it is below
    5. For a first look of 1/20 of the budget, 1.25 is half-way between an empty map and a signal of 100. An empty map
    is then noticed in 91 % of all cases; a signal of 100 is taken for empty in 9 %, and a signal of 200 in 0.2 %. What
    the first look misses is noticed when about half of the budget is spent. All of this follows from answers of the
    curator, and tells no more than they do.
    """
    if not len(queries):
        raise InputError("A mechanism needs at least one query to be tuned for; got none.")
    epsilon, covers = budget.left, cover(curator.grid, queries)
    looks = [_look(curator, QueryTotals(queries), budget, epsilon * first)]
    again = QueryTotals(queries, "Number of trips and average answer, refined")
    size = _sized(curator, covers, looks, epsilon)
    if curator.wary and size.unclear(GLIMPSE):
        raise EmptyMapError(curator)
    if size.signal >= least and share(size.signal) > first:
        looks.append(_look(curator, again, budget, epsilon * (share(size.signal) - first)))
        size = _sized(curator, covers, looks, epsilon)
        if curator.wary and size.unclear(CLEAR):
            raise EmptyMapError(curator)
    if size.signal < least:
        if curator.wary:  # all that is left is spent on nothing only if half of it says the same
            looks.append(_look(curator, again, budget, budget.left / 2))
            if _sized(curator, covers, looks, epsilon).unclear(CLEAR):
                raise EmptyMapError(curator)
        looks.append(_look(curator, again, budget, budget.left))
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


def _look(curator: Curator, totals: QueryTotals, budget: Budget, epsilon: Fraction) -> tuple[float, float, float]:
    """The epsilon, the noisy number of trips and the noisy average answer."""
    met, missed = curator.measure(totals, budget, epsilon) / len(totals.rectangles)
    return float(epsilon), float(met + missed), float(met)


def _sized(
    curator: Curator, covers: tuple[Floats, Floats, Floats], looks: list[tuple[float, float, float]], epsilon: Fraction
) -> SizeEstimate:
    """Looks put together by the inverse of their variances.

    The answer is drawn to what one would guess without data (even trips, half a side long) by as much as the noise is
    wide: both widths are public.
    """
    one = curator.unit.max_trips
    weights = np.array([look[0] ** 2 for look in looks])
    trips = min(max(1.0, float(np.average([look[1] for look in looks], weights=weights))), float(MOST_TRIPS))
    measured = float(np.average([look[2] for look in looks], weights=weights))
    evenly = stretch(lift(curator.grid, np.ones(curator.grid.shape)), trips)
    guess = sum(float((share * part).sum()) for share, part in zip(covers, parts_of_answers(evenly), strict=True))
    trust = 1 / (1 + 2 / weights.sum() * (one / (GUESS_ERROR * guess)) ** 2)
    answer = min(max(trust * measured + (1 - trust) * guess, 0.0), trips)
    return SizeEstimate(covers, trips, answer, trips * float(epsilon) / one, 2 * one / float(np.sqrt(weights.sum())))
