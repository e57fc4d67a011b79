"""Open the file of a release; everything in it is checked before it is used, because anyone may have made it.

Arrays are read only if they are stored in the file itself and have the shape that the grid implies: HDF5 could load
them from other files, or claim sizes larger than any memory. Texts are treated as data: none is used as a file name or
executed.
"""

from __future__ import annotations

import hashlib
import json
import operator
import os
import re
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from dqam.errors import InputError
from dqam.geometry.arrays import Numbers
from dqam.geometry.flow_table import Ends, FlowSlices, FlowTable
from dqam.geometry.grid import MAX_SIDE, Grid
from dqam.geometry.histogram import SpatialHistogram, TwoScaleHistogram
from dqam.geometry.lattice import Lattice
from dqam.geometry.sliced_histogram import Patterns, SlicedHistogram
from dqam.release.file import PACKED, SCHEMA, SEAL, SEAL_SIZE
from dqam.release.provenance import Provenance, check_crs
from dqam.release.release import Release
from dqam.values.guarantee import Neighbours, PaidQuestion, Unit
from dqam.values.slice_uncertainty import ShareNoise
from dqam.values.uncertainty import Uncertainty

KEYS = frozenset({"schema", "grid", "uncertainty", "scales", "slice_names", "flows", *Provenance.__dataclass_fields__})
NAMES = ("id", "title", "created", "mechanism", "mechanism_about", "queries", "gap", "salt")
TEXTS = (*NAMES, "slices", "timezone", "prior")
ADDED: dict[str, Any] = {  # since the first version, with what they are in files from before
    "delta": "0",
    "slices": "",
    "timezone": "",
    "slice_names": [],
    "prior": "",
    "factor": 1.0,
    "scaled_up_to": 0,
    "max_trips_chosen": False,
    "flows": None,
}
FLAGS = ("private", "row_is_trip", "monotone", "max_trips_chosen")
FRACTION = re.compile(r"\d{1,101}(/\d{1,101})?", re.ASCII)
DELTA = re.compile(r"(10\^-\d{1,4})?", re.ASCII)
LARGEST_FILE = 2**32  # bytes
LARGEST, LARGEST_VARIANCE = 1e15, 1e36  # number of trips, and variance of one, that are accepted
MOST_ENTRIES = 10_000
MOST_RESAMPLES = 64
MOST_PATTERNS, MOST_SLICES = 64, 400
MOST_TILES = 2**12  # between which there are flows


