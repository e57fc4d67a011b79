"""The numbers of a release, packed into text for a page that answers without a server.

Nothing is rounded, so that the page gives the answers of the library. Visits of cells follow from endpoints and edges,
up to a few units in the last place; these are stored instead of the visits, because they take less space. So do whole
numbers: they stand for floats that are all multiples of a power of 2, as those of flux are.
"""

from __future__ import annotations

import base64
import zlib
from statistics import NormalDist
from typing import Any

import numpy as np

from dqam.errors import InputError
from dqam.explorer.facts import release_info
from dqam.explorer.layer import is_turned
from dqam.geometry.arrays import Integers, Numbers
from dqam.geometry.flow_table import FlowTable
from dqam.geometry.grid import is_degrees, parse_crs
from dqam.geometry.histogram import SpatialHistogram, TwoScaleHistogram
from dqam.geometry.lattice import Lattice
from dqam.geometry.sliced_histogram import SlicedHistogram
from dqam.release.published_map import CONFIDENCE
from dqam.release.release import Release

MOST_CELLS = 1 << 20  # of a grid: the file of a larger one could be too large for a browser
EXACT = 53  # binary digits of a float
SMALLEST = -1000  # exponent of a unit whose inverse is a float


def pack(release: Release, name: str) -> dict[str, Any]:
    """A release as plain values for JSON; the numbers are in one text."""
    grid, histogram, uncertainty, noise = release.grid, release.histogram, release.uncertainty, release.share_noise
    if grid.rows * grid.columns > MOST_CELLS:
        raise InputError(
            f"A page can hold at most {MOST_CELLS:,} cells; this map has {grid.rows:,} x {grid.columns:,}. "
            "Show it with dqam serve."
        )
    sliced = histogram if isinstance(histogram, SlicedHistogram) else None
    if sliced is not None and not sliced.complete:
        raise InputError("A page contains all slices; leave out the selection of slices.")
    whole = histogram if sliced is None else sliced.whole
    histograms = {"small": whole, **({"large": whole.large} if isinstance(whole, TwoScaleHistogram) else {})}
    arrays: dict[str, Numbers] = {}
    for scale, one in histograms.items():
        arrays |= {f"{scale}_{part}": numbers for part, numbers in _parts(one).items()}
    lattice = coarse = None
    if uncertainty is not None and uncertainty.lattice is not None and uncertainty.displacements is not None:
        arrays["displacements"] = uncertainty.displacements
        lattice = {**_lines(uncertainty.lattice), "times": len(uncertainty.displacements)}
    if sliced is not None:
        patterns = sliced.patterns
        arrays |= {"mixture": patterns.mixture, "slice_endpoints": patterns.endpoints}
        arrays["slice_crossings"] = patterns.crossings
        coarse = _lines(patterns.lattice)
        if noise is not None:
            if noise.lattice != patterns.lattice:
                raise InputError(
                    "The noise and the shares of the slices are on different lattices; save and reopen it."
                )
            arrays |= {"moved": noise.moved, "weight": noise.weight}
    flows = None
    if release.flow_table is not None:
        flows, of_flows = _flows(release.flow_table)
        arrays |= of_flows
    return {
        **_place(release, name),
        "confidence": CONFIDENCE,
        "wide": -NormalDist().inv_cdf((1 - CONFIDENCE) / 2),
        "totals": {scale: float(SpatialHistogram.total.fget(one)) for scale, one in histograms.items()},  # type: ignore[attr-defined]
        "scales": {"side": whole.side, "offset": whole.offset} if isinstance(whole, TwoScaleHistogram) else None,
        "uncertainty": None if uncertainty is None else uncertainty.numbers,
        "uncertain_slices": uncertainty is not None and isinstance(uncertainty.histogram, SlicedHistogram),
        "lattice": lattice,
        "slice_lattice": coarse,
        "share_noise": None if noise is None else noise.sizes,
        "flows": flows,
        "arrays": [[key, numbers.size, _unit(numbers)] for key, numbers in arrays.items()],
        "numbers": _packed(list(arrays.values())),
    }


