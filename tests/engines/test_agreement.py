"""One machine, DuckDB and Spark: the same integers, and with the same seed the same releases."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dqam
from dqam import cities
from dqam.audit.exact import fingerprint
from dqam.engines.disk import Disk
from dqam.engines.spark import Spark
from dqam.errors import InputError
from dqam.geometry.lattice import Lattice
from dqam.geometry.rectangles import random_rectangles
from dqam.geometry.slicing import Slicing
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.contribution import ContributionBound
from dqam.privacy.curator import Curator
from dqam.privacy.ledger import Ledger
from dqam.privacy.noise import SeededNoise
from dqam.publishing.pipeline import aggregates_of, publish
from dqam.publishing.plan import Plan
from dqam.statistics import PairCounts, QueryTotals, ShadowQuantile, ShadowSums, Sliced, TripCount, WalkSums
from dqam.statistics.cell_shares import MassByCell
from dqam.statistics.crossings import CappedCrossings
from dqam.statistics.distinct import DistinctTrips
from dqam.statistics.endpoints import EndpointsByCell
from dqam.statistics.person_trips import TripsPerPerson
from dqam.statistics.quantile import Lengths
from dqam.statistics.shadow_sums import CappedShadows, ShadowSizes
from dqam.statistics.trip_count import TripsOnGrid
from dqam.statistics.walk_sums import ScaledWalks
from dqam.values.guarantee import Promise, Unit
from tests.commands import run
from tests.engines.cases import CAPS, GRID, LATTICE, TRIPS, Make, in_memory


@pytest.fixture(params=["duckdb", "spark"])
def engine(request: pytest.FixtureRequest, shuffled: Path) -> Make:
    """Aggregates of the shuffled points by another engine."""
    if request.param == "spark":
        points = request.getfixturevalue("spark").read.parquet(str(shuffled))
        return lambda plan, bound: aggregates_of(plan, points, bound)
    return lambda plan, bound: aggregates_of(plan, dqam.read(shuffled), bound, "duckdb", 800 << 20)


def test_all_sums_are_the_same_and_take_few_scans(shuffled: Path, engine: Make) -> None:
    unit = Unit.person(2)
    plan, bound = Plan.of(GRID, 1, unit=unit.name, max_trips=unit.max_trips), ContributionBound(unit, "5a17")
    labels, weights = np.arange(GRID.rows * GRID.columns) % 5, np.array([9, 1, 2, 3, 4])
    asked: list[Callable[[Aggregates], Any]] = [
        lambda aggregates: aggregates.total(TripsOnGrid()),
        lambda aggregates: aggregates.total(DistinctTrips(plan.queries)),
        lambda aggregates: aggregates.total(DistinctTrips(plan.queries[[77]])),
        lambda aggregates: aggregates.total(MassByCell()),
        lambda aggregates: aggregates.total(EndpointsByCell()),
        lambda aggregates: aggregates.total(Lengths(np.array([0, 1, 9, 30, 256]))),
        lambda aggregates: aggregates.total(ShadowSizes(LATTICE, 3, CAPS)),
        *(
            partial(lambda cap, aggregates: aggregates.total(CappedShadows(LATTICE, 3, np.array([cap])))[0], int(cap))
            for cap in CAPS
        ),
        lambda aggregates: aggregates.total(CappedCrossings(labels, weights, 20)),
    ]
    with in_memory(shuffled)(plan, bound) as ours, engine(plan, bound) as theirs:
        assert isinstance(theirs, Aggregates)
        assert theirs.scans == 1
        for i, ask in enumerate(asked):
            np.testing.assert_array_equal(ask(ours), ask(theirs), err_msg=str(i))
            # the first scan adds up what flux asks; the shadows for all caps take one scan
            assert theirs.scans == (1, 1, 1, 2, 3, 4, 5, 5, 5, 5, 5, 5, 6)[i]
        assert 0 < int(ours.total(TripsOnGrid())[0]) <= TRIPS
        persons = ours.total(TripsPerPerson())
        np.testing.assert_array_equal(persons, theirs.total(TripsPerPerson()))
        assert persons @ np.arange(len(persons)) == TRIPS


HOURS = Slicing.parse("hour*weekpart", "America/New_York")


def test_fewer_trips_of_each_person_are_the_same_everywhere(shuffled: Path, spark: Any) -> None:
    """Narrowed engines count what engines count that keep as few trips from the start; with slices, in few scans."""
    points, frame = pd.read_parquet(shuffled), spark.read.parquet(str(shuffled))
    questions = (
        TripCount(),
        QueryTotals(Plan.of(GRID, 1).queries),
        WalkSums(LATTICE, 6, 3),
        Sliced(TripCount(), len(HOURS)),
    )
    for m in (1, 2, 5):
        found = []
        for trips, engine, most in (
            (points, "local", m),
            (points, "local", 9),
            (shuffled, "duckdb", 9),
            (frame, "spark", 9),
        ):
            plan = Plan.of(GRID, 1, unit="person", max_trips=most, by=HOURS)
            source = dqam.read(trips).sliced(HOURS)
            with aggregates_of(plan, source, ContributionBound(plan.unit, "5a17"), engine) as whole:
                narrowed = whole.narrowed(m)
                assert narrowed.unit == Unit.person(m)
                found.append([narrowed.value(each) for each in questions])
                assert narrowed.scans <= 2 or engine == "local"
                assert np.abs(whole.value(TripCount()) - found[-1][0]).sum() > 0 or most == m
                np.testing.assert_array_equal(narrowed.total(TripsPerPerson()), whole.total(TripsPerPerson()))
        for others in found[1:]:
            for one, other in zip(found[0], others, strict=True):
                np.testing.assert_array_equal(one, other)
        assert found[0][3].sum() == found[0][0].sum() > 0


def test_releases_for_persons_with_slices_and_a_chosen_m_are_the_same(shuffled: Path, spark: Any) -> None:
    plan = Plan.of(GRID, 4, unit="person", max_trips="auto", by=HOURS)
    made = []
    for trips, engine in ((shuffled, "local"), (shuffled, "duckdb"), (spark.read.parquet(str(shuffled)), "spark")):
        source = dqam.read(trips).sliced(HOURS)
        with aggregates_of(plan, source, ContributionBound(plan.unit, "5a17"), engine) as aggregates:
            curator = Curator(aggregates, Budget(4), SeededNoise(7), plan.unit)
            made.append(plan.release(curator, "the same", "5a17", began=datetime(2024, 1, 1, tzinfo=UTC)))
    for other in made[1:]:
        assert other.provenance == made[0].provenance
        for part in ("faces", "vertical", "horizontal"):
            np.testing.assert_array_equal(getattr(other.histogram, part), getattr(made[0].histogram, part))
        for name in made[0].slices:
            assert other.select([name]).trips == made[0].select([name]).trips
    assert 1 < made[0].provenance.unit.max_trips < plan.unit.max_trips
    assert made[0].provenance.max_trips_chosen


FLOWS: dict[str, dict[str, Any]] = {
    "trips": {},
    "trips, with slices": {"by": HOURS},
    "persons, with slices": {"unit": "person", "max_trips": 2, "by": HOURS},
    "persons, a chosen number": {"unit": "person", "max_trips": "auto", "delta": 1e-6},
}


@pytest.mark.parametrize("choices", FLOWS)
def test_flows_are_the_same_and_need_no_more_scans(
    shuffled: Path, spark: Any, choices: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their questions are in the first scan of all trips. If the number of trips is chosen first, one more scan counts
    how many each person has."""
    scans = []
    for kind in (Disk, Spark):

        def noted(self: Any, aggregates: Any, add_up: Any = kind.add_up) -> Any:
            scans.append(len(aggregates))
            return add_up(self, aggregates)

        monkeypatch.setattr(kind, "add_up", noted)
    made, most = [], 3 if "chosen" in choices else 2
    for flows, engine in ((True, "local"), (True, "duckdb"), (True, "spark"), (False, "duckdb")):
        plan = Plan.of(GRID, 4, flows=flows, **FLOWS[choices])
        source = dqam.read(spark.read.parquet(str(shuffled)) if engine == "spark" else shuffled)
        source = source if plan.slicing is None else source.sliced(plan.slicing)
        scans.clear()
        with aggregates_of(plan, source, ContributionBound(plan.unit, "5a17"), engine) as aggregates:
            curator = Curator(aggregates, Budget.of(plan.promise), SeededNoise(7), plan.unit)
            made.append(plan.release(curator, "the same", "5a17", began=datetime(2024, 1, 1, tzinfo=UTC)))
        assert len(scans) == (0 if engine == "local" else most)
    ours = made[0]
    for theirs in made[1:3]:
        assert {name: fingerprint(value) for name, value in vars(theirs).items()} == {
            name: fingerprint(value) for name, value in vars(ours).items()
        }
    assert ours.flow_table is not None
    assert ours.flow_table.total == pytest.approx(float(ours.trips))
    assert made[3].flow_table is None
    asked = {entry.name for entry in ours.provenance.paid}
    assert asked >= {"Trips by origin", "Trips by destination", "Trips by origin and destination"}


