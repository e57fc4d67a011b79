"""The command for custodians, who hold the trips: publish."""

from __future__ import annotations

import re
import shutil
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dqam.cli import terminal
from dqam.cli.options import LEDGER, OVERWRITE, PATH, reads_trips, refuse_to_replace
from dqam.cli.terminal import (
    answers,
    itself,
    json_option,
    plain,
    print_json,
    progress_of,
    say_left_out,
    say_notes,
    words,
)
from dqam.cli.zones import planned_zone_options, read_zones
from dqam.errors import InputError
from dqam.geometry.grid import Grid
from dqam.runtime.files import writable
from dqam.values.guarantee import parse_epsilon, spell

if TYPE_CHECKING:
    from dqam.geometry.walks import Gap
    from dqam.privacy.ledger import Account
    from dqam.release.release import Release
    from dqam.sources import Source


class MaxTrips(click.ParamType[Any]):
    """A number of trips of at least 1, or "auto"."""

    name = "number|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """The number, or "auto"; anything else is refused."""
        if value == "auto":
            return "auto"
        try:
            return click.IntRange(min=1).convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is not a whole number of at least 1; give one, or auto.", param, ctx)


class Share(click.ParamType[Any]):
    """A share of the budget for flows."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Fraction:
        """The share as an exact fraction; anything else is refused."""
        from dqam.publishing.plan import MOST_FLOWS, share_of_flows

        try:
            return share_of_flows(value)
        except InputError:
            most = spell(MOST_FLOWS)
            self.fail(f"{value!r} is not a share of the budget, above 0 and at most {most}, such as 0.2.", param, ctx)


MADE_UP = (1_000, 10_000, 100_000)  # numbers of trips to plan for, if none is given


