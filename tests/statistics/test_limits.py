"""Nothing leaves 64 bits, at the limits of every question and with as many trips as are allowed.

Values that 2^31 trips would give are made from those of one, and compared with Python's integers, which have no limit.
"""

import math
from fractions import Fraction
from functools import cached_property

import numpy as np
import pytest

from dqam.errors import InputError
from dqam.geometry.grid import MAX_SIDE, Grid
from dqam.geometry.lattice import Lattice
from dqam.geometry.regions import Partition
from dqam.geometry.trips import Trips
from dqam.geometry.walks import walk
from dqam.mechanisms.flux_fit import ENDPOINT_WEIGHT
from dqam.privacy.aggregates import Aggregates, InMemory
from dqam.privacy.noise import WIDEST, OpenDPNoise, SeededNoise, within_64_bits
from dqam.statistics import (
    CROSSING,
    MASS,
    MOST_TRIPS,
    SCORES,
    SHADOW,
    STATISTICS,
    CellShares,
    Crossings,
    DistinctCounts,
    Endpoints,
    GroupShares,
    LengthQuantile,
    PairCounts,
    PersonTrips,
    QueryErrors,
    QueryTotals,
    Question,
    ShadowQuantile,
    ShadowSums,
    Sliced,
    TripCount,
    UniformityCosts,
    WalkSums,
)
from dqam.statistics.aggregate import Aggregate
from dqam.statistics.buckets import L1Buckets, interval_costs, least_partition
from dqam.statistics.cell_shares import _add_shares
from dqam.statistics.crossings import _add_crossings
from dqam.statistics.limits import LARGEST_SUM as LARGEST
from dqam.statistics.limits import MOST_CAP, MOST_RECTANGLES
from dqam.statistics.privtree import PrivTree
from dqam.statistics.shadow_sums import _add_scaled_shadows, _add_shadows, _excesses
from dqam.statistics.shadows import LARGEST as LARGEST_NUMBER
from dqam.statistics.shadows import MOST_VISITS
from dqam.statistics.uniformity import region_costs
from dqam.values.guarantee import MOST_OF_A_PERSON, Unit

SIDE = 6
GRID = Grid((0.0, 0.0, float(SIDE), float(SIDE)), SIDE, SIDE)
WHOLE = Partition.whole(SIDE, SIDE)
LATTICE = Lattice(np.arange(SIDE + 1), np.arange(SIDE + 1))
EVERY = np.array([[0, 0, SIDE, SIDE]] * 5)


class Crowd(Aggregates):
    """As many trips as are allowed, all equal to the given one."""

    def total(self, aggregate: Aggregate) -> np.ndarray:
        return super().total(aggregate) * np.int64(MOST_TRIPS)

    @cached_property
    def one(self) -> Aggregates:
        """The same trip, once."""
        return Aggregates(self.engine)


def crowd(points: list[tuple[float, float]]) -> Crowd:
    x, y = np.array(points).T.copy()
    walks = walk(Trips(x, y, np.array([0, len(points)]), slices=np.array([1], np.int16)), GRID)
    return Crowd(InMemory(walks, slices=2, per_person=np.array([0, 1])))


