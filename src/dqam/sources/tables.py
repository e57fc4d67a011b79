"""Files as streams of Arrow batches: CSV, gzipped CSV and Parquet, told apart by their bytes.

A `Table` reads only the columns asked for and says how far it is. What Arrow has to say about a damaged
file becomes one `InputError`.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet
import pyarrow.types as pt
from pyarrow.fs import FileSelector, FileSystem, FileType

from dqam.errors import InputError
from dqam.geometry.arrays import Integers
from dqam.runtime.threads import ahead
from dqam.sources.geometry_column import declared_crs, primary_column
from dqam.sources.values import cast_each

BLOCK = 1 << 24
IN_MEMORY = 512 << 20
LARGEST_BLOCK = 2**31 - 1
NOT_TEXT = "\ufffd"
BAD_ROWS = "rows that are not valid CSV"
_GZIP_RATIO = 6  # text is about so much larger than its gzip
_BIG_ROW_GROUP = 32 << 20

Batches = Iterator[tuple[pa.RecordBatch, float]]
Skip = Callable[[str, int], None]  # called with why, and how many, rows are left out


def ignored(reason: str, count: int) -> None:
    """A `Skip` for another look at rows that are counted elsewhere."""


@contextmanager
def translated(name: str, verdict: str | None = None) -> Iterator[None]:
    """Turn what Arrow and the system say about unreadable data into one sentence, or into `verdict`."""
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
        reason = words.splitlines()[0][:160].rstrip(". ") if words else type(error).__name__
        raise InputError(f"{name} cannot be read ({reason}); check or write the file again.") from None


class Floors:
    """The smallest value of an integer column in the rows still to come, by Parquet's row group statistics."""

    def __init__(self, rows: Sequence[int], smallest: Sequence[int]) -> None:
        self._ends = np.cumsum(rows)
        lowest = np.array([*smallest, np.iinfo(np.int64).max], np.int64)
        self._lowest: Integers = np.minimum.accumulate(lowest[::-1])[::-1]

    def after(self, row: int) -> int:
        """A value that no row after the first `row` rows is below; a group read in part counts as to come."""
        return int(self._lowest[np.searchsorted(self._ends, row, side="right")])


class Table:
    """A table that may be larger than memory; this one holds nothing and is what all kinds share."""

    name: str
    names: list[str]
    geometry: str | None = None  # the geometry column that the format itself points to

    def batches(self, columns: Sequence[str], rows: int, skip: Skip | None = None) -> Batches:
        """Batches of at most `rows` rows in the table's order, each with the part of the table read by then.

        Damaged rows are left out if there is a `skip`; otherwise they raise an `InputError`.
        """
        raise NotImplementedError

    def loaded(self, columns: Sequence[str], skip: Skip | None = None) -> Table:
        """The same table in memory, if reading it once is better than reading it twice."""
        return self

    def place(self, row: int) -> str:
        """Where a row is, for people; the first one is 1."""
        return f"row {row:,}"

    def crs(self, column: str) -> str | None:
        """The CRS that the table declares for a geometry column."""
        return None

    def floors(self, column: str, most: int) -> Floors | None:
        """What statistics know about the smallest values to come; None without any or with over `most` rows a group."""
        return None


class MemoryTable(Table):
    """A table in memory; `select` makes Arrow of the columns that are asked for."""

    def __init__(self, name: str, names: Sequence[str], select: Callable[[list[str]], pa.Table]) -> None:
        self.name, self.names, self._select = name, list(names), select

    def batches(self, columns: Sequence[str], rows: int, skip: Skip | None = None) -> Batches:
        with translated(self.name):
            table = self._select(list(columns))
        done = 0
        for batch in table.to_batches(max_chunksize=rows):
            done += batch.num_rows
            yield batch, done / max(len(table), 1)

    def loaded(self, columns: Sequence[str], skip: Skip | None = None) -> Table:
        with translated(self.name):
            table = self._select(list(columns))
        return MemoryTable(self.name, columns, table.select)


class ArrowTable(MemoryTable):
    """An Arrow table in memory."""

    def __init__(self, name: str, table: pa.Table) -> None:
        super().__init__(name, table.column_names, table.select)
        self._schema = table.schema
        self.geometry = primary_column(table.schema)

    def crs(self, column: str) -> str | None:
        return declared_crs(self._schema, column)


