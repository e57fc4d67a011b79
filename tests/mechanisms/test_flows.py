"""Flows are measured for the budget, add up to the trips, and are better than noise that is cut."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dqam.geometry.grid import Grid
from dqam.geometry.lattice import Lattice
from dqam.mechanisms.flows import (
    MOST_SIDE,
    balanced,
    estimate_flows,
    fit_slices,
    flow_questions,
    lattices,
    measure_flows,
    tile_side,
)
from dqam.mechanisms.sparse_counts import Counts
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.statistics import MOST_TRIPS, PairCounts
from dqam.values.guarantee import Promise
from tests.mechanisms.cases import city, strolls


@pytest.mark.parametrize("shape", [(256, 256), (128, 64), (100, 100), (7, 300), (1, 5), (33, 40)])
@pytest.mark.parametrize("side", [2, 8, 32])
def test_lines_of_coarser_lattices_are_lines_of_finer_ones(shape: tuple[int, int], side: int) -> None:
    grid = Grid((0, 0, 1, 1), *shape)
    finest, (tiles, cells) = lattices(grid, MOST_SIDE), lattices(grid, side)
    for coarse, fine in ((tiles, cells), (tiles, finest[0]), (cells, finest[1])):
        assert np.isin(coarse.east, fine.east).all()
        assert np.isin(coarse.north, fine.north).all()
        assert coarse.fits(grid)
    assert max(tiles.shape) <= side + 1


@pytest.mark.parametrize("signal", [0, 1e-9, 10, 1e4, 1e12])
def test_there_are_more_tiles_for_a_stronger_signal(signal: float) -> None:
    assert 2 <= tile_side(signal) <= tile_side(4 * signal + 1) <= MOST_SIDE


def curator(trips: Aggregates, epsilon: Fraction) -> tuple[Curator, Budget]:
    budget = Budget.of(Promise.of(epsilon))
    return Curator(trips, budget, SeededNoise(0)), budget


def exact(trips: Aggregates, tiles: Lattice) -> np.ndarray:
    """The exact table."""
    return trips.value(PairCounts(tiles, tiles)).reshape(tiles.cells, -1)


def test_all_of_the_budget_is_spent_and_the_table_adds_up() -> None:
    trips = city(2_000)
    asked, budget = curator(trips, Fraction(1))
    measured = measure_flows(asked, budget, 2_000)
    assert asked.spent == 1
    assert not budget.left
    table = estimate_flows(measured, 2_000.5)
    assert table.total == pytest.approx(2_000.5)
    for end in (table.origins, table.destinations):
        assert np.bincount(table.tiles.within(table.cells).labels.ravel(), end.shares) == pytest.approx(1)
    assert table.by_slice is None


def test_flows_are_better_than_noise_that_is_cut_and_than_noise_below_a_threshold() -> None:
    trips = city(20_000, resolution=7)
    asked, budget = curator(trips, Fraction(1))
    table = estimate_flows(measure_flows(asked, budget, 20_000), 20_000)
    truth = exact(trips, table.tiles)
    noisy = truth + np.rint(np.random.default_rng(0).laplace(0, 1, truth.shape))
    errors = [np.abs(each - truth).sum() for each in (table.trips, np.maximum(noisy, 0), np.where(noisy < 4, 0, noisy))]
    assert errors[0] < 0.6 * min(errors[1:])


def test_intervals_contain_the_truth() -> None:
    trips = city(20_000, resolution=7)
    asked, budget = curator(trips, Fraction(1, 2))
    table = estimate_flows(measure_flows(asked, budget, 20_000), 20_000)
    truth, reach = exact(trips, table.tiles), 1.645 * np.sqrt(table.variance)
    inside = (np.rint(table.trips - reach) <= truth) & (truth <= np.rint(table.trips + reach))
    assert inside[table.trips > 2].mean() > 0.85
    assert 0.9 < inside.mean() <= 1


def test_a_weak_signal_gives_an_even_table() -> None:
    trips = city()
    asked, budget = curator(trips, Fraction(1, 1_000))
    table = estimate_flows(measure_flows(asked, budget, 300), 300)
    assert np.isfinite(table.trips).all()
    assert table.total == pytest.approx(300)


def test_without_trips_there_is_a_table_all_the_same() -> None:
    trips = strolls(0, Grid((0, 0, 1, 1), 32, 32))
    asked, budget = curator(trips, Fraction(1))
    table = estimate_flows(measure_flows(asked, budget, 0), -3.0)
    assert table.total == pytest.approx(1)


def test_questions_cover_what_is_asked_later() -> None:
    trips = city(500)
    known = [each for question in flow_questions(trips.grid, None) for each in question.aggregates]
    asked, budget = curator(trips, Fraction(1))
    for side in (2, 16):
        tiles, cells = lattices(trips.grid, side)
        whole = Lattice.even(trips.grid, 1)
        for pair in ((tiles, tiles), (cells, whole), (whole, cells)):
            (wanted,) = PairCounts(*pair).aggregates
            assert any(wanted.covered_by(each) for each in known)
    measure_flows(asked, budget, 500)


def test_balancing_brings_sums_closer() -> None:
    rng = np.random.default_rng(1)
    wanted = rng.uniform(1, 9, (6, 6))
    found = balanced(np.ones((6, 6)), wanted.sum(axis=1), wanted.sum(axis=0))
    assert found.sum(axis=0) == pytest.approx(wanted.sum(axis=0))
    assert found.sum(axis=1) == pytest.approx(wanted.sum(axis=1), rel=1e-6)


def test_slices_follow_their_counts_where_noise_is_small_and_their_sizes_where_it_is_large() -> None:
    tiles, coarse = Lattice(np.array([0, 1, 2]), np.array([0, 1])), Lattice(np.array([0, 1, 2]), np.array([0, 1]))
    table = np.array([[4_000.0, 1_000.0], [2_000.0, 3_000.0]])
    true = np.stack([table * 0.1, table * 0.9])
    true[:, 0, 0] = 2_000
    sizes = true.sum(axis=(1, 2))
    clear = fit_slices(Counts(true, 1.0, False), coarse, tiles, table, ("a", "b"), sizes)
    assert clear.shares == pytest.approx(true / true.sum(axis=0), abs=0.01)
    vague = fit_slices(Counts(true, 1e7, False), coarse, tiles, table, ("a", "b"), sizes)
    assert vague.shares == pytest.approx(np.broadcast_to((sizes / sizes.sum())[:, None, None], (2, 2, 2)), abs=0.15)
    assert clear.noise.max() < vague.noise.max()


def test_on_a_coarse_grid_there_are_as_many_tiles() -> None:
    """As on a fine one, if it has as many columns."""
    for side in (2, 4, 8):
        assert [lattices(Grid((0, 0, 1, 1), n, n), side)[0].shape for n in (16, 32, 512)] == 3 * [(side, side)]


@pytest.mark.parametrize("epsilon", ["1e-9", "0.001", 1])
@pytest.mark.parametrize("trips", [0, 300])
def test_variances_are_no_larger_than_what_they_are_of(trips: int, epsilon: str) -> None:
    """So that files can hold them, however weak the signal is; also by slice."""
    whole = city()
    asked, budget = curator(whole, Fraction(epsilon))
    measured = measure_flows(asked, budget, trips)
    coarse, rng = lattices(whole.grid, 4)[0], np.random.default_rng(0)
    by_slice = Counts(np.rint(rng.laplace(0, 1e12, (3, coarse.cells, coarse.cells))), 1e12, False)
    table = estimate_flows(replace(measured, by_slice=by_slice), trips, ("a", "b", "c"), np.array([0.0, 0.0, trips]))
    assert table.by_slice is not None
    assert table.variance.max() <= MOST_TRIPS**2
    assert max(table.origins.variance.max(), table.destinations.variance.max()) <= 0.25
    assert table.by_slice.noise.max() <= 0.5
    assert table.total == pytest.approx(max(trips, 1))
