"""The `dqam` command.

Words, tables and progress go to standard error or, where they are the answer, to standard output; with --json
standard output is exactly one JSON object. Exit codes: 0 done, 1 a check failed, 2 bad input or usage,
3 budget refused.
"""

from __future__ import annotations

import csv
import importlib
import json
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from textwrap import fill
from typing import Any, NoReturn

import click
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

import dqam
from dqam import cities, maps
from dqam.counting import count_distinct
from dqam.errors import InputError
from dqam.evaluate.audited import AUDITED, Audited
from dqam.files import replacing, writable
from dqam.grid import DEGREES, Grid
from dqam.histogram import SpatialHistogram
from dqam.mechanisms import MECHANISMS, make
from dqam.privacy.audit import audit as run_audit
from dqam.privacy.budget import Budget, BudgetError, parse_epsilon
from dqam.privacy.curator import Curator
from dqam.privacy.figure import draw_audit
from dqam.privacy.noise import OpenDPNoise
from dqam.rectangles import HEADER, Snapped, random_rectangles, read_rectangles, snap
from dqam.sources import Source, read
from dqam.threads import cores
from dqam.trips import Trips
from dqam.walks import Gap, Walks, lay, walk

NOT_PRIVATE = "NOT PRIVATE: exact figures of the raw trips. For the custodian's eyes, not for publication."
SHOWN = 12  # rectangles listed on a terminal

words = Console(stderr=True, highlight=False)
answers = Console(highlight=False)


def main() -> NoReturn:
    """Run the command line; bad input is one sentence on standard error and exit code 2."""
    for name, code in (("SIGTERM", 143), ("SIGHUP", 129)):  # unwind, so that no temporary file stays
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda *_, code=code: sys.exit(code))
    try:
        cli.main(prog_name="dqam", standalone_mode=False)
    except click.exceptions.Abort:
        words.print("Stopped; nothing was written.")
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except InputError as error:
        words.print(f"[bold red]Error:[/] {_plain(error)}", soft_wrap=True)
        sys.exit(3 if isinstance(error, BudgetError) else 2)
    except OSError as error:
        words.print(f"[bold red]Error:[/] {_plain(error)}", soft_wrap=True)
        sys.exit(2)
    sys.exit(0)


def _plain(error: Exception | str) -> str:
    """The words, with nothing in them taken as markup."""
    return str(error).replace("[", r"\[")


@contextmanager
def progress_of(what: str) -> Iterator[Callable[[float], None]]:
    """A progress bar on standard error; call what it gives with the share done, 0 to 1."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=words, transient=True, disable=not words.is_terminal) as progress:
        task = progress.add_task(what, total=1.0)
        yield lambda share: progress.update(task, completed=share)


def watched(source: Source, what: str) -> Iterator[Trips]:
    """The batches of `source`, with a progress bar."""
    with progress_of(what) as show:
        for trips in source:
            yield trips
            show(source.progress)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(dqam.__version__, prog_name="dqam")
def cli() -> None:
    """Distinct trips in any rectangle of a map: counted exactly, or published with differential privacy.

    \b
    Start here:
      dqam demo                                a made-up city, exact and private
      dqam inspect trips.csv --bounds W S E N  what would be used of your own file
      dqam count trips.csv --bounds W S E N --rectangles areas.csv
      dqam mechanisms                          what can make a private map
      dqam reproduce --quick -o results        the paper's experiments, done soundly
    """


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """--json."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")(command)


