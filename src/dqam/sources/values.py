"""Convert Arrow columns to numbers and times.

Each value is read by itself, so that no row decides how another one is read. A value that cannot be read is null or
NaN; the caller decides whether to raise an error or to leave the row out.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from dqam.errors import InputError
from dqam.geometry.arrays import Floats, Mask
from dqam.geometry.ids import cast_each, is_text, plain_array

FARTHEST = 1e11  # seconds from 1970; a time in milliseconds would be farther
_DATE, _ZONE, _NANOSECONDS = r"^\d{4}-", r"[T ].*(Z|[+-]\d\d(:?\d\d)?)$", r"\.\d{7}"


def _is_number(kind: pa.DataType) -> bool:
    return pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind)


def numbers(array: pa.Array, name: str, what: str) -> Floats:
    """float64[n], without a copy where possible; NaN where there is no number."""
    array = plain_array(array)
    if is_text(array.type):
        array = cast_each(pc.ascii_trim_whitespace(array), pa.float64())
    elif not (_is_number(array.type) or pt.is_null(array.type)):
        raise InputError(f"{name}: {what} is a column of {array.type} where numbers were expected; convert it.")
    return array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)


def timestamps(array: pa.Array, name: str, what: str) -> pa.Array:
    """int64[n], microseconds since 1970; null where unknown. Numbers are seconds, text is ISO 8601 or seconds.

    >>> timestamps(pa.array(["1970-01-01T00:00:01", "1970-01-01T01:00:01+01:00", "1", "one"]), "demo", "t").to_pylist()
    [1000000, 1000000, 1000000, None]
    """
    array = plain_array(array)
    kind = array.type
    if is_text(kind):
        return _timestamps_of_text(pc.ascii_trim_whitespace(array))
    if pt.is_timestamp(kind) or pt.is_date(kind):
        return array.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False).view(pa.int64())
    if _is_number(kind):
        return _microseconds(array.cast(pa.float64(), safe=False))
    if pt.is_null(kind):
        return array.cast(pa.int64())
    raise InputError(
        f"{name}: {what} is a column of {kind} where times were expected (timestamps, ISO 8601 text like "
        "2013-07-01T00:00:58, or seconds since 1970); convert it."
    )


def has_zone(array: pa.Array) -> Mask:
    """Which times state their time zone; times in seconds count as if they did."""
    array = plain_array(array)
    if is_text(array.type):
        dates = pc.fill_null(pc.match_substring_regex(array, _DATE), False).to_numpy(zero_copy_only=False)
        return ~dates | pc.fill_null(pc.match_substring_regex(array, _ZONE), False).to_numpy(zero_copy_only=False)
    named = getattr(array.type, "tz", None) is not None or not pt.is_temporal(array.type)
    return np.full(len(array), named)


def _timestamps_of_text(text: pa.Array) -> pa.Array:
    """Each text has at most one valid format. Usually all have the same one, which is tried first."""
    forms = [pa.float64(), *(pa.timestamp(unit, zone) for zone in (None, "UTC") for unit in ("us", "ns"))]
    known = text.drop_null()
    form = next((form for form in forms if _casts(known[:1], form)), forms[0])
    if _casts(text, form):
        return _to_microseconds(pc.cast(text, form))
    dates, zoned, fine = (
        pc.fill_null(pc.match_substring_regex(text, pattern), False).to_numpy(zero_copy_only=False)
        for pattern in (_DATE, _ZONE, _NANOSECONDS)
    )
    classes = np.where(dates, 1 + 2 * zoned + fine, 0)
    ticks = pa.nulls(len(text), pa.int64())
    for place, form in enumerate(forms):
        mine = pa.array(classes == place)
        ticks = pc.replace_with_mask(ticks, mine, _to_microseconds(cast_each(text.filter(mine), form)))
    return ticks


def _to_microseconds(times: pa.Array) -> pa.Array:
    if pt.is_floating(times.type):
        return _microseconds(times)
    return times.cast(pa.timestamp("us", times.type.tz), safe=False).view(pa.int64())


def _microseconds(seconds: pa.Array) -> pa.Array:
    values = seconds.to_numpy(zero_copy_only=False)
    near = np.abs(values) <= FARTHEST  # false for NaN
    return pa.array(np.rint(np.where(near, values, 0) * 1e6).astype(np.int64), mask=None if near.all() else ~near)


def format_of(value: pa.Scalar) -> str:
    """What a value looks like, for a message that must not show it: digits become 9 and letters a.

    >>> format_of(pa.scalar("1/7/2013 4pm")), format_of(pa.scalar(41.5))
    ("'9/9/9999 9aa'", "'99.9'")
    """
    text = re.sub(r"[^\W\d_]", "a", re.sub(r"\d", "9", str(value.as_py())))
    return repr(text if len(text) <= 40 else f"{text[:37]}...")


def _casts(array: pa.Array, kind: pa.DataType) -> bool:
    try:
        pc.cast(array, kind)
    except pa.ArrowInvalid:
        return False
    return True
