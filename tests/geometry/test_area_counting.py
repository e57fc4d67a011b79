from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import shapely

import dqam.geometry.area_counting
from dqam import cities
from dqam.errors import InputError
from dqam.geometry.area_counting import count_crossings, count_in_areas
from dqam.geometry.areas import Shapes, place_areas, place_lines
from dqam.geometry.arrays import Floats, Integers
from dqam.geometry.grid import DEGREES, Grid, transform
from dqam.geometry.trips import Trips
from dqam.geometry.walks import Gap, silences

CITY = Grid.over(cities.BOUNDS, 8)
UNIT = Grid((0, 0, 16, 16), 16, 16)  # a cell is one unit, and coordinates stay as they are

Points = list[tuple[float, float]]


def pieces_of(trips: Trips, grid: Grid, gap: Gap | None = None) -> tuple[Shapes, Integers]:
    """The pieces of all trips in cells, as lines or points, and the trip of each."""
    xy = np.stack(grid.to_cells(trips.x, trips.y, trips.crs), axis=1)
    cut = np.zeros(trips.points + 1, bool)
    cut[trips.offsets] = True
    cut[:-1] |= silences(trips, gap or Gap()) if len(silences(trips, gap or Gap())) else False
    shapes = [
        shapely.LineString(xy[a:b]) if (xy[a:b] != xy[a]).any() else shapely.Point(xy[a])
        for a, b in pairwise(np.flatnonzero(cut))
    ]
    return np.array(shapes, object), np.repeat(np.arange(len(trips)), np.diff(trips.offsets))[np.flatnonzero(cut)[:-1]]


def by_shapely(trips: Trips, shapes: Shapes, grid: Grid, gap: Gap | None = None) -> list[int]:
    """The number of trips with a piece that intersects each shape."""
    pieces, trip = pieces_of(trips, grid, gap)
    return [len(np.unique(trip[shapely.intersects(pieces, shape)])) if shape else 0 for shape in shapes]


def crossing_points(trips: Trips, shapes: Shapes, grid: Grid, gap: Gap | None = None) -> list[int]:
    """The number of points in which segments of trips intersect each line, none of them at a corner."""
    corners, piece = shapely.get_coordinates(pieces_of(trips, grid, gap)[0], return_index=True)
    segments = shapely.linestrings(np.stack([corners[:-1], corners[1:]], axis=1)[piece[1:] == piece[:-1]])
    return [int(shapely.get_num_coordinates(shapely.intersection(segments, shape)).sum()) for shape in shapes]


def star(x: float, y: float, radii: Floats, turn: float = 0.0) -> Points:
    """A ring around (x, y), with corners at even angles."""
    angles = turn + np.linspace(0, 2 * np.pi, len(radii), endpoint=False)
    return list(zip(x + radii * np.cos(angles), y + radii * np.sin(angles), strict=True))


def polygons(count: int, seed: int) -> list[shapely.Geometry]:
    """Polygons of eight kinds, from a hundredth of a cell to more than the grid, in cells, partly off the grid."""
    rng = np.random.default_rng(seed)
    made: list[shapely.Geometry] = []
    for i in range(count):
        x, y = rng.uniform(-10, 266, 2) if i % 3 else rng.uniform(100, 180, 2)  # a third of them in the middle
        size = np.exp(rng.uniform(np.log(1e-2), np.log(300)))
        corners = int(rng.integers(3, 51))
        even, uneven = np.full(corners, size), size * rng.uniform(0.3, 1, corners)
        match i % 8:
            case 0:
                made.append(shapely.Polygon(star(x, y, even, 0.1)))
            case 1:
                made.append(shapely.Polygon(star(x, y, uneven)))
            case 2:
                made.append(shapely.Polygon(star(x, y, even), [star(x, y, uneven[::-1] * 0.4)]))
            case 3:
                far = x + 3 * size
                made.append(shapely.MultiPolygon([shapely.Polygon(star(at, y, uneven)) for at in (x, far)]))
            case 4:
                made.append(shapely.box(x, y, x + size, y + size * rng.uniform(0.1, 1)))
            case 5:
                made.append(shapely.Polygon(star(x, y, np.tile([size, size / 5], 7))))
            case 6:
                made.append(shapely.convex_hull(shapely.MultiPoint(rng.normal((x, y), size, (12, 2)))))
            case _:
                made.append(shapely.box(*np.floor([x, y]), *np.floor([x, y]) + rng.integers(1, 40, 2)))
    return made