def reads_trips(command: Callable[..., Any]) -> Callable[..., Any]:
    """FILE, how to read it and the grid to lay it on; the command gets `source`, `grid` and `gap`."""

    @wraps(command)
    def run(
        file: Path,
        columns: tuple[str, ...],
        on_error: str,
        source_crs: str | None,
        swap_axes: bool,
        max_gap: str | None,
        bounds: tuple[float, float, float, float],
        resolution: int,
        crs: str,
        **options: Any,
    ) -> None:
        grid = Grid.over(bounds, resolution, crs)
        gap = Gap.parse(max_gap) if max_gap else None
        roles = {}
        for column in columns:
            role, equals, name = column.partition("=")
            if not equals:
                raise InputError(f"--column wants ROLE=NAME, like --column trip=ride_id; got {column!r}.")
            roles[role] = name
        source = read(file, columns=roles or None, crs=source_crs, swap_axes=swap_axes, on_error=on_error)
        for output in (options.get("output"), options.get("picture")):
            if output is not None:
                writable(output, file, options.get("rectangles"))
        command(source=source, grid=grid, gap=gap, **options)

    for decorate in (
        click.option(
            "--max-gap",
            metavar="120s|500m",
            help="Cut a trip where the GPS was silent for longer than this (s, min, m or km).",
        ),
        click.option("--swap-axes", is_flag=True, help="The file has latitude and longitude exchanged."),
        click.option("--source-crs", help="CRS of the file's coordinates, if it does not say so itself."),
        click.option(
            "--on-error",
            type=click.Choice(["fail", "drop"]),
            default="fail",
            show_default=True,
            help="What to do with points whose coordinates are missing or out of range.",
        ),
        click.option(
            "--column",
            "columns",
            multiple=True,
            metavar="ROLE=NAME",
            help="Name a column that is not recognised, or use none (person=). "
            "Roles: trip, person, time, lon, lat, geometry, polyline.",
        ),
        click.option("--crs", default=DEGREES, show_default=True, help="CRS of the bounds, such as EPSG:28355."),
        click.option(
            "--resolution", "-k", type=int, default=8, show_default=True, help="2^k x 2^k cells, k from 1 to 12."
        ),
        click.option(
            "--bounds",
            type=float,
            nargs=4,
            required=True,
            metavar="W S E N",
            help="West, south, east, north of the map: public, chosen by you, never taken from the data.",
        ),
        click.argument("file", type=click.Path(path_type=Path)),
    ):
        run = decorate(run)
    return run


def say_not_private(console: Console) -> None:
    """The label of everything exact."""
    console.print(f"[bold red]{NOT_PRIVATE}[/]")


@cli.command()
@reads_trips
@click.option("--picture", type=click.Path(path_type=Path), help="Save a map of the visits (.png, .svg or .pdf).")
@json_option
def inspect(source: Source, grid: Grid, gap: Gap | None, picture: Path | None, as_json: bool) -> None:
    """Show what would be used of FILE: trips, points, what is dropped and why, and where the visits are.

    \b
    FILE is recognised by its content: the Porto taxi CSV; point tables in CSV, Parquet or GeoParquet with
    the columns of scikit-mobility, MovingPandas or trackintel; tables of LineStrings. Text may be gzipped.

    \b
      dqam inspect train.csv --bounds -8.68 41.11 -8.56 41.20 --resolution 8 --picture porto.png
    """
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
        maps.draw(
            histogram.faces,
            grid,
            picture,
            title=f"Visits of cells, {seen['trips on the grid']:,} trips of {source.name}",
            note=NOT_PRIVATE,
            unit="visits",
        )
    if as_json:
        _print_json(
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
        table.add_row("dropped", f"{number:,} {reason}")
    table.add_row("pieces", f"{seen['pieces']:,} (one for each time a trip is on the grid)")
    table.add_row("visits", f"{seen['visits']:,} ({seen['visits'] / max(1, seen['trips on the grid']):.1f} a trip)")
    answers.print(table)
    answers.print(maps.sketch(histogram.faces, grid, min(64, answers.width)), markup=False)
    answers.print("Visits of cells, darker where more (by the logarithm); north is up.")
    _say_notes(source)
    if picture:
        words.print(f"Map saved as {picture}", markup=False)


@cli.command()
@reads_trips
@click.option("--rectangles", type=click.Path(path_type=Path), help="CSV (west,south,east,north) or GeoJSON file.")
@click.option("--rectangle", type=float, nargs=4, multiple=True, metavar="W S E N", help="One rectangle. Repeatable.")
@click.option(
    "--random", "random_count", type=click.IntRange(1, 10_000_000), help="So many rectangles at random instead."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the random rectangles.")
@click.option("--output", "-o", type=click.Path(path_type=Path), help="Save rectangles and counts as CSV.")
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
    as_json: bool,
) -> None:
    """Count the distinct trips of FILE in rectangles: exact, and NOT PRIVATE.

    Sides that lie between grid lines move outward to the next one; the counts are of the grown rectangles.

    \b
      dqam count trips.parquet --bounds -8.68 41.11 -8.56 41.20 --rectangle -8.62 41.14 -8.60 41.15
      dqam count trips.parquet --bounds -8.68 41.11 -8.56 41.20 --rectangles areas.geojson -o counts.csv
    """
    if (rectangles is not None) + bool(rectangle) + (random_count is not None) != 1:
        raise InputError(
            "Give the rectangles to count in one way: --rectangles FILE, --rectangle W S E N or --random N."
        )
    if rectangles is not None:
        asked = read_rectangles(rectangles, grid)
    elif rectangle:
        asked = snap(np.array(rectangle), grid)
    else:
        asked = Snapped.of(random_rectangles(grid, random_count or 0, np.random.default_rng(seed)), grid)
    batches = watched(source, f"Counting in {source.name}")
    counts = count_distinct(lay(batches, grid, gap, source.name), asked.cells, grid)
    if output:
        save_counts(output, asked, counts)
    if as_json:
        _print_json(
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
    for reason, number in source.dropped.items():
        words.print(f"Dropped: {number:,} {reason}")
    _say_notes(source)


def save_counts(path: Path, rectangles: Snapped, counts: np.ndarray[Any, Any]) -> None:
    """A CSV file, one row a rectangle: as it was asked, its exact count, and whether it was grown or cut for that."""
    with replacing(path) as temporary, temporary.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*HEADER, "exact_count_not_private", "grown", "cut"])
        rows = zip(rectangles.asked.tolist(), counts.tolist(), rectangles.grown, rectangles.cut, strict=True)
        writer.writerows([*sides, number, int(grown), int(cut)] for sides, number, grown, cut in rows)


