"""Queries of EDR: the numbers of the library, and clear sentences for what cannot be answered."""

from typing import Any

import numpy as np
import pytest
import shapely

from dqam.errors import InputError
from dqam.explorer.edr_queries import MOST_VALUES, Area, Cube, Options, Position, blocks, read_wkt
from dqam.explorer.schema import MOST_FEATURES
from dqam.explorer.selections import ShownRelease
from dqam.geometry.grid import Grid
from dqam.release.release import Release
from tests.explorer.conftest import numbered

POLYGON = "POLYGON((-30.02 44.98,-29.98 44.98,-29.97 45.02,-30.02 44.98))"
HOLED = (
    "POLYGON((-30.04 44.96,-29.96 44.96,-29.96 45.04,-30.04 45.04,-30.04 44.96),"
    "(-30.01 44.99,-30.01 45.01,-29.99 45.01,-30.01 44.99))"
)
TWO = f"MULTIPOLYGON({POLYGON[7:]},((-30.05 44.97,-30.04 44.97,-30.04 44.98,-30.05 44.98,-30.05 44.97)))"
BOX = "POLYGON((-30.01 44.99,-29.99 44.99,-29.99 45.01,-30.01 45.01,-30.01 44.99))"


@pytest.mark.parametrize("wkt", [POLYGON, HOLED, TWO, BOX])
def test_an_area_has_the_number_of_the_library(first: Release, wkt: str) -> None:
    found = Area(coords=wkt, confidence=0.8).answer(ShownRelease("one", first))
    (answers,) = found.answers
    wanted = first.count(shapely.from_wkt(wkt), crs="EPSG:4326", confidence=0.8)
    assert tuple(answers[0]) == tuple(wanted)
    assert wanted.value > 0
    assert found.slices == []


def test_an_area_in_each_slice_has_the_number_of_the_library(hourly: Release) -> None:
    one = ShownRelease("one", hourly)
    for told, wanted in (("07", ["07"]), ("08,07", ["07", "08"]), ("07/09", ["07", "08", "09"]), ("23 ", ["23"])):
        found = Area(coords=POLYGON, slice=told).answer(one)
        assert found.slices == wanted
        polygon = shapely.from_wkt(POLYGON)
        for name, answers in zip(wanted, found.answers, strict=True):
            assert tuple(answers[0]) == tuple(hourly.count(polygon, crs="EPSG:4326", slices=name))


def test_an_area_in_the_crs_of_the_map(projected: Release) -> None:
    wkt = "POLYGON((305000 5805000,320000 5805000,310000 5815000,305000 5805000))"
    found = Area(coords=wkt, crs="EPSG:28355").answer(ShownRelease("one", projected))
    assert found.answers[0][0].value == projected.count(shapely.from_wkt(wkt)).value
    assert found.crs == "EPSG:28355"


def test_a_position_has_the_number_of_its_cell(first: Release, projected: Release) -> None:
    rng = np.random.default_rng(1)
    for u, v in rng.uniform(0, 24, (10, 2)):
        x, y = map(float, projected.grid.from_cells(u, v))
        found = Position(coords=f"POINT({x!r} {y!r})", crs="EPSG:28355").answer(ShownRelease("one", projected))
        assert found.answers[0][0].value == projected.histogram.faces[int(v), int(u)]
    corner = Position(coords="POINT(-30 45)").answer(ShownRelease("one", first))
    assert corner.answers[0].rectangles.cells.tolist() == [[32, 32, 33, 33]]


def test_a_cube_has_the_numbers_of_the_cells_that_meet_the_box(first: Release) -> None:
    grid = first.grid
    x, y = grid.from_cells(np.array([10.0, 13.5]), np.array([20.25, 22.0]))
    found = Cube(bbox=f"{x[0]},{y[0]},{x[1]},{y[1]}").answer(ShownRelease("one", first))
    (answers,) = found.answers
    assert answers.rectangles.cells.tolist() == [
        [column, row, column + 1, row + 1] for row in (20, 21) for column in (10, 11, 12, 13)
    ]
    assert not isinstance(found.place, shapely.Geometry)
    np.testing.assert_allclose(found.place[0], grid.from_cells(np.arange(10, 15.0), 0)[0])
    np.testing.assert_array_equal(answers.value, first.counts(answers.rectangles.bounds).value)


def test_a_cube_of_blocks(first: Release) -> None:
    west, south, east, north = first.grid.bounds
    query = Cube(**{"bbox": f"{west},{south},{east},{north}", "resolution-x": 3, "resolution-y": 2})
    (answers,) = query.answer(ShownRelease("one", first)).answers
    assert answers.rectangles.cells[[0, 1, 5]].tolist() == [[0, 0, 21, 32], [21, 0, 43, 32], [43, 32, 64, 64]]
    np.testing.assert_array_equal(answers.value, first.counts(answers.rectangles.bounds).value)


def test_a_large_cube_is_combined_into_blocks(first: Release) -> None:
    release = numbered(Grid.over((0, 0, 1, 1), 10), first)
    (answers,) = Cube(bbox="0,0,1,1").answer(ShownRelease("one", release)).answers
    assert len(answers) == 256 * 256 == MOST_VALUES
    (answers,) = Cube(bbox="0,0,1,1", f="GeoJSON").answer(ShownRelease("one", release)).answers
    assert len(answers) == 100 * 100 == MOST_FEATURES


