"""What several commands share for files of areas and lines: options, notes, tables and output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from rich.console import Console

from dqam.cli.options import PATH, Option, with_options
from dqam.cli.terminal import in_options, plain, words
from dqam.errors import InputError
from dqam.geometry.arrays import Mask
from dqam.geometry.grid import Grid
from dqam.runtime.files import replacing, writable

if TYPE_CHECKING:
    from dqam.geometry.area_files import NamedShapes
    from dqam.geometry.areas import PlacedAreas, PlacedLines

LISTED = 5  # names in a note
EARLIER = ("trips", "crossings", "trips_not_private", "crossings_not_private")  # columns of an earlier query
FILES = "GeoJSON or GeoParquet; with the extra `gis` also Shapefile, GeoPackage or FlatGeobuf"


def shape_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--areas, --lines and --name-column."""
    return with_options(
        command,
        _areas("File of polygons, such as zones"),
        click.option("--lines", type=PATH, help="File of lines, such as bridges, to count crossings of; same formats."),
        _name_column("--areas or --lines"),
    )


def planned_zone_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--areas, --name-column and --areas-crs, for zones whose error is forecast."""
    return with_options(
        command,
        _areas("With --plan, also show the expected errors for the zones in this file of polygons"),
        _name_column("--areas"),
        areas_crs_option("--areas"),
    )


def flow_zone_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--areas and --name-column, for zones between which trips go."""
    return with_options(
        command, _areas("File of polygons, such as zones, between which trips go"), _name_column("--areas")
    )


def areas_crs_option(files: str = "--areas or --lines") -> Option:
    """--areas-crs, for commands whose --crs is that of the map."""
    return click.option("--areas-crs", help=f"CRS of the file of {files}. Default: the CRS that it declares.")


def _areas(about: str) -> Option:
    return click.option("--areas", type=PATH, help=f"{about}: {FILES}.")


def _name_column(files: str) -> Option:
    about = f"Column with the names in the file of {files}. Default: name, id, code or h3; without these, numbers."
    return click.option("--name-column", metavar="NAME", help=about)


def output_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """--output, which is refused before anything is read if its format is unknown."""
    return click.option(
        "--output",
        "-o",
        type=PATH,
        callback=_check_output,
        help="Save the answers: .csv, .geojson (or .json), or .parquet (GeoParquet).",
    )(command)


def _check_output(context: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
    from dqam.geometry.shape_tables import check_suffix

    return None if value is None else check_suffix(writable(value) and value)


@dataclass(frozen=True)
class Zones:
    """Areas or lines of a file, as given there and as placed on the grid."""

    file: Path
    given: NamedShapes
    placed: PlacedAreas | PlacedLines
    grid: Grid
    what: str  # "areas" (or "zones", another word for them) or "lines"

    @property
    def areas(self) -> PlacedAreas:
        """The areas on the grid, which are not lines."""
        from dqam.geometry.areas import PlacedAreas

        assert isinstance(self.placed, PlacedAreas)
        return self.placed

    @property
    def counted(self) -> str:
        """What is counted: "trips" or "crossings"."""
        return "crossings" if self.what == "lines" else "trips"

    @property
    def meaning(self) -> str:
        """How the numbers must be read."""
        if self.what == "lines":
            return "These are crossings, not distinct trips: a trip that crosses a line three times counts three times."
        return "Do not add up the counts: a trip through two areas counts in both."

    def size(self, i: int) -> str:
        """The size on the ground of area or line i, for people to read."""
        from dqam.geometry.areas import PlacedAreas
        from dqam.release.formatting import ground, length, size_of_area

        if self.placed.outside[i]:
            return "outside the map"
        if isinstance(self.placed, PlacedAreas):
            return size_of_area(float(self.placed.cells[i]), self.grid)
        return "" if ground(self.grid) is None else length(float(self.placed.metres(self.grid)[i]))

    def to_json(self) -> dict[str, Any]:
        """What --json says about the areas or lines, besides their counts."""
        from dqam.geometry.shape_tables import listed

        masks = {name: getattr(self.placed, name).tolist() for name in ("outside", "cut", "repaired")}
        return {**{name: list(listed(numbers)) for name, numbers in self.placed.sizes(self.grid).items()}, **masks}

    def say_changes(self, grown: bool, console: Console = words) -> None:
        """Print what was repaired, cut off and left out; and with `grown`, which rectangles grew to whole cells."""

        def say(mask: Mask, of_one: str, of_several: str) -> None:
            if mask.any():
                console.print(plain(self.note(mask, of_one, of_several)), soft_wrap=True)

        inside = ~self.placed.outside
        if grown and hasattr(self.placed, "grown"):
            say(inside & self.placed.grown, "was extended to whole cells", "were extended to whole cells")
        say(self.placed.repaired, "crossed itself and was repaired", "crossed themselves and were repaired")
        say(inside & self.placed.cut, "was clipped to the bounds of the map", "were clipped to the bounds of the map")
        say(~inside, "lies outside the map and has no answer", "lie outside the map and have no answer")

    def note(self, mask: Mask, of_one: str, of_several: str) -> str:
        """A sentence about some of the areas or lines, with the names of the first of them."""
        count = int(mask.sum())
        names = [self.given.names[i][:40] for i in np.flatnonzero(mask)[:LISTED]]
        more = count - len(names)
        verdict = of_one if count == 1 else of_several
        listed = ", ".join(names) + (f" and {more:,} more" if more else "")
        return f"{count:,} of {len(self.given):,} {self.what} {verdict}: {listed}."

    def save(self, path: Path, columns: Mapping[str, Any], notes: Mapping[str, str]) -> None:
        """Write the attributes of the file, then `columns` and whether each area or line is outside the map.

        They replace attributes of the same names, and the answers to an earlier query.
        """
        from dqam.geometry.shape_tables import GEOMETRY, write_shapes

        attributes = {name: self.given.columns[name] for name in self.given.columns.column_names}
        columns = {**columns, "outside": self.placed.outside}
        own = {*columns, GEOMETRY}
        for counted in EARLIER:
            if {counted, "low", "high"} <= attributes.keys():
                own |= {counted, "low", "high", "grown"}
        replaced = [name for name in attributes if name in own]
        if self.given.name_column is None or self.given.name_column in replaced:
            attributes = {"name": list(self.given.names)} | {k: v for k, v in attributes.items() if k != "name"}
        kept = {name: values for name, values in attributes.items() if name not in replaced}
        with replacing(path) as temporary:
            write_shapes(temporary, {**kept, **columns}, self.given.shapes, self.given.crs, notes)
        if replaced:
            words.print(
                plain(f"The output has its own columns in place of {', '.join(replaced)} of {self.file.name}."),
                soft_wrap=True,
            )
        words.print(f"Saved as {path}", markup=False)


def read_zones(
    areas: Path | None, lines: Path | None, name_column: str | None, crs: str | None, grid: Grid, crs_option: str
) -> Zones | None:
    """The areas or lines of a file on a grid; None if there is no file. Errors name `crs_option` as a way out."""
    file = areas or lines
    if file is None:
        if name_column is not None:
            raise InputError("--name-column needs a file, such as --areas FILE; give one, or leave out --name-column.")
        return None
    from dqam.geometry.area_files import read_shapes
    from dqam.geometry.areas import place_areas, place_lines

    try:
        given = read_shapes(file, name_column, crs)
        place = place_lines if areas is None else place_areas
        placed = place(given.shapes, grid, given.crs, given.names)
    except InputError as error:
        raise InputError(in_options(str(error), crs_option)) from None
    return Zones(file, given, placed, grid, "lines" if areas is None else "areas")
