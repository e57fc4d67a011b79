"""The current cone, the histograms whose answers never shrink when a rectangle grows, and an exact way into it.

In endpoints a, vertical edges v and horizontal edges h, a histogram is *current-consistent* if there are currents y on
vertical and z on horizontal edges with

    |y| <= v/2,   |y_east - y_west - (h_north - h_south)/2| <= a,
    |z| <= h/2,   |z_north - z_south - (v_east - v_west)/2| <= a

in every cell, where everything beyond the grid is 0. Added up along a strip of a row, the first line says that the
strip's `gain` (see `SpatialHistogram.is_monotone`) is not negative in either direction; the second line says so for
columns. Current-consistent histograms are therefore monotone. The converse holds where a, v and h are not negative: in
a row, the bounds on y and on its differences form a chain of intervals, and y can be chosen unless the smallest value
that some edge to the left allows exceeds the largest that this edge allows, which is a strip with a negative gain.
Trips that enter every rectangle at most once are in the cone, and the cone is closed under sums and scaling.

`find_currents` finds currents if there are any, and `repair` brings any numbers into the cone without even a rounding
error. Inside this package edges have a border of zeros: v and y are rows x (columns + 1), h and z are
(rows + 1) x columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from dqam.errors import InputError
from dqam.geometry.arrays import Floats


@dataclass(frozen=True, eq=False)
class Repaired:
    """Numbers that are exactly in the cone, and the currents that prove it.

    endpoints      float64[rows, columns]
    vertical, y    float64[rows, columns - 1]
    horizontal, z  float64[rows - 1, columns]
    """

    endpoints: Floats
    vertical: Floats
    horizontal: Floats
    y: Floats
    z: Floats


def repair(endpoints: Floats, vertical: Floats, horizontal: Floats, y: Floats, z: Floats, total: float) -> Repaired:
    """Make nearly consistent numbers consistent: clip currents to their bounds, raise endpoints to what the cone
    requires, and scale everything to `total`.

    All results are multiples of a power of two u so large that the sum of all numbers is below 2^52 u. Sums of them in
    any order, and with them answers and `is_monotone`, have no rounding errors. Rounding (edges down to multiples of
    2u, currents towards 0) raises what a cell requires by less than 5u. Everything is therefore scaled to 8u a cell
    below the total, and the rest is added to endpoints, which keeps them in the cone. A total that is not a multiple of
    u is rounded to one.
    """
    if not (np.isfinite(total) and total >= 0):
        raise InputError(f"total must be a finite number of at least 0; got {total}.")
    a = np.array(endpoints, np.float64)
    v, y = bordered(vertical, 1), bordered(y, 1)
    h, z = bordered(horizontal, 0), bordered(z, 0)
    raise_endpoints(a, v, h, y, z)
    if total == 0:
        a, v, h, y, z = (np.zeros_like(part) for part in (a, v, h, y, z))
        return Repaired(a, v[:, 1:-1], h[1:-1], y[:, 1:-1], z[1:-1])
    mass = a.sum()
    if mass == 0:
        a[:], mass = 1.0, a.size
    unit = 2.0 ** (np.floor(np.log2(total * (1 + 2 * (v.sum() + h.sum()) / mass))) - 51)
    scale = max(total - 8 * unit * a.size, 0) / mass
    v, h = (2 * unit * np.floor(part * (scale / (2 * unit))) for part in (v, h))
    y, z = (
        unit * np.trunc(np.clip(part * (scale / unit), -edges / (2 * unit), edges / (2 * unit)))
        for part, edges in ((y, v), (z, h))
    )
    a = unit * np.rint(a * (scale / unit))
    raise_endpoints(a, v, h, y, z)
    missing = np.rint(total / unit) - (a / unit).sum()
    a += unit * (missing // a.size)
    a.flat[a.argmax()] += unit * (missing % a.size)
    return Repaired(a, v[:, 1:-1], h[1:-1], y[:, 1:-1], z[1:-1])


def find_currents(endpoints: Floats, vertical: Floats, horizontal: Floats) -> tuple[Floats, Floats]:
    """Currents (y, z) that prove consistency if there are any, and the nearest attempt if not, in linear time.

    From west to east, the values that y can take form an interval at each edge. Going back from the east, each y is
    chosen in its interval, as close to 0 as the one before allows. Where an interval is empty, its middle is taken.
    """
    a, v, h = np.asarray(endpoints, np.float64), bordered(vertical, 1), bordered(horizontal, 0)
    y, z = np.zeros_like(v), np.zeros(h.T.shape)
    _chain(a, v, np.diff(h, axis=0) / 2, y)
    _chain(np.ascontiguousarray(a.T), np.ascontiguousarray(h.T), np.ascontiguousarray(np.diff(v, axis=1).T) / 2, z)
    return y[:, 1:-1].copy(), np.ascontiguousarray(z.T[1:-1])


def bordered(edges: ArrayLike, axis: int) -> Floats:
    """Edges with zeros beyond the grid, at both ends of `axis`."""
    wide = ((0, 0), (1, 1)) if axis else ((1, 1), (0, 0))
    return np.pad(np.asarray(edges, np.float64), wide)


@njit(nogil=True, cache=True)
def raise_endpoints(a, v, h, y, z):  # type: ignore[no-untyped-def]
    """Clip edges and currents and raise endpoints to what the cone requires, in place; return the sum of the raises."""
    rows, columns = a.shape
    for i in range(rows):
        for j in range(columns + 1):
            v[i, j] = max(v[i, j], 0.0)
            y[i, j] = min(max(y[i, j], -v[i, j] / 2), v[i, j] / 2)
    for i in range(rows + 1):
        for j in range(columns):
            h[i, j] = max(h[i, j], 0.0)
            z[i, j] = min(max(z[i, j], -h[i, j] / 2), h[i, j] / 2)
    raised = 0.0
    for i in range(rows):
        for j in range(columns):
            along = abs(y[i, j + 1] - y[i, j] - (h[i + 1, j] - h[i, j]) / 2)
            across = abs(z[i + 1, j] - z[i, j] - (v[i, j + 1] - v[i, j]) / 2)
            need = max(along, across)
            if need > a[i, j]:
                raised += need - a[i, j]
                a[i, j] = need
    return raised


@njit(nogil=True, cache=True)
def _chain(a, v, rise, y):  # type: ignore[no-untyped-def]
    """Write currents of each row with |y| <= v/2 and |difference - rise| <= a, where there are any."""
    rows, columns = a.shape
    low, high = np.zeros(columns + 1), np.zeros(columns + 1)
    for i in range(rows):
        for j in range(columns):
            half = v[i, j + 1] / 2
            low[j + 1] = max(low[j] + rise[i, j] - a[i, j], -half)
            high[j + 1] = min(high[j] + rise[i, j] + a[i, j], half)
            if low[j + 1] > high[j + 1]:
                middle = min(max((low[j + 1] + high[j + 1]) / 2, -half), half)
                low[j + 1] = high[j + 1] = middle
        for j in range(columns - 1, 0, -1):
            nearest = min(max(0.0, y[i, j + 1] - rise[i, j] - a[i, j]), y[i, j + 1] - rise[i, j] + a[i, j])
            y[i, j] = min(max(nearest, low[j]), high[j])
