"""Opening a release that someone else made: nothing in it is believed before it was checked.

Only numbers that are in the file itself are read, and only if their shape is what the grid says: HDF5 could have them
come from other files, or be larger than any memory. The texts of a file are data: none names a file or is run.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from dqam.errors import InputError
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.lattice import Lattice
from dqam.mechanisms import MECHANISMS
from dqam.mechanisms.uncertainty import Doubt
from dqam.release.file import SCHEMA, SEAL, SEAL_SIZE
from dqam.release.release import Provenance, Release, check_crs
from dqam.values.guarantee import LedgerEntry, Neighbours, Unit

KEYS = frozenset({"schema", "grid", "doubt", *Provenance.__dataclass_fields__})
TEXTS = ("id", "title", "created", "mechanism", "queries", "gap", "salt")
FRACTION = re.compile(r"\d{1,101}(/\d{1,101})?", re.ASCII)
LARGEST_FILE = 2**32  # bytes
LARGEST = 1e15  # of any number of trips
MOST_ENTRIES = 10_000
MOST_MOVED = 64


def open_release(path: str | os.PathLike[str]) -> Release:
    """The release in a file, or an `InputError` where it is not one, was changed, or is newer than this program.

    >>> import dqam
    >>> dqam.open("nowhere.nc")
    Traceback (most recent call last):
    dqam.errors.InputError: nowhere.nc cannot be read (No such file or directory); check the path.
    """
    path = Path(path)
    body = _unsealed(path)
    try:
        with h5py.File(BytesIO(body), "r") as file:
            return _restored(_facts(file), file)
    except InputError as error:
        raise InputError(f"{path.name} is not a sound release: {error}") from None
    except Exception as error:  # whatever the libraries below make of it
        raise InputError(f"{path.name} is not a release that dqam can read ({type(error).__name__}).") from None


def _unsealed(path: Path) -> bytes:
    """What is before the seal, if that fits."""
    try:
        if not path.is_file() and path.exists():
            raise InputError(f"{path} is not a file; give the file of a release.")
        size = path.stat().st_size
        if not SEAL_SIZE < size < LARGEST_FILE:
            raise InputError(f"{path.name} is not a release of dqam: it has {size:,} bytes.")
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); check the path.") from None
    body, seal = content[:-SEAL_SIZE], content[-SEAL_SIZE:]
    if not seal.startswith(SEAL):
        raise InputError(f"{path.name} is not a release of dqam, or was cut or saved by another program.")
    if seal != SEAL + hashlib.sha256(body).hexdigest().encode() + b"\n":
        raise InputError(f"{path.name} was changed after it was published; get it again from its publisher.")
    return body


def _facts(file: h5py.File) -> dict[str, Any]:
    """All that is not numbers, in a form that is known."""
    facts = json.loads(str(file.attrs["dqam"]))
    schema = facts.get("schema") if isinstance(facts, dict) else None
    if type(schema) is not int or schema < 1:
        raise InputError("it does not say which form of release it is.")
    if schema > SCHEMA:
        raise InputError(f"it is of form {schema}, and this dqam knows forms up to {SCHEMA}; install a newer one.")
    if facts.keys() != KEYS:
        odd = ", ".join(repr(key)[:40] for key in sorted(facts.keys() ^ KEYS)[:5])
        raise InputError(f"it lacks, or should not have, {odd}.")
    if not all(isinstance(facts[name], str) for name in TEXTS) or any(
        type(facts[name]) is not bool for name in ("private", "row_is_trip")
    ):
        raise InputError("one of its texts is not text, or it does not say whether it is private, or what a trip is.")
    return dict(facts)


def _numbers(file: h5py.File, name: str, shape: tuple[int, ...], kind: str = "f8") -> np.ndarray[Any, Any]:
    """The numbers under a name, if they are in this file and of this shape."""
    if not isinstance(file.get(name, getlink=True), h5py.HardLink) or not isinstance(file[name], h5py.Dataset):
        raise InputError(f"it has no {name}.")
    found = file[name]
    if found.external or found.is_virtual:
        raise InputError(f"its {name} are in another file.")
    if found.dtype != np.dtype(kind) or found.shape != shape:
        raise InputError(f"its {name} are {found.dtype} of shape {found.shape}, where {kind} of {shape} would fit.")
    values: np.ndarray[Any, Any] = found[()]
    if not (np.abs(values) < LARGEST).all():
        raise InputError(f"its {name} are not all numbers, or too large.")
    return values


def _restored(facts: dict[str, Any], file: h5py.File) -> Release:
    """A release that checks itself as a new one does."""
    place = facts["grid"]
    check_crs(place["crs"])
    grid = Grid(tuple(place["bounds"]), place["rows"], place["columns"], place["crs"])
    rows, columns = grid.shape
    shapes = {"trips": (rows, columns), "vertical": (rows, columns - 1), "horizontal": (rows - 1, columns)}
    histogram = SpatialHistogram(grid, *(_numbers(file, name, shape) for name, shape in shapes.items()))
    mechanism = MECHANISMS.get(facts["mechanism"])
    if mechanism is None or not mechanism.publishable:
        raise InputError(f"{facts['mechanism'][:40]!r} is no mechanism that a release can be made with.")
    if mechanism.consistent == "monotone" and not histogram.is_monotone():
        raise InputError("its answers do not grow with the rectangle, as those of its mechanism do.")
    if not isinstance(facts["ledger"], list) or not 0 < len(facts["ledger"]) <= MOST_ENTRIES:
        raise InputError(f"its ledger is no list of 1 to {MOST_ENTRIES:,} entries.")
    provenance = Provenance(
        **{key: facts[key] for key in (*TEXTS, "private", "row_is_trip")},
        parameters=dict(facts["parameters"]),
        versions=dict(facts["versions"]),
        epsilon=_fraction(facts["epsilon"]),
        unit=Unit(**facts["unit"]),
        ledger=tuple(map(_entry, facts["ledger"])),
        neighbours=Neighbours[facts["neighbours"]],
    )
    return Release(histogram, provenance, _doubt(facts["doubt"], histogram, file))


def _entry(entry: dict[str, Any]) -> LedgerEntry:
    """A line of the ledger."""
    sensitivity = entry["sensitivity"]
    if type(sensitivity) is not int or not 0 < sensitivity < 2**63:
        raise InputError("an entry of its ledger has no whole sensitivity above 0.")
    epsilon, scale = _fraction(entry["epsilon"]), _fraction(entry["scale"])
    return LedgerEntry(str(entry["question"]), str(entry["name"]), sensitivity, epsilon, scale)


def _fraction(text: str) -> Fraction:
    """A number above 0 as it is saved; no other way to write one is taken, as some take forever to read."""
    if not FRACTION.fullmatch(text) or not 0 < (value := Fraction(text)) < 10**100:
        raise InputError(f"{text[:40]!r} is no fraction above 0.")
    return value


def _doubt(numbers: dict[str, float] | None, histogram: SpatialHistogram, file: h5py.File) -> Doubt | None:
    """How far answers may be off, where that is said."""
    if numbers is None:
        return None
    model, noise = float(numbers["model"]), float(numbers["noise"])
    if not (0 <= model < LARGEST and 0 <= noise < LARGEST):
        raise InputError(f"its errors are {model} and {noise}.")
    if "moved" not in file:
        return Doubt(histogram, model, noise)
    lines = []
    for name, cells in (("lattice_east", histogram.grid.columns), ("lattice_north", histogram.grid.rows)):
        count = file[name].shape[0]
        if count > cells + 1:
            raise InputError(f"its lattice has {count} lines on {cells} cells.")
        lines.append(_numbers(file, name, (count,), "i8"))
    lattice, times = Lattice(*lines), file["moved"].shape[0]
    if not lattice.fits(histogram.grid) or not 0 < times <= MOST_MOVED:
        raise InputError(f"a lattice of {lattice.shape} cells, moved {times} times, does not fit.")
    return Doubt(histogram, model, noise, lattice, _numbers(file, "moved", (times, lattice.numbers)))
