"""The number of trips on the grid."""

from dqam.statistics import TripCount
from tests.statistics.cases import aggregates_of, assert_adds_up, some


def test_a_trip_counts_once_if_it_is_on_the_grid() -> None:
    assert_adds_up(TripCount(), 1)
    assert aggregates_of(some(50)).value(TripCount()).tolist() == [50]
