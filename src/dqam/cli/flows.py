"""The command `flows`: how many trips go from one area to another.

Areas are the zones of a file, single areas given by name or by four numbers, or the tiles and cells in which flows were
measured. Files have a row for each pair; the terminal shows the largest pairs first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import shapely
from rich.table import Table

from dqam.cli.options import OVERWRITE, RELEASE, SLICES, refuse_to_replace
from dqam.cli.terminal import SHOWN, about, answers, in_options, json_option, plain, print_json, words
from dqam.cli.zones import Zones, flow_zone_options, output_option, read_zones
from dqam.errors import InputError
from dqam.geometry.arrays import Floats
from dqam.runtime.files import replacing, writable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dqam.geometry.areas import PlacedAreas
    from dqam.geometry.grid import Grid
    from dqam.release.flow_answers import Flows
    from dqam.release.release import Release

TOO_FEW = "too few to tell"
ENDS = ("--from", "--to")


class _FlowsCommand(click.Command):
    """A command that takes four numbers after --from and --to, like those after --area, as one value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Join the four numbers."""
        joined: list[str] = []
        while args:
            joined.append(args.pop(0))
            if joined[-1] in ENDS and len(args) >= 4 and all(_is_number(side) for side in args[:4]):
                joined.append(" ".join(args[:4]))
                del args[:4]
        return super().parse_args(ctx, joined)


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _sides(text: str) -> tuple[float, ...] | None:
    """The four numbers in a text; None if it is anything else."""
    parts = text.replace(",", " ").split()
    return tuple(map(float, parts)) if len(parts) == 4 and all(map(_is_number, parts)) else None


@click.command(cls=_FlowsCommand)
@RELEASE
@flow_zone_options
@click.option(
    "--from",
    "from_",
    metavar="AREA",
    help="Only trips that begin in this area: the name of a zone of --areas, or four numbers W S E N.",
)
@click.option("--to", metavar="AREA", help="Only trips that end in this area, given in the same way.")
@click.option("--top", type=click.IntRange(min=1), metavar="K", help="Only the K largest flows, the largest first.")
@click.option(
    "--least",
    type=float,
    metavar="TRIPS",
    help="Leave out flows with fewer trips. Default: 0 for tables of up to 250,000 pairs, otherwise 0.5.",
)
@click.option(
    "--crs",
    help="CRS of the four numbers of --from and --to (default: the CRS of the map), and of the file of --areas "
    "(default: the CRS that it declares).",
)
@SLICES
@click.option("--confidence", type=float, default=0.9, show_default=True, help="Confidence level of the intervals.")
@output_option
@OVERWRITE
@json_option
def flows(
    release: Path,
    areas: Path | None,
    name_column: str | None,
    from_: str | None,
    to: str | None,
    top: int | None,
    least: float | None,
    crs: str | None,
    slices: list[str] | None,
    confidence: float,
    output: Path | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Show how many trips go from one area to another, from a RELEASE with flows.

    A trip counts once, from the area in which it begins to the area in which it ends. A trip that comes from outside
    the map begins where it enters the map, and one that leaves it ends where it was last on the map. Unlike the counts
    of `dqam query`, the flows between areas that do not overlap can be added up.

    With --areas, the table has all pairs of zones; with --from or --to, only the flows of one area. Without --areas,
    the areas are the tiles or cells in which flows were measured. "Too few to tell" means that the interval contains 0.

    \b
    Columns of the output, with a row for each pair:
      origin, destination  names of the zones, or west, south, east and north
      trips                the estimate, between low and high
    In GeoJSON and Parquet, each row is a line between the middles of the two areas. With --from or --to and without
    --areas, it is the cell.

    \b
      dqam flows porto.nc                                        the largest flows between tiles of the map
      dqam flows porto.nc --areas zones.geojson -o od.csv        the table of all pairs of zones
      dqam flows porto.nc --areas zones.geojson --top 20
      dqam flows porto.nc --areas zones.geojson --from Baixa -o from-baixa.geojson
      dqam flows porto.nc --from -8.62 41.14 -8.60 41.15 --to -8.68 41.15 -8.65 41.17
      dqam flows porto.nc --areas zones.geojson --slices 07,08 --json

    Only releases published with `dqam publish --flows` have flows.
    """
    import dqam
    from dqam.release.flow_answers import bounds_of, flows_between, flows_of, place, table_of

    if output is not None:
        writable(output, release, areas)
    refuse_to_replace(output, overwrite)
    if from_ is not None and to is not None:
        for option, value in (("--top", top), ("--least", least)):
            if value is not None:
                raise InputError(f"From one area to another there is only one flow; leave out {option} {value:g}.")
    opened = dqam.open(release)
    opened = opened if slices is None else opened.select(slices)
    table = table_of(opened)
    zones = read_zones(areas, None, name_column, crs, opened.grid, "--crs")
    if zones is not None:
        zones.say_changes(grown=True)
        _say_repeated(zones)
    start, end = (_area(*given, zones, opened, crs) for given in (("--from", from_), ("--to", to)))
    names: Sequence[str]
    by_cell = zones is None and (start is None) != (end is None)
    if start is not None and end is not None:
        others, names = end, [str(to)]
        found = flows_of(opened, start, True, others, confidence)
    else:
        one_end = start or end
        if zones is None:
            bounds = bounds_of(table.tiles if one_end is None else table.cells, opened)
            others, names = place(bounds, opened), _in_words(bounds, opened.grid)
        else:
            others, names = zones.areas, zones.given.names
        if one_end is None:
            found = flows_between(opened, others, confidence, least)
        else:
            found = flows_of(opened, one_end, start is not None, others, confidence, least)
    if top is not None:
        found = found.largest(top)
    out, into = (
        _End(others, names) if given is None else _End(given, [" ".join(map(str, _sides(str(text)) or (text,)))])
        for given, text in ((start, from_), (end, to))
    )
    ends = {"origin": out.called[found.origin], "destination": into.called[found.destination]}
    if output is not None:
        from dqam.geometry.shape_tables import write_shapes
        from dqam.release.export import notes

        if by_cell:
            shapes = others.shapes[found.destination if start else found.origin]
        else:
            shapes = shapely.linestrings(np.stack([out.middles[found.origin], into.middles[found.destination]], axis=1))
        shapes = shapely.transform(shapes, lambda xy: np.stack(opened.grid.from_cells(*xy.T), axis=1))
        numbers = {opened.provenance.column("trips"): found.trips, "low": found.low, "high": found.high}
        with replacing(output) as temporary:
            write_shapes(temporary, {**ends, **numbers}, shapes, opened.grid.crs, notes(opened), output.suffix.lower())
    if as_json:
        numbers = {name: getattr(found, name) for name in ("trips", "low", "high", "too_few")}
        columns = {name: values.tolist() for name, values in {**ends, **numbers}.items()}
        of_zones = {} if zones is None else {"zones": {"names": list(zones.given.names), **zones.to_json()}}
        print_json({**columns, **of_zones, **about(opened, confidence)})
        return
    _show(opened, found, ends, confidence, top, output)


