"""Commands for analysts, who use releases: query, export, report and serve."""

from __future__ import annotations

import math
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from rich.table import Column, Table

from dqam.cli.options import OVERWRITE, PATH, RELEASE, SLICES, refuse_to_replace
from dqam.cli.profiles import show_profile
from dqam.cli.terminal import SHOWN, about, answers, json_option, plain, print_json, words
from dqam.cli.zones import Zones, output_option, read_zones, shape_options
from dqam.errors import InputError
from dqam.geometry.rectangles import HEADER, Snapped, snap
from dqam.runtime.files import replacing, writable

if TYPE_CHECKING:
    from dqam.geometry.grid import Grid
    from dqam.release.answers import Answer, Answers
    from dqam.release.release import Release

SERVING = ("fastapi", "uvicorn", "covjson_pydantic", "edr_pydantic")  # what the extra `serve` installs


@click.command()
@RELEASE
@click.option(
    "--area",
    "sides",
    type=float,
    nargs=4,
    multiple=True,
    metavar="W S E N",
    help="Rectangle to query: west, south, east, north. Repeatable.",
)
@click.option("--rectangles", type=PATH, help="File of rectangles: CSV (west,south,east,north) or GeoJSON.")
@shape_options
@click.option(
    "--crs",
    help="CRS of --area or of a CSV file of --rectangles (default: the CRS of the map), or of the file of --areas or "
    "--lines (default: the CRS that it declares).",
)
@SLICES
@click.option("--profile", is_flag=True, help="Answer for each slice separately: one row for each area and slice.")
@click.option("--confidence", type=float, default=0.9, show_default=True, help="Confidence level of the intervals.")
@output_option
@OVERWRITE
@json_option
def query(
    release: Path,
    sides: tuple[tuple[float, float, float, float], ...],
    rectangles: Path | None,
    areas: Path | None,
    lines: Path | None,
    name_column: str | None,
    crs: str | None,
    slices: list[str] | None,
    profile: bool,
    confidence: float,
    output: Path | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Query a RELEASE for the number of distinct trips through areas, or of crossings of lines.

    Areas are rectangles or polygons, such as zones. A side of a rectangle between two grid lines moves outward to the
    next one. What lies outside the map is cut off. Counts of areas cannot be added up: a trip through two areas counts
    in both. Crossings are not distinct trips.

    \b
    Columns of the output, besides the answer and its interval from low to high:
      grown      whether a side of a rectangle moved outward to the next grid line
      cut        whether a part lay outside the map and was cut off
      repaired   whether the border crossed itself and was repaired
      outside    whether all of it lies outside the map, so that there is no answer

    \b
      dqam query porto.nc --area -8.62 41.14 -8.60 41.15
      dqam query porto.nc --rectangles areas.csv -o answers.csv
      dqam query porto.nc --areas zones.geojson                 a table with a row for each zone
      dqam query porto.nc --areas zones.shp --name-column DISTRICT -o zones.parquet
      dqam query porto.nc --lines bridges.geojson --json
      dqam query porto.nc --area -8.62 41.14 -8.60 41.15 --slices 07,08
      dqam query porto.nc --areas zones.geojson --profile -o day.csv
    """
    import dqam

    if bool(sides) + sum(file is not None for file in (rectangles, areas, lines)) != 1:
        raise InputError(
            "Say what to query in exactly one way: --area W S E N, which can be repeated, --rectangles FILE, "
            "--areas FILE or --lines FILE."
        )
    if output is not None:
        writable(output, release, rectangles, areas, lines)
    refuse_to_replace(output, overwrite)
    opened = dqam.open(release) if slices is None else dqam.open(release).select(slices)
    zones = read_zones(areas, lines, name_column, crs, opened.grid, "--crs")
    if profile:
        asked = zones.placed if zones is not None else _rectangles(sides, rectangles, opened.grid, crs)
        if zones is not None:
            zones.say_changes(grown=True)
        show_profile(opened, asked, None if zones is None else zones.given, confidence, output, as_json)
        return
    if zones is not None:
        _query_zones(opened, zones, confidence, output, as_json)
        return
    asked = _rectangles(sides, rectangles, opened.grid, crs)
    found = opened.counts(asked, confidence=confidence)
    if output:
        import shapely

        from dqam.geometry.shape_tables import write_shapes
        from dqam.release.export import notes

        columns = {
            **dict(zip(HEADER, asked.asked.T, strict=True)),
            opened.provenance.column("trips"): found.value,
            "low": found.low,
            "high": found.high,
            **found.flags,
        }
        with replacing(output) as temporary:
            write_shapes(temporary, columns, shapely.box(*asked.bounds.T), opened.grid.crs, notes(opened))
    if as_json:
        print_json(
            {
                **_to_json(opened, found, confidence),
                "asked": asked.asked.tolist(),
                "rectangles": asked.bounds.tolist(),
                "grown": asked.grown.tolist(),
                "cut": asked.cut.tolist(),
            }
        )
        return
    from dqam.release.formatting import size_of_rectangle

    _say_promise(opened, f"Distinct trips, estimated; {asked}.")
    heads = (*map(str.capitalize, HEADER), "Size", "Trips", f"Interval ({confidence:.0%})")
    table = Table(*(Column(head, no_wrap=True) for head in heads), box=None, padding=(0, 1, 0, 0))
    west, south, east, north = opened.grid.bounds
    cell = min((east - west) / opened.grid.columns, (north - south) / opened.grid.rows)
    digits = max(0, math.ceil(1 - math.log10(cell)))  # enough to distinguish places a tenth of a cell apart
    for i in range(min(len(found), SHOWN)):
        west, south, east, north = asked.cells[i].tolist()
        size = size_of_rectangle(east - west, north - south, opened.grid).replace(" (", "\n(")
        table.add_row(*(f"{side:.{digits}f}" for side in asked.bounds[i]), size, *_in_words(found[i]))
    answers.print(table)
    _say_rest(opened, found, confidence, output)
    if output:
        words.print(f"Saved as {output}", markup=False)


def _rectangles(
    sides: tuple[tuple[float, float, float, float], ...], file: Path | None, grid: Grid, crs: str | None
) -> Snapped:
    """The rectangles of --area or --rectangles on the grid."""
    if file is None:
        return snap(sides, grid, crs)
    from dqam.geometry.rectangle_files import read_rectangles

    return read_rectangles(file, grid, crs)


def _query_zones(opened: Release, zones: Zones, confidence: float, output: Path | None, as_json: bool) -> None:
    """Answer the areas or lines of a file."""
    ask = opened.crossings if zones.counted == "crossings" else opened.counts
    found = ask(zones.placed, confidence=confidence)
    zones.say_changes(grown=True)
    if output:
        from dqam.release.export import notes

        column = opened.provenance.column(zones.counted)
        zones.save(output, {column: found.value, "low": found.low, "high": found.high, **found.flags}, notes(opened))
    if as_json:
        print_json(
            {
                "names": zones.given.names,
                **_to_json(opened, found, confidence),
                "what": zones.counted,
                **zones.to_json(),
                **({"grown": found.flags["grown"].tolist()} if "grown" in found.flags else {}),
            }
        )
        return
    _say_promise(opened, f"{'Crossings' if zones.counted == 'crossings' else 'Distinct trips'}, estimated.")
    table = Table("Name", "Length" if zones.what == "lines" else "Size", zones.counted.capitalize())
    table.add_column(f"Interval ({confidence:.0%})")
    for i in range(min(len(found), SHOWN)):
        table.add_row(plain(zones.given.names[i]), zones.size(i), *_in_words(found[i]))
    answers.print(table)
    answers.print(zones.meaning, soft_wrap=True)
    _say_rest(opened, found, confidence, output)


def _to_json(opened: Release, found: Answers, confidence: float) -> dict[str, Any]:
    """What --json says about any answers."""
    columns = {"counts": found.value, "low": found.low, "high": found.high}
    return {
        **{name: [None if math.isnan(x) else x for x in values.tolist()] for name, values in columns.items()},
        **about(opened, confidence),
    }


def _in_words(answer: Answer) -> tuple[str, str]:
    """The answer and its interval, for people to read."""
    if math.isnan(answer.value):
        return "no answer", ""
    sure = "no interval" if math.isnan(answer.low) else f"{answer.low:,.0f} to {answer.high:,.0f}"
    return f"{answer.value:,.0f}", sure


def _say_promise(opened: Release, what: str) -> None:
    answers.print(f"[bold]{plain(opened.provenance.promise)}[/]")
    counted = opened.provenance.counted and f", {opened.provenance.counted}"
    answers.print(what.replace(", estimated", f"{counted}, estimated", 1), soft_wrap=True)


def _say_rest(opened: Release, found: Answers, confidence: float, output: Path | None) -> None:
    """Print what readers must know about the answers, below their table."""
    if not np.isnan(found.low).all():
        answers.print(
            f"The intervals should contain the true number {confidence:.0%} of the time; in some busy places they do "
            "so less often."
        )
    if opened.note:
        answers.print(opened.note, soft_wrap=True)
    if opened.flow_table is not None:
        answers.print("This release also has flows between areas; query them with `dqam flows`.", soft_wrap=True)
    if len(found) > SHOWN:
        answers.print(f"... and {len(found) - SHOWN:,} more{'' if output else '; save them with -o FILE'}")


@click.command()
@RELEASE
@click.option(
    "--output",
    "-o",
    type=PATH,
    required=True,
    help="File to write: .html, .tif, .parquet, .geojson, .csv or .stac.json.",
)
@click.option(
    "--blocks",
    type=click.IntRange(1, 4096),
    help="Combine cells into about this many blocks along the longer side. Default: single cells.",
)
@click.option(
    "--h3",
    type=click.IntRange(0, 15),
    help="Export H3 hexagons of this resolution (0: largest, 15: smallest) instead of cells. Needs the extra `h3`; not "
    "for .tif.",
)
@SLICES
@click.option(
    "--period",
    metavar="DAY/DAY",
    help="First and last day of the trips, such as 2026-03-01/2026-03-31, if that is public; only for .stac.json.",
)
@OVERWRITE
def export(
    release: Path,
    output: Path,
    blocks: int | None,
    h3: int | None,
    slices: list[str] | None,
    period: str | None,
    overwrite: bool,
) -> None:
    """Export a RELEASE as a web page, or its cells or H3 hexagons as GeoTIFF, GeoParquet, GeoJSON or CSV.

    The page is the explorer of `dqam serve` in one file. It contains the release and answers queries for any area by
    itself, without a server or a network. You can put it on any web site or send it by email.

    The other files hold the answers for cells or hexagons, with intervals.
    Do not add up cells: a trip through two of them counts in both. To count the trips in an area, use `dqam query`. If
    the release has slices, each has a further column or band, and these add up to the values for all trips. For
    flows, use `dqam flows -o FILE`.

    A file name that ends with .stac.json writes a STAC item, for geodata catalogues. It contains no cells: it says
    where the map is and which privacy it guarantees, and identifies RELEASE by its checksum.

    \b
      dqam export porto.nc -o porto.html              a page that anyone can open and query
      dqam export porto.nc -o porto.tif               cloud-optimised, with the bands trips, low and high
      dqam export porto.nc -o porto.parquet --blocks 32
      dqam export porto.nc --h3 9 -o hexagons.parquet
      dqam export porto.nc -o porto.stac.json --period 2013-07-01/2014-06-30
    """
    import dqam
    from dqam.release.export import PAGES
    from dqam.release.export import export as write
    from dqam.release.hexagons import note_on_size
    from dqam.release.stac import SUFFIX, export_item

    writable(output, release)
    refuse_to_replace(output, overwrite)
    if period is not None and not output.name.lower().endswith(SUFFIX):
        raise InputError(f"--period is only for a file that ends with {SUFFIX}; {output.name} does not.")
    if output.suffix.lower() in PAGES:
        if given := [name for name, value in (("blocks", blocks), ("h3", h3), ("slices", slices)) if value is not None]:
            raise InputError(f"A page contains the whole release; leave out --{given[0]}.")
        from dqam.explorer import write_page

        write_page(dqam.open(release), output, release.stem)
        answers.print(str(output), markup=False, soft_wrap=True)
        return
    if output.name.lower().endswith(SUFFIX):
        if any(option is not None for option in (blocks, h3, slices)):
            raise InputError(f"{output.name} describes the whole release; leave out --blocks, --h3 and --slices.")
        export_item(dqam.open(release), release, output, period)
        answers.print(str(output), markup=False, soft_wrap=True)
        return
    opened = dqam.open(release) if slices is None else dqam.open(release).select(slices)
    write(opened, output, blocks, h3)
    if h3 is not None and (note := note_on_size(opened, h3)):
        words.print(f"[yellow]Note:[/] {plain(note)}", soft_wrap=True)
    if opened.flow_table is not None:
        words.print("The export has no flows; `dqam flows -o FILE` writes them as a table.", soft_wrap=True)
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
    """Show RELEASEs in the browser, where you can draw rectangles, polygons and lines on the map and see their counts.

    Drop a GeoJSON file of zones or lines onto the map to see the answers for all of them. The page needs no internet
    access. For tools that support OGC API - Environmental Data Retrieval, that API is under /edr.

    \b
      dqam serve porto.nc
      dqam serve march.nc april.nc        compare two releases
    """
    import dqam

    if missing := [name for name in SERVING if find_spec(name) is None]:
        raise InputError(f"The page needs {', '.join(missing)}, not installed here: pip install 'dqam[serve]'.")
    from dqam.explorer import serve as run

    def say(address: str) -> None:
        answers.print(address, markup=False)
        words.print("Open this address in a browser. Press Ctrl-C to stop.")

    run([(path.stem, dqam.open(path)) for path in releases], host, port, tiles, attribution, say)
