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

from dqam.errors import InputError
from dqam.sources import points, read, tables
from tests.sources.cases import coordinates, every_trip, source

Row = tuple[int, int, int, float]
lengths = st.lists(st.integers(1, 6), min_size=1, max_size=12)


def rows_of(counts: list[int], trips_a_person: int = 3) -> list[Row]:
    """(uid, tid, time, place); a place is unique, so that nothing can be mistaken."""
    rows, place = [], 0
    for trip, count in enumerate(counts):
        for i in range(count):
            rows.append((trip // trips_a_person, trip % trips_a_person, 100 * trip + i, place / 1000))
            place += 1
    return rows


def table_of(rows: list[Row], key: pa.DataType | None = None) -> pa.Table:
    key = key or pa.int64()
    uid, tid, time, place = zip(*rows, strict=True)
    return pa.table(
        {
            "uid": pa.array(uid).cast(key),
            "tid": pa.array(tid).cast(key),
            "t": pa.array(time),
            "lon": pa.array(place),
            "lat": pa.array(place),
        }
    )


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


def write(rows: list[Row], path: Path, group: int, **options: object) -> Path:
    pq.write_table(table_of(rows), path, row_group_size=group, **options)
    return path


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
    assert found(write(rows, tmp_path / "a", group=16), batch=16) == expected(rows)
    assert calls == []


def test_without_statistics_keys_are_looked_at_first(tmp_path: Path, calls: list[str]) -> None:
    rows = rows_of([5] * 60)
    assert found(write(rows, tmp_path / "a", group=16, write_statistics=False), batch=16) == expected(rows)
    assert calls == ["_is_contiguous"]


def test_keys_that_fall_late_but_stay_together_are_not_sorted(tmp_path: Path, calls: list[str]) -> None:
    rows = rows_of([5] * 60)
    rows = rows[:-10] + rows[-5:] + rows[-10:-5]
    assert found(write(rows, tmp_path / "a", group=16), batch=16) == expected(rows)
    assert calls == ["_is_contiguous"]


def test_a_key_that_comes_back_at_the_end_is_one_trip(tmp_path: Path, calls: list[str]) -> None:
    rows = rows_of([5] * 60)
    rows = rows[1:] + rows[:1]
    assert found(write(rows, tmp_path / "a", group=16), batch=16) == expected(rows)
    assert calls == ["_is_contiguous", "_sorted"]


def test_one_person_over_all_row_groups(tmp_path: Path, calls: list[str]) -> None:
    rows = rows_of([5] * 200, trips_a_person=200)
    assert found(write(rows, tmp_path / "a", group=16), batch=16) == expected(rows)
    assert calls == ["_is_contiguous"]


def test_row_groups_too_large_to_hold_are_streamed(
    tmp_path: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_BIG_ROW_GROUP", 0)
    rows = rows_of([5] * 60)
    assert found(write(rows, tmp_path / "a", group=1000), batch=16) == expected(rows)
    assert calls == ["_is_contiguous"]


def test_csv_too_large_for_memory_is_streamed(
    tmp_path: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "IN_MEMORY", 0)
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


def test_only_needed_columns_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    plain = tables.ParquetTable.batches

    def batches(self: tables.ParquetTable, columns: list[str], *rest: object) -> tables.Batches:
        asked.append(list(columns))
        return plain(self, columns, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(tables.ParquetTable, "batches", batches)
    table = table_of(rows_of([3, 3])).append_column("much_else", pa.array(["x" * 100] * 6))
    pq.write_table(table, tmp_path / "a")
    source(tmp_path / "a").trips()
    assert asked == [["tid", "uid", "t", "lon", "lat"]]


def test_a_file_name_that_looks_like_a_pattern(tmp_path):
    """Statistics of another file must not tell that trips are complete."""
    keys = np.arange(2**12).repeat(4)
    odd, sibling = tmp_path / "t[1].parquet", tmp_path / "t1.parquet"
    for path, tid in ((odd, np.concatenate([keys, keys])), (sibling, np.full(10, 10**9))):
        zeros = np.zeros(len(tid))
        pq.write_table(pa.table({"tid": tid, "lon": zeros, "lat": zeros}), path, row_group_size=2**12)
    source = read(odd)
    source.batch = 2**12
    assert len(source.trips()) == 2**12


def test_files_of_a_folder_must_be_of_one_kind(tmp_path):
    table = pa.table({"tid": [1, 1], "lon": [0.0, 1.0], "lat": [0.0, 1.0]})
    for other in (
        table.set_column(0, "tid", pa.array(["1", "1"])),
        table.append_column("uid", pa.array([5, 6])),
        table.drop_columns(["lat"]).append_column("latitude", pa.array([0.0, 1.0])),
    ):
        pq.write_table(table, tmp_path / "a.parquet")
        pq.write_table(other, tmp_path / "b.parquet")
        with pytest.raises(InputError, match=r"b.parquet and a.parquet differ in"):
            read(tmp_path)
    pq.write_table(table, tmp_path / "b.parquet")
    pq.write_table(table, tmp_path / ".hidden.parquet")
    assert read(tmp_path).trips().points == 4
    assert len(read(tmp_path).trips()) == 1


@pytest.mark.parametrize("content", [b"", b"\0" * 600])
def test_a_broken_file_of_a_folder_is_not_passed_over(tmp_path: Path, content: bytes) -> None:
    write(rows_of([3, 2]), tmp_path / "0.parquet", 10)
    (tmp_path / "_SUCCESS").touch()
    assert len(read(tmp_path).trips()) == 2
    (tmp_path / "1.parquet").write_bytes(content)
    with pytest.raises(InputError, match="1.parquet in .* is empty or damaged"):
        read(tmp_path)


def test_times_in_milliseconds_are_not_taken_for_seconds():
    table = pa.table({"tid": [1], "lon": [0.0], "lat": [0.0], "t": [1372636858000]})
    with pytest.raises(InputError, match="milliseconds"):
        read(table).trips()


def test_time_zones_do_not_mix_across_batches():
    times = ["2024-01-01T10:00:00", "2024-01-01T10:00:15", "2024-01-01T10:00:30+02:00", "2024-01-01T10:00:45+02:00"]
    source = read(pa.table({"tid": [1] * 4, "lon": [0.0] * 4, "lat": [0.0] * 4, "t": times}))
    source.batch = 2
    with pytest.raises(InputError, match="time zone"):
        source.trips()


def test_ids_that_are_floats_or_have_blanks():
    def ids(values):
        return read(pa.table({"tid": values, "lon": [0.0] * 3, "lat": [0.0] * 3})).trips().ids.to_pylist()

    assert ids(pa.array([1.0, 0.0, -0.0])) == [1, 0]
    assert ids(pa.array(["7", " 7", "7 "])) == ["7"]
    for odd, row in (([1.0, float("nan"), 1.0], 2), ([1.5, 1.5, 1.5], 1), ([1, 2, 2**63 - 1], 3)):
        with pytest.raises(InputError, match=f"row {row} has no tid"):
            ids(pa.array(odd))


def test_a_person_column_can_be_left_out():
    table = pa.table({"trip_id": [1, 1, 1], "driver_id": ["a", "a", "b"], "lon": [0.0] * 3, "lat": [0.0] * 3})
    assert len(read(table).trips()) == 2
    assert read(table).roles["person"] == "driver_id"
    alone = read(table, columns={"person": ""})
    assert len(alone.trips()) == 1
    assert "person" not in alone.roles
