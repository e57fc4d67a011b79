"""Files that differ in one trip or person cannot be told apart by more than was charged, and planted faults show."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dqam import sources
from dqam.audit import neighbours
from dqam.audit.cases import WHOLE_MECHANISMS
from dqam.audit.formats import FORMATS, TripRow
from dqam.audit.hostile import NEIGHBOURS, random_neighbourhood
from dqam.audit.neighbours import (
    PURE,
    QUESTIONS,
    WITH_DELTA,
    AskedQuestion,
    FilePair,
    PairResults,
    ScriptedCurator,
    difference,
    exceeded,
    run_pairs,
)
from dqam.engines import spark as engine
from dqam.engines import spark_parts
from dqam.geometry.slicing import Slicing
from dqam.mechanisms import persons
from dqam.privacy.aggregates import InMemory
from dqam.privacy.contribution import ContributionBound
from dqam.privacy.curator import Curator
from dqam.publishing import plan
from dqam.sources import csv_table, grouping, parquet_table, points, source
from dqam.sources.validation import Validation
from dqam.statistics import (
    OF_PERSONS,
    PARTITIONS,
    PROVEN,
    SCORES,
    SHADOW,
    PairCounts,
    Sliced,
    TripCount,
    UniformityCosts,
)
from dqam.statistics.aggregate import Part
from dqam.statistics.pair_counts import PairsByCell
from dqam.statistics.person_trips import WHOLE, PersonTrips, TripsPerPerson
from dqam.statistics.question import CappedOnLattice
from dqam.statistics.shadow_sums import CappedShadows
from dqam.statistics.sliced import SlicedAggregate
from dqam.statistics.walk_sums import ScaledWalks
from dqam.values.guarantee import Promise, Unit
from tests.commands import run

CASES = [(name, by) for name, form in FORMATS.items() for by in form.engines if by != "spark"]


def compared(
    name: str, engine: str, neighbourhoods: int, seed: int = 0, promises: Sequence[Promise] = (PURE, WITH_DELTA)
) -> list[PairResults]:
    """The results for some neighbourhoods, of one unit after the other."""
    return list(run_pairs(neighbourhoods * NEIGHBOURS, seed, [engine], [name], promises=promises).values())


def assert_alike(results: list[PairResults]) -> None:
    """No pair is told apart, none is rejected, and in more than a quarter some exact vector changes."""
    for what, pair in (violation for result in results for violation in result.violations):
        pytest.fail(f"{what}\n{pair.smallest(what)}")
    assert sum(result.rejected for result in results) == 0
    assert sum(result.changed for result in results) > sum(result.pairs for result in results) / 4


def test_every_question_is_asked() -> None:
    assert {type(question) for question in QUESTIONS} == PROVEN


@pytest.mark.parametrize(("name", "by"), CASES)
def test_no_unit_shows(name: str, by: str) -> None:
    assert_alike(compared(name, by, len(FORMATS[name].units) if by == "local" else 2))


@pytest.mark.parametrize("promise", [PURE, WITH_DELTA], ids=str)
def test_no_unit_shows_under_either_promise(promise: Promise) -> None:
    assert_alike(compared("points, Arrow", "local", 4, 2, [promise]))


@pytest.mark.parametrize("promise", [PURE, WITH_DELTA], ids=str)
@pytest.mark.parametrize("name", ["flux", "mwem"])
def test_no_unit_shows_in_a_whole_mechanism(name: str, promise: Promise) -> None:
    results, files = PairResults(), random_neighbourhood(np.random.default_rng(5), "Trips", Unit.person(2))
    results.compare(files, "local", WHOLE_MECHANISMS[name], promise)
    assert_alike([results])


@pytest.mark.parametrize("promise", [PURE, WITH_DELTA], ids=str)
@pytest.mark.parametrize("by", ["local", "duckdb"])
@pytest.mark.parametrize("name", ["points, Parquet, scattered", "points, Parquet, text ids"])
def test_no_person_shows_where_m_is_chosen(
    name: str, by: str, promise: Promise, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the rule is by which answers decide: here it is a wild one, which often chooses a few trips."""
    monkeypatch.setattr(persons, "expected_error", lambda one, precision: 1e4 * one.kept % 1 + one.max_trips / 16)
    results, chosen = PairResults(), set()
    for seed in range(3):
        files = random_neighbourhood(np.random.default_rng(seed), name, Unit.person(2), size=4)
        results.compare(files, by, None, promise, chooses=True)
        curator = FilePair(files, [], by, None, promise, True).run(files.base)
        assert isinstance(curator, ScriptedCurator)
        chosen.add(curator.unit.max_trips)
    assert_alike([results])
    assert len(chosen) > 1  # or there was nothing to choose


