"""Shares of the trips by cell and by group of cells."""

import numpy as np
import pytest

from dqam.errors import InputError
from dqam.statistics import CellShares, GroupShares, Statistic
from tests.statistics.cases import CELLS, GROUPS, aggregates_of, assert_adds_up, some


@pytest.mark.parametrize(
    "statistic",
    [CellShares(), GroupShares(CELLS.labels), GroupShares(GROUPS), GroupShares(np.zeros((3, 3), np.int64))],
    ids=["cells", "single cells", "groups", "whole"],
)
def test_a_trip_has_a_mass_of_one(statistic: Statistic) -> None:
    assert_adds_up(statistic, 1)


def test_shares_by_group_are_sums_of_cell_shares() -> None:
    kept = aggregates_of(some(50))
    cells = kept.value(CellShares())
    sums = [cells[(group == GROUPS).ravel()].sum() for group in range(3)]
    np.testing.assert_array_equal(kept.value(GroupShares(GROUPS)), sums)


def test_labels_are_checked() -> None:
    for labels in (GROUPS - 1, GROUPS * 1.0, GROUPS.ravel(), np.full((3, 3), -1)):
        with pytest.raises(InputError, match="labels"):
            GroupShares(labels)
