"""The queries of OGC API - EDR: their parameters, and the answers of a release to them."""

from __future__ import annotations

import math
import re
from typing import Any, Literal

import numpy as np
import shapely
from pydantic import BaseModel, Field

from dqam.errors import InputError
from dqam.explorer.answering import ask_release
from dqam.explorer.edr_coverages import Found
from dqam.explorer.edr_metadata import CRS84, crs_codes, descriptions, has_degrees
from dqam.explorer.schema import CONFIDENCE_MEANING, MOST_FEATURES
from dqam.explorer.selections import ShownRelease
from dqam.geometry.areas import PlacedAreas, place_areas
from dqam.geometry.arrays import Integers
from dqam.geometry.grid import DEGREES
from dqam.geometry.rectangles import Snapped, snap
from dqam.release.answers import Answers
from dqam.release.published_map import CONFIDENCE
from dqam.release.release import Release

MOST_VALUES = 1 << 16  # cells or blocks of one answer, of all slices together
FEW = 4  # one slice takes at most this many times as long as one of all slices that are answered together
NO_SUCH_DIMENSION = {
    "datetime": "a release does not say when its trips took place. Slices, such as hours of the day, recur; if the "
    "collection has them, select them with the parameter slice",
    "z": "a map has no heights",
}


class Options(BaseModel):
    """The parameters that all queries have."""

    parameter_name: str | None = Field(
        None, alias="parameter-name", description="Names of parameters, separated by commas; by default all."
    )
    parameter_names: str | None = Field(None, description="The same, as the client OWSLib spells it.")
    slice: str | None = Field(
        None,
        description="Custom dimension: one slice, several separated by commas, or `first/last` for all from one to "
        "another. Each has an answer of its own. By default, there is one answer for all trips.",
    )
    crs: str | None = Field(
        None,
        description="CRS of the coordinates and of CoverageJSON: one of `crs` of the collection; by default CRS84. "
        "Longitude, or east, comes first.",
    )
    f: Literal["CoverageJSON", "GeoJSON"] | None = Field(
        None,
        description="Format; by default CoverageJSON, unless the header Accept asks for GeoJSON. GeoJSON is always in "
        "degrees.",
    )
    confidence: float = Field(CONFIDENCE, ge=0.01, le=0.9999, description=CONFIDENCE_MEANING)

    def answer(self, one: ShownRelease) -> Found:
        """What the release answers."""
        raise NotImplementedError

    def code(self, release: Release) -> str:
        """The code of the CRS of the coordinates."""
        codes = crs_codes(release.grid)
        if self.crs is not None and self.crs not in codes:
            raise InputError(f"{self.crs[:60]!r} is not a CRS of this collection; give one of {', '.join(codes)}.")
        return codes[self.crs or CRS84]

    def names(self, release: Release) -> list[str]:
        """The names of the parameters to show."""
        known, told = list(descriptions(release)), self.parameter_name or self.parameter_names
        if told is None:
            return known
        names = {name.strip() for name in told.split(",")}
        if unknown := sorted(names.difference(known)):
            raise InputError(f"There is no parameter {unknown[0]!r:.60}; the parameters are {', '.join(known)}.")
        return [name for name in known if name in names]

    def slices(self, release: Release) -> list[str]:
        """The names of the slices that were asked for; none for all trips together."""
        known, told = list(release.slices), self.slice
        if told is None:
            return []
        if not known:
            raise InputError("This collection has no slices; leave out the parameter slice.")
        ends = [end.strip() for end in told.split("/")]
        if told.strip() not in known and len(ends) == 2 and set(ends) <= set(known):
            first, last = (known.index(end) for end in ends)
            if first > last:
                raise InputError(f"The slice {ends[0]!r} comes after {ends[1]!r}; give the earlier one first.")
            return known[first : last + 1]
        names = {name.strip() for name in told.split(",")}
        if unknown := sorted(names.difference(known)):
            release.select(unknown[0])  # raises, and lists a few
        return [name for name in known if name in names]

    def found(self, one: ShownRelease, place: Any, asked: Any) -> Found:
        """The answers to what is placed on the grid."""
        release, slices = one.release, self.slices(one.release)
        answers: list[Answers]
        if len(slices) * FEW < len(release.slices) or not slices:
            selected = [one.select((name,)) for name in slices] if slices else [release]
            answers = [each.counts(asked, confidence=self.confidence) for each in selected]
        else:  # the same numbers
            each_slice = dict(zip(release.slices, release.by_slice(asked, self.confidence), strict=True))
            answers = [each_slice[name] for name in slices]
        return Found(release, self.code(release), place, answers, slices, self.names(release), self.confidence)


class Position(Options):
    """The parameters of a position query."""

    coords: str = Field(
        description="POINT as well-known text; the answer is for the grid cell that contains it.",
        examples=["POINT(-30 45)"],
    )

    def answer(self, one: ShownRelease) -> Found:
        """The count in the cell that the point is in."""
        point, grid, code = read_wkt(self.coords, "POINT"), one.release.grid, self.code(one.release)

        def place(points: Any, crs: str, confidence: float) -> Snapped:
            return snap([(x, y, x, y) for x, y in points], grid, crs, "Point")

        return self.found(one, point, ask_release(place, grid, [(point.x, point.y)], code, self.confidence))


