"""The solver of `dqam.consistency.currents`: weighted least squares over the current cone, with a given sum of a.

It goes to the saddle point of

    min over (a, v, h, y, z), max over multipliers:   squares + <differences, r> + <a, c> + total * (n - sum of a)

with the over-relaxed primal-dual method of Chambolle, Pock and Condat. |y| <= v/2 is kept by the primal step, which is
a projection in the plane; (r, c) is kept in the polar cone c <= -|r| by the dual step. The differences touch only
(v, h, y, z) and c only a, so these two blocks have steps of their own, which are balanced as the walk goes on. One step
is one sweep over the rows that reads and writes every number once.

Multipliers in the polar cone give a lower bound of what any consistent histogram can reach. `raise_endpoints`, and
scaling to the total, make any iterate consistent, so that its squares are an upper bound of the least. The difference,
the duality gap, is what ends the walk: it bounds the distance to the optimum. All edges here have the border of zeros
that `dqam.consistency.cone.bordered` gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dqam.consistency.cone import bordered, find_currents, raise_endpoints
from dqam.geometry.arrays import Floats, Integers

Fields = tuple[Floats, ...]

RELAXATION = 1.9  # of a step; below 2
CHECK = 40  # steps between two looks at the gap
FAST = {"reassoc", "contract", "nsz"}  # sums in any order, so that loops are vectorised; no infinities are assumed away


class Iterate(NamedTuple):
    """Where a walk stands: a later `fit_histogram` of the same grid may start here."""

    numbers: Fields  # a, v, h, y, z
    multipliers: Fields  # r and c of rows, r and c of columns
    total: float  # multiplier of the sum of a
    measured: Floats  # multipliers of region sums and then of answers
    pace: tuple[float, float]  # how much longer dual steps are than primal ones, beyond what weights say: a, edges


class Solution(NamedTuple):
    """How a walk ended, in the words of `dqam.consistency.currents.FittedHistogram`."""

    steps: int
    objective: float
    bound: float
    raised: float
    imbalance: tuple[float, float]
    converged: bool
    state: Iterate


class StepLengths(NamedTuple):
    """Step lengths, of the shape of what they are for; a current's is half its edge's."""

    endpoints: Floats
    vertical: Floats
    horizontal: Floats
    differences: Floats
    bounds: Floats
    total: float


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """What is minimised, as arrays.

    targets     of a, v and h
    doubled     twice the weights of these, with 1 on the border, where nothing depends on them
    labels      the region of every cell, and no rows if there are no `regions`
    rectangles  grid lines, as in `dqam.consistency.currents.AnswerTargets`
    counts      what was measured: sums of a, of v and of h by region, then answers
    weights     of `counts`
    """

    total: float
    targets: Fields
    doubled: Fields
    labels: NDArray[np.int32]
    regions: int
    rectangles: Integers
    counts: Floats
    weights: Floats

    @cached_property
    def base(self) -> Fields:
        """Where targets alone pull a, v and h."""
        return tuple(weight * target for weight, target in zip(self.doubled, self.targets, strict=True))

    def measure(self, numbers: Fields) -> Floats:
        """Region sums and answers."""
        measured = np.zeros(len(self.counts))
        if self.regions:
            _sum_regions(self.labels, *numbers[:3], measured[: 3 * self.regions].reshape(3, self.regions))
        if len(self.rectangles):
            _answer(self.rectangles, *numbers[:3], measured[3 * self.regions :])
        return measured

    def pull(self, multipliers: Floats) -> Fields:
        """Where targets and measurements pull a, v and h: the negative gradient without the quadratic terms."""
        if not len(multipliers):
            return self.base
        pull = tuple(part.copy() for part in self.base)
        if self.regions:
            _spread_regions(self.labels, multipliers[: 3 * self.regions].reshape(3, self.regions), *pull)
        if len(self.rectangles):
            _spread_answers(self.rectangles, multipliers[3 * self.regions :], *pull)
        return pull

    def steps(self, pace: tuple[float, float]) -> tuple[StepLengths, Floats]:
        """Step lengths for the cone and for the measurements, which share the unit evenly where there are any.

        By the rule of Pock and Chambolle: with any scales C of columns and R of rows, C / (sum of R |K|) over a column
        and R / (sum of C |K|) over a row are short enough. Endpoints have C^2 = 1 / weight, edges C^2 = 1 / the root
        of both weights around, the lesser of two cells; rows have 1 / C of their cell.
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
            total=pace[0] / (mean * float(a.sum())),
        )
        return steps, self._measured_steps(steps) if len(self.counts) else np.zeros(0)

    @cached_property
    def scales(self) -> tuple[Floats, Floats]:
        """How far endpoints, and the edges around a cell, can be expected to move."""
        of_a, of_v, of_h = self.doubled
        weights, edges = (
            v[:, 1:] + v[:, :-1] + h[1:] + h[:-1]
            for v, h in (
                (bordered(of_v[:, 1:-1], 1), bordered(of_h[1:-1], 0)),
                (bordered(np.ones_like(of_v[:, 1:-1]), 1), bordered(np.ones_like(of_h[1:-1]), 0)),
            )
        )
        around = np.where(edges > 0, weights / np.maximum(edges, 1), of_a)  # a grid of one cell has no edges
        return np.sqrt(2 / of_a), (of_a * around / 4) ** -0.25

    def _measured_steps(self, steps: StepLengths) -> Floats:
        """One over each row's squared norm, and all alike over the norm of the rows together, found by iteration."""
        lengths = steps[:3]
        squares = self.measure(lengths)
        if len(self.rectangles):
            halves = (lengths[0], lengths[1] / 2, lengths[2] / 2)  # half an edge counts: a quarter of its step
            _answer(self.rectangles, *halves, squares[3 * self.regions :])
        row = np.sqrt(1 / np.maximum(squares, 1e-100))
        some = np.ones(len(row))
        norm = 1.0
        for _ in range(30 if len(self.rectangles) else 0):
            spread = tuple(
                (base - part) * length
                for base, part, length in zip(self.base, self.pull(row * some), lengths, strict=True)
            )
            after = row * self.measure(spread)
            norm = float(np.linalg.norm(after) / np.linalg.norm(some))
            some = after / np.linalg.norm(after)
        return row**2 / (2 * max(1.05 * norm, 1.0))

    def objective(self, numbers: Fields) -> float:
        """The weighted squares."""
        squares = sum(
            float((weight * (part - target) ** 2).sum()) / 2
            for part, target, weight in zip(numbers[:3], self.targets, self.doubled, strict=True)
        )
        return squares + float((self.weights * (self.measure(numbers) - self.counts) ** 2).sum())

    def bound(self, multipliers: Fields, measured: Floats) -> float:
        """The least of the Lagrangian over all numbers with |y| <= v/2, |z| <= h/2 and the right total."""
        pull = self.pull(measured)
        least = _least(multipliers, pull, self.base, self.targets, self.doubled, self.total)
        return float(least - (measured**2 / (4 * self.weights) + measured * self.counts).sum())


