"""A whole run of DQAM, exact counts given: what each step takes, and how it grows, beside one linear program solved."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
from scipy.optimize import linprog
from tests.oracles.linear_program import linear_program

from benchmarks.measure import city, claim, clocked, seconds
from benchmarks.pairwise_consistency import violated
from dqam import cities
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.rectangles import random_rectangles
from dqam.geometry.walks import walk
from dqam.mechanisms.dqam import Dqam, Regions
from dqam.mechanisms.quadtree import grow_quadtree
from dqam.mechanisms.size import measure_size
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import Noise, OpenDPNoise, SeededNoise
from dqam.sources import read
from dqam.statistics.cell_shares import MassByCell
from dqam.statistics.distinct import DistinctTrips

STEPS = "dqam.mechanisms.dqam"
ROUNDS = 8  # as many as it takes with much data


@contextmanager
def timed(spent: dict[str, float]) -> Iterator[None]:
    """Note the seconds of each step; a step that another one takes counts in both."""
    with (
        patch(f"{STEPS}.measure_size", clocked(measure_size, spent, "size")),
        patch(f"{STEPS}.grow_quadtree", clocked(grow_quadtree, spent, "tree")),
        patch.object(Curator, "select", clocked(Curator.select, spent, "select")),
        patch.object(SpatialHistogram, "answers", clocked(SpatialHistogram.answers, spent, "answer")),
        patch.object(Regions, "learn", clocked(Regions.learn, spent, "update")),
    ):
        yield


def aggregates_of(trips: int, resolution: int) -> Aggregates:
    source = read(city(trips))
    return Aggregates.of(walk(source.trips(), Grid.over(cities.BOUNDS, resolution)))


def run(records: Aggregates, queries: int, epsilon: float, noise: Noise) -> tuple[float, dict[str, float]]:
    """Seconds in all and by step, the better of three runs."""
    grid = records.grid
    asked = random_rectangles(grid, queries, np.random.default_rng(1))
    records.total(DistinctTrips(asked))
    records.total(MassByCell())
    best: tuple[float, dict[str, float]] = (float("inf"), {})
    for _ in range(3):
        spent: dict[str, float] = defaultdict(float)
        budget = Budget(epsilon)
        curator = Curator(records, budget, noise)
        with timed(spent):
            began = time.perf_counter()
            Dqam(rounds=ROUNDS).synthesize(curator, asked, budget)
            total = time.perf_counter() - began
        best = min(best, (total, dict(spent)), key=lambda result: result[0])
    return best


def told(what: str, total: float, spent: dict[str, float]) -> None:
    shares = ", ".join(f"{name} {seconds / total:.0%}" for name, seconds in spent.items())
    print(f"{what:<58} {total:7.3f} s: {shares}", flush=True)


def main() -> None:
    run(aggregates_of(1_000, 5), 1_000, 1.0, SeededNoise(0))  # compile
    small, large = aggregates_of(1_000, 8), aggregates_of(100_000, 8)
    slowest = 0.0
    for records, trips, epsilon in ((small, 1_000, 1.0), (large, 100_000, 0.1), (large, 100_000, 1.0)):
        total, spent = run(records, 16_000, epsilon, OpenDPNoise())
        slowest = max(slowest, total)
        told(f"{trips:,} trips, eps {epsilon:g}, 256 x 256, 16,000 queries, OpenDP", total, spent)
    print("how it grows (100,000 trips, eps 1, OpenDP):")
    for resolution in (6, 7, 8, 9, 10):
        records = large if resolution == 8 else aggregates_of(100_000, resolution)
        told(f"  resolution {resolution}, 16,000 queries", *run(records, 16_000, 1.0, OpenDPNoise()))
    for queries in (1_000, 4_000, 16_000, 64_000):
        told(f"  resolution 8, {queries:,} queries", *run(large, queries, 1.0, OpenDPNoise()))

    cost, matrix, bound = linear_program(violated(128))
    solving = seconds(lambda: linprog(cost, A_ub=matrix, b_ub=bound, bounds=(0, None), method="highs"), runs=1)[0]
    claim("one consistent inference by HiGHS at 128 x 128 / all of dqam at 256 x 256", solving / slowest, 5)


if __name__ == "__main__":
    main()
