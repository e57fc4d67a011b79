"""A whole run of DQAM, exact counts given, beside one linear program solved.

How much of it is the curator's, by question, and how it grows.
"""

from __future__ import annotations

import time

import numpy as np
from scipy.optimize import linprog
from tests.oracles.linear_program import linear_program

from benchmarks.measure import ClockedCurator, city, claim, options, seconds
from benchmarks.pairwise_consistency import violated
from dqam import cities
from dqam.geometry.grid import Grid
from dqam.geometry.rectangles import random_rectangles
from dqam.geometry.walks import walk
from dqam.mechanisms.dqam import Dqam
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.noise import Noise, OpenDPNoise, SeededNoise
from dqam.sources import read
from dqam.statistics.cell_shares import MassByCell
from dqam.statistics.distinct import DistinctTrips

ROUNDS = 8  # as many as it takes with much data


def aggregates_of(trips: int, resolution: int) -> Aggregates:
    source = read(city(trips))
    return Aggregates.of(walk(source.trips(), Grid.over(cities.BOUNDS, resolution)))


def run(aggregates: Aggregates, queries: int, epsilon: float, noise: Noise) -> tuple[float, dict[str, float]]:
    """Seconds in all and by question that the curator answers, the better of three runs."""
    asked = random_rectangles(aggregates.grid, queries, np.random.default_rng(1))
    aggregates.total(DistinctTrips(asked))
    aggregates.total(MassByCell())
    best: tuple[float, dict[str, float]] = (float("inf"), {})
    for _ in range(3):
        budget = Budget(epsilon)
        curator = ClockedCurator(aggregates, budget, noise)
        began = time.perf_counter()
        Dqam(rounds=ROUNDS).synthesize(curator, asked, budget)
        best = min(best, (time.perf_counter() - began, curator.took), key=lambda result: result[0])
    return best


def told(what: str, total: float, spent: dict[str, float]) -> None:
    """A line of seconds: in all, by question, and what the mechanism does by itself."""
    shares = [f"{name} {taken / total:.0%}" for name, taken in spent.items()]
    rest = (total - sum(spent.values())) / total
    print(f"{what:<58} {total:7.3f} s: {', '.join([*shares, f'its own steps {rest:.0%}'])}", flush=True)


def main(*arguments: str) -> None:
    tiny = options(__doc__).parse_args(arguments or None).tiny
    most, queries, fine = (2_000, 1_000, 5) if tiny else (100_000, 16_000, 8)
    run(aggregates_of(1_000, 5), 1_000, 1.0, SeededNoise(0))  # compile
    small, large = aggregates_of(1_000, fine), aggregates_of(most, fine)
    slowest = 0.0
    for aggregates, trips, epsilon in ((small, 1_000, 1.0), (large, most, 0.1), (large, most, 1.0)):
        total, spent = run(aggregates, queries, epsilon, OpenDPNoise())
        slowest = max(slowest, total)
        told(f"{trips:,} trips, eps {epsilon:g}, {2**fine} x {2**fine}, {queries:,} queries, OpenDP", total, spent)
    print(f"how it grows ({most:,} trips, eps 1, OpenDP):")
    for resolution in (4,) if tiny else (6, 7, 8, 9, 10):
        aggregates = large if resolution == fine else aggregates_of(most, resolution)
        told(f"  resolution {resolution}, {queries:,} queries", *run(aggregates, queries, 1.0, OpenDPNoise()))
    for some in (500,) if tiny else (1_000, 4_000, 16_000, 64_000):
        told(f"  resolution {fine}, {some:,} queries", *run(large, some, 1.0, OpenDPNoise()))

    side = 16 if tiny else 128
    cost, matrix, bound = linear_program(violated(side))
    solving = seconds(lambda: linprog(cost, A_ub=matrix, b_ub=bound, bounds=(0, None), method="highs"), runs=1)[0]
    claim(f"one consistent inference by HiGHS at {side} x {side} / all of dqam at 256 x 256", solving / slowest, 5)


if __name__ == "__main__":
    main()
