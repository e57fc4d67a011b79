"""Files that were changed, damaged or made by others are refused, and read no further than they fit."""

import io
import json
import os
import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray

import dqam
from dqam import cities
from dqam.errors import InputError
from dqam.geometry.grid import Grid
from dqam.release.file import SCHEMA, SEAL_SIZE
from tests.release.cases import HERE, sealed, seeded, sliced, strolls, with_delta

FUZZED = int(os.environ.get("DQAM_FUZZ", "300"))


def test_no_change_is_overlooked(tmp_path: Path) -> None:
    """Flipped bits, cut ends, pieces put in, left out, or exchanged."""
    seeded(Grid(HERE, 4, 4), trips=strolls(HERE)).save(tmp_path / "map.nc")
    content, changed = (tmp_path / "map.nc").read_bytes(), tmp_path / "changed.nc"
    rng = np.random.default_rng(0)
    for _ in range(FUZZED):
        start, stop = np.sort(rng.integers(0, len(content), 2))
        mutated = bytearray(content)
        match rng.integers(5):
            case 0:
                mutated[start] ^= 1 << rng.integers(8)
            case 1:
                del mutated[start:]
            case 2:
                del mutated[start : stop + 1]
            case 3:
                mutated[start:start] = rng.bytes(rng.integers(1, 100))
            case 4:
                mutated[start:stop] = mutated[start:stop][::-1] + b"x"
        changed.write_bytes(mutated)
        with pytest.raises(InputError, match="changed.nc"):
            dqam.open(changed)


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "a newer form": lambda facts: facts.update(schema=SCHEMA + 1),
    "no form": lambda facts: facts.pop("schema"),
    "a form in words": lambda facts: facts.update(schema="one"),
    "something more": lambda facts: facts.update(exact_trips=17),
    "no promise": lambda facts: facts.pop("epsilon"),
    "another epsilon": lambda facts: facts.update(epsilon="1/2"),
    "epsilon below 0": lambda facts: facts.update(epsilon="-1"),
    "another unit": lambda facts: facts.update(unit={"name": "house", "max_trips": 1}),
    "a unit of one more": lambda facts: facts.update(unit={"name": "trip", "max_trips": 1, "more": 1}),
    "another relation": lambda facts: facts.update(neighbours="REPLACE"),
    "no mechanism": lambda facts: facts.update(mechanism=""),
    "no paid questions": lambda facts: facts.update(paid=[]),
    "half the paid questions": lambda facts: facts["paid"].pop(),
    "paid questions in words": lambda facts: facts.update(paid="none"),
    "other rows": lambda facts: facts["grid"].update(rows=3),
    "bounds upside down": lambda facts: facts["grid"].update(bounds=[1, 1, 0, 0]),
    "three bounds": lambda facts: facts["grid"].update(bounds=[0, 0, 1]),
    "no crs": lambda facts: facts["grid"].update(crs="EPSG:nothing"),
    "errors below 0": lambda facts: facts["uncertainty"].update(model=-1.0),
    "errors in words": lambda facts: facts["uncertainty"].update(noise="much"),
    "perhaps private": lambda facts: facts.update(private="no"),
    "a form that is true": lambda facts: facts.update(schema=True),
    "a form before the first": lambda facts: facts.update(schema=0),
    "a title in parts": lambda facts: facts.update(title=["a", "b"]),
    "a mechanism without proof": lambda facts: facts.update(mechanism="dqam-printed"),
    "a mechanism in markup": lambda facts: facts.update(mechanism="<b>flux"),
    "perhaps monotone": lambda facts: facts.update(monotone="yes"),
    "a resolution of 0": lambda facts: facts["paid"][0].update(resolution=0),
    "a delta in words": lambda facts: facts["paid"][0].update(delta="tiny"),
    "a sensitivity below 0": lambda facts: facts["paid"][0].update(sensitivity=-1),
    "a huge sensitivity": lambda facts: facts["paid"][0].update(sensitivity=10**400),
    "a huge scale": lambda facts: facts["paid"][0].update(scale="9" * 101),
    "a crs that names a file": lambda facts: facts["grid"].update(crs="+init=/etc/passwd:x"),
    "another that does": lambda facts: facts["grid"].update(crs="+proj=merc +nadgrids=/dev/null"),
    "a key that moves the cursor": lambda facts: facts.update({"\x1b[2J": 1}),
    "an endless scale": lambda facts: facts["paid"][0].update(scale="1e999999999"),
    "an odd scale": lambda facts: facts["paid"][0].update(scale="1/0"),
    "a delta that was not paid for": lambda facts: facts.update(delta="1/100000000"),
    "delta below 0": lambda facts: facts.update(delta="-1/100000000"),
    "delta in words": lambda facts: facts.update(delta="tiny"),
    "delta as a number": lambda facts: facts.update(delta=1e-8),
    "no number as delta": lambda facts: facts.update(delta=None),
    "a rho without a delta": lambda facts: facts["paid"][0].update(rho="1/1000"),
    "no epsilon without a delta": lambda facts: facts["paid"][0].update(epsilon=None),
    "a rho in place of epsilon": lambda facts: facts["paid"][0].update(epsilon=None, rho="1/1000"),
}

