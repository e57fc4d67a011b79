"""The map of a release for an HTML page: a PNG image, and the labels and numbers around it.

Coordinates, scale, north and legend are text, not part of the image, so that they stay legible on a phone. The colours
are cividis, which looks the same to the colour-blind.
"""

from __future__ import annotations

import base64
import io
import math
from dataclasses import dataclass

import numpy as np
from PIL import Image

from dqam.geometry.arrays import Bytes, Floats, Integers
from dqam.geometry.grid import Grid, is_degrees, parse_crs
from dqam.geometry.lattice import Lattice
from dqam.release.formatting import TIMES, area, ground
from dqam.release.published_map import PublishedMap

BLOCKS = 256  # along the longer side of the picture, at most
SMALL_BLOCKS = 64  # the same, of the picture of a slice
SLIMMEST = 4  # largest ratio of the sides; a slimmer map is stretched
DECADES = 3  # that the colours can show, at most
EMPTY = "#0b1320"
CIVIDIS = (
    *("#00224e", "#003170", "#2a3f6d", "#434e6c", "#575d6d", "#6a6c71", "#7d7c78"),
    *("#918b78", "#a59c74", "#bcae6c", "#d2c060", "#e9d34e", "#fee838"),
)


@dataclass(frozen=True)
class Picture:
    """What the template map.html shows.

    source     the PNG as a data URL
    aspect     width divided by height, as drawn; `stretched` if the map is slimmer
    place      what one pixel stands for, in words
    most       the largest number of trips through one place; `where` it is, in words
    typical    the median number of trips through one place
    labels     west, south, east and north end of the map, in words
    scale      (length in words, share of the width of the map in percent) of the scale bar
    ticks      (number of trips, place in percent) of the legend
    below      numbers below it share the darkest colour; None if there are none
    lattice    rows and columns of the coarse lattice that can be seen; None if there is none
    """

    source: str
    aspect: float
    stretched: bool
    place: str
    most: float
    where: str
    typical: float
    labels: list[str]
    scale: tuple[str, float] | None
    ticks: list[tuple[float, float]]
    has_empty: bool
    below: float | None
    lattice: tuple[int, int] | None
    colours: tuple[str, ...] = CIVIDIS
    empty: str = EMPTY


