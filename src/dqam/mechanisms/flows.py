"""Flows: how many trips go from one area to another.

A trip has one origin and one destination, so counting pairs costs little (`dqam.statistics.pair_counts`). Three things
are measured: the trips between all pairs of tiles of a coarse lattice, and the origins and the destinations on a finer
one. Most pairs have few trips or none, and the noise is as large as these counts. `dqam.mechanisms.sparse_counts`
estimates the true counts. The expected values that it starts from are computed as if origins and destinations were
independent. Their sums over tiles are estimated along with the counts, in a few rounds of expectation-maximisation.

Pairs are measured at one level only. Sums over pairs have little noise, so coarser levels would add little information,
and each would cost part of the budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dqam.geometry.arrays import Floats
from dqam.geometry.flow_table import MOST_VARIANCE, Ends, FlowSlices, FlowTable, coarse_places
from dqam.geometry.grid import Grid
from dqam.geometry.lattice import Lattice
from dqam.mechanisms.sparse_counts import LEAST, Counts, Posterior, sharpened
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.statistics import MOST_TRIPS, PairCounts, Question, Sliced

OF_SLICES = Fraction(1, 4)  # of the budget for flows, if there are slices
MOST_SIDE = 32  # tiles along a side
FINER = 4  # cells along a side of a tile
SLICE_SIDE = 4  # tiles along a side for which flows are divided among slices
ROUNDS = 4  # of expectation-maximisation
BALANCING = 5  # rounds in which expected values are brought to the sums of origins and destinations
WIDTHS, END_WIDTHS = (2.0, 1.0, 0.6), (4.0, 2.0, 1.0, 0.6)  # of neighbourhoods, in tiles and in cells
FEW = 1e-3  # trips that every tile is assumed to have, so that none is estimated as 0 for good
COMMON, COMMON_ENDS = 0.5, 0.3  # of the variance of the noise: errors that neighbours have in common
ALIKE = 0.3  # how alike trips between two tiles are, if pairs differ as much as possible from independence


@dataclass(frozen=True, eq=False)
class FlowMeasurement:
    """Noisy counts of trips by origin and destination.

    tiles, cells  the lattices
    coarse        the lattice on which trips are counted by slice
    pairs         float64[tiles, tiles]
    ends          float64[rows, columns] of cells, for origins and for destinations
    by_slice      float64[slices, coarse tiles, coarse tiles]; None if there are no slices
    """

    tiles: Lattice
    cells: Lattice
    coarse: Lattice
    pairs: Counts
    ends: tuple[Counts, Counts]
    by_slice: Counts | None


def lattices(grid: Grid, side: int) -> tuple[Lattice, Lattice]:
    """The lattice of tiles, and the finer one of cells, with about `side` (a power of 2) tiles along the longer side of
    the grid: no more, and more than half as many if there are as many columns or rows.

    Lines of a lattice are also lines of all finer ones, so that counts for the finest include those for all others.

    >>> [max(lattices(Grid((0, 0, 1, 1), 48, 20), side)[0].shape) for side in (2, 8, 32)]
    [2, 6, 24]
    """
    return _some_lines(grid, side), _some_lines(grid, FINER * side)


def _some_lines(grid: Grid, side: int) -> Lattice:
    """Some lines of the finest lattice: the first, every one that is a power of 2 further, and the last."""
    finest = Lattice.even(grid, MOST_SIDE * FINER)
    step = 1
    while step * side < max(finest.shape):
        step *= 2
    return Lattice(*(np.append(lines[:-1:step], lines[-1]) for lines in (finest.east, finest.north)))


def tile_side(signal: float) -> int:
    """Tiles along a side: the largest power of 2 with at most 4 pairs of tiles for each unit of signal.

    >>> [tile_side(signal) for signal in (1, 100, 1_000, 20_000, 1e6)]
    [2, 4, 4, 16, 32]
    """
    side = 2
    while side < MOST_SIDE and (2 * side) ** 4 <= 4 * signal:
        side *= 2
    return side


def share_of_ends(signal: float) -> Fraction:
    """The share of the budget for flows that origins and destinations within tiles get; larger if tiles are large.

    >>> [share_of_ends(signal) for signal in (1, 5_000, 20_000, 1e6)]
    [Fraction(7, 20), Fraction(7, 20), Fraction(7, 40), Fraction(1, 10)]
    """
    share = 0.35 * (5_000 / max(signal, 1.0)) ** 0.5
    return Fraction(round(1_000 * min(max(share, 0.1), 0.35)), 1_000)


def flow_questions(grid: Grid, slices: int | None) -> tuple[Question, ...]:
    """The finest questions of `measure_flows`, from whose sums over trips any that it asks can be answered."""
    (tiles, cells), whole = lattices(grid, MOST_SIDE), Lattice.even(grid, 1)
    questions: list[Question] = [PairCounts(tiles, tiles), PairCounts(cells, whole), PairCounts(whole, cells)]
    if slices is not None:
        coarse, _ = lattices(grid, SLICE_SIDE)
        questions.append(Sliced(PairCounts(coarse, coarse), slices))
    return tuple(questions)


def measure_flows(curator: Curator, budget: Budget, trips: float) -> FlowMeasurement:
    """Measure the flows of about `trips` trips, with all of `budget`."""
    grid, amount = curator.grid, budget.left
    signal = trips * budget.precision() / curator.unit.max_trips
    (tiles, cells), whole = lattices(grid, tile_side(signal)), Lattice.even(grid, 1)
    (coarse, _), by_slice = lattices(grid, SLICE_SIDE), None
    if curator.slices is not None:
        sliced = Sliced(PairCounts(coarse, coarse), curator.slices)
        by_slice = _counts(curator, sliced, budget, amount * OF_SLICES, (-1, coarse.cells, coarse.cells))
    each = budget.left * share_of_ends(signal) / 2
    ends = (
        _counts(curator, PairCounts(cells, whole), budget, each, cells.shape),
        _counts(curator, PairCounts(whole, cells), budget, each, cells.shape),
    )
    pairs = _counts(curator, PairCounts(tiles, tiles), budget, budget.left, (tiles.cells, tiles.cells))
    return FlowMeasurement(tiles, cells, coarse, pairs, ends, by_slice)


def _counts(
    curator: Curator, statistic: PairCounts | Sliced, budget: Budget, amount: Fraction, shape: tuple[int, ...]
) -> Counts:
    """A measured statistic and its noise."""
    values = curator.measure(statistic, budget, amount).astype(np.float64).reshape(shape)
    paid = curator.paid[-1]
    return Counts(values, float(paid.scale), paid.epsilon is None)


def estimate_flows(
    measured: FlowMeasurement, trips: float, names: tuple[str, ...] = (), sizes: Floats | None = None
) -> FlowTable:
    """The table of flows, which adds up to `trips`; with slices of these names and sizes, also their shares of it."""
    trips = max(trips, 1.0)
    found = fit_pairs(measured.pairs, measured.tiles, trips)
    table = found.adding_up_to(trips)
    mean, variance = found.moments()
    origins, destinations = (
        fit_ends(counts, measured.tiles, measured.cells, sums)
        for counts, sums in zip(measured.ends, (table.sum(axis=1), table.sum(axis=0)), strict=True)
    )
    by_slice = None
    if measured.by_slice is not None and sizes is not None:
        by_slice = fit_slices(measured.by_slice, measured.coarse, measured.tiles, table, names, sizes)
    variance = variance + (mean - table) ** 2 + COMMON * measured.pairs.deviation**2
    variance = np.minimum(variance, float(MOST_TRIPS) ** 2)  # there are no more trips than that
    alike = ALIKE / (1 + found.shape)
    return FlowTable(measured.tiles, measured.cells, table, rounded(variance), origins, destinations, alike, by_slice)


def fit_pairs(counts: Counts, tiles: Lattice, trips: float) -> Posterior:
    """What is known about the trips between all pairs of tiles."""
    sums = counts.values.sum(axis=1), counts.values.sum(axis=0)
    noise = counts.deviation * tiles.cells**0.5
    even = np.full(tiles.cells, trips / tiles.cells)
    margins = tuple(_sized(Posterior.of(Counts(each, noise, True), even).moments()[0], trips) for each in sums)
    best = Posterior.of(counts, np.outer(*margins) / trips)
    for _ in range(ROUNDS):
        again = Posterior.of(counts, np.outer(*_margins(best, trips)) / trips)
        if again.fit <= best.fit:
            break
        best = again
    places = tiles.shape * 2
    for width in WIDTHS:
        spread = Counts(counts.values.reshape(places), counts.scale, counts.gaussian)
        near = sharpened(Posterior(spread, best.expected.reshape(places), best.shape, best.fit), width)
        expected = near.expected.reshape(best.expected.shape)
        again = Posterior.of(counts, balanced(expected, *_margins(best, trips)))
        if again.fit > best.fit:
            best = again
    return best


def fit_ends(counts: Counts, tiles: Lattice, cells: Lattice, sums: Floats) -> Ends:
    """Where trips begin or end within tiles, given how many do so in each tile."""
    inner = tiles.within(cells)
    labels = inner.labels
    found = Posterior.of(counts, np.maximum((sums / inner.areas.ravel())[labels], FEW))
    for width in END_WIDTHS:
        found = sharpened(found, width)
    mean, variance = (each.ravel() for each in found.moments())
    mean = mean + LEAST
    whole = np.bincount(labels.ravel(), mean)[labels.ravel()]
    relative = (variance + COMMON_ENDS * counts.deviation**2) / whole**2
    return Ends(mean / whole, np.minimum(relative, MOST_VARIANCE))  # the rest is unknown anyway


def fit_slices(
    counts: Counts, coarse: Lattice, tiles: Lattice, table: Floats, names: tuple[str, ...], sizes: Floats
) -> FlowSlices:
    """How the trips between coarse tiles are divided among slices of these sizes."""
    place = coarse_places(coarse, tiles)
    rows = np.zeros((coarse.cells, tiles.cells))
    rows[place, np.arange(tiles.cells)] = 1.0
    known = rows @ table @ rows.T + FEW
    expected = sizes[:, None, None] / max(float(sizes.sum()), LEAST) * known
    mean, variance = Posterior.of(counts, np.maximum(expected, LEAST)).moments()
    mean = mean + LEAST * expected
    together = mean.sum(axis=0)
    noise = np.sqrt(variance) / np.maximum(together, 1.0)
    return FlowSlices(names, coarse, mean / together, np.minimum(noise, MOST_VARIANCE**0.5))


def rounded(values: Floats) -> Floats:
    """Positive values to 8 bits, which take less room in a file.

    >>> rounded(np.array([0.0, 1 / 3, 1000.5]))
    array([0.00000000e+00, 3.33984375e-01, 1.00000000e+03])
    """
    digits, exponents = np.frexp(values)
    return np.ldexp(np.rint(digits * 256) / 256, exponents)


def balanced(expected: Floats, origins: Floats, destinations: Floats) -> Floats:
    """Expected values with nearly these sums, by iterative proportional fitting."""
    for _ in range(BALANCING):
        expected = expected * (origins / np.maximum(expected.sum(axis=1), LEAST))[:, None]
        expected = expected * (destinations / np.maximum(expected.sum(axis=0), LEAST))
    return expected


def _margins(found: Posterior, trips: float) -> tuple[Floats, Floats]:
    """Expected origins and destinations by tile."""
    mean = found.moments()[0]
    return _sized(mean.sum(axis=1), trips), _sized(mean.sum(axis=0), trips)


def _sized(values: Floats, total: float) -> Floats:
    """Positive values in proportion, with this sum."""
    values = values + FEW
    return np.asarray(values * (total / values.sum()))