def in_units_of(grid: Grid, shapes: list[shapely.Geometry]) -> list[shapely.Geometry]:
    return [shapely.transform(s, lambda xy: np.stack(grid.from_cells(xy[:, 0], xy[:, 1]), axis=1)) for s in shapes]


@pytest.fixture(scope="module")
def city_trips() -> Trips:
    return Trips.concat(list(cities.city_trips(250, seed=3)))


@pytest.mark.parametrize("gap", [None, Gap(metres=150), Gap(seconds=20)], ids=str)
def test_counts_equal_those_of_shapely_for_city_trips_and_many_polygons(gap: Gap | None, city_trips: Trips) -> None:
    areas = place_areas(in_units_of(CITY, polygons(600, seed=0)), CITY)
    counts = count_in_areas([city_trips], areas, CITY, gap)
    assert counts.tolist() == by_shapely(city_trips, areas.shapes, CITY, gap)
    assert counts.dtype == np.int64
    assert areas.outside.any()
    assert areas.cut.any()
    assert areas.is_rectangle.any()
    assert np.count_nonzero(counts) > 200


def test_a_gap_and_cuts_divide_trips(city_trips: Trips) -> None:
    areas = place_areas(in_units_of(CITY, polygons(600, seed=0)), CITY)
    whole = count_in_areas([city_trips], areas, CITY)
    assert (count_in_areas([city_trips], areas, CITY, Gap(metres=150)) < whole).any()
    trips = Trips.from_lists([[(0.0, 0.0), (4.0, 4.0), (8.0, 8.0)]])
    box = place_areas([shapely.box(5, 5, 6, 6), shapely.box(7, 7, 9, 9)], UNIT)
    line = place_lines([shapely.LineString([(6, 5), (5, 6)])], UNIT)
    assert count_in_areas([trips], box, UNIT).tolist() == [1, 1]
    assert count_crossings([trips], line, UNIT).tolist() == [1]
    cut = Trips(trips.x, trips.y, trips.offsets, cuts=np.array([2]))
    assert count_in_areas([cut], box, UNIT).tolist() == [0, 1]
    assert count_crossings([cut], line, UNIT).tolist() == [0]


AREA = shapely.Polygon([(2, 2), (10, 2), (10, 10), (6, 6), (2, 10)], [[(4, 3), (8, 3), (8, 5), (4, 5)]])