WITH_DELTA: dict[str, tuple[str, Callable[[dict[str, Any]], object]]] = {
    "no delta": ("not paid in epsilon", lambda facts: facts.pop("delta")),
    "delta 0": ("not paid in epsilon", lambda facts: facts.update(delta="0")),
    "delta below 0": ("not a positive fraction", lambda facts: facts.update(delta="-1/100000000")),
    "delta in words": ("not a positive fraction", lambda facts: facts.update(delta="tiny")),
    "an endless delta": ("not a positive fraction", lambda facts: facts.update(delta="1e-999999999")),
    "delta as a number": ("TypeError", lambda facts: facts.update(delta=1e-8)),
    "a huge delta": ("Delta must be a small probability", lambda facts: facts.update(delta="1/2")),
    "delta above 1": ("Delta must be a small probability", lambda facts: facts.update(delta="9" * 100)),
    "a delta that is too small": ("Delta must be", lambda facts: facts.update(delta=f"1/{10**31}")),
    "a smaller delta": ("more than epsilon = 1, delta = 1e-9", lambda facts: facts.update(delta="1/1000000000")),
    "a smaller epsilon": ("more than epsilon = 0.5, delta = 1e-8", lambda facts: facts.update(epsilon="1/2")),
    "a huge epsilon": ("epsilon must be", lambda facts: facts.update(epsilon="9" * 100)),
    "no rho": ("not paid in rho", lambda facts: facts["paid"][3].pop("rho")),
    "nothing as rho": ("not paid in rho", lambda facts: facts["paid"][0].update(rho=None)),
    "rho below 0": ("not a positive fraction", lambda facts: facts["paid"][0].update(rho="-1/800")),
    "rho 0": ("not a positive fraction", lambda facts: facts["paid"][0].update(rho="0")),
    "rho in words": ("not a positive fraction", lambda facts: facts["paid"][0].update(rho="some")),
    "rho as a number": ("TypeError", lambda facts: facts["paid"][0].update(rho=0.00125)),
    "more rho than there is": ("add up to", lambda facts: facts["paid"].append(facts["paid"][0])),
    "less rho than epsilon": ("too little rho", lambda facts: facts["paid"][0].update(rho="1/801")),
    "less rho than a choice": ("too little rho", lambda facts: facts["paid"][1].update(rho="1/7201")),
    "a choice with Gaussian noise": ("only measured numbers", lambda facts: facts["paid"][1].update(epsilon=None)),
}


@pytest.mark.parametrize(("words", "change"), WITH_DELTA.values(), ids=WITH_DELTA.keys())
def test_a_delta_that_does_not_fit_is_refused_though_sealed(
    words: str, change: Callable[[dict[str, Any]], object], tmp_path: Path
) -> None:
    """Of its four questions, the first is measured with Laplace noise, the second is a choice."""
    release = with_delta(seeded(Grid(HERE, 4, 4), trips=strolls(HERE)))
    release.save(tmp_path / "map.nc")
    assert dqam.open(tmp_path / "map.nc").provenance == release.provenance
    dataset = release.to_xarray()
    facts = json.loads(dataset.attrs["dqam"])
    change(facts)
    dataset.attrs["dqam"] = json.dumps(facts)
    (tmp_path / "changed.nc").write_bytes(sealed(bytes(dataset.to_netcdf(engine="h5netcdf"))))
    with pytest.raises(InputError, match=words):
        dqam.open(tmp_path / "changed.nc")


