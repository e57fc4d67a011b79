"""Shadows added up, and the cap on their size."""

from fractions import Fraction

import numpy as np
import pytest

from dqam.errors import InputError
from dqam.statistics import ShadowQuantile, ShadowSums
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
        with pytest.raises(InputError, match="cap on a trip's shadow"):
            ShadowSums(EACH, cap)
    for weight in (0, 257):
        with pytest.raises(InputError, match="endpoint_weight"):
            ShadowSums(EACH, 2, weight)
        with pytest.raises(InputError, match="endpoint_weight"):
            ShadowQuantile(np.arange(3), Fraction(1, 2), EACH, weight)