class CsvTable(Table):
    """A CSV file, gzipped or not. All columns are text, exactly as written."""

    def __init__(self, path: Path, zipped: bool) -> None:
        self.name, self._path, self._zipped = path.name, path, zipped
        self._size = path.stat().st_size
        with translated(self.name), gzip.open(path) if zipped else path.open("rb") as file:
            line = b""
            while not line.strip():
                if not (line := file.readline(BLOCK)):
                    raise InputError(f"{self.name} is empty; give a file with a header and rows.")
        if b"\0" in line:
            raise InputError(f"{self.name} is neither Parquet nor UTF-8 text; write it as one of these.")
        with translated(self.name):
            header = line.decode("utf-8-sig").rstrip("\r\n")
            self._delimiter = max(",;\t", key=header.count)
            self.names = next(csv.reader([header], delimiter=self._delimiter))

    def batches(self, columns: Sequence[str], rows: int, skip: Skip | None = None) -> Batches:
        for batch, fraction in self._rows(columns, skip):
            for start in range(0, batch.num_rows, rows):
                yield batch.slice(start, rows), fraction

    def loaded(self, columns: Sequence[str], skip: Skip | None = None) -> Table:
        if self._size * (_GZIP_RATIO if self._zipped else 1) >= IN_MEMORY:
            return self
        kinds = pa.schema([(name, pa.string()) for name in columns])
        with translated(self.name):
            return ArrowTable(
                self.name, pa.Table.from_batches([batch for batch, _ in self._rows(columns, skip)], kinds)
            )

    def _rows(self, columns: Sequence[str], skip: Skip | None) -> Batches:
        """All rows; if bad rows are left out, rows of any length are read too."""
        block, done, mended = BLOCK, 0, False
        while True:
            seen = 0
            skipped = Counter[str]()
            with pa.OSFile(str(self._path)) as raw:
                try:
                    for batch in self._reader(raw, columns, block, skip and skipped.update, mended):
                        seen += batch.num_rows
                        new = min(batch.num_rows, seen - done)
                        if new > 0:
                            done = seen
                            yield batch.slice(batch.num_rows - new), min(raw.tell() / self._size, 1.0)
                except pa.ArrowInvalid as error:
                    if skip and "straddl" in str(error) and block < LARGEST_BLOCK:
                        block = min(8 * block, LARGEST_BLOCK)
                    elif skip and re.search(r"Expected \d+ columns", str(error)) and not mended:
                        mended = True  # a row to skip is not UTF-8, and the handler of such rows needs text
                    else:
                        raise self._explained(error, columns) from None
                    continue
            if skip is not None:
                skip(BAD_ROWS, skipped[BAD_ROWS])
            return

    def _reader(
        self,
        raw: pa.NativeFile,
        columns: Sequence[str],
        block: int,
        skipped: Callable[[list[str]], None] | None = None,
        mended: bool = False,
        threads: bool = True,
    ) -> Iterator[pa.RecordBatch]:
        """Batches of text; if bad rows are skipped, text that is not UTF-8 (or was not when it was written) is null."""
        kind = pa.binary() if skipped else pa.string()
        handler = (lambda _: skipped([BAD_ROWS]) or "skip") if skipped else None
        stream = pa.CompressedInputStream(raw, "gzip") if self._zipped else raw
        with translated_but_invalid(self.name), _without_words_on_text():
            reader = pyarrow.csv.open_csv(
                pa.PythonFile(_Mended(stream), "r") if mended else stream,
                pyarrow.csv.ReadOptions(block_size=block, use_threads=threads),
                pyarrow.csv.ParseOptions(
                    delimiter=self._delimiter, invalid_row_handler=handler, newlines_in_values=skipped is not None
                ),
                pyarrow.csv.ConvertOptions(
                    include_columns=list(columns), column_types=dict.fromkeys(columns, kind), strings_can_be_null=True
                ),
            )
            while (batch := next(reader, None)) is not None:
                if skipped:
                    texts = [_sound(cast_each(column, pa.string())) for column in batch.columns]
                    batch = pa.record_batch(texts, batch.schema.names)
                yield batch

    def _explained(self, error: pa.ArrowInvalid, columns: Sequence[str]) -> InputError:
        """Read again up to the bad row, with one thread, because only so does Arrow number the rows."""
        with pa.OSFile(str(self._path)) as raw:
            try:
                for _ in self._reader(raw, columns, BLOCK, threads=False):
                    pass
            except pa.ArrowInvalid as numbered:
                error = numbered
        words = str(error)
        row = int(found[1]) - 1 if (found := re.search(r"Row #(\d+)", words)) else None  # the header is their row 1
        where = f"{self.name}: row {row:,}" if row is not None else f"{self.name}: a row"
        if found := re.search(r"Expected (\d+) columns, got (\d+)", words):
            return InputError(
                f"{where} has {found[2]} fields where the header has {found[1]}; repair the row or its quotes."
            )
        if "UTF8" in words:
            return InputError(f"{where} is not UTF-8 text; save the file as UTF-8.")
        if "straddl" in words:
            return InputError(
                f"{where} is longer than {BLOCK >> 20} MiB; check that quotes are closed, or write shorter rows."
            )
        return InputError(f"{self.name} cannot be read as CSV ({words.splitlines()[0][:120]}); repair the file.")


