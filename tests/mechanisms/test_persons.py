"""Counts made whole: the factor is near the truth, its uncertainty covers it, and maps stay what they were."""

import numpy as np
import pytest

from dqam.audit.neighbours import ScriptedCurator
from dqam.geometry.grid import Grid
from dqam.geometry.trips import Trips
from dqam.geometry.walks import walk
from dqam.mechanisms import MECHANISMS
from dqam.mechanisms.persons import (
    LOOKS,
    MOST_CHOSEN,
    SLACK,
    KnownTrips,
    made_whole,
    measure_persons,
    question_for,
)
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.publishing.plan import Plan
from dqam.statistics import PersonTrips
from dqam.values.guarantee import MOST_OF_A_PERSON, Promise, Unit
from dqam.values.uncertainty import Uncertainty

GRID = Grid((0.0, 0.0, 8.0, 8.0), 8, 8)
CITY = np.maximum(1, np.rint(np.exp(np.random.default_rng(0).normal(2, 0.8, 10_000)))).astype(np.int64)
PEOPLE = {"city": CITY, "one trip each": np.ones(5_000, np.int64), "ten trips each": np.full(5_000, 10)}


def curator_of(own: np.ndarray, unit: Unit, seed: int, budget: Budget | None = None) -> Curator:
    """A curator of persons with these numbers of trips, none of them on the map."""
    nothing = walk(Trips.from_lists([]), GRID)
    none = np.zeros(0, np.int64)
    aggregates = Aggregates.of(nothing, none == 0, unit, per_person=np.bincount(own), places=none)
    return Curator(aggregates, budget or Budget(1), SeededNoise(seed), unit)


@pytest.mark.parametrize("people", PEOPLE)
@pytest.mark.parametrize("m", [1, 5, 10, 20])
def test_the_factor_is_near_the_truth_and_its_uncertainty_covers_it(people: str, m: int) -> None:
    own = PEOPLE[people]
    truth, errors, inside = own.sum() / np.minimum(own, m).sum(), [], []
    for seed in range(30):
        curator = curator_of(own, Unit.person(m), seed)
        found = measure_persons(curator, curator.budget)
        errors.append(found.factor / truth - 1)
        inside.append(abs(found.factor - truth) <= 1.645 * found.deviation)
        assert found.factor >= 1
        assert m == found.max_trips <= found.most <= MOST_OF_A_PERSON
        assert curator.spent <= sum(share for share, _ in LOOKS)
    # groups of up to a factor of 1.41 are told apart, so if all persons have the same number of trips, it is not known
    assert np.median(np.abs(errors)) < (0.1 if people == "ten trips each" else 0.05)
    assert np.mean(inside) >= 0.85


def test_without_noise_the_factor_is_exact() -> None:
    for m in (1, 3, 10):
        question = question_for(m)
        values = question.value(np.bincount(CITY)) / question.resolution
        found = KnownTrips.of(question, values, 1e-9).factor(m)
        kept = np.minimum(CITY, m).sum()
        assert found.factor == pytest.approx(CITY.sum() / kept, rel=5e-3)  # groups have several numbers of trips
        assert found.kept == pytest.approx(kept, rel=5e-3)
        assert found.most >= CITY.max() / 2**0.5
        assert found.deviation < 1.1 * SLACK * found.factor


def test_it_is_measured_again_only_if_that_helps() -> None:
    many = curator_of(np.repeat(CITY, 50), Unit.person(10), 0)
    few = curator_of(CITY[:300], Unit.person(10), 0)
    for curator, times in ((many, 1), (few, len(LOOKS))):
        measure_persons(curator, curator.budget)
        assert len(curator.paid) == times
    assert many.spent == LOOKS[0][0]


def test_a_budget_with_a_delta_can_still_be_exchanged() -> None:
    curator = curator_of(CITY, Unit.person(10), 0, Budget.of(Promise.of(1, 1e-8)))
    measure_persons(curator, curator.budget)
    assert all(entry.epsilon is not None for entry in curator.paid)
    assert curator.exchange()