def _place(release: Release, name: str) -> dict[str, Any]:
    """What the page must know about a release and its coordinates: degrees, or those of the CRS of its map."""
    grid, info = release.grid, release_info(0, name, release)
    planar = None
    if is_turned(grid):
        west, south, east, north = grid.bounds
        cell = [(east - west) / grid.columns, (north - south) / grid.rows]
        info["grid"] |= {"degrees": list(grid.bounds), "cell_degrees": cell}
        axis = parse_crs(grid.crs).axis_info[0]
        planar = {
            "crs": grid.crs,
            "bounds": list(grid.bounds),
            "geographic": is_degrees(grid.crs),
            "unit": axis.unit_name,
        }
    return {"info": info, "degrees": is_degrees(grid.crs), "planar": planar}


def _lines(lattice: Lattice) -> dict[str, list[int]]:
    return {"east": lattice.east.tolist(), "north": lattice.north.tolist()}


def _flows(table: FlowTable) -> tuple[dict[str, Any], dict[str, Numbers]]:
    """The lattices of a table of flows, and its numbers."""
    arrays: dict[str, Numbers] = {"flow_trips": table.trips, "flow_variance": table.variance}
    for name, ends in (("origins", table.origins), ("destinations", table.destinations)):
        arrays |= {f"flow_{name}_shares": ends.shares, f"flow_{name}_variance": ends.variance}
    slices = table.by_slice
    if slices is not None:
        arrays |= {"flow_slice_shares": slices.shares, "flow_slice_noise": slices.noise}
    return {
        "tiles": _lines(table.tiles),
        "cells": _lines(table.cells),
        "alike": float(table.alike),
        "slices": None if slices is None else _lines(slices.tiles),
    }, arrays


def _parts(histogram: SpatialHistogram) -> dict[str, Numbers]:
    """Endpoints, edges, and by how many units in the last place faces differ from those that follow from them."""
    vertical, horizontal = histogram.vertical.astype(np.float64), histogram.horizontal.astype(np.float64)
    endpoints = histogram.endpoints.astype(np.float64)
    followed = SpatialHistogram.from_flux(histogram.grid, endpoints, vertical, horizontal).faces
    steps = _bits(histogram.faces) - _bits(followed)
    return {"endpoints": endpoints, "vertical": vertical, "horizontal": horizontal, "steps": steps}


def _bits(numbers: Numbers) -> Integers:
    """Float64 as whole numbers that rise by 1 from one to the next."""
    return np.ascontiguousarray(numbers, "<f8").view("<i8")


def _unit(numbers: Numbers) -> int | None:
    """The largest power of 2 of which all these floats are multiples, as an exponent; None if they are stored as they
    are, because they are whole numbers already or their multiples would be too large."""
    if numbers.dtype.kind == "i" or (np.signbit(numbers) & (numbers == 0)).any():
        return None
    share, exponent = np.frexp(numbers[numbers != 0])
    whole = (share * 2.0**EXACT).astype(np.int64)
    last = np.frexp((whole & -whole).astype(np.float64))[1] - 1  # zeros at the end
    unit = int((exponent - EXACT + last).min(initial=0))
    return unit if unit >= SMALLEST and np.abs(numbers).max(initial=0) < 2.0 ** (EXACT + unit) else None


def _packed(arrays: list[Numbers]) -> str:
    """All numbers, 8 bytes each, with bytes of the same place next to each other; compressed, in base64."""
    press = zlib.compressobj(9, zlib.DEFLATED, -15)

    def stored(one: Numbers) -> Numbers:
        unit = _unit(one)
        return (
            one.astype("<i8" if one.dtype.kind == "i" else "<f8") if unit is None else (one * 2.0**-unit).astype("<i8")
        )

    planes = (np.ascontiguousarray(stored(one)).view(np.uint8).reshape(-1, 8).T for one in arrays)
    body = b"".join(press.compress(plane.tobytes()) for plane in planes) + press.flush()
    return base64.b64encode(body).decode()
