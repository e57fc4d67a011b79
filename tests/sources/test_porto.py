"""The compiled parser gives what json.loads gives, to the last bit, and the real files read as they should."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dqam.errors import InputError
from dqam.sources import porto, read
from tests.sources.cases import coordinates, source, write_porto

DATA = Path(__file__).parents[3] / "shared" / "data"

decimals = st.builds(
    lambda sign, whole, part: f"{sign}{whole}" + (f".{part}" if part else ""),
    st.sampled_from(["", "-"]),
    st.integers(0, 10**18),
    st.text("0123456789", max_size=25),
)
numbers = decimals | st.floats(allow_nan=False, allow_infinity=False).map(repr) | st.integers(-180, 180).map(str)
spaces = st.sampled_from(["", " ", "\t", "\n "])


@st.composite
def polyline(draw: st.DrawFn) -> str:
    points = draw(st.lists(st.tuples(numbers, numbers), max_size=6))
    gap = draw(spaces)
    return "[" + f"{gap},{gap}".join(f"{gap}[{gap}{x},{gap}{y}{gap}]" for x, y in points) + f"{gap}]{gap}"


@settings(max_examples=400, deadline=None)
@given(st.lists(polyline(), min_size=1, max_size=5))
@example(["[]", "[[-8.618643,41.141412]]", "[[1e-3,2E+2]]", "[[0.1,-0.3]]"])
def test_parser_equals_json(texts: list[str]) -> None:
    x, y, lengths, bad = porto.parse(pa.array(["[[0,0]]", *texts])[1:], "a")
    assert not bad.any()
    points = [point for text in texts for point in json.loads(text)]
    expected = np.array(points, np.float64).reshape(-1, 2)
    assert lengths.tolist() == [len(json.loads(text)) for text in texts]
    np.testing.assert_array_equal(x, expected[:, 0])
    np.testing.assert_array_equal(y, expected[:, 1])


@settings(max_examples=300, deadline=None)
@given(polyline(), st.data())
def test_damaged_polylines_are_refused_exactly_where_json_refuses(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:at] + data.draw(st.sampled_from(["", "[", "]", ",", "0", "-", ".", "x", " "])) + text[at + 1 :]
    try:
        points = json.loads(damaged)
        good = isinstance(points, list) and all(
            isinstance(point, list) and len(point) == 2 and all(type(v) in (int, float) for v in point)
            for point in points
        )
    except ValueError:
        good = damaged == ""
        points = []
    _, _, lengths, bad = porto.parse(pa.array([damaged]), "a")
    assert bad.tolist() == [not good]
    assert lengths.tolist() == [len(points) if good else 0]


def test_long_decimals_equal_json() -> None:
    values = np.random.default_rng(0).uniform(-180, 180, (20_000, 2)).tolist()
    x, y, _, _ = porto.parse(pa.array([json.dumps([point]) for point in values]), "a")
    assert np.column_stack([x, y]).tolist() == values


def test_usual_polylines_need_no_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(porto, "_by_json", None)
    x, _, _, _ = porto.parse(pa.array(["[[-8.618643,41.141412],[-8.6,41.0]]", "[[123456789.012345, 0.000000]]"]), "a")
    assert x.tolist() == [-8.618643, -8.6, 123456789.012345]


@pytest.mark.parametrize(
    "text", ["[[1,2],[3]]", "[[1,2]", "[[1,2,3]]", "[[1,'2']]", '[["1",2]]', "{}", "[[01,2]]", "1", "[" * 99999]
)
def test_bad_polyline_names_its_row(text: str, tmp_path: Path) -> None:
    path = write_porto(tmp_path / "a.csv", ["[[1,2]]"] * 5000 + [text] + ["[[1,2]]"] * 10)
    with pytest.raises(InputError, match=r"a\.csv: row 5,001 has a polyline that is not a JSON list"):
        read(path).trips()


def test_empty_polylines_and_unknown_starts(tmp_path: Path) -> None:
    path = write_porto(tmp_path / "a.csv", ["[[1,2],[3,4]]", "[]", "", "[[5,6]]"])
    path.write_text(path.read_text().replace(",1372636858,", ",,", 1))
    made = source(path, batch=1)
    trips = made.trips()
    assert coordinates(trips) == [[(1, 2), (3, 4)], [(5, 6)]]
    assert made.dropped == {"trips without points": 2}
    assert trips.time is not None
    assert trips.time.tolist() == [0, 15_000_000, 1372636858_000_000]


def test_dropping_bad_points_of_polylines(tmp_path: Path) -> None:
    path = write_porto(tmp_path / "a.csv", ["[[1,2],[3,400]]", "[[999,1]]", "[[NaN,1],[5,6]]"])
    made = read(path, on_error="drop")
    assert coordinates(made.trips()) == [[(1, 2)], [(5, 6)]]
    assert made.dropped == {"points with invalid coordinates": 3, "trips without points": 1}
    with pytest.raises(
        InputError, match=r"3 of 5 points .* first row 1 \(lat is not between -90 and 90\).*on_error='drop'"
    ):
        read(path).trips()


@pytest.mark.parametrize("name", ["porto_first1500.csv", "porto_sample.csv.gz"])
def test_real_files(name: str, tmp_path: Path) -> None:
    import gzip

    path = DATA / name
    if not path.exists():
        pytest.skip(f"{path.name} is not at hand in ../shared/data")
    text = (gzip.decompress(path.read_bytes()) if name.endswith("gz") else path.read_bytes()).decode()
    rows = [row for row in csv.DictReader(text.splitlines()) if row["POLYLINE"] != "[]"]
    made = source(path, batch=10_000)
    parts = list(made)
    assert len(parts) > 3
    trips = made.trips()
    assert coordinates(trips) == [[tuple(point) for point in json.loads(row["POLYLINE"])] for row in rows]
    assert trips.ids is not None
    assert trips.ids.to_pylist() == [row["TRIP_ID"] for row in rows]
