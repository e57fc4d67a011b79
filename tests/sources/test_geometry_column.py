"""Geometry columns of any encoding give coordinates and a CRS."""

from __future__ import annotations

from pathlib import Path

import geopandas as gpd
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import shapely

from dqam.geometry.grid import DEGREES
from dqam.sources import read
from tests.sources.cases import (
    coordinates,
    geo_lines,
    geo_points,
    point_frame,
    refused,
    text,
    to,
    wkt,
)


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
    refused(text(tmp_path / "c", "id,wkt\n1,LINESTRING (0 0)\n"), "row 1 has no valid WKT in wkt", "repair")
    refused(pa.table({"id": [1], "geometry": [b"\1\2\3"]}), "row 1 has no valid WKB in geometry")
    refused(pa.table({"id": [1], "geometry": [5]}), "geometry column of int64", "WKB or WKT")
    refused(pa.table({"id": [1], "geometry": pa.nulls(1)}), "no row has a geometry")


def test_bad_geoparquet_metadata(tmp_path: Path) -> None:
    table = pa.table({"id": [1], "geometry": [shapely.LineString([(0, 0), (1, 1)]).wkb]})
    for i, geo in enumerate((b"not json", b"[]", b'{"columns": 5}', b'{"primary_column": "gone", "columns": {}}')):
        pq.write_table(table.replace_schema_metadata({"geo": geo}), tmp_path / str(i))
        assert read(tmp_path / str(i)).trips().points == 2
    wrong = b'{"primary_column": "geometry", "columns": {"geometry": {"crs": {"type": "?"}}}}'
    pq.write_table(table.replace_schema_metadata({"geo": wrong}), tmp_path / "x")
    refused(tmp_path / "x", "coordinate reference system {'type': '?'} is not known", "crs='EPSG:...'")
    assert read(tmp_path / "x", crs="EPSG:4326").trips().points == 2


def test_geometry_beyond_plain_wkb(tmp_path: Path) -> None:
    points = [shapely.Point(1, 2, 3), shapely.Point(4, 5, 6)]
    frame = pd.DataFrame({"tid": [1, 1], "geometry": [shapely.to_wkb(p, byte_order=0) for p in points]})
    assert coordinates(read(frame).trips()) == [[(1.0, 2.0), (4.0, 5.0)]]
    sliced = pa.table({"tid": [0, 1, 1], "geometry": [shapely.to_wkb(shapely.Point(i, i)) for i in range(3)]}).slice(1)
    assert coordinates(read(sliced).trips()) == [[(1.0, 1.0), (2.0, 2.0)]]


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
