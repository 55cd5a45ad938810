# mypy: ignore-errors
"""Small functions that the compiled kernels share, such as the exponential, with float32 constants.

Everything here is float32 on purpose. A Python number in a formula would silently widen it to float64, and half as
many numbers would fit a vector.
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

# What a kernel can find, worst last: nothing, a class masked by minus infinity, NaN or infinity, an unknown label.
FINE, MASKED, NOT_FINITE, BAD_LABEL = range(4)

# Lets LLVM reorder sums, so that it can vectorise them. NaN is detected beforehand, with integer operations.
_SUM_FLAGS = {"reassoc", "contract", "nsz", "nnan", "arcp"}
_EXACT_FLAGS = {"contract", "nsz"}
FAST: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "fastmath": _SUM_FLAGS,
    "error_model": "numpy",
}
# Small functions are inlined, because a call passes nine numbers for every array.
INLINE: dict[str, Any] = {**FAST, "forceinline": True}
EXACT: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "fastmath": _EXACT_FLAGS,
    "error_model": "numpy",
}

ZERO, HALF, ONE, TWO = (np.float32(value) for value in (0.0, 0.5, 1.0, 2.0))
_LOG2_E = np.float32(math.log2(math.e))
# 2**r = 1 + r (P1 + r (P2 + ...)) for |r| <= 1/2: the degree-5 polynomial with the smallest relative error, 9e-8.
_P1, _P2, _P3, _P4, _P5 = (
    np.float32(value)
    for value in (0.6931469776, 0.2402224208, 0.0555073374, 0.0096715128, 0.0013264727)
)
# Adding it rounds to a whole number, which ends up in the lowest bits.
_ROUND = np.float32(1.5 * 2**23)
_LOWEST, _SHIFT = np.float32(-87.0), np.int32(23)
# Bit masks of a float: all but the sign, and infinity.
_MAGNITUDE, _INFINITY = np.int32(0x7FFFFFFF), np.int32(0x7F800000)
_MINUS_INFINITY = np.int32(-0x800000)


@intrinsic
def float_of(typing_context: Any, bits: Any) -> Any:  # noqa: ARG001 - numba's signature
    """Reinterpret 32 bits as a float32."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.int32), build


@intrinsic
def bits_of(typing_context: Any, number: Any) -> Any:  # noqa: ARG001 - numba's signature
    """Reinterpret a float32 as an integer of 32 bits."""

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
    """View the float32 numbers of a tensor at an address; address 0 stands for no tensor.

    Passing an address to a compiled function costs a tenth of converting the tensor to an array.
    """
    return carray(_pointer(address, np.float32), (count if address else 0,))


@njit(**INLINE)
def labels_at(address: Any, count: Any) -> Any:
    """View the int64 labels of a tensor at an address."""
    return carray(_pointer(address, np.int64), (count,))


@njit(**EXACT)
def exp_of_negative(x: Any) -> Any:
    """Compute ``exp(x)`` for x <= 0; exactly 1 at 0, and 0 below -87. The relative error is below 2e-7 + 8e-8 ``|x|``.

    Neither the processor nor numba has a vectorised exponential. This one is pure arithmetic, so loops around it
    are vectorised.
    """
    rounded = x * _LOG2_E + _ROUND
    rest = x * _LOG2_E - (rounded - _ROUND)
    series = _P3 + rest * (_P4 + rest * _P5)
    series = ONE + rest * (_P1 + rest * (_P2 + rest * series))
    # A power of two is built from the exponent's bits. Below the lowest x the result is meaningless, and not used.
    power = float_of(bits_of(series) + (bits_of(rounded) << _SHIFT))
    return power if x > _LOWEST else ZERO


@njit(**EXACT)
def not_finite(bits: Any) -> Any:
    """Whether the bits are those of NaN or infinity; arithmetic tests might be optimised away."""
    return (bits & _MAGNITUDE) >= _INFINITY


@njit(**EXACT)
def is_nan(bits: Any) -> Any:
    """Whether the bits are those of NaN; comparing a number with itself might be optimised away."""
    return (bits & _MAGNITUDE) > _INFINITY


@intrinsic
def _larger(typing_context: Any, one: Any, other: Any) -> Any:  # noqa: ARG001 - numba's signature
    """Return the larger of two numbers other than NaN; LLVM vectorises this reduction, but not ``max``."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        kind = ir.FloatType()
        function = builder.module.declare_intrinsic(
            "llvm.maxnum", [kind], ir.FunctionType(kind, [kind, kind])
        )
        return builder.call(function, arguments, fastmath=("nnan", "nsz"))

    return types.float32(types.float32, types.float32), build


@intrinsic
def _plus(typing_context: Any, one: Any, other: Any) -> Any:  # noqa: ARG001 - numba's signature
    """Add two numbers; sums may be reordered, but NaN and infinity are respected."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.fadd(*arguments, flags=("reassoc",))

    return types.float32(types.float32, types.float32), build


@njit(**INLINE)
def what_is_wrong(row: Any) -> Any:
    """Return FINE, MASKED (some entries are minus infinity) or NOT_FINITE (NaN, infinity, or all masked)."""
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
    """Return the largest entry of a row, and what is wrong with the row."""
    best, total = row[0], ZERO
    for c in range(row.shape[0]):
        best, total = _larger(best, row[c]), _plus(total, row[c])
    # The sum of finite numbers is finite, unless they are enormous.
    return best, what_is_wrong(row) if not_finite(bits_of(total)) else FINE


@njit(**INLINE)
def place_of(label: Any, weight: Any, ignored: Any, size: Any) -> Any:
    """Return a label that is safe as an index, its weight (0 if ignored), and whether it was valid."""
    if label == ignored:
        return 0, ZERO, True
    known = 0 <= label < size
    return label if known else 0, weight, known