SNAKE = crowd([(x, row + 0.5) for row in range(SIDE) for x in ((0.5, 5.5) if row % 2 == 0 else (5.5, 0.5))])
ZIGZAG = crowd([(0.5, 0.5), (1.5, 0.5)] * (MOST_CAP // 2) + [(0.5, 0.5)])  # as many crossings as any cap allows
STAYS = crowd([(2.5, 2.5)])

QUESTIONS: list[Question] = [
    TripCount(),
    Endpoints(WHOLE),
    *(Crossings(WHOLE, cap) for cap in (1, MOST_CAP)),
    Crossings(WHOLE, MOST_CAP, np.array([CROSSING - 1])),
    *(ShadowSums(LATTICE, cap, weight, norm) for cap in (1, MOST_CAP) for weight in (1, 2**8) for norm in (1, 2)),
    *(WalkSums(LATTICE, cap, weight, norm) for cap in (1, MOST_CAP) for weight in (1, 2**8) for norm in (1, 2)),
    CellShares(),
    GroupShares(np.zeros((SIDE, SIDE), np.int64)),
    DistinctCounts(EVERY),
    QueryTotals(EVERY),
    *(Sliced(each, 2) for each in (TripCount(), CellShares(), QueryTotals(EVERY))),
    Sliced(GroupShares(np.zeros((SIDE, SIDE), np.int64)), 2),
    *(PairCounts(LATTICE, each) for each in (LATTICE, Lattice.even(GRID, 1))),
    Sliced(PairCounts(LATTICE, LATTICE), 2),
    *(PersonTrips(m, (m + 1, 2 * MOST_OF_A_PERSON)) for m in (1, MOST_OF_A_PERSON)),
    *(LengthQuantile(np.array([0, 5, MOST_CAP]), Fraction(part, 10**6)) for part in (1, 10**6 - 1)),
    *(
        ShadowQuantile(np.array([0, MOST_CAP]), Fraction(part, 10**6), LATTICE, 2**8, norm=norm)
        for part in (1, 10**6 - 1)
        for norm in (1, 2)
    ),
]


@pytest.mark.parametrize("trips", [SNAKE, ZIGZAG, STAYS], ids=["snake", "zig-zag", "stays"])
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: type(question).__name__)
def test_the_sums_of_all_trips_there_may_be(question: Question, trips: Crowd) -> None:
    exact = [int(value) * MOST_TRIPS for value in trips.one.value(question)]
    assert max(map(abs, exact)) <= LARGEST
    found = trips.value(question)
    assert found.tolist() == exact
    assert within_64_bits(found, Fraction(1))[0].tolist() == exact  # nothing is cut


def test_every_question_is_tried_at_its_limits() -> None:
    assert {*map(type, QUESTIONS), UniformityCosts, QueryErrors} == STATISTICS | SCORES
    assert int(ZIGZAG.value(Crossings(WHOLE, MOST_CAP)).max()) == LARGEST  # the limit is reached


def test_the_caps_and_numbers_that_mechanisms_need_are_allowed() -> None:
    assert 6 * (ENDPOINT_WEIGHT**2 + MAX_SIDE / 2) < MOST_CAP
    full = Grid((0.0, 0.0, 1.0, 1.0), MAX_SIDE, MAX_SIDE)
    assert LengthQuantile.on(full, Fraction(1, 2)).candidates[-1] == MOST_CAP


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Crossings(WHOLE, MOST_CAP + 1), "crossings must be 1 to 32,768; got 32,769"),
        (lambda: ShadowSums(LATTICE, MOST_CAP + 1), "size must be 1 to 32,768; got 32,769"),
        (lambda: LengthQuantile(np.array([1, MOST_CAP + 1]), Fraction(1, 2)), "at most 32,768"),
        (lambda: ShadowQuantile(np.array([1, MOST_CAP + 1]), Fraction(1, 2), LATTICE), "at most 32,768"),
        (lambda: LengthQuantile(np.array([1]), Fraction(1, 10**6 + 1)), "b <= 10\\^6"),
        (lambda: ShadowSums(LATTICE, 1, 2**8 + 1), "endpoint_weight must be 1 to 256"),
        (lambda: Crossings(WHOLE, 1, np.array([CROSSING + 1])), "whole numbers from 0 to 65536"),
        (lambda: QueryTotals(np.broadcast_to(EVERY[:1], (MOST_RECTANGLES + 1, 4))), "At most 2,147,483,648 rectangles"),
        (lambda: QueryErrors(EVERY[:1], np.array([2.0**53 + 2])), "finite numbers"),
        (lambda: PrivTree(MOST_TRIPS + 1), "number of trips from -2147483648 to 2147483648"),
        (lambda: L1Buckets(np.arange(4), MOST_TRIPS + 1), "from 0 to 2147483648"),
        (lambda: Unit.person(MOST_OF_A_PERSON + 1), "1 to 1,048,576 for the unit 'person'"),
        (lambda: Unit("trip", 2), "exactly 1 for the unit 'trip'; got 2"),
    ],
)
def test_beyond_the_limits_nothing_can_be_asked(make, says: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=says):
        make()


