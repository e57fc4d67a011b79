"""The order of cells along a Hilbert curve: cells that are close on the curve are close on the grid."""

from __future__ import annotations

import numpy as np

from dqam.geometry.arrays import Integers


def hilbert_order(rows: int, columns: int) -> Integers:
    """int64[rows * columns]: cells (row * columns + column) in the order of the curve through the enclosing 2^k square.

    A grid of one row or column is passed from one end to the other.

    >>> hilbert_order(2, 2).tolist()
    [0, 2, 3, 1]
    """
    cells = np.arange(rows * columns, dtype=np.int64)
    if min(rows, columns) == 1:
        return cells
    y, x = np.divmod(cells, columns)
    place = np.zeros(len(cells), np.int64)
    for k in reversed(range((max(rows, columns) - 1).bit_length())):
        right, up = x >> k & 1, y >> k & 1
        place = place << 2 | (3 * right ^ up)  # the curve passes the four quadrants in the order of an upside-down U
        x, y = x & (1 << k) - 1, y & (1 << k) - 1
        mirrored = (up == 0) & (right == 1)
        x, y = np.where(mirrored, (1 << k) - 1 - x, x), np.where(mirrored, (1 << k) - 1 - y, y)
        x, y = np.where(up == 0, y, x), np.where(up == 0, x, y)
    return np.argsort(place, kind="stable")
