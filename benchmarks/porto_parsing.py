"""The Porto CSV into trips, against csv with json or orjson row by row, and the parser alone against orjson.

Reads a generated file in the original layout. orjson is optional (pip install orjson); without it, its lines are left
out.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv

from benchmarks.measure import build, city, claim, options, seconds
from dqam.geometry.trips import Trips
from dqam.sources import porto, read

orjson: Any = import_module("orjson") if find_spec("orjson") else None

HEADER = "TRIP_ID CALL_TYPE ORIGIN_CALL ORIGIN_STAND TAXI_ID TIMESTAMP DAY_TYPE MISSING_DATA POLYLINE"


def porto_csv(trips: Trips) -> Path:
    """Trips in the layout of the PORTO-TAXI file."""
    path = build() / f"porto-{len(trips)}.csv"
    if not path.exists():
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(HEADER.split())
            for i in range(len(trips)):
                here = slice(trips.offsets[i], trips.offsets[i + 1])
                line = json.dumps(list(zip(trips.x[here], trips.y[here], strict=True)), separators=(",", ":"))
                writer.writerow([i, "C", "", "", i % 442, 1372636858 + i, "A", "False", line])
    return path


def row_by_row(path: Path, loads: Callable[[str], Any]) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates and lengths of all trips, one row at a time."""
    csv.field_size_limit(2**31 - 1)
    with path.open(newline="") as file:
        return joined([loads(row["POLYLINE"]) for row in csv.DictReader(file)])


def joined(lists: list[list[list[float]]]) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates and lengths of lists of points."""
    return np.concatenate([np.array(points) for points in lists]), np.array([len(points) for points in lists])


def main(*arguments: str) -> None:
    tiny = options(__doc__).parse_args(arguments or None).tiny
    path = porto_csv(read(city(1_000 if tiny else 100_000)).trips())
    size = path.stat().st_size / 2**20
    read(path).trips()  # compile
    ours, trips = seconds(lambda: read(path).trips())
    slow, (points, lengths) = seconds(lambda: row_by_row(path, json.loads), runs=1)
    np.testing.assert_array_equal(np.stack([trips.x, trips.y], axis=1), points)
    np.testing.assert_array_equal(np.diff(trips.offsets), lengths)
    print(f"Porto CSV of {len(trips):,} trips, {size:.0f} MiB: ours {ours:.2f} s, json {slow:.2f} s")
    claim("csv and json.loads row by row / ours", slow / ours, 5)
    if orjson is None:
        return
    other, (points, _) = seconds(lambda: row_by_row(path, orjson.loads))
    np.testing.assert_array_equal(np.stack([trips.x, trips.y], axis=1), points)
    texts = pyarrow.csv.read_csv(path).column("POLYLINE").combine_chunks()
    alone, _ = seconds(lambda: porto.parse(texts, "porto"))
    by_orjson, _ = seconds(lambda: joined(orjson.loads(f"[{','.join(texts.to_pylist())}]")))
    print(
        f"csv and orjson {other:.2f} s; the polylines alone, on one core: ours {alone:.2f} s, orjson {by_orjson:.2f} s"
    )
    claim("csv and orjson.loads row by row / ours", other / ours, 5)
    claim("orjson.loads of all polylines / our parser on one core", by_orjson / alone, 8)


if __name__ == "__main__":
    main()
