"""Errors of all publishable mechanisms on fresh rectangles: python -m benchmarks.flux_accuracy [--data DIR].

256 x 256 cells, 16,000 queries to be good at and 16,000 others to be judged by, against distinct counts. Without the
folder of real data only trips in the made-up city are there. Also: how often the 90 % intervals of flux hold the truth.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.measure import options
from dqam import cities
from dqam.experiments.datasets import SAMPLE, made_up, real, wholly_inside
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.rectangles import random_rectangles
from dqam.geometry.trips import Trips
from dqam.geometry.walks import Walks, walk
from dqam.mechanisms import MECHANISMS, make
from dqam.mechanisms.flux import Flux
from dqam.mechanisms.flux_uncertainty import resample
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.sources import read
from dqam.statistics.distinct import DistinctTrips

EPSILONS = ("0.01", "0.05", "0.1", "0.5", "1")
NAMES = [name for name, row in MECHANISMS.items() if row.publishable]
ALLOWED = 1.05  # times the best other
SIZES = ((0, 16), (16, 64), (64, 128), (128, 257))  # the shorter side of a rectangle, in cells


def data_sets(folder: Path | None, sizes: list[int], resolution: int) -> Iterator[tuple[str, Walks]]:
    """Names and walks; Porto also with all trips of the sample that lie in the square."""
    kinds = [made_up()[0], *(real(folder) if folder else [])]
    for data in kinds:
        own = [*sizes, _all_inside(folder)] if folder and data.name == "porto" else sizes
        for n in sorted(own):
            trips = Trips.concat(list(data.make(n, 1)))
            yield f"{data.label(n)}, n = {n:,}", walk(trips, Grid.over(data.bounds, resolution))


def _all_inside(folder: Path) -> int:
    return len(wholly_inside(read(folder / SAMPLE).trips(), cities.PORTO_BOUNDS))


def main(*arguments: str) -> None:
    """Print a table for each data set, and the cases in which flux is not among the best."""
    parser = options(__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 100_000])
    parser.add_argument("--epsilons", nargs="+", default=EPSILONS)
    given = parser.parse_args(arguments or None)
    if given.tiny:
        given.runs, given.sizes, given.epsilons = 1, [300], ["1"]
    asked = 500 if given.tiny else 16_000
    losers = []
    for name, walks in data_sets(given.data, given.sizes, 5 if given.tiny else 8):
        queries, fresh = (random_rectangles(walks.grid, asked, np.random.default_rng(seed)) for seed in (1, 2))
        kept = Aggregates.of(walks)
        truth, _ = kept.total(DistinctTrips(fresh)), kept.total(DistinctTrips(queries))
        exact = np.abs(np.clip(SpatialHistogram.of(walks).answers(fresh), 0, len(walks)) - truth).mean()
        print(f"\n{name}: mean answer {truth.mean():,.0f}, exact histogram (not private) {exact:,.0f} off", flush=True)
        print("  eps   " + "".join(f"{mechanism:>16}" for mechanism in NAMES) + "   best other / flux")
        short = np.minimum(fresh[:, 2] - fresh[:, 0], fresh[:, 3] - fresh[:, 1])
        for epsilon in given.epsilons:
            errors: dict[str, list[float]] = {mechanism: [] for mechanism in NAMES}
            covered = []
            for seed in range(given.runs):
                for mechanism in NAMES:
                    curator = Curator(kept, Budget(epsilon), SeededNoise(seed))
                    if mechanism == "flux":
                        estimate = Flux().synthesize(curator, queries, curator.budget)
                        histogram = estimate.histogram
                        assert histogram.is_monotone()
                        low, high = resample(estimate).intervals(fresh)
                        covered.append((low <= truth) & (truth <= high))
                    else:
                        histogram = make(mechanism).synthesize(curator, queries, curator.budget).histogram
                    answers = np.clip(histogram.answers(fresh), 0, max(histogram.total, 0))
                    errors[mechanism].append(float(np.abs(answers - truth).mean()))
            means = {mechanism: float(np.mean(each)) for mechanism, each in errors.items()}
            best = min(means[mechanism] for mechanism in NAMES if mechanism != "flux")
            cells = "".join(f"{means[m]:>10,.1f}±{np.std(errors[m]):<5,.0f}" for m in NAMES)
            held = np.mean(covered, axis=0)
            sides = " ".join(f"{held[(short >= a) & (short < b)].mean():.2f}" for a, b in SIZES)
            print(
                f"  {epsilon:<6}{cells}  {best / means['flux']:6.2f}   coverage {held.mean():.3f} ({sides})", flush=True
            )
            if means["flux"] > ALLOWED * best:
                losers.append(f"{name}, eps = {epsilon}: flux {means['flux']:,.1f}, best other {best:,.1f}")
    print("\nflux is more than 5 % worse than the best other at:", *(losers or ["none"]), sep="\n  ")


if __name__ == "__main__":
    main()
