"""Frames and series of GeoPandas: their CRS, and the same frames with answers."""

from __future__ import annotations

import warnings
from typing import Any

from dqam.geometry.areas import PlacedShapes
from dqam.geometry.grid import Grid, is_degrees
from dqam.geometry.rectangles import Snapped
from dqam.release.answers import Answers

CALLER = 3  # the stack level of who asks a release, which asks the functions here


def declared_crs(table: Any, grid: Grid) -> str | None:
    """The CRS of a GeoDataFrame or GeoSeries; None for other things.

    If it declares none, this is the CRS of the map. If the map is not in degrees, a warning says so: other coordinates
    than degrees would be refused on a map in degrees, but not the other way round.
    """
    if not hasattr(table, "crs"):
        return None
    if table.crs is not None:
        return str(table.crs.to_string())
    if not is_degrees(grid.crs):
        warnings.warn(
            f"The geometries declare no CRS and are taken to be in that of the map, {grid.crs}; set it with "
            "set_crs, or give it as crs='EPSG:4326'.",
            UserWarning,
            stacklevel=CALLER,
        )
    return grid.crs


def is_frame(table: Any) -> bool:
    """Whether this is a GeoDataFrame."""
    return hasattr(table, "geometry") and hasattr(table, "columns")


def with_answers(table: Any, answers: Answers, column: str) -> Any:
    """A copy of a GeoDataFrame with the answers; warnings say what was repaired or cut off, or has none."""
    warn_of_changes(answers.asked, "area" if answers.counted == "trips" else "line", CALLER + 1)
    return table.assign(**{column: answers.value, "low": answers.low, "high": answers.high})


def warn_of_changes(asked: Snapped | PlacedShapes, what: str, caller: int = CALLER) -> None:
    """Warn of what was repaired, was cut off, or is outside the map."""
    assert isinstance(asked, PlacedShapes)  # as geometries are
    for mask, of_one, of_several in (
        (asked.repaired, "crossed itself and was repaired", "crossed themselves and were repaired"),
        (asked.cut & ~asked.outside, "was clipped to the bounds of the map", "were clipped to the bounds of the map"),
        (asked.outside, "is outside the map and has no answer (NaN)", "are outside the map and have no answer (NaN)"),
    ):
        if count := int(mask.sum()):
            things = f"{count:,} of {len(asked):,} {what}{'' if len(asked) == 1 else 's'}"
            warnings.warn(f"{things} {of_one if count == 1 else of_several}.", UserWarning, stacklevel=caller)
