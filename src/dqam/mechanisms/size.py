"""Noisy estimates of the number of trips and of the average answer, with which every mechanism begins.

They give the signal, trips * epsilon for one trip of a unit; with a delta, sqrt(2 rho) takes the place of epsilon
(`Budget.precision`). Mechanisms choose by it, for example, how fine a lattice is, how many rounds are run, or whether
there is enough data for anything but an even spread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from dqam.errors import InputError
from dqam.geometry.arrays import Floats, Integers
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.regions import coverage
from dqam.mechanisms.spreading import lift, parts_of_answers, stretch
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.statistics import MOST_TRIPS, QueryTotals
from dqam.values.guarantee import spell

LOOK = Fraction(1, 5)  # of the budget, for the first measurement of the size
WEAK = 400.0  # signal below which the size is measured again
GLIMPSE, CLEAR = 1.25, 5.0  # standard deviations that `trips` must be above 0, after the first and later measurements
REFINED = "Number of trips and average answer, refined"
GUESS_ERROR = 0.3  # relative standard deviation of the guess at the average answer


class EmptyMapError(InputError):
    """A noisy measurement found hardly any trips on the map; only the cost of that measurement is spent."""

    def __init__(self, curator: Curator) -> None:
        super().__init__(
            "A first, private measurement found hardly any trips on the map. The publication ended there: "
            f"{curator.budget.currency} {spell(curator.spent)} was spent, and nothing was published. Check bounds, "
            "axes and CRS against "
            "a public map and look at the data with `dqam inspect`, or publish anyway with sure=True."
        )


@dataclass(frozen=True, eq=False)
class SizeEstimate:
    """Noisy estimates of the number of trips and of the average answer to the queries.

    covers  the fraction of the queries that contain each face, each vertical and each horizontal edge
    signal  trips * epsilon (or sqrt(2 rho)) for one trip of a unit, which limits what can be learned
    noise   the standard deviation of `trips`; those of `answer` and of trips - answer are 0.71 times as large
    enough  whether the signal is sufficient for the mechanism
    """

    covers: tuple[Floats, Floats, Floats]
    trips: float
    answer: float
    signal: float
    noise: float = 0.0
    enough: bool = True

    def mean_answer(self, histogram: SpatialHistogram) -> float:
        """The average answer of a histogram to the queries."""
        return sum(
            float((share * part).sum()) for share, part in zip(self.covers, parts_of_answers(histogram), strict=True)
        )

    def unclear(self, deviations: float) -> bool:
        """Whether the number of trips is within `deviations` standard deviations of 0."""
        return self.trips < deviations * self.noise


def two_looks(signal: float) -> Fraction:
    """A fifth of the budget for the size, or two fifths if the signal is weak."""
    return 2 * LOOK if signal < WEAK else LOOK


def measure_size(
    curator: Curator,
    queries: Integers,
    budget: Budget,
    least: float = np.inf,
    first: Fraction = LOOK,
    share: Callable[[float], Fraction] = two_looks,
    margin: float = 0.0,
    delta_helps: Callable[[float], bool] | None = None,
) -> SizeEstimate:
    """Measure the number of trips and the average answer with the share `first` of `budget`.

    A second measurement may raise that to the share `share(signal)`, for the signal that the first one finds. If the
    signal is then below `least`, or after the first measurement by more than `margin` standard deviations, the size is
    not `enough`: all of the remaining budget is spent on it, and a mechanism should spread the trips evenly.

    A budget with a delta is exchanged for a pure one if that is better and allowed (`Curator.exchange`). Without
    `delta_helps` this happens at once. Otherwise a first, pure measurement gives the signal of the pure budget,
    trips * epsilon, and the budget is exchanged if `delta_helps` is False for it.

    With a wary curator, the publication ends with an `EmptyMapError` if the number of trips cannot be distinguished
    from 0: after the first measurement if it is below 1.25 standard deviations of its noise, after another one if it is
    below 5. For a first measurement with 1/20 of the budget, 1.25 is half-way between an empty map and a signal of 100.
    An empty map is then noticed in 91 % of all cases; a signal of 100 is taken for empty in 9 %, and a signal of 200 in
    0.2 %. An empty map that the first measurement misses is noticed when about half of the budget is spent. All of this
    follows from answers of the curator, and reveals no more than they do.
    """
    if not len(queries):
        raise InputError("A mechanism needs at least one query to be tuned for; got none.")
    if delta_helps is None:
        curator.exchange()
    whole, precision, covers = budget.left, budget.precision(), cover(curator.grid, queries)
    epsilon = budget.promise.epsilon if budget.concentrated and budget.promise else None  # of a pure budget
    spent = whole * first if epsilon is None else min((epsilon * first) ** 2 / 2, whole / 4)
    looks = [_look(curator, QueryTotals(queries), budget, spent, pure=epsilon is not None)]
    again = QueryTotals(queries, REFINED)
    size = _sized(curator, covers, looks, precision)
    if curator.wary and size.unclear(GLIMPSE):
        raise EmptyMapError(curator)
    signal = size.signal * float(epsilon or 0) / precision
    if epsilon and delta_helps is not None and not delta_helps(signal) and curator.exchange():
        spent = curator.paid[-1].cost  # others may have asked before
        whole, precision = budget.left + spent, budget.precision(budget.left + spent)
        size = _sized(curator, covers, looks, precision)
    slack = margin * size.noise * precision / curator.unit.max_trips
    wanted = whole * share(size.signal)
    if size.signal + slack >= least and wanted > spent:
        looks.append(_look(curator, again, budget, wanted - spent))
        size = _sized(curator, covers, looks, precision)
        if curator.wary and size.unclear(CLEAR):
            raise EmptyMapError(curator)
    if size.signal < least:
        if curator.wary:  # spend the rest on the size only if half of it confirms that there are trips
            looks.append(_look(curator, again, budget, budget.left / 2))
            if _sized(curator, covers, looks, precision).unclear(CLEAR):
                raise EmptyMapError(curator)
        looks.append(_look(curator, again, budget, budget.left))
        size = replace(_sized(curator, covers, looks, precision), enough=False)
    return size


def cover(grid: Grid, queries: Integers) -> tuple[Floats, Floats, Floats]:
    """The fraction of the queries that contain each face, each vertical and each horizontal edge.

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


