"""The command `demo`: generate a city, publish it, and compare answers with exact counts."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click
import numpy as np
from rich.table import Table

from dqam.cli import plotting, terminal
from dqam.cli.options import PATH, seed_option
from dqam.cli.terminal import answers, itself, plain, progress_of, words
from dqam.errors import InputError
from dqam.geometry.grid import Grid
from dqam.geometry.rectangles import Snapped, random_rectangles, snap
from dqam.runtime.files import replacing

PLACES = {  # the rectangles to query, in degrees
    "the old town": (-30.006, 44.995, -29.994, 45.005),
    "everything south": (-30.063, 44.955, -29.937, 45.0),
    "a quarter in the east": (-29.975, 44.985, -29.945, 45.015),
}
RUNS = 1_000  # of the demo in one folder; generated trips need no protection


@click.command()
@click.option(
    "--output",
    "-o",
    type=PATH,
    default=Path("dqam-demo"),
    show_default=True,
    help="Folder to write to.",
)
@click.option("--trips", "-n", type=click.IntRange(min=1), default=20_000, show_default=True, help="Number of trips.")
@seed_option("Seed of the generated trips.")
def demo(output: Path, trips: int, seed: int) -> None:
    """Generate a city, publish a map of it at epsilon = 1, and compare its answers with the exact counts."""
    from dqam import cities
    from dqam.geometry.counting import count_distinct
    from dqam.geometry.walks import walk
    from dqam.privacy.ledger import Ledger
    from dqam.publishing.pipeline import carry_out
    from dqam.publishing.plan import Plan
    from dqam.sources import read

    terminal.STOPPED = "Stopped; no file is half-written."
    if output.exists() and not output.is_dir():
        raise InputError(f"{output} is a file; give a folder for the demo to write to.")
    output.mkdir(parents=True, exist_ok=True)
    book_file = output / "demo-ledger.db"
    if any(output.iterdir()) and not book_file.exists():
        raise InputError(f"{output} has files that no demo wrote; give another folder for the demo to write to.")
    file, saved, page, picture = (output / name for name in ("city.parquet", "city.nc", "report.html", "map.png"))
    grid = Grid.over(cities.BOUNDS, resolution=8)
    with progress_of(f"Generating {trips:,} trips") as show:
        cities.write_parquet(cities.city_trips(trips, seed), file, trips, lambda done, of: show(done / of))
    raw = read(file).trips()
    with words.status("Publishing with flux, epsilon = 1"):
        plan = Plan.of(grid, 1, title="A made-up city")
        book = Ledger.open(book_file)
        release, spent = carry_out(plan, raw, "a made-up city", book, RUNS)
        release.save(saved, overwrite=True)
        book.delivered(spent.id)
    with replacing(page) as temporary:
        temporary.write_text(release.report(), encoding="utf-8")
    walks = walk(raw, grid)
    with words.status("Counting distinct trips exactly, to compare"):
        fresh = random_rectangles(grid, 16_000, np.random.default_rng(seed + 1))
        exact = count_distinct(walks, fresh, grid)
        off = np.abs(release.counts(Snapped.of(fresh, grid)).value - exact).mean()
        places = snap(list(PLACES.values()), grid)
        exactly = count_distinct(walks, places.cells, grid)
        cells = release.cells()
        by_cell = count_distinct(walks, cells.rectangles.cells, grid).reshape(grid.shape)
    drawn = find_spec("matplotlib") is not None
    if drawn:
        panels = {
            f"Exact: {walks.on_grid:,} generated trips": by_cell,
            "Published: private, epsilon = 1": cells.value.reshape(grid.shape),
        }
        note = "Exact counts are not private; these trips are generated. A release contains only the right side."
        plotting.draw_maps(panels, grid, picture, note, "distinct trips through each cell")
    answers.print(plotting.sketch(cells.value.reshape(grid.shape), grid), markup=False)
    answers.print(f"[bold]{plain(release.provenance.promise)}[/]")
    table = Table("Distinct trips through", "Exact", "Published", "Interval (90%)", box=None, padding=(0, 2, 0, 0))
    found = release.counts(places)
    for i, place in enumerate(PLACES):
        one = found[i]
        table.add_row(place, f"{exactly[i]:,}", f"{one.value:,.0f}", f"{one.low:,.0f} to {one.high:,.0f}")
    answers.print(table)
    answers.print(
        f"16,000 random rectangles contain {exact.mean():,.0f} trips on average; the map is off by {off:,.0f} on "
        f"average ({off / max(exact.mean(), 1):.1%}).",
        soft_wrap=True,
    )
    answers.print("Exact answers are not private. They can be shown here because the trips are generated.")
    for label, path in (("picture", picture), ("report", page), ("release", saved), ("trips", file)):
        if path.exists():
            answers.print(f"{label:>8}: {path}", markup=False, soft_wrap=True)
    answers.print("Next, draw a rectangle in the browser:")
    answers.print(f"  {itself()} serve {saved}", markup=False, soft_wrap=True)
    if not drawn:
        words.print(
            "No picture was drawn, because matplotlib is not installed: pip install 'dqam[plot]'.", markup=False
        )