@pytest.mark.parametrize("unit", [Unit.trip(), Unit.person(2)], ids=str)
def test_pairs_are_the_same_in_all_engines(shuffled: Path, spark: Any, unit: Unit) -> None:
    slices, finest = len(HOURS), Lattice.even(GRID, 32)
    whole, uneven = Lattice.even(GRID, 1), Lattice.even(GRID, 5)
    questions = (
        *(PairCounts(*pair) for pair in ((finest, finest), (LATTICE, uneven), (whole, LATTICE), (LATTICE, whole))),
        *(Sliced(PairCounts(*pair), slices) for pair in ((uneven, LATTICE), (whole, whole))),
    )
    found = []
    for trips, engine in (
        (shuffled, "local"),
        (shuffled, "duckdb"),
        (spark.read.parquet(str(shuffled)), "spark"),
    ):
        plan = Plan.of(GRID, 1, unit=unit.name, max_trips=unit.max_trips, by=HOURS, flows=True)
        source = dqam.read(trips).sliced(HOURS)
        with aggregates_of(plan, source, ContributionBound(unit, "5a17"), engine) as aggregates:
            found.append([aggregates.value(each) for each in questions])
            counted = int(aggregates.value(TripCount())[0])
    for ours, *theirs in zip(*found, strict=True):
        assert ours.sum() == counted > 0
        for each in theirs:
            np.testing.assert_array_equal(ours, each)


