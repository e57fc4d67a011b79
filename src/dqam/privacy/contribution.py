"""Contribution bounding: at most m trips of each person count, and every engine chooses the same ones.

A person's trips are ordered by the MD5 of the publication's salt and the trip's id, and the first m are kept. Trips
without ids are numbered within each person instead. Which trips are kept depends only on the person's own trips and on
the salt, which is public and drawn at random for each publication: with or without another person they are the same. So
a person changes what is counted by at most m trips. Trips without a person are left out.

The place of a trip in this order does not depend on m. Engines remember it, so that fewer trips of each person can be
kept later (`Engine.narrowed`), when a private measurement has told how many.

How many trips each person has is counted here too, before any are left out (`dqam.statistics.person_trips`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import duckdb
import numpy as np
import pyarrow as pa

from dqam.errors import InputError
from dqam.geometry.arrays import Integers, Mask
from dqam.geometry.ids import ids_of, without_nulls
from dqam.geometry.trips import Trips
from dqam.values.guarantee import MOST_OF_A_PERSON, Unit

Ids: TypeAlias = Sequence[object] | pa.Array | None
NOWHERE = np.iinfo(np.int64).max  # the place of a trip without a person


@dataclass(frozen=True)
class ContributionBound:
    """Which trips of a unit count: all for the unit 'trip', and for each person the first `unit.max_trips` by salt."""

    unit: Unit
    salt: str = ""

    @classmethod
    def of(cls, unit: Unit, rng: np.random.Generator) -> ContributionBound:
        """A bound with a new salt, if one is needed."""
        return cls(unit, rng.bytes(16).hex() if unit.name == "person" else "")

    def mask(self, persons: Ids, trips: Ids = None) -> Mask | None:
        """Which trips in memory are kept, given the ids of their persons and of the trips; None for all."""
        places = self.places(persons, trips)
        return None if places is None else places < self.unit.max_trips

    def places(self, persons: Ids, trips: Ids = None) -> Integers | None:
        """int64[trips]: the place of each trip in memory among those of its person, from 0 on; None for the unit
        'trip'. A trip whose person is unknown is at the last possible place, where it is never kept."""
        if self.unit.name == "trip":
            return None
        values = _plain(persons, "person")
        if values is None:
            raise unknown_person()
        known = values.is_valid().to_numpy(zero_copy_only=False)
        person = without_nulls(values).dictionary_encode().indices.to_numpy(zero_copy_only=False)
        together = np.argsort(person, kind="stable")
        firsts = np.searchsorted(person[together], person[together])
        numbers = np.empty(len(person), np.int64)
        numbers[together] = np.arange(len(person)) - firsts
        ids = _plain(trips, "trip")
        with _base().cursor() as base:
            base.register("trips", pa.table({"trip": numbers if ids is None else ids, "row": np.arange(len(person))}))
            order = base.sql(f"SELECT row FROM trips ORDER BY {self._order('trip')}, row").fetchnumpy()["row"]
        by_person = order[np.argsort(person[order], kind="stable")]
        places = np.empty(len(person), np.int64)
        places[by_person] = np.arange(len(person)) - firsts
        return np.where(known, places, NOWHERE)

    def per_person(self, persons: Ids) -> Integers | None:
        """int64[t + 1]: the number of persons with 0, 1, ..., t trips, given the ids of the persons of all trips; None
        for the unit 'trip'."""
        if self.unit.name == "trip":
            return None
        values = _plain(persons, "person")
        if values is None:
            raise unknown_person()
        own = np.bincount(values.drop_null().dictionary_encode().indices.to_numpy(zero_copy_only=False))
        return persons_by_trips(own, np.ones(len(own), np.int64))

    def candidates(self, trips: Trips) -> Trips:
        """The trips that may be kept: all, or for the unit 'person' those whose person is known."""
        if self.unit.name == "trip" or trips.persons is None or not trips.persons.null_count:
            return trips
        return trips.kept(None, trips.persons.is_valid().to_numpy(zero_copy_only=False))

    def sql(self, table: str, person: str | None, trip: str | None) -> str:
        """DuckDB SQL that selects the kept rows of `table`, which has one point per row; with a column dqam_place for
        the place of the trip among those of its person, from 1 on.

        Without a column for the trip all points of a person are one trip.
        """
        if self.unit.name == "person" and person is None:
            raise unknown_person()
        if self.unit.name == "trip" or trip is None:
            return f"SELECT *, 1 AS dqam_place FROM {table}"
        place = f"row_number() OVER (PARTITION BY {person} ORDER BY {self._order(trip)})"
        placed = f"SELECT {person}, {trip}, {place} AS dqam_place FROM (SELECT DISTINCT {person}, {trip} FROM {table})"
        return (
            f"SELECT {table}.*, dqam_place FROM {table} JOIN ({placed} QUALIFY dqam_place <= {self.unit.max_trips}) "
            f"AS kept ON {table}.{person} = kept.{person} AND {table}.{trip} = kept.{trip}"
        )

    def per_person_sql(self, table: str, person: str, trip: str | None) -> str:
        """DuckDB SQL that counts persons by their number of trips in all rows of `table`: columns trips, persons."""
        keys = person if trip is None else f"{person}, {trip}"  # without trips, all points of a person are one
        each = f"SELECT count(*) AS trips FROM (SELECT DISTINCT {keys} FROM {table}) GROUP BY {person}"
        return f"SELECT trips, count(*) AS persons FROM ({each}) GROUP BY trips"

    def _order(self, trip: str) -> str:
        return f"md5(concat('{self.salt}', CAST({trip} AS STRING))), {trip}"


def persons_by_trips(trips: Integers, persons: Integers) -> Integers:
    """int64[t + 1]: the number of persons with 0, 1, ..., t trips, from how many persons have each number of trips.

    >>> persons_by_trips(np.array([1, 3]), np.array([5, 2]))
    array([0, 5, 0, 2])
    """
    if not len(trips):
        return np.zeros(1, np.int64)
    trips = np.minimum(trips, MOST_OF_A_PERSON)
    found = np.zeros(int(trips.max()) + 1, np.int64)
    np.add.at(found, trips, persons)
    return found


def of_two_parts(one: Integers | None, other: Integers | None) -> Integers | None:
    """The same for two sets of persons that have none in common; None for no part."""
    if one is None or other is None:
        return one if other is None else other
    short, long = sorted((one, other), key=len)
    found = long.copy()
    found[: len(short)] += short
    return found


@cache
def _base() -> duckdb.DuckDBPyConnection:
    """One database for all callers, because creating one takes longer than a query; each caller uses its own cursor."""
    return duckdb.connect(config={"temp_directory": ""})  # nothing goes to the disk


def unknown_person() -> InputError:
    """The error for trips without person ids."""
    return InputError(
        "unit='person' needs the person of every trip, and these trips have no person column; name it, "
        "columns={'person': 'NAME'}, or use unit='trip'."
    )


def _plain(ids: Ids, what: str) -> pa.Array | None:
    """Ids as whole numbers or text."""
    if ids is None:
        return None
    try:
        array = ids if isinstance(ids, pa.Array) else pa.array(ids)
    except (pa.ArrowException, OverflowError) as error:
        raise InputError(f"The ids of a {what} must be all whole numbers or all text ({error}).") from None
    return ids_of(array, "The trips", what)
