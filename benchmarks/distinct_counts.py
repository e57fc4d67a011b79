"""Exact distinct counts of rectangles, against a compiled pairwise loop and a Shapely STRtree."""

from __future__ import annotations

import numpy as np
import shapely
from numba import njit, prange

from benchmarks.measure import city, claim, options, seconds
from dqam import cities
from dqam.geometry.counting import count_distinct
from dqam.geometry.grid import Grid
from dqam.geometry.rectangles import Snapped, random_rectangles
from dqam.geometry.trips import Trips
from dqam.geometry.walks import Walks, walk
from dqam.sources import read


@njit(parallel=True, cache=True)
def pairwise(rows, columns, starts, boxes, rectangles):  # type: ignore[no-untyped-def]
    """Each rectangle with each trip: by the trip's bounding box where that decides, else visit by visit."""
    counts = np.zeros(len(rectangles), np.int64)
    for i in prange(len(rectangles)):
        west, south, east, north = rectangles[i]
        for trip in range(len(starts) - 1):
            left, low, right, high = boxes[trip, 0], boxes[trip, 1], boxes[trip, 2], boxes[trip, 3]
            if left >= east or right < west or low >= north or high < south:
                continue
            if left >= west and right < east and low >= south and high < north:
                counts[i] += 1
                continue
            for visit in range(starts[trip], starts[trip + 1]):
                if west <= columns[visit] < east and south <= rows[visit] < north:
                    counts[i] += 1
                    break
    return counts


def rows_and_columns(walks: Walks) -> list[np.ndarray]:
    """The row and the column of each visit, in two bytes each."""
    return [part.astype(np.int16) for part in np.divmod(walks.cells, walks.grid.columns)]


def bounding_boxes(walks: Walks) -> np.ndarray:
    """int32[n, 4]: the first and last column and row of each trip, all on the grid."""
    row, column = rows_and_columns(walks)
    first = walks.visits[:-1]
    ends = [np.minimum.reduceat(column, first), np.minimum.reduceat(row, first)]
    ends += [np.maximum.reduceat(column, first), np.maximum.reduceat(row, first)]
    return np.stack(ends, axis=1).astype(np.int32)


def by_tree(trips: Trips, rectangles: Snapped) -> np.ndarray:
    """Distinct counts from an STRtree of LineStrings."""
    indices = np.repeat(np.arange(len(trips)), np.diff(trips.offsets))
    lines = shapely.linestrings(np.stack([trips.x, trips.y], axis=1), indices=indices)
    pairs = shapely.STRtree(lines).query(shapely.box(*rectangles.bounds.T), predicate="intersects")
    return np.bincount(pairs[0], minlength=len(rectangles.cells))


def main(*arguments: str) -> None:
    tiny = options(__doc__).parse_args(arguments or None).tiny
    grid = Grid.over(cities.BOUNDS, 6 if tiny else 8)
    most = 1_000 if tiny else 100_000
    trips = read(city(most)).trips()
    walks = walk(trips, grid)
    assert walks.on_grid == len(walks), "bounding boxes below want every trip on the grid"
    rectangles = random_rectangles(grid, most * 4 // 25, np.random.default_rng(0))
    places = (*rows_and_columns(walks), walks.visits, bounding_boxes(walks))

    count_distinct(walks, rectangles[:10], grid)  # compile
    pairwise(*places, rectangles[:100].astype(np.int32))
    ours, counts = seconds(lambda: count_distinct(walks, rectangles, grid))
    loop, same = seconds(lambda: pairwise(*places, rectangles.astype(np.int32)), runs=1)
    np.testing.assert_array_equal(counts, same)
    print(f"{len(rectangles):,} rectangles x {most:,} trips: ours {ours:.2f} s, pairwise loop {loop:.2f} s")
    claim("pairwise loop / ours", loop / ours, 10)

    subset, some = trips.slice(0, most // 10), Snapped.of(rectangles[: most // 25], grid)
    few = walk(subset, grid)
    tree, found = seconds(lambda: by_tree(subset, some), runs=1)
    quick, counts = seconds(lambda: count_distinct(few, some.cells, grid))
    differ = int(np.abs(found - counts).sum())
    print(
        f"{most // 25:,} rectangles x {most // 10:,} trips: ours {quick:.3f} s, STRtree {tree:.2f} s; "
        f"counts differ by {differ} in all"
    )
    claim("Shapely STRtree / ours", tree / quick, 100)

    print(f"growth with n ({len(rectangles):,} rectangles):")
    for n in (most // 100, most // 10, most):
        part = walk(trips.slice(0, n), grid)
        took = seconds(lambda w=part: count_distinct(w, rectangles, grid))[0]  # type: ignore[misc]
        print(f"  {n:>9,} trips  {took:7.3f} s  {took / n / len(rectangles) * 1e9:7.3f} ns a pair")
    print(f"growth with rectangles ({most:,} trips):")
    for m in (1, 100) if tiny else (1, 1_000, 16_000, 64_000):
        more = random_rectangles(grid, m, np.random.default_rng(1))
        took = seconds(lambda r=more: count_distinct(walks, r, grid), runs=2)[0]  # type: ignore[misc]
        print(f"  {m:>9,} rectangles  {took:7.3f} s")
    print(f"growth with resolution ({most:,} trips, {len(rectangles):,} rectangles):")
    for resolution in (6,) if tiny else (6, 7, 8, 9, 10):
        other = Grid.over(cities.BOUNDS, resolution)
        asked, laid = random_rectangles(other, len(rectangles), np.random.default_rng(0)), walk(trips, other)
        took = seconds(lambda w=laid, r=asked, g=other: count_distinct(w, r, g), runs=2)[0]  # type: ignore[misc]
        print(f"  2^{resolution:<2}  {took:7.3f} s")


if __name__ == "__main__":
    main()
