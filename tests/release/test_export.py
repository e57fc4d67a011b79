"""Exports: the same numbers, at the right place on Earth, read by others."""

import csv
import json
from pathlib import Path

import geopandas
import numpy as np
import pandas
import pytest
import rasterio
import shapely

import dqam
from dqam.errors import InputError
from dqam.geometry.grid import Grid
from dqam.geometry.trips import Trips
from dqam.release.export import export
from dqam.release.release import Release
from tests.release.cases import HERE, as_if_private, seeded, sliced, strolls, with_delta

METRES = Grid((320_000, 5_812_000, 324_000, 5_816_000), 16, 8, "EPSG:28355")


@pytest.fixture(params=["degrees", "metres"])
def release(request: pytest.FixtureRequest, tmp_path: Path) -> Release:
    """As an analyst has it: opened from its file."""
    grid = Grid(HERE, 16, 8) if request.param == "degrees" else METRES
    made = as_if_private(seeded(grid, trips=strolls(grid.bounds, crs=grid.crs)))
    made.save(tmp_path / "map.nc")
    return dqam.open(tmp_path / "map.nc")


def places(grid: Grid) -> tuple[np.ndarray, np.ndarray]:
    """The middles of all cells."""
    row, column = np.indices(grid.shape)
    return grid.from_cells(column.ravel() + 0.5, row.ravel() + 0.5)


@pytest.mark.parametrize("suffix", ["tif", "TIFF"])
def test_a_geotiff_has_each_cell_where_it_is(release: Release, tmp_path: Path, suffix: str) -> None:
    rasterio = pytest.importorskip("rasterio")
    export(release, tmp_path / f"map.{suffix}")
    with rasterio.open(tmp_path / f"map.{suffix}") as file:
        assert file.crs.to_epsg() == (4326 if release.grid.crs == "EPSG:4326" else 28355)
        assert file.descriptions == ("trips", "low", "high")
        assert file.tags()["PROMISE"] == release.provenance.promise
        assert file.tags(ns="IMAGE_STRUCTURE")["LAYOUT"] == "COG"
        np.testing.assert_allclose(file.bounds, release.grid.bounds)
        found = np.array(list(file.sample(np.stack(places(release.grid), axis=1))))
    blocks = release.cells()
    np.testing.assert_array_equal(found.T, [blocks.value, blocks.low, blocks.high])


def test_geoparquet_has_each_cell_where_it_is(release: Release, tmp_path: Path) -> None:
    geopandas = pytest.importorskip("geopandas")
    export(release, tmp_path / "map.parquet")
    table = geopandas.read_parquet(tmp_path / "map.parquet")
    assert table.crs == release.grid.crs
    x, y = places(release.grid)
    assert shapely.contains_xy(table.geometry.to_numpy(), x, y).all()
    blocks = release.cells()
    np.testing.assert_array_equal(table[["trips", "low", "high"]].to_numpy().T, [blocks.value, blocks.low, blocks.high])
    for west, south, east, north, value in zip(*table.bounds.to_numpy().T[:, :9], table.trips[:9], strict=True):
        assert release.count(west, south, east, north).value == value


def test_known_coordinates_are_in_the_right_cell(tmp_path: Path) -> None:
    """Trips that all stand on Melbourne's Flinders Street Station, 144.9671 E 37.8183 S."""
    rasterio, geopandas = pytest.importorskip("rasterio"), pytest.importorskip("geopandas")
    station = (144.9671, -37.8183)
    trips = Trips.from_lists([[station]] * 500)
    for grid in (Grid(HERE, 16, 16), Grid((318_000, 5_810_000, 326_000, 5_818_000), 16, 16, "EPSG:28355")):
        release = seeded(grid, epsilon="1000", trips=trips)
        assert release.count(*station, *station, crs="EPSG:4326").value > 400
        export(release, tmp_path / "map.tif")
        export(release, tmp_path / "map.parquet")
        with rasterio.open(tmp_path / "map.tif") as file:
            warp = pytest.importorskip("rasterio.warp")
            (x,), (y,) = warp.transform("EPSG:4326", file.crs, [station[0]], [station[1]])
            assert next(file.sample([(x, y)]))[0] > 400
            assert (file.read(1) > 400).sum() == 1
        table = geopandas.read_parquet(tmp_path / "map.parquet").to_crs("EPSG:4326")
        assert table[table.trips_not_private > 400].geometry.contains(shapely.Point(*station)).tolist() == [True]


