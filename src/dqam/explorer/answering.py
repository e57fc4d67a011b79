"""What the API returns about a release: its description, and its answers by their names in the API."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import pyproj

from dqam.errors import InputError
from dqam.explorer.geojson import null_for_nan
from dqam.explorer.layer import in_degrees
from dqam.explorer.schema import CRS_PATTERN
from dqam.geometry.grid import DEGREES, Grid, is_degrees
from dqam.release.answers import Answer, Answers
from dqam.release.release import Release

T = TypeVar("T")


def ask_rectangles(release: Release, rectangles: Sequence[Sequence[float]], crs: str, confidence: float) -> Answers:
    """The answers of a release, or an `InputError` that says where the map is."""
    return ask_release(release.counts, release.grid, rectangles, crs, confidence)


def ask_release(ask: Callable[..., T], grid: Grid, asked: Any, crs: str, confidence: float) -> T:
    """What `ask`, such as a method of a release with this grid, answers, likewise."""
    if not re.fullmatch(CRS_PATTERN, crs):  # other ways to write a CRS can name files
        raise InputError(
            f"{crs[:40]!r} is not the code of a coordinate reference system; give one such as {DEGREES!r}."
        )
    try:
        with np.errstate(invalid="ignore", over="ignore"):
            return ask(asked, crs=grid.crs if crs == "grid" else crs, confidence=confidence)
    except pyproj.exceptions.ProjError:
        raise InputError(f"Coordinates in {crs} cannot be converted to those of the map; use {DEGREES}.") from None
    except InputError as error:
        if is_degrees(grid.crs) or crs == "grid":
            raise
        west, south, east, north = in_degrees(np.array([grid.bounds]), grid)[0]
        raise InputError(f"{error} In degrees, the map covers {west:.6f} {south:.6f} {east:.6f} {north:.6f}.") from None


def columns(release: Release, answers: Answers) -> dict[str, list[Any]]:
    """Answers as lists, by the names in the API."""
    bounds, cells = answers.rectangles.bounds, answers.rectangles.cells
    sides = cells[:, 2:] - cells[:, :2]
    return {
        "value": answers.value.tolist(),
        "low": null_for_nan(answers.low.tolist()),
        "high": null_for_nan(answers.high.tolist()),
        "bounds": in_degrees(bounds, release.grid).tolist(),
        "grid_bounds": bounds.tolist(),
        "cells": sides.tolist(),
        "metres": [null_for_nan(row) for row in (sides * release.grid.cell_metres).tolist()],
        "grown": answers.rectangles.grown.tolist(),
        "cut": answers.rectangles.cut.tolist(),
    }


def estimate(answer: Answer) -> dict[str, float | None]:
    """An answer by the names in the API."""
    return dict(zip(("value", "low", "high"), null_for_nan(list(answer)), strict=True))


def release_info(n: int, name: str, release: Release) -> dict[str, Any]:
    """What the list of releases says about one."""
    provenance, grid = release.provenance, release.grid
    west, south, east, north = degrees = in_degrees(np.array([grid.bounds]), grid)[0].tolist()
    return {
        "n": n,
        "name": name,
        **{name: getattr(provenance, name) for name in ("title", "promise", "private", "mechanism", "queries", "gap")},
        "epsilon": float(provenance.epsilon),
        "delta": float(provenance.delta) or None,
        "unit": {"name": provenance.unit.name, "max_trips": provenance.unit.max_trips},
        "counted": provenance.counted or "all trips",
        "scaled_up": provenance.scaled_up_to > 0,
        "compared_as": provenance.compared_as,
        "created": provenance.created,
        "id": provenance.id,
        "grid": {
            "bounds": list(grid.bounds),
            "crs": grid.crs,
            "rows": grid.rows,
            "columns": grid.columns,
            "degrees": degrees,
            "cell_degrees": [(east - west) / grid.columns, (north - south) / grid.rows],
            "cell_metres": list(grid.cell_metres),
        },
        "trips": estimate(release.trips),
        "slices": list(release.slices),
        "sliced_by": provenance.slices,
        "timezone": provenance.timezone,
    }
