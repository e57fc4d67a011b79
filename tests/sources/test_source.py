"""A source can be iterated again, in batches of about the requested size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dqam.errors import InputError
from dqam.geometry.slicing import Slicing
from dqam.geometry.trips import Trips
from dqam.sources import csv_table, points, read
from dqam.sources.tables import MemoryTable
from tests.sources.cases import (
    EXPECTED,
    FORMS,
    coordinates,
    geo_lines,
    moving,
    point_frame,
    source,
    to,
    zipped,
)


def test_iterating_again_gives_the_same(tmp_path: Path) -> None:
    made = source(FORMS["points parquet"](tmp_path), batch=5)
    first, second = ([coordinates(trips) for trips in made] for _ in range(2))
    assert first == second
    assert len(first) > 1


def test_batches_are_about_as_large_as_asked() -> None:
    trips = Trips.from_lists([[(0.0, 0.0)] * 3] * 100)
    assert [part.points for part in source(trips, batch=60)] == [60] * 4 + [60]
    many = pa.table({"tid": np.repeat(np.arange(100), 3), "x": np.zeros(300), "y": np.zeros(300)})
    sizes = [part.points for part in source(pa.concat_tables([many.slice(i, 5) for i in range(0, 300, 5)]), batch=60)]
    assert sum(sizes) == 300
    assert all(60 <= size <= 66 for size in sizes[:-1])


def test_arrays_of_all_batches_are_read_only(tmp_path: Path) -> None:
    for form in ("porto csv", "points parquet", "trips"):
        for trips in source(FORMS[form](tmp_path), batch=8):
            assert not trips.x.flags.writeable


def test_passing_trips_leaves_them_alone() -> None:
    trips = Trips.from_lists(EXPECTED)
    read(trips).trips()
    assert trips.x.flags.writeable


def test_progress_rises_and_dropped_starts_anew(tmp_path: Path) -> None:
    frame = point_frame()
    frame.loc[2, "lat"] = np.nan
    scattered = frame.sample(frac=1, random_state=1)
    for made in (source(thing, batch=4, on_error="drop") for thing in (frame, scattered)):
        for _ in range(2):
            seen = [made.progress for _ in made]
            assert seen == sorted(seen)
            assert 0 < seen[0] < 1
            assert made.dropped == {"points with invalid coordinates": 1}


def test_a_source_prints_what_it_is_and_no_data(tmp_path: Path) -> None:
    path = to(tmp_path / "a.csv", lambda f: point_frame().to_csv(f, index=False))
    roles = "{'trip': 'tid', 'person': 'uid', 'time': 'datetime', 'lon': 'lng', 'lat': 'lat'}"
    assert repr(read(path)) == f"<Source 'a.csv', CSV file, columns={roles}, crs='EPSG:4326'>"
    assert "gzipped CSV file" in repr(read(zipped(path)))
    assert "'b', Parquet file, columns={'trip'" in repr(read(to(tmp_path / "b", point_frame().to_parquet)))
    assert "Parquet files" in repr(read(FORMS["points parquet folder"](tmp_path)))
    assert "'DataFrame', pandas data frame" in repr(read(point_frame()))
    assert repr(read(Trips.from_lists([[(0, 0)]]))) == "<Source 'Trips', columns={}, crs='EPSG:4326'>"


def test_what_a_user_should_know() -> None:
    frame = point_frame()
    assert read(frame).notes == []
    assert "all points of a uid are one trip" in read(frame.drop(columns="tid")).notes[0]
    assert "in the order of the rows" in read(frame.drop(columns="datetime")).notes[0]
    assert "every row is a trip" in read(geo_lines()[["geometry"]]).notes[0]


# Slices

BOTH = Slicing.parse("hour*kind=bike,car,7", "America/New_York")
KINDS = ["bike", "car", " bike\u2003", "7", "BIKE", "", None, "x" * 3_000, "other", "\u00fc"]
HOUR = 3_600


def sliced_rows(seed: int) -> pd.DataFrame:
    """Points of 40 trips in any order, many at the same time, whose kind changes from point to point."""
    rng = np.random.default_rng(seed)
    rows = []
    for trip in range(40):
        start = int(rng.integers(1.1e9, 1.7e9)) if trip % 4 else -int(rng.integers(1e9))
        for time in rng.choice([0, 0, 0, 1, HOUR, 9 * HOUR], int(rng.integers(1, 9))):
            x, y = rng.uniform(0, 1, 2)
            rows.append((trip % 7, trip, start + int(time), KINDS[rng.integers(len(KINDS))], x, y))
    frame = pd.DataFrame(rows, columns=["uid", "tid", "t", "kind", "lng", "lat"])
    return frame.sample(frac=1, random_state=seed)


def expected_slices(frame: pd.DataFrame, slicing: Slicing, timed: bool = True) -> dict[int, int]:
    """By trip: the smallest label of its earliest points, or of all if there are no times."""
    found = {}
    for trip, rows in frame.groupby("tid"):
        rows = rows[rows["t"] == rows["t"].min()] if timed else rows
        texts = [value.strip() if isinstance(value, str) else "" for value in rows["kind"]]
        names = [value if value in slicing.values else "other" for value in texts]
        kind = min([*slicing.values, "other"].index(name) for name in names)
        if slicing.needs_times:
            local = pd.Timestamp(rows["t"].iloc[0], unit="s", tz="UTC").tz_convert("America/New_York")
            kind += local.hour * (len(slicing.values) + 1)
        found[int(str(trip))] = kind
    return found


def slices_by_trip(made: Any) -> dict[int, int]:
    """The slice of each trip by its id, over all batches."""
    return {
        int(trip): int(label) for trips in made for trip, label in zip(trips.ids.to_pylist(), trips.slices, strict=True)
    }


def stamped(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(t=pd.to_datetime(frame["t"], unit="s"))


def as_lines(frame: pd.DataFrame, kind: str = "LINESTRING ({0} {1}, {0} {1})") -> pd.DataFrame:
    """Every point is a piece of its own."""
    shapes = [kind.format(x, y) for x, y in zip(frame["lng"], frame["lat"], strict=True)]
    return frame.drop(columns=["lng", "lat"]).assign(geometry=shapes)


def as_porto(frame: pd.DataFrame) -> pd.DataFrame:
    shapes = [f"[[{x}, {y}]]" for x, y in zip(frame["lng"], frame["lat"], strict=True)]
    return frame[["tid", "t", "kind"]].assign(POLYLINE=shapes)


def folder_of(path: Path, frame: pd.DataFrame) -> Path:
    path.mkdir()
    for i in range(3):
        frame[i::3].to_parquet(path / f"{i}.parquet", coerce_timestamps="us")
    return path


SLICED: dict[str, Callable[[Path, pd.DataFrame], Any]] = {
    "csv": lambda p, f: to(p / "a.csv", lambda path: f.to_csv(path, index=False)),
    "csv gz": lambda p, f: zipped(to(p / "a", lambda path: f.to_csv(path, index=False))),
    "parquet": lambda p, f: to(p / "a", lambda path: stamped(f).to_parquet(path, coerce_timestamps="us")),
    "parquet sorted": lambda p, f: to(
        p / "a", lambda path: f.sort_values(["uid", "tid"]).to_parquet(path, row_group_size=4)
    ),
    "parquet folder": lambda p, f: folder_of(p / "b", stamped(f)),
    "pandas": lambda p, f: stamped(f),
    "pandas index": lambda p, f: stamped(f).set_index(["kind", "tid"]),
    "polars": lambda p, f: pl.from_pandas(f).lazy(),
    "categories": lambda p, f: pl.from_pandas(f).with_columns(pl.col("kind").cast(pl.Categorical)),
    "arrow text": lambda p, f: pa.Table.from_pandas(f.astype({"t": str, "tid": str}), preserve_index=False),
    "wkt points": lambda p, f: as_lines(stamped(f), "POINT ({0} {1})"),
    "lines": lambda p, f: as_lines(stamped(f)),
    "lines csv": lambda p, f: to(p / "a", lambda path: as_lines(f).to_csv(path, index=False)),
    "points and lines": lambda p, f: pd.concat(
        [as_lines(stamped(f)[:60]), as_lines(stamped(f)[60:], "POINT ({0} {1})")]
    ),
    "porto csv": lambda p, f: to(p / "a", lambda path: as_porto(f).to_csv(path, index=False)),
    "porto parquet": lambda p, f: to(p / "a", as_porto(f).to_parquet),
}


@pytest.mark.parametrize("form", SLICED)
@pytest.mark.parametrize("batch", [3, None])
def test_every_trip_is_in_the_slice_of_its_earliest_point(form: str, batch: int | None, tmp_path: Path) -> None:
    for seed in range(2):
        (folder := tmp_path / str(seed)).mkdir()
        frame = sliced_rows(seed)
        made = source(SLICED[form](folder, frame), batch, on_error="drop")
        assert made.slicing is None
        assert all(trips.slices is None for trips in made)
        labelled = made.sliced(BOTH)
        assert slices_by_trip(labelled) == slices_by_trip(labelled) == expected_slices(frame, BOTH)
        kind = Slicing.parse("kind=car,bike")
        assert slices_by_trip(made.sliced(kind)) == expected_slices(frame, kind)
        (again := folder / "again").mkdir()
        untimed = source(SLICED[form](again, frame), batch, on_error="drop", columns={"time": ""})
        assert slices_by_trip(untimed.sliced(kind)) == expected_slices(frame, kind, timed=False)


def test_rows_that_are_sorted_on_disk_keep_their_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(points, "_IN_MEMORY", 20)
    monkeypatch.setattr(csv_table, "BLOCK", 4_000)
    frame = sliced_rows(5)
    for form in ("csv", "parquet", "pandas"):
        assert slices_by_trip(source(SLICED[form](tmp_path, frame), 5).sliced(BOTH)) == expected_slices(frame, BOTH)


def test_the_order_of_rows_and_bad_rows_decide_nothing(tmp_path: Path) -> None:
    frame = sliced_rows(3)
    expected = slices_by_trip(read(frame).sliced(BOTH))
    bad = frame.assign(lng=np.nan, kind="bike", t=frame["t"] - HOUR)
    mixed = pd.concat([frame, bad.sample(30, random_state=0)]).sample(frac=1, random_state=9)
    assert slices_by_trip(read(mixed, on_error="drop").sliced(BOTH)) == expected


def test_trips_in_memory_have_slices_by_time() -> None:
    trips = source(moving(collection=True)).sliced(Slicing.parse("hour", "Europe/Lisbon")).trips()
    assert trips.slices is not None
    assert set(trips.slices.tolist()) == {1}  # 00:00:58 in UTC, in summer
    time = np.array([3 * HOUR, HOUR, 2 * HOUR]) * 10**6
    whole = Trips(np.zeros(3), np.zeros(3), np.array([0, 3]), time, slices=np.array([7], np.int16))
    assert read(whole).sliced(Slicing.parse("hour")).trips().slices.tolist() == [1]  # type: ignore[union-attr]
    pieces = Trips(np.zeros(3), np.zeros(3), np.arange(4), time, ids=pa.array([1, 2, 1]))
    labelled = read(pieces).sliced(Slicing.parse("hour"))
    assert slices_by_trip(labelled) == {1: 2, 2: 1}
    none = read(pd.DataFrame({"tid": [1], "t": [1], "x": [np.nan], "y": [0.0]}), on_error="drop")
    assert none.sliced(Slicing.parse("hour")).gathered().slices.tolist() == []  # type: ignore[union-attr]


@pytest.mark.parametrize("form", ["lines", "porto"])
def test_rows_whose_time_is_needed_and_unknown_are_left_out(form: str) -> None:
    frame = pd.DataFrame({"tid": [1, 2, 2], "t": ["5", None, "7200"], "kind": ["a", "b", "a"], "lng": 0.0, "lat": 0.5})
    table = as_lines(frame) if form == "lines" else as_porto(frame)
    made = read(table, on_error="drop").sliced(Slicing.parse("hour"))
    assert slices_by_trip(made) == {1: 0, 2: 2}
    assert made.dropped == {"rows without a time, by which trips are sliced": 1}
    with pytest.raises(InputError, match="row 2 has no time, by which trips are sliced; give it one, or leave"):
        read(table, on_error="fail").sliced(Slicing.parse("hour")).trips()
    assert slices_by_trip(read(table).sliced(Slicing.parse("kind=a,b"))) == {1: 0, 2: 1}  # as if it were of 1970


@pytest.mark.parametrize(
    "values", [["x", "7", None], [7, 8, None], [7.0, 7.5, None], [b"7", b"\xff", None], [["7"]] * 3]
)
def test_values_of_any_type_are_read(values: list[Any], tmp_path: Path) -> None:
    table = pa.table({"tid": [1, 2, 3], "t": [1, 2, 3], "x": [0.0] * 3, "y": [0.0] * 3, "kind": pa.array(values)})
    pq.write_table(table, tmp_path / "a")
    slicing = Slicing.parse("kind=7")
    for thing in (table, tmp_path / "a"):
        found = slices_by_trip(read(thing).sliced(slicing))
        assert found == {i + 1: int(value not in ("7", 7, b"7")) for i, value in enumerate(values)}


@pytest.mark.parametrize(
    ("drop", "text", "says"),
    [
        (["t"], "hour", "DataFrame has no times, by which slices by hour are told; name their column, columns="),
        ([], "hour*knd=a", "no column 'knd' for slices: it has uid, tid, t, kind, lng, lat; did you mean 'kind'?"),
        (["kind"], "zzz=a", "no column 'zzz' for slices: it has uid, tid, t, lng, lat; name one of them"),
    ],
)
def test_what_cannot_be_sliced_is_refused_before_a_row_is_read(
    drop: list[str], text: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = read(sliced_rows(0).drop(columns=drop))
    monkeypatch.setattr(MemoryTable, "batches", None)
    for check in (made.check_slicing, made.sliced):
        with pytest.raises(InputError) as caught:
            check(Slicing.parse(text))
        assert says in str(caught.value)
    with pytest.raises(InputError, match="Trips in memory have no column 'kind' for slices"):
        read(Trips.from_lists(EXPECTED)).check_slicing(Slicing.parse("kind=a"))
    doubled = pa.table([[1], [2], [0.0], [0.0], ["a"], ["b"]], names=["tid", "t", "x", "y", "kind", "kind"])
    with pytest.raises(InputError, match="more than one column 'kind'"):
        read(doubled).check_slicing(Slicing.parse("kind=a"))
    read(sliced_rows(0)).check_slicing(BOTH)


def test_a_sliced_source_stays_sliced() -> None:
    made = read(sliced_rows(0)).sliced(BOTH)
    assert made.for_publishing().slicing == made.slicing == BOTH
    assert made.for_publishing().trips().slices is not None
    assert "'kind': 'kind'" in repr(made)
    again = made.sliced(Slicing.parse("hour"))
    assert again.roles.keys() == read(sliced_rows(0)).roles.keys()