def test_blocks_and_csv(release: Release, tmp_path: Path) -> None:
    export(release, tmp_path / "map.csv", blocks=4)
    with (tmp_path / "map.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8
    first = release.count(*(float(rows[0][side]) for side in ("west", "south", "east", "north")))
    assert (float(rows[0]["trips"]), float(rows[0]["low"])) == (first.value, first.low)


def test_exports_state_the_delta(tmp_path: Path) -> None:
    rasterio, parquet = pytest.importorskip("rasterio"), pytest.importorskip("pyarrow.parquet")
    release = with_delta(as_if_private(seeded(Grid(HERE, 16, 8), trips=strolls(HERE))))
    promise = "Differentially private for one trip, epsilon = 1, delta = 1e-8."
    export(release, tmp_path / "map.tif")
    with rasterio.open(tmp_path / "map.tif") as file:
        assert file.tags()["PROMISE"] == promise
    export(release, tmp_path / "map.parquet")
    notes = parquet.read_schema(tmp_path / "map.parquet").metadata
    assert notes[b"PROMISE"].decode() == promise
    assert notes[b"geo"]
    dataset = release.to_xarray()
    assert promise in dataset.attrs["summary"]
    assert json.loads(dataset.attrs["dqam"])["delta"] == "1/100000000"
    assert promise in repr(release)


def test_numbers_that_are_not_private_are_named_so(tmp_path: Path) -> None:
    export(seeded(mechanism="laplace"), tmp_path / "map.csv", blocks=4)
    assert (tmp_path / "map.csv").read_text().startswith("west,south,east,north,trips_not_private,low,high")


def test_uneven_blocks_make_no_geotiff(tmp_path: Path) -> None:
    pytest.importorskip("rasterio")
    with pytest.raises(InputError, match="divides the grid"):
        export(seeded(), tmp_path / "map.tif", blocks=5)
    assert not list(tmp_path.iterdir())


def test_an_unknown_form_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must end with one of \.tif, \.tiff, \.parquet, \.geojson, \.csv, \.html"):
        export(seeded(), tmp_path / "map.xls")
    with pytest.raises(InputError, match=r"write a page with dqam\.explorer\.write_page"):
        export(seeded(), tmp_path / "map.html")


def test_slices_add_up_in_every_export(tmp_path: Path) -> None:
    release = as_if_private(sliced())
    names = [f"trips {name}" for name in release.slices]
    for suffix in (".csv", ".parquet", ".tif"):
        export(release, tmp_path / f"cells{suffix}")
    table = pandas.read_csv(tmp_path / "cells.csv")
    assert table[names].sum(axis=1).equals(table["trips"])
    frame = geopandas.read_parquet(tmp_path / "cells.parquet")
    assert frame[names].sum(axis=1).equals(frame["trips"])
    with rasterio.open(tmp_path / "cells.tif") as file:
        assert list(file.descriptions) == ["trips", "low", "high", *names]
        bands = file.read()
    np.testing.assert_array_equal(bands[3:].sum(axis=0), bands[0])
    export(release.select(["07", "08"]), tmp_path / "some.csv")
    some = pandas.read_csv(tmp_path / "some.csv")
    assert some["trips"].equals(table["trips 07"] + table["trips 08"])
    hexagons = release.to_h3(8)
    assert hexagons[names].sum(axis=1).equals(hexagons["trips"])
