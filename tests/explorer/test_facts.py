"""What the page and the API say about a release, and numbers that JSON does not have."""

import math

from dqam.explorer.facts import estimate, null_for_nan, release_info
from dqam.release.answers import Answer
from dqam.release.release import Release


def test_numbers_that_json_does_not_have_are_none() -> None:
    assert null_for_nan([1.5, math.nan, math.inf, -math.inf, 0.0]) == [1.5, None, None, None, 0.0]
    assert estimate(Answer(2.0, math.nan, math.nan)) == {"value": 2.0, "low": None, "high": None}


def test_a_release_is_described_by_its_provenance_and_grid(first: Release, projected: Release) -> None:
    told = release_info(3, "monday", first)
    assert (told["n"], told["name"], told["id"]) == (3, "monday", first.provenance.id)
    assert told["promise"] == first.provenance.promise
    assert told["grid"]["degrees"] == list(first.grid.bounds)
    west, south, east, north = release_info(0, "metres", projected)["grid"]["degrees"]
    assert 144 < west < east < 146
    assert -39 < south < north < -37
