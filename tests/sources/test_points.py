"""Points become whole trips whatever the order of rows and wherever batches and row groups end."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqam.sources import csv_table, parquet_table, points
from tests.sources.cases import Row, coordinates, every_trip, rows_of, source, table_of, write_points

lengths = st.lists(st.integers(1, 6), min_size=1, max_size=12)


def expected(rows: list[Row]) -> dict[tuple[int, int], list[float]]:
    trips: dict[tuple[int, int], list[float]] = {}
    for uid, tid, _, place in sorted(rows, key=lambda row: row[2]):
        trips.setdefault((uid, tid), []).append(place)
    return trips


def found(thing: object, batch: int) -> dict[tuple[int, int], list[float]]:
    """Trips by key; fails where a key comes twice."""
    trips: dict[tuple[int, int], list[float]] = {}
    for part in source(thing, batch):
        assert part.ids is not None
        assert part.persons is not None
        for uid, tid, way in zip(part.persons.to_pylist(), part.ids.to_pylist(), coordinates(part), strict=True):
            assert (int(uid), int(tid)) not in trips
            trips[int(uid), int(tid)] = [x for x, _ in way]
    return trips


@settings(max_examples=60, deadline=None)
@given(
    counts=lengths,
    batch=st.integers(1, 12),
    group=st.integers(1, 12),
    key=st.sampled_from([pa.int64(), pa.int16(), pa.uint64(), pa.string(), pa.float64()]),
    shuffle=st.sampled_from(["none", "rows", "within trips", "trips", "tail"]),
    memory=st.sampled_from([0, 5, points._IN_MEMORY]),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_order_of_rows_gives_the_same_trips(
    counts: list[int], batch: int, group: int, key: pa.DataType, shuffle: str, memory: int, seed: int
) -> None:
    rows = rows_of(counts)
    random = np.random.default_rng(seed)
    if shuffle == "rows":
        rows = [rows[i] for i in random.permutation(len(rows))]
    elif shuffle == "tail":  # the order breaks late, after whole row groups have passed
        head = rows[: 2 * len(rows) // 3]
        rows = head + [rows[len(head) + i] for i in random.permutation(len(rows) - len(head))]
    elif shuffle != "none":
        place = dict(zip(range(len(counts)), random.permutation(len(counts)), strict=True))
        rank = (lambda row: place[row[0] * 3 + row[1]]) if shuffle == "trips" else (lambda row: (row[0], row[1]))
        noise = {row: random.random() for row in rows} if shuffle == "within trips" else dict.fromkeys(rows, 0)
        rows = sorted(rows, key=lambda row: (rank(row), noise[row]))
    table = table_of(rows, key)
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(points, "_IN_MEMORY", memory):
        assert found(table, batch) == expected(rows)
        path = Path(folder, "points")
        pq.write_table(table, path, row_group_size=group)
        assert found(path, batch) == expected(rows)


@settings(max_examples=40, deadline=None)
@given(counts=lengths, batch=st.integers(1, 20))
def test_batches_never_split_a_trip(counts: list[int], batch: int) -> None:
    for part in source(table_of(rows_of(counts)), batch):
        assert len(part) > 0
        assert len(part) == 1 or part.points <= 2 * batch
    assert [len(way) for _, way in every_trip(source(table_of(rows_of(counts)), batch))] == counts


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the costly steps that are taken."""
    made: list[str] = []
    for name in ("_is_contiguous", "_sorted"):

        def step(*args: object, name: str = name, plain: object = getattr(points, name)) -> object:
            made.append(name)
            return plain(*args)  # type: ignore[operator]

        monkeypatch.setattr(points, name, step)
    return made


def test_increasing_keys_need_no_second_look(tmp_path: Path, calls: list[str]) -> None:
    rows = rows_of([5] * 60)
    assert found(write_points(rows, tmp_path / "a", group=16), batch=16) == expected(rows)
    assert calls == []


