"""Tables of geometries, read back by GeoPandas and pandas."""

import json
from pathlib import Path

import geopandas
import numpy as np
import pandas
import pytest
import shapely

from dqam.errors import InputError
from dqam.geometry.shape_tables import check_suffix, in_degrees, write_shapes

HOLE = shapely.Polygon([(0, 0), (0, 9), (9, 9), (9, 0)], [[(1, 1), (2, 1), (2, 2)]])
SHAPES = np.array([HOLE, shapely.MultiPolygon([HOLE, shapely.box(20, 0, 21, 1, ccw=False)])], object)
COLUMNS = {"name": ["a", "b"], "trips": np.array([1.5, np.nan]), "cut": np.array([True, False])}
NOTES = {"PROMISE": "epsilon = 1"}


def test_geojson_has_degrees_and_counterclockwise_rings(tmp_path: Path) -> None:
    path = tmp_path / "x.geojson"
    expected = geopandas.GeoSeries(SHAPES, crs="EPSG:4326")
    write_shapes(path, COLUMNS, expected.to_crs("EPSG:3857").to_numpy(), "EPSG:3857", NOTES)
    assert json.loads(path.read_text())["promise"] == "epsilon = 1"
    found = geopandas.read_file(path)
    assert found.crs == "EPSG:4326"
    assert shapely.equals_exact(found.geometry, SHAPES, 1e-9, normalize=True).all()
    parts = shapely.get_parts(found.geometry.to_numpy())
    assert shapely.is_ccw(shapely.get_exterior_ring(parts)).all()
    assert not shapely.is_ccw(shapely.get_interior_ring(parts[:2], 0)).any()
    assert found.trips[0] == 1.5
    assert np.isnan(found.trips[1])


def test_geoparquet_keeps_the_crs(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_shapes(path, COLUMNS, SHAPES, "EPSG:28355", NOTES)
    found = geopandas.read_parquet(path)
    assert found.crs == "EPSG:28355"
    assert shapely.equals(found.geometry, SHAPES).all()
    assert found.cut.tolist() == [True, False]
    assert found.trips.isna().tolist() == [False, True]


def test_csv_has_columns_only(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    write_shapes(path, COLUMNS, SHAPES, "EPSG:4326", NOTES)
    found = pandas.read_csv(path)
    assert found.columns.tolist() == ["name", "trips", "cut"]
    assert found.cut.tolist() == [1, 0]
    assert found.trips.isna().tolist() == [False, True]


def test_degrees_are_those_of_geopandas() -> None:
    expected = geopandas.GeoSeries(SHAPES, crs="EPSG:3857").to_crs("EPSG:4326").to_numpy()
    assert shapely.equals_exact(in_degrees(SHAPES, "EPSG:3857"), expected, 1e-12).all()


def test_unknown_suffixes_are_refused() -> None:
    assert check_suffix(Path("x.GeoJSON"))
    with pytest.raises(InputError, match="x.xlsx: answers can be saved as .csv"):
        check_suffix(Path("x.xlsx"))
