"""Geometries in degrees for maps near the 180th meridian: in one piece where they cross it, and next to the map."""

from __future__ import annotations

import numpy as np
import shapely

from dqam.geometry.arrays import Floats, Integers, Shapes
from dqam.geometry.grid import DEGREES, Grid, transform


def unwrap(shapes: Shapes, grid: Grid) -> Shapes:
    """Polygons or lines in degrees whose longitudes continue across the 180th meridian, and are close to those of the
    map.

    Only for maps in that half of the world: elsewhere, geometries are returned as they are.

    A side longer than 180 degrees is taken to cross the meridian; or longer than 270 degrees in a ring with a corner on
    the meridian, as an area may end there. A ring that would then not close, or enclose nothing, goes around the world,
    and stays as it is.
    """
    west, south, east, north = grid.bounds
    middle = float(transform(np.array([(west + east) / 2]), np.array([(south + north) / 2]), grid.crs, DEGREES)[0][0])
    if not abs(middle) > 90 or not len(shapes):
        return shapes
    parts, shape_of = shapely.get_parts(shapes, return_index=True)
    areal = shapely.get_type_id(parts[0]) == shapely.GeometryType.POLYGON
    rings, part_of = shapely.get_rings(parts, return_index=True) if areal else (parts, np.arange(len(parts)))
    corners, ring_of = shapely.get_coordinates(rings, return_index=True)
    first = np.searchsorted(ring_of, np.arange(len(rings)))
    x = _continued(corners, ring_of, first, areal)
    centres = (np.minimum.reduceat(x, first) + np.maximum.reduceat(x, first)) / 2
    shells = np.searchsorted(part_of, np.arange(len(parts)))
    centres_of_parts = centres[shells] - _turns(centres[shells] - middle)
    shift = -_turns(centres - centres_of_parts[part_of])  # holes go with their shells
    moved = shapely.set_coordinates(shapes.copy(), np.stack([x + shift[ring_of], corners[:, 1]], axis=1))
    if areal:  # parts that were divided by the meridian now have a side in common
        several = np.flatnonzero(np.bincount(shape_of) > 1)
        for row in several[~shapely.is_valid(moved[several]) & shapely.is_valid(shapes[several])].tolist():
            moved[row] = shapely.union_all(shapely.get_parts(moved[row]))
    return moved


def _turns(degrees: Floats) -> Floats:
    """The multiples of 360 nearest to angles."""
    turns: Floats = 360 * np.round(degrees / 360)
    return turns


def _continued(corners: Floats, ring_of: Integers, first: Integers, areal: bool) -> Floats:
    """Longitudes that continue where a ring or line crosses the meridian."""
    x = corners[:, 0]
    ends = np.maximum.reduceat((np.abs(x) == 180).astype(np.int8), first).astype(np.bool_)
    steps = np.diff(x, prepend=x[:1])
    steps[first] = 0
    far = np.abs(steps) > np.where(ends, 270, 180)[ring_of]
    turned = np.cumsum(np.where(far, _turns(steps), 0))
    turned -= turned[first][ring_of]
    if areal:
        last = np.append(first[1:], len(x)) - 1
        u, v = x - turned - x[first][ring_of], corners[:, 1]
        doubled = np.append(u[:-1] * v[1:] - u[1:] * v[:-1], 0.0)
        doubled[last] = 0
        whole = (turned[last] != 0) | (np.add.reduceat(doubled, first) == 0)
        turned[whole[ring_of]] = 0
    return x - turned
