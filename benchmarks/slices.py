"""Errors, coverage, size and speed of slices by the hour: python -m benchmarks.slices [--runs N].

Trips through the made-up city with a daily rhythm, 256 x 256 cells, judged against exact distinct counts. For each
band of sizes: the mean answer of a slice; the error in % of the mean answer, averaged over the slices, of the slices of
a release, of each hour published by itself with all of epsilon (which only hides a trip because every trip is in one
hour), and of a map without slices that is scaled by the exact share of each hour (which is not private); how often the
90 % intervals of slices contain the truth; and the error of the whole map with and without slices. Then, how
well the number of trips of a slice is known, how much answers of single slices lose where a rectangle grows, and what
slices cost in space and time.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import dqam
from benchmarks.measure import claim, options, seconds
from dqam import cities
from dqam.geometry.arrays import Floats, Integers, Mask
from dqam.geometry.counting import count_distinct
from dqam.geometry.grid import Grid
from dqam.geometry.rectangles import ALL, Snapped, size_bands
from dqam.geometry.slicing import Slicing
from dqam.geometry.trips import Trips
from dqam.geometry.walks import Walks, walk
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.publishing.plan import Plan
from dqam.release.release import Release

BY = "hour"
SMALL = 32  # cells; slices must be far better than hours by themselves for rectangles up to here
LOST = 1e-3  # of an answer; less is not called a loss


@dataclass(frozen=True)
class Published:
    """What is asked of one release with slices and of one without, made with the same budget and seed."""

    sliced: Release
    plain: Release


def release_of(
    walks: Walks, grid: Grid, epsilon: str, seed: int, slicing: Slicing | None = None, kept: Mask | None = None
) -> Release:
    """A release with noise from a seed, of all trips or of those that are kept."""
    plan = Plan.of(grid, epsilon, by=slicing)
    sums = Aggregates.of(walks, kept, slices=None if slicing is None else len(slicing))
    return plan.release(Curator(sums, Budget.of(plan.promise), SeededNoise(seed)), "benchmark")


def relative(found: Floats, truth: Integers) -> float:
    """The error in % of the mean answer, averaged over the slices that have any trips there."""
    mean = truth.mean(axis=1)
    return float(100 * np.mean(np.abs(found - truth).mean(axis=1)[mean > 0] / mean[mean > 0]))


def room_to_grow(cells: Integers, grid: Grid, rng: np.random.Generator) -> tuple[Integers, Integers]:
    """Those rectangles that the map has room for if they grow by one cell on a random side, before and after that."""
    step = np.array([[-1, 0, 0, 0], [0, -1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    larger = cells + step[rng.integers(0, 4, len(cells))]
    fits = (larger[:, :2] >= 0).all(axis=1) & (larger[:, 2:] <= (grid.columns, grid.rows)).all(axis=1)
    return cells[fits], larger[fits]


def main(*arguments: str) -> None:
    """Print the tables, and what holds of the targets."""
    parser = options(__doc__)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=0, help="the table in the docs starts at 0")
    parser.add_argument("--trips", type=int, default=100_000)
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--asked", type=int, default=500, help="rectangles of each band")
    given = parser.parse_args(arguments or None)
    if given.tiny:
        given.runs, given.trips, given.asked = 1, 600, 20
    first, grid, slicing = given.first_seed, Grid.over(cities.BOUNDS, 5 if given.tiny else 8), Slicing.parse(BY)
    rng = np.random.default_rng(7 + first)
    walks = walk(slicing.labelled(Trips.concat(list(cities.city_trips(given.trips, 1 + first, rhythm=True)))), grid)
    assert walks.slices is not None
    of_slice = [walks.slices == place for place in range(len(slicing))]
    made = [
        Published(release_of(walks, grid, given.epsilon, seed, slicing), release_of(walks, grid, given.epsilon, seed))
        for seed in range(first, first + given.runs)
    ]
    alone = [release_of(walks, grid, given.epsilon, seed, kept=mask) for seed, mask in enumerate(of_slice, first)]
    sizes = np.array([mask.sum() for mask in of_slice])
    print(
        f"\n{given.trips:,} trips, {len(slicing)} slices of {sizes.min():,} to {sizes.max():,} trips, eps = "
        f"{given.epsilon}\n"
    )
    print("| sides | mean answer | slices | each by itself | scaled map | within 90 % intervals | map | map alone |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    rows: dict[str, list[float]] = {}
    losing: list[str] = []
    for band in size_bands(grid):
        cells = band.draw(grid, given.asked, rng)
        asked = Snapped.of(cells, grid)
        truth = np.stack([count_distinct(walks, cells, grid, mask) for mask in of_slice])
        errors, held, whole, without, scaled = [], [], [], [], []
        for one in made:
            answers = one.sliced.by_slice(asked)
            errors.append(relative(np.stack([each.value for each in answers]), truth))
            held += [
                np.mean((each.low <= exact) & (exact <= each.high)) for each, exact in zip(answers, truth, strict=True)
            ]
            whole.append(relative(one.sliced.counts(asked).value[None], truth.sum(axis=0)[None]))
            of_plain = one.plain.counts(asked).value
            without.append(relative(of_plain[None], truth.sum(axis=0)[None]))
            scaled.append(relative(np.outer(sizes / sizes.sum(), of_plain), truth))
        by_itself = relative(np.stack([one.counts(asked).value for one in alone]), truth)
        row = [float(np.mean(part)) for part in (errors, [by_itself], scaled, held, whole, without)]
        rows[band.name] = row
        shares = [f"{part:.1f} %" for part in row]
        shares[3] = f"{100 * row[3]:.0f} %"
        print(f"| {band.name} | {truth.mean():,.1f} | {' | '.join(shares)} |", flush=True)
        before, after = (
            made[0].sliced.values_by_slice(Snapped.of(each, grid)) for each in room_to_grow(cells, grid, rng)
        )
        loss = 1 - np.divide(after, before, out=np.ones_like(after), where=before > 0)
        less = loss > LOST
        typical = f"{100 * np.median(loss[less]):.1f} %" if less.any() else "none"
        losing.append(f"  {band.name}: {less.mean():.0%} of cases, by a median of {typical}")
    _totals(made, sizes)
    print(f"\nAnswers of single slices that lose more than {LOST:.1%} where a rectangle grows by one cell:")
    print("\n".join(losing))
    print()
    for name, (ours, by_itself, scaled_map, _, map_with, map_without) in rows.items():
        large = name == ALL or int(name.partition("-")[0]) > SMALL
        claim(f"{name}, error of slices / each by itself", ours / by_itself, 1 if large else 0.85, True)
        claim(f"{name}, error of slices / scaled map", ours / scaled_map, 1, True)
        claim(f"{name}, error of the map with slices / without", map_with / map_without, 1.1, True)
    _cost(made[0], grid, given.asked)


def _totals(made: list[Published], sizes: Integers) -> None:
    """Print how well the number of trips of each slice is known."""
    off, wide, held = [], [], []
    for one in made:
        rows, columns = one.sliced.grid.shape
        everywhere = Snapped.of(np.array([[0, 0, columns, rows]]), one.sliced.grid)
        for size, answers in zip(sizes, one.sliced.by_slice(everywhere), strict=True):
            value, low, high = answers[0]
            if not size:
                continue
            off.append(abs(value - size) / size)
            wide.append((high - low) / 2 / size)
            held.append(low <= size <= high)
    print(
        f"\nNumber of trips of a slice: off by {np.mean(off):.1%}; 90 % intervals extend {np.mean(wide):.1%} to either "
        f"side and contain the truth in {np.mean(held):.0%} of cases."
    )


def _cost(made: Published, grid: Grid, asked: int) -> None:
    """Print what slices cost in space and time, as ratios to a release without them."""
    areas = Snapped.of(size_bands(grid)[0].draw(grid, asked, np.random.default_rng(3)), grid)
    west, south, east, north = (areas.bounds[0]).tolist()
    with tempfile.TemporaryDirectory() as folder:
        sizes, opening, answering, one = [], [], [], []
        for name, release in (("sliced.nc", made.sliced), ("plain.nc", made.plain)):
            path = Path(folder, name)
            release.save(path)
            sizes.append(path.stat().st_size)
            took, opened = seconds(lambda path=path: dqam.open(path))  # type: ignore[misc]
            opening.append(took)
            opened.counts(areas)
            answering.append(seconds(lambda opened=opened: opened.counts(areas))[0])  # type: ignore[misc]
            one.append(seconds(lambda opened=opened: opened.count(west, south, east, north))[0])  # type: ignore[misc]
            if opened.slices:
                opened.profile((west, south, east, north))
                profile = seconds(lambda opened=opened: opened.profile((west, south, east, north)))[0]  # type: ignore[misc]
    print(f"\nfile: {sizes[0] / 1e6:.2f} MB with slices, {sizes[1] / 1e6:.2f} MB without")
    claim("size of the file in MB", sizes[0] / 1e6, 5, True)
    print(f"opening: {opening[0] / opening[1]:.2f} times as long as without slices ({1000 * opening[0]:.0f} ms)")
    print(f"{asked:,} answers: {answering[0] / answering[1]:.2f} times as long ({1000 * answering[0]:.1f} ms)")
    print(f"a profile: {profile / one[1]:.1f} times as long as one answer without slices ({1000 * profile:.1f} ms)")


if __name__ == "__main__":
    main()
