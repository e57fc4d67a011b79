"""Python objects as tables, known by what they can do, so that none of their libraries is imported here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import shapely

from dqam.errors import InputError
from dqam.sources.geometry_column import crs_name
from dqam.sources.tables import ArrowTable, Batches, MemoryTable, Skip, Table, translated
from dqam.sources.values import WHOLE


def open_object(thing: Any) -> tuple[Table, dict[str, str]]:
    """The table in a data frame or collection of trajectories, and the roles it gives to columns itself."""
    name = type(thing).__name__
    hints: dict[str, str] = {}
    if hasattr(thing, "mapInArrow"):  # Spark; the first, as its remote data frames have attributes of any name
        return SparkTable(thing), hints
    with translated(name):
        if hasattr(thing, "to_point_gdf") and hasattr(thing, "get_traj_id_col"):  # MovingPandas
            hints["trip"] = thing.get_traj_id_col()
            thing = thing.to_point_gdf()
            thing = thing.rename_axis(index=thing.index.name or "t")
            hints["time"] = thing.index.name
        if isinstance(thing, pa.RecordBatch):
            thing = pa.Table.from_batches([thing])
        if hasattr(thing, "collect") and hasattr(thing, "collect_schema"):  # Polars LazyFrame
            thing = thing.collect()
        if hasattr(thing, "reset_index") and hasattr(thing, "columns"):  # pandas, GeoPandas
            return PandasTable(name, thing), hints
        if isinstance(thing, pa.Table):
            return ArrowTable(name, thing), hints
        if hasattr(thing, "__arrow_c_stream__"):  # Polars DataFrame, DuckDB relation...
            return ArrowTable(name, pa.table(thing)), hints
    raise InputError(
        f"An object of type {name} cannot be read; give a path, a pandas, GeoPandas, Polars or Arrow table, "
        "MovingPandas trajectories or Trips."
    )


class SparkTable(Table):
    """A data frame of Spark, which is not read here."""

    def __init__(self, frame: Any) -> None:
        self.name, self.names, self.frame = "The data frame", list(frame.columns), frame

    def batches(self, columns: Sequence[str], rows: int, skip: Skip | None = None) -> Batches:
        raise InputError(f"{self.name} is on a cluster; dqam.publish has it counted there.")


class PandasTable(MemoryTable):
    """A pandas DataFrame or GeoDataFrame, with the named levels of its index as columns."""

    def __init__(self, name: str, frame: Any) -> None:
        levels = [level for level in frame.index.names if level is not None]
        self._frame = frame.reset_index(levels) if levels and not set(levels) & set(frame.columns) else frame
        self._labels = {str(label): label for label in self._frame.columns}
        super().__init__(name, [str(label) for label in self._frame.columns], self._arrow)
        self.geometry = getattr(frame, "active_geometry_name", None)

    def crs(self, column: str) -> str | None:
        crs = getattr(self._frame[self._labels[column]], "crs", None)
        return crs_name(crs) if crs is not None else None

    def _arrow(self, columns: list[str]) -> pa.Table:
        arrays = {}
        for name in columns:
            values = self._frame[self._labels[name]]
            if hasattr(values, "geom_type"):
                arrays[name] = pa.array(shapely.to_wkb(values.to_numpy()), pa.binary())
            else:
                arrays[name] = _column(values)
        return pa.table(arrays)


def _column(values: Any) -> pa.Array:
    """A column of a data frame. A column of Python objects becomes text; each value is converted by itself."""
    if values.dtype != object:
        return pa.array(values, from_pandas=True)
    from pandas.api.types import infer_dtype

    if infer_dtype(values, skipna=True) == "string":
        with suppress(UnicodeError):  # half a surrogate pair; `_text` leaves such values out
            return pa.array(values, pa.string(), from_pandas=True)
    return pa.array([_text(value) for value in values], pa.string())


def _text(value: Any) -> str | None:
    """An object as text: whole numbers without a decimal point, bytes and geometries in hexadecimal. None if it cannot
    be a value in a table."""
    try:
        if isinstance(value, str):
            value.encode()
            return value
        if isinstance(value, bytes | bytearray):
            return value.hex()
        if isinstance(value, float | np.floating):
            number = float(value)
            whole = abs(number) < WHOLE and number.is_integer()
            return None if math.isnan(number) else str(int(number)) if whole else repr(number)
        if isinstance(value, bool | np.bool_ | int | np.integer | Decimal):
            return str(value)
        if isinstance(value, date):
            return value.isoformat()
        return shapely.to_wkb(value, hex=True) if isinstance(value, shapely.Geometry) else None
    except (ValueError, OverflowError):  # half a surrogate pair, too many digits for Python to print, no date
        return None
