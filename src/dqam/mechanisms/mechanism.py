"""The interface of a mechanism, and of its result."""

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
        """The uncertainty of its answers, computed from what was measured anyway; None if the mechanism gives none."""
        return None


class Mechanism(Protocol):
    """Anything that makes a private histogram: a frozen dataclass of its parameters.

    It asks a curator and never sees a trip, so whatever it does with the answers is private.
    """

    @property
    def name(self) -> str:
        """Its name in a release."""

    @property
    def about(self) -> str:
        """How it works, in a few words."""

    @property
    def monotone(self) -> bool:
        """Whether its answers never shrink when a rectangle grows."""

    def known_questions(self, grid: Grid, queries: Integers) -> tuple[Question, ...]:
        """Questions that it asks whatever the answers are, at least one, so that one scan of the trips can answer all.

        Raises an `InputError` if the mechanism cannot be used on `grid`; nothing has been spent by then.
        """

    def synthesize(self, curator: Curator, queries: Integers, budget: Budget) -> Synthesis:
        """Spend all of `budget` on a histogram whose answers approximate the distinct counts, mainly for `queries`."""
