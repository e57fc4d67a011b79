"""The commands of custodians and analysts: publish, query, export, report, serve and ledger."""

from __future__ import annotations

import csv
import math
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from dqam.cli.options import PATH, reads_trips
from dqam.cli.terminal import SHOWN, answers, json_option, plain, print_json, say_notes, watched, words
from dqam.errors import InputError
from dqam.files import replacing, writable
from dqam.grid import Grid
from dqam.privacy.budget import spell
from dqam.rectangles import HEADER, read_rectangles, snap

if TYPE_CHECKING:
    from dqam.publishing import Plan
    from dqam.sources import Source
    from dqam.walks import Gap

MADE_UP = (1_000, 10_000, 100_000)  # trips to plan for, where their number is not said
LEDGER = click.option(
    "--ledger",
    metavar="FILE|URL",
    help="Where spent budgets are kept: a file, or postgresql://... By default $DQAM_LEDGER, else your own.",
)

OVERWRITE = click.option("--overwrite", is_flag=True, help="Replace the output if there is one.")


@click.command()
@reads_trips
@click.option("--epsilon", "-e", required=True, help="What this publication may tell: 1 is common, less tells less.")
@click.option("--output", "-o", type=PATH, help="The release to write, a NetCDF file (.nc).")
@click.option("--mechanism", default="flux", show_default=True, help="See `dqam mechanisms`.")
@click.option(
    "--unit",
    type=click.Choice(["trip", "person"]),
    default="trip",
    show_default=True,
    help="Whose presence is hidden: one trip's, or one person's with all trips.",
)
@click.option(
    "--max-trips", type=click.IntRange(min=1), help="Of a person; more are left out at random. 10 by default."
)
@click.option("--queries", type=PATH, help="Rectangles that the map should be good at, CSV or GeoJSON; public.")
@click.option("--title", help="Of the map; public.")
@click.option("--dataset", help="Name under which all publications of these trips add up. The file's name by default.")
@click.option("--total", help="Epsilon that may ever be spent on the data set; said at its first publication.")
@LEDGER
@click.option("--plan", "only_plan", is_flag=True, help="Show budget and expected error; read no trip, spend nothing.")
@click.option("--expect", type=click.IntRange(1, 2**31), metavar="TRIPS", help="For --plan: about how many trips.")
@OVERWRITE
@json_option
def publish(
    source: Source,
    grid: Grid,
    gap: Gap | None,
    epsilon: str,
    output: Path | None,
    mechanism: str,
    unit: str,
    max_trips: int | None,
    queries: Path | None,
    title: str | None,
    dataset: str | None,
    total: str | None,
    ledger: str | None,
    only_plan: bool,
    expect: int | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Publish a map of FILE that anyone may query: differentially private, and charged to the data set's budget.

    \b
      dqam publish trips.csv --bounds -8.68 41.11 -8.56 41.20 --epsilon 1 --plan
      dqam publish trips.csv --bounds -8.68 41.11 -8.56 41.20 --epsilon 1 -o porto.nc
      dqam publish trips.csv --bounds -8.68 41.11 -8.56 41.20 --epsilon 1 --unit person --max-trips 10 -o porto.nc

    The budget is recorded as spent before any noise is drawn, and stays so whatever happens then. The first
    publication of a data set spends its whole budget, unless --total leaves more for later. Bounds, queries, title and
    all options are public: never take them from the trips.
    """
    from dqam.privacy.ledger import Ledger
    from dqam.publishing import TITLE, Plan, carry_out, data_set_name
    from dqam.trips import Trips

    asked = None if queries is None else read_rectangles(queries, grid)
    plan = Plan.of(grid, epsilon, mechanism, asked, unit, max_trips, gap, title or TITLE)
    if only_plan:
        _show_plan(plan, (expect,) if expect else MADE_UP, as_json)
        return
    if output is None:
        raise InputError("Give the file to write, -o OUT.nc, or --plan to see what would be spent.")
    _refuse_to_replace(output, overwrite)
    _check_room(writable(output), 40 * grid.rows * grid.columns + 2**22)
    name, book = data_set_name(source) if dataset is None else dataset, Ledger.open(ledger)
    if book.begun:
        begun = f"A new ledger was begun: {book.place}. If there was one before, stop and bring it back."
        words.print(begun, markup=False, soft_wrap=True)
    trips = Trips.concat(list(watched(source, f"Reading {source.name}")))
    with words.status(f"Publishing with {mechanism}"):
        release, spent = carry_out(plan, trips, name, book, total)
        release.save(output)
        book.saved(spent.id)
    if as_json:
        facts = {"release": str(output), "id": spent.id, "dataset": spent.data_set, "private": True}
        paid = {"epsilon": float(spent.epsilon), "left": float(spent.left), "total": float(spent.total)}
        print_json({**facts, **paid, "trips": release.trips.value})
        return
    answers.print(f"[bold]{plain(release.provenance.promise)}[/]")
    counted = release.provenance.counted and f" ({release.provenance.counted})"
    answers.print(f"{release.trips} trips{counted} on {grid}", markup=False, soft_wrap=True)
    answers.print(f"  saved: {output}", markup=False, soft_wrap=True)
    answers.print(
        f" budget: {spell(spent.epsilon)} spent on {spent.data_set}, {spell(spent.left)} of {spell(spent.total)} left",
        markup=False,
        soft_wrap=True,
    )
    spelled = " ".join(f"{side:g}" for side in _middle(grid))
    words.print(
        f"Next: dqam query {output} --bounds {spelled}, dqam report {output}, dqam serve {output}",
        markup=False,
        soft_wrap=True,
    )
    say_notes(source)


def _refuse_to_replace(output: Path, overwrite: bool) -> None:
    if output.exists() and not overwrite:
        raise InputError(f"{output} exists; give another name, or --overwrite to replace it.")


def _check_room(target: Path, size: int) -> None:
    """Refuse before anything is spent where the disk is full."""
    if shutil.disk_usage(target.parent).free < size:
        raise InputError(f"The disk has no room for {target.name} (up to {size / 1e6:,.0f} MB); make some first.")


def _middle(grid: Grid) -> tuple[float, ...]:
    """A rectangle in the middle of the map, to show how to ask."""
    west, south, east, north = grid.bounds
    wide, high = (east - west) / 4, (north - south) / 4
    return west + wide, south + high, east - wide, north - high


def _show_plan(plan: Plan, sizes: tuple[int, ...], as_json: bool) -> None:
    """What would be spent on what, and how far answers would be off."""
    from dqam.forecast import forecast

    with words.status("Trying the plan on a made-up city"):
        forecasts = [forecast(plan, size) for size in sizes]
    if as_json:
        rows = [
            {
                "trips": made.trips,
                "budget": [
                    {"question": entry.question, "name": entry.name, "epsilon": float(entry.epsilon)}
                    for entry in made.ledger
                ],
                "errors": [vars(row) for row in made.errors],
            }
            for made in forecasts
        ]
        print_json({"spent": 0, "epsilon": float(plan.epsilon), "unit": plan.unit.name, "plans": rows})
        return
    whose = "one trip" if plan.unit.name == "trip" else f"one person with at most {plan.unit.max_trips} trips"
    answers.print(f"A release with {plan.mechanism} would be private for {whose}, epsilon = {spell(plan.epsilon)}.")
    answers.print(f"Public: {plan.grid}; good at {plan.queries_in_words}.", soft_wrap=True)
    for made in forecasts:
        budget = Table(box=None, padding=(0, 2, 0, 0), title=f"\nFor {made.trips:,} trips", title_justify="left")
        budget.add_column("Question")
        budget.add_column("Epsilon", justify="right")
        budget.add_column("Share", justify="right")
        for entry in made.ledger:
            share = float(entry.epsilon / plan.epsilon)
            budget.add_row(f"{entry.question} {entry.name}", f"{float(entry.epsilon):.4g}", f"{share:.1%}")
        answers.print(budget)
        errors = Table(box=None, padding=(0, 2, 0, 0))
        errors.add_column("Rectangle, of the map")
        for header in ("Typical answer", "Off by, on average", ""):
            errors.add_column(header, justify="right")
        for row in made.errors:
            size = f"{row.smallest:.0%} to {row.largest:.0%}"
            errors.add_row(size, f"{row.answer:,.0f}", f"{row.off:,.0f}", f"{row.off / max(row.answer, 1):.0%}")
        answers.print(errors)
    answers.print(
        "\nErrors are of trips through a made-up city; yours may differ. Nothing was spent, and no trip was read.",
        soft_wrap=True,
    )


RELEASE = click.argument("release", metavar="RELEASE", type=PATH)


@click.command()
@RELEASE
@click.option("--bounds", type=float, nargs=4, multiple=True, metavar="W S E N", help="A rectangle. Repeatable.")
@click.option("--rectangles", type=PATH, help="CSV (west,south,east,north) or GeoJSON file.")
@click.option("--crs", help="CRS of --bounds; that of the map if not given.")
@click.option("--confidence", type=float, default=0.9, show_default=True, help="Of the intervals.")
@click.option("--output", "-o", type=PATH, help="Save the answers as CSV.")
@json_option
def query(
    release: Path,
    bounds: tuple[tuple[float, float, float, float], ...],
    rectangles: Path | None,
    crs: str | None,
    confidence: float,
    output: Path | None,
    as_json: bool,
) -> None:
    """Ask a RELEASE for the distinct trips through rectangles, with intervals.

    Sides that lie between grid lines move outward to the next one; the answers are of the grown rectangles.

    \b
      dqam query porto.nc --bounds -8.62 41.14 -8.60 41.15
      dqam query porto.nc --rectangles areas.geojson -o answers.csv
    """
    import dqam

    if bool(bounds) == (rectangles is not None):
        raise InputError(
            "Give the rectangles in one way: --bounds W S E N, as often as you like, or --rectangles FILE."
        )
    if output is not None:
        writable(output, release, rectangles)
    opened = dqam.open(release)
    asked = snap(bounds, opened.grid, crs) if rectangles is None else read_rectangles(rectangles, opened.grid)
    found = opened.counts(asked, confidence=confidence)
    columns = {"value": found.value, "low": found.low, "high": found.high}
    lists = {name: [None if math.isnan(x) else x for x in values.tolist()] for name, values in columns.items()}
    if output:
        with replacing(output) as temporary, temporary.open("w", newline="") as file:
            writer = csv.writer(file)
            named = "trips" if opened.provenance.private else "trips_not_private"
            writer.writerow([*HEADER, named, "low", "high", "grown", "cut"])
            rows = zip(
                asked.asked.tolist(), *lists.values(), asked.grown.astype(int), asked.cut.astype(int), strict=True
            )
            writer.writerows([*sides, *rest] for sides, *rest in rows)
    if as_json:
        print_json(
            {
                "counts": lists["value"],
                "low": lists["low"],
                "high": lists["high"],
                "confidence": confidence,
                "private": opened.provenance.private,
                "counted": opened.provenance.counted or "all trips",
                "asked": asked.asked.tolist(),
                "rectangles": asked.bounds.tolist(),
                "grown": asked.grown.tolist(),
                "cut": asked.cut.tolist(),
            }
        )
        return
    answers.print(f"[bold]{plain(opened.provenance.promise)}[/]")
    counted = opened.provenance.counted and f", {opened.provenance.counted}"
    answers.print(f"Distinct trips{counted}, estimated; {asked}.")
    table = Table(*(name.capitalize() for name in HEADER), "Trips", f"Range ({confidence:.0%})")
    for i in range(min(len(found), SHOWN)):
        one = found[i]
        sure = "no interval" if math.isnan(one.low) else f"{one.low:,.0f} to {one.high:,.0f}"
        table.add_row(*(f"{side:.6f}" for side in asked.bounds[i]), f"{one.value:,.0f}", sure)
    answers.print(table)
    answers.print(f"The true number should be in the range {confidence:.0%} of the time; for large areas less often.")
    if len(found) > SHOWN:
        answers.print(f"... and {len(found) - SHOWN:,} more{'' if output else '; save them with -o FILE'}")
    if output:
        words.print(f"Saved as {output}", markup=False)


@click.command()
@RELEASE
@click.option("--output", "-o", type=PATH, required=True, help="A .tif, .parquet or .csv file.")
@click.option("--side", type=click.IntRange(1, 4096), help="About so many blocks a side instead of all cells.")
@OVERWRITE
def export(release: Path, output: Path, side: int | None, overwrite: bool) -> None:
    """Write the cells of a RELEASE for other tools: GeoTIFF, GeoParquet or CSV, with intervals.

    Cells do not add up: a trip through two of them counts in both. For an area ask `dqam query`.

    \b
      dqam export porto.nc -o porto.tif               cloud-optimised, bands: trips, low, high
      dqam export porto.nc -o porto.parquet --side 32
    """
    import dqam
    from dqam.release.export import export as write

    writable(output, release)
    _refuse_to_replace(output, overwrite)
    write(dqam.open(release), output, side)
    answers.print(str(output), markup=False, soft_wrap=True)


@click.command()
@RELEASE
@click.option("--output", "-o", type=PATH, help="The page to write; the release's name with .html if not given.")
@OVERWRITE
def report(release: Path, output: Path | None, overwrite: bool) -> None:
    """Write one HTML page that explains a RELEASE: map, promise, budget, error to expect, how to query.

    \b
      dqam report porto.nc -o porto.html
    """
    import dqam

    target = output or release.with_suffix(".html")
    writable(target, release)
    _refuse_to_replace(target, overwrite)
    page = dqam.open(release).report()
    with replacing(target) as temporary:
        temporary.write_text(page, encoding="utf-8")
    answers.print(str(target), markup=False, soft_wrap=True)


@click.command()
@click.argument("releases", metavar="RELEASE...", nargs=-1, required=True, type=PATH)
@click.option("--host", default="127.0.0.1", show_default=True, help="0.0.0.0 lets the whole network in.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 for any that is free.")
@click.option("--tiles", metavar="URL", help="Background map, such as https://tile.example.org/{z}/{x}/{y}.png")
@click.option("--attribution", default="", help="Whom to credit for the background map.")
def serve(releases: tuple[Path, ...], host: str, port: int, tiles: str | None, attribution: str) -> None:
    """Show RELEASEs in the browser: draw a rectangle on the map, see the count. Needs no network.

    \b
      dqam serve porto.nc
      dqam serve march.nc april.nc        to compare
    """
    import dqam

    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        raise InputError("The page needs fastapi and uvicorn, which are not installed: pip install 'dqam[serve]'.")
    from dqam.explorer import serve as run

    def say(address: str) -> None:
        answers.print(address, markup=False)
        words.print("Open it in a browser; Ctrl-C stops.")

    run([(path.stem, dqam.open(path)) for path in releases], host, port, tiles, attribution, say)


@click.group(invoke_without_command=True)
@LEDGER
@json_option
@click.pass_context
def ledger(context: click.Context, ledger: str | None, as_json: bool) -> None:
    """Show what was published of which data set, and what is left of its budget.

    \b
      dqam ledger                              all data sets
      dqam ledger total taxis 3                allow 3 in all: more than before weakens the promise
      dqam ledger --ledger postgresql://user@host/database
    """
    from dqam.privacy.ledger import Ledger

    context.obj = Ledger.open(ledger)
    if context.invoked_subcommand:
        return
    accounts = context.obj.history()
    if as_json:
        print_json(
            {
                "datasets": [
                    {
                        "name": account.name,
                        "unit": account.unit_name,
                        "total": float(account.total),
                        "spent": float(account.spent),
                        "left": float(account.left),
                        "publications": [
                            {
                                "id": one.id,
                                "epsilon": float(one.epsilon),
                                "mechanism": one.mechanism,
                                "grid": one.grid,
                                "when": one.when,
                                "saved": one.release,
                            }
                            for one in account.publications
                        ],
                    }
                    for account in accounts
                ]
            }
        )
        return
    if not accounts:
        answers.print("Nothing was published yet.")
    for account in accounts:
        table = Table(title=f"{plain(account.name)}, for one {account.unit_name}", title_justify="left", box=None)
        for header in ("When (UTC)", "What", "Epsilon"):
            table.add_column(header, justify="right" if header == "Epsilon" else "left")
        events = [(total.when, f"total set to {spell(total.epsilon)}", "") for total in account.totals]
        for one in account.publications:
            state = "" if one.release else ", never saved: spent all the same"
            events.append((one.when, f"{one.mechanism} on {one.grid}{state}", spell(one.epsilon)))
        for when, what, cost in sorted(events, key=lambda event: event[0]):
            table.add_row(when[:19].replace("T", " "), plain(what), cost)
        table.add_row("", "[bold]left[/]", f"[bold]{spell(account.left)} of {spell(account.total)}[/]")
        answers.print(table)


@ledger.command()
@click.argument("name")
@click.argument("epsilon")
@click.pass_obj
def total(book: Any, name: str, epsilon: str) -> None:
    """Set what may be spent in all on the data set NAME. The change stays on record."""
    book.set_total(name, epsilon)
    (account,) = book.history(name)
    answers.print(f"{account.name}: {spell(account.left)} of {spell(account.total)} left", markup=False)


@ledger.command()
@click.argument("name")
@click.argument("epsilon")
@click.option("--unit", type=click.Choice(["trip", "person"]), default="trip", show_default=True)
@click.pass_obj
def register(book: Any, name: str, epsilon: str, unit: str) -> None:
    """Give a new data set NAME a budget before anything is published of it."""
    book.register(name, epsilon, unit)
    answers.print(f"{name}: {epsilon} may be spent, for one {unit}", markup=False)
