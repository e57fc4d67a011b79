from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqam.errors import InputError
from dqam.experiments.printed_dawa import printed_dawa
from dqam.geometry.grid import Grid
from dqam.geometry.hilbert import hilbert_order
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.rectangles import random_rectangles
from dqam.geometry.trips import Trips
from dqam.geometry.walks import walk
from dqam.mechanisms.dawa import Dawa, estimate, fill, level_shares, level_usage, reconcile, without_negatives
from dqam.mechanisms.laplace import Laplace
from dqam.mechanisms.mwem import CellWeights
from dqam.mechanisms.rounds import curator_oracle, run_rounds
from dqam.mechanisms.uniform import Uniform
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.statistics import MASS, CellShares, GroupShares
from dqam.statistics.cell_shares import MassByCell
from dqam.statistics.distinct import DistinctTrips
from dqam.values.guarantee import Unit

CELLS = 4096
LINE = Grid((0.0, 0.0, 1.0, 1.0), 1, CELLS)
RANGES = random_rectangles(LINE, 1000, np.random.default_rng(1))

Answer = Callable[[Curator, Budget], np.ndarray]


def shape(name: str) -> np.ndarray:
    """How records lie on the line: chances of its cells."""
    place = np.arange(CELLS)
    if name == "smooth":
        chance = np.exp(-(((place - 1500) / 500) ** 2)) + 0.6 * np.exp(-(((place - 3000) / 250) ** 2)) + 0.05
    elif name == "sparse":  # nearly all in 40 cells, some of them heavy
        rng = np.random.default_rng(1)
        chance = np.zeros(CELLS)
        chance[rng.choice(CELLS, 40, replace=False)] = rng.pareto(1, 40) + 0.1
    else:  # clusters
        chance = np.full(CELLS, 0.01)
        for begin, end, height in ((100, 140, 10), (900, 1400, 1), (2000, 2010, 30), (3000, 3600, 0.5)):
            chance[begin:end] += height
    return chance / chance.sum()


def line(name: str, n: int = 10_000) -> Aggregates:
    """The literature's setting: a record is one count in one cell."""
    cells = np.random.default_rng(5).choice(CELLS, n, p=shape(name))
    return Aggregates.of(walk(Trips((cells + 0.5) / CELLS, np.full(n, 0.5), np.arange(n + 1)), LINE))


def sums(cells: np.ndarray) -> np.ndarray:
    """The answers of ranges."""
    before = np.concatenate([[0.0], np.cumsum(cells.ravel())])
    return before[RANGES[:, 2]] - before[RANGES[:, 0]]


def error(kept: Aggregates, epsilon: str, answer: Answer, runs: int = 4) -> float:
    """The mean absolute error of ranges."""
    truth = sums(kept.total(MassByCell()) / MASS)
    errors = []
    for seed in range(runs):
        curator = Curator(kept, Budget(epsilon), SeededNoise(seed))
        errors.append(np.abs(sums(answer(curator, curator.budget)) - truth).mean())
        assert curator.spent == curator.budget.amount
    return float(np.mean(errors))


def dawa(curator: Curator, budget: Budget) -> np.ndarray:
    return Dawa().shares(curator, RANGES, budget)


def identity(curator: Curator, budget: Budget) -> np.ndarray:
    return curator.measure(CellShares(), budget) / MASS


class Patient(CellWeights):
    """Goes over all counts 20 times after each round: on a line of as many cells one pass is not nearly enough."""

    def learn(self, rectangles: np.ndarray, counts: np.ndarray) -> None:
        for _ in range(20):
            super().learn(rectangles, counts)


def mwem(rounds: int) -> Answer:
    """The project's MWEM on faces alone, and better: it is told the exact number of records, as in the literature."""

    def counts(weights: np.ndarray) -> SpatialHistogram:
        scaled = weights * (10_000 / weights.sum())
        return SpatialHistogram(LINE, scaled, np.zeros((1, CELLS - 1)), np.zeros((0, CELLS)))

    def answer(curator: Curator, budget: Budget) -> np.ndarray:
        oracle = curator_oracle(curator, RANGES, budget, rounds)
        return run_rounds(Patient(LINE, counts), RANGES, rounds, oracle, 10_000).faces

    return answer


