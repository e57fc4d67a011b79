"""Parquet files and folders of them are one table, and damaged ones are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dqam.errors import InputError
from dqam.sources import parquet_table, read
from dqam.sources.tables import Batches
from tests.sources.cases import (
    point_frame,
    refused,
    rows_of,
    source,
    table_of,
    text,
    to,
)


def test_damaged_parquet(tmp_path: Path) -> None:
    frame = pd.concat([point_frame()] * 500, ignore_index=True)
    frame["lat"] += np.random.default_rng(0).random(len(frame))
    frame["tid"] = np.arange(len(frame))
    whole = to(tmp_path / "whole", frame.to_parquet).read_bytes()
    refused(text(tmp_path / "a", whole[: len(whole) // 2]), "a is a damaged or incomplete Parquet file")
    refused(text(tmp_path / "b", whole[:-8] + b"\1\2\3\4PAR1"), "b is a damaged")
    refused(text(tmp_path / "c", b"PAR1"), "c is a damaged")
    page = pq.read_metadata(tmp_path / "whole").row_group(0).column(3).data_page_offset
    refused(text(tmp_path / "d", whole[:page] + b"\xff" * 50 + whole[page + 50 :]), "d cannot be read")


def test_text_of_parquet_is_checked_too(tmp_path: Path) -> None:
    broken = pa.array([b"[[1,2]]", b"[[1,\x85]]"]).view(pa.string())
    refused(to(tmp_path / "a", lambda f: pq.write_table(pa.table({"polyline": broken}), f)), "a cannot be read")


def test_only_needed_columns_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    plain = parquet_table.ParquetTable.batches

    def batches(self: parquet_table.ParquetTable, columns: list[str], *rest: object) -> Batches:
        asked.append(list(columns))
        return plain(self, columns, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(parquet_table.ParquetTable, "batches", batches)
    table = table_of(rows_of([3, 3])).append_column("much_else", pa.array(["x" * 100] * 6))
    pq.write_table(table, tmp_path / "a")
    source(tmp_path / "a").trips()
    assert asked == [["tid", "uid", "t", "lon", "lat"]]


def test_a_file_name_that_looks_like_a_pattern(tmp_path):
    """Statistics of another file must not tell that trips are complete."""
    keys = np.arange(2**12).repeat(4)
    odd, sibling = tmp_path / "t[1].parquet", tmp_path / "t1.parquet"
    for path, tid in ((odd, np.concatenate([keys, keys])), (sibling, np.full(10, 10**9))):
        zeros = np.zeros(len(tid))
        pq.write_table(pa.table({"tid": tid, "lon": zeros, "lat": zeros}), path, row_group_size=2**12)
    source = read(odd)
    source.batch = 2**12
    assert len(source.trips()) == 2**12


def test_files_of_a_folder_must_be_of_one_kind(tmp_path):
    table = pa.table({"tid": [1, 1], "lon": [0.0, 1.0], "lat": [0.0, 1.0]})
    for other in (
        table.set_column(0, "tid", pa.array(["1", "1"])),
        table.append_column("uid", pa.array([5, 6])),
        table.drop_columns(["lat"]).append_column("latitude", pa.array([0.0, 1.0])),
    ):
        pq.write_table(table, tmp_path / "a.parquet")
        pq.write_table(other, tmp_path / "b.parquet")
        with pytest.raises(InputError, match=r"b.parquet and a.parquet differ in"):
            read(tmp_path)
    pq.write_table(table, tmp_path / "b.parquet")
    pq.write_table(table, tmp_path / ".hidden.parquet")
    assert read(tmp_path).trips().points == 4
    assert len(read(tmp_path).trips()) == 1


@pytest.mark.parametrize("batch", [2, 1 << 20])
def test_a_row_of_a_folder_is_named_by_its_file(tmp_path: Path, batch: int) -> None:
    folder = tmp_path / "row 9"
    folder.mkdir()
    times = pd.date_range("2024-01-01", periods=5, freq="s")
    points = pd.DataFrame({"tid": ["a", "a", "a", "b", "b"], "datetime": times, "lng": 1.0, "lat": 2.0})
    for spoilt, place, says in (
        (
            points.assign(lng=[1, 1, 1, np.nan, 1]),
            "row 9: 1 of 15 points have invalid coordinates, first row 4",
            " (lon is missing",
        ),
        (points.assign(datetime=times.where(np.arange(5) != 0)), "row 9: row 1", " has no time"),
        (points.assign(tid=["a", "a", "a", "b", None]), "row 9: row 5", " has no tid"),
    ):
        for name, rows in (("a", points), ("b", spoilt), ("c", points)):
            rows.to_parquet(folder / f"{name}.parquet")
        refused(folder, f"{place} of b.parquet{says}", batch=batch)
    refused(folder / "b.parquet", "b.parquet: row 5 has no tid")
