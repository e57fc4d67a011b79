"""Columns are recognised by name or named by the user, and errors advise columns that make sense for the table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from dqam.errors import InputError
from dqam.sources import read
from tests.sources.cases import (
    EXPECTED,
    coordinates,
    geo_points,
    point_frame,
    refused,
    text,
)


def test_missing_columns(tmp_path: Path) -> None:
    refused(
        text(tmp_path / "a.csv", "foo,bar\n1,2\n"),
        "a.csv",
        "foo, bar",
        "lng, lon",
        "columns={'lon': 'NAME', 'lat': 'NAME'}",
    )
    refused(text(tmp_path / "b.csv", "lon,lat\n1,2\n"), "b.csv", "trip or person", "it has lon, lat", "tid, trip_id")
    refused(text(tmp_path / "c.csv", "tid,lon,lat,lat\n1,2,3,4\n"), "more than one column 'lat'", "rename")
    refused(pa.table({"tid": [1]}), "no columns for coordinates")


def test_columns_override_recognition() -> None:
    frame = point_frame().rename(columns={"lng": "east", "lat": "north", "uid": "a", "tid": "b"})
    frame["lon"] = frame["lat"] = 0.0
    given = {"lon": "east", "lat": "north", "person": "a", "trip": "b"}
    assert coordinates(read(frame, columns=given).trips()) == EXPECTED
    both = geo_points()
    both["x"] = both["y"] = 1.0
    assert set(read(both, columns={"lon": "x", "lat": "y"}).trips().x) == {1.0}


def test_unknown_roles_and_columns() -> None:
    with pytest.raises(InputError, match="'longitude' is not a role.*trip, person, time, lon, lat, geometry"):
        read(point_frame(), columns={"longitude": "lng"})
    with pytest.raises(InputError, match="no column 'east' for lon: it has uid, tid, datetime, lat, lng"):
        read(point_frame(), columns={"lon": "east"})


def test_a_person_column_can_be_left_out():
    table = pa.table({"trip_id": [1, 1, 1], "driver_id": ["a", "a", "b"], "lon": [0.0] * 3, "lat": [0.0] * 3})
    assert len(read(table).trips()) == 2
    assert read(table).roles["person"] == "driver_id"
    alone = read(table, columns={"person": ""})
    assert len(alone.trips()) == 1
    assert "person" not in alone.roles


@pytest.mark.parametrize(
    ("header", "advice"),
    [
        ("ride,gps_longitude,gps_latitude", "columns={'lon': 'gps_longitude', 'lat': 'gps_latitude'} for points;"),
        ("id,line", "columns={'geometry': 'line'} for WKT or WKB;"),
        ("id,coords", "columns={'polyline': 'coords'} for JSON lists of [lon, lat];"),
        (
            "tid,lat,east",
            "for lat but none for lon: it has tid, lat, east. Name it, columns={'lon': 'east'};",
        ),
        (
            "tid,lon,breite",
            "for lon but none for lat: it has tid, lon, breite. Name it, columns={'lat': 'NAME'}",
        ),
        (
            "a_lon,a_lat,b_lon,b_lat",
            "columns={'lon': 'NAME', 'lat': 'NAME'} for points or columns={'geometry'",
        ),
        ("ride_number,lon,lat", "Name the column that has them, columns={'trip': 'ride_number'};"),
        ("device,lon,lat", "Name the column that has them, columns={'person': 'device'};"),
        ("id,lon,lat", "Name the column that has them, columns={'trip': 'NAME'};"),
        ("lon,lat", "it has lon, lat. Add a column that has them;"),
        ("7,-8.618643,41.141412", "The first row of a.csv looks like data; add a header row"),
    ],
)
def test_advice_fits_the_table(header: str, advice: str, tmp_path: Path) -> None:
    refused(text(tmp_path / "a.csv", f"{header}\n{','.join('1' for _ in header.split(','))}\n"), advice)


def test_names_that_are_close() -> None:
    with pytest.raises(InputError, match=r"'longitude' is not a role of a column \(did you mean 'lon'\?\)"):
        read(point_frame(), columns={"longitude": "lng"})
    with pytest.raises(InputError, match=r"has no column 'TID' for trip: .*; did you mean 'tid'\?$"):
        read(point_frame(), columns={"trip": "TID"})
    with pytest.raises(InputError, match=r"has no column 'zebra' for trip: .*; name one of them\.$"):
        read(point_frame(), columns={"trip": "zebra"})


def test_coordinates_in_place_of_a_header_are_not_shown(tmp_path: Path) -> None:
    path = text(tmp_path / "a.csv", "7,-8.618643,41.141412\n7,-8.6,41.1\n")
    for given in (None, {"lon": "x"}):
        with pytest.raises(InputError) as caught:
            read(path, columns=given)
        assert "8.6" not in str(caught.value)
        assert "41" not in str(caught.value)
