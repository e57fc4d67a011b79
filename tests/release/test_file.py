"""The file of a release: all comes back, other programs read it, and nothing else is taken for one."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import netCDF4
import numpy as np
import pytest
import xarray

import dqam
from dqam import cities
from dqam.errors import InputError
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import TwoScaleHistogram
from dqam.geometry.rectangles import random_rectangles
from dqam.mechanisms import MECHANISMS
from dqam.release.file import SEAL_SIZE
from dqam.release.release import Release
from dqam.runtime.files import write_whole
from tests.release.cases import HERE, as_if_private, sealed, seeded, sliced, strolls

METRES = Grid((320_000, 5_812_000, 324_000, 5_816_000), 8, 4, "EPSG:28355")
RELEASES: dict[str, Callable[[], Release]] = {
    "flux": seeded,
    "flux, only counted": lambda: seeded(epsilon="0.01"),
    "laplace": lambda: seeded(mechanism="laplace"),
    "in metres": lambda: seeded(METRES, trips=strolls(METRES.bounds, crs="EPSG:28355")),
    "one cell": lambda: seeded(Grid(HERE, 1, 1), trips=strolls(HERE)),
    "one row": lambda: seeded(Grid(HERE, 1, 5), trips=strolls(HERE)),
    "as if private": lambda: as_if_private(seeded()),
    "by hour": sliced,
    "by kind": lambda: sliced("weekpart"),
    "slices without a signal": lambda: sliced(epsilon="0.01"),
}


@pytest.mark.parametrize("make", RELEASES.values(), ids=RELEASES.keys())
def test_all_comes_back(make: Callable[[], Release], tmp_path: Path) -> None:
    release = make()
    release.save(tmp_path / "map.nc")
    again = dqam.open(tmp_path / "map.nc")
    assert again.provenance == release.provenance
    assert again.grid == release.grid
    for part in ("faces", "vertical", "horizontal"):
        np.testing.assert_array_equal(getattr(again.histogram, part), getattr(release.histogram, part))
    ours, theirs = again.cells(), release.cells()
    np.testing.assert_array_equal([ours.value, ours.low, ours.high], [theirs.value, theirs.low, theirs.high])
    assert os.listdir(tmp_path) == ["map.nc"]


@pytest.mark.parametrize("shape", [(1, 2), (2, 2), (8, 8), (16, 16), (10, 20), (1, 40)])
@pytest.mark.parametrize("epsilon", ["0.01", "0.4", "2", "4.5", "20"])
def test_releases_on_small_grids_open_again(shape: tuple[int, int], epsilon: str, tmp_path: Path) -> None:
    release = seeded(Grid(cities.BOUNDS, *shape), epsilon=epsilon)
    release.save(tmp_path / "map.nc")
    assert dqam.open(tmp_path / "map.nc").trips == release.trips


def test_both_scales_are_saved(tmp_path: Path) -> None:
    release = seeded(Grid.over(cities.BOUNDS, 7), epsilon="1000")
    assert isinstance(release.histogram, TwoScaleHistogram)
    release.save(tmp_path / "map.nc")
    again = dqam.open(tmp_path / "map.nc").histogram
    rectangles = random_rectangles(release.grid, 2_000, np.random.default_rng(0))
    assert isinstance(again, TwoScaleHistogram)
    assert again.is_monotone()
    np.testing.assert_array_equal(again.answers(rectangles), release.histogram.answers(rectangles))
    assert (again.answers(rectangles) != again.large.answers(rectangles) + again.offset).any()


@pytest.mark.parametrize("mechanism", [name for name, row in MECHANISMS.items() if row.publishable])
def test_every_mechanism_can_be_saved(mechanism: str, tmp_path: Path) -> None:
    release = seeded(Grid(HERE, 4, 4), mechanism, trips=strolls(HERE))
    release.save(tmp_path / "map.nc")
    assert dqam.open(tmp_path / "map.nc").provenance == release.provenance


def test_others_read_it_at_the_right_place(tmp_path: Path) -> None:
    release = seeded(Grid(HERE, 4, 5), trips=strolls(HERE))
    release.save(tmp_path / "map.nc")
    with xarray.open_dataset(tmp_path / "map.nc") as dataset:
        assert dataset.trips.sel(lon=144.955, lat=-37.826, method="nearest") == release.histogram.faces[0, 0]
        np.testing.assert_allclose(dataset.lat_bnds[0], [-37.83, -37.82])
        assert dataset.crs.attrs["grid_mapping_name"] == "latitude_longitude"
        assert dataset.attrs["Conventions"].startswith("CF-")
    with netCDF4.Dataset(tmp_path / "map.nc") as file:
        assert file.data_model == "NETCDF4"
        assert file["trips"].grid_mapping == "crs"


def test_gdal_reads_it_at_the_right_place(tmp_path: Path) -> None:
    """What QGIS opens rasters with."""
    rasterio = pytest.importorskip("rasterio")
    release = seeded(METRES, trips=strolls(METRES.bounds, crs="EPSG:28355"))
    release.save(tmp_path / "map.nc")
    with rasterio.open(f"netcdf:{tmp_path / 'map.nc'}:trips") as file:
        assert file.crs.to_epsg() == 28355
        assert tuple(file.bounds) == METRES.bounds
        np.testing.assert_array_equal(file.read(1)[::-1], release.histogram.faces)


def test_gdal_finds_one_place_for_every_map(tmp_path: Path) -> None:
    """Axes named as `coordinates` made GDAL add a second georeference, in degrees; `large_faces` had no CRS."""
    rasterio = pytest.importorskip("rasterio")
    grid = Grid((732_000, 4_981_000, 742_000, 4_993_000), 128, 128, "EPSG:32625")
    release = seeded(grid, epsilon="1000")
    assert isinstance(release.histogram, TwoScaleHistogram)
    release.save(tmp_path / "map.nc")
    for name in ("trips", "large_faces"):
        with rasterio.open(f"netcdf:{tmp_path / 'map.nc'}:{name}") as file:
            assert file.crs.to_epsg() == 32625
            assert tuple(file.bounds) == grid.bounds
            assert file.tags(ns="GEOLOCATION") == {}


@pytest.mark.parametrize(
    ("crs", "bounds", "unit"),
    [
        ("EPSG:2193", (1_750_000, 5_425_000, 1_760_000, 5_435_000), "m"),  # northing first
        ("EPSG:2263", (980_000, 190_000, 990_000, 200_000), "US_survey_foot"),
        ("EPSG:2222", (700_000, 900_000, 710_000, 910_000), "foot"),
        ("EPSG:2314", (380_000, 370_000, 390_000, 380_000), "0.3047972654 m"),
    ],
)
def test_axes_have_the_unit_of_the_crs(
    crs: str, bounds: tuple[float, float, float, float], unit: str, tmp_path: Path
) -> None:
    rasterio = pytest.importorskip("rasterio")
    release = seeded(Grid(bounds, 8, 4, crs), trips=strolls(bounds, crs=crs))
    release.save(tmp_path / "map.nc")
    with netCDF4.Dataset(tmp_path / "map.nc") as file:
        assert (file["x"].units, file["y"].units) == (unit, unit)
    with rasterio.open(f"netcdf:{tmp_path / 'map.nc'}:trips") as file:
        assert file.crs.to_epsg() == int(crs.removeprefix("EPSG:"))
        np.testing.assert_allclose(file.bounds, bounds, rtol=1e-12)
        np.testing.assert_array_equal(file.read(1)[::-1], release.histogram.faces)


@pytest.mark.filterwarnings("error")
def test_a_crs_beyond_cf_is_saved_without_a_warning(tmp_path: Path) -> None:
    """The Swiss one: an oblique Mercator projection with an angle that CF has no attribute for."""
    bounds = (2_600_000, 1_200_000, 2_610_000, 1_210_000)
    seeded(Grid(bounds, 8, 4, "EPSG:2056"), trips=strolls(bounds, crs="EPSG:2056")).save(tmp_path / "map.nc")
    assert dqam.open(tmp_path / "map.nc").grid.crs == "EPSG:2056"


def test_it_holds_nothing_but_what_was_charged_or_public(tmp_path: Path) -> None:
    release = seeded()
    release.save(tmp_path / "map.nc")
    with xarray.open_dataset(tmp_path / "map.nc") as dataset:
        assert set(dataset.variables) == {
            *("lon", "lat", "lon_bnds", "lat_bnds", "crs", "trips", "vertical", "horizontal"),
            *("lattice_east", "lattice_north", "displacements"),
        }
        assert set(dataset.attrs) == {
            *("Conventions", "title", "summary", "history", "source", "comment", "date_created", "id", "dqam"),
        }
        assert set(json.loads(dataset.attrs["dqam"])) == {
            *(
                "schema",
                "grid",
                "uncertainty",
                "scales",
                "id",
                "title",
                "created",
                "mechanism",
                "parameters",
                "epsilon",
                "delta",
                "factor",
                "scaled_up_to",
                "max_trips_chosen",
                "unit",
            ),
            *(
                "mechanism_about",
                "monotone",
                "queries",
                "gap",
                "salt",
                "row_is_trip",
                "paid",
                "private",
                "versions",
                "neighbours",
                "slices",
                "slice_names",
                "timezone",
                "prior",
                "factor",
                "scaled_up_to",
            ),
        }
    assert tmp_path.name.encode() not in (tmp_path / "map.nc").read_bytes()


def test_a_file_replaces_another_only_when_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, b"one")
    write_whole(path, b"two")
    assert path.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["file"]
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()
    with pytest.raises(InputError, match="no folder"):
        write_whole(tmp_path / "none" / "file", b"three")
    assert len(sealed(b"")) == SEAL_SIZE


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_slices_come_back(tmp_path: Path) -> None:
    release = sliced()
    release.save(tmp_path / "map.nc")
    again = dqam.open(tmp_path / "map.nc")
    assert again.slices == release.slices == tuple(f"{hour:02}" for hour in range(24))
    west, south, east, north = cities.BOUNDS
    area = west + 0.03, south + 0.02, east - 0.04, north - 0.03
    for one in (release, again):
        assert one.profile(area).trips_not_private.sum() == one.count(area).value
    assert again.profile(area).equals(release.profile(area))
    assert again.count(area, slices=["07", "08"]) == release.count(area, slices=["07", "08"])
    with xarray.open_dataset(tmp_path / "map.nc") as saved:
        assert saved["slice"].values.tolist() == list(release.slices)
        assert "trips_by_slice" not in saved
    cells = release.to_xarray()
    np.testing.assert_array_equal(cells["trips_by_slice"].sum("slice"), cells["trips"])
    assert (tmp_path / "map.nc").stat().st_size < 1.3 * _size_without_slices(tmp_path)


def _size_without_slices(folder: Path) -> int:
    seeded(Grid.over(cities.BOUNDS, 5), epsilon="20").save(folder / "plain.nc")
    return (folder / "plain.nc").stat().st_size + 2**18


def test_a_selection_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="A selection of slices cannot be saved"):
        sliced().select(["07"]).save(tmp_path / "some.nc")
    assert not os.listdir(tmp_path)


def test_a_file_without_slices_has_the_first_version(tmp_path: Path) -> None:
    for release, version in ((seeded(), 1), (sliced(), 2)):
        assert json.loads(release.to_xarray().attrs["dqam"])["schema"] == version