@pytest.mark.parametrize(
    ("points", "meets"),
    [
        pytest.param([(0, 0), (2, 2)], True, id="ends at a corner"),
        pytest.param([(0, 4), (4, 0)], True, id="touches a corner on its way"),
        pytest.param([(0, 3.9), (3.9, 0)], False, id="passes a corner"),
        pytest.param([(3, 2), (5, 2)], True, id="along part of a side"),
        pytest.param([(0, 2), (12, 2)], True, id="along a side and beyond"),
        pytest.param([(0, 2), (1, 2)], False, id="on the line of a side, but before it"),
        pytest.param([(7, 7), (9, 9)], True, id="along a slanted side"),
        pytest.param([(10.5, 10.5), (12, 12)], False, id="on the line of a slanted side, but after it"),
        pytest.param([(2, 2)], True, id="a point at a corner"),
        pytest.param([(2, 7)], True, id="a point on a side"),
        pytest.param([(8.25, 8.25)], True, id="a point on a slanted side"),
        pytest.param([(8.25, 8.5)], False, id="a point in the notch"),
        pytest.param([(3, 3)], True, id="a point inside"),
        pytest.param([(1, 6)], False, id="a point outside, at the height of a corner"),
        pytest.param([(1, 10)], False, id="a point outside, at the height of the top"),
        pytest.param([(3, 4), (3.5, 4.5), (3, 3)], True, id="wholly inside"),
        pytest.param([(1, 1), (11, 1), (11, 11), (1, 11), (1, 1)], False, id="around it"),
        pytest.param([(4.5, 3.5), (7, 4)], False, id="within the hole"),
        pytest.param([(6, 4)], False, id="a point in the hole"),
        pytest.param([(4, 3), (8, 3)], True, id="along the border of the hole"),
        pytest.param([(4, 4)], True, id="a point on the border of the hole"),
        pytest.param([(5, 4), (6, 5), (7, 4)], True, id="touches the border of the hole from within"),
        pytest.param([(4, 10), (6, 6.5), (8, 10)], False, id="into the notch and out"),
        pytest.param([(4, 10), (6, 6), (8, 10)], True, id="touches the bottom of the notch"),
        pytest.param([(0, 0), (0, 0), (0, 0)], False, id="stands still outside"),
        pytest.param([(2, 2), (2, 2)], True, id="stands still at a corner"),
        pytest.param([(0, 0), (0, 0), (2, 2), (2, 2)], True, id="stands still and goes to a corner"),
        pytest.param([(-50, 4), (60, 4)], True, id="from outside the grid to outside the grid"),
        pytest.param([(-1e9, -1e9), (1e9, 1e9)], True, id="from very far to very far"),
        pytest.param([(-1e9, 1e9), (1e9, 1.1e9)], False, id="very far past it"),
        pytest.param([(-5, 5), (-5, 20), (20, 20), (20, 3), (9, 3)], True, id="around the grid and then in"),
    ],
)
def test_degenerate_trips(points: Points, meets: bool) -> None:
    areas, trips = place_areas([AREA], UNIT), Trips.from_lists([points])
    for one in (trips, Trips.from_lists([points[::-1]])):
        assert count_in_areas([one], areas, UNIT).tolist() == [meets] == by_shapely(one, areas.shapes, UNIT)


def test_all_short_trips_between_the_points_of_a_lattice() -> None:
    """Corners, points on sides, trips along them: everything that is degenerate, as shapely sees it."""
    shapes = [
        AREA,
        shapely.box(3, 3, 9, 8),
        shapely.MultiPolygon([shapely.box(0, 0, 4, 4), shapely.box(4, 4, 8, 8), shapely.box(10, 2, 12, 16)]),
        shapely.Polygon([(0, 0), (16, 6), (6, 16)], [[(0, 0), (8, 6), (6, 8)]]),  # the hole touches a corner
        shapely.Polygon([(1, 1), (15, 3), (9, 9), (13, 15), (3, 13), (7, 7)]),
    ]
    ends = [(float(x), float(y)) for x in range(-2, 19, 2) for y in range(-2, 19, 2)]
    trips = Trips.from_lists([[a, b] for a in ends for b in ends])
    areas = place_areas(shapes, UNIT)
    assert count_in_areas([trips], areas, UNIT).tolist() == by_shapely(trips, areas.shapes, UNIT)


def test_trips_through_points_that_are_on_sides_up_to_rounding() -> None:
    """Rounded points of a slanted side are on it, or just inside or outside; no tolerance may decide."""
    rng = np.random.default_rng(5)
    corners = rng.uniform(0, 16, (400, 3, 2))
    areas = place_areas(shapely.polygons(corners), UNIT)
    share = rng.uniform(0, 1, (400, 1))
    touching = corners[:, 0] + share * (corners[:, 1] - corners[:, 0])
    away = touching + (touching - corners[:, 2]) * rng.uniform(0.1, 1, (400, 1))  # on the other side of the side
    trips = Trips.from_lists([[tuple(p), tuple(q)] for p, q in zip(touching, away, strict=True)])
    alone = [count_in_areas([trips.slice(i, i + 1)], place_areas([areas.shapes[i]], UNIT), UNIT)[0] for i in range(400)]
    wanted = shapely.intersects(pieces_of(trips, UNIT)[0], areas.shapes)
    assert alone == wanted.tolist()
    assert 100 < sum(alone) < 400


def test_shapes_on_the_border_of_the_grid_and_trips_along_it() -> None:
    shapes = [shapely.box(-3, -3, 20, 20), shapely.box(15, 15, 30, 30), shapely.Polygon([(-4, 8), (4, 0), (4, 16)])]
    areas = place_areas(shapes, UNIT)
    trips = Trips.from_lists(
        [[(16, -4), (16, 40)], [(0, -1), (0, 20)], [(16, 16)], [(16.5, 0), (16.5, 40)], [(-2, 8), (-1, 8)], [(17, 15)]]
    )
    assert count_in_areas([trips], areas, UNIT).tolist() == [3, 2, 1] == by_shapely(trips, areas.shapes, UNIT)


