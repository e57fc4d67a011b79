"""Open files and data frames as sources of trips."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pyarrow.fs import FileSelector, FileSystem, FileType

from dqam.errors import InputError
from dqam.geometry.grid import DEGREES, parse_crs
from dqam.geometry.trips import Trips
from dqam.sources.columns import Columns, recognise
from dqam.sources.csv_table import CsvTable
from dqam.sources.frames import Frame, open_object
from dqam.sources.parquet_table import ParquetTable
from dqam.sources.source import Source
from dqam.sources.tables import Table, input_errors

ON_ERROR = ("fail", "drop")

Readable = str | os.PathLike[str] | Trips | Frame


def read(
    path_or_object: Readable,
    *,
    columns: Mapping[str, str] | None = None,
    crs: str | None = None,
    swap_axes: bool = False,
    on_error: str | None = None,
) -> Source:
    """A source of trips: a file, a folder or URL of Parquet files, a data frame, MovingPandas trajectories or `Trips`.

    The rows of a Spark data frame stay on the cluster; `dqam.publish` counts them there.

    columns    names of columns by role (trip, person, time, lon, lat, geometry, polyline) that are not recognised; an
               empty name for a role that must not be used
    crs        the coordinate reference system, if the source declares none or a wrong one
    swap_axes  whether to exchange x and y
    on_error   "fail" on the first row that cannot be used, or "drop" such rows and count them in `Source.dropped`. By
               default `dqam.publish` drops them, so that no row decides whether there is a release; all else fails

    >>> import pyarrow as pa
    >>> points = pa.table({"ride": [1, 1, 2], "x": [-30.01, -30.0, -29.99], "y": [45.0, 45.0, 45.01]})
    >>> source = read(points, columns={"trip": "ride"})
    >>> source.roles
    {'trip': 'ride', 'lon': 'x', 'lat': 'y'}
    >>> len(source.trips())
    2
    """
    if on_error not in (None, *ON_ERROR):
        raise InputError(f"on_error must be 'fail' or 'drop'; got {on_error!r}.")
    if crs is not None:
        parse_crs(crs)
    if isinstance(path_or_object, Trips):
        return Source(path_or_object, Columns(), crs or path_or_object.crs, swap_axes, on_error)
    hints: dict[str, str] = {}
    if isinstance(path_or_object, str) and "://" in path_or_object:
        table = open_url(path_or_object)
    elif isinstance(path_or_object, str | os.PathLike):
        table = open_path(Path(path_or_object))
    else:
        table, hints = open_object(path_or_object)
    if table.geometry is not None:
        hints["geometry"] = table.geometry
    found = recognise(table.names, table.name, columns, hints)
    if crs is None and found.geometry:
        crs = table.crs(found.geometry)
    made = Source(table, found, crs or DEGREES, swap_axes, on_error)
    if isinstance(path_or_object, str | os.PathLike):
        made.path = path_or_object if isinstance(path_or_object, str) else Path(path_or_object)
    return made


def open_url(url: str) -> Table:
    """The Parquet file, or all Parquet files below the folder, at a URL that Arrow supports, such as s3://bucket/folder."""
    with input_errors(url):
        files, path = FileSystem.from_uri(url)
        found = files.get_file_info(path)
        if found.type is FileType.Directory:
            below = files.get_file_info(FileSelector(path, recursive=True))
            paths = sorted(Path(file.path) for file in below if file.is_file and file.path.endswith(".parquet"))
        else:
            paths = [Path(path)] if found.is_file else []
    if not paths:
        raise InputError(f"{url} has no files that end with .parquet; check the address.")
    return ParquetTable(Path(path).name, paths, files)


def open_path(path: Path) -> Table:
    """The table in a file, or in the Parquet files of a folder; the content decides, not the name."""
    if path.is_dir():
        files = [child for child in path.iterdir() if child.is_file() and child.name[0] not in "._"]
        paths = sorted(child for child in files if _head(child) == b"PAR1")
        if broken := sorted(child.name for child in files if child.suffix == ".parquet" and child not in paths):
            raise InputError(f"{broken[0]} in {path} is empty or damaged; repair or remove it.")
        if not paths:
            raise InputError(
                f"{path} is a folder with no Parquet files directly in it; give a file, or a folder that has them."
            )
        return ParquetTable(path.resolve().name, paths)
    if not path.exists():
        raise InputError(f"{path} does not exist; check the path.")
    if not path.is_file():
        raise InputError(f"{path} is not a file but a pipe or a device; save what comes from it and give that file.")
    head = _head(path)
    if not head:
        raise InputError(f"{path.name} is empty (0 bytes); give a file with data.")
    return ParquetTable(path.name, [path]) if head == b"PAR1" else CsvTable(path, zipped=head[:2] == b"\x1f\x8b")


def _head(path: Path) -> bytes:
    with input_errors(path.name), path.open("rb") as file:
        return file.read(4)
