"""The paper's consistency: no edge exceeds its faces, nothing is negative, and the change is minimal in the L1 norm.

The paper solves a linear program, which has a direct solution. Once faces x are chosen, the best edge is
min(e, x_i, x_j). A face below its f never helps, so it remains to choose x >= f that minimise

    sum of (x_i - f_i) + sum over edges of max(0, e - min(x_i, x_j)).

Cut this at each height t. Let S_t be the faces with x_i > t: a face with f_i <= t costs 1 to be in S_t, and an edge
with e > t costs 1 unless both its faces are in S_t. The costs of all heights add up to the sum above, and the best sets
turn out to be nested, so each height can be solved alone. At one height, call the faces with f_i <= t *low*. Take any
set of raised low faces. A face in it with at most one edge above t to raised or high faces can be left out at no loss:
this saves 1 and costs at most 1. Leaving out such faces one after the other leaves a set in which every face has at
least two such edges. No part of this set should be left out: any r of its faces have at least 2 r / 2 = r edges, and
each of these would cost 1. The set is the 2-core of the low faces, where edges to high faces count too. As t rises,
edges drop out and faces become low, so the cores shrink: they are nested.

Peeling finds the height at which face i leaves the core. Each edge of a face is worth min(e, height of the other face),
where the height of a face that has not been peeled is unlimited. The face whose second-best edge is worth least is
peeled next, at the larger of the worth of that edge and its own f. A face with fewer than two edges above its f is
never raised. Most faces are of this kind, so the heap holds few faces; apart from the heap, the time is linear.
"""

from __future__ import annotations

import heapq

import numpy as np
from numba import njit

from dqam.geometry.histogram import SpatialHistogram


def make_consistent(histogram: SpatialHistogram) -> SpatialHistogram:
    """The closest histogram, in the L1 norm over faces and edges, with 0 <= every edge <= both its faces."""
    faces = np.maximum(histogram.faces.astype(np.float64), 0)
    vertical = np.maximum(histogram.vertical.astype(np.float64), 0)
    horizontal = np.maximum(histogram.horizontal.astype(np.float64), 0)
    _raise_faces(faces, vertical, horizontal)
    np.minimum(vertical, np.minimum(faces[:, :-1], faces[:, 1:]), out=vertical)
    np.minimum(horizontal, np.minimum(faces[:-1], faces[1:]), out=horizontal)
    return SpatialHistogram(histogram.grid, faces, vertical, horizontal)


def is_consistent(histogram: SpatialHistogram) -> bool:
    """Whether 0 <= every edge <= both its faces."""
    faces, vertical, horizontal = histogram.faces, histogram.vertical, histogram.horizontal
    return bool(
        (faces >= 0).all()
        and (vertical >= 0).all()
        and (horizontal >= 0).all()
        and (vertical <= np.minimum(faces[:, :-1], faces[:, 1:])).all()
        and (horizontal <= np.minimum(faces[:-1], faces[1:])).all()
    )


@njit(nogil=True, cache=True)
def _second_best(row, column, heights, vertical, horizontal):  # type: ignore[no-untyped-def]
    """The value of a face's second-best edge; an edge is worth at most the height of the face beyond it."""
    rows, columns = heights.shape
    best = second = 0.0
    for side in range(4):
        worth = 0.0
        if side == 0 and column > 0:
            worth = min(vertical[row, column - 1], heights[row, column - 1])
        elif side == 1 and column < columns - 1:
            worth = min(vertical[row, column], heights[row, column + 1])
        elif side == 2 and row > 0:
            worth = min(horizontal[row - 1, column], heights[row - 1, column])
        elif side == 3 and row < rows - 1:
            worth = min(horizontal[row, column], heights[row + 1, column])
        if worth > best:
            best, second = worth, best
        elif worth > second:
            second = worth
    return second


@njit(nogil=True, cache=True)
def _raise_faces(faces, vertical, horizontal):  # type: ignore[no-untyped-def]
    """Raise faces, in place, to their heights in an optimum."""
    rows, columns = faces.shape
    heights, values = faces.copy(), faces.copy()  # in the queue: unlimited heights, and the current worth
    queue = [(0.0, 0, 0)]
    queue.clear()
    for row in range(rows):
        for column in range(columns):
            above = 0
            own = faces[row, column]
            above += column > 0 and vertical[row, column - 1] > own
            above += column < columns - 1 and vertical[row, column] > own
            above += row > 0 and horizontal[row - 1, column] > own
            above += row < rows - 1 and horizontal[row, column] > own
            if above >= 2:
                heights[row, column] = np.inf
    for row in range(rows):
        for column in range(columns):
            if heights[row, column] == np.inf:
                values[row, column] = max(faces[row, column], _second_best(row, column, heights, vertical, horizontal))
                queue.append((values[row, column], row, column))
    heapq.heapify(queue)
    while len(queue):
        value, row, column = heapq.heappop(queue)
        if heights[row, column] != np.inf or value > values[row, column]:
            continue  # already peeled, or its worth has since fallen
        heights[row, column] = value
        for side in range(4):
            r, c = row + (side == 2) - (side == 3), column + (side == 0) - (side == 1)
            if 0 <= r < rows and 0 <= c < columns and heights[r, c] == np.inf:
                now = max(faces[r, c], _second_best(r, c, heights, vertical, horizontal))
                if now < values[r, c]:
                    values[r, c] = now
                    heapq.heappush(queue, (now, r, c))
    faces[:] = heights
