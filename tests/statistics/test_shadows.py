"""Shadows against brute force over all rectangles, and a general solver."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqam.geometry.grid import Grid
from dqam.geometry.lattice import Lattice
from dqam.geometry.trips import Trips
from dqam.geometry.walks import Gap, walk
from dqam.privacy.aggregates import Aggregates
from dqam.runtime.simd import LANES
from dqam.statistics import ShadowSums
from dqam.statistics import shadows as module
from dqam.statistics.aggregate import Part
from dqam.statistics.shadows import (
    MOST_VISITS,
    RIDGE,
    SHADOW,
    Shadows,
    _count_lines,
    _expected_products,
    _solve,
    compute_shadows,
)

Piece = list[tuple[int, int]]  # rows and columns of cells
ROWS, COLUMNS = 6, 7
LATTICES = {
    "all lines": Lattice(np.arange(COLUMNS + 1), np.arange(ROWS + 1)),
    "even": Lattice(np.array([0, 2, 4, 7]), np.array([0, 2, 4, 6])),
    "uneven": Lattice(np.array([0, 1, 5, 6, 7]), np.array([0, 3, 4, 6])),
    "a line near the border": Lattice(np.array([0, 1, 7]), np.array([0, 5, 6])),
    "columns": Lattice(np.arange(COLUMNS + 1), np.array([0, ROWS])),
    "rows": Lattice(np.array([0, COLUMNS]), np.arange(ROWS + 1)),
    "one cell": Lattice(np.array([0, COLUMNS]), np.array([0, ROWS])),
}
SILENCE = 10**9  # microseconds, longer than the gap that cuts


def steps(start: tuple[int, int], directions: list[int], rows: int = ROWS, columns: int = COLUMNS) -> Piece:
    """A walk that stays where a step would leave the grid."""
    found = [start]
    for direction in directions:
        up, right = ((0, 1), (1, 0), (0, -1), (-1, 0))[direction]
        row, column = found[-1][0] + up, found[-1][1] + right
        if 0 <= row < rows and 0 <= column < columns:
            found.append((row, column))
    return found


any_walk = st.builds(
    steps,
    st.tuples(st.integers(0, ROWS - 1), st.integers(0, COLUMNS - 1)),
    st.lists(st.integers(0, 3), max_size=40),
)
any_lattice = st.sampled_from(list(LATTICES.values()))


def part_of(trips: list[list[Piece]], rows: int = ROWS, columns: int = COLUMNS) -> Part:
    """Trips of given pieces: points in the middles of cells, with a silence between pieces."""
    points = [(column + 0.5, row + 0.5) for trip in trips for piece in trip for row, column in piece]
    times = [i + p * SILENCE for trip in trips for p, piece in enumerate(trip) for i in range(len(piece))]
    x, y = np.array(points, float).reshape(-1, 2).T.copy()
    offsets = np.concatenate([[0], np.cumsum([sum(map(len, trip)) for trip in trips])]).astype(np.int64)
    grid = Grid((0.0, 0.0, float(columns), float(rows)), rows, columns)
    return Part(walk(Trips(x, y, offsets, np.array(times, np.int64)), grid, Gap(seconds=100)))


def shadow(piece: Piece, lattice: Lattice) -> tuple[np.ndarray, np.ndarray]:
    """Slots and values of one trip."""
    _, slots, values = shadows_of([piece], lattice)
    return slots, values


def shadows_of(pieces: list[Piece], lattice: Lattice) -> Shadows:
    """Of trips of one piece each."""
    kept = part_of([[piece] for piece in pieces], int(lattice.north[-1]), int(lattice.east[-1]))
    return compute_shadows(kept.walks, kept.longest, lattice)


def laid(piece: Piece, lattice: Lattice) -> Piece:
    """The lattice cells that it passes, back to where it was when it comes there again."""
    found: Piece = []
    for row, column in piece:
        at = (
            int(np.flatnonzero(lattice.north <= row)[-1]),
            int(np.flatnonzero(lattice.east <= column)[-1]),
        )
        found = [*found[: found.index(at)], at] if at in found else [*found, at]
    return found


def slots_of(path: Piece, lattice: Lattice) -> list[int]:
    """Where its visits and then its crossings are among the numbers of a lattice."""
    (rows, columns), cells = lattice.shape, lattice.cells
    vertical, horizontal = (
        cells + np.arange(rows * (columns - 1)).reshape(rows, columns - 1),
        cells + rows * (columns - 1) + np.arange((rows - 1) * columns).reshape(rows - 1, columns),
    )
    return [row * columns + column for row, column in path] + [
        int(vertical[a[0], min(a[1], b[1])]) if a[0] == b[0] else int(horizontal[min(a[0], b[0]), a[1]])
        for a, b in pairwise(path)
    ]


def itself(path: Piece) -> np.ndarray:
    """The numbers of the trip: half an endpoint at each end, and its crossings."""
    numbers = np.array([0.0] * len(path) + [1.0] * (len(path) - 1))
    numbers[0] += 0.5
    numbers[len(path) - 1] += 0.5
    return numbers


def moved(lines: np.ndarray) -> list[tuple[int, int]]:
    """All intervals of the grid with their ends on the closest lattice line (the lower of two), but for empty ones."""
    nearest = [int(np.abs(lines - line).argmin()) for line in range(lines[-1] + 1)]
    return [
        (nearest[low], nearest[high])
        for low, high in combinations(range(len(nearest)), 2)
        if nearest[low] < nearest[high]
    ]


def rectangles_of(lattice: Lattice) -> list[tuple[int, int, int, int]]:
    """All rectangles of the grid so moved, as lattice lines, as often as there are."""
    return [(west, south, east, north) for west, east in moved(lattice.east) for south, north in moved(lattice.north)]


def phi(path: Piece, rectangles: list[tuple[int, int, int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """What each number of a walk adds to the answer of each rectangle, and whether that meets the walk."""
    added, met = [], []
    for west, south, east, north in rectangles:
        within = [south <= row < north and west <= column < east for row, column in path]
        added.append([float(held) for held in within] + [0.5 * (a != b) for a, b in pairwise(within)])
        met.append(float(any(within)))
    return np.array(added), np.array(met)


def best(path: Piece, lattice: Lattice) -> np.ndarray:
    """The shadow by its definition: least squares over rectangles, with a ridge, and endpoints that add up to 1."""
    added, met = phi(path, rectangles_of(lattice))
    size, trip = len(path), itself(path)
    square = added.T @ added
    ridge = RIDGE * np.diag(square)
    ends = np.array([1.0] * size + [0.0] * (size - 1))
    system = np.block([[square + np.diag(ridge), ends[:, None]], [ends[None], np.zeros((1, 1))]])
    return np.linalg.solve(system, np.append(added.T @ met + ridge * trip, 1.0))[:-1]


def errors(piece: Piece, lattice: Lattice, rectangles: list[tuple[int, int, int, int]]) -> tuple[float, float]:
    """The mean squares by which a shadow, and its trip, are off 1 where the trip is met and 0 where not."""
    path = laid(piece, lattice)
    added, met = phi(path, rectangles)
    _, values = shadow(piece, lattice)
    return float(((added @ (values / SHADOW) - met) ** 2).mean()), float(((added @ itself(path) - met) ** 2).mean())


@given(any_walk, any_lattice)
@settings(max_examples=150, deadline=None)
def test_expected_products_are_those_of_all_rectangles(piece: Piece, lattice: Lattice) -> None:
    path = laid(piece, lattice)
    added, _ = phi(path, rectangles_of(lattice))
    columns = lattice.shape[1]
    west, south = (
        np.cumsum(np.bincount([int(np.abs(lines - line).argmin()) for line in range(lines[-1] + 1)]).astype(float))
        for lines in (lattice.east, lattice.north)
    )
    size = 2 * len(path) - 1
    held, square = np.full((4, size, LANES), np.nan), np.full((size, size, LANES), np.nan)
    for lane in range(LANES):
        walk = path if lane % 2 else path[::-1]  # each lane has a trip of its own
        _count_lines(np.array([y * columns + x for y, x in walk]), len(walk), columns, west, south, held[:, :, lane])
    _expected_products(len(path), held, square)
    backwards, _ = phi(path[::-1], rectangles_of(lattice))
    for lane in range(LANES):
        right = added if lane % 2 else backwards
        np.testing.assert_array_equal(np.tril(square[:, :, lane]), np.tril(right.T @ right))


@given(st.integers(0, 10**6), st.integers(1, 10))
@settings(max_examples=60, deadline=None)
def test_two_right_sides_are_solved_at_once_in_each_lane(seed: int, fours: int) -> None:
    rng, size = np.random.default_rng(seed), 4 * fours
    factor = rng.normal(size=(LANES, size, size + 3))
    square = factor @ factor.transpose(0, 2, 1) + 0.1 * np.eye(size)
    sides = rng.normal(size=(LANES, 2, size))
    system = np.concatenate([np.where(np.tri(size), square, np.nan), sides], axis=1)  # the upper half is not looked at
    system = np.ascontiguousarray(system.transpose(1, 2, 0))
    _solve(system)
    for lane in range(LANES):
        right = np.linalg.solve(square[lane], sides[lane].T).T
        np.testing.assert_allclose(system[size:, :, lane], right, rtol=1e-7, atol=1e-9)


def test_a_shadow_does_not_depend_on_those_that_are_cast_with_it() -> None:
    """Trips share lanes with whatever trips have as many visits, and a lane that is left is filled up."""
    lattice = Lattice(np.arange(13), np.arange(11))
    rng = np.random.default_rng(5)
    trips = [boustrophedon(10, 12)[start : start + size] for start, size in rng.integers(3, 30, (90, 2)).tolist()]
    alone = [shadow(piece, lattice) for piece in trips]
    for some in (trips, trips[::-1], trips[7:70:3]):
        offsets, slots, values = shadows_of(some, lattice)
        for k, piece in enumerate(some):
            mine = slice(offsets[k], offsets[k + 1])
            right = alone[trips.index(piece)]
            assert slots[mine].tolist() == right[0].tolist()
            assert values[mine].tolist() == right[1].tolist()


@given(any_walk, any_lattice)
@settings(max_examples=150, deadline=None)
def test_a_shadow_is_the_least_squares_solution(piece: Piece, lattice: Lattice) -> None:
    path = laid(piece, lattice)
    slots, values = shadow(piece, lattice)
    assert slots.tolist() == slots_of(path, lattice)
    np.testing.assert_allclose(values / SHADOW, best(path, lattice), rtol=0, atol=0.501 / SHADOW)


def test_a_long_shadow_is_the_least_squares_solution_too() -> None:
    """Of as many visits as are solved for, through every second street of 13 x 15 cells there and back."""
    lattice = Lattice(np.arange(16), np.arange(14))
    piece = boustrophedon(13, 15)[:MOST_VISITS]
    _, values = shadow(piece, lattice)
    np.testing.assert_allclose(values / SHADOW, best(piece, lattice), rtol=0, atol=0.501 / SHADOW)


@given(any_walk, any_lattice)
@settings(max_examples=150, deadline=None)
def test_no_shadow_answers_worse_than_its_trip(piece: Piece, lattice: Lattice) -> None:
    """The trip is one of the candidates and costs no ridge. Rounding may cost a little."""
    of_shadow, of_trip = errors(piece, lattice, rectangles_of(lattice))
    assert of_shadow <= of_trip + 1e-4


def boustrophedon(rows: int, columns: int, apart: int = 1) -> Piece:
    """Along a row, back along the one `apart` above it, and so on."""
    found: Piece = []
    for turn, row in enumerate(range(0, rows, apart)):
        across = [(row, column) for column in range(columns)]
        found += across[:: -1 if turn % 2 else 1]
        found += [(row + up, found[-1][1]) for up in range(1, apart) if row + apart < rows]
    return found


BACK = {
    "narrow U-turn": boustrophedon(2, 8),
    "wide U-turn": boustrophedon(8, 8, 7),
    "U-turn": boustrophedon(4, 8, 3),
    "U-turn across": [(column, row) for row, column in boustrophedon(4, 8, 3)],
    "zig-zag": boustrophedon(8, 8),
    "wide zig-zag": boustrophedon(8, 8, 2),
    "hook": [(3, column) for column in range(7)] + [(4, 6), (5, 6), (5, 5)],
}
EIGHT = {
    "all lines": Lattice(np.arange(9), np.arange(9)),
    "columns in pairs": Lattice(np.array([0, 2, 4, 6, 8]), np.arange(9)),
    "uneven": Lattice(np.array([0, 1, 2, 5, 6, 8]), np.array([0, 1, 3, 4, 5, 7, 8])),
}


@pytest.mark.parametrize("lattice", EIGHT.values(), ids=EIGHT.keys())
@pytest.mark.parametrize("piece", BACK.values(), ids=BACK.keys())
def test_trips_that_turn_back_are_answered_better_by_their_shadows(piece: Piece, lattice: Lattice) -> None:
    """Over rectangles of the grid, and of the lattice."""
    rows, columns = lattice.shape
    each_once = rectangles_of(Lattice(np.arange(columns + 1), np.arange(rows + 1)))
    for rectangles in (rectangles_of(lattice), each_once):
        of_shadow, of_trip = errors(piece, lattice, rectangles)
        assert of_trip > 0.005
        assert of_shadow < 0.9 * of_trip


def test_what_turns_back_weighs_less_and_has_parts_of_endpoints_on_its_way() -> None:
    lattice = EIGHT["all lines"]
    piece = BACK["narrow U-turn"]
    _, values = shadow(piece, lattice)
    assert np.abs(values[1 : len(piece) - 1]).max() > SHADOW / 20
    assert values[len(piece) :].min() < SHADOW * 0.8
    assert values[len(piece) :].sum() < SHADOW * (len(piece) - 1)


@given(st.integers(0, 10**6), any_lattice, st.sampled_from([(0, 1), (1, 2), (2, 3), (3, 0)]))
@settings(max_examples=80, deadline=None)
def test_a_staircase_is_its_own_shadow(seed: int, lattice: Lattice, directions: tuple[int, int]) -> None:
    """Every rectangle counts it once already."""
    rng = np.random.default_rng(seed)
    piece = steps((int(rng.integers(ROWS)), int(rng.integers(COLUMNS))), rng.choice(directions, 15).tolist())
    _, values = shadow(piece, lattice)
    np.testing.assert_array_equal(values, itself(laid(piece, lattice)) * SHADOW)


def test_walks_of_one_or_two_visits_are_their_own_shadow() -> None:
    lattice = LATTICES["even"]
    for piece, slots, values in (
        ([(0, 0)], [0], [SHADOW]),
        ([(0, 0), (0, 1), (1, 1), (1, 0)], [0], [SHADOW]),  # within a lattice cell
        ([(2, 3), (2, 4)], [4, 5, 9 + 3], [SHADOW // 2, SHADOW // 2, SHADOW]),
        ([(2, 4), (2, 3)], [5, 4, 9 + 3], [SHADOW // 2, SHADOW // 2, SHADOW]),
        ([(3, 0), (4, 0)], [3, 6, 9 + 6 + 3], [SHADOW // 2, SHADOW // 2, SHADOW]),
    ):
        found = shadow(piece, lattice)
        assert found[0].tolist() == slots
        assert found[1].tolist() == values


@pytest.mark.parametrize(
    ("piece", "without"),
    [
        ([(0, 0), (0, 1), (1, 1), (1, 0), (0, 0), (0, 1), (0, 2)], [(0, 0), (0, 1), (0, 2)]),
        ([(0, 0), (0, 1), (0, 2), (0, 1), (0, 0)], [(0, 0)]),
        ([(2, 2), (2, 3), (3, 3), (3, 2), (2, 2), (1, 2)], [(2, 2), (1, 2)]),
        ([(0, 0), (0, 1), (0, 2), (1, 2), (1, 1), (0, 1), (0, 2), (0, 3)], [(0, 0), (0, 1), (0, 2), (0, 3)]),
        ([(0, 0), (0, 1), (1, 1), (1, 0), (1, 1), (0, 1), (0, 2), (1, 2)], [(0, 0), (0, 1), (0, 2), (1, 2)]),
    ],
    ids=["round a block", "there and back", "at the start", "in the middle", "a loop in a loop"],
)
def test_loops_are_cut_out(piece: Piece, without: Piece) -> None:
    lattice = LATTICES["all lines"]
    for found, wanted in zip(shadow(piece, lattice), shadow(without, lattice), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_very_long_walks_are_their_own_shadow() -> None:
    lattice = Lattice(np.arange(16), np.arange(14))
    for visits in (MOST_VISITS + 1, 13 * 15):
        piece = boustrophedon(13, 15)[:visits]
        slots, values = shadow(piece, lattice)
        assert slots.tolist() == slots_of(piece, lattice)
        np.testing.assert_array_equal(values, itself(piece) * SHADOW)
    _, values = shadow(boustrophedon(13, 15)[:MOST_VISITS], lattice)
    assert (values != itself(boustrophedon(13, 15)[:MOST_VISITS]) * SHADOW).any()


def crowd(seed: int, trips: int) -> list[list[Piece]]:
    """Long and short walks, in one piece or some, and single points."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(trips):
        lengths = rng.choice([0, 0, 2, 10, 60], rng.integers(1, 4))
        starts = rng.integers(0, (ROWS, COLUMNS), (len(lengths), 2)).tolist()
        pieces = [
            steps((row, column), rng.integers(0, 4, length).tolist())
            for (row, column), length in zip(starts, lengths, strict=True)
        ]
        found.append(pieces)
    return found


