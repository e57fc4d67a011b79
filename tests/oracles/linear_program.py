"""The paper's consistent inference as a linear program, and distances between histograms."""

import numpy as np
from scipy.sparse import coo_array

from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram


def histogram(faces: np.ndarray, vertical: np.ndarray, horizontal: np.ndarray) -> SpatialHistogram:
    return SpatialHistogram(Grid((0.0, 0.0, 1.0, 1.0), *faces.shape), faces, vertical, horizontal)


def parts(of: SpatialHistogram) -> np.ndarray:
    return np.concatenate([of.faces.ravel(), of.vertical.ravel(), of.horizontal.ravel()])


def distance(one: SpatialHistogram, other: SpatialHistogram) -> float:
    return float(np.abs(parts(one) - parts(other)).sum())


def linear_program(of: SpatialHistogram) -> tuple[np.ndarray, coo_array, np.ndarray]:
    """Costs and constraints over (values, how far each is from where it was)."""
    rows, columns = of.grid.shape
    given = parts(of)
    n = len(given)
    face = np.arange(rows * columns).reshape(rows, columns)
    edges = rows * columns + np.arange(n - rows * columns)
    ends = np.concatenate(
        [
            np.stack([face[:, :-1].ravel(), face[:, 1:].ravel()]),
            np.stack([face[:-1].ravel(), face[1:].ravel()]),
        ],
        axis=1,
    )
    m = len(edges)
    # edge - face <= 0 at both ends; value - given <= away; given - value <= away
    row = np.concatenate(
        [
            np.tile(np.arange(m), 2),
            m + np.tile(np.arange(m), 2),
            *[2 * m + k * n + np.tile(np.arange(n), 2) for k in (0, 1)],
        ]
    )
    column = np.concatenate([edges, ends[0], edges, ends[1], np.arange(2 * n), np.arange(2 * n)])
    one = np.ones(m)
    value = np.concatenate([one, -one, one, -one, np.ones(n), -np.ones(n), -np.ones(2 * n)])
    matrix = coo_array((value, (row, column)), shape=(2 * m + 2 * n, 2 * n)).tocsr()
    bound = np.concatenate([np.zeros(2 * m), given, -given])
    return np.concatenate([np.zeros(n), np.ones(n)]), matrix, bound
