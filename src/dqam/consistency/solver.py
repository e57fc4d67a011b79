"""A primal-dual solver of least squares over the current cone, with or without a given sum of endpoints.

It seeks the saddle point of

    min over (a, v, h, y, z), max over multipliers:   squares + <differences, r> + <a, c> + total * (n - sum of a)

with the over-relaxed primal-dual method of Chambolle, Pock and Condat. The primal step, a projection in the plane,
keeps |y| <= v/2. The dual step keeps (r, c) in the polar cone c <= -|r|. The differences involve only (v, h, y, z), and
c only a, so these two blocks have step lengths of their own, which the solver balances as it goes. One step is one
sweep over the rows that reads and writes every number once.

Multipliers in the polar cone give a lower bound on the objective of every consistent histogram. Raising endpoints and
scaling to the total make any iterate consistent, so its objective is an upper bound on the optimum. The solver stops
when the difference, the duality gap, is small: the gap bounds the distance to the optimum.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np
from numba import njit

from dqam.consistency.cone import bordered, find_currents, raise_endpoints
from dqam.consistency.least_squares import FAST, Fields, LeastSquares, StepLengths

RELAXATION = 1.9  # of a step; the method converges for values below 2
CHECK = 40  # steps between two computations of the gap
PACE = 0.3  # ratio of dual to primal step lengths at the start; the best of several in trials


class Solution(NamedTuple):
    """The last iterate, and how close it is to the optimum.

    numbers    a, v, h, y and z, with borders
    steps      number of steps taken
    objective  weighted squared distance to the targets once the iterate is made consistent
    bound      lower bound on the objective of every consistent histogram
    raised     sum by which endpoints must be raised to make the iterate consistent, as a share of the total
    converged  whether objective - bound and `raised` are within the tolerance
    """

    numbers: Fields
    steps: int
    objective: float
    bound: float
    raised: float
    converged: bool


def solve(problem: LeastSquares, tolerance: float, most_steps: int, start: Fields | None = None) -> Solution:
    """Take steps until the gap is at most `tolerance` of the objective, or `most_steps` have been taken.

    start  a, v and h to begin with, with borders; the targets by default
    """
    numbers, multipliers = _first_iterate(problem, problem.targets if start is None else start)
    total, measured, pace = 0.0, np.zeros(len(problem.counts)), (PACE, PACE)  # multipliers: of the sum of a, of answers
    steps, measured_steps = problem.steps(pace)
    seen = problem.measure(numbers)
    taken, balance_at = 0, CHECK
    smallest = 1e-13 * sum(
        float((base * target).sum()) for base, target in zip(problem.base, problem.targets, strict=True)
    )

    def take_steps(count: int, relaxation: float) -> None:
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
        take_steps(1, 1.0)  # not relaxed, so that edges, currents and multipliers are in their cones
        candidate = _copies(numbers)
        raised = raise_endpoints(*candidate)
        mass = float(candidate[0].sum())
        wanted = mass if np.isnan(problem.total) else problem.total
        raised = raised / wanted if wanted else 0.0
        scale = wanted / mass if mass else 0.0
        objective = problem.objective(tuple(part * scale for part in candidate))
        # with a total of 0, only zeros are consistent
        bound = problem.bound(multipliers, measured) if wanted else objective
        converged = objective - bound <= tolerance * objective + smallest and raised <= tolerance
        moved = _moved(steps, numbers, before[0], multipliers, before[1])
        if converged or taken >= most_steps:
            break
        if taken >= balance_at:
            pace = pace[0] * _turn(*moved[:2]), pace[1] * _turn(*moved[2:])
            steps, measured_steps = problem.steps(pace)
            balance_at = 3 * taken // 2
        take_steps(CHECK - 1, RELAXATION)
    return Solution(numbers, taken, objective, bound, raised, converged)


def _first_iterate(problem: LeastSquares, start: Fields) -> tuple[Fields, Fields]:
    """Numbers with the currents that they allow, and multipliers of 0: r and c of rows, r and c of columns."""
    a, v, h = (np.maximum(part, 0) for part in start)
    y, z = find_currents(a, v[:, 1:-1], h[1:-1])
    a = start[0].copy() if np.isnan(problem.total) else start[0] + (problem.total - start[0].sum()) / a.size
    return (a, v, h, bordered(y, 1), bordered(z, 0)), tuple(np.zeros_like(a) for _ in range(4))


def _moved(
    steps: StepLengths, numbers: Fields, before: Fields, multipliers: Fields, multipliers_before: Fields
) -> tuple[float, float, float, float]:
    """Squared distances moved, over step lengths: of a, of its multipliers, of edges and currents, of theirs."""
    a, v, h, y, z = ((now - then) ** 2 for now, then in zip(numbers, before, strict=True))
    r, c, s, d = ((now - then) ** 2 for now, then in zip(multipliers, multipliers_before, strict=True))
    edges = ((v + 2 * y)[:, 1:-1] / steps.vertical[:, 1:-1]).sum() + ((h + 2 * z)[1:-1] / steps.horizontal[1:-1]).sum()
    return (
        float((a / steps.endpoints).sum()),
        float(((c + d) / steps.bounds).sum()),
        float(edges),
        float(((r + s) / steps.differences).sum()),
    )


def _turn(primal: float, dual: float) -> float:
    """The factor on a pace with which primal and dual numbers would have moved equally far, limited to 1/30 ... 30."""
    return min(max(sqrt(dual / primal), 1 / 30), 30.0) if primal > 0 else 1.0


def _copies(of: Fields) -> Fields:
    return tuple(part.copy() for part in of)


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def _move_endpoints(a, ahead, c, d, pull, doubled, step, total, share):  # type: ignore[no-untyped-def]
    """Move a row of endpoints to the minimum of its squares, and twice as far in `ahead`; return the sum of `ahead`."""
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
    """Move a row of edges and their currents by one step each, and project onto |current| <= edge / 2.

    An edge enters the differences of the two cells beside it with (near - far) / 2, its current with before - after.
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
    """Move a row of multipliers by one step, and project onto c <= -|r|."""
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
    """Take `count` steps in place, relaxed by `share` (1 is a plain step); return the multiplier of the total.

    The multipliers of a row move as soon as all edges around the row have moved: nothing else needs their old values.
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
        if steps.total > 0:
            total += share * steps.total * (wanted - mass)
    return total
