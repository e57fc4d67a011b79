"""Open the files that export_known.py wrote in QGIS, and print what it finds beside the library's numbers.

    /usr/bin/python3 docs/gis/check_qgis.py build/gis [picture.png]

It runs in QGIS's own Python, without a window. Exit code 1 means that a file did not open, lies at another place, or
has another number. A file for which this QGIS has no driver is named and not checked. The picture shows cells.tif, with
the outlines of blocks.geojson over it.
"""

import csv
import os
import sys
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from osgeo import gdal
from qgis.core import (
    Qgis,
    QgsApplication,
    QgsColorRampShader,
    QgsFeatureRequest,
    QgsFillSymbol,
    QgsMapLayer,
    QgsMapRendererParallelJob,
    QgsMapSettings,
    QgsPointXY,
    QgsRasterLayer,
    QgsRasterShader,
    QgsRectangle,
    QgsSingleBandPseudoColorRenderer,
    QgsVectorLayer,
)
from qgis.PyQt.QtCore import QSize
from qgis.PyQt.QtGui import QColor

DRIVERS = {".nc": "netCDF", ".tif": "GTiff", ".parquet": "Parquet", ".geojson": "GeoJSON"}


def opened(path: Path) -> QgsMapLayer:
    """The layer that QGIS makes of a file."""
    if path.suffix == ".nc":
        return QgsRasterLayer(f"NETCDF:{path}:trips", "trips", "gdal")
    if path.suffix == ".tif":
        return QgsRasterLayer(str(path), path.name, "gdal")
    if path.suffix == ".csv":
        return QgsVectorLayer(f"{path.absolute().as_uri()}?geomType=none", path.name, "delimitedtext")
    return QgsVectorLayer(str(path), path.name, "ogr")


def found(layer: QgsMapLayer, name: str, x: float, y: float) -> float:
    """The number of a band or a column at a place; not a number if there is none."""
    if isinstance(layer, QgsRasterLayer):
        bands = [layer.bandName(band).partition(": ")[2] for band in range(1, layer.bandCount() + 1)]
        band = bands.index(name) + 1 if name in bands else 1 if layer.bandCount() == 1 else 0
        value, good = layer.dataProvider().sample(QgsPointXY(x, y), band)
        return value if good else float("nan")
    if layer.isSpatial():
        request = QgsFeatureRequest().setFilterRect(QgsRectangle(x, y, x, y))
    else:
        request = QgsFeatureRequest().setFilterExpression(
            f"west <= {x} and {x} < east and south <= {y} and {y} < north"
        )
    rows = list(layer.getFeatures(request))
    return float(rows[0][name]) if len(rows) == 1 else float("nan")


def misplaced(layer: QgsMapLayer, row: dict[str, str]) -> str:
    """What is wrong with the CRS or the extent of a layer; empty if nothing is."""
    if row["crs"] and layer.crs().authid() != row["crs"]:
        return f"CRS {layer.crs().authid()} instead of {row['crs']}"
    if row["west"]:
        wanted = [float(row[side]) for side in ("west", "south", "east", "north")]
        extent = layer.extent()
        sides = [extent.xMinimum(), extent.yMinimum(), extent.xMaximum(), extent.yMaximum()]
        size = max(map(abs, wanted))
        if max(abs(a - b) for a, b in zip(sides, wanted, strict=True)) > 1e-9 * size:
            return f"extent {sides} instead of {wanted}"
    return ""


def check(folder: Path) -> int:
    """Print a line for each number; how many are wrong."""
    with (folder / "known.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    layers, wrong = {}, 0
    print(f"QGIS {Qgis.version()}, GDAL {gdal.__version__}")
    for name in dict.fromkeys(row["file"] for row in rows):
        driver = DRIVERS.get(Path(name).suffix)
        if driver and gdal.GetDriverByName(driver) is None:
            print(f"{name}: not checked, because this GDAL has no {driver} driver")
            continue
        layers[name] = opened(folder / name)
        first = next(row for row in rows if row["file"] == name)
        problem = misplaced(layers[name], first) if layers[name].isValid() else "QGIS does not open it"
        print(f"{name}: {problem or 'opens at its place'}")
        wrong += bool(problem)
    for row in (row for row in rows if row["file"] in layers):
        x, y, value = float(row["x"]), float(row["y"]), float(row["value"])
        number = found(layers[row["file"]], row["layer"], x, y)
        equal = abs(number - value) <= 1e-5 + 1e-9 * abs(value)  # with slices, the library rounds to about 1e-5
        wrong += not equal
        print(
            f"{row['file']:15} {row['layer']:15} {x:14.6f} {y:14.6f} {value:14.6f} {number:14.6f}", "" if equal else "!"
        )
    return wrong


def styled(folder: Path) -> list[QgsMapLayer]:
    """The outlines of blocks.geojson, and below them the trips of cells.tif in classes."""
    raster, outlines = opened(folder / "cells.tif"), opened(folder / "blocks.geojson")
    ramp = QgsColorRampShader(0, 1e9, None, QgsColorRampShader.Discrete)
    ramp.setColorRampItemList(
        [
            QgsColorRampShader.ColorRampItem(top, QColor(colour), label)
            for top, colour, label in (
                (1, "#fff7ec", "up to 1"),
                (10, "#fdd49e", "1 to 10"),
                (100, "#fc8d59", "10 to 100"),
                (1000, "#b30000", "100 to 1,000"),
                (float("inf"), "#3f0000", "above 1,000"),
            )
        ]
    )
    shader = QgsRasterShader()
    shader.setRasterShaderFunction(ramp)
    raster.setRenderer(QgsSingleBandPseudoColorRenderer(raster.dataProvider(), 1, shader))
    outline = {"color": "0,0,0,0", "outline_color": "40,40,40,150", "outline_width": "0.2"}
    outlines.renderer().setSymbol(QgsFillSymbol.createSimple(outline))
    return [outlines, raster]


def draw(folder: Path, picture: Path) -> None:
    """Save the styled layers as QGIS draws them."""
    layers = styled(folder)
    settings = QgsMapSettings()
    settings.setLayers(layers)
    settings.setDestinationCrs(layers[1].crs())
    extent = layers[1].extent()
    extent.scale(1.05)
    settings.setExtent(extent)
    settings.setOutputSize(QSize(1000, 800))
    job = QgsMapRendererParallelJob(settings)
    job.start()
    job.waitForFinished()
    job.renderedImage().save(str(picture))


def main() -> None:
    """Check the folder of the command line."""
    QgsApplication.setPrefixPath("/usr", True)
    application = QgsApplication([], False)
    application.initQgis()
    wrong = check(Path(sys.argv[1]))
    if len(sys.argv) > 2:
        draw(Path(sys.argv[1]), Path(sys.argv[2]))
    print(f"{wrong} wrong" if wrong else "all as in the library")
    sys.stdout.flush()
    os._exit(bool(wrong))  # QGIS without a window can crash while Python shuts down


if __name__ == "__main__":
    main()
