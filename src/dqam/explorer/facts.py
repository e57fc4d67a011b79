"""What the page and the API say about a release."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dqam.explorer.layer import in_degrees
from dqam.release.answers import Answer
from dqam.release.release import Release


def null_for_nan(numbers: list[float]) -> list[float | None]:
    """The numbers, with None for NaN and infinity, which JSON does not have."""
    return [number if math.isfinite(number) else None for number in numbers]


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
            "cell_metres": null_for_nan(list(grid.cell_metres)),
        },
        "trips": estimate(release.trips),
        "slices": list(release.slices),
        "sliced_by": provenance.slices,
        "timezone": provenance.timezone,
        "flows": release.flow_table is not None,
    }
