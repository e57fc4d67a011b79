"""CSV files of any layout are read as text, and damaged ones are refused with the row."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from dqam.sources import csv_table, read
from tests.sources.cases import (
    coordinates,
    refused,
    text,
    to,
    write_porto,
    zipped,
)


def test_damaged_gzip(tmp_path: Path) -> None:
    rows = "".join(f"{i // 9},{i},{np.random.default_rng(i).random()},1\n" for i in range(5000))
    whole = gzip.compress(f"tid,t,lon,lat\n{rows}".encode())
    for i, cut in enumerate((12, len(whole) // 2, len(whole) - 4)):
        refused(text(tmp_path / f"{i}.gz", whole[:cut]), f"{i}.gz is a damaged or incomplete gzip", "copy")
    porto = gzip.compress(write_porto(tmp_path / "a").read_bytes())
    refused(text(tmp_path / "b.gz", porto[:-20]), "b.gz is a damaged or incomplete gzip")
    broken = bytearray(whole)
    broken[len(whole) // 2] ^= 255
    refused(text(tmp_path / "c.gz", bytes(broken)), "c.gz")


@pytest.mark.parametrize("in_memory", [True, False])
def test_bad_rows_of_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: bool) -> None:
    monkeypatch.setattr(csv_table, "IN_MEMORY", 1 << 30 if in_memory else 0)
    rows = "tid,lon,lat\n" + "1,2,3\n" * 20
    refused(text(tmp_path / "a.csv", rows + "1,2\n"), "a.csv: row 21 has 2 fields where the header has 3", "repair")
    refused(
        text(tmp_path / "b.csv", rows + "1,2,north\n"), "b.csv: row 21 has a value like 'aaaaa'", "number", "repair"
    )
    refused(text(tmp_path / "c.csv", rows.encode() + b"\xff\xfe,2,3\n"), "c.csv: row 21", "UTF-8")
    refused(text(tmp_path / "d.csv", rows + ",2,3\n"), "d.csv: row 21 has no tid", "give", batch=6)
    porto = write_porto(tmp_path / "e.csv").read_text()
    refused(text(tmp_path / "e.csv", porto + "1,2\n"), "e.csv: row 8 has 2 fields where the header has 7")


def test_text_that_is_none(tmp_path: Path) -> None:
    refused(text(tmp_path / "a.csv", "tid,lon,lat\n1,2,3\n".encode("utf-16")), "neither Parquet nor UTF-8", "write")
    refused(text(tmp_path / "b.csv", b"tid,l\xe4nge,lat\n1,2,3\n"), "b.csv cannot be read", "utf-8")


def test_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    content = "TripID,Lon,Lat\r\n1,2,3\r\n1,4,5\r\n".encode("utf-8-sig")
    path = to(tmp_path / "a", lambda f: f.write_bytes(content))
    assert coordinates(read(path).trips()) == [[(2, 3), (4, 5)]]


def test_gzip_without_its_name(tmp_path: Path) -> None:
    assert len(read(zipped(write_porto(tmp_path / "a.txt", ["[[1,2]]"]))).trips()) == 1


def test_ids_of_csv_are_kept_as_written(tmp_path: Path) -> None:
    path = to(tmp_path / "a", lambda f: f.write_text("tid,lon,lat\n7,1,1\n007,2,2\n"))
    assert read(path).trips().ids.to_pylist() == ["7", "007"]  # type: ignore[union-attr]
