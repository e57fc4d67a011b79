"""Trips of persons: what one person adds is bounded for the whole person, and adds up to the trips there are."""

from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pytest

from dqam.errors import BudgetError, InputError
from dqam.geometry.trips import Trips
from dqam.geometry.walks import walk
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.contribution import ContributionBound
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.statistics import OF_PERSONS, PersonTrips, limits
from dqam.statistics.person_trips import KEPT_WEIGHT, WHOLE, TripsPerPerson
from dqam.values.guarantee import MOST_OF_A_PERSON, Promise, Unit
from tests.statistics.cases import GRID

QUESTIONS = [PersonTrips(1, (2,)), PersonTrips(1, (2, 4)), PersonTrips(2, (3, 5, 6)), PersonTrips(3, (4,))]


def counted(trips: tuple[int, ...], unit: Unit) -> Aggregates:
    """Aggregates of persons with these numbers of trips, all in one cell."""
    persons = np.repeat(np.arange(len(trips)), trips).tolist()
    walks = walk(Trips.from_lists([[(0.5, 0.5)]] * len(persons)), GRID)
    bound = ContributionBound(unit, "5a")
    return Aggregates.of(walks, bound.mask(persons), unit, per_person=bound.per_person(persons))


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_no_person_changes_more_than_is_charged_and_some_person_does(question: PersonTrips) -> None:
    assert_persons(question)


def assert_persons(question: PersonTrips) -> None:
    """All multisets of up to three persons with up to eight trips each, or of four with up to four, less any person."""
    unit = Unit.person(question.max_trips)
    values = {
        trips: counted(trips, unit).value(question)
        for size in range(5)
        for trips in combinations_with_replacement(range(1, 9 if size < 4 else 5), size)
    }
    most, square = 0, 0
    for trips, value in values.items():
        for one in set(trips):
            fewer = list(trips)
            fewer.remove(one)
            if (less := values.get(tuple(fewer))) is None:
                continue
            change = np.abs(value - less).astype(object)
            most, square = max(most, change.sum()), max(square, (change**2).sum())
            assert change.sum() <= question.sensitivity
            assert (change**2).sum() <= question.l2_squared
    assert most >= question.sensitivity - 1  # rounded down
    assert square >= question.l2_squared - 2 * WHOLE


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_any_number_of_trips_of_one_person(question: PersonTrips) -> None:
    for trips in (*range(1, 200), MOST_OF_A_PERSON - 1, MOST_OF_A_PERSON):
        persons = np.zeros(trips + 1, np.int64)
        persons[trips] = 1
        value = question.value(persons)
        assert (value >= 0).all()
        assert value.sum() <= question.sensitivity
        assert value[0] <= WHOLE // KEPT_WEIGHT
        assert np.count_nonzero(value[1:]) == (trips > question.max_trips)


def test_values_are_trips_again() -> None:
    trips = (1, 1, 2, 3, 5, 6, 9)
    question = PersonTrips(2, (3, 5, 6))
    value = counted(trips, Unit.person(2)).value(question)
    found = value / WHOLE * [KEPT_WEIGHT * 2, 3 - 2, 5 - 2, 6 - 2]
    assert found.tolist() == pytest.approx([sum(min(t, 2) for t in trips), 1, 3, 4 + 4])  # the last counts with six


def test_the_curator_charges_for_a_person_and_not_for_m_persons() -> None:
    question, aggregates = PersonTrips(5, (7, 10)), counted((8, 3), Unit.person(5))
    curator = Curator(aggregates, Budget(1), SeededNoise(0), Unit.person(5))
    curator.measure(question, curator.budget, Fraction(1, 2))
    (paid,) = curator.paid
    assert (paid.sensitivity, paid.scale) == (question.sensitivity, question.sensitivity * 2)
    with_delta = Curator(aggregates, Budget.of(Promise.of(1, 1e-8)), SeededNoise(0), Unit.person(5))
    with_delta.measure(question, with_delta.budget)
    assert with_delta.paid[0].sensitivity == int(question.l2_squared**0.5) + 1


def test_only_persons_have_trips() -> None:
    walks = walk(Trips.from_lists([[(0.5, 0.5)]]), GRID)
    curator = Curator(walks, Budget(1), SeededNoise(0))
    with pytest.raises(InputError, match="only for the unit 'person'"):
        curator.measure(PersonTrips(5, (7,)), curator.budget)
    assert curator.budget.left == 1
    with pytest.raises(InputError, match="were not counted"):
        Aggregates.of(walks).total(TripsPerPerson())
    with pytest.raises(InputError, match="counted by engines"):
        TripsPerPerson().add_up(None)  # type: ignore[arg-type]
    persons = Curator(walks, Budget(1), SeededNoise(0), Unit.person(5), ["a"])
    persons.measure(PersonTrips(5, (7,)), persons.budget)
    with pytest.raises(BudgetError):
        persons.measure(PersonTrips(5, (7,)), persons.budget)


def test_nothing_can_pose_as_a_question_about_persons() -> None:
    class Cheap(PersonTrips):
        sensitivity = 1

    assert frozenset({PersonTrips}) == OF_PERSONS
    curator = Curator(counted((1,), Unit.person(1)), Budget(1), SeededNoise(0), Unit.person(1))
    question = PersonTrips(1, (2,))
    object.__setattr__(question, "sensitivity", 1)
    for each in (Cheap(1, (2,)), question):
        with pytest.raises(InputError, match="not a question with a proof|was changed"):
            curator.measure(each, curator.budget)


def test_no_number_of_persons_overflows() -> None:
    question = PersonTrips(2, (3, 5, 6))
    for many in (2**31, 2**40, 2**62):
        persons = np.zeros(8, np.int64)
        persons[[1, 3, 7]] = many
        exact = [many * WHOLE * 5 // 8, many * WHOLE, 0, many * WHOLE]
        assert question.value(persons).tolist() == [min(number, limits.LARGEST_SUM) for number in exact]


def test_limits_are_those_of_the_unit() -> None:
    assert limits.MOST_OF_A_PERSON == MOST_OF_A_PERSON == Unit.person(MOST_OF_A_PERSON).max_trips


def test_what_cannot_be_asked() -> None:
    too_far = 2 * MOST_OF_A_PERSON + 1
    for m, bounds in ((0, (1,)), (2, ()), (2, (2,)), (2, (4, 3)), (2, (3, too_far)), (1, range(2, 300))):
        with pytest.raises(InputError, match="bounds"):
            PersonTrips(m, tuple(bounds))


def test_persons_are_counted_before_any_trip_is_left_out() -> None:
    found = counted((4, 4, 1), Unit.person(2)).total(TripsPerPerson())
    assert dict(Counter(dict(enumerate(found.tolist())))) == {0: 0, 1: 1, 2: 0, 3: 0, 4: 2}
