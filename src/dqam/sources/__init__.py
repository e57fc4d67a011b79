"""Trips from files and data frames, recognised by what is in them.

`read` returns a `Source`, which yields batches of whole trips each time it is iterated, in little memory.

There are two questions about a source. How it is stored: a `Table` gives Arrow batches of a CSV file (`csv_table`), of
Parquet files (`parquet_table`) or of data frames (`frames`). How trips lie in its rows: a point in each row (`points`),
a whole line (`rows`) or a polyline in JSON (`porto`). To add a file format, write a `Table`, have `reading.open_path`
recognise it, and add it to `dqam.audit.formats`; with columns named as in `columns`, all else follows.
"""

from dqam.sources.reading import Readable, read
from dqam.sources.source import BATCH, Source, regrouped

__all__ = ["BATCH", "Readable", "Source", "read", "regrouped"]
