"""A histogram, and every question asked on the way to it, is a function of the curator's answers and of nothing else.

The answers that a mechanism got on one data set are given to it again on other data: all that it does must be the same,
to the last bit. With the curator's proofs this is what makes a mechanism private.
"""

from typing import Any

import numpy as np
import pytest

from dqam.evaluate.audited import WHOLE_MECHANISMS
from dqam.grid import Grid
from dqam.mechanisms import MECHANISMS, Mechanism
from dqam.mechanisms.dawa import Dawa
from dqam.mechanisms.dqam import Dqam
from dqam.partition.regions import Partition
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.rectangles import random_rectangles
from dqam.trips import Trips
from dqam.walks import Walks, walk

FORMS: dict[str, Mechanism] = {
    **{name: row.make() for name, row in MECHANISMS.items() if row.make},
    **{f"{name}, forced": mechanism for name, mechanism in WHOLE_MECHANISMS.items()},
    "dqam, deep": Dqam(depth=9, rounds=2, least=0),
    "dawa, by worth": Dawa(least=0),
}


class Prompted(Curator):
    """Notes questions and answers; says what it was told to say, if it was told."""

    script: list[Any] | None = None

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.questions: list[Any] = []
        self.answers: list[Any] = []

    def measure(self, statistic: Any, budget: Budget, epsilon: Any = None) -> Any:
        return self._reply(statistic, epsilon, super().measure(statistic, budget, epsilon))

    def select(self, scores: Any, budget: Budget, epsilon: Any = None) -> Any:
        return self._reply(scores, epsilon, super().select(scores, budget, epsilon))

    def partition(self, tree: Any, budget: Budget, epsilon: Any = None) -> Any:
        return self._reply(tree, epsilon, super().partition(tree, budget, epsilon))

    def _reply(self, question: Any, epsilon: Any, answer: Any) -> Any:
        values = {
            name: value.regions.tobytes()
            if isinstance(value, Partition)
            else value.tobytes()
            if isinstance(value, np.ndarray)
            else value
            for name, value in vars(question).items()
        }
        self.questions.append((type(question), values, epsilon))
        answer = answer if self.script is None else self.script[len(self.answers)]
        self.answers.append(answer)
        return answer.copy() if isinstance(answer, np.ndarray) else answer


def some_walks(rng: np.random.Generator, grid: Grid, trips: int) -> Walks:
    return walk(
        Trips.from_lists([rng.uniform(-0.1, 1.1, (rng.integers(1, 7), 2)).tolist() for _ in range(trips)]), grid
    )


@pytest.mark.parametrize("name", FORMS)
def test_nothing_but_the_answers_decides(name: str) -> None:
    rng = np.random.default_rng(11)
    for epsilon in (1, 20):
        grid = Grid((0.0, 0.0, 1.0, 1.0), int(rng.integers(2, 14)), int(rng.integers(2, 14)))
        queries = random_rectangles(grid, int(rng.integers(1, 40)), rng)
        first = Prompted(some_walks(rng, grid, 200), Budget(epsilon), SeededNoise(int(rng.integers(2**31))))
        made = FORMS[name].synthesize(first, queries, first.budget)
        assert first.spent == epsilon
        for trips in (0, 1, 60):
            again = Prompted(some_walks(rng, grid, trips), Budget(epsilon), SeededNoise(0))
            again.script = first.answers
            same = FORMS[name].synthesize(again, queries, again.budget)
            assert again.questions == first.questions
            assert again.ledger == first.ledger
            for part in ("faces", "vertical", "horizontal"):
                np.testing.assert_array_equal(getattr(same, part), getattr(made, part))
