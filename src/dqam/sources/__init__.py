"""Read trips from files and data frames, whose formats are recognised by their content.

`read` returns a `Source`, which yields batches of whole trips each time it is iterated, in little memory.

Reading has two parts. A `Table` returns Arrow batches of a CSV file (`csv_table`), of Parquet files (`parquet_table`)
or of data frames (`frames`). The rows of a table then become trips: each row is a point (`points`), a whole line
(`rows`) or a polyline in JSON (`porto`). To add a file format, write a `Table`, make `reading.open_path` recognise it,
and add it to `dqam.audit.formats`; if its columns are named as in `columns`, nothing else is needed.
"""

from dqam.sources.reading import Readable, read
from dqam.sources.source import BATCH, Source, regrouped

__all__ = ["BATCH", "Readable", "Source", "read", "regrouped"]
