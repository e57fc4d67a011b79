"""Statistics by slice: a trip counts in one slice, with the sensitivity of the statistic, for trips and persons."""

from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from dqam.errors import InputError
from dqam.geometry.grid import Grid
from dqam.geometry.slicing import MOST_SLICES
from dqam.geometry.trips import Trips
from dqam.geometry.walks import walk
from dqam.privacy.aggregates import Aggregates, InMemory
from dqam.privacy.budget import Budget
from dqam.privacy.contribution import ContributionBound
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.statistics import (
    CellShares,
    DistinctCounts,
    Endpoints,
    GroupShares,
    LengthQuantile,
    PairCounts,
    QueryTotals,
    Statistic,
    TripCount,
    check_question,
)
from dqam.statistics.aggregate import Part
from dqam.statistics.cell_shares import MassByCell
from dqam.statistics.distinct import DistinctTrips
from dqam.statistics.sliced import SLICEABLE, Sliced, SlicedAggregate
from dqam.statistics.trip_count import TripsOnGrid
from dqam.values.guarantee import Unit
from tests.statistics.cases import (
    ALL,
    CELLS,
    CROSS,
    GRID,
    GROUPS,
    SINGLE,
    SLICES,
    TRIPS,
    Piece,
    aggregates_of,
    assert_adds_up,
    slice_of,
    some,
)

PAIRS = PairCounts(CROSS, CROSS)
STATISTICS: list[Statistic] = [TripCount(), CellShares(), GroupShares(GROUPS), QueryTotals(ALL[[8, 3, 20]]), PAIRS]
EACH = pytest.mark.parametrize("statistic", STATISTICS, ids=lambda statistic: type(statistic).__name__)


def blocks(aggregates: Aggregates, statistic: Statistic, count: int = SLICES) -> np.ndarray:
    """The statistic of each slice, a row each."""
    return aggregates.value(Sliced(statistic, count)).reshape(count, -1)


@EACH
def test_no_trip_changes_it_more_than_the_statistic(statistic: Statistic) -> None:
    """On all walks of a 3 x 3 grid; and the sensitivity is reached in every slice."""
    assert_adds_up(Sliced(statistic, SLICES), 1)
    sliced = Sliced(statistic, SLICES)
    assert (sliced.sensitivity, sliced.l2_squared) == (statistic.sensitivity, statistic.l2_squared)
    reached = {slice_of(trip) for trip in TRIPS if aggregates_of([trip]).value(sliced).sum() == statistic.sensitivity}
    assert reached == set(range(SLICES)) or type(statistic) is CellShares


@EACH
def test_a_trip_changes_one_block_only_and_as_it_changes_the_statistic(statistic: Statistic) -> None:
    base = aggregates_of(some(20))
    for trip in some(60, 1):
        more = aggregates_of([*some(20), trip])
        change = blocks(more, statistic) - blocks(base, statistic)
        assert not np.delete(change, slice_of(trip), axis=0).any()
        np.testing.assert_array_equal(change[slice_of(trip)], more.value(statistic) - base.value(statistic))


@EACH
def test_a_person_changes_it_by_at_most_m_trips_over_all_slices(statistic: Statistic) -> None:
    sliced, rng = Sliced(statistic, SLICES), np.random.default_rng(3)
    for m, kept in product((1, 2, 3), (0, 4)):
        others, most, spread = some(kept), 0.0, 0
        for trial in range(60):
            own = some(int(rng.integers(1, 9)), int(rng.integers(10**6))) if trial else 5 * SINGLE[:1]
            keep = ContributionBound.of(Unit.person(m), rng).mask([f"p{i}" for i in range(kept)] + ["own"] * len(own))
            engine = aggregates_of(others + own).engine
            assert isinstance(engine, InMemory)
            whole = Aggregates.of(engine.walks, keep, Unit.person(m), SLICES)
            change = np.abs(whole.value(sliced) - aggregates_of(others).value(sliced)).reshape(SLICES, -1)
            assert change.sum() <= m * sliced.sensitivity
            assert (change.astype(object) ** 2).sum() <= m**2 * sliced.l2_squared
            most = max(most, change.sum() / sliced.sensitivity)
            spread = max(spread, int(change.any(axis=1).sum()))
        assert most == m
        assert spread == min(m, SLICES)  # the trips of a person may be in several slices


@EACH
def test_it_is_the_statistic_of_the_trips_in_each_slice(statistic: Statistic) -> None:
    trips = some(80, 4)
    whole = aggregates_of(trips)
    found = blocks(whole, statistic)
    for number in range(SLICES):
        mine: list[list[Piece]] = [trip for trip in trips if slice_of(trip) == number]
        np.testing.assert_array_equal(found[number], aggregates_of(mine).value(statistic))
    np.testing.assert_array_equal(found.sum(axis=0), whole.value(statistic))
    empty = Aggregates.of(walk(Trips.from_lists([]), GRID))
    assert not blocks(empty, statistic, 5).any()


@EACH
def test_a_label_that_is_none_of_the_slices_counts_nowhere(statistic: Statistic) -> None:
    engine = aggregates_of(some(30)).engine
    assert isinstance(engine, InMemory)
    labels = np.resize(np.array([-1, 3, 2**15 - 1, -(2**15)], np.int16), 30)
    stray = Aggregates.of(replace(engine.walks, slices=labels), slices=SLICES)  # type: ignore[type-var]
    assert not blocks(stray, statistic).any()
    labels[7] = 1
    assert blocks(stray.__class__.of(replace(engine.walks, slices=labels), slices=SLICES), statistic)[1].any()  # type: ignore[type-var]


