"""Every sensitivity, exhaustively on all walks of a 3 x 3 grid: never exceeded, and reached."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from dqam.errors import InputError
from dqam.geometry.grid import Grid
from dqam.geometry.lattice import Lattice
from dqam.geometry.rectangles import random_rectangles
from dqam.geometry.regions import Partition
from dqam.geometry.trips import Trips
from dqam.geometry.walks import Gap, walk
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.contribution import ContributionBound
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.statistics import (
    CROSSING,
    MASS,
    CellShares,
    Crossings,
    DistinctCounts,
    Endpoints,
    GroupShares,
    LengthQuantile,
    QueryErrors,
    QueryTotals,
    Scores,
    ShadowQuantile,
    ShadowSums,
    Statistic,
    TripCount,
    UniformityCosts,
)
from dqam.statistics.aggregate import Part
from dqam.statistics.distinct import DistinctTrips
from dqam.statistics.limits import MOST_CAP
from dqam.statistics.shadow_sums import CappedShadows
from dqam.values.guarantee import Unit

GRID = Grid((0.0, 0.0, 3.0, 3.0), 3, 3)
ROWS = Partition(3, 3, np.array([[0, 0, 3, 1], [0, 1, 2, 3], [2, 1, 3, 3]]))
CELLS = Partition(3, 3, np.array([[x, y, x + 1, y + 1] for y, x in product(range(3), range(3))]))
ALL = np.array(
    [[w, s, e, n] for w, e in product(range(4), repeat=2) for s, n in product(range(4), repeat=2) if w < e and s < n]
)
GROUPS = np.array([[0, 0, 1], [1, -1, -1], [2, 0, 1]])  # of cells that are not together, and some in none
CROSS = Lattice(np.array([0, 1, 3]), np.array([0, 2, 3]))
EACH = Lattice(np.arange(4), np.arange(4))
SILENCE = 10**9  # microseconds, longer than the gap that cuts

Piece = tuple[tuple[int, int], ...]


def all_walks(visits: int) -> list[Piece]:
    """All 4-connected walks of 1 to `visits` visits."""
    walks: list[Piece] = [((row, column),) for row, column in product(range(3), range(3))]
    longest = walks
    for _ in range(visits - 1):
        longest = [
            (*walk, (row, column))
            for walk in longest
            for row, column in (
                (walk[-1][0] + up, walk[-1][1] + right) for up, right in ((0, 1), (1, 0), (0, -1), (-1, 0))
            )
            if 0 <= row < 3 and 0 <= column < 3
        ]
        walks = walks + longest
    return walks


def aggregates_of(trips: list[list[Piece]]) -> Aggregates:
    """Trips of given pieces: points in the middles of cells, with a silence between pieces."""
    points = [(column + 0.5, row + 0.5) for trip in trips for piece in trip for row, column in piece]
    times = [i + p * SILENCE for trip in trips for p, piece in enumerate(trip) for i in range(len(piece))]
    lengths = [sum(map(len, trip)) for trip in trips]
    x, y = np.array(points, float).reshape(-1, 2).T.copy()
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    laid = walk(Trips(x, y, offsets, np.array(times, np.int64)), GRID, Gap(seconds=100))
    return Aggregates.of(laid)


SINGLE = [[piece] for piece in all_walks(6)]
SHORT = all_walks(3)
RANDOM = np.random.default_rng(0)
MANY_PIECES = [[SHORT[i] for i in RANDOM.integers(0, len(SHORT), RANDOM.integers(2, 4))] for _ in range(1500)]
LONG = [[tuple((row, c if row % 2 == 0 else 2 - c) for row in range(3) for c in range(3)) * 1]]
TRIPS = SINGLE + MANY_PIECES + LONG
BASES = [[], *([TRIPS[i] for i in RANDOM.integers(0, len(TRIPS), size)] for size in (1, 2, 5, 20))]


def changes(question: Statistic | Scores, bases: list[list[list[Piece]]], trips: list[list[Piece]]) -> np.ndarray:
    """|f(D + trip) - f(D)|, a row for each D and trip."""
    rows = []
    for base in bases:
        before = aggregates_of(base).value(question)
        rows += [np.abs(aggregates_of([*base, trip]).value(question) - before) for trip in trips]
    return np.array(rows)


def test_the_grid_walks_are_what_they_seem() -> None:
    kept = aggregates_of([[((0, 0), (0, 1)), ((2, 2), (1, 2), (1, 1)), ((0, 0),)]])
    assert kept.engine.walks.cells.tolist() == [0, 1, 8, 5, 4, 0]
    assert Part(kept.engine.walks).longest.tolist() == [1]
    assert len(SINGLE) > 1500


@pytest.mark.parametrize(
    ("statistic", "reached"),
    [
        (TripCount(), 1),
        (Endpoints(ROWS), 1),
        (Endpoints(CELLS), 1),
        (Crossings(ROWS, 2), 1),
        (Crossings(CELLS, 3), 1),
        (Crossings(CELLS, 40), 5 / 40),  # no walk here has more than 8 crossings
        (Crossings(ROWS, 2, np.array([CROSSING, CROSSING // 3, 7])), 1 - 1e-4),
        (ShadowSums(CROSS, 1), 1 - 1e-4),
        (ShadowSums(CROSS, 3, 2), 1 - 1e-4),
        (ShadowSums(EACH, 2, 3), 1 - 1e-4),
        (ShadowSums(EACH, 40, 3), 0.15),
        (CellShares(), 1),
        (GroupShares(CELLS.labels), 1),
        (GroupShares(GROUPS), 1),
        (GroupShares(np.zeros((3, 3), np.int64)), 1),
        (DistinctCounts(ALL), 1),
        (DistinctCounts(ALL[[5]]), 1),
        (QueryTotals(ALL), 1),
        (QueryTotals(ALL[[5, 5, 8]]), 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_statistics_that_add_up(statistic: Statistic, reached: float) -> None:
    """What a trip adds does not depend on the others; that is tested too, on some."""
    added = changes(statistic, [[]], TRIPS).sum(axis=1)
    assert added.max() <= statistic.sensitivity
    assert added.max() >= reached * statistic.sensitivity
    some = [TRIPS[i] for i in RANDOM.integers(0, len(TRIPS), 40)]
    alone = changes(statistic, [[]], some)
    np.testing.assert_array_equal(changes(statistic, BASES[1:], some), np.tile(alone, (len(BASES) - 1, 1)))


@pytest.mark.parametrize("partition", [Partition.whole(3, 3), ROWS, CELLS], ids=["whole", "rows", "cells"])
def test_uniformity_costs(partition: Partition) -> None:
    statistic = UniformityCosts(partition.regions)
    some = [TRIPS[i] for i in RANDOM.integers(0, len(TRIPS), 150)]
    added = np.concatenate([changes(statistic, [[]], TRIPS), changes(statistic, BASES[1:], SINGLE[:9] + some)]).sum(
        axis=1
    )
    assert added.max() <= statistic.sensitivity
    if partition is not CELLS:
        assert added.max() >= 0.98 * statistic.sensitivity
    else:
        assert added.max() == 0


def test_uniformity_costs_of_any_masses() -> None:
    """The bound also holds for all ways to lay a small mass on a small base, where rounding matters most."""
    from dqam.statistics.uniformity import region_costs

    region = np.array([[0, 0, 2, 2]])
    for base in product(range(4), repeat=4):
        before = region_costs(np.array(base).reshape(2, 2), region)[0]
        for more in product(range(3), repeat=4):
            after = region_costs(np.array(base).reshape(2, 2) + np.array(more).reshape(2, 2), region)[0]
            assert abs(after - before) <= 2 * sum(more) * 3 / 4 + 2


@pytest.mark.parametrize(
    "scores",
    [
        QueryErrors(ALL, np.zeros(len(ALL))),
        QueryErrors(ALL, np.linspace(-3, 9.5, len(ALL))),
        LengthQuantile(np.arange(9), Fraction(1, 2)),
        LengthQuantile(np.arange(9), Fraction(97, 100)),
        LengthQuantile(np.arange(9), Fraction(1, 10)),
        ShadowQuantile(np.arange(9), Fraction(1, 2), EACH, 3),
        ShadowQuantile(np.arange(9), Fraction(9, 10), CROSS),
    ],
    ids=["errors", "errors of estimates", "median", "quantile", "low quantile", "sizes", "sizes on a coarse lattice"],
)
def test_scores(scores: Scores) -> None:
    some = [TRIPS[i] for i in RANDOM.integers(0, len(TRIPS), 150)]
    changed = changes(scores, BASES, SINGLE[:9] + some)
    assert changed.max() == scores.sensitivity


def test_a_person_counts_with_at_most_m_trips() -> None:
    rng = np.random.default_rng(3)
    for m, kept in product((1, 2, 3), (0, 4)):
        others = [TRIPS[i] for i in rng.integers(0, len(TRIPS), kept)]
        most = 0
        for _ in range(60):
            own = [TRIPS[i] for i in rng.integers(0, len(TRIPS), rng.integers(1, 7))]
            keep = ContributionBound.of(Unit.person(m), rng).mask([f"p{i}" for i in range(kept)] + ["own"] * len(own))
            for statistic in (
                TripCount(),
                Endpoints(ROWS),
                Crossings(ROWS, 2),
                GroupShares(GROUPS),
                ShadowSums(EACH, 1),
                DistinctCounts(ALL[[8]]),
                QueryTotals(ALL[[8, 3]]),
            ):
                both = aggregates_of(others + own)
                assert keep[:kept].all()
                assert keep[kept:].sum() == min(m, len(own))
                change = np.abs(
                    Aggregates.of(both.engine.walks, keep).value(statistic) - aggregates_of(others).value(statistic)
                ).sum()
                assert change <= m * statistic.sensitivity
                most = max(most, change / statistic.sensitivity)
        assert most == m


def test_the_trips_kept_of_a_person_are_chosen_evenly() -> None:
    rng = np.random.default_rng(0)
    counts = sum(
        ContributionBound.of(Unit.person(1), rng).mask(["a", "b", "a", "a", "b"]).astype(int) for _ in range(600)
    )
    np.testing.assert_allclose(np.array(counts) / 600, [1 / 3, 1 / 2, 1 / 3, 1 / 3, 1 / 2], atol=0.08)


def test_bounds_are_checked() -> None:
    for cap in (0, MOST_CAP + 1):
        with pytest.raises(InputError, match="cap on a trip's crossings"):
            Crossings(ROWS, cap)
    for cap in (0, -1, MOST_CAP + 1):
        with pytest.raises(InputError, match="cap on a trip's shadow"):
            ShadowSums(EACH, cap)
    for weight in (0, 257):
        with pytest.raises(InputError, match="endpoint_weight"):
            ShadowSums(EACH, 2, weight)
        with pytest.raises(InputError, match="endpoint_weight"):
            ShadowQuantile(np.arange(3), Fraction(1, 2), EACH, weight)
    with pytest.raises(InputError, match="weight"):
        Crossings(ROWS, 2, np.array([1, 2]))
    for weights in (np.array([1.0, 2.0, np.nan]), np.array([-1, 1, 1]), np.array([CROSSING + 1, 1, 1])):
        with pytest.raises(InputError, match="weight"):
            Crossings(ROWS, 2, weights)
    for quantile in (Fraction(1), Fraction(0), Fraction(0.9)):
        with pytest.raises(InputError, match="between 0 and 1"):
            LengthQuantile(np.arange(3), quantile)
    for estimates in (np.zeros(2), np.full(len(ALL), np.nan), np.full(len(ALL), -(2.0**60))):
        with pytest.raises(InputError, match="finite numbers"):
            QueryErrors(ALL, estimates)
    for labels in (GROUPS - 1, GROUPS * 1.0, GROUPS.ravel(), np.full((3, 3), -1)):
        with pytest.raises(InputError, match="labels"):
            GroupShares(labels)
    with pytest.raises(InputError, match="shape"):
        DistinctCounts(ALL.reshape(1, -1))


def test_shares_by_group_are_sums_of_cell_shares() -> None:
    kept = aggregates_of([TRIPS[i] for i in RANDOM.integers(0, len(TRIPS), 50)])
    cells = kept.value(CellShares())
    sums = [cells[(group == GROUPS).ravel()].sum() for group in range(3)]
    np.testing.assert_array_equal(kept.value(GroupShares(GROUPS)), sums)


def test_rectangles_met_are_the_sum_of_counts_and_those_missed_the_rest() -> None:
    kept = aggregates_of([TRIPS[i] for i in RANDOM.integers(0, len(TRIPS), 50)])
    for rectangles in (ALL, ALL[[5, 5, 8]]):
        met = kept.value(DistinctCounts(rectangles)).sum()
        assert kept.value(QueryTotals(rectangles)).tolist() == [met, 50 * len(rectangles) - met]


def test_questions_must_fit_the_grid() -> None:
    for question, says in (
        (Endpoints(Partition.whole(2, 2)), "does not fit a grid"),
        (Crossings(Partition.whole(4, 4), 2), "does not fit a grid"),
        (GroupShares(np.zeros((3, 4), np.int64)), "do not fit a grid"),
        (ShadowSums(Lattice(np.array([0, 4]), np.array([0, 3])), 2), "does not fit a grid"),
        (ShadowQuantile(np.arange(3), Fraction(1, 2), Lattice(np.array([0, 3]), np.array([0, 2]))), "does not fit"),
        (DistinctCounts(np.array([[0, 0, 4, 4]])), "on this grid"),
        (QueryTotals(np.array([[0, 0, 4, 4]])), "on this grid"),
        (QueryErrors(np.array([[0, 0, 4, 4]]), np.zeros(1)), "on this grid"),
        (UniformityCosts(np.array([[0, 0, 3, 3]] * 2)), "overlap"),
        (UniformityCosts(np.array([[0, 0, 4, 3]])), "not all of|Not all of"),
    ):
        with pytest.raises(InputError, match=says):
            question.check(GRID)


def test_what_a_question_holds_can_not_be_changed() -> None:
    rectangles, weights = ALL.astype(np.int8), np.array([5, 5, 5])
    for held, given in (
        (DistinctCounts(rectangles).rectangles, rectangles),
        (QueryTotals(rectangles).rectangles, rectangles),
        (UniformityCosts(rectangles[:1]).rectangles, rectangles),
        (Crossings(ROWS, 2, weights).weights, weights),
        (ROWS.regions, None),
    ):
        assert held is not None
        assert held.dtype == np.int64
        assert not held.flags.writeable
        assert given is None or not np.shares_memory(held, given)
    assert UniformityCosts(np.array([[0, 0, 127, 127]], np.int8)).sensitivity > 2**30


def test_large_regions_and_small_masses() -> None:
    """Rounding the mean moves every cell's term by up to one; the mass left out of a trip pays for it."""
    from dqam.statistics.uniformity import region_costs

    side = 300
    region = np.array([[0, 0, side, side]])
    rng = np.random.default_rng(0)
    for _ in range(20):
        base = rng.integers(0, 3, (side, side))
        short = -int(base.sum()) % (side * side)  # what is missing to the next whole mean
        base[rng.integers(side), rng.integers(side)] += max(0, short - 1)
        more = base.copy()
        more[0, 0] += MASS
        change = abs(int(region_costs(more, region)[0] - region_costs(base, region)[0]))
        assert change <= UniformityCosts(region).sensitivity


