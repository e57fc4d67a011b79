"""Commands that show exact numbers, for the custodian only: inspect and count."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np
from rich.table import Table

from dqam.cli import plotting
from dqam.cli.options import OVERWRITE, PATH, SURE, reads_trips, refuse_to_replace, seed_option
from dqam.cli.terminal import (
    NOT_PRIVATE,
    SHOWN,
    answers,
    json_option,
    print_json,
    say_left_out,
    say_not_private,
    say_notes,
    watched,
    words,
)
from dqam.errors import InputError
from dqam.geometry.arrays import Numbers
from dqam.geometry.grid import Grid
from dqam.geometry.rectangles import HEADER, Snapped, random_rectangles, snap
from dqam.runtime.files import replacing

if TYPE_CHECKING:
    from dqam.geometry.walks import Gap, Walks
    from dqam.sources import Source


@click.command()
@reads_trips
@click.option("--picture", type=PATH, help="Save a map of the visits (.png, .svg or .pdf).")
@SURE
@json_option
def inspect(source: Source, grid: Grid, gap: Gap | None, picture: Path | None, sure: bool, as_json: bool) -> None:
    """Show what dqam reads from FILE (NOT PRIVATE): trips, points, rows that are dropped, and a map of the visits.

    \b
    FILE is recognised by its content: the Porto taxi CSV; point tables in CSV, Parquet or GeoParquet with
    the columns of scikit-mobility, MovingPandas or trackintel; tables of LineStrings. CSV may be gzipped.

    \b
      dqam inspect train.csv --bounds -8.68 41.11 -8.56 41.20 --resolution 8 --picture porto.png
    """
    from dqam.geometry.histogram import SpatialHistogram
    from dqam.geometry.walks import lay

    seen = {"trips": 0, "points": 0, "trips on the grid": 0, "points on the grid": 0, "pieces": 0, "visits": 0}

    def tallied() -> Iterator[Walks]:
        for walks in lay(watched(source, f"Reading {source.name}"), grid, gap, source.name):
            seen["trips"] += len(walks)
            seen["points"] += walks.points
            seen["trips on the grid"] += walks.on_grid
            seen["points on the grid"] += walks.inside
            seen["pieces"] += int(walks.trips[-1])
            seen["visits"] += int(walks.visits[-1])
            yield walks

    histogram = SpatialHistogram.of(tallied(), grid)
    if picture:
        title = f"Visits to cells, {seen['trips on the grid']:,} trips of {source.name}"
        plotting.draw_maps({title: histogram.faces}, grid, picture, NOT_PRIVATE, "visits")
    if as_json:
        print_json(
            {
                "private": False,
                "file": source.name,
                "grid": {"bounds": grid.bounds, "rows": grid.rows, "columns": grid.columns, "crs": grid.crs},
                **{key.replace(" ", "_"): value for key, value in seen.items()},
                "columns": source.roles,
                "dropped": source.dropped,
            }
        )
        return
    say_not_private(answers)
    table = Table(show_header=False, box=None, padding=(0, 2))
    table.add_row("grid", str(grid))
    table.add_row("columns", ", ".join(f"{role}: {name}" for role, name in source.roles.items()))
    table.add_row("trips read", f"{seen['trips']:,}")
    table.add_row("  on the grid", f"{seen['trips on the grid']:,}")
    table.add_row("  outside", f"{seen['trips'] - seen['trips on the grid']:,}")
    table.add_row("points read", f"{seen['points']:,}")
    table.add_row("  on the grid", f"{seen['points on the grid']:,}")
    table.add_row("  outside", f"{seen['points'] - seen['points on the grid']:,}")
    for reason, number in source.dropped.items():
        table.add_row("left out", f"{number:,} {reason}")
    if source.joined:
        table.add_row("joined", f"{source.joined:,} rows to others with the same trip id")
    table.add_row("pieces", f"{seen['pieces']:,} (one for each time a trip is on the grid)")
    table.add_row("visits", f"{seen['visits']:,} ({seen['visits'] / max(1, seen['trips on the grid']):.1f} per trip)")
    answers.print(table)
    answers.print(plotting.sketch(histogram.faces, grid, min(64, answers.width)), markup=False)
    answers.print("Visits to cells on a log scale; darker means more. North is up.")
    say_notes(source)
    if picture:
        words.print(f"Map saved as {picture}", markup=False)


@click.command()
@reads_trips
@click.option("--rectangles", type=PATH, help="File of rectangles: CSV (west,south,east,north) or GeoJSON.")
@click.option(
    "--rectangle",
    type=float,
    nargs=4,
    multiple=True,
    metavar="W S E N",
    help="Rectangle to count in: west, south, east, north. Repeatable.",
)
@click.option(
    "--random", "random_count", type=click.IntRange(1, 10_000_000), help="Count in this many random rectangles instead."
)
@seed_option("Seed of the random rectangles.")
@click.option("--output", "-o", type=PATH, help="Save the rectangles and counts as CSV.")
@OVERWRITE
@SURE
@json_option
def count(
    source: Source,
    grid: Grid,
    gap: Gap | None,
    rectangles: Path | None,
    rectangle: tuple[tuple[float, float, float, float], ...],
    random_count: int | None,
    seed: int,
    output: Path | None,
    overwrite: bool,
    sure: bool,
    as_json: bool,
) -> None:
    """Count the distinct trips of FILE in rectangles exactly (NOT PRIVATE).

    A side between two grid lines moves outward to the next one; the counts are for the extended rectangles.

    \b
      dqam count trips.parquet --bounds -8.68 41.11 -8.56 41.20 --rectangle -8.62 41.14 -8.60 41.15
      dqam count trips.parquet --bounds -8.68 41.11 -8.56 41.20 --rectangles areas.geojson -o counts.csv
    """
    from dqam.geometry.counting import count_distinct
    from dqam.geometry.walks import lay

    if (rectangles is not None) + bool(rectangle) + (random_count is not None) != 1:
        raise InputError("Give rectangles in exactly one way: --rectangles FILE, --rectangle W S E N or --random N.")
    if rectangles is not None:
        from dqam.geometry.rectangle_files import read_rectangles

        asked = read_rectangles(rectangles, grid)
    elif rectangle:
        asked = snap(np.array(rectangle), grid)
    else:
        asked = Snapped.of(random_rectangles(grid, random_count or 0, np.random.default_rng(seed)), grid)
    refuse_to_replace(output, overwrite)
    batches = watched(source, f"Counting in {source.name}")
    counts = count_distinct(lay(batches, grid, gap, source.name), asked.cells, grid)
    if output:
        save_counts(output, asked, counts)
    if as_json:
        print_json(
            {
                "counts": counts.tolist(),
                "private": False,
                "asked": asked.asked.tolist(),
                "rectangles": asked.bounds.tolist(),
                "grown": asked.grown.tolist(),
                "cut": asked.cut.tolist(),
                "dropped": source.dropped,
            }
        )
        return
    say_not_private(answers)
    answers.print(f"Distinct trips; {asked}.")
    table = Table(*(name.capitalize() for name in HEADER), "Trips")
    for sides, number in zip(asked.bounds[:SHOWN], counts[:SHOWN], strict=True):
        table.add_row(*(f"{side:.6f}" for side in sides), f"{number:,}")
    answers.print(table)
    if len(counts) > SHOWN:
        answers.print(f"... and {len(counts) - SHOWN:,} more{'' if output else '; save them with -o FILE'}")
    if output:
        words.print(f"Saved as {output}", markup=False)
    say_left_out(source)
    say_notes(source)


def save_counts(path: Path, rectangles: Snapped, counts: Numbers) -> None:
    """Write a CSV file with a row for each rectangle: its sides, its exact count, and whether it was grown or cut."""
    with replacing(path) as temporary, temporary.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*HEADER, "exact_count_not_private", "grown", "cut"])
        rows = zip(rectangles.asked.tolist(), counts.tolist(), rectangles.grown, rectangles.cut, strict=True)
        writer.writerows([*sides, number, int(grown), int(cut)] for sides, number, grown, cut in rows)
