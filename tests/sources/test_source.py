"""A source can be iterated again, in batches of about the requested size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from dqam.geometry.trips import Trips
from dqam.sources import read
from tests.sources.cases import (
    EXPECTED,
    FORMS,
    coordinates,
    geo_lines,
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
