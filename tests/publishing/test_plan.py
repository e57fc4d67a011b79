"""Plans: every choice is public, and all are checked before any trip is read."""

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import dqam
from dqam import cities
from dqam.errors import BudgetError, InputError
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.walks import walk
from dqam.mechanisms import Flux, Synthesis, Uniform
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import OpenDPNoise, SeededNoise
from dqam.publishing.plan import Plan, share_of_flows
from dqam.release.release import Release
from dqam.statistics import DistinctCounts, QueryTotals, Question, TripCount
from dqam.statistics.aggregate import Aggregate, Part
from dqam.values.guarantee import Unit
from dqam.values.uncertainty import Uncertainty

GRID = Grid.over(cities.BOUNDS, 3)
(TRIPS,) = cities.city_trips(500, 0)


def test_a_plan_fits_its_curator() -> None:
    plan = Plan.of(GRID, 1, unit="person")
    for grid, unit in ((GRID, Unit.trip()), (Grid.over(cities.BOUNDS, 4), Unit.trip())):
        curator = Curator(walk(TRIPS, grid), Budget(1), OpenDPNoise(), unit)
        with pytest.raises(InputError, match="different grid or unit"):
            plan.release(curator, "id")
        assert not curator.spent


def test_the_queries_are_those_given() -> None:
    areas = [(cities.BOUNDS[0], cities.BOUNDS[1], cities.BOUNDS[0] + 0.01, cities.BOUNDS[1] + 0.01)]
    plan = Plan.of(GRID, 1, queries=areas)
    assert plan.queries.tolist() == [[0, 0, 1, 1]]
    assert plan.queries_in_words == "1 rectangles chosen by the publisher"
    assert len(Plan.of(GRID, 1).queries) == 16_000


@dataclass(frozen=True)
class Mine(Uniform):
    """A mechanism of one's own."""

    name: ClassVar[str] = "mine"
    about: ClassVar[str] = "trips spread evenly"


class Spy(Aggregate):
    def add_up(self, part: Part) -> Any:
        raise AssertionError("it saw trips")


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

    with pytest.raises(InputError, match="different grid"):
        release_of(Elsewhere())


def test_a_mechanism_that_asks_nothing_has_no_release() -> None:
    class Silent(Mine):
        def synthesize(self, curator: Curator, queries: Any, budget: Budget) -> Synthesis:
            return Synthesis(SpatialHistogram(GRID, np.ones((8, 8)), np.zeros((8, 7)), np.zeros((7, 8))))

    with pytest.raises(InputError, match="asked no question"):
        release_of(Silent())


def test_no_release_spends_more_than_planned() -> None:
    with pytest.raises(BudgetError, match="spent epsilon 2, more than 1"):
        release_of(Mine(), epsilon=2)


@dataclass(frozen=True)
class Tuned(Mine):
    """A mechanism with a parameter."""

    weight: Any = 1


@pytest.mark.parametrize("value", [{1}, float("inf"), np.zeros(2), object(), 1j])
def test_parameters_that_cannot_be_saved_are_refused(value: object) -> None:
    with pytest.raises(InputError, match="weight of the mechanism must be a plain value"):
        Plan.of(GRID, 1, Tuned(value))


@pytest.mark.parametrize(
    ("value", "plain"),
    [(np.int64(3), 3), (np.float32(0.5), 0.5), (np.True_, True), (Fraction(1, 3), "1/3"), (None, None)],
)
def test_parameters_are_plain_values(value: object, plain: object) -> None:
    (weight,) = Plan.of(GRID, 1, Tuned(value)).parameters.values()
    assert (weight, type(weight)) == (plain, type(plain))


def test_numbers_of_numpy_can_be_saved(tmp_path: Path) -> None:
    release_of(Flux(side=np.int64(4))).save(tmp_path / "map.nc")  # type: ignore[arg-type]
    assert dqam.open(tmp_path / "map.nc").provenance.parameters["side"] == 4


