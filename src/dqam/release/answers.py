"""Answers to queries: estimated numbers of distinct trips, with confidence intervals."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

from dqam.geometry.arrays import Floats
from dqam.geometry.rectangles import HEADER, Snapped

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Answer:
    """The estimated number of distinct trips through a rectangle, with a confidence interval.

    low, high  ends of the interval; NaN if the mechanism gives none
    grown      whether a side of the rectangle moved outward to the next grid line
    cut        whether a part of the rectangle was outside the map and was cut off

    >>> answer = Answer(1234.5, 1100.2, 1400.9)
    >>> print(answer)
    1,234 (1,100 to 1,401)
    >>> value, low, high = answer
    >>> float(answer) == value, f"{answer:.1f}", str(answer - Answer(1000.0, 900.0, 1100.0))
    (True, '1234.5', '234 (0 to 501)')
    """

    value: float
    low: float
    high: float
    grown: bool = False
    cut: bool = False

    def __float__(self) -> float:
        return self.value

    def __iter__(self) -> Iterator[float]:
        """Value, low and high."""
        return iter((self.value, self.low, self.high))

    def __sub__(self, other: Answer | float) -> Answer:
        """The difference, with an interval between both extremes, which is wider than one of the same confidence."""
        if isinstance(other, Real):
            other = Answer(float(other), float(other), float(other))
        if not isinstance(other, Answer):
            return NotImplemented
        low, high = self.low - other.high, self.high - other.low
        return Answer(self.value - other.value, low, high, self.grown or other.grown, self.cut or other.cut)

    def __rsub__(self, other: float) -> Answer:
        return Answer(float(other), float(other), float(other)) - self if isinstance(other, Real) else NotImplemented

    def __format__(self, spec: str) -> str:
        """The value as a number in the form `spec`; without one, the same as `str`."""
        return format(self.value, spec) if spec else str(self)

    def __str__(self) -> str:
        """The answer in whole trips, for people to read."""
        if np.isnan(self.low):
            return f"{self.value:,.0f}"
        return f"{self.value:,.0f} ({self.low:,.0f} to {self.high:,.0f})"


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers to many rectangles, float64[m] each, and the rectangles of whole cells that they are for."""

    value: Floats
    low: Floats
    high: Floats
    rectangles: Snapped

    def __len__(self) -> int:
        return len(self.value)

    def __getitem__(self, i: int) -> Answer:
        i = operator.index(i)
        flags = bool(self.rectangles.grown[i]), bool(self.rectangles.cut[i])
        return Answer(float(self.value[i]), float(self.low[i]), float(self.high[i]), *flags)

    def __repr__(self) -> str:
        shown = ", ".join(str(self[i]) for i in range(min(3, len(self))))
        asked = f"{len(self):,} rectangle{'' if len(self) == 1 else 's'}"
        return f"<Answers to {asked}{': ' if len(self) else ''}{shown}{', ...' if len(self) > 3 else ''}>"

    def to_frame(self) -> pandas.DataFrame:
        """A table with a row for each rectangle: its sides as asked, trips, low, high, and whether it was grown or
        cut."""
        import pandas

        columns = dict(zip(HEADER, self.rectangles.asked.T, strict=True))
        numbers = {"trips": self.value, "low": self.low, "high": self.high}
        return pandas.DataFrame({**columns, **numbers, "grown": self.rectangles.grown, "cut": self.rectangles.cut})
