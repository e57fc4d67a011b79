"""Frames of GeoPandas that are asked: the names of their new columns, and what warnings say."""

import warnings
from typing import Any

import numpy as np
import pytest
import shapely

from dqam.geometry.grid import Grid
from tests.release.cases import as_if_private, seeded, strolls

geopandas = pytest.importorskip("geopandas")

RELEASE = seeded()
WEST, SOUTH, EAST, NORTH = RELEASE.grid.bounds
X, Y = (WEST + EAST) / 2, (SOUTH + NORTH) / 2
DISC = shapely.Point(X, Y).buffer(0.01)
BOW = shapely.Polygon([(X, Y), (X + 0.01, Y + 0.01), (X + 0.01, Y), (X, Y + 0.01)])
BEYOND = shapely.Point(WEST, Y).buffer(0.01)
FAR = shapely.box(EAST + 1, Y, EAST + 2, Y + 1)


def frame(*shapes: Any, crs: str | None = "EPSG:4326") -> Any:
    return geopandas.GeoDataFrame(geometry=list(shapes), crs=crs)


def test_columns_say_if_the_numbers_are_not_private() -> None:
    names = RELEASE.to_geodataframe(4).columns[:3].tolist()
    assert RELEASE.counts(frame(DISC)).columns[1:].tolist() == names == ["trips_not_private", "low", "high"]
    assert RELEASE.crossings(frame(DISC.exterior)).columns[1] == "crossings_not_private"
    assert as_if_private(RELEASE).counts(frame(DISC)).columns[1] == "trips"


def test_warnings_say_what_was_changed_or_has_no_answer() -> None:
    with pytest.warns(UserWarning, match="of 5 areas") as caught:
        found = RELEASE.counts(frame(DISC, BOW, BEYOND, BEYOND, FAR))
    assert [str(one.message) for one in caught] == [
        "1 of 5 areas crossed itself and was repaired.",
        "2 of 5 areas were clipped to the bounds of the map.",
        "1 of 5 areas is outside the map and has no answer (NaN).",
    ]
    assert {one.filename for one in caught} == {__file__}
    assert np.isnan(found.trips_not_private).tolist() == [False] * 4 + [True]
    with pytest.warns(UserWarning, match=r"^1 of 1 line was clipped to the bounds of the map\.$"):
        RELEASE.crossings(frame(BEYOND.exterior))


def test_a_crs_is_only_missed_where_it_can_be_another() -> None:
    metres = Grid((320_000, 5_812_000, 324_000, 5_816_000), 8, 8, "EPSG:28355")
    release = seeded(metres, trips=strolls(metres.bounds, crs="EPSG:28355"))
    here = frame(shapely.Point(322_000, 5_814_000).buffer(900), crs=None)
    for ask, asked in ((release.counts, here), (release.counts, here.geometry), (release.crossings, here.boundary)):
        with pytest.warns(
            UserWarning, match="declare no CRS and are taken to be in that of the map, EPSG:28355"
        ) as one:
            ask(asked)
        assert (len(one), one[0].filename) == (1, __file__)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        release.counts(here, crs="EPSG:28355")
        release.counts(here.set_crs("EPSG:28355"))
        RELEASE.counts(frame(DISC, crs=None))
        RELEASE.counts([BOW])
