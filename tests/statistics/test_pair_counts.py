"""Trips by origin and destination: a trip has one pair of cells, its first and its last."""

from collections import Counter
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dqam.errors import InputError
from dqam.geometry.compact_walks import CompactWalks
from dqam.geometry.grid import Grid
from dqam.geometry.lattice import Lattice
from dqam.geometry.trips import Trips
from dqam.geometry.walks import Gap, Walks, walk
from dqam.mechanisms.flows import FINER, MOST_SIDE, SLICE_SIDE, flow_questions, lattices, tile_side
from dqam.privacy.aggregates import Aggregates, InMemory
from dqam.privacy.contribution import ContributionBound
from dqam.statistics import PairCounts, Sliced, TripCount, check_question
from dqam.statistics.aggregate import Part
from dqam.statistics.pair_counts import MOST_PAIRS, PairsByCell
from dqam.statistics.sliced import MOST_NUMBERS, SlicedAggregate
from dqam.statistics.trip_count import TripsOnGrid
from dqam.values.guarantee import Unit
from tests.statistics.cases import (
    CROSS,
    EACH,
    GRID,
    SLICES,
    TRIPS,
    Piece,
    aggregates_of,
    assert_adds_up,
    slice_of,
    some,
)

ONE = Lattice(np.array([0, 3]), np.array([0, 3]))
STRIPS = Lattice(np.array([0, 3]), np.array([0, 1, 3]))
PAIRS = [(EACH, EACH), (CROSS, CROSS), (EACH, CROSS), (STRIPS, EACH), (EACH, ONE), (ONE, CROSS), (ONE, ONE)]
EVERY = pytest.mark.parametrize(
    ("origins", "destinations"), PAIRS, ids=[f"{one.cells} to {other.cells} cells" for one, other in PAIRS]
)


def cell_of(lattice: Lattice, row: int, column: int) -> int:
    """The cell of a lattice, found by comparison with its lines."""
    north, east = (
        sum(line <= at for line in lines[1:]) for lines, at in ((lattice.north, row), (lattice.east, column))
    )
    return int(north * (len(lattice.east) - 1) + east)


def pair_of(trip: list[Piece], origins: Lattice, destinations: Lattice) -> tuple[int, int]:
    """From the first visit of all to the last."""
    return cell_of(origins, *trip[0][0]), cell_of(destinations, *trip[-1][-1])


@EVERY
def test_no_trip_changes_it_by_more_than_one_in_either_norm(origins: Lattice, destinations: Lattice) -> None:
    """On all walks of a 3 x 3 grid, and on trips of several pieces; what a trip adds depends on no other trip."""
    statistic = PairCounts(origins, destinations)
    assert (statistic.sensitivity, statistic.l2_squared) == (1, 1)
    assert_adds_up(statistic, 1)


@EVERY
def test_it_counts_each_trip_once_from_its_first_cell_to_its_last(origins: Lattice, destinations: Lattice) -> None:
    found = aggregates_of(TRIPS).value(PairCounts(origins, destinations)).reshape(origins.cells, destinations.cells)
    assert found.dtype == np.int64
    wanted = Counter(pair_of(trip, origins, destinations) for trip in TRIPS)
    assert {pair: found[pair] for pair in product(*map(range, found.shape)) if found[pair]} == wanted
    assert found.sum() == len(TRIPS) == aggregates_of(TRIPS).value(TripCount())[0]


@EVERY
def test_slices_have_the_sensitivity_of_one(origins: Lattice, destinations: Lattice) -> None:
    sliced = Sliced(PairCounts(origins, destinations), SLICES)
    assert (sliced.sensitivity, sliced.l2_squared) == (1, 1)
    assert_adds_up(sliced, 1)
    trips = some(300, 8)
    found = aggregates_of(trips).value(sliced).reshape(SLICES, origins.cells, destinations.cells)
    for number in range(SLICES):
        mine = Counter(pair_of(trip, origins, destinations) for trip in trips if slice_of(trip) == number)
        assert {pair: n for pair, n in np.ndenumerate(found[number]) if n} == mine


