"""Rectangles from CSV and GeoJSON files, and files that hold none."""

import json
from pathlib import Path

import numpy as np
import pytest
import shapely
from pyproj import Transformer

from dqam.errors import InputError
from dqam.geometry.grid import DEGREES, Grid, transform
from dqam.geometry.rectangle_files import read_rectangles

GRID = Grid((0, 0, 4, 2), rows=4, columns=8)  # cells of half a degree


def test_csv(tmp_path: Path) -> None:
    path = tmp_path / "areas.csv"
    path.write_text("name,West,south,east,north\nA,0,0,1,1\nB,0.5,0.5,2,2\n")
    assert read_rectangles(path, GRID).cells.tolist() == [[0, 0, 2, 2], [1, 1, 4, 4]]


def test_a_crs_is_for_csv_only(tmp_path: Path) -> None:
    metres = Grid((300_000, 5_800_000, 304_000, 5_804_000), 4, 4, "EPSG:28355")
    table = tmp_path / "rectangles.csv"
    to_degrees = Transformer.from_crs("EPSG:28355", "EPSG:4326", always_xy=True)
    corners = [*to_degrees.transform(301_300, 5_801_300), *to_degrees.transform(302_700, 5_802_700)]
    table.write_text("west,south,east,north\n" + ",".join(map(repr, corners)) + "\n")
    assert read_rectangles(table, metres, "EPSG:4326").cells.tolist() == [[1, 1, 3, 3]]
    document = tmp_path / "rectangles.geojson"
    document.write_text('{"type": "Polygon", "coordinates": []}')
    with pytest.raises(InputError, match="leave out the CRS EPSG:28355"):
        read_rectangles(document, metres, "EPSG:28355")


def test_geojson_is_in_degrees_whatever_the_grid(tmp_path: Path) -> None:
    box = shapely.box(144.97, -37.81, 144.98, -37.80)
    path = tmp_path / "areas.geojson"
    feature = {"type": "Feature", "properties": {}, "geometry": json.loads(shapely.to_geojson(box))}
    path.write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
    degrees = Grid((144.96, -37.82, 144.99, -37.79), 3, 3)
    assert read_rectangles(path, degrees).cells.tolist() == [[1, 1, 2, 2]]
    metres = Grid((320_000, 5_810_000, 330_000, 5_820_000), 1000, 1000, "EPSG:28355")
    (west, south, east, north) = read_rectangles(path, metres).bounds[0]
    x, y = transform(*np.array(box.exterior.coords).T, DEGREES, "EPSG:28355")
    assert west <= x.min() < west + 10
    assert east - 10 < x.max() <= east
    assert south <= y.min() < south + 10
    assert north - 10 < y.max() <= north


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("west,south,east,north\n", "no rectangles"),
        ("a,b\n1,2\n", "has the columns a, b; a file of rectangles must have west, south, east, north"),
        ("west,south,east,north\n0,0,x,1\n", "not a number"),
        ("west,south,east,north\n0,0,1\n", "not a CSV file of rectangles"),
        ("west,south,east,north\n0,0,1,1\n3,0,2,1\n", "areas: rectangle 2 .* upside down"),
        ("west,west,south,east,north\n0,0,0,1,1\n", "has two columns with the same name"),
        ("west,south,east,north\n0,0,2013-01-01,1\n", "not a number"),
        ("{", "is not GeoJSON"),
        ('{"type": "FeatureCollection", "features": []}', "no rectangles"),
        ('{"type": "Polygon", "coordinates": [[[0,0],[1,0],[1,1],[0,0]]]}', "Feature 1 .* not a rectangle"),
        ('{"type": "Point", "coordinates": [0, 0]}', "not a rectangle"),
    ],
)
def test_bad_files(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "areas"
    path.write_text(text)
    with pytest.raises(InputError, match=says):
        read_rectangles(path, GRID)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere.csv: cannot be read"):
        read_rectangles(tmp_path / "nowhere.csv", GRID)
