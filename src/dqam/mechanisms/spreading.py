"""Histograms from densities: faces and edges for trips of which only a density of visits is known.

Faces are proportional to the density, and each edge to the mean of its two faces. All faces then share one factor, and
all edges another, to match two numbers (`match_size`): F - E over the grid is the number of trips, and the answers to
the query set are right on average. The second condition makes a histogram of visits answer distinct counts: a trip that
returns to a rectangle crosses its border again and again, but counts once. If the density is constant, all faces are
equal and all edges are equal.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from dqam.consistency.pairwise import is_consistent, make_consistent
from dqam.geometry.arrays import Floats
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram


class SizeTargets(Protocol):
    """The numbers that a histogram has to match; see `dqam.mechanisms.size.SizeEstimate`."""

    @property
    def covers(self) -> tuple[Floats, Floats, Floats]:
        """The fraction of the queries that contain each face, each vertical and each horizontal edge."""

    @property
    def trips(self) -> float:
        """The number of trips."""

    @property
    def answer(self) -> float:
        """The average answer to the queries."""


def parts_of_answers(histogram: SpatialHistogram) -> tuple[Floats, Floats, Floats]:
    """Faces and negated edges; an answer is a sum of these."""
    return histogram.faces, -histogram.vertical, -histogram.horizontal


def _scaled(histogram: SpatialHistogram, faces: float, edges: float) -> SpatialHistogram:
    return SpatialHistogram(
        histogram.grid, histogram.faces * faces, histogram.vertical * edges, histogram.horizontal * edges
    )


def lift(grid: Grid, density: Floats) -> SpatialHistogram:
    """A histogram with a density as faces and their means as edges; its sums have yet to be scaled."""
    return SpatialHistogram(grid, density, (density[:, :-1] + density[:, 1:]) / 2, (density[:-1] + density[1:]) / 2)


def stretch(histogram: SpatialHistogram, trips: float, crossings: float | None = None) -> SpatialHistogram:
    """Scale faces and edges to `trips` trips with `crossings` crossings each; by default, half a side of the grid."""
    if crossings is None:
        crossings = (histogram.grid.rows + histogram.grid.columns) / 4
    edges = histogram.vertical.sum() + histogram.horizontal.sum()
    if edges <= 0:
        crossings = 0.0
    return _scaled(histogram, trips * (1 + crossings) / histogram.faces.sum(), trips * crossings / max(edges, 1e-300))


def match_size(histogram: SpatialHistogram, size: SizeTargets) -> SpatialHistogram:
    """Scale all faces by one factor and all edges by another, to match the number of trips and the average answer.

    F - E over the grid becomes the number of trips. If no query has a border inside the grid, trips are taken to be
    half a side long; if the factors would not be positive, there are no edges.
    """
    means = [float((share * part).sum()) for share, part in zip(size.covers, parts_of_answers(histogram), strict=True)]
    sums = [float(part.sum()) for part in parts_of_answers(histogram)]
    matrix = np.array([[sums[0], sums[1] + sums[2]], [means[0], means[1] + means[2]]])
    scale = matrix[:, :1]
    if scale.min() <= 0 or abs(np.linalg.det(matrix / scale)) < 1e-9 * abs(matrix / scale).max():
        return stretch(histogram, size.trips)
    faces, edges = np.linalg.solve(matrix, [size.trips, size.answer])
    if faces <= 0 or edges < 0:
        faces, edges = size.trips / sums[0], 0.0
    return _scaled(histogram, float(faces), float(edges))


def spread(grid: Grid, density: Floats, size: SizeTargets) -> SpatialHistogram:
    """The histogram of trips whose visits have this density (rows x columns, with a sum above 0).

    >>> from dqam.mechanisms.size import SizeEstimate, cover
    >>> grid, queries = Grid((0, 0, 1, 1), 2, 2), np.array([[0, 0, 2, 1], [0, 0, 1, 2]])
    >>> four = spread(grid, np.ones((2, 2)), SizeEstimate(cover(grid, queries), trips=6.0, answer=5.0, signal=6.0))
    >>> round(four.total, 9), round(four.answers(queries).mean(), 9)
    (np.float64(6.0), np.float64(5.0))
    """
    return match_size(lift(grid, density), size)


def scaled_to(histogram: SpatialHistogram, total: float) -> SpatialHistogram:
    """Scale all faces and edges by one factor so that F - E over the grid is `total`, if it is above 0."""
    even = total / histogram.total if histogram.total > 0 else 1.0
    return _scaled(histogram, even, even)


def consistent(histogram: SpatialHistogram, size: SizeTargets) -> SpatialHistogram:
    """The histogram, or the nearest one in which no edge exceeds a face, scaled back to the number of trips."""
    return histogram if is_consistent(histogram) else scaled_to(make_consistent(histogram), size.trips)


def spread_evenly(grid: Grid, size: SizeTargets) -> SpatialHistogram:
    """The histogram in which all faces are equal and all edges are equal."""
    return spread(grid, np.ones(grid.shape), size)
