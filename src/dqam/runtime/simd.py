"""SIMD vectors for code compiled by Numba; each lane of a vector usually holds a number of a different trip.

Numba vectorises a short loop only after run-time tests that no two arrays overlap, and it keeps sums in memory. A
`SimdVector` is a value that stays in registers: four float64, which solve the same small problem for four trips, or
sixteen uint64, with one bit for each of 1,024 trips. The result in a lane depends neither on the other lanes nor on the
processor: each product, sum, quotient and root is rounded separately, as IEEE 754 specifies, and none of them is fused
or reordered.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic, models, overload, register_model

LANES = 4  # float64 in a vector
WORDS = 16  # uint64 in a vector

_COUNTS = {types.float64: LANES, types.uint64: WORDS}


class SimdVector(types.Type):  # type: ignore[misc]
    """The Numba type of a SIMD vector of float64 or uint64."""

    def __init__(self, number: Any) -> None:
        super().__init__(name=f"SimdVector({number})")
        element = ir.DoubleType() if number is types.float64 else ir.IntType(64)
        self.vector = ir.VectorType(element, _COUNTS[number])


@register_model(SimdVector)
class _Model(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: SimdVector) -> None:
        super().__init__(manager, kind, kind.vector)


@intrinsic
def load(typing: Any, array: Any, i: Any, j: Any) -> Any:
    """Load array[i, j] of a float64[m, n, LANES] or a uint64[m, n, WORDS]."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.load(_place(context, builder, signature.args[0], *given), align=8)

    return SimdVector(_checked(array).dtype)(array, types.intp, types.intp), generate


@intrinsic
def store(typing: Any, array: Any, i: Any, j: Any, vector: Any) -> Any:
    """Set array[i, j] of a float64[m, n, LANES] or a uint64[m, n, WORDS]."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        builder.store(given[3], _place(context, builder, signature.args[0], *given[:3]), align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp, SimdVector(_checked(array).dtype)), generate


def _checked(array: Any) -> Any:
    """Return the type of an array if its last axis is a SIMD vector, or raise a `TypingError`."""
    if isinstance(array, types.Array) and array.ndim == 3 and array.layout == "C" and array.dtype in _COUNTS:
        return array
    raise TypingError(
        f"A SIMD vector is the last axis of a contiguous float64 or uint64 array [m, n, lanes], not of {array}."
    )


def _place(context: Any, builder: Any, kind: Any, array: Any, i: Any, j: Any) -> Any:
    found = context.make_array(kind)(context, builder, array)
    rows, columns, _ = cgutils.unpack_tuple(builder, found.strides)
    offset = builder.add(builder.mul(i, rows), builder.mul(j, columns))
    return builder.bitcast(cgutils.pointer_add(builder, found.data, offset), SimdVector(kind.dtype).vector.as_pointer())


@intrinsic
def filled(typing: Any, number: Any) -> Any:
    """The same number in each lane."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        vector = ir.Constant(signature.return_type.vector, ir.Undefined)
        for lane in range(LANES):
            vector = builder.insert_element(vector, given[0], ir.Constant(ir.IntType(32), lane))
        return vector

    return SimdVector(types.float64)(types.float64), generate


def _operation(number: Any, make: Callable[..., Any], *given: Any) -> Any:
    """An operation on SIMD vectors of one number type, built by `make`; None for other types."""
    if any(kind != SimdVector(number) for kind in given):
        return None
    return given[0](*given), lambda context, builder, signature, values: make(builder, *values)


@intrinsic
def least(typing: Any, a: Any, b: Any) -> Any:
    """The smaller number in each lane."""
    return _operation(types.float64, lambda builder, a, b: builder.select(builder.fcmp_ordered("<", a, b), a, b), a, b)


@intrinsic
def inverse_root(typing: Any, a: Any) -> Any:
    """1 / sqrt(a)."""

    def make(builder: Any, a: Any) -> Any:
        kind = ir.FunctionType(a.type, [a.type])
        root = cgutils.get_or_insert_function(builder.module, kind, f"llvm.sqrt.v{LANES}f64")
        return builder.fdiv(ir.Constant(a.type, [1.0] * LANES), builder.call(root, [a]))

    return _operation(types.float64, make, a)


@intrinsic
def ones(typing: Any, a: Any) -> Any:
    """The number of bits that are set, summed over all lanes."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        kind = given[0].type
        count = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind]), f"llvm.ctpop.v{WORDS}i64")
        total = ir.FunctionType(ir.IntType(64), [kind])
        add = cgutils.get_or_insert_function(builder.module, total, f"llvm.vector.reduce.add.v{WORDS}i64")
        return builder.call(add, [builder.call(count, [given[0]])])

    return (types.int64(a), generate) if a == SimdVector(types.uint64) else None


@intrinsic
def either(typing: Any, a: Any, b: Any) -> Any:
    """The bits that are set in a or b."""
    return _operation(types.uint64, lambda builder, a, b: builder.or_(a, b), a, b)


@intrinsic
def both(typing: Any, a: Any, b: Any) -> Any:
    """The bits that are set in a and b."""
    return _operation(types.uint64, lambda builder, a, b: builder.and_(a, b), a, b)


@intrinsic
def without(typing: Any, a: Any, b: Any) -> Any:
    """The bits that are set in a but not in b."""
    return _operation(types.uint64, lambda builder, a, b: builder.and_(a, builder.not_(b)), a, b)


@intrinsic
def _plus(typing: Any, a: Any, b: Any) -> Any:
    return _operation(types.float64, lambda builder, a, b: builder.fadd(a, b), a, b)


@intrinsic
def _minus(typing: Any, a: Any, b: Any) -> Any:
    return _operation(types.float64, lambda builder, a, b: builder.fsub(a, b), a, b)


@intrinsic
def _times(typing: Any, a: Any, b: Any) -> Any:
    return _operation(types.float64, lambda builder, a, b: builder.fmul(a, b), a, b)


def _overload(work: Any, *signs: Any) -> None:
    """Make each of the operators `signs` between SIMD vectors call `work`."""
    for sign in signs:

        @overload(sign)
        def between(a, b):  # type: ignore[no-untyped-def]
            return (lambda a, b: work(a, b)) if a == b == SimdVector(types.float64) else None


_overload(_plus, operator.add, operator.iadd)
_overload(_minus, operator.sub, operator.isub)
_overload(_times, operator.mul, operator.imul)
