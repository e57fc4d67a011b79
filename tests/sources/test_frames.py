"""Data frames of any library are tables."""

from __future__ import annotations

import datetime

import pandas as pd
import pytest

from dqam.geometry.slicing import Slicing
from dqam.sources import read
from dqam.sources.frames import _column
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


@pytest.mark.parametrize(
    ("rule", "values"),
    [
        ("k=true,false", [True, False, True]),
        ("k=True,False", [True, False]),
        ("k=2020-01-01T00:00:00,2020-01-02T00:00:00", [pd.Timestamp("2020-01-01"), pd.Timestamp("2020-01-02")]),
        ("k=2020-01-01,x", [datetime.date(2020, 1, 1)]),
        ("k=1,2", [1, 2, 3]),
        ("k=1,2", [1.0, 2.0, 2.5]),
        ("k=a,b", ["a", "b ", "c"]),
    ],
)
def test_no_row_changes_the_slice_of_another(rule: str, values: list[object]) -> None:
    """Although one more value can change the type of the whole column."""

    def labels(*more: object, dtype: str | None = None) -> list[int]:
        column = _column(pd.Series([*values, *more], dtype=dtype))  # type: ignore[call-overload]
        found: list[int] = Slicing.parse(rule).kinds(column).tolist()
        return found[: len(values)]

    expected = labels()
    assert 0 in expected
    assert labels(dtype="category") == expected
    for more in (None, "zzz", float("nan"), pd.NaT, 1.5, True, pd.Timestamp("2021-01-01"), b"x", 10**18):
        assert labels(more) == expected, more