def test_one_pass_gives_the_same_as_a_pass_for_each_slice() -> None:
    engine = aggregates_of(some(200, 9)).engine
    assert isinstance(engine, InMemory)
    for kept in (None, np.arange(200) % 3 > 0):
        part = Part(engine.walks, kept)
        for inner in (TripsOnGrid(), MassByCell()):
            slow = np.stack([inner.add_up(part.of_slice(number)) for number in range(5)])
            fast = SlicedAggregate(inner, 5).add_up(part)
            assert fast.dtype == slow.dtype == np.int64
            np.testing.assert_array_equal(fast, slow)


def test_totals_are_shared() -> None:
    aggregates, one = aggregates_of(some(30)), ALL[[8]]
    whole = aggregates.total(SlicedAggregate(DistinctTrips(ALL), SLICES))
    np.testing.assert_array_equal(aggregates.total(SlicedAggregate(DistinctTrips(one), SLICES)), whole[:, [8]])
    aggregates.value(Sliced(CellShares(), SLICES))
    scans = aggregates.scans
    aggregates.value(Sliced(GroupShares(GROUPS), SLICES))
    assert aggregates.scans == scans == 2
    aggregates.total(SlicedAggregate(DistinctTrips(ALL), SLICES + 1))
    aggregates.total(DistinctTrips(ALL))
    assert aggregates.scans == 4


@pytest.mark.parametrize(
    "statistic",
    [Endpoints(CELLS), DistinctCounts(ALL), LengthQuantile(np.array([1]), Fraction(1, 2)), Sliced(TripCount(), 2), 7],
    ids=lambda statistic: type(statistic).__name__,
)
def test_only_sums_over_trips_from_a_closed_list_are_sliced(statistic: Any) -> None:
    assert type(statistic) not in SLICEABLE
    with pytest.raises(InputError, match=f"^{type(statistic).__name__} cannot be sliced; .*are CellShares, Group"):
        Sliced(statistic, 3)


def test_neither_are_statistics_that_were_changed() -> None:
    class Mine(TripCount):
        pass

    with pytest.raises(InputError, match="Mine cannot be sliced"):
        Sliced(Mine(), 3)
    changed = CellShares()
    object.__setattr__(changed, "sensitivity", 1)
    sliced, replaced = Sliced(changed, SLICES), Sliced(TripCount(), SLICES)
    object.__setattr__(replaced, "statistic", Endpoints(CELLS))
    for each in (sliced, replaced):
        with pytest.raises(InputError, match="was changed"):
            check_question(each, GRID, slices=SLICES)
    with pytest.raises(InputError, match="do not fit a grid"):
        check_question(Sliced(GroupShares(GROUPS), SLICES), Grid((0.0, 0.0, 1.0, 1.0), 2, 2), slices=SLICES)


@pytest.mark.parametrize("count", [0, -1, MOST_SLICES + 1])
def test_there_are_one_or_more_slices_and_not_too_many(count: int) -> None:
    with pytest.raises(InputError, match=f"must be 1 to 400; got {count}"):
        Sliced(TripCount(), count)


def test_slices_must_fit_into_memory() -> None:
    large = Grid((0.0, 0.0, 1.0, 1.0), 4096, 4096)
    Sliced(CellShares(), 16).check(large)
    Sliced(TripCount(), 400).check(large)
    with pytest.raises(InputError, match="17 slices of 4096 x 4096 cells do not fit into memory"):
        Sliced(CellShares(), 17).check(large)


def test_another_number_of_slices_is_refused_before_anything_is_charged() -> None:
    engine = aggregates_of(some(5)).engine
    assert isinstance(engine, InMemory)
    for aggregates, says in (
        (aggregates_of(some(5)), "asked of 4 slices, but the trips have 3 slices"),
        (Aggregates.of(engine.walks), "but the trips have no slices"),
    ):
        curator = Curator(aggregates, Budget(1), SeededNoise(0))
        with pytest.raises(InputError, match=says):
            curator.measure(Sliced(TripCount(), 4), curator.budget)
        assert not curator.paid
        assert curator.budget.left == 1
    curator = Curator(aggregates_of(some(5)), Budget(1), SeededNoise(0))
    assert curator.slices == SLICES
    assert len(curator.measure(Sliced(TripCount(), SLICES), curator.budget)) == SLICES
    assert curator.paid[0].name == "Number of trips, by slice"
    with pytest.raises(InputError, match="These walks have no slices, and 3 were named"):
        Aggregates.of(walk(Trips.from_lists([]), GRID), slices=3)


def test_persons_keep_their_slices() -> None:
    engine = aggregates_of(some(6)).engine
    assert isinstance(engine, InMemory)
    aggregates = Aggregates.of(engine.walks, slices=SLICES)
    curator = Curator(aggregates, Budget(10**6), SeededNoise(0), Unit.person(2), persons=[1] * 6)
    assert curator.slices == SLICES
    assert curator.measure(Sliced(TripCount(), SLICES), curator.budget).sum() == 2
