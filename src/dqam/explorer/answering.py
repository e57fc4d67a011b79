"""The answers of a release by their names in the API."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import pyproj

from dqam.errors import InputError
from dqam.explorer.facts import null_for_nan
from dqam.explorer.layer import in_degrees
from dqam.explorer.schema import CRS_PATTERN
from dqam.geometry.grid import DEGREES, Grid, is_degrees
from dqam.release.answers import Answers
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