def first_iterate(problem: LeastSquares, state: Iterate | None = None) -> Iterate:
    """Where to start: at `state`, or at the targets with what currents they allow and multipliers of 0."""
    if state is not None:
        measured = np.zeros(len(problem.counts))
        if len(state.measured) <= len(measured):
            measured[: len(state.measured)] = state.measured
        return Iterate(_copies(state.numbers), _copies(state.multipliers), state.total, measured, state.pace)
    a, v, h = (np.maximum(part, 0) for part in problem.targets)
    y, z = find_currents(a, v[:, 1:-1], h[1:-1])
    a = problem.targets[0] + (problem.total - problem.targets[0].sum()) / a.size
    multipliers = tuple(np.zeros_like(a) for _ in range(4))
    numbers = a, v, h, bordered(y, 1), bordered(z, 0)
    return Iterate(numbers, multipliers, 0.0, np.zeros(len(problem.counts)), (0.3, 0.3))  # which did best in trials


def solve(problem: LeastSquares, state: Iterate, tolerance: float, most_steps: int) -> Solution:
    """Steps until the gap is closed, with the arrays of `state` moved in place."""
    numbers, multipliers, total, measured, pace = state
    steps, measured_steps = problem.steps(pace)
    seen = problem.measure(numbers)
    taken, balance_at = 0, CHECK
    smallest = 1e-13 * sum(
        float((base * target).sum()) for base, target in zip(problem.base, problem.targets, strict=True)
    )

    def walk(count: int, relaxation: float) -> None:
        nonlocal total, measured, seen, taken
        taken += count
        if not len(measured):
            total = _sweeps(
                count, numbers, multipliers, problem.base, problem.doubled, steps, total, problem.total, relaxation
            )
            return
        for _ in range(count):
            pull = problem.pull(measured)
            total = _sweeps(1, numbers, multipliers, pull, problem.doubled, steps, total, problem.total, relaxation)
            now = problem.measure(numbers)
            ahead = seen + (now - seen) * (2 / relaxation)  # the sweep moved by relaxation / 2 of the way ahead
            to = (measured + measured_steps * (ahead - problem.counts)) / (1 + measured_steps / (2 * problem.weights))
            measured = measured + relaxation * (to - measured)
            seen = now

    while True:
        before = _copies(numbers), _copies(multipliers)
        walk(1, 1.0)  # not relaxed, so that edges, currents and multipliers are in their cones
        candidate = _copies(numbers)
        raised = raise_endpoints(*candidate) / problem.total if problem.total else 0.0
        mass = candidate[0].sum()
        scale = problem.total / mass if mass else 0.0
        objective = problem.objective(tuple(part * scale for part in candidate))
        # no answer may exceed a total of 0: nothing but zeros is consistent then
        bound = problem.bound(multipliers, measured) if problem.total else objective
        converged = objective - bound <= tolerance * objective + smallest and raised <= tolerance
        moved = _moved(steps, numbers, before[0], multipliers, before[1])
        if converged or taken >= most_steps:
            break
        if taken >= balance_at:
            pace = pace[0] * _turn(*moved[:2]), pace[1] * _turn(*moved[2:])
            steps, measured_steps = problem.steps(pace)
            balance_at = 3 * taken // 2
        walk(CHECK - 1, RELAXATION)
    sizes = _moved(steps, numbers, [0] * 5, multipliers, [0] * 4)
    primal, dual = (sqrt(sum(moved[k::2]) / max(sum(sizes[k::2]), 1e-300)) for k in (0, 1))
    end = Iterate(numbers, multipliers, total, measured, pace)
    return Solution(taken, objective, bound, raised, (primal, dual), converged, end)


