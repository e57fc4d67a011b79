"""How far an estimate is from the truth: errors of answers, and divergence and evenness of faces."""

from __future__ import annotations

import numpy as np

from dqam.geometry.arrays import Floats, Integers, Numbers
from dqam.geometry.histogram import SpatialHistogram

SMOOTHING = 0.01  # of the mean exact face, added to every face before a divergence is taken


def mean_error(answers: Numbers, truth: Numbers) -> float:
    """The mean absolute error per query.

    >>> mean_error(np.array([1.0, 5.0]), np.array([2, 2]))
    2.0
    """
    return float(np.abs(answers - truth).mean())


def cut(answers: Numbers, total: float) -> Floats:
    """Answers clipped to the range of possible numbers of trips: 0 to `total`, or all 0 if the total is negative."""
    return np.clip(np.asarray(answers, np.float64), 0.0, max(float(total), 0.0))


def face_sums(histogram: SpatialHistogram, rectangles: Integers) -> Numbers:
    """The sum of faces in each rectangle, without edges: visits to cells, not trips."""
    bare = SpatialHistogram(
        histogram.grid, histogram.faces, np.zeros_like(histogram.vertical), np.zeros_like(histogram.horizontal)
    )
    return bare.answers(rectangles)


def divergence(exact: Numbers, estimate: Numbers) -> float:
    """The Kullback-Leibler divergence of estimated faces from exact ones, in nats.

    Empty cells would make it infinite, so the same constant is added to every cell of both, and both are then
    normalised to 1; negative estimates count as 0. The constant is SMOOTHING times the mean exact face. It therefore
    moves 1 % of the mass at any number of trips and any resolution, so that figures can be compared, and an estimate
    that misses a cell of average density costs at most the share of that cell times log 101.
    """
    constant = SMOOTHING * float(exact.mean()) or 1.0
    p = exact + constant
    q = np.maximum(estimate, 0.0) + constant
    p, q = p / p.sum(), q / q.sum()
    return float((p * np.log(p / q)).sum())


def evenness(faces: Numbers) -> float:
    """(largest - smallest face) / mean face, which is 0 if all faces are equal."""
    mean = float(np.abs(faces).mean())
    return float(faces.max() - faces.min()) / mean if mean > 0 else 0.0
