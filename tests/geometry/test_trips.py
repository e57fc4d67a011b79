"""Trips: parts of them, joined again, and what does not fit together."""

import numpy as np
import pyarrow as pa
import pytest

from dqam.geometry.trips import Trips, offsets_of

LENGTHS = [3, 0, 1, 4]


def some_trips() -> Trips:
    """Four trips of 3, 0, 1 and 4 points; the first and the last are in two pieces."""
    points = np.arange(8.0)
    return Trips(
        points,
        -points,
        offsets_of(np.array(LENGTHS)),
        np.arange(8) * 10,
        pa.array(["a", "b", "c", "d"]),
        pa.array([7, 8, 7, 9]),
        cuts=np.array([1, 6]),
        slices=np.array([2, 0, 1, 2], np.int16),
    )


def listed(trips: Trips) -> list[tuple[object, ...]]:
    """Trips one by one: id, person, for each point x, y, time and whether the trip is cut before it, and the slice."""
    found = []
    cuts = set() if trips.cuts is None else set(trips.cuts.tolist())
    for i in range(len(trips)):
        points = [
            (float(trips.x[k]), float(trips.y[k]), int(trips.time[k]), k in cuts)
            for k in range(trips.offsets[i], trips.offsets[i + 1])
        ]
        found.append((trips.ids[i].as_py(), trips.persons[i].as_py(), points, int(trips.slices[i])))
    return found


def test_slices_and_joined_batches_are_the_same_trips() -> None:
    trips = some_trips()
    whole = listed(trips)
    for start in range(5):
        for stop in range(start, 5):
            assert listed(trips.slice(start, stop)) == whole[start:stop]
    assert listed(Trips.concat([trips.slice(0, 1), trips.slice(1, 3), trips.slice(3, 4)])) == whole
    assert Trips.concat([trips]) is trips


def test_trips_are_taken_in_any_order_and_more_than_once() -> None:
    trips = some_trips()
    whole = listed(trips)
    for order in ([3, 0, 2, 1], [3, 3, 1], []):
        assert listed(trips.taken(np.array(order, np.int64))) == [whole[i] for i in order]


def test_trips_and_points_are_kept() -> None:
    trips = some_trips()
    whole = listed(trips)
    everything = np.ones(4, bool)
    assert trips.kept(None, everything) is trips
    assert listed(trips.kept(None, np.array([True, False, False, True]))) == [whole[0], whole[3]]
    points = np.array([True, False, True, True, True, False, False, True])
    found = listed(trips.kept(points, everything))
    assert [[point[0] for point in trip[2]] for trip in found] == [[0.0, 2.0], [], [3.0], [4.0, 7.0]]
    # a cut before a point that goes is a cut before the next one that stays
    assert [[point[3] for point in trip[2]] for trip in found] == [[False, True], [], [False], [False, True]]


def test_trips_start_at_their_earliest_point() -> None:
    trips = Trips(np.zeros(5), np.zeros(5), np.array([0, 3, 5]), np.array([5, -7, 9, 4, 4]))
    assert trips.starts is not None
    assert trips.starts.tolist() == [-7, 4]
    assert Trips.from_lists([[(0.0, 0.0)]]).starts is None


def test_a_summary_has_a_row_for_each_trip() -> None:
    trips = some_trips().kept(None, np.array([True, False, True, True]))
    assert trips.summary().to_pylist() == [
        {"west": 0, "south": -2, "east": 2, "north": 0, "time": 0, "person": 7, "trip": "a"},
        {"west": 3, "south": -3, "east": 3, "north": -3, "time": 30, "person": 7, "trip": "c"},
        {"west": 4, "south": -7, "east": 7, "north": -4, "time": 40, "person": 9, "trip": "d"},
    ]
    assert Trips.from_lists([]).summary().num_rows == 0


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"y": np.zeros(2)}, "3 x and 2 y do not fit offsets up to 3"),
        ({"offsets": np.array([0, 2])}, "offsets up to 2"),
        ({"offsets": np.array([0, 3], np.int32)}, "offsets must be int64 .* int32"),
        ({"offsets": np.array([0, 4, 3])}, "never decrease"),
        ({"time": np.zeros(2, np.int64)}, "time must have 3 entries; got 2"),
        ({"ids": pa.array([1, 2])}, "ids must have 1 entries; got 2"),
        ({"persons": pa.array([])}, "persons must have 1 entries; got 0"),
        ({"slices": np.zeros(2, np.int16)}, "slices must have 1 entries; got 2"),
        ({"slices": np.zeros(1, np.int64)}, "slices must be int16; these are int64"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(changes: dict[str, object], says: str) -> None:
    arrays = {"x": np.zeros(3), "y": np.zeros(3), "offsets": np.array([0, 3])}
    Trips(**arrays)
    with pytest.raises(ValueError, match=says):
        Trips(**arrays | changes)  # type: ignore[arg-type]


def test_trips_print_their_numbers_and_no_coordinates() -> None:
    assert repr(some_trips()) == "<Trips: 4 trips, 8 points, time, ids, persons, slices (EPSG:4326)>"
    assert repr(Trips.from_lists([[(1.25, 2.5)]] * 1200)) == "<Trips: 1,200 trips, 1,200 points (EPSG:4326)>"