def open_release(path: str | os.PathLike[str]) -> Release:
    """Open the release in a file; an `InputError` if it is not a release, was changed, or is newer than this program.

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
        raise InputError(f"{path.name} is not a valid release: {error}") from None
    except Exception as error:  # of any kind, because the libraries may raise anything on a damaged file
        raise InputError(f"{path.name} is not a release that dqam can read ({type(error).__name__}).") from None


def _unsealed(path: Path) -> bytes:
    """The content before the seal, if the seal matches."""
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
        raise InputError(f"{path.name} is not a release of dqam, or it was truncated or saved by another program.")
    if seal != SEAL + hashlib.sha256(body).hexdigest().encode() + b"\n":
        raise InputError(f"{path.name} was changed after it was published; get it again from its publisher.")
    return body


def _facts(file: h5py.File) -> dict[str, Any]:
    """Everything but the arrays, if the format of the file is known."""
    facts = json.loads(str(file.attrs["dqam"]))
    schema = facts.get("schema") if isinstance(facts, dict) else None
    if type(schema) is not int or schema < 1:
        raise InputError("it does not say which version of the format it has.")
    if schema > SCHEMA:
        raise InputError(
            f"it has version {schema} of the format, and this dqam knows versions up to {SCHEMA}; install a newer dqam."
        )
    for key, none in ADDED.items():
        facts.setdefault(key, none)
    if facts.keys() != KEYS:
        odd = ", ".join(repr(key)[:40] for key in sorted(facts.keys() ^ KEYS)[:5])
        raise InputError(f"these entries are missing or unexpected: {odd}.")
    for names, kind in ((TEXTS, str), (FLAGS, bool)):
        for name in names:
            if type(facts[name]) is not kind:
                raise InputError(f"its {name} is not a {kind.__name__}.")
    return dict(facts)


def _numbers(file: h5py.File, name: str, shape: tuple[int, ...], kind: str = "f8", most: float = LARGEST) -> Numbers:
    """The array of this name, if it is stored in this file and has this shape."""
    if not isinstance(file.get(name, getlink=True), h5py.HardLink) or not isinstance(file[name], h5py.Dataset):
        raise InputError(f"it has no variable {name!r}.")
    found = file[name]
    if found.external or found.is_virtual:
        raise InputError(f"its variable {name!r} is in another file.")
    if found.dtype != np.dtype(kind) or found.shape != shape:
        raise InputError(
            f"its variable {name!r} is {found.dtype} of shape {found.shape}, where {kind} of {shape} was expected."
        )
    values: Numbers = found[()]
    if not (np.abs(values) < most).all():
        raise InputError(f"its variable {name!r} has values that are not numbers or are too large.")
    return values


def _restored(facts: dict[str, Any], file: h5py.File) -> Release:
    """The release, with the same checks as for a new one."""
    place = facts["grid"]
    check_crs(place["crs"])
    grid = Grid(tuple(place["bounds"]), place["rows"], place["columns"], place["crs"])
    histogram = _histogram(facts["scales"], grid, file)
    if facts["monotone"] and not histogram.is_monotone():
        raise InputError("its answers can shrink when a rectangle grows, and those of its mechanism never do.")
    if not isinstance(facts["paid"], list) or not 0 < len(facts["paid"]) <= MOST_ENTRIES:
        raise InputError(f"its paid questions are not a list of 1 to {MOST_ENTRIES:,} entries.")
    provenance = Provenance(
        **{key: facts[key] for key in (*TEXTS, *FLAGS)},
        parameters=dict(facts["parameters"]),
        versions=dict(facts["versions"]),
        epsilon=_fraction(facts["epsilon"]),
        delta=Fraction(0) if facts["delta"] == "0" else _fraction(facts["delta"]),
        unit=Unit(**facts["unit"]),
        paid=tuple(map(_entry, facts["paid"])),
        neighbours=Neighbours[facts["neighbours"]],
        factor=float(facts["factor"]),
        scaled_up_to=operator.index(facts["scaled_up_to"]),
    )
    shares = None
    if provenance.slices:
        histogram, shares = _slices(facts["slice_names"], histogram, file)
    flows = None if facts["flows"] is None else _flows(facts["flows"], histogram, file)
    return Release(histogram, provenance, _uncertainty(facts["uncertainty"], histogram, file), shares, flows)


def _flows(facts: dict[str, Any], histogram: SpatialHistogram, file: h5py.File) -> FlowTable:
    """The table of flows."""
    grid, alike = histogram.grid, float(facts["alike"])
    if not 0 <= alike <= 1:
        raise InputError(f"the likeness of its flows is {alike}, which is not between 0 and 1.")
    tiles, cells = (_lattice(file, f"flow_{name}_east", f"flow_{name}_north", grid) for name in ("tile", "cell"))
    if tiles.cells > MOST_TILES or not (
        np.isin(tiles.east, cells.east).all() and np.isin(tiles.north, cells.north).all()
    ):
        raise InputError(f"its flows are between {tiles.cells:,} tiles, too many, or with lines that its cells lack.")
    square = tiles.cells, tiles.cells
    trips = _numbers(file, "flow_trips", square)
    variance = _numbers(file, "flow_variance", square, most=LARGEST_VARIANCE)
    tile_of = tiles.within(cells).labels.ravel()
    ends = []
    for name in ("origin", "destination"):
        end = Ends(*(_numbers(file, f"flow_{name}_{what}", (cells.cells,)) for what in ("shares", "variance")))
        if min(end.shares.min(), end.variance.min()) < 0 or not np.allclose(np.bincount(tile_of, end.shares), 1):
            raise InputError("the shares of cells in its flows are negative or do not add up to 1.")
        ends.append(end)
    if min(trips.min(), variance.min()) < 0:
        raise InputError("some of its flows are negative.")
    by_slice = None
    if isinstance(histogram, SlicedHistogram):
        coarse = _lattice(file, "flow_slice_east", "flow_slice_north", grid)
        shape = len(histogram.names), coarse.cells, coarse.cells
        if coarse.cells > MOST_TILES:
            raise InputError(f"its slices of flows are between {coarse.cells:,} tiles, which are too many.")
        shares, noise = (_numbers(file, f"flow_slice_{what}", shape) for what in ("shares", "noise"))
        if min(shares.min(), noise.min()) < 0 or not np.allclose(shares.sum(axis=0), 1):
            raise InputError("the shares of slices in its flows are negative or do not add up to 1.")
        by_slice = FlowSlices(histogram.names, coarse, shares, noise)
    return FlowTable(tiles, cells, trips, variance, ends[0], ends[1], alike, by_slice)


def _slices(names: list[str], whole: SpatialHistogram, file: h5py.File) -> tuple[SlicedHistogram, ShareNoise | None]:
    """The histogram with its slices, and the uncertainty of their shares."""
    known = isinstance(names, list) and all(isinstance(name, str) and name.isprintable() and name for name in names)
    if not known or not len(set(names)) == len(names) <= MOST_SLICES:
        raise InputError(f"the names of its slices are not up to {MOST_SLICES} different texts of one line.")
    lattice = _lattice(file, "slice_east", "slice_north", whole.grid)
    count, patterns = file["slice_mixture"].shape
    if count != len(names) or not 0 < patterns <= MOST_PATTERNS:
        raise InputError(f"{count} slices of {patterns} patterns do not fit {len(names)} names of slices.")
    mixture = _numbers(file, "slice_mixture", (count, patterns))
    fields = [_numbers(file, f"slice_{name}", (patterns, *lattice.shape)) for name in ("endpoints", "crossings")]
    for shares in (mixture, *fields):
        if shares.min() < 0 or not np.allclose(shares.sum(axis=0), 1, atol=1e-6):
            raise InputError("the shares of its slices are negative or do not add up to 1.")
    histogram = SlicedHistogram.of_patterns(whole, Patterns(tuple(names), lattice, mixture, *fields))
    if "slice_moved" not in file:
        return histogram, None
    times = file["slice_moved"].shape[0]
    if not 0 < times <= MOST_RESAMPLES:
        raise InputError(f"the shares of its slices are resampled {times} times.")
    moved = _numbers(file, "slice_moved", (times, count, lattice.cells))
    weight = _numbers(file, "slice_weight", (lattice.cells,))
    noise = float(_numbers(file, "slice_noise", ()))
    if weight.min() <= 0 or noise < 0:
        raise InputError("the weights of its coarse cells, or the noise of its slices, are not positive.")
    return histogram, ShareNoise(lattice, moved, weight, noise)


def _lattice(file: h5py.File, east: str, north: str, grid: Grid) -> Lattice:
    """The lattice with the lines of these names, which must fit the grid."""
    lines = []
    for name, cells in ((east, grid.columns), (north, grid.rows)):
        count = file[name].shape[0]
        if count > cells + 1:
            raise InputError(f"its lattice has {count} lines on {cells} cells.")
        lines.append(_numbers(file, name, (count,), "i8"))
    lattice = Lattice(*lines)
    if not lattice.fits(grid):
        raise InputError(f"a lattice of {lattice.shape} cells does not fit.")
    return lattice


def _histogram(scales: dict[str, float] | None, grid: Grid, file: h5py.File) -> SpatialHistogram:
    """The histogram, or two joined ones if small and large rectangles have different histograms."""
    rows, columns = grid.shape
    shapes = (rows, columns), (rows, columns - 1), (rows - 1, columns)

    def of(names: tuple[str, ...]) -> SpatialHistogram:
        return SpatialHistogram(grid, *(_numbers(file, name, shape) for name, shape in zip(names, shapes, strict=True)))

    small = of(PACKED[:3])
    if scales is None:
        return small
    side, offset = scales["side"], float(scales["offset"])
    if type(side) is not int or not 1 <= side <= MAX_SIDE or not 0 <= offset < LARGEST:
        raise InputError(f"the side {side} and the offset {offset} of its two scales are out of range.")
    return TwoScaleHistogram.of_two(small, of(PACKED[3:]), offset, side)


def _entry(entry: dict[str, Any]) -> PaidQuestion:
    """One paid question."""
    sensitivity, resolution = entry["sensitivity"], entry["resolution"]
    if any(type(number) is not int or not 0 < number < 2**63 for number in (sensitivity, resolution)):
        raise InputError("the sensitivity or resolution of a paid question is not a positive whole number.")
    epsilon, rho = (None if text is None else _fraction(text) for text in (entry["epsilon"], entry.get("rho")))
    scale, delta = _fraction(entry["scale"]), entry["delta"]
    if not DELTA.fullmatch(delta):
        raise InputError(f"{str(delta)[:40]!r} is not a probability such as 10^-47.")
    return PaidQuestion(str(entry["kind"]), str(entry["name"]), sensitivity, epsilon, scale, resolution, delta, rho)


def _fraction(text: str) -> Fraction:
    """A positive number in the notation that is saved; others are refused, because some take forever to parse."""
    if not FRACTION.fullmatch(text) or not 0 < (value := Fraction(text)) < 10**100:
        raise InputError(f"{text[:40]!r} is not a positive fraction.")
    return value


def _uncertainty(numbers: dict[str, float] | None, histogram: SpatialHistogram, file: h5py.File) -> Uncertainty | None:
    """The uncertainty of answers, if the file has one."""
    if numbers is None:
        return None
    model, noise, finest = (float(numbers[name]) for name in ("model", "noise", "finest"))
    factor = float(numbers.get("factor", 1))  # there was none before counts were made whole
    if not (0 <= model < LARGEST and 0 <= noise < LARGEST and (finest == 0 or 1 <= finest <= MAX_SIDE)):
        raise InputError(f"its errors, {model}, {noise} and {finest}, are out of range.")
    if not 1 <= factor < LARGEST:
        raise InputError(f"its counts were multiplied by {factor}, which is not at least 1.")
    if "displacements" not in file:
        return Uncertainty(histogram, model, noise, finest=finest, factor=factor)
    lattice, times = _lattice(file, "lattice_east", "lattice_north", histogram.grid), file["displacements"].shape[0]
    if not 0 < times <= MOST_RESAMPLES:
        raise InputError(f"a lattice of {lattice.shape} cells, resampled {times} times, does not fit.")
    moved = _numbers(file, "displacements", (times, lattice.numbers))
    return Uncertainty(histogram, model, noise, lattice, moved, finest, factor)