@click.command()
@reads_trips
@click.option(
    "--epsilon",
    "-e",
    required=True,
    help="Privacy budget epsilon of this publication; smaller is more private (1 is common).",
)
@click.option(
    "--delta",
    help="Tiny probability, such as 1e-8, by which the guarantee is weakened. Errors in small areas are then often a "
    "third smaller. It must be far below 1 divided by the number of trips. Default: no delta.",
)
@click.option("--output", "-o", type=PATH, help="Release to write: a NetCDF file (.nc).")
@click.option(
    "--mechanism", default="flux", show_default=True, help="Name of the mechanism; `dqam mechanisms` lists them."
)
@click.option(
    "--unit",
    type=click.Choice(["trip", "person"]),
    default="trip",
    show_default=True,
    help="Whose presence is hidden: one trip, or one person with all their trips.",
)
@click.option(
    "--max-trips",
    type=MaxTrips(),
    help="With --unit person: use at most this many trips of each person, chosen at random. With auto, a private "
    "measurement, paid from the budget, chooses the number. Default: 10.",
)
@click.option(
    "--by",
    metavar="RULE",
    help="Also publish slices, where each trip is in exactly one: hour, weekday, weekpart (weekday or weekend), month, "
    "COLUMN=a,b,c, or a product such as hour*weekpart. They cost a fifth of epsilon, however many there are.",
)
@click.option(
    "--timezone",
    metavar="ZONE",
    help="Time zone in which --by determines the hour or day, such as Europe/Lisbon; times without a zone are then "
    "read as UTC. Default: times as they are written.",
)
@click.option(
    "--flows",
    is_flag=True,
    help="Also publish flows: how many trips go from one area to another, for `dqam flows`. They cost a fifth of "
    "epsilon and cannot be added to a release later; --plan shows how accurate they and the map would be.",
)
@click.option(
    "--flows-share",
    type=Share(),
    metavar="SHARE",
    help="Share of epsilon for flows, up to 0.7 (default: 0.2); the map gets the rest. Implies --flows.",
)
@click.option("--queries", type=PATH, help="File of rectangles that the map is tuned for: CSV or GeoJSON (public).")
@click.option(
    "--prior",
    type=PATH,
    help="Public map of where trips probably are: a release (.nc) or a GeoTIFF of a density, such as population. It "
    "helps if trips are few. NEVER make it from the trips that you publish, unless it is an earlier release of them.",
)
@click.option("--title", help="Title of the map (published).")
@click.option("--dataset", help="Name of the data set, to whose budget this is charged. Default: the name of the file.")
@click.option("--total", help="Total epsilon that may ever be spent on the data set. Set it at the first publication.")
@LEDGER
@click.option(
    "--plan",
    "only_plan",
    is_flag=True,
    help="Show how the budget would be spent and the expected error. This reads no trips and spends nothing.",
)
@click.option(
    "--expect",
    type=click.IntRange(1, 2**31),
    metavar="TRIPS",
    help="Approximate number of trips, for --plan and to check --delta (public: do not count them).",
)
@planned_zone_options
@OVERWRITE
@click.option(
    "--engine",
    type=click.Choice(["local", "duckdb", "spark"]),
    default="local",
    show_default=True,
    help="Where trips are counted: in memory, on disk with DuckDB, or by Spark (FILE is then Parquet, or its URL).",
)
@click.option("--memory", default="4GiB", show_default=True, help="Approximate memory limit for --engine duckdb.")
@click.option(
    "--sure",
    is_flag=True,
    help="Publish even if something looks like a mistake: an epsilon above 10, a delta above 1e-6 or above 1 / (100 x "
    "the expected trips), bounds in the wrong order, no trip ids, trips that were published under another name, or "
    "hardly anything on the map.",
)
@json_option
def publish(
    source: Source,
    grid: Grid,
    gap: Gap | None,
    epsilon: str,
    delta: str | None,
    output: Path | None,
    mechanism: str,
    unit: str,
    max_trips: int | str | None,
    by: str | None,
    timezone: str | None,
    flows: bool,
    flows_share: Fraction | None,
    queries: Path | None,
    prior: Path | None,
    title: str | None,
    dataset: str | None,
    total: str | None,
    ledger: str | None,
    only_plan: bool,
    expect: int | None,
    areas: Path | None,
    name_column: str | None,
    areas_crs: str | None,
    overwrite: bool,
    engine: str,
    memory: str,
    sure: bool,
    as_json: bool,
) -> None:
    """Publish a differentially private map of FILE that anyone can query, and charge it to the budget.

    \b
      dqam publish trips.csv --bounds -8.68 41.11 -8.56 41.20 --epsilon 1 --plan
      dqam publish trips.csv --bounds -8.68 41.11 -8.56 41.20 --epsilon 1 --plan --areas zones.geojson
      dqam publish trips.csv --bounds -8.68 41.11 -8.56 41.20 --epsilon 1 -o porto.nc
      dqam publish trips.csv --bounds -8.68 41.11 -8.56 41.20 --epsilon 1 --delta 1e-8 -o porto.nc
      dqam publish trips.csv --bounds -8.68 41.11 -8.56 41.20 --epsilon 1 --unit person --max-trips auto -o porto.nc
      dqam publish trips.csv --bounds -8.68 41.11 -8.56 41.20 --epsilon 1 --by hour --timezone Europe/Lisbon -o porto.nc
      dqam publish trips.csv --bounds -8.68 41.11 -8.56 41.20 --epsilon 1 --flows -o porto.nc
      dqam publish points/ --bounds -8.68 41.11 -8.56 41.20 --epsilon 1 --engine duckdb --memory 2GiB -o porto.nc

    The epsilon is charged to the budget of the data set before any noise is drawn, and stays spent whatever happens
    afterwards. The first publication of a data set spends its whole budget, unless --total leaves more for later.
    Bounds, queries, prior, title and all other options are public: never derive them from the trips.
    """
    from dqam.cli.planning import show_plan
    from dqam.geometry.rectangle_files import read_rectangles
    from dqam.privacy.ledger import Charge, Ledger
    from dqam.publishing.pipeline import begun, carry_out, data_set_name
    from dqam.publishing.plan import LARGE, TITLE, Plan, remark

    terminal.STOPPED = terminal.NOT_CHARGED
    if max_trips is not None and unit == "trip":
        raise InputError(f"--max-trips {max_trips} needs --unit person; with --unit trip every trip counts once.")
    for option, value in (("--areas", areas), ("--name-column", name_column), ("--areas-crs", areas_crs)):
        if value is not None and not only_plan:
            raise InputError(
                f"{option} works only with --plan, which shows the expected errors for zones and publishes nothing; "
                f"add --plan, or leave out {option}."
            )
    limit = parse_size(memory)
    asked = None if queries is None else read_rectangles(queries, grid)
    plan = Plan.of(
        grid, epsilon, mechanism, asked, unit, max_trips, gap, title or TITLE, delta, by, timezone, prior,
        flows=flows if flows_share is None else flows_share,
    )  # fmt: skip
    zones = read_zones(areas, None, name_column, areas_crs, grid, "--areas-crs")
    source = source.for_publishing()
    plan.check(source, sure or only_plan, expect)
    if plan.epsilon > LARGE:
        words.print(remark(plan.epsilon), soft_wrap=True)
    if only_plan:
        try:
            plan.check(source, sure, expect)
        except InputError as error:
            words.print(f"To publish this, --sure would be needed: {error}", markup=False, soft_wrap=True)
        whole = total is None or parse_epsilon(total) <= plan.epsilon
        if plan.delta and dataset is not None and (account := _known_account(ledger, dataset)):
            whole = not account.publications and account.total <= plan.epsilon
        show_plan(plan, (expect,) if expect else MADE_UP, as_json, whole, zones)
        return
    if output is None:
        raise InputError("Give the file to write with -o OUT.nc, or use --plan to see what would be spent.")
    if output.suffix != ".nc":
        raise InputError(f"{output} must end with .nc; `dqam export` converts a release to other formats.")
    refuse_to_replace(output, overwrite)
    _check_room(writable(output), 40 * grid.rows * grid.columns + 2**22)
    name, book = data_set_name(source) if dataset is None else dataset, Ledger.open(ledger)
    say_notes(source)

    def charged(spent: Charge) -> None:
        paid = f"{str(plan.promise).capitalize()} was charged to {spent.data_set} and stays spent"
        terminal.STOPPED = f"Stopped; no file is half-written. {paid}: see `dqam ledger`."
        for note in begun(spent, book):
            words.print(note, markup=False, soft_wrap=True)

    release, spent = carry_out(
        plan, source, name, book, total,
        engine=engine, memory=limit, progress=progress_of, sure=sure, expect=expect, charged=charged,
    )  # fmt: skip
    output = _saved(release, output, overwrite)
    book.delivered(spent.id)
    say_left_out(source)
    if as_json:
        facts = {"release": str(output), "id": spent.id, "dataset": spent.data_set, "private": True}
        delta_spent = float(release.provenance.delta) or None
        paid = {"epsilon": float(spent.epsilon), "delta": delta_spent}
        paid |= {"left": float(spent.left), "total": float(spent.total)}
        print_json({**facts, **paid, "trips": release.trips.value})
        return
    answers.print(f"[bold]{plain(release.provenance.promise)}[/]")
    counted = release.provenance.counted and f" ({release.provenance.counted})"
    answers.print(f"{release.trips} trips{counted} on {grid}", markup=False, soft_wrap=True)
    if plan.delta and not release.provenance.delta:
        answers.print("A delta would not have helped here, so none was used: the release is pure.", soft_wrap=True)
    for note in (release.note, release.delta_note):
        if note:
            answers.print(note, soft_wrap=True)
    answers.print(f"  saved: {output}", markup=False, soft_wrap=True)
    unlike = " (with a delta, epsilons do not add up: see `dqam ledger`)" if plan.delta and spent.left else ""
    left = f"{spell(spent.left)} of {spell(spent.total)} left{unlike}"
    answers.print(
        f" budget: {spell(spent.epsilon)} spent on {spent.data_set}, {left}",
        markup=False,
        soft_wrap=True,
    )
    spelled, us = " ".join(f"{side:g}" for side in _middle(grid)), itself()
    words.print("Next:")
    of_flows = () if release.flow_table is None else (f"flows {output}",)
    for then in (f"query {output} --area {spelled}", *of_flows, f"report {output}", f"serve {output}"):
        words.print(f"  {us} {then}", markup=False, soft_wrap=True)


