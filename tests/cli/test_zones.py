"""query and count with files of areas and lines, as analysts and custodians run them."""

import itertools
import json
from pathlib import Path

import geopandas
import numpy as np
import pytest
import shapely

import dqam
from dqam import cities
from tests.cli.cases import CITY
from tests.commands import run
from tests.release.cases import as_if_private, seeded

WEST, SOUTH, EAST, NORTH = cities.BOUNDS
X, Y = (WEST + EAST) / 2, (SOUTH + NORTH) / 2
DISC = shapely.Point(X, Y).buffer(0.02, 8)
BOWTIE = shapely.Polygon([(X, Y), (X + 0.02, Y + 0.02), (X + 0.02, Y), (X, Y + 0.02)])
FAR = shapely.box(EAST + 1, Y, EAST + 2, Y + 1)
ANGLES = np.linspace(0, 2 * np.pi, 250_000, endpoint=False)
CORNERS = np.stack([X + 0.02 * np.cos(ANGLES), Y + 0.02 * np.sin(ANGLES)], axis=1)
BAD = {
    "points": ([shapely.Point(X, Y)], "is a Point; give a polygon"),
    "lines": ([shapely.LineString([(X, Y), (X, NORTH)])], "--lines FILE"),
    "mixed": ([DISC, shapely.Point(X, Y)], "Area 2 ('Zone 1') is a Point"),
    "empty": ([DISC, shapely.Polygon()], "is empty"),
    "outside": ([FAR], "does not meet the map"),
    "metres": ([shapely.box(1e6, 1e6, 2e6, 2e6)], "--crs EPSG:3857"),
    "corners": ([shapely.Polygon(CORNERS)], "has 250,001 corners, more than 200,000; simplify it"),
}


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("map") / "city.nc"
    as_if_private(seeded()).save(path)
    return path


def write(path: Path, *shapes: shapely.Geometry, crs: str = "EPSG:4326") -> Path:
    names = [f"Zone {i}" for i in range(len(shapes))]
    geopandas.GeoDataFrame({"DISTRICT": names, "name": names}, geometry=list(shapes), crs=crs).to_parquet(path)
    return path


def test_areas_in_json_and_in_a_table(city: Path, tmp_path: Path) -> None:
    zones = write(tmp_path / "zones.parquet", DISC, BOWTIE, FAR)
    done = run("query", city, "--areas", zones, "--json")
    found = json.loads(done.stdout)
    expected = dqam.open(city).counts([DISC, BOWTIE])
    assert found["names"] == ["Zone 0", "Zone 1", "Zone 2"]
    assert found["counts"] == [*expected.value.tolist(), None]
    assert found["low"] == [*expected.low.tolist(), None]
    assert (found["outside"], found["repaired"]) == ([False, False, True], [False, True, False])
    assert "crossed itself and was repaired: Zone 1." in done.stderr
    assert "lies outside the map and has no answer: Zone 2." in done.stderr
    shown = run("query", city, "--areas", zones, "--name-column", "DISTRICT").stdout
    assert "km² (" in shown
    assert "no answer" in shown
    assert max(map(len, shown.splitlines()[:9])) <= 80


@pytest.mark.parametrize("name", ["found.csv", "found.geojson", "found.parquet"])
def test_answers_are_saved_with_the_attributes(name: str, city: Path, tmp_path: Path) -> None:
    zones, output = write(tmp_path / "zones.parquet", DISC), tmp_path / name
    assert run("query", city, "--areas", zones, "-o", output).returncode == 0
    found = geopandas.read_parquet(output) if name.endswith("parquet") else geopandas.read_file(output)
    assert float(found.trips[0]) == dqam.open(city).count(DISC).value
    assert found.DISTRICT[0] == "Zone 0"
    assert [str(found[name][0]) in ("0", "False") for name in ("grown", "cut", "repaired", "outside")] == [True] * 4
    again = run("query", city, "--areas", zones, "-o", output)
    assert (again.returncode, "--overwrite" in again.stderr) == (2, True)


