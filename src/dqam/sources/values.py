"""Arrow columns as plain numbers and moments, and the first row that is neither."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from dqam.errors import InputError

_DAY_FORMS = [pa.timestamp(unit, zone) for unit in ("us", "ns") for zone in (None, "UTC")]


def _is_number(kind: pa.DataType) -> bool:
    return pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind)


def is_text(kind: pa.DataType) -> bool:
    """Whether a column holds strings of any width."""
    return pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind)


def plain(array: pa.Array) -> pa.Array:
    """The array without extension type, dictionary or string views, which compute functions often lack."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pt.is_dictionary(array.type):
        array = plain(array.dictionary).take(array.indices)
    if pt.is_string_view(array.type):
        array = array.cast(pa.large_string())
    return array.cast(pa.large_binary()) if pt.is_binary_view(array.type) else array


def ids_of(array: pa.Array, source: str, what: str) -> pa.Array:
    """Ids as whole numbers or as text without white space around it: what means one trip or person is one id."""
    ids = plain(array)
    try:
        if pt.is_floating(ids.type):  # whole numbers that a data frame with gaps has made floats
            ids = ids.cast(pa.int64())
        if pt.is_uint64(ids.type):
            return ids
        if pt.is_integer(ids.type):
            return ids.cast(pa.int64())
        return pc.utf8_trim_whitespace(ids if is_text(ids.type) else ids.cast(pa.string()))
    except pa.ArrowException:
        raise InputError(f"{source}: ids can not be {ids.type} ({what}); use whole numbers or text.") from None


def numbers(array: pa.Array, name: str, first_row: int, what: str) -> NDArray[np.float64]:
    """float64[n], without a copy where possible; nulls are NaN."""
    array = plain(array)
    if not pt.is_float64(array.type):
        if not (_is_number(array.type) or is_text(array.type) or pt.is_null(array.type)):
            raise InputError(f"{name}: {what} is a column of {array.type} where numbers were expected; convert it.")
        array = _cast(array, pa.float64(), name, first_row, f"a number was expected for {what}")
    return array.to_numpy(zero_copy_only=False)


def moments(array: pa.Array, name: str, first_row: int, zones: set[bool] | None = None) -> pa.Array:
    """Int64 microseconds since 1970, null where unknown; numbers are seconds, strings ISO 8601 or seconds.

    `zones` collects whether times have a time zone, over all batches of a source: all or none may.
    """
    array = plain(array)
    kind = array.type
    expected = "a time was expected (ISO 8601 like 2013-07-01T00:00:58, or seconds)"
    if is_text(kind):
        known = array.drop_null()
        if not len(known):
            return pa.nulls(len(array), pa.int64())
        first = known[:1]
        kind = next((form for form in (pa.float64(), *_DAY_FORMS) if _casts(first, form)), _DAY_FORMS[0])
        if kind in _DAY_FORMS:  # a later value may have more decimals than the first
            kind = next((form for form in _DAY_FORMS if form.tz == kind.tz and _casts(known, form)), kind)
        array = _cast(array, kind, name, first_row, expected)
    if pt.is_timestamp(kind) or pt.is_date(kind):
        if zones is not None:
            zones.add(getattr(kind, "tz", None) is not None)
            if len(zones) > 1:
                raise InputError(
                    f"{name}: from row {first_row:,} some times have a time zone and some not; give all one."
                )
        return array.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False).view(pa.int64())
    if _is_number(kind):
        seconds = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        with np.errstate(invalid="ignore"):
            known_seconds = np.isfinite(seconds)
            if (too_far := known_seconds & (np.abs(seconds) > 1e11)).any():
                i = int(np.argmax(too_far))
                raise InputError(
                    f"{name}: row {first_row + i:,} has time {seconds[i]:.17g}, too many seconds since 1970; "
                    "if these are milliseconds, divide them by 1000."
                )
            ticks = np.rint(seconds * 1e6).astype(np.int64)
        return pa.array(ticks, mask=None if known_seconds.all() else ~known_seconds)
    if pt.is_null(kind):
        return array.cast(pa.int64())
    raise InputError(f"{name}: row {first_row:,} has {brief(array[0])} where {expected}; convert the column.")


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


def _cast(array: pa.Array, kind: pa.DataType, name: str, first_row: int, expected: str) -> pa.Array:
    try:
        return pc.cast(array, kind, safe=pt.is_temporal(kind) or is_text(array.type))
    except pa.ArrowInvalid:
        i = _first_failing(array, lambda part: _casts(part, kind))
        raise InputError(
            f"{name}: row {first_row + i:,} has {brief(array[i])} where {expected}; repair the row."
        ) from None


def _first_failing(array: pa.Array, good: Callable[[pa.Array], bool]) -> int:
    """The index of the first value that makes a slice fail, by bisection."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if good(array[low:middle]) else (low, middle)
    return low
