"""Slicings: names in order, labels as Python's own calendar has them, and what is refused."""

from __future__ import annotations

import pickle
import zoneinfo
from datetime import UTC, datetime, timedelta
from itertools import pairwise, product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dqam.errors import InputError
from dqam.geometry.slicing import CLOCKS, MOST_SLICES, Slicing, earliest_kinds
from dqam.geometry.trips import Trips, offsets_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = (
    *("UTC", "Europe/Lisbon", "America/New_York", "America/St_Johns", "Asia/Kathmandu", "Africa/Casablanca"),
    *("Australia/Lord_Howe", "Pacific/Apia", "Antarctica/Troll"),
)
HOURS = [f"{hour:02}" for hour in range(24)]


def microseconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def read_clock(rule: str, start: int, zone: str | None) -> int:
    """The label of a start by Python's own calendar."""
    local = (EPOCH + timedelta(microseconds=start)).astimezone(zoneinfo.ZoneInfo(zone or "UTC"))
    return {
        "hour": local.hour,
        "weekday": local.weekday(),
        "weekpart": int(local.weekday() >= 5),
        "month": local.month - 1,
    }[rule]


def assert_clocks(starts: list[int], zone: str | None) -> None:
    """All rules agree with Python."""
    for rule in CLOCKS:
        found = Slicing.parse(rule, zone).labels(np.array(starts, np.int64), None)
        assert found.dtype == np.int16
        assert found.tolist() == [read_clock(rule, start, zone) for start in starts], (rule, zone)


@pytest.mark.parametrize("zone", [None, *ZONES])
def test_clocks_are_those_of_python(zone: str | None) -> None:
    rng = np.random.default_rng(len(zone or ""))
    spans = ((-62, 253), (-3, 4), (0, 3))  # 10^9 seconds: all years, those about 1970, and now
    starts = np.concatenate([rng.integers(int(a * 0.99e15), int(b * 0.99e15), 400) for a, b in spans])
    edges = [microseconds(datetime(year, 1, 1, tzinfo=UTC)) for year in (1, 1582, 1900, 1969, 1970, 2037, 2038, 2100)]
    near = [edge + more for edge in edges[1:] for more in (-1, 0, 1)]
    assert_clocks([*starts.tolist(), *near, edges[0] + 10**12], zone)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("year", [1950, 1986, 2024, 2036, 2037, 2038, 2050, 2400])
def test_clocks_change_when_they_do(zone: str, year: int) -> None:
    """Around each change of the year, to the second."""
    there, first = zoneinfo.ZoneInfo(zone), datetime(year, 1, 1, tzinfo=UTC)
    days = [first + timedelta(days=day) for day in range(367)]
    starts = []
    for day, after in pairwise(days):
        if day.astimezone(there).utcoffset() != after.astimezone(there).utcoffset():
            starts += [microseconds(day + timedelta(minutes=minute)) for minute in range(0, 1441, 15)]
            starts += [start - 1 for start in starts[-97:]]
    assert_clocks([microseconds(day) for day in days] + starts, zone)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.sampled_from([None, *ZONES]))
def test_no_time_is_refused(starts: list[int], zone: str | None) -> None:
    for rule in CLOCKS:
        slicing = Slicing.parse(rule, zone)
        labels = slicing.labels(np.array(starts, np.int64), None)
        assert ((labels >= 0) & (labels < len(slicing))).all()


def test_names_are_in_order() -> None:
    assert list(Slicing.parse("hour").names) == HOURS
    assert Slicing.parse("weekday").names == ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
    assert Slicing.parse("weekpart").names == ("weekday", "weekend")
    assert Slicing.parse("month").names == tuple(f"{month:02}" for month in range(1, 13))
    assert Slicing.parse("kind=bike,car").names == ("bike", "car", "other")
    both = Slicing.parse("hour*weekpart")
    assert both.names == tuple(f"{hour} {part}" for hour, part in product(HOURS, ("weekday", "weekend")))
    three = Slicing.parse("weekpart*kind=e-bike,on foot*month")
    assert three.names[12] == "weekday on foot 01"
    assert len(three) == len(set(three.names)) == 72
    assert len(Slicing.parse("hour*weekday")) == 168


