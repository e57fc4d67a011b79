"""The options of all commands that read trips, and what they refuse."""

import gzip
from pathlib import Path

import pytest

from tests.cli.cases import BOUNDS, TRIPS
from tests.commands import run

POINTS = "tid,datetime,lng,lat\n"


@pytest.mark.parametrize(
    ("content", "options", "says"),
    [
        ("", [], "empty"),
        (POINTS, [], "no trips"),
        ("a,b\n1,2\n", [], "a, b"),
        ('TRIP_ID,POLYLINE\n1,"[[0.5,0.5],[1.5"\n', [], "row 1"),
        (POINTS + "a,2024-01-01,nan,0.5\na,2024-01-01,0.5,0.5\n", [], "--on-error drop"),
        (POINTS + "a,2024-01-01,0.5,95\n" + 3 * "a,2024-01-01,0.5,0.5\n", [], "--on-error drop"),
        (POINTS + "a,2024-01-01,7.5,8.5\n", [], "None of the 1 points"),
        (gzip.compress(TRIPS.encode() * 50)[:-30], [], "gzip"),
        (b"PAR1" + b"x" * 100, [], "damaged or incomplete Parquet"),
        (TRIPS, ["--resolution", "13"], "1 to 12; got 13"),
        (TRIPS, ["--resolution", "0"], "1 to 12; got 0"),
        (TRIPS, ["--bounds", "4", "0", "0", "4"], "Did you mean 0 0 4 4"),
        (TRIPS, ["--crs", "EPSG:x"], "EPSG:x"),
        (TRIPS, ["--column", "trip"], "ROLE=NAME"),
        (TRIPS, ["--column", "trip=ride"], "ride"),
        (TRIPS, ["--max-gap", "soon"], "soon"),
        (TRIPS, ["--bounds", "0", "0", "4"], "--bounds"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(
    content: str | bytes, options: list[str], says: str, tmp_path: Path
) -> None:
    path = tmp_path / "trips"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    done = run("inspect", path, *BOUNDS, *options, "--picture", tmp_path / "map.png")
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert [child.name for child in tmp_path.iterdir()] == ["trips"]


@pytest.mark.parametrize("command", [["inspect"], ["count", "--random", "3"]])
def test_bounds_in_another_order_are_refused_unless_one_is_sure(north: Path, command: list[str]) -> None:
    slip = ["--bounds", "-8.68", "-8.56", "41.11", "41.20"]
    done = run(command[0], north, *slip, *command[1:])
    assert done.returncode == 2
    meant = "Did you mean -8.68 41.11 -8.56 41.2? If not, confirm with --sure."
    assert meant in " ".join(done.stderr.split())
    assert done.stdout == ""
    assert run(command[0], north, *slip, *command[1:], "--sure").returncode == 0
    right = ["--bounds", "-8.68", "41.11", "-8.56", "41.20"]
    assert run(command[0], north, *right, *command[1:]).returncode == 0
