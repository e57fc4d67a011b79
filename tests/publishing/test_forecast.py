"""What a plan says before anything is spent."""

from fractions import Fraction

import numpy as np
import pytest

from dqam import cities
from dqam.geometry.counting import count_distinct
from dqam.geometry.grid import Grid
from dqam.geometry.rectangles import size_bands
from dqam.geometry.walks import walk
from dqam.mechanisms import Flux
from dqam.mechanisms.flux_rules import GaussianRules, pure_below
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.publishing.forecast import Forecast, forecast
from dqam.publishing.forecast_table import measured_table
from dqam.publishing.person_forecast import expected_factors, kept_signal
from dqam.publishing.plan import Plan

GRID = Grid.over((0.0, 0.0, 1.0, 1.0), 5)
AREAS = [(0.1, 0.1, 0.4, 0.6), (0.5, 0.2, 0.9, 0.9)]


def test_flux_is_looked_up() -> None:
    made = forecast(Plan.of(GRID, "0.5"), 20_000)
    table = measured_table()
    assert made.signal == 10_000
    assert not made.evenly
    assert made.questions == table.budget(10_000)
    assert len(made.data_sets) == len(table.data_sets)
    assert [row.band for row in made.errors] == list(size_bands(GRID))
    for row in made.errors:
        found = table.error(row.band.name, 10_000)
        assert (row.answer, row.error, row.low, row.high) == (20_000 * found.answer, found.error, found.low, found.high)


def test_the_trips_of_a_person_divide_the_signal() -> None:
    plan = Plan.of(GRID, 1, unit="person", max_trips=7)
    made, factors = forecast(plan, 70_000), expected_factors(plan, 70_000)
    assert made.signal == pytest.approx(10_000 * kept_signal(factors))
    assert 0.2 < kept_signal(factors) < 0.6
    less = forecast(Plan.of(GRID, 1), round(made.signal)).errors
    for ours, theirs in zip(made.errors, less, strict=True):
        assert theirs.error < ours.error < theirs.error + 0.3


@pytest.mark.parametrize("mechanism", ["flux", "uniform"])
def test_a_weak_signal_is_spread_evenly(mechanism: str) -> None:
    made = forecast(Plan.of(GRID, "0.1", mechanism), 200)
    assert made.evenly
    assert {asked.name.partition(",")[0] for asked in made.questions} == {"Number of trips and average answer"}


OTHERS = {"parameters": Plan.of(GRID, 1, Flux(side=6)), "queries": Plan.of(GRID, 1, queries=AREAS)}


@pytest.mark.parametrize("name", OTHERS)
def test_other_plans_are_simulated(name: str) -> None:
    made, table = forecast(OTHERS[name], 2_000), measured_table()
    assert made.data_sets == ("Made-up city, skewed",)
    assert [row.band for row in made.errors] == list(size_bands(GRID))
    assert all(row.low is None and row.high is None for row in made.errors)
    (city,) = (one for one in table.data_sets if one.label == made.data_sets[0])
    for row in made.errors:
        found = table.error(row.band.name, 2_000)
        assert 0.5 * found.low < row.error < 2 * found.high, row.band.name
        assert row.answer == pytest.approx(2_000 * city.answers[row.band.name], rel=0.35)


def test_the_budget_is_split_into_all_of_it() -> None:
    for mechanism in ("flux", "dqam"):
        made = forecast(Plan.of(GRID, "0.7", mechanism, unit="person", max_trips=7), 20_000)
        assert sum(asked.share for asked in made.questions) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("mechanism", ["flux", "dqam"])
def test_more_trips_and_more_epsilon_are_off_by_less(mechanism: str) -> None:
    shares = [
        np.mean([row.error for row in forecast(Plan.of(GRID, epsilon, mechanism), trips).errors])
        for trips, epsilon in ((1_000, "0.1"), (1_000, 1), (20_000, 1))
    ]
    assert shares[0] > 1.1 * shares[1] > 1.1 * 1.1 * shares[2]


def test_many_trips_are_stood_in_for_by_fewer() -> None:
    made = forecast(Plan.of(GRID, "0.1", "laplace"), 300_000)
    fewer = forecast(Plan.of(GRID, 1, "laplace"), 30_000)
    for ours, theirs in zip(made.errors, fewer.errors, strict=True):
        assert (ours.answer, ours.error) == pytest.approx((10 * theirs.answer, theirs.error))


def numbers(made: Forecast) -> list[tuple[float, ...]]:
    return [(row.answer, row.error) for row in made.errors] + [(asked.share,) for asked in made.questions]


def precision(plan: Plan) -> float:
    assert plan.promise.rho is not None
    return float(2 * plan.promise.rho) ** 0.5


def test_with_a_delta_flux_is_looked_up_by_the_signal_of_gaussian_noise() -> None:
    plan = Plan.of(GRID, 1, unit="person", max_trips=2, delta="1e-8")
    kept = kept_signal(expected_factors(plan, 1_000_000))
    made, table, signal = forecast(plan, 1_000_000), measured_table(concentrated=True), kept * 500_000 * precision(plan)
    assert made.concentrated
    assert made.budget == plan.promise.rho
    assert made.signal == pytest.approx(signal)
    assert 15_000 < signal < 30_000
    for row in made.errors:
        found = table.error(row.band.name, signal)
        assert found.error < row.error < found.error + 0.3
        assert row.answer == pytest.approx(1_000_000 * found.answer)


