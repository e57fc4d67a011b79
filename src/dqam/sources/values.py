"""Arrow columns as plain ids, numbers and moments.

Each value is read by itself: what it means never depends on the values beside it, so that no row decides how another
one is read. What cannot be read is null or NaN; the caller decides whether to raise an error or to leave the row out.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from dqam.errors import InputError
from dqam.geometry.arrays import Floats, Mask

FARTHEST = 1e11  # seconds from 1970
LONGEST = 1_000  # bytes of an id
WHOLE = 2.0**53  # whole numbers below this are exact as floats
_DATE, _ZONE, _NANOSECONDS = r"^\d{4}-", r"[T ].*(Z|[+-]\d\d(:?\d\d)?)$", r"\.\d{7}"


def _is_number(kind: pa.DataType) -> bool:
    return pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind)


def is_text(kind: pa.DataType) -> bool:
    """Whether a column holds strings of any width."""
    return pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind)


def plain(array: pa.Array) -> pa.Array:
    """The array without extension type, dictionary or string views, which compute functions often lack; text that is
    not UTF-8 is null."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pt.is_dictionary(array.type):
        values = plain(array.dictionary)
        wide = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}  # what is short once may be long often
        array = values.cast(wide.get(values.type, values.type)).take(array.indices)
    if pt.is_string_view(array.type):
        array = array.cast(pa.large_string())
    if is_text(array.type):  # Parquet files do not check this
        wide = pt.is_large_string(array.type)
        return cast_each(array.cast(pa.large_binary() if wide else pa.binary()), array.type)
    return array.cast(pa.large_binary()) if pt.is_binary_view(array.type) else array