FLUX = WHOLE_MECHANISMS["flux"]
STRONG = [Promise.of(40), Promise.of(40, 1e-8)]


def published(name: str, by: str, unit: Unit, promise: Promise, chooses: bool, seed: int = 3) -> PairResults:
    """The results for releases with slices and flows, which do not end early."""
    files = random_neighbourhood(np.random.default_rng(seed), name, unit, size=4)
    results = PairResults()
    results.compare(replace(files, wary=False), by, FLUX, promise, chooses, publishes=True)
    return results


@pytest.mark.parametrize("promise", STRONG, ids=str)
@pytest.mark.parametrize(
    ("unit", "chooses"), [(Unit.trip(), False), (Unit.person(2), False), (Unit.person(2), True)], ids=str
)
@pytest.mark.parametrize(
    ("name", "by"), [("points, Arrow", "local"), ("points, Parquet, scattered", "duckdb"), ("lines, CSV", "local")]
)
def test_no_unit_shows_in_releases_with_flows(name: str, by: str, unit: Unit, chooses: bool, promise: Promise) -> None:
    """From files to releases: the same questions are asked, each changes by no more than was charged, and with the same
    answers the releases are the same to the last bit."""
    if unit.name not in {each.name for each in FORMATS[name].units}:
        pytest.skip("Such files have no persons.")
    assert_alike([published(name, by, unit, promise, chooses)])


def test_flows_are_asked_and_paid_for() -> None:
    files = replace(random_neighbourhood(np.random.default_rng(3), "points, Arrow", Unit.person(2)), wary=False)
    for promise, chooses in product(STRONG, (False, True)):
        curator = FilePair(files, [], "local", FLUX, promise, chooses, publishes=True).run(files.base)
        assert isinstance(curator, ScriptedCurator)
        flows = curator.asked[-4:]  # by slice, origins, destinations, and pairs
        assert [each.question[0] for each in flows] == [Sliced, *3 * [PairCounts]]
        assert {each.norm for each in flows} == {2 if promise.delta else 1}
        assert {each.most for each in flows} == {curator.unit.max_trips ** (2 if promise.delta else 1)}


def test_the_norm_of_a_change_is_that_of_the_noise() -> None:
    files = random_neighbourhood(np.random.default_rng(5), "Trips", Unit.trip())
    for promise, norm in ((PURE, 1), (WITH_DELTA, 2)):
        curator = FilePair(files, [], "local", promise=promise).run(files.base)
        assert isinstance(curator, ScriptedCurator)
        assert {each.question[0]: each.norm for each in curator.asked} == {
            kind: 0 if kind in SCORES else 1 if kind in PARTITIONS else norm for kind in PROVEN - OF_PERSONS
        }
    kind = (TripCount, {}, 1)
    one, other = (AskedQuestion(kind, 2, 24, np.array(values)) for values in ([0, 2**40], [3, 2**40 + 4]))
    assert one.distance(other) == 25
    assert one.in_words(25) == "5 in the L2 norm"


@pytest.mark.parametrize("name", [name for name, form in FORMATS.items() if form.by_point or form.csv])
def test_no_unit_shows_in_files_that_are_read_in_pieces(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_table, "BLOCK", 700)  # bytes of CSV that are read at a time
    monkeypatch.setattr(parquet_table, "_BIG_ROW_GROUP", 0)  # bytes of Parquet that are
    monkeypatch.setattr(points, "_IN_MEMORY", 20)  # points that are sorted in memory
    assert_alike(compared(name, "local", 1, seed=1))