class _Look(NamedTuple):
    """One measurement: the variances of its two numbers, the noisy number of trips and the noisy average answer."""

    variance: float
    trips: float
    answer: float


def _look(curator: Curator, totals: QueryTotals, budget: Budget, amount: Fraction, pure: bool = False) -> _Look:
    met, missed = curator.measure(totals, budget, amount, pure=pure) / len(totals.rectangles)
    paid = curator.paid[-1]
    scale = float(paid.scale / paid.resolution)
    return _Look((1 if paid.epsilon is None else 2) * scale**2, float(met + missed), float(met))


def _sized(
    curator: Curator, covers: tuple[Floats, Floats, Floats], looks: list[_Look], precision: float
) -> SizeEstimate:
    """Combine the measurements, weighted by the inverse of their variances.

    The answer is shrunk towards a guess made without data (evenly spread trips, half a side long), the more the wider
    the noise is; the widths of noise and guess are public.
    """
    weights = np.array([1 / look.variance for look in looks])
    trips = min(max(1.0, float(np.average([look.trips for look in looks], weights=weights))), float(MOST_TRIPS))
    measured = float(np.average([look.answer for look in looks], weights=weights))
    evenly = stretch(lift(curator.grid, np.ones(curator.grid.shape)), trips)
    guess = sum(float((share * part).sum()) for share, part in zip(covers, parts_of_answers(evenly), strict=True))
    variance = 1 / float(weights.sum())
    trust = 1 / (1 + variance / (GUESS_ERROR * guess) ** 2)
    answer = min(max(trust * measured + (1 - trust) * guess, 0.0), trips)
    signal = trips * precision / curator.unit.max_trips
    return SizeEstimate(covers, trips, answer, signal, float(np.sqrt(2 * variance)))
