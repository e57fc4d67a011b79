"""Flows on the command line: tables of zones, single areas, files, and input that is wrong."""

import json
from pathlib import Path

import geopandas
import numpy as np
import pandas
import pytest
import shapely

import dqam
from dqam import cities
from tests.cli.cases import publish
from tests.commands import run
from tests.release.cases import as_if_private, seeded, with_flows

WEST, SOUTH, EAST, NORTH = cities.BOUNDS
X, Y = (WEST + EAST) / 2, (SOUTH + NORTH) / 2
CORNERS = {
    "south-west": shapely.box(WEST, SOUTH, X, Y),
    "south-east": shapely.box(X, SOUTH, EAST, Y),
    "north-west": shapely.box(WEST, Y, X, NORTH),
    "north-east": shapely.box(X, Y, EAST, NORTH),
}
DISC = ["-30.01", "44.99", "-29.99", "45.01"]


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("map") / "city.nc"
    as_if_private(with_flows()).save(path)
    return path


@pytest.fixture(scope="module")
def zones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("zones") / "corners.geojson"
    frame = geopandas.GeoDataFrame({"name": list(CORNERS)}, geometry=list(CORNERS.values()), crs="EPSG:4326")
    frame.to_file(path)
    return path


def read(path: Path) -> pandas.DataFrame:
    if path.suffix == ".csv":
        return pandas.read_csv(path)
    return geopandas.read_parquet(path) if path.suffix == ".parquet" else geopandas.read_file(path)


@pytest.mark.parametrize("name", ["od.csv", "od.geojson", "od.parquet"])
def test_the_table_of_all_pairs_of_zones(name: str, city: Path, zones: Path, tmp_path: Path) -> None:
    done = run("flows", city, "--areas", zones, "-o", tmp_path / name)
    assert done.returncode == 0, done.stderr
    found, expected = read(tmp_path / name), dqam.open(city).flows(geopandas.read_file(zones))
    assert found.columns.tolist()[:5] == ["origin", "destination", "trips", "low", "high"]
    assert found.origin.tolist() == np.repeat(list(CORNERS), 4).tolist() == expected.origin.tolist()
    assert found.destination.tolist() == list(CORNERS) * 4
    for column in ("trips", "low", "high"):
        assert np.allclose(found[column], expected[column])
    if name != "od.csv":
        assert isinstance(found, geopandas.GeoDataFrame)
        assert set(found.geom_type) == {"LineString"}
        (line,) = found.geometry[found.origin.eq("south-west") & found.destination.eq("north-east")]
        ends = [CORNERS[corner].centroid for corner in ("south-west", "north-east")]
        assert shapely.LineString(ends).equals_exact(line, 1e-6)
    again = run("flows", city, "--areas", zones, "-o", tmp_path / name)
    assert (again.returncode, "--overwrite" in again.stderr) == (2, True)
    assert run("flows", city, "--areas", zones, "-o", tmp_path / name, "--overwrite").returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_columns_say_so_if_a_release_is_not_private(zones: Path, tmp_path: Path) -> None:
    with_flows().save(tmp_path / "test.nc")
    done = run("flows", tmp_path / "test.nc", "--areas", zones, "-o", tmp_path / "od.csv")
    assert "NOT PRIVATE" in done.stdout
    assert read(tmp_path / "od.csv").columns.tolist()[2:] == ["trips_not_private", "low", "high"]


def test_the_terminal_has_the_largest_first_and_says_where_there_are_too_few(city: Path, zones: Path) -> None:
    done = run("flows", city, "--areas", zones)
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.stdout.splitlines() if "│" in line]
    table = dqam.open(city).largest_flows(12, geopandas.read_file(zones))
    assert [row[:2] for row in rows] == table[["origin", "destination"]].to_numpy().tolist()
    assert [row[2] for row in rows] == [f"{trips:,.0f}" for trips in table["trips"]]
    assert rows[0][3] == f"{table.low[0]:,.0f} to {table.high[0]:,.0f}"
    assert "the 12 largest of 16 flows" in done.stdout
    assert "... and 4 more; save them with -o FILE" in done.stdout
    small = run("flows", city, "--from", *DISC, "--to", str(WEST), str(SOUTH), str(WEST + 0.01), str(SOUTH + 0.01))
    assert "too few to tell" in small.stdout
    assert "1 of 1 flows are too small to tell from 0" in small.stdout


