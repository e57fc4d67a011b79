"""The number of trips and the average answer, which every mechanism asks first."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings

from dqam.geometry.histogram import SpatialHistogram
from dqam.mechanisms.size import LOOK, EmptyMapError, SizeEstimate, cover, measure_size
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.statistics import QueryTotals
from dqam.statistics.distinct import DistinctTrips
from dqam.values.guarantee import Promise, Unit
from tests.mechanisms.cases import city, seeds, sides, some_queries, strolls, unit_square


def naive_cover(rows: int, columns: int, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Query by query and cell by cell."""
    faces, vertical, horizontal = (
        np.zeros((rows, columns)),
        np.zeros((rows, columns - 1)),
        np.zeros((rows - 1, columns)),
    )
    for west, south, east, north in queries:
        for row in range(south, north):
            for column in range(west, east):
                faces[row, column] += 1
                if column + 1 < east:
                    vertical[row, column] += 1
                if row + 1 < north:
                    horizontal[row, column] += 1
    return faces / len(queries), vertical / len(queries), horizontal / len(queries)


@given(sides, sides, seeds)
@settings(max_examples=60, deadline=None)
def test_cover_is_the_share_of_queries_that_hold_each_piece(rows: int, columns: int, seed: int) -> None:
    grid = unit_square(rows, columns)
    queries = some_queries(grid, 1 + seed % 12, seed)
    for share, wanted in zip(cover(grid, queries), naive_cover(rows, columns, queries), strict=True):
        assert share.shape == wanted.shape
        np.testing.assert_allclose(share, wanted)


@given(sides, sides, seeds)
@settings(max_examples=60, deadline=None)
def test_covers_give_the_mean_answer(rows: int, columns: int, seed: int) -> None:
    grid, rng = unit_square(rows, columns), np.random.default_rng(seed)
    queries = some_queries(grid, 7, seed)
    shapes = ((rows, columns), (rows, columns - 1), (rows - 1, columns))
    histogram = SpatialHistogram(grid, *(rng.normal(0, 1, shape) for shape in shapes))
    faces, vertical, horizontal = cover(grid, queries)
    mean = (faces * histogram.faces).sum() - (vertical * histogram.vertical).sum()
    mean -= (horizontal * histogram.horizontal).sum()
    assert mean == pytest.approx(histogram.answers(queries).mean())


def test_the_size_costs_a_part_and_all_where_there_is_too_little() -> None:
    kept = city(300)
    queries = some_queries(kept.grid)
    for least, share, spent, looks in (
        (10.0, LOOK, LOOK, 1),
        (10.0, 2 * LOOK, 2 * LOOK, 2),
        (10_000.0, 2 * LOOK, Fraction(1), 2),
    ):
        curator = Curator(kept, Budget(1), SeededNoise(0))
        size = measure_size(curator, queries, curator.budget, least, share=lambda _, share=share: share)
        assert size.enough == (least == 10)
        assert curator.spent == spent
        assert [entry.name.removesuffix(", refined") for entry in curator.paid] == [QueryTotals.name] * looks


def test_a_second_look_may_find_too_little() -> None:
    kept, queries = city(300), some_queries(city(300).grid)
    seen = set()
    for seed in range(30):
        curator = Curator(kept, Budget(1), SeededNoise(seed))
        size = measure_size(curator, queries, curator.budget, 300.0, share=lambda _: 2 * LOOK)
        assert curator.spent == (2 * LOOK if size.enough else 1)
        seen.add((size.enough, len(curator.paid)))
    assert seen == {(True, 2), (False, 2), (False, 3)}


def test_the_size_is_right_at_a_large_epsilon() -> None:
    kept = city(300)
    queries = some_queries(kept.grid)
    curator = Curator(kept, Budget(10_000), SeededNoise(0))
    size = measure_size(curator, queries, curator.budget, 0)
    assert size.trips == pytest.approx(300, abs=0.01)
    assert size.answer == pytest.approx(kept.total(DistinctTrips(queries)).mean(), rel=1e-4)
    assert size.signal == pytest.approx(300 * 10_000)


def test_a_size_is_never_out_of_reason() -> None:
    """At least one trip, and a mean answer between none and all of them."""
    kept = strolls(0, unit_square(4, 4))
    for seed in range(40):
        curator = Curator(kept, Budget("0.01"), SeededNoise(seed))
        size = measure_size(curator, some_queries(unit_square(4, 4), 5, seed), curator.budget)
        assert size.trips >= 1
        assert 0 <= size.answer <= size.trips


def test_two_looks_are_better_than_the_first() -> None:
    kept = city(300)
    queries = some_queries(kept.grid)

    def misses(least: float) -> float:
        errors = []
        for seed in range(200):
            curator = Curator(kept, Budget("0.5"), SeededNoise(seed))
            errors.append(measure_size(curator, queries, curator.budget, least).trips - 300)
        return float(np.std(errors))

    assert misses(np.inf) < 0.4 * misses(0)  # 0.4 of eps and 0.1 of eps; 0.1 of eps alone