@pytest.mark.parametrize("exchange", [False, True])
def test_a_release_with_a_delta_is_made_whole(exchange: bool) -> None:
    aggregates, unit = some_walks()
    plan = Plan.of(GRID, 20, unit="person", max_trips=unit.max_trips, delta=1e-6)
    curator = Curator(aggregates, Budget.of(plan.promise), SeededNoise(0), unit, may_exchange=lambda: exchange)
    release = plan.release(curator, "some", "5a")
    assert release.trips.value == pytest.approx(4_000, rel=0.15)
    assert release.provenance.delta in (0, plan.delta)
    if release.provenance.delta:
        assert plan.promise.rho is not None
        assert release.provenance.spent <= plan.promise.rho
    else:
        assert release.provenance.spent <= 20


def test_nobody_has_a_factor_of_at_least_one() -> None:
    for seed in range(20):
        curator = curator_of(np.zeros(0, np.int64), Unit.person(5), seed)
        found = measure_persons(curator, curator.budget)
        assert found.factor >= 1
        assert np.isfinite(found.deviation)


def test_bounds_grow_to_the_most_trips_of_a_person_and_m_is_one() -> None:
    for m in (1, 2, 3, 10, 1_000, 1_023, MOST_OF_A_PERSON // 2, MOST_OF_A_PERSON - 1, MOST_OF_A_PERSON):
        bounds = question_for(m).bounds
        assert bounds[-1] == MOST_OF_A_PERSON
        assert m in (1, *bounds)
        curator = curator_of(CITY, Unit.person(m), 0)
        assert np.isfinite(measure_persons(curator, curator.budget).deviation)


@pytest.mark.parametrize("people", PEOPLE)
def test_m_can_be_chosen_from_the_same_measurement(people: str) -> None:
    own, errors = PEOPLE[people], []
    for seed in range(20):
        curator = curator_of(own, Unit.person(MOST_CHOSEN), seed)
        found = measure_persons(curator, curator.budget, choose=True)
        assert curator.unit == Unit.person(found.max_trips)
        assert {entry.name for entry in curator.paid} == {PersonTrips.name}
        assert all(entry.sensitivity == PersonTrips.sensitivity for entry in curator.paid)
        assert curator.spent <= sum(share for share, _ in LOOKS)
        errors.append(found.factor / (own.sum() / np.minimum(own, found.max_trips).sum()) - 1)
        assert {"city": 8 <= found.max_trips <= 45, "one trip each": found.max_trips == 1}.get(people, True)
    assert np.median(np.abs(errors)) < 0.05


def test_the_choice_depends_on_nothing_but_the_answers() -> None:
    """The same answers on other data give the same m, the same factor and the same questions."""
    unit = Unit.person(128)
    first = ScriptedCurator(curator_of(CITY, unit, 3)._aggregates, Budget(1), SeededNoise(3), unit)
    found = measure_persons(first, first.budget, choose=True)
    for own in (np.ones(1, np.int64), np.full(9_000, 100), CITY[::2]):
        again = ScriptedCurator(curator_of(own, unit, 8)._aggregates, Budget(1), SeededNoise(8), unit)
        again.script = first.answers
        assert measure_persons(again, again.budget, choose=True) == found
        assert (again.paid, again.unit) == (first.paid, first.unit)


def test_few_trips_are_kept_where_there_is_little_data_and_many_where_there_is_much() -> None:
    own = np.maximum(1, np.rint(np.exp(np.random.default_rng(1).normal(2, 1.2, 4_000)))).astype(np.int64)
    chosen = []
    for people, epsilon in ((own[:400], 1), (own, 1), (np.repeat(own, 20), 4)):
        curators = (curator_of(people, Unit.person(MOST_CHOSEN), seed, Budget(epsilon)) for seed in range(9))
        chosen.append(np.median([measure_persons(each, each.budget, choose=True).max_trips for each in curators]))
    assert chosen[0] < chosen[1] < chosen[2] <= MOST_CHOSEN


def test_noise_alone_is_no_person_with_very_many_trips() -> None:
    """The last bounds stand for so many trips that a little noise there would change the factor by thousands."""
    for seed in range(200):
        curator = curator_of(CITY[:500], Unit.person(10), seed)
        assert measure_persons(curator, curator.budget).factor < 4


@pytest.mark.parametrize("epsilon", ["1/20", "1/10", "1/5"])
@pytest.mark.parametrize("m", [1, 5, 10, None])
def test_hardly_any_signal_gives_a_usual_factor_with_a_wide_interval(epsilon: str, m: int | None) -> None:
    """Tens of thousands of trips of each person fit such noise as well as ten do."""
    for own in (CITY[:400], np.full(600, 5)):
        held = []
        for seed in range(30):
            curator = curator_of(own, Unit.person(m or MOST_CHOSEN), seed, Budget(epsilon))
            found = measure_persons(curator, curator.budget, choose=m is None)
            truth = own.sum() / np.minimum(own, found.max_trips).sum()
            assert found.factor < 20 * truth
            assert found.likely <= found.deviation
            held.append(abs(found.factor - truth) <= max(1.645 * found.deviation, 0.2 * truth))
        assert np.mean(held) > 0.8


def test_auto_keeps_few_trips_where_noise_hides_how_many_there_are() -> None:
    curators = (curator_of(CITY[:400], Unit.person(MOST_CHOSEN), seed, Budget("1/10")) for seed in range(21))
    assert np.median([measure_persons(each, each.budget, choose=True).max_trips for each in curators]) < 64


def some_walks() -> tuple[Aggregates, Unit]:
    rng, unit = np.random.default_rng(1), Unit.person(2)
    ways = [[tuple(rng.uniform(0, 8, 2)) for _ in range(3)] for _ in range(4_000)]
    persons = np.sort(rng.integers(0, 500, 4_000))
    kept = np.r_[True, True, persons[2:] != persons[:-2]]
    counts = np.bincount(np.bincount(persons))
    return Aggregates.of(walk(Trips.from_lists(ways), GRID), kept, unit, per_person=counts), unit


@pytest.mark.parametrize("name", [name for name, row in MECHANISMS.items() if row.publishable])
def test_every_mechanism_is_made_whole(name: str) -> None:
    aggregates, unit = some_walks()
    plan = Plan.of(GRID, 100, name, unit="person", max_trips=unit.max_trips)
    release = plan.release(Curator(aggregates, Budget(100), SeededNoise(0), unit), "some", "5a")
    assert release.provenance.factor == pytest.approx(4, rel=0.1)
    assert release.trips.value == pytest.approx(4_000, rel=0.1)
    assert release.provenance.spent == 100
    assert release.provenance.counted == "scaled up to all trips from at most 2 trips of each person"
    if plan.monotone:
        assert release.histogram.is_monotone()
    if release.uncertainty is not None:
        assert release.uncertainty.factor == release.provenance.factor
        assert release.trips.low <= 4_000 <= release.trips.high


def test_all_answers_are_multiplied_and_intervals_with_them() -> None:
    aggregates, unit = some_walks()
    plan = Plan.of(GRID, 100, unit="person", max_trips=2)
    curator = Curator(aggregates, Budget(100), SeededNoise(0), unit)
    made = plan.mechanism.synthesize(curator, plan.queries, curator.budget)
    histogram, uncertainty = made.histogram, made.uncertainty()
    assert isinstance(uncertainty, Uncertainty)
    whole = made_whole(histogram, 3.7, True)
    asked = plan.queries[:500]
    np.testing.assert_allclose(whole.answers(asked), 3.7 * histogram.answers(asked), rtol=1e-9, atol=1e-6)
    assert whole.is_monotone()
    wider = uncertainty.made_whole(whole, 3.7, 0.37)
    assert (wider.deviations(asked) >= 3.7 * uncertainty.deviations(asked)).all()
    known = uncertainty.made_whole(histogram, 1.0, 0.0)
    np.testing.assert_array_equal(known.deviations(asked), uncertainty.deviations(asked))
