"""The interfaces of questions to the curator: statistics, scores and private partitions, each computed from aggregates.

A *statistic* is an integer vector that is measured with noise; it has two sensitivities, the most that one trip can
change it in the L1 norm, for Laplace noise, and in the L2 norm, for Gaussian noise. *Scores* are compared to select the
largest; their sensitivity is the most that one trip can change any one of them. Every question states its sensitivity
and proves it. Bounds on what a trip contributes are applied inside the question, so that none can be forgotten. For a
unit of m trips, the curator multiplies the sensitivity by m: adding m trips one after the other changes a statistic by
at most m times as much as one trip can, in either norm. Questions about persons (`dqam.statistics.OF_PERSONS`) state
the most that one person can change them, and are not multiplied.
"""

from __future__ import annotations

import math
import operator
from fractions import Fraction
from typing import Protocol, TypeVar

from dqam.errors import InputError
from dqam.geometry.arrays import Integers
from dqam.geometry.grid import Grid
from dqam.geometry.lattice import Lattice
from dqam.geometry.rectangles import check_rectangles
from dqam.geometry.regions import Partition, frozen
from dqam.statistics.aggregate import Aggregate
from dqam.statistics.limits import MOST_CAP, MOST_RECTANGLES
from dqam.statistics.shadows import SHADOW

T = TypeVar("T", covariant=True)


class Question(Protocol):
    """Anything that the curator can be asked."""

    @property
    def name(self) -> str:
        """Its name in the ledger and in reports."""

    @property
    def resolution(self) -> int:
        """The number of its units in 1: values are fixed-point numbers."""

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """The sums over trips that it is computed from."""

    def check(self, grid: Grid) -> None:
        """Raise an `InputError` if this cannot be asked on `grid`; does not look at data."""


class Vector(Question, Protocol):
    """An integer vector that is a function of aggregates."""

    @property
    def sensitivity(self) -> int:
        """The most that one trip can change it: in the L1 norm for a statistic, in any one entry for scores."""

    def value(self, *totals: Integers) -> Integers:
        """The exact vector, from the totals of `aggregates`; only the curator has these."""


class Statistic(Vector, Protocol):
    """A vector to be measured with noise."""

    @property
    def l2_squared(self) -> int:
        """The square of the most that one trip can change it in the L2 norm; at most `sensitivity` squared."""


class Scores(Vector, Protocol):
    """Scores, of which the largest is to be selected."""


class NoiseSource(Protocol):
    """The part of the curator's noise that a private partition draws."""

    def laplace(self, values: Integers, scale: Fraction) -> Integers:
        """`values` plus discrete Laplace noise: P(k) proportional to exp(-|k| / scale)."""


class PrivatePartition(Question, Protocol[T]):
    """A partition of the cells by an algorithm that draws its own noise and has its own privacy proof."""

    @property
    def sensitivity(self) -> int:
        """The largest mass of one trip."""

    @property
    def delta(self) -> str:
        """A bound on the probability that epsilon does not hold, such as "10^-47"; empty if it always holds."""

    def scale(self, epsilon: Fraction, max_trips: int) -> Fraction:
        """The largest scale of its noise, for a unit of `max_trips` trips."""

    def grow(self, totals: tuple[Integers, ...], noise: NoiseSource, epsilon: Fraction, max_trips: int) -> T:
        """The partition. Only the curator may call this."""


class OnAnyGrid:
    """A question that fits every grid."""

    def check(self, grid: Grid) -> None:
        """Nothing to check."""


class OnPartition:
    """A question about the regions of a partition."""

    partition: Partition

    def check(self, grid: Grid) -> None:
        """Check that the partition is one of this grid."""
        if type(self.partition) is not Partition:
            raise InputError(f"Regions must be a Partition; got {type(self.partition).__name__}.")
        if (self.partition.rows, self.partition.columns) != grid.shape:
            raise InputError(
                f"A partition of {self.partition.rows} x {self.partition.columns} cells does not fit a grid of "
                f"{grid.rows} x {grid.columns}."
            )


class OnLattice:
    """A question about shadows or walks on a lattice, where endpoints weigh more than crossings.

    The size of a trip is the sum of its weighted numbers in absolute value (`norm` 1) or of their squares (`norm` 2).
    """

    lattice: Lattice
    endpoint_weight: int
    norm: int

    def __post_init__(self) -> None:
        for name, most in (("endpoint_weight", 2**8), ("norm", 2)):
            value = operator.index(getattr(self, name))
            object.__setattr__(self, name, value)
            if not 1 <= value <= most:
                raise InputError(f"{name} must be 1 to {most}; got {value}.")

    def check(self, grid: Grid) -> None:
        """Check that the lattice is one of this grid."""
        if type(self.lattice) is not Lattice:
            raise InputError(f"lattice must be a Lattice; got {type(self.lattice).__name__}.")
        if not self.lattice.fits(grid):
            raise InputError(f"The lattice does not fit a grid of {grid.rows} x {grid.columns} cells.")


class CappedOnLattice(OnLattice):
    """A statistic on a lattice in which each trip is reduced until its size is at most a cap.

    `norm` 1: the L1 sensitivity is the cap, and so is the L2 sensitivity, because the L2 norm is at most the L1 norm.
    `norm` 2: the square of the L2 sensitivity is the cap. By Cauchy and Schwarz, the L1 sensitivity is at most the L2
    sensitivity times the square root of the number of numbers; this bound is not tight.
    """

    cap: int

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "cap", operator.index(self.cap))
        if not 1 <= self.cap <= MOST_CAP:
            raise InputError(f"The cap on a trip's size must be 1 to {MOST_CAP:,}; got {self.cap:,}.")

    @property
    def sensitivity(self) -> int:
        """The cap, or for `norm` 2 a bound that follows from it, in units of 1/SHADOW."""
        return self.cap * SHADOW if self.norm == 1 else math.isqrt(self.l2_squared * self.lattice.numbers) + 1

    @property
    def l2_squared(self) -> int:
        """The square of the cap, or for `norm` 2 the cap, in units of 1/SHADOW^2."""
        return self.cap ** (2 if self.norm == 1 else 1) * SHADOW**2


class OnRectangles:
    """A question about rectangles of cells."""

    rectangles: Integers

    def __post_init__(self) -> None:
        if len(self.rectangles) > MOST_RECTANGLES:
            raise InputError(
                f"At most {MOST_RECTANGLES:,} rectangles can be in one question; got {len(self.rectangles):,}."
            )
        object.__setattr__(self, "rectangles", frozen(self.rectangles))

    def check(self, grid: Grid) -> None:
        """Check that the rectangles are on this grid."""
        check_rectangles(self.rectangles, grid)
