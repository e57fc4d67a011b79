"""Shadows added up, and the cap on their size."""

from copy import copy
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dqam.errors import InputError
from dqam.geometry.grid import Grid
from dqam.geometry.lattice import Lattice
from dqam.geometry.trips import Trips
from dqam.geometry.walks import walk
from dqam.privacy.aggregates import Aggregates, InMemory
from dqam.statistics import SHADOW, ShadowQuantile, ShadowSums, Statistic, TripCount, WalkSums
from dqam.statistics.aggregate import Part
from dqam.statistics.limits import MOST_CAP
from dqam.statistics.shadow_sums import CappedShadows, ShadowSizes, _add_scaled_shadows
from dqam.statistics.shadows import LARGEST, MOST_VISITS
from tests.statistics.cases import CROSS, EACH, SHAPES, assert_adds_up, assert_scores, laid, spelled, square_sum


@pytest.mark.parametrize(
    ("statistic", "reached", "reached_l2"),
    [
        (ShadowSums(CROSS, 1), 1 - 1e-4, 1),
        (ShadowSums(CROSS, 3, 2), 1 - 1e-4, 2 / 3),  # of a trip within one cell, whose endpoints count 2
        (ShadowSums(EACH, 2, 3), 1 - 1e-4, 1 - 1e-4),
        (ShadowSums(EACH, 40, 3), 0.15, 3 / 40),
        (ShadowSums(CROSS, 1, norm=2), 0.4, 1 - 1e-4),
        (ShadowSums(CROSS, 3, 2, norm=2), 0.4, 1 - 1e-4),
        (ShadowSums(EACH, 2, 3, norm=2), 0.3, 1 - 1e-4),
        (ShadowSums(EACH, 7, 256, norm=2), 0.2, 1 - 1e-4),
        (ShadowSums(EACH, 9, 3, norm=2), 0.2, 1),
        (ShadowSums(EACH, 40, 3, norm=2), 0.1, (8.99 / 40) ** 0.5),
    ],
    ids=spelled,
)
def test_a_trip_adds_no_more_than_the_cap(statistic: ShadowSums, reached: float, reached_l2: float) -> None:
    assert_adds_up(statistic, reached, reached_l2)


@pytest.mark.parametrize(
    "scores",
    [
        ShadowQuantile(np.arange(9), Fraction(1, 2), EACH, 3),
        ShadowQuantile(np.arange(9), Fraction(9, 10), CROSS),
        ShadowQuantile(np.arange(5, 14), Fraction(19, 20), EACH, 3, norm=2),
    ],
    ids=["median", "coarse", "squares"],
)
def test_scores_of_caps(scores: ShadowQuantile) -> None:
    assert_scores(scores)


