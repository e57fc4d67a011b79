"""Files that differ in one trip or person cannot be told apart by more than is charged; and planted faults show."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from dqam import sources
from dqam.audit import neighbours
from dqam.audit.hostile import FORMATS, STAR, Row, star
from dqam.audit.neighbours import QUESTIONS, Count, Pair, Prompted, exceeded, run_pairs, told
from dqam.engines import spark as engine
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.contribution import ContributionBound
from dqam.privacy.curator import TREES, Curator
from dqam.sources import grouping, points, tables
from dqam.sources.validation import Intake
from dqam.statistics import SCORES, STATISTICS, TripCount, UniformityCosts
from dqam.values.guarantee import Unit
from tests.commands import run

CASES = [(name, by) for name, form in FORMATS.items() for by in form.engines if by != "spark"]


def pairs_of(name: str, engine: str, stars: int, seed: int = 0) -> list[Count]:
    """What became of so many stars, of one unit after the other."""
    return list(run_pairs(stars * STAR, seed, [engine], [name]).values())


def assert_alike(counts: list[Count]) -> None:
    """Nothing shows, nothing is refused, and most of it is about something."""
    for what, pair in (found for count in counts for found in count.violations):
        pytest.fail(f"{what}\n{pair.smallest(what)}")
    assert sum(count.refused for count in counts) == 0
    assert sum(count.moved for count in counts) > sum(count.pairs for count in counts) / 4


def test_every_question_is_asked() -> None:
    assert {type(question) for question in QUESTIONS} == STATISTICS | SCORES | TREES


@pytest.mark.parametrize(("name", "by"), CASES)
def test_no_unit_shows(name: str, by: str) -> None:
    assert_alike(pairs_of(name, by, len(FORMATS[name].units) if by == "local" else 2))


@pytest.mark.parametrize("name", [name for name, form in FORMATS.items() if form.by_point or form.csv])
def test_no_unit_shows_in_files_that_are_read_in_pieces(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BLOCK", 700)  # bytes of CSV that are read at a time
    monkeypatch.setattr(tables, "_BIG_ROW_GROUP", 0)  # bytes of Parquet that are
    monkeypatch.setattr(points, "_IN_MEMORY", 20)  # points that are sorted in memory
    assert_alike(pairs_of(name, "local", 1, seed=1))


@pytest.fixture
def small_parts(spark: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session of Spark, which divides a few points into parts, and is asked no more than three times."""
    monkeypatch.setattr(engine, "LEAST", 8)
    monkeypatch.setattr(engine, "SPREAD", 2)
    monkeypatch.setattr(neighbours, "QUESTIONS", QUESTIONS[:-1])


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
    count = Count()
    count.compare(star(np.random.default_rng(1), name, unit, size=4), "spark")
    assert_alike([count])


# Planted faults

Fault = Callable[[pytest.MonkeyPatch], None]


def what_shows(name: str, by: str = "local") -> Iterator[str]:
    """What tells pairs of some stars apart; no more are made than are asked for."""
    for seed in range(12):
        for count in pairs_of(name, by, 1, seed):
            yield from (what for what, _ in count.violations)


def a_row_is_a_trip(patch: pytest.MonkeyPatch) -> None:
    """As the polyline reader had it, whatever the id."""
    patch.setattr(sources, "joined", lambda trips, again, intake: trips)


def first_row_decides(patch: pytest.MonkeyPatch) -> None:
    keep = Intake.keep

    def all_or_nothing(self: Intake, *given: Any, **named: Any) -> Any:
        inside = keep(self, *given, **named)
        return inside if inside is None or inside[0] else np.zeros_like(inside)

    patch.setattr(Intake, "keep", all_or_nothing)


def a_bad_row_vetoes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(neighbours, "source_of", lambda thing, engine: sources.read(thing, on_error="fail"))


def no_cap_on_shadows(patch: pytest.MonkeyPatch) -> None:
    table = Aggregates.shadow_table
    patch.setattr(Aggregates, "shadow_table", lambda self, on, weight, caps: table(self, on, weight, 0 * caps + 2**16))


def all_trips_of_a_person(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ContributionBound, "mask", lambda self, persons, trips=None: np.ones(len(persons), np.bool_))