@pytest.mark.parametrize("name", ["smooth", "sparse", "clusters"])
def test_ranges_as_in_the_literature(name: str) -> None:
    """Better than noise on every cell, the more so the smaller n * eps is; than an even spread; and than MWEM."""
    kept = line(name)
    even = np.abs(sums(np.full(CELLS, 10_000 / CELLS)) - sums(kept.total(MassByCell()) / MASS)).mean()
    errors = [error(kept, epsilon, dawa) for epsilon in ("0.01", "0.1", "1")]
    plain = [error(kept, epsilon, identity) for epsilon in ("0.01", "0.1", "1")]
    assert errors[0] > 2 * errors[1] > 4 * errors[2]
    assert errors[0] < plain[0] / 4
    assert errors[0] < 0.9 * even
    assert errors[1] < plain[1] / 2.5
    assert errors[2] < plain[2] / 1.4
    best = min(error(kept, "0.1", mwem(rounds)) for rounds in (3, 6, 10))  # rounds by hindsight
    assert errors[1] < best / 1.25


def oracle_usage(starts: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """What one query reads of each level, straight from the definition."""
    leaves = [(float(weights[a:b].mean()),) for a, b in pairwise(starts)]
    levels: list[list[tuple[float, ...]]] = [leaves]
    while len(levels[-1]) > 1:
        below = levels[-1]
        levels.append([sum(below[i : i + 2], ()) for i in range(0, len(below), 2)])
    usage = np.zeros(len(levels))
    for k, nodes in enumerate(levels):
        for i, node in enumerate(nodes):
            above = levels[k + 1][i // 2] if k + 1 < len(levels) else (0.0, 1.0)
            if len(set(node)) == 1 and len(set(above)) > 1:
                usage[k] += node[0] ** 2
    return usage


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 10**6), st.sampled_from([0.0, 1.5]))
@settings(max_examples=60, deadline=None)
def test_usage_is_what_queries_read(rows: int, columns: int, seed: int, border: float) -> None:
    rng = np.random.default_rng(seed)
    queries = random_rectangles(Grid((0, 0, 1, 1), rows, columns), 5, rng)
    order = hilbert_order(rows, columns)
    cuts = np.flatnonzero(rng.random(len(order) - 1) < 0.5) + 1
    starts = np.array([0, *cuts, len(order)])
    wanted = np.zeros(0)
    for west, south, east, north in queries:
        row, column = np.divmod(order, columns)
        sides = (row == south) * 1 + (row == north - 1) + (column == west) + (column == east - 1)
        inside = (west <= column) & (column < east) & (south <= row) & (row < north)
        usage = oracle_usage(starts, inside * (1 + border * sides))
        wanted = usage if not len(wanted) else wanted + usage
    np.testing.assert_allclose(level_usage(starts, order, columns, queries, border), wanted)


def test_shares_follow_the_queries() -> None:
    """Single cells need leaves alone; ranges over many cells need levels above, and get less error from them."""
    starts, order = np.arange(CELLS + 1), np.arange(CELLS)
    single = np.array([[i, 0, i + 1, 1] for i in range(0, CELLS, 7)])
    assert level_shares(level_usage(starts, order, CELLS, single)) == [1, *[0] * 12]
    usage = level_usage(starts, order, CELLS, RANGES)
    shares = level_shares(usage)
    assert sum(shares) == 1
    assert shares[0] > 0
    assert sum(share > 0 for share in shares) >= 3

    def miss(usage: np.ndarray) -> float:
        rng = np.random.default_rng(0)

        def ask(groups: np.ndarray, share: Fraction) -> np.ndarray:
            return rng.laplace(0, 1 / float(share), int(groups.max()) + 1)

        return float(np.mean([(sums(fill(starts, order, estimate(starts, usage, ask))) ** 2).mean() for _ in range(5)]))

    assert miss(usage) < 0.6 * miss(np.eye(13)[0])


