"""Adversarial rows in every format that can be read.

A `TripRow` is the same in all formats. A `Format` writes rows to a file, or puts them into an object for `dqam.read`.
Lines of CSV are what a CSV writer makes of their values. Quotes that are never closed are not tried, because by the
rules of CSV everything after them belongs to one row.
"""

from __future__ import annotations

import gzip
import json
import re
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from dqam.geometry.slicing import Slicing
from dqam.geometry.trips import Trips
from dqam.values.guarantee import Unit

UNITS = (Unit.trip(), Unit.person(2), Unit.person(1), Unit.person(3))

Points = list[tuple[float, float]]

NATIVE_POINT = pa.struct([("x", pa.float64()), ("y", pa.float64())])  # as in GeoArrow
NATIVE_LINE = pa.list_(NATIVE_POINT)


SLICES = 24
KINDS = ("bike", " car", "BIKE", "7", "train ", "other", "x" * 5_000, "bike", "", None)  # in the column that slices


@dataclass(frozen=True)
class TripRow:
    """A row of any format.

    points     one point, or several in a format in which a row is a line
    overrides  values by role that replace what the row would have there; "line" makes a whole line of CSV of its fields
    """

    person: str | None
    trip: str | None
    time: int
    points: Points
    overrides: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Format:
    """How rows become something that `dqam.read` reads.

    columns  names of the columns by role; the last one or two hold the location
    save     writes lines of CSV or an Arrow table to a folder, and returns what `dqam.read` is given
    kinds    the Arrow type of each role that is not text
    csv      whether `save` takes lines of CSV
    engines  the engines that can read the format
    sort     whether rows are ordered by key and time
    no_ids   whether there are no ids, so that every row is a trip
    """

    columns: Mapping[str, str]
    save: Callable[[Path, Any], Any]
    kinds: Mapping[str, pa.DataType] = field(default_factory=dict)
    csv: bool = False
    engines: tuple[str, ...] = ("local",)
    sort: bool = False
    no_ids: bool = False

    @property
    def slicing(self) -> Slicing:
        """How trips are put into `SLICES` slices: by whatever the format has of times and a column."""
        if "kind" not in self.columns:
            return Slicing.parse("hour", "America/St_Johns")
        listed = ["bike", "car", "train", "7", "0", "1", "2", *(f"line {i}" for i in range(16))]
        if "time" not in self.columns:
            return Slicing.parse(f"{self.columns['kind']}={','.join(listed)}")
        return Slicing.parse(f"weekpart*{self.columns['kind']}={','.join(listed[:11])}", "Asia/Kathmandu")

    @property
    def by_point(self) -> bool:
        """Whether a row is a point."""
        return "lon" in self.columns or "point" in self.columns

    @property
    def units(self) -> list[Unit]:
        """The units that the format can be tested with."""
        rows_of_persons = not self.by_point and self.keys == ["person"]  # each row is a trip, but without a key
        return [unit for unit in UNITS if ("person" in self.columns if unit.name == "person" else not rows_of_persons)]

    @property
    def keys(self) -> list[str]:
        """The roles that hold ids."""
        return [role for role in ("person", "trip") if role in self.columns]

    @property
    def to_pandas(self) -> bool:
        """Whether it is a pandas frame, whose text must be valid."""
        return self.save in (_pandas, _jumbled)

    @property
    def replaceable(self) -> list[str]:
        """The roles whose values may be bad: all but ids and kinds, and but polylines that are no text in a file."""
        return [
            role
            for role in self.columns
            if role not in (*self.keys, "kind") and (role, self.save) != ("polyline", _trips)
        ]

    def shown(self, row: TripRow) -> str:
        """A row in readable form."""
        values = {name: self._value(role, row) for role, name in self.columns.items()}
        return str(self._line(row, values) if self.csv else values)

    def _line(self, row: TripRow, values: Mapping[str, Any]) -> bytes:
        """A line of CSV; values that are bytes are written as they are."""
        fields = [each if isinstance(each, bytes) else _quoted(each or "").encode() for each in values.values()]
        return bytes(row.overrides.get("line", b",".join)(fields))

    def write(self, folder: Path, rows: Sequence[TripRow]) -> Any:
        """Write the rows to a file in `folder`, or put them into an object; return what `dqam.read` is given."""
        values = [{role: self._value(role, row) for role in self.columns} for row in rows]
        if self.sort:
            order = [role for role in ("person", "trip", "time") if role in self.columns]
            values.sort(key=lambda each: [(each[role] is None, each[role] or 0) for role in order])
        if self.csv:
            header = ",".join(self.columns.values()).encode()
            lines = [self._line(row, each) for row, each in zip(rows, values, strict=True)]
            return self.save(folder, b"\n".join([header, *lines, b""]))
        types = {role: self.kinds.get(role, pa.string()) for role in self.columns}
        arrays = [_array([each[role] for each in values], types[role]) for role in self.columns]
        return self.save(folder, pa.table(arrays, names=list(self.columns.values())))

    def _value(self, role: str, row: TripRow) -> Any:
        if role in row.overrides:
            return row.overrides[role]
        kind = self.kinds.get(role, pa.string())
        match role:
            case "person" | "trip":
                name = row.person if role == "person" else row.trip
                return name if kind == pa.string() or name is None else int(name)
            case "time":
                return str(row.time) if kind == pa.string() else row.time * (10**6 if kind == pa.timestamp("us") else 1)
            case "lon" | "lat":
                number = row.points[0][role == "lat"]
                return repr(number) if kind == pa.string() else number
            case "kind":  # as the row decides, so that it changes within a trip
                bits = zlib.crc32(repr((row.time, row.points)).encode())
                return KINDS[bits % len(KINDS)] if kind == pa.string() else bits % 8
            case "polyline":
                return json.dumps(row.points)
        if kind in (NATIVE_POINT, NATIVE_LINE):
            places = [{"x": x, "y": y} for x, y in row.points]
            return places[0] if kind == NATIVE_POINT else places
        wkt = _wkt("POINT" if role == "point" else "LINESTRING", row.points)
        return wkt if kind == pa.string() else _wkb(row.points, point=role == "point")


