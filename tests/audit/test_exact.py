"""The exact values that audits look at."""

from fractions import Fraction

import numpy as np
import pytest

from dqam.audit.exact import exact_vector, fingerprint, grow
from dqam.audit.pairs import ADVERSARIAL_PAIRS, walks_of
from dqam.geometry.flow_table import Ends
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.noise import SeededNoise
from dqam.statistics import MASS, CellShares, TripCount
from dqam.statistics.endpoints import EndpointsByCell
from dqam.statistics.privtree import PrivTree
from dqam.statistics.trip_count import TripsOnGrid

WALKS = walks_of(ADVERSARIAL_PAIRS["a crowd in one cell + longest walk"][1])


def test_the_exact_vector_of_a_question() -> None:
    aggregates = Aggregates.of(WALKS)
    assert exact_vector(TripCount(), aggregates).tolist() == [13]
    shares = exact_vector(CellShares(), aggregates)
    assert shares.max() == 12 * MASS + MASS // 64
    np.testing.assert_array_equal(exact_vector(PrivTree(), aggregates), shares)


def test_a_partition_is_compared_by_the_totals_that_it_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = (TripsOnGrid(), EndpointsByCell())
    monkeypatch.setattr(PrivTree, "aggregates", asked)
    aggregates = Aggregates.of(WALKS)
    totals = [aggregates.total(each).ravel() for each in asked]
    np.testing.assert_array_equal(exact_vector(PrivTree(), aggregates), np.concatenate(totals))


def test_trips_that_are_not_kept_count_as_nothing() -> None:
    assert exact_vector(TripCount(), Aggregates.of(WALKS, np.arange(13) > 8)).tolist() == [4]


def test_a_partition_is_grown_with_noise() -> None:
    sizes = {len(grow(PrivTree(), Aggregates.of(WALKS), SeededNoise(seed), Fraction(1, 10))) for seed in range(20)}
    assert len(sizes) > 1


def test_a_fingerprint_is_of_all_that_a_release_holds() -> None:
    ends = Ends(np.array([0.25, 0.75]), np.zeros(2))
    same, other = (Ends(np.array([0.25, last]), np.zeros(2)) for last in (0.75, np.nextafter(0.75, 1)))
    assert fingerprint(ends) == fingerprint(same) != fingerprint(other)
    assert fingerprint([ends, (1, None)]) == fingerprint([same, (1, None)])
    assert len({fingerprint(each) for each in (None, 1, (1, 2), (2, 1), np.arange(2), np.arange(2.0), ends)}) == 7
