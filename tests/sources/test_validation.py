"""Rows that cannot be used are refused with a way out, or left out and counted."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import shapely

from dqam.errors import InputError
from dqam.sources import read
from tests.sources.cases import (
    EXPECTED,
    FORMS,
    coordinates,
    geo_points,
    point_frame,
    refused,
    source,
    text,
    to,
)


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
        refused(thing, f"3 of {len(frame)} points", "first row 4 (lat is ", "on_error='drop'", batch=5)
        made = source(thing, batch=5, on_error="drop")
        assert made.trips().points == len(frame) - 3
        assert made.dropped == {"points with invalid coordinates": 3}


def test_null_coordinates_and_geometries() -> None:
    table = pa.table({"tid": [1, 1, 1], "lon": [1.0, None, 2.0], "lat": [1.0, 2.0, 3.0]})
    refused(table, "1 of 3 points", "first row 2 (lon is missing or not a number)")
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
    refused(table, "2 of 2 points", "crs='EPSG:...'")
    assert read(table, crs="EPSG:28355").trips().points == 2
    broken = table.set_column(1, "x", pa.array([1.0, np.inf]))
    refused(broken, "1 of 2 points", "row 2 (x is infinite)", crs="EPSG:28355")


def test_swapped_axes_are_noticed() -> None:
    melbourne = pa.table({"tid": [1] * 20, "lon": [-37.8] * 20, "lat": [145.2] * 20})
    refused(melbourne, "look swapped", "swap_axes=True")
    trips = read(melbourne, swap_axes=True).trips()
    assert (trips.x[0], trips.y[0]) == (145.2, -37.8)
    glitch = pa.table({"tid": [1] * 20, "lon": [-8.6] * 20, "lat": [41.1] * 19 + [141.1]})
    with pytest.raises(InputError) as caught:
        read(glitch).trips()
    assert "swapped" not in str(caught.value)


def test_swap_axes(tmp_path: Path) -> None:
    for form in ("porto csv", "points csv", "geoparquet lines", "trips"):
        trips = read(FORMS[form](tmp_path), swap_axes=True).trips()
        assert coordinates(trips) == [[(y, x) for x, y in points] for points in EXPECTED]


def test_bad_values_of_tables() -> None:
    frame = point_frame()
    words = frame.astype({"lat": str})
    words.loc[4, "lat"] = "north"
    refused(words, "DataFrame: row 5 has a value like 'aaaaa' where a number was expected for lat", "repair", batch=3)
    times = frame.astype({"datetime": str})
    times.loc[4, "datetime"] = "yesterday"
    refused(times, "row 5 has a value like 'aaaaaaaaa' where a time was expected", "ISO 8601", batch=3)
    refused(frame.assign(datetime="never"), "row 1 has a value like 'aaaaa'")
    refused(frame.assign(datetime=1.7e18), "row 1 has a value like '9.9a+99'", "seconds since 1970, not milliseconds")
    refused(frame.assign(datetime=True), "datetime is a column of bool where times were expected", "convert")
    refused(frame.assign(datetime=frame["datetime"].where(frame.index != 4)), "row 5 has no time", "on_error='drop'")
    refused(frame.assign(tid=frame["tid"].where(frame.index != 4)), "row 5 has no tid", "give")
    refused(frame.assign(tid=None), "row 1 has no tid")
    refused(frame.assign(lat=[[1]] * len(frame)), "41 of 41 points have invalid coordinates")
    lists = pa.table({"tid": [1], "lon": [1.0], "lat": [[1.0]]})
    refused(lists, "lat is a column of list", "convert")
    mixed = frame.assign(tid=[1, "a", 1.0, None] * (len(frame) // 4) + [1] * (len(frame) % 4))
    refused(mixed, "row 4 has no tid")
    assert set(read(mixed, on_error="drop").trips().ids.to_pylist()) == {"1", "a"}


@pytest.mark.parametrize(
    "content",
    [
        "tid,lon,lat\n1,-8.618643,141.141412\n",
        "tid,lon,lat\n1,-8.618643,41.141412N\n",
        'tid,lon,lat\n1,"8,618643","41,141412"\n',
        "tid,lon,lat\n1,141.141412,8.618643\n1,-8.618643,141.141412\n",
        "tid,lon,lat,time\n1,-8.618643,41.141412,8.618643/41.141412\n",
        'id,wkt\n1,"LINESTRING (-8.618643 41.141412"\n',
        'id,wkt\n1,"POLYGON ((-8.618643 41.141412, 1 1, 0 1, -8.618643 41.141412))"\n',
        'id,wkt\n1,"[[-8.618643,41.141412]]"\n',
        'id,polyline\n1,"[[-8.618643,41.141412]"\n',
        'id,polyline\n1,"LINESTRING (-8.618643 41.141412, 1 1)"\n',
        "tid,lon,lat\n1,-8.618643,41.141412,8.618643\n",
        '1,"[[-8.618643,41.141412]]"\n1,2\n',
    ],
)
def test_no_error_shows_coordinates(content: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(text(tmp_path / "a.csv", content)).trips()
    assert not re.search("618643|141412", str(caught.value))
