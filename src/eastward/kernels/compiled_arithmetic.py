# mypy: ignore-errors
"""Small functions that the compiled kernels share: exponential, step, their constants in float32.

Everything here is float32 on purpose: a Python number in a formula would silently widen it to float64 and halve the
width of the vectors.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

__all__ = [
    "BAD_LABEL",
    "EXACT",
    "FAST",
    "FINE",
    "HALF",
    "INFINITY",
    "INLINE",
    "MAGNITUDE",
    "NOT_FINITE",
    "ONE",
    "TWO",
    "ZERO",
    "ask_for",
    "bits_of",
    "exp_of_negative",
    "float_of",
    "largest",
    "not_finite",
    "place_of",
]

# What a kernel returns.
FINE, NOT_FINITE, BAD_LABEL = range(3)

# Sums may be reordered (that is what makes them vectors); NaN is looked for with integers before it is met.
_SUM_FLAGS = {"reassoc", "contract", "nsz", "nnan", "arcp"}
_EXACT_FLAGS = {"contract", "nsz"}
FAST: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "fastmath": _SUM_FLAGS,
    "error_model": "numpy",
}
# Small functions become part of their callers: a call passes nine numbers for every array.
INLINE: dict[str, Any] = {**FAST, "forceinline": True}
EXACT: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "fastmath": _EXACT_FLAGS,
    "error_model": "numpy",
}

ZERO, HALF, ONE, TWO = (np.float32(value) for value in (0.0, 0.5, 1.0, 2.0))
_LOG2_E = np.float32(math.log2(math.e))
# 2**r = 1 + r (P1 + r (P2 + ...)) for |r| <= 1/2: the polynomial of degree 5 with the least relative error, 9e-8.
_P1, _P2, _P3, _P4, _P5 = (
    np.float32(value)
    for value in (0.6931469776, 0.2402224208, 0.0555073374, 0.0096715128, 0.0013264727)
)
# Adding it rounds to a whole number, which then stands in the lowest bits.
_ROUND = np.float32(1.5 * 2**23)
_LOWEST, _SHIFT = np.float32(-87.0), np.int32(23)
# Of a float's bits: those but the sign, and those of infinity.
MAGNITUDE, INFINITY = np.int32(0x7FFFFFFF), np.int32(0x7F800000)
_NOTHING, _LOWEST_FLOAT = np.int32(0), np.finfo(np.float32).min


@intrinsic
def float_of(typing_context: Any, bits: Any) -> Any:  # noqa: ARG001 - numba's signature
    """The float32 that has these 32 bits."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.int32), build


@intrinsic
def bits_of(typing_context: Any, number: Any) -> Any:  # noqa: ARG001 - numba's signature
    """The 32 bits of a float32 as an integer."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.bitcast(arguments[0], ir.IntType(32))

    return types.int32(types.float32), build


@njit(**EXACT)
def exp_of_negative(x: Any) -> Any:
    """``exp(x)`` for x <= 0; exactly 1 at 0, and 0 below -87. The relative error is below 2e-7 + 8e-8 ``|x|``.

    The processor has no exponential for vectors and numba brings none; this one is arithmetic only, so a loop
    around it becomes vectors.
    """
    rounded = x * _LOG2_E + _ROUND
    rest = x * _LOG2_E - (rounded - _ROUND)
    series = _P3 + rest * (_P4 + rest * _P5)
    series = ONE + rest * (_P1 + rest * (_P2 + rest * series))
    # A power of two is a matter of the exponent's bits; below the lowest x it is nonsense, and not taken.
    power = float_of(bits_of(series) + (bits_of(rounded) << _SHIFT))
    return power if x > _LOWEST else ZERO


@njit(**EXACT)
def not_finite(bits: Any) -> Any:
    """Whether the bits are those of NaN or infinity; arithmetic on such numbers may be optimised away."""
    return (bits & MAGNITUDE) >= INFINITY


@intrinsic
def _larger(typing_context: Any, one: Any, other: Any) -> Any:  # noqa: ARG001 - numba's signature
    """The larger of two numbers that are not NaN: LLVM makes vectors of its reduction, and none of ``max``."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        kind = ir.FloatType()
        function = builder.module.declare_intrinsic(
            "llvm.maxnum", [kind], ir.FunctionType(kind, [kind, kind])
        )
        return builder.call(function, arguments, fastmath=("nnan", "nsz"))

    return types.float32(types.float32, types.float32), build


@intrinsic
def _plus(typing_context: Any, one: Any, other: Any) -> Any:  # noqa: ARG001 - numba's signature
    """A sum that may be reordered, but in which NaN and infinity are what they are."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.fadd(*arguments, flags=("reassoc",))

    return types.float32(types.float32, types.float32), build


@njit(**INLINE)
def largest(rows: Any, n: Any) -> Any:
    """The largest entry of row ``n``, and whether all are finite."""
    best, total = _LOWEST_FLOAT, ZERO
    for c in range(rows.shape[1]):
        best, total = _larger(best, rows[n, c]), _plus(total, rows[n, c])
    # The sum of finite numbers is finite, unless they are enormous.
    return best, _all_finite(rows[n]) if not_finite(bits_of(total)) else True


@njit(**INLINE)
def _all_finite(row: Any) -> Any:
    magnitude = _NOTHING
    for c in range(row.shape[0]):
        magnitude = max(magnitude, bits_of(row[c]) & MAGNITUDE)
    return magnitude < INFINITY


@intrinsic
def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:  # noqa: ARG001 - numba's signature
    """Ask for the line of memory that holds an entry of a contiguous array, by its place in the flat array."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        whole, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        function = builder.module.declare_intrinsic(
            "llvm.prefetch", [whole], ir.FunctionType(ir.VoidType(), [whole, flag, flag, flag])
        )
        place = builder.bitcast(builder.gep(data, [arguments[1]]), whole)
        # To be read, and soon; data, not code.
        builder.call(function, [place, flag(0), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), build


@njit(**INLINE)
def ask_for(rows: Any, n: Any, part: Any) -> None:
    """Have 256 numbers of row ``n`` fetched while something else is computed: as many as can be under way at once.

    The processor looks ahead by itself only within a page of memory, which a row of a thousand numbers ends.
    """
    size = rows.shape[1]
    for c in range(part * 256, min((part + 1) * 256, size), 16):
        _prefetch(rows, n * size + c)


@njit(**INLINE)
def place_of(label: Any, weight: Any, ignored: Any, size: Any) -> Any:
    """A label that may be an index, its weight, and whether it was one; an ignored sample weighs nothing."""
    if label == ignored:
        return 0, ZERO, True
    known = 0 <= label < size
    return label if known else 0, weight, known