def of_trip(shadows: Shadows, trip: int) -> tuple[list[int], list[int]]:
    start, stop = shadows.offsets[trip : trip + 2]
    return shadows.slots[start:stop].tolist(), shadows.values[start:stop].tolist()


@pytest.mark.parametrize("lattice", LATTICES.values(), ids=LATTICES.keys())
def test_a_shadow_depends_on_its_trip_alone(lattice: Lattice) -> None:
    trips = crowd(1, 60)
    alone = [of_trip(part_of([trip]).shadows(lattice), 0) for trip in trips]
    assert all(slots for slots, _ in alone)
    rng = np.random.default_rng(2)
    for _ in range(5):
        order = rng.permutation(60)[: rng.integers(1, 60)]
        found = part_of([trips[i] for i in order]).shadows(lattice)
        assert [of_trip(found, k) for k in range(len(order))] == [alone[i] for i in order]
    walks = part_of(trips).walks
    for share in (0.0, 0.3, 0.9):
        keep = rng.random(60) < share
        found = Part(walks, keep).shadows(lattice)
        assert [of_trip(found, k) for k in range(60)] == [alone[k] if keep[k] else ([], []) for k in range(60)]


def test_a_trip_of_pieces_has_the_shadow_of_its_longest() -> None:
    lattice = LATTICES["uneven"]
    long, other = boustrophedon(ROWS, COLUMNS, 2), boustrophedon(ROWS, COLUMNS, 2)[::-1]
    short = [(0, 0), (1, 0)]
    for pieces, longest in (([short, long, [(5, 5)]], long), ([long, other], long), ([other, short, long], other)):
        found = part_of([pieces])
        assert len(found.walks.pieces) == len(pieces) + 1
        assert of_trip(found.shadows(lattice), 0) == of_trip(part_of([[longest]]).shadows(lattice), 0)


