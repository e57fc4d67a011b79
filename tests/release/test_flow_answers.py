"""What a release says about flows: for zones of every kind, for one area, and for input that is wrong."""

import warnings
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pytest
import shapely

import dqam
from dqam import cities
from dqam.errors import InputError
from dqam.geometry.arrays import Shapes
from dqam.release.flow_answers import bounds_of, default_least, flows_between, place, table_of
from tests.release.cases import as_if_private, seeded, with_flows

WEST, SOUTH, EAST, NORTH = cities.BOUNDS
ALL = (WEST, SOUTH, EAST, NORTH)
FAR = shapely.box(EAST + 1, SOUTH, EAST + 2, NORTH)
DISC = shapely.Point((WEST + EAST) / 2, (SOUTH + NORTH) / 2).buffer(0.01)


def blocks(side: int = 4) -> Shapes:
    """Polygons that cover the map."""
    x, y = np.linspace(WEST, EAST, side + 1), np.linspace(SOUTH, NORTH, side + 1)
    east, north = (each.ravel() for each in np.meshgrid(x[1:], y[1:]))
    west, south = (each.ravel() for each in np.meshgrid(x[:-1], y[:-1]))
    return np.asarray(shapely.box(west, south, east, north))


def frame(crs: str = "EPSG:4326", **columns: Any) -> geopandas.GeoDataFrame:
    return geopandas.GeoDataFrame(columns, geometry=list(blocks()), crs="EPSG:4326").to_crs(crs)


def test_zones_may_be_polygons_rectangles_or_a_frame() -> None:
    release = with_flows()
    found = release.flows(list(blocks()))
    assert found.columns.tolist() == ["origin", "destination", "trips_not_private", "low", "high"]
    assert found.origin.tolist() == np.repeat(np.arange(16), 16).tolist()
    assert found.destination.tolist() == np.tile(np.arange(16), 16).tolist()
    assert found.trips_not_private.sum() == pytest.approx(release.trips.value)
    others: tuple[Any, ...] = (
        blocks(),
        geopandas.GeoSeries(list(blocks()), crs="EPSG:4326"),
        shapely.bounds(blocks()),
        shapely.bounds(blocks()).tolist(),
        frame(),
    )
    for zones in others:
        again = release.flows(zones)
        assert np.allclose(again.to_numpy(float), found.to_numpy(float), atol=1e-6)
    assert "trips" in as_if_private(release).flows(blocks()).columns


def test_names_come_from_a_column_or_are_given() -> None:
    release, letters = with_flows(), [chr(65 + i) for i in range(16)]
    assert release.flows(frame(name=letters)).origin.iloc[16] == "B"
    assert release.flows(frame(id=letters, other=range(16))).origin.iloc[16] == "B"
    assert release.flows(frame(ward=letters), names="ward").destination.iloc[1] == "B"
    assert release.flows(frame(ward=letters).set_index("ward")).destination.iloc[1] == "B"
    assert release.flows(blocks(), names=letters).destination.iloc[1] == "B"
    repeated = release.flows(frame(name=["same"] * 16))
    assert set(repeated.origin) == {"same"}
    assert len(repeated) == 256
    with pytest.raises(InputError, match=r"no column 'wards'; they have ward, geometry"):
        release.flows(frame(ward=letters), names="wards")
    with pytest.raises(InputError, match="There are 2 names for 16 zones"):
        release.flows(blocks(), names=["A", "B"])


def test_small_flows_are_left_out_if_asked() -> None:
    release = with_flows()
    found = release.flows(blocks())
    some = release.flows(blocks(), least=20)
    assert 0 < len(some) < len(found)
    assert some.trips_not_private.to_list() == found.trips_not_private[found.trips_not_private >= 20].to_list()
    assert (default_least(500), default_least(501)) == (0, 0.5)
    for least in (-1, float("nan"), "x", [1]):
        with pytest.raises(InputError, match="least must be a number of trips of at least 0"):
            release.flows(blocks(), least=least)  # type: ignore[arg-type]


def test_a_table_that_is_too_long_says_how_to_shorten_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dqam.release.flow_answers.MOST_ROWS", 255)
    with pytest.raises(InputError, match=r"More than 255 pairs of zones have at least 0 trips; .* such as least=1"):
        with_flows().flows(blocks())


