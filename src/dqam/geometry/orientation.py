"""On which side of a line a point lies: the sign of a determinant, without rounding errors.

Nearly always, floating-point arithmetic decides, with Shewchuk's bound on its error. Where it cannot, because the point
is on the line or very close to it, the determinant is computed exactly, as a sum of floats that do not overlap (J. R.
Shewchuk, "Adaptive precision floating-point arithmetic and fast robust geometric predicates", 1997). Coordinates must
be 0 or between 1e-140 and 1e140 in magnitude, and so must their differences.
"""

from __future__ import annotations

import numpy as np
from numba import njit

ROUNDING = 2.0**-53
ERROR = (3 + 16 * ROUNDING) * ROUNDING  # of the determinant, as a share of the sum of its products' magnitudes
SPLITTER = 2.0**27 + 1  # splits a float into two halves of 26 bits


@njit(nogil=True, cache=True)
def orientation(ax, ay, bx, by, cx, cy):  # type: ignore[no-untyped-def]
    """1 if c lies to the left of the line from a to b, -1 if it lies to the right, and 0 if it lies on the line.

    >>> orientation(0.0, 0.0, 1.0, 1.0, 0.0, 1.0), orientation(0.0, 0.0, 1.0, 1.0, 0.5, 0.5)
    (1, 0)
    """
    left, right = (ax - cx) * (by - cy), (ay - cy) * (bx - cx)
    if abs(left - right) > ERROR * (abs(left) + abs(right)):
        return 1 if left > right else -1
    if (ax == cx or by == cy) and (ay == cy or bx == cx):  # both products are 0, as along an axis
        return 0
    return _exact(ax, ay, bx, by, cx, cy)


@njit(nogil=True, cache=True)
def _exact(ax, ay, bx, by, cx, cy):  # type: ignore[no-untyped-def]
    """The same, from the exact sum of the sixteen floats that the determinant consists of."""
    total = np.zeros(16)  # floats that do not overlap, in increasing order of magnitude, apart from zeros
    count = 0
    for sign, p, q, r, s in ((1.0, ax, cx, by, cy), (-1.0, ay, cy, bx, cx)):
        for one in _exact_sum(p, -q):
            for other in _exact_sum(r, -s):
                for term in _exact_product(sign * one, other):
                    carry = term
                    for i in range(count):
                        carry, total[i] = _exact_sum(carry, total[i])
                    total[count] = carry
                    count += 1
    for i in range(count - 1, -1, -1):
        if total[i] != 0:
            return 1 if total[i] > 0 else -1
    return 0


@njit(nogil=True, cache=True)
def _exact_sum(a, b):  # type: ignore[no-untyped-def]
    """Two floats whose sum is a + b: the rounded sum, and its error."""
    rounded = a + b
    part = rounded - a
    return rounded, (a - (rounded - part)) + (b - part)


@njit(nogil=True, cache=True)
def _exact_product(a, b):  # type: ignore[no-untyped-def]
    """Two floats whose sum is a * b: the rounded product, and its error."""
    rounded = a * b
    scaled = SPLITTER * a
    a_high = scaled - (scaled - a)
    a_low = a - a_high
    scaled = SPLITTER * b
    b_high = scaled - (scaled - b)
    b_low = b - b_high
    return rounded, a_low * b_low - (((rounded - a_high * b_high) - a_low * b_high) - a_high * b_low)
