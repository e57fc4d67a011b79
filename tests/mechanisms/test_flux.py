"""Flux: consistent for whatever it is given, with no rounding error, and what its parts do."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations, pairwise, product

import numpy as np
import pytest

from dqam.errors import InputError
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram, TwoScaleHistogram
from dqam.geometry.lattice import Lattice
from dqam.geometry.rectangles import random_rectangles, sized_rectangles
from dqam.geometry.trips import Trips
from dqam.geometry.walks import walk
from dqam.mechanisms.flux import (
    FIRST_LOOK,
    MARGIN,
    Flux,
    random_scale,
)
from dqam.mechanisms.flux_rules import GaussianRules, LaplaceRules, pure_below
from dqam.mechanisms.flux_uncertainty import FluxEstimate
from dqam.mechanisms.size import measure_size
from dqam.mechanisms.spreading import spread_evenly
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.statistics import MASS, SHADOW, GroupShares, QueryTotals, ShadowQuantile, ShadowSums, WalkSums
from dqam.statistics.distinct import DistinctTrips
from dqam.values.guarantee import Promise, Unit
from tests.mechanisms.cases import city, parts, run, some_queries, strolls, unit_square

GRID = unit_square(16, 16)
QUERIES = some_queries(GRID, 100)
RULES = LaplaceRules()
FORCED = Flux(least=0)
SHADOWS = Flux(least=0, crossed=0)
SHARES = Flux(least=0, crossed=np.inf)
EPSILONS = ["1e-9", "0.001", "0.1", "1", "20", "1e6"]


def wanderers(n: int, grid: Grid, seed: int = 0, points: int = 12) -> Aggregates:
    """Trips of many legs, which come back to most places."""
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(0, 1, (2, n * points))
    return Aggregates.of(walk(Trips(x, y, np.arange(0, n * points + 1, points)), grid))


def crowd(n: int, grid: Grid) -> Aggregates:
    """All trips in one cell."""
    x = np.full(n, 0.3)
    return Aggregates.of(walk(Trips(x, x.copy(), np.arange(n + 1)), grid))


DATA = {
    "nothing": strolls(0, GRID),
    "one trip": strolls(1, GRID, wide=0.5),
    "one wanderer": wanderers(1, GRID),
    "one cell": crowd(500, GRID),
    "strolls": strolls(800, GRID),
    "single cells": strolls(300, GRID, wide=0),
    "wanderers": wanderers(300, GRID),
}


def all_answers(histogram: SpatialHistogram) -> np.ndarray:
    """By west, south, east and north line; nan where that is no rectangle."""
    rows, columns = histogram.grid.shape
    sides = [list(combinations(range(lines + 1), 2)) for lines in (columns, rows)]
    rectangles = np.array([(west, south, east, north) for west, east in sides[0] for south, north in sides[1]])
    answers = np.full((columns + 1, rows + 1, columns + 1, rows + 1), np.nan)
    answers[tuple(rectangles.T)] = histogram.answers(rectangles)
    return answers


def check_by_definition(histogram: SpatialHistogram) -> None:
    """No answer is below 0, above that of the grid or above that of a rectangle around it: not by a rounding error.

    Nested rectangles are joined by steps of one line, so that these are all nestings.
    """
    answers = all_answers(histogram)
    known = answers[~np.isnan(answers)]
    rows, columns = histogram.grid.shape
    assert len(known) == rows * (rows + 1) * columns * (columns + 1) / 4
    assert known.min() >= 0
    assert known.max() == answers[0, 0, -1, -1] == histogram.total
    for axis, outward in enumerate((-1, -1, 1, 1)):
        growth = outward * np.diff(answers, axis=axis)
        assert not (growth < 0).any()


def test_the_check_finds_a_rounding_error() -> None:
    good, _ = run(FORCED, DATA["strolls"], QUERIES, 1)
    check_by_definition(good)
    endpoints = good.endpoints.copy()
    endpoints[7, 7] -= endpoints[6:9, 6:9].sum() + good.vertical[7, 6:8].sum() + good.horizontal[6:8, 7].sum()
    with pytest.raises(AssertionError):
        check_by_definition(SpatialHistogram.from_flux(GRID, endpoints, good.vertical, good.horizontal))
    vertical = good.vertical.copy()
    vertical[3, 3] = np.nextafter(good.faces[3, 3], np.inf) * 2
    with pytest.raises(AssertionError):
        check_by_definition(SpatialHistogram(GRID, good.faces, vertical, good.horizontal))


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("kept", DATA.values(), ids=DATA.keys())
def test_all_answers_grow_with_the_rectangle(kept: Aggregates, epsilon: str) -> None:
    for mechanism, seed in ((SHADOWS, 0), (SHARES, 1), (Flux(), 2)):
        histogram, curator = run(mechanism, kept, QUERIES, epsilon, seed)
        assert histogram.is_monotone()
        check_by_definition(histogram)
        assert curator.spent == curator.budget.amount == Fraction(epsilon)


SHAPES = [(1, 1), (1, 2), (1, 13), (13, 1), (2, 2), (5, 16), (16, 3), (11, 7)]


@pytest.mark.parametrize("shape", SHAPES, ids=[f"{rows} x {columns}" for rows, columns in SHAPES])
def test_they_do_on_grids_of_any_shape(shape: tuple[int, int]) -> None:
    grid = unit_square(*shape)
    for kept, epsilon, side, crossed in product(
        (strolls(0, grid), strolls(300, grid), wanderers(100, grid), crowd(50, grid)),
        ("0.001", "1", "1e5"),
        (None, 3),
        (0, np.inf),
    ):
        histogram, curator = run(Flux(side, least=0, crossed=crossed), kept, some_queries(grid), epsilon)
        assert histogram.is_monotone()
        check_by_definition(histogram)
        assert curator.spent == Fraction(epsilon)


@pytest.mark.parametrize("side", [1, 2, 5, 11, 16, 100])
def test_they_do_for_lattices_of_any_side(side: int) -> None:
    """Where the lines of the lattice are evenly apart and where not."""
    for epsilon in ("0.05", "5"):
        for crossed in (0, np.inf):
            check_by_definition(run(Flux(side, least=0, crossed=crossed), DATA["wanderers"], QUERIES, epsilon)[0])


def test_they_do_for_a_city_on_a_fine_grid() -> None:
    kept = city(2000, resolution=7)
    for epsilon in ("0.01", "0.5", "10"):
        histogram, _ = run(FORCED, kept, some_queries(kept.grid, 300), epsilon)
        assert histogram.is_monotone()


def test_the_total_is_the_number_of_trips_that_was_measured() -> None:
    for mechanism, epsilon in product((FORCED, Flux()), ("0.01", "1", "20")):
        one, other = (Curator(DATA["strolls"], Budget(epsilon), SeededNoise(4)) for _ in range(2))
        histogram = mechanism.synthesize(one, QUERIES, one.budget).histogram
        size = measure_size(other, QUERIES, other.budget, mechanism.least, FIRST_LOOK, RULES.size_share, MARGIN)
        assert histogram.total == pytest.approx(size.trips, rel=1e-12)


def test_one_measurement_of_shares_or_shadows_takes_all_that_is_left() -> None:
    for epsilon, names in (
        ("0.01", [f"{QueryTotals.name}, refined"]),
        ("0.5", [GroupShares.name]),
        ("1", [ShadowSums.name]),
        ("20", [ShadowQuantile.name, ShadowSums.name]),
    ):
        _, curator = run(Flux(), DATA["strolls"], QUERIES, epsilon)
        assert [entry.name for entry in curator.paid][-len(names) :] == names
        assert curator.spent == Fraction(epsilon)
        if names[-1] in (GroupShares.name, ShadowSums.name):
            assert [entry.name for entry in curator.paid].count(names[-1]) == 1
            signal = 800 * float(epsilon)
            looks = sum(entry.epsilon for entry in curator.paid if QueryTotals.name in entry.name)
            assert looks / Fraction(epsilon) == pytest.approx(RULES.size_share(signal), abs=0.02)
    _, poor = run(Flux(), DATA["strolls"], QUERIES, "0.01")
    assert not any(entry.name in (GroupShares.name, ShadowSums.name) for entry in poor.paid)


def test_shares_whose_noise_would_not_fit_are_not_measured() -> None:
    _, curator = run(SHARES, DATA["strolls"], QUERIES, "1e-9")
    assert curator.paid[-1].name == ShadowSums.name


DETAILED = Flux(side=3, finest=16, least=0, crossed=0, known=0, detailed=0)


@pytest.mark.parametrize("epsilon", ["1e-8", *EPSILONS[1:]])
@pytest.mark.parametrize("kept", DATA.values(), ids=DATA.keys())
def test_all_answers_grow_with_detail_too(kept: Aggregates, epsilon: str) -> None:
    for mechanism in (DETAILED, Flux(side=5, finest=13, least=0, crossed=0, detailed=0), replace(DETAILED, strong=0)):
        histogram, curator = run(mechanism, kept, QUERIES, epsilon)
        assert isinstance(histogram, TwoScaleHistogram)
        check_by_definition(histogram)
        assert curator.spent == Fraction(epsilon)


def test_finer_lattices_are_paid_for_from_the_share_of_detail() -> None:
    _, curator = run(DETAILED, DATA["strolls"], QUERIES, "20")
    looks = sum(entry.epsilon for entry in curator.paid if QueryTotals.name in entry.name)
    fine = [entry for entry in curator.paid if entry.name == WalkSums.name]
    rest = 20 - looks
    detail = rest * RULES.detail_share(800 * 20, random_scale(QUERIES, GRID))
    assert float(sum(entry.epsilon for entry in fine)) == pytest.approx(float(detail), rel=0.05)
    assert fine[0].epsilon / sum(entry.epsilon for entry in fine) == RULES.middle_share
    assert [entry.name for entry in curator.paid].count(ShadowSums.name) == 1
    _, plain = run(Flux(), DATA["strolls"], QUERIES, "1")  # a signal of 800
    assert not any(entry.name == WalkSums.name for entry in plain.paid)


def test_lattices_are_made_of_lines_of_the_next() -> None:
    for signal, shape in product((5e3, 2e4, 1e5, 1e6, 1e9), ((256, 256), (300, 200), (64, 64), (1, 500), (7, 9))):
        lattices = Flux()._lattices(unit_square(*shape), RULES, signal, Flux().detailed)
        for coarse, fine in pairwise(lattices):
            assert set(coarse.east.tolist()) <= set(fine.east.tolist())
            assert set(coarse.north.tolist()) <= set(fine.north.tolist())
            assert coarse.cells < fine.cells
    grid, detailed = unit_square(256, 256), Flux().detailed
    assert [max(lattice.shape) for lattice in Flux()._lattices(grid, RULES, 1e5, detailed)] == [32, 64, 256]
    assert len(Flux()._lattices(grid, RULES, 4_999, detailed)) == 1
    rules = GaussianRules()
    assert [max(lattice.shape) for lattice in Flux()._lattices(grid, rules, 2e4, 400.0)] == [32, 91, 256]
    assert len(Flux()._lattices(grid, rules, 399, 400.0)) == 1


def test_small_queries_move_budget_to_detail() -> None:
    grid = unit_square(256, 256)
    assert random_scale(random_rectangles(grid, 16_000, np.random.default_rng(0)), grid) == pytest.approx(1, rel=0.05)
    blocks = np.array([[0, 0, 4, 4], [8, 8, 12, 14]])
    assert random_scale(blocks, grid) == pytest.approx(0.16 * 256 / 4)
    assert RULES.detail_share(1e5, random_scale(blocks, grid)) > RULES.detail_share(1e5)


def test_a_strong_signal_brings_two_scales_that_are_monotone_and_add_up() -> None:
    kept = city(4000, 6, resolution=6)
    fresh = sized_rectangles(kept.grid, 2, 4, 500, np.random.default_rng(3))
    counts, off = kept.total(DistinctTrips(fresh)), []
    for strong in (1e12, 1.0):
        histogram, curator = run(Flux(side=16, strong=strong), kept, some_queries(kept.grid, 300), "1000")
        assert isinstance(histogram, TwoScaleHistogram)
        assert histogram.is_monotone()
        assert histogram.total == pytest.approx(4000, rel=0.01)
        assert (histogram.offset > 0) == (strong == 1.0)
        assert curator.spent == 1000
        off.append(np.abs(histogram.answers(fresh) - counts).mean())
    assert off[1] < 0.8 * off[0]  # every pass is counted only if the signal is strong


def aligned(lattice: Lattice, count: int) -> np.ndarray:
    """Rectangles of whole lattice cells."""
    rng = np.random.default_rng(7)
    east, north = (np.array(list(combinations(lines.tolist(), 2))) for lines in (lattice.east, lattice.north))
    columns, rows = east[rng.integers(0, len(east), count)], north[rng.integers(0, len(north), count)]
    return np.stack([columns[:, 0], rows[:, 0], columns[:, 1], rows[:, 1]], axis=1)


@pytest.mark.parametrize(
    ("shape", "side"),
    [((16, 16), None), ((64, 64), None), ((12, 40), None), ((16, 16), 5), ((30, 17), 7), ((1, 30), 6)],
    ids=["all lines", "more lines than the most", "not square", "coarse", "coarse, not square", "a street"],
)
def test_without_noise_straight_trips_are_counted_once(shape: tuple[int, int], side: int | None) -> None:
    """By rectangles of lattice cells, if these are asked; what caps cut is put back, though not where it was."""
    grid = unit_square(*shape)
    kept = strolls(2000, grid)
    lattice = Lattice.even(grid, side or max(shape))
    queries, rectangles = np.split(aligned(lattice, 600), 2)
    histogram, _ = run(Flux(side or max(shape), finest=1), kept, queries, "1e6")
    off = np.abs(histogram.answers(rectangles) - kept.total(DistinctTrips(rectangles)))
    assert histogram.total == 2000
    assert off.mean() < 3
    assert off.max() < 10


@pytest.mark.parametrize("kept", [wanderers(300, GRID, points=3), city(2000)], ids=["one bend", "city"])
def test_without_noise_trips_that_turn_back_are_counted_more_nearly_once_than_by_crossings(kept: Aggregates) -> None:
    grid = kept.grid
    histogram, _ = run(Flux(), kept, some_queries(grid, 300), "1e6")
    fresh = some_queries(grid, 400, seed=9)
    counts = kept.total(DistinctTrips(fresh))
    plain = np.minimum(SpatialHistogram.of(kept.engine.walks).answers(fresh), len(kept.engine.walks))
    assert np.abs(histogram.answers(fresh) - counts).mean() < 0.5 * np.abs(plain - counts).mean()


@pytest.mark.parametrize("kept", [DATA["strolls"], DATA["single cells"]], ids=["strolls", "single cells"])
def test_little_signal_is_spread_evenly(kept: Aggregates) -> None:
    for seed in range(5):
        histogram, _ = run(Flux(), kept, QUERIES, "0.02", seed)
        other = Curator(kept, Budget("0.02"), SeededNoise(seed))
        size = measure_size(other, QUERIES, other.budget, Flux().least, FIRST_LOOK, RULES.size_share, MARGIN)
        assert not size.enough
        np.testing.assert_allclose(
            parts(histogram), parts(spread_evenly(GRID, size)), rtol=1e-9, atol=1e-9 * histogram.total
        )
        for part in (histogram.faces, histogram.vertical, histogram.horizontal):
            np.testing.assert_allclose(part, part[0, 0], rtol=1e-9)


def estimated(epsilon: Fraction) -> tuple[FluxEstimate, Curator]:
    curator = Curator(DATA["strolls"], Budget(epsilon), SeededNoise(0))
    return Flux().synthesize(curator, QUERIES, curator.budget), curator


@pytest.mark.parametrize("signal", [0.1 * Flux().rich, 0.5 * Flux().rich, 2 * Flux().rich])
def test_an_estimate_tells_how_it_came_about(signal: float) -> None:
    epsilon = Fraction(signal) / 800
    found, curator = estimated(epsilon)
    np.testing.assert_array_equal(parts(found.histogram), parts(run(Flux(), DATA["strolls"], QUERIES, epsilon)[0]))
    assert found.measurement is not None
    assert found.kept is not None
    shares = signal < Flux().crossed
    side = RULES.share_side if shares else RULES.coarsest_side
    assert found.measurement.lattice == Lattice.even(GRID, side(found.size.signal))
    assert curator.paid[-1].name == (GroupShares.name if shares else ShadowSums.name)
    assert found.measurement.noise == pytest.approx(float(curator.paid[-1].scale / (MASS if shares else SHADOW)))
    refined = SpatialHistogram.from_flux(GRID, *found.measurement.lattice.refine(*found.kept))
    np.testing.assert_allclose(parts(found.histogram), parts(refined), rtol=1e-9, atol=1e-6)
    assert found.misfit > 0 or shares
    assert (found.shrunk > 0) == (signal < Flux().rich)  # only the rich are not drawn to even


def test_an_estimate_of_little_signal_has_seen_nothing() -> None:
    found, _ = estimated(Fraction(1, 100))
    assert found.measurement is found.kept is None
    assert found.misfit == found.shrunk == 0


def test_a_person_of_more_trips_has_as_much_more_noise() -> None:
    """And as much less signal: the same as a trip for a part of the eps."""
    kept, people = DATA["strolls"], [f"p{i}" for i in range(800)]
    for trips, epsilon in product((2, 5), (Fraction(1), Fraction(20))):
        noise = SeededNoise(5)
        noise.generator().bytes(16)  # as is drawn for the salt that chooses a person's trips
        plain, single = run(FORCED, kept, QUERIES, epsilon, noise)
        person = Curator(kept, Budget(trips * epsilon), SeededNoise(5), Unit.person(trips), people)
        made = FORCED.synthesize(person, QUERIES, person.budget).histogram
        assert person.spent == trips * epsilon
        assert [(entry.name, entry.sensitivity, entry.scale) for entry in person.paid] == [
            (entry.name, trips * entry.sensitivity, entry.scale) for entry in single.paid
        ]
        check_by_definition(made)
        np.testing.assert_allclose(parts(made), parts(plain), rtol=1e-9, atol=1e-9)


def test_of_a_person_with_many_trips_only_some_count() -> None:
    curator = Curator(DATA["strolls"], Budget(100), SeededNoise(0), Unit.person(3), np.arange(800) // 40)
    made = FORCED.synthesize(curator, QUERIES, curator.budget).histogram
    check_by_definition(made)
    assert made.total == pytest.approx(60, abs=3)


def test_a_lattice_without_cells_is_refused() -> None:
    for side in (0, -1, 2.5, "many"):
        with pytest.raises(InputError, match="whole number of cells, at least 1"):
            Flux(side)
        with pytest.raises(InputError, match="finest must be"):
            Flux(finest=side)


DELTAS = [Promise.of(epsilon, 1e-8) for epsilon in ("0.01", "1", "100")]


@pytest.mark.parametrize("exchange", [False, True], ids=["Gaussian", "exchange"])
@pytest.mark.parametrize("promise", DELTAS, ids=lambda promise: str(float(promise.epsilon)))
@pytest.mark.parametrize("name", ["one wanderer", "strolls"])
def test_all_answers_grow_with_the_rectangle_under_a_delta(name: str, promise: Promise, exchange: bool) -> None:
    for mechanism, seed in ((SHADOWS, 0), (DETAILED, 0), (replace(DETAILED, strong=0), 2), (Flux(), 3)):
        histogram, curator = run(mechanism, DATA[name], QUERIES, promise, seed, exchange)
        assert histogram.is_monotone()
        check_by_definition(histogram)
        assert curator.spent == curator.budget.amount == (promise.rho if curator.concentrated else promise.epsilon)
        assert curator.concentrated or exchange


def names(curator: Curator) -> list[str]:
    return [entry.name for entry in curator.paid]


def test_a_weak_signal_exchanges_the_budget_and_then_all_is_as_without_a_delta() -> None:
    """The first look costs as much as it would; the questions after it, and their noise, are those of epsilon."""
    kept = DATA["strolls"]
    for epsilon, last in (("0.02", "refined"), ("0.5", GroupShares.name), ("1", ShadowSums.name)):
        promise = Promise.of(epsilon, 1e-8)
        _, pure = run(Flux(), kept, QUERIES, epsilon, 1)
        _, both = run(Flux(), kept, QUERIES, promise, 1)
        assert not both.concentrated
        assert both.spent == pure.spent == promise.epsilon
        assert names(both) == names(pure)
        assert names(both)[-1].endswith(last)
        for one, other in zip(both.paid, pure.paid, strict=True):
            assert one.rho is None
            assert one.epsilon is not None
            assert one.sensitivity == other.sensitivity
            assert one.scale * one.epsilon == other.scale * other.epsilon
            assert float(one.epsilon) == pytest.approx(float(other.epsilon), rel=0.3)


def test_a_weak_signal_uses_gaussian_noise_if_it_may_not_exchange() -> None:
    promise = Promise.of(1, 1e-8)
    made, curator = run(Flux(), DATA["strolls"], QUERIES, promise, 1, exchange=False)
    assert curator.concentrated
    assert curator.spent == promise.rho
    assert curator.paid[0].epsilon is not None  # the first look is pure, so that an exchange is possible
    assert all(entry.epsilon is None or entry.kind == "select" for entry in curator.paid[1:])
    assert made.total == pytest.approx(800, rel=0.2)


def test_a_strong_signal_does_not_exchange() -> None:
    promise, kept = Promise.of(1, 1e-6), strolls(20_000, unit_square(64, 64))
    queries = some_queries(kept.grid, 100)
    assert pure_below(1.0, Budget.of(promise).precision()) < 20_000
    histogram, curator = run(Flux(), kept, queries, promise, 1)
    assert curator.concentrated
    assert curator.spent == sum(entry.cost for entry in curator.paid) == promise.rho
    assert ShadowQuantile.name in names(curator)
    assert WalkSums.name in names(curator)
    gaussian = [entry.name for entry in curator.paid if entry.epsilon is None]
    assert gaussian.count(ShadowSums.name) == 1
    assert all(name in gaussian for name in names(curator)[2:] if name != ShadowQuantile.name)
    truth = kept.total(DistinctTrips(queries))
    assert np.abs(histogram.answers(queries) - truth).mean() < 0.02 * 20_000


def test_a_person_of_more_trips_has_as_much_more_noise_under_a_delta() -> None:
    """Four times the rho for a unit of two trips is the same noise."""
    rho = Promise.of(3, 1e-6).rho
    assert rho is not None
    noise = SeededNoise(5)
    noise.generator().bytes(16)
    one = Curator(DATA["strolls"], Budget(rho, concentrated=True), noise)
    people = [f"p{i}" for i in range(800)]
    two = Curator(DATA["strolls"], Budget(4 * rho, concentrated=True), SeededNoise(5), Unit.person(2), people)
    plain, made = (FORCED.synthesize(curator, QUERIES, curator.budget).histogram for curator in (one, two))
    assert names(one) == names(two)
    for trip, person in zip(one.paid, two.paid, strict=True):
        assert float(person.scale) == pytest.approx(float(trip.scale), rel=1e-12)
        assert person.rho == 4 * trip.rho
    np.testing.assert_allclose(parts(made), parts(plain), rtol=1e-6, atol=1e-6)
    check_by_definition(made)
