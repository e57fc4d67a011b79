"""Scores that select a quantile of the lengths of trips."""

from fractions import Fraction

import numpy as np
import pytest

from dqam.errors import InputError
from dqam.statistics import LengthQuantile
from tests.statistics.cases import aggregates_of, assert_scores, some


@pytest.mark.parametrize("quantile", [Fraction(1, 2), Fraction(97, 100), Fraction(1, 10)])
def test_a_trip_changes_a_score_by_no_more_than_the_sensitivity(quantile: Fraction) -> None:
    assert_scores(LengthQuantile(np.arange(9), quantile))


def test_the_best_score_is_that_of_the_quantile() -> None:
    lengths = sorted(max(map(len, trip)) - 1 for trip in some(101))
    scores = aggregates_of(some(101)).value(LengthQuantile(np.arange(9), Fraction(1, 2)))
    assert int(np.argmax(scores)) == lengths[50]


def test_quantiles_are_checked() -> None:
    for quantile in (Fraction(1), Fraction(0), Fraction(0.9)):
        with pytest.raises(InputError, match="between 0 and 1"):
            LengthQuantile(np.arange(3), quantile)
