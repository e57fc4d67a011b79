"""Trip and person ids as Arrow arrays of whole numbers or text.

Each id is read by itself, so that no row decides how another one is read. A value that cannot be an id is null; the
caller decides whether to raise an error or to leave the row out.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from dqam.errors import InputError

LONGEST_ID = 1_000  # bytes
EXACT_BELOW = 2.0**53  # float64 represents all whole numbers below this exactly


def is_text(kind: pa.DataType) -> bool:
    """Whether a column holds strings of any width."""
    return pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind)


def plain_array(array: pa.Array) -> pa.Array:
    """The array without extension types, dictionaries or views, which many compute functions do not support.

    Text that is not valid UTF-8 becomes null.
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pt.is_dictionary(array.type):
        values = plain_array(array.dictionary)
        wide = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}  # repeated values may exceed 2 GiB
        array = values.cast(wide.get(values.type, values.type)).take(array.indices)
    if pt.is_string_view(array.type):
        array = array.cast(pa.large_string())
    if is_text(array.type):  # Arrow does not validate the text of Parquet files
        wide = pt.is_large_string(array.type)
        return cast_each(array.cast(pa.large_binary() if wide else pa.binary()), array.type)
    return array.cast(pa.large_binary()) if pt.is_binary_view(array.type) else array


def cast_each(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values as `kind`; null where a value cannot be cast."""
    try:
        return pc.cast(array, kind)
    except pa.ArrowInvalid:
        if len(array) == 1:
            return pa.nulls(1, kind)
        middle = len(array) // 2
        return pa.concat_arrays([cast_each(array[:middle], kind), cast_each(array[middle:], kind)])


def ids_of(array: pa.Array, source: str, what: str) -> pa.Array:
    """Ids as whole numbers, or as text without surrounding white space, so that each trip or person has one id.

    Null where there is no valid id: for fractions, for text that is empty or longer than LONGEST_ID bytes, and for the
    largest 64-bit integer. Empty text and the largest integer stand for a missing id in `without_nulls`.

    >>> [ids_of(pa.array(ids), "demo", "trip").to_pylist() for ids in ([" a", "a ", " "], [7.0, 7.5])]
    [['a', 'a', None], [7, None]]
    """
    ids = plain_array(array)
    if pt.is_floating(ids.type):  # a data frame turns whole numbers with gaps into floats
        values = ids.cast(pa.float64()).to_numpy(zero_copy_only=False)
        whole = (np.abs(values) < EXACT_BELOW) & (np.floor(values) == values)  # false for NaN
        return pa.array(np.where(whole, values, 0).astype(np.int64), mask=~whole)
    if pt.is_integer(ids.type):
        return with_nulls(ids if pt.is_uint64(ids.type) else ids.cast(pa.int64()))
    try:
        text = pc.utf8_trim_whitespace(ids if is_text(ids.type) else cast_each(ids, pa.string()))
    except pa.ArrowException:
        raise InputError(f"{source}: ids cannot be {ids.type} ({what}); use whole numbers or text.") from None
    return with_nulls(pc.if_else(pc.greater(pc.binary_length(text), LONGEST_ID), pa.scalar(None, text.type), text))


def missing_id(kind: pa.DataType) -> pa.Scalar:
    """The value that stands for a missing id where nulls are not allowed."""
    return pa.scalar(2**64 - 1 if pt.is_uint64(kind) else 2**63 - 1 if pt.is_integer(kind) else "", kind)


def without_nulls(ids: pa.Array) -> pa.Array:
    """The ids with `missing_id` in place of nulls, so that missing ids are equal; `with_nulls` is the inverse."""
    return ids.fill_null(missing_id(ids.type)) if ids.null_count else ids


def with_nulls(ids: pa.Array) -> pa.Array:
    """The ids with null in place of `missing_id`."""
    missing = pc.equal(ids, missing_id(ids.type))
    return pc.if_else(missing, pa.scalar(None, ids.type), ids) if pc.any(missing).as_py() else ids
