"""The same trips come out of every format and object, with any size of batch."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from dqam.errors import InputError
from dqam.geometry.grid import DEGREES
from dqam.geometry.trips import Trips
from dqam.sources import read
from tests.sources.cases import (
    EXPECTED,
    FORMS,
    START,
    STEP,
    TRIPS,
    coordinates,
    geo_lines,
    point_frame,
    refused,
    rows_of,
    source,
    text,
    to,
    write_points,
    write_porto,
)

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


@pytest.mark.parametrize("content", [b"", b"\0" * 600])
def test_a_broken_file_of_a_folder_is_not_passed_over(tmp_path: Path, content: bytes) -> None:
    write_points(rows_of([3, 2]), tmp_path / "0.parquet", 10)
    (tmp_path / "_SUCCESS").touch()
    assert len(read(tmp_path).trips()) == 2
    (tmp_path / "1.parquet").write_bytes(content)
    with pytest.raises(InputError, match="1.parquet in .* is empty or damaged"):
        read(tmp_path)


def test_objects_and_options() -> None:
    refused([1, 2], "type list", "give a path")
    refused(None, "type NoneType", "give")
    refused(point_frame(), "on_error must be 'fail' or 'drop'; got 'skip'", on_error="skip")
    refused(point_frame(), "'EPSG:x' is not a coordinate reference system", crs="EPSG:x")
    refused(
        Trips.from_lists([[(0, 0)], [(1, 2), (1, 200)]]),
        "Trips: 1 of 3 points",
        "row 2 (lat is not between -90 and 90)",
    )