def test_persons_change_it_by_at_most_the_trips_that_are_kept() -> None:
    """And by as many, if all are alike: m in L1 and, in one pair, also in L2."""
    rng, statistic = np.random.default_rng(3), PairCounts(EACH, EACH)
    for m, others in product((1, 2, 3), (0, 4)):
        base, most, most_squared = some(others), 0, 0
        for trial in range(40):
            own = some(int(rng.integers(1, 9)), int(rng.integers(10**6))) if trial else 5 * TRIPS[:1]
            unit = Unit.person(m)
            keep = ContributionBound.of(unit, rng).mask([f"p{i}" for i in range(others)] + ["own"] * len(own))
            engine = aggregates_of(base + own).engine
            assert isinstance(engine, InMemory)
            for question in (statistic, Sliced(statistic, SLICES)):
                whole = Aggregates.of(engine.walks, keep, unit, SLICES)
                change = whole.value(question) - aggregates_of(base).value(question)
                assert change.min() >= 0
                most, most_squared = max(most, int(change.sum())), max(most_squared, int((change**2).sum()))
        assert (most, most_squared) == (m, m**2)


# Trips that are partly or not on the grid

OFF = [(-9.0, -9.0), (-5.0, 7.0)]
ODD = {  # points, and the cells of the first and of the last visit; None if there is none
    "never on the grid": (OFF, None),
    "no points": ([], None),
    "one point": ([(1.5, 2.5)], (7, 7)),
    "one point off the grid": ([(3.5, 1.5)], None),
    "enters and stays": ([(-1.0, 0.5), (1.5, 0.5)], (0, 1)),
    "leaves and stays away": ([(1.5, 0.5), (1.5, -4.0)], (1, 1)),
    "passes through": ([(-1.0, 1.5), (5.0, 1.5)], (3, 5)),
    "leaves and returns": ([(0.5, 0.5), (-2.0, 0.5), (-2.0, 2.5), (1.5, 2.5), (2.5, 2.5)], (0, 8)),
    "returns to a shorter piece": ([(0.5, 0.5), (2.5, 0.5), (2.5, -1.0), (0.5, -1.0), (0.5, 0.2)], (0, 0)),
    "begins with a shorter piece": ([(0.5, 0.5), (-1.0, 0.5), (-1.0, 2.5), (2.5, 2.5), (2.5, 0.5)], (0, 2)),
    "begins and ends off the grid": (
        [(-1.0, 0.5), (2.5, 0.5), (2.5, 9.0), (0.5, 9.0), (0.5, 1.5), (-3.0, 1.5)],
        (0, 3),
    ),
    "there and back": ([(0.5, 0.5), (2.5, 2.5), (0.5, 0.5)], (0, 0)),
}


@pytest.mark.parametrize("name", ODD)
def test_trips_that_leave_the_grid_are_one_trip(name: str) -> None:
    points, wanted = ODD[name]
    for others in ([], [[(0.5, 0.5), (1.5, 1.5)]], [OFF, [(2.5, 0.5)], OFF]):
        for lists in ([*others, points], [points, *others]):
            with_it, without = (walk(Trips.from_lists(each), GRID) for each in (lists, others))
            for origins, destinations in PAIRS:
                statistic = PairCounts(origins, destinations)
                change = Aggregates.of(with_it).value(statistic) - Aggregates.of(without).value(statistic)
                expected = np.zeros((origins.cells, destinations.cells), np.int64)
                if wanted is not None:
                    first, last = (divmod(cell, 3) for cell in wanted)
                    expected[cell_of(origins, *first), cell_of(destinations, *last)] = 1
                np.testing.assert_array_equal(change, expected.ravel())


def test_trips_in_pieces_are_one_trip() -> None:
    """A silence cuts a trip, but from where to where it goes stays the same."""
    points = [[(0.5, 0.5), (1.5, 0.5), (2.5, 2.5), (0.5, 2.5)]]
    times = np.array([0, 1, 10**9, 10**9 + 1])
    trips = replace(Trips.from_lists(points), time=times)
    for gap in (None, Gap(seconds=100)):
        found = Aggregates.of(walk(trips, GRID, gap)).value(PairCounts(EACH, EACH)).reshape(9, 9)
        assert found.sum() == found[0, 6] == 1


def test_compact_walks_and_trips_that_do_not_count() -> None:
    engine = aggregates_of(some(200, 5)).engine
    assert isinstance(engine, InMemory)
    assert isinstance(engine.walks, Walks)
    for kept in (None, np.zeros(200, bool), np.arange(200) % 3 > 0):
        for aggregate in (PairsByCell(EACH, CROSS), SlicedAggregate(PairsByCell(EACH, CROSS), SLICES)):
            found = aggregate.add_up(Part(engine.walks, kept))
            assert found.sum() == (200 if kept is None else kept.sum())
            np.testing.assert_array_equal(found, aggregate.add_up(Part(CompactWalks.of(engine.walks), kept)))


