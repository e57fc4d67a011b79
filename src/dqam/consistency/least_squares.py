"""The weighted least squares that `dqam.consistency.currents` minimises over the current cone.

A `LeastSquares` problem holds targets and weights for endpoints a, vertical edges v, horizontal edges h and answers. It
gives the solver its objective, a lower bound and step lengths. All edges have the border of zeros that
`dqam.consistency.cone.bordered` adds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numba import njit

from dqam.consistency.cone import bordered
from dqam.geometry.arrays import Floats, Integers
from dqam.geometry.lattice import Lattice

Fields = tuple[Floats, ...]

FAST = {"nsz"}  # no reassociation or contraction: what is compiled anew and what is cached must agree in every bit


class StepLengths(NamedTuple):
    """Step lengths, each in the shape of what it moves; a current moves by half the step length of its edge."""

    endpoints: Floats
    vertical: Floats
    horizontal: Floats
    differences: Floats
    bounds: Floats
    total: float


class Linear(Protocol):
    """Linear functions of a, v and h that also have targets."""

    def measure(self, numbers: Fields) -> Floats:
        """Their values: float64[m]."""

    def spread(self, multipliers: Floats, pull: Fields) -> None:
        """Subtract the multiplier of each function from the pull on the numbers that it depends on, in place."""

    def step_lengths(self, lengths: Fields) -> Floats:
        """Step lengths of the multipliers, given those of a, v and h, which use only half of what is allowed."""


@dataclass(frozen=True, eq=False)
class RectangleAnswers:
    """The answers to rectangles, int64[m, 4]: grid lines (west, south, east, north)."""

    rectangles: Integers

    def measure(self, numbers: Fields) -> Floats:
        """The answers: float64[m]."""
        measured = np.zeros(len(self.rectangles))
        if len(self.rectangles):
            answer_rectangles(self.rectangles, *numbers[:3], measured)
        return measured

    def spread(self, multipliers: Floats, pull: Fields) -> None:
        """An answer depends on the endpoints inside, and with a factor of 1/2 on the edges of its border."""
        spread_answers(self.rectangles, multipliers, *pull)

    def step_lengths(self, lengths: Fields) -> Floats:
        """One over the squared norm of each row, divided by the norm of all rows together, found by power iteration."""
        # an answer counts half of each edge, and so a quarter of its step length; `measure` halves once
        squares = self.measure((lengths[0], lengths[1] / 2, lengths[2] / 2))
        row = np.sqrt(1 / np.maximum(squares, 1e-100))
        some = np.ones(len(row))
        norm = 1.0
        for _ in range(30):
            pull = tuple(np.zeros_like(length) for length in lengths)
            self.spread(row * some, pull)
            after = row * self.measure(tuple(-part * length for part, length in zip(pull, lengths, strict=True)))
            norm = float(np.linalg.norm(after) / np.linalg.norm(some))
            some = after / np.linalg.norm(after)
        return row**2 / (2 * max(1.05 * norm, 1.0))


@dataclass(frozen=True, eq=False)
class LatticeSums:
    """The numbers of a lattice: endpoints added up over its cells, and edges along its lines.

    No two of them depend on the same number of the grid, so the step length of each depends on its own row alone.
    """

    lattice: Lattice

    @cached_property
    def _places(self) -> tuple[Integers, Integers]:
        """For each row and each column of the grid, the row or column of the lattice that contains it."""
        north, east = (np.repeat(np.arange(len(of) - 1), np.diff(of)) for of in (self.lattice.north, self.lattice.east))
        return north, east

    def measure(self, numbers: Fields) -> Floats:
        """The numbers of the lattice: float64[lattice.numbers]."""
        measured = np.zeros(self.lattice.numbers)
        _add_up(*numbers[:3], *self._places, self.lattice.north, self.lattice.east, measured)
        return measured

    def spread(self, multipliers: Floats, pull: Fields) -> None:
        """Each number of the lattice depends on the numbers of the grid that are added up in it."""
        _spread_sums(*pull, *self._places, self.lattice.north, self.lattice.east, multipliers)

    def step_lengths(self, lengths: Fields) -> Floats:
        """Half of one over the sum of the step lengths in each row."""
        return 0.5 / np.maximum(self.measure(lengths), 1e-100)


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """The objective: weighted squared distances of a, v and h, and of linear functions of them, to their targets.

    total    the given sum of endpoints; nan if they may have any sum
    targets  targets of a, v and h: float64[rows, columns], [rows, columns + 1] and [rows + 1, columns]
    doubled  twice the weights of the targets, in the same shapes; 1 on the border, where nothing depends on them
    linear   linear functions of a, v and h that also have targets
    counts   float64[m], the targets of `linear`
    weights  float64[m], the weights of `counts`
    """

    total: float
    targets: Fields
    doubled: Fields
    linear: Linear
    counts: Floats
    weights: Floats

    @cached_property
    def base(self) -> Fields:
        """Where the targets alone pull a, v and h."""
        return tuple(weight * target for weight, target in zip(self.doubled, self.targets, strict=True))

    def measure(self, numbers: Fields) -> Floats:
        """The values of the linear functions: float64[m]."""
        return self.linear.measure(numbers)

    def pull(self, multipliers: Floats) -> Fields:
        """Where targets and linear functions pull a, v and h: the negative gradient without the quadratic terms."""
        if not len(multipliers):
            return self.base
        pull = tuple(part.copy() for part in self.base)
        self.linear.spread(multipliers, pull)
        return pull

    def steps(self, pace: tuple[float, float]) -> tuple[StepLengths, Floats]:
        """Step lengths for the cone and for the linear functions; if there are any, each gets half of what is allowed.

        They follow the rule of Pock and Chambolle: with any scales C of columns and R of rows, C / (sum of R |K|) over
        a column and R / (sum of C |K|) over a row are short enough. Endpoints have C^2 = 1 / weight. Edges have
        C^2 = 1 / sqrt(product of the weights around), of whichever of their two cells gives less. Rows have 1 / C of
        their cell.
        """
        ours = 0.5 if len(self.counts) else 1.0
        a, wide = self.scales
        mean = float(np.sqrt((a**2).mean()))
        rate = 1 / wide
        steps = StepLengths(
            endpoints=(ours / pace[0]) * a**2 / (2 + a / mean),
            vertical=bordered(
                (2 * ours / pace[1]) * np.minimum(wide[:, 1:], wide[:, :-1]) / (rate[:, 1:] + rate[:, :-1]), 1
            ),
            horizontal=bordered((2 * ours / pace[1]) * np.minimum(wide[1:], wide[:-1]) / (rate[1:] + rate[:-1]), 0),
            differences=(pace[1] / 3) * rate**2,
            bounds=pace[0] / a**2,
            total=0.0 if np.isnan(self.total) else pace[0] / (mean * float(a.sum())),
        )
        return steps, self.linear.step_lengths(steps[:3]) if len(self.counts) else np.zeros(0)

    @cached_property
    def scales(self) -> tuple[Floats, Floats]:
        """How far endpoints, and the edges around a cell, are expected to move: two float64[rows, columns]."""
        of_a, of_v, of_h = self.doubled
        weights, edges = (
            v[:, 1:] + v[:, :-1] + h[1:] + h[:-1]
            for v, h in (
                (bordered(of_v[:, 1:-1], 1), bordered(of_h[1:-1], 0)),
                (bordered(np.ones_like(of_v[:, 1:-1]), 1), bordered(np.ones_like(of_h[1:-1]), 0)),
            )
        )
        around = np.where(edges > 0, weights / np.maximum(edges, 1), of_a)  # one cell has no edges
        return np.sqrt(2 / of_a), (of_a * around / 4) ** -0.25

    def objective(self, numbers: Fields) -> float:
        """The weighted squared distance of a, v and h to all targets."""
        squares = sum(
            float((weight * (part - target) ** 2).sum()) / 2
            for part, target, weight in zip(numbers[:3], self.targets, self.doubled, strict=True)
        )
        return squares + float((self.weights * (self.measure(numbers) - self.counts) ** 2).sum())

    def bound(self, multipliers: Fields, measured: Floats) -> float:
        """The minimum of the Lagrangian over all numbers with |y| <= v/2, |z| <= h/2 and the given total, if any."""
        pull = self.pull(measured)
        least = _least(multipliers, pull, self.base, self.targets, self.doubled, self.total)
        return float(least - (measured**2 / (4 * self.weights) + measured * self.counts).sum())


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def _least(multipliers, pull, base, targets, doubled, wanted):  # type: ignore[no-untyped-def]
    """The minimum of weighted squares plus the charges of the multipliers, over edges >= 2 |currents| and the total."""
    r, c, s, d = multipliers
    rows, columns = r.shape
    mass, give = 0.0, 0.0
    for i in range(rows):
        for j in range(columns):
            mass += (pull[0][i, j] - c[i, j] - d[i, j]) / doubled[0][i, j]
            give += 1 / doubled[0][i, j]
    total = 0.0 if np.isnan(wanted) else (wanted - mass) / give
    least = 0.0
    for i in range(rows):
        for j in range(columns):
            a = (pull[0][i, j] - c[i, j] - d[i, j] + total) / doubled[0][i, j]
            cost = base[0][i, j] - pull[0][i, j] + c[i, j] + d[i, j]
            least += 0.5 * doubled[0][i, j] * (a - targets[0][i, j]) ** 2 + cost * a
        for j in range(1, columns):
            gain = 0.5 * (s[i, j - 1] - s[i, j]) + 0.5 * abs(r[i, j - 1] - r[i, j])
            edge = max((pull[1][i, j] + gain) / doubled[1][i, j], 0.0)
            cost = base[1][i, j] - pull[1][i, j] - gain
            least += 0.5 * doubled[1][i, j] * (edge - targets[1][i, j]) ** 2 + cost * edge
    for i in range(1, rows):
        for j in range(columns):
            gain = 0.5 * (r[i - 1, j] - r[i, j]) + 0.5 * abs(s[i - 1, j] - s[i, j])
            edge = max((pull[2][i, j] + gain) / doubled[2][i, j], 0.0)
            cost = base[2][i, j] - pull[2][i, j] - gain
            least += 0.5 * doubled[2][i, j] * (edge - targets[2][i, j]) ** 2 + cost * edge
    return least


@njit(nogil=True, cache=True)
def answer_rectangles(rectangles, a, v, h, answers):  # type: ignore[no-untyped-def]
    """Write into `answers` the endpoints in each rectangle plus half the edges on its border, by tables of sums."""
    rows, columns = a.shape
    inside = np.zeros((rows + 1, columns + 1))
    up, along = np.zeros((rows + 1, columns + 1)), np.zeros((rows + 1, columns + 1))
    for i in range(rows):
        mass = 0.0
        for j in range(columns):
            mass += a[i, j]
            inside[i + 1, j + 1] = inside[i, j + 1] + mass
            up[i + 1, j] = up[i, j] + v[i, j]
            along[i, j + 1] = along[i, j] + h[i, j]
    for k in range(len(rectangles)):
        west, south, east, north = rectangles[k]
        flux = up[north, west] - up[south, west] + up[north, east] - up[south, east]
        flux += along[south, east] - along[south, west] + along[north, east] - along[north, west]
        answers[k] = inside[north, east] - inside[north, west] - inside[south, east] + inside[south, west] + flux / 2


@njit(nogil=True, cache=True)
def spread_answers(rectangles, multipliers, a, v, h):  # type: ignore[no-untyped-def]
    """Subtract the multipliers of answers from the pull on cells inside, and half of them from that on border edges."""
    rows, columns = a.shape
    inside = np.zeros((rows + 1, columns + 1))
    up, along = np.zeros((rows + 1, columns + 1)), np.zeros((rows + 1, columns + 1))
    for k in range(len(rectangles)):
        west, south, east, north = rectangles[k]
        charge = multipliers[k]
        inside[south, west] += charge
        inside[north, west] -= charge
        inside[south, east] -= charge
        inside[north, east] += charge
        for side in (west, east):
            up[south, side] += charge / 2
            up[north, side] -= charge / 2
        for side in (south, north):
            along[side, west] += charge / 2
            along[side, east] -= charge / 2
    for i in range(rows):
        mass, flux = 0.0, 0.0
        for j in range(columns):
            mass += inside[i, j]
            flux += along[i, j]
            a[i, j] -= mass
            if i > 0:
                h[i, j] -= flux
            if j > 0:
                v[i, j] -= up[i, j]
        for j in range(columns + 1):
            inside[i + 1, j] += inside[i, j]
            up[i + 1, j] += up[i, j]


@njit(nogil=True, cache=True)
def _add_up(a, v, h, row, column, north, east, sums):  # type: ignore[no-untyped-def]
    """Write the numbers of a lattice into `sums`: endpoints, vertical and horizontal edges."""
    sums[:] = 0
    rows, columns = len(north) - 1, len(east) - 1
    vertical, horizontal = rows * columns, rows * columns + rows * (columns - 1)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            sums[row[i] * columns + column[j]] += a[i, j]
        for k in range(1, columns):
            sums[vertical + row[i] * (columns - 1) + k - 1] += v[i, east[k]]
    for k in range(1, rows):
        for j in range(a.shape[1]):
            sums[horizontal + (k - 1) * columns + column[j]] += h[north[k], j]


@njit(nogil=True, cache=True)
def _spread_sums(a, v, h, row, column, north, east, multipliers):  # type: ignore[no-untyped-def]
    """Subtract the multiplier of each number of a lattice from the pull on all numbers that are added up in it."""
    rows, columns = len(north) - 1, len(east) - 1
    vertical, horizontal = rows * columns, rows * columns + rows * (columns - 1)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            a[i, j] -= multipliers[row[i] * columns + column[j]]
        for k in range(1, columns):
            v[i, east[k]] -= multipliers[vertical + row[i] * (columns - 1) + k - 1]
    for k in range(1, rows):
        for j in range(a.shape[1]):
            h[north[k], j] -= multipliers[horizontal + (k - 1) * columns + column[j]]
