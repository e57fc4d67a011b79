"""A histogram, and every question asked on the way to it, is a function of the curator's answers and of nothing else.

The answers that a mechanism got on one data set are given to it again on other data: all that it does must be the same,
to the last bit. With the curator's proofs this is what makes a mechanism private.
"""

import numpy as np
import pytest

from dqam.audit.cases import WHOLE_MECHANISMS
from dqam.audit.neighbours import ScriptedCurator
from dqam.geometry.grid import Grid
from dqam.geometry.rectangles import random_rectangles
from dqam.geometry.trips import Trips
from dqam.geometry.walks import Walks, walk
from dqam.mechanisms import MECHANISMS, Mechanism
from dqam.mechanisms.dawa import Dawa
from dqam.mechanisms.dqam import Dqam
from dqam.privacy.budget import Budget
from dqam.privacy.noise import SeededNoise
from dqam.values.guarantee import Promise

FORMS: dict[str, Mechanism] = {
    **{name: row.make() for name, row in MECHANISMS.items() if row.make},
    **{f"{name}, forced": mechanism for name, mechanism in WHOLE_MECHANISMS.items()},
    "dqam, deep": Dqam(depth=9, rounds=2, least=0),
    "dawa, by signal": Dawa(least=0),
}


def some_walks(rng: np.random.Generator, grid: Grid, trips: int) -> Walks:
    return walk(
        Trips.from_lists([rng.uniform(-0.1, 1.1, (rng.integers(1, 7), 2)).tolist() for _ in range(trips)]), grid
    )


@pytest.mark.parametrize("exchange", [False, True], ids=["Gaussian", "exchange"])
@pytest.mark.parametrize("name", FORMS)
def test_nothing_but_the_answers_decides_under_a_delta(name: str, exchange: bool) -> None:
    """Not even whether the budget is exchanged."""
    rng = np.random.default_rng(12)
    for promise in (Promise.of(1, 1e-8), Promise.of(20, 1e-4)):
        grid = Grid((0.0, 0.0, 1.0, 1.0), int(rng.integers(2, 14)), int(rng.integers(2, 14)))
        queries = random_rectangles(grid, int(rng.integers(1, 40)), rng)

        def curator(trips: int, seed: int, grid: Grid = grid, promise: Promise = promise) -> ScriptedCurator:
            walks, budget = some_walks(rng, grid, trips), Budget.of(promise)
            return ScriptedCurator(walks, budget, SeededNoise(seed), may_exchange=lambda: exchange)

        first = curator(200, int(rng.integers(2**31)))
        made = FORMS[name].synthesize(first, queries, first.budget).histogram
        assert first.spent == (promise.rho if first.concentrated else promise.epsilon)
        for trips in (0, 60):
            again = curator(trips, 0)
            again.script = first.answers
            same = FORMS[name].synthesize(again, queries, again.budget).histogram
            assert [each.question for each in again.asked] == [each.question for each in first.asked]
            assert again.paid == first.paid
            assert again.concentrated == first.concentrated
            for part in ("faces", "vertical", "horizontal"):
                np.testing.assert_array_equal(getattr(same, part), getattr(made, part))


@pytest.mark.parametrize("name", FORMS)
def test_nothing_but_the_answers_decides(name: str) -> None:
    rng = np.random.default_rng(11)
    for epsilon in (1, 20):
        grid = Grid((0.0, 0.0, 1.0, 1.0), int(rng.integers(2, 14)), int(rng.integers(2, 14)))
        queries = random_rectangles(grid, int(rng.integers(1, 40)), rng)
        first = ScriptedCurator(some_walks(rng, grid, 200), Budget(epsilon), SeededNoise(int(rng.integers(2**31))))
        made = FORMS[name].synthesize(first, queries, first.budget).histogram
        assert first.spent == epsilon
        for trips in (0, 1, 60):
            again = ScriptedCurator(some_walks(rng, grid, trips), Budget(epsilon), SeededNoise(0))
            again.script = first.answers
            same = FORMS[name].synthesize(again, queries, again.budget).histogram
            assert [each.question for each in again.asked] == [each.question for each in first.asked]
            assert again.paid == first.paid
            for part in ("faces", "vertical", "horizontal"):
                np.testing.assert_array_equal(getattr(same, part), getattr(made, part))
