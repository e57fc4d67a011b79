"""A release: the histogram that was published, what was promised with it, and how far its answers may be off.

All in it was charged or public from the start, so that everything one can do with a release is safe.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from dqam.errors import InputError
from dqam.geometry.arrays import Floats
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.lattice import Lattice
from dqam.geometry.rectangles import Snapped, snap
from dqam.mechanisms.uncertainty import Doubt
from dqam.values.guarantee import LedgerEntry, Neighbours, Unit, spell

if TYPE_CHECKING:
    import geopandas
    import xarray


CONFIDENCE = 0.9
FINEST = 10**400  # denominator that epsilons may add up to
CODE = re.compile(r"(EPSG|ESRI|OGC):\w{1,20}", re.ASCII)
MOST_BLOCKS = 1 << 20  # that a table of cells may have


@dataclass(frozen=True)
class Answer:
    """The estimated number of distinct trips through a rectangle, and from where to where the true one may be.

    low and high are NaN where the mechanism cannot tell.
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        """For people: whole trips.

        >>> print(Answer(1234.5, 1100.2, 1400.9))
        1,234 (1,100 to 1,401)
        """
        if np.isnan(self.low):
            return f"{self.value:,.0f}"
        return f"{self.value:,.0f} ({self.low:,.0f} to {self.high:,.0f})"


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers to many rectangles: float64[m] each, and the rectangles of whole cells that were really answered."""

    value: Floats
    low: Floats
    high: Floats
    rectangles: Snapped

    def __len__(self) -> int:
        return len(self.value)

    def __getitem__(self, i: int) -> Answer:
        return Answer(float(self.value[i]), float(self.low[i]), float(self.high[i]))


@dataclass(frozen=True)
class Provenance:
    """How a release came about: all that must be known to rely on it.

    id          of the publication, at random
    created     when, in UTC
    parameters  of the mechanism
    epsilon     that was paid; the entries of the ledger add up to it
    queries     in words: what the mechanism was to be good at
    gap         the silence of the GPS at which trips were cut, in words; empty for none
    salt        by which the trips of a person were chosen; empty where the unit is a trip
    row_is_trip whether every row was a trip of its own, because trips had no ids
    private     whether the noise was that of a release; False for noise from a seed
    versions    of dqam and of the libraries that the numbers come from
    """

    id: str
    title: str
    created: str
    mechanism: str
    parameters: dict[str, Any]
    epsilon: Fraction
    unit: Unit
    queries: str
    gap: str
    salt: str
    row_is_trip: bool
    ledger: tuple[LedgerEntry, ...]
    private: bool
    versions: dict[str, str]
    neighbours: Neighbours = Neighbours.ADD_OR_REMOVE_ONE_UNIT

    def __post_init__(self) -> None:
        paid = Fraction(0)
        for entry in self.ledger:
            paid += entry.epsilon
            if paid.denominator > FINEST:
                raise InputError("The entries of the ledger are too odd fractions to be added up.")
        if paid != self.epsilon:
            raise InputError(f"The entries of the ledger add up to {paid}, and the release says {self.epsilon}.")

    @property
    def promise(self) -> str:
        """What holds, in one sentence."""
        if not self.private:
            return "NOT PRIVATE: made with noise from a seed, for tests and experiments."
        trip = "one row, which is a trip" if self.row_is_trip else "one trip"
        whose = trip if self.unit.name == "trip" else f"one person (at most {self.unit.max_trips} trips)"
        return f"Differentially private for {whose}, epsilon = {spell(self.epsilon)}."

    @property
    def counted(self) -> str:
        """What of the trips is counted, where that is not all: for whoever reads the numbers."""
        return "" if self.unit.name == "trip" else f"of trips kept, at most {self.unit.max_trips} of each person"


@dataclass(frozen=True, eq=False)
class Release:
    """A published map of trips: ask it for the distinct trips through any rectangle.

    >>> import dqam
    >>> from dqam.cities import BOUNDS, city_trips
    >>> grid = dqam.Grid.over(BOUNDS, resolution=6)
    >>> release = dqam.publish(next(city_trips(1_000, seed=0)), grid, epsilon=1, dataset="another example")
    >>> answer = release.count(-30.02, 44.98, -29.98, 45.02)
    >>> 0 <= answer.low <= answer.value <= answer.high
    True
    >>> wide, narrow = (release.count(-30.02, 44.98, -29.98, 45.02, confidence=sure) for sure in (0.9, 0.5))
    >>> wide.high - wide.low > narrow.high - narrow.low
    True
    >>> found = release.counts([(-30.02, 44.98, -29.98, 45.02), (-30.03, 44.97, -29.97, 45.03)])
    >>> bool(found.value[0] <= found.value[1])  # a larger rectangle never has fewer
    True
    """

    histogram: SpatialHistogram
    provenance: Provenance
    doubt: Doubt | None = None

    @property
    def grid(self) -> Grid:
        """Where the map is."""
        return self.histogram.grid

    @property
    def trips(self) -> Answer:
        """All distinct trips on the map."""
        rows, columns = self.grid.shape
        return self.counts(Snapped.of(np.array([[0, 0, columns, rows]]), self.grid))[0]

    def count(
        self,
        west: float,
        south: float,
        east: float,
        north: float,
        *,
        crs: str | None = None,
        confidence: float = CONFIDENCE,
    ) -> Answer:
        """The distinct trips through a rectangle, in the CRS of the map if none is given.

        Sides between grid lines move outward to the next one; what lies outside the map is cut off.
        """
        return self.counts([(west, south, east, north)], crs=crs, confidence=confidence)[0]

    def counts(
        self,
        rectangles: ArrayLike | Snapped | Sequence[Sequence[float]],
        *,
        crs: str | None = None,
        confidence: float = CONFIDENCE,
    ) -> Answers:
        """The same for many rectangles at once: an array of shape (m, 4), west, south, east, north.

        For the areas of a GeoDataFrame: `release.counts(areas.bounds.to_numpy(), crs=areas.crs.to_string())`.
        """
        if not isinstance(rectangles, Snapped):
            rectangles = snap(_sides(rectangles), self.grid, crs)
        if not 0 < confidence < 1:
            raise InputError(f"A confidence is between 0 and 1, such as 0.9; got {confidence}.")
        cells = rectangles.cells
        value = np.clip(self.histogram.answers(cells), 0, max(float(self.histogram.total), 0.0))
        low, high = np.full((2, len(value)), np.nan)
        if self.doubt is not None:
            low, high = self.doubt.intervals(cells, confidence)
        return Answers(value, low, high, rectangles)

    def blocks(self, side: int | None = None, confidence: float = CONFIDENCE) -> Answers:
        """The answers of all cells or, with `side`, of about that many blocks of cells along the longer side.

        From west to east, row by row from the south.
        """
        lattice = Lattice.even(self.grid, max(self.grid.shape) if side is None else side)
        if lattice.cells > MOST_BLOCKS:
            raise InputError(
                f"A table of {lattice.cells:,} cells is too long ({MOST_BLOCKS:,} at most); "
                f"ask for blocks of cells, such as 256 along a side."
            )
        south, west = (axis.ravel() for axis in np.meshgrid(lattice.north[:-1], lattice.east[:-1], indexing="ij"))
        north, east = (axis.ravel() for axis in np.meshgrid(lattice.north[1:], lattice.east[1:], indexing="ij"))
        cells = np.stack([west, south, east, north], axis=1)
        return self.counts(Snapped.of(cells, self.grid), confidence=confidence)

    @property
    def note(self) -> str:
        """What must be known of the map as a whole; empty for most."""
        if self.provenance.mechanism == "uniform" or (self.doubt is not None and self.doubt.lattice is None):
            return "Trips were only counted and are spread evenly: there were too few, for this epsilon, to see where."
        return ""

    def to_xarray(self) -> xarray.Dataset:
        """Faces, edges and all that is known of them, as it is saved, by CF conventions."""
        from dqam.release.file import to_dataset

        return to_dataset(self)

    def to_geodataframe(self, side: int | None = None) -> geopandas.GeoDataFrame:
        """A row for each cell, or block of cells (see `blocks`): geometry, trips, low and high; 90 % intervals.

        Rows do not add up: a trip through two cells counts in both. `trips` is named `trips_not_private` where the
        noise came from a seed.
        """
        from dqam.release.export import to_geodataframe

        return to_geodataframe(self, side)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write one NetCDF-4 file, for `dqam.open`; it appears whole or not at all, and replaces none by chance."""
        from dqam.release.file import save

        save(self, path, overwrite)

    def report(self) -> str:
        """One HTML page that explains the release, as a text to write to a file."""
        from dqam.release.report import report

        return report(self)

    def __repr__(self) -> str:
        return (
            f"<Release {self.provenance.title!r}, {self.provenance.mechanism}: {self.provenance.promise} {self.grid}>"
        )


def check_crs(crs: str) -> None:
    """Only codes of authorities go into a release: other ways to write a CRS can name files of whoever opens it."""
    if not isinstance(crs, str) or not CODE.fullmatch(crs):
        raise InputError(f"The CRS of a release is a code such as EPSG:28355; got {str(crs)[:60]!r}.")


def _sides(rectangles: Any) -> Floats:
    """Four numbers for each rectangle, or an `InputError`."""
    try:
        sides = np.asarray(rectangles, np.float64)
    except (TypeError, ValueError):
        sides = np.zeros(0)
    if sides.ndim != 2 or sides.shape[1] != 4:
        raise InputError("Rectangles are rows of four numbers: west, south, east, north.")
    return sides
