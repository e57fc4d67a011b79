"""Answers as CoverageJSON, which covjson-pydantic validates, and as GeoJSON."""

import json

import numpy as np
import shapely
from covjson_pydantic.coverage import Coverage, CoverageCollection

from dqam.explorer.edr_coverages import MULTIPOLYGON, Found, to_coverage, to_geojson
from dqam.explorer.edr_metadata import CRS84
from dqam.explorer.edr_queries import Area, Cube, Options, Position
from dqam.explorer.selections import ShownRelease
from dqam.release.release import Release
from tests.explorer.test_edr_queries import BOX, HOLED, POLYGON, TWO


def found(release: Release, query: Options) -> Found:
    return query.answer(ShownRelease("one", release))


def sent(found: Found) -> Coverage | CoverageCollection:
    """The coverage as a client reads it."""
    text = to_coverage(found).model_dump_json(exclude_none=True)
    return (CoverageCollection if "coverages" in json.loads(text) else Coverage).model_validate_json(text)


def test_a_polygon_has_one_number(first: Release) -> None:
    for wkt in (POLYGON, HOLED, BOX, f"MULTIPOLYGON({BOX[7:]})"):
        shape = shapely.from_wkt(wkt)
        coverage = sent(found(first, Area(coords=wkt)))
        assert isinstance(coverage, Coverage)
        assert coverage.domain.domainType == "Polygon"
        axis = coverage.domain.axes.composite
        assert axis is not None
        assert (axis.dataType, axis.coordinates) == ("polygon", ["x", "y"])
        rings = shapely.geometry.shape({"type": "Polygon", "coordinates": axis.values[0]})
        assert rings == (shape if shape.geom_type == "Polygon" else shape.geoms[0])
        wanted = first.count(shape, crs="EPSG:4326")
        ranges = {name: array.values for name, array in coverage.ranges.items()}  # type: ignore[union-attr]
        assert ranges == {"trips": [wanted.value], "low": [wanted.low], "high": [wanted.high]}


def test_a_multipolygon_has_one_number_too(first: Release) -> None:
    coverage = sent(found(first, Area(coords=TWO)))
    assert isinstance(coverage, Coverage)
    assert coverage.domain.domainType is None
    axis = coverage.domain.axes.composite
    assert axis is not None
    assert axis.dataType == MULTIPOLYGON
    shape = shapely.from_wkt(TWO)
    assert shapely.geometry.shape({"type": "MultiPolygon", "coordinates": axis.values[0]}) == shape
    assert coverage.ranges["trips"].values == [first.count(shape, crs="EPSG:4326").value]  # type: ignore[union-attr]


def test_each_slice_is_a_coverage(hourly: Release) -> None:
    coverages = sent(found(hourly, Area(**{"coords": POLYGON, "slice": "07/09", "parameter-name": "low"})))
    assert isinstance(coverages, CoverageCollection)
    assert [one.model_extra for one in coverages.coverages] == [
        {"dqam:slice": name, "dqam:grown": False, "dqam:cut": False, "dqam:repaired": False}
        for name in ("07", "08", "09")
    ]
    assert coverages.parameters is not None
    assert list(coverages.parameters) == ["low"]
    for one in coverages.coverages:
        assert list(one.ranges) == ["low"]
    single = sent(found(hourly, Area(coords=POLYGON, slice="07")))
    assert isinstance(single, Coverage)
    assert (single.model_extra or {})["dqam:slice"] == "07"


def test_a_grid_has_its_numbers_in_order(first: Release) -> None:
    box = found(first, Cube(**{"bbox": "-30.02,44.98,-29.98,45.02", "resolution-x": 3, "resolution-y": 2}))
    coverage = sent(box)
    assert isinstance(coverage, Coverage)
    x, y, trips = coverage.domain.axes.x, coverage.domain.axes.y, coverage.ranges["trips"]
    assert (trips.axisNames, trips.shape) == (["y", "x"], [2, 3])  # type: ignore[union-attr]
    numbers = np.reshape(trips.values, (2, 3))  # type: ignore[union-attr]
    for row in range(2):
        for column in range(3):
            west, east = x.bounds[2 * column : 2 * column + 2]  # type: ignore[union-attr, index]
            south, north = y.bounds[2 * row : 2 * row + 2]  # type: ignore[union-attr, index]
            assert west < x.values[column] < east  # type: ignore[union-attr]
            assert numbers[row, column] == first.count(west, south, east, north).value


