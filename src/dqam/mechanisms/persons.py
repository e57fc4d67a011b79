"""Scale up the counts of a map to all trips, and choose how many trips of each person to keep.

For the unit 'person', a map counts at most m trips of each person. How many trips there are for each one that is kept
is a single number, the factor. It follows from how many persons have how many trips, which is measured with a small
part of the budget (`dqam.statistics.person_trips`). All answers are multiplied by the factor, so answers that never
shrink when a rectangle grows still do not. The same measurement, without another question, can choose m.

Persons are grouped by bounds on their number of trips, which grow by a factor of the square root of 2. Noise hides
groups of few persons, and the persons with most trips matter most. So the groups that stand out are used to tell what
the others are like: the estimate averages over log-normal distributions of the number of trips, each weighted by how
well it fits all noisy numbers (`KnownTrips`). How far these distributions differ is part of the uncertainty.

Where noise hides nearly everything, tens of thousands of trips of each person fit as well as ten. There, distributions
with a usual number of trips weigh more, for the factor and for the choice of m, but not for the uncertainty of the
factor: nobody knows that these persons are usual.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial

import numpy as np

from dqam.geometry.arrays import Floats
from dqam.geometry.histogram import SpatialHistogram, TwoScaleHistogram
from dqam.mechanisms.flux_fit import exactly
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.statistics import PersonTrips
from dqam.statistics.person_trips import KEPT_WEIGHT
from dqam.values.guarantee import MOST_OF_A_PERSON

# shares of the budget for one measurement after the other, and the relative standard deviation at which to stop
LOOKS = (Fraction(1, 25), 0.03), (Fraction(2, 25), 0.1), (Fraction(1, 5), np.inf)
MOST_CHOSEN = 128  # largest m that is chosen from a measurement
MIDDLES, SPREADS = np.arange(-6, 12.1, 0.25), (0.2, 0.35, 0.5, 0.65, 0.8, 1.0, 1.2, 1.5, 1.9)  # of logarithms
USUAL, UNUSUAL = 8.0, 1.6  # trips of a person on average, and how far from it most data are, in logarithms
TOLERANCE = 0.2  # standard deviation of a group from the distribution, relative
ALONE = 8.0  # standard deviations above which a group is taken as measured, whatever the distribution
UNLIKE = 1e-12  # probability that a group has nothing to do with the distribution, such as a few persons far apart
SLACK = 0.02  # relative standard deviation of the factor that is always allowed for
NOISE, POWER, LEAST = 1.6, -0.4, 0.013  # the error of a map is about NOISE * signal^POWER + LEAST
LEFT_OUT = 0.15  # how far trips that are left out differ from those that are kept, relative


def question_for(m: int | None) -> PersonTrips:
    """The question for m trips kept of each person, which is one of the bounds; None if m is to be chosen.

    >>> question_for(None).bounds[:8], question_for(10).bounds[:8]
    ((2, 3, 4, 6, 8, 11, 16, 23), (2, 3, 4, 6, 8, 10, 11, 16))
    """
    bounds = {round(2 ** (step / 2)) for step in range(2, 41)} | ({m} if m else set())
    return PersonTrips(1, tuple(sorted(bounds - {1})))


@dataclass(frozen=True)
class PersonFactor:
    """By what a map of the kept trips must be multiplied to count all trips, and how well that is known.

    max_trips  trips kept of each person
    factor     at least 1
    deviation  its standard deviation
    likely     the same, if the number of trips of persons is a usual one
    kept       number of trips that are kept
    most       trips of a person up to which persons were told apart from noise
    """

    max_trips: int
    factor: float
    deviation: float
    likely: float
    kept: float
    most: int


def measure_persons(curator: Curator, budget: Budget, choose: bool = False) -> PersonFactor:
    """Measure the factor with a part of `budget`: a little of it, and more if that leaves the factor uncertain.

    If m is to be chosen, the curator keeps that many trips of each person from then on (`Curator.narrow`).

    The answers are epsilon-private, so that a budget with a delta can still be exchanged for a pure one.
    """
    most = curator.unit.max_trips
    question = question_for(None if choose else most)
    candidates = [m for m in (1, *question.bounds) if m <= most] if choose else [most]
    whole, values, precisions = budget.left, [], []
    for share, enough in LOOKS:
        values.append(curator.measure(question, budget, whole * share, pure=True) / question.resolution)
        precisions.append(1 / (2 * float(curator.paid[-1].scale / question.resolution) ** 2))
        mean = np.average(np.stack(values), axis=0, weights=precisions)
        known = KnownTrips.of(question, mean, float(sum(precisions)) ** -0.5)
        found = min(map(known.factor, candidates), key=partial(expected_error, precision=budget.precision()))
        if found.deviation <= enough * found.factor:
            break
    if choose:
        curator.narrow(found.max_trips)
    return found


def expected_error(found: PersonFactor, precision: float) -> float:
    """The error to expect of a map of the kept trips that is scaled up, relative to the average answer.

    It is a public rule, which makes the choice of m a function of noisy answers: with a small m, there is little noise,
    but many trips are left out, which may differ from those that are kept.
    """
    of_map = NOISE * (max(found.kept, 1.0) * precision / found.max_trips) ** POWER + LEAST
    return math.hypot(of_map, 0.8 * found.likely / found.factor, LEFT_OUT * (1 - 1 / found.factor))


@dataclass(frozen=True, eq=False)
class KnownTrips:
    """What noisy values of the statistic tell about how many trips persons have.

    For each distribution of the number of trips, the true value of a group is taken to be normal: around what the
    distribution predicts, with a standard deviation of `TOLERANCE` times that and that of chance. Together with the
    noise, this gives the weight of the distribution, and how far it moves the measured values.

    question the statistic
    noise    the standard deviation of the noise in `values`
    values   float64[1 + bounds], in units of 1
    weights  float64[distributions], adding up to 1
    usual    the same, with more weight for distributions with a usual number of trips
    groups   float64[distributions, bounds]: the value of each group, given the distribution
    spread   float64[distributions, bounds]: the variances of these
    """

    question: PersonTrips
    noise: float
    values: Floats
    weights: Floats
    usual: Floats
    groups: Floats
    spread: Floats

    @classmethod
    def of(cls, question: PersonTrips, values: Floats, noise: float) -> KnownTrips:
        """What values with noise of this standard deviation tell."""
        shapes = _shapes(question.bounds)
        sizes = np.full((len(shapes), 1), max(values[0] * KEPT_WEIGHT, noise))
        for _ in range(3):  # the number of persons that fits best, by least squares with weights that depend on it
            variances = _variances(sizes * shapes) + noise**2
            fitted = (shapes * values / variances).sum(axis=1) / (shapes**2 / variances).sum(axis=1)
            sizes = np.maximum(fitted, 1.0)[:, None]
        expected = sizes * shapes
        allowed = _variances(expected)
        variances = allowed + noise**2
        fits = -((values - expected) ** 2 / variances + np.log(variances)) / 2
        fit = np.maximum(fits, math.log(UNLIKE / max(values[0] * KEPT_WEIGHT, noise))).sum(axis=1)
        weights, usual = (np.exp(each - each.max()) for each in (fit, fit + _usual()))
        trust = np.where(values > expected + ALONE * noise, 1.0, allowed / variances)[:, 1:]
        groups = expected[:, 1:] + trust * (values - expected)[:, 1:]
        weights, usual = weights / weights.sum(), usual / usual.sum()
        return cls(question, noise, values, weights, usual, groups, trust * noise**2)

    def factor(self, m: int) -> PersonFactor:
        """The factor for m trips kept of each person."""
        bounds = self.question.bounds
        beyond, kept = np.array(bounds) - 1.0, _kept_in_one(bounds, m)
        persons = max(self.values[0], 2 * self.noise) * KEPT_WEIGHT
        some = persons + (self.groups * kept).sum(axis=1)
        factors = (persons + self.groups @ beyond) / some
        low, middle, high = _quantiles(factors, self.usual)
        slopes = (beyond - factors[:, None] * kept) / some[:, None]
        of_noise = (slopes**2 * self.spread).sum(axis=1) + ((factors - 1) * KEPT_WEIGHT * self.noise / some) ** 2
        likely = math.sqrt(float(self.usual @ of_noise) + ((high - low) / 2.56) ** 2 + (SLACK * middle) ** 2)
        low, _, high = _quantiles(factors, self.weights)
        deviation = math.sqrt(float(self.weights @ of_noise) + ((high - low) / 2.56) ** 2 + (SLACK * middle) ** 2)
        clear = np.flatnonzero(self.usual @ self.groups > 2 * self.noise)
        most = max(m, bounds[clear[-1]] if len(clear) else 1)
        return PersonFactor(m, max(middle, 1.0), max(likely, deviation), likely, float(self.usual @ some), most)


def _quantiles(values: Floats, weights: Floats) -> list[float]:
    """The 10 %, 50 % and 90 % quantiles of weighted values."""
    order = np.argsort(values)
    places = np.searchsorted(np.cumsum(weights[order]), (0.1, 0.5, 0.9))
    return [float(values[order[min(place, len(order) - 1)]]) for place in places.tolist()]


def _variances(expected: Floats) -> Floats:
    """How far groups may be from what a distribution predicts."""
    return (TOLERANCE * expected) ** 2 + expected


@cache
def _distributions() -> tuple[Floats, Floats]:
    """Numbers of trips, and which share of the persons has each of them, by distribution."""
    trips = np.unique(np.rint(np.geomspace(1, MOST_OF_A_PERSON, 1_000)))
    middles, spreads = (each.reshape(-1, 1) for each in np.meshgrid(MIDDLES, SPREADS))
    logs = np.log(np.gradient(trips) / trips) - ((np.log(trips) - middles) / spreads) ** 2 / 2
    persons = np.exp(logs - logs.max(axis=1, keepdims=True))
    return trips, persons / persons.sum(axis=1, keepdims=True)


@cache
def _usual() -> Floats:
    """By how much distributions with a usual number of trips weigh more, in logarithms."""
    trips, persons = _distributions()
    return -((np.log(persons @ trips / USUAL) / UNUSUAL) ** 2) / 2


@cache
def _shapes(bounds: tuple[int, ...]) -> Floats:
    """float64[distributions, 1 + bounds]: the values of the statistic for one person."""
    trips, persons = _distributions()
    beyond = _by_group(bounds, persons * (trips - 1)) / (np.array(bounds) - 1)
    return np.column_stack([np.full(len(beyond), 1 / KEPT_WEIGHT), beyond])


@cache
def _kept_in_one(bounds: tuple[int, ...], m: int) -> Floats:
    """float64[distributions, bounds]: the kept trips beyond the first of each person, for a value of 1 of a group."""
    trips, persons = _distributions()
    kept = _by_group(bounds, persons * (np.minimum(trips, m) - 1))
    values, most = _shapes(bounds)[:, 1:], np.minimum(bounds, m) - 1.0
    return np.divide(kept, values, out=np.tile(most, (len(kept), 1)), where=values > 1e-200)


def _by_group(bounds: tuple[int, ...], amounts: Floats) -> Floats:
    """Amounts by number of trips, summed for each bound."""
    ends = np.searchsorted(_distributions()[0], (1, *bounds), side="right")
    return np.diff(np.column_stack([np.zeros(len(amounts)), amounts.cumsum(axis=1)])[:, ends], axis=1)


def made_whole(histogram: SpatialHistogram, factor: float, monotone: bool) -> SpatialHistogram:
    """All numbers of a histogram, multiplied by a factor; if it is `monotone`, without rounding errors."""
    if isinstance(histogram, TwoScaleHistogram):
        small = SpatialHistogram(histogram.grid, histogram.faces, histogram.vertical, histogram.horizontal)
        small, large = (made_whole(part, factor, monotone) for part in (small, histogram.large))
        return TwoScaleHistogram.of_two(small, large, factor * histogram.offset, histogram.side)
    numbers = (factor * np.asarray(part) for part in (histogram.faces, histogram.vertical, histogram.horizontal))
    scaled = SpatialHistogram(histogram.grid, *numbers)
    return exactly(scaled, factor * max(float(histogram.total), 0.0)) if monotone else scaled
