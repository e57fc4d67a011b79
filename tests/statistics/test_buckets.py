"""Buckets: costs and the cheapest partition against oracles, and the shift of noise that the proof of privacy needs."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqam.errors import InputError
from dqam.geometry.grid import Grid
from dqam.geometry.hilbert import hilbert_order
from dqam.geometry.trips import Trips
from dqam.geometry.walks import walk
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.statistics import MASS, CellShares
from dqam.statistics.buckets import MOST_CELLS, L1Buckets, interval_costs, least_partition
from dqam.values.guarantee import Unit
from tests.statistics.cases import BASES, GRID, LONG, SINGLE, TRIPS, aggregates_of

Interval = tuple[int, int]
WHOLE = 8  # all lengths below divide it


def partitions(n: int) -> list[list[Interval]]:
    """All partitions of n cells into intervals of 2^k cells, those with a longer last interval first."""
    if n == 0:
        return [[]]
    lengths = [2**k for k in reversed(range(n.bit_length())) if 2**k <= n]
    return [[*head, (n - length, n)] for length in lengths for head in partitions(n - length)]


def naive_cost(values: list[int], begin: int, end: int) -> int:
    part = values[begin:end]
    return sum(abs(value - sum(part) // len(part)) for value in part)


def line(counts: np.ndarray) -> Aggregates:
    """Trips of one visit on a grid of one row."""
    cells = np.repeat(np.arange(len(counts)), counts)
    trips = Trips((cells + 0.5) / len(counts), np.full(len(cells), 0.5), np.arange(len(cells) + 1))
    return Aggregates.of(walk(trips, Grid((0.0, 0.0, 1.0, 1.0), 1, len(counts))))


@given(st.lists(st.integers(0, 20) | st.integers(0, 2**55), min_size=1, max_size=40))
@settings(max_examples=100, deadline=None)
def test_costs_from_every_start(values: list[int]) -> None:
    for k in range(len(values).bit_length()):
        found = interval_costs(np.array(values, np.int64), 2**k).tolist()
        assert found == [naive_cost(values, i, i + 2**k) for i in range(len(values) - 2**k + 1)]


def test_costs_of_the_largest_masses() -> None:
    values = [0, 2**61 - 5, 0, 3]  # 2^31 trips in one cell
    assert interval_costs(np.array(values), 4).tolist() == [naive_cost(values, 0, 4)]


@given(st.integers(1, 12), st.integers(0, 10**6), st.sampled_from([3, 2**40, 2**62]))
@settings(max_examples=60, deadline=None)
def test_the_cheapest_of_all_partitions(n: int, seed: int, size: int) -> None:
    """Also where sums leave 64 bits, and by the public rule where costs are equal."""
    rng = np.random.default_rng(seed)
    costs = rng.integers(-size, size, (n.bit_length(), n))
    penalty = int(rng.integers(0, size))

    def price(partition: list[Interval]) -> int:
        return sum(int(costs[(end - begin).bit_length() - 1, begin]) + penalty for begin, end in partition)

    best = min(partitions(n), key=price)  # the first of equals
    assert least_partition(costs, penalty).tolist() == [0, *(end for _, end in best)]


@pytest.mark.parametrize("seed", range(5))
def test_pieces_are_found_where_there_is_no_noise_to_speak_of(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.permutation([1, 2, 4, 4, 8, 16, 32])
    heights = rng.permutation([0, 3, 6, 9, 12, 15, 18])
    kept = line(np.repeat(heights, lengths))
    curator = Curator(kept, Budget(10_000), SeededNoise(seed))
    found = curator.partition(L1Buckets(np.arange(lengths.sum()), 0.4), curator.budget)
    assert found.tolist() == [0, *np.cumsum(lengths)]
    assert curator.paid[0].scale == Fraction(4 * 2**30, 10_000)


def test_pieces_of_other_lengths_are_put_together_from_few() -> None:
    kept = line(np.repeat([2, 9, 4], [12, 24, 7]))
    curator = Curator(kept, Budget(10_000), SeededNoise(0))
    found = curator.partition(L1Buckets(np.arange(43), 0.4), curator.budget)
    assert {0, 12, 36, 43} <= set(found.tolist())
    assert len(found) - 1 == 2 + 2 + 3


def test_a_large_penalty_or_no_data_leaves_one_bucket() -> None:
    for counts, penalty in ((np.arange(64), 10**6), (np.zeros(64, int), 200)):
        curator = Curator(line(counts), Budget(1), SeededNoise(0))
        assert curator.partition(L1Buckets(np.arange(64), penalty), curator.budget).tolist() == [0, 64]


class Shift:
    """The shift of noise of the proof, held against all pairs of partitions of n cells."""

    def __init__(self, n: int) -> None:
        self.intervals = [(i, i + 2**k) for k in range(n.bit_length()) for i in range(n - 2**k + 1)]
        self.lengths = np.array([end - begin for begin, end in self.intervals])
        place = {interval: i for i, interval in enumerate(self.intervals)}
        chosen = [[place[interval] for interval in partition] for partition in partitions(n)]
        self.member = np.zeros((len(chosen), len(self.intervals)), np.int64)
        for row, columns in enumerate(chosen):
            self.member[row, columns] = 1

    def costs(self, values: np.ndarray) -> np.ndarray:
        return np.concatenate([interval_costs(values, 2**k) for k in range(len(values).bit_length())])

    def masses(self, values: np.ndarray) -> np.ndarray:
        sums = np.concatenate([[0], np.cumsum(values)])
        return np.array([sums[end] - sums[begin] for begin, end in self.intervals])

    def shifts(self, more: np.ndarray) -> np.ndarray:
        """floor(s(b)), in units of 1/WHOLE: noise is of whole numbers, and so are its shifts."""
        p = self.lengths
        exact = (4 * p - 2) * (WHOLE // p) * self.masses(more) + WHOLE * (p + np.maximum(0, p - 2))
        return exact // WHOLE * WHOLE

    def excess(self, changed: np.ndarray, shifts: np.ndarray) -> int:
        """By how much a rival can gain on a partition whose noise is shifted; 0 or less if it stays chosen.

        changed  int64[data sets, intervals]: what the costs rise by
        """
        changed = WHOLE * np.atleast_2d(changed)
        own, rival = (changed - shifts) @ self.member.T, changed @ self.member.T
        common = (self.member * shifts) @ self.member.T
        return int((own[:, :, None] - rival[:, None, :] + common).max())

    def loss(self, more: np.ndarray, trips: int = 1) -> Fraction:
        """The largest exponent over all partitions, for eps = 1."""
        p, mass = self.lengths, self.masses(more)
        parts = [
            (Fraction(4 * n - 2, n) * w + n + max(0, n - 2)) / L1Buckets.scale(Fraction(1), trips, n)
            for n, w in zip(p.tolist(), mass.tolist(), strict=True)
        ]
        return max(sum(part for part, used in zip(parts, row, strict=True) if used) for row in self.member.tolist())


def test_the_shift_of_noise_is_enough_for_walks_of_all_kinds() -> None:
    """On a 3 x 3 grid, for trips added to and removed from several data sets, and all pairs of partitions."""
    shift, order = Shift(9), hilbert_order(3, 3)
    assert len(shift.member) == 98
    rng = np.random.default_rng(0)
    most = Fraction(0)
    bases = [aggregates_of(base).value(CellShares())[order] for base in BASES]
    bases += [rng.integers(0, 3 * MASS, 9) * (rng.random(9) < 0.5) for _ in range(10)]
    before = np.array([shift.costs(base) for base in bases])
    scant = 0
    for trip in [*SINGLE[:9], *(TRIPS[i] for i in rng.integers(0, len(TRIPS), 300)), *LONG]:
        more = aggregates_of([trip]).value(CellShares())[order]
        changed = np.array([shift.costs(base + more) for base in bases]) - before
        shifts = shift.shifts(more)
        assert shift.excess(changed, shifts) <= 0
        assert shift.excess(-changed, shifts) <= 0
        scant += shift.excess(changed, shifts // 2) > 0
        most = max(most, shift.loss(more))
    assert Fraction(98, 100) < most <= 1
    assert scant > 5  # half the noise would not do


def test_the_shift_of_noise_is_enough_for_small_masses_where_rounding_matters_most() -> None:
    shift = Shift(5)
    costs = {values: shift.costs(np.array(values)) for values in product(range(5), repeat=5)}
    bases = list(product(range(3), repeat=5))
    before = np.array([costs[base] for base in bases])
    tight = False
    for more in product(range(3), repeat=5):
        changed = np.array([costs[tuple(np.add(base, more).tolist())] for base in bases]) - before
        shifts = shift.shifts(np.array(more))
        assert shift.excess(changed, shifts) <= 0
        assert shift.excess(-changed, shifts) <= 0
        p = shift.lengths
        tight |= shift.excess(changed, shifts - WHOLE * (p + np.maximum(0, p - 2))) > 0
    assert tight  # the mass alone would not do


def test_rounding_is_paid_for_on_the_largest_grid() -> None:
    """The exponent of the proof for one bucket of all cells, and for single cells, and units of many trips."""
    for trips, length in product((1, 7), (1, 2, 2**10, MOST_CELLS)):
        whole = Fraction(4 * length - 2, length) * trips * MASS + MOST_CELLS // length * (length + max(0, length - 2))
        assert whole / L1Buckets.scale(Fraction(1), trips, length) <= 1
    assert max(L1Buckets.scale(Fraction(1), 3, 2**k) for k in range(23)) < L1Buckets.scale(Fraction(1), 3)


class Still(SeededNoise):
    """No noise, and a note of the scales that were asked for."""

    def __init__(self) -> None:
        super().__init__(0)
        self.asked: list[tuple[int, Fraction]] = []

    def laplace(self, values: np.ndarray, scale: Fraction) -> np.ndarray:
        """The values as they are."""
        self.asked.append((len(values), scale))
        return values


def test_every_interval_gets_noise_of_its_scale() -> None:
    noise = Still()
    curator = Curator(aggregates_of(BASES[-1]), Budget(2), noise, Unit.person(3), [0] * len(BASES[-1]))
    curator.partition(L1Buckets(hilbert_order(3, 3), 1.0), curator.budget, "0.5")
    scale = Fraction(2**30 * 3) * 2
    assert noise.asked == [(9, 2 * scale), (8, 3 * scale), (6, Fraction(7, 2) * scale), (2, Fraction(15, 4) * scale)]
    (entry,) = curator.paid
    assert (entry.kind, entry.sensitivity, entry.epsilon) == ("partition", 3 * MASS, Fraction(1, 2))
    assert entry.scale == 4 * scale


def test_what_can_not_be_asked() -> None:
    with pytest.raises(InputError, match="each of them once"):
        L1Buckets(np.array([0, 1, 1]), 1.0)
    with pytest.raises(InputError, match="cells in a row"):
        L1Buckets(np.zeros((2, 2), np.int64), 1.0)
    for penalty in (-1.0, np.nan, np.inf):
        with pytest.raises(InputError, match="penalty"):
            L1Buckets(np.arange(9), penalty)
    with pytest.raises(InputError, match="does not fit"):
        L1Buckets(np.arange(8), 1.0).check(GRID)
    order = np.arange(9)
    held = L1Buckets(order, 1.0).order
    assert not held.flags.writeable
    assert not np.shares_memory(held, order)

    class Mine(L1Buckets):
        pass

    curator = Curator(aggregates_of(BASES[-1]), Budget(1), SeededNoise(0))
    with pytest.raises(InputError, match="not a question with a proof"):
        curator.partition(Mine(order, 1.0), curator.budget)
    with pytest.raises(InputError, match="not a question with a proof"):
        curator.partition(CellShares(), curator.budget)  # type: ignore[call-overload]
    assert not curator.paid
