"""Private quantiles: scores by which the curator selects a quantile of a property of trips, such as their length."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from dqam.errors import InputError
from dqam.geometry.arrays import Integers
from dqam.geometry.grid import Grid
from dqam.statistics.aggregate import Aggregate, Part, ranks
from dqam.statistics.limits import MOST_CAP
from dqam.statistics.question import OnAnyGrid


@dataclass(frozen=True, eq=False)
class Quantile:
    """Scores of candidates for the q-quantile, q = a / b, of an integer that each trip on the grid has.

    The score of a candidate is -|b * (trips at most the candidate) - a * (trips)|. Sensitivity max(a, b - a): a trip
    changes the expression inside the absolute value by b - a if its number is at most the candidate, and by -a if it is
    above; the absolute value is 1-Lipschitz. As b <= 10^6, all numbers here are below 2^51.
    """

    candidates: Integers
    quantile: Fraction
    resolution: int = field(default=1, init=False)

    def __post_init__(self) -> None:
        quantile = Fraction(self.quantile)
        if not 0 < quantile < 1 or quantile.denominator > 10**6:
            raise InputError(f"quantile must be a fraction a/b between 0 and 1 with b <= 10^6; got {self.quantile!r}.")
        object.__setattr__(self, "quantile", quantile)
        candidates = np.array(self.candidates)
        if candidates.ndim != 1 or not len(candidates) or candidates.dtype.kind not in "iu":
            raise InputError(f"candidates must be whole numbers; got {candidates.dtype} of shape {candidates.shape}.")
        candidates = candidates.astype(np.int64)
        if candidates[0] < 0 or candidates[-1] > MOST_CAP or (np.diff(candidates) <= 0).any():
            raise InputError(f"candidates must increase from at least 0 to at most {MOST_CAP:,}.")
        candidates.flags.writeable = False
        object.__setattr__(self, "candidates", candidates)

    @property
    def sensitivity(self) -> int:
        """max(a, b - a)."""
        return max(self.quantile.numerator, self.quantile.denominator - self.quantile.numerator)

    def value(self, *totals: Integers) -> Integers:
        """Scores, from the number of trips at most each candidate and, last, the number of all trips."""
        found = totals[0]
        return -np.abs(self.quantile.denominator * found[:-1] - self.quantile.numerator * found[-1])


@dataclass(frozen=True, eq=False)
class Lengths(Aggregate):
    """int64[candidates + 1]: the number of trips with at most as many crossings as each candidate.

    The last number is that of all trips on the grid.
    """

    candidates: Integers

    def add_up(self, part: Part) -> Integers:
        """Count the longest pieces by length."""
        return ranks(part.lengths, self.candidates)


@dataclass(frozen=True, eq=False)
class LengthQuantile(Quantile, OnAnyGrid):
    """Scores of candidates for a quantile of the number of crossings of a trip; see `Quantile` for the proof."""

    name: str = field(default="Cap on the length of a trip", init=False)

    @classmethod
    def on(cls, grid: Grid, quantile: Fraction) -> LengthQuantile:
        """Candidates for a grid: from 1 to 8 times its longer side, each about 5 % above the previous one.

        >>> LengthQuantile.on(Grid.over((0, 0, 1, 1), 8), Fraction(9, 10)).candidates[[0, 1, -1]].tolist()
        [1, 2, 2048]
        """
        longest = 8 * max(grid.shape)
        steps = max(2, round(np.log(longest) / np.log(1.05)))
        return cls(np.unique(np.rint(np.geomspace(1, longest, steps)).astype(np.int64)), quantile)

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """The number of trips up to each length."""
        return (Lengths(self.candidates),)
