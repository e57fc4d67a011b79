"""Write the file of a release: NetCDF-4 with CF conventions, which QGIS, xarray and R open, and a checksum at the end.

The checksum, or seal, is a SHA-256 of everything before it, and is checked before anything else is read: a file that
was truncated, changed or saved by another program is refused. It is not a signature. HDF5 ignores bytes after its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from dqam.errors import InputError
from dqam.geometry.flow_table import FlowTable
from dqam.geometry.grid import is_degrees, parse_crs
from dqam.geometry.histogram import SpatialHistogram, TwoScaleHistogram
from dqam.geometry.sliced_histogram import SlicedHistogram
from dqam.release.provenance import Provenance
from dqam.release.published_map import PublishedMap
from dqam.runtime.files import write_whole

if TYPE_CHECKING:
    import xarray

SCHEMA = 3  # 2 without flows, 1 without slices either
SEAL = b"\ndqam release sha256 "
SEAL_SIZE = len(SEAL) + 64 + 1
UNITS = {"metre": "m", "US survey foot": "US_survey_foot", "foot": "foot"}  # what UDUNITS calls them
PACKED = ("trips", "vertical", "horizontal", "large_faces", "large_vertical", "large_horizontal")


def to_dataset(release: PublishedMap, by_slice: bool = False) -> xarray.Dataset:
    """All of a release as an xarray data set; `by_slice`, with the answers for the cells in each slice."""
    import xarray

    grid, histogram, uncertainty = release.grid, release.histogram, release.uncertainty
    degrees = is_degrees(grid.crs)
    x, y = ("lon", "lat") if degrees else ("x", "y")
    values: dict[str, Any] = {}
    for axis, low, high, cells in ((x, 0, 2, grid.columns), (y, 1, 3, grid.rows)):
        lines = np.linspace(grid.bounds[low], grid.bounds[high], cells + 1)
        values[axis] = axis, (lines[:-1] + lines[1:]) / 2, _axis(axis, grid.crs)
        values[f"{axis}_bnds"] = (axis, "bound"), np.stack([lines[:-1], lines[1:]], axis=1)
    provenance = release.provenance
    label = f", {provenance.counted}" if provenance.counted else ""
    if not provenance.private:
        label += ", NOT PRIVATE"
    about = {"units": "1", "grid_mapping": "crs"}
    values["trips"] = (
        (y, x),
        histogram.faces.astype(np.float64),
        {**about, "long_name": f"estimated number of distinct trips through the cell{label}"},
    )
    across = "estimated number of trips across each inner {} grid line, from cell to cell"
    inner = {"vertical": (y, f"{x}_inner"), "horizontal": (f"{y}_inner", x)}
    for name, dimensions in inner.items():
        values[name] = (
            dimensions,
            getattr(histogram, name).astype(np.float64),
            {"units": "1", "long_name": across.format(name)},
        )
    whole = histogram.whole if isinstance(histogram, SlicedHistogram) else histogram
    if isinstance(whole, TwoScaleHistogram):
        for part, dimensions in {"faces": (y, x), **inner}.items():
            words = "estimated visits of each cell" if part == "faces" else across.format(part)
            values[f"large_{part}"] = (
                dimensions,
                getattr(whole.large, part).astype(np.float64),
                {**(about if part == "faces" else {"units": "1"}), "long_name": f"{words}, for large rectangles"},
            )
    if uncertainty is not None and uncertainty.lattice is not None and uncertainty.displacements is not None:
        values["lattice_east"] = "lattice_column_line", uncertainty.lattice.east
        values["lattice_north"] = "lattice_row_line", uncertainty.lattice.north
        values["displacements"] = (
            ("resample", "lattice_number"),
            uncertainty.displacements,
            {"units": "1", "long_name": "how far fresh noise moved the numbers that the map was refined from"},
        )
    if isinstance(histogram, SlicedHistogram):
        values |= _sliced(release, histogram)
        if by_slice:
            words = f"estimated number of distinct trips through the cell in each slice{label}"
            numbers = histogram.ask_each(lambda one: one.faces.astype(np.float64).ravel())
            values["trips_by_slice"] = (
                ("slice", y, x),
                numbers.reshape(-1, *grid.shape),
                {**about, "long_name": words},
            )
            values["trips"] = (values["trips"][0], values["trips_by_slice"][1].sum(axis=0), values["trips"][2])
    if release.flow_table is not None:
        values |= _flows(release.flow_table)
    values["crs"] = (), np.int32(0), _grid_mapping(grid.crs)
    title = provenance.title if provenance.private else f"NOT PRIVATE: {provenance.title}"
    attributes = {
        "Conventions": "CF-1.11",
        "title": title,
        "summary": f"Distinct trips through any area of {grid}. {provenance.promise}",
        "history": f"{provenance.created} dqam {provenance.versions.get('dqam', '')}, mechanism {provenance.mechanism}",
        "source": "trajectories, aggregated",
        "comment": "The number of trips through a small rectangle is the sum of its cells minus the edges between "
        "them. Large rectangles can need further numbers in this file; dqam.open computes both.",
        "date_created": provenance.created,
        "id": provenance.id,
        "dqam": json.dumps(_facts(release), sort_keys=True),
    }
    coordinates = {
        name: values.pop(name) for name in (x, y, f"{x}_bnds", f"{y}_bnds", "crs", "slice") if name in values
    }
    return xarray.Dataset(values, coordinates, attributes)


def _sliced(release: PublishedMap, histogram: SlicedHistogram) -> dict[str, Any]:
    """How the slices share out the map."""
    patterns, noise = histogram.patterns, release.share_noise
    rule = {"long_name": f"slice by {release.provenance.slices}", "time_zone": release.provenance.timezone}
    place = "slice_row", "slice_column"
    share = "share of each pattern in the {} in each coarse cell"
    values: dict[str, Any] = {
        "slice": ("slice", np.array(patterns.names, object), {key: text for key, text in rule.items() if text}),
        "slice_east": ("slice_column_line", patterns.lattice.east),
        "slice_north": ("slice_row_line", patterns.lattice.north),
        "slice_mixture": (("slice", "pattern"), patterns.mixture, {"long_name": "share of each pattern in each slice"}),
        "slice_endpoints": (("pattern", *place), patterns.endpoints, {"long_name": share.format("starts and ends")}),
        "slice_crossings": (("pattern", *place), patterns.crossings, {"long_name": share.format("crossings")}),
    }
    if noise is not None:
        words = "how far fresh noise moved the share of each slice in each coarse cell"
        values["slice_moved"] = ("slice_resample", "slice", "slice_cell"), noise.moved, {"long_name": words}
        values["slice_noise"] = (), noise.sizes, {"long_name": "noise in the number of trips of each slice"}
        values["slice_weight"] = "slice_cell", noise.weight, {"long_name": "trips in each coarse cell, up to a factor"}
    return values


def _flows(table: FlowTable) -> dict[str, Any]:
    """Trips by origin and destination."""
    values: dict[str, Any] = {}
    for name, lattice in (("tile", table.tiles), ("cell", table.cells)):
        values[f"flow_{name}_east"] = f"flow_{name}_column_line", lattice.east
        values[f"flow_{name}_north"] = f"flow_{name}_row_line", lattice.north
    pairs = "flow_origin", "flow_destination"
    words = "estimated number of trips from tile to tile, row by row from the south-west"
    values["flow_trips"] = pairs, table.trips, {"units": "1", "long_name": words}
    values["flow_variance"] = pairs, table.variance, {"units": "1", "long_name": "variance of flow_trips"}
    for name, ends, happens in (("origin", table.origins, "begin"), ("destination", table.destinations, "end")):
        words = f"share of the trips of a tile that {happens} in the cell"
        values[f"flow_{name}_shares"] = "flow_cell", ends.shares, {"long_name": words}
        values[f"flow_{name}_variance"] = "flow_cell", ends.variance, {"long_name": f"variance of flow_{name}_shares"}
    if table.by_slice is not None:
        coarse = table.by_slice.tiles
        values["flow_slice_east"] = "flow_slice_column_line", coarse.east
        values["flow_slice_north"] = "flow_slice_row_line", coarse.north
        pairs = "flow_slice_origin", "flow_slice_destination"
        words = "share of each slice in the trips from coarse tile to coarse tile"
        values["flow_slice_shares"] = ("slice", *pairs), table.by_slice.shares, {"long_name": words}
        values["flow_slice_noise"] = ("slice", *pairs), table.by_slice.noise, {"long_name": "noise in these shares"}
    return values


def _axis(name: str, crs: str) -> dict[str, str]:
    """The attributes that describe the direction of an axis."""
    east = name in ("lon", "x")
    if is_degrees(crs):
        kind, unit = ("longitude", "degrees_east") if east else ("latitude", "degrees_north")
    else:
        length = parse_crs(crs).axis_info[0]
        kind = f"projection_{name}_coordinate"
        unit = UNITS.get(length.unit_name, f"{length.unit_conversion_factor} m")
    return {"standard_name": kind, "units": unit, "axis": "X" if east else "Y", "bounds": f"{name}_bnds"}


def _grid_mapping(crs: str) -> dict[str, Any]:
    """The CRS as CF attributes. pyproj warns if they cannot hold all parameters; `crs_wkt`, one of them, always can."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return {key: value for key, value in parse_crs(crs).to_cf().items() if value != ""}


