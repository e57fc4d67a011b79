"""Each trip and person has one id, whatever type its column has."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from dqam.errors import InputError
from dqam.geometry.ids import LONGEST_ID, cast_each, ids_of, missing_id, plain_array, with_nulls, without_nulls
from dqam.sources import read


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([1, 2, None], pa.int16()), [1, 2, None]),
        (pa.array([1.0, -0.0, 1.5, 2.0**53, np.nan, np.inf]), [1, 0, None, None, None, None]),
        (pa.array([2**63 - 1, 0]), [None, 0]),
        (pa.array([2**64 - 1, 2**63], pa.uint64()), [None, 2**63]),
        (pa.array([" a", "a\t", "", " ", None, "007"]), ["a", "a", None, None, None, "007"]),
        (pa.array(["x" * LONGEST_ID, "x" * (LONGEST_ID + 1)]), ["x" * LONGEST_ID, None]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
        (pa.array(["a"]).cast(pa.string_view()), ["a"]),
        (pa.array([b"\xff", b"a"]).view(pa.string()), [None, "a"]),
        (pa.array([True, False]), ["true", "false"]),
    ],
)
def test_ids_of_any_type(values: pa.Array, expected: list[object]) -> None:
    assert ids_of(values, "demo", "trip").to_pylist() == expected


def test_lists_are_no_ids() -> None:
    with pytest.raises(InputError, match=r"demo: ids cannot be list.*\(trip\); use"):
        ids_of(pa.array([[1]]), "demo", "trip")


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64(), pa.string(), pa.large_string()])
def test_missing_ids_have_a_value_and_come_back(kind: pa.DataType) -> None:
    ids = pa.array([1, None, 2, None]).cast(kind)
    filled = without_nulls(ids)
    assert filled.null_count == 0
    assert filled[1] == filled[3] == missing_id(kind)
    assert with_nulls(filled).equals(ids)


def test_each_value_is_cast_by_itself() -> None:
    assert cast_each(pa.array(["1", "x", "2.5", ""]), pa.float64()).to_pylist() == [1.0, None, 2.5, None]
    assert plain_array(pa.array([b"ok", b"\xff"]).view(pa.string())).to_pylist() == ["ok", None]


def test_ids_that_are_floats_or_have_blanks():
    def ids(values):
        return read(pa.table({"tid": values, "lon": [0.0] * 3, "lat": [0.0] * 3})).trips().ids.to_pylist()

    assert ids(pa.array([1.0, 0.0, -0.0])) == [1, 0]
    assert ids(pa.array(["7", " 7", "7 "])) == ["7"]
    for odd, row in (([1.0, float("nan"), 1.0], 2), ([1.5, 1.5, 1.5], 1), ([1, 2, 2**63 - 1], 3)):
        with pytest.raises(InputError, match=f"row {row} has no tid"):
            ids(pa.array(odd))
