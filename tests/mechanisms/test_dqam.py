"""DQAM's parts against the paper's words, or done by brute force."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqam.consistency.pairwise import is_consistent
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.regions import Partition
from dqam.mechanisms import dqam as module
from dqam.mechanisms.dqam import EMPTY, Dqam, Regions, _grade, _raise_steps, meets
from dqam.mechanisms.size import SizeEstimate, cover
from dqam.mechanisms.spreading import lift, spread_evenly, stretch
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.statistics import MASS, GroupShares
from dqam.statistics.cell_shares import MassByCell
from tests.mechanisms.cases import city, parts, run, some_queries, strolls, unit_square

GRID = unit_square(8, 8)
QUERIES = some_queries(GRID, 40)
PARTITION = Partition(
    8, 8, np.array([[0, 0, 4, 4], [4, 0, 8, 4], [0, 4, 4, 8], [4, 4, 6, 6], [6, 4, 8, 6], [4, 6, 6, 8], [6, 6, 8, 8]])
)
MASSES = np.array([40.0, 10.0, 20.0, 12.0, 8.0, 6.0, 4.0])
HALF_A_SIDE = float(stretch(lift(GRID, np.ones(GRID.shape)), 100.0).answers(QUERIES).mean())  # for trips so long
SIZE = SizeEstimate(cover(GRID, QUERIES), 100.0, HALF_A_SIDE, signal=100.0)
LONG = SizeEstimate(cover(GRID, QUERIES), 100.0, 60.0, signal=100.0)  # three times as long


def regions(masses: np.ndarray = MASSES) -> Regions:
    return Regions(GRID, PARTITION, masses, SIZE)


@given(st.integers(0, 10**6), st.floats(-50, 150))
@settings(max_examples=60, deadline=None)
def test_an_update_scales_the_regions_that_meet_the_query_by_their_density(seed: int, count: float) -> None:
    """By exp(error * density / 2n), up to one factor for all; and no others."""
    rng = np.random.default_rng(seed)
    masses = rng.uniform(1, 50, len(PARTITION))
    model = regions(masses)
    query = some_queries(GRID, 1, seed)
    error = count - float(model.histogram().answers(query)[0])
    model.learn(query, np.array([count]))
    west, south, east, north = query[0]
    met = np.array([(label == PARTITION.labels[south:north, west:east]).any() for label in range(len(PARTITION))])
    wanted = masses / masses.sum() * np.exp(met * (masses / masses.max()) * error / 200)
    np.testing.assert_allclose(model._masses, wanted / wanted.sum())


def test_only_the_newest_count_is_learned() -> None:
    one, other = regions(), regions()
    one.learn(QUERIES[[3]], np.array([70.0]))
    other.learn(QUERIES[[8, 5, 3]], np.array([5.0, 90.0, 70.0]))
    np.testing.assert_array_equal(parts(one.histogram()), parts(other.histogram()))


def test_an_update_brings_the_answer_nearer_to_the_count() -> None:
    for query, count in (([0, 0, 4, 4], 90.0), ([0, 0, 4, 4], 10.0), ([5, 5, 8, 8], 60.0), ([3, 3, 5, 5], 1.0)):
        model, rectangle = regions(), np.array([query])
        before = float(model.histogram().answers(rectangle)[0])
        model.learn(rectangle, np.array([count]))
        after = float(model.histogram().answers(rectangle)[0])
        assert abs(count - after) < abs(count - before)
        assert (after - before) * (count - before) > 0


def test_density_is_that_of_mass_and_not_of_mass_by_area() -> None:
    """The densest region has 1: it is scaled by exp(error / 2n), as in MWEM."""
    model = regions()
    assert model._densities.max() == 1
    np.testing.assert_allclose(model._densities, MASSES / 40)


def test_a_region_without_mass_can_be_scaled_up_again() -> None:
    model = regions(np.array([100.0, 0.0, -3.0, 0.0, 0.0, 0.0, 0.0]))
    even = PARTITION.sizes / 64
    np.testing.assert_allclose(model._masses[1:], EMPTY * even[1:])
    assert np.isfinite(parts(regions(np.zeros(7)).histogram())).all()
    assert np.isfinite(parts(regions(np.full(7, -5.0)).histogram())).all()


def test_an_even_mass_makes_an_even_histogram() -> None:
    model = regions(PARTITION.sizes.astype(float))
    np.testing.assert_allclose(parts(model.histogram()), parts(spread_evenly(GRID, SIZE)))


@given(st.integers(0, 10**6), st.sampled_from([SIZE, LONG]))
@settings(max_examples=60, deadline=None)
def test_whatever_is_learned_stays_consistent(seed: int, size: SizeEstimate) -> None:
    rng = np.random.default_rng(seed)
    model = Regions(GRID, PARTITION, rng.pareto(0.5, 7), size)
    for _ in range(5):
        model.learn(some_queries(GRID, 1, int(rng.integers(10**6))), rng.uniform(-500, 500, 1))
        assert is_consistent(model.histogram())


@pytest.mark.parametrize("size", [SIZE, LONG], ids=["half a side", "long"])
def test_densities_are_graded_so_that_little_is_left_to_mend(size: SizeEstimate) -> None:
    """What mending raises shows in the total."""
    for seed in range(30):
        made = Regions(GRID, PARTITION, np.random.default_rng(seed).lognormal(0, 1, 7), size).histogram()
        assert made.total == pytest.approx(100)
        answers = sum(float((share * part).sum()) for share, part in zip(size.covers, signed(made), strict=True))
        assert answers == pytest.approx(size.answer, rel=0.02)


def test_meets_is_a_cell_in_common() -> None:
    for query in some_queries(GRID, 200, 4):
        west, south, east, north = query
        inside = {int(label) for label in PARTITION.labels[south:north, west:east].ravel()}
        assert set(np.flatnonzero(meets(PARTITION, query))) == inside


def naive_raise(cells: np.ndarray, grade: float) -> np.ndarray:
    """Over and over until nothing changes."""
    cells = cells.copy()
    while True:
        before = cells.copy()
        for row, column in np.ndindex(cells.shape):
            for r, c in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
                if 0 <= r < cells.shape[0] and 0 <= c < cells.shape[1]:
                    cells[row, column] = max(cells[row, column], grade * cells[r, c])
        if (cells == before).all():
            return cells


@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 9), st.sampled_from([0.0, 0.2, 0.35, 0.9, 1.0]))
@settings(max_examples=150, deadline=None)
def test_steps_are_raised_to_the_grade_and_no_more(seed: int, rows: int, columns: int, grade: float) -> None:
    cells = np.random.default_rng(seed).pareto(0.3, (rows, columns))
    raised = cells.copy()
    _raise_steps(raised, grade)
    np.testing.assert_allclose(raised, naive_raise(cells, grade), rtol=1e-12)
    for low, high in ((raised[:, :-1], raised[:, 1:]), (raised[:-1], raised[1:])):
        assert (low >= grade * high * (1 - 1e-12)).all()
        assert (high >= grade * low * (1 - 1e-12)).all()


def signed(histogram: SpatialHistogram) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return histogram.faces, -histogram.vertical, -histogram.horizontal


@pytest.mark.parametrize("shape", [(1, 9), (9, 1), (2, 2), (8, 8), (64, 64)])
@pytest.mark.parametrize("crossings", [0.5, 2.0, 30.0])
def test_the_grade_is_where_an_edge_meets_the_smaller_face(shape: tuple[int, int], crossings: float) -> None:
    """A step just as steep as allowed is consistent, one that is steeper is not."""
    grid = unit_square(*shape)
    grade = _grade(stretch(lift(grid, np.ones(shape)), 100.0, crossings))
    if grade == 1:  # so long are trips that not even even faces hold their edges
        return
    for steep, fits in ((1.001 * grade, True), (0.99 * grade, False)):
        step = np.ones(shape)
        step[0, 0] = steep
        edges = lift(grid, step)
        ratio = stretch(lift(grid, np.ones(shape)), 100.0, crossings)
        factor = float(max(ratio.vertical.max(initial=0), ratio.horizontal.max(initial=0)) / ratio.faces.flat[0])
        scaled = SpatialHistogram(grid, step, edges.vertical * factor, edges.horizontal * factor)
        assert is_consistent(scaled) == fits


class Spy:
    """Notes how deep trees are asked to be, and how many rounds are played."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.depths: list[int | None] = []
        self.rounds: list[int] = []
        plain_tree, plain_rounds = module.grow_quadtree, module.run_rounds

        def tree(*args: object, **named: object) -> Partition:
            self.depths.append(named["max_depth"])  # type: ignore[arg-type]
            return plain_tree(*args, **named)  # type: ignore[arg-type]

        def run_rounds(model: object, queries: object, rounds: int, *rest: object) -> object:
            self.rounds.append(rounds)
            return plain_rounds(model, queries, rounds, *rest)  # type: ignore[arg-type]

        patch.setattr(module, "grow_quadtree", tree)
        patch.setattr(module, "run_rounds", run_rounds)


