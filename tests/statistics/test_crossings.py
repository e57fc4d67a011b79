"""Crossings by region, capped and weighted."""

import numpy as np
import pytest

from dqam.errors import InputError
from dqam.statistics import CROSSING, Crossings
from dqam.statistics.limits import MOST_CAP
from tests.statistics.cases import CELLS, ROWS, assert_adds_up


@pytest.mark.parametrize(
    ("statistic", "reached"),
    [
        (Crossings(ROWS, 2), 1),
        (Crossings(CELLS, 3), 1),
        (Crossings(CELLS, 40), 5 / 40),  # no walk here has more than 8 crossings
        (Crossings(ROWS, 2, np.array([CROSSING, CROSSING // 3, 7])), 1 - 1e-4),
    ],
    ids=["rows", "cells", "high cap", "weighted"],
)
def test_a_trip_adds_no_more_than_the_cap(statistic: Crossings, reached: float) -> None:
    assert_adds_up(statistic, reached)


def test_bounds_are_checked() -> None:
    for cap in (0, MOST_CAP + 1):
        with pytest.raises(InputError, match="cap on a trip's crossings"):
            Crossings(ROWS, cap)
    for weights in ([1, 2], [1.0, 2.0, np.nan], [-1, 1, 1], [CROSSING + 1, 1, 1]):
        with pytest.raises(InputError, match="weight"):
            Crossings(ROWS, 2, np.array(weights))