def test_earlier_answers_are_replaced_and_it_is_said(city: Path, trips: Path, tmp_path: Path) -> None:
    zones, once, twice = write(tmp_path / "zones.parquet", DISC, FAR), tmp_path / "once.parquet", tmp_path / "twice.csv"
    assert run("query", city, "--areas", zones, "-o", once).returncode == 0
    for command in (["query", city], ["count", trips, *CITY]):
        done = run(*command, "--areas", once, "-o", twice, "--overwrite")
        said = "columns in place of trips, low, high, grown, cut, repaired, outside of once.parquet."
        assert said in " ".join(done.stderr.split())
    header, _, far = twice.read_text().splitlines()
    assert header == "DISTRICT,name,exact_count_not_private,cut,repaired,outside"
    assert far == "Zone 1,Zone 1,,1,0,1"
    own = tmp_path / "own.parquet"
    geopandas.GeoDataFrame({"trips": [3]}, geometry=[DISC], crs="EPSG:4326").to_parquet(own)
    assert run("count", trips, *CITY, "--areas", own, "-o", twice, "--overwrite").returncode == 0
    assert twice.read_text().startswith("name,trips,exact_count_not_private")


def test_exported_hexagons_keep_their_names(city: Path, tmp_path: Path) -> None:
    pytest.importorskip("h3")
    hexagons = tmp_path / "h.parquet"
    assert run("export", city, "--h3", "7", "-o", hexagons).returncode == 0
    found = json.loads(run("query", city, "--areas", hexagons, "--json").stdout)
    assert found["names"] == geopandas.read_parquet(hexagons).h3.tolist()


def test_help_tells_the_columns_and_the_formats() -> None:
    told = " ".join(run("query", "--help").stdout.split())
    for words in ("grown whether", "cut whether", "repaired whether", "outside whether", ".json"):
        assert words in told
    told = " ".join(run("serve", "--help").stdout.split())
    assert "polygons and lines" in told
    assert "GeoJSON file of zones or lines" in told


def test_polygons_are_no_lines(city: Path, tmp_path: Path) -> None:
    done = run("query", city, "--lines", write(tmp_path / "zones.parquet", DISC))
    assert done.returncode == 2
    assert "count the trips in it with --areas FILE" in " ".join(done.stderr.split())


def test_lines_are_crossed(city: Path, tmp_path: Path) -> None:
    line = shapely.LineString([(X, SOUTH), (X, NORTH)])
    lines = write(tmp_path / "lines.parquet", line)
    found = json.loads(run("query", city, "--lines", lines, "--json").stdout)
    assert (found["what"], found["counts"]) == ("crossings", [dqam.open(city).crossings(line).value])
    assert "crossings, not distinct trips" in " ".join(run("query", city, "--lines", lines).stdout.split())


@pytest.mark.parametrize("what", BAD)
def test_bad_areas_are_refused_in_one_sentence(what: str, city: Path, tmp_path: Path) -> None:
    shapes, message = BAD[what]
    zones, output = write(tmp_path / "zones.parquet", *shapes), tmp_path / "found.csv"
    done = run("query", city, "--areas", zones, "-o", output)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == [zones]


def test_options_that_do_not_fit(city: Path, tmp_path: Path) -> None:
    zones = write(tmp_path / "zones.parquet", DISC)
    done = run("query", city, "--areas", zones, "--name-column", "WARD")
    assert (done.returncode, "no column 'WARD'" in " ".join(done.stderr.split())) == (2, True)
    assert run("query", city, "--areas", zones, "--lines", zones).returncode == 2
    assert run("query", city, "--area", "0", "0", "1", "1", "--name-column", "x").returncode == 2
    done = run("query", city, "--areas", zones, "-o", tmp_path / "found.xlsx")
    assert (done.returncode, "found.xlsx" in done.stderr) == (2, True)


def test_exact_counts_are_those_of_shapely(trips: Path, tmp_path: Path) -> None:
    zones = write(tmp_path / "zones.parquet", DISC, FAR)
    done = run("count", trips, *CITY, "--areas", zones, "--json")
    read = next(iter(dqam.read(trips)))
    points, starts = np.stack([read.x, read.y], axis=1), read.offsets.tolist()
    paths = [shapely.LineString(points[a:b]) for a, b in itertools.pairwise(starts) if b - a > 1]
    assert json.loads(done.stdout)["counts"] == [int(shapely.intersects(paths, DISC).sum()), None]
    assert "NOT PRIVATE" in run("count", trips, *CITY, "--areas", zones).stdout
