"""What the HTML page of a release says about flows: the largest ones as arrows on a pale map, and in a table."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dqam.geometry.arrays import Floats
from dqam.release.answers import Answer
from dqam.release.flow_answers import bounds_of, flow_note, flows_between, place
from dqam.release.formatting import TIMES, Icon, icon, shortest_sides, size_of_rectangle
from dqam.release.picture import CIVIDIS, Picture, draw_small
from dqam.release.published_map import CONFIDENCE, PublishedMap

BLOCKS = 8  # along the longer side of the map, between which flows are shown, at most
ARROWS, ROWS = 30, 10  # at most
WIDE = 1000.0  # the longer side of the picture
THICK, THIN = 16.0, 1.5  # widths of arrows
BEND, LEAST_BEND = 0.16, 34.0  # how far an arrow bends to its right, relative to its length, and at least
APART = 0.12  # how far from the middles of blocks arrows begin and end, in sides of a block
SMALLEST = 0.04  # arrows must be at least this wide relative to the widest


@dataclass(frozen=True)
class Arrow:
    """A flow in the picture: the path of its line and the corners of its head, as in SVG, and its width.

    trips  of the flow
    label  its row in the table; 0 if it has none
    place  x and y of the label
    """

    line: str
    head: str
    width: float
    trips: float
    label: int
    place: tuple[float, float]


@dataclass(frozen=True)
class FlowRow:
    """One of the largest flows; the places are sides as text, and icons."""

    origin: list[str]
    destination: list[str]
    icons: tuple[Icon, Icon]
    answer: Answer


@dataclass(frozen=True)
class FlowReport:
    """What the template flows.html shows.

    picture  width and height of the picture, and the pale map behind the arrows as a data URL
    arrows   from the smallest to the largest, so that the largest are drawn last
    block    the size of the blocks in words; `count` of them, in words
    within   share of all trips that begin and end in the same block
    note     what readers must know about all flows; then there are no arrows
    unsure   how many flows between different blocks there are too few trips to tell, of `pairs`
    """

    width: float
    height: float
    aspect: float
    source: str
    colour: str
    arrows: list[Arrow]
    rows: list[FlowRow]
    block: str
    count: str
    note: str
    within: float
    unsure: int
    pairs: int


def describe_flows(release: PublishedMap, picture: Picture) -> FlowReport | None:
    """The largest flows between blocks of the map; None if the release has no flows."""
    table, grid = release.flow_table, release.grid
    if table is None:
        return None
    lattice = table.tiles if max(table.tiles.shape) <= BLOCKS else table.tiles.coarser(BLOCKS)
    found = flows_between(release, place(bounds_of(lattice, release), release), CONFIDENCE, 0.0)
    inside = found.origin == found.destination
    between = found.some(~inside)
    largest = between.some(~between.too_few).largest(ARROWS)
    cells = lattice.rectangles
    width, height = (WIDE, WIDE / picture.aspect) if picture.aspect >= 1 else (WIDE * picture.aspect, WIDE)
    scale = np.array([width / grid.columns, height / grid.rows])
    middles = (cells[:, :2] + cells[:, 2:]) / 2 * scale
    middles[:, 1] = height - middles[:, 1]
    most = float(largest.trips.max(initial=1.0))
    gap = APART * WIDE / max(lattice.shape)
    arrows = [
        _arrow(middles[start], middles[stop], trips / most, trips, gap, 1 + at if at < ROWS else 0)
        for at, (start, stop, trips) in enumerate(
            zip(largest.origin.tolist(), largest.destination.tolist(), largest.trips.tolist(), strict=True)
        )
        if at < ROWS or trips >= SMALLEST * most
    ]
    rows = [
        FlowRow(
            shortest_sides(cells[largest.origin[i]], grid),
            shortest_sides(cells[largest.destination[i]], grid),
            (icon(cells[largest.origin[i]], grid), icon(cells[largest.destination[i]], grid)),
            Answer(float(largest.trips[i]), float(largest.low[i]), float(largest.high[i])),
        )
        for i in range(min(len(largest), ROWS))
    ]
    wide, high = np.diff(lattice.east).max(), np.diff(lattice.north).max()
    total = max(float(found.trips.sum()), 1e-9)
    return FlowReport(
        width=width,
        height=height,
        aspect=picture.aspect,
        source=draw_small(release),
        colour=CIVIDIS[0],
        arrows=arrows[::-1],
        rows=rows,
        block=size_of_rectangle(int(wide), int(high), grid),
        count=f"{lattice.shape[1]} {TIMES} {lattice.shape[0]}",
        note=flow_note(release),
        within=float(found.trips[inside].sum()) / total,
        unsure=int(between.too_few.sum()),
        pairs=len(between),
    )


def _arrow(start: Floats, stop: Floats, share: float, trips: float, gap: float, label: int) -> Arrow:
    """An arrow from one place to another, which bends to its right so that the way back is beside it.

    share  of the widest arrow, in width
    gap    between the places and the ends of the arrow
    """
    width = max(THICK * share, THIN)
    along = stop - start
    length = math.hypot(*along)
    right = np.array([-along[1], along[0]]) / length  # y points down
    control = (start + stop) / 2 + max(BEND * length, LEAST_BEND) * right
    start, stop = (end + gap * (control - end) / math.hypot(*(control - end)) for end in (start, stop))
    back = (control - stop) / math.hypot(*(control - stop))
    size = min(2.2 * width + 8, length / 3)
    base = stop + size * back
    side = (0.9 * width + 4) * np.array([-back[1], back[0]])
    line = f"M{_xy(start)}Q{_xy(control)} {_xy(base)}"
    middle = (start + 2 * control + stop) / 4
    return Arrow(
        line, " ".join(map(_xy, (stop, base + side, base - side))), width, trips, label, (middle[0], middle[1])
    )


def _xy(place: Floats) -> str:
    return f"{place[0]:.1f},{place[1]:.1f}"