@dataclass(frozen=True, eq=False)
class _End:
    """One end of the flows: areas, and their names."""

    areas: PlacedAreas
    names: Sequence[str]

    @property
    def called(self) -> NDArray[np.object_]:
        """object[m], the names."""
        return np.array(self.names, object)

    @property
    def middles(self) -> Floats:
        """float64[m, 2], the middles of the areas on the map, in cells; NaN outside it."""
        middle = shapely.centroid(self.areas.shapes)
        return np.stack([shapely.get_x(middle), shapely.get_y(middle)], axis=1)


def _area(option: str, text: str | None, zones: Zones | None, opened: Release, crs: str | None) -> PlacedAreas | None:
    """The area that --from or --to names; None if there is none."""
    from dqam.geometry.areas import place_areas
    from dqam.release.flow_answers import place

    if text is None:
        return None
    names, sides = () if zones is None else zones.given.names, _sides(text)
    if zones is not None and (count := names.count(text)):
        if count > 1:
            raise InputError(
                f"{option} {text!r}: {count:,} zones of {zones.file.name} have this name; choose another column with "
                "--name-column, or give four numbers, W S E N."
            )
        at = names.index(text)
        if zones.placed.outside[at]:
            raise InputError(f"{option} {text!r}: this zone lies outside the map.")
        return place_areas([zones.given.shapes[at]], opened.grid, zones.given.crs, [text])
    if sides is not None:
        try:
            return place([sides], opened, crs)
        except InputError as error:
            raise InputError(in_options(f"{option}: {error}", "--crs")) from None
    if zones is None:
        raise InputError(
            f"{option} {text!r} must be four numbers, W S E N; for the name of a zone, give the file of the zones with "
            "--areas FILE."
        )
    near = get_close_matches(text, names, 1, 0.5)
    raise InputError(
        f"{option} {text!r} is neither a zone of {zones.file.name} nor four numbers, W S E N"
        f"{f'; did you mean {near[0]!r}?' if near else '.'}"
    )