def test_an_empty_data_set_has_all_statistics() -> None:
    shares = (CellShares(), GroupShares(GROUPS))
    costs = UniformityCosts(ROWS.regions)
    for statistic in (TripCount(), Endpoints(ROWS), Crossings(ROWS, 2), *shares, costs, QueryTotals(ALL)):
        assert not aggregates_of([]).value(statistic).any()
    assert MASS < 2**30


def test_noisy_answers_come_near_the_exact_ones_at_a_large_epsilon() -> None:
    base = [TRIPS[i] for i in RANDOM.integers(0, len(TRIPS), 200)]
    kept = aggregates_of(base)
    curator = Curator(kept.engine.walks, Budget(4000), SeededNoise(0), Unit.trip())
    some = random_rectangles(GRID, 5, RANDOM)
    for statistic in (TripCount(), Endpoints(ROWS), DistinctCounts(some), QueryTotals(some)):
        np.testing.assert_array_equal(curator.measure(statistic, curator.budget, 1000), kept.value(statistic))


def test_only_the_aggregate_itself_covers_another() -> None:
    """Not a subclass, which could add up something else."""

    class Louder(DistinctTrips):
        pass

    class Higher(CappedShadows):
        pass

    one, lattice, caps = np.array([[0, 0, 1, 1]]), Lattice.even(GRID, 2), np.array([1, 2])
    assert DistinctTrips(one).covered_by(DistinctTrips(one))
    assert not DistinctTrips(one).covered_by(Louder(one))
    assert CappedShadows(lattice, 1, caps[:1]).covered_by(CappedShadows(lattice, 1, caps))
    assert not CappedShadows(lattice, 1, caps[:1]).covered_by(Higher(lattice, 1, caps))
