"""What a release answers, for rectangles of all kinds."""

import re
from dataclasses import replace
from pathlib import Path

import geopandas
import numpy as np
import pytest
import shapely

from dqam import cities
from dqam.errors import InputError
from dqam.geometry.grid import Grid
from dqam.geometry.rectangles import Snapped, random_rectangles
from tests.commands import run
from tests.release.cases import HERE, as_if_private, seeded, sliced, strolls


def test_answers_are_those_of_the_histogram_and_its_uncertainty() -> None:
    release = seeded()
    cells = random_rectangles(release.grid, 200, np.random.default_rng(0))
    asked = Snapped.of(cells, release.grid)
    found = release.counts(asked.bounds)
    assert release.uncertainty is not None
    low, high = release.uncertainty.intervals(cells)
    np.testing.assert_array_equal(found.rectangles.cells, cells)
    np.testing.assert_allclose(found.value, release.histogram.answers(cells), atol=1e-9)
    np.testing.assert_array_equal([found.low, found.high], [low, high])
    assert (found.low <= found.value).all()
    assert (found.value <= found.high).all()
    one = release.count(*asked.bounds[7])
    assert (one.value, one.low, one.high) == (found.value[7], found.low[7], found.high[7])
    assert release.counts(asked.bounds, confidence=0.99).high.sum() > found.high.sum()


def test_rectangles_grow_to_whole_cells_and_are_cut_at_the_bounds() -> None:
    release = seeded(Grid(HERE, 8, 8), trips=strolls(HERE))
    found = release.counts([(HERE[0] - 1, HERE[1] - 1, HERE[0] + 0.001, HERE[1] + 0.001)])
    assert found.rectangles.cells.tolist() == [[0, 0, 1, 1]]
    assert found.rectangles.cut.all()
    assert found.value[0] == release.histogram.faces[0, 0]


def test_the_whole_map_holds_all_trips() -> None:
    release = seeded()
    assert release.trips.value == pytest.approx(release.histogram.total)
    assert release.count(*release.grid.bounds) == release.trips


def test_a_rectangle_in_another_crs() -> None:
    metres = Grid((320_000, 5_812_000, 324_000, 5_816_000), 8, 8, "EPSG:28355")
    release = seeded(metres, trips=strolls(metres.bounds, crs="EPSG:28355"))
    degrees = release.counts([(144.955, -37.83, 144.97, -37.82)], crs="EPSG:4326")
    assert 0 < degrees.value[0] < release.trips.value
    with pytest.raises(InputError, match="does not meet the map"):
        release.count(144.955, -37.83, 144.97, -37.82)


def test_a_rectangle_in_another_order_is_refused_wherever_it_is_asked(tmp_path: Path) -> None:
    release = seeded()
    west, south, east, north = -30.02, 44.98, -29.98, 45.02
    meant = f"Did you mean ({west}, {south}, {east}, {north})?"
    for ask in (lambda: release.count(west, east, south, north), lambda: release.counts([(west, east, south, north)])):
        with pytest.raises(InputError, match=re.escape(meant)):
            ask()
    release.save(tmp_path / "map.nc")
    done = run("query", tmp_path / "map.nc", "--area", *map(str, (west, east, south, north)))
    assert done.returncode == 2
    assert meant in " ".join(done.stderr.split())


def test_blocks_are_all_cells_from_the_south_west() -> None:
    release = seeded(Grid(HERE, 4, 8), trips=strolls(HERE))
    blocks = release.cells()
    np.testing.assert_allclose(blocks.value.reshape(4, 8), release.histogram.faces, atol=1e-9)
    assert blocks.rectangles.cells[1].tolist() == [1, 0, 2, 1]
    assert len(release.cells(blocks=4)) == 8


@pytest.mark.parametrize("bad", [[1, 2, 3, 4], "abcd", [["a", 1, 2, 3]], [[1, 2, 3]], None, {}])
def test_what_is_no_rectangle_is_refused(bad: object) -> None:
    with pytest.raises(InputError, match="rows of four numbers"):
        seeded().counts(bad)  # type: ignore[arg-type]


def test_a_table_is_not_too_long() -> None:
    release = seeded()
    large = Grid(release.grid.bounds, 2048, 2048)
    histogram = replace(
        release.histogram,
        grid=large,
        faces=np.zeros((2048, 2048)),
        vertical=np.zeros((2048, 2047)),
        horizontal=np.zeros((2047, 2048)),
    )
    with pytest.raises(InputError, match="too long"):
        replace(release, histogram=histogram, uncertainty=None).cells()


