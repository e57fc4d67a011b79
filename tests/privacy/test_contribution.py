"""At most m trips a person: by salt and ids alone."""

from itertools import product

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import dqam
from dqam.errors import InputError
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.contribution import ContributionBound, of_two_parts, persons_by_trips
from dqam.statistics import Crossings, DistinctCounts, Endpoints, GroupShares, QueryTotals, ShadowSums, TripCount
from dqam.values.guarantee import MOST_OF_A_PERSON, Unit
from tests.statistics.cases import ALL, EACH, GROUPS, ROWS, aggregates_of, some

PERSONS = pa.array(["a", "b", "a", "a", "b", "c", "a"])
TRIPS = pa.array(["1", "2", "3", "4", "5", "6", "7"])


def test_every_person_has_at_most_m() -> None:
    for m in (1, 2, 3, 9):
        keep = ContributionBound(Unit.person(m), "5a").mask(PERSONS, TRIPS)
        assert keep is not None
        for person in "abc":
            own = np.array(PERSONS.to_pylist()) == person
            assert keep[own].sum() == min(m, own.sum())


def test_places_do_not_depend_on_m_and_fewer_kept_are_the_first_of_more() -> None:
    places = ContributionBound(Unit.person(1), "5a").places(PERSONS, TRIPS)
    assert places is not None
    for m in (1, 2, 3, 7, 100):
        bound = ContributionBound(Unit.person(m), "5a")
        np.testing.assert_array_equal(bound.places(PERSONS, TRIPS), places)
        np.testing.assert_array_equal(bound.mask(PERSONS, TRIPS), places < m)
    for person in "abc":
        own = np.sort(places[np.array(PERSONS.to_pylist()) == person])
        np.testing.assert_array_equal(own, np.arange(len(own)))
    unknown = ContributionBound(Unit.person(2**20), "5a").places(pa.array(["a", None]))
    assert unknown is not None
    assert unknown[1] >= 2**20


def test_others_do_not_matter_nor_does_the_order() -> None:
    bound = ContributionBound(Unit.person(2), "5a")
    whole = dict(zip(TRIPS.to_pylist(), bound.mask(PERSONS, TRIPS), strict=True))
    rng = np.random.default_rng(0)
    for gone in "abc":
        left = np.flatnonzero(np.array(PERSONS.to_pylist()) != gone)
        rng.shuffle(left)
        found = bound.mask(PERSONS.take(pa.array(left)), TRIPS.take(pa.array(left)))
        assert found is not None
        assert all(whole[TRIPS[int(i)].as_py()] == kept for i, kept in zip(left, found, strict=True))


def test_another_salt_is_another_choice_and_all_are_likely() -> None:
    rng = np.random.default_rng(0)
    counts = sum(ContributionBound.of(Unit.person(1), rng).mask(PERSONS, TRIPS).astype(int) for _ in range(200))  # type: ignore[union-attr]
    np.testing.assert_allclose(np.array(counts) / 200, [1 / 4, 1 / 2, 1 / 4, 1 / 4, 1 / 2, 1, 1 / 4], atol=0.12)


def test_without_ids_others_do_not_matter_either() -> None:
    """A salt that everyone knows tells nothing of how many others there are."""
    rng = np.random.default_rng(1)
    persons = np.repeat(np.arange(50), 3)
    rng.shuffle(persons)
    bound = ContributionBound(Unit.person(1), "5a17")
    whole, less = bound.mask(persons.tolist()), bound.mask(persons[persons != 7].tolist())
    assert whole is not None
    np.testing.assert_array_equal(whole[persons != 7], less)


def test_equal_ids_are_not_one_trip() -> None:
    assert ContributionBound(Unit.person(1), "5a").mask(["a"] * 5, pa.array([7] * 5)).sum() == 1  # type: ignore[union-attr]


def test_all_trips_are_kept_for_trips() -> None:
    assert ContributionBound(Unit.trip(), "5a").mask(None, None) is None
    assert ContributionBound(Unit.trip(), "5a").sql("t", None, None) == "SELECT *, 1 AS dqam_place FROM t"


def test_ids_are_needed() -> None:
    bound = ContributionBound(Unit.person(1), "5a")
    with pytest.raises(InputError, match=r"columns=\{'person': 'NAME'\}"):
        bound.mask(None, TRIPS)
    with pytest.raises(InputError, match=r"columns=\{'person': 'NAME'\}"):
        bound.sql("points", None, "tid")
    assert bound.sql("points", "uid", None) == "SELECT *, 1 AS dqam_place FROM points"
    with pytest.raises(InputError, match="all whole numbers or all text"):
        bound.mask([1, "1"])
    assert bound.mask(pa.array(["a", None, " "]), None).tolist() == [True, False, False]