def test_points_that_cannot_be_projected_divide_a_trip() -> None:
    trips = Trips.from_lists([[(1, 1), (np.inf, np.inf), (9, 9)], [(np.nan, 5), (3, 3)], [(5, 1), (1e200, 9), (5, 9)]])
    areas = place_areas([shapely.box(4, 4, 6, 6), shapely.box(2, 2, 4, 4), shapely.box(8, 8, 10, 10)], UNIT)
    assert count_in_areas([trips], areas, UNIT).tolist() == [0, 1, 1]
    lines = place_lines([shapely.LineString([(0, 10), (10, 0)])], UNIT)
    assert count_crossings([trips], lines, UNIT).tolist() == [0]


def test_areas_outside_no_areas_and_no_trips() -> None:
    areas = place_areas([shapely.box(40, 40, 50, 50), shapely.box(1, 1, 3, 3)], UNIT)
    lines = place_lines([shapely.LineString([(40, 40), (50, 50)]), shapely.LineString([(1, 1), (3, 3)])], UNIT)
    trips = Trips.from_lists([[(1, 2), (2, 1)], [(41, 42), (42, 41)], []])
    assert count_in_areas([trips], areas, UNIT).tolist() == [0, 1]
    assert count_crossings([trips], lines, UNIT).tolist() == [0, 1]
    assert count_in_areas([], areas, UNIT).tolist() == [0, 0]
    assert count_crossings([Trips.from_lists([])], lines, UNIT).tolist() == [0, 0]
    assert count_in_areas([trips], place_areas([], UNIT), UNIT).shape == (0,)
    assert count_crossings([trips], place_lines([], UNIT), UNIT).shape == (0,)


def test_a_gap_in_seconds_needs_times() -> None:
    with pytest.raises(InputError, match="needs points with a time"):
        count_in_areas([Trips.from_lists([[(1, 1)]])], place_areas([AREA], UNIT), UNIT, Gap(seconds=1))


