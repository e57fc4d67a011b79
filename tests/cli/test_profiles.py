"""Slices on the command line: published, selected, in profiles, and in exports."""

import json
from pathlib import Path

import geopandas
import pandas
import pytest
import shapely

import dqam
from dqam import cities
from tests.cli.cases import BOUNDS, MIDDLE, TRIPS, publish
from tests.commands import run


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sliced")
    cities.write_parquet(cities.city_trips(2_000, 1, rhythm=True), folder / "rides.parquet", 2_000, lambda *_: None)
    done = publish(folder / "rides.parquet", folder / "city.nc", folder / "l.db", "--by", "hour", "--timezone", "UTC")
    assert done.returncode == 0, done.stderr
    return folder / "city.nc"


def test_slices_are_selected_and_add_up(city: Path) -> None:
    counts = [
        json.loads(run("query", city, *MIDDLE, *more, "--json").stdout)["counts"][0]
        for more in (["--slices", "07"], ["--slices", "08"], ["--slices", "07, 08"])
    ]
    assert counts[0] + counts[1] == counts[2]
    done = run("query", city, *MIDDLE, "--slices", "7")
    assert done.returncode == 2
    assert "There is no slice '7'; the slices are 00, 01, 02, ..., 23." in done.stderr


def test_profiles_are_printed_and_saved(city: Path, tmp_path: Path) -> None:
    shown = run("query", city, *MIDDLE, "--profile").stdout
    assert "By hour, UTC; slices add up exactly." in shown
    assert all(f"{hour:02}" in shown for hour in range(24))
    told = json.loads(run("query", city, *MIDDLE, "--profile", "--json").stdout)
    whole = json.loads(run("query", city, *MIDDLE, "--json").stdout)["counts"]
    assert told["slices"] == list(dqam.open(city).slices)
    assert sum(told["counts"][0]) == whole[0]
    x, y = (cities.BOUNDS[0] + cities.BOUNDS[2]) / 2, (cities.BOUNDS[1] + cities.BOUNDS[3]) / 2
    shapes = [shapely.Point(x, y).buffer(0.01), shapely.Point(x, y).buffer(0.02)]
    zones = geopandas.GeoDataFrame({"name": ["inner", "outer"]}, geometry=shapes, crs="EPSG:4326").to_crs("EPSG:32625")
    zones.to_file(tmp_path / "zones.gpkg")
    for suffix in ("csv", "parquet", "geojson"):
        done = run("query", city, "--areas", tmp_path / "zones.gpkg", "--profile", "-o", tmp_path / f"day.{suffix}")
        assert done.returncode == 0, done.stderr
    table = pandas.read_csv(tmp_path / "day.csv", dtype={"slice": str})
    assert table.columns.tolist() == ["name", "slice", "trips", "low", "high"]
    assert len(table) == 48
    frame = geopandas.read_parquet(tmp_path / "day.parquet")
    assert frame.crs == "EPSG:32625"
    expected = dqam.open(city).count(shapes[1], slices="08").value
    place = (table["name"] == "outer") & (table["slice"] == "08")
    assert table.loc[place, "trips"].item() == pytest.approx(expected, rel=1e-6)


def test_a_selection_is_exported(city: Path, tmp_path: Path) -> None:
    for name, more in (("all", []), ("some", ["--slices", "07,08"])):
        assert run("export", city, "-o", tmp_path / f"{name}.csv", *more).returncode == 0
    table, some = (pandas.read_csv(tmp_path / f"{name}.csv") for name in ("all", "some"))
    assert some["trips"].equals(table["trips 07"] + table["trips 08"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--by", "hours"], "did you mean 'hour'?"),
        (["--by", "hour", "--timezone", "Lisbon"], "'Lisbon' is not a time zone"),
        (["--timezone", "Europe/Lisbon"], "is for slices; name these as well"),
        (["--by", "kind=bike,car"], "no column 'kind'"),
        (["--by", "hour", "--mechanism", "laplace"], "need the mechanism 'flux'; got 'laplace'"),
    ],
)
def test_mistakes_are_told_before_anything_is_charged(options: list[str], words: str, tmp_path: Path) -> None:
    (tmp_path / "trips.csv").write_text(TRIPS)
    ledger = tmp_path / "l.db"
    done = run(
        "publish",
        tmp_path / "trips.csv",
        *BOUNDS,
        "--epsilon",
        "1",
        "-o",
        tmp_path / "m.nc",
        "--ledger",
        ledger,
        *options,
    )
    assert done.returncode == 2
    assert words in done.stderr
    assert not (tmp_path / "m.nc").exists()
    if ledger.exists():
        assert "trips" not in run("ledger", "--ledger", ledger).stdout


def test_trips_without_times_have_no_hours(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("tid,lng,lat\na,0.5,0.5\na,1,1\n")
    done = run("publish", tmp_path / "t.csv", *BOUNDS, "--epsilon", "1", "-o", tmp_path / "m.nc", "--by", "hour")
    assert done.returncode == 2
    assert "has no times" in done.stderr


def test_a_release_without_slices_says_how_to_have_them(tmp_path: Path) -> None:
    cities.write_parquet(cities.city_trips(500, 1), tmp_path / "rides.parquet", 500, lambda *_: None)
    assert publish(tmp_path / "rides.parquet", tmp_path / "plain.nc", tmp_path / "l.db").returncode == 0
    for more in (["--slices", "07"], ["--profile"]):
        done = run("query", tmp_path / "plain.nc", *MIDDLE, *more)
        assert done.returncode == 2
        assert "This release has no slices" in done.stderr
