"""Differences between releases: intervals that hold, the same areas on different grids, and what is refused."""

import math
from dataclasses import replace
from typing import Any

import geopandas
import numpy as np
import pytest
import shapely

from dqam import cities
from dqam.errors import InputError
from dqam.geometry.counting import count_distinct
from dqam.geometry.grid import Grid
from dqam.geometry.rectangles import random_rectangles, sized_rectangles
from dqam.geometry.walks import walk
from dqam.release.difference import Differences
from dqam.release.release import Release
from dqam.values.guarantee import Unit
from tests.release.cases import as_if_private, seeded, sliced, with_delta

HERE = (-30.02, 44.98, -29.98, 45.02)  # in the made-up city
OTHER_GRID = Grid((-30.05, 44.94, -29.93, 45.03), 40, 50)
BOXES = [HERE, (-30.01, 44.96, -29.94, 44.995), (-30.05, 44.97, -30.02, 45.04)]


def counted_from(release: Release, most: int, factor: float = 1.0, title: str = "A city") -> Release:
    """The same, as if it counted at most so many trips of each person."""
    facts = {"unit": Unit.person(most), "factor": factor, "scaled_up_to": 100 if factor > 1 else 0, "title": title}
    return replace(release, provenance=replace(release.provenance, **facts))


def test_a_difference_is_that_of_the_answers_and_variances_add_up() -> None:
    one, two = seeded(), seeded(seed=1)
    found = one.difference(two, BOXES)
    assert isinstance(found, Differences)
    first, second = one.counts(BOXES), two.counts(BOXES)
    np.testing.assert_array_equal(found.value, first.value - second.value)
    off = np.hypot(one.deviations(first.asked), two.deviations(second.asked))
    np.testing.assert_allclose(found.high - found.value, 1.6448536 * off, rtol=1e-6)
    np.testing.assert_allclose(found.value - found.low, 1.6448536 * off, rtol=1e-6)
    np.testing.assert_allclose(two.difference(one, BOXES).low, -found.high)
    for i, box in enumerate(BOXES):
        alone = one.difference(two, box)
        assert alone == found[i]
        outer = one.count(box) - two.count(box)
        assert outer.low < alone.low < float(alone) < alone.high < outer.high
        assert tuple(alone) == (alone.value, alone.low, alone.high)


def test_an_interval_is_never_wider_than_the_extremes() -> None:
    """For answers near 0, whose intervals are cut off."""
    one, two = seeded(), seeded(seed=1, epsilon="0.2")
    cells = random_rectangles(one.grid, 500, np.random.default_rng(0))
    found = one.difference(two, _bounds(one.grid, cells))
    assert (found.low >= found.first.low - found.second.high).all()
    assert (found.high <= found.first.high - found.second.low).all()
    assert (found.low <= found.value + 1e-9).all()
    assert (found.value <= found.high + 1e-9).all()
    whole = one.difference(two, BOXES, confidence=0.5)
    assert ((whole.high - whole.low) < one.difference(two, BOXES).high - one.difference(two, BOXES).low).all()


def _bounds(grid: Grid, cells: Any) -> Any:
    west, south, east, north = cells.T.astype(float)
    return np.stack([*grid.from_cells(west, south), *grid.from_cells(east, north)], axis=1)


def test_intervals_hold_for_two_releases_of_the_same_trips() -> None:
    """The true difference is 0 everywhere."""
    cells = random_rectangles(seeded().grid, 400, np.random.default_rng(1))
    held = []
    for seed in range(0, 12, 2):
        one, two = seeded(seed=seed), seeded(seed=seed + 1)
        found = one.difference(two, _bounds(one.grid, cells))
        held.append(((found.low <= 0) & (found.high >= 0)).mean())
    assert np.mean(held) >= 0.9


@pytest.mark.parametrize(("epsilon", "grid"), [("0.4", None), ("2", Grid((-30.07, 44.95, -29.93, 45.05), 48, 48))])
def test_intervals_hold_for_releases_of_other_trips(epsilon: str, grid: Grid | None) -> None:
    """With other noise, or on another grid; the confidence is 0.9."""
    (march,), (april,) = cities.city_trips(3_000, 1), cities.city_trips(2_000, 2)
    one, held = seeded(trips=march), []
    for low, high in ((1, 4), (5, 16)):
        cells = sized_rectangles(one.grid, low, high, 200, np.random.default_rng(low))
        exact = [count_distinct(walk(trips, one.grid), cells, one.grid) for trips in (march, april)]
        for seed in (1, 2, 3):
            found = one.difference(seeded(grid, epsilon=epsilon, trips=april, seed=seed), _bounds(one.grid, cells))
            held.append(((found.low <= exact[0] - exact[1]) & (exact[0] - exact[1] <= found.high)).mean())
    assert np.mean(held) >= 0.9


def test_different_grids_are_asked_for_the_same_area() -> None:
    one, two = seeded(), seeded(grid=OTHER_GRID, seed=1)
    inside = (-30.0213, 44.9711, -29.9822, 45.0112)  # between the lines of both grids
    found = one.difference(two, inside)
    assert not found.first.grown
    assert not found.second.grown
    circle = shapely.Point(-30, 45).buffer(0.01)
    areas = one.difference(two, [shapely.box(*inside), circle])
    assert areas[0].value == pytest.approx(found.value)
    assert areas.first.value[1] == one.count(circle).value
    assert areas.second.value[1] == two.count(circle).value
    grown = one.count(inside)
    assert grown.grown
    assert found.first.value < grown.value
    beyond = (-30.0213, 45.0, -29.99, 45.2)  # on the first map up to its end, on the other one up to 45.03
    on_both = (*beyond[:3], OTHER_GRID.bounds[3])
    cut, clean = one.difference(two, beyond), one.difference(two, on_both)
    assert cut.first.cut
    assert cut.second.cut
    assert cut.first.value == pytest.approx(clean.first.value, rel=1e-9)
    assert cut.second.value == pytest.approx(clean.second.value, rel=1e-9)


