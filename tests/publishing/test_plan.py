"""Plans: what a mechanism says of itself and asks is checked before any trip is read."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from dqam import cities
from dqam.errors import BudgetError, InputError
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.walks import walk
from dqam.mechanisms import Synthesis, Uniform
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.publishing.plan import Plan
from dqam.release.release import Release
from dqam.statistics import DistinctCounts, QueryTotals, Question, TripCount
from dqam.statistics.aggregate import Aggregate, Part
from dqam.values.uncertainty import Uncertainty

GRID = Grid.over(cities.BOUNDS, 3)
(TRIPS,) = cities.city_trips(500, 0)


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


def release_of(mechanism: Any, epsilon: int = 1) -> Release:
    """Of the planned mechanism, with noise from a seed."""
    plan = Plan.of(GRID, 1, mechanism)
    return plan.release(Curator(walk(TRIPS, GRID), Budget(epsilon), SeededNoise(0)), "id")


def test_what_is_asked_for_the_uncertainty_is_in_the_provenance() -> None:
    class Late(Mine):
        def synthesize(self, curator: Curator, queries: Any, budget: Budget) -> Synthesis:
            first, rest = budget.split(first=1, rest=9)
            made = super().synthesize(curator, queries, first)

            class Asks(Synthesis):
                def uncertainty(self) -> Uncertainty:
                    return Uncertainty(made.histogram, float(curator.measure(TripCount(), rest)[0]), 1.0)

            return Asks(made.histogram)

    provenance = release_of(Late()).provenance
    assert provenance.epsilon == 1
    assert provenance.paid[-1].name == TripCount().name


def test_a_histogram_is_of_the_grid_of_the_plan() -> None:
    class Elsewhere(Mine):
        def synthesize(self, curator: Curator, queries: Any, budget: Budget) -> Synthesis:
            made = super().synthesize(curator, queries, budget).histogram
            return Synthesis(replace(made, grid=Grid((0.0, 0.0, 1.0, 1.0), *GRID.shape)))

    with pytest.raises(InputError, match="another grid"):
        release_of(Elsewhere())


def test_a_mechanism_that_asks_nothing_has_no_release() -> None:
    class Silent(Mine):
        def synthesize(self, curator: Curator, queries: Any, budget: Budget) -> Synthesis:
            return Synthesis(SpatialHistogram(GRID, np.ones((8, 8)), np.zeros((8, 7)), np.zeros((7, 8))))

    with pytest.raises(InputError, match="asked nothing"):
        release_of(Silent())


def test_no_release_spends_more_than_planned() -> None:
    with pytest.raises(BudgetError, match="spent epsilon 2, more than 1"):
        release_of(Mine(), epsilon=2)
