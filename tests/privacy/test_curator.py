from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from dqam.errors import InputError
from dqam.grid import Grid
from dqam.partition.privtree import PrivTree
from dqam.privacy.budget import Budget, BudgetError, Unit
from dqam.privacy.curator import Curator, Entry
from dqam.privacy.noise import OpenDPNoise, SeededNoise
from dqam.statistics import MASS, LengthQuantile, Records, TripCount
from dqam.trips import Trips
from dqam.walks import Walks, walk

GRID = Grid((0.0, 0.0, 4.0, 4.0), 4, 4)


def walks(n: int = 50) -> Walks:
    rng = np.random.default_rng(1)
    return walk(Trips(rng.uniform(0, 4, 3 * n), rng.uniform(0, 4, 3 * n), np.arange(0, 3 * n + 1, 3)), GRID)


class Spy(TripCount):
    """Notes when the data was looked at."""

    looked = 0

    def of(self, records: Records) -> np.ndarray:
        type(self).looked += 1
        return super().of(records)


def test_the_budget_is_charged_before_the_data_is_looked_at() -> None:
    curator, budget = Curator(walks(), SeededNoise(0)), Budget(1)
    curator.measure(Spy(), budget, "0.75")
    assert Spy.looked == 1
    with pytest.raises(BudgetError, match="0.5 of epsilon was asked and 0.25 of 1 is left"):
        curator.measure(Spy(), budget, 0.5)
    assert Spy.looked == 1
    assert curator.spent == Fraction(3, 4)


def test_a_question_that_breaks_is_charged_all_the_same() -> None:
    class Broken(TripCount):
        def of(self, records: Records) -> np.ndarray:
            raise RuntimeError

    budget = Budget(1)
    curator = Curator(walks(), SeededNoise(0))
    with pytest.raises(RuntimeError):
        curator.measure(Broken(), budget)
    assert budget.left == 0
    assert curator.spent == 1


def test_the_ledger_tells_all() -> None:
    curator, budget = Curator(walks(), SeededNoise(0), Unit.person(3), ["a"] * 25 + ["b"] * 25), Budget(1)
    counted, tree, length = budget.split(counted=1, tree=2, length=1)
    curator.measure(TripCount(), counted)
    curator.partition(PrivTree(), tree)
    curator.select(LengthQuantile(np.array([1, 2]), Fraction(9, 10)), length)
    assert curator.ledger == (
        Entry("measure", "number of trips", 3, Fraction(1, 4), Fraction(12)),
        Entry("partition", "privtree", 3 * MASS, Fraction(1, 2), Fraction(14 * MASS)),
        Entry("select", "walk length quantile", 27, Fraction(1, 4), Fraction(2 * 27 * 4)),
    )
    assert curator.spent == 1
    with pytest.raises(AttributeError):
        curator.ledger[0].epsilon = Fraction(0)  # type: ignore[misc]


def test_noise_has_the_scale_of_the_unit() -> None:
    def spread(unit: Unit) -> float:
        curator = Curator(walks(40), SeededNoise(0), unit, [str(i) for i in range(40)])
        return float(np.std([curator.measure(TripCount(), Budget(1)) for _ in range(2000)]))

    assert spread(Unit.person(5)) / spread(Unit.trip()) == pytest.approx(5, rel=0.15)


def test_persons_are_needed_for_a_unit_of_persons() -> None:
    for persons in (None, ["a"]):
        with pytest.raises(InputError, match="whose they are"):
            Curator(walks(), SeededNoise(0), Unit.person(2), persons)
    with pytest.raises(InputError, match="1 trips do not say whose"):
        Curator(walks(2), SeededNoise(0), Unit.person(2), pa.array(["a", None]))


def test_only_the_noise_of_releases_is_private() -> None:
    assert Curator(walks(), OpenDPNoise()).private
    assert not Curator(walks(), SeededNoise(0)).private
    assert abs(Curator(walks(), OpenDPNoise()).measure(TripCount(), Budget(50))[0] - 50) <= 3


def test_private_number_and_length() -> None:
    data = walks(2000)
    curator = Curator(data, OpenDPNoise())
    assert abs(curator.measure(TripCount(), Budget(1))[0] - 2000) < 40
    scores = LengthQuantile.on(GRID, Fraction(9, 10))
    chosen = scores.lengths[curator.select(scores, Budget(1))]
    crossings = np.diff(data.pieces) - 1
    assert 0.85 < (crossings <= chosen).mean() < 0.97