def draw_picture(release: PublishedMap) -> Picture:
    """Draw the map of a release."""
    grid = release.grid
    step = -(-max(grid.shape) // BLOCKS)  # cells along the side of a block
    side = -(-max(grid.shape) // step)
    blocks = release.cells(side)
    counts = blocks.value.reshape(Lattice.even(grid, side).shape)
    low, high = colour_range(counts)
    size = ground(grid)
    drawn, stretched = _aspect(grid)
    uncertainty = release.uncertainty
    lattice = None if uncertainty is None or uncertainty.lattice is None else uncertainty.lattice.shape
    if uncertainty is not None and uncertainty.finest:
        lattice = round(grid.rows / uncertainty.finest), round(grid.columns / uncertainty.finest)
    return Picture(
        source=_source(counts, low, high),
        aspect=drawn,
        stretched=stretched,
        place=place_of(grid, step),
        most=float(blocks.value.max()),
        where=_where(blocks.rectangles.cells[int(blocks.value.argmax())], grid),
        typical=float(np.median(blocks.value)),
        labels=_labels(grid),
        scale=None if size is None else _scale(size[0]),
        ticks=_ticks(low, high),
        has_empty=bool((counts <= 0).any()),
        below=low if (counts[counts > 0] < low).any() else None,
        lattice=None if lattice == grid.shape else lattice,
    )


@dataclass(frozen=True)
class SmallPictures:
    """One picture of each slice, all in the same colours.

    sources    the PNGs as data URLs, in the order of the slices
    place      what one pixel stands for, in words
    ticks      (number of trips, place in percent) of the legend
    """

    sources: list[str]
    aspect: float
    place: str
    ticks: list[tuple[float, float]]
    colours: tuple[str, ...] = CIVIDIS


def draw_small(release: PublishedMap) -> str:
    """A small picture of the map of a release, as the data URL of a PNG."""
    step = -(-max(release.grid.shape) // SMALL_BLOCKS)
    side = -(-max(release.grid.shape) // step)
    counts = release.cells(side).value.reshape(Lattice.even(release.grid, side).shape)
    return _source(counts, *colour_range(counts))


def draw_slices(release: PublishedMap) -> SmallPictures:
    """Draw the map of each slice of a release."""
    grid = release.grid
    step = -(-max(grid.shape) // SMALL_BLOCKS)
    side = -(-max(grid.shape) // step)
    shape = Lattice.even(grid, side).shape
    counts = [each.reshape(shape) for each in release.values_by_slice(release.cells(side).rectangles)]
    low, high = colour_range(np.concatenate(counts))
    return SmallPictures(
        [_source(each, low, high) for each in counts], _aspect(grid)[0], place_of(grid, step), _ticks(low, high)
    )


def _aspect(grid: Grid) -> tuple[float, bool]:
    """Width divided by height as drawn, and whether that is not the true one."""
    size = ground(grid)
    west, south, east, north = grid.bounds
    aspect = (east - west) / (north - south) if size is None else size[0] / size[1]
    drawn = min(max(aspect, 1 / SLIMMEST), SLIMMEST)
    return drawn, drawn != aspect


def place_of(grid: Grid, step: int) -> str:
    """What a block of step by step cells is, in words."""
    place = f"a block of {step} {TIMES} {step} cells" if step > 1 else "a cell"
    if ground(grid) is not None:
        place += f" ({area(step * grid.cell_metres[0], step * grid.cell_metres[1])})"
    return place


def png(indices: Bytes, palette: Bytes) -> bytes:
    """A PNG of colours of the palette (uint8[n, 3]), the first row at the top.

    >>> png(np.zeros((1, 1), np.uint8), np.zeros((1, 3), np.uint8))[1:4]
    b'PNG'
    """
    image, stream = Image.fromarray(indices), io.BytesIO()
    image.putpalette(palette.tobytes())
    image.save(stream, "PNG", optimize=True)
    return stream.getvalue()


def colour_range(counts: Floats) -> tuple[float, float]:
    """The numbers of the darkest and the brightest colour: at least a factor of 10 apart and, where there are enough
    trips, none below 1."""
    high = float(counts.max())
    if high <= 0:
        return 1.0, 10.0
    least = max(float(counts[counts > 0].min()), high / 10**DECADES, 1.0)
    return min(least, high / 10), high


def _source(counts: Floats, low: float, high: float) -> str:
    """The counts, rows from the south, as the data URL of a PNG with north at the top."""
    level = np.log(np.clip(counts, low, high) / low) / math.log(high / low)
    indices = np.where(counts > 0, 1 + np.rint(254 * level), 0).astype(np.uint8)
    anchors = np.array([_rgb(colour) for colour in CIVIDIS], np.float64)
    places, wanted = np.linspace(0, 1, len(anchors)), np.linspace(0, 1, 255)
    shades = np.stack([np.interp(wanted, places, channel) for channel in anchors.T], axis=1)
    palette = np.concatenate([[_rgb(EMPTY)], np.rint(shades)]).astype(np.uint8)
    return "data:image/png;base64," + base64.b64encode(png(indices[::-1], palette)).decode()


def _rgb(colour: str) -> list[int]:
    return list(bytes.fromhex(colour[1:]))


def _labels(grid: Grid) -> list[str]:
    west, south, east, north = grid.bounds
    digits = min(9, max(0, 3 - math.floor(math.log10(max(east - west, north - south)))))
    if is_degrees(grid.crs):
        names = ("WE", "SN", "WE", "SN")
        return [f"{abs(side):.{digits}f}° {name[side >= 0]}" for side, name in zip(grid.bounds, names, strict=True)]
    axes = parse_crs(grid.crs).axis_info
    unit = {"metre": "m", "kilometre": "km"}.get(axes[0].unit_name, axes[0].unit_name) if axes else ""
    return [f"{side:,.{digits}f} {unit}" for side in grid.bounds]


def _where(cells: Integers, grid: Grid) -> str:
    """The part of the map that some cells are in."""
    west, south, east, north = cells
    x, y = (west + east) / 2 / grid.columns, (south + north) / 2 / grid.rows
    words = ("south", "", "north")[min(2, int(3 * y))], ("west", "", "east")[min(2, int(3 * x))]
    return "-".join(word for word in words if word) or "centre"


def _scale(width: float) -> tuple[str, float]:
    """A round length, at most a quarter of the width of the map."""
    power = 10 ** math.floor(math.log10(width / 4))
    bar = max(step * power for step in (1, 2, 5) if step * power <= width / 4)
    return f"{bar / 1000:g} km" if bar >= 100 else f"{bar:g} m", 100 * bar / width


def _ticks(low: float, high: float) -> list[tuple[float, float]]:
    """Round numbers between two others, with their places on a log scale."""
    decades = math.log10(high / low)
    steps = (1, 2, 5) if decades <= 2.2 else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [tick for power in powers for tick in (step * 10.0**power for step in steps) if low <= tick <= high]
    return [(tick, 100 * math.log10(tick / low) / decades) for tick in ticks]
