"""The Porto CSV into trips, against csv and json.loads row by row. Reads a generated file in the original layout."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np

from benchmarks.measure import BUILD, city, claim, seconds
from dqam.geometry.trips import Trips
from dqam.sources import read

HEADER = "TRIP_ID CALL_TYPE ORIGIN_CALL ORIGIN_STAND TAXI_ID TIMESTAMP DAY_TYPE MISSING_DATA POLYLINE"


def porto_csv(trips: Trips) -> Path:
    """Trips in the layout of the PORTO-TAXI file."""
    path = BUILD / "porto.csv"
    if not path.exists():
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(HEADER.split())
            for i in range(len(trips)):
                here = slice(trips.offsets[i], trips.offsets[i + 1])
                line = json.dumps(list(zip(trips.x[here], trips.y[here], strict=True)), separators=(",", ":"))
                writer.writerow([i, "C", "", "", i % 442, 1372636858 + i, "A", "False", line])
    return path


def by_json(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates and lengths of all trips, a row at a time."""
    csv.field_size_limit(2**31 - 1)
    with path.open(newline="") as file:
        lines = [np.array(json.loads(row["POLYLINE"])) for row in csv.DictReader(file)]
    return np.concatenate(lines), np.array([len(line) for line in lines])


def main() -> None:
    path = porto_csv(read(city(100_000)).trips())
    size = path.stat().st_size / 2**20
    read(path).trips()  # compile
    ours, trips = seconds(lambda: read(path).trips())
    slow, (points, lengths) = seconds(lambda: by_json(path), runs=1)
    np.testing.assert_array_equal(np.stack([trips.x, trips.y], axis=1), points)
    np.testing.assert_array_equal(np.diff(trips.offsets), lengths)
    print(f"Porto CSV of {len(trips):,} trips, {size:.0f} MiB: ours {ours:.2f} s, json {slow:.2f} s")
    claim("csv and json.loads row by row / ours", slow / ours, 5)


if __name__ == "__main__":
    main()
