"""How flux adds the walks measured on finer lattices, and joins two histograms, for small and for large rectangles.

A finer lattice adds detail within the cells of the previous one, whose numbers are kept (`add_detail`). Where trips
return to a rectangle, the result counts them once, as large rectangles must. Small rectangles must count every pass,
so they get numbers of their own: the same detail added to more crossings or, if the signal is strong, a fit to the
walks alone (`fit_passes`). `TwoScaleHistogram` joins the two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dqam.consistency.currents import AnswerTargets, CellTargets, SumTargets, fit_histogram
from dqam.geometry.arrays import Integers
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram, TwoScaleHistogram
from dqam.geometry.lattice import Lattice, Parts
from dqam.geometry.rectangles import sized_rectangles
from dqam.mechanisms.flux_fit import ENDPOINT_WEIGHT, exactly, less_flux
from dqam.mechanisms.size import SizeEstimate
from dqam.runtime.threads import ahead

PINNED = 100.0  # factor on the weight of the previous lattice's numbers in the fit of a finer one
STEPS, NEAR = 2_000, 1e-2  # step limit and tolerance of the fit on a finer lattice
SMALL_SIDE = 1 / 16  # side up to which a rectangle is small, relative to the side of the grid
CROSSINGS = 1.13  # crossings of walks on the coarsest lattice, relative to those of their shadows
SMALL, SMALL_SIDES = 6_000, ((2, 4), (5, 8), (9, 16), (17, 32))  # rectangles in the fit per range of sides, in cells
TRUST = 0.5  # weight of the answers for these rectangles, relative to the numbers


class Lowering(NamedTuple):
    """How the histogram for large rectangles is made if the signal is strong.

    smooth   the share of the coarsest lattice in its numbers; along long borders, detail counts returning trips again
    offset   the share of the trips that is taken from its numbers and added to each of its answers
    matched  whether its mean answer to the queries is made to match the measured one
    """

    smooth: float
    offset: float
    matched: bool


class WalkMeasurement(NamedTuple):
    """Walks measured on a finer lattice: endpoints and edges, and the scale of their noise."""

    lattice: Lattice
    parts: Parts
    noise: float


def with_detail(
    grid: Grid,
    coarsest: Lattice,
    known: Parts,
    noise: float,
    walks: list[WalkMeasurement],
    queries: Integers,
    size: SizeEstimate,
    lowering: Lowering | None,
) -> TwoScaleHistogram:
    """The joint histogram, from the numbers known on the coarsest lattice, their noise, and walks on finer lattices.

    If the signal is strong, `lowering` says how the histogram for large rectangles is made.
    """
    lattice = walks[-1].lattice

    def for_large() -> Parts:
        return lattice.refine(*less_flux(lattice, _refined(coarsest, known, noise, walks, size.trips), size))

    def for_small() -> tuple[Parts, float]:
        if lowering is not None:
            return fit_passes(walks, size.trips)
        more = known[0], CROSSINGS * known[1], CROSSINGS * known[2]
        return _refined(coarsest, more, noise, walks, size.trips), size.trips

    works: tuple[Callable[[], Any], ...] = (for_large, for_small)
    detailed, (passes, endpoints) = ahead(lambda work: work(), works)
    if lowering is not None:
        large, offset = _lowered(grid, detailed, coarsest.refine(*known), lowering, lattice, passes, queries, size)
    else:
        large, offset = exactly(SpatialHistogram.from_flux(grid, *detailed), size.trips), 0.0
    small = exactly(SpatialHistogram.from_flux(grid, *lattice.refine(*passes)), max(endpoints, size.trips))
    side = max(1, round(SMALL_SIDE * max(grid.shape)))
    return TwoScaleHistogram.of_two(small, large, offset, side)


def _refined(lattice: Lattice, known: Parts, noise: float, walks: list[WalkMeasurement], trips: float) -> Parts:
    """The known numbers with the detail of one finer lattice after the other."""
    for fine in walks:
        known, noise = add_detail(lattice, known, noise, fine, trips)
        lattice = fine.lattice
    return known


def add_detail(
    before: Lattice, known: Parts, known_noise: float, walks: WalkMeasurement, trips: float
) -> tuple[Parts, float]:
    """Numbers on a finer lattice that add the detail measured there to the numbers known on the previous lattice; and
    the scale of their noise.

    The target is the refined known numbers plus the detail: what was measured, minus the part of it that the previous
    lattice can show as well. Walks are scaled down more than shadows, so they are first scaled to the known flux. The
    two lattices disagree where trips return to a rectangle, which only the known numbers account for. A fit to both
    would be pulled in two directions; a fit to this target is not. The result is the closest of all consistent numbers,
    with the sums over the previous lattice pinned to the known numbers. Negative numbers are not cut off at 0 before
    the fit, because that would add trips everywhere.
    """
    lattice, measured, noise = walks
    inner = before.within(lattice)
    refined = inner.refine(*known)
    (a, v, h), factor = _target(inner, refined, measured)
    weight, pin = 1 / (2 * (factor * noise) ** 2), PINNED / known_noise**2
    fitted = fit_histogram(
        lattice.coarse(),
        trips,
        CellTargets(a, v, h, ENDPOINT_WEIGHT**2 * weight, weight, weight),
        SumTargets(inner, known, ENDPOINT_WEIGHT**2 * pin, pin),
        start=refined,
        tolerance=NEAR,
        most_steps=STEPS,
    ).histogram
    return (fitted.endpoints, fitted.vertical, fitted.horizontal), factor * noise


def fit_passes(walks: list[WalkMeasurement], trips: float) -> tuple[Parts, float]:
    """Numbers on the finest lattice that count every pass of a trip, and the sum of their endpoints.

    The target is what was measured on the first lattice, refined, plus the detail of the next. Trips that return are
    not consistent. The fit therefore minimises the distance of its answers for small rectangles as well as that of its
    numbers. It may also have more endpoints than there are trips: a trip that returns then counts as several.
    """
    lattice, target = walks[0].lattice, walks[0].parts
    ends = float(target[0].sum())
    target = target[0] * (trips / ends if ends > trips / 2 else 1.0), target[1], target[2]
    for fine in walks[1:]:
        inner = lattice.within(fine.lattice)
        target, _ = _target(inner, inner.refine(*target), fine.parts)
        lattice = fine.lattice
    grid, rng = lattice.coarse(), np.random.default_rng(0)
    sides = [(low, high) for low, high in SMALL_SIDES if 8 * high <= min(grid.shape)] or [(1, 1)]
    small = np.concatenate([sized_rectangles(grid, low, high, SMALL, rng) for low, high in sides])
    answers = SpatialHistogram.from_flux(grid, *target).answers(small)
    fitted = fit_histogram(
        grid,
        None,
        CellTargets(*target, ENDPOINT_WEIGHT**2, 1.0, 1.0),
        AnswerTargets(small, answers, TRUST),
        start=target,
        tolerance=NEAR,
        most_steps=STEPS,
    ).histogram
    return (fitted.endpoints, fitted.vertical, fitted.horizontal), float(fitted.total)


def _target(inner: Lattice, refined: Parts, measured: Parts) -> tuple[Parts, float]:
    """`refined` plus the detail of what was measured, and the factor by which walks are scaled to the same flux."""
    smooth = inner.refine(*inner.add_up(*measured))
    flux = float(measured[1].sum() + measured[2].sum())
    factor = min(max(float(refined[1].sum() + refined[2].sum()) / flux, 0.5), 2.0) if flux > 0 else 1.0
    a, v, h = (base + factor * (part - low) for base, part, low in zip(refined, measured, smooth, strict=True))
    return (a, v, h), factor


def _lowered(
    grid: Grid,
    detailed: Parts,
    smooth: Parts,
    lowering: Lowering,
    lattice: Lattice,
    passes: Parts,
    queries: Integers,
    size: SizeEstimate,
) -> tuple[SpatialHistogram, float]:
    """A histogram for large rectangles that is too low by a fixed number of trips, and that number.

    Numbers that are right for large rectangles count too few trips in smaller ones. If the numbers are lowered and a
    constant is added to each answer instead, more of these trips are counted. Edges are scaled down so that the mean
    answer to the query set is not too large, if that is to be matched.
    """
    share, offset = lowering.offset, lowering.offset * size.trips
    mixed = ((1 - lowering.smooth) * one + lowering.smooth * other for one, other in zip(detailed, smooth, strict=True))
    a, v, h = ((1 - share) * part for part in mixed)
    few = SpatialHistogram.from_flux(grid, *lattice.refine(*passes)).answers(queries)
    ends = SpatialHistogram.from_flux(grid, a, 0 * v, 0 * h).answers(queries) + offset
    flux = SpatialHistogram.from_flux(grid, 0 * a, v, h).answers(queries)
    low, high = 0.5, 1.0
    for _ in range(30):
        scale = (low + high) / 2
        enough = lowering.matched and float(np.minimum(few, ends + scale * flux).mean()) >= size.answer
        low, high = (low, scale) if enough else (scale, high)
    return exactly(SpatialHistogram.from_flux(grid, a, low * v, low * h), size.trips - offset), offset
