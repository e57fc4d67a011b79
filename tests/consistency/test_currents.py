"""The closest point of the current cone against a general solver, and fits of noisy cities."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

from dqam.consistency.currents import AnswerTargets, CellTargets, fit_histogram
from dqam.errors import InputError
from dqam.geometry.counting import count_distinct
from dqam.geometry.rectangles import random_rectangles
from tests.consistency.cases import flux_histogram, grid_of, noisy_city, parts, staircases
from tests.oracles import naive


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


@pytest.mark.parametrize("seed", range(5))
def test_without_a_total_the_closest_of_all_totals_is_found(seed: int) -> None:
    """The distance is convex in the total, and smallest at the total that is found."""
    rng = np.random.default_rng(seed)
    exact = staircases(rng, 4, 5, 20)
    cells = CellTargets(*(part + rng.normal(0, 3, part.shape) for part in parts(exact)), 1.0, 0.5, 0.5)
    rectangles = random_rectangles(exact.grid, 9, rng)
    answers = AnswerTargets(rectangles, exact.answers(rectangles) + rng.normal(0, 3, 9), 0.3)
    free = fit_histogram(exact.grid, None, cells, answers, tolerance=1e-7)
    assert free.converged
    assert free.histogram.is_monotone()
    assert free.objective - free.bound < 1e-4
    total = free.histogram.total
    given = [
        fit_histogram(exact.grid, total + more, cells, answers, tolerance=1e-7).objective for more in (0, -0.5, 0.5)
    ]
    assert given[0] == pytest.approx(free.objective, rel=1e-4)
    assert free.objective < min(given[1:])


@pytest.mark.parametrize("seed", range(6))
def test_a_fit_of_cells_and_answers_is_the_closest(seed: int) -> None:
    """Cells with weights of their own, and answers whose rows are computed cell by cell here."""
    rng = np.random.default_rng(seed)
    exact = staircases(rng, 4, 3, 30)
    shapes = [part.shape for part in parts(exact)]
    cells = CellTargets(
        *(part + rng.normal(0, 3, part.shape) for part in parts(exact)),
        *(rng.uniform(0.05, 0.5, shape) for shape in shapes),
    )
    rectangles = random_rectangles(exact.grid, 7, rng)
    extra = []
    for rectangle in rectangles.tolist():
        row = []
        for k, shape in enumerate(shapes):
            for place in np.ndindex(shape):
                unit = [np.zeros(other) for other in shapes]
                unit[k][place] = 1
                row.append(naive.answer(flux_histogram(*unit), *rectangle))
        extra.append(row)
    matrix = np.array(extra)
    counts = matrix @ np.concatenate([part.ravel() for part in parts(exact)]) + rng.normal(0, 1, len(matrix))
    weights = rng.uniform(0.1, 3, len(matrix))
    found = fit_histogram(exact.grid, 30, cells, AnswerTargets(rectangles, counts, weights), tolerance=1e-7)
    wanted = least_squares(cells, 30, matrix, counts, weights)
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


def test_a_consistent_histogram_stays_as_it_is() -> None:
    exact = staircases(np.random.default_rng(3), 30, 20, 500)
    found = fit_histogram(exact.grid, 500, CellTargets(*parts(exact)))
    assert found.steps == 1
    for part, wanted in zip(parts(found.histogram), parts(exact), strict=True):
        np.testing.assert_allclose(part, wanted, atol=1e-6)


def test_answers_of_a_city_lower_the_error_of_others() -> None:
    """As in the flux mechanism: some answers are known well, cells hardly at all."""
    walks, exact, _ = noisy_city(6, 1.0)
    blocks = [np.arange(part.shape[0])[:, None] // 8 * 8 + np.arange(part.shape[1]) // 8 for part in parts(exact)]
    means = [
        (np.bincount(block.ravel(), part.ravel()) / np.maximum(np.bincount(block.ravel()), 1))[block]
        for block, part in zip(blocks, parts(exact), strict=True)
    ]
    cells = CellTargets(*means, 0.1, 1e-4, 1e-4)
    asked, fresh = (random_rectangles(exact.grid, 300, np.random.default_rng(seed)) for seed in (1, 2))
    answers = AnswerTargets(asked[:30], count_distinct(walks, asked[:30], exact.grid).astype(float), 0.1)
    truth = count_distinct(walks, fresh, exact.grid)
    without, found = (fit_histogram(exact.grid, 2000, cells, more) for more in (None, answers))
    for each in (without, found):
        assert each.converged
        assert each.histogram.is_monotone()
    off = [np.abs(each.histogram.answers(fresh) - truth).mean() for each in (without, found)]
    assert off[1] < off[0]
    assert np.abs(found.histogram.answers(asked[:30]) - answers.counts).mean() < 0.3 * off[0]


def test_bad_input_is_named() -> None:
    a, v, h = np.ones((2, 3)), np.ones((2, 2)), np.ones((1, 3))
    grid = grid_of(2, 3)
    with pytest.raises(InputError, match=r"vertical must have the shape \(2, 2\); got \(1, 3\)"):
        fit_histogram(grid, 6, CellTargets(a, h, v))
    with pytest.raises(InputError, match="endpoints must be finite"):
        fit_histogram(grid, 6, CellTargets(a * np.nan, v, h))
    with pytest.raises(InputError, match="weights of vertical must be positive; the smallest is 0"):
        fit_histogram(grid, 6, CellTargets(a, v, h, 1.0, 0.0, 1.0))
    with pytest.raises(InputError, match="total must be .* got nan"):
        fit_histogram(grid, np.nan, CellTargets(a, v, h))
    outside = AnswerTargets(np.array([[0, 0, 4, 2]]), np.ones(1))
    with pytest.raises(InputError, match="rectangles of a grid of 2 x 3"):
        fit_histogram(grid, 6, CellTargets(a, v, h), outside)
