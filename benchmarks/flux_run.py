"""A whole run of flux beside what it builds on: the exact histogram of the same trips, and the exact counts of the
queries.

Walks are laid beforehand for both sides (`walks.cells` is touched first), so that neither pays for tracing the trips
onto the grid; the histogram does without the cells and tallies the lines itself, within its time. Each run of flux has
fresh `Aggregates`: counting all queries for the average answer, computing all shadows and drawing the noise with OpenDP
are within its time. What is published is a histogram that is private and consistent; the other side is neither.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.measure import city, claim, clocked, seconds
from dqam import cities
from dqam.consistency.currents import fit_histogram
from dqam.geometry.arrays import Integers
from dqam.geometry.counting import count_distinct
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.rectangles import random_rectangles
from dqam.geometry.walks import Walks, walk
from dqam.mechanisms.flux import Flux
from dqam.mechanisms.size import measure_size
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import OpenDPNoise
from dqam.sources import read
from dqam.statistics.shadows import compute_shadows

STEPS: dict[str, tuple[str, Callable[..., Any]]] = {
    "size and counting": ("dqam.mechanisms.flux.measure_size", measure_size),
    "shadows": ("dqam.statistics.aggregate.compute_shadows", compute_shadows),
    "fit": ("dqam.mechanisms.flux.fit_histogram", fit_histogram),
}  # none of them takes another


@contextmanager
def timed(spent: dict[str, float]) -> Iterator[None]:
    """Note the seconds of each step."""
    size, shadows, fitting = (patch(where, clocked(work, spent, name)) for name, (where, work) in STEPS.items())
    with size, shadows, fitting:
        yield


def laid(trips: int, resolution: int) -> Walks:
    """Walks of trips in the made-up city, with their cells."""
    walks = walk(read(city(trips)).trips(), Grid.over(cities.BOUNDS, resolution))
    assert len(walks.cells)  # worked out when first asked for
    return walks


def run(walks: Walks, queries: Integers) -> tuple[float, dict[str, float]]:
    """Seconds in all and by step, the best of three runs."""
    best: tuple[float, dict[str, float]] = (float("inf"), {})
    for _ in range(3):
        spent = dict.fromkeys(STEPS, 0.0)
        budget = Budget(1)
        with timed(spent):
            began = time.perf_counter()
            Flux().synthesize(Curator(Aggregates.of(walks), budget, OpenDPNoise()), queries, budget)
            total = time.perf_counter() - began
        assert all(spent.values())  # or a step has moved, and its time is in the rest
        best = min(best, (total, spent | {"the rest": total - sum(spent.values())}), key=lambda result: result[0])
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


def main() -> None:
    """Print the seconds of flux by step, beside the exact histogram and counts, and how they grow."""
    compare("1,000 trips, resolution 8, to compile", laid(1_000, 8), 1_000)
    large = laid(100_000, 8)
    ratio = compare("100,000 trips, resolution 8, 16,000 queries", large, 16_000)
    claim("flux / (histogram + counts)", ratio, 10, at_most=True)
    print("how it grows, where one thing is other than above:")
    compare("  10,000 trips", laid(10_000, 8), 16_000)
    for resolution in (7, 9):
        compare(f"  resolution {resolution}", laid(100_000, resolution), 16_000)
    for queries in (4_000, 64_000):
        compare(f"  {queries:,} queries", large, queries)


if __name__ == "__main__":
    main()
