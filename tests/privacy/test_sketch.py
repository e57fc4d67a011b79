"""The same trips are recognised and others are not, wherever and in however many parts they were sketched."""

import hashlib
import math
import struct
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dqam.errors import InputError
from dqam.privacy import sketch as module
from dqam.privacy.sketch import DENSE, FEW, K, Sketch, sketch_of, sketch_sql

KEY = "00ff"
SIDES = ("west", "south", "east", "north")


def table(n: int, seed: int = 0, **columns: Any) -> pa.Table:
    """Random boxes, and the given columns."""
    boxes = np.random.default_rng(seed).uniform(-50, 50, (4, n))
    return pa.table(dict(zip(SIDES, boxes, strict=True)) | columns)


def random_ids(n: int, seed: int) -> list[str]:
    return [f"x{number}y" for number in np.random.default_rng(seed).integers(0, 2**62, n)]


def of_hashes(hashes: np.ndarray) -> Sketch:
    """The sketch of trips with these hashes."""
    return Sketch(np.empty(0, np.uint64), np.sort(hashes)[:K])


# how many are in both


@pytest.mark.parametrize("large", [1, 2, 7, 300, K - 1])
@pytest.mark.parametrize("small", [1, 2, 7, 300])
@pytest.mark.parametrize("share", [Fraction(0), Fraction(1, 7), Fraction(1, 2), Fraction(1)])
def test_small_sets_are_compared_exactly(large: int, small: int, share: Fraction) -> None:
    small = min(small, large)
    common = math.floor(share * small)
    hashes = np.random.default_rng(small).permutation(2**17)[: small + large - common].astype(np.uint64)
    ours, theirs = of_hashes(hashes[:large]), of_hashes(hashes[large - common :])
    assert ours.overlap(theirs) == theirs.overlap(ours) == common / small


@pytest.mark.parametrize("large", [K, K + 1, 100_000, 1_000_000])
@pytest.mark.parametrize("part", [1, 3, 30, 300])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.25, 0.5, 1.0])
def test_large_sets_are_compared_as_precisely_as_said(large: int, part: int, share: float) -> None:
    small = large // part
    common = round(share * small)
    hashes = np.random.default_rng(large + part).integers(0, 2**64, small + large - common, np.uint64)
    ours, theirs = of_hashes(hashes[:large]), of_hashes(hashes[large - common :])
    found = ours.overlap(theirs)
    assert found == theirs.overlap(ours)
    sampled = min(small, small * K / large)
    if share in (0, 1):
        assert found == share
    elif share * sampled > 4 * FEW:
        assert abs(found - share) < 4 * math.sqrt(share * (1 - share) / sampled)


def test_two_trips_in_common_do_not_look_like_many() -> None:
    hashes = np.random.default_rng(0).permutation(2**20).astype(np.uint64)
    large, seen = hashes[:100_000], np.sort(hashes[:100_000])[:K]
    for common in range(1, 2 * FEW):
        small = of_hashes(np.concatenate([seen[:common], hashes[200_000:200_003]]))
        found = of_hashes(large).overlap(small)
        assert found == 0 if common < FEW else found > 0.5
    assert of_hashes(seen[:1]).overlap(of_hashes(seen[:2])) == 1  # both are known completely


def test_nothing_overlaps_with_nothing() -> None:
    empty = sketch_of(table(0), KEY)
    assert empty.overlap(empty) == empty.overlap(sketch_of(table(5), KEY)) == 0


