"""Answers to queries: estimated numbers of distinct trips, with confidence intervals."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from dqam.geometry.areas import PlacedAreas, PlacedLines, PlacedShapes
from dqam.geometry.arrays import Floats, Mask
from dqam.geometry.rectangles import HEADER, Snapped

if TYPE_CHECKING:
    import pandas

CHANGES = ("grown", "cut", "repaired")  # of an area before it was answered


@dataclass(frozen=True, repr=False)
class Answer:
    """The estimated number of distinct trips through an area, or of crossings of a line, with a confidence interval.

    low, high  ends of the interval; NaN if the mechanism gives none
    grown      whether the area is a rectangle and a side of it moved outward to the next grid line
    cut        whether a part was outside the map and was cut off
    repaired   whether the border crossed itself and was repaired
    column     the name of the value in a table

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
    repaired: bool = False
    column: str = field(default="trips", compare=False)

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
        flags = {name: getattr(self, name) or getattr(other, name) for name in CHANGES}
        return Answer(self.value - other.value, low, high, **flags, column=self.column)

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

    def __repr__(self) -> str:
        changed = [name for name in CHANGES if getattr(self, name)]
        return f"<Answer: {', '.join([str(self), *changed])}>"

    def to_frame(self) -> pandas.DataFrame:
        """A table with one row: trips, low, high, and whether the area was grown, cut or repaired."""
        import pandas

        flags = {name: getattr(self, name) for name in CHANGES}
        return pandas.DataFrame([{self.column: self.value, "low": self.low, "high": self.high, **flags}])


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers to many areas or lines, float64[m] each, and where these are on the map.

    NaN stands for the answer to an area outside the map, and for an interval that the mechanism does not give. `column`
    is the name of the values in a table, which says so if they are not private.
    """

    value: Floats
    low: Floats
    high: Floats
    asked: Snapped | PlacedShapes
    column: str = "trips"

    def __len__(self) -> int:
        return len(self.value)

    def __getitem__(self, i: int) -> Answer:
        i = operator.index(i)
        flags = {name: bool(mask[i]) for name, mask in self.flags.items()}
        return Answer(float(self.value[i]), float(self.low[i]), float(self.high[i]), **flags, column=self.column)

    @property
    def rectangles(self) -> Snapped:
        """The rectangles of whole cells that were answered, if the query was for rectangles."""
        if not isinstance(self.asked, Snapped):
            raise AttributeError("These answers are not for rectangles; see `asked`.")
        return self.asked

    @property
    def flags(self) -> dict[str, Mask]:
        """What was changed before each area or line was answered, by name, bool[m] each: grown, cut, repaired."""
        return {name: getattr(self.asked, name) for name in CHANGES if hasattr(self.asked, name)}

    @property
    def counted(self) -> str:
        """What is counted: "trips", or "crossings" for lines."""
        return "crossings" if isinstance(self.asked, PlacedLines) else "trips"

    def __repr__(self) -> str:
        shown = ", ".join(str(self[i]) for i in range(min(3, len(self))))
        what = {Snapped: "rectangle", PlacedAreas: "area", PlacedLines: "line"}[type(self.asked)]
        asked = f"{len(self):,} {what}{'' if len(self) == 1 else 's'}"
        return f"<Answers to {asked}{': ' if len(self) else ''}{shown}{', ...' if len(self) > 3 else ''}>"

    def to_frame(self) -> pandas.DataFrame:
        """A table with a row for each rectangle, area or line: its sides as asked, or its name; trips or crossings
        (trips_not_private if the release is not private), low, high, and whether it was grown, cut or repaired."""
        import pandas

        answers = {self.column: self.value, "low": self.low, "high": self.high}
        return pandas.DataFrame({**named(self.asked), **answers, **self.flags})


def named(asked: Snapped | PlacedShapes) -> dict[str, Any]:
    """The first columns of a table of answers: the sides of rectangles as they were asked, or the names of areas."""
    if isinstance(asked, Snapped):
        return dict(zip(HEADER, asked.asked.T, strict=True))
    return {"name": asked.names}
