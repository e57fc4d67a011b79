"""Repair of polygons that are not valid, such as those whose borders cross themselves.

Whatever a border goes around is inside, however often it does so, and parts that overlap are merged.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import shapely

from dqam.errors import InputError
from dqam.geometry.arrays import Mask, Shapes

MOST_PAIRS = 120_000  # pairs of sides that may cross, over all areas; repairing them takes at most about three seconds
RING = 15  # pairs of sides that take as long to repair as a hole or a broken part
AT_ONCE = 4_000_000  # pairs of sides that are held in memory


def repair(shapes: Shapes, called: Callable[[int], str]) -> tuple[Shapes, Mask]:
    """Valid polygons and multipolygons, and bool[m], which of them were repaired.

    Raises an `InputError` if this would take too long. `called` gives the words for an area, by its row.
    """
    broken: Mask = ~shapely.is_valid(shapes)
    work: dict[int, int] = {}
    for row in np.flatnonzero(broken).tolist():
        work[row] = _pairs_of_sides(shapes[row], MOST_PAIRS - sum(work.values()))
        if sum(work.values()) > MOST_PAIRS:
            worst = max(work, key=lambda one: work[one])
            raise InputError(
                f"{called(worst)} crosses itself, or its parts overlap, in so many places that it would take too long "
                "to repair; redraw it, or merge its parts, for example with shapely.union_all."
            )
    shapes = shapes.copy()
    shapes[broken] = shapely.make_valid(shapes[broken], method="structure", keep_collapsed=False)
    return shapes, broken


def _pairs_of_sides(shape: shapely.Geometry, most: int) -> int:
    """The number of pairs of sides that may cross: not one after the other, and with bounding boxes that meet.

    Rings count as some pairs, too, other than those of valid parts without holes and a first one. Counting stops above
    `most`.
    """
    parts = shapely.get_parts(shape)
    corners, ring = shapely.get_coordinates(shapely.get_rings(parts), return_index=True)
    joined = ring[1:] == ring[:-1]
    if not joined.any():
        return 0
    sides = shapely.linestrings(np.stack([corners[:-1], corners[1:]], axis=1)[joined])
    easy = int(np.count_nonzero(shapely.is_valid(parts) & (shapely.get_num_interior_rings(parts) == 0)))
    found = RING * max(0, int(ring[-1]) - easy)
    tree, step = shapely.STRtree(sides), max(1, AT_ONCE // len(sides))
    for start in range(0, len(sides), step):
        if found > most:
            break
        one, other = tree.query(sides[start : start + step])
        found += int(np.count_nonzero(other > one + start + 1))
    return found
