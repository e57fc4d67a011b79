"""Partitions of a grid into rectangles, and the quadtree that they come from.

The quadtree works for any number of rows and columns: at depth d the node (i, j) holds the rows from
floor(i rows / 2^d) to floor((i + 1) rows / 2^d) - 1, and columns likewise, so that four children make up their parent
exactly. If a node has only one row or column, half of its children are empty and are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dqam.errors import InputError
from dqam.geometry.arrays import Integers, Integers32


@dataclass(frozen=True, eq=False)
class Partition:
    """Disjoint rectangles of cells that cover a grid of rows x columns exactly.

    regions  int64[k, 4], grid lines (west, south, east, north)
    """

    rows: int
    columns: int
    regions: Integers

    def __post_init__(self) -> None:
        object.__setattr__(self, "regions", frozen(self.regions))
        if not (coverage(self.regions, self.rows, self.columns) == 1).all():
            raise ValueError(f"{len(self.regions)} regions do not cover {self.rows} x {self.columns} cells once each.")

    def __len__(self) -> int:
        return len(self.regions)

    def __repr__(self) -> str:
        return f"<Partition: {len(self):,} regions of {self.rows} x {self.columns} cells>"

    @classmethod
    def whole(cls, rows: int, columns: int) -> Partition:
        """The partition into one region."""
        return cls(rows, columns, np.array([[0, 0, columns, rows]], np.int64))

    @cached_property
    def labels(self) -> Integers32:
        """int32[rows, columns]: the region of each cell."""
        labels = np.full((self.rows, self.columns), -1, np.int32)
        for i, (west, south, east, north) in enumerate(self.regions.tolist()):
            labels[south:north, west:east] = i
        labels.flags.writeable = False
        return labels

    @property
    def sizes(self) -> Integers:
        """int64[k]: the number of cells of each region."""
        return (self.regions[:, 2] - self.regions[:, 0]) * (self.regions[:, 3] - self.regions[:, 1])


def frozen(rectangles: NDArray[np.integer]) -> Integers:
    """A read-only copy of rectangles as int64[m, 4]."""
    rectangles = np.asarray(rectangles)
    if rectangles.ndim != 2 or rectangles.shape[1] != 4 or rectangles.dtype.kind not in "iu":
        raise InputError(
            f"Rectangles must be whole numbers of shape (m, 4); got {rectangles.dtype} of shape {rectangles.shape}."
        )
    copy = np.array(rectangles, np.int64, order="C")
    copy.flags.writeable = False
    return copy


def coverage(regions: Integers, rows: int, columns: int) -> Integers:
    """int64[rows, columns]: the number of regions that hold each cell; an `InputError` if one is not on the grid."""
    west, south, east, north = regions.T
    if ((west < 0) | (west >= east) | (east > columns) | (south < 0) | (south >= north) | (north > rows)).any():
        raise InputError(f"Not all of {len(regions)} regions are rectangles of a grid of {rows} x {columns} cells.")
    corners = np.zeros((rows + 1, columns + 1), np.int64)
    for row, column, sign in ((south, west, 1), (north, west, -1), (south, east, -1), (north, east, 1)):
        np.add.at(corners, (row, column), sign)
    return corners.cumsum(axis=0).cumsum(axis=1)[:-1, :-1]


def quadtree_depth(rows: int, columns: int) -> int:
    """The depth at which every node is one cell."""
    return (max(rows, columns) - 1).bit_length()


def node_bounds(depth: int, nodes: Integers, rows: int, columns: int) -> Integers:
    """int64[k, 4]: grid lines of quadtree nodes (row, column) of one depth; an empty node has a side of length 0."""
    south, west = nodes[:, 0] * rows >> depth, nodes[:, 1] * columns >> depth
    north, east = (nodes[:, 0] + 1) * rows >> depth, (nodes[:, 1] + 1) * columns >> depth
    return np.stack([west, south, east, north], axis=1)


def children(nodes: Integers, depth: int, rows: int, columns: int) -> Integers:
    """int64[k, 2]: the children, at depth + 1, of nodes at `depth`, without the empty ones."""
    corners = np.array([(0, 0), (0, 1), (1, 0), (1, 1)])
    below = (2 * nodes[:, None, :] + corners).reshape(-1, 2)
    bounds = node_bounds(depth + 1, below, rows, columns)
    return below[(bounds[:, 0] < bounds[:, 2]) & (bounds[:, 1] < bounds[:, 3])]


def places(some: Integers, nodes: Integers) -> Integers:
    """The index in `nodes` of each of `some` nodes of the same depth; all of them must be there."""
    keys = nodes[:, 0] << 32 | nodes[:, 1]
    order = np.argsort(keys)
    return order[np.searchsorted(keys[order], some[:, 0] << 32 | some[:, 1])]
