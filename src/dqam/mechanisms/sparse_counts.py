"""Estimates of true counts from noisy ones, if most of them are small or 0.

Counts are taken to have a negative binomial distribution around expected values. Together with the noise, whose
distribution is known, Bayes' rule gives the distribution of each true count. Its mean and its quantiles are at least 0
without any cutting, so noise in empty places does not add up to trips that do not exist.

The expected values come from the counts themselves. At first, they are computed from sums of counts, which have little
noise. They are then multiplied by the ratio of counts to expected values nearby (`sharpened`), step by step from wide
neighbourhoods to narrow ones. A count is left out of its own neighbourhood. The likelihood of the noisy counts, given
the expected values, therefore shows which of these steps help, and how far counts spread around the expected values
(`shape`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.ndimage import gaussian_filter

from dqam.geometry.arrays import Floats
from dqam.runtime.threads import each_span

SHAPES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0, 1_000.0)  # small: counts differ much from the expected values
TRUSTS = (0.1, 0.3, 1.0, 3.0)  # how strongly ratios are drawn towards 1, in standard deviations of the noise
TRIED = 20_000  # counts on which a shape is chosen
LEAST = 1e-9  # expected value of any count
REACH = 12.0, 6.0  # how far a count may be from what was measured, in scales of Laplace and of Gaussian noise
FINEST = 512.0  # largest scale of noise at which every count is considered; above it, multiples of scale / FINEST
HUGE = 1e200
SEARCH = 16  # steps in which a level is found
SPANS = 8  # in which many counts are divided; the same on all machines, because sums depend on the order
NEGLIGIBLE = 1e-12  # weight, relative to all others, below which larger counts are not considered


class Counts(NamedTuple):
    """Noisy counts and their noise.

    values    float64[...]
    scale     of Laplace noise, or the standard deviation of Gaussian noise
    gaussian  whether the noise is Gaussian
    """

    values: Floats
    scale: float
    gaussian: bool

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise."""
        return self.scale * (1.0 if self.gaussian else 2**0.5)

    @property
    def unit(self) -> float:
        """The distance between neighbouring counts that are considered: 1, or more if the noise is large, because there
        would otherwise be too many."""
        return max(1.0, self.scale / FINEST)


@dataclass(frozen=True, eq=False)
class Posterior:
    """What is known about true counts.

    counts    what was measured
    expected  the expected values
    shape     of the negative binomial distribution around them
    fit       the log-likelihood of the measured counts
    """

    counts: Counts
    expected: Floats
    shape: float
    fit: float

    @classmethod
    def of(cls, counts: Counts, expected: Floats) -> Posterior:
        """The posterior with the shape that fits best."""
        step = counts.values.size // TRIED | 1  # odd, so that not only some columns of a table are tried
        tried = Counts(counts.values.ravel()[::step], counts.scale, counts.gaussian)
        fits = {shape: _summed(tried, expected.ravel()[::step], shape)[2] for shape in SHAPES}
        shape = max(fits, key=fits.__getitem__)
        return cls(counts, expected, shape, step * fits[shape])

    def moments(self) -> tuple[Floats, Floats]:
        """The means and the variances of the true counts."""
        mean, variance, _ = _summed(self.counts, self.expected.ravel(), self.shape)
        return mean.reshape(self.expected.shape), variance.reshape(self.expected.shape)

    def quantiles(self, level: float) -> Floats:
        """The quantiles of the true counts, which are whole numbers, or multiples of `Counts.unit`."""
        found, unit = np.empty(self.expected.size), self.counts.unit
        values, expected = _flat(self.counts.values) / unit, _flat(self.expected) / unit
        scale, gaussian = self.counts.scale / unit, self.counts.gaussian
        each_span(
            lambda first, last: _quantiles(
                values[first:last], expected[first:last], self.shape, scale, gaussian, level, found[first:last]
            ),
            _parts(found.size),
        )
        return unit * found.reshape(self.expected.shape)

    def adding_up_to(self, total: float) -> Floats:
        """Estimates of the true counts that add up to `total`, which is positive: quantiles, all of the same level.

        Of all numbers with this sum, these have the smallest expected sum of absolute errors. Quantiles are whole
        numbers, so the result lies between those of two levels that are very close.
        """
        levels = [0.0, 1.0]
        found = [np.zeros(self.expected.shape), self.quantiles(1.0)]
        for _ in range(SEARCH):
            level = sum(levels) / 2
            tried = self.quantiles(level)
            side = int(tried.sum() >= total)
            levels[side], found[side] = level, tried
        below, above = (float(each.sum()) for each in found)
        if not below < total <= above:  # the counts that are considered are all too large or too small
            return np.asarray(self.expected * (total / self.expected.sum()))
        return np.asarray(found[0] + (found[1] - found[0]) * ((total - below) / (above - below)))


def sharpened(posterior: Posterior, width: float) -> Posterior:
    """The posterior with expected values that follow the counts nearby, or the same if that fits less well.

    width  standard deviation of the Gaussian weights of neighbours, in cells along each axis
    """
    values, expected = posterior.counts.values, posterior.expected
    weights = _weights(width)
    own = weights.max() ** values.ndim
    noise = posterior.counts.deviation * float((weights**2).sum()) ** (values.ndim / 2)
    near, usual = (gaussian_filter(each, width, mode="constant") - own * each for each in (values, expected))
    best = posterior
    for trust in TRUSTS:
        ratio = np.maximum(near + trust * noise, 0) / (np.maximum(usual, 0) + trust * noise)
        tried = Posterior.of(posterior.counts, np.maximum(expected * ratio, LEAST))
        best = max(best, tried, key=lambda each: each.fit)
    return best


