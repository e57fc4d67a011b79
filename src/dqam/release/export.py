"""Export a release to the formats of other tools: GeoTIFF, GeoParquet, GeoJSON and CSV.

A release answers any area; exports hold only the answers for cells, blocks of cells or hexagons. These do not add up,
because a trip through two cells counts in both. If a release is not private, the names of the columns say so.
"""

from __future__ import annotations

import math
import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import shapely

from dqam.errors import InputError
from dqam.geometry.arrays import Floats
from dqam.geometry.grid import DEGREES
from dqam.geometry.rectangles import HEADER
from dqam.geometry.shape_tables import write_shapes
from dqam.release.answers import Answers
from dqam.release.hexagons import Hexagons, answer_hexagons
from dqam.release.published_map import PublishedMap
from dqam.runtime.files import replacing

if TYPE_CHECKING:
    import geopandas

RASTERS = (".tif", ".tiff")
TABLES = (".parquet", ".geojson", ".csv")
PAGES = (".html",)


def export(
    release: PublishedMap, path: str | os.PathLike[str], blocks: int | None = None, h3: int | None = None
) -> None:
    """Write the cells of a release, or about `blocks` blocks of cells along the longer side, or the hexagons of the
    resolution `h3`, in the format that the name ends with. The trips of each slice follow the answers for all."""
    suffix = Path(path).suffix.lower()
    if suffix in PAGES:
        raise InputError(
            f"{Path(path).name}: import dqam.explorer and write a page with dqam.explorer.write_page(release, path)."
        )
    if suffix not in (*RASTERS, *TABLES):
        known = ", ".join((*RASTERS, *TABLES, *PAGES, ".stac.json"))
        raise InputError(f"{Path(path).name}: an export must end with one of {known}.")
    if h3 is not None and blocks is not None:
        raise InputError(f"Give blocks={blocks} or h3={h3}, not both: an export has either blocks or hexagons.")
    if h3 is not None and suffix in RASTERS:
        raise InputError(
            f"{Path(path).name}: a raster cannot hold hexagons; end the name with one of {', '.join(TABLES)}."
        )
    with replacing(path) as temporary:
        if suffix in RASTERS:
            _geotiff(release, temporary, blocks)
        elif h3 is None:
            found = release.cells(blocks)
            shapes = shapely.box(*found.rectangles.bounds.T)
            sides = dict(zip(HEADER, found.rectangles.bounds.T, strict=True)) if suffix == ".csv" else {}
            columns = {**sides, **_columns(release, found)}
            write_shapes(temporary, columns, shapes, release.grid.crs, notes(release), suffix)
        else:
            hexagons = answer_hexagons(release, h3)
            columns = {"h3": hexagons.index, **_columns(release, hexagons), "cut": hexagons.cut}
            write_shapes(temporary, columns, hexagons.shapes, DEGREES, notes(release), suffix)


def to_geodataframe(release: PublishedMap, blocks: int | None = None) -> geopandas.GeoDataFrame:
    """A row for each cell or block: geometry, trips, low, high."""
    geopandas = _needed("geopandas")
    found = release.cells(blocks)
    geometry = shapely.box(*found.rectangles.bounds.T)
    return geopandas.GeoDataFrame(_columns(release, found), geometry=geometry, crs=release.grid.crs)


def to_h3(release: PublishedMap, resolution: int) -> geopandas.GeoDataFrame:
    """A row for each hexagon that meets the map: h3, trips, low, high, cut, geometry."""
    geopandas = _needed("geopandas", "h3")
    found = answer_hexagons(release, resolution)
    columns = {"h3": found.index, **_columns(release, found), "cut": found.cut}
    return geopandas.GeoDataFrame(columns, geometry=found.shapes, crs=DEGREES)


def _columns(release: PublishedMap, found: Answers | Hexagons) -> dict[str, Floats]:
    """The columns of a table with the answers; after them, one with the trips of each slice, which add up to all."""
    trips = release.provenance.column("trips")
    columns = {trips: found.value, "low": found.low, "high": found.high}
    if len(release.slices) > 1:
        each = found.by_slice if isinstance(found, Hexagons) else release.values_by_slice(found.asked)
        columns |= {f"{trips} {name}": values for name, values in zip(release.slices, each, strict=True)}
    return columns


def _geotiff(release: PublishedMap, path: Path, blocks: int | None) -> None:
    """A cloud-optimised GeoTIFF, north up, with the bands trips, low, high, and the trips of each slice."""
    rasterio, transform = _needed("rasterio"), _needed("rasterio.transform")
    grid, found = release.grid, release.cells(blocks)
    columns = len(set(found.rectangles.cells[:, 0].tolist()))
    rows = len(found) // columns
    if grid.rows % rows or grid.columns % columns:
        raise InputError(
            f"A GeoTIFF has cells of one size, and {rows} x {columns} blocks of {grid.rows} x {grid.columns} cells do "
            "not; give a number of blocks that divides the grid, such as "
            f"blocks={math.gcd(grid.rows, grid.columns)}, or write a .parquet file."
        )
    bands = _columns(release, found)
    profile = {
        "driver": "COG",
        "width": columns,
        "height": rows,
        "count": len(bands),
        "dtype": "float64",
        "nodata": math.nan,  # a release without intervals has neither low nor high
        "crs": grid.crs,
        "overview_resampling": "nearest",  # zoomed out, the map still shows answers, and none below 0
    }
    place = transform.from_bounds(*grid.bounds, columns, rows)
    with rasterio.open(path, "w", transform=place, compress="deflate", **profile) as file:
        for band, (name, numbers) in enumerate(bands.items(), 1):
            file.write(numbers.reshape(rows, columns)[::-1], band)
            file.set_band_description(band, name)
        file.update_tags(**notes(release))


def notes(release: PublishedMap) -> dict[str, str]:
    """The notes that must accompany the numbers."""
    provenance = release.provenance
    return {"TITLE": provenance.title, "PROMISE": provenance.promise, "RELEASE": provenance.id}


def _needed(module: str, extra: str = "gis") -> Any:
    """Import a library of an extra."""
    try:
        return import_module(module)
    except ImportError:
        name = module.partition(".")[0]
        raise InputError(f"This needs {name}, which is not installed: pip install 'dqam[{extra}]'.") from None