@pytest.fixture
def small_parts(spark: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session of Spark that divides even a few points into parts, and is asked the first question of each kind."""
    monkeypatch.setattr(engine, "LEAST", 8)
    monkeypatch.setattr(engine, "SPREAD", 2)
    monkeypatch.setattr(
        neighbours, "QUESTIONS", tuple({type(question): question for question in QUESTIONS[::-1]}.values())
    )


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("points, Parquet, sorted", Unit.trip()),
        ("points, Parquet, scattered", Unit.person(2)),
        ("points, Parquet, text ids", Unit.person(2)),
        ("points, Parquet, folder", Unit.trip()),
    ],
)
@pytest.mark.usefixtures("small_parts")
def test_no_unit_shows_on_a_cluster(name: str, unit: Unit) -> None:
    results = PairResults()
    files = random_neighbourhood(np.random.default_rng(1), name, unit, size=4)
    results.compare(files, "spark", chooses="scattered" in name)
    assert_alike([results])


# Planted faults

Fault = Callable[[pytest.MonkeyPatch], None]


def what_shows(name: str, by: str = "local", promises: Sequence[Promise] = (PURE, WITH_DELTA)) -> Iterator[str]:
    """What tells pairs of some neighbourhoods apart; one is made after the other, while the caller wants more."""
    for seed in range(12):
        for results in compared(name, by, 1, seed, promises):
            yield from (what for what, _ in results.violations)


def a_row_is_a_trip(patch: pytest.MonkeyPatch) -> None:
    """Every row is a trip, whatever its id."""
    patch.setattr(source, "join_pieces", lambda trips, again, validation: trips)


def first_row_decides(patch: pytest.MonkeyPatch) -> None:
    keep = Validation.valid_points

    def all_or_nothing(self: Validation, *given: Any, **named: Any) -> Any:
        inside = keep(self, *given, **named)
        return inside if inside is None or inside[0] else np.zeros_like(inside)

    patch.setattr(Validation, "valid_points", all_or_nothing)


def a_bad_row_vetoes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(neighbours, "source_of", lambda thing, engine: sources.read(thing, on_error="fail"))


def no_cap_on_shadows(patch: pytest.MonkeyPatch) -> None:
    add_up = CappedShadows.add_up
    patch.setattr(CappedShadows, "add_up", lambda self, part: add_up(replace(self, caps=0 * self.caps + 2**16), part))


def no_cap_on_walks(patch: pytest.MonkeyPatch) -> None:
    add_up = ScaledWalks.add_up
    patch.setattr(ScaledWalks, "add_up", lambda self, part: add_up(replace(self, caps=0 * self.caps + 2**16), part))


def l1_cap_taken_for_an_l2_cap(patch: pytest.MonkeyPatch) -> None:
    """The cap on the sum of numbers is charged as if it were one on the sum of squares."""
    patch.setattr(CappedOnLattice, "l2_squared", property(lambda self: self.cap * SHADOW**2))


def l2_is_not_multiplied(patch: pytest.MonkeyPatch) -> None:
    """Gaussian noise hides one trip of a person with two."""
    charge = Curator._charge

    def one_trip(self: Curator, *given: Any, **named: Any) -> Any:
        kind, asked, sensitivity, numerator, *rest = given
        numerator = numerator // self.unit.max_trips**2 if named.get("gaussian") else numerator
        return charge(self, kind, asked, sensitivity, numerator, *rest, **named)

    patch.setattr(Curator, "_charge", one_trip)


def all_trips_of_a_person(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ContributionBound, "places", lambda self, persons, trips=None: np.zeros(len(persons), np.int64))


def m_is_chosen_from_exact_numbers(patch: pytest.MonkeyPatch) -> None:
    """The most trips that a person has are kept of each."""

    def exact(curator: ScriptedCurator, budget: Any, choose: bool = False) -> None:
        curator.narrow(max(1, len(curator.aggregates.total(TripsPerPerson())) - 1))

    patch.setattr(neighbours, "measure_persons", exact)


def narrowed_in_name_only(patch: pytest.MonkeyPatch) -> None:
    """Fewer trips are charged for, but as many as before are counted."""
    patch.setattr(InMemory, "narrowed", lambda self, m: InMemory(self.walks, self.kept, Unit.person(m), self.slices))
    patch.setattr(neighbours, "measure_persons", lambda curator, budget, choose: curator.narrow(1))


def persons_are_merged(patch: pytest.MonkeyPatch) -> None:
    """By a sort that looks at the id of the trip alone."""
    columns_of = grouping._columns_of
    patch.setattr(grouping, "_columns_of", lambda part: (columns_of(part)[1], *columns_of(part)[1:]))


def a_person_counts_without_a_cap(patch: pytest.MonkeyPatch) -> None:
    """Beyond the last bound, a person adds all trips instead of 1."""
    value = PersonTrips.value

    def uncapped(self: PersonTrips, persons: Any) -> Any:
        found = value(self, persons)
        trips, last = np.arange(len(persons)), self.bounds[-1]
        step = WHOLE // (last - self.max_trips)
        found[-1] += (persons * np.maximum(trips - last, 0) * step).sum()
        return found

    patch.setattr(PersonTrips, "value", uncapped)


def a_person_is_charged_as_a_trip(patch: pytest.MonkeyPatch) -> None:
    """Statistics of trips are charged as if they were about persons: once, and not for each trip of a person."""
    patch.setattr(Curator, "_trips_charged", lambda self, statistic: 1)


def a_trip_is_in_two_slices(patch: pytest.MonkeyPatch) -> None:
    add_up = SlicedAggregate.add_up

    def twice(self: SlicedAggregate, part: Part) -> Any:
        found = add_up(self, part)
        return found + np.roll(found, 1, axis=0)

    patch.setattr(SlicedAggregate, "add_up", twice)


def a_trip_has_two_origins(patch: pytest.MonkeyPatch) -> None:
    counted = PairsByCell._counted

    def twice(self: PairsByCell, *given: Any) -> Any:
        found = counted(self, *given)
        return found + np.roll(found, 1, axis=1)

    patch.setattr(PairsByCell, "_counted", twice)


def every_piece_has_its_origin(patch: pytest.MonkeyPatch) -> None:
    """A trip that leaves the grid and returns is counted again."""
    counted = PairsByCell._counted

    def each_piece(self: PairsByCell, part: Part, on_grid: Any, groups: Any, count: int) -> Any:
        walks, pieces = part.walks, np.diff(part.walks.trips)[on_grid]
        of_pieces = SimpleNamespace(walks=SimpleNamespace(visits=walks.pieces, cells=walks.cells))
        return counted(self, of_pieces, np.repeat(on_grid, np.diff(walks.trips)), np.repeat(groups, pieces), count)  # type: ignore[arg-type]

    patch.setattr(PairsByCell, "_counted", each_piece)


def flows_are_not_multiplied(patch: pytest.MonkeyPatch) -> None:
    """A person is charged for one trip."""
    trips = Curator._trips_charged
    patch.setattr(Curator, "_trips_charged", lambda self, asked: 1 if type(asked) is PairCounts else trips(self, asked))


def the_exact_number_of_trips_is_published(patch: pytest.MonkeyPatch) -> None:
    """Flows add up to it."""
    estimate, measure, exact = plan.estimate_flows, plan.measure_flows, []

    def measured(curator: ScriptedCurator, *given: Any) -> Any:
        exact[:] = [float(curator.aggregates.value(TripCount())[0])]
        return measure(curator, *given)

    patch.setattr(plan, "measure_flows", measured)
    patch.setattr(plan, "estimate_flows", lambda asked, trips, *rest: estimate(asked, *exact, *rest))


def exact_trips_decide_the_tiles(patch: pytest.MonkeyPatch) -> None:
    """The answers of one file do not fit the questions about the other."""
    measure = plan.measure_flows
    patch.setattr(
        plan,
        "measure_flows",
        lambda curator, budget, trips: measure(
            curator, budget, 1000.0 * (curator.aggregates.value(TripCount())[0] % 2)
        ),
    )


@pytest.mark.parametrize(
    ("fault", "unit", "shows"),
    [
        (a_trip_has_two_origins, Unit.trip(), "Sliced changed"),
        (every_piece_has_its_origin, Unit.trip(), "Sliced changed"),
        (flows_are_not_multiplied, Unit.person(2), "PairCounts changed"),
        (the_exact_number_of_trips_is_published, Unit.trip(), "public values differ"),
        (exact_trips_decide_the_tiles, Unit.trip(), "rejected only with the unit"),
    ],
)
@pytest.mark.parametrize("promise", STRONG, ids=str)
def test_a_fault_in_flows_shows(
    fault: Fault, unit: Unit, shows: str, promise: Promise, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    found = (
        what
        for seed in range(12)
        for what, _ in published("points, Arrow", "local", unit, promise, False, seed).violations
    )
    assert any(shows in what for what in found)


def the_first_row_decides_the_slice(patch: pytest.MonkeyPatch) -> None:
    kinds = Slicing.kinds

    def all_alike(self: Slicing, column: Any) -> Any:
        found = kinds(self, column)
        return np.full_like(found, found[:1].sum())

    patch.setattr(Slicing, "kinds", all_alike)


def too_little_is_charged(patch: pytest.MonkeyPatch) -> None:
    """Too little by one, whatever is asked."""
    charge = Curator._charge

    def less(self: Curator, question: str, name: str, sensitivity: int, *rest: Any, **named: Any) -> Any:
        return charge(self, question, name, sensitivity - 1, *rest, **named)

    patch.setattr(Curator, "_charge", less)


@pytest.mark.parametrize(
    ("fault", "name", "shows"),
    [
        (a_row_is_a_trip, "polylines, CSV", "TripCount changed"),
        (a_row_is_a_trip, "lines, GeoParquet, plain id", "TripCount changed"),
        (a_row_is_a_trip, "Trips", "TripCount changed"),
        (first_row_decides, "points, CSV", " changed"),
        (first_row_decides, "points, Parquet, scattered", " changed"),
        (a_bad_row_vetoes, "points, Parquet, text ids", "rejected only with"),
        (a_bad_row_vetoes, "lines, CSV", "rejected only with"),
        (no_cap_on_shadows, "points, Arrow", "ShadowSums changed"),
        (all_trips_of_a_person, "points, pandas", "TripCount changed"),
        (persons_are_merged, "points, Parquet, scattered", " changed"),
        (a_person_counts_without_a_cap, "points, pandas", "PersonTrips changed"),
        (a_person_is_charged_as_a_trip, "points, pandas", "TripCount changed"),
        (a_trip_is_in_two_slices, "points, Parquet, scattered", "Sliced changed"),
        (a_trip_is_in_two_slices, "polylines, CSV", "Sliced changed"),
        (a_trip_has_two_origins, "points, pandas", "PairCounts changed"),
        (every_piece_has_its_origin, "points, Arrow", "PairCounts changed"),
        (the_first_row_decides_the_slice, "points, CSV", "Sliced changed"),
        (the_first_row_decides_the_slice, "lines, CSV", "Sliced changed"),
    ],
)
def test_a_fault_shows(fault: Fault, name: str, shows: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    assert any(shows in what for what in what_shows(name))


@pytest.mark.parametrize(
    ("fault", "name", "shows"),
    [
        (no_cap_on_shadows, "points, Arrow", "ShadowSums changed"),
        (no_cap_on_walks, "points, Arrow", "WalkSums changed"),
        (l1_cap_taken_for_an_l2_cap, "points, Arrow", "ShadowSums changed"),
        (l2_is_not_multiplied, "points, pandas", "TripCount changed"),
    ],
)
def test_a_fault_shows_in_the_l2_norm(fault: Fault, name: str, shows: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    found = (what for what in what_shows(name, promises=[WITH_DELTA]) if shows in what)
    assert "in the L2 norm" in next(found)


@pytest.mark.parametrize("fault", [m_is_chosen_from_exact_numbers, narrowed_in_name_only])
def test_a_wrong_choice_of_m_shows(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    monkeypatch.setattr(neighbours, "QUESTIONS", (TripCount(),))
    found = PairResults()
    for seed in range(10):
        files = random_neighbourhood(np.random.default_rng(seed), "points, pandas", Unit.person(2))
        found.compare(files, "local", chooses=True)
    shows = "public values differ" if fault is m_is_chosen_from_exact_numbers else "TripCount changed"
    assert any(shows in what for what, _ in found.violations)


@pytest.mark.usefixtures("small_parts")
def test_ids_that_are_taken_for_others_on_a_cluster_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """White space around ids sends their rows to another part, if it is not removed."""
    monkeypatch.setattr(spark_parts, "SPACES", "x")
    monkeypatch.setattr(neighbours, "QUESTIONS", (TripCount(),))
    assert any("TripCount changed" in what for what in what_shows("points, Parquet, text ids", "spark"))


@pytest.mark.parametrize("promise", [PURE, WITH_DELTA], ids=str)
def test_every_sensitivity_is_reached(promise: Promise, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sensitivity that is too small by one shows; except that of uniformity costs, which includes more rounding than
    can occur, and some caps on a lattice whose bound in the other norm is not tight or is rounded."""
    too_little_is_charged(monkeypatch)
    of_trips = {i for i, question in enumerate(QUESTIONS) if is_reached(question, promise)}
    of_persons = {i for i in of_trips if type(QUESTIONS[i]) in OF_PERSONS}
    assert_reached(of_trips - of_persons, Unit.trip(), promise)
    assert_reached(of_persons, Unit.person(2), promise)


def assert_reached(hidden: set[int], unit: Unit, promise: Promise) -> None:
    for seed in range(40):
        files = random_neighbourhood(np.random.default_rng(seed), "points, Arrow", unit)
        pair = FilePair(files, [], "local", promise=promise)
        first, *others = (pair.run(rows) for rows in (files.base, *map(rows_of, files.neighbours)))
        assert isinstance(first, ScriptedCurator)
        for second in others:
            assert isinstance(second, ScriptedCurator)
            hidden -= exceeded(first, second).keys()
        if not hidden:
            return
    pytest.fail(f"Sensitivities that are never reached: {[QUESTIONS[i] for i in hidden]}")


def is_reached(question: Any, promise: Promise) -> bool:
    """Whether some trip changes it by its sensitivity. In the L2 norm, a trip in one cell reaches a cap."""
    if not isinstance(question, CappedOnLattice):
        return type(question) is not UniformityCosts
    if not promise.delta:
        return question.norm == 1
    return question.cap <= question.endpoint_weight if question.norm == 1 else question.cap == 9


def rows_of(neighbour: list[tuple[bool, TripRow]]) -> list[TripRow]:
    return [row for _, row in neighbour]


def test_questions_that_the_data_decide_show() -> None:
    class Peeking:
        def synthesize(self, curator: Any, queries: Any, budget: Any) -> None:
            for _ in range(int(curator._aggregates.value(TripCount())[0])):
                curator.measure(TripCount(), budget, 1)

    results, files = PairResults(), random_neighbourhood(np.random.default_rng(3), "Trips", Unit.trip())
    results.compare(files, "local", Peeking())  # type: ignore[arg-type]
    assert {what for what, _ in results.violations} == {"different questions are asked"}


def test_a_violation_is_shown_with_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    a_row_is_a_trip(monkeypatch)
    results = (result for seed in range(12) for result in compared("polylines, CSV", "local", 1, seed))
    what, pair = next(violation for result in results for violation in result.violations)
    smallest = pair.smallest(what)
    assert len(smallest.rows) <= 3
    assert smallest.difference().startswith(what.split()[0])
    assert str(smallest).startswith("polylines, CSV, local")
    assert difference(ValueError(), ValueError()) == ""


def test_the_command_counts_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    fine = run("audit", "neighbours", "--pairs", "12", "--json")
    assert fine.returncode == 0
    assert '"failed": 0' in fine.stdout
    too_little_is_charged(monkeypatch)
    broken = run("audit", "neighbours", "--pairs", "12")
    assert broken.returncode == 1
    assert "reveal a fault" in broken.stderr