def test_the_signal_is_by_unit() -> None:
    kept = city(300)
    queries = some_queries(kept.grid)
    curator = Curator(kept, Budget(1000), SeededNoise(0), Unit.person(5), list(range(300)))
    assert measure_size(curator, queries, curator.budget, 0).signal == pytest.approx(300 * 1000 / 5, rel=0.01)


PROMISE = Promise.of(1, 1e-8)
FIRST = Fraction(1, 20)


def measured(n: int, pure_below: float, exchange: bool = True, seed: int = 0) -> tuple[SizeEstimate, Curator]:
    """The size of so many trips under a delta."""
    kept = city(n)
    curator = Curator(kept, Budget.of(PROMISE), SeededNoise(seed), may_exchange=lambda: exchange)
    queries = some_queries(kept.grid)
    helps = None if pure_below == np.inf else lambda signal: signal >= pure_below
    return measure_size(curator, queries, curator.budget, 10, FIRST, lambda _: LOOK, 0.0, helps), curator


def test_a_first_pure_look_decides_on_an_exchange() -> None:
    """It costs what it would cost a pure budget; then all is measured with the better kind of noise."""
    weak, pure = measured(300, 3_000.0)
    assert not pure.concentrated
    assert [entry.epsilon for entry in pure.paid] == [pytest.approx(FIRST), pytest.approx(LOOK - FIRST)]
    assert pure.spent == LOOK * PROMISE.epsilon
    assert weak.signal == pytest.approx(weak.trips)  # epsilon is 1
    strong, gaussian = measured(3_000, 2_000.0)
    assert gaussian.concentrated
    first, second = gaussian.paid
    assert first.epsilon == pytest.approx(FIRST)
    assert first.rho == FIRST**2 / 2
    assert second.epsilon is None
    assert gaussian.spent == LOOK * gaussian.budget.amount
    assert strong.signal == pytest.approx(strong.trips * Budget.of(PROMISE).precision())
    assert strong.trips == pytest.approx(3_000, rel=0.05)


def test_a_weak_size_is_measured_in_rho_if_nothing_may_be_exchanged() -> None:
    size, curator = measured(300, 3_000.0, exchange=False)
    assert curator.concentrated
    assert [entry.epsilon is None for entry in curator.paid] == [False, True]
    assert size.signal == pytest.approx(size.trips * Budget.of(PROMISE).precision())
    _, never = measured(300, 0.0)  # a threshold of 0 does not even ask
    assert never.concentrated


def test_without_a_threshold_the_budget_is_exchanged_at_once() -> None:
    size, curator = measured(300, np.inf)
    assert not curator.concentrated
    plain = Curator(city(300), Budget(1), SeededNoise(0))
    same = measure_size(plain, some_queries(plain.grid), plain.budget, 10, FIRST, lambda _: LOOK)
    assert (size.trips, size.answer, size.signal, size.noise) == (same.trips, same.answer, same.signal, same.noise)
    assert curator.paid == plain.paid


def test_the_first_look_takes_no_more_than_a_quarter() -> None:
    """A share of a large epsilon may cost more rho than there is."""
    promise = Promise.of(100, "1e-30")
    curator = Curator(city(300), Budget.of(promise), SeededNoise(0), may_exchange=lambda: False)
    measure_size(curator, some_queries(curator.grid), curator.budget, 10, Fraction(1, 2), lambda _: LOOK, 0.0, bool)
    assert curator.paid[0].rho == promise.rho / 4


@pytest.mark.parametrize("exchange", [False, True], ids=["Gaussian", "exchange"])
def test_the_noise_of_a_size_is_as_wide_as_it_says(exchange: bool) -> None:
    """Also if one look was pure and the other Gaussian."""
    found = [measured(300, 3_000.0, exchange, seed)[0] for seed in range(300)]
    trips = np.array([size.trips for size in found])
    wide = np.array([size.noise for size in found])
    assert np.ptp(wide) < 1e-9
    inner = trips[trips > 1]  # less is not possible
    assert len(inner) > 250
    assert np.std(inner) == pytest.approx(wide[0], rel=0.15)
    assert np.mean(inner) == pytest.approx(300, abs=4 * wide[0] / np.sqrt(len(inner)))


def test_a_wary_curator_ends_early_under_a_delta() -> None:
    """On an empty map the first, pure look is all that is spent."""
    ended = 0
    for seed in range(30):
        curator = Curator(
            strolls(0, unit_square(8, 8)), Budget.of(PROMISE), SeededNoise(seed), wary=True, may_exchange=lambda: False
        )
        with pytest.raises(EmptyMapError, match="rho .* was spent, and nothing was published"):
            measure_size(
                curator,
                some_queries(curator.grid),
                curator.budget,
                10,
                FIRST,
                lambda _: LOOK,
                0.0,
                lambda signal: signal >= 3_000,
            )
        assert len(curator.paid) > 1 or curator.spent == FIRST**2 / 2
        ended += len(curator.paid) == 1
    assert ended > 20
