"""Intervals around the answers of flux: they hold the truth as often as they say, and cost nothing."""

import numpy as np
import pytest

from dqam.geometry.rectangles import random_rectangles
from dqam.mechanisms.flux import Flux
from dqam.mechanisms.flux_uncertainty import FluxEstimate, resample
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.statistics.distinct import DistinctTrips
from dqam.statistics.trip_count import TripsOnGrid
from dqam.values.uncertainty import Uncertainty
from tests.mechanisms.cases import city, some_queries, strolls, unit_square


def estimated(kept: Aggregates, epsilon: str, seed: int) -> tuple[FluxEstimate, Curator]:
    curator = Curator(kept, Budget(epsilon), SeededNoise(seed))
    return Flux().synthesize(curator, some_queries(kept.grid, 400), curator.budget), curator


def uncertainty_of(kept: Aggregates, epsilon: str, seed: int) -> Uncertainty:
    estimate, curator = estimated(kept, epsilon, seed)
    asked = len(curator.paid)
    made = resample(estimate)
    assert len(curator.paid) == asked
    return made


@pytest.mark.parametrize(("trips", "epsilon"), [(300, "0.02"), (1000, "0.3"), (1000, "1"), (4000, "2")])
def test_nine_in_ten_intervals_hold_the_truth(trips: int, epsilon: str) -> None:
    kept = city(trips, resolution=6)
    fresh = random_rectangles(kept.grid, 800, np.random.default_rng(9))
    truth, held = kept.total(DistinctTrips(fresh)), []
    for seed in range(6):
        low, high = uncertainty_of(kept, epsilon, seed).intervals(fresh)
        held.append(((low <= truth) & (truth <= high)).mean())
    assert 0.8 <= np.mean(held) <= 1.0


@pytest.mark.parametrize("epsilon", ["0.3", "1", "4"])
def test_the_number_of_trips_is_as_uncertain_as_its_noise(epsilon: str) -> None:
    """Of the whole map nothing but noise is uncertain, and that of its scale is known, not drawn."""
    kept, off, noises = city(1000), [], []
    for seed in range(30):
        made, _ = estimated(kept, epsilon, seed)
        off.append(made.histogram.total - kept.total(TripsOnGrid())[0])
        noises.append(made.size.noise)
        if seed < 5:
            uncertainty = resample(made)
            assert uncertainty.lattice is not None
            assert uncertainty.noise == made.size.noise
            np.testing.assert_allclose(uncertainty.deviations(np.array([[0, 0, 32, 32]])), made.size.noise)
    assert 0.7 < np.std(off) / np.mean(noises) < 1.4


@pytest.mark.parametrize(("rows", "columns"), [(16, 64), (64, 16), (1, 64)])
def test_so_it_is_where_the_grid_is_no_square(rows: int, columns: int) -> None:
    kept = strolls(4000, unit_square(rows, columns))
    made = uncertainty_of(kept, "4", 0)
    assert made.lattice is not None
    np.testing.assert_allclose(made.deviations(np.array([[0, 0, columns, rows]])), made.noise)


def test_they_are_not_simply_wide() -> None:
    kept = city(4000, resolution=6)
    fresh = random_rectangles(kept.grid, 800, np.random.default_rng(9))
    widths = []
    for epsilon in ("0.02", "0.2", "2"):
        low, high = uncertainty_of(kept, epsilon, 0).intervals(fresh)
        widths.append((high - low).mean() / kept.total(DistinctTrips(fresh)).mean())
    assert widths[0] > 1.3 * widths[1] > 1.3 * 1.3 * widths[2]
    assert widths[2] < 0.35


def test_the_same_seed_gives_the_same_uncertainty() -> None:
    kept = city(1000, resolution=6)
    fresh = random_rectangles(kept.grid, 300, np.random.default_rng(9))
    one, other = (uncertainty_of(kept, "1", 1).deviations(fresh) for _ in range(2))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (9, 2)])
def test_on_small_grids(shape: tuple[int, int]) -> None:
    kept = strolls(200, unit_square(*shape))
    for epsilon in ("0.001", "10"):
        low, high = uncertainty_of(kept, epsilon, 0).intervals(some_queries(kept.grid, 20))
        assert np.isfinite([low, high]).all()
        assert (low <= high).all()