def test_the_promise_accompanies_the_numbers(first: Release) -> None:
    query = Position(coords="POINT(-30 45)", confidence=0.5)
    coverage = to_coverage(found(first, query)).model_extra or {}
    collection = to_geojson(found(first, query))
    for told in ({name.removeprefix("dqam:"): value for name, value in coverage.items()}, collection):
        assert told["promise"] == first.provenance.promise
        assert told["release"] == first.provenance.id
        assert told["confidence"] == 0.5
        assert "do not add up" in told["note"]


def test_the_crs_is_named_with_its_axes(first: Release, projected: Release) -> None:
    def reference(release: Release, query: Options) -> tuple[list[str], str, str | None]:
        (one,) = to_coverage(found(release, query)).domain.referencing  # type: ignore[union-attr, misc]
        return one.coordinates, one.system.type, one.system.id

    for crs in (None, CRS84, "OGC:CRS84", "EPSG:4326"):
        query = Position(coords="POINT(-30 45)", crs=crs)
        assert reference(first, query) == (["x", "y"], "GeographicCRS", CRS84)
    metres = Position(coords="POINT(305000 5805000)", crs="EPSG:28355")
    wanted = (["x", "y"], "ProjectedCRS", "http://www.opengis.net/def/crs/EPSG/0/28355")
    assert reference(projected, metres) == wanted


def test_a_point_has_a_point(first: Release) -> None:
    point = found(first, Position(coords="POINT(-30.001 45.001)"))
    coverage = sent(point)
    assert isinstance(coverage, Coverage)
    assert coverage.domain.domainType == "Point"
    (feature,) = to_geojson(point)["features"]
    assert shapely.geometry.shape(feature["geometry"]) == shapely.Point(-30.001, 45.001)
    assert feature["properties"]["trips"] == point.answers[0].value[0]


def test_geojson_is_in_degrees(projected: Release) -> None:
    wkt = "POLYGON((305000 5805000,320000 5805000,310000 5815000,305000 5805000))"
    (area,) = to_geojson(found(projected, Area(coords=wkt, crs="EPSG:28355")))["features"]
    middle = shapely.geometry.shape(area["geometry"]).centroid
    assert (round(middle.x), round(middle.y)) == (145, -38)
    box = found(projected, Cube(bbox="305000,5805000,307000,5806000", crs="EPSG:28355"))
    cells = to_geojson(box)["features"]
    assert [cell["properties"]["trips"] for cell in cells] == box.answers[0].value.tolist()
    for cell in cells:
        shape = shapely.geometry.shape(cell["geometry"])
        assert shape.is_valid
        assert projected.count(*shape.centroid.coords[0] * 2, crs="EPSG:4326").value == cell["properties"]["trips"]


def test_geojson_of_slices(hourly: Release) -> None:
    features = to_geojson(found(hourly, Area(coords=TWO, slice="07,08")))["features"]
    assert [one["properties"]["slice"] for one in features] == ["07", "08"]
    assert shapely.geometry.shape(features[0]["geometry"]) == shapely.from_wkt(TWO)
    assert features[1]["properties"]["trips"] == hourly.count(shapely.from_wkt(TWO), crs="EPSG:4326", slices="08").value
    cells = to_geojson(found(hourly, Cube(bbox="-30.02,44.98,-29.98,45.02", slice="07,08")))["features"]
    half = len(cells) // 2
    assert cells[0]["geometry"] == cells[half]["geometry"]
    assert {cell["properties"]["slice"] for cell in cells[:half]} == {"07"}


def test_only_what_was_asked_for_and_what_there_is(projected: Release, first: Release) -> None:
    metres = Position(coords="POINT(305000 5805000)", crs="EPSG:28355")
    low = Position(**{"coords": "POINT(-30 45)", "parameter-name": "low"})
    for release, query, wanted in ((projected, metres, ["trips"]), (first, low, ["low"])):
        (feature,) = to_geojson(found(release, query))["features"]
        assert list(feature["properties"]) == wanted