def test_one_shadow_more_on_top_of_all_others() -> None:
    rng = np.random.default_rng(0)
    numbers = 2 * MOST_VISITS - 1
    for weight, cap in ((1, 1), (2**8, 1), (2**8, MOST_CAP), (1, MOST_CAP)):
        caps = np.array([cap * SHADOW])
        values = rng.choice([-LARGEST_NUMBER, LARGEST_NUMBER, 1, -1, LARGEST_NUMBER - 7], numbers).astype(np.int32)
        slots = rng.integers(0, 20, numbers).astype(np.int32)
        sums = rng.choice([-1, 1], (20, 1)) * (MOST_TRIPS - 1) * caps
        sizes = [abs(int(v)) * (weight if s < 10 else 1) for s, v in zip(slots, values, strict=True)]
        totals = np.cumsum(np.array(sorted(sizes, reverse=True), object))
        less = max(0, *(-((cap * SHADOW - total) // k) for k, total in enumerate(totals, 1)))
        wanted = [int(sum_) for sum_ in sums[:, 0]]
        for slot, value, size in zip(slots, values, sizes, strict=True):
            wanted[slot] += (1 if value > 0 else -1) * max(0, size - less)
        _add_shadows(np.array([0, numbers]), slots, values, 10, weight, caps // SHADOW, sums)
        assert sums[:, 0].tolist() == wanted
        assert max(map(abs, wanted)) <= LARGEST


def test_one_scaled_shadow_more_on_top_of_all_others() -> None:
    rng = np.random.default_rng(0)
    numbers = 2 * MOST_VISITS - 1
    for weight, cap in ((1, 1), (2**8, 1), (2**8, MOST_CAP), (1, MOST_CAP)):
        values = rng.choice([-LARGEST_NUMBER, LARGEST_NUMBER, 1, -1, LARGEST_NUMBER - 7], numbers).astype(np.int32)
        slots = np.arange(numbers, dtype=np.int32)
        most = math.isqrt(cap * SHADOW**2)
        sums = np.sign(values)[:, None].astype(np.int64) * (MOST_TRIPS - 1) * most
        before = [int(number) for number in sums[:, 0]]
        _add_scaled_shadows(np.array([0, numbers]), slots, values, 10, weight, np.array([cap]), sums)
        added = [int(now) - then for now, then in zip(sums[:, 0], before, strict=True)]
        assert 0 < sum(number**2 for number in added) <= cap * SHADOW**2
        assert max(abs(int(number)) for number in sums[:, 0]) <= MOST_TRIPS * most <= LARGEST


def test_the_longest_walk_there_can_be_brought_down_to_any_cap() -> None:
    """On 2^24 cells it is its own shadow: two endpoints, and one crossing fewer than there are cells."""
    falling = np.array([2**7 * SHADOW] * 2 + [SHADOW] * (MAX_SIDE**2 - 1))
    caps, less = np.array([1, SHADOW, MOST_CAP * SHADOW]), np.zeros(3, np.int64)
    _excesses(falling, caps, less)
    for cap, t in zip(caps, less, strict=True):
        assert np.maximum(falling - t, 0).sum() <= cap < np.maximum(falling - (t - 1), 0).sum()


def test_one_trip_more_on_top_of_all_others() -> None:
    cells = np.tile(np.array([0, 1], np.int32), 50_000)
    pieces, longest = np.array([0, len(cells)]), np.array([0])
    for cap in (1, MOST_CAP):
        for weight in (1, 3, CROSSING):
            flux = np.array([(MOST_TRIPS - 1) * cap * CROSSING, 0])
            total = weight * (len(cells) - 1)
            each = weight if total <= cap * CROSSING else weight * cap * CROSSING // total
            wanted = int(flux[0]) + each * (len(cells) - 1)
            _add_crossings(
                cells, pieces, longest, SIDE, np.zeros(SIDE * SIDE, np.int64), np.array([weight]), cap * CROSSING, flux
            )
            assert flux.tolist() == [wanted, 0]
            assert wanted <= LARGEST
    mass = np.array([(MOST_TRIPS - 1) * MASS])
    _add_shares(np.zeros(1, np.int32), np.array([0, 1]), longest, mass)
    assert mass.tolist() == [MOST_TRIPS * MASS]


def spread(rng: np.random.Generator, cells: int) -> list[np.ndarray]:
    """The mass of as many trips as are allowed: in one cell, even, and at random."""
    whole = MOST_TRIPS * MASS
    single, even = np.zeros(cells, np.int64), np.full(cells, whole // cells)
    single[cells // 2] = whole
    cuts = np.sort(rng.integers(0, whole, cells - 1))
    return [single, even, np.diff(np.concatenate([[0], cuts, [whole]]))]


def test_costs_of_all_the_mass_there_may_be() -> None:
    region = np.array([[0, 0, SIDE, SIDE]])
    for shares in spread(np.random.default_rng(1), SIDE * SIDE):
        mean = sum(map(int, shares)) // len(shares)
        wanted = sum(abs(int(share) - mean) for share in shares)
        assert region_costs(shares.reshape(SIDE, SIDE), region).tolist() == [wanted]
        assert wanted < LARGEST
        for length in (2, 4, 32):
            costs = []
            for start in range(len(shares) - length + 1):
                some = [int(share) for share in shares[start : start + length]]
                costs.append(sum(abs(share - sum(some) // length) for share in some))
            assert interval_costs(shares, length).tolist() == costs
            assert max(costs) < LARGEST


def test_the_cheapest_partition_of_costs_as_large_as_noise_makes_them() -> None:
    rng = np.random.default_rng(2)
    for penalty in (0, MOST_TRIPS * MASS):
        costs = rng.choice([2**63 - 1, -(2**63), 2**62, -(2**62), 0, 1], (4, 12))
        best: list[tuple[int, list[int]]] = [(0, [0])]
        for end in range(1, 13):
            rivals = [
                (best[end - 2**k][0] + int(costs[k, end - 2**k]) + penalty, -k, [*best[end - 2**k][1], end])
                for k in range(4)
                if 2**k <= end
            ]
            least = min(rivals)
            best.append((least[0], least[2]))
        assert least_partition(costs, penalty).tolist() == best[-1][1]


@pytest.mark.parametrize("threshold", [-MOST_TRIPS, 0, MOST_TRIPS])
@pytest.mark.parametrize("max_trips", [1, MOST_OF_A_PERSON])
def test_privtree_with_the_widest_noise(threshold: int, max_trips: int) -> None:
    side = 64
    epsilon = Fraction(7 * MASS * max_trips, 3 * WIDEST)
    assert PrivTree.scale(epsilon, max_trips) == WIDEST
    decay = PrivTree.decay(epsilon, max_trips)
    assert 12 * decay < 2**60
    asked: list[int] = []

    class Told(SeededNoise):
        def laplace(self, values: np.ndarray, scale: Fraction) -> np.ndarray:
            asked.extend(map(int, values))
            return np.full(len(values), 2**63 - 1)  # split every node

    massive = spread(np.random.default_rng(3), side * side)[0].reshape(side, side)
    PrivTree(threshold).grow((massive,), Told(0), epsilon, max_trips)
    low = threshold * MASS - decay
    empty, full = ({max(mass - depth * decay, low) for depth in range(6)} for mass in (0, MOST_TRIPS * MASS))
    assert len(asked) == sum(4**depth for depth in range(6))
    assert set(asked) <= empty | full
    assert max(asked) == max(full)
    assert min(asked) == min(empty)
    assert max(map(abs, asked)) < LARGEST


def test_opendp_cuts_what_it_adds_and_does_not_wrap_around() -> None:
    """At the largest value and the widest noise, the end is 128 scales away: the chance to pass it is exp(-128)."""
    for value in (LARGEST, -LARGEST):
        drawn = OpenDPNoise().laplace(np.full(200, value), Fraction(WIDEST))
        assert (np.sign(drawn) == np.sign(value)).all()
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    at_the_end = np.array(dp.m.make_laplace(*space, scale=float(2**40))(np.full(64, 2**63 - 1)))
    assert (at_the_end > 2**62).all()
    assert (at_the_end == 2**63 - 1).any()  # all are below it with a chance of 2^-64
