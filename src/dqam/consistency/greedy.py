"""Greedy consistency: lower every edge to the smaller of its two faces, in one pass.

The result is consistent, but it is not the closest consistent histogram; `dqam.consistency.pairwise` finds that one.
"""

from __future__ import annotations

import numpy as np

from dqam.geometry.histogram import SpatialHistogram


def clamp_edges(histogram: SpatialHistogram) -> SpatialHistogram:
    """The histogram with 0 <= every edge <= both its faces; negative faces become 0, and all others stay as they are.

    >>> from dqam.geometry.grid import Grid
    >>> given = SpatialHistogram(Grid((0, 0, 1, 1), 1, 2), np.array([[5, 2]]), np.array([[3]]), np.zeros((0, 2)))
    >>> clamp_edges(given).vertical
    array([[2]])
    """
    faces = np.maximum(histogram.faces, 0)
    vertical = np.clip(histogram.vertical, 0, np.minimum(faces[:, :-1], faces[:, 1:]))
    horizontal = np.clip(histogram.horizontal, 0, np.minimum(faces[:-1], faces[1:]))
    return SpatialHistogram(histogram.grid, faces, vertical, horizontal)
