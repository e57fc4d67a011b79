"""What may be asked of the data: integer vectors, each with its sensitivity and the proof of it.

A *statistic* is measured with noise; its sensitivity is the most that one trip can change it in the L1 norm. *Scores*
are compared to select one of them; their sensitivity is the most that one trip can change any of them. The bounds on
what a trip contributes are applied here, inside, so that none can be forgotten. For a unit of m trips the curator
multiplies by m: adding m trips one after the other changes a statistic by at most m times what one does.

A trip that leaves the grid and returns is one trip. Distinct counts look at all its pieces, all else at its longest
piece (the first of equals), so that a trip is one walk there. A trip that is never on the grid contributes nothing.

Values are int64, and no sum may leave 64 bits: one more trip could then change a value by 2^64. At most MOST_TRIPS =
2^31 trips are on the grid, counting all that are kept of each person, and public limits on caps and on the number of
rectangles keep what one trip adds to any number within +-2^31. So every sum over some of the trips, in whatever order
the parts are added, stays within +-2^62 (`dqam.privacy.noise.LARGEST`), and noise is added to the exact value. Where a
value is more than a plain sum, or a kernel multiplies, the docstring says why 63 bits are enough.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dqam.errors import InputError
from dqam.geometry.arrays import Floats, Integers
from dqam.geometry.grid import Grid
from dqam.geometry.lattice import Lattice
from dqam.geometry.rectangles import check_rectangles
from dqam.geometry.regions import Partition, coverage, frozen
from dqam.privacy.noise import LARGEST
from dqam.statistics.records import MASS, MOST_TRIPS, SHADOW, AnyRecords

FLUX = 2**16  # of a crossing
MOST_CAP = LARGEST // (MOST_TRIPS * max(FLUX, SHADOW))  # 2^15, on crossings and shadows, so that sums fit 64 bits
MOST_RECTANGLES = LARGEST // MOST_TRIPS  # in one question, so that their counts add up in 64 bits


class Question(Protocol):
    """An integer vector of the data, known to the curator alone."""

    @property
    def name(self) -> str:
        """What it is called in the ledger."""

    @property
    def sensitivity(self) -> int:
        """The most that one trip can change it: a statistic in the L1 norm, each of some scores by itself."""

    def check(self, grid: Grid) -> None:
        """An `InputError` if this cannot be asked on `grid`; looks at no data."""

    def of(self, records: AnyRecords) -> Integers:
        """The exact value; only the curator may ask."""


class Statistic(Question, Protocol):
    """A vector to be measured with noise."""


class Scores(Question, Protocol):
    """Scores, of which the largest is to be selected."""


class _OnAnyGrid:
    def check(self, grid: Grid) -> None:
        """Any grid will do."""


class _OnPartition:
    partition: Partition

    def check(self, grid: Grid) -> None:
        """The partition is of this grid."""
        if type(self.partition) is not Partition:
            raise InputError(f"Regions are those of a Partition; got {type(self.partition).__name__}.")
        if (self.partition.rows, self.partition.columns) != grid.shape:
            raise InputError(
                f"A partition of {self.partition.rows} x {self.partition.columns} cells does not fit a grid of "
                f"{grid.rows} x {grid.columns}."
            )


class _OnLattice:
    lattice: Lattice
    endpoint_weight: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "endpoint_weight", operator.index(self.endpoint_weight))
        if not 1 <= self.endpoint_weight <= 2**8:
            raise InputError(f"The weight of an endpoint is 1 to {2**8}; got {self.endpoint_weight}.")

    def check(self, grid: Grid) -> None:
        """The lattice is of this grid."""
        if type(self.lattice) is not Lattice:
            raise InputError(f"Shadows are cast on a Lattice; got {type(self.lattice).__name__}.")
        if not self.lattice.fits(grid):
            raise InputError(f"A lattice of other lines does not fit a grid of {grid.rows} x {grid.columns}.")


class _OnRectangles:
    rectangles: Integers

    def __post_init__(self) -> None:
        if len(self.rectangles) > MOST_RECTANGLES:
            raise InputError(
                f"At most {MOST_RECTANGLES:,} rectangles can be in one question; got {len(self.rectangles):,}."
            )
        object.__setattr__(self, "rectangles", frozen(self.rectangles))

    def check(self, grid: Grid) -> None:
        """The rectangles are on this grid."""
        check_rectangles(self.rectangles, grid)


@dataclass(frozen=True)
class TripCount(_OnAnyGrid):
    """The number of trips on the grid.

    Sensitivity 1: a trip adds 1 if it is on the grid and 0 if not.
    """

    name: str = field(default="number of trips", init=False)
    sensitivity: int = field(default=1, init=False)

    def of(self, records: AnyRecords) -> Integers:
        """int64[1]."""
        return records.trips()


@dataclass(frozen=True, eq=False)
class Endpoints(_OnPartition):
    """Starts plus ends in each region: int64[regions].

    Sensitivity 2: a trip has one longest piece, with one start and one end, each in exactly one region.
    """

    partition: Partition
    name: str = field(default="endpoints by region", init=False)
    sensitivity: int = field(default=2, init=False)

    def of(self, records: AnyRecords) -> Integers:
        """int64[regions]."""
        ends = np.zeros(len(self.partition), np.int64)
        np.add.at(ends, self.partition.labels.ravel(), records.ends())
        return ends


@dataclass(frozen=True, eq=False)
class Flux(_OnPartition):
    """Crossings by region, of vertical edges and then of horizontal ones: int64[2 * regions], in units of 1/FLUX.

    An edge belongs to the region of the cell west or south of it. A crossing in region p weighs weights[p] (FLUX where
    none are given). A trip whose weights add up to W above the cap C = `cap` * FLUX counts each crossing as
    floor(weight * C / W) instead.

    Sensitivity C: if W <= C the trip changes the vector by W in the L1 norm, as all its terms are positive; if not, by
    the sum of floor(weight * C / W) <= (C / W) * sum of weights = C.

    Bits: C <= 2^31, so that weight * C <= 2^47, and W < 2^62 as a walk of 2^46 visits would fill 2^48 bytes.
    """

    partition: Partition
    cap: int
    weights: Integers | None = None
    name: str = field(default="flux by region", init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cap", operator.index(self.cap))
        if not 1 <= self.cap <= MOST_CAP:
            raise InputError(f"The cap on a trip's crossings must be 1 to {MOST_CAP:,}; got {self.cap:,}.")
        if self.weights is not None:
            weights = np.array(self.weights)
            if (
                weights.shape != (len(self.partition),)
                or weights.dtype.kind not in "iu"
                or weights.min() < 0
                or weights.max() > FLUX
            ):
                raise InputError(
                    f"Flux needs a whole weight from 0 to {FLUX} for each of {len(self.partition)} regions."
                )
            weights = weights.astype(np.int64)
            weights.flags.writeable = False
            object.__setattr__(self, "weights", weights)

    @property
    def sensitivity(self) -> int:
        """The cap, in units of 1/FLUX."""
        return self.cap * FLUX

    def of(self, records: AnyRecords) -> Integers:
        """int64[2 * regions]."""
        weights = np.full(len(self.partition), FLUX, np.int64) if self.weights is None else self.weights
        return records.flux(self.partition.labels.ravel(), weights, self.sensitivity)


@dataclass(frozen=True, eq=False)
class ShadowSums(_OnLattice):
    """The shadows of all trips (`dqam.statistics.shadows`) added up: int64[lattice.numbers], in units of 1/SHADOW;
    endpoints come first and are multiplied by their weight.

    The size of a trip is the sum of its absolute numbers so weighted. Where it is above the cap C = `cap` * SHADOW each
    number x counts as sign(x) max(|x| - t, 0) instead, with the least whole t that brings the size to C or less: the
    closest there is within the cap, but for rounding.

    Sensitivity C: a shadow is a function of its trip alone, and so is t. The trip changes the vector by its size after
    the cap in the L1 norm, or by less where two of its numbers are in one place.

    Bits: C <= 2^31. A shadow of up to 128 visits has up to 255 numbers of at most 2^22, and weights are at most 2^8, so
    that its size is below 2^38; a longer one is the trip itself, with up to 2^24 crossings of 2^16 and two endpoints.
    """

    lattice: Lattice
    cap: int
    endpoint_weight: int = 1
    name: str = field(default="shadows", init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "cap", operator.index(self.cap))
        if not 1 <= self.cap <= MOST_CAP:
            raise InputError(f"The cap on a trip's shadow must be 1 to {MOST_CAP:,}; got {self.cap:,}.")

    @property
    def sensitivity(self) -> int:
        """The cap, in units of 1/SHADOW."""
        return self.cap * SHADOW

    def of(self, records: AnyRecords) -> Integers:
        """int64[lattice.numbers]."""
        return records.shadow_sums(self.lattice, self.endpoint_weight, self.cap)


@dataclass(frozen=True)
class CellShares(_OnAnyGrid):
    """Each trip's mass spread evenly over its visits, by cell: int64[rows * columns], in units of 1/MASS.

    Sensitivity MASS: a trip with k visits adds k times floor(MASS / k) <= MASS in all, and all terms are positive.
    """

    name: str = field(default="cell shares", init=False)
    sensitivity: int = field(default=MASS, init=False)

    def of(self, records: AnyRecords) -> Integers:
        """int64[rows * columns]."""
        return records.shares().ravel()


@dataclass(frozen=True, eq=False)
class GroupShares:
    """Cell shares added up over disjoint groups of cells: int64[groups], in units of 1/MASS.

    `labels` (int, rows x columns) names the group of each cell, from 0; cells labelled -1 are left out.

    Sensitivity MASS: a trip adds positive terms of at most MASS in all to the cells (see `CellShares`), and each cell
    is in at most one group.
    """

    labels: NDArray[np.integer]
    name: str = "shares by group"
    sensitivity: int = field(default=MASS, init=False)

    def __post_init__(self) -> None:
        labels = np.array(self.labels)
        if labels.ndim != 2 or labels.dtype.kind not in "iu" or labels.min() < -1 or labels.max() < 0:
            raise InputError(f"Groups are labels of 0 or more for rows x columns of cells; got {labels.dtype}.")
        labels.flags.writeable = False
        object.__setattr__(self, "labels", labels)

    def check(self, grid: Grid) -> None:
        """Every cell of this grid has a label."""
        if self.labels.shape != grid.shape:
            raise InputError(f"Labels of {self.labels.shape} cells do not fit a grid of {grid.shape}.")

    def of(self, records: AnyRecords) -> Integers:
        """int64[groups]."""
        groups = np.zeros(int(self.labels.max()) + 1, np.int64)
        inside = self.labels >= 0
        np.add.at(groups, self.labels[inside], records.shares()[inside])
        return groups


@dataclass(frozen=True, eq=False)
class UniformityCosts(_OnRectangles):
    """How far each region's cell shares are from uniform: the paper's cost, for disjoint regions: int64[regions].

    For shares c_j of the p cells of a region with sum S the cost is sum over j of |c_j - floor(S / p)|.

    Sensitivity 2^31 (P - 1) / P, rounded up, where P is the size of the largest region. Let a trip add w_j >= 0 with
    sum W to a region of p cells, and let d = floor((S + W) / p) - floor(S / p); then d < W / p + 1. Each term changes
    by at most |w_j - d|, and sum |w_j - d| <= max over how a given W may lie: the sum is convex in w, so it is largest
    when all of W is in one cell, where it is |W - d| + (p - 1) d. If d <= W this is W + (p - 2) d
    < W + (p - 2)(W / p + 1) = 2 W (p - 1) / p + p - 2; if d > W then W = 0 (d = 1 > W as integers), and nothing
    changes. For p = 1 the cost is always 0. Summed over disjoint regions, with total mass at most MASS = 2^30 - 2^24
    and at most 2^24 cells in all, a trip moves the vector by at most
    2 MASS (P - 1) / P + sum (p - 2 where p >= 2) <= 2 (2^30 - 2^24)(P - 1) / P + 2^24 (P - 1) / P < 2^31 (P - 1) / P.
    That is what 2^24 of the mass were left out for: rounding costs no privacy.

    Bits: a cost is at most the sum of the shares and of the means, 2 S <= 2^32 MASS < 2^62.
    """

    rectangles: Integers  # disjoint
    name: str = "uniformity costs"

    @property
    def sensitivity(self) -> int:
        """2^31 (P - 1) / P, rounded up; 1 where every region is one cell and all costs are 0."""
        west, south, east, north = self.rectangles.T
        largest = int(((east - west) * (north - south)).max())
        return max(1, -(-(2**31) * (largest - 1) // largest))

    def check(self, grid: Grid) -> None:
        """The regions are on this grid and disjoint."""
        if coverage(self.rectangles, *grid.shape).max() > 1:
            raise InputError(f"Costs are of disjoint regions; some of these {len(self.rectangles)} overlap.")

    def of(self, records: AnyRecords) -> Integers:
        """int64[regions]."""
        return region_costs(records.shares(), self.rectangles)


@dataclass(frozen=True, eq=False)
class DistinctCounts(_OnRectangles):
    """Distinct trips in each of some rectangles: int64[m].

    Sensitivity m: a trip adds 0 or 1 to each, whatever loops it makes.
    """

    rectangles: Integers
    name: str = "distinct trips"

    @property
    def sensitivity(self) -> int:
        """One for each rectangle."""
        return len(self.rectangles)

    def of(self, records: AnyRecords) -> Integers:
        """int64[m]."""
        return records.distinct(self.rectangles)


@dataclass(frozen=True, eq=False)
class QueryTotals(_OnRectangles):
    """How many of m rectangles each trip on the grid meets, added up, and how many it misses: int64[2].

    The first is the sum of the distinct counts, and both together are m times the number of trips: for the price of
    one of them both are known, and the mean count m times as well as any one count.

    Sensitivity m: a trip on the grid that meets k of the rectangles adds k and m - k, m in all; any other trip meets
    none, and adds nothing. m is at most 2^31.
    """

    rectangles: Integers
    name: str = field(default="rectangles met and missed", init=False)

    @property
    def sensitivity(self) -> int:
        """One for each rectangle."""
        return len(self.rectangles)

    def of(self, records: AnyRecords) -> Integers:
        """int64[2]."""
        met = records.distinct(self.rectangles).sum()
        return np.array([met, len(self.rectangles) * records.trips()[0] - met], np.int64)


@dataclass(frozen=True, eq=False)
class QueryErrors(_OnRectangles):
    """Scores: how far public estimates are from the distinct counts of a query set, |count - estimate|.

    Sensitivity 1: a trip changes each count by 0 or 1, the estimates not at all, and the absolute value is 1-Lipschitz.
    Estimates are rounded to integers, which is a function of public numbers; they are at most 2^53.
    """

    rectangles: Integers
    estimates: Floats
    name: str = field(default="query errors", init=False)
    sensitivity: int = field(default=1, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        estimates = np.array(self.estimates, np.float64)
        if estimates.shape != (len(self.rectangles),) or not (np.abs(estimates) <= 2**53).all():
            raise InputError(f"Errors need a finite estimate for each of {len(self.rectangles)} rectangles.")
        estimates.flags.writeable = False
        object.__setattr__(self, "estimates", estimates)

    def of(self, records: AnyRecords) -> Integers:
        """int64[m]."""
        return np.abs(records.distinct(self.rectangles) - np.rint(self.estimates).astype(np.int64))


@dataclass(frozen=True, eq=False)
class _Quantile:
    """Scores of candidates as the q-quantile of a length that each trip on the grid has, q = a / b.

    The score of a candidate is -|b * (trips not longer) - a * (trips)|. Sensitivity max(a, b - a): a trip changes the
    number inside by b - a if it is not longer, and by -a if it is; the absolute value is 1-Lipschitz. As b <= 10^6,
    all numbers here are below 2^51.
    """

    lengths: Integers
    quantile: Fraction

    def __post_init__(self) -> None:
        quantile = Fraction(self.quantile)
        if not 0 < quantile < 1 or quantile.denominator > 10**6:
            raise InputError(f"A quantile is a fraction a/b between 0 and 1 with b <= 10^6; got {self.quantile!r}.")
        object.__setattr__(self, "quantile", quantile)
        lengths = np.array(self.lengths)
        if lengths.ndim != 1 or not len(lengths) or lengths.dtype.kind not in "iu":
            raise InputError(f"Lengths to choose from are whole numbers; got {lengths.dtype} of {lengths.shape}.")
        lengths = lengths.astype(np.int64)
        if lengths[0] < 0 or lengths[-1] > MOST_CAP or (np.diff(lengths) <= 0).any():
            raise InputError(f"Lengths to choose from must increase from 0 or more to at most {MOST_CAP:,}.")
        lengths.flags.writeable = False
        object.__setattr__(self, "lengths", lengths)

    @property
    def sensitivity(self) -> int:
        """max(a, b - a)."""
        return max(self.quantile.numerator, self.quantile.denominator - self.quantile.numerator)

    def _scores(self, found: Integers) -> Integers:
        """From how many trips are not longer than each candidate and, last, how many there are."""
        return -np.abs(self.quantile.denominator * found[:-1] - self.quantile.numerator * found[-1])


@dataclass(frozen=True, eq=False)
class LengthQuantile(_Quantile, _OnAnyGrid):
    """Scores of candidate lengths as a quantile of the number of crossings of a trip; see `_Quantile` for the proof."""

    name: str = field(default="walk length quantile", init=False)

    @classmethod
    def on(cls, grid: Grid, quantile: Fraction) -> LengthQuantile:
        """Candidates for a grid: 1 and up to 8 times its longer side, each about 5 % above the one before.

        >>> LengthQuantile.on(Grid.over((0, 0, 1, 1), 8), Fraction(9, 10)).lengths[[0, 1, -1]].tolist()
        [1, 2, 2048]
        """
        longest = 8 * max(grid.shape)
        steps = max(2, round(np.log(longest) / np.log(1.05)))
        return cls(np.unique(np.rint(np.geomspace(1, longest, steps)).astype(np.int64)), quantile)

    def of(self, records: AnyRecords) -> Integers:
        """int64[lengths]."""
        return self._scores(records.lengths(self.lengths))


@dataclass(frozen=True, eq=False)
class ShadowQuantile(_Quantile, _OnLattice):
    """Scores of candidate caps as a quantile of the size of a trip's shadow, as `ShadowSums` has it, rounded up.

    The proof is that of `_Quantile`: the size of a shadow depends on its trip alone.
    """

    lattice: Lattice
    endpoint_weight: int = 1
    name: str = field(default="shadow size quantile", init=False)

    def __post_init__(self) -> None:
        _Quantile.__post_init__(self)
        _OnLattice.__post_init__(self)

    def of(self, records: AnyRecords) -> Integers:
        """int64[lengths]."""
        return self._scores(records.shadow_sizes(self.lattice, self.endpoint_weight, self.lengths))


def region_costs(shares: Integers, regions: Integers) -> Integers:
    """The uniformity cost of each region, as `UniformityCosts` defines it."""
    costs = np.zeros(len(regions), np.int64)
    _add_costs(shares, regions, costs)
    return costs


@njit(nogil=True, cache=True)
def _add_costs(shares, regions, costs):  # type: ignore[no-untyped-def]
    for i in range(len(regions)):
        west, south, east, north = regions[i, 0], regions[i, 1], regions[i, 2], regions[i, 3]
        total = np.int64(0)
        for row in range(south, north):
            for column in range(west, east):
                total += shares[row, column]
        mean = total // ((east - west) * (north - south))
        for row in range(south, north):
            for column in range(west, east):
                costs[i] += abs(shares[row, column] - mean)


STATISTICS = frozenset(
    {TripCount, Endpoints, Flux, ShadowSums, CellShares, GroupShares, UniformityCosts, DistinctCounts, QueryTotals}
)
SCORES = frozenset({QueryErrors, LengthQuantile, ShadowQuantile})
