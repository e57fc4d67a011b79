"""The numbers of a release in other programs: QGIS and R, where they are installed, and always rasterio and pandas.

`.ci/run` does not install QGIS and R, because they are large; there, their tests skip.
"""

import csv
import os
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pandas
import pytest

import dqam
from dqam.geometry.grid import Grid
from dqam.release.release import Release
from tests.release.cases import as_if_private, seeded, sliced, strolls

SCRIPTS = Path(__file__).parents[2] / "docs/gis"
METRES = Grid((732_000, 4_981_000, 742_000, 4_993_000), 32, 64, "EPSG:32625")
RELEASES: dict[str, Callable[[], Release]] = {
    "degrees": lambda: as_if_private(seeded()),
    "metres": lambda: as_if_private(seeded(METRES, trips=strolls(METRES.bounds, crs=METRES.crs))),
    "slices": lambda: as_if_private(sliced("weekpart")),
    "not private": seeded,
}


@pytest.fixture(params=RELEASES)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The exports of a release, and what other programs should find in them."""
    release = RELEASES[request.param]()
    release.save(tmp_path / "release.nc")
    return export_known(dqam.open(tmp_path / "release.nc"), tmp_path / "gis")


def export_known(release: Release, folder: Path) -> Path:
    spec = spec_from_file_location("export_known", SCRIPTS / "export_known.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = module_from_spec(spec)
    spec.loader.exec_module(module)
    module.export_known(release, folder)
    return folder


def test_rasters_and_tables_have_the_numbers_of_the_library(folder: Path) -> None:
    rasterio = pytest.importorskip("rasterio")
    known = pandas.read_csv(folder / "known.csv")
    assert known.groupby("file").size().min() >= 5
    blocks = pandas.read_csv(folder / "blocks.csv")
    for row in known.itertuples():
        x, y, path = row.x, row.y, folder / row.file
        if path.suffix in (".tif", ".nc"):
            with rasterio.open(f"netcdf:{path}:trips" if path.suffix == ".nc" else path) as file:
                assert file.crs.to_string() == row.crs
                assert tuple(file.bounds) == pytest.approx((row.west, row.south, row.east, row.north))
                band = 1 if path.suffix == ".nc" else file.descriptions.index(row.layer) + 1
                (number,) = next(file.sample([(x, y)], band))
        elif path.suffix == ".csv":
            inside = blocks[(blocks.west <= x) & (x < blocks.east) & (blocks.south <= y) & (y < blocks.north)]
            number = inside[row.layer].item()
        else:
            continue
        assert number == pytest.approx(row.value, rel=1e-9, abs=1e-5), row


@cache
def qgis_python() -> str:
    """The Python of QGIS; empty without one."""
    for program in ("/usr/bin/python3", shutil.which("python3")):
        if program and Path(program).exists():
            found = subprocess.run([program, "-c", "import qgis.core"], env=_plain(), capture_output=True)
            if found.returncode == 0:
                return program
    return ""


@cache
def has_r() -> bool:
    """Whether R is here with the packages of the check."""
    ask = 'q(status = !all(sapply(c("terra", "stars", "ncdf4"), requireNamespace, quietly = TRUE)))'
    return bool(shutil.which("Rscript")) and subprocess.run(["Rscript", "-e", ask], capture_output=True).returncode == 0


def _plain() -> dict[str, str]:
    """The environment without the packages of this Python, which are not for another one."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}


def _run(command: list[str | Path]) -> tuple[int, str]:
    done = subprocess.run(command, env=_plain(), capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def _spoil(known: Path) -> None:
    """Move the places of one raster to the other side of the map."""
    with known.open(encoding="utf-8") as file:
        head, *rows = list(csv.reader(file))
    for row in rows:
        if row[0] == "cells.tif":
            row[3] = str(float(row[7]) + float(row[9]) - float(row[3]))
    with known.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([head, *rows])


@pytest.mark.parametrize("folder", ["degrees", "metres", "slices"], indirect=True)
def test_qgis_finds_the_numbers_of_the_library(folder: Path) -> None:
    if not (python := qgis_python()):
        pytest.skip("QGIS is not installed (on Debian: apt-get install python3-qgis qgis-providers)")
    code, words = _run([python, "-B", SCRIPTS / "check_qgis.py", folder, folder / "picture.png"])
    assert code == 0, words
    assert "all as in the library" in words
    assert (folder / "picture.png").stat().st_size > 1_000
    _spoil(folder / "known.csv")
    assert _run([python, "-B", SCRIPTS / "check_qgis.py", folder])[0] == 1


@pytest.mark.parametrize("folder", ["metres"], indirect=True)  # R is slow
def test_r_finds_the_numbers_of_the_library(folder: Path) -> None:
    if not has_r():
        pytest.skip(
            "R with terra, stars and ncdf4 is not installed (on Debian: r-cran-terra r-cran-stars r-cran-ncdf4)"
        )
    code, words = _run(["Rscript", SCRIPTS / "check_r.R", folder])
    assert code == 0, words
    assert "all as in the library" in words
    _spoil(folder / "known.csv")
    assert _run(["Rscript", SCRIPTS / "check_r.R", folder])[0] == 1