def test_one_json_object(city: Path, zones: Path) -> None:
    done = run("flows", city, "--areas", zones, "--json", "--top", "3", "--confidence", "0.5")
    found = json.loads(done.stdout)
    expected = dqam.open(city).largest_flows(3, geopandas.read_file(zones), confidence=0.5)
    for column in ("origin", "destination", "trips", "low", "high"):
        assert found[column] == expected[column].tolist()
    assert found["too_few"] == (expected["low"] < 0.5).tolist()
    assert found["zones"]["names"] == list(CORNERS)
    assert found["zones"]["outside"] == [False] * 4
    assert (found["confidence"], found["private"], found["epsilon"], found["counted"]) == (0.5, True, 20, "all trips")


def test_one_end_by_zone_and_by_cell(city: Path, zones: Path, tmp_path: Path) -> None:
    release = dqam.open(city)
    told = json.loads(run("flows", city, "--areas", zones, "--from", "north-east", "--json").stdout)
    assert told["origin"] == ["north-east"] * 4
    assert told["destination"] == list(CORNERS)
    assert told["trips"] == [release.flow(CORNERS["north-east"], to).value for to in CORNERS.values()]
    told = json.loads(run("flows", city, "--areas", zones, "--to", "north-east", "--least", "1e6", "--json").stdout)
    assert told["origin"] == []
    done = run("flows", city, "--to", *DISC, "-o", tmp_path / "cells.geojson")
    assert done.returncode == 0, done.stderr
    cells, expected = read(tmp_path / "cells.geojson"), release.flows(to=tuple(map(float, DISC)))
    assert isinstance(cells, geopandas.GeoDataFrame)
    assert set(cells.geom_type) == {"Polygon"}
    assert np.allclose(cells["trips"], expected["trips"])
    assert np.allclose(cells.bounds, expected.bounds, atol=1e-9)
    busiest = cells.loc[cells["trips"].idxmax()]
    again = run("flows", city, "--from", *busiest.origin.split(), "--to", *DISC, "--json")  # its name is its bounds
    assert json.loads(again.stdout)["trips"] == [pytest.approx(busiest.trips)]


def test_two_ends(city: Path, zones: Path, tmp_path: Path) -> None:
    expected = dqam.open(city).flow(tuple(map(float, DISC)), CORNERS["north-east"])
    for given in (DISC, [" ".join(DISC)], [",".join(DISC)]):
        done = run("flows", city, "--from", *given, "--to", "north-east", "--areas", zones, "--json")
        told = json.loads(done.stdout)
        assert (told["trips"], told["low"], told["high"]) == ([expected.value], [expected.low], [expected.high])
        assert told["destination"] == ["north-east"]
    run("flows", city, "--from", *DISC, "--to", "north-east", "--areas", zones, "-o", tmp_path / "one.parquet")
    assert read(tmp_path / "one.parquet").geom_type.tolist() == ["LineString"]
    done = run("flows", city, "--from", "north-east", "--to", "south-west", "--areas", zones, "--top", "3")
    assert (done.returncode, "leave out --top 3" in done.stderr) == (2, True)


def test_without_zones_there_are_tiles(city: Path) -> None:
    told = json.loads(run("flows", city, "--top", "5", "--json").stdout)
    expected = dqam.open(city).largest_flows(5)
    assert told["trips"] == pytest.approx(expected["trips"].tolist())
    first = json.loads(
        run(
            "flows", city, "--from", *told["origin"][0].split(), "--to", *told["destination"][0].split(), "--json"
        ).stdout
    )
    assert first["trips"] == pytest.approx(told["trips"][:1])


