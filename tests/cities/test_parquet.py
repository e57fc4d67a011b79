"""Points in a Parquet file, whole or not there at all."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dqam.cities import parquet as module
from dqam.cities import write_parquet
from dqam.errors import InputError
from dqam.geometry.trips import Trips


def batch(first: int) -> Trips:
    """Three trips of 2, 1 and 3 points."""
    x = first + np.arange(6) / 7
    time = 1_700_000_000_000_000 + first * 1_000_000 + np.arange(6) * 15_000_000
    ids = pa.array(np.arange(first, first + 3))
    return Trips(x, -x, np.array([0, 2, 3, 6]), time, ids, pa.array([5, 7, 5]))


def test_columns_and_rounding(tmp_path):
    path = tmp_path / "trips.parquet"
    assert write_parquet([batch(0), batch(3)], path, 6) == 12
    table = pq.read_table(path)
    assert table.schema.names == ["uid", "tid", "datetime", "lng", "lat"]
    assert table.schema.types == [pa.int64(), pa.int64(), pa.timestamp("us"), pa.float64(), pa.float64()]
    assert table["tid"].to_pylist() == [0, 0, 1, 2, 2, 2, 3, 3, 4, 5, 5, 5]
    assert table["uid"].to_pylist() == [5, 5, 7, 5, 5, 5] * 2
    assert table["lng"].to_pylist()[:3] == [0.0, 0.142857, 0.285714]
    assert table["lat"].to_pylist()[1] == -0.142857
    times = table["datetime"].cast(pa.int64()).to_pylist()
    assert times[:2] == [1_700_000_000_000_000, 1_700_000_015_000_000]
    assert list(tmp_path.iterdir()) == [path]


def test_small_batches_share_row_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "GROUP", 10)
    told = []
    write_parquet((batch(k) for k in range(0, 15, 3)), tmp_path / "t.parquet", 15, lambda *now: told.append(now))
    metadata = pq.read_metadata(tmp_path / "t.parquet")
    assert [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)] == [12, 12, 6]
    assert told == [(3, 15), (6, 15), (9, 15), (12, 15), (15, 15)]


@pytest.mark.parametrize("failure", [RuntimeError("full"), KeyboardInterrupt()])
def test_a_failure_leaves_what_was_there(tmp_path, failure):
    def broken():
        yield batch(0)
        assert len(list(tmp_path.iterdir())) == 2  # it is being written, under another name
        raise failure

    path = tmp_path / "trips.parquet"
    path.write_text("older")
    with pytest.raises(type(failure)):
        write_parquet(broken(), path, 6)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text() == "older"


def test_what_can_not_be_written(tmp_path):
    with pytest.raises(InputError, match="There is no folder .*nowhere"):
        write_parquet([batch(0)], tmp_path / "nowhere" / "t.parquet", 3)
    with pytest.raises(InputError, match="is a folder"):
        write_parquet([batch(0)], tmp_path, 3)
    with pytest.raises(InputError, match="needs the time, id and person"):
        write_parquet([Trips.from_lists([[(0.0, 0.0)]])], tmp_path / "t.parquet", 1)
    assert list(tmp_path.iterdir()) == []
