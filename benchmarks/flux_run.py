"""A whole run of flux beside what it builds on: the exact histogram of the same trips, and the exact counts of the
queries.

Walks are laid beforehand for both sides (`walks.cells` is touched first), so that neither pays for tracing the trips
onto the grid; the histogram does without the cells and tallies the lines itself, within its time. Each run of flux has
fresh `Aggregates`: counting all queries for the average answer, computing all shadows and drawing the noise with OpenDP
are within its time. What is published is a histogram that is private and consistent; the other side is neither.
"""

from __future__ import annotations

import time

import numpy as np

from benchmarks.measure import ClockedCurator, city, claim, options, seconds
from dqam import cities
from dqam.geometry.arrays import Integers
from dqam.geometry.counting import count_distinct
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.rectangles import random_rectangles
from dqam.geometry.walks import Walks, walk
from dqam.mechanisms.flux import Flux
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.noise import OpenDPNoise
from dqam.sources import read


def laid(trips: int, resolution: int) -> Walks:
    """Walks of trips in the made-up city, with their cells."""
    walks = walk(read(city(trips)).trips(), Grid.over(cities.BOUNDS, resolution))
    assert len(walks.cells)  # worked out when first asked for
    return walks


def run(walks: Walks, queries: Integers) -> tuple[float, dict[str, float]]:
    """Seconds in all and by question that the curator answers, the best of three runs."""
    best: tuple[float, dict[str, float]] = (float("inf"), {})
    for _ in range(3):
        budget = Budget(1)
        curator = ClockedCurator(Aggregates.of(walks), budget, OpenDPNoise())
        began = time.perf_counter()
        Flux().synthesize(curator, queries, budget)
        total = time.perf_counter() - began
        best = min(best, (total, {**curator.took, "the fit": total - sum(curator.took.values())}), key=lambda r: r[0])
    return best


def compare(what: str, walks: Walks, queries: int) -> float:
    """Print a line of seconds; how many times the exact histogram and counts the whole of flux takes."""
    asked = random_rectangles(walks.grid, queries, np.random.default_rng(1))
    total, spent = run(walks, asked)
    histogram = seconds(lambda: SpatialHistogram.of(walks))[0]
    counts = seconds(lambda: count_distinct(walks, asked, walks.grid))[0]
    steps = ", ".join(f"{name} {taken:.3f}" for name, taken in spent.items())
    ratio = total / (histogram + counts)
    print(
        f"{what:<44} {total:7.3f} s ({steps}); histogram {histogram:.3f} + counts {counts:.3f} s; {ratio:.2f} x",
        flush=True,
    )
    return ratio


def main(*arguments: str) -> None:
    """Print the seconds of flux by question, beside the exact histogram and counts, and how they grow."""
    tiny = options(__doc__).parse_args(arguments or None).tiny
    most, many, fine = (2_000, 1_000, 5) if tiny else (100_000, 16_000, 8)
    compare(f"1,000 trips, resolution {fine}, to compile", laid(1_000, fine), 1_000)
    large = laid(most, fine)
    ratio = compare(f"{most:,} trips, resolution {fine}, {many:,} queries", large, many)
    claim("flux / (histogram + counts)", ratio, 20, at_most=True)
    print("how it grows, where one thing is other than above:")
    compare(f"  {most // 10:,} trips", laid(most // 10, fine), many)
    for resolution in (4,) if tiny else (7, 9):
        compare(f"  resolution {resolution}", laid(most, resolution), many)
    for queries in (many // 4, 4 * many):
        compare(f"  {queries:,} queries", large, queries)


if __name__ == "__main__":
    main()
