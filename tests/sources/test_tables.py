"""What all tables share: errors in one sentence without data, and lower bounds of the rows to come."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dqam.errors import InputError
from dqam.sources.tables import ArrowTable, RemainingMinimum, input_errors, without_values


def test_errors_of_libraries_are_one_sentence() -> None:
    with pytest.raises(InputError, match=r"^trips cannot be read \(no such disk\); check the"), input_errors("trips"):
        raise OSError("no such disk.\nmore")
    with pytest.raises(InputError, match=r"^trips is unreadable$"), input_errors("trips", "is unreadable"):
        raise pa.ArrowInvalid("anything")
    with pytest.raises(InputError, match="damaged or incomplete gzip"), input_errors("trips"):
        raise EOFError
    with pytest.raises(MemoryError), input_errors("trips"):
        raise MemoryError


@pytest.mark.parametrize("text", ["41.141412N", "-8.618643"])
def test_errors_of_libraries_show_no_values(text: str) -> None:
    with pytest.raises(InputError) as caught, input_errors("trips"):
        pc.cast(pa.array([text]), pa.int64())
    assert "41" not in str(caught.value)
    assert "8.6" not in str(caught.value)
    with pytest.raises(InputError) as caught, input_errors("trips"), duckdb.connect() as base:
        base.execute(f"SELECT CAST('{text}' AS DATE)").fetchall()
    assert "41" not in str(caught.value)
    assert "8.6" not in str(caught.value)
    assert without_values(f'lies at {text.rstrip("N")} or "{text}"') == 'lies at ... or "..."'


def test_lower_bounds_of_rows_to_come() -> None:
    bounds = RemainingMinimum([2, 3, 1], [1, 5, 4])
    assert [bounds.after(row) for row in range(6)] == [1, 1, 4, 4, 4, 4]
    assert bounds.after(6) == 2**63 - 1


def test_batches_and_progress_of_a_table_in_memory() -> None:
    table = ArrowTable("demo", pa.table({"a": range(5), "b": range(5)}))
    found = list(table.batches(["b"], 2))
    assert [part.column("b").to_pylist() for part, _ in found] == [[0, 1], [2, 3], [4]]
    assert [progress for _, progress in found] == [0.4, 0.8, 1.0]
