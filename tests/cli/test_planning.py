"""What `publish --plan` prints."""

import json
from pathlib import Path

import geopandas
import pytest
import shapely

from dqam import cities
from dqam.geometry.grid import Grid
from dqam.publishing.forecast import forecast
from dqam.publishing.forecast_table import measured_table
from dqam.publishing.plan import Plan
from dqam.release.formatting import error_in_words, percent
from dqam.statistics import PersonTrips
from dqam.values.guarantee import Promise
from tests.cli.cases import CITY
from tests.commands import run


def planned(trips: Path, *more: str, resolution: str = "8") -> str:
    done = run("publish", trips, *CITY, "-k", resolution, "--epsilon", "1", "--plan", *more)
    assert done.returncode == 0, done.stderr
    return done.stdout


def lines(shown: str) -> list[str]:
    return [" ".join(line.split()) for line in shown.splitlines()]


def test_a_plan_in_words(trips: Path) -> None:
    shown = planned(trips, "--expect", "20000")
    rows, table = lines(shown), measured_table()
    assert "For 20,000 trips" in rows
    share = table.budget(20_000)[0].share
    assert f"Number of trips and average answer {share:.4g} {share:.1%}" in rows
    assert "Sides in cells Sides on the ground Average answer Expected error" in rows
    (row,) = (row for row in rows if row.startswith("17 to 32 "))
    found = table.error("17-32", 20_000)
    assert row.startswith("17 to 32 660 m to 1.25 km ")
    assert row.endswith(f" {error_in_words(found.error, found.low, found.high)}".replace("\xa0", " "))
    assert f" {float(f'{20_000 * found.answer:.2g}'):,.0f} " in row
    assert "the median and the range over several data sets" in " ".join(rows)
    assert "spread evenly" not in shown


def test_a_weak_signal_is_called_weak(trips: Path) -> None:
    assert "would only be counted and spread evenly" in " ".join(lines(planned(trips, "--expect", "20")))


def test_a_plan_for_no_number_of_trips_has_several(trips: Path) -> None:
    titles = [line for line in lines(planned(trips)) if line.startswith("For ")]
    assert titles == ["For 1,000 trips", "For 10,000 trips", "For 100,000 trips"]


def test_a_plan_in_json(trips: Path) -> None:
    plan = json.loads(planned(trips, "--expect", "20000", "--unit", "person", "--max-trips", "2", "--json"))
    assert set(plan) == {"spent", "epsilon", "delta", "unit", "data_sets", "plans"}
    assert (plan["spent"], plan["epsilon"], plan["delta"], plan["unit"]) == (0, 1, None, "person")
    assert plan["data_sets"] == [one.label for one in measured_table().data_sets]
    (made,) = plan["plans"]
    assert set(made) == {"trips", "signal", "concentrated", "delta", "rho", "evenly", "budget", "errors"}
    expected = forecast(Plan.of(Grid.over(cities.BOUNDS, 8), 1, unit="person", max_trips=2), 20_000)
    assert (made["trips"], made["signal"], made["evenly"]) == (20_000, pytest.approx(expected.signal), False)
    assert (made["concentrated"], made["delta"], made["rho"]) == (False, None, None)
    assert all(set(row) == {"kind", "name", "epsilon"} for row in made["budget"])
    assert sum(row["epsilon"] for row in made["budget"]) == pytest.approx(1, abs=1e-3)
    assert [row["band"] for row in made["errors"]] == ["all", "2-4", "5-8", "9-16", "17-32", "33-64", "65-128"]
    found = expected.errors[1]
    assert made["errors"][1] == {
        "band": "2-4",
        "widths": [2, 4],
        "heights": [2, 4],
        "widths_m": pytest.approx([78.1, 156.3], abs=0.2),
        "heights_m": pytest.approx([78.1, 156.3], abs=0.2),
        "average_answer": pytest.approx(found.answer),
        "error": found.error,
        "low": found.low,
        "high": found.high,
    }


