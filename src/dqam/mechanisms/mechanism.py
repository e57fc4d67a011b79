"""What a mechanism is, and what it makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dqam.geometry.arrays import Integers
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.statistics import Question
from dqam.values.uncertainty import Uncertainty


@dataclass(frozen=True, eq=False)
class Synthesis:
    """A histogram that may be published."""

    histogram: SpatialHistogram

    def uncertainty(self) -> Uncertainty | None:
        """How far its answers may be off, from what was measured anyway; None where the mechanism cannot tell."""
        return None


class Mechanism(Protocol):
    """Anything that makes a private histogram: a frozen dataclass of its parameters.

    It asks a curator and never sees a trip, so whatever it does with the answers is private.
    """

    @property
    def name(self) -> str:
        """What it is called in a release."""

    @property
    def about(self) -> str:
        """How it works, in a few words."""

    @property
    def monotone(self) -> bool:
        """Whether its answers never shrink when a rectangle grows."""

    def known_questions(self, grid: Grid, queries: Integers) -> tuple[Question, ...]:
        """Questions, at least one, that it is going to ask whatever the answers are, so that one scan of the trips can
        serve all. Raises an `InputError` if it cannot be used on `grid`: nothing is spent by then."""

    def synthesize(self, curator: Curator, queries: Integers, budget: Budget) -> Synthesis:
        """Spend all of `budget` on a histogram whose answers are near the distinct counts, above all for `queries`."""