def test_shares_of_rho_are_those_for_variances_that_fall_with_the_share() -> None:
    """Against a search over all shares of three levels; those of a pure budget are worse for them."""
    usage = np.array([3.0, 2.0, 5.0])

    def cost(shares: list[Fraction], power: int) -> float:
        """What queries read, with the variances of the estimates as they are combined from the leaves up."""
        variances = np.array([1 / float(shares[0]) ** power])
        for share in shares[1:]:
            own = 1 / (float(share) ** power + 1 / (2 * variances[-1]))
            variances = np.append(variances, own)
        return float(usage @ variances)

    for power, other in ((1, 2), (2, 1)):
        shares = level_shares(usage, power)
        assert sum(shares) == 1
        assert shares != level_shares(usage, other)
        assert cost(shares, power) < cost(level_shares(usage, other), power)
        rivals = [
            [Fraction(a, 32), Fraction(b, 32), Fraction(32 - a - b, 32)] for a in range(1, 32) for b in range(32 - a)
        ]
        assert cost(shares, power) < 1.1 * min(cost(rival, power) for rival in rivals)
    assert level_shares(usage) == level_shares(usage, 2)


def test_estimates_weigh_levels_by_the_variance_of_their_noise() -> None:
    """With Gaussian noise of rho, weights for a pure budget give more error."""
    starts, order = np.arange(CELLS + 1), np.arange(CELLS)
    usage = level_usage(starts, order, CELLS, RANGES)

    def miss(power: int) -> float:
        rng = np.random.default_rng(0)

        def ask(groups: np.ndarray, share: Fraction) -> np.ndarray:
            return rng.normal(0, float(share) ** -0.5, int(groups.max()) + 1)

        made = [sums(fill(starts, order, estimate(starts, usage, ask, power))) for _ in range(5)]
        return float(np.mean([(each**2).mean() for each in made]))

    assert miss(1) < 0.9 * miss(2)


@given(st.integers(1, 21), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_levels_are_reconciled_by_least_squares(leaves: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, values, sums_, variances = [], [], [], []
    for k in range((leaves - 1).bit_length() + 1):
        group = np.arange(leaves) >> k
        design = (group[None, :] == np.arange(group.max() + 1)[:, None]).astype(float)
        measured = k == 0 or rng.random() < 0.6
        variances.append(float(rng.uniform(0.1, 5)) if measured else np.inf)
        sums_.append(rng.normal(0, 10, len(design)) if measured else None)
        if sums_[-1] is not None:
            rows.append(design / np.sqrt(variances[-1]))
            values.append(sums_[-1] / np.sqrt(variances[-1]))
    best = np.linalg.lstsq(np.concatenate(rows), np.concatenate(values), rcond=None)[0]
    np.testing.assert_allclose(reconcile(sums_, variances), best, atol=1e-8)


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=30))
def test_negatives_go_and_the_sum_stays(values: list[float]) -> None:
    before = np.array(values)
    after = without_negatives(before)
    assert (after >= 0).all()
    assert after.sum() == pytest.approx(max(before.sum(), 0), abs=1e-9)
    kept = after > 0
    if kept.any():  # all that stay are lowered alike, and what went was below that
        lowered = (before - after)[kept]
        np.testing.assert_allclose(lowered, lowered[0], atol=1e-9)
        assert (before[~kept] <= lowered[0] + 1e-9).all()


SQUARE = Grid((0.0, 0.0, 1.0, 1.0), 64, 64)


def crowd(n: int) -> Aggregates:
    """Straight trips, most of them near one corner."""
    rng = np.random.default_rng(2)
    start = rng.beta(1, 4, (n, 2)) * 0.99
    end = np.clip(start + rng.normal(0, 0.08, (n, 2)), 0, 0.99)
    x, y = np.stack([start, end], axis=1).reshape(-1, 2).T.copy()
    return Aggregates.of(walk(Trips(x, y, np.arange(0, 2 * n + 1, 2)), SQUARE))


def test_trips_on_a_grid() -> None:
    kept = crowd(20_000)
    queries, fresh = (random_rectangles(SQUARE, 500, np.random.default_rng(seed)) for seed in (1, 2))
    truth = kept.total(DistinctTrips(fresh))

    def miss(mechanism: Dawa | Laplace | Uniform, epsilon: str) -> float:
        errors = []
        for seed in range(3):
            curator = Curator(kept, Budget(epsilon), SeededNoise(seed))
            histogram = mechanism.synthesize(curator, queries, curator.budget).histogram
            assert curator.spent == curator.budget.amount
            assert isinstance(mechanism, Laplace) or histogram.faces.min() >= 0
            errors.append(np.abs(histogram.answers(fresh) - truth).mean())
        return float(np.mean(errors))

    assert miss(Dawa(), "0.1") < miss(Laplace(), "0.1") / 1.5
    assert miss(Dawa(), "0.02") < miss(Uniform(), "0.02") / 1.2
    assert miss(Dawa(), "0.1") < miss(Dawa(), "0.02")


