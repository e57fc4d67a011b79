"""The choices of flux, which follow from public numbers and from the signal that it measures first.

`LaplaceRules` are for a pure budget, where noise is proportional to the L1 size of a trip and the signal is
trips * epsilon. `GaussianRules` are for a budget with a delta, where noise is proportional to the L2 size and the
signal is trips * sqrt(2 rho). On a fine lattice a trip has many small numbers, and its L2 size is far below its L1
size; so with Gaussian noise, finer lattices pay off at a weaker signal. `pure_below` says when a pure budget is better
all the same, and `delta_helps` which of the two flux uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from dqam.geometry.arrays import Integers
from dqam.geometry.lattice import Lattice
from dqam.mechanisms.flux_fit import ENDPOINT_WEIGHT
from dqam.mechanisms.flux_scales import Lowering
from dqam.statistics import MOST_CAP

FIRST_LOOK = Fraction(1, 20)  # share of the budget for the first measurement of the size
CROSSED = 600.0  # signal from which measured crossings are better than crossings derived from shares
MOST_FINE = 256  # cells along a side of the finest lattice: the time of its fit grows with the square
WHOLE_WALKS = 1.3  # replaces WALKS where nearly all walks are to remain unchanged
PURE_ABOVE = 2e6  # signal, trips * epsilon, from which a delta gains nothing
STRONGEST = 30_000.0  # signal with a delta from which the error is due to the model more than to noise
WALKS = 0.55  # size of the largest walk that is not scaled down, relative to the largest such shadow


class LaplaceRules:
    """The choices for a pure budget.

    norm        of the size of a trip, to which noise is proportional
    thresholds  factors on the thresholds of `Flux`, which are signals
    steep       ratio of the finest to the coarsest side from which a lattice between them pays off
    cap_share   part of the share of the coarsest lattice that pays for the cap on its shadows
    middle_share  part of the share of all detail for a lattice between the coarsest and the finest
    """

    norm = 1
    thresholds: Mapping[str, float] = dict.fromkeys(("crossed", "known", "rich", "detailed", "strong"), 1.0)
    steep = 4.5
    cap_share = Fraction(1, 25)
    middle_share = Fraction(2, 5)

    def size_share(self, signal: float) -> Fraction:
        """The share of the budget for the number of trips and the average answer.

        It is larger if the signal is weaker, and if nothing but shares is measured besides.

        >>> [float(LaplaceRules().size_share(signal)) for signal in (50, 100, 200, 500, 1_000, 10_000, 1e6)]
        [0.75, 0.68, 0.58, 0.47, 0.24, 0.11, 0.05]
        """
        signal = max(signal, 1.0)
        if signal < CROSSED * self.thresholds["crossed"]:
            return Fraction(round(100 * min(0.75, 0.68 * (signal / 100) ** -0.23)), 100)
        share = 0.24 * (signal / 1_000) ** -0.38 if signal < 5_000 else 0.21 * (signal / 1_000) ** -0.3
        return max(FIRST_LOOK, Fraction(round(100 * share), 100))

    def share_side(self, signal: float) -> int:
        """Cells along a side of the lattice if only shares are measured.

        >>> [LaplaceRules().share_side(signal) for signal in (100, 200, 400, 500)]
        [6, 6, 8, 9]
        """
        return max(6, round(max(signal, 1.0) ** 0.35))

    def coarsest_side(self, signal: float) -> int:
        """Cells along a side of the coarsest lattice, which answers large rectangles.

        >>> [LaplaceRules().coarsest_side(signal) for signal in (100, 1_000, 10_000, 100_000, 1e6)]
        [5, 9, 20, 32, 51]
        """
        signal = max(signal, 1.0)
        return max(5, round(min(0.8 * signal**0.35, 3.2 * signal**0.2)))

    def finest_side(self, signal: float) -> int:
        """Cells along a side of the finest lattice, which answers small rectangles.

        >>> [LaplaceRules().finest_side(signal) for signal in (10_000, 50_000, 100_000, 1e6)]
        [60, 165, 256, 256]
        """
        return max(1, min(MOST_FINE, round(60 * (max(signal, 1.0) / 10_000) ** 0.63)))

    def middle_side(self, coarsest: int, finest: int) -> int:
        """Cells along a side of a lattice between the two."""
        return 2 * coarsest

    def detail_share(self, signal: float, scale: float = 1.0) -> Fraction:
        """The share of the budget left after the size that finer lattices get: more if the signal is stronger, and if
        the queries are smaller than random rectangles by a factor `scale` above 1.

        >>> [float(LaplaceRules().detail_share(signal)) for signal in (1_000, 10_000, 100_000, 1e6)]
        [0.1, 0.27, 0.5, 0.65]
        """
        share = min(max(0.27 + 0.23 * np.log10(max(signal, 1.0) / 10_000), 0.1), 0.65)
        return Fraction(round(100 * min(max(share + 0.08 * np.log2(scale), 0.05), 0.8)), 100)

    def lowering(self, signal: float) -> Lowering:
        """How the histogram for large rectangles is made if the signal is strong."""
        return Lowering(smooth=0.5, offset=0.0075, matched=True)

    def cap_quantile(self, signal: float) -> Fraction:
        """The share of the trips to leave below the cap: fewer if noise dominates the error, nearly all if bias does.

        >>> [float(LaplaceRules().cap_quantile(signal)) for signal in (1_000, 3_000, 1e5)]
        [0.7, 0.8, 0.95]
        """
        return Fraction(round(100 * min(0.95, 0.7 + 0.22 * np.log10(max(signal, 1_000.0) / 1_000))), 100)

    def caps(self, lattice: Lattice) -> tuple[int, Integers]:
        """A guess at the cap on the size of a shadow (half a side long), and candidates for a measured one.

        With 4,096 lattice cells along a side they are at most 12,306, which is below the limit of `ShadowSums`.
        """
        guess = ENDPOINT_WEIGHT**self.norm + max(lattice.shape) / 2
        least = ENDPOINT_WEIGHT**self.norm
        return round(guess), np.unique(np.rint(np.geomspace(least, 6 * guess, 40)).astype(np.int64))

    def walk_caps(self, cap: int, coarse: Lattice, finer: list[Lattice], strong: bool) -> list[int]:
        """The caps on walks on finer lattices: about half as long as the longest shadow that is not reduced.

        At least half of the trips are then scaled down. The lower noise is worth more than what this loses, because
        only where trips pass matters here. If the signal is strong, the first finer lattice shows how often trips pass
        small rectangles, so its cap leaves nearly all walks unchanged. Caps are rounded to powers of the square root of
        2, so that engines need sums for only a few.

        >>> from dqam.geometry.grid import Grid
        >>> grid = Grid((0, 0, 1, 1), 256, 256)
        >>> coarse, fine = Lattice.even(grid, 32), Lattice.even(grid, 256)
        >>> [LaplaceRules().walk_caps(cap, coarse, [fine], False) for cap in (10, 26, 49)]
        [[32], [91], [181]]
        """
        caps = []
        for i, fine in enumerate(finer):
            share = WHOLE_WALKS if strong and i == 0 else WALKS
            caps.append(_rounded(_lengthened(cap, ENDPOINT_WEIGHT, share, coarse, fine)))
        return caps


class GaussianRules(LaplaceRules):
    """The choices for a budget with a delta."""

    norm = 2
    thresholds: Mapping[str, float] = {"crossed": 0.4, "known": 0.0, "rich": 0.2, "detailed": 0.08, "strong": 0.025}
    steep = 3.0
    cap_share = Fraction(1, 50)
    middle_share = Fraction(1, 2)

    def size_share(self, signal: float) -> Fraction:
        """See `LaplaceRules.size_share`.

        >>> [float(GaussianRules().size_share(signal)) for signal in (100, 500, 1_000, 10_000, 100_000)]
        [0.68, 0.18, 0.14, 0.06, 0.05]
        """
        if signal < CROSSED * self.thresholds["crossed"]:
            return super().size_share(signal)
        return Fraction(round(100 * min(0.2, max(0.05, 0.14 * (signal / 1_000) ** -0.4))), 100)

    def coarsest_side(self, signal: float) -> int:
        """See `LaplaceRules.coarsest_side`.

        >>> [GaussianRules().coarsest_side(signal) for signal in (200, 1_000, 2_000, 20_000, 200_000)]
        [9, 16, 20, 32, 51]
        """
        return super().coarsest_side(5 * signal)

    def finest_side(self, signal: float) -> int:
        """See `LaplaceRules.finest_side`.

        >>> [GaussianRules().finest_side(signal) for signal in (200, 1_000, 2_000, 20_000)]
        [24, 64, 97, 256]
        """
        return max(1, min(MOST_FINE, round(64 * (max(signal, 1.0) / 1_000) ** 0.6)))

    def middle_side(self, coarsest: int, finest: int) -> int:
        """The geometric mean."""
        return round((coarsest * finest) ** 0.5)

    def detail_share(self, signal: float, scale: float = 1.0) -> Fraction:
        """See `LaplaceRules.detail_share`.

        >>> [float(GaussianRules().detail_share(signal)) for signal in (1_000, 2_000, 20_000)]
        [0.45, 0.5, 0.65]
        """
        share = min(max(0.5 + 0.15 * np.log10(max(signal, 1.0) / 2_000), 0.35), 0.7)
        return Fraction(round(100 * min(max(share + 0.08 * np.log2(scale), 0.1), 0.85)), 100)

    def lowering(self, signal: float) -> Lowering:
        """See `LaplaceRules.lowering`; detail is less noisy, so that less of it has to be smoothed away."""
        if signal >= STRONGEST:
            return Lowering(smooth=0.35, offset=0.006, matched=True)
        return Lowering(smooth=0.0, offset=0.004, matched=False)

    def cap_quantile(self, signal: float) -> Fraction:
        """Nearly all trips: scaling a trip to half its size lowers the noise only by half."""
        return Fraction(19, 20) if signal >= 1_500 else Fraction(9, 10)

    def walk_caps(self, cap: int, coarse: Lattice, finer: list[Lattice], strong: bool) -> list[int]:
        """The caps on walks on finer lattices: as long as the longest shadow that is not reduced."""
        ends = ENDPOINT_WEIGHT**2 / 2
        return [_rounded(_lengthened(cap, ends, 1.0, coarse, fine)) for fine in finer]


def pure_below(epsilon: float, precision: float) -> float:
    """The signal, trips * epsilon, below which a pure budget of epsilon is better than one with a delta.

    precision  of the budget with a delta, sqrt(2 rho)

    For a sensitivity of 1, the noise of the budget with a delta is epsilon / precision times as wide: 4 to 6 times for
    a delta of 10^-8. That is worth it if the L1 size of a trip is about as many times its L2 size, a ratio that grows
    with the number of cells that a trip passes, and so with the signal, because lattices are finer if the signal is
    stronger. The power and the factor were measured.

    >>> round(pure_below(1.0, 0.1855))
    6225
    """
    return 3_300 * (epsilon / precision / 4.6) ** 4


def delta_helps(signal: float, epsilon: float, precision: float) -> bool:
    """Whether a budget with a delta is better than a pure one, for a signal of trips * epsilon.

    If the signal is very strong, nearly all of the error is due to the model, and a delta gains nothing.

    >>> [delta_helps(signal, 1.0, 0.1855) for signal in (5_000, 10_000, 1e6, 3e6)]
    [False, True, True, False]
    """
    return pure_below(epsilon, precision) <= signal < PURE_ABOVE


def _lengthened(cap: float, ends: float, share: float, coarse: Lattice, fine: Lattice) -> float:
    """The size of a walk on a finer lattice, for a walk of size `cap` on a coarse one, of which `ends` is endpoints."""
    return ends + share * max(cap - ends, 0.0) * max(fine.shape) / max(coarse.shape)


def _rounded(size: float) -> int:
    """The nearest power of the square root of 2 that may be a cap."""
    return min(round(2 ** (round(2 * np.log2(max(size, 1.0))) / 2)), MOST_CAP)