def test_a_mechanism_describes_itself_before_it_sees_any_answer() -> None:
    class Changes(Tuned):
        def synthesize(self, curator: Curator, queries: Any, budget: Budget) -> Synthesis:
            made = super().synthesize(curator, queries, budget)
            for name, value in {"weight": curator, "name": "flux", "about": repr(curator)}.items():
                object.__setattr__(self, name, value)
            return made

    provenance = release_of(Changes()).provenance
    assert (provenance.mechanism, provenance.mechanism_about) == (Mine.name, Mine.about)
    assert provenance.parameters == {"weight": 1}


class NoDataclass:
    name, about, monotone = "mine", "trips spread evenly", False
    known_questions, synthesize = Uniform.known_questions, Uniform.synthesize


class NoWords(Mine):
    about = 5  # type: ignore[assignment]


class NoQuestions(Mine):
    def known_questions(self, grid: Grid, queries: Any) -> tuple[Question, ...]:
        return ()


class Pretender(Uniform):
    pass


@pytest.mark.parametrize(
    ("mechanism", "match"),
    [
        (NoDataclass(), "must be a dataclass"),
        (NoWords(), "about of the mechanism must be one line"),
        (NoQuestions(), "return at least one question"),
        (Pretender(), "'uniform' is the name of a built-in mechanism; give Pretender another"),
    ],
)
def test_mechanisms_that_cannot_be_published_have_no_plan(mechanism: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        Plan.of(GRID, 1, mechanism)


def test_a_grid_that_is_too_large_for_a_mechanism_has_no_plan() -> None:
    with pytest.raises(InputError, match="dawa supports at most"):
        Plan.of(Grid(cities.BOUNDS, 2_049, 2_048), 1, "dawa")


@pytest.mark.parametrize(
    ("delta", "expect", "match"),
    [
        ("1.01e-6", None, "A delta of 1.01e-6 is large"),
        ("1e-8", 1_000_001, "is large for 1,000,001 trips"),
        ("1e-6", 10_001, "Give at most 1e-7"),
    ],
)
def test_a_delta_must_be_far_below_one_in_the_trips(delta: str, expect: int | None, match: str) -> None:
    plan, source = Plan.of(GRID, 1, delta=delta), dqam.read(TRIPS)
    with pytest.raises(InputError, match=match):
        plan.check(source, expect=expect)
    plan.check(source, sure=True, expect=expect)
    with pytest.raises(InputError, match=match):
        dqam.publish(TRIPS, GRID, 1, delta=delta, expect=expect, dataset="taxis")
    Plan.of(GRID, 1, delta="1e-6").check(source, expect=10_000)
    Plan.of(GRID, 1).check(source, expect=10**9)


def test_a_plan_with_slices_fits_its_curator() -> None:
    plan = Plan.of(GRID, 1, by="hour")
    curator = Curator(walk(TRIPS, GRID), Budget(1), SeededNoise(0))
    with pytest.raises(InputError, match="different slices from the plan"):
        plan.release(curator, "id")
    assert not curator.spent
    for kwargs, match in (
        ({"by": "hours"}, "did you mean 'hour'"),
        ({"timezone": "UTC"}, "timezone='UTC' is for slices"),
        ({"by": "hour", "mechanism": "laplace"}, "need the mechanism 'flux'"),
    ):
        with pytest.raises(InputError, match=match):
            Plan.of(GRID, 1, **kwargs)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("flows", "share"), [(False, "0"), (True, "1/5"), (0.25, "1/4"), ("0.3", "3/10"), (Fraction(7, 10), "7/10")]
)
def test_the_share_of_flows(flows: bool | float | str | Fraction, share: str) -> None:
    assert share_of_flows(flows) == Fraction(share)


@pytest.mark.parametrize("flows", [0, -0.1, 0.71, 1, "x", float("nan"), None])
def test_a_bad_share_of_flows_is_refused(flows: Any) -> None:
    with pytest.raises(InputError, match=r"flows must be True or a share of the budget, above 0 and at most 0\.7"):
        share_of_flows(flows)
