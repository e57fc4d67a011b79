"""The map of a release for a page: a PNG written here, with coordinates, scale, north and legend as text around it.

Text is text, and not drawn, so that it stays legible on a telephone. Colours are cividis, which looks the same to the
colour-blind.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from dqam.geometry.arrays import Floats
from dqam.geometry.grid import Grid, is_degrees, parse_crs
from dqam.geometry.lattice import Lattice
from dqam.geometry.rectangles import Snapped
from dqam.release.markup import area, crs_name, ground, number, plain, trips
from dqam.release.release import Release

BLOCKS = 256  # along the longer side of the picture, at most
SLIMMEST = 4  # a map that is longer than this times its width is stretched
DECADES = 3  # that the colours tell apart, at most
NOTHING = "#0b1320"
CIVIDIS = (
    *("#00224e", "#003170", "#2a3f6d", "#434e6c", "#575d6d", "#6a6c71", "#7d7c78"),
    *("#918b78", "#a59c74", "#bcae6c", "#d2c060", "#e9d34e", "#fee838"),
)


def figure(release: Release) -> str:
    """The map as an HTML figure."""
    grid = release.grid
    step = -(-max(grid.shape) // BLOCKS)  # cells along the side of a block
    side = -(-max(grid.shape) // step)
    blocks = release.blocks(side)
    counts = blocks.value.reshape(Lattice.even(grid, side).shape)
    low, high = _range(counts)
    size = ground(grid)
    west, south, east, north = grid.bounds
    aspect = (east - west) / (north - south) if size is None else size[0] / size[1]
    drawn = min(max(aspect, 1 / SLIMMEST), SLIMMEST)
    labels, least = _labels(grid), low if (counts[counts > 0] < low).any() else None
    place = f"a block of {step} &times; {step} cells" if step > 1 else "a cell"
    if size is not None:
        place += f" ({area(step * grid.cell_metres[0], step * grid.cell_metres[1])})"
    return (
        f'<figure class="map"><div class="plot" style="max-width: calc({drawn:.6g} * 44rem)">\n'
        f'<div class="side"><span>{labels[1]}</span><span>{labels[3]}</span></div>\n'
        f'<div class="plate" style="aspect-ratio: {drawn:.6g}">'
        f'<img alt="{_described(blocks.value, blocks.rectangles, grid, place)}" src="{_picture(counts, low, high)}">\n'
        f'{_scale(size)}<span class="up" aria-hidden="true">▲<br>N</span></div>\n'
        f'<div class="foot"><span>{labels[0]}</span><span>{labels[2]}</span></div></div>\n'
        f'<div class="legend"><p>Distinct trips through {place}, log scale</p>'
        f"{_legend(low, high, bool((counts <= 0).any()))}</div>\n"
        f"<figcaption>{_caption(release, least, drawn != aspect)}</figcaption></figure>\n"
    )


def png(indices: NDArray[np.uint8], palette: NDArray[np.uint8]) -> bytes:
    """A picture of colours of the palette (uint8[n, 3]), the first row at the top.

    >>> png(np.zeros((1, 1), np.uint8), np.zeros((1, 3), np.uint8))[1:4]
    b'PNG'
    """

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    height, width = indices.shape
    lines = np.pad(indices, ((0, 0), (1, 0)))  # each begins with the number of its filter: none
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0))
        + chunk(b"PLTE", palette.astype(np.uint8).tobytes())
        + chunk(b"IDAT", zlib.compress(lines.tobytes(), 9))
        + chunk(b"IEND", b"")
    )


def _range(counts: Floats) -> tuple[float, float]:
    """What the darkest and the brightest colour stand for: one decade at least, and nothing below one trip if there
    are enough."""
    high = float(counts.max())
    if high <= 0:
        return 1.0, 10.0
    least = max(float(counts[counts > 0].min()), high / 10**DECADES, 1.0)
    return min(least, high / 10), high


def _picture(counts: Floats, low: float, high: float) -> str:
    """The counts, rows from the south, as the address of a picture with north at the top."""
    level = np.log(np.clip(counts, low, high) / low) / math.log(high / low)
    indices = np.where(counts > 0, 1 + np.rint(254 * level), 0).astype(np.uint8)
    anchors = np.array([_rgb(colour) for colour in CIVIDIS], np.float64)
    places, wanted = np.linspace(0, 1, len(anchors)), np.linspace(0, 1, 255)
    shades = np.stack([np.interp(wanted, places, channel) for channel in anchors.T], axis=1)
    palette = np.concatenate([[_rgb(NOTHING)], np.rint(shades)]).astype(np.uint8)
    return "data:image/png;base64," + base64.b64encode(png(indices[::-1], palette)).decode()


def _rgb(colour: str) -> list[int]:
    return list(bytes.fromhex(colour[1:]))


def _labels(grid: Grid) -> list[str]:
    """The bounds in words: west, south, east, north."""
    west, south, east, north = grid.bounds
    digits = min(9, max(0, 3 - math.floor(math.log10(max(east - west, north - south)))))
    if is_degrees(grid.crs):
        names = ("WE", "SN", "WE", "SN")
        return [f"{abs(side):.{digits}f}° {name[side >= 0]}" for side, name in zip(grid.bounds, names, strict=True)]
    axes = parse_crs(grid.crs).axis_info
    unit = {"metre": "m", "kilometre": "km"}.get(axes[0].unit_name, axes[0].unit_name) if axes else ""
    return [f"{side:,.{digits}f} {plain(unit)}" for side in grid.bounds]


def _described(values: Floats, places: Snapped, grid: Grid, place: str) -> str:
    """The picture for who cannot see it."""
    best = int(np.argmax(values))
    west, south, east, north = places.cells[best]
    x, y = (west + east) / 2 / grid.columns, (south + north) / 2 / grid.rows
    words = ("south", "", "north")[min(2, int(3 * y))], ("west", "", "east")[min(2, int(3 * x))]
    where = "-".join(word for word in words if word) or "middle"
    return (
        f"Map of the estimated number of distinct trips, north up, brighter for more. The most, about "
        f"{trips(float(values[best]))} through {place}, are in the {where}; the median is about "
        f"{number(float(np.median(values)))}."
    )


def _scale(size: tuple[float, float] | None) -> str:
    """A bar of a round length, at most a quarter of the picture wide."""
    if size is None:
        return ""
    power = 10 ** math.floor(math.log10(size[0] / 4))
    bar = max(step * power for step in (1, 2, 5) if step * power <= size[0] / 4)
    label = f"{bar / 1000:g} km" if bar >= 100 else f"{bar:g} m"
    return f'<span class="scale" style="width: {100 * bar / size[0]:.4g}%">{label}</span>'


def _legend(low: float, high: float, nothing: bool) -> str:
    """The colours and what they stand for."""
    none = f'<div class="zero"><i style="background: {NOTHING}"></i><div class="ticks">none</div></div>'
    decades = math.log10(high / low)
    steps = (1, 2, 5) if decades <= 2.2 else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [tick for power in powers for tick in (step * 10.0**power for step in steps) if low <= tick <= high]
    marks = "".join(
        f'<span style="left: {100 * math.log10(tick / low) / decades:.4g}%">{tick:,g}</span>' for tick in ticks
    )
    return (
        f'<div class="ramp">{none if nothing else ""}<div class="shades">'
        f'<i style="background: linear-gradient(to right, {", ".join(CIVIDIS)})"></i>'
        f'<div class="ticks">{marks}</div></div></div>'
    )


def _caption(release: Release, least: float | None, stretched: bool) -> str:
    grid, doubt = release.grid, release.doubt
    words = ["North is up." if is_degrees(grid.crs) else "Up is the north of the grid of its CRS."]
    words.append(f"Coordinates are those of {crs_name(grid)}.")
    if ground(grid) is not None:
        words.append("The scale holds in the middle of the map.")
    if stretched:
        words.append("The map is so slim that the picture is stretched across.")
    if least is not None:
        words.append(f"What is below {number(least)} has the darkest blue.")
    if doubt is not None and doubt.lattice is not None and doubt.lattice.shape != grid.shape:
        rows, columns = doubt.lattice.shape
        words.append(
            f"Trips were measured on a lattice of {columns} &times; {rows} coarse cells, which can be seen; within one "
            "they are spread evenly."
        )
    words.append('Single cells are the least certain: see <a href="#error">how far off answers may be</a>.')
    return " ".join(words)
