"""Numbers and times are read from columns of any type."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from dqam.errors import InputError
from dqam.sources import read
from tests.sources.cases import (
    START,
    to,
)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["2013-07-01T00:00:58", "2013-07-01 00:01:13.5"], [START * 10**6, START * 10**6 + 15_500_000]),
        (["2013-07-01T00:00:58Z", "2013-07-01T02:01:13+02:00"], [START * 10**6, START * 10**6 + 15_000_000]),
        (["2013-07-01T00:00:58", "2013-07-01T00:00:58.000001999"], [START * 10**6, START * 10**6 + 1]),
        (["1372636858", "1372636858.25"], [START * 10**6, START * 10**6 + 250_000]),
    ],
)
def test_times_as_text(texts: list[str], expected: list[int], tmp_path: Path) -> None:
    rows = "".join(f"1,{text},1,1\n" for text in texts)
    path = to(tmp_path / "a", lambda f: f.write_text("tid,time,lon,lat\n" + rows))
    assert read(path).trips().time.tolist() == expected  # type: ignore[union-attr]


def test_times_of_other_types() -> None:
    days = pd.to_datetime(["2013-07-01", "2013-07-02"])
    for values in (days.tz_localize("UTC"), days.astype("datetime64[s]"), pa.array(days.date)):
        table = pa.table({"tid": [1, 1], "t": values, "x": [1.0, 2.0], "y": [1, 2]})
        time = read(table).trips().time
        assert time is not None
        assert time.tolist() == [1372636800 * 10**6, (1372636800 + 86400) * 10**6]


def test_times_in_milliseconds_are_not_taken_for_seconds():
    table = pa.table({"tid": [1], "lon": [0.0], "lat": [0.0], "t": [1372636858000]})
    with pytest.raises(InputError, match="milliseconds"):
        read(table).trips()


def test_time_zones_do_not_mix_across_batches():
    times = ["2024-01-01T10:00:00", "2024-01-01T10:00:15", "2024-01-01T10:00:30+02:00", "2024-01-01T10:00:45+02:00"]
    source = read(pa.table({"tid": [1] * 4, "lon": [0.0] * 4, "lat": [0.0] * 4, "t": times}))
    source.batch = 2
    with pytest.raises(InputError, match="time zone"):
        source.trips()