@pytest.mark.parametrize(
    ("signal", "depth", "rounds"),
    [(50, None, None), (160, 2, None), (800, 3, None), (1300, 4, 4), (5000, 4, 6), (10**6, 4, 11)],
)
def test_depth_and_rounds_follow_from_the_signal(
    monkeypatch: pytest.MonkeyPatch, signal: int, depth: int | None, rounds: int | None
) -> None:
    """Depth log4(w) - 1 from 2 to 4; no rounds below 1,000, then ln(w) - 3; nothing but even below 150."""
    exact = SizeEstimate(cover(GRID, QUERIES), 500.0, 200.0, signal=float(signal), enough=signal >= 150)

    def size(curator: Curator, queries: np.ndarray, budget: Budget, least: float) -> SizeEstimate:
        budget.spend(budget.left / 5)
        assert least == 150
        return exact

    monkeypatch.setattr(module, "measure_size", size)
    spy = Spy(monkeypatch)
    run(Dqam(), strolls(500, GRID), QUERIES, 1)
    assert spy.depths == ([] if depth is None else [depth])
    assert spy.rounds == ([] if rounds is None else [rounds])
    if depth is not None:
        assert depth == min(4, max(2, math.floor(math.log(signal, 4)) - 1))
    if rounds is not None:
        assert rounds == round(math.log(signal) - 3)


