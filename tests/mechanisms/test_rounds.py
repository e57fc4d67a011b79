"""The rounds that MWEM, PriSH and DQAM share, and what their models learn in them."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqam.geometry.histogram import SpatialHistogram
from dqam.mechanisms.mwem import Mwem
from dqam.mechanisms.prish import Prish
from dqam.mechanisms.rounds import Oracle, curator_oracle, measure_crossings, rounds_for, run_rounds
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.statistics.distinct import DistinctTrips
from dqam.values.guarantee import Unit
from tests.mechanisms.cases import city, mwem, parts, prish, run, seeds, some_queries, strolls, unit_square

MODELS = pytest.mark.parametrize("make", [mwem, prish])


@MODELS
@given(seed=seeds, count=st.floats(0, 100))
@settings(max_examples=60, deadline=None)
def test_learning_moves_the_newest_answer_towards_its_count(make: type, seed: int, count: float) -> None:
    model, query = make(), some_queries(unit_square(8, 8), 1, seed)
    before = float(model.histogram().answers(query)[0])
    model.learn(query, np.array([count]))
    after = float(model.histogram().answers(query)[0])
    if (query[0] == [0, 0, 8, 8]).all() or abs(count - before) < 1e-6:
        assert after == pytest.approx(before, rel=1e-6)  # the whole grid always holds all trips
    else:
        assert (after - before) * (count - before) > 0
        assert abs(count - after) < abs(count - before)


@MODELS
def test_the_newest_count_is_what_a_model_without_replay_learns(make: type) -> None:
    queries = some_queries(unit_square(8, 8), 3)
    counts = np.array([10.0, 90.0, 60.0])
    one, other, replayed = make(replay=False), make(replay=False), make()
    one.learn(queries[-1:], counts[-1:])
    other.learn(queries, counts)
    replayed.learn(queries, counts)
    np.testing.assert_array_equal(parts(one.histogram()), parts(other.histogram()))
    assert (parts(one.histogram()) != parts(replayed.histogram())).any()


@MODELS
def test_replay_comes_to_fit_all_counts(make: type) -> None:
    queries = np.array([[0, 0, 4, 4], [4, 4, 8, 8], [2, 0, 3, 8]])
    counts = np.array([70.0, 30.0, 45.0])
    model = make()
    first = np.abs(model.histogram().answers(queries) - counts).sum()
    for _ in range(60):
        model.learn(queries, counts)
    assert np.abs(model.histogram().answers(queries) - counts).sum() < 0.15 * first


def test_rounds_ask_for_the_worst_and_cut_what_can_not_be_true() -> None:
    queries, model, seen = some_queries(unit_square(8, 8), 10), mwem(), []

    class Model:
        def histogram(self) -> SpatialHistogram:
            return model.histogram()

        def learn(self, rectangles: np.ndarray, counts: np.ndarray) -> None:
            seen.append((rectangles.copy(), counts.copy()))
            model.learn(rectangles, counts)

    estimates: list[np.ndarray] = []
    answers = iter([-20.0, 1e6, 33.0])
    picked = iter([4, 7, 4])

    def choose(now: np.ndarray) -> int:
        estimates.append(now)
        return next(picked)

    run_rounds(Model(), queries, 3, Oracle(choose, lambda chosen: next(answers)), 60.0)
    assert all((now >= 0).all() and (now <= 60).all() for now in estimates)
    assert (estimates[0] != estimates[1]).any()
    assert [counts.tolist() for _, counts in seen] == [[0], [0, 60], [0, 60, 33]]
    np.testing.assert_array_equal(seen[-1][0], queries[[4, 7, 4]])


def test_the_curator_as_oracle_spends_all_that_is_left() -> None:
    kept = city(300)
    queries = some_queries(kept.grid)
    curator = Curator(kept, Budget(10**7), SeededNoise(0))
    curator.budget.spend(10**6)
    oracle = curator_oracle(curator, queries, curator.budget, 2)
    truth = kept.total(DistinctTrips(queries))
    wrong = truth.astype(float)
    wrong[17] += 25
    for _ in range(2):
        assert oracle.choose(wrong) == 17
        assert oracle.count(17) == truth[17]
    assert curator.budget.left == 0
    assert len({entry.epsilon for entry in curator.paid}) == 1


def test_crossings_are_those_of_the_data_or_a_guess() -> None:
    kept = city(1000)
    truth = float(
        np.minimum(np.diff(kept.engine.walks.pieces) - 1, 32).mean()
    )  # of each trip at most a side of the grid
    grid = unit_square(32, 32)
    for epsilon, wanted, width in ((10**6, truth, 0.001), ("0.0001", 16, 0.01)):
        curator = Curator(kept, Budget(epsilon), SeededNoise(0))
        assert measure_crossings(curator, curator.budget, 1000.0) == pytest.approx(wanted, rel=width)
        assert curator.spent == curator.budget.amount / 20
    curator = Curator(strolls(1000, grid, wide=0), Budget(1), SeededNoise(0))
    assert 0 <= measure_crossings(curator, curator.budget, 1000.0) < 2
    one, two = (
        Curator(kept, Budget(epsilon), SeededNoise(1), unit, list(range(1000)))
        for epsilon, unit in ((1, Unit.person(1)), (3, Unit.person(3)))
    )
    assert measure_crossings(one, one.budget, 1000.0) == measure_crossings(two, two.budget, 1000.0)


def test_crossings_are_trusted_as_far_as_their_noise_is_wide() -> None:
    """Under a delta, too: with the same precision, Gaussian noise is narrower and trusted a little more."""
    kept, precision = city(1000), 0.02
    truth = float(np.minimum(np.diff(kept.engine.walks.pieces) - 1, 32).mean())
    misses, pulls = [], []
    for concentrated in (False, True):
        found = []
        for seed in range(60):
            amount = Fraction(precision) ** 2 / 2 * 20 if concentrated else Fraction(precision) * 20
            curator = Curator(kept, Budget(amount, concentrated=concentrated), SeededNoise(seed))
            found.append(measure_crossings(curator, curator.budget, 1000.0))
            assert curator.spent == amount / 20
        width = (np.sqrt(2) if concentrated else 2) * 32 / precision / 1000
        trust = 1 / (1 + (width / 8) ** 2)
        assert np.mean(found) == pytest.approx(trust * truth + (1 - trust) * 16, abs=4 * width / np.sqrt(60))
        assert np.std(found) == pytest.approx(trust * width, rel=0.3)
        misses.append(np.std(found))
        pulls.append(1 - trust)
    assert misses[1] < misses[0]
    assert pulls[1] < pulls[0]


def test_rounds_follow_from_the_signal() -> None:
    assert [rounds_for(signal, 5) for signal in (0.01, 1.0, 2.0, 1e3, 1e9)] == [1, 1, 1, 5, 5]
    counts = [rounds_for(signal, 20) for signal in np.geomspace(1, 1e6, 50)]
    assert counts == sorted(counts)
    assert counts[-1] == 20
    kept = city(300)
    for mechanism, most in ((Mwem(), 20), (Prish(), 5)):
        for epsilon in (3, 100):
            _, curator = run(mechanism, kept, some_queries(kept.grid), epsilon)
            played = sum(entry.kind == "select" for entry in curator.paid)
            assert played == rounds_for(300.0 * epsilon, most)