@pytest.mark.parametrize("delta", ["1e-8", "1e-5", "1e-12"])
def test_a_delta_is_used_from_the_signal_at_which_flux_uses_it(delta: str) -> None:
    plan, pure = Plan.of(GRID, "0.5", delta=delta), Plan.of(GRID, "0.5")
    least = pure_below(0.5, precision(plan)) / 0.5
    weak, strong = (forecast(plan, round(factor * least)) for factor in (0.999, 1.001))
    assert weak == forecast(pure, weak.trips)
    assert (weak.concentrated, weak.budget) == (False, Fraction(1, 2))
    assert (strong.concentrated, strong.budget) == (True, plan.promise.rho)
    assert forecast(plan, weak.trips, whole=False).concentrated


@pytest.mark.parametrize("delta", ["1e-2", "1e-8", "1e-12"])
@pytest.mark.parametrize("trips", [100, 3_000, 30_000, 3_000_000])
def test_rho_is_divided_as_flux_divides_it(delta: str, trips: int) -> None:
    plan = Plan.of(GRID, 1, delta=delta)
    made = forecast(plan, trips, whole=False)
    shares = {asked.name: asked.share for asked in made.questions}
    assert sum(asked.share for asked in made.questions) == pytest.approx(1, abs=1e-3)
    assert all(share > 0 for share in shares.values())
    look, refined = "Number of trips and average answer", "Number of trips and average answer, refined"
    assert made.questions[0].name == look
    assert shares[look] == pytest.approx((1 / (20 * precision(plan))) ** 2)
    if not made.evenly:
        size = max(shares[look], float(GaussianRules().size_share(made.signal)))
        assert shares[look] + shares.get(refined, 0) == pytest.approx(size, abs=0.015)


@pytest.mark.parametrize(("epsilon", "concentrated"), [(3, False), (6, True)])
def test_the_forecast_with_a_delta_says_what_flux_does(epsilon: int, concentrated: bool) -> None:
    """On trips that the table was not measured on, within a factor of 1.6 and about within the range."""
    (trips,) = cities.city_trips(2_000, 7)
    grid = Grid.over(cities.BOUNDS, 8)
    plan, walks, rng = Plan.of(grid, epsilon, delta="1e-8"), walk(trips, grid), np.random.default_rng(7)
    made = forecast(plan, 2_000)
    assert made.concentrated == concentrated
    judges = [band.draw(grid, 1_000, rng) for band in size_bands(grid)]
    truths, errors = [count_distinct(walks, rectangles, grid) for rectangles in judges], []
    for seed in range(2):
        curator = Curator(walks, Budget.of(plan.promise), SeededNoise(seed))
        histogram = Flux().synthesize(curator, plan.queries, curator.budget).histogram
        off = [np.abs(histogram.answers(asked) - truth) for asked, truth in zip(judges, truths, strict=True)]
        errors.append([each.mean() / truth.mean() for each, truth in zip(off, truths, strict=True)])
        assert curator.concentrated == concentrated
        assert curator.budget.amount == made.budget
    for row, error in zip(made.errors, np.mean(errors, axis=0), strict=True):
        assert 1 / 1.6 < error / row.error < 1.6, row.band.name
        assert row.low is not None
        assert row.high is not None
        assert 0.85 * row.low < error < 1.15 * row.high, row.band.name
    assert [(paid.kind, paid.name) for paid in curator.paid] == [(asked.kind, asked.name) for asked in made.questions]
    shares = [float(paid.cost / curator.budget.amount) for paid in curator.paid]
    assert shares == pytest.approx([asked.share for asked in made.questions], abs=0.03)


def test_other_mechanisms_exchange_the_budget_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dqam.publishing.forecast.STAND_INS", 1_000)
    plan, pure = Plan.of(GRID, 1, "laplace", delta="1e-8"), Plan.of(GRID, 1, "laplace")
    made = forecast(plan, 3_000)
    assert not made.concentrated
    assert numbers(made) == numbers(forecast(pure, 3_000))
    kept = forecast(plan, 3_000, whole=False)
    assert (kept.concentrated, kept.budget) == (True, plan.promise.rho)
    assert kept.signal == pytest.approx(3_000 * precision(plan))
    assert kept.errors[1].error > 1.5 * made.errors[1].error


def test_other_plans_of_flux_are_simulated_with_the_budget_that_they_would_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flux exchanges the budget below 42,256 trips, although only 1,000 are generated."""
    monkeypatch.setattr("dqam.publishing.forecast.STAND_INS", 1_000)
    plan, pure = (Plan.of(GRID, "0.1", queries=AREAS, delta=delta) for delta in ("1e-8", None))
    weak, strong = forecast(plan, 40_000), forecast(plan, 44_500)
    assert [made.concentrated for made in (weak, strong)] == [False, True]
    assert numbers(weak) == [pytest.approx(row) for row in numbers(forecast(pure, 40_000))]
    assert strong.signal == pytest.approx(44_500 * precision(plan))
    assert sum(asked.share for asked in strong.questions) == pytest.approx(1)