def _facts(release: PublishedMap) -> dict[str, Any]:
    """Provenance, grid, and the scalars of the uncertainty and of the two scales, as plain values."""
    provenance, grid, uncertainty = release.provenance, release.grid, release.uncertainty
    facts = {name: getattr(provenance, name) for name in Provenance.__dataclass_fields__}
    return {
        **facts,
        "schema": SCHEMA if release.flow_table is not None else 2 if provenance.slices else 1,
        "epsilon": str(provenance.epsilon),
        "delta": str(provenance.delta),
        "unit": asdict(provenance.unit),
        "neighbours": provenance.neighbours.name,
        "paid": [
            {
                **asdict(entry),
                "epsilon": None if entry.epsilon is None else str(entry.epsilon),
                "scale": str(entry.scale),
                "rho": None if entry.rho is None else str(entry.rho),
            }
            for entry in provenance.paid
        ],
        "grid": {"bounds": grid.bounds, "rows": grid.rows, "columns": grid.columns, "crs": grid.crs},
        "uncertainty": None if uncertainty is None else uncertainty.numbers,
        "scales": _scales(release.histogram),
        "slice_names": list(release.slices),
        **({} if release.flow_table is None else {"flows": {"alike": release.flow_table.alike}}),
    }


def _scales(histogram: SpatialHistogram) -> dict[str, float] | None:
    """The largest side of a small rectangle, and what is added to answers for large ones; None with one histogram."""
    histogram = histogram.whole if isinstance(histogram, SlicedHistogram) else histogram
    if not isinstance(histogram, TwoScaleHistogram):
        return None
    return {"side": histogram.side, "offset": histogram.offset}


def save(release: PublishedMap, path: str | os.PathLike[str], overwrite: bool) -> None:
    """Write the file, with its seal."""
    if isinstance(release.histogram, SlicedHistogram) and not release.histogram.complete:
        raise InputError("A selection of slices cannot be saved; save the whole release, or export the selection.")
    dataset = to_dataset(release)
    plain: dict[str, Any] = {str(name): {"_FillValue": None} for name in dataset.variables}
    for name in (*PACKED, "slice_moved", "flow_trips", "flow_variance"):
        if name in dataset and dataset[name].size:
            plain[name] |= {"zlib": True, "complevel": 4, "shuffle": True}
    body = bytes(dataset.to_netcdf(engine="h5netcdf", encoding=plain))
    write_whole(path, body + SEAL + hashlib.sha256(body).hexdigest().encode() + b"\n", overwrite)
