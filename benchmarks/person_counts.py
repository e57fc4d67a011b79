"""Measure counts made whole for the unit 'person': python -m benchmarks.person_counts [--data DIR].

For each data set and each m, flux is run with seeded noise on the trips that are kept of each person, at most m. If m
is "auto", the private measurement chooses it. Two maps are compared with the exact counts of all trips, for random
rectangles: the map of the kept trips, and the release, in which counts are scaled up. The output is the table in
docs/choosing.md. With the folder of real data, the rides of ValleyBike are measured too.
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

VALLEY = (-72.75, 42.10, -72.46, 42.46)
KEPT = (1, 2, 5, 10, 20, 50, "auto")
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


def measured(trips: Trips, grid: Grid, epsilon: int, m: int | str, runs: int) -> list[str]:
    """A row of the table: errors before and after, the share of intervals that hold, and the forecast."""
    walks = walk(trips, grid)
    asked = random_rectangles(grid, JUDGES, np.random.default_rng(5))
    truth = count_distinct(walks, asked, grid).astype(np.float64)
    plan = Plan.of(grid, epsilon, unit="person", max_trips=m)
    before, after, held, chosen = list[float](), list[float](), list[float](), list[int]()
    for seed in range(runs):
        bound = ContributionBound(plan.unit, f"{seed:x}a")
        places, persons = bound.places(trips.persons, trips.ids), bound.per_person(trips.persons)
        assert places is not None
        kept = places < plan.unit.max_trips
        aggregates = Aggregates.of(walks, kept, plan.unit, per_person=persons, places=places)
        curator = Curator(aggregates, Budget(epsilon), SeededNoise(seed), plan.unit)
        release = plan.release(curator, "benchmark", bound.salt)
        chosen.append(release.provenance.unit.max_trips)
        alone = Curator(aggregates, Budget(epsilon), SeededNoise(seed), plan.unit)
        alone.narrow(chosen[-1])
        unscaled = plan.mechanism.synthesize(alone, plan.queries, alone.budget).histogram
        for histogram, errors in ((unscaled, before), (release.histogram, after)):
            off = np.abs(np.clip(histogram.answers(asked), 0, max(histogram.total, 0)) - truth)
            errors.append(float(off.mean() / truth.mean()))
        assert release.uncertainty is not None
        low, high = release.uncertainty.intervals(asked)
        held.append(float(((low <= truth) & (truth <= high)).mean()))
    expected = forecast(plan, len(trips)).errors[0]
    words = [error_in_words(float(np.mean(errors))) for errors in (before, after)]
    kept_of_each = str(m) if m != "auto" else f"auto ({' to '.join(map(str, sorted({min(chosen), max(chosen)})))})"
    return [
        kept_of_each,
        *words,
        f"{100 * np.mean(held):.0f} %",
        error_in_words(expected.error, expected.low, expected.high),
    ]


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
            for m in KEPT[-1:] if chosen.tiny else KEPT:
                row = measured(trips, grid, epsilon, m, 1 if chosen.tiny else RUNS)
                print(f"| {label}, {epsilon} | {' | '.join(row)} |".replace("\xa0", " "), flush=True)


if __name__ == "__main__":
    main()