def test_another_mechanism_is_simulated_and_shown_by_the_same_bands(trips: Path) -> None:
    shown = planned(trips, "--mechanism", "uniform", "--expect", "500", resolution="4")
    assert "These errors are for trips through a made-up city" in " ".join(lines(shown))
    assert any(row.startswith("5 to 8 3.13 to 5 km ") for row in lines(shown))
    plan = json.loads(planned(trips, "--mechanism", "uniform", "--expect", "500", "--json", resolution="4"))
    assert [row["band"] for row in plan["plans"][0]["errors"]] == ["all", "9-16", "17-32", "33-64", "65-128"]
    assert {row["low"] for row in plan["plans"][0]["errors"]} == {None}


RHO = float(Promise.of(1, "1e-8").rho or 0)


def shown_error(band: str, signal: float, concentrated: bool) -> str:
    return error_in_words(measured_table(concentrated).error(band, signal).error).replace("\xa0", " ")


def test_a_plan_with_a_delta_in_words(trips: Path) -> None:
    rows = lines(planned(trips, "--expect", "200000", "--delta", "1e-8"))
    assert rows[0] == "A release with flux would be private for one trip, epsilon = 1, delta = 1e-8."
    assert "Question rho Share" in rows
    assert "Noise would be Gaussian, with a budget of rho = 0.01721." in rows
    assert "Number of trips and average answer 0.00125 7.3%" in rows
    (row,) = (row for row in rows if row.startswith("2 to 4 "))
    assert f" {shown_error('2-4', 200_000 * (2 * RHO) ** 0.5, True)} (" in row
    assert not any("With" in row and "--delta" in row for row in rows)


def test_a_delta_that_would_not_be_used_changes_only_what_the_plan_says_of_it(trips: Path) -> None:
    rows, pure = (lines(planned(trips, "--expect", "2000", *more)) for more in (("--delta", "1e-8"), ()))
    note = "With this number of trips, noise without a delta is better, so no delta would be used: epsilon = 1."
    assert note in rows
    assert [row for row in rows if row != note][1:] == pure[1:]
    other = " ".join(lines(planned(trips, "--mechanism", "uniform", "--expect", "500", "--delta", "1e-8")))
    assert "With this mechanism, noise without a delta is better, so no delta would be used" in other


def test_a_plan_with_a_delta_in_json(trips: Path) -> None:
    plan = json.loads(planned(trips, "--delta", "1e-8", "--json"))
    assert (plan["epsilon"], plan["delta"]) == (1, 1e-8)
    weak, _, strong = plan["plans"]
    assert (weak["concentrated"], weak["delta"], weak["rho"], weak["signal"]) == (False, None, None, 1_000)
    assert all(set(row) == {"kind", "name", "epsilon"} for row in weak["budget"])
    assert (strong["concentrated"], strong["delta"], strong["rho"]) == (True, 1e-8, pytest.approx(RHO))
    assert strong["signal"] == pytest.approx(100_000 * (2 * RHO) ** 0.5)
    assert all(set(row) == {"kind", "name", "rho"} for row in strong["budget"])
    assert sum(row["rho"] for row in strong["budget"]) == pytest.approx(RHO, rel=1e-3)


def test_a_plan_says_which_m_it_expects_to_be_chosen_and_what_that_costs(trips: Path) -> None:
    options = ("--expect", "20000", "--unit", "person", "--max-trips", "auto")
    shown = " ".join(lines(planned(trips, *options))).replace("\xa0", " ")
    assert "private for one person with all their trips, epsilon = 1" in shown
    made = forecast(Plan.of(Grid.over(cities.BOUNDS, 8), 1, unit="person", max_trips="auto"), 20_000)
    assert made.max_trips is not None
    low, high = made.max_trips
    assert 1 < low <= high < 50
    kept = f"{low}" if low == high else f"{low} to {high}"
    assert f"About {kept} trips of each person would be used" in shown
    cost = made.questions[0]
    assert cost.name == PersonTrips.name
    assert f"about {percent(cost.share)} of the budget), which is needed in any case".replace("\xa0", " ") in shown
    assert json.loads(planned(trips, *options, "--json"))["plans"][0]["max_trips"] == [low, high]