def _wkt(kind: str, points: Points) -> str:
    return f"{kind} ({', '.join(f'{x!r} {y!r}' for x, y in points)})" if points else f"{kind} EMPTY"


def _wkb(points: Points, point: bool) -> bytes:
    numbers = [number for each in points for number in each]
    if point:
        return struct.pack("<BI2d", 1, 1, *numbers)
    return struct.pack(f"<BII{len(numbers)}d", 1, 2, len(points), *numbers)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\n\r') else text


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """A column; its text may contain bytes that are not UTF-8."""
    if kind == pa.string():
        raw = [value.encode() if isinstance(value, str) else value for value in values]
        return pa.Array.from_buffers(kind, len(raw), pa.array(raw, pa.binary()).buffers())
    return pa.array(values, pa.int64()).cast(kind) if pa.types.is_timestamp(kind) else pa.array(values, kind)


def _file(folder: Path, text: bytes) -> Path:
    path = folder / "rows.csv"
    path.write_bytes(text)
    return path


def _zipped(folder: Path, text: bytes) -> Path:
    return _file(folder, gzip.compress(text, 1, mtime=0))


def _parquet(folder: Path, table: pa.Table, rows: int = 1 << 20) -> Path:
    path = folder / "rows.parquet"
    pyarrow.parquet.write_table(table, path, row_group_size=rows)
    return path


def _groups(folder: Path, table: pa.Table) -> Path:
    return _parquet(folder, table, 3)


