"""Parquet and GeoParquet files as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pyarrow.types as pt
from pyarrow.fs import FileSystem

from dqam.errors import InputError
from dqam.geometry.declared_crs import declared_crs, primary_column
from dqam.runtime.threads import ahead
from dqam.sources.tables import Batches, RemainingMinimum, Skip, Table, input_errors

_BIG_ROW_GROUP = 32 << 20  # bytes; larger row groups are streamed rather than decoded whole


class ParquetTable(Table):
    """Parquet or GeoParquet files with the same columns, read one after the other.

    files  the Arrow file system that the paths are on; the local one if None
    """

    def __init__(self, name: str, paths: Sequence[Path], files: FileSystem | None = None) -> None:
        self.name, self._remote = name, files
        self.kind = "Parquet file" if len(paths) == 1 else f"{len(paths):,} Parquet files"
        self.paths, self._files = list(paths), []
        whole = "is a damaged or incomplete Parquet file; copy or write it again."
        with input_errors(self._named(0), whole):
            self._data = pyarrow.dataset.dataset([str(path) for path in paths], format="parquet", filesystem=files)
            self.names = list(self._data.schema.names)
        for i, fragment in enumerate(self._data.get_fragments()):
            with input_errors(self._named(i), whole):
                self._files.append(fragment.metadata)
        self._refuse_mixed()
        self.geometry = primary_column(self._data.schema)
        self._rows = sum(file.num_rows for file in self._files)

    def _named(self, file: int) -> str:
        return self.name if len(self.paths) == 1 else f"{self.paths[file].name} in {self.name}"

    def _refuse_mixed(self) -> None:
        """Raise an `InputError` unless all files have the same columns of the same types and one CRS."""
        first = self._data.schema
        kinds = dict(zip(first.names, first.types, strict=True))
        for path, fragment in list(zip(self.paths, self._data.get_fragments(), strict=True))[1:]:
            other = fragment.physical_schema
            others = dict(zip(other.names, other.types, strict=True))
            mixed = [name for name in kinds | others if kinds.get(name) != others.get(name)]
            if (
                not mixed
                and (column := primary_column(first))
                and declared_crs(first, column) != declared_crs(other, column)
            ):
                mixed = [f"the CRS of {column}"]
            if mixed:
                raise InputError(
                    f"{self.name}: {path.name} and {self.paths[0].name} differ in {mixed[0]}; write them with the "
                    "same columns, or give one file at a time."
                )

    def batches(self, columns: Sequence[str], rows: int, skip: Skip | None = None) -> Batches:
        done = 0
        with input_errors(self.name):
            for batch in self._batches(list(columns), rows):
                done += batch.num_rows
                yield batch, done / max(self._rows, 1)

    def _batches(self, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        groups = [file.row_group(i) for file in self._files for i in range(file.num_row_groups)]
        # Encoded columns can be much smaller than their values, so both sizes count.
        size = max((max(group.total_byte_size, 8 * len(columns) * group.num_rows) for group in groups), default=0)
        if size <= _BIG_ROW_GROUP:
            # Row groups are decoded on all cores, a few ahead. (Arrow's scanner would decode up to 1 GiB ahead.)
            parts = (part for fragment in self._data.get_fragments() for part in fragment.split_by_row_group())
            for table in ahead(lambda part: part.to_table(self._data.schema, columns=columns), parts):
                yield from table.to_batches(max_chunksize=rows)
            return
        for path in self.paths:  # streams within a row group, in little memory
            where = path if self._remote is None else self._remote.open_input_file(str(path))
            with pyarrow.parquet.ParquetFile(where, buffer_size=1 << 22, pre_buffer=False) as file:
                for batch in file.iter_batches(rows, columns=columns):
                    yield batch.select(columns).cast(pa.schema([self._data.schema.field(name) for name in columns]))

    def locate(self, row: int) -> str:
        ends = np.cumsum([file.num_rows for file in self._files])
        file = int(np.searchsorted(ends, row))
        if len(ends) == 1 or file == len(ends):
            return super().locate(row)
        return f"row {row - int(ends[file]) + self._files[file].num_rows:,} of {self.paths[file].name}"

    def crs(self, column: str) -> str | None:
        return declared_crs(self._data.schema, column)

    def remaining_minimum(self, column: str, most: int) -> RemainingMinimum | None:
        kind = self._data.schema.field(column).type
        if not pt.is_integer(kind) or pt.is_uint64(kind):
            return None
        rows: list[int] = []
        smallest: list[int] = []
        if self._remote or any(character in str(path) for path in self.paths for character in "*?[]{}"):
            return None  # DuckDB would take such a name for a pattern and read other files
        for path in self.paths:
            # DuckDB reads the statistics, because pyarrow crashes the process on damaged column metadata.
            query = "SELECT row_group_num_rows, stats_min_value FROM parquet_metadata(?) WHERE path_in_schema = ? "
            try:
                with duckdb.connect() as base:
                    groups = base.execute(f"{query} ORDER BY row_group_id", [str(path), column]).fetchall()
                rows += [int(count) for count, _ in groups]
                smallest += [int(least) for _, least in groups]
            except (duckdb.Error, TypeError, ValueError):  # no statistics
                return None
        known = [file.row_group(i).num_rows for file in self._files for i in range(file.num_row_groups)]
        return None if rows != known or max(rows, default=0) > most else RemainingMinimum(rows, smallest)