def test_a_plan_for_persons_says_what_it_takes_for_granted(trips: Path) -> None:
    shown = lines(planned(trips, "--expect", "2000000", "--unit", "person", "--max-trips", "10"))
    assert any(row.startswith("Trips of persons, kept and beyond 0.") for row in shown)
    assert any("all trips of each person" in row and "made-up persons" in row for row in shown)
    assert shown[-1].startswith("With --delta 1e-9, the expected error for ")


@pytest.mark.parametrize(("size", "delta"), [(100_000, "1e-8")])
def test_a_plan_says_if_a_delta_would_help(trips: Path, size: int, delta: str) -> None:
    signal = size
    gaussian = signal * float(2 * (Promise.of(1, delta).rho or 0)) ** 0.5
    pure, with_delta = measured_table(), measured_table(concentrated=True)
    ratios = {
        band: pure.error(band, signal).error / with_delta.error(band, gaussian).error
        for band in ("all", "2-4", "5-8", "9-16", "17-32", "33-64", "65-128")
    }
    band = max(ratios, key=ratios.__getitem__)
    now, then = shown_error(band, signal, False), shown_error(band, gaussian, True)
    error = f"the expected error for sides of {band.replace('-', ' to ')} cells"
    last = lines(planned(trips, "--expect", str(size)))[-1]
    assert last == f"With --delta {delta}, {error} would be {then} instead of {now}."


def test_a_plan_gives_no_advice_where_a_delta_would_not_be_used_or_gains_little(trips: Path) -> None:
    for size in ("1000", "10000000"):
        assert lines(planned(trips, "--expect", size))[-1].endswith("no trips were read.")
    assert "--delta" not in planned(trips, "--expect", "100000", "--mechanism", "uniform", resolution="4")


def test_a_plan_for_several_sizes_names_the_one_for_which_a_delta_helps(trips: Path) -> None:
    assert lines(planned(trips))[-1].startswith("With --delta 1e-8 and 100,000 trips, the expected error for sides of ")


def test_a_plan_says_if_a_delta_does_harm(trips: Path) -> None:
    """Where something of the budget stays for later, flux cannot go back to a pure budget."""
    weak = "--expect", "500", "--delta", "1e-8"
    rows = lines(planned(trips, *weak, "--total", "3"))
    assert "Question rho Share" in rows
    assert rows[-1].startswith("Without --delta, the expected error for ")
    assert "Question Epsilon Share" in lines(planned(trips, *weak, "--total", "1"))
    assert "--delta" not in lines(planned(trips, *weak))[-1]


def test_a_plan_with_an_epsilon_that_has_no_delta_gives_no_advice(trips: Path) -> None:
    done = run("publish", trips, *CITY, "--epsilon", "1e-7", "--plan", "--expect", "2000000000")
    assert done.returncode == 0, done.stderr
    assert "--delta" not in done.stdout


WEST, SOUTH, EAST, NORTH = cities.BOUNDS
CELL_X, CELL_Y = (EAST - WEST) / 256, (NORTH - SOUTH) / 256


def square(cells: float) -> shapely.Geometry:
    return shapely.box(WEST, SOUTH, WEST + cells * CELL_X, SOUTH + cells * CELL_Y)


FAR = shapely.box(EAST + 1, SOUTH, EAST + 2, SOUTH + 1)


def zones_of(folder: Path, *shapes: shapely.Geometry, crs: str | None = "EPSG:4326") -> Path:
    names = [f"Zone {i}" for i in range(len(shapes))]
    path = folder / "zones.parquet"
    geopandas.GeoDataFrame({"DISTRICT": names}, geometry=list(shapes), crs=crs).to_parquet(path)
    return path