def test_engines_are_narrowed_only_after_the_first_scan(kinds: Path, spark: Any) -> None:
    bound, source = ContributionBound(Unit.person(9), "5a17"), dqam.read(kinds)
    with Disk(source, bound, GRID) as disk, pytest.raises(InputError, match="only after the first scan"):
        disk.narrowed(1)
    with (
        Spark(dqam.read(spark.read.parquet(str(kinds))), bound, GRID) as cluster,
        pytest.raises(InputError, match="only after the first scan"),
    ):
        cluster.narrowed(1)


@pytest.mark.parametrize("mechanism", ["flux", "dqam"])
def test_releases_are_the_same_after_two_scans(shuffled: Path, engine: Make, mechanism: str) -> None:
    plan, bound = Plan.of(GRID, 4, mechanism), ContributionBound(Unit.trip(), "")
    made = []
    for scan_by in (in_memory(shuffled), engine):
        with scan_by(plan, bound) as aggregates:
            made.append(plan.release(Curator(aggregates, Budget(4), SeededNoise(7)), "the same"))
            assert aggregates.scans <= 2 or scan_by is not engine
    ours, theirs = made
    asked = random_rectangles(GRID, 500, np.random.default_rng(0))
    np.testing.assert_array_equal(ours.histogram.answers(asked), theirs.histogram.answers(asked))
    for part in ("faces", "vertical", "horizontal"):
        np.testing.assert_array_equal(getattr(ours.histogram, part), getattr(theirs.histogram, part))
    assert ours.provenance.paid == theirs.provenance.paid