def persons_are_merged(patch: pytest.MonkeyPatch) -> None:
    """By a sort that looks at the id of the trip alone."""
    columns_of = grouping._columns_of
    patch.setattr(grouping, "_columns_of", lambda part: (columns_of(part)[1], *columns_of(part)[1:]))


def too_little_is_charged(patch: pytest.MonkeyPatch) -> None:
    """By one, whatever is asked."""
    charge = Curator._charge

    def less(self: Curator, question: str, name: str, sensitivity: int, *rest: Any) -> Any:
        return charge(self, question, name, sensitivity - 1, *rest)

    patch.setattr(Curator, "_charge", less)


@pytest.mark.parametrize(
    ("fault", "name", "shows"),
    [
        (a_row_is_a_trip, "polylines, CSV", "TripCount moved"),
        (a_row_is_a_trip, "lines, GeoParquet, plain id", "TripCount moved"),
        (a_row_is_a_trip, "Trips", "TripCount moved"),
        (first_row_decides, "points, CSV", " moved"),
        (first_row_decides, "points, Parquet, scattered", " moved"),
        (a_bad_row_vetoes, "points, Parquet, text ids", "refused only with"),
        (a_bad_row_vetoes, "lines, CSV", "refused only with"),
        (no_cap_on_shadows, "points, Arrow", "ShadowSums moved"),
        (all_trips_of_a_person, "points, pandas", "TripCount moved"),
        (persons_are_merged, "points, Parquet, scattered", " moved"),
    ],
)
def test_a_fault_shows(fault: Fault, name: str, shows: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    assert any(shows in what for what in what_shows(name))


@pytest.mark.usefixtures("small_parts")
def test_ids_that_are_taken_for_others_on_a_cluster_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """As white space around them may send their rows to another part."""
    monkeypatch.setattr(engine, "SPACES", "x")
    assert any("TripCount moved" in what for what in what_shows("points, Parquet, text ids", "spark"))


def test_every_sensitivity_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that one which is too small by one shows; but for uniformity costs, where more rounding is paid for than there
    can be."""
    too_little_is_charged(monkeypatch)
    hidden = {i for i, question in enumerate(QUESTIONS) if type(question) is not UniformityCosts}
    for seed in range(40):
        some = star(np.random.default_rng(seed), "points, Arrow", Unit.trip())
        first, *others = (Pair(some, [], "local").run(rows) for rows in (some.base, *map(rows_of, some.files)))
        assert isinstance(first, Prompted)
        for second in others:
            assert isinstance(second, Prompted)
            hidden -= exceeded(first, second).keys()
        if not hidden:
            return
    pytest.fail(f"Sensitivities that are never reached: {[QUESTIONS[i] for i in hidden]}")


def rows_of(file: list[tuple[bool, Row]]) -> list[Row]:
    return [row for _, row in file]


def test_questions_that_the_data_decide_show() -> None:
    class Peeking:
        def synthesize(self, curator: Any, queries: Any, budget: Any) -> None:
            for _ in range(int(curator._records.trips()[0])):
                curator.measure(TripCount(), budget, 1)

    found = Count()
    found.compare(star(np.random.default_rng(3), "Trips", FORMATS["Trips"].units[0]), "local", Peeking())  # type: ignore[arg-type]
    assert {what for what, _ in found.violations} == {"different questions are asked"}


def test_a_violation_is_shown_with_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    a_row_is_a_trip(monkeypatch)
    counts = (count for seed in range(12) for count in pairs_of("polylines, CSV", "local", 1, seed))
    what, pair = next(found for count in counts for found in count.violations)
    smallest = pair.smallest(what)
    assert len(smallest.rows) <= 3
    assert smallest.told().startswith(what.split()[0])
    assert str(smallest).startswith("polylines, CSV, local")
    assert told(ValueError(), ValueError()) == ""


def test_the_command_counts_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    fine = run("audit", "neighbours", "--pairs", "12", "--json")
    assert fine.returncode == 0
    assert '"failed": 0' in fine.stdout
    too_little_is_charged(monkeypatch)
    broken = run("audit", "neighbours", "--pairs", "12")
    assert broken.returncode == 1
    assert "can be told apart" in broken.stderr
