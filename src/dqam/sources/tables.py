"""`Table`: the common interface of files and data frames, which are read as streams of Arrow batches.

A `Table` reads only the requested columns and reports its progress. Errors of Arrow, DuckDB and the operating system
become one `InputError`.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import duckdb
import numpy as np
import pyarrow as pa

from dqam.errors import InputError
from dqam.geometry.arrays import Integers
from dqam.geometry.declared_crs import declared_crs, primary_column

Batches = Iterator[tuple[pa.RecordBatch, float]]
Skip = Callable[[str, int], None]  # called with the reason why rows are left out, and their number


def skip_silently(reason: str, count: int) -> None:
    """A `Skip` that counts nothing, for a second pass over rows that were counted in the first."""


@contextmanager
def input_errors(name: str, verdict: str | None = None) -> Iterator[None]:
    """Turn errors of Arrow, DuckDB and the operating system into an `InputError`: one sentence, or `verdict`."""
    try:
        yield
    except MemoryError:
        raise
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InputError(f"{name} is a damaged or incomplete gzip file; copy it again.") from None
    except (pa.ArrowException, duckdb.Error, OSError, UnicodeError, csv.Error) as error:
        words = str(error)
        if "compressed stream" in words or "zlib" in words:
            raise InputError(f"{name} is a damaged or incomplete gzip file; copy it again.") from None
        if verdict is not None:
            raise InputError(f"{name} {verdict}") from None
        quotes = isinstance(error, pa.ArrowException | duckdb.Error)  # other errors are about files, not data
        reason = (without_values(words) if quotes else words.splitlines()[0][:160]) if words else type(error).__name__
        raise InputError(f"{name} cannot be read ({reason.rstrip('. ')}); check the file, or write it again.") from None


def without_values(words: str) -> str:
    """The first line of an error of a library, without the data that it may quote.

    >>> without_values("Could not convert '41.1N' with type str: tried to convert to double.")
    "Could not convert '...' with type str: tried to convert to double."
    """
    line = words.splitlines()[0]
    return re.sub(r"""(['"]).*?\1|-?\d+\.\d+""", lambda found: f"{found[1] or ''}...{found[1] or ''}", line)[:160]


class RemainingMinimum:
    """A lower bound of an integer column in the rows still to come, from Parquet's row group statistics."""

    def __init__(self, rows: Sequence[int], smallest: Sequence[int]) -> None:
        self._ends = np.cumsum(rows)
        lowest = np.array([*smallest, np.iinfo(np.int64).max], np.int64)
        self._lowest: Integers = np.minimum.accumulate(lowest[::-1])[::-1]

    def after(self, row: int) -> int:
        """A lower bound for all rows after the first `row` rows; a row group read in part counts as still to come."""
        return int(self._lowest[np.searchsorted(self._ends, row, side="right")])


class Table:
    """The interface of all tables, which may be larger than memory.

    name      the name of the file, or the type of the object
    kind      what the table is stored in
    names     the names of its columns
    geometry  the geometry column that the format itself declares
    """

    name: str
    kind: str
    names: list[str]
    geometry: str | None = None

    def batches(self, columns: Sequence[str], rows: int, skip: Skip | None = None) -> Batches:
        """Batches of at most `rows` rows in the table's order, each with the fraction of the table read so far.

        Damaged rows are left out and counted by `skip`; without it they raise an `InputError`.
        """
        raise NotImplementedError

    def loaded(self, columns: Sequence[str], skip: Skip | None = None) -> Table:
        """The same table in memory if it is small enough that this is faster than reading it twice."""
        return self

    def locate(self, row: int) -> str:
        """Where a row is, in words for a message; the first row is 1."""
        return f"row {row:,}"

    def crs(self, column: str) -> str | None:
        """The CRS that the table declares for a geometry column."""
        return None

    def remaining_minimum(self, column: str, most: int) -> RemainingMinimum | None:
        """Lower bounds of a column; None if there are no statistics, or a row group has more than `most` rows."""
        return None


class MemoryTable(Table):
    """A table in memory; `select` converts the requested columns to Arrow."""

    def __init__(self, name: str, kind: str, names: Sequence[str], select: Callable[[list[str]], pa.Table]) -> None:
        self.name, self.kind, self.names, self._select = name, kind, list(names), select

    def batches(self, columns: Sequence[str], rows: int, skip: Skip | None = None) -> Batches:
        with input_errors(self.name):
            table = self._select(list(columns))
        done = 0
        for batch in table.to_batches(max_chunksize=rows):
            done += batch.num_rows
            yield batch, done / max(len(table), 1)

    def loaded(self, columns: Sequence[str], skip: Skip | None = None) -> Table:
        with input_errors(self.name):
            table = self._select(list(columns))
        return MemoryTable(self.name, self.kind, columns, table.select)


class ArrowTable(MemoryTable):
    """An Arrow table in memory."""

    def __init__(self, name: str, table: pa.Table) -> None:
        super().__init__(name, "Arrow table", table.column_names, table.select)
        self._schema = table.schema
        self.geometry = primary_column(table.schema)

    def crs(self, column: str) -> str | None:
        return declared_crs(self._schema, column)