@pytest.mark.parametrize("exchange", [False, True], ids=["Gaussian", "exchange"])
def test_flux_is_the_same_after_two_scans_under_a_delta(shuffled: Path, exchange: bool) -> None:
    """What follows the choice of the cap in squares was added up with it, as it is without a delta."""
    plan, bound = Plan.of(GRID, 4, "flux"), ContributionBound(Unit.trip(), "")
    made = []
    for engine in ("local", "duckdb"):
        with aggregates_of(plan, dqam.read(shuffled), bound, engine, 800 << 20) as aggregates:
            budget = Budget.of(Promise.of(4, "1e-12" if exchange else 1e-6))  # a pure budget is better for the first
            curator = Curator(aggregates, budget, SeededNoise(7), may_exchange=lambda: exchange)
            histogram = plan.mechanism.synthesize(curator, plan.queries, budget).histogram
            made.append((histogram, curator))
            assert aggregates.scans <= 2 or engine == "local"
    (ours, one), (theirs, other) = made
    asked = {entry.name for entry in one.paid}
    assert {ShadowQuantile.name, ShadowSums.name, WalkSums.name} <= asked
    assert one.concentrated == other.concentrated == (not exchange)
    assert one.paid == other.paid
    for part in ("faces", "vertical", "horizontal"):
        np.testing.assert_array_equal(getattr(ours, part), getattr(theirs, part))


def test_all_sums_in_l2_are_the_same(shuffled: Path) -> None:
    plan, bound = Plan.of(GRID, 1), ContributionBound(Unit.trip(), "")
    with (
        in_memory(shuffled)(plan, bound) as ours,
        aggregates_of(plan, dqam.read(shuffled), bound, "duckdb", 800 << 20) as theirs,
    ):
        finer = ((LATTICE, (1, 3, 40)),)
        for aggregate in (
            ShadowSizes(LATTICE, 3, CAPS, 2, finer),
            CappedShadows(LATTICE, 3, CAPS[[1]], 2),
            ScaledWalks(LATTICE, 3, np.array([3]), 2),
        ):
            found = theirs.total(aggregate)
            assert found.any()
            np.testing.assert_array_equal(ours.total(aggregate), found)
            assert theirs.scans == 2  # the first, and all of these together
        theirs.total(ScaledWalks(LATTICE, 3, np.array([3]), 1))
        assert theirs.scans == 3


SLICING = Slicing.parse("hour*kind=bike,car,7", "America/New_York")


