"""Totals of aggregates: each is added up once, and ahead of time where scans are expensive."""

from collections.abc import Sequence

import numpy as np
import pytest

from dqam.errors import InputError
from dqam.geometry.arrays import Integers
from dqam.privacy.aggregates import Aggregates, InMemory
from dqam.statistics.aggregate import Aggregate
from dqam.statistics.cell_shares import MassByCell
from dqam.statistics.endpoints import EndpointsByCell
from dqam.statistics.shadow_sums import CappedShadows, ShadowSizes
from dqam.statistics.trip_count import TripsOnGrid
from dqam.values.guarantee import Unit
from tests.statistics.cases import EACH, aggregates_of, some

CAPS = np.array([3, 5, 9])


class Watched(InMemory):
    """Notes what is added up in each scan."""

    def __init__(self) -> None:
        super().__init__(aggregates_of(some(20)).engine.walks)
        self.asked: list[list[type]] = []

    def add_up(self, aggregates: Sequence[Aggregate]) -> list[Integers]:
        self.asked.append([type(aggregate) for aggregate in aggregates])
        return super().add_up(aggregates)


def test_what_is_known_is_not_added_up_again() -> None:
    engine = Watched()
    kept = Aggregates(engine)
    for _ in range(2):
        assert kept.total(TripsOnGrid()).tolist() == [20]
        assert kept.total(MassByCell()).any()
    assert engine.asked == [[TripsOnGrid], [MassByCell]]
    with pytest.raises(ValueError, match="read-only"):
        kept.total(MassByCell())[0] = 1


def test_the_first_scan_brings_all_that_is_asked_anyway_and_a_later_one_its_companions() -> None:
    engine = Watched()
    kept = Aggregates(engine, (TripsOnGrid(), EndpointsByCell()))
    kept.total(MassByCell())
    kept.total(EndpointsByCell())
    sizes = kept.total(ShadowSizes(EACH, 3, CAPS))
    capped = kept.total(CappedShadows(EACH, 3, CAPS[[1]]))
    assert engine.asked == [[TripsOnGrid, EndpointsByCell, MassByCell], [CappedShadows, ShadowSizes]]
    assert kept.scans == 2
    assert sizes[-1] == 20
    np.testing.assert_array_equal(capped, aggregates_of(some(20)).total(CappedShadows(EACH, 3, CAPS[[1]])))


def test_of_persons_it_must_be_known_which_trips_are_kept() -> None:
    with pytest.raises(InputError, match="kept must say which trips count"):
        InMemory(aggregates_of(some(3)).engine.walks, unit=Unit.person(2))
    mask = np.array([True, False, True])
    kept = Aggregates.of(aggregates_of(some(3)).engine.walks, mask, Unit.person(2))
    assert kept.total(TripsOnGrid()).tolist() == [2]
