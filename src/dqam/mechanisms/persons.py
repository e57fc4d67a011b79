"""Scale up the counts of a map to all trips: measure how many trips persons have beyond those that are kept.

For the unit 'person', a map counts at most m trips of each person. How many trips there are for each one that is kept
is a single number, the factor. It is measured with a small part of the budget (`dqam.statistics.person_trips`), and all
answers are multiplied by it, so answers that never shrink when a rectangle grows still do not.

Persons are grouped by bounds on their number of trips, which grow by a factor of the square root of 2. The noise of a
bound weighs as much as one person with that many trips, so the largest bounds matter most. Bounds are included in
ascending order for as long as they can be distinguished from noise. The trips of persons above the last of these are
part of the uncertainty, because noise could hide some such persons.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dqam.geometry.arrays import Floats
from dqam.geometry.histogram import SpatialHistogram, TwoScaleHistogram
from dqam.mechanisms.flux_fit import exactly
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.statistics import PersonTrips
from dqam.values.guarantee import MOST_OF_A_PERSON

# shares of the budget for one measurement after the other, and the relative standard deviation at which to stop
LOOKS = (Fraction(1, 25), 0.05), (Fraction(2, 25), 0.1), (Fraction(1, 5), np.inf)
BOUNDS = 16  # up to 2^8 times as many trips as are kept
CLEAR, ALONE = 1.5, 8.0  # standard deviations above which persons of the next bound, or of any, are told from noise
TOGETHER = 3  # bounds that may be told from noise together
HIDDEN, EXPECTED = 3.0, 1.0  # persons above the last bound that noise could hide, in standard deviations


@dataclass(frozen=True)
class PersonFactor:
    """By what a map of the kept trips must be multiplied to count all trips, and how well that is known.

    factor     at least 1
    deviation  its standard deviation
    most       trips of a person up to which persons were told apart from noise
    """

    factor: float
    deviation: float
    most: int


def bounds_for(max_trips: int) -> tuple[int, ...]:
    """The bounds by which persons with more than `max_trips` trips are told apart.

    >>> bounds_for(10)[:6], bounds_for(1)[:6]
    ((14, 20, 28, 40, 57, 80), (2, 3, 4, 5, 6, 8))
    """
    found: list[int] = []
    for step in range(1, BOUNDS + 1):
        bound = max(round(max_trips * 2 ** (step / 2)), max_trips + 1, found[-1] + 1 if found else 0)
        found.append(bound)
        if bound >= MOST_OF_A_PERSON:
            break
    return tuple(found)


def measure_persons(curator: Curator, budget: Budget) -> PersonFactor:
    """Measure the factor with a part of `budget`: a little of it, and more if that leaves the factor uncertain.

    The answers are epsilon-private, so that a budget with a delta can still be exchanged for a pure one.
    """
    question = PersonTrips(curator.unit.max_trips, bounds_for(curator.unit.max_trips))
    whole, values, precisions = budget.left, [], []
    for share, enough in LOOKS:
        values.append(curator.measure(question, budget, whole * share, pure=True) / question.resolution)
        precisions.append(1 / (2 * float(curator.paid[-1].scale / question.resolution) ** 2))
        mean = np.average(np.stack(values), axis=0, weights=precisions)
        found = estimate_factor(question, mean, float(sum(precisions)) ** -0.5)
        if found.deviation <= enough * found.factor:
            break
    return found


def estimate_factor(question: PersonTrips, values: Floats, noise: float) -> PersonFactor:
    """The factor from noisy values of the statistic, in units of 1, with noise of this standard deviation."""
    unit, *steps = question.trips_in_one.astype(np.float64)
    weights, last = np.array(steps), _last_clear(values[1:] / noise)
    trips, variance = float(values[1 : 1 + last] @ weights[:last]), float(np.square(noise * weights[:last]).sum())
    if last < len(weights):
        hidden = noise * weights[last]
        trips, variance = trips + EXPECTED * hidden, variance + (HIDDEN * hidden) ** 2
    kept = max(float(values[0]) * unit, 2 * noise * unit, 1.0)
    most = question.bounds[-1] / question.max_trips - 1
    more = min(max(trips, 0.0) / kept, most)
    deviation = min(math.sqrt(variance + (more * noise * unit) ** 2) / kept, most)
    return PersonFactor(1 + more, deviation, (question.max_trips, *question.bounds)[last])


def _last_clear(beyond: Floats) -> int:
    """The number of bounds up to the last one whose persons can be told from noise of standard deviation 1.

    >>> _last_clear(np.array([9.0, 1.5, 1.5, 0.0, 0.0, 2.5])), _last_clear(np.array([0.0, 0.0, 0.0, 0.0, 9.0, 0.0]))
    (3, 5)
    """
    last = 0
    while last < len(beyond):
        sums = beyond[last : last + TOGETHER].cumsum()
        clear = sums > CLEAR * np.sqrt(np.arange(1, len(sums) + 1))
        alone = np.flatnonzero(beyond[last:] > ALONE)
        if not clear.any() and not len(alone):
            break
        last += 1 + int(np.argmax(clear) if clear.any() else alone[0])
    return last


def made_whole(histogram: SpatialHistogram, factor: float, monotone: bool) -> SpatialHistogram:
    """All numbers of a histogram, multiplied by a factor; if it is `monotone`, without rounding errors."""
    if isinstance(histogram, TwoScaleHistogram):
        small = SpatialHistogram(histogram.grid, histogram.faces, histogram.vertical, histogram.horizontal)
        small, large = (made_whole(part, factor, monotone) for part in (small, histogram.large))
        return TwoScaleHistogram.of_two(small, large, factor * histogram.offset, histogram.side)
    numbers = (factor * np.asarray(part) for part in (histogram.faces, histogram.vertical, histogram.horizontal))
    scaled = SpatialHistogram(histogram.grid, *numbers)
    return exactly(scaled, factor * max(float(histogram.total), 0.0)) if monotone else scaled