def _say_notes(source: Source) -> None:
    for note in source.notes:
        words.print(f"[yellow]Note:[/] {_plain(note)}")


def _print_json(value: dict[str, Any]) -> None:
    click.echo(json.dumps(value))


@cli.group()
def generate() -> None:
    """Make trips: a made-up city, or trips on a road network.

    The file is Parquet, a row a point, with the columns uid, tid, datetime, lng, lat. The same seed gives the
    same trips.

    \b
      dqam generate city -n 20000 -o city.parquet
    """


def generate_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """-n, --seed and -o."""
    for option in (
        json_option,
        click.option(
            "--output", "-o", type=click.Path(path_type=Path), required=True, help="The Parquet file to write."
        ),
        click.option("--overwrite", is_flag=True, help="Replace the file if there is one."),
        click.option(
            "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Another seed, other trips."
        ),
        click.option(
            "--trips",
            "-n",
            type=click.IntRange(min=1),
            default=20_000,
            show_default=True,
            help="How many trips to make.",
        ),
    ):
        command = option(command)
    return command


def save_trips(
    batches: Iterable[Trips], path: Path, total: int, bounds: tuple[float, ...], overwrite: bool, as_json: bool
) -> None:
    """Write generated trips and say how to go on."""
    if path.exists() and not overwrite:
        raise InputError(f"{path} exists; give another name, or --overwrite to replace it.")
    with progress_of(f"Generating {total:,} trips") as show:
        points = cities.write_parquet(batches, path, total, lambda done, of: show(done / of))
    if as_json:
        _print_json({"file": str(path), "trips": total, "points": points, "bounds": bounds})
        return
    spelled = " ".join(f"{side:.6f}" for side in bounds)
    answers.print(f"{path}: {total:,} trips, {points:,} points", markup=False)
    words.print(f"Next: dqam inspect {path} --bounds {spelled}", markup=False, soft_wrap=True)


@generate.command()
@generate_options
def city(trips: int, seed: int, output: Path, overwrite: bool, as_json: bool) -> None:
    """Trips through a made-up city: streets, arterials, a river with bridges, several centres.

    \b
      dqam generate city -n 20000 -o city.parquet
    """
    save_trips(cities.city_trips(trips, seed), output, trips, cities.BOUNDS, overwrite, as_json)


