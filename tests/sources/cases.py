"""The same few trips in every form that can be read, and how to compare what comes back."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from dqam.errors import InputError
from dqam.geometry.trips import Trips
from dqam.sources import Source, read

START = 1372636858
STEP = 15


def some_trips(count: int = 7) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """Trips by (person, trip id); ids are unique within a person only, as in scikit-mobility."""
    random = np.random.default_rng(count)
    return {
        (f"{i // 3 + 1}", f"{i % 3 + 1}"): [
            (round(-8.6 + float(dx), 6), round(41.1 + float(dy), 6))
            for dx, dy in random.normal(0, 0.02, (int(random.integers(2, 9)), 2))
        ]
        for i in range(count)
    }


TRIPS = some_trips()
EXPECTED = list(TRIPS.values())


def point_frame(time: str = "datetime") -> pd.DataFrame:
    """TRIPS with a row a point, in the names of scikit-mobility."""
    rows = [
        (int(uid), int(tid), pd.Timestamp(START + STEP * i, unit="s"), lat, lng)
        for (uid, tid), points in TRIPS.items()
        for i, (lng, lat) in enumerate(points)
    ]
    return pd.DataFrame(rows, columns=["uid", "tid", time, "lat", "lng"])


def geo_points(**names: str) -> gpd.GeoDataFrame:
    """TRIPS as points with one id a trip."""
    frame = point_frame("t")
    frame["traj_id"] = frame["uid"] * 100 + frame["tid"]
    points = gpd.points_from_xy(frame["lng"], frame["lat"])
    return gpd.GeoDataFrame(frame[["traj_id", "t"]], geometry=points, crs="EPSG:4326").rename(columns=names)


def geo_lines() -> gpd.GeoDataFrame:
    """TRIPS as LineStrings."""
    ids = {"user_id": [int(uid) for uid, _ in TRIPS], "trip_id": [int(tid) for _, tid in TRIPS]}
    lines = [shapely.LineString(points) for points in TRIPS.values()]
    return gpd.GeoDataFrame(ids, geometry=lines, crs="EPSG:4326")


def write_porto(path: Path, polylines: list[str] | None = None) -> Path:
    """TRIPS, or any polylines, in the layout of the Porto data."""
    header = ["TRIP_ID", "CALL_TYPE", "TAXI_ID", "TIMESTAMP", "DAY_TYPE", "MISSING_DATA", "POLYLINE"]
    rows = [
        [tid, "A", uid, START, "A", "False", json.dumps(points, separators=(",", ":"))]
        for (uid, tid), points in TRIPS.items()
    ]
    if polylines is not None:
        rows = [[str(i), "A", "1", START, "A", "False", text] for i, text in enumerate(polylines)]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def zipped(path: Path) -> Path:
    """The file gzipped, under a name that does not say so."""
    path.write_bytes(gzip.compress(path.read_bytes()))
    return path


def parquet_folder(folder: Path) -> Path:
    """The points in several files, cut within trips."""
    folder.mkdir()
    table = pa.Table.from_pandas(point_frame())
    for i, start in enumerate(range(0, len(table), 5)):
        pq.write_table(table.slice(start, 5), folder / f"part-{i:03}")
    return folder


def to(path: Path, write: Callable[[Path], object]) -> Path:
    """The path, after writing to it."""
    write(path)
    return path


def moving(collection: bool) -> Any:
    """MovingPandas trajectories, with a column name of their own."""
    import movingpandas as mpd

    frame = geo_points(traj_id="which").set_index("t")
    if collection:
        return mpd.TrajectoryCollection(frame, "which")
    first = frame[frame["which"] == frame["which"].iloc[0]]
    return mpd.Trajectory(first, first["which"].iloc[0], traj_id_col="which")


def wkt(frame: gpd.GeoDataFrame) -> pd.DataFrame:
    """The frame with its geometry as text."""
    return pd.DataFrame(frame.to_wkt())


FORMS: dict[str, Callable[[Path], Any]] = {
    "porto csv": lambda p: write_porto(p / "a.csv"),
    "porto csv gz": lambda p: zipped(write_porto(p / "a.csv")),
    "porto parquet": lambda p: to(p / "a", pd.read_csv(write_porto(p / "b")).to_parquet),
    "points csv": lambda p: to(p / "a.parquet", lambda f: point_frame().to_csv(f, index=False)),
    "points csv gz": lambda p: zipped(to(p / "a", lambda f: point_frame().to_csv(f, index=False))),
    "points csv semicolons": lambda p: to(p / "a", lambda f: point_frame().to_csv(f, index=False, sep=";")),
    "points parquet": lambda p: to(p / "a.csv", point_frame().to_parquet),
    "points parquet folder": lambda p: parquet_folder(p / "folder"),
    "points parquet small groups": lambda p: to(p / "a", lambda f: point_frame().to_parquet(f, row_group_size=4)),
    "trackintel csv": lambda p: to(
        p / "a",
        lambda f: wkt(geo_points(traj_id="user_id", t="tracked_at")).to_csv(f, index=False),
    ),
    "trackintel lon lat": lambda p: to(
        p / "a",
        lambda f: (
            geo_points(traj_id="user_id", t="tracked_at")
            .get_coordinates()
            .set_axis(["longitude", "latitude"], axis=1)
            .join(geo_points(traj_id="user_id", t="tracked_at")[["user_id", "tracked_at"]])
            .to_csv(f, index=False)
        ),
    ),
    "geoparquet points": lambda p: to(p / "a", geo_points().to_parquet),
    "geoparquet native points": lambda p: to(
        p / "a", lambda f: geo_points().to_parquet(f, geometry_encoding="geoarrow")
    ),
    "geoparquet lines": lambda p: to(p / "a", geo_lines().to_parquet),
    "geoparquet native lines": lambda p: to(p / "a", lambda f: geo_lines().to_parquet(f, geometry_encoding="geoarrow")),
    "lines csv": lambda p: to(p / "a", lambda f: wkt(geo_lines()).to_csv(f, index=False)),
    "pandas": lambda p: point_frame(),
    "pandas index": lambda p: point_frame().set_index(["uid", "tid", "datetime"]),
    "geopandas points": lambda p: geo_points(),
    "geopandas lines": lambda p: geo_lines(),
    "polars": lambda p: pl.from_pandas(point_frame()),
    "polars lazy": lambda p: pl.from_pandas(point_frame()).lazy(),
    "polars strings": lambda p: pl.from_pandas(point_frame()).with_columns(pl.col("uid", "tid").cast(pl.String)),
    "polars categories": lambda p: pl.from_pandas(point_frame()).with_columns(
        pl.col("uid", "tid").cast(pl.String).cast(pl.Categorical)
    ),
    "arrow": lambda p: pa.Table.from_pandas(point_frame()),
    "arrow batch": lambda p: pa.Table.from_pandas(point_frame()).to_batches()[0],
    "geoarrow points": lambda p: pa.table(geo_points().to_arrow(geometry_encoding="geoarrow", interleaved=True)),
    "geoarrow lines": lambda p: pa.table(geo_lines().to_arrow(geometry_encoding="geoarrow", interleaved=False)),
    "geoarrow wkb": lambda p: pa.table(geo_lines().to_arrow(geometry_encoding="WKB")),
    "movingpandas": lambda p: moving(collection=True),
    "trips": lambda p: Trips.from_lists(list(TRIPS.values())),
}


def source(thing: Any, batch: int | None = None, **options: Any) -> Source:
    """A source, with batches as small as a test wants them."""
    made = read(thing, **options)
    if batch is not None:
        made.batch = batch
    return made


def coordinates(trips: Trips) -> list[list[tuple[float, float]]]:
    """Plain lists of points."""
    points = list(zip(trips.x.tolist(), trips.y.tolist(), strict=True))
    return [points[a:b] for a, b in zip(trips.offsets[:-1], trips.offsets[1:], strict=True)]


def every_trip(batches: Source) -> list[tuple[str, list[tuple[float, float]]]]:
    """All trips over all batches with their ids."""
    return [
        (str(i), points)
        for trips in batches
        for i, points in zip(
            range(len(trips)) if trips.ids is None else trips.ids.to_pylist(), coordinates(trips), strict=True
        )
    ]


def refused(thing: Any, *words: str, batch: int | None = None, **options: Any) -> None:
    """Assert that reading fails with one short sentence that has all `words`."""
    with pytest.raises(InputError) as caught:
        source(thing, batch, **options).trips()
    message = str(caught.value)
    for word in words:
        assert word in message
    assert len(message) < 500
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def text(path: Path, content: str | bytes) -> Path:
    """The path, after writing the content to it."""
    return to(path, lambda f: f.write_bytes(content if isinstance(content, bytes) else content.encode()))


Row = tuple[int, int, int, float]


def rows_of(counts: list[int], trips_a_person: int = 3) -> list[Row]:
    """(uid, tid, time, place); a place is unique, so that nothing can be mistaken."""
    rows, place = [], 0
    for trip, count in enumerate(counts):
        for i in range(count):
            rows.append((trip // trips_a_person, trip % trips_a_person, 100 * trip + i, place / 1000))
            place += 1
    return rows


def table_of(rows: list[Row], key: pa.DataType | None = None) -> pa.Table:
    """The rows as a table, with keys of any type."""
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


def write_points(rows: list[Row], path: Path, group: int, **options: object) -> Path:
    """The path, after writing the rows to it in groups of `group` rows."""
    pq.write_table(table_of(rows), path, row_group_size=group, **options)
    return path
