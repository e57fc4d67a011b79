"""Invalid and borderline values for the columns of adversarial test files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import shapely

from dqam.audit.formats import NATIVE_LINE, NATIVE_POINT, Format


def _each(texts: str) -> list[str]:
    return texts.split("|")


_NOT_UTF8 = b"10.4\xff\xfe"  # not UTF-8
_NUMBER_TEXTS = (
    *_each("|nan|NaN|inf|-Infinity|1e308|1e400|-1e400|181|91|ten|1e1|+10.3| 10.3 |0x10|1_0.5|10,3|10.3\u00b0|null"),
    *("#N/A", "-0", "true", "1e-400", "10.3\x00", "\u0661\u0660", "5" * 400, _NOT_UTF8),
)
_TIME_TEXTS = (
    *_each("|nan|soon|1e5|+3| 5 |0x10|1_000|-1|1e300|inf|12345678901234567890|1372636858000|1372636858.5|null"),
    *_each("2013-07-01T00:00:58|2013-07-01 00:00:58Z|2013-07-01T00:00:58+02:00|2013-07-01T00:00:58.123456789"),
    *_each("2013-07-01|01.07.2013|2013-13-45T99:99:99|9999-12-31T23:59:59|0001-01-01|294247-01-10T04:00:54Z"),
    _NOT_UTF8,
)
_POLYLINES = (
    *_each("|[]|null|{}|hello|[[10.1,50.1],|[[10.1,50.1]] x|[10.1, 50.1]|[[10.1]]|[[],[10.1,50.1]]|[[10.1,50.1,7]]"),
    *_each('[["10.1","50.1"]]|[[NaN,50.1]]|[[Infinity,1]]|[[1e400,50]]|[[1e308,1e308],[10,50]]|[[true,50]]'),
    *_each("[[010.1,50.1]]|[[10.1,50.1],[500,500],[10.5,50.5]]| [ [ 10.1 , 50.1 ] ] |[[null,50.1]]"),
    *("[" * 3000, "[[10.123456789012345678,50.1]]", "[[1" + "0" * 400 + ",50]]", _NOT_UTF8),
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


_BAD_TEXTS: dict[str, Sequence[Any]] = {
    "time": _TIME_TEXTS,
    "lon": _NUMBER_TEXTS,
    "lat": _NUMBER_TEXTS,
    "polyline": _POLYLINES,
    "point": (*_WKT, _NOT_UTF8),
    "line string": (*_WKT, _NOT_UTF8),
}
_BAD_NUMBERS: dict[pa.DataType, Sequence[Any]] = {
    pa.float64(): (None, np.nan, np.inf, -np.inf, 1e308, -1e308, 181.0, 90.5, -0.0, 5e-324, 1e12),
    pa.int64(): (None, 0, -1, 2**63 - 1, -(2**63), 10**12),
    pa.timestamp("us"): (None, 0, -1, 2**63 - 1, -(2**63), 10**18),
    NATIVE_POINT: (None, {"x": None, "y": 50.1}, {"x": np.nan, "y": np.nan}, {"x": 500.0, "y": -1e308}),
    NATIVE_LINE: (None, [], [None], [None, {"x": 10.1, "y": 50.1}, {"x": None, "y": 50.1}], [{"x": 1e308, "y": 50.1}]),
}
_BAD_LINES: tuple[Callable[[list[bytes]], bytes], ...] = (
    lambda fields: b",".join([*fields, b"more"]),
    lambda fields: b",".join(fields[:-1]),
    lambda fields: b'""',
    lambda fields: b"," * 40,
    lambda fields: b",".join(fields) + b"\xff",
    lambda fields: b",".join([*fields[:-1], b"\xc3(" + fields[-1]]),
    lambda fields: b"\xc3(",
    lambda fields: b",".join(fields) + b"\r",
)
SPACES = ("{} ", " {}", "\t{}", " {} ", "{}\u00a0", "\u2003{}", "{}\n", "{}\r\n")
_TEXT_IDS = _each('7|7.0|07|+7|7e0|\uff17|7\u200b|-7|0x7|true|\u00e9|e\u0301|a"b|a,b|a\nb|\u00c4|\u00e4')
_WHOLE_IDS = [str(number) for number in (7, 0, -7, 70, 2**53, 2**53 + 1, 2**63 - 2, -(2**63))]
_FLOAT_IDS = ["7", "0", "-7", "70"]
NO_IDS: dict[pa.DataType, Sequence[Any]] = {
    pa.string(): (None, "", " ", "\u00a0\t"),
    pa.int64(): (None, 2**63 - 1),  # the last stands for a missing id
    pa.float64(): (None, np.nan, 7.5, np.inf, 1e300),
}
IDS = {pa.string(): _TEXT_IDS, pa.int64(): _WHOLE_IDS, pa.float64(): _FLOAT_IDS}


def bad_value(rng: np.random.Generator, form: Format, role: str) -> Any:
    """A random value that does not belong in a column of this role, or is only just allowed there.

    For the role "line" it is a function that makes a broken line of CSV of the fields of a row.
    """
    kind = form.kinds.get(role, pa.string())
    if role == "line":
        choices: Sequence[Any] = _BAD_LINES
    elif kind == pa.string():
        choices = _BAD_TEXTS[role]
    else:
        choices = _wkb_faults() if kind == pa.binary() else _BAD_NUMBERS[kind]
    value = choices[int(rng.integers(len(choices)))]
    return value.decode("latin-1") if value is _NOT_UTF8 and form.to_pandas else value
