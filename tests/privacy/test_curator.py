import copy
import pickle
from contextlib import suppress
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from dqam.errors import BudgetError, InputError
from dqam.geometry.grid import Grid
from dqam.geometry.lattice import Lattice
from dqam.geometry.regions import Partition
from dqam.geometry.trips import Trips
from dqam.geometry.walks import Walks, walk
from dqam.privacy.aggregates import Aggregates, InMemory
from dqam.privacy.budget import Budget
from dqam.privacy.contribution import ContributionBound
from dqam.privacy.curator import Curator
from dqam.privacy.noise import OpenDPNoise, SeededNoise
from dqam.statistics import (
    MASS,
    CellShares,
    Crossings,
    DistinctCounts,
    Endpoints,
    LengthQuantile,
    QueryErrors,
    QueryTotals,
    ShadowSums,
    Statistic,
    TripCount,
    UniformityCosts,
    WalkSums,
)
from dqam.statistics.buckets import L1Buckets
from dqam.statistics.privtree import PrivTree
from dqam.values.guarantee import PaidQuestion, Promise, Unit
from tests.statistics.cases import ALL, ROWS, aggregates_of, some

GRID = Grid((0.0, 0.0, 4.0, 4.0), 4, 4)


def walks(n: int = 50) -> Walks:
    rng = np.random.default_rng(1)
    return walk(Trips(rng.uniform(0, 4, 3 * n), rng.uniform(0, 4, 3 * n), np.arange(0, 3 * n + 1, 3)), GRID)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notes each time the data is looked at."""
    seen: list[str] = []
    plain = InMemory.add_up
    monkeypatch.setattr(InMemory, "add_up", lambda *given: seen.append("scan") or plain(*given))
    monkeypatch.setattr(PrivTree, "grow", lambda *_: seen.append("grow"))
    return seen


def test_the_budget_is_charged_before_the_data_is_looked_at(looks: list[str]) -> None:
    budget = Budget(1)
    curator = Curator(walks(), budget, SeededNoise(0))
    curator.measure(TripCount(), budget, "0.75")
    assert looks == ["scan"]
    for ask in (
        lambda: curator.measure(TripCount(), budget, 0.5),
        lambda: curator.select(LengthQuantile.on(GRID, Fraction(1, 2)), budget, 0.5),
        lambda: curator.partition(PrivTree(), budget, 0.5),
    ):
        with pytest.raises(BudgetError, match="epsilon 0.5 was requested and 0.25 of 1 is left"):
            ask()
    assert looks == ["scan"]
    assert curator.spent == Fraction(3, 4)
    curator.partition(PrivTree(), budget)
    assert budget.left == 0
    with pytest.raises(BudgetError, match="is spent"):
        curator.measure(TripCount(), budget)


def test_only_the_budget_of_the_data_set_pays() -> None:
    curator = Curator(walks(), Budget(1, "city"), SeededNoise(0))
    with pytest.raises(BudgetError, match="mine is not part of city"):
        curator.measure(TripCount(), Budget(100, "mine"))
    part, _ = curator.budget.split(a=1, b=1)
    curator.measure(TripCount(), part.split(c=1)[0])
    assert curator.spent == Fraction(1, 2)


def test_only_budgets_pay_and_only_those_of_the_curator() -> None:
    class Free(Budget):
        def spend(self, epsilon: object) -> None:
            pass

    whole = Budget(2)
    mine, other = whole.split(mine=1, other=1)
    curator = Curator(walks(), mine, SeededNoise(0))
    for free in (Free(1, "free", mine), object()):
        with pytest.raises(BudgetError, match="paid from a Budget"):
            curator.measure(TripCount(), free)  # type: ignore[arg-type]
    for foreign in (whole, other):
        with pytest.raises(BudgetError, match="is not part of budget/mine"):
            curator.measure(TripCount(), foreign, 1)
    assert curator.spent == 0
    curator.measure(TripCount(), mine.split(all=1)[0])
    assert curator.spent == 1


def test_no_more_is_spent_than_the_curator_has(looks: list[str]) -> None:
    """Whatever the parts of the budget say."""
    curator = Curator(walks(), Budget(1), SeededNoise(0))
    curator.measure(TripCount(), curator.budget, "0.5")
    with pytest.raises(BudgetError, match="more than epsilon 1 was requested"):
        curator.partition(PrivTree(), Budget(10**6, "forged", _whole=curator.budget), "0.6")
    assert looks == ["scan"]
    assert curator.spent == Fraction(1, 2)


def test_a_closed_curator_answers_no_more(looks: list[str]) -> None:
    curator = Curator(walks(), Budget(1), SeededNoise(0))
    curator.measure(TripCount(), curator.budget, "0.5")
    curator.close()
    with pytest.raises(BudgetError, match="has ended"):
        curator.measure(TripCount(), curator.budget)
    assert looks == ["scan"]
    assert curator.spent == Fraction(1, 2)


def test_a_curator_does_not_tell_the_name_of_the_data_set() -> None:
    curator = Curator(walks(), Budget(2, "secret taxis"), SeededNoise(0))
    curator.measure(TripCount(), curator.budget, "0.5")
    assert repr(curator) == f"<Curator of trips on {GRID}, unit {Unit.trip()}, epsilon 0.5 of 2 spent>"


@pytest.mark.parametrize(
    ("question", "ask", "changes"),
    [
        (CellShares(), "measure", {"sensitivity": 1}),
        (QueryErrors(np.array([[0, 0, 1, 1]]), np.zeros(1)), "select", {"sensitivity": 0}),
        (PrivTree(), "partition", {"scale": lambda *_: Fraction(1)}),
        (L1Buckets(np.arange(16), 1.0), "partition", {"delta": "", "check": lambda _: None}),
    ],
)
def test_what_decides_the_noise_is_of_the_class(question: Any, ask: str, changes: dict[str, Any]) -> None:
    curator = Curator(walks(), Budget(1), SeededNoise(0))
    for name, value in changes.items():
        object.__setattr__(question, name, value)
    with pytest.raises(InputError, match="was changed: its"):
        getattr(curator, ask)(question, curator.budget)
    assert curator.spent == 0


def test_a_budget_can_not_be_copied_or_changed() -> None:
    budget = Budget(1)
    for copying in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied"):
            copying(budget)
    with pytest.raises(AttributeError):
        budget.amount = Fraction(99)  # type: ignore[misc]


def test_a_question_that_breaks_is_charged_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: TripCount, *totals: np.ndarray) -> np.ndarray:
        raise RuntimeError

    monkeypatch.setattr(TripCount, "value", broken)
    curator = Curator(walks(), Budget(1), SeededNoise(0))
    with pytest.raises(RuntimeError):
        curator.measure(TripCount(), curator.budget)
    assert curator.budget.left == 0
    assert curator.spent == 1


def test_only_questions_with_a_proof_are_answered() -> None:
    class Mine(TripCount):
        pass

    curator = Curator(walks(), Budget(1), SeededNoise(0))
    with pytest.raises(InputError, match="Mine is not a question with a proof"):
        curator.measure(Mine(), curator.budget)
    assert curator.spent == 0


def test_refusals_tell_nothing_of_the_data() -> None:
    """Whether a question is refused, and in which words, depends on public numbers alone."""
    for question in ("measure", "partition", "select"):
        said = set()
        for n in (1, 1234):
            curator = Curator(walks(n), Budget("1e-18"), OpenDPNoise())
            thing = {"measure": TripCount(), "partition": PrivTree(), "select": LengthQuantile.on(GRID, Fraction(1, 2))}
            with pytest.raises(InputError) as caught:
                getattr(curator, question)(thing[question], curator.budget)
            said.add(str(caught.value))
            assert curator.budget.left == curator.budget.amount
        assert len(said) == 1


class Recorder(SeededNoise):
    """Notes the scales that are asked for."""

    def __init__(self) -> None:
        super().__init__(0)
        self.scales: list[Fraction] = []

    def laplace(self, values: np.ndarray, scale: Fraction) -> np.ndarray:
        self.scales.append(scale)
        return super().laplace(values, scale)

    def gaussian(self, values: np.ndarray, scale: Fraction) -> np.ndarray:
        self.scales.append(scale)
        return super().gaussian(values, scale)

    def noisy_max(self, scores: np.ndarray, scale: Fraction) -> int:
        self.scales.append(scale)
        return super().noisy_max(scores, scale)

    def gumbel_max(self, scores: np.ndarray, scale: Fraction) -> int:
        self.scales.append(scale)
        return super().gumbel_max(scores, scale)


@pytest.mark.parametrize("unit", [Unit.trip(), Unit.person(3)])
def test_the_noise_that_is_drawn_has_the_scale_in_the_ledger(unit: Unit) -> None:
    noise, m = Recorder(), unit.max_trips
    curator = Curator(walks(), Budget(2), noise, unit, [str(i // 2) for i in range(50)])
    parts = curator.budget.split(a=1, b=1, c=2)
    curator.measure(TripCount(), parts[0])
    curator.select(LengthQuantile(np.array([1, 2]), Fraction(1, 4)), parts[1])
    curator.partition(PrivTree(), parts[2])
    assert noise.scales[:2] == [Fraction(2 * m), Fraction(2 * 3 * m * 2)]
    assert set(noise.scales[2:]) == {Fraction(7 * MASS * m, 3)}
    assert [entry.scale for entry in curator.paid] == [*noise.scales[:2], noise.scales[2]]


def test_the_ledger_tells_all() -> None:
    budget = Budget(1)
    curator = Curator(walks(), budget, SeededNoise(0), Unit.person(3), ["a"] * 25 + ["b"] * 25)
    counted, tree, length = budget.split(counted=1, tree=2, length=1)
    curator.measure(TripCount(), counted)
    curator.partition(PrivTree(), tree)
    curator.select(LengthQuantile(np.array([1, 2]), Fraction(9, 10)), length)
    assert curator.paid == (
        PaidQuestion("measure", "Number of trips", 3, Fraction(1, 4), Fraction(12)),
        PaidQuestion(
            "partition", "Regions of similar density (PrivTree)", 3 * MASS, Fraction(1, 2), Fraction(14 * MASS), MASS
        ),
        PaidQuestion("select", "Cap on the length of a trip", 27, Fraction(1, 4), Fraction(2 * 27 * 4)),
    )
    assert curator.spent == 1
    with pytest.raises(AttributeError):
        curator.paid[0].epsilon = Fraction(0)  # type: ignore[misc]


@pytest.mark.parametrize("budget", [Budget(9), Budget(9, concentrated=True)], ids=repr)
def test_fewer_trips_of_a_person_are_counted_and_charged_for_after_narrowing(budget: Budget) -> None:
    """The exact values are those of a curator that kept fewer trips from the start."""
    persons, bound = [str(i // 10) for i in range(50)], ContributionBound(Unit.person(8), "5a")
    places = bound.places(persons)
    assert places is not None
    shared = Aggregates.of(walks(), places < 8, Unit.person(8), places=places)
    curator = Curator(shared, budget, SeededNoise(0), Unit.person(8))
    for m in (8, 3, 3, 1):
        curator.narrow(m)
        assert curator.unit == Unit.person(m)
        alone = Aggregates.of(walks(), places < m, Unit.person(m))
        for statistic in (TripCount(), CellShares(), ShadowSums(Lattice.even(GRID, 2), 4, 3)):
            np.testing.assert_array_equal(curator._aggregates.value(statistic), alone.value(statistic))
            curator.measure(statistic, curator.budget, Fraction(1, 4))
            entry = curator.paid[-1]
            assert (entry.scale, entry.sensitivity) == charged(statistic, m, curator.concentrated)
        curator.select(LengthQuantile(np.array([1, 2]), Fraction(1, 4)), curator.budget, Fraction(1, 4))
        assert curator.paid[-1].sensitivity == 3 * m
        curator.partition(PrivTree(), curator.budget, Fraction(1, 4))
        assert curator.paid[-1].sensitivity == MASS * m
    other = Curator(shared, Budget(1), SeededNoise(0), Unit.person(8))
    assert other._aggregates.value(TripCount())[0] == 40  # which the other one did not narrow


def charged(statistic: Statistic, m: int, concentrated: bool) -> tuple[Fraction, int]:
    """The scale and the sensitivity for a quarter, asked about persons with m trips."""
    curator = Curator(walks(), Budget(1, concentrated=concentrated), SeededNoise(0), Unit.person(m), ["a"] * 50)
    curator.measure(statistic, curator.budget, Fraction(1, 4))
    return curator.paid[-1].scale, curator.paid[-1].sensitivity


def test_no_more_trips_than_before_can_be_kept_nor_after_the_end() -> None:
    curator = Curator(walks(), Budget(1), SeededNoise(0), Unit.person(5), ["a"] * 50)
    for m in (6, 0, -1):
        with pytest.raises(InputError, match=f"can only be lowered, to 1 to 5; got {m}"):
            curator.narrow(m)
    curator.narrow(2)
    with pytest.raises(InputError, match="can only be lowered, to 1 to 2; got 3"):
        curator.narrow(3)
    assert (curator.unit, curator.spent) == (Unit.person(2), 0)
    curator.close()
    with pytest.raises(BudgetError, match="has ended"):
        curator.narrow(1)
    with pytest.raises(InputError, match="only for the unit 'person'"):
        Curator(walks(), Budget(1), SeededNoise(0)).narrow(1)
    kept = np.ones(50, np.bool_)
    placeless = Curator(Aggregates.of(walks(), kept, Unit.person(3)), Budget(1), SeededNoise(0), Unit.person(3))
    with pytest.raises(InputError, match="places of trips must be known"):
        placeless.narrow(1)


def test_no_trip_returns_when_fewer_are_kept() -> None:
    """Trips that do not count for another reason than their place still do not count."""
    places, kept = np.arange(50) % 5, np.arange(50) < 20
    some = Aggregates.of(walks(), kept & (places < 4), Unit.person(4), places=places)
    assert [some.narrowed(m).value(TripCount())[0] for m in (4, 3, 1)] == [16, 12, 4]


def test_noise_has_the_scale_of_the_unit() -> None:
    def spread(unit: Unit) -> float:
        curator = Curator(walks(40), Budget(2000), SeededNoise(0), unit, [str(i) for i in range(40)])
        return float(np.std([curator.measure(TripCount(), curator.budget, 1) for _ in range(2000)]))

    assert spread(Unit.person(5)) / spread(Unit.trip()) == pytest.approx(5, rel=0.15)


def test_persons_are_needed_for_a_unit_of_persons() -> None:
    for persons in (None, ["a"]):
        with pytest.raises(InputError, match="no person column"):
            Curator(walks(), Budget(1), SeededNoise(0), Unit.person(2), persons)
    nobody = Curator(walks(2), Budget(10**6), SeededNoise(0), Unit.person(2), pa.array(["a", None]))
    assert nobody.measure(TripCount(), nobody.budget) == [1]
    twice = pa.DictionaryArray.from_arrays([0, 1, 2, 3], ["a"] * 4)  # one person under four numbers
    assert ContributionBound(Unit.person(1), "00").mask(twice).sum() == 1
    with pytest.raises(TypeError):
        Unit.person(1.5)  # type: ignore[arg-type]


def test_only_the_noise_of_releases_is_private() -> None:
    curator = Curator(walks(), Budget(50), OpenDPNoise())
    assert curator.private
    assert not Curator(walks(), Budget(1), SeededNoise(0)).private
    assert abs(curator.measure(TripCount(), curator.budget)[0] - 50) <= 3


def test_private_number_and_length() -> None:
    data = walks(2000)
    curator = Curator(data, Budget(2), OpenDPNoise())
    assert abs(curator.measure(TripCount(), curator.budget, 1)[0] - 2000) < 40
    scores = LengthQuantile.on(GRID, Fraction(9, 10))
    chosen = scores.candidates[curator.select(scores, curator.budget)]
    crossings = np.diff(data.pieces) - 1
    assert 0.85 < (crossings <= chosen).mean() < 0.97


@pytest.mark.parametrize("tree", [PrivTree(), L1Buckets(np.arange(16), 1.0)], ids=["privtree", "buckets"])
def test_a_partition_is_grown_with_the_epsilon_that_was_charged(tree: PrivTree | L1Buckets) -> None:
    """Even if the budget shrinks between the question and the charge, as another thread might make it."""
    grown: list[Fraction] = []
    left = Budget.left.fget  # type: ignore[attr-defined]

    def shrinking(budget: Budget) -> Fraction:
        found: Fraction = left(budget)
        if budget._spent == 0:
            budget._spent = Fraction(1, 2)
        return found

    curator = Curator(walks(1), Budget(2), SeededNoise(0))
    plain = type(tree).grow
    with (
        patch.object(Budget, "left", property(shrinking)),
        patch.object(type(tree), "grow", lambda *given: (grown.append(given[3]), plain(*given))[1]),
    ):
        curator.partition(tree, curator.budget)  # type: ignore[arg-type]
    assert grown == [curator.paid[0].epsilon]


def test_what_the_curator_goes_by_can_not_be_changed() -> None:
    curator = Curator(walks(1), Budget(1), SeededNoise(0))
    for name in ("budget", "unit", "grid"):
        with pytest.raises(AttributeError):
            setattr(curator, name, None)
    partition = Partition.whole(4, 4)
    with pytest.raises(ValueError, match="read-only"):
        partition.labels[0, 0] = 7


def test_whole_numbers_of_numpy_do_not_wrap() -> None:
    curator = Curator(walks(1), Budget(1), SeededNoise(0), Unit.person(65537), ["one"])
    curator.measure(Crossings(Partition.whole(4, 4), np.int32(1)), curator.budget)  # type: ignore[arg-type]
    assert curator.paid[0].sensitivity == 65536 * 65537


def test_a_question_that_only_looks_like_a_known_one_is_refused() -> None:
    class Alike(type):
        def __eq__(cls, other: object) -> bool:
            return True

        def __hash__(cls) -> int:
            return hash(TripCount)

    class Fake(metaclass=Alike):
        name, sensitivity = "fake", 1

    curator = Curator(walks(1), Budget(1), SeededNoise(0))
    with pytest.raises(InputError, match="not a question with a proof"):
        curator.measure(Fake(), curator.budget)  # type: ignore[arg-type]
    assert curator.spent == 0


def test_noisy_answers_come_near_the_exact_ones_at_a_large_epsilon() -> None:
    kept = aggregates_of(some(200))
    curator = Curator(kept.engine.walks, Budget(4000), SeededNoise(0), Unit.trip())
    for statistic in (TripCount(), Endpoints(ROWS), DistinctCounts(ALL), QueryTotals(ALL)):
        np.testing.assert_array_equal(curator.measure(statistic, curator.budget, 1000), kept.value(statistic))


PROMISE = Promise.of(1, 1e-8)
LATTICE = Lattice.even(GRID, 3)
QUANTILE = LengthQuantile(np.array([1, 2, 5]), Fraction(1, 4))
FEW = np.array([[0, 0, 1, 1], [1, 1, 3, 4], [0, 0, 4, 4]])
MEASURED: list[Statistic] = [
    TripCount(),
    Endpoints(Partition.whole(4, 4)),
    DistinctCounts(FEW),
    QueryTotals(FEW),
    CellShares(),
    UniformityCosts(FEW[:1]),
    ShadowSums(LATTICE, 7, 3),
    ShadowSums(LATTICE, 7, 3, norm=2),
    WalkSums(LATTICE, 5, 3, norm=2),
]
TIGHT = 1 + Fraction(1, 10**12)


def concentrated(noise: Any = 0, unit: Unit | None = None, **more: Any) -> Curator:
    """A curator with the rho of epsilon 1 and delta 10^-8."""
    persons = [str(i // 2) for i in range(50)] if unit else None
    noise = SeededNoise(noise) if isinstance(noise, int) else noise
    return Curator(walks(), Budget.of(PROMISE, "city"), noise, unit, persons, **more)


@pytest.mark.parametrize("unit", [None, Unit.person(3)], ids=["trip", "person"])
@pytest.mark.parametrize("share", [Fraction(1), Fraction(1, 7), Fraction(1, 10**9)])
@pytest.mark.parametrize("statistic", MEASURED, ids=lambda statistic: type(statistic).__name__)
def test_gaussian_noise_is_as_wide_as_rho_demands(statistic: Statistic, share: Fraction, unit: Unit | None) -> None:
    noise = Recorder()
    curator = concentrated(noise, unit)
    rho, m = curator.budget.amount * share, curator.unit.max_trips
    curator.measure(statistic, curator.budget, rho)
    (entry,), (scale,) = curator.paid, noise.scales
    needed = statistic.l2_squared * m**2
    assert needed <= scale**2 * 2 * rho <= needed * TIGHT
    assert (entry.scale, entry.rho, entry.epsilon, entry.cost) == (scale, rho, None, rho)
    assert (entry.sensitivity - 1) ** 2 < needed <= entry.sensitivity**2
    assert (entry.kind, entry.name, entry.resolution) == ("measure", statistic.name, statistic.resolution)


@pytest.mark.parametrize("unit", [None, Unit.person(3)], ids=["trip", "person"])
def test_other_answers_are_as_noisy_as_rho_demands(unit: Unit | None) -> None:
    """Laplace noise and trees for p = sqrt(2 rho), the exponential mechanism of scale S / p."""
    noise = Recorder()
    curator = concentrated(noise, unit)
    rho, m = curator.budget.amount / 4, curator.unit.max_trips
    curator.measure(DistinctCounts(FEW), curator.budget, rho, pure=True)
    curator.select(QUANTILE, curator.budget, rho)
    curator.partition(PrivTree(), curator.budget, rho)
    curator.partition(L1Buckets(np.arange(16), 1.0), curator.budget, rho)
    for entry, numerator, bounded_range in zip(
        curator.paid, (3 * m, QUANTILE.sensitivity * m, Fraction(7 * MASS * m, 3), 4 * 2**30 * m), (1, 2, 1, 1),
        strict=True,
    ):  # fmt: skip
        assert entry.epsilon is not None
        assert numerator**2 <= entry.scale**2 * 2 * rho <= numerator**2 * TIGHT
        assert entry.epsilon**2 <= 2 * bounded_range**2 * rho <= entry.epsilon**2 * TIGHT
        assert entry.epsilon * entry.scale == numerator * bounded_range
        assert entry.rho == rho
    assert {curator.paid[0].scale, curator.paid[1].scale, curator.paid[2].scale} <= set(noise.scales)
    assert [entry.delta for entry in curator.paid] == ["", "", "", L1Buckets.delta]
    assert curator.spent == curator.budget.amount


def test_each_kind_of_noise_is_drawn_for_its_budget() -> None:
    drawn: list[str] = []

    class Named(SeededNoise):
        def __getattribute__(self, name: str) -> Any:
            if name in ("laplace", "gaussian", "noisy_max", "gumbel_max"):
                drawn.append(name)
            return super().__getattribute__(name)

    for curator in (Curator(walks(), Budget(1), Named(0)), concentrated(Named(0))):
        tenth = curator.budget.amount / 10
        curator.measure(TripCount(), curator.budget, tenth)
        curator.measure(TripCount(), curator.budget, tenth, pure=True)
        curator.select(QUANTILE, curator.budget, tenth)
    assert drawn == ["laplace", "laplace", "noisy_max", "gaussian", "laplace", "gumbel_max"]


def test_charges_of_rho_add_up_exactly() -> None:
    rng = np.random.default_rng(0)
    curator = concentrated()
    parts = curator.budget.split(**{f"part{i}": Fraction(int(rng.integers(1, 10**6)), 999_983) for i in range(7)})
    for i, part in enumerate(parts):
        for share in (Fraction(1, 3), Fraction(2, 7)):
            curator.measure(TripCount(), part, part.amount * share, pure=bool(i % 2))
        curator.select(QUANTILE, part)
    assert len(curator.paid) == 21
    assert sum(entry.cost for entry in curator.paid) == curator.spent == PROMISE.rho
    assert repr(curator).endswith(f"rho {float(curator.spent)!r} of {float(curator.spent)!r} spent>")


def test_more_rho_than_there_is_is_refused_before_the_data_is_looked_at(looks: list[str]) -> None:
    curator = concentrated()
    most = curator.budget.amount
    curator.measure(TripCount(), curator.budget, most * Fraction(3, 4))
    assert looks == ["scan"]
    for amount in (most / 2, most / 4 * TIGHT, 1, PROMISE.epsilon):
        for ask, question in (
            (curator.measure, TripCount()),
            (curator.select, QUANTILE),
            (curator.partition, PrivTree()),
        ):
            with pytest.raises(BudgetError, match="city: rho .* was requested"):
                ask(question, curator.budget, amount)  # type: ignore[operator]
    assert looks == ["scan"]
    curator.measure(TripCount(), curator.budget)
    assert curator.spent == most
    with pytest.raises(BudgetError, match="is spent"):
        curator.measure(TripCount(), curator.budget)
    assert len(curator.paid) == 2


def forge_kind(budget: Budget) -> None:
    budget._concentrated = False


def forge_exchange(budget: Budget) -> None:
    budget.exchange(Fraction(10**6), Fraction(0), budget._spent)


def forge_promise(budget: Budget) -> None:
    budget._promise = Promise.of(900, 1e-8)


def forge_amount(budget: Budget) -> None:
    budget._amount = Fraction(10**6)


def forge_spent(budget: Budget) -> None:
    budget._spent = Fraction(-(10**6))


FORGERIES = [forge_kind, forge_exchange, forge_promise, forge_amount, forge_spent]


@pytest.mark.parametrize("exchanged", ["never", "before", "after"])
@pytest.mark.parametrize("forge", FORGERIES)
def test_a_mechanism_that_tampers_with_the_budget_gains_nothing(forge: Any, exchanged: str) -> None:
    """Whatever it does to the budget object, it gets at most what the promise grants."""
    curator = concentrated()
    assert exchanged != "before" or curator.exchange()
    forge(curator.budget)
    if exchanged == "after":
        with suppress(BudgetError):
            curator.exchange()
    parts = [
        curator.budget,
        Budget(10**6, "forged", _whole=curator.budget),
        Budget(10**6, "forged rho", concentrated=True, _whole=curator.budget),
    ]
    for part in parts:
        for amount in (100, Fraction(1, 4), PROMISE.rho, Fraction(1, 1000)):
            for pure in (False, True):
                try:
                    curator.measure(TripCount(), part, amount, pure=pure)
                except BudgetError:
                    continue
    most = PROMISE.rho if curator.concentrated else PROMISE.epsilon
    assert curator.spent == sum(entry.cost for entry in curator.paid) <= most
    gaussian = [entry for entry in curator.paid if entry.epsilon is None]
    assert not gaussian or curator.concentrated
    for entry in curator.paid:  # the noise is that of the price, in the currency of the curator
        if entry.epsilon is None:
            assert entry.scale**2 * 2 * entry.rho >= 1
        else:
            assert entry.scale * entry.epsilon >= 1
            assert entry.epsilon**2 <= 2 * (entry.rho or 1)


def test_tampering_is_tried_with_some_success() -> None:
    """So that the test above could fail: without tampering, questions of these amounts are answered."""
    for exchange in (False, True):
        curator = concentrated()
        assert not exchange or curator.exchange()
        curator.measure(TripCount(), curator.budget, Fraction(1, 1000))
        assert len(curator.paid) == 1


def test_a_budget_may_be_exchanged_for_a_pure_one() -> None:
    curator = concentrated()
    rho = curator.budget.amount
    curator.measure(TripCount(), curator.budget, rho / 10, pure=True)
    curator.select(QUANTILE, curator.budget, rho / 100)
    curator.partition(PrivTree(), curator.budget, rho / 50)
    epsilons = [entry.epsilon for entry in curator.paid]
    assert curator.exchange()
    assert [entry.epsilon for entry in curator.paid] == epsilons
    assert not curator.concentrated
    assert not curator.budget.concentrated
    assert curator.spent == sum(epsilons)
    assert curator.budget.left == PROMISE.epsilon - curator.spent > 0
    assert [entry.rho for entry in curator.paid] == [None] * 3
    curator.select(QUANTILE, curator.budget, Fraction(1, 100))
    curator.measure(TripCount(), curator.budget)
    assert curator.paid[-1].epsilon is not None
    assert curator.paid[-1].scale == 1 / curator.paid[-1].epsilon
    assert curator.paid[-2].scale == 2 * QUANTILE.sensitivity * 100
    assert curator.spent == sum(entry.cost for entry in curator.paid) == PROMISE.epsilon
    with pytest.raises(BudgetError, match="is spent"):
        curator.measure(TripCount(), curator.budget)


def test_an_exchanged_budget_is_never_exchanged_again() -> None:
    asked: list[bool] = []
    curator = concentrated(may_exchange=lambda: asked.append(True) or True)
    assert curator.exchange()
    curator.measure(TripCount(), curator.budget, Fraction(9, 10))
    for _ in range(2):
        assert not curator.exchange()
    assert curator.spent == Fraction(9, 10)
    assert curator.budget.left == Fraction(1, 10)
    assert len(asked) == 1


def after_gaussian(curator: Curator) -> None:
    curator.measure(TripCount(), curator.budget, Fraction(1, 10**9))


def after_split(curator: Curator) -> None:
    curator.budget.split(a=1, b=1)


def after_close(curator: Curator) -> None:
    curator.close()


def after_spending_elsewhere(curator: Curator) -> None:
    curator.budget.spend(Fraction(1, 10**6))


def after_as_much_epsilon_as_was_promised(curator: Curator) -> None:
    """Twenty questions for the price of one: together they are epsilon-private only for a larger epsilon."""
    for _ in range(40):
        curator.measure(TripCount(), curator.budget, curator._granted / 41, pure=True)
    assert sum(entry.epsilon for entry in curator.paid if entry.epsilon) > PROMISE.epsilon


@pytest.mark.parametrize(
    "event", [after_gaussian, after_split, after_close, after_spending_elsewhere, after_as_much_epsilon_as_was_promised]
)
def test_nothing_is_exchanged(event: Any) -> None:
    asked: list[bool] = []
    curator = concentrated(may_exchange=lambda: asked.append(True) or True)
    event(curator)
    before = curator.paid, curator.spent, curator.budget.left
    assert not curator.exchange()
    assert curator.concentrated
    assert (curator.paid, curator.spent, curator.budget.left) == before
    assert not asked  # the ledger, for example, must not note what does not take place


def test_after_an_exchange_that_failed_nothing_is_answered() -> None:
    """The ledger may have recorded the exchange before the connection to it was lost."""

    def lost() -> bool:
        raise InputError("The ledger cannot be used.")

    curator = concentrated(may_exchange=lost)
    with pytest.raises(InputError, match="cannot be used"):
        curator.exchange()
    with pytest.raises(BudgetError, match="has ended"):
        curator.measure(TripCount(), curator.budget, Fraction(1, 1000))
    assert not curator.exchange()
    assert not curator.paid


def test_a_budget_that_another_curator_spends_is_not_exchanged() -> None:
    budget = Budget.of(PROMISE)
    other = Curator(walks(), budget, SeededNoise(0))

    def meanwhile() -> bool:
        other.measure(TripCount(), budget)
        return True

    curator = Curator(walks(), budget, SeededNoise(0), may_exchange=meanwhile)
    with pytest.raises(BudgetError, match="was spent elsewhere"):
        curator.exchange()
    assert (budget.concentrated, budget.left, other.spent) == (True, 0, PROMISE.rho)
    with pytest.raises(BudgetError, match="has ended"):
        curator.measure(TripCount(), budget, 1)


def test_nothing_is_exchanged_without_permission_or_promise() -> None:
    refused = concentrated(may_exchange=lambda: False)
    assert not refused.exchange()
    assert refused.concentrated
    refused.measure(TripCount(), refused.budget)
    assert refused.spent == PROMISE.rho
    for budget in (Budget(1), Budget.of(Promise.of(1)), Budget(1, concentrated=True)):
        curator = Curator(walks(), budget, SeededNoise(0))
        assert not curator.exchange()
        assert budget.amount == 1
    whole = Budget.of(PROMISE)
    part, _ = whole.split(part=1, rest=1)
    assert not Curator(walks(), part, SeededNoise(0)).exchange()


def test_no_gaussian_noise_is_paid_from_a_pure_budget() -> None:
    """As could happen if another thread exchanged the budget between the question and its charge."""
    curator = concentrated()
    assert curator.exchange()
    with (
        patch.object(Curator, "concentrated", property(lambda _: True)),
        pytest.raises(BudgetError, match="exchanged for a pure budget"),
    ):
        curator.measure(TripCount(), curator.budget)
    assert curator.spent == 0
    assert curator.budget.left == 1


def test_parts_of_a_budget_with_a_delta_pay_in_rho_only() -> None:
    curator = concentrated()
    part, _ = curator.budget.split(part=1, rest=3)
    assert part.concentrated
    curator.measure(TripCount(), part)
    assert curator.spent == PROMISE.rho / 4
    part._concentrated, part._spent = False, Fraction(0)
    with pytest.raises(BudgetError, match="is not part of city"):
        curator.measure(TripCount(), part)
