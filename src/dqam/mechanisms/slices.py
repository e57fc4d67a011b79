"""Slices: how the trips of a map are divided among public classes of trips, such as the hours of the day.

Every trip is in exactly one slice, so statistics of all slices together have the sensitivity of one, and nothing is
divided by the number of slices (`dqam.statistics.sliced`). Two things are measured for each slice: its number of trips
with its average answer, and its share of the trips in each cell of a coarse lattice.

A single slice has few trips, so its numbers are mostly noise. But slices resemble each other, so all of them are
explained together, as mixtures of a few patterns with numbers that are not negative (Lee and Seung, 2001). The number
of patterns follows from the singular values of the measurement: those that are larger than noise alone would produce
(Marchenko and Pastur, 1967) indicate patterns. If the signal is too weak, there is one pattern, and every slice is the
whole map, scaled down to its share of the trips.

The fine detail of a slice is that of the map, which was measured from all trips (`dqam.geometry.sliced_histogram`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dqam.geometry.arrays import Floats, Integers
from dqam.geometry.histogram import SpatialHistogram, TwoScaleHistogram
from dqam.geometry.lattice import Lattice
from dqam.geometry.sliced_histogram import Patterns, interpolation
from dqam.mechanisms.size import cover
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.statistics import MASS, CellShares, GroupShares, QueryTotals, Question, Sliced
from dqam.values.slice_uncertainty import ShareNoise

SHARE = Fraction(1, 5)  # of the budget of a publication, for its slices
OF_SIZES = Fraction(1, 2)  # of the budget for slices, for their numbers of trips and average answers
MOST_SIDE = 24  # cells along a side of the lattice
MOST_PATTERNS = 6
MARGIN = 1.1  # above the largest singular value that noise has on average
STEPS, AGAIN = 1_500, 500  # steps of the factorisation, from scratch and from a solution nearby
LIFT = 0.1  # how far above a solution nearby the factorisation starts, relative to the mean
SMOOTH = 0.02  # of the trips in each cell of the lattice, that are shared out as on the whole map
RESAMPLES = 8
BALANCING = 40  # steps in which endpoints and crossings are brought to their measured sums


@dataclass(frozen=True, eq=False)
class SliceMeasurement:
    """Noisy numbers of all slices.

    lattice  the coarse cells
    shares   float64[slices, cells], trips in each coarse cell, where each trip counts 1 in total
    sizes    float64[slices, 2], number of trips and average answer
    noise    standard deviations of the shares, of the numbers of trips and of the average answers
    """

    lattice: Lattice
    shares: Floats
    sizes: Floats
    noise: tuple[float, float, float]

    @property
    def table(self) -> Floats:
        """float64[slices, cells + 2]: all numbers, divided by the standard deviation of their noise."""
        return np.concatenate([self.shares / self.noise[0], self.sizes / self.noise[1:]], axis=1)

    def rank(self) -> int:
        """The number of patterns that can be told from noise, at least the average of all slices."""
        edge = MARGIN * (np.sqrt(self.shares.shape[0]) + np.sqrt(self.shares.shape[1]))
        singular = np.linalg.svd(self.shares / self.noise[0], compute_uv=False)
        return min(max(1, int((singular > edge).sum())), MOST_PATTERNS, len(self.shares))


def known_questions(queries: Integers, count: int) -> tuple[Question, ...]:
    """Questions from whose sums over trips `measure_slices` can be answered, whatever the answers are."""
    return Sliced(QueryTotals(queries), count), Sliced(CellShares(), count)


def measure_slices(curator: Curator, queries: Integers, budget: Budget, trips: float) -> SliceMeasurement:
    """Spend all of `budget` on the slices of about so many trips."""
    count = curator.slices or 1
    signal = trips * budget.precision() / curator.unit.max_trips / count
    lattice = Lattice.even(curator.grid, slice_side(signal))
    totals = curator.measure(Sliced(QueryTotals(queries), count), budget, budget.left * OF_SIZES)
    met, missed = (totals.reshape(count, 2) / len(queries)).T
    of_answers = _deviation(curator)
    shares = curator.measure(Sliced(GroupShares(lattice.labels), count), budget).reshape(count, -1) / MASS
    noise = _deviation(curator), 2**0.5 * of_answers, of_answers
    return SliceMeasurement(lattice, shares, np.stack([met + missed, met], axis=1), noise)


def slice_side(signal: float) -> int:
    """Cells along a side of the lattice for slices of this average signal.

    >>> [slice_side(signal) for signal in (1, 50, 1_000, 10_000, 1e6)]
    [2, 3, 8, 16, 24]
    """
    return min(MOST_SIDE, max(2, round(max(signal, 1.0) ** 0.3)))


def find_patterns(
    measured: SliceMeasurement, names: tuple[str, ...], histogram: SpatialHistogram, queries: Integers
) -> tuple[Patterns, ShareNoise]:
    """How the slices share out the histogram, and how far noise may have moved that."""
    table, cells = measured.table, measured.lattice.cells
    mixture, parts = _start(table, measured.rank())
    mixture, parts = factorised(table, mixture, parts, STEPS)
    whole = histogram.large if isinstance(histogram, TwoScaleHistogram) else histogram
    balance = _Balance(measured.lattice, whole, queries)
    patterns = balance.patterns(names, mixture, parts, measured.noise)
    rng = np.random.default_rng(0)  # any seed will do: this noise hides nothing
    shares, moved = _shares(patterns), []
    start = mixture + LIFT * mixture.mean(axis=0), parts + LIFT * parts.mean(axis=0)  # products never leave 0
    for _ in range(RESAMPLES):
        noisy = mixture @ parts + rng.normal(size=table.shape)
        again = balance.patterns(names, *factorised(noisy, *start, AGAIN), measured.noise)
        moved.append(_shares(again) - shares)
    weight = np.maximum(measured.lattice.add_up(whole.faces, whole.vertical, whole.horizontal)[0], 0).ravel()
    weight = weight + 1e-3 * weight.mean() + 1e-9
    return patterns, ShareNoise(
        measured.lattice, np.stack(moved).reshape(RESAMPLES, len(names), cells), weight, measured.noise[1]
    )


def factorised(table: Floats, mixture: Floats, parts: Floats, steps: int) -> tuple[Floats, Floats]:
    """The product of two matrices without negative numbers that is nearest to `table`, found by multiplicative updates
    (Lee and Seung, 2001) from a given start; the columns of the first add up to 1.

    >>> mixture, parts = np.array([[0.2, 0.7], [0.8, 0.3]]), np.array([[9.0, 1.0, 4.0], [1.0, 8.0, 2.0]])
    >>> found = factorised(mixture @ parts, np.array([[0.4, 0.6], [0.6, 0.4]]), parts + 1, 5_000)
    >>> np.allclose(found[0] @ found[1], mixture @ parts, atol=0.01)
    True
    """
    least = 1e-12
    for _ in range(steps):
        mixture = mixture * np.maximum(table @ parts.T, least) / np.maximum(mixture @ (parts @ parts.T), least)
        parts = parts * np.maximum(mixture.T @ table, least) / np.maximum((mixture.T @ mixture) @ parts, least)
    sums = mixture.sum(axis=0) + least
    return mixture / sums, parts * sums[:, None]


def _start(table: Floats, rank: int) -> tuple[Floats, Floats]:
    """A start for the factorisation: the average slice, and those slices that differ most from the ones before."""
    rows = np.maximum(table, 0)
    sizes = rows.sum(axis=1, keepdims=True) + 1e-9
    rows = rows / sizes
    chosen = [np.asarray((sizes * rows).sum(axis=0) / sizes.sum())]
    for _ in range(rank - 1):
        basis = np.array(chosen)
        rest = rows - np.linalg.lstsq(basis.T, rows.T, rcond=None)[0].T @ basis
        chosen.append(rows[int(np.argmax((rest**2).sum(axis=1) * np.sqrt(sizes[:, 0])))])
    parts = np.array(chosen)
    return np.repeat(sizes / rank, rank, axis=1), parts + 1e-6 * parts.max()


class _Balance:
    """Turns the numbers of patterns into shares of a histogram that have the same sums."""

    def __init__(self, lattice: Lattice, whole: SpatialHistogram, queries: Integers) -> None:
        self.lattice = lattice
        faces, inner_vertical, inner_horizontal = cover(whole.grid, queries)
        vertical = whole.vertical * ((faces[:, :-1] + faces[:, 1:]) / 2 - inner_vertical)
        horizontal = whole.horizontal * ((faces[:-1] + faces[1:]) / 2 - inner_horizontal)
        flux = np.zeros(whole.grid.shape)
        for edges, sides in (
            (vertical, (np.s_[:, 1:], np.s_[:, :-1])),
            (horizontal, (np.s_[1:], np.s_[:-1])),
        ):
            for side in sides:
                flux[side] += edges / 2
        self.faces = self._gathered(whole.faces)  # trips by coarse cell, up to a factor
        self.endpoints = self._gathered(whole.endpoints)
        self.answered = self._gathered(faces * whole.endpoints), self._gathered(flux)  # average answer: ends and flux

    def _gathered(self, values: Floats) -> Floats:
        """What a share of 1 in each coarse cell adds up to, if shares are interpolated."""
        return np.asarray(interpolation(self.lattice.north).T @ values @ interpolation(self.lattice.east)).ravel()

    def patterns(
        self, names: tuple[str, ...], mixture: Floats, parts: Floats, noise: tuple[float, float, float]
    ) -> Patterns:
        """The patterns with the measured shares of trips, numbers of trips and average answers."""
        cells, (trips, answers) = parts[:, :-2] * noise[0], (parts[:, -2:] * noise[1:]).T
        whole = cells.sum(axis=0)
        smooth = SMOOTH * np.maximum(self.faces, 0) / max(self.faces.sum(), 1e-9) * whole.sum() + 1e-9
        shares = (cells + smooth * (cells.sum(axis=1) / whole.sum())[:, None]) / (whole + smooth)
        shares /= shares.sum(axis=0)
        endpoints, crossings = shares.copy(), shares.copy()
        for _ in range(BALANCING):
            endpoints = _scaled(endpoints, self.endpoints, trips, 1.0)
        ends = endpoints @ self.answered[0]
        flux = self.answered[1].sum()
        wanted = np.maximum(answers / max(answers.sum(), 1e-9) * (ends.sum() + flux) - ends, 0.05 * flux / len(ends))
        for _ in range(BALANCING):
            crossings = _scaled(crossings, self.answered[1], wanted, 0.8)
        shape = (len(shares), *self.lattice.shape)
        return Patterns(names, self.lattice, mixture, endpoints.reshape(shape), crossings.reshape(shape))


def _scaled(shares: Floats, values: Floats, wanted: Floats, power: float) -> Floats:
    """Shares that add up to 1 in each cell, with sums over `values` nearer to what is wanted, up to a common factor."""
    found, wanted = np.maximum(shares @ values, 1e-9), np.maximum(wanted, 1e-9)
    factors = np.clip(wanted / wanted.sum() * found.sum() / found, 0.2, 5.0) ** power
    scaled = shares * factors[:, None]
    return np.asarray(scaled / scaled.sum(axis=0))


def _shares(patterns: Patterns) -> Floats:
    """float64[slices, cells]: the share of each slice in the crossings of each coarse cell."""
    return np.asarray(patterns.mixture @ patterns.crossings.reshape(len(patterns.crossings), -1))


def _deviation(curator: Curator) -> float:
    """The standard deviation of the noise of the last answer, in units of 1."""
    paid = curator.paid[-1]
    return float(paid.scale / paid.resolution) * (1.0 if paid.epsilon is None else 2**0.5)
