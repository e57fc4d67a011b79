"""Commands for analysts, who use releases: query, export, report and serve."""

from __future__ import annotations

import csv
import math
from importlib.util import find_spec
from pathlib import Path

import click
from rich.table import Table

from dqam.cli.options import OVERWRITE, PATH, refuse_to_replace
from dqam.cli.terminal import SHOWN, answers, json_option, plain, print_json, words
from dqam.errors import InputError
from dqam.geometry.rectangles import HEADER, snap
from dqam.runtime.files import replacing, writable

RELEASE = click.argument("release", metavar="RELEASE", type=PATH)


@click.command()
@RELEASE
@click.option(
    "--area",
    "areas",
    type=float,
    nargs=4,
    multiple=True,
    metavar="W S E N",
    help="Rectangle to query: west, south, east, north. Repeatable.",
)
@click.option("--rectangles", type=PATH, help="File of rectangles: CSV (west,south,east,north) or GeoJSON.")
@click.option("--crs", help="CRS of --area. Default: the CRS of the map.")
@click.option("--confidence", type=float, default=0.9, show_default=True, help="Confidence level of the intervals.")
@click.option("--output", "-o", type=PATH, help="Save the answers as CSV.")
@OVERWRITE
@json_option
def query(
    release: Path,
    areas: tuple[tuple[float, float, float, float], ...],
    rectangles: Path | None,
    crs: str | None,
    confidence: float,
    output: Path | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Query a RELEASE for the number of distinct trips through rectangles, with confidence intervals.

    A side between two grid lines moves outward to the next one; the answers are for the extended rectangles.

    \b
      dqam query porto.nc --area -8.62 41.14 -8.60 41.15
      dqam query porto.nc --rectangles areas.geojson -o answers.csv
    """
    import dqam

    if bool(areas) == (rectangles is not None):
        raise InputError(
            "Give rectangles either with --area W S E N, which can be repeated, or with --rectangles FILE."
        )
    if output is not None:
        writable(output, release, rectangles)
    refuse_to_replace(output, overwrite)
    opened = dqam.open(release)
    if rectangles is None:
        asked = snap(areas, opened.grid, crs)
    else:
        from dqam.geometry.rectangle_files import read_rectangles

        asked = read_rectangles(rectangles, opened.grid)
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
                "promise": opened.provenance.promise,
                "epsilon": float(opened.provenance.epsilon),
                "delta": float(opened.provenance.delta) or None,
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
    table = Table(*(name.capitalize() for name in HEADER), "Trips", f"Interval ({confidence:.0%})")
    for i in range(min(len(found), SHOWN)):
        one = found[i]
        sure = "no interval" if math.isnan(one.low) else f"{one.low:,.0f} to {one.high:,.0f}"
        table.add_row(*(f"{side:.6f}" for side in asked.bounds[i]), f"{one.value:,.0f}", sure)
    answers.print(table)
    answers.print(
        f"The intervals should contain the true number {confidence:.0%} of the time; in some busy places they do so "
        "less often."
    )
    if opened.note:
        answers.print(opened.note, soft_wrap=True)
    if len(found) > SHOWN:
        answers.print(f"... and {len(found) - SHOWN:,} more{'' if output else '; save them with -o FILE'}")
    if output:
        words.print(f"Saved as {output}", markup=False)


@click.command()
@RELEASE
@click.option("--output", "-o", type=PATH, required=True, help="File to write: .tif, .parquet or .csv.")
@click.option(
    "--blocks",
    type=click.IntRange(1, 4096),
    help="Combine cells into about this many blocks along the longer side. Default: single cells.",
)
@OVERWRITE
def export(release: Path, output: Path, blocks: int | None, overwrite: bool) -> None:
    """Export the cells of a RELEASE as GeoTIFF, GeoParquet or CSV, with confidence intervals.

    Do not add up cells: a trip through two of them counts in both. To count the trips in an area, use `dqam query`.

    \b
      dqam export porto.nc -o porto.tif               cloud-optimised, with the bands trips, low and high
      dqam export porto.nc -o porto.parquet --blocks 32
    """
    import dqam
    from dqam.release.export import export as write

    writable(output, release)
    refuse_to_replace(output, overwrite)
    write(dqam.open(release), output, blocks)
    answers.print(str(output), markup=False, soft_wrap=True)


@click.command()
@RELEASE
@click.option("--output", "-o", type=PATH, help="Page to write. Default: the name of the release with .html.")
@OVERWRITE
def report(release: Path, output: Path | None, overwrite: bool) -> None:
    """Write an HTML page that explains a RELEASE: map, privacy guarantee, budget, accuracy, how to query it.

    \b
      dqam report porto.nc -o porto.html
    """
    import dqam

    target = output or release.with_suffix(".html")
    writable(target, release)
    refuse_to_replace(target, overwrite)
    page = dqam.open(release).report()
    with replacing(target) as temporary:
        temporary.write_text(page, encoding="utf-8")
    answers.print(str(target), markup=False, soft_wrap=True)


@click.command()
@click.argument("releases", metavar="RELEASE...", nargs=-1, required=True, type=PATH)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; 0.0.0.0 makes the page visible to the whole network.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Port to listen on; 0 for any free port.",
)
@click.option("--tiles", metavar="URL", help="Background map, such as https://tile.example.org/{z}/{x}/{y}.png")
@click.option("--attribution", default="", help="Credit for the background map.")
def serve(releases: tuple[Path, ...], host: str, port: int, tiles: str | None, attribution: str) -> None:
    """Show RELEASEs in the browser, where you can draw rectangles on the map and see their counts.

    The page needs no internet access.

    \b
      dqam serve porto.nc
      dqam serve march.nc april.nc        compare two releases
    """
    import dqam

    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        raise InputError("The page needs fastapi and uvicorn, which are not installed: pip install 'dqam[serve]'.")
    from dqam.explorer import serve as run

    def say(address: str) -> None:
        answers.print(address, markup=False)
        words.print("Open this address in a browser. Press Ctrl-C to stop.")

    run([(path.stem, dqam.open(path)) for path in releases], host, port, tiles, attribution, say)
