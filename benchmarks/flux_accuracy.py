"""Errors of all publishable mechanisms by size of the rectangle: python -m benchmarks.flux_accuracy [--data DIR].

256 x 256 cells and 16,000 queries that mechanisms are tuned for. They are judged by others, against distinct counts:
16,000 random rectangles ("all"), and 8,000 in each of six bands, whose sides are drawn from a range of cells. Without
the folder of real data there are only trips in the made-up city. Also: how often the 90 % intervals of flux contain the
truth, in all places and in those above the median estimate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.measure import options
from dqam import cities
from dqam.experiments.datasets import SAMPLE, made_up, real, wholly_inside
from dqam.geometry.arrays import Integers
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.rectangles import ALL, random_rectangles, size_bands
from dqam.geometry.trips import Trips
from dqam.geometry.walks import Walks, walk
from dqam.mechanisms import MECHANISMS, make
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.sources import read
from dqam.statistics.distinct import DistinctTrips
from dqam.values.guarantee import Promise

EPSILONS = ("0.01", "0.05", "0.1", "0.5", "1")
NAMES = [name for name, row in MECHANISMS.items() if row.publishable]
ALLOWED = 1.05  # times the best other


def data_sets(folder: Path | None, sizes: list[int], resolution: int) -> Iterator[tuple[str, Walks]]:
    """Names and walks; Porto also with all trips of the sample that lie in the square."""
    kinds = [made_up()[0], *(real(folder) if folder else [])]
    for data in kinds:
        own = [*sizes, all_inside(folder)] if folder and data.name == "porto" else sizes
        for n in sorted(own):
            trips = Trips.concat(list(data.make(n, 1)))
            yield f"{data.label(n)}, n = {n:,}", walk(trips, Grid.over(data.bounds, resolution))


def all_inside(folder: Path) -> int:
    """The number of real trips that lie within the square of Porto."""
    return len(wholly_inside(read(folder / SAMPLE).trips(), cities.PORTO_BOUNDS))


def judges(grid: Grid, count: int) -> dict[str, Integers]:
    """The rectangles of each band by name."""
    rng = np.random.default_rng(2)
    return {band.name: band.draw(grid, count if band.name == ALL else count // 2, rng) for band in size_bands(grid)}


def main(*arguments: str) -> None:
    """Print a table for each data set and epsilon, and the bands in which flux is not among the best."""
    parser = options(__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 100_000])
    parser.add_argument("--epsilons", nargs="+", default=EPSILONS)
    parser.add_argument("--delta", help="of the promise; pure by default")
    parser.add_argument("--mechanisms", nargs="+", default=NAMES)
    given = parser.parse_args(arguments or None)
    if given.tiny:
        given.runs, given.sizes, given.epsilons = 1, [300], ["1"]
    asked = 500 if given.tiny else 16_000
    losers = []
    for name, walks in data_sets(given.data, given.sizes, 5 if given.tiny else 8):
        queries, fresh = random_rectangles(walks.grid, asked, np.random.default_rng(1)), judges(walks.grid, asked)
        kept = Aggregates.of(walks)
        truth = {band: kept.total(DistinctTrips(rectangles)) for band, rectangles in fresh.items()}
        exact = SpatialHistogram.of(walks)
        print(f"\n{name}\n{'':<26}" + "".join(f"{band:>10}" for band in fresh), flush=True)
        print(_row("mean answer", [truth[band].mean() for band in fresh]))
        off = [np.abs(np.clip(exact.answers(fresh[band]), 0, len(walks)) - truth[band]).mean() for band in fresh]
        print(_row("exact (not private)", off))
        for epsilon in given.epsilons:
            means = {}
            for mechanism in given.mechanisms:
                errors, held, busy = [], [], []
                for seed in range(given.runs):
                    curator = Curator(kept, Budget.of(Promise.of(epsilon, given.delta)), SeededNoise(seed))
                    made = make(mechanism).synthesize(curator, queries, curator.budget)
                    answers = {
                        band: np.clip(made.histogram.answers(some), 0, max(made.histogram.total, 0))
                        for band, some in fresh.items()
                    }
                    errors.append([np.abs(answers[band] - truth[band]).mean() for band in fresh])
                    if mechanism == "flux":
                        assert made.histogram.is_monotone()
                        uncertainty = made.uncertainty()
                        assert uncertainty is not None
                        for band, some in fresh.items():
                            low, high = uncertainty.intervals(some)
                            inside = (low <= truth[band]) & (truth[band] <= high)
                            held.append(100 * inside.mean())
                            busy.append(100 * inside[answers[band] > np.median(answers[band])].mean())
                means[mechanism] = np.mean(errors, axis=0)
                print(_row(f"eps {epsilon}, {mechanism}", means[mechanism]), flush=True)
                if mechanism == "flux":
                    print(_row("  worst run / mean", np.max(errors, axis=0) / means[mechanism], ".2f"))
                    for words, shares in (("  within 90 % intervals", held), ("  of busy places", busy)):
                        print(_row(words, np.mean(np.reshape(shares, (given.runs, -1)), axis=0)), flush=True)
            if len(means) > 1 and "flux" in means:
                best = np.min([found for mechanism, found in means.items() if mechanism != "flux"], axis=0)
                losers += [
                    f"{name}, eps = {epsilon}, {band}: flux {own:,.1f}, best other {other:,.1f}"
                    for band, own, other in zip(fresh, means["flux"], best, strict=True)
                    if own > ALLOWED * other
                ]
    print("\nflux is more than 5 % worse than the best other at:", *(losers or ["none"]), sep="\n  ")


def _row(name: str, numbers: Iterable[float], form: str = ",.0f") -> str:
    return f"  {name:<24}" + "".join(f"{number:>10{form}}" for number in numbers)


if __name__ == "__main__":
    main()