def test_without_trips_all_counts_are_zero() -> None:
    nothing = Part(walk(Trips.from_lists([]), GRID))
    assert PairsByCell(EACH, CROSS).add_up(nothing).tolist() == np.zeros((9, 4)).tolist()
    assert PairsByCell(EACH, CROSS).add_up_by_slice(nothing, 2).tolist() == np.zeros((2, 9, 4)).tolist()


def test_a_label_that_is_none_of_the_slices_counts_nowhere() -> None:
    engine = aggregates_of(some(30)).engine
    assert isinstance(engine, InMemory)
    labels = np.resize(np.array([-1, 3, 2**15 - 1, -(2**15)], np.int16), 30)
    stray = replace(engine.walks, slices=labels)  # type: ignore[type-var]
    assert not Aggregates.of(stray, slices=SLICES).value(Sliced(PairCounts(EACH, EACH), SLICES)).any()


# Counts for coarser lattices from those for finer ones


def journeys(grid: Grid, trips: int, slices: int = 4, seed: int = 0) -> Walks:
    """Random trips on the unit square and around it, some of which leave it."""
    rng = np.random.default_rng(seed)
    points = [rng.uniform(-0.1, 1.1, (rng.integers(1, 5), 2)).tolist() for _ in range(trips)]
    made = replace(Trips.from_lists(points), slices=rng.integers(0, slices, trips).astype(np.int16))
    return walk(made, grid)


SHAPES = [(3, 3), (1, 1), (1, 9), (7, 2), (16, 16), (20, 33), (64, 48), (100, 77), (128, 128), (131, 200), (5, 300)]
SIDES = (2, 4, 8, 16, 32)


def unit_grid(rows: int, columns: int) -> Grid:
    return Grid((0.0, 0.0, 1.0, 1.0), rows, columns)


@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_the_first_scan_includes_whatever_flows_may_ask(rows: int, columns: int) -> None:
    """Counts for all lattices that a signal may choose are read from those of the first scan, and equal direct ones."""
    grid = unit_grid(rows, columns)
    walks, whole = journeys(grid, 150), Lattice.even(grid, 1)
    first = [each for question in flow_questions(grid, 4) for each in question.aggregates]
    shared = Aggregates(InMemory(walks, slices=4), first)
    shared.total(TripsOnGrid())
    assert shared.scans == 1
    asked: list[PairCounts | Sliced] = []
    for side in SIDES:
        tiles, cells = lattices(grid, side)
        asked += [PairCounts(tiles, tiles), PairCounts(cells, whole), PairCounts(whole, cells)]
    coarse, _ = lattices(grid, SLICE_SIDE)
    asked += [PairCounts(coarse, coarse), Sliced(PairCounts(coarse, coarse), 4)]
    for question in asked:
        check_question(question, grid, slices=4)
        direct = Aggregates.of(walks, slices=4).value(question)
        assert direct.any()
        np.testing.assert_array_equal(shared.value(question), direct)
    assert shared.scans == 1


@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_lattices_have_about_as_many_cells_as_were_asked_for(rows: int, columns: int) -> None:
    """Along the longer side: more than half as many, and no more, unless the grid has fewer cells than that."""
    grid, longer = unit_grid(rows, columns), max(rows, columns)
    assert {tile_side(signal) for signal in np.geomspace(1e-3, 1e9, 200)} == set(SIDES)
    for side in SIDES:
        for lattice, wanted in zip(lattices(grid, side), (side, FINER * side), strict=True):
            most = min(wanted, longer, FINER * MOST_SIDE)
            assert most / 2 < max(lattice.shape) <= most
            assert lattice.fits(grid)


def test_counts_are_read_only_from_lattices_with_all_lines() -> None:
    finer, crossed = PairsByCell(EACH, EACH), PairsByCell(CROSS, STRIPS)
    other = Lattice(np.array([0, 2, 3]), np.array([0, 3]))
    assert crossed.covered_by(finer)
    assert finer.covered_by(PairsByCell(EACH, EACH))
    assert not finer.covered_by(crossed)
    assert not PairsByCell(other, ONE).covered_by(crossed)
    assert not PairsByCell(ONE, other).covered_by(crossed)
    assert not PairsByCell(EACH, ONE).covered_by(PairsByCell(ONE, EACH))
    assert not crossed.covered_by(TripsOnGrid())
    assert not TripsOnGrid().covered_by(crossed)
    assert not SlicedAggregate(crossed, 2).covered_by(SlicedAggregate(finer, 3))
    assert not SlicedAggregate(crossed, 2).covered_by(finer)
    assert not crossed.covered_by(SlicedAggregate(finer, 2))


