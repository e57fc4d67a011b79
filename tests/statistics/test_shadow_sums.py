"""Shadows added up, and the cap on their size."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dqam.errors import InputError
from dqam.geometry.grid import Grid
from dqam.geometry.lattice import Lattice
from dqam.geometry.trips import Trips
from dqam.geometry.walks import walk
from dqam.privacy.aggregates import Aggregates, InMemory
from dqam.statistics import ShadowQuantile, ShadowSums, TripCount, WalkSums
from dqam.statistics.limits import MOST_CAP
from tests.statistics.cases import CROSS, EACH, assert_adds_up, assert_scores


@pytest.mark.parametrize(
    ("statistic", "reached"),
    [
        (ShadowSums(CROSS, 1), 1 - 1e-4),
        (ShadowSums(CROSS, 3, 2), 1 - 1e-4),
        (ShadowSums(EACH, 2, 3), 1 - 1e-4),
        (ShadowSums(EACH, 40, 3), 0.15),
    ],
    ids=["coarse", "coarse, weighted", "weighted", "high cap"],
)
def test_a_trip_adds_no_more_than_the_cap(statistic: ShadowSums, reached: float) -> None:
    assert_adds_up(statistic, reached)


@pytest.mark.parametrize(
    "scores",
    [ShadowQuantile(np.arange(9), Fraction(1, 2), EACH, 3), ShadowQuantile(np.arange(9), Fraction(9, 10), CROSS)],
    ids=["median", "coarse"],
)
def test_scores_of_caps(scores: ShadowQuantile) -> None:
    assert_scores(scores)


def test_bounds_are_checked() -> None:
    for cap in (0, -1, MOST_CAP + 1):
        with pytest.raises(InputError, match="cap on a trip's size"):
            ShadowSums(EACH, cap)
    for weight in (0, 257):
        with pytest.raises(InputError, match="endpoint_weight"):
            ShadowSums(EACH, 2, weight)
        with pytest.raises(InputError, match="endpoint_weight"):
            ShadowQuantile(np.arange(3), Fraction(1, 2), EACH, weight)


@pytest.mark.parametrize("caps", [(8, 1), [1, 8, 8], np.array([8, 1], np.int32)], ids=["unsorted", "list", "int32"])
def test_walks_that_engines_add_up_ahead_are_those_of_each_cap(caps: Any) -> None:
    """Caps that a caller changes later, gives in another order or as another type do not lead to another row."""
    grid = Grid((0.0, 0.0, 3.0, 3.0), 3, 3)
    walks = walk(Trips.from_lists([[(0.5, 0.5), (2.5, 0.5), (2.5, 2.5), (0.5, 2.5)]], grid.crs), grid)
    ahead = Aggregates(InMemory(walks), TripCount().aggregates)
    scores = ShadowQuantile(np.arange(9), Fraction(1, 2), CROSS, 3, ((EACH, caps),))
    scores.check(grid)
    ahead.value(scores)
    scans = ahead.scans
    if isinstance(caps, list | np.ndarray):
        caps[0] = 5
    for cap in (1, 8):
        sums = WalkSums(EACH, cap, 3)
        np.testing.assert_array_equal(ahead.value(sums), Aggregates.of(walks).value(sums))
    assert ahead.scans == scans


def test_finer_lattices_are_checked() -> None:
    for finer, says in (
        (((EACH, (0,)),), "cap on a trip's size"),
        (((EACH, (MOST_CAP + 1,)),), "cap on a trip's size"),
    ):
        with pytest.raises(InputError, match=says):
            ShadowQuantile(np.arange(3), Fraction(1, 2), EACH, 3, finer)
    other = Lattice(np.array([0, 4]), np.array([0, 4]))
    with pytest.raises(InputError, match="does not fit"):
        ShadowQuantile(np.arange(3), Fraction(1, 2), EACH, 3, ((other, (1,)),)).check(Grid((0.0, 0.0, 3.0, 3.0), 3, 3))
