"""Data frames of any library are tables."""

from __future__ import annotations

from dqam.sources import read
from tests.sources.cases import (
    EXPECTED,
    coordinates,
    moving,
    point_frame,
)


def test_one_moving_trajectory() -> None:
    assert coordinates(read(moving(collection=False)).trips()) == EXPECTED[:1]


def test_columns_that_are_not_named_by_text() -> None:
    frame = point_frame().set_axis(range(5), axis=1)
    given = {"person": "0", "trip": "1", "time": "2", "lat": "3", "lon": "4"}
    assert coordinates(read(frame, columns=given).trips()) == EXPECTED
