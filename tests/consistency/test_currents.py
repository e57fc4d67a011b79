"""Monotone answers, the current cone and the closest point in it, against brute force and a general solver."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from dqam import cities
from dqam.consistency.cone import excess, find_currents, repair
from dqam.consistency.currents import AnswerTargets, CellTargets, RegionSums, fit_histogram, project
from dqam.errors import InputError
from dqam.geometry.counting import count_distinct
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.rectangles import random_rectangles
from dqam.geometry.regions import Partition
from dqam.geometry.walks import Walks, walk
from tests.oracles import naive

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


def grid_of(rows: int, columns: int) -> Grid:
    return Grid((0.0, 0.0, 1.0, 1.0), rows, columns)


def histogram(a: np.ndarray, v: np.ndarray, h: np.ndarray) -> SpatialHistogram:
    return SpatialHistogram.from_flux(grid_of(*a.shape), a, v, h)


def parts(of: SpatialHistogram) -> Arrays:
    return of.endpoints, of.vertical, of.horizontal


def all_rectangles(grid: Grid) -> np.ndarray:
    sides = [list(itertools.combinations(range(lines + 1), 2)) for lines in (grid.columns, grid.rows)]
    return np.array([(west, south, east, north) for west, east in sides[0] for south, north in sides[1]])


def grows(of: SpatialHistogram) -> bool:
    """By definition: every pair of nested rectangles, and 0 and the total."""
    rectangles = all_rectangles(of.grid)
    answers = np.array([naive.answer(of, *r) for r in rectangles.tolist()])
    west, south, east, north = rectangles.T.astype(np.int8)
    falls = answers[:, None] > answers
    falls &= west[:, None] >= west
    falls &= south[:, None] >= south
    falls &= east[:, None] <= east
    falls &= north[:, None] <= north
    return not falls.any() and answers.min() >= 0 and answers.max() <= of.total


def staircases(rng: np.random.Generator, rows: int, columns: int, trips: int) -> SpatialHistogram:
    """Walks that go straight, or turn between two directions only: they come to every rectangle at most once."""
    faces, v, h = np.zeros((rows, columns)), np.zeros((rows, columns - 1)), np.zeros((rows - 1, columns))
    for _ in range(trips):
        i, j = int(rng.integers(rows)), int(rng.integers(columns))
        up, right, share = rng.choice([-1, 1]), rng.choice([-1, 1]), rng.choice([0, 0.5, 1])
        faces[i, j] += 1
        for _ in range(int(rng.integers(0, rows + columns))):
            to = (i, j + right) if rng.random() < share else (i + up, j)
            if not (0 <= to[0] < rows and 0 <= to[1] < columns):
                break
            if to[0] == i:
                v[i, min(j, to[1])] += 1
            else:
                h[min(i, to[0]), j] += 1
            i, j = to
            faces[i, j] += 1
    return SpatialHistogram(grid_of(rows, columns), faces, v, h)


def strips(rows: int, columns: int) -> np.ndarray:
    """Every condition of monotone answers as a row over (a, v, h), and nothing negative: no currents here."""
    a = np.arange(rows * columns).reshape(rows, columns)
    v = a.size + np.arange(rows * (columns - 1)).reshape(rows, columns - 1)
    h = a.size + v.size + np.arange((rows - 1) * columns).reshape(rows - 1, columns)
    n = a.size + v.size + h.size
    found = [*np.eye(n)]
    for a_, v_, h_ in ((a, v, h), (a.T, h.T, v.T)):
        for i in range(a_.shape[0]):
            for low, high in itertools.combinations(range(a_.shape[1] + 1), 2):
                for sign in (-0.5, 0.5):
                    row = np.zeros(n)
                    row[a_[i, low:high]] += 1
                    row[h_[i, low:high] if i < len(h_) else []] += sign
                    row[h_[i - 1, low:high] if i > 0 else []] -= sign
                    row[v_[i, low - 1 : low] if low > 0 else []] += 0.5
                    row[v_[i, high - 1 : high]] += 0.5
                    found.append(row)
    return np.array(found)


def least_squares(
    cells: CellTargets, total: float, extra: np.ndarray, counts: np.ndarray, weights: np.ndarray
) -> float:
    """The least objective over monotone histograms with nothing negative, by sequential quadratic programming."""
    rows, columns = cells.endpoints.shape
    target = np.concatenate([part.ravel() for part in (cells.endpoints, cells.vertical, cells.horizontal)])
    shapes = (cells.endpoints.shape, cells.vertical.shape, cells.horizontal.shape)
    weight = np.concatenate(
        [
            np.broadcast_to(w, shape).ravel()
            for w, shape in zip(
                (cells.endpoint_weights, cells.vertical_weights, cells.horizontal_weights), shapes, strict=True
            )
        ]
    )
    scale = 1 / np.sqrt(weight)  # in units in which the squares are round
    matrix, ends = strips(rows, columns) * scale, np.zeros(len(target))
    ends[: rows * columns] = scale[: rows * columns]
    more = extra * scale
    start = np.concatenate([np.full(rows * columns, total / (rows * columns)), np.zeros(len(target) - rows * columns)])
    solved = minimize(
        lambda x: ((x - target / scale) ** 2).sum() + (weights * (more @ x - counts) ** 2).sum(),
        start / scale,
        jac=lambda x: 2 * (x - target / scale) + 2 * (weights * (more @ x - counts)) @ more,
        constraints=[
            {"type": "ineq", "fun": lambda x: matrix @ x, "jac": lambda x: matrix},
            {"type": "eq", "fun": lambda x: ends @ x - total, "jac": lambda x: ends},
        ],
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-12},
    )
    assert solved.success, solved.message
    return float(solved.fun)


def noisy_city(resolution: int, scale: float) -> tuple[list[Walks], SpatialHistogram, SpatialHistogram]:
    """2,000 trips, their histogram, and this with Laplace noise: of `scale` in a, 40 times as much in edges."""
    grid = Grid.over(cities.BOUNDS, resolution)
    walks = [walk(trips, grid) for trips in cities.city_trips(2000, 0)]
    exact = SpatialHistogram.of(walks, grid)
    rng = np.random.default_rng(0)
    a, v, h = (
        part + rng.laplace(0, noise, part.shape)
        for part, noise in zip(parts(exact), (scale, 40 * scale, 40 * scale), strict=True)
    )
    return walks, exact, SpatialHistogram.from_flux(grid, a, v, h)


sizes = st.tuples(st.integers(1, 6), st.integers(1, 6))


@given(st.integers(0, 2**32), sizes, st.sampled_from([0.5, 1.0, 2.0]), st.booleans())
@settings(max_examples=400, deadline=None)
def test_monotone_by_strips_is_monotone_by_definition(
    seed: int, size: tuple[int, int], step: float, negative: bool
) -> None:
    """Histograms of walks, a little changed: about half are monotone. Halves add up without rounding errors."""
    rng = np.random.default_rng(seed)
    a, v, h = (part.copy() for part in parts(staircases(rng, *size, 6)))
    for part in (a, v, h):
        change = rng.random(part.shape) < 0.1
        part[change] += step * rng.integers(-2, 3, int(change.sum()))
        if not negative:
            np.maximum(part, 0, out=part)
    of = histogram(a, v, h)
    assert of.is_monotone() == grows(of)


@pytest.mark.parametrize("seed", range(6))
def test_monotone_by_strips_on_a_larger_grid(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, v, h = (part.copy() for part in parts(staircases(rng, 16, 16, 60)))
    assert grows(histogram(a, v, h))
    assert histogram(a, v, h).is_monotone()
    a[tuple(rng.integers(16, size=2))] -= 0.5 * (seed % 2)
    v[tuple(rng.integers(15, size=2))] += 0.5 * (seed % 3)
    of = histogram(a, v, h)
    assert of.is_monotone() == grows(of)


def test_both_verdicts_are_common() -> None:
    """The comparison above has power: it meets monotone histograms and others."""
    verdicts = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        a, v, h = (part.copy() for part in parts(staircases(rng, 5, 5, 6)))
        change = rng.random(v.shape) < 0.1
        v[change] += rng.integers(-1, 2, int(change.sum()))
        verdicts.append(histogram(a, v, h).is_monotone())
    assert 20 < sum(verdicts) < 80


def test_a_face_below_zero_among_edges_below_zero_is_seen() -> None:
    """No strip loses anything here; what is wrong is one cell alone."""
    faces, v, h = np.zeros((3, 3)), np.zeros((3, 2)), np.zeros((2, 3))
    faces[1, 1], v[1], h[:, 1] = -1, -2, -2
    of = SpatialHistogram(grid_of(3, 3), faces, v, h)
    assert not of.is_monotone()
    assert not grows(of)
    faces[1, 1] = 0
    of = SpatialHistogram(grid_of(3, 3), faces, v, h)
    assert of.is_monotone() == grows(of)


def test_the_tolerance_is_what_a_strip_may_lose() -> None:
    of = SpatialHistogram(grid_of(1, 2), np.array([[1.0, 1.0]]), np.array([[1.25]]), np.zeros((0, 2)))
    assert not of.is_monotone()
    assert not of.is_monotone(0.2)
    assert of.is_monotone(0.25)
    assert not SpatialHistogram(of.grid, np.array([[np.nan, 1.0]]), of.vertical, of.horizontal).is_monotone(1.0)


@given(st.integers(0, 2**32), st.tuples(st.integers(1, 9), st.integers(1, 9)))
@settings(max_examples=200, deadline=None)
def test_trips_that_come_once_are_in_the_cone(seed: int, size: tuple[int, int]) -> None:
    a, v, h = parts(staircases(np.random.default_rng(seed), *size, 8))
    y, z = find_currents(a, v, h)
    assert excess(a, v, h, y, z) <= 0
    assert histogram(a, v, h).is_monotone()


@given(st.integers(0, 2**32), sizes)
@settings(max_examples=400, deadline=None)
def test_the_cone_is_what_is_monotone_and_nowhere_negative(seed: int, size: tuple[int, int]) -> None:
    rng = np.random.default_rng(seed)
    a, v, h = (part.copy() for part in parts(staircases(rng, *size, 6)))
    for part in (a, v, h):
        change = rng.random(part.shape) < 0.1
        part[change] += rng.integers(-2, 3, int(change.sum())) / 2
    within = excess(a, v, h, *find_currents(a, v, h)) <= 0
    monotone = histogram(a, v, h).is_monotone() and min(part.min(initial=0) for part in (a, v, h)) >= 0
    assert within == monotone


@given(st.integers(0, 2**32), st.tuples(st.integers(1, 12), st.integers(1, 12)), st.floats(0.001, 1e9))
@settings(max_examples=300, deadline=None)
def test_anything_repaired_is_exactly_in_the_cone(seed: int, size: tuple[int, int], total: float) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = size
    shapes = [(rows, columns), *[(rows, columns - 1), (rows - 1, columns)] * 2]
    made = repair(*(rng.normal(rng.integers(0, 3), 10.0 ** rng.integers(-6, 6), shape) for shape in shapes), total)
    assert excess(made.endpoints, made.vertical, made.horizontal, made.y, made.z) <= 0
    of = histogram(made.endpoints, made.vertical, made.horizontal)
    assert of.is_monotone()
    assert of.total == pytest.approx(total, rel=1e-11)
    rectangles = random_rectangles(of.grid, 50, rng)
    wider = rectangles + np.array([-1, -1, 1, 1])
    wider = np.clip(wider, 0, [columns, rows, columns, rows])
    assert (of.answers(rectangles) <= of.answers(wider)).all()  # not even a rounding error is off
    assert (of.answers(rectangles) >= 0).all()
    assert of.answers(np.array([[0, 0, columns, rows]])) == of.total


def test_whole_totals_are_kept_to_the_last_bit() -> None:
    rng = np.random.default_rng(1)
    shapes = [(50, 70), (50, 69), (49, 70), (50, 69), (49, 70)]
    made = repair(*(rng.exponential(3, shape) for shape in shapes), 123_457)
    assert histogram(made.endpoints, made.vertical, made.horizontal).total == 123_457


def test_what_is_in_the_cone_is_repaired_to_itself() -> None:
    a, v, h = parts(staircases(np.random.default_rng(2), 12, 9, 40))
    made = repair(a, v, h, *find_currents(a, v, h), 40)
    assert made.raised == 0
    for part, wanted in ((made.endpoints, a), (made.vertical, v), (made.horizontal, h)):
        np.testing.assert_allclose(part, wanted, rtol=1e-11, atol=1e-9)


def test_nothing_stays_nothing() -> None:
    empty = [np.zeros(shape) for shape in ((3, 4), (3, 3), (2, 4), (3, 3), (2, 4))]
    assert repair(*empty, 0).endpoints.sum() == 0
    assert repair(*empty, 12).endpoints.tolist() == [[1.0] * 4] * 3
    with pytest.raises(InputError, match="0 or more; got -1"):
        repair(*empty, -1)


@pytest.mark.parametrize("size", [(1, 1), (1, 5), (4, 1), (2, 3), (3, 3), (4, 3)])
@pytest.mark.parametrize("weight", [0.01, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_projection_is_the_closest(size: tuple[int, int], weight: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    exact = staircases(rng, *size, 10)
    cells = CellTargets(*(part + rng.normal(0, 2, part.shape) for part in parts(exact)), 1.0, weight, weight)
    found = fit_histogram(exact.grid, 10, cells, tolerance=1e-7)
    none = np.zeros(0)
    wanted = least_squares(cells, 10, np.zeros((0, sum(part.size for part in parts(exact)))), none, none)
    assert found.converged
    assert found.histogram.is_monotone()
    assert found.histogram.total == 10
    assert found.objective == pytest.approx(wanted, rel=1e-5, abs=1e-6)
    assert found.bound <= wanted + 1e-6


@pytest.mark.parametrize("seed", range(6))
def test_a_fit_of_everything_is_the_closest(seed: int) -> None:
    """Cells with weights of their own, region sums and answers; rows of measurements are made one by one here."""
    rng = np.random.default_rng(seed)
    rows, columns = 4, 3
    exact = staircases(rng, rows, columns, 30)
    shapes = [part.shape for part in parts(exact)]
    cells = CellTargets(
        *(part + rng.normal(0, 3, part.shape) for part in parts(exact)),
        *(rng.uniform(0.05, 0.5, shape) for shape in shapes),
    )
    partition = Partition(rows, columns, np.array([[0, 0, 3, 2], [0, 2, 1, 4], [1, 2, 3, 4]]))
    rectangles = random_rectangles(exact.grid, 5, rng)
    matrix = []
    for k in range(3):
        for region in range(3):
            row = [np.zeros(shape) for shape in shapes]
            row[k][(partition.labels == region)[: shapes[k][0], : shapes[k][1]]] = 1
            matrix.append(np.concatenate([part.ravel() for part in row]))
    for rectangle in rectangles.tolist():
        answer = []
        for k, shape in enumerate(shapes):
            for place in np.ndindex(shape):
                unit = [np.zeros(other) for other in shapes]
                unit[k][place] = 1
                answer.append(naive.answer(histogram(*unit), *rectangle))
        matrix.append(np.array(answer))
    extra = np.array(matrix)
    counts = extra @ np.concatenate([part.ravel() for part in parts(exact)]) + rng.normal(0, 1, len(extra))
    weights = rng.uniform(0.1, 3, len(extra))
    regions = RegionSums(partition, *counts[:9].reshape(3, 3), *weights[:9].reshape(3, 3))
    answers = AnswerTargets(rectangles, counts[9:], weights[9:])
    found = fit_histogram(exact.grid, 30, cells, regions, answers, tolerance=1e-7)
    wanted = least_squares(cells, 30, extra, counts, weights)
    assert found.converged
    assert found.histogram.is_monotone()
    assert found.objective == pytest.approx(wanted, rel=1e-5)
    assert found.bound <= wanted * (1 + 1e-6)


@pytest.mark.parametrize(("resolution", "scale"), [(6, 1.0), (6, 5.0), (7, 1.0)])
def test_noisy_trips_of_a_city(resolution: int, scale: float) -> None:
    walks, _, noisy = noisy_city(resolution, scale)
    found = fit_histogram(noisy.grid, 2000, CellTargets(*parts(noisy)))
    assert found.converged
    assert found.gap <= 1e-3 * found.objective
    assert found.raised <= 1e-3
    assert found.histogram.is_monotone()
    assert found.histogram.total == 2000
    rectangles = random_rectangles(noisy.grid, 2000, np.random.default_rng(5))
    truth = count_distinct(walks, rectangles, noisy.grid)
    off = [np.abs(of.answers(rectangles) - truth).mean() for of in (noisy, found.histogram)]
    assert off[1] < 0.85 * off[0]  # consistency lowers the error


def test_the_error_of_a_loose_fit_is_within_its_gap() -> None:
    *_, noisy = noisy_city(6, 1.0)
    cells = CellTargets(*parts(noisy))
    exact, loose = (fit_histogram(noisy.grid, 2000, cells, tolerance=tolerance) for tolerance in (1e-6, 1e-2))
    assert loose.bound <= exact.objective <= loose.objective
    distance = sum(
        weight * ((one - other) ** 2).sum()
        for weight, one, other in zip((1, 1e-4, 1e-4), parts(exact.histogram), parts(loose.histogram), strict=True)
    )
    assert distance <= loose.gap


def test_a_consistent_histogram_stays_as_it_is() -> None:
    exact = staircases(np.random.default_rng(3), 30, 20, 500)
    found = fit_histogram(exact.grid, 500, CellTargets(*parts(exact)))
    assert found.steps == 1
    for part, wanted in zip(parts(found.histogram), parts(exact), strict=True):
        np.testing.assert_allclose(part, wanted, atol=1e-6)


def test_a_warm_start_is_shorter() -> None:
    *_, noisy = noisy_city(6, 0.5)
    cells = CellTargets(*parts(noisy))
    first = fit_histogram(noisy.grid, 2000, cells)
    assert fit_histogram(noisy.grid, 2000, cells, start=first).steps < first.steps / 4
    rectangles = random_rectangles(noisy.grid, 5, np.random.default_rng(0))
    answers = AnswerTargets(rectangles, first.histogram.answers(rectangles) * 1.01)
    cold, warm = (fit_histogram(noisy.grid, 2000, cells, answers=answers, start=start) for start in (None, first))
    assert warm.steps < cold.steps
    assert warm.objective == pytest.approx(cold.objective, rel=2e-3)


def test_project_gives_the_histogram() -> None:
    *_, noisy = noisy_city(5, 1.0)
    made = project(noisy, 2000)
    assert made.is_monotone()
    assert made.total == 2000
    nothing = fit_histogram(noisy.grid, 0, CellTargets(*parts(noisy)))
    assert nothing.converged
    assert nothing.histogram.faces.max() == 0


def test_region_sums_and_answers_of_a_city() -> None:
    """As the flux mechanism asks: sums by region and some answers are known well, cells hardly."""
    walks, exact, _ = noisy_city(6, 1.0)
    rows, columns = exact.grid.shape
    lines = np.arange(0, 64, 8)
    west, south = (side.ravel() for side in np.meshgrid(lines, lines))
    partition = Partition(rows, columns, np.stack([west, south, west + 8, south + 8], axis=1))
    labels = (partition.labels, partition.labels[:, :-1], partition.labels[:-1])
    sums = [np.bincount(of.ravel(), part.ravel(), 64) for of, part in zip(labels, parts(exact), strict=True)]
    means = [(total / np.bincount(of.ravel()))[of] for of, total in zip(labels, sums, strict=True)]
    cells = CellTargets(*means, 0.1, 1e-4, 1e-4)
    asked, fresh = (random_rectangles(exact.grid, 300, np.random.default_rng(seed)) for seed in (1, 2))
    answers = AnswerTargets(asked[:30], count_distinct(walks, asked[:30], exact.grid).astype(float), 0.1)
    truth = count_distinct(walks, fresh, exact.grid)
    off = []
    for more in ({}, {"regions": RegionSums(partition, *sums, 0.1, 1e-4, 1e-4)}, {"answers": answers}):
        found = fit_histogram(exact.grid, 2000, cells, **more)
        assert found.converged
        assert found.histogram.is_monotone()
        off.append(np.abs(found.histogram.answers(fresh) - truth).mean())
    assert off[2] < off[0]
    assert np.abs(found.histogram.answers(asked[:30]) - answers.counts).mean() < 0.3 * off[0]


def test_bad_input_is_named() -> None:
    a, v, h = np.ones((2, 3)), np.ones((2, 2)), np.ones((1, 3))
    grid = grid_of(2, 3)
    with pytest.raises(InputError, match="vertical have the shape"):
        fit_histogram(grid, 6, CellTargets(a, h, v))
    with pytest.raises(InputError, match="endpoints must be finite"):
        fit_histogram(grid, 6, CellTargets(a * np.nan, v, h))
    with pytest.raises(InputError, match="above 0; the least is 0"):
        fit_histogram(grid, 6, CellTargets(a, v, h, 1.0, 0.0, 1.0))
    with pytest.raises(InputError, match="got nan"):
        fit_histogram(grid, np.nan, CellTargets(a, v, h))
    with pytest.raises(InputError, match="not of"):
        fit_histogram(grid, 6, CellTargets(a, v, h), RegionSums(Partition.whole(3, 2), *[np.ones(1)] * 3))
    with pytest.raises(InputError, match="no start"):
        fit_histogram(grid_of(3, 2), 6, CellTargets(a.T, h.T, v.T), start=fit_histogram(grid, 6, CellTargets(a, v, h)))
