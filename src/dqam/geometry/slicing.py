"""Slicings: public rules that put every trip into exactly one slice, by its start or by the value of a column.

A slicing is chosen without looking at the trips. The slice of a trip depends on that trip alone, and every trip has
one, so adding a trip changes the numbers of one slice only.
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import cached_property
from itertools import product
from math import prod

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from dqam.errors import InputError
from dqam.geometry.arrays import Integers, Labels
from dqam.geometry.ids import EXACT_BELOW, LONGEST_ID, cast_each, is_text, plain_array
from dqam.geometry.trips import Trips

MOST_SLICES = 400
OTHER = "other"
CLOCKS = {  # the names of the slices of each rule about the start of a trip
    "hour": tuple(f"{hour:02}" for hour in range(24)),
    "weekday": ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"),
    "weekpart": ("weekday", "weekend"),
    "month": tuple(f"{month:02}" for month in range(1, 13)),
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Starts are moved to the nearest year that all calendars know, so that no time is ever refused.
_EARLIEST, _LATEST = (
    (datetime(*day, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1) for day in ((1, 1, 8), (9999, 12, 24))
)
_LISTED_UNTIL = (datetime(2037, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_NOT_PLACES = {"localtime", "Factory", "posixrules"}  # in the database of time zones, but no zones that all agree on


@dataclass(frozen=True)
class Slicing:
    """A public rule that puts every trip into exactly one slice.

    rules     "hour", "weekday", "weekpart", "month" or "COLUMN=a,b,c"; the slices are all combinations of theirs
    timezone  the IANA name of the time zone in which clocks are read. By default times are taken as they are written,
              or in UTC if they were written with a zone

    The start of a trip is its earliest point. A value of the column that is not listed is "other".

    >>> slicing = Slicing.parse("weekpart*kind=bike,car")
    >>> print(slicing, slicing.names)  # doctest: +NORMALIZE_WHITESPACE
    weekpart*kind=bike,car ('weekday bike', 'weekday car', 'weekday other',
                            'weekend bike', 'weekend car', 'weekend other')
    """

    rules: tuple[str, ...]
    timezone: str | None = None

    def __post_init__(self) -> None:
        rules = tuple(_checked_rule(rule) for rule in self.rules)
        object.__setattr__(self, "rules", rules)
        kinds = [rule.partition("=")[1] or rule for rule in rules]
        if doubled := [kind for kind in kinds if kinds.count(kind) > 1]:
            what = "more than one column" if doubled[0] == "=" else f"{doubled[0]!r} more than once"
            raise InputError(f"Slices cannot be made by {what}; got {'*'.join(rules)!r}; name it once.")
        if self.timezone is not None:
            _check_zone(self.timezone)
        if len(self) > MOST_SLICES:
            raise InputError(
                f"{str(self)[:60]!r} makes {len(self):,} slices; make at most {MOST_SLICES}, with fewer rules or "
                "a shorter list."
            )

    @classmethod
    def parse(cls, text: str, timezone: str | None = None) -> Slicing:
        """The slicing that a text such as "hour", "hour*weekpart" or "hour*kind=bike,car" stands for."""
        if not isinstance(text, str):
            raise InputError(f"A slicing must be text such as 'hour'; got {type(text).__name__}.")
        return cls(tuple(text.split("*")), timezone)

    def __str__(self) -> str:
        return "*".join(self.rules)

    def __len__(self) -> int:
        """The number of slices."""
        return prod(map(len, self._names_by_rule))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The name of each slice, in order."""
        return tuple(" ".join(names) for names in product(*self._names_by_rule))

    @property
    def needs_times(self) -> bool:
        """Whether the slice of a trip depends on when it starts."""
        return any(rule in CLOCKS for rule in self.rules)

    @property
    def column(self) -> str | None:
        """The column whose value decides; None if there is none."""
        return next((rule.partition("=")[0] for rule in self.rules if "=" in rule), None)

    @cached_property
    def values(self) -> tuple[str, ...]:
        """The listed values of the column, labelled 0, 1, ...; any other value gets the label after them."""
        return next((tuple(rule.partition("=")[2].split(",")) for rule in self.rules if "=" in rule), ())

    @property
    def _names_by_rule(self) -> list[Sequence[str]]:
        return [(*self.values, OTHER) if "=" in rule else CLOCKS[rule] for rule in self.rules]

    def kinds(self, column: pa.Array) -> Labels:
        """int16[n]: the label of each value of the column, which may be of any type; compared as text, without white
        space around it."""
        texts = _texts(column)
        if texts is None:
            return np.full(len(column), len(self.values), np.int16)
        places = pc.index_in(texts, value_set=pa.array(self.values, texts.type), skip_nulls=True)
        return np.asarray(places.fill_null(len(self.values)).to_numpy(zero_copy_only=False), np.int16)

    def listed(self, column: pa.Array) -> pa.Array:
        """The listed value that each value of the column is equal to; null if it is not listed."""
        return pa.array([*self.values, None], pa.string()).take(pa.array(self.kinds(column)))

    def labels(self, start: Integers | None, kinds: Labels | None) -> Labels:
        """int16[n]: the slice of each trip.

        start  int64[n], microseconds since 1970, if clocks are read
        kinds  int16[n], the labels of the values of the column, if there is one
        """
        if self.needs_times and start is None:
            raise InputError(f"Slices by {self} need trips with times, and these have none; give a time column.")
        if self.column is not None and kinds is None:
            raise InputError(f"Slices by {self} need the column {self.column!r}; give a table that has it.")
        clocks = _clocks(start, self.timezone) if start is not None and self.needs_times else {}
        labels: Integers = np.zeros(1, np.int64)
        for rule, names in zip(self.rules, self._names_by_rule, strict=True):
            labels = labels * len(names) + np.asarray(clocks[rule] if rule in CLOCKS else kinds, np.int64)
        return labels.astype(np.int16)

    def labelled(self, trips: Trips) -> Trips:
        """The trips, none of which is empty, with their slices; `trips.slices` are the labels of the column, if any."""
        start = trips.starts if self.needs_times else None
        return replace(trips, slices=self.labels(start, trips.slices if self.column else None))


