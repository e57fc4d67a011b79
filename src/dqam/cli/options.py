"""Command-line options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from dqam.errors import InputError
from dqam.geometry.grid import DEGREES, Grid, check_order
from dqam.runtime.files import writable

Command = Callable[..., Any]
Option = Callable[[Command], Command]

PATH = click.Path(path_type=Path)


class PathOrUrl(click.ParamType[Any]):
    """A path, or a URL that stays text."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Text with :// in it is a URL."""
        return value if "://" in str(value) else PATH.convert(value, param, ctx)


TRIPS_AND_GRID: tuple[Option, ...] = (
    click.argument("file", type=PathOrUrl()),
    click.option(
        "--bounds",
        type=float,
        nargs=4,
        required=True,
        metavar="W S E N",
        help="West, south, east and north edges of the map. They are published: never derive them from the data.",
    ),
    click.option(
        "--resolution", "-k", type=int, default=8, show_default=True, help="The map has 2^k x 2^k cells; k is 1 to 12."
    ),
    click.option("--crs", default=DEGREES, show_default=True, help="CRS of the bounds, such as EPSG:28355."),
    click.option(
        "--column",
        "columns",
        multiple=True,
        metavar="ROLE=NAME",
        help="Column for a role, if it is not recognised; an empty name (person=) means none. Repeatable. "
        "Roles: trip, person, time, lon, lat, geometry, polyline.",
    ),
    click.option(
        "--on-error",
        type=click.Choice(["fail", "drop"]),
        help="What to do with rows that cannot be used, such as points with invalid coordinates. By default `publish` "
        "drops them, so that no row decides whether there is a release; other commands fail.",
    ),
    click.option("--source-crs", help="CRS of the coordinates in the file, if the file does not declare it."),
    click.option("--swap-axes", is_flag=True, help="Exchange x and y (longitude and latitude) in the file."),
    click.option(
        "--max-gap",
        metavar="120s|500m",
        help="Split a trip at gaps between points that are longer than this (s, min, h, m or km).",
    ),
)


LEDGER = click.option(
    "--ledger",
    metavar="FILE|URL",
    help="Ledger of spent budgets: a file, or postgresql://... Default: $DQAM_LEDGER, or else ledger.db in your user "
    "folder for dqam.",
)
RELEASE = click.argument("release", metavar="RELEASE", type=PATH)
SLICES = click.option(
    "--slices",
    metavar="NAMES",
    callback=lambda context, parameter, value: value and [name.strip() for name in value.split(",")],
    help="Count only the trips of these slices: names separated by commas, such as 07,08 for a release by hour.",
)
SURE = click.option("--sure", is_flag=True, help="Accept bounds that seem to be in the wrong order.")
OVERWRITE = click.option("--overwrite", is_flag=True, help="Replace the output if it exists.")


def refuse_to_replace(output: Path | None, overwrite: bool) -> None:
    """Raise an `InputError` if a file would be replaced by accident."""
    if output is not None and output.exists() and not overwrite:
        raise InputError(f"{output} exists; give another name, or --overwrite to replace it.")


def with_options(command: Command, *options: Option) -> Command:
    """The command with these options, which its help lists in this order."""
    for option in reversed(options):
        command = option(command)
    return command


def seed_option(about: str) -> Option:
    """The option --seed, with its help."""
    return click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help=about)


def reads_trips(command: Command) -> Command:
    """Add FILE, how to read it and the grid; the command gets `source`, `grid` and `gap`, and must have `--sure`."""

    @wraps(command)
    def run(
        file: Path | str,
        columns: tuple[str, ...],
        on_error: str | None,
        source_crs: str | None,
        swap_axes: bool,
        max_gap: str | None,
        bounds: tuple[float, float, float, float],
        resolution: int,
        crs: str,
        **options: Any,
    ) -> None:
        from dqam.geometry.walks import Gap
        from dqam.sources import read

        grid = Grid.over(bounds, resolution, crs)
        if not options["sure"]:
            check_order(grid.bounds, crs)
        gap = Gap.parse(max_gap) if max_gap else None
        roles = {}
        for column in columns:
            role, equals, name = column.partition("=")
            if not equals:
                raise InputError(f"--column must be ROLE=NAME, such as --column trip=ride_id; got {column!r}.")
            roles[role] = name
        trips: Any = file
        if options.get("engine") == "spark":
            from dqam.engines.spark_session import frame_of

            trips = frame_of(file)
        source = read(trips, columns=roles or None, crs=source_crs, swap_axes=swap_axes, on_error=on_error)
        source.path = file
        for output in (options.get("output"), options.get("picture")):
            if output is not None:
                writable(output, file, *(options.get(name) for name in ("rectangles", "areas", "lines")))
        command(source=source, grid=grid, gap=gap, **options)

    return with_options(run, *TRIPS_AND_GRID)
