"""Errors of flux for few trips with and without a public prior: python -m benchmarks.prior [--data DIR].

Priors are releases of 20,000 other trips at eps = 1: of the same city, of another city, of the same city upside down,
and with all of its cells shuffled. Without the folder of real data, the trips are in the made-up city, and the other
city is its nearly uniform variant. 256 x 256 cells, 16,000 queries for tuning; other rectangles are judged, by their
sides in cells, and the share of the 90 % intervals that contain the truth.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.flux_accuracy import judges
from benchmarks.measure import options
from dqam.experiments.datasets import DataSet, made_up, real
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram, TwoScaleHistogram
from dqam.geometry.rectangles import random_rectangles
from dqam.geometry.trips import Trips
from dqam.geometry.walks import walk
from dqam.mechanisms import Flux
from dqam.mechanisms.prior import Prior
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.statistics.distinct import DistinctTrips
from dqam.values.guarantee import Promise

OTHERS = 100  # seed of the trips of a prior


def counted(data: DataSet, n: int, seed: int, resolution: int) -> Aggregates:
    """Aggregates of n trips on the grid of a data set."""
    return Aggregates.of(walk(Trips.concat(list(data.make(n, seed))), Grid.over(data.bounds, resolution)))


def pattern(data: DataSet, n: int, resolution: int, grid: Grid) -> SpatialHistogram:
    """A release of n trips at eps = 1, moved onto the grid."""
    trips = counted(data, n, OTHERS, resolution)
    curator = Curator(trips, Budget.of(Promise.of("1")), SeededNoise(OTHERS))
    queries = random_rectangles(trips.grid, 4_000, np.random.default_rng(1))
    found = Flux().synthesize(curator, queries, curator.budget).histogram
    found = found.large if isinstance(found, TwoScaleHistogram) else found
    return SpatialHistogram(grid, found.faces, found.vertical, found.horizontal)


def priors(own: DataSet, other: DataSet, n: int, resolution: int) -> dict[str, Prior | None]:
    """The priors by name."""
    grid = Grid.over(own.bounds, resolution)
    same, away = (pattern(data, n, resolution, grid) for data in (own, other))
    turned = SpatialHistogram(grid, same.faces[::-1], same.vertical[::-1], same.horizontal[::-1])
    shuffled = np.random.default_rng(5).permutation(same.faces.ravel()).reshape(grid.shape)
    return {
        "no prior": None,
        "same city": Prior(grid, same.faces, same),
        "same city, density": Prior(grid, same.faces),
        "another city": Prior(grid, away.faces, away),
        "another city, density": Prior(grid, away.faces),
        "upside down": Prior(grid, turned.faces, turned),
        "shuffled": Prior(grid, shuffled),
    }


def main(*arguments: str) -> None:
    """Print a table for each epsilon."""
    parser = options(__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--first-seed", type=int, default=0, help="the table in the docs starts at 0")
    parser.add_argument("--trips", type=int, default=1_000)
    parser.add_argument("--epsilons", nargs="+", default=("0.02", "0.1", "0.5", "1", "4"))
    given = parser.parse_args(arguments or None)
    known, resolution, asked = 20_000, 8, 16_000
    if given.tiny:
        given.runs, given.trips, given.epsilons, known, resolution, asked = 1, 300, ["1"], 300, 5, 500
    city, uniform = made_up()
    own, other = (real(given.data)[0], city) if given.data else (city, uniform)
    found = priors(own, other, known, resolution)
    grid = Grid.over(own.bounds, resolution)
    queries, fresh = random_rectangles(grid, asked, np.random.default_rng(1)), judges(grid, asked)
    print(f"{own.label(given.trips)}, n = {given.trips:,}\n{'':<32}" + "".join(f"{band:>12}" for band in fresh))
    for epsilon in given.epsilons:
        off: dict[str, list[list[float]]] = {name: [] for name in found}
        held: dict[str, list[list[float]]] = {name: [] for name in found}
        for run in range(given.first_seed, given.first_seed + given.runs):
            trips = counted(own, given.trips, run + 1, resolution)
            truth = {band: trips.total(DistinctTrips(some)) for band, some in fresh.items()}
            for name, prior in found.items():
                curator = Curator(trips, Budget.of(Promise.of(epsilon)), SeededNoise(run))
                made = Flux().synthesize(curator, queries, curator.budget, prior)
                assert made.histogram.is_monotone()
                uncertainty = made.uncertainty()
                errors, shares = [], []
                for band, some in fresh.items():
                    errors.append(float(np.abs(made.histogram.answers(some) - truth[band]).mean()))
                    low, high = uncertainty.intervals(some)
                    shares.append(100 * float(((low <= truth[band]) & (truth[band] <= high)).mean()))
                off[name].append(errors)
                held[name].append(shares)
        without = np.mean(off["no prior"], axis=0)
        for name in found:
            error, inside = np.mean(off[name], axis=0), np.mean(held[name], axis=0)
            cells = (
                f"{one:>12.1f}" if name == "no prior" else f"{one / base:>12.2f}"
                for one, base in zip(error, without, strict=True)
            )
            print(f"eps {epsilon:<5}{name:<23}" + "".join(cells), flush=True)
            print(f"  {'within 90 % intervals':<30}" + "".join(f"{share:>12.0f}" for share in inside), flush=True)


if __name__ == "__main__":
    main()