def _weights(width: float) -> Floats:
    """The weights of neighbours along one axis."""
    alone = np.zeros(2 * math.ceil(4 * width) + 3)
    alone[len(alone) // 2] = 1.0
    return np.asarray(gaussian_filter(alone, width, mode="constant"))


def _flat(values: Floats) -> Floats:
    return np.ascontiguousarray(values, dtype=np.float64).ravel()


def _parts(size: int) -> list[tuple[int, int]]:
    """Spans of counts, for all cores."""
    cuts = np.linspace(0, size, (SPANS if size > 10_000 else 1) + 1).astype(int)
    return [(int(a), int(b)) for a, b in pairwise(cuts) if a < b]


def _summed(counts: Counts, expected: Floats, shape: float) -> tuple[Floats, Floats, float]:
    """Means and variances of true counts, and the log-likelihood of the measured ones."""
    unit = counts.unit
    values, expected, scale = _flat(counts.values) / unit, _flat(expected) / unit, counts.scale / unit
    mean, variance = np.empty((2, values.size))
    fits = each_span(
        lambda first, last: _moments(
            values[first:last], expected[first:last], shape, scale, counts.gaussian,
            mean[first:last], variance[first:last],
        ),
        _parts(values.size),
    )  # fmt: skip
    return unit * mean, unit**2 * variance, sum(fits)


@njit(nogil=True, cache=True)
def _range(value, scale, gaussian):  # type: ignore[no-untyped-def]
    """The smallest and the largest count that is considered."""
    reach = scale * (REACH[1] if gaussian else REACH[0])
    low = max(0, math.floor(value - reach))
    return low, max(math.ceil(value + reach), low + 1)


@njit(nogil=True, cache=True)
def _noise(difference, scale, gaussian):  # type: ignore[no-untyped-def]
    """The probability of noise of this size, up to a factor."""
    if gaussian:
        return math.exp(-difference * difference / (2 * scale * scale))
    return math.exp(-abs(difference) / scale)


@njit(nogil=True, cache=True)
def _log_probability(count, expected, shape):  # type: ignore[no-untyped-def]
    """The logarithm of the negative binomial probability of a count."""
    return (
        math.lgamma(count + shape)
        - math.lgamma(shape)
        - math.lgamma(count + 1.0)
        + shape * math.log(shape / (expected + shape))
        + count * math.log(expected / (expected + shape))
    )


@njit(nogil=True, cache=True)
def _moments(values, expected, shape, scale, gaussian, mean, variance):  # type: ignore[no-untyped-def]
    """Fill in means and variances; return the log-likelihood of the values."""
    fit = 0.0
    for i in range(len(values)):
        low, high = _range(values[i], scale, gaussian)
        middle = max(expected[i], LEAST)
        ratio = middle / (middle + shape)
        shift, prior = _log_probability(low, middle, shape), 1.0
        total = first = second = 0.0
        for count in range(low, high + 1):
            weight = prior * _noise(values[i] - count, scale, gaussian)
            away = float(count - low)
            total += weight
            first += weight * away
            second += weight * away * away
            step = (count + shape) / (count + 1.0) * ratio
            prior *= step
            if prior > HUGE:
                prior, total, first, second = prior * 1 / HUGE, total * 1 / HUGE, first * 1 / HUGE, second * 1 / HUGE
                shift += math.log(HUGE)
            if count > values[i] and step < 1 and weight < NEGLIGIBLE * total:
                break
        if total > 0:
            mean[i] = low + first / total
            variance[i] = max(second / total - (first / total) ** 2, 0.0)
            fit += math.log(total) + shift
        else:  # so far from what was expected that the weights vanish
            mean[i], variance[i] = max(values[i], 0.0), 2 * scale * scale
            fit -= 700.0
    return fit


@njit(nogil=True, cache=True)
def _quantiles(values, expected, shape, scale, gaussian, level, found):  # type: ignore[no-untyped-def]
    """Fill in quantiles."""
    weights = np.empty(16)
    for i in range(len(values)):
        low, high = _range(values[i], scale, gaussian)
        if high - low + 1 > len(weights):
            weights = np.empty(2 * (high - low + 1))
        middle = max(expected[i], LEAST)
        ratio, prior, total, used = middle / (middle + shape), 1.0, 0.0, 0
        for count in range(low, high + 1):
            weight = prior * _noise(values[i] - count, scale, gaussian)
            weights[used] = weight
            used += 1
            total += weight
            step = (count + shape) / (count + 1.0) * ratio
            prior *= step
            if prior > HUGE:
                prior, total = prior * 1 / HUGE, total * 1 / HUGE
                for j in range(used):
                    weights[j] *= 1 / HUGE
            if count > values[i] and step < 1 and weight < NEGLIGIBLE * total:
                break
        found[i], below = max(values[i], 0.0), 0.0
        for j in range(used):
            if below + weights[j] >= level * total and weights[j] > 0:
                found[i] = low + j
                break
            below += weights[j]
