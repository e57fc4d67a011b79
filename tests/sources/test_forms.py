"""The same trips come out of every format and object, with any size of batch."""

from __future__ import annotations

from pathlib import Path

import geopandas as gpd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import shapely

from dqam.errors import InputError
from dqam.geometry.grid import DEGREES, Grid
from dqam.geometry.trips import Trips
from dqam.geometry.walks import walk
from dqam.sources import read
from tests.sources.cases import (
    FORMS,
    START,
    STEP,
    TRIPS,
    coordinates,
    geo_lines,
    geo_points,
    moving,
    point_frame,
    source,
    to,
    wkt,
)

EXPECTED = list(TRIPS.values())
NO_TIME = ("lines", "geoarrow wkb", "trips")
NO_PERSON = ("movingpandas", "geopandas points", "geoparquet points", "geoparquet native points", "geoarrow points")


@pytest.mark.parametrize("batch", [1, 6, None])
@pytest.mark.parametrize("form", FORMS)
def test_same_trips_from_every_form(form: str, batch: int | None, tmp_path: Path) -> None:
    made = source(FORMS[form](tmp_path), batch)
    trips = made.trips()
    assert coordinates(trips) == EXPECTED
    assert trips.crs == made.crs == DEGREES
    assert made.progress == 1.0
    assert made.dropped == {}
    if not any(word in form for word in NO_TIME):
        assert trips.time is not None
        expected = [START + STEP * i for points in EXPECTED for i in range(len(points))]
        assert (trips.time == np.array(expected) * 1_000_000).all()
    if form == "trips":
        return
    assert trips.ids is not None
    ids = [str(value) for value in trips.ids.to_pylist()]
    if form in NO_PERSON:
        assert trips.persons is None
        assert ids == [str(int(uid) * 100 + int(tid)) for uid, tid in TRIPS]
    elif "trackintel" in form:
        assert trips.persons is not None
        assert ids == trips.persons.to_pylist() == [str(int(uid) * 100 + int(tid)) for uid, tid in TRIPS]
    else:
        assert trips.persons is not None
        assert list(zip(map(str, trips.persons.to_pylist()), ids, strict=True)) == list(TRIPS)


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


def test_one_moving_trajectory() -> None:
    assert coordinates(read(moving(collection=False)).trips()) == EXPECTED[:1]


def test_arrays_of_all_batches_are_read_only(tmp_path: Path) -> None:
    for form in ("porto csv", "points parquet", "trips"):
        for trips in source(FORMS[form](tmp_path), batch=8):
            assert not trips.x.flags.writeable


def test_passing_trips_leaves_them_alone() -> None:
    trips = Trips.from_lists(EXPECTED)
    read(trips).trips()
    assert trips.x.flags.writeable


def test_crs_of_files_and_frames(tmp_path: Path) -> None:
    metres = geo_lines().to_crs("EPSG:28355")
    assert read(metres).crs == "EPSG:28355"
    assert read(to(tmp_path / "a", metres.to_parquet)).trips().crs == "EPSG:28355"
    assert read(pa.table(metres.to_arrow())).crs == "EPSG:28355"
    assert read(pd.DataFrame(point_frame()), crs="EPSG:28355").trips().crs == "EPSG:28355"
    assert read(metres, crs="EPSG:32629").crs == "EPSG:32629"
    odd = geo_points().to_crs("+proj=laea +lat_0=41 +lon_0=-8")
    assert "Lambert" in read(odd).crs
    assert read(gpd.GeoDataFrame(geo_points()).set_crs(None, allow_override=True)).crs == DEGREES


def test_columns_override_recognition() -> None:
    frame = point_frame().rename(columns={"lng": "east", "lat": "north", "uid": "a", "tid": "b"})
    frame["lon"] = frame["lat"] = 0.0
    given = {"lon": "east", "lat": "north", "person": "a", "trip": "b"}
    assert coordinates(read(frame, columns=given).trips()) == EXPECTED
    both = geo_points()
    both["x"] = both["y"] = 1.0
    assert set(read(both, columns={"lon": "x", "lat": "y"}).trips().x) == {1.0}


def test_swap_axes(tmp_path: Path) -> None:
    for form in ("porto csv", "points csv", "geoparquet lines", "trips"):
        trips = read(FORMS[form](tmp_path), swap_axes=True).trips()
        assert coordinates(trips) == [[(y, x) for x, y in points] for points in EXPECTED]


