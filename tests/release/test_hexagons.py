"""Hexagons, compared with the cells of H3 itself."""

import sys
from unittest.mock import patch

import h3
import numpy as np
import pytest
import shapely

from dqam.errors import InputError
from dqam.geometry.grid import Grid
from dqam.release.hexagons import answer_hexagons, note_on_size
from tests.release.cases import HERE, seeded, strolls

RELEASE = seeded(Grid.over(HERE, 5), trips=strolls(HERE))


@pytest.mark.parametrize("resolution", [5, 7, 8])
def test_all_hexagons_that_meet_the_map(resolution: int) -> None:
    found = answer_hexagons(RELEASE, resolution)
    here = shapely.box(*HERE)
    around = h3.geo_to_cells(shapely.box(*here.buffer(0.4).bounds), resolution)
    outlines = {cell: shapely.Polygon([(x, y) for y, x in h3.cell_to_boundary(cell)]) for cell in around}
    assert set(found.index) == {cell for cell, shape in outlines.items() if shape.intersection(here).area > 0}
    for cell, shape, cut in zip(found.index, found.shapes, found.cut.tolist(), strict=True):
        assert shapely.equals_exact(shape, outlines[cell], 1e-9, normalize=True)
        assert cut == (not outlines[cell].within(here))


def test_answers_are_those_for_the_polygons() -> None:
    found = answer_hexagons(RELEASE, 8)
    expected = RELEASE.counts(list(found.shapes), crs="EPSG:4326")
    np.testing.assert_allclose(found.value, expected.value)
    assert (found.low <= found.value).all()
    assert (found.value <= found.high).all()


def test_small_hexagons_are_noted() -> None:
    assert note_on_size(RELEASE, 6) == ""
    assert "smaller than a cell of the map" in note_on_size(RELEASE, 12)


@pytest.mark.parametrize("resolution", [-1, 16, 8.5, True, "9"])
def test_resolutions_that_do_not_exist(resolution: object) -> None:
    with pytest.raises(InputError, match="whole number from 0 to 15"):
        answer_hexagons(RELEASE, resolution)  # type: ignore[arg-type]


def test_too_many_hexagons_and_no_library() -> None:
    with pytest.raises(InputError, match="use resolution 1[0-9] or less"):
        answer_hexagons(RELEASE, 15)
    with patch.dict(sys.modules, {"h3.api.numpy_int": None}), pytest.raises(InputError, match=r"'dqam\[h3\]'"):
        answer_hexagons(RELEASE, 8)
