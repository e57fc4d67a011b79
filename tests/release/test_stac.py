"""Items of STAC. The core of the standard is validated with the schemas that pystac carries; those of extensions are on
the network, so pystac reads their fields instead."""

import hashlib
import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import shapely
from shapely.geometry.polygon import LinearRing

from dqam.errors import InputError
from dqam.geometry.grid import Grid
from dqam.geometry.trips import Trips
from dqam.release.stac import export_item, item, outline
from tests.release.cases import HERE, as_if_private, seeded, sliced, strolls, with_delta

METRES = Grid((320_000, 5_812_000, 324_000, 5_816_000), 16, 8, "EPSG:28355")


def validated(told: dict[str, Any]) -> None:
    """An error if an item is not as the core of STAC 1.1 demands."""
    local = pytest.importorskip("pystac.validation.local_validator")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problems = list(local.LocalValidator().item_validator("1.1.0").iter_errors(told))
    assert not problems, problems[0]


@pytest.mark.parametrize("grid", [Grid(HERE, 16, 8), METRES], ids=["degrees", "metres"])
def test_an_item_says_where_and_what(grid: Grid, tmp_path: Path) -> None:
    pystac = pytest.importorskip("pystac")
    release = as_if_private(seeded(grid, trips=strolls(grid.bounds, crs=grid.crs)))
    (tmp_path / "maps").mkdir()
    release.save(tmp_path / "maps" / "march.nc")
    export_item(release, tmp_path / "maps" / "march.nc", tmp_path / "march.stac.json")
    told = json.loads((tmp_path / "march.stac.json").read_text())
    validated(told)
    found = pystac.Item.from_file(str(tmp_path / "march.stac.json"))
    place = shapely.geometry.shape(found.geometry)
    assert place.is_valid
    assert LinearRing(place.exterior.coords).is_ccw
    assert place.covers(shapely.Point(*(144.97, -37.81) if grid is not METRES else place.centroid.coords[0]))
    assert tuple(found.bbox) == place.bounds
    assert found.properties["title"] == release.provenance.title
    assert found.properties["dqam:epsilon"] == 2
    assert found.properties["dqam:delta"] == 0
    assert found.properties["dqam:unit"] == "trip"
    assert found.properties["dqam:mechanism"] == "flux"
    assert found.properties["dqam:promise"] == release.provenance.promise
    assert "must not be added up" in found.properties["description"]
    asset = found.assets["release"]
    assert asset.href == "maps/march.nc"
    assert Path(asset.get_absolute_href()) == tmp_path / "maps" / "march.nc"
    content = (tmp_path / "maps" / "march.nc").read_bytes()
    file = pytest.importorskip("pystac.extensions.file").FileExtension.ext(asset)
    assert (file.checksum, file.size) == ("1220" + hashlib.sha256(content).hexdigest(), len(content))
    projection = pytest.importorskip("pystac.extensions.projection").ProjectionExtension.ext(found)
    assert (projection.code, projection.shape, tuple(projection.bbox)) == (grid.crs, [16, 8], grid.bounds)


def saved(release: Any, folder: Path) -> dict[str, Any]:
    release.save(folder / "map.nc", overwrite=True)
    return item(release, folder / "map.nc")


def test_the_time_is_that_of_the_publication_unless_the_period_is_given(tmp_path: Path) -> None:
    release = as_if_private(seeded(Grid(HERE, 16, 8), trips=strolls(HERE)))
    about = saved(release, tmp_path)["properties"]
    assert about["datetime"] == about["created"] == release.provenance.created[:19].replace(" ", "T") + "Z"
    assert "The time is that of the publication" in about["description"]
    told = item(release, tmp_path / "map.nc", period="2026-03-01/2026-03-31")
    validated(told)
    about = told["properties"]
    assert about["datetime"] is None
    assert (about["start_datetime"], about["end_datetime"]) == ("2026-03-01T00:00:00Z", "2026-03-31T23:59:59Z")
    assert "time of the" not in about["description"]
    for wrong, words in (
        ("March", "two days"),
        ("2026-02-30/2026-03-01", "does not exist"),
        ("2026-03-02/2026-03-01", "ends before it begins"),
    ):
        with pytest.raises(InputError, match=words):
            item(release, tmp_path / "map.nc", period=wrong)


def test_delta_slices_and_what_is_not_private(tmp_path: Path) -> None:
    release = with_delta(as_if_private(seeded(Grid(HERE, 16, 8), trips=strolls(HERE))))
    assert saved(release, tmp_path)["properties"]["dqam:delta"] == 1e-8
    hours = saved(sliced(), tmp_path)
    validated(hours)
    assert hours["properties"]["dqam:slices"] == [f"{hour:02}" for hour in range(24)]
    assert hours["properties"]["dqam:sliced_by"] == "hour"
    assert hours["properties"]["dqam:private"] is False
    assert hours["properties"]["description"].startswith("NOT PRIVATE")


def test_a_map_over_the_180th_meridian_has_two_parts(tmp_path: Path) -> None:
    fiji = Grid((1_900_000, 3_700_000, 2_300_000, 4_100_000), 16, 16, "EPSG:3460")
    told = saved(seeded(fiji, trips=Trips.from_lists([[(179.0, -17.0), (179.5, -17.2)]] * 50)), tmp_path)
    validated(told)
    west, south, east, north = told["bbox"]
    assert west > 176
    assert east < -176
    assert -20 < south < north < -14
    place = shapely.geometry.shape(told["geometry"])
    assert place.is_valid
    assert place.geom_type == "MultiPolygon"
    assert -180 <= place.bounds[0] < place.bounds[2] <= 180
    assert place.contains(shapely.points([[179.0, -17.0], [-179.8, -17.0]])).all()
    mirrored = Grid((-500_000, -500_000, 500_000, 500_000), 4, 4, "+proj=laea +lat_0=-17 +lon_0=-179.5 +datum=WGS84")
    assert outline(mirrored).contains(shapely.points([[179.0, -17.0], [-179.8, -17.0]])).all()


def test_a_time_that_is_none_is_refused(tmp_path: Path) -> None:
    release = seeded(Grid(HERE, 16, 8), trips=strolls(HERE))
    release.save(tmp_path / "map.nc")
    odd = replace(release, provenance=replace(release.provenance, created="yesterday"))
    with pytest.raises(InputError, match="'yesterday', which is not a time"):
        item(odd, tmp_path / "map.nc")
