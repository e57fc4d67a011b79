"""Plans: what a mechanism says of itself and asks is checked before any trip is read."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from dqam import cities
from dqam.errors import InputError
from dqam.geometry.grid import Grid
from dqam.mechanisms import Uniform
from dqam.publishing.plan import Plan
from dqam.statistics import DistinctCounts, QueryTotals, Question, TripCount
from dqam.statistics.aggregate import Aggregate, Part

GRID = Grid.over(cities.BOUNDS, 3)


@dataclass(frozen=True)
class Mine(Uniform):
    """A mechanism of one's own."""

    name: ClassVar[str] = "mine"
    about: ClassVar[str] = "trips spread evenly"


class Spy(Aggregate):
    def add_up(self, part: Part) -> Any:
        raise AssertionError("it was asked to look at trips")


class NoProof(TripCount):
    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        return (Spy(),)


@pytest.mark.parametrize(
    ("question", "match"),
    [
        (NoProof(), "NoProof is not a question with a proof"),
        (Spy(), "Spy is not a question with a proof"),
        (DistinctCounts(np.array([[0, 0, 9, 9]])), "on this grid"),
    ],
)
def test_only_questions_with_a_proof_are_in_the_first_scan(question: Any, match: str) -> None:
    class Asks(Mine):
        def known_questions(self, grid: Grid, queries: Any) -> tuple[Question, ...]:
            return (QueryTotals(queries), question)

    with pytest.raises(InputError, match=match):
        Plan.of(GRID, 1, Asks()).first_scan()
