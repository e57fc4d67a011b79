"""Public priors: the pattern in a release, or in a GeoTIFF such as a population density, brought to the grid of a map.

A prior is public: it must not be made from the trips that are to be published, unless it is an earlier release of them.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from dqam.errors import InputError
from dqam.geometry.arrays import Floats
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram, TwoScaleHistogram
from dqam.geometry.sliced_histogram import SlicedHistogram
from dqam.mechanisms.prior import Prior
from dqam.release.reading import open_release
from dqam.release.release import Release

COVERED = 0.95  # of the map, that a prior must cover
POINTS = 2**22  # about so many points at which a release on another grid is read
MOST_POINTS = 16  # along a side of a cell
NAMED = 80  # characters of a name in the provenance
ALLOWED = "prior must be a Release, or the file of one (.nc) or of a GeoTIFF (.tif)"


@dataclass(frozen=True, eq=False)
class PublicPrior:
    """A prior on the grid of a map, and what it is, for the provenance: a name and a checksum."""

    pattern: Prior
    source: str

    @classmethod
    def of(cls, prior: Release | str | os.PathLike[str], grid: Grid) -> PublicPrior:
        """Read a prior and bring it to `grid`; an `InputError` if it cannot be one."""
        if isinstance(prior, Release):
            return cls(_of_release(prior, grid), _described(prior, _checksum_of_cells(prior)))
        if not isinstance(prior, str | os.PathLike):
            raise InputError(f"{ALLOWED}; got {type(prior).__name__}.")
        path = Path(prior)
        if path.suffix.lower() not in (".nc", ".tif", ".tiff"):
            raise InputError(f"{ALLOWED}; got {path.name!r:.60}.")
        try:
            with path.open("rb") as file:
                checksum = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise InputError(f"The prior {path} cannot be read ({error.strerror}); check the path.") from None
        if path.suffix.lower() == ".nc":
            release = open_release(path)
            return cls(_of_release(release, grid), _described(release, checksum))
        return cls(_of_raster(path, grid), f"GeoTIFF {path.name!r:.{NAMED}}, sha256 {checksum}")


def _described(release: Release, checksum: str) -> str:
    provenance = release.provenance
    return f"release {provenance.title!r:.{NAMED}}, id {provenance.id:.{NAMED}}, sha256 {checksum}"


def _checksum_of_cells(release: Release) -> str:
    """A checksum of the cells of a release that is not in a file."""
    return hashlib.sha256(np.ascontiguousarray(release.histogram.faces, np.float64).tobytes()).hexdigest()


def _of_release(release: Release, grid: Grid) -> Prior:
    """The pattern of a release, with its crossings if it is on the same grid and monotone."""
    if not release.provenance.private:
        raise InputError(
            "The prior is a release with noise from a seed, which is not private; give one made by `publish`."
        )
    histogram: SpatialHistogram = release.histogram
    if isinstance(histogram, SlicedHistogram) and histogram.complete:
        histogram = histogram.whole
    if isinstance(histogram, TwoScaleHistogram):
        histogram = histogram.large
    faces = np.maximum(np.asarray(histogram.faces, np.float64), 0)  # other mechanisms have numbers below 0
    if release.grid != grid:
        return Prior(grid, _checked(_sampled(faces, release.grid, grid)))
    known = histogram if histogram.total > 0 and histogram.is_monotone() else None
    return Prior(grid, _checked(faces), known)


def _sampled(values: Floats, source: Grid, grid: Grid) -> Floats:
    """The mean of values on another grid over each cell, from points that are spread evenly in it."""
    side = int(np.clip(np.sqrt(POINTS / (grid.rows * grid.columns)), 1, MOST_POINTS))
    across = (np.arange(side) + 0.5) / side
    found, inside = np.zeros(grid.shape), 0
    columns, rows = np.meshgrid(np.arange(grid.columns), np.arange(grid.rows))
    for up in across:
        for right in across:
            x, y = grid.from_cells(columns + right, rows + up)
            u, v = source.to_cells(x.ravel(), y.ravel(), grid.crs)
            there = (u >= 0) & (u < source.columns) & (v >= 0) & (v < source.rows)  # False for what is not finite
            inside += int(there.sum())
            cells = v[there].astype(np.int64), u[there].astype(np.int64)
            found.ravel()[there] += values[cells]
    _check_cover(inside / (grid.rows * grid.columns * side**2))
    return found / side**2


def _of_raster(path: Path, grid: Grid) -> Prior:
    """The first band of a GeoTIFF, averaged over the cells of the grid; where there are no data, there are no trips."""
    rasterio, vrt, transform, warp = map(_needed, ("rasterio", "rasterio.vrt", "rasterio.transform", "rasterio.warp"))
    resampling = _needed("rasterio.enums").Resampling.average
    try:
        with rasterio.open(path) as file:
            if file.crs is None:
                raise InputError(f"The prior {path.name} does not say in which CRS it is; add it with `gdal_edit.py`.")
            if (file.descriptions[0] or "").endswith("_not_private"):
                raise InputError(f"The prior {path.name} was made with noise from a seed, so it is not private.")
            _check_cover(_covered(grid, file.bounds, warp.transform_bounds(grid.crs, file.crs, *grid.bounds)))
            place = transform.from_bounds(*grid.bounds, grid.columns, grid.rows)
            shape = {"transform": place, "width": grid.columns, "height": grid.rows}
            with vrt.WarpedVRT(file, crs=grid.crs, resampling=resampling, **shape) as moved:
                cells = moved.read(1, masked=True).astype(np.float64)
    except (rasterio.errors.RasterioError, rasterio.errors.CRSError) as error:
        raise InputError(f"The prior {path.name} cannot be read as a GeoTIFF ({type(error).__name__}).") from None
    filled = np.ma.filled(cells, 0.0)
    return Prior(grid, _checked(np.where(np.isnan(filled), 0.0, filled)[::-1]))


def _covered(grid: Grid, bounds: tuple[float, ...], wanted: tuple[float, ...]) -> float:
    """The share of the map, with bounds `wanted` in another CRS, that lies within `bounds`."""
    if not np.isfinite(wanted).all():
        raise InputError(f"The map, {grid}, cannot be expressed in the CRS of the prior.")
    wide = max(min(bounds[2], wanted[2]) - max(bounds[0], wanted[0]), 0.0) / (wanted[2] - wanted[0])
    high = max(min(bounds[3], wanted[3]) - max(bounds[1], wanted[1]), 0.0) / (wanted[3] - wanted[1])
    return wide * high


def _check_cover(share: float) -> None:
    if share < COVERED:
        raise InputError(f"The prior covers only {share:.0%} of the map; give one that covers all of it.")


def _checked(density: Floats) -> Floats:
    """The density, if it can be one."""
    if not np.isfinite(density).all():
        raise InputError("The prior has values on the map that are not finite; give finite numbers, not below 0.")
    if density.min() < 0:
        raise InputError(f"The prior has negative values on the map, such as {density.min():g}; give a density.")
    if not density.sum() > 0:
        raise InputError("The prior is 0 everywhere on the map; give one with a pattern.")
    return np.ascontiguousarray(density / density.max())


def _needed(module: str) -> Any:
    """Import a module of the extra gis."""
    try:
        return import_module(module)
    except ImportError:
        raise InputError(
            "A prior from a GeoTIFF needs rasterio, which is not installed: pip install 'dqam[gis]'."
        ) from None
