"""Differences between two releases: how many more trips one has in an area than the other, with confidence intervals.

The noise of two publications is independent, so variances add up. Errors that both have in common, such as those of the
histogram's model or of a public prior, move both answers in the same direction, so an interval may be wider than
necessary.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import shapely

from dqam.errors import InputError
from dqam.geometry.areas import PlacedAreas, on_map, place_areas
from dqam.geometry.arrays import Floats, Integers
from dqam.geometry.rectangles import HEADER, Snapped, as_rectangles, snap
from dqam.release.answers import Answer, Answers, named
from dqam.release.published_map import PublishedMap, check_confidence, geometries

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, repr=False)
class Difference:
    """The trips through an area in one release minus those in another, with a confidence interval.

    low, high      ends of the interval; NaN if one of the mechanisms gives none
    first, second  the answers of both releases
    promises       the titles of both releases, with their guarantees

    >>> answers = Answer(1234.5, 1100.2, 1400.9), Answer(1000.0, 900.0, 1100.0)
    >>> print(Difference(234.5, 40.1, 428.9, *answers, ("April: ...", "March: ...")))
    +234 (+40 to +429)
    """

    value: float
    low: float
    high: float
    first: Answer
    second: Answer
    promises: tuple[str, str]

    def __float__(self) -> float:
        return self.value

    def __iter__(self) -> Iterator[float]:
        """Value, low and high."""
        return iter((self.value, self.low, self.high))

    def __str__(self) -> str:
        """The difference in whole trips, for people to read."""
        if np.isnan(self.low):
            return _signed(self.value)
        return f"{_signed(self.value)} ({_signed(self.low)} to {_signed(self.high)})"

    def __repr__(self) -> str:
        return f"<Difference: {self}, which is {self.first} minus {self.second}. {_in_words(self.promises)}>"


@dataclass(frozen=True, eq=False)
class Differences:
    """Differences of the answers to many areas, float64[m] each.

    first, second  the answers of both releases
    promises       the titles of both releases, with their guarantees
    areas          the first columns of a table: the sides of rectangles, or the names of areas
    column         the name of the values in a table, which says so if they are not private
    """

    value: Floats
    low: Floats
    high: Floats
    first: Answers
    second: Answers
    promises: tuple[str, str]
    areas: dict[str, Any]
    column: str = "difference"

    def __len__(self) -> int:
        return len(self.value)

    def __getitem__(self, i: int) -> Difference:
        i = operator.index(i)
        value, low, high = (float(each[i]) for each in (self.value, self.low, self.high))
        return Difference(value, low, high, self.first[i], self.second[i], self.promises)

    def __repr__(self) -> str:
        shown = ", ".join(str(self[i]) for i in range(min(3, len(self))))
        areas = f"{len(self):,} area{'' if len(self) == 1 else 's'}"
        listed = f"{': ' if len(self) else ''}{shown}{', ...' if len(self) > 3 else ''}"
        return f"<Differences of {areas}{listed}. {_in_words(self.promises)}>"

    @property
    def columns(self) -> dict[str, Floats]:
        """The columns of a table: trips of the first release, of the other, and their difference with its interval."""
        both = {self.first.column: self.first.value, f"{self.second.column}_of_other": self.second.value}
        return {**both, self.column: self.value, "low": self.low, "high": self.high}

    def to_frame(self) -> pandas.DataFrame:
        """A table with a row for each area: its sides as asked, or its name; trips, trips_of_other, difference, low,
        high, and whether it was grown, cut or repaired. `attrs["promises"]` has both guarantees."""
        import pandas

        frame = pandas.DataFrame({**self.areas, **self.columns, **self.first.flags})
        frame.attrs["promises"] = self.promises
        return frame


def differences(
    release: PublishedMap,
    other: PublishedMap,
    areas: Any,
    crs: str | None,
    confidence: float,
    slices: str | Sequence[str] | None,
) -> Differences:
    """The answers of a release minus those of another."""
    check_confidence(confidence)
    check_comparable(release, other)
    if slices is not None:
        rules = [(each.provenance.slices, each.provenance.timezone) for each in (release, other)]
        if rules[0] != rules[1]:
            told = (" in ".join(filter(None, rule)) or "none" for rule in rules)
            raise InputError(f"The slices of the two releases differ: {next(told)} and {next(told)}; leave out slices.")
        release, other = release.select(slices), other.select(slices)
    asked = _placed(areas, release, other, crs)
    first, second = release.counts(asked[0], confidence=confidence), other.counts(asked[1], confidence=confidence)
    off = np.hypot(release.deviations(asked[0]), other.deviations(asked[1]))
    value, reach = first.value - second.value, NormalDist().inv_cdf(0.5 + confidence / 2) * off
    return Differences(
        value,
        np.maximum(value - reach, first.low - second.high),  # an answer that is cut at 0 makes the reach too long
        np.minimum(value + reach, first.high - second.low),
        first,
        second,
        (_promise(release), _promise(other)),
        named(asked[0]) if geometries(areas) else dict(zip(HEADER, as_rectangles(areas).T, strict=True)),
        "difference" if release.provenance.private and other.provenance.private else "difference_not_private",
    )


def check_comparable(release: PublishedMap, other: PublishedMap) -> None:
    """Check that the numbers of two releases count the same, and that their noise is independent."""
    if not isinstance(other, PublishedMap):
        raise InputError(f"The other release must be a Release; got {other!r:.60}.")
    one, two = release.provenance, other.provenance
    if one.id == two.id:
        raise InputError(
            "Both releases are from the same publication, so their noise is not independent. Subtract the answers, "
            "a.count(area) - b.count(area), for an interval that is valid all the same."
        )
    if one.compared_as != two.compared_as:
        counts = [f"trips {each.counted}" if each.counted else "all trips" for each in (one, two)]
        raise InputError(
            f"{one.title!r:.60} counts {counts[0]}, and {two.title!r:.60} counts {counts[1]}. Such numbers cannot be "
            "compared."
        )


def _placed(
    areas: Any, release: PublishedMap, other: PublishedMap, crs: str | None
) -> tuple[Snapped | PlacedAreas, Snapped | PlacedAreas]:
    """The same areas on the grids of both releases.

    On different grids, sides of rectangles would move outward to different lines, and different parts would be cut off.
    So rectangles stay as they are there, and only what is on both maps is asked.
    """
    grid, second = release.grid, other.grid
    shapes = geometries(areas)
    if grid == second:
        asked = snap(as_rectangles(areas), grid, crs) if shapes is None else place_areas(shapes, grid, crs)
        return asked, asked
    crs = crs or grid.crs
    if shapes is None:
        snap(areas, grid, crs)  # refuses invalid rectangles
        shapes = list(shapely.box(*as_rectangles(areas).T))
    here, there = place_areas(shapes, grid, crs), place_areas(shapes, second, crs)
    cut, repaired = here.cut | there.cut, here.repaired | there.repaired
    missing = here.outside | there.outside
    rows = np.flatnonzero(cut & ~missing)
    if len(rows):
        part = place_areas(on_map(here.shapes[rows], grid), second, grid.crs)
        missing[rows[part.outside]], rows = True, rows[~part.outside]
        part_of_both = on_map(part.shapes[~part.outside], second)
        for each, on in ((here, grid), (there, second)):
            _put(each, rows, place_areas(part_of_both, on, second.crs))
    boxes = here.is_rectangle & there.is_rectangle & ~here.grown & ~there.grown & ~missing
    for each in (here, there):
        each.shapes[missing], each.rectangles[missing] = None, 0
    changed: Any = {"is_rectangle": boxes, "grown": np.zeros_like(boxes), "cut": cut, "repaired": repaired}
    return replace(here, **changed), replace(there, **changed)


def _put(placed: PlacedAreas, rows: Integers, part: PlacedAreas) -> None:
    """Put areas in place of some others."""
    for name in ("shapes", "rectangles", "is_rectangle", "grown"):
        getattr(placed, name)[rows] = getattr(part, name)


def _promise(release: PublishedMap) -> str:
    return f"{release.provenance.title}: {release.provenance.promise}"


def _in_words(promises: tuple[str, str]) -> str:
    return "Each release has its own guarantee. " + " ".join(promises)


def _signed(number: float) -> str:
    """A number of trips with its sign; 0 has none.

    >>> _signed(1234.5), _signed(-0.2), _signed(-3)
    ('+1,234', '0', '-3')
    """
    return f"{number:+,.0f}" if np.isnan(number) or round(number) else "0"