def test_files_from_before_there_was_a_delta_still_open(tmp_path: Path) -> None:
    release = seeded(Grid(HERE, 4, 4), trips=strolls(HERE))
    dataset = release.to_xarray()
    facts = json.loads(dataset.attrs["dqam"])
    del facts["delta"]
    for entry in facts["paid"]:
        del entry["rho"]
    dataset.attrs["dqam"] = json.dumps(facts)
    (tmp_path / "map.nc").write_bytes(sealed(bytes(dataset.to_netcdf(engine="h5netcdf"))))
    assert dqam.open(tmp_path / "map.nc").provenance == release.provenance


def test_a_release_with_a_delta_is_opened_as_it_was_made(tmp_path: Path) -> None:
    release = seeded(epsilon="20", delta="1e-8")
    assert release.provenance.delta == Fraction(1, 10**8)
    assert any(entry.epsilon is None for entry in release.provenance.paid)
    release.save(tmp_path / "map.nc")
    assert dqam.open(tmp_path / "map.nc").provenance == release.provenance


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_what_does_not_fit_is_refused_though_sealed(change: Callable[[dict[str, Any]], object], tmp_path: Path) -> None:
    dataset = seeded(Grid(HERE, 4, 4), trips=strolls(HERE)).to_xarray()
    facts = json.loads(dataset.attrs["dqam"])
    change(facts)
    dataset.attrs["dqam"] = json.dumps(facts)
    (tmp_path / "map.nc").write_bytes(sealed(bytes(dataset.to_netcdf(engine="h5netcdf"))))
    with pytest.raises(InputError, match="map.nc"):
        dqam.open(tmp_path / "map.nc")


NUMBERS: dict[str, Callable[[xarray.Dataset], xarray.Dataset]] = {
    "not a number": lambda dataset: dataset.assign(trips=dataset.trips * np.nan),
    "fewer": lambda dataset: dataset.isel(lat=slice(1, None)),
    "whole numbers": lambda dataset: dataset.assign(trips=dataset.trips.astype("i4")),
    "none": lambda dataset: dataset.drop_vars("vertical"),
    "not monotone": lambda dataset: dataset.assign(vertical=dataset.vertical + 1e6),
    "another lattice": lambda dataset: dataset.assign(lattice_east=dataset.lattice_east + 1),
    "less uncertainty": lambda dataset: dataset.isel(lattice_number=slice(1, None)),
    "half a lattice": lambda dataset: dataset.drop_vars("lattice_north"),
}


@pytest.mark.parametrize("change", NUMBERS.values(), ids=NUMBERS.keys())
def test_numbers_that_do_not_fit_are_refused(
    change: Callable[[xarray.Dataset], xarray.Dataset], tmp_path: Path
) -> None:
    dataset = change(seeded().to_xarray())
    (tmp_path / "map.nc").write_bytes(sealed(bytes(dataset.to_netcdf(engine="h5netcdf"))))
    with pytest.raises(InputError, match="map.nc"):
        dqam.open(tmp_path / "map.nc")


SCALES: dict[str, Callable[[xarray.Dataset], xarray.Dataset]] = {
    "no side": lambda dataset: _with_scales(dataset, side=0),
    "half a side": lambda dataset: _with_scales(dataset, side=1.5),
    "an offset below 0": lambda dataset: _with_scales(dataset, offset=-1.0),
    "an endless offset": lambda dataset: _with_scales(dataset, offset=float("inf")),
    "large ones missing": lambda dataset: dataset.drop_vars("large_vertical"),
    "large ones not monotone": lambda dataset: dataset.assign(large_faces=dataset.large_faces - 1e6),
}


def _with_scales(dataset: xarray.Dataset, **scales: float) -> xarray.Dataset:
    facts = json.loads(dataset.attrs["dqam"])
    facts["scales"] |= scales
    return dataset.assign_attrs(dqam=json.dumps(facts))


@pytest.fixture(scope="module")
def two_scales() -> xarray.Dataset:
    return seeded(Grid.over(cities.BOUNDS, 7), epsilon="1000").to_xarray()


@pytest.mark.parametrize("change", SCALES.values(), ids=SCALES.keys())
def test_scales_that_do_not_fit_are_refused(
    change: Callable[[xarray.Dataset], xarray.Dataset], two_scales: xarray.Dataset, tmp_path: Path
) -> None:
    (tmp_path / "map.nc").write_bytes(sealed(bytes(change(two_scales).to_netcdf(engine="h5netcdf"))))
    with pytest.raises(InputError, match="map.nc is not a valid release"):
        dqam.open(tmp_path / "map.nc")