@pytest.mark.parametrize(
    ("text", "needs_times", "column", "spelled"),
    [
        ("hour", True, None, "hour"),
        (" hour * weekpart ", True, None, "hour*weekpart"),
        ("hour*kind=bike,car", True, "kind", "hour*kind=bike,car"),
        ("vehicle type = bike , car", False, "vehicle type", "vehicle type=bike,car"),
        ("hour=7,8", False, "hour", "hour=7,8"),
        ("kind=bike,other", False, "kind", "kind=bike"),
        ("kind=a=b,c", False, "kind", "kind=a=b,c"),
    ],
)
def test_a_slicing_is_its_text(text: str, needs_times: bool, column: str | None, spelled: str) -> None:
    slicing = Slicing.parse(text, "Europe/Lisbon")
    assert (slicing.needs_times, slicing.column, str(slicing)) == (needs_times, column, spelled)
    assert slicing.timezone == "Europe/Lisbon"
    assert Slicing.parse(str(slicing), "Europe/Lisbon") == slicing == pickle.loads(pickle.dumps(slicing))
    assert slicing != Slicing.parse(spelled)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "'' is not a rule for slices; rules are hour, weekday, weekpart, month and COLUMN=a,b,c"),
        ("hours", "'hours' is not a rule for slices; did you mean 'hour'"),
        ("hour*", "'' is not a rule"),
        ("kind=", "'kind=' lacks values; write it as COLUMN=a,b,c"),
        ("kind=a,,b", "lacks a value"),
        ("=a,b", "lacks a column"),
        ("kind=a, b,a", "lists 'a' more than once"),
        ("kind=other,a,other", "lists 'other' more than once"),
        ("kind=other", "lists nothing but 'other'"),
        ("hour*hour", "by 'hour' more than once"),
        ("a=1*b=2", "by more than one column"),
        ("hour*month*weekpart", "makes 576 slices; make at most 400"),
        (f"kind={','.join(map(str, range(MOST_SLICES)))}", "makes 401 slices"),
        (f"kind={'x' * 1001}", "longer than 1,000 bytes"),
    ],
)
def test_what_is_no_slicing_is_refused(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        Slicing.parse(text)
    assert len(str(caught.value)) < 300
    with pytest.raises(InputError):
        Slicing(tuple(text.split("*")))


@pytest.mark.parametrize(
    ("zone", "says"),
    [
        ("Europe/lisbon", "'Europe/lisbon' is not a time zone; did you mean 'Europe/Lisbon'"),
        ("Mars/Phobos", "use an IANA name such as 'Europe/Lisbon'"),
        *((zone, "is not a time zone") for zone in ("", "localtime", "+01:00", "../UTC", "posixrules")),
    ],
)
def test_unknown_zones_are_refused(zone: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        Slicing.parse("hour", zone)


KIND = Slicing.parse("kind=bike,car,7,true")


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        (pa.array(["bike", " bike\t", "\u2003car", "BIKE", "", None, "x" * 10**6, "bike,car"]), [0, 0, 1] + [4] * 5),
        (pa.array(["car", "bike"], pa.large_string()), [1, 0]),
        (pa.array(["car", "bike"], pa.string_view()), [1, 0]),
        (pa.array(["car", None, "bike", "car"]).dictionary_encode(), [1, 4, 0, 1]),
        (pa.array([b"car", b"\xff", b"bike "]), [1, 4, 0]),
        (pa.array([7, 8, None]), [2, 4, 4]),
        (pa.array([7, 2**64 - 1], pa.uint64()), [2, 4]),
        (pa.array([7.0, 7.5, float("nan"), float("inf"), None, 1e300]), [2] + [4] * 5),
        (pa.array([True, False, None]), [3, 4, 4]),
        (pa.array([["bike"], None]), [4, 4]),
        (pa.array([{"a": "bike"}]), [4]),
        (pa.nulls(2), [4, 4]),
        (pa.array([], pa.string()), []),
    ],
    ids=lambda values: str(getattr(values, "type", ""))[:20],
)  # fmt: skip
def test_values_are_compared_as_text(values: pa.Array, labels: list[int]) -> None:
    found = KIND.kinds(values)
    assert found.dtype == np.int16
    assert found.tolist() == labels
    assert KIND.listed(values).to_pylist() == [[*KIND.values, None][label] for label in labels]
    assert [KIND.kinds(values[i : i + 1]).tolist() for i in range(len(values))] == [[label] for label in labels]


def test_labels_of_products_are_the_places_of_their_names() -> None:
    rng = np.random.default_rng(0)
    starts, kinds = rng.integers(0, 2 * 10**15, 500), rng.integers(0, 3, 500).astype(np.int16)
    slicing = Slicing.parse("weekday*kind=bike,car*month", "Europe/Lisbon")
    names = [slicing.names[label] for label in slicing.labels(starts, kinds)]
    assert names == [
        f"{CLOCKS['weekday'][read_clock('weekday', start, 'Europe/Lisbon')]} {['bike', 'car', 'other'][kind]} "
        f"{read_clock('month', start, 'Europe/Lisbon') + 1:02}"
        for start, kind in zip(starts.tolist(), kinds, strict=True)
    ]


def test_what_labels_need_must_be_there() -> None:
    with pytest.raises(InputError, match="need trips with times"):
        Slicing.parse("hour").labels(None, None)
    with pytest.raises(InputError, match="need the column 'kind'"):
        KIND.labels(np.zeros(1, np.int64), None)


def test_trips_are_labelled_by_their_earliest_point() -> None:
    time = np.array([5, 3, 4, 1, 2]) * 3_600 * 10**6
    trips = Trips(np.zeros(5), np.zeros(5), np.array([0, 3, 5]), time, slices=np.array([1, 0], np.int16))
    assert Slicing.parse("hour").labelled(trips).slices.tolist() == [3, 1]  # type: ignore[union-attr]
    assert Slicing.parse("hour*kind=a").labelled(trips).slices.tolist() == [7, 2]  # type: ignore[union-attr]
    none = trips.kept(None, np.zeros(2, bool))
    assert Slicing.parse("hour*kind=a").labelled(none).slices.tolist() == []  # type: ignore[union-attr]


@given(st.lists(st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 3)), min_size=1), max_size=9), st.booleans())
def test_the_smallest_label_of_the_earliest_points(rows: list[list[tuple[int, int]]], timed: bool) -> None:
    time, kinds = np.array([row for trip in rows for row in trip], np.int64).reshape(-1, 2).T
    offsets = offsets_of(np.array([len(trip) for trip in rows], np.int64))
    found = earliest_kinds(time if timed else None, kinds.astype(np.int16), offsets)
    assert found.tolist() == [min(row if timed else row[::-1] for row in trip)[timed] for trip in rows]


@pytest.mark.parametrize("value", ["1234567890123456789", "0.5", "nan", "NaT", "inf", "1e300"])
def test_values_that_tables_can_round_are_refused(value: str) -> None:
    with pytest.raises(InputError, match="can be rounded when tables are read"):
        Slicing.parse(f"kind=a,{value}")
