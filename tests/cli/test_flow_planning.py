"""What `publish --plan --flows` prints."""

import json
from pathlib import Path

import pytest

from dqam import cities
from dqam.cli.flow_planning import cell_side, side_in_words
from dqam.geometry.grid import Grid
from dqam.publishing.flow_forecast import measured_flows
from dqam.publishing.forecast import forecast
from dqam.publishing.plan import Plan
from dqam.release.formatting import TIMES, error_in_words
from tests.cli.cases import CITY
from tests.commands import run


def planned(trips: Path, *more: str) -> str:
    done = run("publish", trips, *CITY, "--epsilon", "1", "--plan", *more)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_flows_in_words(trips: Path) -> None:
    shown = " ".join(planned(trips, "--flows", "--expect", "100000").split())
    table = measured_flows()
    assert "Flows between two areas, by size of the areas" in shown
    average = float(f"{table.answer('64') * 100_000:.2g}")
    row = f"64 2.5 km {average:g} {error_in_words(*table.error('64', 20_000))}"
    assert row.replace("\xa0", " ") in shown
    whole = f"All of 16 {TIMES} 16 {error_in_words(*table.error('tiles', 20_000))}"
    assert whole.replace("\xa0", " ") in shown
    assert "Flows cost 20 % of the budget" in shown
    assert f"Trips would be counted between 16 {TIMES} 16 tiles" in shown
    assert all(f"Trips by {ends} " in shown for ends in ("origin", "destination", "origin and destination"))
    several = " ".join(planned(trips, "--flows-share", "0.5").split())
    assert "Flows cost 50 % of the budget" in several
    assert "1,000 trips 10,000 trips 100,000 trips 8 310 m" in several
    assert f"between 4 {TIMES} 4, 8 {TIMES} 8 or 16 {TIMES} 16 tiles" in several


def test_a_weak_signal_is_called_weak(trips: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dqam.publishing.flow_forecast.tile_side", lambda signal: 1)
    shown = " ".join(planned(trips, "--flows", "--expect", "10").split())
    assert "With 10 trips, flows would not show which places trips connect" in shown


def test_flows_in_json(trips: Path) -> None:
    (plan,) = json.loads(planned(trips, "--flows-share", "0.3", "--expect", "100000", "--json"))["plans"]
    made = forecast(Plan.of(Grid.over(cities.BOUNDS, 8), 1, flows="0.3"), 100_000)
    assert made.flows is not None
    told = plan["flows"]
    assert (told["share"], told["signal"], told["tiles"]) == (0.3, 30_000, 16)
    assert told["errors"][0] == {
        "side": 8,
        "side_m": 312.5,
        "average_answer": made.flows.errors[0].answer,
        "error": made.flows.errors[0].error,
        "low": made.flows.errors[0].low,
        "high": made.flows.errors[0].high,
    }
    assert tuple(told["all_pairs_of_16_x_16_tiles"].values()) == made.flows.table
    assert plan["signal"] == 70_000
    assert sum(asked["epsilon"] for asked in plan["budget"]) == pytest.approx(1, abs=1e-3)


def test_without_flows_nothing_is_said_about_them(trips: Path) -> None:
    assert "Flows" not in planned(trips)
    assert all("flows" not in plan for plan in json.loads(planned(trips, "--json"))["plans"])


@pytest.mark.parametrize("share", ["0", "-0.1", "0.71", "x", "nan", "1/0"])
def test_a_bad_share_is_one_sentence(share: str, trips: Path) -> None:
    done = run("publish", trips, *CITY, "--epsilon", "1", "--plan", "--flows-share", share)
    assert done.returncode == 2
    said = " ".join(done.stderr.split())
    assert f"'--flows-share': '{share}' is not a share of the budget, above 0 and at most 0.7, such as 0.2." in said


def test_sides_of_areas() -> None:
    assert [side_in_words(side) for side in (0.001, 0.5, 8, 64, 1_024)] == ["< 0.01", "0.5", "8", "64", "1,024"]
    assert cell_side(Grid((0, 0, 40, 10), 10, 40, "EPSG:32631")) == pytest.approx(1, rel=0.01)
