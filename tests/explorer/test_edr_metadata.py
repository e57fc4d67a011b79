"""What EDR says about releases, before it is served."""

from dataclasses import replace

import numpy as np
from edr_pydantic.collections import Collection

from dqam.explorer.edr_metadata import CRS84, collection, collection_ids, conformance, crs_codes, landing_page
from dqam.explorer.layer import in_degrees
from dqam.geometry.grid import Grid
from dqam.release.release import Release
from tests.explorer.conftest import numbered, of_persons, with_delta

HERE = "http://here"


def test_ids_are_names_that_an_address_may_hold() -> None:
    assert collection_ids(["march", "April 2026", "a/b?c#d%", "Zürich", "..", ""]) == [
        "march",
        "April-2026",
        "a-b-c-d",
        "Z-rich",
        "map",
        "map-2",
    ]
    assert collection_ids(["a", "a", "a-2", "a"]) == ["a", "a-3", "a-2", "a-4"]


def test_the_promise_is_in_a_collection(first: Release) -> None:
    privacy = collection(HERE, "first", of_persons(first)).privacy
    assert (privacy.epsilon, privacy.delta, privacy.private) == (1, 0, True)
    assert (privacy.unit.name, privacy.unit.max_trips) == ("person", 5)
    assert privacy.counted == "from at most 5 trips of each person"
    assert privacy.release == first.provenance.id
    told = collection(HERE, "first", with_delta(first))
    assert told.privacy.delta == 1e-8
    assert told.privacy.promise == "Differentially private for one trip, epsilon = 1, delta = 1e-8."
    assert told.privacy.promise in str(told.description)


def test_it_says_that_counts_do_not_add_up_and_slices_do(first: Release, hourly: Release) -> None:
    for release in (first, hourly):
        told = collection(HERE, "one", release)
        words = "must not be added up across cells or areas"
        assert words in str(told.description)
        assert words in str(told.parameter_names.root["trips"].description)
        assert ("slices do add up" in str(told.description)) == (release is hourly)
    assert "must not be added up" in str(landing_page(HERE).description)


def test_parameters_are_those_that_the_release_has(first: Release, projected: Release) -> None:
    assert list(collection(HERE, "one", first).parameter_names.root) == ["trips", "low", "high"]
    assert list(collection(HERE, "one", projected).parameter_names.root) == ["trips"]
    unit = collection(HERE, "one", first).parameter_names.root["low"].unit
    assert unit is not None
    assert unit.label == "trips"


def test_what_is_not_private_is_named_so(first: Release) -> None:
    told = collection(HERE, "one", replace(first, provenance=replace(first.provenance, private=False)))
    assert list(told.parameter_names.root) == ["trips_not_private", "low", "high"]
    assert not told.privacy.private


def test_slices_are_a_custom_dimension_and_not_instants(first: Release, hourly: Release) -> None:
    assert collection(HERE, "one", first).extent.custom is None
    extent = collection(HERE, "one", hourly).extent
    assert extent.temporal is None
    assert extent.custom is not None
    (slices,) = extent.custom
    assert (slices.id, slices.interval, slices.values) == ("slice", [["00", "23"]], list(hourly.slices))
    assert "'hour' in Europe/Lisbon" in slices.reference
    assert "not instants" in slices.reference


def test_extent_and_crs(first: Release, projected: Release) -> None:
    told = collection(HERE, "one", projected)
    assert told.extent.spatial.crs == CRS84
    np.testing.assert_array_equal(
        told.extent.spatial.bbox, in_degrees(np.array([projected.grid.bounds]), projected.grid)
    )
    assert told.crs == [CRS84, "OGC:CRS84", "EPSG:4326", "EPSG:28355"] == list(crs_codes(projected.grid))
    queries = told.data_queries
    assert queries is not None
    assert queries.cube is not None
    assert [one["crs"] for one in queries.cube.link.variables.crs_details] == ["EPSG:28355"]  # type: ignore[union-attr]
    assert collection(HERE, "one", first).crs == [CRS84, "OGC:CRS84", "EPSG:4326"]


def test_an_extent_over_the_180th_meridian(first: Release) -> None:
    fiji = Grid((1_900_000, 3_700_000, 2_300_000, 4_100_000), 16, 16, "EPSG:3460")
    ((west, south, east, north),) = collection(HERE, "one", numbered(fiji, first)).extent.spatial.bbox
    assert 176 < west < 180
    assert -180 < east < -176
    assert -20 < south < north < -14


def test_models_are_those_of_the_standard(hourly: Release) -> None:
    told = collection(HERE, "one", hourly).model_dump(exclude_none=True, by_alias=True, exclude={"privacy"})
    assert Collection.model_validate(told).id == "one"
    assert len(set(conformance().conformsTo)) == len(conformance().conformsTo)