@pytest.mark.parametrize("slices", [1, 7, 168])
@pytest.mark.parametrize(("columns", "rows"), [(1, 1), (256, 256), (4096, 1), (1, 4096), (4096, 4096), (300, 4000)])
def test_blocks_are_as_many_as_there_may_be(columns: int, rows: int, slices: int) -> None:
    most = MOST_VALUES // slices
    across, up = blocks(columns, rows, most, None, None)
    assert 1 <= across <= columns
    assert 1 <= up <= rows
    assert across * up <= most
    assert (across, up) == (columns, rows) or across * up > 0.5 * most
    assert blocks(columns, rows, most, 1, 1) == (1, 1)


def asking(release: Release, query: type[Options], **options: Any) -> None:
    query(**options).answer(ShownRelease("one", release))


@pytest.mark.parametrize(
    ("query", "options", "words"),
    [
        (Position, {"coords": POLYGON}, "must be a POINT as well-known text"),
        (Position, {"coords": "POINT(1 2)"}, "Point 1 .* does not meet the map"),
        (Position, {"coords": "POINT EMPTY"}, "must be a POINT"),
        (Position, {"coords": "POINT(nan 1)"}, "must be a POINT"),
        (Area, {"coords": "POINT(1 2)"}, "must be a POLYGON or MULTIPOLYGON"),
        (Area, {"coords": "POLYGON((0 0,1 1"}, "must be a POLYGON or MULTIPOLYGON"),
        (Area, {"coords": "POLYGON((0 0,1 0,1 1,0 0))"}, "does not meet the map"),
        (Area, {"coords": "POLYGON((0 0,1e300 0,1 1e300,0 0))"}, "are not degrees"),
        (Area, {"coords": POLYGON, "crs": "EPSG:3857"}, "not a CRS of this collection; give one of http"),
        (Area, {"coords": POLYGON, "parameter-name": "speed"}, "no parameter 'speed'; the parameters are trips, low"),
        (Area, {"coords": POLYGON, "slice": "07"}, "has no slices"),
        (Cube, {"bbox": "1,2,3"}, "must be four numbers"),
        (Cube, {"bbox": "1,2,3,x"}, "must be four numbers"),
        (Cube, {"bbox": "1,2,3,nan"}, "not a number"),
        (Cube, {"bbox": "1,2,3,4"}, "Box 1 .* does not meet the map"),
        (Cube, {"bbox": "-29,44,-31,46"}, "upside down"),
        (Cube, {"bbox": "-31,44,-29,46", "resolution-x": 65}, "resolution-x is 65, but the box has 64 cells"),
    ],
)
def test_what_cannot_be_answered(first: Release, query: type[Options], options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        asking(first, query, **options)


def test_what_slices_cannot_answer(hourly: Release) -> None:
    for told, words in (("24", "no slice '24'"), ("09/07", "comes after"), ("07/", "no slice '07/'"), ("", "no slice")):
        with pytest.raises(InputError, match=words):
            asking(hourly, Area, coords=POLYGON, slice=told)
    with pytest.raises(InputError, match="no slice 'R3/1/2'"):
        asking(hourly, Area, coords=POLYGON, slice="R3/1/2")


def test_a_grid_that_is_not_in_degrees_is_no_grid_in_degrees(projected: Release) -> None:
    with pytest.raises(InputError, match="a grid in EPSG:28355 only"):
        asking(projected, Cube, bbox="144,-38,146,-37")
    asking(projected, Cube, bbox="305000,5805000,306000,5806000", crs="EPSG:28355")


def test_too_many_values_are_refused(hourly: Release) -> None:
    with pytest.raises(InputError, match="at most 65,536 blocks of cells for each slice; 1,024 x 1,024 are more"):
        blocks(1024, 1024, MOST_VALUES, 0, 0)
    cells = {"bbox": "-31,44,-29,46", "f": "GeoJSON", "slice": "00/23", "resolution-x": 0, "resolution-y": 0}
    with pytest.raises(InputError, match="at most 416 blocks .* 32 x 32 are more"):
        asking(hourly, Cube, **cells)


def test_all_slices_together_have_the_numbers_of_each(hourly: Release) -> None:
    one = ShownRelease("one", hourly)
    for query in (Area(coords=TWO, slice="00/23"), Area(coords=BOX, slice="00/23")):
        found = query.answer(one)
        assert found.slices == list(hourly.slices)
        for name, answers in zip(found.slices, found.answers, strict=True):
            shape = shapely.from_wkt(query.coords)
            assert tuple(answers[0]) == tuple(hourly.count(shape, crs="EPSG:4326", slices=name))


def test_well_known_text_is_read_strictly() -> None:
    assert read_wkt(" point (1 2)", "POINT") == shapely.Point(1, 2)
    assert not read_wkt("POINT Z(1 2 3)", "POINT").has_z
    for wkt in ("SRID=3857;POINT(1 2)", "POINTS(1 2)", "POINT", "POINT(1)", "GEOMETRYCOLLECTION(" * 9, "POINT(1 2)é"):
        with pytest.raises(InputError, match="coords must be a POINT"):
            read_wkt(wkt, "POINT")