def test_ids_of_csv_are_kept_as_written(tmp_path: Path) -> None:
    path = to(tmp_path / "a", lambda f: f.write_text("tid,lon,lat\n7,1,1\n007,2,2\n"))
    assert read(path).trips().ids.to_pylist() == ["7", "007"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["2013-07-01T00:00:58", "2013-07-01 00:01:13.5"], [START * 10**6, START * 10**6 + 15_500_000]),
        (["2013-07-01T00:00:58Z", "2013-07-01T02:01:13+02:00"], [START * 10**6, START * 10**6 + 15_000_000]),
        (["2013-07-01T00:00:58", "2013-07-01T00:00:58.000001999"], [START * 10**6, START * 10**6 + 1]),
        (["1372636858", "1372636858.25"], [START * 10**6, START * 10**6 + 250_000]),
    ],
)
def test_times_as_text(texts: list[str], expected: list[int], tmp_path: Path) -> None:
    rows = "".join(f"1,{text},1,1\n" for text in texts)
    path = to(tmp_path / "a", lambda f: f.write_text("tid,time,lon,lat\n" + rows))
    assert read(path).trips().time.tolist() == expected  # type: ignore[union-attr]


def test_times_of_other_types() -> None:
    days = pd.to_datetime(["2013-07-01", "2013-07-02"])
    for values in (days.tz_localize("UTC"), days.astype("datetime64[s]"), pa.array(days.date)):
        table = pa.table({"tid": [1, 1], "t": values, "x": [1.0, 2.0], "y": [1, 2]})
        time = read(table).trips().time
        assert time is not None
        assert time.tolist() == [1372636800 * 10**6, (1372636800 + 86400) * 10**6]


def test_geometry_beyond_plain_wkb(tmp_path: Path) -> None:
    points = [shapely.Point(1, 2, 3), shapely.Point(4, 5, 6)]
    frame = pd.DataFrame({"tid": [1, 1], "geometry": [shapely.to_wkb(p, byte_order=0) for p in points]})
    assert coordinates(read(frame).trips()) == [[(1.0, 2.0), (4.0, 5.0)]]
    sliced = pa.table({"tid": [0, 1, 1], "geometry": [shapely.to_wkb(shapely.Point(i, i)) for i in range(3)]}).slice(1)
    assert coordinates(read(sliced).trips()) == [[(1.0, 1.0), (2.0, 2.0)]]


def test_empty_and_null_lines_are_dropped_and_counted(tmp_path: Path) -> None:
    frame = geo_lines()
    frame.loc[1, "geometry"] = None
    frame.loc[3, "geometry"] = shapely.LineString()
    for thing in (
        frame,
        to(tmp_path / "a", frame.to_parquet),
        to(tmp_path / "b", lambda f: wkt(frame).to_csv(f, index=False)),
        pa.table(frame.to_arrow(geometry_encoding="geoarrow")),
    ):
        made = read(thing)
        assert coordinates(made.trips()) == [EXPECTED[i] for i in range(len(EXPECTED)) if i not in (1, 3)]
        assert made.dropped == {"trips without points": 2}


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


def test_columns_that_are_not_named_by_text() -> None:
    frame = point_frame().set_axis(range(5), axis=1)
    given = {"person": "0", "trip": "1", "time": "2", "lat": "3", "lon": "4"}
    assert coordinates(read(frame, columns=given).trips()) == EXPECTED


def test_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    content = "TripID,Lon,Lat\r\n1,2,3\r\n1,4,5\r\n".encode("utf-8-sig")
    path = to(tmp_path / "a", lambda f: f.write_bytes(content))
    assert coordinates(read(path).trips()) == [[(2, 3), (4, 5)]]


def test_unknown_roles_and_columns() -> None:
    with pytest.raises(InputError, match="'longitude' is not a role.*trip, person, time, lon, lat, geometry"):
        read(point_frame(), columns={"longitude": "lng"})
    with pytest.raises(InputError, match="no column 'east' for lon; it has uid, tid, datetime, lat, lng"):
        read(point_frame(), columns={"lon": "east"})


@pytest.mark.parametrize("column", ["trip_id", "id"])
@pytest.mark.parametrize("on_error", ["fail", "drop"])
def test_rows_with_the_same_id_are_pieces_of_one_trip(tmp_path, column, on_error):
    rows = [("a", "0 0, 1 1"), ("b", "5 5, 6 6"), (" a", "3 3, 4 4, 4 5"), ("a", "8 8, 9 9")]
    path = tmp_path / "lines.csv"
    path.write_text(f"{column},geometry\n" + "".join(f'{i},"LINESTRING ({line})"\n' for i, line in rows))
    made = source(path, batch=1, on_error=on_error)
    trips = made.trips()
    assert made.joined == 2
    assert dict(zip(trips.ids.to_pylist(), coordinates(trips), strict=True)) == {
        "b": [(5, 5), (6, 6)],
        "a": [(0, 0), (1, 1), (3, 3), (4, 4), (4, 5), (8, 8), (9, 9)],
    }
    walks = walk(trips, Grid((0, 0, 10, 10), 10, 10))
    assert sorted(np.diff(walks.trips).tolist()) == [1, 3]