def test_little_data_are_spread_evenly() -> None:
    kept = crowd(300)
    queries = random_rectangles(SQUARE, 50, np.random.default_rng(1))
    curator = Curator(kept, Budget("0.1"), SeededNoise(0))
    faces = Dawa().synthesize(curator, queries, curator.budget).histogram.faces
    assert faces.min() == pytest.approx(faces.max())
    assert curator.spent == curator.budget.amount
    assert not any(entry.kind == "partition" for entry in curator.paid)


def test_the_unit_of_a_person_widens_all_noise() -> None:
    kept = crowd(20_000)
    queries = random_rectangles(SQUARE, 50, np.random.default_rng(1))
    curator = Curator(kept, Budget(1), SeededNoise(0), Unit.person(4), np.arange(20_000) // 5)
    Dawa().synthesize(curator, queries, curator.budget)
    assert curator.spent == 1
    for entry in curator.paid:
        if entry.name == GroupShares.name:
            assert entry.scale == 4 * MASS / entry.epsilon
        elif entry.kind == "partition":
            assert entry.scale == 4 * 4 * 2**30 / entry.epsilon


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (3, 5)])
def test_small_grids(shape: tuple[int, int]) -> None:
    grid = Grid((0.0, 0.0, 1.0, 1.0), *shape)
    points = np.random.default_rng(0).uniform(0, 1, (500, 2))
    kept = Aggregates.of(walk(Trips(points[:, 0].copy(), points[:, 1].copy(), np.arange(501)), grid))
    curator = Curator(kept, Budget(10), SeededNoise(0))
    queries = np.array([[0, 0, 1, 1]])
    histogram = Dawa().synthesize(curator, queries, curator.budget).histogram
    assert curator.spent == 10
    assert np.isfinite(histogram.faces).all()
    if histogram.faces.size > 1:
        assert histogram.total == pytest.approx(500, abs=20)


@pytest.mark.parametrize("ratio", [0.0, 1.0, -0.5, np.nan])
def test_a_ratio_is_between_0_and_1(ratio: float) -> None:
    with pytest.raises(InputError, match="ratio"):
        Dawa(ratio=ratio)


def test_too_large_a_grid_is_refused_before_anything_is_spent() -> None:
    grid = Grid((0.0, 0.0, 1.0, 1.0), 4096, 4096)
    kept = Aggregates.of(walk(Trips(np.array([0.5]), np.array([0.5]), np.arange(2)), grid))
    curator = Curator(kept, Budget(1), SeededNoise(0))
    with pytest.raises(InputError, match="at most"):
        Dawa().synthesize(curator, np.array([[0, 0, 1, 1]]), curator.budget)
    assert not curator.paid


def test_the_printed_form_gets_better_with_epsilon() -> None:
    faces = np.random.default_rng(0).poisson(crowd(2000).total(MassByCell()) / MASS * 8).astype(float)
    queries = random_rectangles(SQUARE, 500, np.random.default_rng(1))
    west, south, east, north = queries.T

    def answers(cells: np.ndarray) -> np.ndarray:
        table = np.zeros((65, 65))
        table[1:, 1:] = cells.cumsum(axis=0).cumsum(axis=1)
        return table[north, east] - table[south, east] - table[north, west] + table[south, west]

    def miss(epsilon: float) -> float:
        runs = [printed_dawa(faces, queries, epsilon, np.random.default_rng(seed)) for seed in range(3)]
        return float(np.mean([np.abs(answers(run) - answers(faces)).mean() for run in runs]))

    errors = [miss(epsilon) for epsilon in (0.01, 0.1, 1.0)]
    assert errors[0] > 2 * errors[1] > 4 * errors[2]
    assert miss(10_000.0) < 0.1
    noisy = faces + np.random.default_rng(0).laplace(0, 100, faces.shape)
    assert errors[0] < np.abs(answers(noisy) - answers(faces)).mean() / 1.5