def parse_size(text: str) -> int:
    """The number of bytes in a size such as 4GiB or 800MB.

    >>> parse_size("1GiB"), parse_size("800 MB")
    (1073741824, 800000000)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?\s*", text, re.IGNORECASE)
    if found is None:
        raise InputError(f"--memory must be a number with a unit, such as 4GiB or 800MB; got {text!r}.")
    power = " KMGT".index(found[2].upper() or " ")
    return int(float(found[1]) * (1024 if found[3] else 1000) ** power)


def _saved(release: Release, output: Path, overwrite: bool) -> Path:
    """Save the release, which is paid for, and return its path: a name beside `output` if that exists by now."""
    try:
        release.save(output, overwrite=overwrite)
    except FileExistsError:
        output = output.with_stem(f"{output.stem}-{release.provenance.id[:8]}")
        release.save(output)
    return output


def _check_room(target: Path, size: int) -> None:
    """Raise an `InputError`, before anything is spent, if the disk is full."""
    if shutil.disk_usage(target.parent).free < size:
        raise InputError(f"The disk has no room for {target.name} (up to {size / 1e6:,.0f} MB); free some space first.")


def _known_account(ledger: str | None, name: str) -> Account | None:
    """The account of a data set, if there is a ledger that has it."""
    from dqam.privacy.ledger import Ledger

    try:
        return Ledger.open(ledger, create=False).history(name)[0]
    except InputError:
        return None


def _middle(grid: Grid) -> tuple[float, ...]:
    """A rectangle in the middle of the map, for the example query."""
    west, south, east, north = grid.bounds
    wide, high = (east - west) / 4, (north - south) / 4
    return west + wide, south + high, east - wide, north - high
