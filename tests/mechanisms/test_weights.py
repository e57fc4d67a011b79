"""The models of MWEM and PriSH, and the rounds that they share with DQAM."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqam.consistency.pairwise import is_consistent
from dqam.geometry.histogram import SpatialHistogram
from dqam.mechanisms.mwem import CellWeights, Mwem, _answer
from dqam.mechanisms.prish import FacesAndEdges, Prish, scaled_to
from dqam.mechanisms.rounds import Oracle, curator_oracle, measure_crossings, rounds_for, run_rounds
from dqam.mechanisms.spreading import lift, stretch
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.statistics.distinct import DistinctTrips
from dqam.values.guarantee import Unit
from tests.mechanisms.cases import city, excess, parts, run, some_queries, strolls, unit_square

sides = st.integers(1, 8)
seeds = st.integers(0, 10**6)


@given(sides, sides, seeds, st.floats(0, 20))
@settings(max_examples=100, deadline=None)
def test_the_kernel_answers_as_the_histogram(rows: int, columns: int, seed: int, crossings: float) -> None:
    grid = unit_square(rows, columns)
    weights = np.random.default_rng(seed).exponential(1, grid.shape)
    made = stretch(lift(grid, weights), 50.0, crossings)
    means = lift(grid, made.faces)
    edges = means.vertical.sum() + means.horizontal.sum()
    ratio = (made.vertical.sum() + made.horizontal.sum()) / edges if edges else 0.0
    queries = some_queries(grid, 20, seed)
    kernel = [_answer(made.faces, *map(int, query), ratio) for query in queries]
    np.testing.assert_allclose(kernel, made.answers(queries), rtol=1e-9, atol=1e-9)


def mwem(rows: int = 8, columns: int = 8, replay: bool = True) -> CellWeights:
    grid = unit_square(rows, columns)
    return CellWeights(grid, lambda weights: stretch(lift(grid, weights), 100.0, 3.0), replay)


def prish(rows: int = 8, columns: int = 8, replay: bool = True) -> FacesAndEdges:
    grid = unit_square(rows, columns)
    return FacesAndEdges(stretch(lift(grid, np.ones(grid.shape)), 100.0, 3.0), replay)


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


@given(sides, sides, seeds)
@settings(max_examples=60, deadline=None)
def test_mwem_scales_what_is_inside_alike_and_the_rest_alike(rows: int, columns: int, seed: int) -> None:
    """Inside by exp(error / 2n) more than outside."""
    grid, query = unit_square(rows, columns), some_queries(unit_square(rows, columns), 1, seed)
    model = CellWeights(grid, lambda weights: stretch(lift(grid, weights), 100.0, 1.0 if rows * columns > 1 else 0.0))
    before = model.histogram()
    model.learn(query, np.array([42.0]))
    ratio = model.histogram().faces / before.faces
    west, south, east, north = query[0]
    inside = np.zeros(grid.shape, bool)
    inside[south:north, west:east] = True
    factor = np.exp((42 - before.answers(query)[0]) / 200)
    np.testing.assert_allclose(ratio[inside], ratio[inside][0])
    if not inside.all():
        np.testing.assert_allclose(ratio[~inside], ratio[~inside][0])
        assert ratio[inside][0] / ratio[~inside][0] == pytest.approx(factor)


@given(sides, sides, seeds)
@settings(max_examples=40, deadline=None)
def test_mwem_on_faces_alone_is_that_of_its_authors(rows: int, columns: int, seed: int) -> None:
    """Count by count, the newest first, with the sum of all weights restored after each."""
    grid, rng = unit_square(rows, columns), np.random.default_rng(seed)

    def bare(weights: np.ndarray) -> SpatialHistogram:
        return SpatialHistogram(
            grid, weights * (100 / weights.sum()), np.zeros((rows, columns - 1)), np.zeros((rows - 1, columns))
        )

    queries, counts = some_queries(grid, 4, seed), rng.uniform(0, 100, 4)
    model, weights = CellWeights(grid, bare), np.full(grid.shape, 100 / rows / columns)
    for last in range(1, 5):
        model.learn(queries[:last], counts[:last])
        for (west, south, east, north), count in zip(queries[:last][::-1], counts[:last][::-1], strict=True):
            inside = weights[south:north, west:east]
            inside *= np.exp((count - inside.sum()) / 200)
            weights *= 100 / weights.sum()
        np.testing.assert_allclose(model.histogram().faces, weights)


def turned(histogram: SpatialHistogram) -> SpatialHistogram:
    """Rows for columns."""
    return SpatialHistogram(histogram.grid, histogram.faces.T, histogram.horizontal.T, histogram.vertical.T)


@pytest.mark.parametrize("turn", [False, True], ids=["vertical", "horizontal"])
def test_prish_leaves_edges_on_the_border_of_the_query(turn: bool) -> None:
    grid = unit_square(4, 4)
    start = SpatialHistogram(grid, np.full((4, 4), 10.0), np.full((4, 3), 4.0), np.full((3, 4), 4.0))
    model, query = FacesAndEdges(start), np.array([[0, 0, 4, 2]] if turn else [[0, 0, 2, 4]])
    model.learn(query, start.answers(query) + 2 * start.total * np.log(1.25))
    made = turned(model.histogram()) if turn else model.histogram()
    scale = made.faces[0, 3] / 10
    np.testing.assert_allclose(made.faces[:, :2], 12.5 * scale)
    np.testing.assert_allclose(made.faces[:, 2:], 10 * scale)
    np.testing.assert_allclose(made.vertical, np.array([[5.0, 4.0, 4.0]] * 4) * scale)  # in, on the border, out
    np.testing.assert_allclose(made.horizontal, np.array([[5.0, 5.0, 4.0, 4.0]] * 3) * scale)


@given(sides, sides, seeds, st.booleans())
@settings(max_examples=100, deadline=None)
def test_prish_keeps_the_total_and_edges_below_faces(rows: int, columns: int, seed: int, replay: bool) -> None:
    grid, rng = unit_square(rows, columns), np.random.default_rng(seed)
    crossings = float(rng.uniform(0, (rows + columns) / 4)) if rows * columns > 1 else 0.0
    model = FacesAndEdges(stretch(lift(grid, np.ones(grid.shape)), 100.0, crossings), replay)
    queries = some_queries(grid, 6, seed)
    counts = rng.uniform(0, 100, 6)
    for last in range(1, 7):
        model.learn(queries[:last], counts[:last])
        assert excess(model.histogram()) <= 1e-12
        assert model.histogram().total == pytest.approx(100)
        assert parts(model.histogram()).min() >= 0


def test_prish_can_not_be_driven_below_zero_by_counts_that_are_out_of_reason() -> None:
    model = prish()
    for count in (-1e9, 1e9, -1e9, 0.0):
        model.learn(np.array([[1, 1, 7, 7]]), np.array([count]))
        assert is_consistent(model.histogram())
        assert model.histogram().total == pytest.approx(100)


def test_scaled_to_a_total() -> None:
    made = scaled_to(prish().histogram(), 7.0)
    assert made.total == pytest.approx(7)
    empty = SpatialHistogram(unit_square(1, 2), np.ones((1, 2)), np.full((1, 1), 5.0), np.zeros((0, 2)))
    assert (parts(scaled_to(empty, 7.0)) == parts(empty)).all()  # of a negative total nothing can be made


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
        assert curator.spent == curator.budget.epsilon / 20
    curator = Curator(strolls(1000, grid, wide=0), Budget(1), SeededNoise(0))
    assert 0 <= measure_crossings(curator, curator.budget, 1000.0) < 2
    one, two = (
        Curator(kept, Budget(epsilon), SeededNoise(1), unit, list(range(1000)))
        for epsilon, unit in ((1, Unit.person(1)), (3, Unit.person(3)))
    )
    assert measure_crossings(one, one.budget, 1000.0) == measure_crossings(two, two.budget, 1000.0)


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
