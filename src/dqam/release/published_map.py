"""The part of a release that answers queries: a histogram with its provenance and uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike

from dqam.errors import InputError
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.lattice import Lattice
from dqam.geometry.rectangles import Snapped, as_rectangles, snap
from dqam.release.answers import Answer, Answers
from dqam.release.provenance import Provenance
from dqam.values.guarantee import spell_delta
from dqam.values.uncertainty import Uncertainty

CONFIDENCE = 0.9
MOST_BLOCKS = 1 << 20  # that a table of cells may have


@dataclass(frozen=True, eq=False)
class PublishedMap:
    """The histogram that was published, with its provenance and uncertainty: what `Release` answers from."""

    histogram: SpatialHistogram
    provenance: Provenance
    uncertainty: Uncertainty | None = None

    @property
    def grid(self) -> Grid:
        """The grid of the map."""
        return self.histogram.grid

    @property
    def trips(self) -> Answer:
        """All distinct trips on the map."""
        rows, columns = self.grid.shape
        return self.counts(Snapped.of(np.array([[0, 0, columns, rows]]), self.grid))[0]

    def count(
        self,
        west: float | Sequence[float],
        south: float | None = None,
        east: float | None = None,
        north: float | None = None,
        *,
        crs: str | None = None,
        confidence: float = CONFIDENCE,
    ) -> Answer:
        """The distinct trips through one rectangle: four numbers, or one tuple of them, in the CRS of the map unless
        `crs` says otherwise.

        Sides between grid lines move outward to the next one, and what lies outside the map is cut off; the answer
        says so (`grown`, `cut`).
        """
        rest = [side for side in (south, east, north) if side is not None]
        return self.counts(as_rectangles([(west, *rest) if rest else west]), crs=crs, confidence=confidence)[0]

    def counts(
        self,
        rectangles: ArrayLike | Snapped,
        *,
        crs: str | None = None,
        confidence: float = CONFIDENCE,
    ) -> Answers:
        """The same for many rectangles at once: rows of west, south, east, north, or an array of shape (m, 4).

        For the areas of a GeoDataFrame: `release.counts(areas.bounds.to_numpy(), crs=areas.crs.to_string())`.
        """
        if not isinstance(rectangles, Snapped):
            rectangles = snap(rectangles, self.grid, crs)
        if not isinstance(confidence, Real) or not 0 < confidence < 1:
            raise InputError(f"confidence must be a number between 0 and 1, such as 0.9; got {confidence!r:.60}.")
        cells = rectangles.cells
        value = np.clip(self.histogram.answers(cells), 0, max(float(self.histogram.total), 0.0))
        low, high = np.full((2, len(value)), np.nan)
        if self.uncertainty is not None:
            low, high = self.uncertainty.intervals(cells, confidence)
        return Answers(value, low, high, rectangles)

    def cells(self, blocks: int | None = None, confidence: float = CONFIDENCE) -> Answers:
        """The answers for all cells or, with `blocks`, for about that many blocks of cells along the longer side.

        From west to east, row by row from the south.
        """
        if blocks is not None and not (isinstance(blocks, Integral) and blocks >= 1):
            raise InputError(f"blocks must be a whole number of at least 1; got {blocks!r:.60}.")
        lattice = Lattice.even(self.grid, max(self.grid.shape) if blocks is None else blocks)
        if lattice.cells > MOST_BLOCKS:
            raise InputError(
                f"A table of {lattice.cells:,} cells is too long (at most {MOST_BLOCKS:,}); ask for blocks of cells, "
                "such as blocks=256."
            )
        south, west = (axis.ravel() for axis in np.meshgrid(lattice.north[:-1], lattice.east[:-1], indexing="ij"))
        north, east = (axis.ravel() for axis in np.meshgrid(lattice.north[1:], lattice.east[1:], indexing="ij"))
        rectangles = np.stack([west, south, east, north], axis=1)
        return self.counts(Snapped.of(rectangles, self.grid), confidence=confidence)

    @property
    def note(self) -> str:
        """What readers must know about the map as a whole; empty for most maps."""
        if self.provenance.mechanism == "uniform" or (
            self.uncertainty is not None and self.uncertainty.lattice is None
        ):
            return (
                "The trips were only counted and are spread evenly: there were too few for this epsilon to show where "
                "they went."
            )
        return ""

    @property
    def delta_note(self) -> str:
        """A warning if delta is above 1 / (100 trips); empty otherwise."""
        delta, trips = self.provenance.delta, self.trips.value
        if float(delta) * 100 * trips <= 1:
            return ""
        return (
            f"Delta = {spell_delta(delta)} is large for about {trips:,.0f} trips: it should be at most 1 divided "
            "by 100 times their number."
        )
