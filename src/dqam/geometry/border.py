"""What a histogram says about areas that are not rectangles, and about lines: integrals along their borders.

A histogram answers a rectangle with the endpoints inside plus half of what crosses its border. For a polygon, let
(nx, ny) be the normal of its border, and V and H the crossings of vertical and horizontal edges per unit of length, so
that v = nx V and h = ny H are the crossings of the border by the steps of trips along each axis. Then

    answer = endpoints inside + 1/2 * integral along the border of the trips that cross it,

where the number of trips that cross a piece of the border depends on their directions, which a histogram does not hold.
If all went north-east it would be |v + h|; if all went north-west, |v - h|; and if all directions were equally common,
sqrt(v^2 + h^2). (A staircase of cells would give |v| + |h|: it counts a trip along a slanted border again and again.)
The `diagonal` r of a cell, between -1 and 1, says which of these it is:

    |r| * |v + sign(r) h| + (1 - |r|) * sqrt(v^2 + h^2).

It shows in cells that trips enter through a vertical edge and leave through a horizontal one, or vice versa. On its way
north-east, a trip enters a cell from the west and leaves it to the north, or enters from the south and leaves to the
east; so where more trips cross the west edge than the east edge, more cross the north edge than the south edge. The
diagonal is the correlation of these two differences in the cells nearby. It is near 0 where differences are small, as
in a histogram without fine detail.

Where a border follows the axes, v or h is 0, and the result is the answer for a rectangle.

Endpoints are spread evenly over their cells. By Green's theorem, their sum over the polygon is an integral along its
border too: that of A(x, y) dy, where A are the endpoints west of x. Crossings are spread evenly along an edge, and
change linearly from one grid line to the next, as in `Lattice.refine`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import shapely
from numba import njit
from scipy.ndimage import gaussian_filter

from dqam.geometry.arrays import Floats, Integers, Shapes
from dqam.geometry.lattice import Parts
from dqam.runtime.threads import cores, each_span, spans

NEARBY = 1.0  # cells: standard deviation of the weights of neighbouring cells
SMALL = 0.02  # differences are small if their squares are less than this share of the squares of the crossings


@dataclass(frozen=True, eq=False)
class Rings:
    """Rings of polygons, or lines, with corners in cells.

    corners  float64[n, 2]
    starts   int64[rings + 1], where each ring begins in `corners`
    """

    corners: Floats
    starts: Integers

    @classmethod
    def of(cls, lines: Shapes) -> Rings:
        """The corners of LinearRings or LineStrings."""
        lengths = shapely.get_num_coordinates(lines)
        return cls(shapely.get_coordinates(lines), np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))


@dataclass(frozen=True, eq=False)
class BorderSums:
    """Integrals along each ring in each of k histograms: float64[rings, k].

    inside     endpoints inside the ring
    crossings  trips that cross the ring
    staircase  steps that cross the ring, of which a trip along a slanted border makes many
    """

    inside: Floats
    crossings: Floats
    staircase: Floats


@dataclass(frozen=True, eq=False)
class BorderFields:
    """Endpoints and crossings of k histograms on one grid, in the form needed for integrals along borders.

    west        float64[rows, columns + 1, k], endpoints in the row west of each vertical grid line
    vertical    float64[rows, columns + 1, k], crossings of vertical edges; 0 on the outer border
    horizontal  float64[rows + 1, columns, k], crossings of horizontal edges; 0 on the outer border
    diagonal    float64[rows, columns], direction of the trips: 1 for north-east or south-west, -1 for north-west or
                south-east, 0 if unknown
    """

    west: Floats
    vertical: Floats
    horizontal: Floats
    diagonal: Floats

    @classmethod
    def of(cls, histograms: Sequence[Parts], known: bool = True) -> BorderFields:
        """The fields of the endpoints, vertical and horizontal edges of histograms.

        known  whether the first of them shows the direction of the trips
        """
        endpoints, vertical, horizontal = (
            np.stack(parts, axis=-1).astype(np.float64) for parts in zip(*histograms, strict=True)
        )
        west = np.pad(endpoints.cumsum(axis=1), ((0, 0), (1, 0), (0, 0)))
        vertical = np.pad(vertical, ((0, 0), (1, 1), (0, 0)))
        horizontal = np.pad(horizontal, ((1, 1), (0, 0), (0, 0)))
        shown = _diagonal(vertical[:, :, 0], horizontal[:, :, 0]) if known else np.zeros(endpoints.shape[:2])
        return cls(west, vertical, horizontal, shown)

    def follow(self, rings: Rings, changes: bool = False) -> BorderSums:
        """Integrate along all rings.

        changes  whether the histograms after the first are small changes of it. If so, their results are the changes of
                 the crossings, to first order
        """
        sums = np.zeros((3, len(rings.starts) - 1, self.west.shape[2]))
        fields = self.west, self.vertical, self.horizontal, self.diagonal

        def follow(first: int, last: int) -> None:
            _follow(rings.corners, rings.starts, first, last, *fields, changes, *sums)

        each_span(follow, spans(rings.starts, cores() if len(rings.corners) > 10_000 else 1))
        return BorderSums(*sums)


def _diagonal(vertical: Floats, horizontal: Floats) -> Floats:
    """The direction of trips in each cell, from edges that are padded with zeros."""
    east, north = vertical[:, :-1] - vertical[:, 1:], horizontal[1:] - horizontal[:-1]
    east[:, [0, -1]], north[[0, -1]] = 0, 0  # what ends at the outer border does not turn
    across, along = (vertical[:, :-1] ** 2 + vertical[:, 1:] ** 2) / 2, (horizontal[1:] ** 2 + horizontal[:-1] ** 2) / 2
    both, east, north, across, along = (
        gaussian_filter(field, NEARBY) for field in (east * north, east**2, north**2, across, along)
    )
    size = np.sqrt((east + SMALL * across) * (north + SMALL * along))
    return np.divide(both, size, out=np.zeros_like(both), where=size > 0)


@njit(nogil=True, cache=True)
def _follow(  # type: ignore[no-untyped-def]
    corners, starts, first, last, west, vertical, horizontal, diagonal, changes, inside, crossings, staircase
):
    """Add up the integrals along the rings first to last, piece by piece: a piece is the part of a side in one cell."""
    rows, columns = diagonal.shape
    count = west.shape[2]
    for ring in range(first, last):
        twice = 0.0  # the area, positive if the ring is counterclockwise
        from_x, from_y = corners[starts[ring]]
        for corner in range(starts[ring], starts[ring + 1] - 1):
            x0, y0 = corners[corner]
            x1, y1 = corners[corner + 1]
            dx, dy = x1 - x0, y1 - y0
            twice += (x0 - from_x) * dy - dx * (y0 - from_y)
            next_x = np.floor(x0) + 1 if dx > 0 else np.ceil(x0) - 1  # the next grid lines
            next_y = np.floor(y0) + 1 if dy > 0 else np.ceil(y0) - 1
            at = 0.0  # the fraction of the side that has been followed
            while at < 1.0:
                to_x = (next_x - x0) / dx if dx != 0 else 2.0
                to_y = (next_y - y0) / dy if dy != 0 else 2.0
                to = min(to_x, to_y, 1.0)
                if to_x <= to:
                    next_x += 1 if dx > 0 else -1
                if to_y <= to:
                    next_y += 1 if dy > 0 else -1
                if to <= at:
                    continue
                x, y = x0 + (at + to) / 2 * dx, y0 + (at + to) / 2 * dy
                wide, high = (to - at) * dx, (to - at) * dy
                at = to
                column = min(max(int(np.floor(x)), 0), columns - 1)
                row = min(max(int(np.floor(y)), 0), rows - 1)
                right, up = x - column, y - row
                r = diagonal[row, column]
                across, along, length = 0.0, 0.0, 0.0
                for k in range(count):
                    inside[ring, k] += high * (west[row, column, k] * (1 - right) + west[row, column + 1, k] * right)
                    v = high * (vertical[row, column, k] * (1 - right) + vertical[row, column + 1, k] * right)
                    h = -wide * (horizontal[row, column, k] * (1 - up) + horizontal[row + 1, column, k] * up)
                    if k == 0 or not changes:
                        across, along, length = v, h, np.sqrt(v * v + h * h)
                        one_way = abs(v + h) if r > 0 else abs(v - h)
                        crossings[ring, k] += abs(r) * one_way + (1 - abs(r)) * length
                        staircase[ring, k] += abs(v) + abs(h)
                    elif length > 0:
                        crossings[ring, k] += (across * v + along * h) / length
        if twice < 0:
            inside[ring] *= -1
