"""count and inspect: exact numbers, labelled as not private."""

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dqam
from dqam import cities
from dqam.geometry.counting import count_distinct
from dqam.geometry.rectangles import random_rectangles
from dqam.geometry.walks import walk
from tests.cli.cases import BOUNDS, TRIPS
from tests.commands import run, run_apart


@pytest.fixture
def trips(tmp_path: Path) -> Path:
    path = tmp_path / "trips.csv"
    path.write_text(TRIPS)
    return path


def test_count_says_json_and_only_json(trips: Path, tmp_path: Path) -> None:
    areas = tmp_path / "areas.csv"
    areas.write_text("west,south,east,north\n0,0,1,1\n0,0,4,4\n1,1,4,1.5\n")
    done = run_apart("count", trips, *BOUNDS, "-k", "2", "--rectangles", areas, "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["counts"] == [1, 2, 0]
    assert answer["private"] is False
    assert answer["rectangles"][2] == [1, 1, 4, 2]
    assert answer["asked"][2] == [1, 1, 4, 1.5]
    assert (answer["grown"], answer["cut"]) == ([False, False, True], [False] * 3)


def test_count_for_people_is_labelled_and_saved(trips: Path, tmp_path: Path) -> None:
    output = tmp_path / "counts.csv"
    asked = ["--rectangle", "0", "0", "0.9", "1", "--rectangle", "0", "0", "4", "4"]
    done = run("count", trips, *BOUNDS, "-k", "2", *asked, "-o", output)
    assert done.returncode == 0, done.stderr
    assert "NOT PRIVATE" in done.stdout
    assert "1 of 2 rectangles extended to whole cells" in done.stdout
    with output.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["exact_count_not_private"] for row in rows] == ["1", "2"]
    assert (float(rows[0]["east"]), rows[0]["grown"], rows[1]["grown"]) == (0.9, "1", "0")


def test_count_at_random_equals_the_library(tmp_path: Path) -> None:
    path = tmp_path / "city.parquet"
    assert run("generate", "city", "-n", "300", "-o", path).returncode == 0
    done = run(
        "count", path, "--bounds", *map(str, cities.BOUNDS), "-k", "6", "--random", "50", "--seed", "3", "--json"
    )
    grid = dqam.Grid.over(cities.BOUNDS, 6)
    rectangles = random_rectangles(grid, 50, np.random.default_rng(3))
    wanted = count_distinct(walk(dqam.read(path).trips(), grid), rectangles, grid)
    assert json.loads(done.stdout)["counts"] == wanted.tolist()


def test_inspect(trips: Path, tmp_path: Path) -> None:
    picture = tmp_path / "map.png"
    done = run("inspect", trips, *BOUNDS, "-k", "2", "--picture", picture)
    assert done.returncode == 0, done.stderr
    assert "NOT PRIVATE" in done.stdout
    assert "█" in done.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    figures = json.loads(run("inspect", trips, *BOUNDS, "-k", "2", "--json").stdout)
    assert figures["trips"] == 3
    assert figures["trips_on_the_grid"] == 2
    assert (figures["points"], figures["points_on_the_grid"]) == (5, 3)
    assert (figures["pieces"], figures["visits"]) == (2, 7)
    assert figures["private"] is False


def test_max_gap_cuts(trips: Path) -> None:
    assert json.loads(run("inspect", trips, *BOUNDS, "-k", "2", "--max-gap", "10s", "--json").stdout)["visits"] == 3


def test_swapped_axes_are_guessed_and_can_be_put_right(tmp_path: Path) -> None:
    path = tmp_path / "swapped.parquet"
    pq.write_table(pa.table({"tid": ["a", "a"], "lat": [-8.6, -8.61], "lng": [41.15, 41.16]}), path)
    porto = ["--bounds", "-8.68", "41.11", "-8.56", "41.20"]
    done = run("inspect", path, *porto)
    assert (done.returncode, "look swapped" in done.stderr) == (2, True)
    assert json.loads(run("inspect", path, *porto, "--swap-axes", "--json").stdout)["trips_on_the_grid"] == 1


def test_truncated_parquet(tmp_path: Path) -> None:
    path = tmp_path / "city.parquet"
    run("generate", "city", "-n", "100", "-o", path)
    path.write_bytes(path.read_bytes()[:-500])
    done = run("inspect", path, "--bounds", *map(str, cities.BOUNDS))
    assert done.returncode == 2
    assert "city.parquet" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("output", ["no/such/folder.csv", "."])
def test_output_that_can_not_be_written(output: str, trips: Path, tmp_path: Path) -> None:
    done = run("count", trips, *BOUNDS, "--random", "3", "-o", tmp_path / output)
    assert done.returncode == 2
    assert "folder" in done.stderr
    assert list(tmp_path.iterdir()) == [trips]


def test_inputs_are_never_replaced(trips: Path, tmp_path: Path) -> None:
    areas = tmp_path / "areas.csv"
    areas.write_text("west,south,east,north\n0,0,1,1\n")
    link = tmp_path / "link.csv"
    link.symlink_to(trips)
    for output in (trips, areas, link):
        done = run("count", trips, *BOUNDS, "--rectangles", areas, "-o", output)
        assert (done.returncode, "would be replaced" in done.stderr) == (2, True)
    assert run("generate", "city", "-n", "10", "-o", trips).returncode == 2
    assert trips.read_text() == TRIPS


def test_devices_and_pipes_are_refused(trips: Path) -> None:
    done = run("count", trips, *BOUNDS, "--random", "3", "-o", "/dev/full")
    assert (done.returncode, "is not a file but a device" in done.stderr) == (2, True)
    done = run("inspect", "/dev/null", *BOUNDS)
    assert (done.returncode, "not a file but a pipe" in done.stderr) == (2, True)


def test_a_table_of_persons_alone_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "persons.csv"
    path.write_text("user_id,tracked_at,longitude,latitude\na,2024-01-01 00:00:00,0.5,0.5\na,2024-01-03,2.5,0.5\n")
    assert "no trip ids: all points of a user_id are one trip" in run("inspect", path, *BOUNDS).stderr.replace(
        "\n", " "
    )


def test_rectangles_are_asked_for_in_one_way(trips: Path) -> None:
    assert "in exactly one way" in run("count", trips, *BOUNDS).stderr
    assert run("count", trips, *BOUNDS, "--random", "2", "--rectangle", "0", "0", "1", "1").returncode == 2


def test_a_rectangle_in_another_order_is_refused(north: Path) -> None:
    bounds = ["--bounds", "-8.68", "41.11", "-8.56", "41.20"]
    done = run("count", north, *bounds, "--rectangle", "-8.63", "-8.59", "41.13", "41.16")
    assert done.returncode == 2
    assert "Did you mean (-8.63, 41.13, -8.59, 41.16)?" in " ".join(done.stderr.split())
    assert run("count", north, *bounds, "--rectangle", "-8.63", "41.13", "-8.59", "41.16").returncode == 0
