"""What every question has to do: fit the grid, keep what it was given, and answer for no trips."""

from fractions import Fraction

import numpy as np
import pytest

from dqam.errors import InputError
from dqam.geometry.lattice import Lattice
from dqam.geometry.regions import Partition
from dqam.statistics import (
    CellShares,
    Crossings,
    DistinctCounts,
    Endpoints,
    GroupShares,
    QueryErrors,
    QueryTotals,
    ShadowQuantile,
    ShadowSums,
    TripCount,
    UniformityCosts,
)
from tests.statistics.cases import ALL, GRID, GROUPS, ROWS, aggregates_of


def test_questions_must_fit_the_grid() -> None:
    for question, says in (
        (Endpoints(Partition.whole(2, 2)), "does not fit a grid"),
        (Crossings(Partition.whole(4, 4), 2), "does not fit a grid"),
        (GroupShares(np.zeros((3, 4), np.int64)), "do not fit a grid"),
        (ShadowSums(Lattice(np.array([0, 4]), np.array([0, 3])), 2), "does not fit a grid"),
        (ShadowQuantile(np.arange(3), Fraction(1, 2), Lattice(np.array([0, 3]), np.array([0, 2]))), "does not fit"),
        (DistinctCounts(np.array([[0, 0, 4, 4]])), "on this grid"),
        (QueryTotals(np.array([[0, 0, 4, 4]])), "on this grid"),
        (QueryErrors(np.array([[0, 0, 4, 4]]), np.zeros(1)), "on this grid"),
        (UniformityCosts(np.array([[0, 0, 3, 3]] * 2)), "overlap"),
        (UniformityCosts(np.array([[0, 0, 4, 3]])), "not all of|Not all of"),
    ):
        with pytest.raises(InputError, match=says):
            question.check(GRID)


def test_what_a_question_holds_can_not_be_changed() -> None:
    rectangles, weights = ALL.astype(np.int8), np.array([5, 5, 5])
    for held, given in (
        (DistinctCounts(rectangles).rectangles, rectangles),
        (QueryTotals(rectangles).rectangles, rectangles),
        (UniformityCosts(rectangles[:1]).rectangles, rectangles),
        (Crossings(ROWS, 2, weights).weights, weights),
        (ROWS.regions, None),
    ):
        assert held is not None
        assert held.dtype == np.int64
        assert not held.flags.writeable
        assert given is None or not np.shares_memory(held, given)
    assert UniformityCosts(np.array([[0, 0, 127, 127]], np.int8)).sensitivity > 2**30


def test_an_empty_data_set_has_all_statistics() -> None:
    shares = (CellShares(), GroupShares(GROUPS))
    costs = UniformityCosts(ROWS.regions)
    for statistic in (TripCount(), Endpoints(ROWS), Crossings(ROWS, 2), *shares, costs, QueryTotals(ALL)):
        assert not aggregates_of([]).value(statistic).any()