def _several(folder: Path, table: pa.Table) -> Path:
    """Three files in a folder, cut anywhere."""
    inside = folder / "several"
    inside.mkdir()
    cuts = [0, len(table) // 3, len(table) // 2, len(table)]
    for i in range(3):
        pyarrow.parquet.write_table(table.slice(cuts[i], cuts[i + 1] - cuts[i]), inside / f"{i}.parquet")
    return inside


def _geo(folder: Path, table: pa.Table) -> Path:
    metadata = {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": {"encoding": "WKB"}}}
    return _parquet(folder, table.replace_schema_metadata({"geo": json.dumps(metadata)}))


def _pandas(_: Path, table: pa.Table) -> Any:
    return table.to_pandas(integer_object_nulls=True)  # not floats, in which large ids would be equal


def _jumbled(_: Path, table: pa.Table) -> Any:
    """Columns of mixed types: integers are numbers in some rows and text in others, as a hash of the row decides."""
    import pandas

    rows = []
    for row in table.to_pylist():
        bits, integer = zlib.crc32(repr(row).encode()), re.compile("-?[1-9][0-9]{0,17}")
        rows.append(
            [
                int(value) if bits >> i & 1 and integer.fullmatch(value or "") else value
                for i, value in enumerate(row.values())
            ]
        )
    return pandas.DataFrame(rows, columns=table.column_names, dtype=object)


def _arrow(_: Path, table: pa.Table) -> pa.Table:
    return table


def _encoded(_: Path, table: pa.Table) -> pa.Table:
    """Dictionary-encoded ids, in several chunks."""
    for i, name in enumerate(table.column_names[:2]):
        table = table.set_column(i, name, table.column(name).dictionary_encode())
    return pa.concat_tables([table[:5], table[5:]])


def _trips(_: Path, table: pa.Table) -> Trips:
    """A `Trips` object; each row is one of its trips."""
    lists = [json.loads(text) for text in table.column("polyline").to_pylist()]
    made = Trips.from_lists([[(float(x), float(y)) for x, y in points] for points in lists])
    time = np.repeat(table.column("time").cast(pa.int64()).fill_null(0).to_numpy(), np.diff(made.offsets))
    ids, persons = (
        table.column(role).combine_chunks() if role in table.column_names else None for role in ("trip", "person")
    )
    return replace(made, time=time, ids=ids, persons=persons)


_PORTO = {"trip": "TRIP_ID", "person": "TAXI_ID", "time": "TIMESTAMP", "kind": "CALL_TYPE", "polyline": "POLYLINE"}
_POINTS = {"person": "uid", "trip": "tid", "time": "datetime", "kind": "mode", "lon": "lng", "lat": "lat"}
_GEOMETRIES = {"person": "user_id", "trip": "traj_id", "time": "t", "kind": "mode", "point": "geometry"}
_LINES = {"person": "user_id", "trip": "trip_id", "kind": "mode", "line string": "geometry"}
_TRIPS = ("trip", "person", "time", "polyline")
_IDS = {"person": pa.int64(), "trip": pa.int64()}
_TIMES = {"time": pa.timestamp("us")}
_DEGREES = {"lon": pa.float64(), "lat": pa.float64()}
_SHAPE = {"point": pa.binary(), "line string": pa.binary()}
_NUMBERS = _IDS | _TIMES | _DEGREES
_TWO, _ALL = ("local", "duckdb"), ("local", "duckdb", "spark")


def _without(columns: Mapping[str, str], *roles: str) -> dict[str, str]:
    return {role: name for role, name in columns.items() if role not in roles}


FORMATS: dict[str, Format] = {
    "polylines, CSV": Format(_PORTO, _file, csv=True),
    "polylines, CSV, gzip": Format(_PORTO, _zipped, csv=True),
    "polylines, CSV, no persons": Format(_without(_PORTO, "person"), _file, csv=True),
    "polylines, CSV, no ids": Format(_without(_PORTO, "person", "trip"), _file, csv=True, no_ids=True),
    "polylines, Parquet": Format(_PORTO, _parquet, _IDS | {"time": pa.int64()}),
    "points, CSV": Format(_POINTS, _file, csv=True, engines=_TWO),
    "points, CSV, gzip": Format(_POINTS, _zipped, csv=True, engines=_TWO),
    "points, CSV, no persons": Format(_without(_POINTS, "person"), _file, csv=True, engines=_TWO),
    "points, CSV, persons only": Format(_without(_POINTS, "trip"), _file, csv=True, engines=_TWO),
    "points, CSV, no time": Format(_without(_POINTS, "time"), _file, csv=True),
    "points, CSV, WKT": Format(_GEOMETRIES, _file, csv=True, engines=_TWO),
    "points, CSV, WKT, persons only": Format(_without(_GEOMETRIES, "trip"), _file, csv=True, engines=_TWO),
    "points, Parquet, sorted": Format(_POINTS, _groups, _NUMBERS, engines=_ALL, sort=True),
    "points, Parquet, scattered": Format(_POINTS, _parquet, _NUMBERS, engines=_ALL),
    "points, Parquet, text ids": Format(_POINTS, _parquet, _TIMES | _DEGREES, engines=_ALL),
    "points, Parquet, text times": Format(_POINTS, _groups, _IDS | _DEGREES, engines=_TWO),
    "points, Parquet, folder": Format(_POINTS, _several, _NUMBERS, engines=_ALL),
    "points, GeoParquet": Format(_GEOMETRIES, _geo, _IDS | _TIMES | _SHAPE, engines=_TWO),
    "lines, CSV": Format(_LINES, _file, csv=True),
    "lines, CSV, persons only": Format(_without(_LINES, "trip"), _file, csv=True),
    "lines, CSV, plain id": Format({"trip": "id", "kind": "mode", "line string": "geometry"}, _file, csv=True),
    "lines, CSV, no ids": Format({"kind": "mode", "line string": "geometry"}, _file, csv=True, no_ids=True),
    "lines, GeoParquet": Format(_LINES, _geo, _IDS | _SHAPE),
    "lines, GeoParquet, plain id": Format(
        {"trip": "id", "kind": "mode", "line string": "geometry"}, _geo, _IDS | _SHAPE
    ),
    "lines, GeoParquet, no ids": Format({"kind": "mode", "line string": "geometry"}, _geo, _SHAPE, no_ids=True),
    "points, pandas": Format(_POINTS, _pandas, _NUMBERS, engines=_TWO),
    "points, pandas, text ids": Format(_POINTS, _pandas, _TIMES | _DEGREES, engines=_TWO),
    "points, Arrow": Format(_POINTS, _arrow, _NUMBERS, engines=_TWO),
    "points, Arrow, all text": Format(_POINTS, _arrow, engines=_TWO),
    "points, Arrow, dictionaries": Format(_POINTS, _encoded, _TIMES | _DEGREES, engines=_TWO),
    "points, Arrow, floats": Format(_POINTS, _arrow, dict.fromkeys(_POINTS, pa.float64()), engines=_TWO),
    "points, Arrow, native": Format(_GEOMETRIES, _arrow, _IDS | _TIMES | {"point": NATIVE_POINT}, engines=_TWO),
    "points, pandas, jumbled": Format(_POINTS, _jumbled, engines=_TWO),
    "lines, Arrow, native": Format(_LINES, _arrow, _IDS | {"line string": NATIVE_LINE}),
    "lines, Arrow, WKT": Format(_LINES, _arrow, _IDS),
    "Trips": Format({role: role for role in _TRIPS}, _trips, _IDS | _TIMES),
    "Trips, text ids": Format({role: role for role in _TRIPS}, _trips, _TIMES),
    "Trips, no ids": Format({role: role for role in ("time", "polyline")}, _trips, _TIMES, no_ids=True),
}
