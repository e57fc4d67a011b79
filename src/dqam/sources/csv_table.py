"""CSV files, gzipped or not, as tables of text."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from dqam.errors import InputError
from dqam.geometry.ids import cast_each
from dqam.sources.tables import ArrowTable, Batches, Skip, Table, input_errors, without_values

BLOCK = 1 << 24  # bytes that are parsed at a time
IN_MEMORY = 512 << 20  # bytes; smaller files are read once and held in memory
LARGEST_BLOCK = 2**31 - 1
REPLACEMENT = "\ufffd"
BAD_ROWS = "rows that are not valid CSV"
_GZIP_RATIO = 6  # text is about this many times larger than its gzip


class CsvTable(Table):
    """A CSV file, gzipped or not. All columns are text, exactly as written."""

    def __init__(self, path: Path, zipped: bool) -> None:
        self.name, self.kind = path.name, "gzipped CSV file" if zipped else "CSV file"
        self._path, self._zipped = path, zipped
        self._size = path.stat().st_size
        with input_errors(self.name), gzip.open(path) if zipped else path.open("rb") as file:
            line = b""
            while not line.strip():
                if not (line := file.readline(BLOCK)):
                    raise InputError(f"{self.name} is empty; give a file with a header and rows.")
        if b"\0" in line:
            raise InputError(f"{self.name} is neither Parquet nor UTF-8 text; write it as one of these.")
        with input_errors(self.name):
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
        with input_errors(self.name):
            return ArrowTable(
                self.name, pa.Table.from_batches([batch for batch, _ in self._rows(columns, skip)], kinds)
            )

    def _rows(self, columns: Sequence[str], skip: Skip | None) -> Batches:
        """All rows. If bad rows are left out, there is no limit on the length of a row."""
        block, done, replaced = BLOCK, 0, False
        while True:
            seen = 0
            skipped = Counter[str]()
            with pa.OSFile(str(self._path)) as raw:
                try:
                    for batch in self._reader(raw, columns, block, skip and skipped.update, replaced):
                        seen += batch.num_rows
                        new = min(batch.num_rows, seen - done)
                        if new > 0:
                            done = seen
                            yield batch.slice(batch.num_rows - new), min(raw.tell() / self._size, 1.0)
                except pa.ArrowInvalid as error:
                    if skip and "straddl" in str(error) and block < LARGEST_BLOCK:
                        block = min(8 * block, LARGEST_BLOCK)
                    elif skip and re.search(r"Expected \d+ columns", str(error)) and not replaced:
                        replaced = True  # a row to skip is not UTF-8, and Arrow's handler of such rows needs text
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
        replaced: bool = False,
        threads: bool = True,
    ) -> Iterator[pa.RecordBatch]:
        """Batches of text. If bad rows are skipped, text that is not UTF-8, or has a replacement character, is null."""
        kind = pa.binary() if skipped else pa.string()
        handler = (lambda _: skipped([BAD_ROWS]) or "skip") if skipped else None
        stream = pa.CompressedInputStream(raw, "gzip") if self._zipped else raw
        with _input_errors_unless_invalid(self.name), _quiet_about_bad_text():
            reader = pyarrow.csv.open_csv(
                pa.PythonFile(_Utf8Stream(stream), "r") if replaced else stream,
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
                    texts = [_null_where_replaced(cast_each(column, pa.string())) for column in batch.columns]
                    batch = pa.record_batch(texts, batch.schema.names)
                yield batch

    def _explained(self, error: pa.ArrowInvalid, columns: Sequence[str]) -> InputError:
        """Read again up to the bad row on one thread, because otherwise Arrow does not number the rows."""
        with pa.OSFile(str(self._path)) as raw:
            try:
                for _ in self._reader(raw, columns, BLOCK, threads=False):
                    pass
            except pa.ArrowInvalid as numbered:
                error = numbered
        words = str(error)
        row = int(found[1]) - 1 if (found := re.search(r"Row #(\d+)", words)) else None
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
        return InputError(f"{self.name} cannot be read as CSV ({without_values(words)}); repair the file.")


@contextmanager
def _quiet_about_bad_text() -> Iterator[None]:
    """Silence the traceback that Arrow prints for a bad row that is not UTF-8; `_rows` then reads it another way."""
    before = sys.unraisablehook
    sys.unraisablehook = lambda told: None if isinstance(told.exc_value, UnicodeDecodeError) else before(told)
    try:
        yield
    finally:
        sys.unraisablehook = before


def _null_where_replaced(texts: pa.Array) -> pa.Array:
    """The texts; null where a text contains the character that replaces bytes that are not UTF-8."""
    bad = pc.match_substring(texts, REPLACEMENT)
    return pc.if_else(bad, pa.scalar(None, texts.type), texts) if pc.any(bad).as_py() else texts


class _Utf8Stream(io.RawIOBase):
    """A stream in which bytes that are not UTF-8 are replaced by the replacement character."""

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream, self._decoder = stream, codecs.getincrementaldecoder("utf-8")("replace")

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes. One byte may become three, and up to three may be left over from the last call."""
        while True:
            data = self._stream.read(size if size < 0 else max(1, size // 3 - 3))
            text = self._decoder.decode(data, final=not data)
            if text or not data:
                return text.encode()


@contextmanager
def _input_errors_unless_invalid(name: str) -> Iterator[None]:
    """As `input_errors`, except that `pa.ArrowInvalid` passes through, so that `_explained` can name the row."""
    invalid = None
    with input_errors(name):
        try:
            yield
        except pa.ArrowInvalid as error:
            invalid = error
    if invalid is not None:
        raise invalid
