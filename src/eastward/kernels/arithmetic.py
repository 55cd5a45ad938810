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
from numba import carray, njit, types
from numba.extending import intrinsic

__all__ = [
    "BAD_LABEL",
    "EXACT",
    "FAST",
    "FINE",
    "HALF",
    "INLINE",
    "MASKED",
    "NOT_FINITE",
    "ONE",
    "TWO",
    "ZERO",
    "bits_of",
    "exp_of_negative",
    "float_of",
    "floats_at",
    "is_nan",
    "labels_at",
    "largest",
    "not_finite",
    "place_of",
    "what_is_wrong",
]

# What a kernel found, the worst last: nothing, a class masked by minus infinity, NaN or infinity, an unknown label.
FINE, MASKED, NOT_FINITE, BAD_LABEL = range(4)

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
_MAGNITUDE, _INFINITY = np.int32(0x7FFFFFFF), np.int32(0x7F800000)
_MINUS_INFINITY = np.int32(-0x800000)


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


@intrinsic
def _pointer(typing_context: Any, address: Any, kind: Any) -> Any:  # noqa: ARG001 - numba's signature
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(kind.dtype)(types.int64, kind), build


@njit(**INLINE)
def floats_at(address: Any, count: Any) -> Any:
    """The float32 numbers of a tensor, given where they lie; none at address 0.

    An address costs a tenth of what it takes to make an array of a tensor and hand it to a compiled function.
    """
    return carray(_pointer(address, np.float32), (count if address else 0,))


@njit(**INLINE)
def labels_at(address: Any, count: Any) -> Any:
    """The int64 labels of a tensor, given where they lie."""
    return carray(_pointer(address, np.int64), (count,))


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
    return (bits & _MAGNITUDE) >= _INFINITY


@njit(**EXACT)
def is_nan(bits: Any) -> Any:
    """Whether the bits are those of NaN; a number compared with itself may be optimised away."""
    return (bits & _MAGNITUDE) > _INFINITY


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
def what_is_wrong(row: Any) -> Any:
    """FINE, MASKED (some entries are minus infinity) or NOT_FINITE (NaN, infinity, or all masked)."""
    wrong, masked = FINE, 0
    for c in range(row.shape[0]):
        bits = bits_of(row[c])
        if bits == _MINUS_INFINITY:
            masked += 1
        elif not_finite(bits):
            wrong = NOT_FINITE
    if masked == row.shape[0]:
        return NOT_FINITE
    return max(wrong, MASKED if masked else FINE)


@njit(**INLINE)
def largest(row: Any) -> Any:
    """The largest entry of a row, and what is wrong with it."""
    best, total = row[0], ZERO
    for c in range(row.shape[0]):
        best, total = _larger(best, row[c]), _plus(total, row[c])
    # The sum of finite numbers is finite, unless they are enormous.
    return best, what_is_wrong(row) if not_finite(bits_of(total)) else FINE


@njit(**INLINE)
def place_of(label: Any, weight: Any, ignored: Any, size: Any) -> Any:
    """A label that may be an index, its weight, and whether it was one; an ignored sample weighs nothing."""
    if label == ignored:
        return 0, ZERO, True
    known = 0 <= label < size
    return label if known else 0, weight, known
