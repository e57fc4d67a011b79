"""The part of a release that answers queries: a histogram with its provenance and uncertainty."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dqam.errors import InputError
from dqam.geometry.areas import PlacedAreas, PlacedLines, PlacedShapes, is_geometry, place_areas, place_lines
from dqam.geometry.arrays import Floats, Integers
from dqam.geometry.flow_table import FlowTable
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.lattice import Lattice
from dqam.geometry.rectangles import Snapped, as_rectangles, snap
from dqam.geometry.sliced_histogram import SlicedHistogram
from dqam.release.answers import Answer, Answers
from dqam.release.frames import declared_crs, is_frame, with_answers
from dqam.release.provenance import Provenance
from dqam.values.guarantee import spell_delta
from dqam.values.slice_uncertainty import ShareNoise, SliceUncertainty, rectangles_around
from dqam.values.uncertainty import Uncertainty

if TYPE_CHECKING:
    import pandas

CONFIDENCE = 0.9
MOST_BLOCKS = 1 << 20  # that a table of cells may have
NO_SLICES = "This release has no slices; publish with by='hour' or another rule to have them."


@dataclass(frozen=True, eq=False)
class PublishedMap:
    """The histogram that was published, with its provenance and uncertainty: what `Release` answers from."""

    histogram: SpatialHistogram
    provenance: Provenance
    uncertainty: Uncertainty | None = None
    share_noise: ShareNoise | None = None
    flow_table: FlowTable | None = None

    @property
    def grid(self) -> Grid:
        """The grid of the map."""
        return self.histogram.grid

    @property
    def slices(self) -> tuple[str, ...]:
        """The names of the slices that are counted, in order, such as "00" to "23" for hours; none if the release has
        no slices."""
        return self.histogram.names if isinstance(self.histogram, SlicedHistogram) else ()

    def select(self, slices: str | Sequence[str]) -> Self:
        """The map of some slices together, to be asked like any other.

        Slices have no trip in common, so their answers add up exactly. Single slices have the detail of the whole map,
        shared out; their answers can shrink slightly when a rectangle grows, unlike those of the whole map.
        """
        names = [slices] if isinstance(slices, str) else list(slices)
        if not isinstance(self.histogram, SlicedHistogram):
            raise InputError(NO_SLICES)
        if not names:
            raise InputError(f"Name at least one slice of {_listed(self.slices)}.")
        for name in names:
            if name not in self.slices:
                raise InputError(f"There is no slice {name!r:.60}; the slices are {_listed(self.slices)}.")
            if names.count(name) > 1:
                raise InputError(f"The slice {name!r} is named more than once; name it once.")
        if len(names) == len(self.slices):
            return self
        histogram, uncertainty = self.histogram.select(names), None
        if self.uncertainty is not None and self.share_noise is not None:
            uncertainty = SliceUncertainty.of(self.uncertainty, self.share_noise, histogram)
        table = self.flow_table
        if table is not None and table.by_slice is not None:
            table = table.by_slice.of(table, names)
        return replace(self, histogram=histogram, uncertainty=uncertainty, flow_table=table)

    @property
    def trips(self) -> Answer:
        """All distinct trips on the map."""
        rows, columns = self.grid.shape
        return self.counts(Snapped.of(np.array([[0, 0, columns, rows]]), self.grid))[0]

    def count(
        self,
        area: Any,
        south: float | None = None,
        east: float | None = None,
        north: float | None = None,
        *,
        crs: str | None = None,
        confidence: float = CONFIDENCE,
        slices: str | Sequence[str] | None = None,
    ) -> Answer:
        """The distinct trips through one area.

        The area is a rectangle (west, south, east and north, as four numbers or one tuple), or a polygon or
        multipolygon of shapely. It is in the CRS of the map unless `crs` says otherwise.

        What lies outside the map is cut off, and a border that crosses itself is repaired. The sides of a rectangle
        that lie between grid lines move outward to the next one. The answer says so (`grown`, `cut`, `repaired`). With
        `slices`, only the trips of these slices are counted.
        """
        if slices is not None:
            return self.select(slices).count(area, south, east, north, crs=crs, confidence=confidence)
        rest = [side for side in (south, east, north) if side is not None]
        if is_geometry(area) and not rest:
            return self.counts([area], crs=crs, confidence=confidence)[0]
        return self.counts(as_rectangles([(area, *rest) if rest else area]), crs=crs, confidence=confidence)[0]

    def counts(
        self,
        areas: Any,
        *,
        crs: str | None = None,
        confidence: float = CONFIDENCE,
        slices: str | Sequence[str] | None = None,
    ) -> Any:
        """The same for many areas at once: rows of west, south, east, north; a list of polygons; or a GeoSeries.

        For a GeoDataFrame, returns a copy of it with the columns trips (trips_not_private if the release is not
        private), low and high. Warnings say how many areas were repaired, were clipped, or lie outside the map; the
        `flags` of the answers to `areas.geometry` say which. A frame or series without a CRS is taken to be in that of
        the map.
        """
        if slices is not None:
            return self.select(slices).counts(areas, crs=crs, confidence=confidence)
        check_confidence(confidence)
        crs = crs or declared_crs(areas, self.grid)
        if is_frame(areas):
            answers = self.counts(areas.geometry, crs=crs, confidence=confidence)
            return with_answers(areas, answers, self.provenance.column(answers.counted))
        if not isinstance(areas, Snapped | PlacedAreas):
            shapes = geometries(areas)
            areas = snap(areas, self.grid, crs) if shapes is None else place_areas(shapes, self.grid, crs)
        return self._asked(areas, confidence)

    def profile(self, area: Any, *, crs: str | None = None, confidence: float = CONFIDENCE) -> pandas.DataFrame:
        """How the trips through an area, or the crossings of a line, are divided among the slices.

        One row for each slice, in order, with the columns trips (or crossings), low and high. Trips add up exactly to
        the answer for all slices.
        """
        import pandas

        if is_geometry(area):
            line = area.geom_type in ("LineString", "MultiLineString", "LinearRing")
            asked: Snapped | PlacedShapes = (place_lines if line else place_areas)([area], self.grid, crs)
        else:
            asked = snap(as_rectangles([area]), self.grid, crs)
        found = self.by_slice(asked, confidence)
        columns = {self.provenance.column(found[0].counted): [each.value[0] for each in found]}
        columns |= {"low": [each.low[0] for each in found], "high": [each.high[0] for each in found]}
        return pandas.DataFrame(columns, pandas.Index(self.slices, name="slice"))

    def values_by_slice(self, asked: Snapped | PlacedShapes) -> Floats:
        """float64[slices, m]: the answers for each slice, without intervals; they add up exactly to those for all."""
        if not isinstance(self.histogram, SlicedHistogram):
            return np.zeros((0, len(asked.cut)))
        return self.histogram.ask_each(_answer(asked), crossings=isinstance(asked, PlacedLines))

    def by_slice(self, asked: Snapped | PlacedShapes, confidence: float = CONFIDENCE) -> list[Answers]:
        """The answers for each slice, in order."""
        check_confidence(confidence)
        if not isinstance(self.histogram, SlicedHistogram):
            raise InputError(NO_SLICES)
        sliced, uncertainty, noise = self.histogram, self.uncertainty, self.share_noise
        values = self.values_by_slice(asked)
        if uncertainty is None or noise is None:
            return [self._answers(value, None, asked, confidence) for value in values]
        of_all = uncertainty.whole if isinstance(uncertainty, SliceUncertainty) else uncertainty
        assert of_all is not None
        whole, off = _answer(asked)(sliced.whole), _deviations(of_all, sliced.whole, asked)
        around = _rectangles(asked)
        return [
            self._answers(
                value, noise.deviations([place], around, whole, value, off, sliced.all_trips), asked, confidence
            )
            for place, value in zip(sliced.chosen, values, strict=True)
        ]

    def crossings(
        self,
        lines: Any,
        *,
        crs: str | None = None,
        confidence: float = CONFIDENCE,
        slices: str | Sequence[str] | None = None,
    ) -> Any:
        """How often trips cross a line, such as a bridge or a cordon: crossings, not distinct trips.

        A LineString or MultiLineString gives one `Answer`; a list or GeoSeries of them gives `Answers`; a GeoDataFrame
        gives a copy of it with the columns crossings (or crossings_not_private), low and high, and warnings as for
        `counts`.
        """
        if slices is not None:
            return self.select(slices).crossings(lines, crs=crs, confidence=confidence)
        check_confidence(confidence)
        if is_geometry(lines):
            return self.crossings([lines], crs=crs, confidence=confidence)[0]
        crs = crs or declared_crs(lines, self.grid)
        if is_frame(lines):
            answers = self.crossings(lines.geometry, crs=crs, confidence=confidence)
            return with_answers(lines, answers, self.provenance.column(answers.counted))
        if not isinstance(lines, PlacedLines):
            lines = place_lines(list(lines), self.grid, crs)
        return self._asked(lines, confidence)

    def _asked(self, asked: Snapped | PlacedShapes, confidence: float) -> Answers:
        """The answers to what was placed on the grid."""
        value = _answer(asked)(self.histogram)
        off = None if self.uncertainty is None else _deviations(self.uncertainty, self.histogram, asked)
        return self._answers(value, off, asked, confidence)

    def _answers(
        self, value: Floats, deviations: Floats | None, asked: Snapped | PlacedShapes, confidence: float
    ) -> Answers:
        """Answers with intervals, if the mechanism gives them."""
        low, high = np.full((2, len(value)), np.nan)
        endless = isinstance(asked, PlacedLines)  # a trip can cross a line any number of times
        if self.uncertainty is not None and deviations is not None:
            low, high = self.uncertainty.around(value, deviations, confidence, math.inf if endless else None)
        whole = not isinstance(self.histogram, SlicedHistogram)  # cutting would break sums of slices
        most = max(float(self.histogram.total), 0.0) if whole and not endless else math.inf
        column = self.provenance.column("crossings" if endless else "trips")
        return Answers(np.clip(value, 0, most), low, high, asked, column)

    def deviations(self, asked: Snapped | PlacedShapes) -> Floats:
        """float64[m]: the standard deviations of the answers; NaN if the mechanism gives no intervals."""
        if self.uncertainty is None:
            return np.full(len(asked.cut), np.nan)
        return _deviations(self.uncertainty, self.histogram, asked)

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
        return self.counts(Snapped.of(lattice.rectangles, self.grid), confidence=confidence)

    @property
    def note(self) -> str:
        """What readers must know about the map as a whole; empty for most maps."""
        if self.provenance.mechanism == "uniform" or (
            self.uncertainty is not None and self.uncertainty.lattice is None
        ):
            spread = "as in the prior, which is public" if self.provenance.prior else "evenly"
            return (
                f"The trips were only counted and are spread {spread}: there were too few for this epsilon to show "
                "where they went."
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


def _answer(asked: Snapped | PlacedShapes) -> Callable[[SpatialHistogram], Floats]:
    """How a histogram answers what was placed on its grid."""
    if isinstance(asked, Snapped):
        return lambda histogram: histogram.answers(asked.cells)
    from dqam.geometry.area_answers import answer_areas, answer_lines  # compiled code, which rectangles do not need

    if isinstance(asked, PlacedAreas):
        return lambda histogram: answer_areas(histogram, asked).value
    assert isinstance(asked, PlacedLines)
    return lambda histogram: answer_lines(histogram, asked).value


def _rectangles(asked: Snapped | PlacedShapes) -> Integers:
    """int64[m, 4]: what was asked, as rectangles of cells, or those around it."""
    if isinstance(asked, Snapped):
        return asked.cells
    return asked.rectangles if isinstance(asked, PlacedAreas) else rectangles_around(asked.shapes)


def _deviations(uncertainty: Uncertainty, histogram: SpatialHistogram, asked: Snapped | PlacedShapes) -> Floats:
    """The standard deviations of the answers."""
    if isinstance(asked, Snapped):
        return uncertainty.deviations(asked.cells)
    from dqam.geometry.area_answers import answer_areas, answer_lines

    if isinstance(asked, PlacedAreas):
        return uncertainty.area_deviations(asked, answer_areas(histogram, asked))
    assert isinstance(asked, PlacedLines)
    return uncertainty.line_deviations(asked, answer_lines(histogram, asked))


def _listed(names: Sequence[str]) -> str:
    """Names for an error, shortened if there are many."""
    return ", ".join(names if len(names) <= 8 else (*names[:3], "...", names[-1]))


def check_confidence(confidence: float) -> None:
    if not isinstance(confidence, Real) or not 0 < confidence < 1:
        raise InputError(f"confidence must be a number between 0 and 1, such as 0.9; got {confidence!r:.60}.")


def geometries(areas: Any) -> list[Any] | None:
    """The geometries of a list, an array or a GeoSeries; None if there are none in it."""
    if isinstance(areas, np.ndarray) and areas.dtype != np.object_:
        return None
    shapes = list(areas) if hasattr(areas, "__iter__") and not isinstance(areas, str) else []
    return shapes if any(map(is_geometry, shapes)) else None
