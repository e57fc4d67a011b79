"""The command: what it says, what it writes and how it ends."""

import csv
import gzip
import json
import signal
import subprocess
import sys
import time
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
from tests.commands import run

BOUNDS = ["--bounds", "0", "0", "4", "4"]
TRIPS = """tid,datetime,lng,lat
a,2024-01-01 00:00:00,0.5,0.5
a,2024-01-01 00:00:15,2.5,0.5
b,2024-01-01 00:00:00,0.5,2.5
b,2024-01-01 00:00:15,9.0,2.5
c,2024-01-01 00:00:00,8.0,8.0
"""


def run_apart(*arguments: str | Path, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """In a process of its own, as a user runs it."""
    command = [sys.executable, "-c", "from dqam.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder)


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


def test_generate_is_seeded(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.parquet", "b.parquet", "c.parquet")]
    for path, seed in zip(files, ("1", "1", "2"), strict=True):
        done = run("generate", "city", "-n", "200", "--seed", seed, "-o", path, "--json")
        assert json.loads(done.stdout)["trips"] == 200
    a, b, c = (pq.read_table(path) for path in files)
    assert a.equals(b)
    assert not a.equals(c)


def test_demo(tmp_path: Path) -> None:
    done = run("demo", "-n", "500", "-o", tmp_path / "demo")
    assert done.returncode == 0, done.stderr
    made = sorted(path.name for path in (tmp_path / "demo").iterdir())
    assert made == ["city.nc", "city.parquet", "demo-ledger.db", "map.png", "report.html"]
    assert "16,000 random rectangles" in done.stdout
    assert "Differentially private for one trip, epsilon = 1." in done.stdout
    release = dqam.open(tmp_path / "demo" / "city.nc")
    assert f"{release.count(-30.006, 44.995, -29.994, 45.005).value:,.0f}" in done.stdout
    assert run("demo", "-n", "200", "-o", tmp_path / "demo").returncode == 0


def test_help_teaches() -> None:
    research = ["reproduce"], ["audit"], ["generate"], ["generate", "city"], ["demo"]
    product = ["publish"], ["query"], ["export"], ["report"], ["serve"], ["ledger"]
    for command in ([], ["count"], ["inspect"], *research, *product):
        done = run(*command, "--help")
        assert done.returncode == 0
        assert done.stdout.startswith("Usage: dqam")
        assert "  dqam " in done.stdout or command == ["demo"]


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


def listen_to_signals() -> None:
    """Whatever the process that runs the tests ignores."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_nothing_stays_when_the_command_is_ended(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from dqam.cli import main; main()", "generate", "city", "-n", "2000000"]
    for ending in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        process = subprocess.Popen(
            [*command, "-o", str(tmp_path / "big.parquet")], stderr=subprocess.DEVNULL, preexec_fn=listen_to_signals
        )
        try:
            while not list(tmp_path.iterdir()):
                assert process.poll() is None
                time.sleep(0.05)
            process.send_signal(ending)
            assert process.wait(30) in (143, 129, 130)
        finally:
            process.kill()
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    "then", ["time.sleep(20)", "write_whole('map', b'', overwrite=False)", "write_whole('map', b'')"]
)
def test_a_signal_that_falls_into_a_callback_is_not_lost(tmp_path: Path, ending: signal.Signals, then: str) -> None:
    """Python drops what is raised there, and goes on; but not for long, and no file is written."""
    program = f"""
import os, time, weakref
from dqam.runtime.files import write_whole
from dqam.runtime.stopping import handle_signals
class Thing: pass
handle_signals()
thing = Thing()
falls_in = weakref.ref(thing, lambda _: os.kill(os.getpid(), {int(ending)}))
try:
    del thing
    print("dropped")
    {then}
    print("went on")
finally:
    os.kill(os.getpid(), {int(ending)})
    print("unwound")
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=listen_to_signals,
        cwd=tmp_path,
    )
    assert done.stdout.split() == ["dropped", "unwound"], done.stderr
    assert done.returncode in (128 + ending, -ending)
    assert list(tmp_path.iterdir()) == []


def test_nohup_is_heard(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from dqam.cli import main; main()", "generate", "city", "-n", "60000"]
    process = subprocess.Popen(
        [*command, "-o", str(tmp_path / "big.parquet")],
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    while not list(tmp_path.iterdir()):
        time.sleep(0.05)
    process.send_signal(signal.SIGHUP)
    assert process.wait(60) == 0


def test_rectangles_are_asked_for_in_one_way(trips: Path) -> None:
    assert "in exactly one way" in run("count", trips, *BOUNDS).stderr
    assert run("count", trips, *BOUNDS, "--random", "2", "--rectangle", "0", "0", "1", "1").returncode == 2


def test_audit_exits_with_1_when_a_mechanism_is_above_its_claim(tmp_path: Path) -> None:
    figure = tmp_path / "audit.png"
    done = run("audit", "count", "--runs", "300", "--figure", figure)
    assert done.returncode == 0, done.stderr
    assert "below its claim" in done.stdout
    assert figure.read_bytes().startswith(b"\x89PNG")
    done = run("audit", "fault-half-count", "--runs", "1000", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["failed"] == ["fault-half-count"]


def test_audit_of_a_callable_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def leak(trips, rng):\n    return len(trips)\n")
    done = run_apart("audit", "mine:leak", "--runs", "200", folder=tmp_path)
    assert done.returncode == 1, done.stderr
    for name, says in (("mine", "is not known"), ("nowhere:f", "cannot be imported")):
        done = run("audit", name)
        assert (done.returncode, says in done.stderr) == (2, True)


def test_the_table_of_mechanisms() -> None:
    done = run("mechanisms", "--json")
    assert done.returncode == 0, done.stderr
    table = json.loads(done.stdout)
    assert table["dqam"]["publishable"]
    assert not table["dqam-printed"]["publishable"]
    assert "DQAM as printed" in run("mechanisms").stdout


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_can_wait(ending: signal.Signals) -> None:
    """For the end of what would be left in half; and handlers that others set meanwhile are gone then."""
    program = f"""
import os, signal
from dqam.runtime.stopping import delay_signals, handle_signals
handle_signals()
try:
    with delay_signals():
        os.kill(os.getpid(), {int(ending)})
        signal.signal({int(ending)}, lambda *_: print("wrong"))
        print("done")
    print("went on")
finally:
    print("unwound")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, preexec_fn=listen_to_signals
    )
    assert done.stdout.split() == ["done", "unwound"], done.stderr
    assert done.returncode in (128 + ending, -ending)


@pytest.fixture
def north(tmp_path: Path) -> Path:
    """A trip in the north, where longitudes are smaller than latitudes."""
    path = tmp_path / "north.csv"
    path.write_text("tid,datetime,lng,lat\na,2024-01-01,-8.62,41.14\na,2024-01-02,-8.60,41.15\n")
    return path


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


def test_a_rectangle_in_another_order_is_refused(north: Path) -> None:
    bounds = ["--bounds", "-8.68", "41.11", "-8.56", "41.20"]
    done = run("count", north, *bounds, "--rectangle", "-8.63", "-8.59", "41.13", "41.16")
    assert done.returncode == 2
    assert "Did you mean (-8.63, 41.13, -8.59, 41.16)?" in " ".join(done.stderr.split())
    assert run("count", north, *bounds, "--rectangle", "-8.63", "41.13", "-8.59", "41.16").returncode == 0