def test_maps_in_different_coordinates() -> None:
    plane = Grid((731_000, 4_982_000, 742_000, 4_991_000), 36, 44, crs="EPSG:32625")
    west, south, east, north = cities.BOUNDS
    one, two = seeded(), seeded(grid=plane, seed=1)
    found = one.difference(two, HERE)
    assert found.second.value == pytest.approx(two.count(shapely.box(*HERE), crs="EPSG:4326").value, rel=0.02)
    assert found.low < 0 < found.high
    back = two.difference(one, shapely.box(*HERE), crs="EPSG:4326")
    assert back.value == pytest.approx(-found.value, rel=0.05, abs=5)
    whole = one.difference(two, (west - 1, south - 1, east + 1, north + 1))
    assert whole.first.cut
    assert whole.value == pytest.approx(0, abs=0.1 * whole.first.value)


def test_an_area_on_one_map_only_has_no_difference() -> None:
    one, two = seeded(), seeded(grid=OTHER_GRID, seed=1)
    north = (-30.0, 45.035, -29.99, 45.04)
    found = one.difference(two, [HERE, north])
    assert np.isnan(found.value).tolist() == [False, True]
    assert np.isnan(found.low).tolist() == [False, True]
    with pytest.raises(InputError, match="does not meet the map"):
        one.difference(two, north)


def test_tables_and_words_say_both_promises() -> None:
    one, two = as_if_private(seeded()), with_delta(as_if_private(seeded(seed=1)))
    found = one.difference(two, BOXES)
    table = found.to_frame()
    assert list(table) == [
        *("west", "south", "east", "north", "trips", "trips_of_other", "difference", "low", "high", "grown", "cut")
    ]
    np.testing.assert_array_equal(table["trips"] - table["trips_of_other"], table["difference"])
    words = (
        "Each release has its own guarantee. A city: Differentially private for one trip, epsilon = 2. "
        "A city: Differentially private for one trip, epsilon = 1, delta = 1e-8."
    )
    assert table.attrs["promises"] == found.promises
    assert repr(found).startswith(f"<Differences of 3 areas: {found[0]}, {found[1]}, {found[2]}. ")
    assert repr(found).endswith(f"{words}>")
    assert repr(found[0]).endswith(f"{words}>")
    other_grid = one.difference(as_if_private(seeded(grid=OTHER_GRID, seed=1)), BOXES).to_frame()
    assert other_grid["north"].tolist() == [box[3] for box in BOXES]
    assert repr(one.difference(two, [])).startswith("<Differences of 0 areas. ")


def test_a_frame_gets_columns_and_warnings() -> None:
    one, two = seeded(), seeded(seed=1)
    frame = geopandas.GeoDataFrame({"zone": ["a", "b"]}, geometry=[shapely.box(*box) for box in BOXES[1:]], crs=4326)
    found = one.difference(two, frame)
    columns = ["trips_not_private", "trips_not_private_of_other", "difference_not_private", "low", "high"]
    assert list(found) == ["zone", "geometry", *columns]
    assert "difference" in as_if_private(one).difference(as_if_private(two), frame)
    beyond = frame.set_geometry([shapely.box(-31, 44, -30, 45), frame.geometry[1]])
    with pytest.warns(UserWarning, match="1 of 2 areas was clipped to the bounds"):
        one.difference(two, beyond)


def test_slices_of_both() -> None:
    one, two = sliced(), sliced(seed=1)
    found = one.difference(two, HERE, slices=["07", "08"])
    assert found.value == pytest.approx(
        one.count(HERE, slices=["07", "08"]).value - two.count(HERE, slices=["07", "08"]).value
    )
    assert found.low < found.high
    with pytest.raises(InputError, match="slices of the two releases differ: hour and none"):
        one.difference(seeded(), HERE, slices="07")
    with pytest.raises(InputError, match="differ: hour and hour in Europe/Lisbon"):
        one.difference(sliced(timezone="Europe/Lisbon", seed=1), HERE, slices="07")


def test_a_mechanism_without_intervals_gives_none() -> None:
    found = seeded().difference(seeded(mechanism="laplace"), HERE)
    assert math.isnan(found.low)
    assert math.isnan(found.high)
    assert "(" not in str(found)


def test_releases_that_count_different_things_are_refused() -> None:
    trips, few, more = seeded(), counted_from(seeded(seed=1), 5, title="Few"), counted_from(seeded(seed=2), 9)
    scaled, others = counted_from(seeded(seed=3), 5, 1.5), counted_from(seeded(seed=4), 9, 1.2)
    for one, two in ((trips, few), (few, more), (few, scaled), (trips, scaled)):
        with pytest.raises(InputError, match="cannot be compared"):
            one.difference(two, HERE)
    with pytest.raises(InputError, match="'A city' counts all trips, and 'Few' counts trips from at most 5 trips"):
        trips.difference(few, HERE)
    assert scaled.difference(others, HERE).value  # both estimate all trips
    with pytest.raises(InputError, match="same publication"):
        trips.difference(seeded(), HERE)
    with pytest.raises(InputError, match="same publication"):
        sliced().select("07").difference(sliced().select("08"), HERE)
    with pytest.raises(InputError, match="must be a Release"):
        trips.difference("april.nc", HERE)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="confidence must be"):
        trips.difference(few, HERE, confidence=90)
