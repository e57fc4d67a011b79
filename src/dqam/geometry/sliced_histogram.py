"""Slices of a histogram: how many of the trips through an area belong to each slice, such as to each hour of the day.

Distinct trips of disjoint slices add up exactly, and so do these answers. The answer for all trips comes from a
histogram with all its detail; the slices only say how it is divided. Shares are mixtures of a few patterns, because
most slices resemble others: the morning hours have much in common. A pattern is given by its share of the endpoints and
of the crossings in each cell of a coarse lattice. Shares are interpolated between the centres of these cells, so a
pattern has the same streets as the map.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dqam.errors import InputError
from dqam.geometry.arrays import Floats, Integers, Numbers
from dqam.geometry.histogram import SpatialHistogram, TwoScaleHistogram
from dqam.geometry.lattice import Lattice

UNITS = 2.0**16  # answers of slices are multiples of 1 / UNITS, so that sums of them have no rounding errors


@dataclass(frozen=True, eq=False)
class Patterns:
    """How the trips of each slice are spread, relative to all trips.

    names      of the slices, in order
    lattice    the coarse cells for which shares are given
    mixture    float64[slices, patterns]: the share of each pattern that belongs to each slice; adds up to 1 over slices
    endpoints  float64[patterns, rows, columns]: the share of each pattern in the endpoints in each cell of the lattice;
               adds up to 1 over patterns
    crossings  the same for crossings
    """

    names: tuple[str, ...]
    lattice: Lattice
    mixture: Floats
    endpoints: Floats
    crossings: Floats

    def __post_init__(self) -> None:
        slices, patterns = self.mixture.shape
        fields = (patterns, *self.lattice.shape)
        if slices != len(self.names) or self.endpoints.shape != fields or self.crossings.shape != fields:
            raise ValueError(
                f"A mixture of {self.mixture.shape} and fields of {self.endpoints.shape} and {self.crossings.shape} do "
                f"not fit {len(self.names)} slices on {self.lattice}."
            )

    def parts_of(self, histogram: SpatialHistogram) -> list[SpatialHistogram]:
        """The histogram of each pattern; they add up to `histogram`, or to that for large rectangles if it has two."""
        whole = histogram.large if isinstance(histogram, TwoScaleHistogram) else histogram
        rows, columns = interpolation(self.lattice.north), interpolation(self.lattice.east)
        parts = []
        for of_endpoints, of_crossings in zip(self.endpoints, self.crossings, strict=True):
            ends, flux = (rows @ share @ columns.T for share in (of_endpoints, of_crossings))
            parts.append(
                SpatialHistogram.from_flux(
                    whole.grid,
                    whole.endpoints * ends,
                    whole.vertical * (flux[:, 1:] + flux[:, :-1]) / 2,
                    whole.horizontal * (flux[1:] + flux[:-1]) / 2,
                )
            )
        return parts


def interpolation(lines: Integers) -> Floats:
    """float64[cells, coarse cells]: the weights that interpolate values from the middles of coarse cells to the middles
    of the cells along one axis; those of a row add up to 1.

    >>> interpolation(np.array([0, 2, 4]))
    array([[1.  , 0.  ],
           [0.75, 0.25],
           [0.25, 0.75],
           [0.  , 1.  ]])
    """
    middles = (lines[1:] + lines[:-1]) / 2
    at = np.arange(lines[-1]) + 0.5
    return np.stack([np.interp(at, middles, one) for one in np.eye(len(middles))], axis=1)


@dataclass(frozen=True, eq=False)
class SlicedHistogram(SpatialHistogram):
    """The trips of some slices of a histogram, or of all.

    The answer for all slices is that of `whole`, to the nearest 1 / UNITS. It is shared out in proportion to what the
    patterns say about each slice. So the answers of slices are at least 0 and add up to it exactly, whatever is asked.

    whole     the histogram of all trips
    patterns  how it is shared out
    parts     the histograms of the patterns
    chosen    the slices that are counted, as increasing indices
    """

    whole: SpatialHistogram
    patterns: Patterns
    parts: tuple[SpatialHistogram, ...]
    chosen: tuple[int, ...]

    @classmethod
    def of_patterns(cls, whole: SpatialHistogram, patterns: Patterns) -> SlicedHistogram:
        """All slices of a histogram."""
        if not patterns.lattice.fits(whole.grid):
            raise InputError(f"{patterns.lattice} does not fit {whole.grid}.")
        chosen, parts = tuple(range(len(patterns.names))), tuple(patterns.parts_of(whole))
        return cls(whole.grid, whole.faces, whole.vertical, whole.horizontal, whole, patterns, parts, chosen)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the slices that are counted."""
        return tuple(self.patterns.names[i] for i in self.chosen)

    @property
    def complete(self) -> bool:
        """Whether all slices are counted."""
        return len(self.chosen) == len(self.patterns.names)

    def select(self, names: Sequence[str]) -> SlicedHistogram:
        """The histogram of the slices with these names, which must be among those that are counted here."""
        known = dict(zip(self.names, self.chosen, strict=True))
        chosen = tuple(sorted(known[name] for name in names))
        mixture = self.patterns.mixture[list(chosen)].sum(axis=0)
        faces, vertical, horizontal = (
            sum(share * getattr(part, name) for share, part in zip(mixture, self.parts, strict=True))
            for name in ("faces", "vertical", "horizontal")
        )
        return replace(self, faces=faces, vertical=vertical, horizontal=horizontal, chosen=chosen)

    @property
    def total(self) -> float:
        """The answer for the whole grid."""
        rows, columns = self.grid.shape
        return float(self.answers(np.array([[0, 0, columns, rows]]))[0])

    def answers(self, rectangles: Integers) -> Numbers:
        """The answer to each rectangle of cells, given as grid lines (west, south, east, north)."""
        return self.ask(lambda one: one.answers(rectangles))

    def ask(self, answer: Callable[[SpatialHistogram], Floats], crossings: bool = False) -> Floats:
        """float64[m]: the answers, where `answer` gives those of any histogram, for whatever was asked.

        crossings  whether these are crossings, of which a trip can make any number
        """
        if self.complete:
            return self._of_all(answer, crossings)
        return self.ask_each(answer, crossings).sum(axis=0)

    def ask_each(self, answer: Callable[[SpatialHistogram], Floats], crossings: bool = False) -> Floats:
        """float64[slices, m]: the same for each slice that is counted."""
        whole = self._of_all(answer, crossings)
        each = self._proportions(answer) * whole
        if not crossings:  # no slice may have more trips here than on the whole map; the others have room for the rest
            room = self.sizes[:, None] - np.minimum(each, self.sizes[:, None])
            over = np.maximum(each - self.sizes[:, None], 0).sum(axis=0)
            each = np.minimum(each, self.sizes[:, None]) + room * over / np.maximum(room.sum(axis=0), 1e-9)
        upto = np.rint(each.cumsum(axis=0) * UNITS) / UNITS
        upto[-1] = whole
        found: Floats = np.diff(np.minimum(upto, upto[-1]), axis=0, prepend=0)
        return found[list(self.chosen)]

    def _of_all(self, answer: Callable[[SpatialHistogram], Floats], crossings: bool) -> Floats:
        """float64[m]: the answers for all slices, in multiples of 1 / UNITS."""
        most = np.inf if crossings else max(float(self.whole.total), 0.0)
        return np.asarray(np.rint(np.clip(answer(self.whole), 0, most) * UNITS) / UNITS)

    @property
    def all_trips(self) -> float:
        """The number of trips in all slices."""
        return float(self.sizes.sum())

    @cached_property
    def sizes(self) -> Floats:
        """float64[all slices]: the number of trips in each slice."""
        rows, columns = self.grid.shape
        everywhere = np.array([[0, 0, columns, rows]])
        shares = self._proportions(lambda one: one.answers(everywhere))[:, 0]
        return np.asarray(shares * self.whole.answers(everywhere)[0])

    def _proportions(self, answer: Callable[[SpatialHistogram], Floats]) -> Floats:
        """float64[all slices, m]: the shares of the slices in what is asked."""
        found = self.patterns.mixture @ np.stack([np.maximum(answer(part), 0) for part in self.parts])
        found[:, found.sum(axis=0) == 0] = self.patterns.mixture.mean(axis=1)[:, None]  # nothing is known there
        return np.asarray(found / found.sum(axis=0))

    def is_monotone(self, tolerance: float = 0.0) -> bool:
        """Whether no answer for all slices falls when its rectangle grows; those of single slices can fall slightly."""
        return self.whole.is_monotone(tolerance)
