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

__all__ = ["FAST", "HALF", "ONE", "TWO", "ZERO", "bits_of", "exp_of_negative", "not_finite"]

# Sums may be reordered (that is what makes them vectors); NaN is looked for with integers before it is met.
_SUM_FLAGS = {"reassoc", "contract", "nsz", "nnan", "arcp"}
_EXACT_FLAGS = {"contract", "nsz"}
FAST: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "fastmath": _SUM_FLAGS,
    "error_model": "numpy",
}
EXACT: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "fastmath": _EXACT_FLAGS,
    "error_model": "numpy",
}

ZERO, HALF, ONE, TWO = (np.float32(value) for value in (0.0, 0.5, 1.0, 2.0))
_LOG2_E = np.float32(math.log2(math.e))
# ln 2 in two parts, of which the first has few digits: n times it is exact.
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
_P2, _P3, _P4, _P5, _P6 = (np.float32(1 / math.factorial(k)) for k in range(2, 7))
_LOWEST = np.float32(-87.6)
_BIAS, _SHIFT = np.int32(127), np.int32(23)
_MAGNITUDE, _INFINITY = np.int32(0x7FFFFFFF), np.int32(0x7F800000)


@intrinsic
def _float_of(typing_context: Any, bits: Any) -> Any:  # noqa: ARG001 - numba's signature
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
    """``exp(x)`` for x <= 0 to one unit in the last place; exactly 1 at 0, and 0 below -87.

    The processor has no exponential for vectors and numba brings none; this one is arithmetic only, so a loop
    around it becomes vectors.
    """
    held = max(x, _LOWEST)
    whole = np.floor(held * _LOG2_E + HALF)
    rest = (held - whole * _LN2_HIGH) - whole * _LN2_LOW
    series = _P4 + rest * (_P5 + rest * _P6)
    series = HALF + rest * (_P3 + rest * series)
    series = ONE + rest * (ONE + rest * series)
    power = _float_of((np.int32(whole) + _BIAS) << _SHIFT)
    return series * power if x > _LOWEST else ZERO


@njit(**EXACT)
def not_finite(bits: Any) -> Any:
    """Whether the bits are those of NaN or infinity; arithmetic on such numbers may be optimised away."""
    return (bits & _MAGNITUDE) >= _INFINITY