def test_a_weak_signal_is_called_weak(tmp_path: Path, city: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dqam.mechanisms.flows.tile_side", lambda signal: 1)
    as_if_private(with_flows("0.01", 31)).save(tmp_path / "few.nc")
    assert "origins and destinations are assumed to be independent" in run("flows", tmp_path / "few.nc").stdout
    assert "independent" not in run("flows", city).stdout


def test_slices(tmp_path: Path, zones: Path) -> None:
    release = as_if_private(with_flows(by="weekpart"))
    release.save(tmp_path / "week.nc")
    told = [
        json.loads(run("flows", tmp_path / "week.nc", "--areas", zones, "--json", *more).stdout)["trips"]
        for more in ([], *(["--slices", name] for name in release.slices))
    ]
    assert told[0] == pytest.approx((np.array(told[1]) + told[2]).tolist())


def test_zones_outside_and_repeated_names(city: Path, tmp_path: Path) -> None:
    shapes = [*CORNERS.values(), shapely.box(EAST + 1, Y, EAST + 2, NORTH)]
    names = ["a", "a", "b", "c", "far"]
    path = tmp_path / "odd.parquet"
    geopandas.GeoDataFrame({"name": names, "code": range(5)}, geometry=shapes, crs="EPSG:4326").to_parquet(path)
    done = run("flows", city, "--areas", path, "--json")
    assert "1 of 5 areas lies outside the map and has no answer: far." in done.stderr
    assert "2 of 5 areas have the same names as others, so that their rows look alike; see --name-column" in done.stderr
    assert len(json.loads(done.stdout)["trips"]) == 16
    for more, words in (
        (["--from", "a"], "--from 'a': 2 zones of odd.parquet have this name"),
        (["--to", "far"], "--to 'far': this zone lies outside the map"),
        (["--from", "bb"], "is neither a zone of odd.parquet nor four numbers, W S E N; did you mean 'b'?"),
    ):
        done = run("flows", city, "--areas", path, *more)
        assert (done.returncode, words in done.stderr) == (2, True), done.stderr
    told = json.loads(run("flows", city, "--areas", path, "--name-column", "code", "--from", "1", "--json").stdout)
    assert told["destination"] == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--from", "Baixa"], "for the name of a zone, give the file of the zones with --areas FILE"),
        (["--from", "1", "2", "3"], "unexpected extra arguments"),
        (["--from", "0", "0", "1", "1"], "--from: Rectangle 1 (0.0, 0.0, 1.0, 1.0) does not meet the map"),
        (["--to", "1", "0", "0", "1"], "--to: Rectangle 1 (1.0, 0.0, 0.0, 1.0) is upside down"),
        (["--top", "0"], "--top"),
        (["--least", "-1"], "least must be a number of trips of at least 0; got -1.0."),
        (["--confidence", "90"], "confidence must be a number between 0 and 1"),
        (["--slices", "07"], "no slices"),
        (["--areas", "missing.geojson"], "missing.geojson"),
        (["-o", "od.xlsx"], "answers can be saved as"),
        (["-o", "nowhere/od.csv"], "There is no folder"),
        (["--name-column", "name"], "needs a file"),
    ],
)
def test_bad_input_is_told(options: list[str], words: str, city: Path) -> None:
    done = run("flows", city, *options)
    assert done.returncode == 2
    assert words in " ".join(done.stderr.split())
    assert not done.stdout


def test_a_release_without_flows_says_how_to_have_them(tmp_path: Path, zones: Path) -> None:
    as_if_private(seeded()).save(tmp_path / "plain.nc")
    for more in ([], ["--areas", zones], ["--from", *DISC], ["--from", *DISC, "--to", *DISC]):
        done = run("flows", tmp_path / "plain.nc", *more)
        assert done.returncode == 2
        assert "This release has no flows. To have them, publish with --flows; they cannot be" in done.stderr
    assert "flows" not in run("query", tmp_path / "plain.nc", "--area", *DISC).stdout


def test_a_query_says_that_there_are_flows(city: Path) -> None:
    assert "This release also has flows" in run("query", city, "--area", *DISC).stdout


def test_an_export_says_where_flows_are(city: Path, tmp_path: Path) -> None:
    done = run("export", city, "-o", tmp_path / "cells.csv", "--blocks", "4")
    assert "The export has no flows; `dqam flows -o FILE` writes them as a table." in " ".join(done.stderr.split())


@pytest.mark.parametrize("more", [["--flows"], ["--flows-share", "1/4"], ["--flows", "--flows-share", "0.25"]])
def test_flows_are_published(more: list[str], trips: Path, tmp_path: Path) -> None:
    done = publish(trips, tmp_path / "city.nc", tmp_path / "l.db", *more)
    assert done.returncode == 0, done.stderr
    assert f"flows {tmp_path / 'city.nc'}" in "".join(done.stderr.split("\n"))
    release = dqam.open(tmp_path / "city.nc")
    paid = sum(each.epsilon for each in release.provenance.paid if each.name.startswith("Trips by"))
    assert float(paid) == (0.2 if more == ["--flows"] else 0.25)
    assert run("flows", tmp_path / "city.nc").returncode == 0
