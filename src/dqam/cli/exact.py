"""Commands that show exact numbers, for the custodian only: inspect and count."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np
from rich.table import Column, Table

from dqam.cli import plotting
from dqam.cli.options import OVERWRITE, PATH, SURE, reads_trips, refuse_to_replace, seed_option
from dqam.cli.terminal import (
    NOT_PRIVATE,
    SHOWN,
    answers,
    json_option,
    plain,
    print_json,
    say_left_out,
    say_not_private,
    say_notes,
    watched,
    words,
)
from dqam.cli.zones import Zones, areas_crs_option, output_option, read_zones, shape_options
from dqam.errors import InputError
from dqam.geometry.grid import Grid
from dqam.geometry.rectangles import HEADER, Snapped, random_rectangles, snap
from dqam.runtime.files import replacing

if TYPE_CHECKING:
    from dqam.geometry.walks import Gap, Walks
    from dqam.sources import Source

COUNTS = "exact_count_not_private"


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
@shape_options
@areas_crs_option()
@output_option
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
    areas: Path | None,
    lines: Path | None,
    name_column: str | None,
    areas_crs: str | None,
    output: Path | None,
    overwrite: bool,
    sure: bool,
    as_json: bool,
) -> None:
    """Count the distinct trips of FILE in areas, or the crossings of lines, exactly (NOT PRIVATE).

    A side of a rectangle between two grid lines moves outward to the next one; the counts are for the extended
    rectangles. The areas and lines of --areas and --lines are not extended, but what lies outside the bounds is cut
    off. A trip counts in such an area if one of its segments meets the area.

    \b
      dqam count trips.parquet --bounds -8.68 41.11 -8.56 41.20 --rectangle -8.62 41.14 -8.60 41.15
      dqam count trips.parquet --bounds -8.68 41.11 -8.56 41.20 --rectangles areas.csv -o counts.csv
      dqam count trips.parquet --bounds -8.68 41.11 -8.56 41.20 --areas zones.geojson -o zones.parquet
      dqam count trips.parquet --bounds -8.68 41.11 -8.56 41.20 --lines bridges.geojson --json
    """
    from dqam.geometry.counting import count_distinct
    from dqam.geometry.walks import lay

    ways = rectangles, rectangle or None, random_count, areas, lines
    if sum(way is not None for way in ways) != 1:
        raise InputError(
            "Say where to count in exactly one way: --rectangles FILE, --rectangle W S E N, --random N, --areas FILE "
            "or --lines FILE."
        )
    refuse_to_replace(output, overwrite)
    zones = read_zones(areas, lines, name_column, areas_crs, grid, "--areas-crs")
    if zones is not None:
        _count_zones(source, zones, gap, output, as_json)
        return
    if rectangles is not None:
        from dqam.geometry.rectangle_files import read_rectangles

        asked = read_rectangles(rectangles, grid)
    elif rectangle:
        asked = snap(np.array(rectangle), grid)
    else:
        asked = Snapped.of(random_rectangles(grid, random_count or 0, np.random.default_rng(seed)), grid)
    batches = watched(source, f"Counting in {source.name}")
    counts = count_distinct(lay(batches, grid, gap, source.name), asked.cells, grid)
    if output:
        import shapely

        from dqam.geometry.shape_tables import write_shapes

        columns = {
            **dict(zip(HEADER, asked.asked.T, strict=True)),
            COUNTS: counts,
            "grown": asked.grown,
            "cut": asked.cut,
        }
        with replacing(output) as temporary:
            write_shapes(temporary, columns, shapely.box(*asked.bounds.T), grid.crs, {"NOTE": NOT_PRIVATE})
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
    from dqam.release.formatting import size_of_rectangle

    say_not_private(answers)
    answers.print(f"Distinct trips; {asked}.")
    table = Table(*(Column(name.capitalize(), no_wrap=True) for name in HEADER), "Size", "Trips")
    for sides, cells, number in zip(asked.bounds[:SHOWN], asked.cells[:SHOWN].tolist(), counts[:SHOWN], strict=True):
        size = size_of_rectangle(cells[2] - cells[0], cells[3] - cells[1], grid)
        table.add_row(*(f"{side:.5f}" for side in sides), size, f"{number:,}")
    answers.print(table)
    _say_more(len(counts), output)
    if output:
        words.print(f"Saved as {output}", markup=False)
    say_left_out(source)
    say_notes(source)


def _count_zones(source: Source, zones: Zones, gap: Gap | None, output: Path | None, as_json: bool) -> None:
    """Count in the areas of a file, or the crossings of its lines."""
    from dqam.geometry.area_counting import count_crossings, count_in_areas
    from dqam.geometry.areas import PlacedAreas
    from dqam.geometry.walks import fitting

    batches = fitting(watched(source, f"Counting in {source.name}"), zones.grid, source.name)
    if isinstance(zones.placed, PlacedAreas):
        numbers = count_in_areas(batches, zones.placed, zones.grid, gap)
    else:
        numbers = count_crossings(batches, zones.placed, zones.grid, gap)
    outside = zones.placed.outside.tolist()
    counts = [None if out else number for out, number in zip(outside, numbers.tolist(), strict=True)]
    zones.say_changes(grown=False)
    if output:
        flags = {"cut": zones.placed.cut, "repaired": zones.placed.repaired}
        zones.save(output, {COUNTS: counts, **flags}, {"NOTE": NOT_PRIVATE})
    if as_json:
        told = {"private": False, "what": zones.counted, **zones.to_json(), "dropped": source.dropped}
        print_json({"names": zones.given.names, "counts": counts, **told})
        return
    say_not_private(answers)
    answers.print(f"{'Crossings' if zones.counted == 'crossings' else 'Distinct trips'}, counted with exact geometry.")
    table = Table("Name", "Length" if zones.what == "lines" else "Size", zones.counted.capitalize())
    for i, number in enumerate(counts[:SHOWN]):
        table.add_row(plain(zones.given.names[i]), zones.size(i), "no answer" if number is None else f"{number:,}")
    answers.print(table)
    answers.print(zones.meaning, soft_wrap=True)
    _say_more(len(counts), output)
    say_left_out(source)
    say_notes(source)


def _say_more(number: int, output: Path | None) -> None:
    if number > SHOWN:
        answers.print(f"... and {number - SHOWN:,} more{'' if output else '; save them with -o FILE'}")
