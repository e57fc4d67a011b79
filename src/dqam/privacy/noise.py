"""The noise of a release, and the same distributions from a seed for tests and experiments.

Both add to integers only: noise on floating-point numbers leaks through their low digits. `OpenDPNoise` draws
exactly, from the operating system's randomness; whatever `SeededNoise` touched is not private, and says so.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dqam.errors import InputError

Integers = NDArray[np.int64]


class Noise(Protocol):
    """Where noise comes from."""

    @property
    def private(self) -> bool:
        """Whether what it made may be published."""

    def laplace(self, values: Integers, scale: Fraction) -> Integers:
        """`values` plus discrete Laplace noise: P(k) proportional to exp(-|k| / scale)."""

    def noisy_max(self, scores: Integers, scale: Fraction) -> int:
        """The index of the largest score plus exponential noise of mean `scale` (permute and flip)."""

    def generator(self) -> np.random.Generator:
        """Randomness for choices that do not look at data."""


def check(values: Integers, scale: Fraction) -> float:
    """Refuse what a sampler would take silently; the scale as a float that is not below it."""
    if values.dtype != np.int64 or values.ndim != 1 or not len(values):
        raise InputError(f"Noise is added to a vector of int64; got {values.dtype} of shape {values.shape}.")
    if scale <= 0:
        raise InputError(f"The scale of noise is above 0; got {scale}.")
    rounded = float(scale)
    if Fraction(rounded) < scale:
        rounded = math.nextafter(rounded, math.inf)
    if rounded > 2**55 or np.abs(values).max() > 2**62:
        raise InputError(f"Values of up to {np.abs(values).max()} with noise of scale {rounded:g} do not fit 64 bits.")
    return rounded


class OpenDPNoise:
    """Exact samplers of OpenDP. This is the noise of releases."""

    private = True

    def laplace(self, values: Integers, scale: Fraction) -> Integers:
        """See `Noise.laplace`."""
        dp = _opendp()
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
        return np.array(dp.m.make_laplace(*space, scale=check(values, scale))(values), np.int64)

    def noisy_max(self, scores: Integers, scale: Fraction) -> int:
        """See `Noise.noisy_max`."""
        dp = _opendp()
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64", monotonic=False)
        measurement = dp.m.make_noisy_max(*space, dp.max_divergence(), scale=check(scores, scale))
        return int(measurement(scores))

    def generator(self) -> np.random.Generator:
        """See `Noise.generator`."""
        return np.random.default_rng()


def _opendp() -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp


class SeededNoise:
    """The same distributions from a seed: repeatable, fast, and not private."""

    private = False

    def __init__(self, seed: int | np.random.Generator) -> None:
        self._rng = np.random.default_rng(seed)

    def laplace(self, values: Integers, scale: Fraction) -> Integers:
        """See `Noise.laplace`: the difference of two geometric variables."""
        chance = -math.expm1(-1 / check(values, scale))
        up, down = self._rng.geometric(chance, (2, len(values)))
        return values + (up - down)

    def noisy_max(self, scores: Integers, scale: Fraction) -> int:
        """See `Noise.noisy_max`."""
        return int(np.argmax(scores + self._rng.exponential(check(scores, scale), len(scores))))

    def generator(self) -> np.random.Generator:
        """See `Noise.generator`."""
        return self._rng
