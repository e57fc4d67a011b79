"""What a histogram says about areas that are no rectangles, and about lines: integrals along their borders.

A histogram answers a rectangle with the endpoints inside plus half of what crosses its border. For a polygon with
normal (nx, ny) along its border, where V and H are the crossings of vertical and horizontal edges per unit of length,

    answer = endpoints inside + 1/2 * integral along the border of sqrt((nx V)^2 + (ny H)^2).

Along the axes, this is the answer of a rectangle. In other directions the root is exact where all directions are
equally common. A staircase of cells, |nx| V + |ny| H, would count a trip along a slanted border again and again.

Endpoints are spread evenly over their cells. Their sum over the polygon is an integral along its border too: by
Green's theorem, that of the sums A(x, y) of the endpoints west of x, times dy. Crossings of a vertical edge are spread
evenly along it, and change linearly from one grid line to the next, as in `Lattice.refine`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import shapely
from numba import njit, prange

from dqam.geometry.areas import Shapes
from dqam.geometry.arrays import Floats, Integers


@dataclass(frozen=True, eq=False)
class Rings:
    """All rings of polygons, or all lines, with corners in cells.

    corners  float64[n, 2]
    starts   int64[rings + 1], where each ring begins in `corners`
    part     int64[rings], the polygon or line that it belongs to
    """

    corners: Floats
    starts: Integers
    part: Integers

    @classmethod
    def of(cls, shapes: Shapes) -> Rings:
        """The rings of polygons, the shell of each before its holes; lines as they are."""
        if len(shapes) and shapely.get_type_id(shapes[0]) == shapely.GeometryType.POLYGON:
            rings, part = shapely.get_rings(shapes, return_index=True)
        else:
            rings, part = shapes, np.arange(len(shapes))
        corners = shapely.get_coordinates(rings)
        starts = np.concatenate([[0], np.cumsum(shapely.get_num_coordinates(rings))]).astype(np.int64)
        return cls(corners, starts, part.astype(np.int64))


@dataclass(frozen=True, eq=False)
class BorderFields:
    """Endpoints and crossings of k histograms on one grid, in the form in which borders are followed.

    west        float64[rows, columns + 1, k], endpoints in the row west of each vertical grid line
    vertical    float64[rows, columns + 1, k], crossings of vertical edges; 0 on the outer border
    horizontal  float64[rows + 1, columns, k], crossings of horizontal edges; 0 on the outer border
    """

    west: Floats
    vertical: Floats
    horizontal: Floats

    @classmethod
    def of(cls, endpoints: Floats, vertical: Floats, horizontal: Floats) -> BorderFields:
        """The fields of endpoints, float64[k, rows, columns], and edges."""
        west = np.pad(endpoints.cumsum(axis=2), ((0, 0), (0, 0), (1, 0)))
        fields = west, np.pad(vertical, ((0, 0), (0, 0), (1, 1))), np.pad(horizontal, ((0, 0), (1, 1), (0, 0)))
        return cls(*(np.ascontiguousarray(np.moveaxis(field, 0, -1), np.float64) for field in fields))

    def follow(self, rings: Rings, changes: bool = False) -> tuple[Floats, Floats]:
        """Endpoints inside each ring, and crossings of it: float64[rings, k] both.

        changes  whether the fields after the first are small changes of it. What is returned for them is the change of
                 the crossings, to first order
        """
        count = len(rings.starts) - 1
        inside, crossings = np.zeros((2, count, self.west.shape[2]))
        _follow(rings.corners, rings.starts, self.west, self.vertical, self.horizontal, changes, inside, crossings)
        return inside, crossings


@njit(nogil=True, cache=True, parallel=True)
def _follow(corners, starts, west, vertical, horizontal, changes, inside, crossings):  # type: ignore[no-untyped-def]
    """Add up both integrals along each ring, piece by piece: a piece is the part of a side in one cell."""
    rows, columns = horizontal.shape[0] - 1, vertical.shape[1] - 1
    count = west.shape[2]
    for ring in prange(len(starts) - 1):
        twice = 0.0  # the area, positive if counterclockwise
        for corner in range(starts[ring], starts[ring + 1] - 1):
            x0, y0 = corners[corner, 0], corners[corner, 1]
            x1, y1 = corners[corner + 1, 0], corners[corner + 1, 1]
            twice += (x0 - corners[starts[ring], 0]) * (y1 - y0) - (x1 - x0) * (y0 - corners[starts[ring], 1])
            dx, dy = x1 - x0, y1 - y0
            # the next grid line in each direction, as the share of the side at which it is met
            next_x = np.floor(x0) + 1 if dx > 0 else np.ceil(x0) - 1
            next_y = np.floor(y0) + 1 if dy > 0 else np.ceil(y0) - 1
            at = 0.0
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
                middle = (at + to) / 2
                x, y = x0 + middle * dx, y0 + middle * dy
                wide, high = (to - at) * dx, (to - at) * dy
                at = to
                column = min(max(int(np.floor(x)), 0), columns - 1)
                row = min(max(int(np.floor(y)), 0), rows - 1)
                right, up = x - column, y - row
                across, along, length = 0.0, 0.0, 0.0
                for k in range(count):
                    inside[ring, k] += high * (west[row, column, k] * (1 - right) + west[row, column + 1, k] * right)
                    v = high * (vertical[row, column, k] * (1 - right) + vertical[row, column + 1, k] * right)
                    h = wide * (horizontal[row, column, k] * (1 - up) + horizontal[row + 1, column, k] * up)
                    if k == 0 or not changes:
                        across, along, length = v, h, np.sqrt(v * v + h * h)
                        crossings[ring, k] += length
                    elif length > 0:
                        crossings[ring, k] += (across * v + along * h) / length
        if twice < 0:
            inside[ring] *= -1
