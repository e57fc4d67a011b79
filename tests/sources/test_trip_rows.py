"""Rows with the same id are one trip, and rows without points are left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import shapely

from dqam.geometry.grid import Grid
from dqam.geometry.walks import walk
from dqam.sources import read
from tests.sources.cases import (
    EXPECTED,
    coordinates,
    geo_lines,
    source,
    to,
    wkt,
)


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
