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
from eastward.kernels.compiled_wide import KEPT, wide_sums
from eastward.kernels.compiled_wide_gradient import wide_gradient

__all__ = ["FIELDS", "dynamic_share"]

# What a share is told, each as one integer, in this order: what the whole call is told, and
(NUMBERS, QUOTIENTS, CONSTANTS, SIZE, NARROW, DETACHED, IGNORED, ROWS) = range(8)
(LOGITS, LABELS, WEIGHTS, LOSS, GRADIENT) = range(8, 13)
# addresses of sums (threads, 3, C) float64, slopes (2, C) float32, numbers kept of rows (N, KEPT) float32, what became
# of it and what each thread found (1 + threads,) int64; and of three functions of the team.
(SUMS, SLOPES, OF_ROWS, FOUND, BARRIER, NUMBER, OWN) = range(13, 20)
FIELDS = 20


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
    fields = carray(int64_at(fields_at), FIELDS)
    size, narrow, ignored, rows = fields[SIZE], fields[NARROW], fields[IGNORED], fields[ROWS]
    threads, own = int(_asked(fields[NUMBER])), int(_asked(fields[OWN]))
    begin, end = rows * own // threads, rows * (own + 1) // threads
    logits, labels = (
        carray(float32_at(fields[LOGITS]), (rows, size)),
        carray(int64_at(fields[LABELS]), rows),
    )
    weights, five = weights_from(fields[WEIGHTS], rows), carray(float32_at(fields[CONSTANTS]), 5)
    constants = (five[0], five[1], five[2], five[3], five[4])
    out = carray(float32_at(fields[GRADIENT]), (rows if fields[GRADIENT] else 0, size))
    kept = carray(float32_at(fields[OF_ROWS]), (0 if narrow else rows, KEPT))
    shares = carray(float64_at(fields[SUMS]), (threads, 3, size))
    found = carray(int64_at(fields[FOUND]), threads + 1)
    slopes = carray(float32_at(fields[SLOPES]), (2, size))
    given = (logits, labels, weights, ignored, constants, begin, end)
    found[1 + own] = (
        narrow_sums(*given, shares[own])
        if narrow
        else wide_sums(*given, shares[own], False, kept, out)
    )
    _wait(fields[BARRIER])
    if own == 0:
        found[0] = found[1:].max()
        if found[0] == FINE:
            for other in range(1, threads):
                shares[0] += shares[other]
            steep, empty = score(
                shares[:1], MARGINS, fields[NUMBERS], fields[QUOTIENTS], fields[LOSS]
            )
            slopes[:] = steep[0]
            found[0] = EMPTY if empty else FINE
    _wait(fields[BARRIER])
    if fields[GRADIENT] and found[0] in (FINE, EMPTY):
        if narrow:
            narrow_gradient(*given, slopes, fields[DETACHED], out)
        else:
            wide_gradient(*given, slopes, fields[DETACHED], out, False, kept, True)
