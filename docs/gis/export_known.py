"""Export a release, and write down the library's numbers at some coordinates, which other programs should find there.

    python docs/gis/export_known.py city.nc build/gis

The folder then has the release as map.nc, its exports, and known.csv: a row for each file, layer and place, with the
answer of `Release.count`, and the CRS and bounds that the file should have. check_qgis.py and check_r.R read these; the
programs that they run in do not need dqam.
"""

import csv
import sys
from pathlib import Path

import dqam
from dqam.geometry.grid import DEGREES, transform
from dqam.release.export import export
from dqam.release.release import Release

PLACES = ((0.02, 0.03), (0.13, 0.88), (0.51, 0.48), (0.52, 0.77), (0.94, 0.31))  # shares of the width and the height


def export_known(release: Release, folder: Path, blocks: int = 16) -> None:
    """Write everything to `folder`; `blocks` must divide the columns and rows of the grid."""
    folder.mkdir(parents=True, exist_ok=True)
    release.save(folder / "map.nc", overwrite=True)
    export(release, folder / "cells.tif")
    for name in ("blocks.tif", "blocks.parquet", "blocks.geojson", "blocks.csv"):
        export(release, folder / name, blocks)
    grid = release.grid
    west, south, east, north = grid.bounds
    columns = ["file", "layer", "x", "y", "value", "crs", "west", "south", "east", "north"]
    with (folder / "known.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(columns)
        for across, up in PLACES:
            x, y = west + across * (east - west), south + up * (north - south)
            cell = answers(release, (x, y, x, y))
            block = answers(release, block_around(x, y, release, blocks))
            degrees = tuple(float(one) for one in transform(x, y, grid.crs, DEGREES))
            for name, place, values, about in (
                ("map.nc", (x, y), {"trips": next(iter(cell.values()))}, (grid.crs, *grid.bounds)),
                ("cells.tif", (x, y), cell, (grid.crs, *grid.bounds)),
                ("blocks.tif", (x, y), block, (grid.crs, *grid.bounds)),
                ("blocks.parquet", (x, y), block, (grid.crs, *grid.bounds)),
                ("blocks.geojson", degrees, block, (DEGREES, "", "", "", "")),
                ("blocks.csv", (x, y), block, ("", "", "", "", "")),
            ):
                rows.writerows([name, layer, *place, value, *about] for layer, value in values.items())


def block_around(x: float, y: float, release: Release, blocks: int) -> tuple[float, float, float, float]:
    """The block at a place, a little smaller, so that no side moves outward to the next grid line."""
    for west, south, east, north in release.cells(blocks).rectangles.bounds.tolist():
        if west <= x < east and south <= y < north:
            width, height = 1e-6 * (east - west), 1e-6 * (north - south)
            return west + width, south + height, east - width, north - height
    raise ValueError(f"no block at {x} {y}")


def answers(release: Release, area: tuple[float, float, float, float]) -> dict[str, float]:
    """The library's numbers for a rectangle, by the name of the layer or column that should have them."""
    answer, trips = release.count(area), release.provenance.column("trips")
    slices = release.slices if len(release.slices) > 1 else ()
    return {
        trips: answer.value,
        "low": answer.low,
        "high": answer.high,
        **{f"{trips} {name}": release.count(area, slices=[name]).value for name in slices},
    }


if __name__ == "__main__":
    export_known(dqam.open(sys.argv[1]), Path(sys.argv[2]))