class Area(Options):
    """The parameters of an area query."""

    coords: str = Field(
        description="POLYGON or MULTIPOLYGON as well-known text; the answer is one number.",
        examples=["POLYGON((-30.02 44.98,-29.98 44.98,-29.98 45.02,-30.02 45.02,-30.02 44.98))"],
    )

    def answer(self, one: ShownRelease) -> Found:
        """The count in the polygon, as `release.count(polygon)` gives it."""
        shape, grid = read_wkt(self.coords, "POLYGON", "MULTIPOLYGON"), one.release.grid

        def place(shapes: Any, crs: str, confidence: float) -> PlacedAreas:
            return place_areas(shapes, grid, crs)

        return self.found(one, shape, ask_release(place, grid, [shape], self.code(one.release), self.confidence))


class Cube(Options):
    """The parameters of a cube query."""

    bbox: str = Field(
        description="West, south, east and north side, separated by commas.", examples=["-30.02,44.98,-29.98,45.02"]
    )
    resolution_x: int | None = Field(
        None, ge=0, alias="resolution-x", description="Number of blocks of cells from west to east; 0 for single cells."
    )
    resolution_y: int | None = Field(
        None, ge=0, alias="resolution-y", description="Number of blocks from south to north; 0 for single cells."
    )

    def answer(self, one: ShownRelease) -> Found:
        """The counts in the cells, or blocks of cells, that meet the box."""
        release, grid = one.release, one.release.grid
        code = self.code(release)
        if code == DEGREES and not has_degrees(grid):
            raise InputError(
                f"The cells of this map are a grid in {grid.crs} only; give bbox in that CRS and crs={grid.crs}."
            )
        sides = [_number(side) for side in self.bbox.split(",")]
        if len(sides) != 4 or None in sides:
            raise InputError(
                f"bbox must be four numbers, west, south, east and north, separated by commas; got {self.bbox[:60]!r}."
            )

        def place(boxes: Any, crs: str, confidence: float) -> Snapped:
            return snap(boxes, grid, crs, "Box")

        around = ask_release(place, grid, [sides], "grid", self.confidence)
        west, south, east, north = around.cells[0].tolist()
        most = (MOST_FEATURES if self.f == "GeoJSON" else MOST_VALUES) // (len(self.slices(release)) or 1)
        columns, rows = blocks(east - west, north - south, most, self.resolution_x, self.resolution_y)
        u, v = _lines(west, east, columns), _lines(south, north, rows)
        low_u, low_v = np.meshgrid(u[:-1], v[:-1])
        high_u, high_v = np.meshgrid(u[1:], v[1:])
        cells = np.stack([low_u, low_v, high_u, high_v], axis=-1).reshape(-1, 4)
        lines = grid.from_cells(u.astype(np.float64), v[0])[0], grid.from_cells(u[0], v.astype(np.float64))[1]
        return self.found(one, lines, Snapped.of(cells, grid))


def read_wkt(text: str, *kinds: str) -> Any:
    """A geometry of one of these kinds with finite coordinates, or an `InputError`."""
    wanted = " or ".join(kinds)
    problem = InputError(
        f"coords must be a {wanted} as well-known text, such as {EXAMPLES[kinds[0]]}; got {text[:60]!r}."
    )
    if not re.match(rf"\s*({'|'.join(kinds)})\b", text, re.IGNORECASE | re.ASCII):
        raise problem
    try:
        shape = shapely.from_wkt(text)
    except (shapely.errors.ShapelyError, ValueError, UnicodeError):
        raise problem from None
    if shape.geom_type.upper() not in kinds or shape.is_empty or not np.isfinite(shapely.get_coordinates(shape)).all():
        raise problem
    return shapely.force_2d(shape)


EXAMPLES = {
    "POINT": "POINT(-30 45)",
    "POLYGON": "POLYGON((-30.02 44.98,-29.98 44.98,-29.98 45.02,-30.02 44.98))",
}


def blocks(columns: int, rows: int, most: int, wide: int | None, high: int | None) -> tuple[int, int]:
    """How many blocks of cells an answer has from west to east and from south to north: as many as were asked for or,
    by default, nearly as many as there may be.

    >>> blocks(512, 256, 65_536, None, None), blocks(512, 256, 65_536, 4, None), blocks(512, 256, 65_536, 4, 0)
    ((362, 181), (4, 256), (4, 256))
    """
    for name, asked, cells in (("x", wide, columns), ("y", high, rows)):
        if asked is not None and asked > cells:
            raise InputError(f"resolution-{name} is {asked:,}, but the box has {cells:,} cells; give 0 to {cells:,}.")
    across, up = (cells if asked == 0 else asked for asked, cells in ((wide, columns), (high, rows)))
    share = min(1.0, math.sqrt(most / (columns * rows)))
    if across is None:
        across = max(1, min(columns, most // (up or max(1, math.floor(rows * share)))))
    if up is None:
        up = max(1, min(rows, most // across))
    if across * up > most:
        raise InputError(
            f"This answer can have at most {most:,} blocks of cells for each slice; {across:,} x {up:,} are more. Give "
            "a smaller bbox, fewer slices, or leave out resolution-x and resolution-y."
        )
    return across, up


def _lines(first: int, last: int, parts: int) -> Integers:
    """Grid lines that divide a range of cells evenly."""
    lines: Integers = np.rint(np.linspace(first, last, parts + 1)).astype(np.int64)
    return lines


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