def put_in(path: Path, change: Callable[[h5py.File], object]) -> None:
    """Change the numbers of a release, and seal it again."""
    body = io.BytesIO(path.read_bytes()[:-SEAL_SIZE])
    with h5py.File(body, "r+") as file:
        change(file)
    path.write_bytes(sealed(body.getvalue()))


def outside(file: h5py.File, folder: Path) -> None:
    del file["trips"]
    file.create_dataset("trips", (32, 32), "f8", external=[(str(folder / "secret"), 0, h5py.h5f.UNLIMITED)])


def virtual(file: h5py.File, folder: Path) -> None:
    with h5py.File(folder / "other.h5", "w") as other:
        other["x"] = np.zeros((32, 32))
    layout = h5py.VirtualLayout((32, 32), "f8")
    layout[:] = h5py.VirtualSource(str(folder / "other.h5"), "x", (32, 32))
    del file["trips"]
    file.create_virtual_dataset("trips", layout)


def linked(file: h5py.File, folder: Path) -> None:
    del file["trips"]
    file["trips"] = h5py.ExternalLink(str(folder / "other.h5"), "x")


def soft(file: h5py.File, folder: Path) -> None:
    file["kept"] = file["trips"]
    del file["trips"]
    file["trips"] = h5py.SoftLink("/kept")


def huge(file: h5py.File, folder: Path) -> None:
    del file["displacements"]
    file.create_dataset("displacements", (200_000, 200_000), "f8", chunks=(1000, 1000))


def huge_lattice(file: h5py.File, folder: Path) -> None:
    del file["lattice_east"]
    file.create_dataset("lattice_east", (10**12,), "i8", chunks=(1000,))


def too_large(file: h5py.File, folder: Path) -> None:
    file["vertical"][0, 0] = 1e300


@pytest.mark.parametrize("change", [outside, virtual, linked, soft, huge, huge_lattice, too_large])
def test_numbers_come_from_the_file_and_fit_the_grid(change: Callable[[h5py.File, Path], None], tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(32 * 32 * 8))
    seeded().save(tmp_path / "map.nc")
    put_in(tmp_path / "map.nc", lambda file: None)
    dqam.open(tmp_path / "map.nc")  # so far all is well
    put_in(tmp_path / "map.nc", lambda file: change(file, tmp_path))
    tracemalloc.start()
    with pytest.raises(InputError, match="map.nc is not a valid release"):
        dqam.open(tmp_path / "map.nc")
    assert tracemalloc.get_traced_memory()[1] < 2**26
    tracemalloc.stop()


def test_what_is_not_known_is_not_read(tmp_path: Path) -> None:
    seeded().save(tmp_path / "map.nc")
    put_in(tmp_path / "map.nc", lambda file: file.create_dataset("zz", (10**12,), "f8", chunks=(1000,)))
    assert dqam.open(tmp_path / "map.nc").grid == seeded().grid


def test_a_ledger_of_odd_fractions_is_refused_at_once(tmp_path: Path) -> None:
    dataset = seeded(Grid(HERE, 4, 4), trips=strolls(HERE)).to_xarray()
    facts = json.loads(dataset.attrs["dqam"])
    entry = facts["paid"][0]
    facts["paid"] = [{**entry, "epsilon": f"1/{10**100 + i}", "kind": "select"} for i in range(9_000)]
    dataset.attrs["dqam"] = json.dumps(facts)
    (tmp_path / "map.nc").write_bytes(sealed(bytes(dataset.to_netcdf(engine="h5netcdf"))))
    with pytest.raises(InputError, match="too many digits"):
        dqam.open(tmp_path / "map.nc")


@pytest.mark.parametrize("content", [b"", b"x", b"west,south\n" * 50, sealed(b"no HDF5"), sealed(b"")])
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "map.nc").write_bytes(content)
    with pytest.raises(InputError, match="map.nc"):
        dqam.open(tmp_path / "map.nc")


def test_folders_and_missing_files_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing.nc"):
        with pytest.raises(InputError, match="is not a file|cannot be read"):
            dqam.open(path)


def test_saved_by_another_program_it_is_refused(tmp_path: Path) -> None:
    seeded().save(tmp_path / "map.nc")
    with xarray.open_dataset(tmp_path / "map.nc") as dataset:
        dataset.to_netcdf(tmp_path / "again.nc")
    with pytest.raises(InputError, match="again.nc is not a release"):
        dqam.open(tmp_path / "again.nc")


def times(file: h5py.File, name: str, factor: float) -> None:
    file[name].write_direct(file[name][()] * factor)


