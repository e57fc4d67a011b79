import numpy as np
import pytest

from dqam.mechanisms.laplace import Laplace
from dqam.mechanisms.size import measure_size
from dqam.mechanisms.spreading import spread
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.statistics import MASS, CellShares
from tests.mechanisms.cases import city, run, some_queries


@pytest.mark.parametrize("epsilon", ["1", "20"])
def test_noisy_shares_are_moved_to_the_number_of_trips(epsilon: str) -> None:
    """All alike: the sum of as many noisy numbers is far off, and the number of trips is known better."""
    kept = city(300)
    grid, queries = kept.grid, some_queries(kept.grid)
    made, _ = run(Laplace(least=0), kept, queries, epsilon, 7)
    curator = Curator(kept, Budget(epsilon), SeededNoise(7))
    size = measure_size(curator, queries, curator.budget, 0)
    shares = curator.measure(CellShares(), curator.budget).reshape(grid.shape) / MASS
    moved = shares - shares.mean() + size.trips / shares.size
    np.testing.assert_allclose(made.faces, spread(grid, moved, size).faces)


def test_what_is_too_little_depends_on_the_grid() -> None:
    """A signal of 5 side^1.5: 905 on 32 x 32 cells, 320 on 16 x 16."""
    for resolution, epsilon, noisy in ((5, "2", False), (5, "4", True), (4, "0.8", False), (4, "2", True)):
        kept = city(300, resolution=resolution)
        _, curator = run(Laplace(), kept, some_queries(kept.grid), epsilon)
        assert any(entry.name == CellShares().name for entry in curator.paid) == noisy
