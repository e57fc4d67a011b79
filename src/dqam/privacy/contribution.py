"""Contribution bounding: at most m trips of each person count, and every engine chooses the same ones.

A person's trips are ordered by the MD5 of the publication's salt and the trip's id, and the first m are kept. Trips
without ids are numbered within each person instead. Which trips are kept depends only on the person's own trips and on
the salt, which is public and drawn at random for each publication: with or without another person they are the same. So
a person changes what is counted by at most m trips. Trips without a person are left out.
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
from dqam.geometry.arrays import Mask
from dqam.geometry.ids import ids_of, without_nulls
from dqam.geometry.trips import Trips
from dqam.values.guarantee import Unit

Ids: TypeAlias = Sequence[object] | pa.Array | None


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
        keep = np.zeros(len(person), np.bool_)
        keep[by_person[np.arange(len(person)) - firsts < self.unit.max_trips]] = True
        return keep & known

    def candidates(self, trips: Trips) -> Trips:
        """The trips that may be kept: all, or for the unit 'person' those whose person is known."""
        if self.unit.name == "trip" or trips.persons is None or not trips.persons.null_count:
            return trips
        return trips.kept(None, trips.persons.is_valid().to_numpy(zero_copy_only=False))

    def sql(self, table: str, person: str | None, trip: str | None) -> str:
        """DuckDB SQL that selects the kept rows of `table`, which has one point per row.

        Without a column for the trip all points of a person are one trip.
        """
        if self.unit.name == "person" and person is None:
            raise unknown_person()
        if self.unit.name == "trip" or trip is None:
            return f"SELECT * FROM {table}"
        place = f"row_number() OVER (PARTITION BY {person} ORDER BY {self._order(trip)})"
        return (
            f"SELECT {table}.* FROM {table} JOIN (SELECT {person}, {trip} FROM (SELECT {person}, {trip}, {place} AS "
            f"dqam_place FROM (SELECT DISTINCT {person}, {trip} FROM {table})) WHERE dqam_place <= "
            f"{self.unit.max_trips}) AS kept ON {table}.{person} = kept.{person} AND {table}.{trip} = kept.{trip}"
        )

    def _order(self, trip: str) -> str:
        return f"md5(concat('{self.salt}', CAST({trip} AS STRING))), {trip}"


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
