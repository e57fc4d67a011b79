"""Aggregates: sums over trips, in any division of the trips."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dqam.geometry.lattice import Lattice
from dqam.statistics.aggregate import Part, add_up
from dqam.statistics.cell_shares import MassByCell
from dqam.statistics.distinct import DistinctTrips
from dqam.statistics.endpoints import EndpointsByCell
from dqam.statistics.shadow_sums import CappedShadows
from dqam.statistics.trip_count import TripsOnGrid
from tests.statistics.cases import ALL, EACH, GRID, aggregates_of, some

AGGREGATES = TripsOnGrid(), MassByCell(), EndpointsByCell(), DistinctTrips(ALL)


def test_the_longest_piece_is_the_trip() -> None:
    kept = aggregates_of([[((0, 0), (0, 1)), ((2, 2), (1, 2), (1, 1)), ((0, 0),)]])
    assert kept.engine.walks.cells.tolist() == [0, 1, 8, 5, 4, 0]
    assert Part(kept.engine.walks).longest.tolist() == [1]
    assert Part(kept.engine.walks, np.array([False])).longest.tolist() == [-1]


def test_parts_add_up_to_the_whole() -> None:
    trips = some(60)
    parts = [aggregates_of(trips[start : start + 20]).engine.walks for start in range(0, 60, 20)]
    whole = add_up([aggregates_of(trips).engine.walks], AGGREGATES, GRID)
    for one, other in zip(add_up(parts, AGGREGATES, GRID), whole, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not any(total.any() for total in add_up([], AGGREGATES, GRID))


def test_equal_aggregates_cover_each_other() -> None:
    assert MassByCell().covered_by(MassByCell())
    assert not MassByCell().covered_by(EndpointsByCell())
    assert DistinctTrips(ALL).covered_by(DistinctTrips(ALL.copy()))
    assert not DistinctTrips(ALL[:4]).covered_by(DistinctTrips(ALL))


@pytest.fixture
def hasty() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty")
def test_threads_that_share_a_part_get_the_shadows_of_their_own_lattice() -> None:
    kept = aggregates_of(some(3))
    part = Part(kept.engine.walks)

    def ask(lattice: Lattice) -> set[bool]:
        return {part.shadows(lattice).slots.max() < lattice.numbers for _ in range(300)}

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(ask, (EACH, Lattice.even(GRID, 1)))) == [{True}, {True}]


def test_only_the_aggregate_itself_covers_another() -> None:
    """Not a subclass, which could add up something else."""

    class Louder(DistinctTrips):
        pass

    class Higher(CappedShadows):
        pass

    one, lattice, caps = np.array([[0, 0, 1, 1]]), Lattice.even(GRID, 2), np.array([1, 2])
    assert DistinctTrips(one).covered_by(DistinctTrips(one))
    assert not DistinctTrips(one).covered_by(Louder(one))
    assert CappedShadows(lattice, 1, caps[:1]).covered_by(CappedShadows(lattice, 1, caps))
    assert not CappedShadows(lattice, 1, caps[:1]).covered_by(Higher(lattice, 1, caps))
