"""Adversarial files in every format that can be read.

Rows are split, scattered, broken or in the wrong place, ids look alike, points are off the earth, and some files have
nothing but rubbish. A `Star` is a file and several neighbours of it, each with all rows of one more unit. A unit is
defined by its key: (person, trip id), as text without the white space around it. A row without a trip id belongs to no
unit and must count as nothing; but if there are no ids at all, every row is a trip.

Lines of CSV are as a CSV writer makes them from values. Quotes that are never closed are not tried, because by the
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
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import shapely

from dqam.geometry.grid import Grid
from dqam.geometry.trips import Trips
from dqam.sources import BATCH
from dqam.values.guarantee import Unit

GRID = Grid((10.0, 50.0, 10.96, 50.64), 8, 12)
GRIDS = (GRID, Grid((571_000.0, 5_538_000.0, 640_000.0, 5_612_000.0), 8, 12, "EPSG:32632"))  # about the same place
UNITS = (Unit.trip(), Unit.person(2), Unit.person(1), Unit.person(3))
START = 1_372_636_800  # seconds since 1970
STAR = 6  # number of neighbours of one base

Points = list[tuple[float, float]]

_NATIVE_POINT = pa.struct([("x", pa.float64()), ("y", pa.float64())])  # as GeoArrow has it
_NATIVE_LINE = pa.list_(_NATIVE_POINT)


@dataclass(frozen=True)
class Row:
    """A row of any format: one point or several, and `odd` values that replace what belongs there."""

    person: str | None
    trip: str | None
    time: int
    points: Points
    odd: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Format:
    """How rows become something that `dqam.read` reads.

    columns  names of columns by role; the last one or two hold the place
    kinds    the Arrow type of each role that is not text
    save     writes the file to a folder, from lines of CSV or from an Arrow table
    csv      whether lines of CSV are saved
    engines  the engines that can read it
    sort     whether rows are ordered by key and time
    """

    columns: Mapping[str, str]
    save: Callable[[Path, Any], Any]
    kinds: Mapping[str, pa.DataType] = field(default_factory=dict)
    csv: bool = False
    engines: tuple[str, ...] = ("local",)
    sort: bool = False
    bare: bool = False  # whether there are no ids, so that every row is a trip

    @property
    def by_point(self) -> bool:
        """Whether a row is a point."""
        return "lon" in self.columns or "point" in self.columns

    @property
    def units(self) -> list[Unit]:
        """The units that it can be tested with."""
        rows_of_persons = not self.by_point and self.keys == ["person"]  # each row is a trip, but without a key
        return [unit for unit in UNITS if ("person" in self.columns if unit.name == "person" else not rows_of_persons)]

    @property
    def keys(self) -> list[str]:
        """The roles of ids."""
        return [role for role in ("person", "trip") if role in self.columns]

    @property
    def places(self) -> list[str]:
        """The roles whose values may be odd: all others, except polylines that are not text in a file."""
        return [role for role in self.columns if role not in self.keys and (role, self.save) != ("polyline", _trips)]

    def shown(self, row: Row) -> str:
        """A row in readable form."""
        values = {name: self._value(role, row) for role, name in self.columns.items()}
        return str(self._line(row, values) if self.csv else values)

    def _line(self, row: Row, values: Mapping[str, Any]) -> bytes:
        """A line of CSV; bytes are written as they are."""
        fields = [each if isinstance(each, bytes) else _quoted(each or "").encode() for each in values.values()]
        return bytes(row.odd.get("line", b",".join)(fields))

    def write(self, folder: Path, rows: Sequence[Row]) -> Any:
        """A file, or an object, for `dqam.read`."""
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

    def _value(self, role: str, row: Row) -> Any:
        if role in row.odd:
            return row.odd[role]
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
            case "polyline":
                return json.dumps(row.points)
        if kind in (_NATIVE_POINT, _NATIVE_LINE):
            places = [{"x": x, "y": y} for x, y in row.points]
            return places[0] if kind == _NATIVE_POINT else places
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
    """A column; its text may contain bytes that are not valid text."""
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
    about = {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": {"encoding": "WKB"}}}
    return _parquet(folder, table.replace_schema_metadata({"geo": json.dumps(about)}))


def _pandas(_: Path, table: pa.Table) -> Any:
    return table.to_pandas(integer_object_nulls=True)  # not floats, in which large ids would be equal


def _jumbled(_: Path, table: pa.Table) -> Any:
    """Columns of mixed objects: whole numbers are numbers in some rows, by a chance that depends on the row alone."""
    import pandas

    rows = []
    for row in table.to_pylist():
        chance, numbers = zlib.crc32(repr(row).encode()), re.compile("-?[1-9][0-9]{0,17}")
        rows.append(
            [
                int(value) if chance >> i & 1 and numbers.fullmatch(value or "") else value
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
    """Trips made by hand; a row is an entry."""
    lists = [json.loads(text) for text in table.column("polyline").to_pylist()]
    made = Trips.from_lists([[(float(x), float(y)) for x, y in points] for points in lists])
    time = np.repeat(table.column("time").cast(pa.int64()).fill_null(0).to_numpy(), np.diff(made.offsets))
    ids, persons = (
        table.column(role).combine_chunks() if role in table.column_names else None for role in ("trip", "person")
    )
    return replace(made, time=time, ids=ids, persons=persons)


_PORTO = {"trip": "TRIP_ID", "person": "TAXI_ID", "time": "TIMESTAMP", "polyline": "POLYLINE"}
_POINTS = {"person": "uid", "trip": "tid", "time": "datetime", "lon": "lng", "lat": "lat"}
_PLACES = {"person": "user_id", "trip": "traj_id", "time": "t", "point": "geometry"}
_LINES = {"person": "user_id", "trip": "trip_id", "line string": "geometry"}
_IDS = {"person": pa.int64(), "trip": pa.int64()}
_MOMENT = {"time": pa.timestamp("us")}
_DEGREES = {"lon": pa.float64(), "lat": pa.float64()}
_SHAPE = {"point": pa.binary(), "line string": pa.binary()}
_NUMBERS = _IDS | _MOMENT | _DEGREES
_TWO, _ALL = ("local", "duckdb"), ("local", "duckdb", "spark")


def _without(columns: Mapping[str, str], *roles: str) -> dict[str, str]:
    return {role: name for role, name in columns.items() if role not in roles}


FORMATS: dict[str, Format] = {
    "polylines, CSV": Format(_PORTO, _file, csv=True),
    "polylines, CSV, gzip": Format(_PORTO, _zipped, csv=True),
    "polylines, CSV, no persons": Format(_without(_PORTO, "person"), _file, csv=True),
    "polylines, CSV, no ids": Format(_without(_PORTO, "person", "trip"), _file, csv=True, bare=True),
    "polylines, Parquet": Format(_PORTO, _parquet, _IDS | {"time": pa.int64()}),
    "points, CSV": Format(_POINTS, _file, csv=True, engines=_TWO),
    "points, CSV, gzip": Format(_POINTS, _zipped, csv=True, engines=_TWO),
    "points, CSV, no persons": Format(_without(_POINTS, "person"), _file, csv=True, engines=_TWO),
    "points, CSV, persons only": Format(_without(_POINTS, "trip"), _file, csv=True, engines=_TWO),
    "points, CSV, no time": Format(_without(_POINTS, "time"), _file, csv=True),
    "points, CSV, WKT": Format(_PLACES, _file, csv=True, engines=_TWO),
    "points, CSV, WKT, persons only": Format(_without(_PLACES, "trip"), _file, csv=True, engines=_TWO),
    "points, Parquet, sorted": Format(_POINTS, _groups, _NUMBERS, engines=_ALL, sort=True),
    "points, Parquet, scattered": Format(_POINTS, _parquet, _NUMBERS, engines=_ALL),
    "points, Parquet, text ids": Format(_POINTS, _parquet, _MOMENT | _DEGREES, engines=_ALL),
    "points, Parquet, text times": Format(_POINTS, _groups, _IDS | _DEGREES, engines=_TWO),
    "points, Parquet, folder": Format(_POINTS, _several, _NUMBERS, engines=_ALL),
    "points, GeoParquet": Format(_PLACES, _geo, _IDS | _MOMENT | _SHAPE, engines=_TWO),
    "lines, CSV": Format(_LINES, _file, csv=True),
    "lines, CSV, persons only": Format(_without(_LINES, "trip"), _file, csv=True),
    "lines, CSV, plain id": Format({"trip": "id", "line string": "geometry"}, _file, csv=True),
    "lines, CSV, no ids": Format({"line string": "geometry"}, _file, csv=True, bare=True),
    "lines, GeoParquet": Format(_LINES, _geo, _IDS | _SHAPE),
    "lines, GeoParquet, plain id": Format({"trip": "id", "line string": "geometry"}, _geo, _IDS | _SHAPE),
    "lines, GeoParquet, no ids": Format({"line string": "geometry"}, _geo, _SHAPE, bare=True),
    "points, pandas": Format(_POINTS, _pandas, _NUMBERS, engines=_TWO),
    "points, pandas, text ids": Format(_POINTS, _pandas, _MOMENT | _DEGREES, engines=_TWO),
    "points, Arrow": Format(_POINTS, _arrow, _NUMBERS, engines=_TWO),
    "points, Arrow, all text": Format(_POINTS, _arrow, engines=_TWO),
    "points, Arrow, dictionaries": Format(_POINTS, _encoded, _MOMENT | _DEGREES, engines=_TWO),
    "points, Arrow, floats": Format(_POINTS, _arrow, dict.fromkeys(_POINTS, pa.float64()), engines=_TWO),
    "points, Arrow, native": Format(_PLACES, _arrow, _IDS | _MOMENT | {"point": _NATIVE_POINT}, engines=_TWO),
    "points, pandas, jumbled": Format(_POINTS, _jumbled, engines=_TWO),
    "lines, Arrow, native": Format(_LINES, _arrow, _IDS | {"line string": _NATIVE_LINE}),
    "lines, Arrow, WKT": Format(_LINES, _arrow, _IDS),
    "Trips": Format({role: role for role in _PORTO}, _trips, _IDS | _MOMENT),
    "Trips, text ids": Format({role: role for role in _PORTO}, _trips, _MOMENT),
    "Trips, no ids": Format({role: role for role in ("time", "polyline")}, _trips, _MOMENT, bare=True),
}


# What is wrong with rows


def _each(texts: str) -> list[str]:
    return texts.split("|")


_NO_TEXT = b"10.4\xff\xfe"  # not UTF-8
_NUMBER_TEXTS = (
    *_each("|nan|NaN|inf|-Infinity|1e308|1e400|-1e400|181|91|ten|1e1|+10.3| 10.3 |0x10|1_0.5|10,3|10.3\u00b0|null"),
    *("#N/A", "-0", "true", "1e-400", "10.3\x00", "\u0661\u0660", "5" * 400, _NO_TEXT),
)
_TIME_TEXTS = (
    *_each("|nan|soon|1e5|+3| 5 |0x10|1_000|-1|1e300|inf|12345678901234567890|1372636858000|1372636858.5|null"),
    *_each("2013-07-01T00:00:58|2013-07-01 00:00:58Z|2013-07-01T00:00:58+02:00|2013-07-01T00:00:58.123456789"),
    *_each("2013-07-01|01.07.2013|2013-13-45T99:99:99|9999-12-31T23:59:59|0001-01-01|294247-01-10T04:00:54Z"),
    _NO_TEXT,
)
_POLYLINES = (
    *_each("|[]|null|{}|hello|[[10.1,50.1],|[[10.1,50.1]] x|[10.1, 50.1]|[[10.1]]|[[],[10.1,50.1]]|[[10.1,50.1,7]]"),
    *_each('[["10.1","50.1"]]|[[NaN,50.1]]|[[Infinity,1]]|[[1e400,50]]|[[1e308,1e308],[10,50]]|[[true,50]]'),
    *_each("[[010.1,50.1]]|[[10.1,50.1],[500,500],[10.5,50.5]]| [ [ 10.1 , 50.1 ] ] |[[null,50.1]]"),
    *("[" * 3000, "[[10.123456789012345678,50.1]]", "[[1" + "0" * 400 + ",50]]", _NO_TEXT),
)
_WKT = (
    *_each("|hello|POINT EMPTY|LINESTRING EMPTY|GEOMETRYCOLLECTION EMPTY|POINT (nan nan)|POINT (10.3 50.3)|null"),
    *_each("LINESTRING (10.1 50.1)|LINESTRING (10.1 50.1, 10.5|LINESTRING (10.1 50.1, 10.6 50.4)|POINT (1e400 50)"),
    *_each("LINESTRING Z (10.1 50.1 5, 10.6 50.4 5)|MULTIPOINT ((10.2 50.2), (10.3 50.3))|POINT Z (10.2 50.2 1)"),
    *_each("POLYGON ((10.1 50.1, 10.6 50.4, 10.2 50.5, 10.1 50.1))|LINESTRING (1e308 50, 10.5 50.5, -1e308 50)"),
    *_each("LINESTRING (10.1 50.1, 500 500, 10.5 50.5)|SRID=4326;POINT(10.2 50.2)|point(10.2 50.2)"),
    *_each("MULTILINESTRING ((10.1 50.1, 10.6 50.4), (10.2 50.2, 10.3 50.3))|LINESTRING (nan nan, 10.2 50.2)"),
)
_POINT, _LINE = shapely.Point(10.2, 50.2), shapely.LineString([(10.2, 50.2), (10.3, 50.3)])


@cache
def _wkb_faults() -> tuple[bytes | None, ...]:
    with np.errstate(all="ignore"):
        shapes = [shape for shape in shapely.from_wkt(_WKT, on_invalid="ignore") if shape is not None]
    return (
        *(None, b"", b"hello", b"\x01", b"\x01\x02\x00\x00\x00\xff\xff\xff\x7f"),  # the last has 2^31 points
        *(b"\x01\x02\x00\x00\x00\x01\x00\x00\x00" + bytes(16), b"\x01\x63" + bytes(19)),
        *shapely.to_wkb(shapes),
        *(part for shape in (_POINT, _LINE) for part in (shapely.to_wkb(shape)[:-3], shapely.to_wkb(shape) + b"more")),
        *(shapely.to_wkb(shape, byte_order=0) for shape in (_POINT, _LINE)),
        shapely.to_wkb(shapely.set_srid(_POINT, 4326), include_srid=True),
    )


_ODD_TEXTS: dict[str, Sequence[Any]] = {
    "time": _TIME_TEXTS,
    "lon": _NUMBER_TEXTS,
    "lat": _NUMBER_TEXTS,
    "polyline": _POLYLINES,
    "point": (*_WKT, _NO_TEXT),
    "line string": (*_WKT, _NO_TEXT),
}
_ODD_NUMBERS: dict[pa.DataType, Sequence[Any]] = {
    pa.float64(): (None, np.nan, np.inf, -np.inf, 1e308, -1e308, 181.0, 90.5, -0.0, 5e-324, 1e12),
    pa.int64(): (None, 0, -1, 2**63 - 1, -(2**63), 10**12),
    pa.timestamp("us"): (None, 0, -1, 2**63 - 1, -(2**63), 10**18),
    _NATIVE_POINT: (None, {"x": None, "y": 50.1}, {"x": np.nan, "y": np.nan}, {"x": 500.0, "y": -1e308}),
    _NATIVE_LINE: (None, [], [None], [None, {"x": 10.1, "y": 50.1}, {"x": None, "y": 50.1}], [{"x": 1e308, "y": 50.1}]),
}
_ODD_LINES: tuple[Callable[[list[bytes]], bytes], ...] = (
    lambda fields: b",".join([*fields, b"more"]),
    lambda fields: b",".join(fields[:-1]),
    lambda fields: b'""',
    lambda fields: b"," * 40,
    lambda fields: b",".join(fields) + b"\xff",
    lambda fields: b",".join([*fields[:-1], b"\xc3(" + fields[-1]]),
    lambda fields: b"\xc3(",
    lambda fields: b",".join(fields) + b"\r",
)
_SPACES = ("{} ", " {}", "\t{}", " {} ", "{}\u00a0", "\u2003{}", "{}\n", "{}\r\n")
_TEXT_IDS = _each('7|7.0|07|+7|7e0|\uff17|7\u200b|-7|0x7|true|\u00e9|e\u0301|a"b|a,b|a\nb|\u00c4|\u00e4')
_WHOLE_IDS = [str(number) for number in (7, 0, -7, 70, 2**53, 2**53 + 1, 2**63 - 2, -(2**63))]
_FLOAT_IDS = ["7", "0", "-7", "70"]
_NO_IDS: dict[pa.DataType, Sequence[Any]] = {
    pa.string(): (None, "", " ", "\u00a0\t"),
    pa.int64(): (None, 2**63 - 1),  # the last stands for a missing id
    pa.float64(): (None, np.nan, 7.5, np.inf, 1e300),
}
_IDS_OF = {pa.string(): _TEXT_IDS, pa.int64(): _WHOLE_IDS, pa.float64(): _FLOAT_IDS}


def _odd(rng: np.random.Generator, form: Format, role: str) -> Any:
    """A value that does not belong in a column of this role, or is only just allowed; "line" spoils a line of CSV."""
    kind = form.kinds.get(role, pa.string())
    if role == "line":
        choices: Sequence[Any] = _ODD_LINES
    elif kind == pa.string():
        choices = _ODD_TEXTS[role]
    else:
        choices = _wkb_faults() if kind == pa.binary() else _ODD_NUMBERS[kind]
    value = choices[int(rng.integers(len(choices)))]
    return value.decode("latin-1") if value is _NO_TEXT and form.save in (_pandas, _jumbled) else value


# Units, and everything around them


def _path(rng: np.random.Generator, most: int) -> Points:
    """Where a trip goes."""
    west, south, east, north = GRID.bounds
    wide, high = east - west, north - south

    def placed(u: Any, v: Any) -> Points:
        return [
            (float(x), float(y)) for x, y in zip(west + wide * np.asarray(u), south + high * np.asarray(v), strict=True)
        ]

    count = int(rng.integers(1, 25))
    match int(rng.integers(11)):
        case 0:
            return placed([rng.uniform()], [rng.uniform()])
        case 1:  # through every cell
            rows = (np.arange(GRID.rows) + 0.5) / GRID.rows
            ends = np.array([[0.01, 0.99], [0.99, 0.01]])[np.arange(GRID.rows) % 2]
            return placed(ends.ravel(), np.repeat(rows, 2))
        case 2:  # across the map, with no point inside
            return placed([-0.2, 1.3], rng.uniform(0, 1, 2))
        case 3:  # in and out, a piece each time
            times = int(rng.choice([20, most], p=[0.8, 0.2]))
            return placed(np.tile([0.05, -0.05], times), np.linspace(0.02, 0.98, 2 * times))
        case 4:  # huge jumps
            return placed(rng.uniform(-3, 4, count), rng.uniform(-3, 4, count))
        case 5:  # on lines and corners
            return placed(rng.integers(-1, 14, count) / 12, rng.integers(-1, 10, count) / 8)
        case 6:  # nowhere
            bad = [(200.0, 95.0), (np.nan, 50.3), (10.3, np.inf), (1e308, -1e308), (180.0, 90.0), (-180.0, -90.0)]
            inside = placed(rng.uniform(0, 1, count), rng.uniform(0, 1, count))
            return [bad[rng.integers(len(bad))] if rng.uniform() < 0.4 else point for point in inside]
        case 7:
            return placed([rng.uniform()] * 50, [rng.uniform()] * 50)
        case 8:
            return []
        case _:
            steps = rng.normal(0, 0.15, (count, 2)).cumsum(axis=0) + rng.uniform(0, 1, 2)
            return placed(*steps.T)


def _times(rng: np.random.Generator, count: int) -> list[int]:
    """When the points or pieces of a trip were recorded."""
    times = START + int(rng.integers(10**6)) + int(rng.choice([0, 15, 15, 100])) * np.arange(count)
    return [int(time) for time in (rng.permutation(times) if rng.uniform() < 0.3 else times)]


def _rows(rng: np.random.Generator, form: Format, person: str | None, trip: str | None, most: int) -> list[Row]:
    """One trip, in a number of rows that depends on its format and on chance."""
    points = _path(rng, most)
    if form.by_point:
        return [Row(person, trip, time, [at]) for at, time in zip(points, _times(rng, len(points)), strict=True)]
    parts = 1 if form.bare else int(rng.choice([1, 1, 2, 5, 20, most], p=[0.3, 0.2, 0.2, 0.15, 0.1, 0.05]))
    if form.bare or rng.uniform() < 0.5:
        cuts = np.linspace(0, len(points), parts + 1).astype(int)
        pieces = [points[a:b] for a, b in pairwise(cuts)]
    else:  # the same row again and again
        pieces = [points] * parts if len(points) < 200 else [points]
    return [Row(person, trip, time, piece) for piece, time in zip(pieces, _times(rng, len(pieces)), strict=True)]


def _spoilt(rng: np.random.Generator, form: Format, rows: list[Row], share: float, iso: bool) -> list[Row]:
    """The rows with a share of their values replaced by odd ones, other white space around ids, and times as text."""
    spoilt = []
    texts = [role for role in form.columns if form.kinds.get(role, pa.string()) == pa.string()]
    for row in rows:
        odd = dict(row.odd)
        if iso and "time" in texts:
            odd["time"] = str(np.datetime64(row.time, "s"))
        for role in form.keys:
            name = getattr(row, role)
            if role in texts and role not in odd and name is not None and rng.uniform() < 0.15:
                odd[role] = _SPACES[rng.integers(len(_SPACES))].format(name)
        if rng.uniform() < share:
            roles = [*form.places, "line"] if form.csv else form.places
            role = roles[rng.integers(len(roles))]
            odd[role] = _odd(rng, form, role)
        spoilt.append(replace(row, odd=odd))
    return spoilt


def _nameless(rng: np.random.Generator, form: Format, rows: list[Row]) -> list[Row]:
    """One row without an id."""
    role = form.keys[rng.integers(len(form.keys))]
    values = _NO_IDS[form.kinds.get(role, pa.string())]
    value = values[int(rng.integers(len(values)))]
    return [replace(row, odd={role: value}) for row in rows[:1]]


@dataclass(frozen=True)
class Star:
    """A base and some neighbours of it; each adds all rows of the same unit, but the rows differ between neighbours.

    batch  number of points read at a time: few, so that small files have many batches
    wary   whether the curator is wary, as for a publication without `sure`
    files  the rows of each neighbour, each with whether it is the unit's own
    """

    form: str
    unit: Unit
    grid: Grid
    gap: str | None
    salt: str
    batch: int
    wary: bool
    base: list[Row]
    files: list[list[tuple[bool, Row]]]


def star(rng: np.random.Generator, name: str, unit: Unit, size: int = STAR, most: int = 60) -> Star:
    """A base and `size` neighbours in a format; no trip has more than about `most` rows or pieces."""
    form = FORMATS[name]
    people, names = (
        _IDS_OF[form.kinds.get(role, pa.string())] if role in form.columns else [None] for role in ("person", "trip")
    )
    person, trip = people[rng.integers(len(people))], names[rng.integers(len(names))]
    keys = [
        (who, which)
        for who in people
        for which in names
        if form.bare or (who != person if unit.name == "person" else (who, which) != (person, trip))
    ]
    near = [key for key in keys if person is not None and trip is not None and (key[0] == person or key[1] == trip)]
    rubbish, iso = float(rng.choice([0.0, 0.15, 1.0], p=[0.5, 0.35, 0.15])), rng.uniform() < 0.5
    base: list[Row] = []
    for _ in range(int(rng.integers(0, 8))):
        known = near if near and rng.uniform() < 0.5 else keys
        who, which = known[rng.integers(len(known))]
        rows = _rows(rng, form, who, which, most=20)
        if form.keys and rng.uniform() < 0.1 and (which is None or which != trip):  # else (None, trip) may be the unit
            rows = _nameless(rng, form, rows)
        base += _spoilt(rng, form, rows, rubbish, iso)
    base = [base[i] for i in rng.permutation(len(base))] if rng.uniform() < 0.5 else base
    files = []
    for _ in range(size):
        trips = [trip] if unit.name == "trip" else [names[i] for i in rng.permutation(len(names))[: rng.integers(1, 7)]]
        mine = [row for each in trips for row in _rows(rng, form, person, each, most)]
        if form.keys and rng.uniform() < 0.1:
            mine = _nameless(rng, form, mine)
        share = float(rng.choice([0.0, 0.1, 0.5, 1.0], p=[0.35, 0.25, 0.25, 0.15]))
        files.append(_mixed(rng, base, _spoilt(rng, form, mine, share, iso != (rng.uniform() < 0.3))))
    gap = None if rng.uniform() < 0.5 else "60s" if "time" in form.columns and rng.uniform() < 0.5 else "5km"
    batch, wary = int(rng.choice([5, 40, BATCH], p=[0.2, 0.3, 0.5])), bool(rng.integers(2))
    return Star(name, unit, GRIDS[rng.integers(len(GRIDS))], gap, rng.bytes(8).hex(), batch, wary, base, files)


def _mixed(rng: np.random.Generator, base: list[Row], mine: list[Row]) -> list[tuple[bool, Row]]:
    """A unit's rows before, after, within or among those of others, whose order is kept; and which are its own."""
    own = np.zeros(len(base) + len(mine), np.bool_)
    cut = int(rng.integers(len(base) + 1))
    places = (
        np.arange(len(mine)),
        np.arange(len(base), len(own)),
        np.arange(cut, cut + len(mine)),
        rng.permutation(len(own))[: len(mine)],
    )
    own[places[rng.integers(len(places))]] = True
    theirs, ours = iter(base), iter([mine[i] for i in rng.permutation(len(mine))] if rng.uniform() < 0.3 else mine)
    return [(bool(each), next(ours if each else theirs)) for each in own]
