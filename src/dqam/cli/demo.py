"""The command that shows all at a glance: demo."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click
import numpy as np

from dqam import maps
from dqam.cli.exact import save_counts
from dqam.cli.options import PATH, seed_option
from dqam.cli.terminal import answers, progress_of, words
from dqam.errors import InputError
from dqam.grid import Grid
from dqam.privacy.budget import Budget
from dqam.rectangles import Snapped, random_rectangles


@click.command()
@click.option(
    "--output",
    "-o",
    type=PATH,
    default=Path("dqam-demo"),
    show_default=True,
    help="The folder to write to.",
)
@click.option("--trips", "-n", type=click.IntRange(min=1), default=20_000, show_default=True, help="How many trips.")
@seed_option("Another seed, other trips.")
def demo(output: Path, trips: int, seed: int) -> None:
    """Generate a city, count 16,000 rectangles exactly, make a private map with flux, and compare the two."""
    from dqam import cities
    from dqam.counting import count_distinct
    from dqam.histogram import SpatialHistogram
    from dqam.mechanisms import make
    from dqam.privacy.curator import Curator
    from dqam.privacy.noise import OpenDPNoise
    from dqam.sources import read
    from dqam.walks import walk

    if output.exists() and not output.is_dir():
        raise InputError(f"{output} is a file; give a folder for the demo to write to.")
    output.mkdir(parents=True, exist_ok=True)
    file, table, picture = output / "city.parquet", output / "counts.csv", output / "map.png"
    private_picture = output / "private-map.png"
    grid = Grid.over(cities.BOUNDS, resolution=8)
    with progress_of(f"Generating {trips:,} trips") as show:
        cities.write_parquet(cities.city_trips(trips, seed), file, trips, lambda done, of: show(done / of))
    walks = walk(read(file).trips(), grid)
    histogram = SpatialHistogram.of(walks)
    with words.status("Counting distinct trips in 16,000 rectangles"):
        asked = Snapped.of(random_rectangles(grid, 16_000, np.random.default_rng(seed)), grid)
        counts = count_distinct(walks, asked.cells, grid)
    save_counts(table, asked, counts)
    budget = Budget(1)
    with words.status("Making a private map: flux, eps = 1"):
        private = make("flux").synthesize(Curator(walks, budget, OpenDPNoise()), asked.cells, budget)
    drawn = find_spec("matplotlib") is not None
    if drawn:
        maps.draw(
            histogram.faces,
            grid,
            picture,
            title=f"A made-up city: visits of {walks.on_grid:,} generated trips",
            note="Exact, not private; the trips are generated.",
            unit="visits",
        )
        maps.draw(
            private.faces,
            grid,
            private_picture,
            title="The same city, private: flux, eps = 1",
            note="Differentially private for one trip, eps = 1; from generated trips; a trip that returns counts once.",
            unit="visits that count, estimated",
        )
    overcount = np.abs(histogram.answers(asked.cells) - counts).mean()
    answers.print(maps.sketch(histogram.faces, grid), markup=False)
    answers.print(f"{walks.on_grid:,} trips, {len(walks.cells):,} visits on {grid}", soft_wrap=True)
    answers.print(f"16,000 rectangles hold {counts.mean():,.0f} distinct trips on average, counted exactly.")
    answers.print(
        f"The spatial histogram alone counts a trip again when it returns: off by {overcount:,.0f} on average."
    )
    off = np.abs(np.clip(private.answers(asked.cells), 0, private.total) - counts).mean()
    answers.print(
        f"A private map (flux, eps = 1 for one trip) answers the same rectangles, off by {off:,.0f} on average."
    )
    answers.print("Exact answers are not private; these trips are generated.")
    for label, path in (("map", picture), ("private", private_picture), ("counts", table), ("trips", file)):
        if path.exists():
            answers.print(f"{label:>7}: {path}", markup=False, soft_wrap=True)
    if not drawn:
        words.print("No map was drawn: that needs matplotlib (pip install 'dqam[plot]').", markup=False)
