"""Commands that generate trips: generate city, network and porto."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dqam.cli.options import PATH, Command, seed_option, with_options
from dqam.cli.terminal import answers, itself, json_option, print_json, progress_of, words
from dqam.errors import InputError

if TYPE_CHECKING:
    from dqam.geometry.trips import Trips


@click.group()
def generate() -> None:
    """Generate trips through a made-up city or on a road network.

    The output is a Parquet file with one row per point and the columns uid, tid, datetime, lng, lat. The same seed
    gives the same trips.

    \b
      dqam generate city -n 20000 -o city.parquet
    """


def generate_options(command: Command) -> Command:
    """Add the options -n, --seed and -o."""
    return with_options(
        command,
        click.option(
            "--trips",
            "-n",
            type=click.IntRange(min=1),
            default=20_000,
            show_default=True,
            help="Number of trips to generate.",
        ),
        seed_option("Seed of the generated trips."),
        click.option("--overwrite", is_flag=True, help="Replace the file if it exists."),
        click.option("--output", "-o", type=PATH, required=True, help="Parquet file to write."),
        json_option,
    )


def save_trips(
    batches: Iterable[Trips], path: Path, total: int, bounds: tuple[float, ...], overwrite: bool, as_json: bool
) -> None:
    """Write generated trips, and print what to do next."""
    from dqam import cities

    if path.exists() and not overwrite:
        raise InputError(f"{path} exists; give another name, or --overwrite to replace it.")
    with progress_of(f"Generating {total:,} trips") as show:
        points = cities.write_parquet(batches, path, total, lambda done, of: show(done / of))
    if as_json:
        print_json({"file": str(path), "trips": total, "points": points, "bounds": bounds})
        return
    spelled = " ".join(f"{side:.6f}" for side in bounds)
    answers.print(f"{path}: {total:,} trips, {points:,} points", markup=False)
    words.print(f"Next: {itself()} inspect {path} --bounds {spelled}", markup=False, soft_wrap=True)


@generate.command()
@click.option(
    "--rhythm",
    is_flag=True,
    help="Let destinations depend on the hour: to work in the morning, home in the evening, out at night.",
)
@generate_options
def city(rhythm: bool, trips: int, seed: int, output: Path, overwrite: bool, as_json: bool) -> None:
    """Generate trips through a made-up city with streets, arterials, several centres and a river with bridges.

    \b
      dqam generate city -n 20000 -o city.parquet
      dqam generate city -n 20000 --rhythm -o week.parquet
    """
    from dqam import cities

    batches = cities.city_trips(trips, seed, rhythm=rhythm)
    save_trips(batches, output, trips, cities.BOUNDS, overwrite, as_json)


@generate.command()
@click.option("--nodes", type=PATH, required=True, help="Node table: id, lon, lat.")
@click.option("--links", type=PATH, required=True, help="Link table: from, to, length_m, freespeed_mps.")
@click.option(
    "--bounds",
    type=float,
    nargs=4,
    metavar="W S E N",
    help="Area in which trips start and end. Default: central Melbourne.",
)
@click.option(
    "--units",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Number of time units for which a trip is observed.",
)
@click.option(
    "--interval",
    type=click.FloatRange(min=0, min_open=True),
    default=15.0,
    show_default=True,
    help="Length of a time unit in seconds.",
)
@generate_options
def network(
    nodes: Path,
    links: Path,
    bounds: tuple[float, float, float, float] | None,
    units: int,
    interval: float,
    trips: int,
    seed: int,
    output: Path,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Generate trips between uniform origins and destinations on a road network (MELB-CAR in the paper).

    \b
      dqam generate network --nodes nodes.csv.gz --links edges.csv.gz -n 100000 -o melb.parquet
    """
    from dqam import cities

    area = bounds or cities.MELBOURNE_BOUNDS
    roads = cities.RoadNetwork.from_tables(nodes, links, area)
    batches = cities.uniform_trips(roads, area, trips, seed, units=units, interval=interval)
    save_trips(batches, output, trips, area, overwrite, as_json)


@generate.command()
@click.option("--roads", type=PATH, required=True, help="Road segments: coordinates, highway.")
@click.option("--sample", type=PATH, required=True, help="Trips whose origins and destinations are resampled.")
@generate_options
def porto(roads: Path, sample: Path, trips: int, seed: int, output: Path, overwrite: bool, as_json: bool) -> None:
    """Generate Porto-like trips on Porto's roads.

    Their origins and destinations are those of a sample, resampled and jittered.

    \b
      dqam generate porto --roads porto_roads.csv.gz --sample porto_sample.csv.gz -n 100000 -o porto.parquet
    """
    from dqam import cities
    from dqam.sources import read

    network = cities.RoadNetwork.from_lines(roads)
    batches = cities.porto_like_trips(network, read(sample).trips(), trips, seed)
    save_trips(batches, output, trips, cities.PORTO_BOUNDS, overwrite, as_json)