def test_shadows_are_cast_once_for_a_lattice_and_anew_for_another() -> None:
    kept = part_of(crowd(7, 20))
    first = kept.shadows(LATTICES["even"])
    assert kept.shadows(Lattice(*(lines.copy() for lines in (LATTICES["even"].east, LATTICES["even"].north)))) is first
    other = kept.shadows(LATTICES["uneven"])
    for part, wanted in zip(other, compute_shadows(kept.walks, kept.longest, LATTICES["uneven"]), strict=True):
        np.testing.assert_array_equal(part, wanted)
    assert other.slots.tolist() != first.slots.tolist()


def test_trips_that_are_never_on_the_grid_have_no_shadow() -> None:
    grid = Grid((0.0, 0.0, 7.0, 6.0), ROWS, COLUMNS)
    x, y = np.array([[-3.0, -3.0], [-2.0, -1.0], [0.5, 0.5], [2.5, 0.5], [9.0, 9.0]]).T.copy()
    kept = Part(walk(Trips(x, y, np.array([0, 2, 4, 5])), grid))
    found = kept.shadows(LATTICES["all lines"])
    assert found.offsets.tolist() == [0, 0, 5, 5]
    nothing = part_of([]).shadows(LATTICES["all lines"])
    assert [len(part) for part in nothing] == [1, 0, 0]