def test_origins_are_not_taken_for_destinations() -> None:
    aggregates = aggregates_of([[((0, 0), (0, 1), (0, 2), (1, 2))]] * 3)
    for _ in range(2):  # counted, and then read from what was counted
        origins, destinations = (aggregates.value(PairCounts(one, other)) for one, other in ((EACH, ONE), (ONE, EACH)))
        assert origins.tolist() == [3, 0, 0, 0, 0, 0, 0, 0, 0]
        assert destinations.tolist() == [0, 0, 0, 0, 0, 3, 0, 0, 0]
        assert aggregates.value(PairCounts(EACH, EACH)).reshape(9, 9)[0, 5] == 3
    scans = aggregates.scans
    assert aggregates.value(PairCounts(STRIPS, EACH)).tolist() == [0, 0, 0, 0, 0, 3, *12 * [0]]
    assert aggregates.scans == scans


# What cannot be asked


@pytest.mark.parametrize(
    ("origins", "destinations", "says"),
    [
        ("here", EACH, "origins must be a Lattice; got str"),
        (EACH, None, "destinations must be a Lattice; got NoneType"),
        (SimpleNamespace(cells=1, fits=lambda grid: True), EACH, "origins must be a Lattice; got SimpleNamespace"),
        (Lattice.even(Grid((0, 0, 1, 1), 4, 3), 2), EACH, "lattice of origins does not fit a grid of 3 x 3"),
        (EACH, Lattice.even(Grid((0, 0, 1, 1), 3, 2), 2), "lattice of destinations does not fit a grid of 3 x 3"),
    ],
)
def test_lattices_must_fit_the_grid(origins: Any, destinations: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        check_question(PairCounts(origins, destinations), GRID)
    with pytest.raises(InputError, match=says):
        check_question(Sliced(PairCounts(origins, destinations), 2), GRID, slices=2)


def test_a_lattice_of_another_kind_is_refused() -> None:
    class Overlapping(Lattice):
        pass

    with pytest.raises(InputError, match="must be a Lattice; got Overlapping"):
        check_question(PairCounts(Overlapping(EACH.east, EACH.north), EACH), GRID)
    changed = PairCounts(EACH, EACH)
    object.__setattr__(changed, "sensitivity", 0)
    with pytest.raises(InputError, match="its sensitivity cannot be set"):
        check_question(changed, GRID)
    with pytest.raises(InputError, match="was changed"):
        check_question(Sliced(changed, 2), GRID, slices=2)


def test_pairs_must_fit_into_memory() -> None:
    large = Grid((0.0, 0.0, 1.0, 1.0), 4096, 4096)
    sides = {side: Lattice.even(large, side) for side in (1, 64, 65, 4096)}
    check_question(PairCounts(sides[64], sides[64]), large)
    check_question(PairCounts(sides[4096], sides[1]), large)
    with pytest.raises(InputError, match="4,225 origins and 4,096 destinations are more than 16,777,216 pairs"):
        check_question(PairCounts(sides[65], sides[64]), large)
    assert sides[64].cells ** 2 == MOST_PAIRS
    check_question(Sliced(PairCounts(sides[64], sides[64]), 16), large, slices=16)
    assert 16 * MOST_PAIRS == MOST_NUMBERS
    with pytest.raises(InputError, match="17 slices of 16,777,216 pairs do not fit into memory"):
        check_question(Sliced(PairCounts(sides[64], sides[64]), 17), large, slices=17)


@pytest.mark.parametrize("shape", [(1, 1), (4096, 4096), (4096, 1), (33, 77)])
@pytest.mark.parametrize("slices", [None, 400])
def test_flows_can_be_asked_on_every_grid(shape: tuple[int, int], slices: int | None) -> None:
    grid = Grid((0.0, 0.0, 1.0, 1.0), *shape)
    for question in flow_questions(grid, slices):
        check_question(question, grid, slices=slices)