def test_bounds_are_checked() -> None:
    for cap in (0, -1, MOST_CAP + 1):
        with pytest.raises(InputError, match="cap on a trip's size"):
            ShadowSums(EACH, cap)
    for weight in (0, 257):
        with pytest.raises(InputError, match="endpoint_weight"):
            ShadowSums(EACH, 2, weight)
        with pytest.raises(InputError, match="endpoint_weight"):
            ShadowQuantile(np.arange(3), Fraction(1, 2), EACH, weight)
    for norm in (0, -1, 3):
        with pytest.raises(InputError, match="norm must be 1 to 2"):
            ShadowSums(EACH, 2, norm=norm)
        with pytest.raises(InputError, match="norm must be 1 to 2"):
            ShadowQuantile(np.arange(3), Fraction(1, 2), EACH, norm=norm)
    with pytest.raises(TypeError):
        ShadowSums(EACH, 2, norm=1.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("caps", [(8, 1), [1, 8, 8], np.array([8, 1], np.int32)], ids=["unsorted", "list", "int32"])
def test_walks_that_engines_add_up_ahead_are_those_of_each_cap(caps: Any, norm: int) -> None:
    """Caps that a caller changes later, gives in another order or as another type do not lead to another row."""
    caps, grid = copy(caps), Grid((0.0, 0.0, 3.0, 3.0), 3, 3)
    walks = walk(Trips.from_lists([[(0.5, 0.5), (2.5, 0.5), (2.5, 2.5), (0.5, 2.5)]], grid.crs), grid)
    ahead = Aggregates(InMemory(walks), TripCount().aggregates)
    scores = ShadowQuantile(np.arange(9), Fraction(1, 2), CROSS, 3, ((EACH, caps),), norm)
    scores.check(grid)
    ahead.value(scores)
    scans = ahead.scans
    if isinstance(caps, list | np.ndarray):
        caps[0] = 5
    sums: list[Statistic] = [WalkSums(EACH, cap, 3, norm) for cap in (1, 8)]
    for asked in (*sums, *(ShadowSums(CROSS, cap, 3, norm) for cap in (1, 8))):
        np.testing.assert_array_equal(ahead.value(asked), Aggregates.of(walks).value(asked))
    assert ahead.scans == scans
    other = WalkSums(EACH, 8, 3, 3 - norm)  # in the other norm it is something else
    np.testing.assert_array_equal(ahead.value(other), Aggregates.of(walks).value(other))
    assert ahead.scans == scans + 1


def test_finer_lattices_are_checked() -> None:
    for finer, says in (
        (((EACH, (0,)),), "cap on a trip's size"),
        (((EACH, (MOST_CAP + 1,)),), "cap on a trip's size"),
    ):
        with pytest.raises(InputError, match=says):
            ShadowQuantile(np.arange(3), Fraction(1, 2), EACH, 3, finer)
    other = Lattice(np.array([0, 4]), np.array([0, 4]))
    with pytest.raises(InputError, match="does not fit"):
        ShadowQuantile(np.arange(3), Fraction(1, 2), EACH, 3, ((other, (1,)),)).check(Grid((0.0, 0.0, 3.0, 3.0), 3, 3))


def test_sums_in_different_norms_do_not_stand_for_each_other() -> None:
    caps = np.array([1, 4])
    for norm, other in ((1, 2), (2, 1)):
        asked = CappedShadows(EACH, 3, caps[:1], norm)
        assert asked.covered_by(CappedShadows(EACH, 3, caps, norm))
        assert not asked.covered_by(CappedShadows(EACH, 3, caps, other))
        sizes = ShadowSizes(EACH, 3, caps, norm)
        assert sizes.covered_by(ShadowSizes(EACH, 3, caps, norm))
        assert not sizes.covered_by(ShadowSizes(EACH, 3, caps, other))
        shadows, walks = ShadowSizes(EACH, 3, caps, norm, ((CROSS, (7,)),)).companions()
        assert shadows.norm == walks.norm == norm  # type: ignore[attr-defined]


CAPS = np.array([1, 2, 37, 1000, MOST_CAP])


@pytest.mark.parametrize("weight", [1, 3, 2**8])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_squares_of_any_trip_add_up_to_at_most_the_cap(shape: str, weight: int) -> None:
    """On 64 x 64 cells, in exact integers; and to no less than rounding down explains."""
    walks, lattice = laid(SHAPES[shape])
    part = Part(walks)
    _, slots, values = part.shadows(lattice)
    assert len(slots) == len(set(slots.tolist()))
    numbers = [abs(int(v)) * (weight if s < lattice.cells else 1) for s, v in zip(slots, values, strict=True)]
    size = sum(number**2 for number in numbers)
    for cap, row in zip(CAPS, CappedShadows(lattice, weight, CAPS, 2).add_up(part), strict=True):
        most = int(cap) * SHADOW**2
        found = square_sum(row)
        assert found <= most
        if size <= most:
            assert [abs(int(row[slot])) for slot in slots] == numbers
        else:
            assert found**0.5 >= most**0.5 * (1 - 1e-9) - len(numbers) ** 0.5
        assert (row[slots] * values >= 0).all()  # signs are kept
        alone = CappedShadows(lattice, weight, np.array([cap]), 2).add_up(part)[0]
        np.testing.assert_array_equal(alone, row)
    counts = ShadowSizes(lattice, weight, CAPS, 2).add_up(part)
    assert counts.tolist() == [*(int(-(-size // SHADOW**2) <= cap) for cap in CAPS), 1]


def test_long_and_short_trips_are_among_these() -> None:
    visits = {shape: len(points) for shape, points in SHAPES.items()}
    assert visits["one cell"] == 1
    assert visits["snake"] == 64 * 64
    numbers = {shape: len(Part(laid(points)[0]).shadows(laid(points)[1]).slots) for shape, points in SHAPES.items()}
    assert numbers["one cell"] == 1
    assert 2 * MOST_VISITS - 1 in numbers.values()  # the longest that is solved for
    assert 2 * MOST_VISITS + 1 in numbers.values()  # and the shortest that is its own shadow
    assert max(numbers.values()) == 2 * 64 * 64 - 1


def scaled(values: np.ndarray, cells: int, weight: int, caps: np.ndarray) -> np.ndarray:
    sums = np.zeros((len(values), len(caps)), np.int64)
    slots = np.arange(len(values), dtype=np.int32)
    _add_scaled_shadows(np.array([0, len(values)]), slots, values.astype(np.int32), cells, weight, caps, sums)
    return sums.T


@pytest.mark.parametrize("weight", [1, 2, 255, 256])
def test_numbers_of_any_size_are_scaled_without_overflow(weight: int) -> None:
    rng = np.random.default_rng(weight)
    vectors = [
        np.full(255, LARGEST),
        np.full(255, -LARGEST),
        np.array([LARGEST]),
        np.array([1]),
        np.zeros(7),
        np.array([SHADOW, 0, 0]),
        2 ** np.arange(23),
        *(np.array([number]) for number in rng.integers(1, LARGEST, 30)),
        *(np.full(k, SHADOW) for k in (1, 2, 3, 4, 9, 16, 25, 200)),
        *(rng.integers(-LARGEST, LARGEST + 1, 255) for _ in range(30)),
        *(rng.integers(-SHADOW, SHADOW + 1, rng.integers(1, 255)) for _ in range(30)),
    ]
    caps = np.array([1, 2, 4, 9, 10_000, MOST_CAP])
    for values in vectors:
        cells = int(rng.integers(0, len(values) + 1))
        exact = [int(value) * (weight if i < cells else 1) for i, value in enumerate(values)]
        size = sum(number**2 for number in exact)
        for cap, row in zip(caps, scaled(values, cells, weight, caps), strict=True):
            most = int(cap) * SHADOW**2
            assert square_sum(row) <= most
            if size <= most:
                assert row.tolist() == exact
            else:
                assert square_sum(row) ** 0.5 >= most**0.5 * (1 - 1e-9) - len(values) ** 0.5


def test_the_longest_walks_are_scaled_in_one_pass_or_two() -> None:
    """Four million crossings and two endpoints: no overflow, and no loop that lowers the factor for ever."""
    values = np.full(2**22, SHADOW)
    caps = np.array([1, MOST_CAP])
    for cap, row in zip(caps, scaled(values, 2, 2**7, caps), strict=True):
        assert len(np.unique(row[2:])) == 1
        assert row[0] == row[1] >= 2**7 * row[2]
        found = 2 * int(row[0]) ** 2 + (len(values) - 2) * int(row[2]) ** 2
        assert found <= int(cap) * SHADOW**2
        assert found >= 0.9 * int(cap) * SHADOW**2


def test_what_a_trip_adds_in_l2_depends_on_no_other_trip() -> None:
    """The sum of many trips is the sum of each, also where each has another factor."""
    rng = np.random.default_rng(3)
    shapes = [SHAPES[name] for name in SHAPES if name != "snake"]
    each = [shapes[i] for i in rng.integers(0, len(shapes), 12)]
    walks, lattice = laid(*each)
    asked = CappedShadows(lattice, 3, CAPS, 2)
    apart = sum(asked.add_up(Part(laid(points)[0])) for points in each)
    np.testing.assert_array_equal(asked.add_up(Part(walks)), apart)