def test_zones_in_a_plan(trips: Path, tmp_path: Path) -> None:
    zones = zones_of(tmp_path, *map(square, (0.5, 3, 20, 24, 200)), FAR)
    shown = planned(trips, "--expect", "20000", "--areas", str(zones), "--name-column", "DISTRICT")
    rows, table = lines(shown), measured_table()
    small, middle, large = (table.error(band, 20_000) for band in ("2-4", "17-32", "65-128"))
    assert rows[: len(lines(planned(trips, "--expect", "20000")))] == lines(planned(trips, "--expect", "20000"))
    at = rows.index("Expected error by size of your zones")
    assert rows[at + 1 : at + 10] == [
        "Zones Side (cells) On the ground Expected error",
        f"1 0.5 20 m ≥ {spelled(small.error)}",
        f"1 3 120 m {spelled(small.error, small.low, small.high)}",
        f"2 20 to 24 780 to 940 m {spelled(middle.error, middle.low, middle.high)}",
        f"1 200 7.81 km ≤ {spelled(large.error)}",
        f"Your 5 zones on the map: from about {spelled(large.error)} or less to about {spelled(small.error)} or more "
        "of the average answer.",
        "These are averages over zones of like size; a single zone can be off by more.",
        "1 of 6 zones is smaller than one cell of the map: Zone 0.",
        "1 of 6 zones lies outside the map and has no answer: Zone 5.",
    ]


def spelled(*errors: float) -> str:
    return error_in_words(*errors).replace("\xa0", " ")


def test_a_plan_names_at_most_five_zones(trips: Path, tmp_path: Path) -> None:
    zones = zones_of(tmp_path, *[square(0.5)] * 7)
    shown = planned(trips, "--expect", "20000", "--areas", str(zones), "--name-column", "DISTRICT")
    assert (
        "7 of 7 zones are smaller than one cell of the map: Zone 0, Zone 1, Zone 2, Zone 3, Zone 4 and 2 more." in shown
    )
    error = spelled(measured_table().error("2-4", 20_000).error)
    assert f"Your 7 zones: about {error} or more of the average answer." in lines(shown)


def test_zones_for_several_numbers_of_trips_share_a_table(trips: Path, tmp_path: Path) -> None:
    shown = planned(trips, "--areas", str(zones_of(tmp_path, *map(square, (0.5, 3, 20, 24, 200)))))
    at = lines(shown).index("Expected error by size of your zones")
    assert max(map(len, shown.splitlines()[at : at + 6])) <= 80
    rows = lines(shown)[at + 1 :]
    assert rows[0] == "Zones Side (cells) On the ground 1,000 trips 10,000 trips 100,000 trips"
    errors = [spelled(measured_table().error("17-32", trips).error) for trips in (1_000, 10_000, 100_000)]
    assert rows[3] == f"2 20 to 24 780 to 940 m {' '.join(errors)}"
    assert [row.split(":")[0] for row in rows[5:8]] == [
        f"Your 5 zones, with {number} trips" for number in ("1,000", "10,000", "100,000")
    ]


def test_zones_in_json(trips: Path, tmp_path: Path) -> None:
    zones = zones_of(tmp_path, *map(square, (0.5, 20, 24)), FAR)
    plan = json.loads(planned(trips, "--expect", "20000", "--areas", str(zones), "--json"))
    about = plan["zones"]
    assert about["names"] == ["1", "2", "3", "4"]
    assert about["sides"] == [pytest.approx(0.5), pytest.approx(20), pytest.approx(24), None]
    assert about["cells"] == [pytest.approx(0.25), pytest.approx(400), pytest.approx(576), None]
    assert about["below_one_cell"] == [True, False, False, False]
    assert about["outside"] == [False, False, False, True]
    (made,) = plan["plans"]
    small, middle = (measured_table().error(band, 20_000) for band in ("2-4", "17-32"))
    assert made["zones"]["errors"] == [small.error, middle.error, middle.error, None]
    below, inside = made["zones"]["classes"]
    assert (below["zones"], below["band"], below["bound"]) == (1, "2-4", "or more")
    assert inside == {
        "zones": 2,
        "sides": [pytest.approx(20), pytest.approx(24)],
        "sides_m": pytest.approx([781.3, 937.5], abs=2),
        "band": "17-32",
        "error": middle.error,
        "low": middle.low,
        "high": middle.high,
        "bound": None,
    }


