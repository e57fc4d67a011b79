"""Publishing: paid before noise is drawn, never from a seed, and told apart by data set."""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

import dqam
from dqam import cities
from dqam.errors import BudgetError, InputError
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.regions import Partition
from dqam.geometry.trips import Trips
from dqam.mechanisms import MECHANISMS, Flux, Synthesis
from dqam.mechanisms.size import EmptyMapError
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.ledger import Ledger
from dqam.privacy.noise import OpenDPNoise
from dqam.publishing import pipeline as publishing
from dqam.publishing.pipeline import data_set_name, publish
from dqam.statistics import Endpoints, PersonTrips, Question, TripCount
from dqam.values.guarantee import Promise, Unit

GRID = Grid.over(cities.BOUNDS, 4)
PAIRS = "Trips by origin", "Trips by destination", "Trips by origin and destination"  # in the order asked
(TRIPS,) = cities.city_trips(2_000, 0)
NO_TRIP_IDS = pd.DataFrame({"user_id": [1, 1], "datetime": [0, 1], "lon": [-30.0, -30.0], "lat": [45.0, 45.0]})


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.open(tmp_path / "ledger.db")


def test_what_is_published_is_paid(ledger: Ledger) -> None:
    release = publish(TRIPS, GRID, "0.3", dataset="city", total=1, ledger=ledger)
    (account,) = ledger.history("city")
    (publication,) = account.publications
    assert publication.id == release.provenance.id
    assert publication.delivered
    assert account.spent == release.provenance.epsilon == Fraction(3, 10)
    assert release.provenance.private
    publish(TRIPS, GRID, "0.7", mechanism="uniform", dataset="city", ledger=ledger)
    with pytest.raises(BudgetError, match="0 of 1 is left"):
        publish(TRIPS, GRID, "0.001", dataset="city", ledger=ledger)


class Watched(OpenDPNoise):
    """Noise that notes what the ledger had when it was first drawn."""

    seen: list[Fraction]
    ledger: Ledger

    def laplace(self, values: Any, scale: Fraction) -> Any:
        self.seen.append(sum((account.spent for account in self.ledger.history()), Fraction(0)))
        return super().laplace(values, scale)