SLICE_CHANGES: dict[str, Callable[[h5py.File, dict[str, Any]], object]] = {
    "no names": lambda file, facts: facts.update(slice_names=[]),
    "names twice": lambda file, facts: facts.update(slice_names=["00"] * 24),
    "names that are numbers": lambda file, facts: facts.update(slice_names=list(range(24))),
    "names of several lines": lambda file, facts: facts.update(slice_names=[f"{i}\n" for i in range(24)]),
    "shares below 0": lambda file, facts: times(file, "slice_mixture", -1),
    "shares of too much": lambda file, facts: times(file, "slice_endpoints", 2),
    "shares without a number": lambda file, facts: file["slice_crossings"].write_direct(
        file["slice_crossings"][()] * np.nan
    ),
    "weights of 0": lambda file, facts: times(file, "slice_weight", 0),
    "noise below 0": lambda file, facts: file["slice_noise"].write_direct(np.array(-1.0)),
    "no lattice": lambda file, facts: file.pop("slice_east"),
    "no mixture": lambda file, facts: file.pop("slice_mixture"),
}


@pytest.mark.parametrize("change", SLICE_CHANGES.values(), ids=SLICE_CHANGES.keys())
def test_slices_that_were_changed_are_refused(
    change: Callable[[h5py.File, dict[str, Any]], object], tmp_path: Path
) -> None:
    sliced().save(tmp_path / "map.nc")
    body = io.BytesIO((tmp_path / "map.nc").read_bytes()[:-SEAL_SIZE])
    with h5py.File(body, "r+") as file:
        facts = json.loads(file.attrs["dqam"])
        change(file, facts)
        file.attrs["dqam"] = json.dumps(facts)
    (tmp_path / "changed.nc").write_bytes(sealed(body.getvalue()))
    with pytest.raises(InputError, match=r"changed\.nc is not a"):
        dqam.open(tmp_path / "changed.nc")


def test_files_from_before_counts_were_made_whole_open(tmp_path: Path) -> None:
    dataset = seeded(Grid(HERE, 4, 4), trips=strolls(HERE)).to_xarray()
    facts = json.loads(dataset.attrs["dqam"])
    for holder in (facts, facts, facts["uncertainty"]):
        holder.pop("factor", None)
    facts.pop("scaled_up_to")
    dataset.attrs["dqam"] = json.dumps(facts)
    (tmp_path / "map.nc").write_bytes(sealed(bytes(dataset.to_netcdf(engine="h5netcdf"))))
    release = dqam.open(tmp_path / "map.nc")
    assert (release.provenance.factor, release.provenance.scaled_up_to) == (1, 0)
    assert release.uncertainty is not None
    assert release.uncertainty.factor == 1


MADE_WHOLE: dict[str, Callable[[dict[str, Any]], object]] = {
    "scaled for trips": lambda facts: facts.update(factor=2.0, scaled_up_to=20, unit={"name": "trip", "max_trips": 1}),
    "scaled down": lambda facts: facts.update(factor=0.5, scaled_up_to=20),
    "scaled to fewer trips than are kept": lambda facts: facts.update(factor=2.0, scaled_up_to=2),
    "scaled without saying to how many": lambda facts: facts.update(factor=2.0),
    "scaled endlessly": lambda facts: facts.update(factor=float("inf"), scaled_up_to=20),
    "scaled by words": lambda facts: facts.update(factor="much", scaled_up_to=20),
    "m chosen without a measurement": lambda facts: facts.update(max_trips_chosen=True),
    "m chosen by words": lambda facts: facts.update(factor=2.0, scaled_up_to=20, max_trips_chosen="yes"),
    "scaled by less than its intervals": lambda facts: facts["uncertainty"].update(factor=0.5),
}


@pytest.mark.parametrize("change", MADE_WHOLE.values(), ids=MADE_WHOLE.keys())
def test_a_factor_that_does_not_fit_is_refused(change: Callable[[dict[str, Any]], object], tmp_path: Path) -> None:
    dataset = seeded(Grid(HERE, 4, 4), trips=strolls(HERE)).to_xarray()
    facts = json.loads(dataset.attrs["dqam"]) | {"unit": {"name": "person", "max_trips": 3}}
    change(facts)
    dataset.attrs["dqam"] = json.dumps(facts)
    (tmp_path / "map.nc").write_bytes(sealed(bytes(dataset.to_netcdf(engine="h5netcdf"))))
    with pytest.raises(InputError, match="map.nc is not"):
        dqam.open(tmp_path / "map.nc")