@contextmanager
def _without_words_on_text() -> Iterator[None]:
    """Silence the traceback that Arrow prints for a bad row that is not UTF-8; the row is then read in another way."""
    before = sys.unraisablehook
    sys.unraisablehook = lambda told: None if isinstance(told.exc_value, UnicodeDecodeError) else before(told)
    try:
        yield
    finally:
        sys.unraisablehook = before


def _sound(texts: pa.Array) -> pa.Array:
    """The texts, null where one contains the replacement character for bytes that are not UTF-8."""
    bad = pc.match_substring(texts, NOT_TEXT)
    return pc.if_else(bad, pa.scalar(None, texts.type), texts) if pc.any(bad).as_py() else texts


class _Mended(io.RawIOBase):
    """A stream in which bytes that are not UTF-8 are replaced by the replacement character."""

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream, self._decoder = stream, codecs.getincrementaldecoder("utf-8")("replace")

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes: one byte may become three, and up to three may be left from the last call."""
        while True:
            data = self._stream.read(size if size < 0 else max(1, size // 3 - 3))
            text = self._decoder.decode(data, final=not data)
            if text or not data:
                return text.encode()


class ParquetTable(Table):
    """A Parquet or GeoParquet file, or a folder of them in the order of their names; on a file system of Arrow's, if
    one is given."""

    def __init__(self, name: str, paths: Sequence[Path], files: FileSystem | None = None) -> None:
        self.name, self._remote = name, files
        self.paths, self._files = list(paths), []
        whole = "is a damaged or incomplete Parquet file; copy or write it again."
        with translated(self._named(0), whole):
            self._data = pyarrow.dataset.dataset([str(path) for path in paths], format="parquet", filesystem=files)
            self.names = list(self._data.schema.names)
        for i, fragment in enumerate(self._data.get_fragments()):
            with translated(self._named(i), whole):
                self._files.append(fragment.metadata)
        self._refuse_mixed()
        self.geometry = primary_column(self._data.schema)
        self._rows = sum(file.num_rows for file in self._files)

    def _named(self, file: int) -> str:
        return self.name if len(self.paths) == 1 else f"{self.paths[file].name} in {self.name}"

    def _refuse_mixed(self) -> None:
        """One table means the same columns in every file: else ids and times of one would be read as the other's."""
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
        with translated(self.name):
            for batch in self._batches(list(columns), rows):
                done += batch.num_rows
                yield batch, done / max(self._rows, 1)

    def _batches(self, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        groups = [file.row_group(i) for file in self._files for i in range(file.num_row_groups)]
        # Encoded columns can be much smaller than their values, so both are looked at.
        size = max((max(group.total_byte_size, 8 * len(columns) * group.num_rows) for group in groups), default=0)
        if size <= _BIG_ROW_GROUP:
            # Row groups are decoded on all cores, a few ahead. (A scanner of the whole would decode up to 1 GiB ahead.)
            parts = (part for fragment in self._data.get_fragments() for part in fragment.split_by_row_group())
            for table in ahead(lambda part: part.to_table(self._data.schema, columns=columns), parts):
                yield from table.to_batches(max_chunksize=rows)
            return
        for path in self.paths:  # while this streams within a row group, in little memory
            where = path if self._remote is None else self._remote.open_input_file(str(path))
            with pyarrow.parquet.ParquetFile(where, buffer_size=1 << 22, pre_buffer=False) as file:
                for batch in file.iter_batches(rows, columns=columns):
                    yield batch.select(columns).cast(pa.schema([self._data.schema.field(name) for name in columns]))

    def place(self, row: int) -> str:
        ends = np.cumsum([file.num_rows for file in self._files])
        file = int(np.searchsorted(ends, row))
        if len(ends) == 1 or file == len(ends):
            return super().place(row)
        return f"row {row - int(ends[file]) + self._files[file].num_rows:,} of {self.paths[file].name}"

    def crs(self, column: str) -> str | None:
        return declared_crs(self._data.schema, column)

    def floors(self, column: str, most: int) -> Floors | None:
        kind = self._data.schema.field(column).type
        if not pt.is_integer(kind) or pt.is_uint64(kind):
            return None
        rows: list[int] = []
        smallest: list[int] = []
        if self._remote or any(character in str(path) for path in self.paths for character in "*?[]{}"):
            return None  # DuckDB would take such a name for a pattern, and answer for other files
        for path in self.paths:
            # DuckDB reads these, because on a damaged footer pyarrow's column metadata end the whole process.
            query = "SELECT row_group_num_rows, stats_min_value FROM parquet_metadata(?) WHERE path_in_schema = ? "
            try:
                with duckdb.connect() as base:
                    groups = base.execute(f"{query} ORDER BY row_group_id", [str(path), column]).fetchall()
                rows += [int(count) for count, _ in groups]
                smallest += [int(least) for _, least in groups]
            except (duckdb.Error, TypeError, ValueError):  # no statistics
                return None
        known = [file.row_group(i).num_rows for file in self._files for i in range(file.num_row_groups)]
        return None if rows != known or max(rows, default=0) > most else Floors(rows, smallest)


def open_url(url: str) -> Table:
    """Parquet files at a URL that Arrow knows, such as s3://bucket/folder; all below it, if it is a folder."""
    with translated(url):
        files, path = FileSystem.from_uri(url)
        found = files.get_file_info(path)
        if found.type is FileType.Directory:
            below = files.get_file_info(FileSelector(path, recursive=True))
            paths = sorted(Path(file.path) for file in below if file.is_file and file.path.endswith(".parquet"))
        else:
            paths = [Path(path)] if found.is_file else []
    if not paths:
        raise InputError(f"{url} has no files that end with .parquet; check the address.")
    return ParquetTable(Path(path).name, paths, files)


def open_path(path: Path) -> Table:
    """The table in a file or folder, whatever it is called."""
    if path.is_dir():
        files = [child for child in path.iterdir() if child.is_file() and child.name[0] not in "._"]
        paths = sorted(child for child in files if _head(child) == b"PAR1")
        if broken := sorted(child.name for child in files if child.suffix == ".parquet" and child not in paths):
            raise InputError(
                f"{broken[0]} in {path} is empty or damaged (Parquet files begin otherwise); repair or remove it."
            )
        if not paths:
            raise InputError(
                f"{path} is a folder with no Parquet files directly in it; give a file, or a folder that has them."
            )
        return ParquetTable(path.resolve().name, paths)
    if not path.exists():
        raise InputError(f"{path} does not exist; check the path.")
    if not path.is_file():
        raise InputError(f"{path} is not a file but a pipe or a device; save what comes from it and give that file.")
    head = _head(path)
    if not head:
        raise InputError(f"{path.name} is empty (0 bytes); give a file with data.")
    return ParquetTable(path.name, [path]) if head == b"PAR1" else CsvTable(path, zipped=head[:2] == b"\x1f\x8b")


@contextmanager
def translated_but_invalid(name: str) -> Iterator[None]:
    """As `translated`, but what Arrow finds invalid in the text passes, to be explained with its row."""
    invalid = None
    with translated(name):
        try:
            yield
        except pa.ArrowInvalid as error:
            invalid = error
    if invalid is not None:
        raise invalid


def _head(path: Path) -> bytes:
    with translated(path.name), path.open("rb") as file:
        return file.read(4)
