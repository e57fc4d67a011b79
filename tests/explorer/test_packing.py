"""The numbers that a page carries: all of them, exactly, in little space."""

import base64
import json
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dqam.errors import InputError
from dqam.explorer import packing
from dqam.explorer.packing import pack
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.lattice import Lattice
from dqam.release.release import Release
from tests.explorer.conftest import numbered


def unpacked(packed: dict[str, Any]) -> dict[str, np.ndarray]:
    """The arrays in a page, as it reads them."""
    body, found = zlib.decompress(base64.b64decode(packed["numbers"]), -15), {}
    for name, count, unit in packed["arrays"]:
        planes, body = np.frombuffer(body[: 8 * count], np.uint8), body[8 * count :]
        kind = "<f8" if unit is None and not name.endswith("steps") else "<i8"
        numbers = np.ascontiguousarray(planes.reshape(8, count).T).view(kind).ravel()
        found[name] = numbers if unit is None else numbers * 2.0**unit
    assert not body
    return found


def test_every_number_is_there_exactly(hourly: Release) -> None:
    packed = pack(hourly, "hours")
    found, histogram = unpacked(packed), hourly.histogram.whole  # type: ignore[attr-defined]
    shapes = {"endpoints": (32, 32), "vertical": (32, 31), "horizontal": (31, 32), "steps": (32, 32)}
    small = {name: found[f"small_{name}"].reshape(shape) for name, shape in shapes.items()}
    steps = small.pop("steps")
    followed = SpatialHistogram.from_flux(hourly.grid, **small).faces
    assert np.array_equal((followed.view(np.int64) + steps).view(np.float64), histogram.faces)
    assert np.array_equal(small["vertical"], histogram.vertical)
    assert np.array_equal(small["horizontal"], histogram.horizontal)
    assert hourly.uncertainty is not None
    assert hourly.share_noise is not None
    others = {
        "displacements": hourly.uncertainty.displacements,
        "mixture": hourly.histogram.patterns.mixture,  # type: ignore[attr-defined]
        "slice_endpoints": hourly.histogram.patterns.endpoints,  # type: ignore[attr-defined]
        "slice_crossings": hourly.histogram.patterns.crossings,  # type: ignore[attr-defined]
        "moved": hourly.share_noise.moved,
        "weight": hourly.share_noise.weight,
    }
    assert all(np.array_equal(found[name], np.ravel(values)) for name, values in others.items())
    assert json.loads(json.dumps(packed, allow_nan=False)) == packed


def test_every_number_of_flows_is_there_exactly(flowing: Release, first: Release) -> None:
    packed, table = pack(flowing, "flows"), flowing.flow_table
    assert table is not None
    assert table.by_slice is not None
    wanted = {
        "trips": table.trips,
        "variance": table.variance,
        "origins_shares": table.origins.shares,
        "origins_variance": table.origins.variance,
        "destinations_shares": table.destinations.shares,
        "destinations_variance": table.destinations.variance,
        "slice_shares": table.by_slice.shares,
        "slice_noise": table.by_slice.noise,
    }
    found = unpacked(packed)
    assert {name for name in found if name.startswith("flow_")} == {f"flow_{name}" for name in wanted}
    assert all(np.array_equal(found[f"flow_{name}"], np.ravel(values)) for name, values in wanted.items())
    about = json.loads(json.dumps(packed["flows"], allow_nan=False))
    assert about["alike"] == table.alike
    for name, lattice in (("tiles", table.tiles), ("cells", table.cells), ("slices", table.by_slice.tiles)):
        assert Lattice(np.array(about[name]["east"]), np.array(about[name]["north"])) == lattice
    without = pack(replace(flowing, flow_table=replace(table, by_slice=None)), "flows")
    assert without["flows"]["slices"] is None
    assert pack(first, "first")["flows"] is None


def test_multiples_of_a_power_of_two_are_stored_as_whole_numbers(first: Release) -> None:
    units = {name: unit for name, _, unit in pack(first, "first")["arrays"]}
    assert units["small_vertical"] < 0
    assert units["small_steps"] is None
    for numbers, unit in (
        ([0.0, 3.0], 0),
        ([0.375, -2.5], -3),
        ([2.0**-30, 2.0**22], -30),
        ([2.0**-30, 2.0**23], None),
        ([0.0, -0.0], None),
        ([5e-324], None),
        ([], 0),
    ):
        assert packing._unit(np.array(numbers)) == unit


def test_visits_far_from_their_edges_are_kept(first: Release) -> None:
    """Also where they do not follow from endpoints, such as tiny numbers between large edges."""
    rng = np.random.default_rng(0)
    faces = rng.choice([0.0, -0.0, 1e-300, 1 / 3, 1e15, -7.25], (4, 5))
    edges = rng.uniform(0, 1e6, (4, 4)), rng.uniform(0, 1e6, (3, 5))
    release = Release(SpatialHistogram(Grid((0, 0, 1, 1), 4, 5), faces, *edges), first.provenance)
    found = unpacked(pack(release, "odd"))
    shapes = {"endpoints": (4, 5), "vertical": (4, 4), "horizontal": (3, 5)}
    parts = {name: found[f"small_{name}"].reshape(shape) for name, shape in shapes.items()}
    followed = SpatialHistogram.from_flux(release.grid, **parts).faces.view(np.int64)
    assert (followed.ravel() + found["small_steps"]).tobytes() == faces.tobytes()


def test_a_map_in_degrees_and_one_in_metres_say_so(first: Release, projected: Release) -> None:
    assert pack(first, "first")["planar"] is None
    packed = pack(projected, "metres")
    assert packed["planar"] == {
        "crs": "EPSG:28355", "bounds": list(projected.grid.bounds), "geographic": False, "unit": "metre",
    }  # fmt: skip
    assert packed["info"]["grid"]["degrees"] == list(projected.grid.bounds)
    assert packed["info"]["grid"]["cell_degrees"] == [1_000, 1_000]


def test_what_a_page_cannot_hold_is_refused(monkeypatch: pytest.MonkeyPatch, first: Release, hourly: Release) -> None:
    with pytest.raises(InputError, match="leave out the selection of slices"):
        pack(hourly.select("07"), "hours")
    assert hourly.share_noise is not None
    noise = replace(hourly.share_noise, lattice=Lattice.even(hourly.grid, 3))
    with pytest.raises(InputError, match="different lattices"):
        pack(replace(hourly, share_noise=noise), "hours")
    monkeypatch.setattr(packing, "MOST_CELLS", 100)
    with pytest.raises(InputError, match="at most 100 cells; this map has 11 x 10"):
        pack(numbered(Grid((0, 0, 1, 1), 11, 10), first), "large")