def _moved(
    steps: StepLengths,
    numbers: Fields,
    before: Sequence[Floats | int],
    multipliers: Fields,
    ago: Sequence[Floats | int],
) -> tuple[float, float, float, float]:
    """Squared distances over step lengths: of endpoints and their multipliers, of edges and currents and theirs."""
    a, v, h, y, z = ((now - then) ** 2 for now, then in zip(numbers, before, strict=True))
    r, c, s, d = ((now - then) ** 2 for now, then in zip(multipliers, ago, strict=True))
    edges = ((v + 2 * y)[:, 1:-1] / steps.vertical[:, 1:-1]).sum() + ((h + 2 * z)[1:-1] / steps.horizontal[1:-1]).sum()
    return (
        float((a / steps.endpoints).sum()),
        float(((c + d) / steps.bounds).sum()),
        float(edges),
        float(((r + s) / steps.differences).sum()),
    )


def _turn(primal: float, dual: float) -> float:
    """What to multiply a pace by so that both would have moved alike; at most by 30 at once."""
    return min(max(sqrt(dual / primal), 1 / 30), 30.0) if primal > 0 else 1.0


def _copies(of: Fields) -> Fields:
    return tuple(part.copy() for part in of)


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def _move_endpoints(a, ahead, c, d, pull, doubled, step, total, share):  # type: ignore[no-untyped-def]
    """A row of endpoints: the step to the least of its squares, gone twice in `ahead`; the sum of `ahead`."""
    mass = 0.0
    for k in range(len(a)):
        to = (a[k] + step[k] * (pull[k] + total - c[k] - d[k])) / (1 + step[k] * doubled[k])
        ahead[k] = 2 * to - a[k]
        mass += ahead[k]
        a[k] += share * (to - a[k])
    return mass


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def _move_edges(  # type: ignore[no-untyped-def]
    edges, currents, edges_ahead, currents_ahead, near, far, before, after, pull, doubled, step, share
):
    """A row of edges and their currents: a step each and the closest point with |current| <= edge / 2.

    Edges are in the differences of the two cells beside them with 1/2 times near - far, currents with before - after.
    """
    for k in range(len(edges)):
        force = edges[k] + step[k] * (0.5 * (near[k] - far[k]) + pull[k])
        weight = 1 + step[k] * doubled[k]
        edge = force / weight
        current = currents[k] - 0.5 * step[k] * (before[k] - after[k])
        size = abs(current)
        ray = (force + size) / (weight + 0.5)
        ray = ray if ray > 0.0 else 0.0
        inside = 2 * size <= edge
        half = -0.5 * ray if current < 0.0 else 0.5 * ray
        edge = edge if inside else ray
        current = current if inside else half
        edges_ahead[k] = 2 * edge - edges[k]
        currents_ahead[k] = 2 * current - currents[k]
        edges[k] += share * (edge - edges[k])
        currents[k] += share * (current - currents[k])


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def _move_multipliers(  # type: ignore[no-untyped-def]
    r, c, current_low, current_high, edge_low, edge_high, endpoints, step, bound_step, share
):
    """A row of multipliers: a step and the closest point with c <= -|r|."""
    for k in range(len(r)):
        difference = current_high[k] - current_low[k] - 0.5 * (edge_high[k] - edge_low[k])
        to, bound = r[k] + step[k] * difference, c[k] + bound_step[k] * endpoints[k]
        size = abs(to)
        ray = (size * bound_step[k] - bound * step[k]) / (step[k] + bound_step[k])
        ray = ray if ray > 0.0 else 0.0
        inside = bound <= -size
        signed = -ray if to < 0.0 else ray
        to = to if inside else signed
        bound = bound if inside else -ray
        r[k] += share * (to - r[k])
        c[k] += share * (bound - c[k])