@pytest.fixture(scope="session")
def kinds(shuffled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shuffled points with a kind that changes from point to point, and some with the time of another."""
    folder, rng = tmp_path_factory.mktemp("kinds"), np.random.default_rng(0)
    points = pd.read_parquet(shuffled)
    points["kind"] = rng.choice(["bike", " car\u2003", "7", "x" * 2_000, "other", "", None], len(points))
    points["datetime"] = points["datetime"].dt.floor("5min")
    for part in range(4):
        points[part::4].to_parquet(folder / f"{part}.parquet", coerce_timestamps="us")
    return folder


def sliced_values(trips: Any, unit: Unit, by: str, slicing: Slicing = SLICING) -> list[np.ndarray]:
    """What an engine gives for each statistic by slice, after one scan and after two."""
    plan = Plan.of(GRID, 1, unit=unit.name, max_trips=unit.max_trips)
    source, statistics = dqam.read(trips).sliced(slicing), (TripCount(), QueryTotals(plan.queries[:50]))
    with aggregates_of(plan, source, ContributionBound(unit, "5a17"), by, 800 << 20) as aggregates:
        assert aggregates.slices == len(slicing)
        curator = Curator(aggregates, Budget(1), SeededNoise(0), unit)
        assert curator.slices == len(slicing)
        found = [aggregates.value(Sliced(each, len(slicing))) for each in statistics]
        whole = [aggregates.value(each) for each in statistics]
        for each, total in zip(found, whole, strict=True):
            np.testing.assert_array_equal(each.reshape(len(slicing), -1).sum(axis=0), total)
        assert whole[0][0] > 100
        return found


@pytest.mark.parametrize("unit", [Unit.trip(), Unit.person(2)], ids=str)
@pytest.mark.parametrize("by", ["duckdb", "spark"])
def test_slices_are_the_same_in_all_engines(kinds: Path, by: str, unit: Unit, request: pytest.FixtureRequest) -> None:
    """Also where points have the same time, and another kind: walks may differ there, but no slice does."""
    spark = request.getfixturevalue("spark") if by == "spark" else None
    ours = sliced_values(kinds, unit, "local")
    theirs = sliced_values(kinds if spark is None else spark.read.parquet(str(kinds)), unit, by)
    np.testing.assert_array_equal(ours[0], theirs[0])
    if by == "duckdb":
        np.testing.assert_array_equal(ours[1], theirs[1])
    filled = ours[0].reshape(24, 4).sum(axis=0)
    assert (filled > 0).all()


def test_shuffled_rows_are_in_the_same_slices(kinds: Path, spark: Any) -> None:
    points = pd.read_parquet(kinds)
    again = points.sample(frac=1, random_state=3)
    first = sliced_values(points, Unit.trip(), "local")[0]
    for by in ("local", "duckdb"):
        np.testing.assert_array_equal(first, sliced_values(again, Unit.trip(), by)[0])
    kind = Slicing.parse("kind=car,bike")
    frame = spark.read.parquet(str(kinds))
    for unit in (Unit.trip(), Unit.person(1)):
        ours, theirs = (sliced_values(trips, unit, by, kind) for trips, by in ((again, "local"), (frame, "spark")))
        np.testing.assert_array_equal(ours[0], theirs[0])


def test_kinds_of_other_types_are_the_same_in_spark(kinds: Path, spark: Any) -> None:
    frame = spark.read.parquet(str(kinds))
    numbers = Slicing.parse("number=0,1,2")
    points = pd.read_parquet(kinds)
    for cast in ("bigint", "double", "decimal(9,0)", "array<bigint>"):
        number = "pmod(uid, 4)" if "array" not in cast else "array(uid)"
        as_kind = frame.selectExpr("*", f"CAST({number} AS {cast}) AS number")
        theirs = sliced_values(as_kind, Unit.trip(), "spark", numbers)[0]
        mine = points.assign(number=points["uid"] % 4 if "array" not in cast else "none")
        np.testing.assert_array_equal(theirs, sliced_values(mine, Unit.trip(), "local", numbers)[0])


def test_points_that_are_dropped_do_not_keep_a_place(shuffled: Path, spark: Any, tmp_path: Path) -> None:
    """Trips of which nothing is left are gone before a person's trips are chosen, in every engine; some parts of
    Spark have no trips then."""
    points = pd.read_parquet(shuffled)
    points = points[points.uid.isin(points.uid.unique()[:40])]
    names = points.tid.unique()
    points.loc[points.tid.isin(names[::2]), "lng"] = 999.0
    points.loc[points.tid.isin(names[1::6]), "datetime"] = pd.NaT
    points.to_parquet(tmp_path / "drop.parquet", coerce_timestamps="us")
    plan, bound = Plan.of(GRID, 1, unit="person", max_trips=1), ContributionBound(Unit.person(1), "5a17")
    frame = spark.read.parquet(str(tmp_path))
    made = []
    for trips, engine in ((tmp_path, "local"), (tmp_path, "duckdb"), (frame, "spark")):
        with aggregates_of(plan, dqam.read(trips, on_error="drop"), bound, engine) as aggregates:
            made.append((int(aggregates.total(TripsOnGrid())[0]), aggregates.total(EndpointsByCell()).tolist()))
        with (
            pytest.raises(InputError, match="invalid coordinates|no time"),
            aggregates_of(plan, dqam.read(trips, on_error="fail"), bound, engine),
        ):
            pass
    assert made[0] == made[1] == made[2]
    assert made[0][0] > 0


def test_persons_are_trips_where_trips_have_no_ids(spark: Any, shuffled: Path) -> None:
    """Points at the same time stay as they came, but in Spark, where that is not known."""
    plan, bound = Plan.of(GRID, 1, unit="person", max_trips=1), ContributionBound(Unit.person(1), "5a")
    found = []
    for trips, engine in ((shuffled, "local"), (shuffled, "duckdb"), (spark.read.parquet(str(shuffled)), "spark")):
        with aggregates_of(plan, dqam.read(trips, columns={"trip": ""}), bound, engine) as aggregates:
            found.append((int(aggregates.total(TripsOnGrid())[0]), aggregates.total(MassByCell()).tolist()))
    assert found[0] == found[1]
    assert found[0][0] == found[2][0] == pd.read_parquet(shuffled).uid.nunique()


def test_publish_from_every_engine(shuffled: Path, spark: Any, tmp_path: Path) -> None:
    book = Ledger.open(tmp_path / "ledger.db")
    for engine in ("local", "duckdb", "spark"):
        release = publish(shuffled, GRID, 50, dataset="city", total=200, ledger=book, engine=engine, sure=True)
        assert abs(release.trips.value - TRIPS) < 20
    frame = publish(
        spark.read.parquet(str(shuffled)),
        GRID,
        50,
        unit="person",
        max_trips=1,
        dataset="people",
        ledger=book,
        sure=True,
    )
    persons = pd.read_parquet(shuffled).uid.nunique()
    assert abs(frame.trips.value / frame.provenance.factor - persons) < 20
    assert abs(frame.trips.value - TRIPS) < TRIPS / 2  # counts are made whole
    assert len(frame.provenance.salt) == 32


def test_the_command_takes_paths_and_urls(shuffled: Path, spark: Any, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.db"
    where = [str(side) for side in cities.BOUNDS]
    for i, (path, engine) in enumerate(
        ((f"file://{shuffled}", "spark"), (shuffled, "spark"), (f"file://{shuffled}", "duckdb"), (shuffled, "local"))
    ):
        saved = tmp_path / f"map{i}.nc"
        how = ["--engine", engine, "--memory", "800MiB", "--dataset", "city", "--ledger", ledger, "--total", "40"]
        done = run("publish", path, "--bounds", *where, "-k", "5", "--epsilon", "10", "-o", saved, *how)
        assert done.returncode == 0, done.stderr
        assert abs(dqam.open(saved).trips.value - TRIPS) < 60
    for path, engine, says in (
        (tmp_path / "nothing", "spark", "does not exist"),
        ("nowhere://x", "duckdb", "Unrecognized filesystem type"),
        (shuffled, "duckdb", "36.2 MiB of memory is too little"),
    ):
        more = ["--memory", "38MB"] if path == shuffled else []
        done = run(
            "publish", path, "--bounds", *where, "--epsilon", "1", "-o", tmp_path / "no.nc", "--engine", engine, *more,
            "--ledger", tmp_path / "other.db",
        )  # fmt: skip
        assert done.returncode == 2
        assert says in " ".join(done.stderr.split())
    assert not (tmp_path / "no.nc").exists()


def test_what_an_engine_can_not_do_is_refused_before_anything_is_spent(shuffled: Path, tmp_path: Path) -> None:
    book = Ledger.open(tmp_path / "ledger.db")
    book.register("known", 1, "trip")
    how: dict[str, Any] = {"dataset": "city", "ledger": book}
    points = pd.read_parquet(shuffled)
    for trips, more, says in (
        (shuffled, {"engine": "abacus"}, "no engine 'abacus'"),
        (shuffled, {"engine": "duckdb", "memory": 1000}, "too little"),
        (points.drop(columns="datetime"), {"engine": "duckdb"}, "has no time"),
        (dqam.read(points.assign(lng=999.0), on_error="fail"), {"engine": "duckdb"}, "^DataFrame: .* invalid coord"),
        (shuffled, {"engine": "duckdb", "unit": "person", "dataset": "known"}, "budget for the unit 'trip'"),
    ):
        with pytest.raises(InputError, match=says):
            publish(trips, GRID, 1, **(how | more))
    assert [(account.name, account.spent) for account in book.history()] == [("known", 0)]
