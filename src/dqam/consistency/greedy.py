"""Greedy consistency: every edge that is above one of its faces is lowered to it. One pass, and not the closest."""

from __future__ import annotations

import numpy as np

from dqam.geometry.histogram import SpatialHistogram


def clamp_edges(histogram: SpatialHistogram) -> SpatialHistogram:
    """The histogram with 0 <= every edge <= both its faces, with faces left as they are but for negative ones.

    >>> from dqam.geometry.grid import Grid
    >>> given = SpatialHistogram(Grid((0, 0, 1, 1), 1, 2), np.array([[5, 2]]), np.array([[3]]), np.zeros((0, 2)))
    >>> clamp_edges(given).vertical
    array([[2]])
    """
    faces = np.maximum(histogram.faces, 0)
    vertical = np.clip(histogram.vertical, 0, np.minimum(faces[:, :-1], faces[:, 1:]))
    horizontal = np.clip(histogram.horizontal, 0, np.minimum(faces[:-1], faces[1:]))
    return SpatialHistogram(histogram.grid, faces, vertical, horizontal)