def test_a_grid_in_metres_and_trips_in_degrees(city_trips: Trips) -> None:
    west, south, east, north = cities.BOUNDS
    x, y = transform(np.array([west, east]), np.array([south, north]), DEGREES, "EPSG:3857")
    grid = Grid((x[0], y[0], x[1], y[1]), 100, 80, "EPSG:3857")
    middle = shapely.Point((west + east) / 2, (south + north) / 2).buffer(0.01)
    areas = place_areas([shapely.box(west, south, (west + east) / 2, north), middle], grid, crs=DEGREES)
    counts = count_in_areas([city_trips], areas, grid)
    assert counts.tolist() == by_shapely(city_trips, areas.shapes, grid)
    assert counts.min() > 20


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("most", [1, 2, 1024])
def test_batches_threads_and_buckets_change_nothing(threads: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    trips = Trips.concat(list(cities.city_trips(500, seed=4)))
    assert trips.points > 10_000  # so that several threads are used
    areas = place_areas(in_units_of(CITY, polygons(60, seed=1)), CITY)
    lines = place_lines([shapely.boundary(s) for s in areas.asked if s.geom_type == "Polygon"], CITY)
    wanted = count_in_areas([trips], areas, CITY), count_crossings([trips], lines, CITY)
    monkeypatch.setattr(dqam.geometry.area_counting, "cores", lambda: threads)
    monkeypatch.setattr(dqam.geometry.area_counting, "MOST_BUCKETS", most)
    batches = [trips.slice(0, 30), trips.slice(30, 30), trips.slice(30, 500)]
    np.testing.assert_array_equal(count_in_areas([trips], areas, CITY), wanted[0])
    np.testing.assert_array_equal(count_in_areas(iter(batches), areas, CITY), wanted[0])
    np.testing.assert_array_equal(count_crossings([trips], lines, CITY), wanted[1])
    np.testing.assert_array_equal(count_crossings(iter(batches), lines, CITY), wanted[1])


def random_lines(count: int, seed: int) -> list[shapely.Geometry]:
    """Lines in cells: zigzags, screenlines, multilines and rings, partly off the grid."""
    rng = np.random.default_rng(seed)
    made: list[shapely.Geometry] = []
    for i in range(count):
        corners = rng.uniform(-10, 266, (int(rng.integers(2, 9)), 2))
        match i % 4:
            case 0:
                made.append(shapely.LineString(corners))
            case 1:
                made.append(shapely.LineString(corners[:2]))
            case 2:
                made.append(shapely.MultiLineString([corners, corners + 3.3]))
            case _:
                made.append(shapely.LinearRing(star(*corners[0], rng.uniform(5, 60, 20))))
    return made


@pytest.mark.parametrize("gap", [None, Gap(metres=150)], ids=str)
def test_crossings_are_the_points_that_shapely_finds(gap: Gap | None, city_trips: Trips) -> None:
    lines = place_lines(in_units_of(CITY, random_lines(60, seed=2)), CITY)
    counts = count_crossings([city_trips], lines, CITY, gap)
    assert counts.tolist() == crossing_points(city_trips, lines.shapes, CITY, gap)
    assert counts.dtype == np.int64
    assert np.count_nonzero(counts) > 50


ROOF = [(2.0, 2.0), (8.0, 8.0), (14.0, 2.0)]  # up to the corner (8, 8), and down again


@pytest.mark.parametrize(
    ("points", "crossings"),
    [
        pytest.param([(3, 6), (6, 3)], 1, id="across"),
        pytest.param([(3, 6), (6, 3), (3, 6)], 2, id="there and back"),
        pytest.param([(0, 4), (16, 4)], 2, id="through both slopes"),
        pytest.param([(3, 5), (4, 4), (5, 3)], 1, id="across with a point on the line"),
        pytest.param([(3, 5), (4, 4), (4, 4), (5, 3)], 1, id="across, standing still on the line"),
        pytest.param([(2, 4), (4, 4), (4, 6)], 0, id="touches from above"),
        pytest.param([(4, 2), (4, 4), (6, 4)], 0, id="touches from below"),
        pytest.param([(2, 4), (4, 4), (6, 6), (6, 8)], 0, id="along the line and back to the same side"),
        pytest.param([(2, 4), (4, 4), (6, 6), (8, 6)], 1, id="along the line and to the other side"),
        pytest.param([(2, 4), (4, 4), (8, 8), (11, 5), (11, 2)], 1, id="along, around the corner, to the other side"),
        pytest.param([(2, 4), (4, 4), (8, 8), (11, 5), (13, 5)], 0, id="along, around the corner, to the same side"),
        pytest.param([(6, 4), (5, 5), (8, 8), (11, 5), (10, 4)], 0, id="the same from below"),
        pytest.param([(6, 8), (10, 8)], 0, id="touches the corner from above"),
        pytest.param([(8, 6), (8, 8), (8, 6)], 0, id="touches the corner from below"),
        pytest.param([(8, 10), (8, 5)], 1, id="through the corner"),
        pytest.param([(8, 10), (8, 8), (8, 5)], 1, id="through the corner with a point there"),
        pytest.param([(8, 10), (8, 8), (8, 8), (9, 10)], 0, id="to the corner and back"),
        pytest.param([(3, 5), (4, 4), (2, 4), (4, 4), (5, 3)], 1, id="touches and crosses in the same point"),
        pytest.param([(2, 4), (4, 4), (4, 6), (6, 4), (6, 6), (8, 4), (8, 9)], 2, id="touches and crosses twice"),
        pytest.param([(0, 9), (3, 9)], 0, id="nowhere near"),
    ],
)
def test_contacts_with_a_line(points: Points, crossings: int) -> None:
    for trip in (points, points[::-1]):
        for line in (ROOF, ROOF[::-1]):
            placed = place_lines([shapely.LineString(line)], UNIT)
            assert count_crossings([Trips.from_lists([trip])], placed, UNIT).tolist() == [crossings]
    mirrored = [place_lines([shapely.LineString([(16 - x, 16 - y) for x, y in ROOF])], UNIT)]
    mirrored += [place_lines([shapely.LineString([(y, x) for x, y in ROOF])], UNIT)]
    moved = [[(16 - x, 16 - y) for x, y in points], [(y, x) for x, y in points]]
    for placed, trip in zip(mirrored, moved, strict=True):
        assert count_crossings([Trips.from_lists([trip])], placed, UNIT).tolist() == [crossings]


def inside(ring: list[tuple[int, int]], x: Fraction, y: Fraction) -> bool | None:
    """Whether a point is within a ring; None if it is on it."""
    odd = False
    for (ax, ay), (bx, by) in pairwise(ring):
        turn = (bx - ax) * (y - ay) - (by - ay) * (x - ax)
        if turn == 0 and min(ax, bx) <= x <= max(ax, bx) and min(ay, by) <= y <= max(ay, by):
            return None
        if (ay > y) != (by > y):
            odd ^= (turn > 0) == (by > ay)
    return odd


def changes(trip: list[tuple[int, int]], ring: list[tuple[int, int]]) -> int:
    """How often a trip changes between the inside and the outside of a ring, in exact arithmetic.

    Each segment is divided wherever it meets the line of a side, so that each part is inside, outside or on the ring.
    """
    states = []
    for (px, py), (qx, qy) in pairwise(trip):
        shares = {Fraction(0), Fraction(1)}
        for (ax, ay), (bx, by) in pairwise(ring):
            one, other = ((bx - ax) * (v - ay) - (by - ay) * (u - ax) for u, v in ((px, py), (qx, qy)))
            if one != other:
                shares.add(min(max(Fraction(one, one - other), Fraction(0)), Fraction(1)))
            elif one == 0:  # along the side: divided at its corners
                along = (qx - px) ** 2 + (qy - py) ** 2
                at = (
                    Fraction((u - px) * (qx - px) + (v - py) * (qy - py), along or 1) for u, v in ((ax, ay), (bx, by))
                )
                shares |= {min(max(share, Fraction(0)), Fraction(1)) for share in at}
        for first, last in pairwise(sorted(shares)):
            middle = (first + last) / 2
            states.append(inside(ring, px + middle * (qx - px), py + middle * (qy - py)))
    known = [state for state in states if state is not None]
    return sum(a != b for a, b in pairwise(known))


@pytest.mark.parametrize(
    "ring",
    [
        [(4, 4), (12, 4), (12, 12), (4, 12), (4, 4)],
        [(2, 8), (8, 2), (14, 8), (8, 14), (2, 8)],
        [(2, 2), (14, 2), (14, 14), (8, 6), (2, 14), (2, 2)],
        [(0, 0), (16, 6), (12, 8), (16, 16), (8, 8), (6, 16), (0, 0)],
    ],
)
def test_crossings_of_a_ring_are_the_changes_between_inside_and_outside(ring: list[tuple[int, int]]) -> None:
    """Trips between the points of a lattice, where most contacts are at corners or along sides."""
    rng = np.random.default_rng(7)
    lattice = [(x, y) for x in range(0, 17, 2) for y in range(0, 17, 2)]
    off = [point for point in lattice if inside(ring, Fraction(point[0]), Fraction(point[1])) is not None]
    line, met = place_lines([shapely.LinearRing(ring)], UNIT), 0
    for _ in range(250):
        middle = [lattice[i] for i in rng.integers(0, len(lattice), 3)]
        trip = [off[rng.integers(len(off))], *middle, off[rng.integers(len(off))]]
        wanted = changes(trip, ring)
        assert count_crossings([Trips.from_lists([trip])], line, UNIT).tolist() == [wanted], trip
        met += wanted > 0
    assert met > 100


def test_a_trip_that_ends_on_a_line_is_east_of_it_or_north() -> None:
    lines = place_lines([shapely.LineString([(8, 0), (8, 16)]), shapely.LineString([(0, 8), (16, 8)])], UNIT)
    ends = [[(2, 2), (8, 2)], [(12, 2), (8, 2)], [(2, 2), (2, 8)], [(2, 12), (2, 8)]]
    for trip, wanted in zip(ends, ([1, 0], [0, 0], [0, 1], [0, 0]), strict=True):
        for points in (trip, trip[::-1]):
            assert count_crossings([Trips.from_lists([points])], lines, UNIT).tolist() == wanted