@generate.command()
@click.option("--nodes", type=click.Path(path_type=Path), required=True, help="Node table: id, lon, lat.")
@click.option(
    "--links", type=click.Path(path_type=Path), required=True, help="Link table: from, to, length_m, freespeed_mps."
)
@click.option(
    "--bounds",
    type=float,
    nargs=4,
    default=cities.MELBOURNE_BOUNDS,
    metavar="W S E N",
    help="Where trips start and end; central Melbourne if not given.",
)
@click.option(
    "--units", type=click.IntRange(min=1), default=20, show_default=True, help="Time units a trip is observed."
)
@click.option(
    "--interval",
    type=click.FloatRange(min=0, min_open=True),
    default=15.0,
    show_default=True,
    help="Seconds in a time unit.",
)
@generate_options
def network(
    nodes: Path,
    links: Path,
    bounds: tuple[float, float, float, float],
    units: int,
    interval: float,
    trips: int,
    seed: int,
    output: Path,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Trips between uniform origins and destinations on a road network (MELB-CAR of the paper).

    \b
      dqam generate network --nodes nodes.csv.gz --links edges.csv.gz -n 100000 -o melb.parquet
    """
    roads = cities.RoadNetwork.from_tables(nodes, links, bounds)
    batches = cities.uniform_trips(roads, bounds, trips, seed, units=units, interval=interval)
    save_trips(batches, output, trips, bounds, overwrite, as_json)


@generate.command()
@click.option("--roads", type=click.Path(path_type=Path), required=True, help="Road segments: coordinates, highway.")
@click.option(
    "--sample", type=click.Path(path_type=Path), required=True, help="Trips whose origins and destinations to resample."
)
@generate_options
def porto(roads: Path, sample: Path, trips: int, seed: int, output: Path, overwrite: bool, as_json: bool) -> None:
    """Porto-like trips: origins and destinations of a sample, resampled and jittered, routed on Porto's roads.

    \b
      dqam generate porto --roads porto_roads.csv.gz --sample porto_sample.csv.gz -n 100000 -o porto.parquet
    """
    network = cities.RoadNetwork.from_lines(roads)
    batches = cities.porto_like_trips(network, read(sample).trips(), trips, seed)
    save_trips(batches, output, trips, cities.PORTO_BOUNDS, overwrite, as_json)


@cli.command()
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    default=Path("dqam-demo"),
    show_default=True,
    help="The folder to write to.",
)
@click.option("--trips", "-n", type=click.IntRange(min=1), default=20_000, show_default=True, help="How many trips.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Another seed, other trips.")
def demo(output: Path, trips: int, seed: int) -> None:
    """Generate a city, count 16,000 rectangles exactly, make a private map with flux, and compare the two."""
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


@cli.command()
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), required=True, help="The folder for results, figures and page."
)
@click.option(
    "--quick", is_flag=True, help="Fewer trips, query sets, resolutions and runs: minutes instead of a night."
)
@click.option("--only", multiple=True, metavar="FIGURE", help="Run for this figure alone. Repeatable.")
@click.option("--data", type=click.Path(path_type=Path), help="Folder with the Porto and Melbourne files.")
@click.option("--runs", type=click.IntRange(1, 1000), help="Runs a point; 5, or 3 with --quick, if not given.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of trips, queries and noise.")
@click.option(
    "--processes", type=click.IntRange(min=1), help="How many at once; as many as there are processors if not given."
)
def reproduce(
    output: Path,
    quick: bool,
    only: tuple[str, ...],
    data: Path | None,
    runs: int | None,
    seed: int,
    processes: int | None,
) -> None:
    """Run the experiments of the paper again: figures, tables and one page that explains them.

    Every mechanism is held against distinct trips, and the paper's own forms against the paper's own measure. What
    is done is kept in the folder: the same command goes on where it was stopped, and draws again when all is done.
    Everything is made with seeded noise and is NOT PRIVATE.

    \b
      dqam reproduce --quick -o results                      a made-up city, a few minutes
      dqam reproduce --data ../shared/data -o results-full   Porto and Melbourne up to 1,000,000 trips, a night
      dqam reproduce --quick --only size --only kld -o results

    \b
    FIGURE is size, deviation, queries, resolution, kld, time or claims.
    --data wants porto_sample.csv.gz, porto_roads.csv.gz, melbourne_nodes.csv.gz and melbourne_edges.csv.gz.
    """
    from dqam.evaluate.plan import Settings  # here, as no other command needs what it brings along
    from dqam.evaluate.reproduce import StoppedError
    from dqam.evaluate.reproduce import reproduce as run_experiments

    settings = replace(Settings.quick() if quick else Settings(), seed=seed)
    if runs is not None:
        settings = replace(settings, runs=runs)
    try:
        page = run_experiments(
            output, settings, only, data, processes or cores(), progress_of, lambda text: words.print(_plain(text))
        )
    except StoppedError as stopped:
        words.print(_plain(stopped), soft_wrap=True)
        sys.exit(130)
    answers.print(str(page), markup=False, soft_wrap=True)


@cli.command("mechanisms")
@json_option
def show_mechanisms(as_json: bool) -> None:
    """List the mechanisms that turn trips into a histogram, and what each of them knows.

    Aware of data: it looks where trips are; of queries: it looks where they are, or fits their mean answer.
    Consistent: no edge of its histogram is above a face beside it. Publishable: its privacy has a proof; forms "as
    printed" in the paper have none, and are there to reproduce its figures (dqam reproduce).
    """
    if as_json:
        rows = {name: {**vars(known), "publishable": known.publishable} for name, known in MECHANISMS.items()}
        _print_json({name: {key: row[key] for key in row if key != "make"} for name, row in rows.items()})
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for header in ("Mechanism", "Aware of", "Consistent", "Publishable"):
        table.add_column(header, no_wrap=True)
    table.add_column("What it does")
    for name, known in MECHANISMS.items():
        aware = [word for word, flag in (("data", known.data_aware), ("queries", known.query_aware)) if flag]
        publishable = "[green]yes[/]" if known.publishable else "[red]no[/]"
        table.add_row(name, ", ".join(aware), known.consistent, publishable, known.about)
    answers.print(table)


@cli.command()
@click.argument("mechanisms", nargs=-1, required=True, metavar="MECHANISM...")
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="What the mechanism claims.")
@click.option("--runs", type=int, default=10_000, show_default=True, help="Runs on each of two neighbouring data sets.")
@click.option("--confidence", type=float, default=0.95, show_default=True, help="Of the bound, for all pairs together.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--figure", type=click.Path(path_type=Path), help="Save a chart of the bounds.")
@json_option
def audit(
    mechanisms: tuple[str, ...],
    epsilon: float,
    runs: int,
    confidence: float,
    seed: int,
    figure: Path | None,
    as_json: bool,
) -> None:
    """Measure a lower bound on the epsilon of a MECHANISM, end to end, on neighbouring data chosen to hurt.

    A bound above the claim proves a fault: the exit code is then 1. With `all` those that are broken on purpose
    (fault-... and dqam-printed) have to be caught, and it is 1 if one is not. Mechanisms are audited with rounds and
    trees forced, as they would spread the few trips of an audit evenly, and with all that the curator told them.

    \b
      dqam audit privtree --epsilon 0.5
      dqam audit all --figure audit.png           everything, and the faults that must be caught
      dqam audit mymodule:mechanism --epsilon 2   your own f(trips, rng) -> outcome

    \b
    Known: {known}
    """
    claimed = parse_epsilon(epsilon)
    everything = mechanisms == ("all",)
    chosen = {name: _audited(name) for name in (AUDITED if everything else mechanisms)}
    rows, results = [], []
    for name, audited in chosen.items():
        with progress_of(f"Auditing {name}") as show:
            result = run_audit(audited.make(claimed), audited.pairs, runs, confidence, seed, show)
        worst = max(result.findings, key=lambda finding: finding.epsilon)
        rows.append((name, result.epsilon, audited.sound))
        results.append({"mechanism": name, "epsilon_hat": result.epsilon, "pair": worst.pair, "event": worst.event})
    failed = [name for name, bound, sound in rows if (bound > epsilon) == (sound or not everything)]
    note = f"eps = {epsilon:g}, {runs:,} runs a side, confidence {confidence:g}, seed {seed}"
    if figure:
        draw_audit(rows, epsilon, note, figure)
    if as_json:
        _print_json({"epsilon": epsilon, "runs": runs, "confidence": confidence, "audits": results, "failed": failed})
    else:
        table = Table(
            "Mechanism", "Measured", "Verdict", "Most telling event", title=f"Audit, {note}", title_justify="left"
        )
        for (name, bound, sound), result_row in zip(rows, results, strict=True):
            verdict = "[red]above its claim[/]" if bound > epsilon else "[green]below its claim[/]"
            if bound == 0:
                verdict = "[yellow]nothing seen: more runs see more[/]"
            if not sound and everything:
                verdict = "[green]caught[/]" if bound > epsilon else "[red]not caught[/]"
            table.add_row(name, f"{bound:.3f}", verdict, f"{result_row['event']} ({result_row['pair']})")
        answers.print(table)
    if failed:
        words.print(f"[bold red]Failed:[/] {', '.join(failed)}", soft_wrap=True)
        sys.exit(1)


audit.help = (audit.help or "").replace(
    "{known}", fill("all, " + ", ".join(AUDITED), 70, subsequent_indent="    ", break_on_hyphens=False)
)


def _audited(name: str) -> Audited:
    """A mechanism by its name, or any callable as module:function."""
    if name in AUDITED:
        return AUDITED[name]
    module, colon, function = name.partition(":")
    if not colon:
        raise InputError(f"{name!r} is not known; audit one of {', '.join(AUDITED)}, or module:function.")
    sys.path.insert(0, "")
    try:
        mechanism = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise InputError(f"{name} can not be imported ({error}); give module:function.") from None
    return Audited(name, lambda _: mechanism)