def test_blocks_of_zones_are_put_together_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    release = with_flows()
    whole = release.flows(blocks())
    monkeypatch.setattr("dqam.release.flow_answers.AT_ONCE", 5)
    assert np.array_equal(release.flows(blocks()).to_numpy(), whole.to_numpy())


@pytest.mark.parametrize("end", ["from_", "to"])
def test_one_area_gives_a_map_by_zone_or_by_cell(end: str) -> None:
    release = with_flows()
    other = "destination" if end == "from_" else "origin"
    by_zone = release.flows(blocks(), **{end: DISC})
    by_cell = release.flows(**{end: DISC})
    assert by_zone.columns.tolist() == [other, "trips_not_private", "low", "high", "geometry"]
    assert by_zone.crs == "EPSG:4326"
    assert len(by_zone) == 16
    assert len(by_cell) == table_of(release).cells.cells
    assert np.allclose(by_zone.total_bounds, by_cell.total_bounds)
    ends = (DISC, None) if end == "from_" else (None, DISC)
    for each in (by_zone, by_cell):
        assert each.trips_not_private.sum() == pytest.approx(release.flow(*ends).value)
    place = 5
    ends = (DISC, blocks()[place]) if end == "from_" else (blocks()[place], DISC)
    assert tuple(by_zone.iloc[place, 1:4]) == pytest.approx(tuple(release.flow(*ends)))
    assert len(release.flows(blocks(), least=5, **{end: DISC})) == (by_zone.trips_not_private >= 5).sum()


def test_flow_between_any_two_areas() -> None:
    release = with_flows()
    answer = release.flow(DISC, ALL)
    assert 0 <= answer.low <= answer.value <= answer.high
    assert answer.value == pytest.approx(release.flow(DISC, None).value)
    assert release.flow(None, None) == release.trips
    assert release.flow(ALL, ALL).value == pytest.approx(release.trips.value)
    wide, narrow = (release.flow(DISC, ALL, confidence=sure) for sure in (0.95, 0.5))
    assert wide.high - wide.low > narrow.high - narrow.low
    middle = WEST + (EAST - WEST) / 2
    assert release.flow((WEST, SOUTH, middle + 1e-5, NORTH), DISC).grown
    assert release.flow((WEST - 1, SOUTH, EAST, NORTH), DISC).cut
    bowtie = shapely.Polygon([(WEST, SOUTH), (EAST, NORTH), (EAST, SOUTH), (WEST, NORTH)])
    assert release.flow(bowtie, DISC).repaired


def test_areas_in_another_crs() -> None:
    release = with_flows()
    disc = geopandas.GeoSeries([DISC], crs="EPSG:4326").to_crs("EPSG:32625")[0]
    expected = release.flow(DISC, DISC)
    assert tuple(release.flow(disc, disc, crs="EPSG:32625")) == pytest.approx(tuple(expected), rel=1e-3)
    plain, moved = release.flows(frame()), release.flows(frame("EPSG:32625"))
    assert np.allclose(moved.trips_not_private, plain.trips_not_private, atol=0.5)


def test_zones_outside_the_map_are_left_out_with_a_warning() -> None:
    release, zones = with_flows(), [*blocks()[:3], FAR]
    with pytest.warns(UserWarning, match=r"1 of 4 zones is outside the map and left out") as told:
        found = release.flows(zones)
    assert told[0].filename == __file__
    assert set(found.origin) == set(found.destination) == {0, 1, 2}
    with pytest.warns(UserWarning, match="outside the map"):
        assert len(release.flows(zones, from_=DISC)) == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(flows_between(release, place(zones, release), 0.9)) == 9  # whoever places them knows
    with pytest.raises(InputError, match="does not meet the map"):
        release.flow(FAR, DISC)
    with pytest.raises(InputError, match="does not meet the map"):
        release.flows([FAR])


def test_zones_that_overlap_are_each_answered() -> None:
    release = with_flows()
    found = release.flows([DISC, DISC.buffer(0.01)])
    assert found.trips_not_private.is_monotonic_increasing
    assert found.trips_not_private[0] == pytest.approx(release.flow(DISC, DISC).value)


