"""Distinct trips through rectangles, their totals, and how far estimates are off."""

import numpy as np
import pytest

from dqam.errors import InputError
from dqam.statistics import DistinctCounts, QueryErrors, QueryTotals, Statistic
from dqam.statistics.distinct import DistinctTrips
from tests.statistics.cases import ALL, aggregates_of, assert_adds_up, assert_scores, some


@pytest.mark.parametrize(
    "statistic",
    [DistinctCounts(ALL), DistinctCounts(ALL[[5]]), QueryTotals(ALL), QueryTotals(ALL[[5, 5, 8]])],
    ids=["all", "one", "totals", "totals of few"],
)
def test_a_trip_counts_once_in_a_rectangle(statistic: Statistic) -> None:
    assert_adds_up(statistic, 1)


@pytest.mark.parametrize("estimates", [np.zeros(len(ALL)), np.linspace(-3, 9.5, len(ALL))], ids=["zeros", "estimates"])
def test_a_trip_changes_an_error_by_one(estimates: np.ndarray) -> None:
    assert_scores(QueryErrors(ALL, estimates))


def test_rectangles_met_are_the_sum_of_counts_and_those_missed_the_rest() -> None:
    kept = aggregates_of(some(50))
    for rectangles in (ALL, ALL[[5, 5, 8]]):
        met = kept.value(DistinctCounts(rectangles)).sum()
        assert kept.value(QueryTotals(rectangles)).tolist() == [met, 50 * len(rectangles) - met]


def test_one_rectangle_is_looked_up_among_those_that_were_counted() -> None:
    kept = aggregates_of(some(50))
    counts = kept.total(DistinctTrips(ALL))
    assert kept.total(DistinctTrips(ALL[[8]])).tolist() == [counts[8]]
    assert kept.scans == 1


def test_what_can_not_be_asked() -> None:
    for estimates in (np.zeros(2), np.full(len(ALL), np.nan), np.full(len(ALL), -(2.0**60))):
        with pytest.raises(InputError, match="finite numbers"):
            QueryErrors(ALL, estimates)
    with pytest.raises(InputError, match="shape"):
        DistinctCounts(ALL.reshape(1, -1))