def test_a_polygon_along_the_axes_is_answered_bit_for_bit_as_its_bounds() -> None:
    release = seeded()
    rng = np.random.default_rng(0)
    west, south, east, north = release.grid.bounds
    x, y = np.sort(rng.uniform(west, east, (300, 2))), np.sort(rng.uniform(south, north, (300, 2)))
    bounds = np.stack([x[:, 0], y[:, 0], x[:, 1], y[:, 1]], axis=1)
    as_bounds, as_polygons = release.counts(bounds), release.counts(list(shapely.box(*bounds.T)))
    for name in ("value", "low", "high"):
        np.testing.assert_array_equal(getattr(as_polygons, name), getattr(as_bounds, name))
    np.testing.assert_array_equal(as_polygons.flags["grown"], as_bounds.flags["grown"])
    assert release.count(shapely.box(*bounds[0])).value == release.count(*bounds[0]).value


def _disc(grid: Grid) -> shapely.Polygon:
    west, south, east, north = grid.bounds
    return shapely.Point((west + east) / 2, (south + north) / 2).buffer(0.2 * min(east - west, north - south))


def test_frames_come_back_with_trips_and_intervals() -> None:
    geopandas = pytest.importorskip("geopandas")
    release = as_if_private(seeded())
    disc = _disc(release.grid)
    frame = geopandas.GeoDataFrame({"zone": ["a", "b"]}, geometry=[disc, disc.envelope], crs=release.grid.crs)
    found = release.counts(frame)
    assert list(found.columns) == ["zone", "geometry", "trips", "low", "high"]
    assert "trips" not in frame.columns
    assert found.trips[0] == release.count(disc).value
    assert (found.low <= found.trips).all()
    assert (found.trips <= found.high).all()
    series = release.counts(frame.to_crs("EPSG:3857").geometry)
    np.testing.assert_allclose(series.value[0], found.trips[0], rtol=0.02)
    lines = geopandas.GeoDataFrame({"bridge": ["x"]}, geometry=[disc.exterior], crs=release.grid.crs)
    assert list(release.crossings(lines).columns) == ["bridge", "geometry", "crossings", "low", "high"]


def test_crossings_of_a_line() -> None:
    release = seeded()
    disc = _disc(release.grid)
    one = release.crossings(disc.exterior)
    assert 0 <= one.low < one.value < one.high
    many = release.crossings([disc.exterior, disc.exterior])
    assert many.counted == "crossings"
    np.testing.assert_array_equal(many.value, [one.value] * 2)
    with pytest.raises(InputError, match="Line 1 is a Polygon"):
        release.crossings(disc)


def test_an_area_around_the_map_has_all_trips() -> None:
    release = seeded()
    west, south, east, north = release.grid.bounds
    around = shapely.Point((west + east) / 2, (south + north) / 2).buffer(3 * max(east - west, north - south))
    found = release.counts([around])
    assert found.value[0] == release.trips.value
    assert found.flags["cut"][0]


def test_a_polygon_that_crosses_itself_is_repaired_and_said() -> None:
    release = seeded()
    west, south, east, north = release.grid.bounds
    bow = shapely.Polygon([(west, south), (east, north), (east, south), (west, north)])
    assert release.count(bow).repaired
    assert not release.count(_disc(release.grid)).repaired


def test_slices_are_named_and_selected() -> None:
    release = sliced("weekpart")
    assert release.slices == ("weekday", "weekend")
    work = release.select("weekday")
    assert work.slices == ("weekday",)
    assert work.trips.value + release.select(["weekend"]).trips.value == release.trips.value
    assert release.select(["weekend", "weekday"]) is release
    assert 0 < work.trips.low < work.trips.value < work.trips.high
    for names, words in (
        (["Monday"], "There is no slice 'Monday'; the slices are weekday, weekend."),
        ([], "Name at least one slice of weekday, weekend."),
        (["weekend", "weekend"], "named more than once"),
    ):
        with pytest.raises(InputError, match=words):
            release.select(names)
    with pytest.raises(InputError, match="There is no slice 'weekend'"):
        work.select("weekend")
    with pytest.raises(InputError, match="This release has no slices"):
        seeded().select("07")
    with pytest.raises(InputError, match="This release has no slices"):
        seeded().profile(cities.BOUNDS)


def test_profiles_of_areas_and_lines() -> None:
    release = sliced()
    west, south, east, north = cities.BOUNDS
    disc = shapely.Point((west + east) / 2, (south + north) / 2).buffer(0.01)
    line = shapely.LineString([(west, south), (east, north)])
    for area, whole in ((disc, release.count(disc)), (line, release.crossings(line))):
        table = release.profile(area)
        assert table.index.tolist() == list(release.slices)
        assert table.iloc[:, 0].sum() == whole.value
        one = release.crossings(line, slices="08") if area is line else release.count(disc, slices="08")
        np.testing.assert_allclose(table.loc["08"], [one.value, one.low, one.high])
    frame = geopandas.GeoDataFrame(geometry=[disc], crs="EPSG:4326")
    assert release.counts(frame, slices=["07", "08"]).iloc[0, 1] == release.count(disc, slices=["07", "08"]).value