def test_slices_of_flows_add_up() -> None:
    release = with_flows(by="weekpart")
    both = [release.flows(blocks(), slices=name).trips_not_private for name in release.slices]
    assert np.allclose(sum(both), release.flows(blocks()).trips_not_private)
    assert (
        release.flow(DISC, ALL, slices=release.slices[0]).value
        == release.select(release.slices[0]).flow(DISC, ALL).value
    )
    first = release.largest_flows(3, blocks(), slices=release.slices[0])
    assert first.trips_not_private[0] == max(both[0])
    with pytest.raises(InputError, match="no slices"):
        with_flows().flow(DISC, ALL, slices="weekday")


def test_the_largest_flows() -> None:
    release = with_flows()
    found = release.flows(blocks())
    top = release.largest_flows(5, blocks())
    assert top.trips_not_private.tolist() == sorted(found.trips_not_private, reverse=True)[:5]
    assert len(release.largest_flows(1_000, blocks())) == 256
    tiles = bounds_of(table_of(release).tiles, release)
    first = release.largest_flows(1).iloc[0]
    assert first.trips_not_private == pytest.approx(
        release.flow(tuple(tiles[int(first.origin)]), tuple(tiles[int(first.destination)])).value
    )
    assert len(release.largest_flows(4, from_=DISC)) == 4
    for k in (0, 1.5, True, "x"):
        with pytest.raises(InputError, match="k must be a whole number of at least 1"):
            release.largest_flows(k)  # type: ignore[arg-type]


def test_too_few_to_tell_is_where_the_interval_holds_0() -> None:
    release = with_flows()
    found = flows_between(release, place(blocks(), release), 0.9)
    assert 0 < found.too_few.sum() < len(found)
    assert np.array_equal(found.too_few, found.low < 0.5)
    assert found.largest(3).trips.tolist() == sorted(found.trips, reverse=True)[:3]


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda release: release.flows(), "Give zones for a table of all pairs, or from_="),
        (lambda release: release.flows(from_=DISC, to=DISC), "not both"),
        (lambda release: release.flows(5), "rows of four numbers"),
        (lambda release: release.flow("Baixa", DISC), "rows of four numbers"),
        (lambda release: release.flow((1, 2, 3), DISC), "rows of four numbers"),
        (lambda release: release.flow(shapely.Point(0, 0), DISC), "is a Point; give a polygon"),
        (lambda release: release.flow(DISC, DISC, confidence=1), "confidence must be a number between 0 and 1"),
        (lambda release: release.flows(blocks(), confidence=2), "confidence must be a number between 0 and 1"),
        (lambda release: release.flows(from_=DISC, confidence=2), "confidence must be a number between 0 and 1"),
    ],
)
def test_bad_input(ask: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        ask(with_flows())


@pytest.mark.parametrize(
    "ask",
    [
        lambda release: release.flow(DISC, DISC),
        lambda release: release.flow(None, None),
        lambda release: release.flows(blocks()),
        lambda release: release.flows(from_=DISC),
        lambda release: release.flows(blocks(), to=DISC),
        lambda release: release.largest_flows(),
        lambda release: release.largest_flows(3, blocks()),
    ],
)
def test_a_release_without_flows_says_how_to_have_them(ask: Any) -> None:
    with pytest.raises(InputError, match="This release has no flows. To have them, publish with flows=True"):
        ask(seeded())


def test_a_release_says_that_it_has_flows() -> None:
    assert "with flows" in repr(with_flows())
    assert "flows" not in repr(seeded())


@pytest.mark.parametrize(
    ("epsilon", "n", "resolution"), [("0.01", 1, 8), ("1", 30, 8), ("1", 1_000, 6), ("1", 1_000, 8)]
)
def test_weak_signals_are_saved_and_opened(epsilon: str, n: int, resolution: int, tmp_path: Path) -> None:
    """No number is too large for a file, however few trips a tile has."""
    release = with_flows(epsilon, n, None, resolution)
    release.save(tmp_path / "weak.nc")
    opened = dqam.open(tmp_path / "weak.nc")
    for answer in (opened.flow(DISC, ALL), opened.flow(blocks()[0], blocks()[15])):
        assert 0 <= answer.low <= answer.value <= answer.high <= 20 * release.trips.high
    assert opened.flow(DISC, ALL) == release.flow(DISC, ALL)