@pytest.mark.parametrize("with_ids", [False, True])
def test_copies_parts_and_others(with_ids: bool) -> None:
    size = 3 * K
    ids: dict[str, Any] = {"person": np.arange(size) // 3, "trip": random_ids(size, 1)} if with_ids else {}
    whole = table(size, time=np.arange(size), **ids)
    sketched = sketch_of(whole, KEY)
    other = sketch_of(table(size, 1, time=np.arange(size)), KEY)
    assert sketched.overlap(sketch_of(whole.take(np.random.default_rng(0).permutation(size)), KEY)) == 1
    assert sketched.overlap(sketch_of(whole.slice(100, K // 8), KEY)) == 1
    assert sketched.overlap(other) == 0
    ids = {"person": np.arange(5_000) // 3, "trip": random_ids(5_000, 2)} if with_ids else {}
    half = pa.concat_tables([whole.slice(0, 5_000), table(5_000, 2, time=np.arange(5_000), **ids)])
    assert sketched.overlap(sketch_of(half, KEY)) == pytest.approx(0.5, abs=0.05)
    assert sketched.overlap(sketch_of(whole, "another key")) == 0


# parts and wholes


@given(
    owners=st.lists(st.integers(0, 4), min_size=300, max_size=300),
    order=st.permutations(range(5)),
    optional=st.sets(st.sampled_from(["person", "trip", "time"])),
    most=st.sampled_from([1, 20, 299, 300, 301]),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_parts_merge_to_the_whole(
    monkeypatch: pytest.MonkeyPatch, owners: list[int], order: list[int], optional: set[str], most: int
) -> None:
    monkeypatch.setattr(module, "K", most)
    monkeypatch.setattr(module, "BATCH", 64)
    columns = {
        "person": pa.array([None if i % 7 == 0 else i // 2 for i in range(300)]),
        "trip": pa.array([None if i % 5 == 0 else f"t{i // 2}" for i in range(300)]),
        "time": pa.array([None if i % 3 == 0 else i // 2 for i in range(300)]),
    }
    whole = table(300, **{name: columns[name] for name in sorted(optional)})
    expected = sketch_of(whole, KEY).to_bytes()
    parts = [sketch_of(whole.filter(np.array(owners) == part), KEY) for part in order]
    merged = parts[0]
    for part in parts[1:]:
        merged = merged.merge(part)
    assert merged.to_bytes() == expected
    assert parts[0].merge(parts[1].merge(parts[2].merge(parts[3].merge(parts[4])))).to_bytes() == expected
    assert merged.merge(parts[0]).to_bytes() == merged.merge(merged).to_bytes() == expected  # trips that are in both
    assert len(merged.trips) <= most


def test_the_disk_gives_the_same(tmp_path: Path) -> None:
    whole = table(5_000, person=np.arange(5_000) % 70, trip=random_ids(5_000, 0), time=np.arange(5_000))
    with duckdb.connect(str(tmp_path / "points.db")) as base:
        base.execute("SET threads = 1")
        base.register("whole", whole)
        base.execute("CREATE TABLE points AS SELECT *, unnest([west, east]) AS x FROM whole")
        query = (
            "SELECT min(x) AS west, south, max(x) AS east, north, person, trip, min(time) AS time FROM points "
            "GROUP BY person, trip, south, north"
        )
        found = sketch_sql(base, query, KEY)
    sides = [whole[side].to_numpy() for side in SIDES]
    boxes = {"west": np.minimum(sides[0], sides[2]), "east": np.maximum(sides[0], sides[2])}
    for side, values in boxes.items():
        whole = whole.set_column(whole.schema.get_field_index(side), side, pa.array(values))
    assert found.to_bytes() == sketch_of(whole, KEY).to_bytes()


# what is hashed


def md5(text: str) -> int:
    """The same as DuckDB's md5_number_lower."""
    return int.from_bytes(hashlib.md5(text.encode()).digest()[8:], "little")


def test_hashes_are_those_of_another_implementation() -> None:
    sides = (0.1, -33.85, 151.2, 1.5)
    bits = [str(struct.unpack("<i", struct.pack("<f", side))[0]) for side in sides]
    box = "".join(f"{len(text)}:{text}" for text in bits)
    boxed = dict(zip(SIDES, ([side] for side in sides), strict=True))
    timed = sketch_of(pa.table({**boxed, "person": ["é"], "trip": [17], "time": [123456]}), "it's secret")
    assert timed.ids.tolist() == [md5("it's secretids2:é2:17")]
    assert timed.trips.tolist() == [md5(f"it's secrettrips{box}6:123456")]
    untimed = sketch_of(pa.table({**boxed, "trip": ["x"]}), KEY)
    assert untimed.ids.tolist() == [md5(f"{KEY}ids-1:x")]
    assert untimed.trips.tolist() == [md5(f"{KEY}trips{box}--1:x")]


def test_ids_that_read_the_same_are_the_same() -> None:
    forms = [pa.array([17, 18], kind) for kind in (pa.int64(), pa.uint64(), pa.int32())]
    forms += [pa.array(["17", "18"], kind) for kind in (pa.string(), pa.large_string())]
    forms += [pa.array(["17", "18"]).dictionary_encode()]
    found = {sketch_of(table(2, person=a, trip=b), KEY).to_bytes() for a in forms for b in forms}
    assert len(found) == 1
    large = pa.array([2**63 + 5], pa.uint64()), pa.array([str(2**63 + 5)])
    assert len({sketch_of(table(1, trip=form), KEY).to_bytes() for form in large}) == 1


def test_ids_that_differ_differ() -> None:
    texts = [None, *("".join(letters) for n in range(4) for letters in product("a:-1", repeat=n))]
    pairs = list(product(texts, texts))
    persons, trips = zip(*pairs, strict=True)
    named = [pair for pair in pairs if pair[1] is not None]
    found = sketch_of(
        pa.table({side: np.zeros(len(pairs)) for side in SIDES} | {"person": persons, "trip": trips}), KEY
    )
    assert len(found.ids) == len(named) < K
    assert len(found.trips) == len(pairs)  # boxes alone would all be the same


def test_boxes() -> None:
    def boxed(*values: float | None, time: int | None = 1) -> bytes:
        count = len(values)
        sides = dict.fromkeys(SIDES, pa.array(values, pa.float64(), from_pandas=False))
        return sketch_of(pa.table(sides | {"time": pa.array([time] * count, pa.int64())}), KEY).to_bytes()

    assert boxed(0.0) == boxed(-0.0) == boxed(0.0, -0.0) == boxed(0.0, math.nan, None)
    assert boxed(math.nan) == boxed(None) == boxed()
    assert len({boxed(value) for value in (0.0, 1.0, 1e-30, 1e300, math.inf, -math.inf)}) == 6
    assert boxed(1e300) == boxed(-1e300)  # too large to be compared, but no error
    assert boxed(1.0) != boxed(1.0, time=2) != boxed(1.0, time=None)


# what is recognised


def overlap(**changes: pa.Table) -> float:
    ours, theirs = changes["ours"], changes["theirs"]
    return sketch_of(ours, KEY).overlap(sketch_of(theirs, KEY))


def test_a_copy_with_other_ids_is_recognised_by_boxes_and_times() -> None:
    time = {"time": np.arange(1_000)}
    ours = table(1_000, trip=random_ids(1_000, 0), person=np.arange(1_000), **time)
    for copy in (table(1_000, **time), table(1_000, trip=random_ids(1_000, 1), **time)):
        assert overlap(ours=ours, theirs=copy) == 1
    narrow = ours
    for side in SIDES:
        narrow = narrow.set_column(
            narrow.schema.get_field_index(side), side, ours[side].cast(pa.float32(), safe=False).cast(pa.float64())
        )
    assert overlap(ours=ours.drop_columns(["trip"]), theirs=narrow.drop_columns(["trip"])) == 1
    assert (
        overlap(ours=ours, theirs=ours.set_column(ours.schema.get_field_index("time"), "time", [time["time"] + 1])) == 1
    )
    moved = table(1_000, 1, trip=ours["trip"], person=ours["person"])
    assert overlap(ours=ours, theirs=moved) == 1  # by ids


def test_stations_are_no_evidence_without_times() -> None:
    stations = pa.table({side: np.arange(1_000) % 10 / 7 for side in SIDES})
    march, april = (stations.append_column("trip", pa.array(random_ids(1_000, seed))) for seed in (0, 1))
    assert overlap(ours=march, theirs=april) == 0
    assert overlap(ours=march, theirs=march) == 1


def ids_only(trips: Any, persons: Any = None, seed: int = 0) -> Sketch:
    """The sketch of trips that have only their ids in common with others."""
    more = {} if persons is None else {"person": pa.array(persons)}
    return sketch_of(table(len(trips), seed, trip=pa.array(trips), **more), KEY)


@pytest.mark.parametrize("size", [1_000, 2 * K])
def test_ids_that_every_file_has_are_no_evidence(size: int) -> None:
    rng = np.random.default_rng(0)
    numbers = np.arange(size)
    letters = [f"person {chr(97 + number % 26)}" for number in range(size)]
    for trips, persons, overlapping in (
        (numbers, None, 0),
        (numbers + 10**9, None, 0),  # of a database that keeps counting
        ([f"trip {number}" for number in numbers], None, 0),
        (numbers, numbers // 4, 0),
        (numbers % 4, numbers // 4, 0),
        (numbers * (DENSE - 1), None, 0),
        (numbers * (DENSE + 1), None, 1),
        (np.unique(rng.integers(0, 2**62, size)), None, 1),
        (np.unique(rng.integers(0, 2**62, size)), numbers, 1),
        ([f"2024-{number}" for number in numbers], None, 1),
        (numbers, letters, 1),
        (numbers % 4, np.unique(rng.integers(0, 2**62, size)), 1),
    ):
        assert ids_only(trips, persons, 0).overlap(ids_only(trips, persons, 1)) == overlapping
    every_tenth = ids_only(numbers[::10], None, 1)  # any file with consecutive ids has all of them
    assert ids_only(numbers).overlap(every_tenth) == every_tenth.overlap(ids_only(numbers)) == 0


# as bytes


def test_bytes() -> None:
    for sketch in (
        sketch_of(table(0), KEY),
        sketch_of(table(9, trip=np.arange(9), person=["a"] * 9), KEY),
        sketch_of(table(2 * K, trip=np.arange(2 * K)), KEY),
    ):
        data = sketch.to_bytes()
        again = Sketch.from_bytes(data)
        assert again.to_bytes() == data
        assert again.trip_numbers == sketch.trip_numbers
        assert again.overlap(sketch) == (len(sketch.trips) > 0)
        assert len(data) == 48 + 8 * (len(sketch.ids) + len(sketch.trips))
        for damaged in (data[:-1], data + b"x", b"", data[:10], b"\xff" * 8 + data[8:]):
            with pytest.raises(InputError, match="are not a sketch"):
                Sketch.from_bytes(damaged)
    with pytest.raises(InputError, match="are not a sketch"):
        Sketch.from_bytes(data[:-8] + bytes(8))  # not in order


def test_hashes_are_not_shown() -> None:
    assert repr(sketch_of(table(1), KEY)) == "Sketch()"