@njit(nogil=True, cache=True)
def _sweeps(count, numbers, multipliers, pull, doubled, steps, total, wanted, share):  # type: ignore[no-untyped-def]
    """`count` steps in place; `share` is 1 for a plain one. Gives the multiplier of the total.

    Multipliers of a row move as soon as all edges around the row have: their old values are not needed any more.
    """
    a, v, h, y, z = numbers
    r, c, s, d = multipliers
    rows, columns = a.shape
    endpoints = np.zeros(columns)
    beside, beside_currents = np.zeros(columns + 1), np.zeros(columns + 1)
    south, south_currents = np.zeros(columns), np.zeros(columns)
    north, north_currents = np.zeros(columns), np.zeros(columns)
    for _ in range(count):
        mass = 0.0
        south[:], south_currents[:] = 0.0, 0.0
        for i in range(rows):
            mass += _move_endpoints(
                a[i], endpoints, c[i], d[i], pull[0][i], doubled[0][i], steps.endpoints[i], total, share
            )
            _move_edges(
                v[i, 1:-1], y[i, 1:-1], beside[1:-1], beside_currents[1:-1], s[i, :-1], s[i, 1:], r[i, :-1], r[i, 1:],
                pull[1][i, 1:-1], doubled[1][i, 1:-1], steps.vertical[i, 1:-1], share,
            )  # fmt: skip
            if i < rows - 1:
                _move_edges(
                    h[i + 1], z[i + 1], north, north_currents, r[i], r[i + 1], s[i], s[i + 1],
                    pull[2][i + 1], doubled[2][i + 1], steps.horizontal[i + 1], share,
                )  # fmt: skip
            else:
                north[:], north_currents[:] = 0.0, 0.0
            _move_multipliers(
                r[i], c[i], beside_currents[:-1], beside_currents[1:], south, north, endpoints,
                steps.differences[i], steps.bounds[i], share,
            )  # fmt: skip
            _move_multipliers(
                s[i], d[i], south_currents, north_currents, beside[:-1], beside[1:], endpoints,
                steps.differences[i], steps.bounds[i], share,
            )  # fmt: skip
            south, north = north, south
            south_currents, north_currents = north_currents, south_currents
        total += share * steps.total * (wanted - mass)
    return total


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def _least(multipliers, pull, base, targets, doubled, wanted):  # type: ignore[no-untyped-def]
    """The least of weighted squares plus what the multipliers charge, over edges >= 2 |currents| and a given total."""
    r, c, s, d = multipliers
    rows, columns = r.shape
    mass, give = 0.0, 0.0
    for i in range(rows):
        for j in range(columns):
            mass += (pull[0][i, j] - c[i, j] - d[i, j]) / doubled[0][i, j]
            give += 1 / doubled[0][i, j]
    total = (wanted - mass) / give
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
def _sum_regions(labels, a, v, h, sums):  # type: ignore[no-untyped-def]
    """Add up endpoints and edges by region."""
    rows, columns = labels.shape
    for i in range(rows):
        for j in range(columns):
            region = labels[i, j]
            sums[0, region] += a[i, j]
            sums[1, region] += v[i, j + 1]
            sums[2, region] += h[i + 1, j]


@njit(nogil=True, cache=True)
def _spread_regions(labels, multipliers, a, v, h):  # type: ignore[no-untyped-def]
    """Take what regions charge from what pulls their cells and edges."""
    rows, columns = labels.shape
    for i in range(rows):
        for j in range(columns):
            region = labels[i, j]
            a[i, j] -= multipliers[0, region]
            if j < columns - 1:
                v[i, j + 1] -= multipliers[1, region]
            if i < rows - 1:
                h[i + 1, j] -= multipliers[2, region]


@njit(nogil=True, cache=True)
def _answer(rectangles, a, v, h, answers):  # type: ignore[no-untyped-def]
    """Endpoints in each rectangle and half the edges on its border, by tables of sums."""
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
def _spread_answers(rectangles, multipliers, a, v, h):  # type: ignore[no-untyped-def]
    """Take what answers charge from what pulls the cells inside and the edges on the border."""
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