def test_zones_need_a_plan(trips: Path, tmp_path: Path) -> None:
    zones, output = zones_of(tmp_path, square(20)), tmp_path / "map.nc"
    for given in (("--areas", zones), ("--name-column", "DISTRICT"), ("--areas-crs", "EPSG:4326")):
        done = run("publish", trips, *CITY, "--epsilon", "1", "-o", output, "--ledger", tmp_path / "ledger.db", *given)
        assert done.returncode == 2
        assert f"{given[0]} works only with --plan" in done.stderr
    assert list(tmp_path.iterdir()) == [zones]


def test_zones_that_cannot_be_used(trips: Path, tmp_path: Path) -> None:
    def refused(*more: str | Path) -> str:
        done = run("publish", trips, *CITY, "--epsilon", "1", "--plan", *more)
        assert (done.returncode, done.stdout) == (2, "")
        return done.stderr

    zones = zones_of(tmp_path, FAR, FAR)
    assert "Area 1 and all others do not meet the map" in refused("--areas", zones)
    assert "no column 'WARD'" in refused("--areas", zones, "--name-column", "WARD")
    assert "--name-column needs a file" in refused("--name-column", "WARD")
    metres = zones_of(tmp_path, shapely.box(1e6, 1e6, 2e6, 2e6))
    assert "--areas-crs EPSG:3857" in refused("--areas", metres)
    assert "Area 1 does not meet the map" in refused("--areas", metres, "--areas-crs", "EPSG:3857")


def test_the_trips_do_not_change_what_is_said_about_zones(trips: Path, tmp_path: Path) -> None:
    zones = zones_of(tmp_path, square(20))
    fewer = tmp_path / "fewer.parquet"
    cities.write_parquet(cities.city_trips(10, 1), fewer, 10)
    assert planned(trips, "--areas", str(zones)) == planned(fewer, "--areas", str(zones))


def test_slices(trips: Path) -> None:
    by = ("--by", "weekpart", "--timezone", "Atlantic/Azores")
    shown = planned(trips, "--expect", "20000", *by)
    rows, table = lines(shown), measured_table()
    assert "2 slices, by weekpart (Atlantic/Azores)" in rows
    (row,) = (row for row in rows if row.startswith("20,000 10,000 "))
    assert row == "20,000 10,000 \N{PLUS-MINUS SIGN} 20 0.2 % 10 \N{MULTIPLICATION SIGN} 10"
    assert "Slices cost 20 % of the budget, however many there are" in " ".join(rows)
    assert "scaled down to its share of the trips" in " ".join(rows)
    (row,) = (row for row in rows if row.startswith("17 to 32 "))
    found = table.error("17-32", 16_000)
    assert row.endswith(f" {error_in_words(found.error, found.low, found.high)}".replace("\xa0", " "))
    without = planned(trips, "--expect", "20000")
    assert "lice" not in without
    made = json.loads(planned(trips, "--expect", "20000", *by, "--json"))["plans"][0]
    assert made["signal"] == 16_000
    assert made["slices"] == {
        "by": "weekpart",
        "timezone": "Atlantic/Azores",
        "names": ["weekday", "weekend"],
        "count": 2,
        "share": 0.2,
        "average_trips": 10_000,
        "deviation": pytest.approx(20),
        "side": 10,
    }
    assert sum(asked["epsilon"] for asked in made["budget"]) == pytest.approx(1, abs=1e-3)
