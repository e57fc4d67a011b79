"""The file of a release: NetCDF-4 by CF conventions, which QGIS, xarray and R open, with a seal at its end.

The seal is a SHA-256 of all before it, and is looked at before anything else is: a file that was cut, changed or
saved by another program is refused. It is no signature. HDF5 does not mind bytes after its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dqam.errors import InputError
from dqam.files import write_whole
from dqam.grid import Grid, is_degrees, parse_crs
from dqam.histogram import SpatialHistogram
from dqam.mechanisms import MECHANISMS
from dqam.mechanisms.doubt import Doubt
from dqam.partition.lattice import Lattice
from dqam.privacy.budget import Neighbours, Unit
from dqam.privacy.curator import Entry
from dqam.release.release import Provenance, Release

if TYPE_CHECKING:
    import xarray

SCHEMA = 1
SEAL = b"\ndqam release sha256 "
SEAL_SIZE = len(SEAL) + 64 + 1
FRACTION = re.compile(r"\d{1,400}(/\d{1,400})?", re.ASCII)
LARGEST = 2**32  # bytes of a file
KEYS = frozenset({"schema", "grid", "doubt", *Provenance.__dataclass_fields__})


def to_dataset(release: Release) -> xarray.Dataset:
    """All of a release as an xarray data set."""
    import xarray

    grid, histogram, doubt = release.grid, release.histogram, release.doubt
    degrees = is_degrees(grid.crs)
    x, y = ("lon", "lat") if degrees else ("x", "y")
    values: dict[str, Any] = {}
    for axis, low, high, cells in ((x, 0, 2, grid.columns), (y, 1, 3, grid.rows)):
        lines = np.linspace(grid.bounds[low], grid.bounds[high], cells + 1)
        values[axis] = axis, (lines[:-1] + lines[1:]) / 2, _axis(axis, degrees)
        values[f"{axis}_bnds"] = (axis, "bound"), np.stack([lines[:-1], lines[1:]], axis=1)
    about = {"units": "1", "grid_mapping": "crs", "coordinates": f"{y} {x}"}
    values["trips"] = (
        (y, x),
        histogram.faces.astype(np.float64),
        {**about, "long_name": "estimated number of distinct trips through the cell"},
    )
    for name, dimensions, edges in (
        ("vertical", (y, f"{x}_inner"), histogram.vertical),
        ("horizontal", (f"{y}_inner", x), histogram.horizontal),
    ):
        words = f"estimated number of trips across each inner {name} grid line, from cell to cell"
        values[name] = dimensions, edges.astype(np.float64), {"units": "1", "long_name": words}
    if doubt is not None and doubt.lattice is not None and doubt.moved is not None:
        values["lattice_east"] = "lattice_column_line", doubt.lattice.east
        values["lattice_north"] = "lattice_row_line", doubt.lattice.north
        values["moved"] = (
            ("fresh_noise", "lattice_number"),
            doubt.moved,
            {"units": "1", "long_name": "how far fresh noise moved what the map was refined from"},
        )
    values["crs"] = (), np.int32(0), {key: value for key, value in parse_crs(grid.crs).to_cf().items() if value != ""}
    provenance = release.provenance
    title = provenance.title if provenance.private else f"NOT PRIVATE: {provenance.title}"
    attributes = {
        "Conventions": "CF-1.11",
        "title": title,
        "summary": f"Distinct trips through any rectangle of {grid}. {provenance.promise}",
        "history": f"{provenance.created} dqam {provenance.versions.get('dqam', '')}, mechanism {provenance.mechanism}",
        "source": "trajectories, aggregated with differential privacy",
        "comment": "The trips through a rectangle are its cells minus the inner edges between them; dqam.open answers.",
        "date_created": provenance.created,
        "id": provenance.id,
        "dqam": json.dumps(_facts(release), sort_keys=True),
    }
    coordinates = {name: values.pop(name) for name in (x, y, f"{x}_bnds", f"{y}_bnds", "crs")}
    return xarray.Dataset(values, coordinates, attributes)


def _axis(name: str, degrees: bool) -> dict[str, str]:
    """The attributes that say which way an axis goes."""
    east = name in ("lon", "x")
    if degrees:
        kind, unit = ("longitude", "degrees_east") if east else ("latitude", "degrees_north")
    else:
        kind, unit = f"projection_{name}_coordinate", "m"
    return {"standard_name": kind, "units": unit, "axis": "X" if east else "Y", "bounds": f"{name}_bnds"}


def _facts(release: Release) -> dict[str, Any]:
    """Provenance, grid and the two numbers of the doubt, as plain values."""
    provenance, grid, doubt = release.provenance, release.grid, release.doubt
    facts = {name: getattr(provenance, name) for name in Provenance.__dataclass_fields__}
    return {
        **facts,
        "schema": SCHEMA,
        "epsilon": str(provenance.epsilon),
        "unit": asdict(provenance.unit),
        "neighbours": provenance.neighbours.name,
        "ledger": [
            {**asdict(entry), "epsilon": str(entry.epsilon), "scale": str(entry.scale)} for entry in provenance.ledger
        ],
        "grid": {"bounds": grid.bounds, "rows": grid.rows, "columns": grid.columns, "crs": grid.crs},
        "doubt": None if doubt is None else {"model": doubt.model, "noise": doubt.noise},
    }


def save(release: Release, path: str | os.PathLike[str]) -> None:
    """Write the file, with its seal."""
    dataset = to_dataset(release)
    packed = {
        name: {"zlib": True, "complevel": 4} for name in ("trips", "vertical", "horizontal") if dataset[name].size
    }
    plain: dict[str, Any] = {str(name): {"_FillValue": None} for name in dataset.variables}
    for name, how in packed.items():
        plain[name] |= how
    body = bytes(dataset.to_netcdf(engine="netcdf4", encoding=plain))
    write_whole(path, body + SEAL + hashlib.sha256(body).hexdigest().encode() + b"\n")


def open_release(path: str | os.PathLike[str]) -> Release:
    """The release in a file, or an `InputError` where it is not one, was changed, or is newer than this program.

    >>> import dqam
    >>> dqam.open("nowhere.nc")
    Traceback (most recent call last):
    dqam.errors.InputError: nowhere.nc can not be read (No such file or directory); check the path.
    """
    path = Path(path)
    body = _unsealed(path)
    try:
        facts, arrays = _load(body, path.name)
    except InputError:
        raise
    except Exception as error:  # whatever the libraries below make of it
        raise InputError(f"{path.name} is not a release that dqam can read ({type(error).__name__}).") from None
    try:
        return _restored(facts, arrays)
    except InputError as error:
        raise InputError(f"{path.name} is not a sound release: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise InputError(f"{path.name} is not a sound release ({type(error).__name__}: {error}).") from None


def _unsealed(path: Path) -> bytes:
    """What is before the seal, if that fits."""
    try:
        if not path.is_file() and path.exists():
            raise InputError(f"{path} is not a file; give the file of a release.")
        size = path.stat().st_size
        if not SEAL_SIZE < size < LARGEST:
            raise InputError(f"{path.name} is not a release of dqam: it has {size:,} bytes.")
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} can not be read ({error.strerror}); check the path.") from None
    body, seal = content[:-SEAL_SIZE], content[-SEAL_SIZE:]
    if not seal.startswith(SEAL):
        raise InputError(f"{path.name} is not a release of dqam, or was cut or saved by another program.")
    if seal != SEAL + hashlib.sha256(body).hexdigest().encode() + b"\n":
        raise InputError(f"{path.name} was changed after it was published; get it again from its publisher.")
    return body


def _load(body: bytes, name: str) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    """The facts and the arrays of a file."""
    import xarray

    with xarray.open_dataset(body, engine="netcdf4", decode_cf=False) as dataset:
        facts = json.loads(str(dataset.attrs["dqam"]))
        if not isinstance(facts, dict) or not isinstance(facts.get("schema"), int):
            raise InputError(f"{name} does not say which form of release it is.")
        if facts["schema"] > SCHEMA:
            raise InputError(
                f"{name} is a release of form {facts['schema']}, and this dqam knows forms up to {SCHEMA}; "
                "install a newer one."
            )
        if facts.keys() != KEYS:
            odd = ", ".join(sorted(facts.keys() ^ KEYS))
            raise InputError(f"{name} is not a sound release: it lacks, or should not have, {odd}.")
        known = ("trips", "vertical", "horizontal", "lattice_east", "lattice_north", "moved")
        return facts, {name: dataset[name].values for name in known if name in dataset.variables}


def _restored(facts: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> Release:
    """A release that checks itself as a new one does."""
    place = facts["grid"]
    grid = Grid(tuple(place["bounds"]), place["rows"], place["columns"], place["crs"])
    parts = arrays["trips"], arrays["vertical"], arrays["horizontal"]
    rows, columns = grid.shape
    for part, shape in zip(parts, ((rows, columns), (rows, columns - 1), (rows - 1, columns)), strict=True):
        if part.dtype != np.float64 or part.shape != shape or not np.isfinite(part).all():
            raise InputError(f"a grid of {rows} x {columns} does not fit numbers of shape {part.shape}.")
    histogram = SpatialHistogram(grid, *parts)
    if facts["mechanism"] not in MECHANISMS:
        raise InputError(f"there is no mechanism {facts['mechanism']!r}.")
    if MECHANISMS[facts["mechanism"]].consistent == "monotone" and not histogram.is_monotone():
        raise InputError("its answers do not grow with the rectangle, as those of its mechanism do.")
    ledger = tuple(
        Entry(
            str(entry["question"]),
            str(entry["name"]),
            int(entry["sensitivity"]),
            _fraction(entry["epsilon"]),
            _fraction(entry["scale"]),
        )
        for entry in facts["ledger"]
    )
    provenance = Provenance(
        **{key: facts[key] for key in ("id", "title", "created", "mechanism", "queries", "gap", "private")},
        parameters=dict(facts["parameters"]),
        versions=dict(facts["versions"]),
        epsilon=_fraction(facts["epsilon"]),
        unit=Unit(**facts["unit"]),
        ledger=ledger,
        neighbours=Neighbours[facts["neighbours"]],
    )
    return Release(histogram, provenance, _doubt(facts["doubt"], histogram, arrays))


def _fraction(text: str) -> Fraction:
    """A number above 0 as it is saved; no other way to write one is taken, as some take forever to read."""
    if not FRACTION.fullmatch(text) or not (value := Fraction(text)):
        raise InputError(f"{text[:40]!r} is no fraction above 0.")
    return value


def _doubt(
    numbers: dict[str, float] | None, histogram: SpatialHistogram, arrays: dict[str, np.ndarray[Any, Any]]
) -> Doubt | None:
    if numbers is None:
        return None
    model, noise = float(numbers["model"]), float(numbers["noise"])
    if not (0 <= model < np.inf and 0 <= noise < np.inf):
        raise InputError(f"its errors are {model} and {noise}.")
    if "moved" not in arrays:
        return Doubt(histogram, model, noise)
    lattice, moved = Lattice(arrays["lattice_east"], arrays["lattice_north"]), arrays["moved"]
    if not lattice.fits(histogram.grid) or moved.shape[1:] != (lattice.numbers,) or not np.isfinite(moved).all():
        raise InputError(f"a lattice of {lattice.shape} cells does not fit numbers of shape {moved.shape}.")
    return Doubt(histogram, model, noise, lattice, moved)
