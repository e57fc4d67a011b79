"""Detail from finer lattices, and histograms for small and large rectangles."""

import numpy as np
import pytest

from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.lattice import Lattice, Parts
from dqam.mechanisms.flux_fit import LatticeMeasurement, calibrated, endpoint_weights
from dqam.mechanisms.flux_scales import Lowering, WalkMeasurement, add_detail, fit_passes, with_detail
from dqam.mechanisms.size import SizeEstimate, cover
from dqam.privacy.aggregates import Aggregates
from dqam.statistics import SHADOW, ShadowSums, WalkSums
from dqam.statistics.distinct import DistinctTrips
from tests.mechanisms.cases import city, some_queries

KEPT = city(3000, 5)
GRID = KEPT.grid
QUERIES = some_queries(GRID, 300)
FINE = Lattice.even(GRID, max(GRID.shape))
MIDDLE = FINE.coarser(16)
COARSE = MIDDLE.coarser(8)
SIZE = SizeEstimate(cover(GRID, QUERIES), 3000.0, float(KEPT.total(DistinctTrips(QUERIES)).mean()), signal=1e6)


def exact(kept: Aggregates, statistic: ShadowSums | WalkSums) -> Parts:
    lattice = statistic.lattice
    return lattice.parts(kept.value(statistic) / SHADOW / endpoint_weights(lattice))


def known() -> Parts:
    """Consistent numbers on the coarsest lattice, from exact shadows."""
    measurement = LatticeMeasurement(COARSE, 1.0, COARSE.snap(QUERIES))
    return measurement.fit(calibrated(COARSE, exact(KEPT, ShadowSums(COARSE, 2**15, 3)), SIZE), SIZE)


def walks(*lattices: Lattice) -> list[WalkMeasurement]:
    return [WalkMeasurement(lattice, exact(KEPT, WalkSums(lattice, 2**15, 3)), 1.0) for lattice in lattices]


def street() -> tuple[Parts, Parts]:
    """Numbers on the coarsest lattice, and the same with the noisy detail of a street along one row."""
    numbers = known()
    a, v, h = COARSE.within(FINE).refine(*numbers)
    v[9], v[8], v[10:12] = v[8:12].sum(axis=0), 0, 0
    rng = np.random.default_rng(1)
    a, v, h = (part + rng.laplace(0, 1.0, part.shape) for part in (a, v, h))
    return numbers, (a, v, h)


def test_detail_keeps_what_is_known_and_shows_the_street() -> None:
    numbers, measured = street()
    found, noise = add_detail(COARSE, numbers, 1.0, WalkMeasurement(FINE, measured, 1.0), SIZE.trips)
    assert noise == pytest.approx(1.0, rel=0.1)
    for part, wanted in zip(COARSE.within(FINE).add_up(*found), numbers, strict=True):
        np.testing.assert_allclose(part, wanted, atol=0.02 * SIZE.trips)
    assert SpatialHistogram.from_flux(GRID, *found).is_monotone()
    assert found[1][9].sum() > 2 * (found[1][8].sum() + found[1][10:12].sum())


def test_passes_count_every_visit_of_small_rectangles() -> None:
    """Answers are nearly as good as those of the exact histogram, with enough more endpoints to be consistent."""
    small = np.array([[x, y, x + 3, y + 3] for x in range(0, 29, 2) for y in range(0, 29, 2)])
    counts = KEPT.total(DistinctTrips(small))
    found, endpoints = fit_passes(walks(MIDDLE, FINE), SIZE.trips)
    histogram = SpatialHistogram.from_flux(GRID, *found)
    assert endpoints == found[0].sum() > SIZE.trips
    assert histogram.is_monotone(1e-6)
    assert np.abs(histogram.answers(small) - counts).mean() < 0.12 * counts.mean()
    only, _ = fit_passes(walks(FINE), SIZE.trips)
    again = SpatialHistogram.from_flux(GRID, *only).answers(small)
    assert np.abs(again - counts).mean() < 0.12 * counts.mean()


@pytest.mark.parametrize("strong", [False, True])
def test_both_scales_are_monotone_and_the_average_answer_is_right(strong: bool) -> None:
    histogram = with_detail(
        GRID, COARSE, known(), 1.0, walks(MIDDLE, FINE), QUERIES, SIZE, Lowering(0.5, 0.01, True) if strong else None
    )
    assert histogram.is_monotone()
    assert histogram.offset == (0.01 * SIZE.trips if strong else 0)
    assert histogram.side == max(GRID.shape) // 16
    assert histogram.total == pytest.approx(SIZE.trips)
    assert histogram.answers(QUERIES).mean() == pytest.approx(SIZE.answer, rel=0.03)
    every = np.arange(GRID.rows)
    grown = [histogram.answers(np.array([[i, i, j, j]]))[0] for i in (0, 10) for j in every[every > i]]
    first, second = grown[: GRID.rows - 1], grown[GRID.rows - 1 :]
    assert all(np.diff(first) >= 0)
    assert all(np.diff(second) >= 0)
