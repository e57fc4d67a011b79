"""What the page about a release says of its slices: their trips, pictures, and where they differ from the whole map."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from dqam.geometry.lattice import Lattice
from dqam.geometry.rectangles import Snapped
from dqam.geometry.sliced_histogram import SlicedHistogram
from dqam.release.answers import Answer
from dqam.release.formatting import Icon, icon, percent, shortest_sides
from dqam.release.picture import SmallPictures, draw_slices
from dqam.release.published_map import CONFIDENCE, PublishedMap

MOST_PICTURES = 31  # more slices are only listed
MOST_CHANGES = 10
BLOCKS = 8  # along the longer side of the map, in which slices are compared with it
IN_WORDS = {"hour": "hour", "weekday": "day of the week", "weekpart": "part of the week", "month": "month"}


@dataclass(frozen=True)
class SliceRow:
    """One slice: its trips, and their share of all trips in words and as the length of a bar in percent."""

    name: str
    trips: Answer
    share: str
    length: float


@dataclass(frozen=True)
class Change:
    """A block of the map in which a slice has more or fewer trips than its share of all trips.

    expected  the trips that the slice would have there if they were spread as all trips are
    times     the answer divided by that
    """

    slice: str
    sides: list[str]
    icon: Icon
    trips: Answer
    expected: float
    times: float


@dataclass(frozen=True)
class SliceFacts:
    """What the template slices.html shows.

    by           the rule in words
    starts       whether slices depend on when trips start
    alike        whether all slices are spread as the whole map is, because noise hides how they differ
    pictures     one for each slice; None if there are too many slices
    block        the sides of the blocks that were compared, in cells, in words
    changes      the largest changes, the most certain first
    """

    by: str
    starts: bool
    alike: bool
    rows: list[SliceRow]
    pictures: SmallPictures | None
    block: str
    changes: list[Change]


def describe_slices(release: PublishedMap) -> SliceFacts | None:
    """What to say of the slices of a release; None if it has fewer than two."""
    if not isinstance(release.histogram, SlicedHistogram) or len(release.slices) < 2:
        return None
    rules = release.provenance.slices.split("*")
    rows, columns = release.grid.shape
    whole = Snapped.of(np.array([[0, 0, columns, rows]]), release.grid)
    each = [answers[0] for answers in release.by_slice(whole)]
    total, most = sum(answer.value for answer in each), max(answer.value for answer in each)
    return SliceFacts(
        by=" and ".join(IN_WORDS.get(rule, rule.partition("=")[0]) for rule in rules),
        starts=any(rule in IN_WORDS for rule in rules),
        alike=len(release.histogram.parts) == 1,
        rows=[
            SliceRow(name, answer, percent(answer.value / total) if total else "", 100 * answer.value / (most or 1.0))
            for name, answer in zip(release.slices, each, strict=True)
        ],
        pictures=draw_slices(release) if len(release.slices) <= MOST_PICTURES else None,
        block=" by ".join(f"{math.ceil(cells / BLOCKS):,}" for cells in (columns, rows)),
        changes=find_changes(release),
    )


def find_changes(release: PublishedMap, confidence: float = CONFIDENCE) -> list[Change]:
    """The largest changes that noise cannot explain, at most one for each block of the map.

    All blocks of all slices are compared at once, so each interval has a confidence so high that at least this share of
    maps has no change that is due to noise (Bonferroni), if intervals hold. Intervals take the number of patterns for
    granted. A pattern that is due to noise can make them too narrow, so a change must also exceed what noise would do
    to the slice in a block without any patterns.
    """
    grid = release.grid
    lattice = Lattice.even(grid, BLOCKS)
    south, west = (axis.ravel() for axis in np.meshgrid(lattice.north[:-1], lattice.east[:-1], indexing="ij"))
    north, east = (axis.ravel() for axis in np.meshgrid(lattice.north[1:], lattice.east[1:], indexing="ij"))
    blocks = Snapped.of(np.stack([west, south, east, north], axis=1), grid)
    rows, columns = grid.shape
    everywhere = Snapped.of(np.array([[0, 0, columns, rows]]), grid)
    sizes = release.values_by_slice(everywhere)[:, 0]
    compared = len(sizes) * lattice.cells
    each = 1 - (1 - confidence) / compared
    sure = release.by_slice(blocks, each)
    value, low, high = (np.stack([getattr(one, name) for one in sure]) for name in ("value", "low", "high"))
    expected = np.outer(sizes / max(sizes.sum(), 1e-9), value.sum(axis=0))
    beyond = np.nan_to_num(np.maximum(low - expected, expected - high))
    if release.share_noise is not None:
        met = value.sum() / max(sizes.sum(), 1e-9)  # blocks by a trip, among which 1 is divided when it is measured
        least = NormalDist().inv_cdf((1 + each) / 2) * release.share_noise.sizes * met
        beyond[np.abs(value - expected) < least] = 0
    shown, places = release.by_slice(blocks, confidence), beyond.argmax(axis=0)
    changes = []
    for block in np.argsort(-beyond.max(axis=0))[:MOST_CHANGES]:
        place = int(places[block])
        if beyond[place, block] <= 0:
            break
        cells, wanted = blocks.cells[block], float(expected[place, block])
        answer = shown[place][int(block)]
        name, sides = release.slices[place], shortest_sides(cells, grid)
        changes.append(Change(name, sides, icon(cells, grid), answer, wanted, answer.value / max(wanted, 1e-9)))
    return changes