def earliest_kinds(time: Integers | None, kinds: Labels, offsets: Integers) -> Labels:
    """int16[n]: the smallest label of the earliest points of each trip, or of all its points if there are no times.

    So it does not depend on the order of the points, not even of those at the same time. No trip may be empty.
    """
    starts = offsets[:-1]
    if not len(starts):
        return np.zeros(0, np.int16)
    if time is not None:
        first = np.repeat(np.minimum.reduceat(time, starts), np.diff(offsets))
        kinds = np.where(time == first, kinds, np.int16(np.iinfo(np.int16).max))
    return np.asarray(np.minimum.reduceat(kinds, starts), np.int16)


def _clocks(start: Integers, timezone: str | None) -> dict[str, Integers]:
    """What each rule reads from the local time at the start of each trip."""
    local = pa.array(_local_times(start, timezone)).view(pa.timestamp("us"))
    weekday = np.asarray(pc.day_of_week(local))
    return {
        "hour": np.asarray(pc.hour(local)),
        "weekday": weekday,
        "weekpart": (weekday >= 5).astype(np.int64),
        "month": np.asarray(pc.month(local)) - 1,
    }


def _local_times(start: Integers, timezone: str | None) -> Integers:
    """Microseconds from 1970 on the clocks of the time zone.

    Arrow knows the changes of clocks that the database of time zones lists, which are those before 2038; the rules for
    later years are left to `zoneinfo`.
    """
    known = np.clip(start, _EARLIEST, _LATEST)
    if timezone is None:
        return known
    local = np.asarray(pc.local_timestamp(pa.array(known).view(pa.timestamp("us", timezone))).view(pa.int64())).copy()
    if len(late := np.flatnonzero(known >= _LISTED_UNTIL)):
        zone = zoneinfo.ZoneInfo(timezone)
        minutes, place = np.unique(known[late] // 60_000_000, return_inverse=True)  # clocks change at whole minutes
        clocks = [(_EPOCH + timedelta(minutes=int(each))).astimezone(zone).replace(tzinfo=UTC) for each in minutes]
        there = np.array([(clock - _EPOCH) // timedelta(minutes=1) for clock in clocks], np.int64)
        local[late] = known[late] + 60_000_000 * (there - minutes)[place]
    return local


def _texts(column: pa.Array) -> pa.Array | None:
    """The values as text without white space around them; None if values of this type are no text.

    One row can change the type of a whole column of a data frame: whole numbers with a gap become floats, and truth
    values or dates with a gap become objects, whose text is that of Python. So a value has the same text in every type
    that it can have, or is not listed in any (`_checked_rule` refuses such values).
    """
    try:
        plain = plain_array(column)
        if pt.is_floating(plain.type) or pt.is_decimal(plain.type):
            values = plain.cast(pa.float64()).to_numpy(zero_copy_only=False)
            whole = (np.abs(values) < EXACT_BELOW) & (np.floor(values) == values)  # false for NaN
            return pa.array(np.where(whole, values, 0).astype(np.int64), mask=~whole).cast(pa.string())
        if pt.is_timestamp(plain.type) or pt.is_date(plain.type):
            each = plain.dictionary_encode()
            texts = pa.array([value and value.isoformat() for value in each.dictionary.to_pylist()], pa.string())
            return texts.take(each.indices)
        if pt.is_temporal(plain.type):
            return None
        texts = pc.utf8_trim_whitespace(plain if is_text(plain.type) else cast_each(plain, pa.string()))
        truth = pc.is_in(texts, value_set=pa.array(["True", "False"], texts.type))
        return pc.if_else(truth, pc.utf8_lower(texts), texts)
    except pa.ArrowException:
        return None


def _is_the_same_in_all_types(value: str) -> bool:
    """Whether a data frame cannot turn this value into another text; see `_texts`."""
    try:
        number = float(value)
    except ValueError:
        return value != "NaT"
    return abs(number) < EXACT_BELOW and number.is_integer()


def _checked_rule(rule: str) -> str:
    """The rule in its usual form; an `InputError` if it is none."""
    column, listed, values = (part.strip() for part in rule.partition("="))
    if not listed:
        if column in CLOCKS:
            return column
        close = get_close_matches(column.lower(), CLOCKS, 1)
        meant = f"did you mean {close[0]!r}? Rules" if close else "rules"
        raise InputError(f"{column[:60]!r} is not a rule for slices; {meant} are {', '.join(CLOCKS)} and COLUMN=a,b,c.")
    names = [value.strip() for value in values.split(",")]
    names = [value.lower() if value in ("True", "False") else value for value in names]
    if not column or not all(names):
        what = "a column" if not column else "a value" if any(names) else "values"
        raise InputError(f"The rule {rule.strip()[:60]!r} lacks {what}; write it as COLUMN=a,b,c.")
    if doubled := [name for name in names if names.count(name) > 1]:
        raise InputError(f"The rule {rule.strip()[:60]!r} lists {doubled[0][:60]!r} more than once; list it once.")
    if long := [name for name in names if len(name.encode()) > LONGEST_ID]:
        raise InputError(f"The value {long[0][:20]!r}... is longer than {LONGEST_ID:,} bytes; list shorter values.")
    if odd := [name for name in names if not _is_the_same_in_all_types(name)]:
        raise InputError(
            f"The rule {rule.strip()[:60]!r} lists {odd[0][:60]!r}, which can be rounded when tables are read; list "
            "text, or whole numbers below 2^53."
        )
    names = [name for name in names if name != OTHER]  # it is there anyway
    if not names:
        raise InputError(f"The rule {rule.strip()[:60]!r} lists nothing but {OTHER!r}; list the values to tell apart.")
    return f"{column}={','.join(names)}"


def _check_zone(timezone: str) -> None:
    """Raise an `InputError` unless this is the name of a time zone."""
    known = zoneinfo.available_timezones() - _NOT_PLACES
    if timezone in known:
        return
    lower = {name.lower(): name for name in sorted(known)}
    close = get_close_matches(str(timezone).lower(), lower, 1, 0.7)
    meant = f"did you mean {lower[close[0]]!r}?" if close else "use an IANA name such as 'Europe/Lisbon'."
    raise InputError(f"{str(timezone)[:60]!r} is not a time zone; {meant}")
