"""Export a release to the formats of other tools: GeoTIFF, GeoParquet and CSV.

A release answers any rectangle; exports hold only the answers for cells or blocks of cells. These do not add up,
because a trip through two cells counts in both. If a release is not private, the names of the columns say so.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import shapely

from dqam.errors import InputError
from dqam.geometry.rectangles import HEADER
from dqam.release.published_map import PublishedMap
from dqam.runtime.files import replacing

if TYPE_CHECKING:
    import geopandas


def export(release: PublishedMap, path: str | os.PathLike[str], blocks: int | None = None) -> None:
    """Write the cells of a release, or about `blocks` blocks of cells along the longer side, in the format that the
    name ends with."""
    write = WRITERS.get(Path(path).suffix.lower())
    if write is None:
        raise InputError(f"{Path(path).name}: an export must end with one of {', '.join(WRITERS)}.")
    with replacing(path) as temporary:
        write(release, temporary, blocks)


def to_geodataframe(release: PublishedMap, blocks: int | None = None) -> geopandas.GeoDataFrame:
    """A row for each cell or block: geometry, trips, low, high."""
    geopandas = _needed("geopandas")
    found = release.cells(blocks)
    columns = {name: getattr(found, field) for name, field in _columns(release).items()}
    geometry = shapely.box(*found.rectangles.bounds.T)
    return geopandas.GeoDataFrame(columns, geometry=geometry, crs=release.grid.crs)


def _columns(release: PublishedMap) -> dict[str, str]:
    """The names of a table's columns, and of the answers in them."""
    return {"trips" if release.provenance.private else "trips_not_private": "value", "low": "low", "high": "high"}


def _geotiff(release: PublishedMap, path: Path, blocks: int | None) -> None:
    """A cloud-optimised GeoTIFF of three bands, north up: trips, low and high."""
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
    profile = {"driver": "COG", "width": columns, "height": rows, "count": 3, "dtype": "float64", "crs": grid.crs}
    place = transform.from_bounds(*grid.bounds, columns, rows)
    with rasterio.open(path, "w", transform=place, compress="deflate", **profile) as file:
        for band, (name, field) in enumerate(_columns(release).items(), 1):
            file.write(getattr(found, field).reshape(rows, columns)[::-1], band)
            file.set_band_description(band, name)
        file.update_tags(**_words(release))


def _geoparquet(release: PublishedMap, path: Path, blocks: int | None) -> None:
    from pyarrow import parquet

    to_geodataframe(release, blocks).to_parquet(path)
    table = parquet.read_table(path)  # GeoPandas does not write notes of our own
    notes = {name.encode(): text.encode() for name, text in _words(release).items()}
    parquet.write_table(table.replace_schema_metadata({**(table.schema.metadata or {}), **notes}), path)


def _csv(release: PublishedMap, path: Path, blocks: int | None) -> None:
    found, columns = release.cells(blocks), _columns(release)
    numbers = (getattr(found, field).tolist() for field in columns.values())
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*HEADER, *columns])
        for sides, *answer in zip(found.rectangles.bounds.tolist(), *numbers, strict=True):
            writer.writerow([*sides, *answer])


def _words(release: PublishedMap) -> dict[str, str]:
    """The notes that must accompany the numbers."""
    provenance = release.provenance
    return {"TITLE": provenance.title, "PROMISE": provenance.promise, "RELEASE": provenance.id}


def _needed(module: str) -> Any:
    """Import a library of the extra `gis`."""
    try:
        return import_module(module)
    except ImportError:
        name = module.partition(".")[0]
        raise InputError(f"This needs {name}, which is not installed: pip install 'dqam[gis]'.") from None


WRITERS: dict[str, Callable[[PublishedMap, Path, int | None], None]] = {
    ".tif": _geotiff,
    ".tiff": _geotiff,
    ".parquet": _geoparquet,
    ".csv": _csv,
}
