"""Data frames as tables. They are recognised by their methods, so that none of their libraries is imported here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from decimal import Decimal
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import shapely

from dqam.errors import InputError
from dqam.geometry.declared_crs import crs_name
from dqam.geometry.ids import EXACT_BELOW
from dqam.sources.tables import ArrowTable, Batches, MemoryTable, Skip, Table, input_errors


@runtime_checkable
class ArrowStream(Protocol):
    """A table that exports itself as Arrow: of pandas, GeoPandas, Polars, PyArrow or DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


@runtime_checkable
class LazyFrame(Protocol):
    """A query of Polars that has not run yet."""

    def collect(self) -> ArrowStream: ...
    def collect_schema(self) -> object: ...


@runtime_checkable
class Trajectories(Protocol):
    """A trajectory, or a collection of them, of MovingPandas."""

    def to_point_gdf(self) -> Any: ...
    def get_traj_id_col(self) -> str: ...


@runtime_checkable
class SparkFrame(Protocol):
    """A data frame of Spark."""

    def mapInArrow(self, func: Any, schema: Any) -> Any: ...  # noqa: N802 - Spark's name


Frame = ArrowStream | LazyFrame | Trajectories | SparkFrame


def open_object(thing: Frame) -> tuple[Table, dict[str, str]]:
    """The table in a data frame or collection of trajectories, and the column names by role that it declares itself."""
    name = type(thing).__name__
    hints: dict[str, str] = {}
    if isinstance(thing, SparkFrame):  # first, as remote data frames of Spark have attributes of any name
        return SparkTable(thing), hints
    with input_errors(name):
        frame: Any = thing
        if isinstance(thing, Trajectories):
            hints["trip"] = thing.get_traj_id_col()
            frame = thing.to_point_gdf()
            frame = frame.rename_axis(index=frame.index.name or "t")
            hints["time"] = frame.index.name
        elif isinstance(thing, LazyFrame):
            frame = thing.collect()
        if hasattr(frame, "reset_index") and hasattr(frame, "columns"):  # pandas, GeoPandas
            return PandasTable(name, frame), hints
        if isinstance(frame, pa.RecordBatch):
            frame = pa.Table.from_batches([frame])
        if isinstance(frame, ArrowStream):
            return ArrowTable(name, frame if isinstance(frame, pa.Table) else pa.table(frame)), hints
    raise InputError(
        f"An object of type {name} cannot be read; give a path, a pandas, GeoPandas, Polars or Arrow table, "
        "MovingPandas trajectories or Trips."
    )


class SparkTable(Table):
    """A data frame of Spark, whose rows stay on the cluster."""

    kind = "Spark data frame"

    def __init__(self, frame: Any) -> None:
        self.name, self.names, self.frame = "The data frame", list(frame.columns), frame

    def batches(self, columns: Sequence[str], rows: int, skip: Skip | None = None) -> Batches:
        raise InputError(f"{self.name} is on a cluster and cannot be read here; pass it to dqam.publish.")


class PandasTable(MemoryTable):
    """A pandas DataFrame or GeoDataFrame, with the named levels of its index as columns."""

    def __init__(self, name: str, frame: Any) -> None:
        levels = [level for level in frame.index.names if level is not None]
        self._frame = frame.reset_index(levels) if levels and not set(levels) & set(frame.columns) else frame
        self._labels = {str(label): label for label in self._frame.columns}
        super().__init__(name, "pandas data frame", [str(label) for label in self._frame.columns], self._arrow)
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
    """A column of a data frame. Python objects become text, each by itself."""
    from pandas.api.types import infer_dtype

    categories = getattr(values.dtype, "categories", None)
    if categories is not None and categories.dtype == object and infer_dtype(categories) != "string":
        values = values.astype(object)
    if values.dtype != object:
        return pa.array(values, from_pandas=True)
    if infer_dtype(values, skipna=True) == "string":
        with suppress(UnicodeError):  # half a surrogate pair; `_text` leaves such values out
            return pa.array(values, pa.string(), from_pandas=True)
    return pa.array([_text(value) for value in values], pa.string())


def _text(value: Any) -> str | None:
    """An object as text: whole numbers without a decimal point, bytes and geometries in hexadecimal.

    None if the object cannot be a value of a table.
    """
    try:
        if isinstance(value, str):
            value.encode()
            return value
        if isinstance(value, bytes | bytearray):
            return value.hex()
        if isinstance(value, float | np.floating):
            number = float(value)
            whole = abs(number) < EXACT_BELOW and number.is_integer()
            return None if math.isnan(number) else str(int(number)) if whole else repr(number)
        if isinstance(value, bool | np.bool_ | int | np.integer | Decimal):
            return str(value)
        if isinstance(value, date):
            return value.isoformat()
        return shapely.to_wkb(value, hex=True) if isinstance(value, shapely.Geometry) else None
    except (ValueError, OverflowError):  # half a surrogate pair, more digits than Python prints, not a date
        return None
