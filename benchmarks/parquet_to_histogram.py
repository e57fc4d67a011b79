"""A Parquet file of points to a histogram of 2^8 x 2^8 cells, against a plain PyArrow read of the same columns."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pyarrow.parquet as pq

from benchmarks.measure import city, claim, options, peak_gib, seconds
from dqam import cities
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.walks import lay
from dqam.sources import read

COLUMNS = ["uid", "tid", "datetime", "lng", "lat"]


def histogram(path: Path, resolution: int = 8) -> SpatialHistogram:
    grid = Grid.over(cities.BOUNDS, resolution)
    return SpatialHistogram.of(lay(read(path), grid), grid)


def main(*arguments: str) -> None:
    tiny = options(__doc__).parse_args(arguments or None).tiny
    most = 1_000 if tiny else 1_000_000
    path = city(most)
    histogram(city(1_000))  # compile
    result = histogram(path)
    claim(f"peak memory for {most:,} trips, GiB", peak_gib(), 4, at_most=True)
    plain, ours = [], []
    for _ in range(1 if tiny else 9):  # in turns, so that neither has the better moments of the machine
        ours.append(seconds(lambda: histogram(path), runs=1)[0])
        took, table = seconds(lambda: pq.read_table(path, columns=COLUMNS), runs=1)
        plain.append(took)
        rows = table.num_rows
        del table
    print("plain reads:", " ".join(f"{took:.2f}" for took in plain), " ours:", " ".join(f"{took:.2f}" for took in ours))
    print(
        f"{rows:,} points, {int(result.faces.sum()):,} visits; medians: {median(plain):.2f} s and {median(ours):.2f} s"
    )
    claim("Parquet to histogram / plain PyArrow read", median(ours) / median(plain), 3, at_most=True)

    print("growth with n:")
    for n in (most // 100, most // 10, most):
        file = city(n)
        took = seconds(lambda file=file: histogram(file), runs=2)[0]  # type: ignore[misc]
        print(f"  {n:>9,} trips  {took:7.3f} s  {took / n * 1e6:6.2f} us a trip")
    print(f"growth with resolution ({most // 10:,} trips):")
    for resolution in (6,) if tiny else (6, 7, 8, 9, 10):
        took, made = seconds(lambda k=resolution: histogram(city(most // 10), k), runs=2)  # type: ignore[misc]
        visits = int(made.faces.sum())
        print(f"  2^{resolution:<2}  {took:7.3f} s  {visits:>11,} visits  {took / visits * 1e9:6.1f} ns a visit")


if __name__ == "__main__":
    main()
