"""The noise of a release, and noise of the same distributions from a seed for tests and experiments.

Noise is added to integers only, because noise on floating-point numbers leaks information through their low digits.
`OpenDPNoise` samples exactly, from the operating system's randomness. `SeededNoise` is not private: the provenance of a
release made with it says so, and `publish` never uses it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from dqam.errors import InputError
from dqam.geometry.arrays import Integers
from dqam.statistics.limits import LARGEST_SUM


class Noise(Protocol):
    """A source of noise."""

    @property
    def private(self) -> bool:
        """Whether results with this noise are private, so that they may be published."""

    def laplace(self, values: Integers, scale: Fraction) -> Integers:
        """`values` plus discrete Laplace noise: P(k) proportional to exp(-|k| / scale)."""

    def gaussian(self, values: Integers, scale: Fraction) -> Integers:
        """`values` plus discrete Gaussian noise: P(k) proportional to exp(-k^2 / (2 scale^2))."""

    def noisy_max(self, scores: Integers, scale: Fraction) -> int:
        """The index of the largest score plus exponential noise of mean `scale` (permute and flip)."""

    def gumbel_max(self, scores: Integers, scale: Fraction) -> int:
        """The index of the largest score plus Gumbel noise of this scale (the exponential mechanism)."""

    def generator(self) -> np.random.Generator:
        """Randomness for choices that do not depend on data."""


WIDEST = 2**55  # the largest scale


def check_scale(scale: Fraction) -> None:
    """Refuse a scale whose noise would not fit into 64 bits. This does not depend on data."""
    if not 0 < scale <= WIDEST:
        raise InputError(
            f"Noise of scale {float(min(scale, Fraction(10**300))):.3g} cannot be added in 64 bits; "
            "use a larger epsilon or a smaller max_trips."
        )


def within_64_bits(values: Integers, scale: Fraction) -> tuple[Integers, float]:
    """Values and scale in the form that a sampler accepts.

    Values are clamped to +-LARGEST_SUM rather than refused: a refusal would depend on the data. Clamping never raises a
    sensitivity, because it brings no two numbers further apart; questions within their limits (`dqam.statistics`) have
    nothing to clamp. OpenDP then adds noise in integers of any size and clamps the sum to 64 bits, which depends only
    on the noisy value. The scale is rounded up to a float.
    """
    if values.dtype != np.int64 or values.ndim != 1 or not len(values):
        raise InputError(
            f"Noise can be added only to a non-empty vector of int64; got {values.dtype} of shape {values.shape}."
        )
    check_scale(scale)
    rounded = float(scale)
    if Fraction(rounded) < scale:
        rounded = math.nextafter(rounded, math.inf)
    return np.clip(values, -LARGEST_SUM, LARGEST_SUM), rounded


class OpenDPNoise:
    """OpenDP's exact samplers. This is the noise of releases."""

    private = True

    def laplace(self, values: Integers, scale: Fraction) -> Integers:
        """See `Noise.laplace`."""
        dp = _opendp()
        values, width = within_64_bits(values, scale)
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
        return np.array(dp.m.make_laplace(*space, scale=width)(values), np.int64)

    def gaussian(self, values: Integers, scale: Fraction) -> Integers:
        """See `Noise.gaussian`."""
        dp = _opendp()
        values, width = within_64_bits(values, scale)
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
        return np.array(dp.m.make_gaussian(*space, scale=width)(values), np.int64)

    def noisy_max(self, scores: Integers, scale: Fraction) -> int:
        """See `Noise.noisy_max`."""
        return self._largest(scores, scale, _opendp().max_divergence())

    def gumbel_max(self, scores: Integers, scale: Fraction) -> int:
        """See `Noise.gumbel_max`."""
        return self._largest(scores, scale, _opendp().zero_concentrated_divergence())

    def _largest(self, scores: Integers, scale: Fraction, measure: Any) -> int:
        """OpenDP draws exponential noise for pure differential privacy, and Gumbel noise for zCDP."""
        dp = _opendp()
        scores, width = within_64_bits(scores, scale)
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64", monotonic=False)
        return int(dp.m.make_noisy_max(*space, measure, scale=width)(scores))

    def generator(self) -> np.random.Generator:
        """See `Noise.generator`."""
        return np.random.default_rng()


def _opendp() -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp


class SeededNoise:
    """Noise of the same distributions from a seed: repeatable, fast and not private."""

    private = False

    def __init__(self, seed: int | np.random.Generator) -> None:
        self._rng = np.random.default_rng(seed)

    def laplace(self, values: Integers, scale: Fraction) -> Integers:
        """See `Noise.laplace`; the noise is the difference of two geometric variables."""
        values, width = within_64_bits(values, scale)
        chance = -math.expm1(-1 / width)
        up, down = self._rng.geometric(chance, (2, len(values)))
        return values + (up - down)

    def gaussian(self, values: Integers, scale: Fraction) -> Integers:
        """See `Noise.gaussian`; by rejection from discrete Laplace noise (Canonne, Kamath and Steinke, 2020)."""
        values, width = within_64_bits(values, scale)
        wide = math.floor(width) + 1
        noise, missing = np.zeros(len(values), np.int64), np.arange(len(values))
        while len(missing):
            up, down = self._rng.geometric(-math.expm1(-1 / wide), (2, len(missing)))
            tried = up - down
            chance = np.exp(-((np.abs(tried) - width**2 / wide) ** 2) / (2 * width**2))
            kept = self._rng.random(len(missing)) < chance
            noise[missing[kept]] = tried[kept]
            missing = missing[~kept]
        return values + noise

    def noisy_max(self, scores: Integers, scale: Fraction) -> int:
        """See `Noise.noisy_max`."""
        scores, width = within_64_bits(scores, scale)
        return int(np.argmax(scores + self._rng.exponential(width, len(scores))))

    def gumbel_max(self, scores: Integers, scale: Fraction) -> int:
        """See `Noise.gumbel_max`."""
        scores, width = within_64_bits(scores, scale)
        return int(np.argmax(scores + self._rng.gumbel(0, width, len(scores))))

    def generator(self) -> np.random.Generator:
        """See `Noise.generator`."""
        return self._rng
