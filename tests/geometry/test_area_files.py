"""Areas and lines from files, compared with what GeoPandas reads."""

import json
import sys
from pathlib import Path
from unittest.mock import patch

import geopandas
import numpy as np
import pytest
import shapely

from dqam.errors import InputError
from dqam.geometry.area_files import read_shapes

SQUARES = geopandas.GeoDataFrame(
    {"name": ["north", "Süd"], "code": [7, 8], "people": [1.5, None]},
    geometry=[shapely.box(0, 1, 2, 3), shapely.box(0, 0, 2, 1) - shapely.box(0.5, 0.2, 1, 0.6)],
    crs="EPSG:4326",
)
BAD = {
    "": "is empty",
    "hello": "in an unknown format",
    "{": "not valid JSON",
    '{"type": "FeatureCollection", "features": []}': "contains no features",
    '{"type": "Topology"}': "is TopoJSON",
    '{"a": 1}': "not GeoJSON",
    '{"type": "Feature", "properties": {}, "geometry": null}': "has no geometry",
    '{"type": "Feature", "properties": [1], "geometry": null}': "not a GeoJSON feature",
    '{"type": "Polygon", "coordinates": [[["a", 1]]]}': "Feature 1",
    "[" * 100_000: "cannot be read",
}


def write(path: Path, table: geopandas.GeoDataFrame) -> Path:
    table.to_parquet(path) if path.suffix == ".parquet" else table.to_file(path)
    return path


@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:3857"])
@pytest.mark.parametrize("name", ["z.geojson", "z.parquet", "z.shp", "z.gpkg", "z.fgb"])
def test_all_formats_are_read_as_by_geopandas(name: str, crs: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, SQUARES.to_crs(crs))
    expected = geopandas.read_parquet(path) if name.endswith("parquet") else geopandas.read_file(path)
    found = read_shapes(path)
    assert found.crs == crs
    assert found.name_column == "name"
    assert list(found.names) == expected["name"].tolist()
    assert shapely.equals(found.shapes, expected.geometry.to_numpy()).all()
    assert found.columns["code"].to_pylist() == expected["code"].tolist()
    assert found.columns["people"].to_pylist() == [1.5, None]


def test_names_of_another_column_and_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "z.gpkg", SQUARES)
    assert read_shapes(path, "code").names == ("7", "8")
    assert read_shapes(write(tmp_path / "n.gpkg", SQUARES[["people", "geometry"]])).names == ("1", "2")
    hexagons = SQUARES[["people", "geometry"]].assign(h3=["89196c", "89196d"])
    assert read_shapes(write(tmp_path / "h.parquet", hexagons)).names == ("89196c", "89196d")
    with pytest.raises(InputError, match="no column 'DISTRICT'; its columns are name, code, people"):
        read_shapes(path, "DISTRICT")


@pytest.mark.parametrize("text", BAD)
def test_files_that_cannot_be_read(text: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.geojson"
    path.write_text(text)
    with pytest.raises(InputError, match=BAD[text]):
        read_shapes(path)


@pytest.mark.parametrize("name", ["z.parquet", "z.gpkg", "z.fgb", "z.shp"])
def test_damaged_files_are_refused_in_words(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, SQUARES)
    path.write_bytes(path.read_bytes()[:80])
    with pytest.raises(InputError, match="z\\."):
        read_shapes(path)


def test_a_missing_file_and_a_missing_crs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_shapes(tmp_path / "none.geojson")
    path = write(tmp_path / "z.parquet", SQUARES.set_crs(None, allow_override=True))
    with pytest.raises(InputError, match="does not declare its CRS"):
        read_shapes(path)
    assert read_shapes(path, crs="EPSG:3857").crs == "EPSG:3857"


def test_a_shapefile_without_its_library(tmp_path: Path) -> None:
    path = write(tmp_path / "z.shp", SQUARES)
    with patch.dict(sys.modules, {"pyogrio": None}), pytest.raises(InputError, match=r"pip install 'dqam\[gis\]'"):
        read_shapes(path)


def test_geojson_of_one_feature_a_line(tmp_path: Path) -> None:
    path = tmp_path / "lines.geojsonl"
    features = SQUARES.iloc[:, [0, 3]].iterfeatures()
    path.write_text("\n".join(json.dumps(feature) for feature in features))
    found = read_shapes(path)
    assert found.names == ("north", "Süd")
    assert shapely.equals(found.shapes, SQUARES.geometry.to_numpy()).all()


def test_coordinates_that_are_not_numbers_reach_the_check_of_areas(tmp_path: Path) -> None:
    path = tmp_path / "nan.geojson"
    path.write_text('{"type": "Polygon", "coordinates": [[[0, 0], [NaN, 1], [1, 1], [0, 0]]]}')
    assert not np.isfinite(shapely.get_coordinates(read_shapes(path).shapes)).all()


def test_a_shapefile_without_its_index_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "lone.shp", SQUARES)
    path.with_suffix(".shx").unlink()
    with pytest.raises(InputError, match=r"without lone\.shx, which is missing; keep the \.shp, \.shx, .* together"):
        read_shapes(path)
