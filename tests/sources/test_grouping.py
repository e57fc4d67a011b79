"""Rows brought together in memory, against Python's own sort."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqam.sources import grouping

KEYS = [-(2**63), -1, 0, 1, 2, 3, 7, 2**40, 2**63 - 1]
Row = tuple[int, int, int, float]


def grouped(rows: list[Row], names: list[str], cuts: list[int], batch: int, text: bool) -> list[tuple[object, ...]]:
    """The rows, with a place each to know them by, as they come out of parts that end at `cuts`."""
    one, other, time, place = (np.array(column) for column in zip(*rows, strict=True))
    columns = {"key0": one, "key1": other, "t": time, "x": place, "y": -place}
    table = pa.table({name: pa.array(columns[name]) for name in names})
    if text:
        table = table.set_column(0, "key0", table.column(0).cast(pa.string()))
    ends = sorted({min(cut, len(rows)) for cut in cuts} | {len(rows)})
    parts = [
        table.slice(i, j - i).combine_chunks().to_batches()[0] for i, j in zip([0, *ends], ends, strict=False) if i < j
    ]
    found = [part.to_pylist() for part in grouping.grouped(parts, batch)]
    assert all(len(part) <= batch for part in found)
    assert all(row["y"] == -row["x"] for part in found for row in part)
    return [
        tuple(str(row[name]) if text and name == "key0" else row[name] for name in names[:-1])
        for part in found
        for row in part
    ]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(KEYS), st.integers(-3, 3)), min_size=1, max_size=300),
    st.lists(st.integers(0, 300), max_size=4),
    st.sampled_from(
        [["key0", "key1", "t", "x", "y"], ["key0", "t", "x", "y"], ["key0", "key1", "x", "y"], ["key0", "x", "y"]]
    ),
    st.booleans(),
    st.integers(1, 400),
    st.sampled_from([1, 8, grouping.BUCKET]),
)
def test_trips_stand_together_by_time_and_then_as_they_came(
    given_rows: list[tuple[int, int, int]], cuts: list[int], names: list[str], text: bool, batch: int, bucket: int
) -> None:
    rows = [(*row, float(i)) for i, row in enumerate(given_rows)]
    with mock.patch.object(grouping, "BUCKET", bucket):
        found = grouped(rows, names, cuts, batch, text)
    keys = sum(name.startswith("key") for name in names)
    runs = [row[:keys] for i, row in enumerate(found) if not i or row[:keys] != found[i - 1][:keys]]
    assert len(runs) == len(set(runs))  # no trip comes twice
    as_given = {"key0": 0, "key1": 1, "t": 2, "x": 3}
    plain = [
        tuple(str(row[0]) if text and name == "key0" else row[as_given[name]] for name in names[:-1]) for row in rows
    ]
    order = {key: place for place, key in enumerate(runs)}
    assert found == sorted(plain, key=lambda row: (order[row[:keys]], row[keys] if "t" in names else 0))


@pytest.mark.parametrize("length", [grouping.SHORT, grouping.SHORT + 1, 5_000])
def test_long_trips_are_sorted_too(length: int) -> None:
    rng = np.random.default_rng(length)
    rows = [(i % 3, 0, int(time), float(i)) for i, time in enumerate(rng.integers(0, length, 3 * length))]
    found = grouped(rows, ["key0", "key1", "t", "x", "y"], [length], 10**6, text=False)
    mine = [row for row in found if row[0] == 1]
    assert mine == sorted((row for row in rows if row[0] == 1), key=lambda row: row[2])


def test_many_rows_in_many_buckets() -> None:
    rng = np.random.default_rng(0)
    size = 40 * grouping.BUCKET
    trips = rng.integers(0, size // 20, size)
    part = pa.record_batch(
        {"key0": trips, "t": rng.integers(0, 9, size), "x": np.arange(float(size)), "y": np.zeros(size)}
    )
    found = pa.Table.from_batches(grouping.grouped([part.slice(0, size // 3), part.slice(size // 3)], 10**9))
    place = found.column("x").to_numpy().astype(np.int64)
    assert np.array_equal(np.sort(place), np.arange(size))
    assert np.array_equal(found.column("key0").to_numpy(), trips[place])
    assert 1 + np.count_nonzero(np.diff(trips[place])) == len(np.unique(trips))
    within = np.diff(trips[place]) == 0
    times = part.column("t").to_numpy()[place]
    assert ((np.diff(times) > 0) | ((np.diff(times) == 0) & (np.diff(place) > 0)))[within].all()


def test_nothing_is_nothing() -> None:
    empty = pa.record_batch({name: pa.array([], pa.float64()) for name in ("key0", "x", "y")})
    assert list(grouping.grouped([], 10)) == list(grouping.grouped([empty, empty], 10)) == []


@pytest.mark.parametrize("keys", [("key0",), ("key0", "key1")])
@pytest.mark.parametrize("bucket", [1, grouping.BUCKET])
def test_labels_stay_with_their_rows(keys: tuple[str, ...], bucket: int) -> None:
    rng = np.random.default_rng(bucket)
    place = np.arange(4_000)
    columns = {key: rng.integers(0, 40, len(place)) for key in keys}
    columns |= {"t": rng.integers(0, 5, len(place)), "x": place.astype(float), "y": -place.astype(float)}
    part = pa.record_batch(columns | {"kind": (place % 331).astype(np.int16)})
    parts = [part.slice(0, 1_000), part.slice(1_000, 0), part.slice(1_000)]
    with mock.patch.object(grouping, "BUCKET", bucket):
        found = pa.Table.from_batches(grouping.grouped(parts, 700))
    assert found.schema.field("kind").type == pa.int16()
    where = found.column("x").to_numpy().astype(int)
    assert np.array_equal(np.sort(where), place)
    assert np.array_equal(found.column("kind").to_numpy(), where % 331)