@pytest.mark.parametrize("form", ["points", "polylines", "lines"])
def test_white_space_makes_no_second_person(form: str) -> None:
    persons = ["u", "u ", " u", "u\t", "u\u00a0"]
    trips = pa.table({"uid": persons, "tid": [f"t{i}" for i in range(5)]})
    more = {
        "points": {"lon": pa.array(np.arange(5.0)), "lat": pa.array(np.arange(5.0))},
        "polylines": {"POLYLINE": pa.array(["[[1,1],[2,2]]"] * 5)},
        "lines": {"geometry": pa.array(["LINESTRING (1 1, 2 2)"] * 5)},
    }[form]
    for name, values in more.items():
        trips = trips.append_column(name, values)
    as_bytes = trips.set_column(0, "uid", trips.column("uid").cast(pa.binary()))
    for table in (trips, as_bytes):
        read = dqam.read(table).trips()
        assert len(read) == 5
        assert ContributionBound(Unit.person(1), "5a").mask(read.persons, read.ids).sum() == 1  # type: ignore[union-attr]
    assert ContributionBound(Unit.person(1), "5a").mask(persons).sum() == 1  # type: ignore[union-attr]
    assert ContributionBound(Unit.person(1), "5a").mask(np.array([0.0, -0.0])).sum() == 1  # type: ignore[union-attr, arg-type]


def test_the_trips_kept_of_a_person_are_chosen_evenly() -> None:
    rng = np.random.default_rng(0)
    counts = sum(
        ContributionBound.of(Unit.person(1), rng).mask(["a", "b", "a", "a", "b"]).astype(int) for _ in range(600)
    )
    np.testing.assert_allclose(np.array(counts) / 600, [1 / 3, 1 / 2, 1 / 3, 1 / 3, 1 / 2], atol=0.08)


def test_a_person_counts_with_at_most_m_trips() -> None:
    rng = np.random.default_rng(3)
    for m, kept in product((1, 2, 3), (0, 4)):
        others = some(kept)
        most = 0
        for _ in range(60):
            own = some(int(rng.integers(1, 7)), int(rng.integers(10**6)))
            keep = ContributionBound.of(Unit.person(m), rng).mask([f"p{i}" for i in range(kept)] + ["own"] * len(own))
            for statistic in (
                TripCount(),
                Endpoints(ROWS),
                Crossings(ROWS, 2),
                GroupShares(GROUPS),
                ShadowSums(EACH, 1),
                DistinctCounts(ALL[[8]]),
                QueryTotals(ALL[[8, 3]]),
            ):
                both = aggregates_of(others + own)
                assert keep[:kept].all()
                assert keep[kept:].sum() == min(m, len(own))
                change = np.abs(
                    Aggregates.of(both.engine.walks, keep).value(statistic) - aggregates_of(others).value(statistic)
                ).sum()
                assert change <= m * statistic.sensitivity
                most = max(most, change / statistic.sensitivity)
        assert most == m


def test_persons_are_counted_by_all_of_their_trips() -> None:
    bound = ContributionBound(Unit.person(2), "5a")
    assert bound.per_person(PERSONS).tolist() == [0, 1, 1, 0, 1]  # type: ignore[union-attr]
    assert bound.per_person(pa.array(["a", None, " a", " "])).tolist() == [0, 0, 1]  # type: ignore[union-attr]
    assert bound.per_person(pa.array([], pa.int64())).tolist() == [0]  # type: ignore[union-attr]
    assert ContributionBound(Unit.trip()).per_person(PERSONS) is None
    with pytest.raises(InputError, match="no person column"):
        bound.per_person(None)


def test_another_person_adds_one_and_changes_nobody_else() -> None:
    bound, own = ContributionBound(Unit.person(2), "5a"), PERSONS.to_pylist()
    whole = bound.per_person(PERSONS)
    for gone in "abc":
        less = bound.per_person(pa.array([person for person in own if person != gone]))
        assert whole is not None
        change = whole.copy()
        change[: len(less)] -= less  # type: ignore[arg-type]
        assert change.tolist() == [int(i == own.count(gone)) for i in range(len(whole))]


def test_the_same_counts_in_sql() -> None:
    points = pa.table({"person": ["a", "b", "a", "a", "a", "c"], "trip": [1, 1, 2, 2, 7, 1]})
    with duckdb.connect() as base:
        base.register("points", points)
        query = ContributionBound(Unit.person(1), "5a").per_person_sql("points", "person", "trip")
        found = base.sql(query).fetchnumpy()
        assert persons_by_trips(found["trips"], found["persons"]).tolist() == [0, 2, 0, 1]
        alone = base.sql(ContributionBound(Unit.person(1), "5a").per_person_sql("points", "person", None)).fetchall()
        assert alone == [(1, 3)]


def test_parts_of_persons_add_up() -> None:
    one, other = np.array([0, 3]), np.array([0, 1, 0, 2])
    for first, second in ((one, other), (other, one)):
        assert of_two_parts(first, second).tolist() == [0, 4, 0, 2]  # type: ignore[union-attr]
    assert of_two_parts(None, one) is one
    assert of_two_parts(None, None) is None
    many = persons_by_trips(np.array([MOST_OF_A_PERSON + 5]), np.array([2]))
    assert (len(many), many[-1]) == (MOST_OF_A_PERSON + 1, 2)
