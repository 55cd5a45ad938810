# mypy: ignore-errors
"""The loss of a large batch by all threads of PyTorch's pool: sums of shares, one metric, gradients of shares.

Every thread runs the same function on its share of the rows and waits for the others twice: before the metric, which
the first one computes, and after it. Shares are added in their order, so results do not vary from run to run.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import carray, cfunc, types
from numba.extending import intrinsic

from eastward.kernels.closed_form import MARGINS
from eastward.kernels.compiled_arithmetic import FINE
from eastward.kernels.compiled_narrow import narrow_gradient, narrow_sums
from eastward.kernels.compiled_whole import (
    EMPTY,
    float32_at,
    float64_at,
    int64_at,
    score,
    weights_from,
)
from eastward.kernels.compiled_wide import KEPT, wide_gradient, wide_sums

__all__ = ["FIELDS", "dynamic_share"]

# What a share is told, each as one integer; addresses end in "_at".
FIELDS = (
    "numbers_at",
    "quotients_at",
    "constants_at",
    "size",
    "narrow",
    "detached",
    "ignored",
    "rows",
    "logits_at",
    "labels_at",
    "weights_at",
    "loss_at",
    "gradient_at",
    "sums_at",  # (threads, 3, C) float64
    "slopes_at",  # (2, C) float32
    "kept_at",  # (rows, KEPT) float32
    "found_at",  # (1 + threads,) int64: what became of it, what each thread found
    "barrier_at",
    "number_at",
    "own_at",
)


@intrinsic
def _wait(typing_context: Any, address: Any) -> Any:  # noqa: ARG001 - numba's signature
    """Call a function that takes and returns nothing."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        kind = ir.FunctionType(ir.VoidType(), [])
        builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), [])
        return context.get_dummy_value()

    return types.void(types.int64), build


@intrinsic
def _asked(typing_context: Any, address: Any) -> Any:  # noqa: ARG001 - numba's signature
    """Call a function that takes nothing and returns an int."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        kind = ir.FunctionType(ir.IntType(32), [])
        return builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), [])

    return types.int32(types.int64), build


@cfunc(types.void(types.int64), cache=True, error_model="numpy")
def dynamic_share(fields_at: Any) -> None:
    """One thread's part of :func:`~eastward.kernels.compiled_whole.dynamic_whole`."""
    fields = carray(int64_at(fields_at), 20)
    size, narrow, ignored, rows = fields[3], fields[4], fields[6], fields[7]
    threads, own = int(_asked(fields[18])), int(_asked(fields[19]))
    begin, end = rows * own // threads, rows * (own + 1) // threads
    logits, labels = (
        carray(float32_at(fields[8]), (rows, size)),
        carray(int64_at(fields[9]), rows),
    )
    weights, five = weights_from(fields[10], rows), carray(float32_at(fields[2]), 5)
    constants = (five[0], five[1], five[2], five[3], five[4])
    out = carray(float32_at(fields[12]), (rows if fields[12] else 0, size))
    kept = carray(float32_at(fields[15]), (0 if narrow else rows, KEPT))
    shares = carray(float64_at(fields[13]), (threads, 3, size))
    found = carray(int64_at(fields[16]), threads + 1)
    slopes = carray(float32_at(fields[14]), (2, size))
    given = (logits, labels, weights, ignored, constants, begin, end)
    found[1 + own] = (
        narrow_sums(*given, shares[own])
        if narrow
        else wide_sums(*given, shares[own], False, kept, out)
    )
    _wait(fields[17])
    if own == 0:
        found[0] = found[1:].max()
        if found[0] == FINE:
            for other in range(1, threads):
                shares[0] += shares[other]
            steep, empty = score(shares[:1], MARGINS, fields[0], fields[1], fields[11])
            slopes[:] = steep[0]
            found[0] = EMPTY if empty else FINE
    _wait(fields[17])
    if fields[12] and found[0] in (FINE, EMPTY):
        if narrow:
            narrow_gradient(*given, slopes, fields[5], out)
        else:
            wide_gradient(*given, slopes, fields[5], out, False, kept, True)
