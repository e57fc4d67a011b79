"""The solver ends at its tolerance or its limit of steps, and knows how far it may be off."""

from dqam.consistency.currents import CellTargets, fit_histogram
from tests.consistency.cases import noisy_city, parts


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


def test_a_total_of_0_is_all_zeros() -> None:
    *_, noisy = noisy_city(5, 1.0)
    found = fit_histogram(noisy.grid, 0, CellTargets(*parts(noisy)))
    assert found.converged
    assert found.histogram.faces.max() == 0


def test_steps_are_limited() -> None:
    *_, noisy = noisy_city(5, 1.0)
    found = fit_histogram(noisy.grid, 2000, CellTargets(*parts(noisy)), tolerance=0, most_steps=100)
    assert not found.converged
    assert 100 <= found.steps < 200
    assert found.histogram.is_monotone()