@pytest.mark.parametrize("trips", [1, 2, 3, 200])
def test_shadows_are_the_same_on_any_number_of_threads(trips: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = part_of(crowd(3, trips))
    kept.longest[: trips // 10] = -1
    for lattice in LATTICES.values():
        monkeypatch.setattr(module, "SPAN", 1)
        monkeypatch.setenv("DQAM_THREADS", "1")
        one = compute_shadows(kept.walks, kept.longest, lattice)
        monkeypatch.setenv("DQAM_THREADS", "2")
        two = compute_shadows(kept.walks, kept.longest, lattice)
        with monkeypatch.context() as patch:  # more spans than there are processors here, or trips
            patch.setattr(module, "cores", lambda: 5)
            many = compute_shadows(kept.walks, kept.longest, lattice)
        for other in (two, many):
            for part, wanted in zip(other, one, strict=True):
                np.testing.assert_array_equal(part, wanted)


@pytest.mark.parametrize("lattice", LATTICES.values(), ids=LATTICES.keys())
def test_endpoints_of_a_shadow_add_up_to_one(lattice: Lattice) -> None:
    found = part_of(crowd(4, 300)).shadows(lattice)
    for trip in range(300):
        slots, values = (np.array(part) for part in of_trip(found, trip))
        visits = slots < lattice.cells
        assert len(slots) == 2 * visits.sum() - 1
        assert slots.max() < lattice.numbers
        assert abs(values[visits].sum() - SHADOW) <= visits.sum() / 2
        assert len(set(slots.tolist())) == len(slots)  # no cell and no line twice


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 9), (9, 1)])
def test_on_a_street_every_walk_becomes_a_straight_one(rows: int, columns: int) -> None:
    rng = np.random.default_rng(5)
    for lattice in (
        Lattice(np.arange(columns + 1), np.arange(rows + 1)),
        Lattice(np.array([0, columns]), np.array([0, rows])),
    ):
        for _ in range(20):
            piece = steps((rows // 2, columns // 2), rng.integers(0, 4, 30).tolist(), rows, columns)
            path = laid(piece, lattice)
            slots, values = shadow(piece, lattice)
            assert slots.tolist() == slots_of(path, lattice)
            np.testing.assert_array_equal(values, itself(path) * SHADOW)
            assert path[0] == laid(piece[:1], lattice)[0]
            assert path[-1] == laid(piece[-1:], lattice)[0]


@pytest.mark.parametrize("lattice", LATTICES.values(), ids=LATTICES.keys())
def test_sums_are_those_of_shadows_each_brought_down_to_the_cap(lattice: Lattice) -> None:
    """By the least whole number: whichever k numbers are the largest, k times it is what they are too much."""
    kept = part_of(crowd(6, 80))
    found = kept.shadows(lattice)
    for cap, weight in ((2**15, 1), (2**15, 3), (2, 3), (5, 1)):
        wanted = np.zeros(lattice.numbers, np.int64)
        for trip in range(80):
            slots, values = of_trip(found, trip)
            sizes = [abs(v) * (weight if s < lattice.cells else 1) for s, v in zip(slots, values, strict=True)]
            largest = np.cumsum(sorted(sizes, reverse=True)).tolist()
            less = max(0, *(-((cap * SHADOW - total) // k) for k, total in enumerate(largest, 1)))
            for slot, value, size in zip(slots, values, sizes, strict=True):
                part = max(0, size - less)
                wanted[slot] += part if value > 0 else -part
        np.testing.assert_array_equal(Aggregates.of(kept.walks).value(ShadowSums(lattice, cap, weight)), wanted)
