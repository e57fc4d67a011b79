"""Starts and ends by region."""

import numpy as np
import pytest

from dqam.geometry.regions import Partition
from dqam.statistics import Endpoints
from tests.statistics.cases import CELLS, ROWS, aggregates_of, assert_adds_up


@pytest.mark.parametrize("partition", [ROWS, CELLS], ids=["rows", "cells"])
def test_a_trip_has_two_endpoints(partition: Partition) -> None:
    assert_adds_up(Endpoints(partition), 1)


def test_they_are_those_of_the_longest_piece() -> None:
    kept = aggregates_of([[((0, 0),), ((2, 2), (1, 2), (1, 1))]])
    assert np.flatnonzero(kept.value(Endpoints(CELLS))).tolist() == [4, 8]
