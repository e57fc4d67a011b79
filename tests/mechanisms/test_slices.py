"""Slices are found where there is something to see, and are shares of the map where there is not."""

from fractions import Fraction
from functools import cache

import numpy as np

from dqam import cities
from dqam.geometry.counting import count_distinct
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.rectangles import random_rectangles
from dqam.geometry.sliced_histogram import SlicedHistogram
from dqam.geometry.slicing import Slicing
from dqam.geometry.trips import Trips
from dqam.geometry.walks import Walks, walk
from dqam.mechanisms.slices import (
    MOST_PATTERNS,
    SliceMeasurement,
    factorised,
    find_patterns,
    known_questions,
    measure_slices,
)
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.values.guarantee import Promise

GRID = Grid.over(cities.BOUNDS, 5)
HOURS = Slicing.parse("hour")
QUERIES = random_rectangles(GRID, 500, np.random.default_rng(0))


@cache
def city(n: int = 20_000) -> Walks:
    return walk(HOURS.labelled(Trips.concat(list(cities.city_trips(n, 1, rhythm=True)))), GRID)


def measured(epsilon: int | str, seed: int = 0, delta: str | None = None) -> tuple[Curator, SliceMeasurement]:
    aggregates = Aggregates.of(city(), slices=24)
    curator = Curator(aggregates, Budget.of(Promise.of(epsilon, delta)), SeededNoise(seed))
    return curator, measure_slices(curator, QUERIES, curator.budget, 20_000)


def test_all_of_the_budget_is_spent_on_two_questions() -> None:
    for delta in (None, "1e-8"):
        curator, _ = measured("1", delta=delta)
        assert curator.budget.left == 0
        assert all(entry.name.endswith(", by slice") for entry in curator.paid)
        assert len(curator.paid) == 2
        assert sum((entry.cost for entry in curator.paid), Fraction(0)) == curator.spent


def test_the_first_scan_finds_all_that_is_needed() -> None:
    known = [aggregate for question in known_questions(QUERIES, 24) for aggregate in question.aggregates]
    scans = Aggregates(Aggregates.of(city(), slices=24).engine, known)
    curator = Curator(scans, Budget(1), SeededNoise(0))
    measure_slices(curator, QUERIES, curator.budget, 20_000)
    assert scans.scans == 1


def test_slices_are_closer_to_the_truth_than_shares_of_all_trips() -> None:
    whole, asked = SpatialHistogram.of(city()), random_rectangles(GRID, 300, np.random.default_rng(1))
    _, found = measured(2)
    patterns, _ = find_patterns(found, HOURS.names, whole, QUERIES)
    assert 1 < found.rank() <= MOST_PATTERNS
    labels = city().slices
    assert labels is not None
    truth = np.stack([count_distinct(city(), asked, GRID, labels == hour) for hour in range(24)])
    ours = SlicedHistogram.of_patterns(whole, patterns).ask_each(lambda one: one.answers(asked))
    right = truth.sum(axis=0) / np.maximum(ours.sum(axis=0), 1)  # so that only the shares are compared
    scaled = np.outer(np.bincount(labels, minlength=24) / len(labels), truth.sum(axis=0))
    assert np.abs(ours * right - truth).sum() < 0.5 * np.abs(scaled - truth).sum()


def test_without_a_signal_every_slice_is_its_share() -> None:
    _, found = measured("0.002")
    assert found.rank() == 1
    whole = SpatialHistogram.of(city())
    patterns, noise = find_patterns(found, HOURS.names, whole, QUERIES)
    assert patterns.mixture.shape == (24, 1)
    np.testing.assert_allclose(patterns.endpoints, 1)
    np.testing.assert_allclose(patterns.crossings, 1)
    assert noise.moved.shape == (8, 24, found.lattice.cells)


def test_noise_alone_makes_no_patterns() -> None:
    rng, lattice = np.random.default_rng(3), measured(1)[1].lattice
    for seed in range(20):
        rng = np.random.default_rng(seed)
        shares = np.outer(np.arange(1, 25), np.full(lattice.cells, 5.0)) + rng.normal(0, 7, (24, lattice.cells))
        sizes = np.stack([5.0 * lattice.cells * np.arange(1, 25), np.arange(1, 25) * 100.0], axis=1)
        assert SliceMeasurement(lattice, shares, sizes, (7.0, 7.0, 7.0)).rank() == 1


def test_patterns_are_shares() -> None:
    for epsilon in ("0.01", "1", "50"):
        _, found = measured(epsilon, seed=2)
        patterns, _ = find_patterns(found, HOURS.names, SpatialHistogram.of(city()), QUERIES)
        for shares in (patterns.mixture, patterns.endpoints, patterns.crossings):
            assert shares.min() >= 0
            np.testing.assert_allclose(shares.sum(axis=0), 1)


def test_a_factorisation_has_no_negative_numbers_and_fits_better_with_more_parts() -> None:
    rng = np.random.default_rng(0)
    table = rng.gamma(1, 10, (12, 30)) + rng.normal(0, 3, (12, 30))
    errors = []
    for rank in (1, 3, 6):
        mixture, parts = factorised(table, rng.uniform(1, 2, (12, rank)), rng.uniform(1, 2, (rank, 30)), 500)
        assert min(mixture.min(), parts.min()) >= 0
        np.testing.assert_allclose(mixture.sum(axis=0), 1)
        errors.append(((table - mixture @ parts) ** 2).sum())
    assert errors[0] > errors[1] > errors[2]