def test_it_is_paid_before_noise_is_drawn(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    Watched.seen, Watched.ledger = [], ledger
    monkeypatch.setattr(publishing, "OpenDPNoise", Watched)
    publish(TRIPS, GRID, "0.5", dataset="city", ledger=ledger)
    assert Watched.seen
    assert set(Watched.seen) == {Fraction(1, 2)}


def test_what_is_not_paid_draws_no_noise(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    Watched.seen, Watched.ledger = [], ledger
    monkeypatch.setattr(publishing, "OpenDPNoise", Watched)
    ledger.register("city", "0.1", "trip")
    with pytest.raises(BudgetError):
        publish(TRIPS, GRID, "0.5", dataset="city", ledger=ledger)
    with pytest.raises(InputError, match="unit 'trip'"):
        publish(TRIPS, GRID, "0.05", unit="person", dataset="city", ledger=ledger)
    assert not Watched.seen


@pytest.mark.parametrize(
    ("how", "match"),
    [
        ({"epsilon": 0}, "positive number"),
        ({"epsilon": -1}, "positive number"),
        ({"epsilon": "nan"}, "positive number"),
        ({"mechanism": "magic"}, "no mechanism 'magic'"),
        ({"mechanism": "dqam-printed"}, "not private"),
        ({"mechanism": Flux}, "an object such as Flux"),
        ({"mechanism": 7}, "an object such as Flux"),
        ({"grid": cities.BOUNDS[:3]}, "grid must be a Grid"),
        ({"grid": "Porto"}, "grid must be a Grid"),
        ({"unit": "house"}, "'trip' or 'person'"),
        ({"unit": "person", "max_trips": 0}, "max_trips must be 1"),
        ({"max_trips": 3}, "exactly 1 for the unit 'trip'"),
        ({"max_trips": "auto"}, "max_trips='auto' needs unit='person'; with unit='trip' every"),
        ({"unit": "person", "max_trips": "many"}, "a whole number or 'auto'; got 'many'"),
        ({"unit": "person", "max_trips": "10"}, "a whole number or 'auto'; got '10'"),
        ({"unit": "person", "max_trips": 2.9}, "a whole number or 'auto'; got 2.9"),
        ({"gap": "long"}, "gap must be a number"),
        ({"gap": 120}, "gap must be a text such as '120s'"),
        ({"queries": [(1, 2, 3)]}, "rows of four numbers"),
        ({"queries": "here"}, "rows of four numbers"),
        ({"title": ""}, "one line of 1 to 200"),
        ({"title": "two\nlines"}, "one line of 1 to 200"),
        ({"title": "half a \udcff"}, "one line of 1 to 200"),
        ({"grid": Grid(cities.BOUNDS, 4, 4, "+proj=longlat +datum=WGS84")}, "a code such as EPSG"),
        ({"queries": [(5, 5, 6, 6)]}, "does not meet"),
        ({"queries": np.zeros((0, 4))}, "at least one rectangle"),
        ({"dataset": None}, "Name the data set"),
        ({"epsilon": 11}, "99.9 % sure.*sure=True"),
        ({"grid": Grid.over((-30.06, -29.94, 44.96, 45.04), 4)}, "Did you mean -30.06 44.96 -29.94 45.04"),
        ({"trips": NO_TRIP_IDS}, "has no trip ids"),
        ({"gap": "2min", "trips": Trips(TRIPS.x, TRIPS.y, TRIPS.offsets)}, "needs points with times"),
        ({"trips": Trips(TRIPS.x, TRIPS.y, TRIPS.offsets), "unit": "person"}, "no person column"),
        ({"trips": Trips(TRIPS.x, TRIPS.y, TRIPS.offsets), "unit": "person", "max_trips": "auto"}, "no person column"),
    ],
)
def test_what_fails_costs_nothing(ledger: Ledger, how: dict[str, Any], match: str) -> None:
    asked = {"trips": TRIPS, "grid": GRID, "epsilon": 1, "dataset": "city", "ledger": ledger} | how
    with pytest.raises(InputError, match=match):
        publish(**asked)
    assert not ledger.history()


@pytest.mark.parametrize("mechanism", [name for name, row in MECHANISMS.items() if row.publishable])
def test_every_mechanism_can_be_published(ledger: Ledger, mechanism: str) -> None:
    release = publish(TRIPS, Grid.over(cities.BOUNDS, 3), 1, mechanism=mechanism, dataset="city", ledger=ledger)
    assert release.provenance.mechanism == mechanism
    assert release.provenance.epsilon == 1


def test_bounds_are_a_grid_and_objects_are_mechanisms(ledger: Ledger) -> None:
    release = publish(TRIPS, cities.BOUNDS, 1, mechanism=Flux(side=6, least=0), dataset="city", ledger=ledger)
    assert release.grid == Grid.over(cities.BOUNDS)
    assert release.provenance.mechanism == "flux"
    assert release.provenance.parameters["side"] == 6
    assert release.uncertainty is not None
    assert release.uncertainty.lattice is not None
    assert max(release.uncertainty.lattice.shape) == 6


@dataclass(frozen=True)
class Halves:
    """A mechanism of one's own: the trips that start and end in the two halves of the map, and nothing between."""

    share: Fraction = Fraction(1, 2)
    name: ClassVar[str] = "halves"
    about: ClassVar[str] = "starts and ends in two halves"
    monotone: ClassVar[bool] = True

    def known_questions(self, grid: Grid, queries: Any) -> tuple[Question, ...]:
        return (self._question(grid),)

    def synthesize(self, curator: Curator, queries: Any, budget: Budget) -> Synthesis:
        grid = curator.grid
        ends = np.maximum(curator.measure(self._question(grid), budget) / 2, 0)
        labels = self._question(grid).partition.labels
        cells = ends[labels] / np.bincount(labels.ravel())[labels]
        return Synthesis(
            SpatialHistogram(
                grid, cells, np.zeros((grid.rows, grid.columns - 1)), np.zeros((grid.rows - 1, grid.columns))
            )
        )

    def _question(self, grid: Grid) -> Endpoints:
        middle = grid.columns // 2
        halves = np.array([[0, 0, middle, grid.rows], [middle, 0, grid.columns, grid.rows]])
        return Endpoints(Partition(grid.rows, grid.columns, halves))


def test_a_mechanism_of_ones_own_can_be_published_and_opened(ledger: Ledger, tmp_path: Path) -> None:
    release = publish(TRIPS, GRID, 2, mechanism=Halves(), dataset="city", ledger=ledger)
    assert release.provenance.parameters == {"share": "1/2"}
    assert [entry.name for entry in release.provenance.paid] == [Endpoints.name]
    release.save(tmp_path / "halves.nc")
    again = dqam.open(tmp_path / "halves.nc")
    assert again.provenance == release.provenance
    assert again.trips.value == release.trips.value == pytest.approx(2_000, rel=0.05)
    assert "starts and ends in two halves" in again.report()


@pytest.mark.parametrize("end", [None, EmptyMapError, RuntimeError, KeyboardInterrupt])
def test_nothing_can_be_asked_after_the_end(ledger: Ledger, end: type[BaseException] | None) -> None:
    """However it ends; what is given back after an early end cannot be spent."""
    kept: list[tuple[Curator, Budget]] = []

    class Holds(Halves):
        def synthesize(self, curator: Curator, queries: Any, budget: Budget) -> Synthesis:
            first, rest = budget.split(first=1, rest=9)
            kept.append((curator, rest))
            made = super().synthesize(curator, queries, first)
            if end is not None:
                raise EmptyMapError(curator) if end is EmptyMapError else end
            return made

    with nullcontext() if end is None else pytest.raises(end):
        publish(TRIPS, GRID, 1, mechanism=Holds(), dataset="city", ledger=ledger)
    ((curator, rest),) = kept
    with pytest.raises(BudgetError, match="has ended"):
        curator.measure(TripCount(), rest)
    (account,) = ledger.history("city")
    assert account.spent == (Fraction(1, 10) if end is EmptyMapError else 1)
    assert curator.spent == Fraction(1, 10)


def test_a_person_counts_with_few_trips(ledger: Ledger) -> None:
    one = Trips(TRIPS.x, TRIPS.y, TRIPS.offsets, persons=pd.array(["ann"] * len(TRIPS)).__arrow_array__())
    release = publish(one, GRID, 50, unit="person", max_trips=2, dataset="ann", ledger=ledger, sure=True)
    assert release.provenance.unit == Unit.person(2)
    assert release.trips.value / release.provenance.factor < 10
    assert "one person (at most 2 trips)" in release.provenance.promise


@pytest.mark.parametrize("engine", ["local", "duckdb"])
def test_counts_of_persons_are_made_whole(engine: str, ledger: Ledger, tmp_path: Path) -> None:
    (city,) = cities.city_trips(4_000, seed=1)
    cities.write_parquet([city], tmp_path / "city.parquet", 4_000)
    release = publish(
        tmp_path / "city.parquet", Grid.over(cities.BOUNDS, 5), 50, unit="person", max_trips=4, by="weekpart",
        dataset="people", ledger=ledger, sure=True, engine=engine,
    )  # fmt: skip
    assert release.trips.value == pytest.approx(4_000, rel=0.1)
    assert 2 < release.provenance.factor < 4
    assert release.trips.low <= 4_000 <= release.trips.high
    area = (-30.02, 44.98, -29.98, 45.02)
    parts = [release.count(area, slices=name).value for name in release.slices]
    assert sum(parts) == release.count(area).value
    assert release.histogram.is_monotone()
    release.save(tmp_path / "map.nc")
    again = dqam.open(tmp_path / "map.nc")
    assert again.provenance == release.provenance
    assert again.count(area) == release.count(area)


@pytest.mark.parametrize("delta", [None, "1e-8"])
@pytest.mark.parametrize("engine", ["local", "duckdb"])
def test_m_is_chosen_and_charged(engine: str, delta: str | None, ledger: Ledger, tmp_path: Path) -> None:
    (city,) = cities.city_trips(4_000, seed=1)
    cities.write_parquet([city], tmp_path / "city.parquet", 4_000)
    how: dict[str, Any] = {"unit": "person", "delta": delta, "dataset": "people", "ledger": ledger, "sure": True}
    release = publish(
        tmp_path / "city.parquet", Grid.over(cities.BOUNDS, 5), 20, max_trips="auto", total=60, engine=engine, **how
    )
    provenance = release.provenance
    assert 2 <= provenance.unit.max_trips < 128
    assert provenance.max_trips_chosen
    assert f"at most {provenance.unit.max_trips} trips of each person, a number chosen privately" in provenance.counted
    assert provenance.paid[0].name == PersonTrips.name
    assert release.trips.value == pytest.approx(4_000, rel=0.3)
    (account,) = ledger.history("people")
    assert account.publications[0].unit == Unit.person(128)  # the most that could be chosen
    release.save(tmp_path / "map.nc")
    assert dqam.open(tmp_path / "map.nc").provenance == provenance
    assert f"at most {provenance.unit.max_trips} trips, a number chosen privately" in release.report()
    assert "it was chosen from noisy counts of how many people" in release.report()
    publish(tmp_path / "city.parquet", GRID, 20, max_trips=3, **how)  # another m adds to the same budget
    if delta is None:  # with a delta, epsilons do not add up
        assert provenance.spent == provenance.epsilon == 20
        with pytest.raises(BudgetError):
            publish(tmp_path / "city.parquet", GRID, 40, max_trips="auto", **how)
    assert len(ledger.history("people")[0].publications) == 2


class Narrowing(Halves):
    """Keeps one trip of each person, although more were planned, and scaled up."""

    name: ClassVar[str] = "narrowing"

    def synthesize(self, curator: Curator, queries: Any, budget: Budget) -> Synthesis:
        curator.narrow(1)
        return super().synthesize(curator, queries, budget)


def test_a_mechanism_cannot_keep_fewer_trips_than_counts_are_scaled_up_from(ledger: Ledger) -> None:
    how: dict[str, Any] = {"unit": "person", "dataset": "city", "ledger": ledger, "sure": True}
    people = replace(TRIPS, persons=pd.array([str(i // 4) for i in range(len(TRIPS))]).__arrow_array__())
    with pytest.raises(InputError, match="narrowing calls curator.narrow; leave that to max_trips='auto'"):
        publish(people, Grid.over(cities.BOUNDS, 3), 1, mechanism=Narrowing(), max_trips=3, **how)


@pytest.mark.parametrize(
    ("path", "name"), [("a/taxis.csv.gz", "taxis"), ("taxis", "taxis"), (Path("x.parquet"), "x"), (".csv", ".csv")]
)
def test_a_file_names_its_data_set(path: str | Path, name: str) -> None:
    assert data_set_name(path) == name


def test_a_file_that_was_read_names_its_data_set(tmp_path: Path, ledger: Ledger) -> None:
    cities.write_parquet([TRIPS], tmp_path / "rides.parquet", len(TRIPS))
    for trips in (tmp_path / "rides.parquet", dqam.read(tmp_path / "rides.parquet")):
        publish(trips, GRID, 1, ledger=ledger, total=2)
    (account,) = ledger.history()
    assert (account.name, len(account.publications)) == ("rides", 2)
    with pytest.raises(InputError, match="this name"):
        publish(pd.read_parquet(tmp_path / "rides.parquet"), GRID, 1, ledger=ledger)


@pytest.mark.parametrize("engine", ["local", "duckdb"])
def test_slices_are_paid_for_with_the_map(engine: str, ledger: Ledger, tmp_path: Path) -> None:
    cities.write_parquet(cities.city_trips(2_000, 0, rhythm=True), tmp_path / "city.parquet", 2_000, lambda *_: None)
    release = publish(
        tmp_path / "city.parquet", GRID, 1, by="hour*weekpart", timezone="UTC", engine=engine, ledger=ledger
    )
    assert release.provenance.epsilon == sum(entry.epsilon or 0 for entry in release.provenance.paid) == 1
    sliced = [entry for entry in release.provenance.paid if entry.name.endswith(", by slice")]
    assert sum(entry.epsilon or 0 for entry in sliced) == Fraction(1, 5)
    assert (release.provenance.slices, release.provenance.timezone) == ("hour*weekpart", "UTC")
    assert len(release.slices) == 48
    profile = release.profile(cities.BOUNDS)
    assert profile["trips"].sum() == release.trips.value
    assert abs(release.trips.value - 2_000) < 200
    rush = release.select(["08 weekday", "17 weekday"]).trips.value
    assert rush > release.select(["03 weekday", "04 weekday"]).trips.value


def test_slices_for_persons_with_a_delta(ledger: Ledger) -> None:
    release = publish(
        next(cities.city_trips(2_000, 0, rhythm=True)), GRID, 1, by="weekday", unit="person", max_trips=5, delta="1e-8",
        dataset="city", ledger=ledger, sure=True,
    )  # fmt: skip
    assert release.provenance.delta == Fraction(1, 10**8)
    assert release.profile(cities.BOUNDS)["trips"].sum() == release.trips.value


def test_trips_that_cannot_be_sliced_are_refused_before_the_charge(ledger: Ledger) -> None:
    times = pd.DataFrame({"tid": [1, 1], "lon": [-30.0, -30.0], "lat": [45.0, 45.0]})
    for by, match in (("hour", "has no times"), ("kind=a,b", "no column 'kind'")):
        with pytest.raises(InputError, match=match):
            publish(times, GRID, 1, by=by, dataset="city", ledger=ledger)
    assert not ledger.history()


@pytest.mark.parametrize(
    "choices",
    [
        {"flows": True},
        {"flows": "0.7", "by": "weekday"},
        {"flows": True, "delta": "1e-8"},
        {"flows": True, "unit": "person", "max_trips": "auto", "by": "hour"},
        {"flows": 0.25, "unit": "person", "max_trips": 3, "delta": "1e-8"},
        {"flows": True, "mechanism": "laplace"},
    ],
    ids=lambda choices: ", ".join(choices),
)
def test_flows_are_paid_for_with_the_map(choices: dict[str, Any], ledger: Ledger, tmp_path: Path) -> None:
    """Their share of what is left after the trips of persons; together all questions cost what was charged."""
    trips = next(cities.city_trips(2_000, 0, rhythm=True))
    release = publish(trips, GRID, 2, dataset="city", ledger=ledger, sure=True, **choices)
    paid, table = release.provenance.paid, release.flow_table
    costs = [entry.rho or entry.epsilon or Fraction(0) for entry in paid]
    names = [entry.name for entry in paid]
    left = sum(costs) - sum(cost for name, cost in zip(names, costs, strict=True) if name == PersonTrips.name)
    flows = [cost for name, cost in zip(names, costs, strict=True) if name.startswith("Trips by")]
    by_slice = [f"{PAIRS[-1]}, by slice"] if "by" in choices else []
    assert names[-len(flows) :] == [*by_slice, *PAIRS]
    share = Fraction(1, 5) if choices["flows"] is True else Fraction(str(choices["flows"]))
    assert sum(flows) == share * left
    assert sum(costs) == (Promise.of(2, choices.get("delta")).rho or 2)
    assert table is not None
    release.save(tmp_path / "city.nc")
    again = dqam.open(tmp_path / "city.nc").flow_table
    assert again is not None
    np.testing.assert_array_equal(again.trips, table.trips)


@pytest.mark.parametrize("delta", [None, "1e-8"])
def test_an_empty_map_ends_before_flows_are_paid_for(delta: str | None, ledger: Ledger) -> None:
    elsewhere = Trips.from_lists([[(50.0, 10.0)]] * 2_000)
    with pytest.raises(EmptyMapError):
        publish(elsewhere, GRID, 1, delta=delta, flows=0.5, dataset="city", ledger=ledger)
    (account,) = ledger.history("city")
    assert 0 < account.spent < Fraction(1, 4)


@pytest.mark.parametrize(("epsilon", "delta"), [("1e-9", None), ("0.001", None), (1, None), (1, "1e-8")])
@pytest.mark.parametrize("trips", [0, 2_000])
def test_flows_of_any_signal_can_be_saved_and_opened(
    epsilon: Any, delta: str | None, trips: int, ledger: Ledger, tmp_path: Path
) -> None:
    """A file that is paid for must open again; and noise of any size is dealt with in time."""
    some = TRIPS if trips else Trips.from_lists([])
    release = publish(some, GRID, epsilon, delta=delta, flows=True, dataset="city", ledger=ledger, sure=True)
    release.save(tmp_path / "city.nc")
    opened = dqam.open(tmp_path / "city.nc")
    assert opened.flow_table is not None
    assert opened.flow_table.total == pytest.approx(max(1.0, float(opened.trips)), rel=1e-9, abs=1)
