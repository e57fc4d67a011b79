"""Every bad input is one sentence that names the file, the row or value, and a way out."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from dqam.errors import InputError
from dqam.geometry.trips import Trips
from dqam.sources import read, tables
from tests.sources.cases import geo_lines, geo_points, point_frame, source, to, wkt, write_porto


def refused(thing: Any, *words: str, batch: int | None = None, **options: Any) -> None:
    with pytest.raises(InputError) as caught:
        source(thing, batch, **options).trips()
    message = str(caught.value)
    for word in words:
        assert word in message
    assert len(message) < 500
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def text(path: Path, content: str | bytes) -> Path:
    return to(path, lambda f: f.write_bytes(content if isinstance(content, bytes) else content.encode()))


def test_files_that_are_not_there(tmp_path: Path) -> None:
    refused(tmp_path / "none.csv", "none.csv does not exist", "check")
    refused(str(tmp_path / "none.csv"), "none.csv does not exist")
    text(tmp_path / "readme.txt", "words")
    refused(tmp_path, "folder with no Parquet", "give")


def test_empty_files(tmp_path: Path) -> None:
    refused(text(tmp_path / "a.csv", ""), "a.csv is empty (0 bytes)", "give")
    refused(text(tmp_path / "b.csv", "\n\n"), "b.csv is empty", "give")
    refused(text(tmp_path / "c.csv", "tid,lon,lat\n"), "c.csv has no trips", "no rows")
    refused(text(tmp_path / "d.csv", gzip.compress(b"")), "d.csv is empty")
    refused(text(tmp_path / "e.csv", "TRIP_ID,POLYLINE\n"), "e.csv has no trips")
    refused(to(tmp_path / "f", point_frame().iloc[:0].to_parquet), "f has no trips", "no rows")
    refused(point_frame().iloc[:0], "DataFrame has no trips")
    refused(geo_lines().iloc[:0], "has no trips")
    refused(write_porto(tmp_path / "g.csv", ["[]", "[]"]), "no trips", "2 trips without points")


def test_missing_columns(tmp_path: Path) -> None:
    refused(text(tmp_path / "a.csv", "foo,bar\n1,2\n"), "a.csv", "foo, bar", "lng, lon", "columns=")
    refused(text(tmp_path / "b.csv", "lon,lat\n1,2\n"), "b.csv", "trip or person", "it has lon, lat", "tid, trip_id")
    refused(text(tmp_path / "c.csv", "tid,lon,lat,lat\n1,2,3,4\n"), "more than one column 'lat'", "rename")
    refused(pa.table({"tid": [1]}), "no columns for coordinates")


def test_damaged_gzip(tmp_path: Path) -> None:
    rows = "".join(f"{i // 9},{i},{np.random.default_rng(i).random()},1\n" for i in range(5000))
    whole = gzip.compress(f"tid,t,lon,lat\n{rows}".encode())
    for i, cut in enumerate((12, len(whole) // 2, len(whole) - 4)):
        refused(text(tmp_path / f"{i}.gz", whole[:cut]), f"{i}.gz is a damaged or incomplete gzip", "copy")
    porto = gzip.compress(write_porto(tmp_path / "a").read_bytes())
    refused(text(tmp_path / "b.gz", porto[:-20]), "b.gz is a damaged or incomplete gzip")
    broken = bytearray(whole)
    broken[len(whole) // 2] ^= 255
    refused(text(tmp_path / "c.gz", bytes(broken)), "c.gz")


def test_damaged_parquet(tmp_path: Path) -> None:
    frame = pd.concat([point_frame()] * 500, ignore_index=True)
    frame["lat"] += np.random.default_rng(0).random(len(frame))
    frame["tid"] = np.arange(len(frame))
    whole = to(tmp_path / "whole", frame.to_parquet).read_bytes()
    refused(text(tmp_path / "a", whole[: len(whole) // 2]), "a is a damaged or incomplete Parquet file")
    refused(text(tmp_path / "b", whole[:-8] + b"\1\2\3\4PAR1"), "b is a damaged")
    refused(text(tmp_path / "c", b"PAR1"), "c is a damaged")
    page = pq.read_metadata(tmp_path / "whole").row_group(0).column(3).data_page_offset
    refused(text(tmp_path / "d", whole[:page] + b"\xff" * 50 + whole[page + 50 :]), "d cannot be read")


@pytest.mark.parametrize("in_memory", [True, False])
def test_bad_rows_of_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: bool) -> None:
    monkeypatch.setattr(tables, "IN_MEMORY", 1 << 30 if in_memory else 0)
    rows = "tid,lon,lat\n" + "1,2,3\n" * 20
    refused(text(tmp_path / "a.csv", rows + "1,2\n"), "a.csv: row 21 has 2 fields where the header has 3", "repair")
    refused(text(tmp_path / "b.csv", rows + "1,2,north\n"), "b.csv: row 21 has 'north'", "number", "repair")
    refused(text(tmp_path / "c.csv", rows.encode() + b"\xff\xfe,2,3\n"), "c.csv: row 21", "UTF-8")
    refused(text(tmp_path / "d.csv", rows + ",2,3\n"), "d.csv: row 21 has no tid", "give", batch=6)
    porto = write_porto(tmp_path / "e.csv").read_text()
    refused(text(tmp_path / "e.csv", porto + "1,2\n"), "e.csv: row 8 has 2 fields where the header has 7")


def test_text_that_is_none(tmp_path: Path) -> None:
    refused(text(tmp_path / "a.csv", "tid,lon,lat\n1,2,3\n".encode("utf-16")), "neither Parquet nor UTF-8", "write")
    refused(text(tmp_path / "b.csv", b"tid,l\xe4nge,lat\n1,2,3\n"), "b.csv cannot be read", "utf-8")


def test_text_of_parquet_is_checked_too(tmp_path: Path) -> None:
    broken = pa.array([b"[[1,2]]", b"[[1,\x85]]"]).view(pa.string())
    refused(to(tmp_path / "a", lambda f: pq.write_table(pa.table({"polyline": broken}), f)), "a cannot be read")


def test_bad_values_of_tables() -> None:
    frame = point_frame()
    words = frame.astype({"lat": str})
    words.loc[4, "lat"] = "north"
    refused(words, "DataFrame: row 5 has 'north' where a number was expected for lat", "repair", batch=3)
    times = frame.astype({"datetime": str})
    times.loc[4, "datetime"] = "yesterday"
    refused(times, "row 5 has 'yesterday' where a time was expected", "ISO 8601", batch=3)
    refused(frame.assign(datetime="never"), "row 1 has 'never'")
    refused(frame.assign(datetime=1.7e18), "row 1 has 1.7", "seconds since 1970, not milliseconds")
    refused(frame.assign(datetime=True), "row 1 has True where a time")
    refused(frame.assign(datetime=frame["datetime"].where(frame.index != 4)), "row 5 has no time", "--on-error drop")
    refused(frame.assign(tid=frame["tid"].where(frame.index != 4)), "row 5 has no tid", "give")
    refused(frame.assign(tid=None), "row 1 has no tid")
    refused(frame.assign(lat=[[1]] * len(frame)), "41 of 41 points have invalid coordinates")
    lists = pa.table({"tid": [1], "lon": [1.0], "lat": [[1.0]]})
    refused(lists, "lat is a column of list", "convert")
    mixed = frame.assign(tid=[1, "a", 1.0, None] * (len(frame) // 4) + [1] * (len(frame) % 4))
    refused(mixed, "row 4 has no tid")
    assert set(read(mixed, on_error="drop").trips().ids.to_pylist()) == {"1", "a"}


def test_dropping_points_without_time() -> None:
    frame = point_frame()
    frame["datetime"] = frame["datetime"].where(frame.index != 4)
    frame.loc[5, "lat"] = np.inf
    made = read(frame, on_error="drop")
    assert made.trips().points == len(frame) - 2
    assert made.dropped == {"points without a time": 1, "points with invalid coordinates": 1}


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 90.001, -91, 1e300])
def test_invalid_coordinates_are_counted_in_the_whole_file(value: float, tmp_path: Path) -> None:
    frame = point_frame()
    frame.loc[[3, 11, 20], "lat"] = value
    for thing in (frame, to(tmp_path / "a", frame.to_parquet), to(tmp_path / "b", lambda f: frame.to_csv(f))):
        refused(thing, f"3 of {len(frame)} points", "first row 4 (lon", "--on-error drop", batch=5)
        made = source(thing, batch=5, on_error="drop")
        assert made.trips().points == len(frame) - 3
        assert made.dropped == {"points with invalid coordinates": 3}


def test_null_coordinates_and_geometries() -> None:
    table = pa.table({"tid": [1, 1, 1], "lon": [1.0, None, 2.0], "lat": [1.0, 2.0, 3.0]})
    refused(table, "1 of 3 points", "first row 2 (lon nan, lat 2)")
    points = geo_points()
    points.loc[2, "geometry"] = None
    points.loc[3, "geometry"] = shapely.Point()
    refused(points, f"2 of {len(points)} points", "row 3")
    native = pa.table({"tid": [1, 1], "geometry": pa.array([{"x": 1.0, "y": 1.0}, None])})
    refused(native, "1 of 2 points", "row 2")
    pairs = pa.table({"tid": [1, 1], "geometry": pa.array([[1.0, 1.0], None], pa.list_(pa.float64(), 2))})
    refused(pairs, "1 of 2 points", "row 2")


def test_coordinates_in_metres_may_be_large_but_not_infinite() -> None:
    table = pa.table({"tid": [1, 1], "x": [322797.6, 322523.6], "y": [5815826.4, 5815080.1]})
    refused(table, "2 of 2 points", "--source-crs")
    assert read(table, crs="EPSG:28355").trips().points == 2
    broken = table.set_column(1, "x", pa.array([1.0, np.inf]))
    refused(broken, "1 of 2 points", "row 2 (x inf", crs="EPSG:28355")


def test_swapped_axes_are_noticed() -> None:
    melbourne = pa.table({"tid": [1] * 20, "lon": [-37.8] * 20, "lat": [145.2] * 20})
    refused(melbourne, "look swapped", "swap_axes=True (--swap-axes)")
    trips = read(melbourne, swap_axes=True).trips()
    assert (trips.x[0], trips.y[0]) == (145.2, -37.8)
    glitch = pa.table({"tid": [1] * 20, "lon": [-8.6] * 20, "lat": [41.1] * 19 + [141.1]})
    with pytest.raises(InputError) as caught:
        read(glitch).trips()
    assert "swapped" not in str(caught.value)


def test_other_geometries(tmp_path: Path) -> None:
    frame = geo_lines()
    frame.loc[4, "geometry"] = shapely.MultiLineString([[(0, 0), (1, 1)], [(2, 2), (3, 3)]])
    for thing in (
        frame,
        to(tmp_path / "a", frame.to_parquet),
        to(tmp_path / "b", lambda f: wkt(frame).to_csv(f, index=False)),
    ):
        refused(
            thing, "row 5 is a MultiLineString where a LineString was expected", "one LineString per trip", batch=64
        )
    points = geo_points()
    points.loc[2, "geometry"] = shapely.LineString([(0, 0), (1, 1)])
    refused(points, "row 3 is a LineString where a Point was expected")
    polygons = geo_lines()
    polygons["geometry"] = [shapely.box(0, 0, 1, 1)] * len(polygons)
    refused(polygons, "row 1 is a Polygon")
    refused(text(tmp_path / "c", "id,wkt\n1,LINESTRING (0 0)\n"), "row 1 has 'LINESTRING (0 0)'", "not WKT", "repair")
    refused(pa.table({"id": [1], "geometry": [b"\1\2\3"]}), "row 1", "not WKB")
    refused(pa.table({"id": [1], "geometry": [5]}), "geometry column of int64", "WKB or WKT")
    refused(pa.table({"id": [1], "geometry": pa.nulls(1)}), "no row has a geometry")


def test_objects_and_options() -> None:
    refused([1, 2], "type list", "give a path")
    refused(None, "type NoneType", "give")
    refused(point_frame(), "on_error is 'fail' or 'drop'; got 'skip'", on_error="skip")
    refused(point_frame(), "'EPSG:x' is not a coordinate reference system", crs="EPSG:x")
    refused(Trips.from_lists([[(0, 0)], [(1, 2), (1, 200)]]), "Trips: 1 of 3 points", "row 2 (lon 1, lat 200)")


def test_bad_geoparquet_metadata(tmp_path: Path) -> None:
    table = pa.table({"id": [1], "geometry": [shapely.LineString([(0, 0), (1, 1)]).wkb]})
    for i, geo in enumerate((b"not json", b"[]", b'{"columns": 5}', b'{"primary_column": "gone", "columns": {}}')):
        pq.write_table(table.replace_schema_metadata({"geo": geo}), tmp_path / str(i))
        assert read(tmp_path / str(i)).trips().points == 2
    wrong = b'{"primary_column": "geometry", "columns": {"geometry": {"crs": {"type": "?"}}}}'
    pq.write_table(table.replace_schema_metadata({"geo": wrong}), tmp_path / "x")
    refused(tmp_path / "x", "coordinate reference system {'type': '?'} is not known", "--source-crs")
    assert read(tmp_path / "x", crs="EPSG:4326").trips().points == 2


@pytest.mark.parametrize("batch", [2, 1 << 20])
def test_a_row_of_a_folder_is_named_by_its_file(tmp_path: Path, batch: int) -> None:
    folder = tmp_path / "row 9"
    folder.mkdir()
    times = pd.date_range("2024-01-01", periods=5, freq="s")
    points = pd.DataFrame({"tid": ["a", "a", "a", "b", "b"], "datetime": times, "lng": 1.0, "lat": 2.0})
    for spoilt, place, says in (
        (
            points.assign(lng=[1, 1, 1, np.nan, 1]),
            "row 9: 1 of 15 points have invalid coordinates, first row 4",
            " (lon",
        ),
        (points.assign(datetime=times.where(np.arange(5) != 0)), "row 9: row 1", " has no time"),
        (points.assign(tid=["a", "a", "a", "b", None]), "row 9: row 5", " has no tid"),
    ):
        for name, rows in (("a", points), ("b", spoilt), ("c", points)):
            rows.to_parquet(folder / f"{name}.parquet")
        refused(folder, f"{place} of b.parquet{says}", batch=batch)
    refused(folder / "b.parquet", "b.parquet: row 5 has no tid")
