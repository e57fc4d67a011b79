import numpy as np
import pytest

from dqam.errors import InputError
from dqam.geometry.grid import Grid
from dqam.geometry.trips import Trips
from dqam.geometry.walks import Gap, lay, walk
from tests.geometry.cases import GRID, walk_of
from tests.oracles import naive


def test_gap_in_metres_cuts_a_trip_in_two_pieces() -> None:
    grid = Grid((0, 0, 0.06, 0.05), 5, 6)
    points = [(0.005, 0.005), (0.015, 0.005), (0.055, 0.005)]  # 1.1 km, then 4.4 km
    assert walk_of(points, grid) == [[0, 1, 2, 3, 4, 5]]
    assert walk_of(points, grid, Gap(metres=2000)) == [[0, 1], [5]]
    assert walk_of(points, grid, Gap(metres=500)) == [[0], [1], [5]]


def test_gap_in_metres_in_a_projected_crs() -> None:
    grid = Grid((500_000, 4_000_000, 506_000, 4_005_000), 5, 6, "EPSG:32629")
    trips = Trips.from_lists([[(500_500, 4_000_500), (501_500, 4_000_500), (505_500, 4_000_500)]], crs="EPSG:32629")
    assert naive.pieces_of(walk(trips, grid, Gap(metres=2000))) == [[[0, 1], [5]]]


def test_gap_in_seconds() -> None:
    second = 1_000_000
    trips = Trips(
        np.array([0.5, 1.5, 2.5, 3.5]),
        np.full(4, 0.5),
        np.array([0, 3, 4]),
        time=np.array([0, 10, 200, 5]) * second,
    )
    assert naive.pieces_of(walk(trips, GRID, Gap(seconds=60))) == [[[0, 1], [2]], [[3]]]
    with pytest.raises(InputError, match="in seconds needs points with a time"):
        walk(Trips.from_lists([[(0.5, 0.5)]]), GRID, Gap(seconds=60))


@pytest.mark.parametrize("text", ["", "12", "s", "1.2.3s", "-5m", "10 parsecs", "0s"])
def test_gap_in_strange_words(text: str) -> None:
    with pytest.raises(InputError):
        Gap.parse(text)


def test_the_same_walks_whatever_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.uniform(-1, 7, 40_000), rng.uniform(-1, 6, 40_000)
    trips = Trips(x, y, np.arange(0, 40_001, 8))
    monkeypatch.setenv("DQAM_THREADS", "1")
    one = walk(trips, GRID)
    monkeypatch.setenv("DQAM_THREADS", "64")
    many = walk(trips, GRID)
    for name in ("cells", "pieces", "trips"):
        np.testing.assert_array_equal(getattr(one, name), getattr(many, name))
    assert one.inside == many.inside == np.count_nonzero((x >= 0) & (x <= 6) & (y >= 0) & (y <= 5))


def test_walks_of_points_that_a_projection_has_no_place_for() -> None:
    grid = Grid((-1_000_000, -1_000_000, 1_000_000, 1_000_000), 4, 4, "+proj=ortho")  # half the Earth
    trips = Trips.from_lists([[(0.0, 0.0), (180.0, 0.0), (1.0, 1.0)]])
    assert naive.pieces_of(walk(trips, grid)) == [[[10], [10]]]


def test_swapped_axes_are_guessed() -> None:
    porto = Grid.over((-8.68, 41.11, -8.56, 41.20), 4)
    with pytest.raises(InputError, match="look swapped.*swap_axes=True"):
        list(lay([Trips.from_lists([[(41.15, -8.6), (41.16, -8.61)]])], porto, name="t.csv"))


def test_bounds_that_miss_the_data_say_roughly_where_it_is() -> None:
    with pytest.raises(InputError, match=r"None of the 2 points of t.csv .*around longitude 20, latitude 10") as caught:
        list(lay([Trips.from_lists([[(20.1234, 10.1234), (20.2, 10.2)]])], GRID, name="t.csv"))
    assert "1234" not in str(caught.value)
    metres = Trips.from_lists([[(512_345.0, 1_234.0)]], "EPSG:32629")
    with pytest.raises(InputError, match=r"around x 500,000, y 0 \(EPSG:32629\)"):
        list(lay([metres], Grid((480_000, 4_280_000, 500_000, 4_300_000), 4, 4, "EPSG:32629"), name="t.csv"))


def test_a_gap_is_longer_than_its_limit_and_both_limits_count() -> None:
    second = 1_000_000
    trips = Trips(np.array([0.5, 1.5, 2.5]), np.full(3, 0.5), np.array([0, 3]), time=np.array([0, 60, 121]) * second)
    assert naive.pieces_of(walk(trips, GRID, Gap(seconds=60))) == [[[0, 1], [2]]]
    both = Gap(seconds=60, metres=150_000)
    far = Trips(np.array([0.5, 2.5, 3.5]), np.full(3, 0.5), np.array([0, 3]), time=np.array([0, 60, 121]) * second)
    assert naive.pieces_of(walk(far, GRID, both)) == [[[0], [2], [3]]]


def test_a_gap_in_a_crs_of_feet() -> None:
    grid = Grid((0, 0, 6000, 5000), 5, 6, "EPSG:2227")  # US survey feet
    trips = Trips.from_lists([[(500, 500), (1500, 500)]], crs="EPSG:2227")  # 305 m apart
    assert naive.pieces_of(walk(trips, grid, Gap(metres=310))) == [[[0, 1]]]
    assert naive.pieces_of(walk(trips, grid, Gap(metres=300))) == [[[0], [1]]]


def test_frames_are_not_walked_unread() -> None:
    with pytest.raises(InputError, match="must be a Trips object.*read it with dqam.read"):
        walk({"x": 1}, GRID)  # type: ignore[arg-type]


def test_walks_print_their_numbers_and_no_coordinates() -> None:
    grid = Grid((0, 0, 6, 5), 5, 6, "EPSG:3857")
    walks = walk(Trips.from_lists([[(1.25, 2.5), (3.0, 1.0)], [(-9.0, 0.0)]], crs="EPSG:3857"), grid)
    assert repr(walks) == "<Walks: 2 trips, 3 points on 5 x 6 cells of 1 m x 1 m over 0 0 6 5 (EPSG:3857)>"