def test_without_statistics_keys_are_looked_at_first(tmp_path: Path, calls: list[str]) -> None:
    rows = rows_of([5] * 60)
    assert found(write_points(rows, tmp_path / "a", group=16, write_statistics=False), batch=16) == expected(rows)
    assert calls == ["_is_contiguous"]


def test_keys_that_fall_late_but_stay_together_are_not_sorted(tmp_path: Path, calls: list[str]) -> None:
    rows = rows_of([5] * 60)
    rows = rows[:-10] + rows[-5:] + rows[-10:-5]
    assert found(write_points(rows, tmp_path / "a", group=16), batch=16) == expected(rows)
    assert calls == ["_is_contiguous"]


def test_a_key_that_comes_back_at_the_end_is_one_trip(tmp_path: Path, calls: list[str]) -> None:
    rows = rows_of([5] * 60)
    rows = rows[1:] + rows[:1]
    assert found(write_points(rows, tmp_path / "a", group=16), batch=16) == expected(rows)
    assert calls == ["_is_contiguous", "_sorted"]


def test_one_person_over_all_row_groups(tmp_path: Path, calls: list[str]) -> None:
    rows = rows_of([5] * 200, trips_a_person=200)
    assert found(write_points(rows, tmp_path / "a", group=16), batch=16) == expected(rows)
    assert calls == ["_is_contiguous"]


def test_row_groups_too_large_to_hold_are_streamed(
    tmp_path: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_table, "_BIG_ROW_GROUP", 0)
    rows = rows_of([5] * 60)
    assert found(write_points(rows, tmp_path / "a", group=1000), batch=16) == expected(rows)
    assert calls == ["_is_contiguous"]


def test_csv_too_large_for_memory_is_streamed(
    tmp_path: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_table, "IN_MEMORY", 0)
    rows = rows_of([5] * 30)
    table_of(rows).to_pandas().to_csv(tmp_path / "a", index=False)
    assert found(tmp_path / "a", batch=16) == expected(rows)
    table_of(rows[::-1]).to_pandas().to_csv(tmp_path / "b", index=False)
    assert found(tmp_path / "b", batch=16) == expected(rows)
    table_of(rows[::3] + rows[1::3] + rows[2::3]).to_pandas().to_csv(tmp_path / "c", index=False)
    assert found(tmp_path / "c", batch=16) == expected(rows)
    assert calls == ["_is_contiguous"] * 3 + ["_sorted"]


@pytest.fixture(params=[0, points._IN_MEMORY], ids=["by DuckDB", "in memory"])
def sorts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever brings scattered rows together."""
    monkeypatch.setattr(points, "_IN_MEMORY", request.param)


@pytest.mark.usefixtures("sorts")
def test_equal_times_keep_the_order_of_rows() -> None:
    rows = [(1, 1, 5, 0.1), (1, 1, 3, 0.2), (1, 1, 5, 0.3), (1, 1, 3, 0.4)]
    assert found(table_of(rows), batch=100) == {(1, 1): [0.2, 0.4, 0.1, 0.3]}
    scattered = [rows[0], (2, 1, 0, 0.0), *rows[1:]]
    assert found(table_of(scattered), batch=100)[1, 1] == [0.2, 0.4, 0.1, 0.3]


@pytest.mark.usefixtures("sorts")
def test_without_time_the_order_of_rows_stays() -> None:
    table = table_of([(1, 1, 9, 0.1), (2, 1, 9, 0.0), (1, 1, 3, 0.2)]).drop_columns("t")
    assert found(table, batch=100) == {(1, 1): [0.1, 0.2], (2, 1): [0.0]}


@pytest.mark.usefixtures("sorts")
def test_many_scattered_rows_without_time_keep_their_order() -> None:
    place = np.arange(60_000) / 1e6
    table = pa.table({"uid": np.arange(60_000) % 3, "tid": np.zeros(60_000, np.int64), "lon": place, "lat": place})
    ways = found(table, batch=10_000)
    assert len(ways) == 3
    assert all(way == sorted(way) for way in ways.values())
