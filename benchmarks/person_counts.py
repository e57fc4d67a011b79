"""Measure counts made whole for the unit 'person': python -m benchmarks.person_counts [--data DIR].

For each data set and each m, flux is run with seeded noise on the trips that are kept of each person, at most m. Two
maps are compared with the exact counts of all trips, for random rectangles: the map of the kept trips, and the release,
in which counts are scaled up. The output is the table in docs/choosing.md. With the folder of real data, the rides of
ValleyBike are measured too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

import dqam
from benchmarks.measure import options
from dqam import cities
from dqam.geometry.counting import count_distinct
from dqam.geometry.grid import Grid
from dqam.geometry.rectangles import random_rectangles
from dqam.geometry.trips import Trips
from dqam.geometry.walks import walk
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.contribution import ContributionBound
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.publishing.forecast import forecast
from dqam.publishing.plan import Plan
from dqam.release.formatting import error_in_words
from dqam.values.guarantee import Unit

VALLEY = (-72.75, 42.10, -72.46, 42.46)
KEPT = (1, 2, 5, 10, 20, 50)
RUNS, JUDGES = 6, 4_000


def data_sets(folder: Path | None, tiny: bool) -> Iterator[tuple[str, Trips, Grid, Sequence[int]]]:
    """Labels, trips, grids and epsilons."""
    side = 16 if tiny else 256
    for trips in (500,) if tiny else (20_000, 100_000):
        city = Trips.concat(list(cities.city_trips(trips, seed=0)))
        yield f"made-up city, {trips:,} trips", city, Grid(cities.BOUNDS, side, side), (1,)
    if folder is not None:
        rides = dqam.read(folder / "valleybike.parquet").trips()
        yield f"ValleyBike, {len(rides):,} rides", rides, Grid(VALLEY, side, side), (1, 4)


def measured(trips: Trips, grid: Grid, epsilon: int, m: int, runs: int) -> list[str]:
    """A row of the table: errors before and after, the share of intervals that hold, and the forecast."""
    walks, unit = walk(trips, grid), Unit.person(m)
    asked = random_rectangles(grid, JUDGES, np.random.default_rng(5))
    truth = count_distinct(walks, asked, grid).astype(np.float64)
    plan = Plan.of(grid, epsilon, unit="person", max_trips=m)
    before, after, held = list[float](), list[float](), list[float]()
    for seed in range(runs):
        bound = ContributionBound(unit, f"{seed:x}a")
        kept, persons = bound.mask(trips.persons, trips.ids), bound.per_person(trips.persons)
        aggregates = Aggregates.of(walks, kept, unit, per_person=persons)
        curators = [Curator(aggregates, Budget(epsilon), SeededNoise(seed), unit) for _ in range(2)]
        alone = plan.mechanism.synthesize(curators[0], plan.queries, curators[0].budget).histogram
        release = plan.release(curators[1], "benchmark", bound.salt)
        for histogram, errors in ((alone, before), (release.histogram, after)):
            off = np.abs(np.clip(histogram.answers(asked), 0, max(histogram.total, 0)) - truth)
            errors.append(float(off.mean() / truth.mean()))
        assert release.uncertainty is not None
        low, high = release.uncertainty.intervals(asked)
        held.append(float(((low <= truth) & (truth <= high)).mean()))
    expected = forecast(plan, len(trips)).errors[0]
    words = [error_in_words(float(np.mean(errors))) for errors in (before, after)]
    return [*words, f"{np.mean(held):.0%}", error_in_words(expected.error, expected.low, expected.high)]


def main(*given: str) -> None:
    """Print the table."""
    parser = options(__doc__)
    parser.add_argument("--data", type=Path, help="the folder of real data")
    chosen = parser.parse_args(given or None)
    print(f"dqam {dqam.__version__}\n")
    print("| data, epsilon | m | map of the kept trips | scaled up | 90 % intervals that hold | forecast by `--plan` |")
    print("| --- | --- | --- | --- | --- | --- |")
    for label, trips, grid, epsilons in data_sets(chosen.data, chosen.tiny):
        for epsilon in epsilons:
            for m in KEPT[2:3] if chosen.tiny else KEPT:
                row = measured(trips, grid, epsilon, m, 1 if chosen.tiny else RUNS)
                print(f"| {label}, {epsilon} | {m} | {' | '.join(row)} |".replace("\xa0", " "), flush=True)


if __name__ == "__main__":
    main()
