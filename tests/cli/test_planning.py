"""What `publish --plan` prints."""

import json
from pathlib import Path

import pytest

from dqam.publishing.forecast_table import measured_table
from dqam.release.formatting import error_in_words
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
    assert set(plan) == {"spent", "epsilon", "unit", "data_sets", "plans"}
    assert (plan["spent"], plan["epsilon"], plan["unit"]) == (0, 1, "person")
    assert plan["data_sets"] == [one.label for one in measured_table().data_sets]
    (made,) = plan["plans"]
    assert set(made) == {"trips", "signal", "evenly", "budget", "errors"}
    assert (made["trips"], made["signal"], made["evenly"]) == (20_000, 10_000, False)
    assert all(set(row) == {"kind", "name", "epsilon"} for row in made["budget"])
    assert sum(row["epsilon"] for row in made["budget"]) == pytest.approx(1, abs=1e-3)
    assert [row["band"] for row in made["errors"]] == ["all", "2-4", "5-8", "9-16", "17-32", "33-64", "65-128"]
    found = measured_table().error("2-4", 10_000)
    assert made["errors"][1] == {
        "band": "2-4",
        "widths": [2, 4],
        "heights": [2, 4],
        "widths_m": pytest.approx([78.1, 156.3], abs=0.2),
        "heights_m": pytest.approx([78.1, 156.3], abs=0.2),
        "average_answer": 20_000 * found.answer,
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