def cast_each(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values as `kind`, null where one cannot be cast."""
    try:
        return pc.cast(array, kind)
    except pa.ArrowInvalid:
        if len(array) == 1:
            return pa.nulls(1, kind)
        middle = len(array) // 2
        return pa.concat_arrays([cast_each(array[:middle], kind), cast_each(array[middle:], kind)])


def ids_of(array: pa.Array, source: str, what: str) -> pa.Array:
    """Ids as whole numbers, or as text without white space around it, so that each trip or person has one id.

    Null where there is none: fractions, texts above LONGEST bytes, empty texts and the last whole number of 64 bits are
    no ids; the latter two stand for a missing one in `without_nulls`.

    >>> [ids_of(pa.array(ids), "demo", "trip").to_pylist() for ids in ([" a", "a ", " "], [7.0, 7.5])]
    [['a', 'a', None], [7, None]]
    """
    ids = plain(array)
    if pt.is_floating(ids.type):  # whole numbers that a data frame with gaps has made floats
        values = ids.cast(pa.float64()).to_numpy(zero_copy_only=False)
        whole = (np.abs(values) < WHOLE) & (np.floor(values) == values)  # false for NaN
        return pa.array(np.where(whole, values, 0).astype(np.int64), mask=~whole)
    if pt.is_integer(ids.type):
        return with_nulls(ids if pt.is_uint64(ids.type) else ids.cast(pa.int64()))
    try:
        text = pc.utf8_trim_whitespace(ids if is_text(ids.type) else cast_each(ids, pa.string()))
    except pa.ArrowException:
        raise InputError(f"{source}: ids cannot be {ids.type} ({what}); use whole numbers or text.") from None
    return with_nulls(pc.if_else(pc.greater(pc.binary_length(text), LONGEST), pa.scalar(None, text.type), text))


def nobody(kind: pa.DataType) -> pa.Scalar:
    """The value that stands for a missing id where nulls are not allowed."""
    return pa.scalar(2**64 - 1 if pt.is_uint64(kind) else 2**63 - 1 if pt.is_integer(kind) else "", kind)


def without_nulls(ids: pa.Array) -> pa.Array:
    """Ids with missing ones replaced by a value that equals itself; `with_nulls` is the inverse."""
    return ids.fill_null(nobody(ids.type)) if ids.null_count else ids


def with_nulls(ids: pa.Array) -> pa.Array:
    """Ids that are null where they are missing."""
    missing = pc.equal(ids, nobody(ids.type))
    return pc.if_else(missing, pa.scalar(None, ids.type), ids) if pc.any(missing).as_py() else ids


def numbers(array: pa.Array, name: str, what: str) -> Floats:
    """float64[n], without a copy where possible; NaN where there is no number."""
    array = plain(array)
    if is_text(array.type):
        array = cast_each(pc.ascii_trim_whitespace(array), pa.float64())
    elif not (_is_number(array.type) or pt.is_null(array.type)):
        raise InputError(f"{name}: {what} is a column of {array.type} where numbers were expected; convert it.")
    return array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)


def moments(array: pa.Array, name: str, first_row: int) -> pa.Array:
    """Int64 microseconds since 1970, null where unknown; numbers are seconds, strings ISO 8601 or seconds.

    >>> moments(pa.array(["1970-01-01T00:00:01", "1970-01-01T01:00:01+01:00", "1", "one"]), "demo", 1).to_pylist()
    [1000000, 1000000, 1000000, None]
    """
    array = plain(array)
    kind = array.type
    if is_text(kind):
        return _moments_of_text(pc.ascii_trim_whitespace(array))
    if pt.is_timestamp(kind) or pt.is_date(kind):
        return array.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False).view(pa.int64())
    if _is_number(kind):
        return _ticks(array.cast(pa.float64(), safe=False))
    if pt.is_null(kind):
        return array.cast(pa.int64())
    raise InputError(
        f"{name}: row {first_row:,} has {brief(array[0])} where a time was expected (ISO 8601 like "
        "2013-07-01T00:00:58, or seconds); convert the column."
    )


def has_zone(array: pa.Array) -> Mask:
    """Which times state their time zone; times in seconds count as if they did."""
    array = plain(array)
    if is_text(array.type):
        dates = pc.fill_null(pc.match_substring_regex(array, _DATE), False).to_numpy(zero_copy_only=False)
        return ~dates | pc.fill_null(pc.match_substring_regex(array, _ZONE), False).to_numpy(zero_copy_only=False)
    named = getattr(array.type, "tz", None) is not None or not pt.is_temporal(array.type)
    return np.full(len(array), named)


def _moments_of_text(text: pa.Array) -> pa.Array:
    """Each text has at most one valid form; usually all have the same one, which is tried first."""
    forms = [pa.float64(), *(pa.timestamp(unit, zone) for zone in (None, "UTC") for unit in ("us", "ns"))]
    known = text.drop_null()
    form = next((form for form in forms if _casts(known[:1], form)), forms[0])
    if _casts(text, form):
        return _as_ticks(pc.cast(text, form))
    dates, zoned, fine = (
        pc.fill_null(pc.match_substring_regex(text, pattern), False).to_numpy(zero_copy_only=False)
        for pattern in (_DATE, _ZONE, _NANOSECONDS)
    )
    classes = np.where(dates, 1 + 2 * zoned + fine, 0)
    ticks = pa.nulls(len(text), pa.int64())
    for place, form in enumerate(forms):
        mine = pa.array(classes == place)
        ticks = pc.replace_with_mask(ticks, mine, _as_ticks(cast_each(text.filter(mine), form)))
    return ticks


def _as_ticks(times: pa.Array) -> pa.Array:
    if pt.is_floating(times.type):
        return _ticks(times)
    return times.cast(pa.timestamp("us", times.type.tz), safe=False).view(pa.int64())


def _ticks(seconds: pa.Array) -> pa.Array:
    values = seconds.to_numpy(zero_copy_only=False)
    near = np.abs(values) <= FARTHEST  # false for NaN
    return pa.array(np.rint(np.where(near, values, 0) * 1e6).astype(np.int64), mask=None if near.all() else ~near)


def brief(value: object) -> str:
    """A value short enough for a message."""
    text = repr(value.as_py() if isinstance(value, pa.Scalar) else value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _casts(array: pa.Array, kind: pa.DataType) -> bool:
    try:
        pc.cast(array, kind)
    except pa.ArrowInvalid:
        return False
    return True
