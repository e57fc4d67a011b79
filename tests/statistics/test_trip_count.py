"""The number of trips on the grid."""

from dqam.statistics import TripCount
from tests.statistics.cases import assert_adds_up, records, some


def test_a_trip_counts_once_if_it_is_on_the_grid() -> None:
    assert_adds_up(TripCount(), 1)
    assert records(some(50)).value(TripCount()).tolist() == [50]