def test_what_is_given_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(monkeypatch)
    for depth, rounds in ((1, 2), (5, 7), (0, 0)):
        _, curator = run(Dqam(depth=depth, rounds=rounds, least=0), city(300), some_queries(city(300).grid), 1)
        assert sum(entry.kind == "select" for entry in curator.paid) == rounds
    assert spy.depths == [1, 5, 0]
    assert spy.rounds == [2, 7]


def test_how_the_budget_is_shared() -> None:
    """A fifth for the size; of the rest `share` for the rounds and half of what remains, at most, for the tree."""
    _, curator = run(Dqam(depth=2, rounds=4, share=Fraction(1, 3), least=0), city(300), some_queries(GRID), 10)
    by_kind = {"tree": Fraction(0), "masses": Fraction(0), "rounds": Fraction(0)}
    for entry in curator.paid[1:]:
        kind = "tree" if entry.name.startswith("Unevenness") else "masses" if entry.name == GROUPS else "rounds"
        by_kind[kind] += entry.epsilon
    rest = Fraction(8)  # of 10
    assert by_kind["rounds"] == rest / 3
    assert by_kind["tree"] <= rest / 3
    assert by_kind["tree"] + by_kind["masses"] == rest * 2 / 3
    rounds = [entry.epsilon for entry in curator.paid[-8:]]
    assert len(set(rounds)) == 1
    assert [entry.kind for entry in curator.paid[-8:]] == ["select", "measure"] * 4


GROUPS = GroupShares(PARTITION.labels).name


def test_regions_have_the_masses_of_the_data_without_noise_to_speak_of() -> None:
    kept = city(2000)
    grid = kept.grid
    made, _ = run(Dqam(depth=2, rounds=0), kept, some_queries(grid), 10**6)
    shares = kept.total(MassByCell()) / MASS
    quarters = np.add.reduceat(np.add.reduceat(shares, range(0, 32, 8), axis=0), range(0, 32, 8), axis=1)
    faces = np.add.reduceat(np.add.reduceat(made.faces, range(0, 32, 8), axis=0), range(0, 32, 8), axis=1)
    assert np.corrcoef(quarters.ravel(), faces.ravel())[0, 1] > 0.95


def test_a_tree_that_ends_early_leaves_its_budget_to_the_masses() -> None:
    curator = Curator(strolls(0, GRID), Budget(1), SeededNoise(1))
    Dqam(depth=3, rounds=0, least=0).synthesize(curator, QUERIES, curator.budget)
    masses = [entry.epsilon for entry in curator.paid if entry.name == GROUPS]
    assert curator.spent == 1
    assert len(masses) == 1
    assert masses[0] > Fraction(3, 10)  # half of what two looks at the size leave