def _say_repeated(zones: Zones) -> None:
    """Print which names several zones have, which their rows therefore share."""
    _, place, count = np.unique(np.array(zones.given.names, object), return_inverse=True, return_counts=True)
    mask = count[place] > 1
    if mask.any():
        note = zones.note(mask, "", "have the same names as others, so that their rows look alike; see --name-column")
        words.print(plain(note), soft_wrap=True)


def _in_words(bounds: Floats, grid: Grid) -> list[str]:
    """West, south, east and north of cells as text: moved inward to as few decimals as still tell the cells."""
    width, height = (grid.bounds[2] - grid.bounds[0]) / grid.columns, (grid.bounds[3] - grid.bounds[1]) / grid.rows
    digits = max(0, math.ceil(1 - math.log10(min(width, height))))
    unit = 10.0**digits
    inward = np.concatenate([np.ceil(bounds[:, :2] * unit), np.floor(bounds[:, 2:] * unit)], axis=1) / unit + 0.0
    return [" ".join(f"{side:.{digits}f}" for side in row) for row in inward.tolist()]


def _show(
    opened: Release, found: Flows, ends: dict[str, Any], confidence: float, top: int | None, output: Path | None
) -> None:
    """Print the largest flows, and what readers must know about them."""
    from dqam.release.flow_answers import flow_note

    shown = np.argsort(-found.trips, kind="stable")[: top or SHOWN]
    answers.print(f"[bold]{plain(opened.provenance.promise)}[/]")
    counted = opened.provenance.counted and f", {opened.provenance.counted}"
    largest = "" if len(shown) == len(found) or top else f"; the {len(shown):,} largest of {len(found):,} flows"
    answers.print(f"Trips by origin and destination{counted}, estimated{largest}.", soft_wrap=True)
    table = Table("Origin", "Destination", "Trips", f"Interval ({confidence:.0%})")
    for i in shown.tolist():
        sure = f"{found.low[i]:,.0f} to {found.high[i]:,.0f}"
        trips = TOO_FEW if found.too_few[i] else f"{found.trips[i]:,.0f}"
        table.add_row(plain(ends["origin"][i]), plain(ends["destination"][i]), trips, sure)
    answers.print(table)
    unsure = int(found.too_few.sum())
    if unsure:
        answers.print(
            f"{unsure:,} of {len(found):,} flows are too small to tell from 0: their intervals contain 0.",
            soft_wrap=True,
        )
    answers.print(f"The intervals should contain the true number {confidence:.0%} of the time.", soft_wrap=True)
    if note := flow_note(opened):
        answers.print(note, soft_wrap=True)
    if opened.note:
        answers.print(opened.note, soft_wrap=True)
    if output is not None:
        words.print(f"Saved as {output}", markup=False)
    elif len(shown) < len(found):
        answers.print(f"... and {len(found) - len(shown):,} more; save them with -o FILE")
