"""A public prior: where the signal is weak, it takes the place of the even spread, as far as it resembles the trips."""

from fractions import Fraction

import numpy as np
import pytest

from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.lattice import Lattice, flat
from dqam.mechanisms import Flux
from dqam.mechanisms.flux_fit import ShareMeasurement, from_shares
from dqam.mechanisms.flux_uncertainty import FluxEstimate
from dqam.mechanisms.prior import Prior, divided, draw, scaled_prior, with_detail_of
from dqam.mechanisms.size import SizeEstimate, cover
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.statistics.distinct import DistinctTrips
from tests.mechanisms.cases import city, some_queries, unit_square

GRID = unit_square(32, 32)
QUERIES = some_queries(GRID, 200)
SIZE = SizeEstimate(cover(GRID, QUERIES), 1000.0, 420.0, signal=100.0)
LATTICE = Lattice.even(GRID, 6)


def hill(east: float, north: float) -> np.ndarray:
    """A density with one centre."""
    y, x = (np.indices(GRID.shape) + 0.5) / 32
    found: np.ndarray = 0.05 + np.exp(-((x - east) ** 2 + (y - north) ** 2) / 0.05)
    return found


def measurement(noise: float) -> ShareMeasurement:
    return ShareMeasurement(LATTICE, noise, LATTICE.snap(QUERIES))


def published(trips: Aggregates, epsilon: str, prior: Prior | None, seed: int = 0) -> FluxEstimate:
    curator = Curator(trips, Budget(Fraction(epsilon)), SeededNoise(seed))
    queries = some_queries(trips.grid, 500)
    return Flux().synthesize(curator, queries, curator.budget, prior)


def of_city(seed: int) -> Prior:
    whole = published(city(20_000, seed), "10", None).histogram
    large = getattr(whole, "large", whole)
    return Prior(large.grid, large.faces, large)


def test_a_density_becomes_a_consistent_histogram_with_the_size() -> None:
    for density in (hill(0.3, 0.6), np.ones(GRID.shape), np.where(hill(0.3, 0.6) > 0.9, 1.0, 0.0)):
        found = scaled_prior(Prior(GRID, density), SIZE)
        assert found.is_monotone()
        assert found.total == pytest.approx(SIZE.trips)
        assert SIZE.mean_answer(found) < 1.01 * SIZE.answer
    smooth = scaled_prior(Prior(GRID, hill(0.3, 0.6)), SIZE)
    assert SIZE.mean_answer(smooth) > 0.9 * SIZE.answer
    assert np.corrcoef(smooth.faces.ravel(), hill(0.3, 0.6).ravel())[0, 1] > 0.9


def test_a_histogram_keeps_its_detail_and_only_crossings_are_scaled_down() -> None:
    one = scaled_prior(Prior(GRID, hill(0.3, 0.6)), SIZE)
    fewer = SizeEstimate(SIZE.covers, 500.0, 180.0, signal=100.0)
    found = scaled_prior(Prior(GRID, one.faces, one), fewer)
    assert found.is_monotone()
    assert fewer.mean_answer(found) == pytest.approx(180, rel=1e-3)
    assert np.allclose(found.endpoints, one.endpoints / 2, atol=1e-6)
    still = SpatialHistogram.from_flux(GRID, one.endpoints, 0 * one.vertical, 0 * one.horizontal)
    assert still.is_monotone()
    crossing = scaled_prior(Prior(GRID, hill(0.3, 0.6), still), SIZE)  # too few crossings: its density is used
    assert crossing.vertical.sum() > 0


def test_a_lattice_is_divided_at_its_own_lines() -> None:
    fine = divided(LATTICE)
    assert set(LATTICE.east) <= set(fine.east)
    assert divided(Lattice.even(GRID, 32)) == Lattice.even(GRID, 32)


def test_detail_has_the_sums_of_the_fit() -> None:
    known = measurement(5.0)
    whole = scaled_prior(Prior(GRID, hill(0.3, 0.6)), SIZE)
    fitted = known.seen(whole, SIZE)
    detailed = with_detail_of((whole.endpoints, whole.vertical, whole.horizontal), 1.0, known, fitted, SIZE.trips)
    sums = LATTICE.add_up(*detailed)
    assert np.abs(flat(sums) - flat(fitted)).max() < 0.1 * flat(fitted).max()
    off = [np.abs(part - whole.endpoints).sum() for part in (detailed[0], LATTICE.refine(*fitted)[0])]
    assert off[0] < off[1]


def test_the_draw_notices_which_prior_is_right() -> None:
    known, rng = measurement(25.0), np.random.default_rng(1)
    truth = scaled_prior(Prior(GRID, hill(0.3, 0.6)), SIZE)
    mass = LATTICE.add_up(truth.faces, truth.vertical, truth.horizontal)[0]
    measured = from_shares(LATTICE, mass * SIZE.trips / mass.sum() + rng.laplace(0, 25, LATTICE.shape), SIZE)
    fitted = known.fit(measured, SIZE)
    right, wrong = (
        draw(known, measured, fitted, Prior(GRID, hill(*where)), SIZE) for where in ((0.3, 0.6), (0.9, 0.1))
    )
    assert right.share > 0.6
    assert wrong.share < 0.2
    assert wrong.keep > right.keep
    none = draw(known, measured, fitted, None, SIZE)
    queries = some_queries(GRID, 500, 5)
    errors = []
    for drawn in (right, none, wrong):
        found = drawn.histogram(GRID, LATTICE, SIZE)
        assert found.is_monotone()
        assert found.total == pytest.approx(SIZE.trips)
        errors.append(np.abs(found.answers(queries) - truth.answers(queries)).mean())
    assert errors[0] < 0.7 * errors[1]
    assert errors[2] < 1.2 * errors[1]


@pytest.mark.parametrize("epsilon", ["0.02", "0.1", "0.5", "2"])
def test_a_good_prior_helps_and_answers_stay_monotone(epsilon: str) -> None:
    trips, prior = city(1_000, 2), of_city(3)
    queries = some_queries(trips.grid, 1_000, 7)
    truth = trips.total(DistinctTrips(queries))
    errors: list[list[float]] = [[], []]
    for seed in range(3):
        for each, given in zip(errors, (None, prior), strict=True):
            made = published(trips, epsilon, given, seed)
            assert made.histogram.is_monotone()
            uncertainty = made.uncertainty()
            low, high = uncertainty.intervals(queries)
            assert ((low <= truth) & (truth <= high)).mean() > 0.75
            each.append(np.abs(made.histogram.answers(queries) - truth).mean())
            assert (made.share > 0) == (given is not None)
    assert np.mean(errors[1]) < (1.1 if epsilon == "2" else 0.95) * np.mean(errors[0])


def test_a_strong_signal_ignores_the_prior() -> None:
    trips = city(2_000, 2)
    prior = Prior(trips.grid, np.ones(trips.grid.shape))
    one, other = (published(trips, "10", given) for given in (None, prior))
    assert np.array_equal(one.histogram.faces, other.histogram.faces)
    assert other.share == 0
