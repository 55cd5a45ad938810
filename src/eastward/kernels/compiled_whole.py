# mypy: ignore-errors
"""Sums, metric and gradient in one compiled call, for small batches: there, every call from Python shows.

Arrays come as addresses: unpacking an array costs a microsecond, a number nothing. They must be contiguous and outlive
the call.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, njit, types
from numba.extending import intrinsic

from eastward.kernels.closed_form import MARGINS, ONE_PAIR, SEPARATE
from eastward.kernels.compiled_arithmetic import EXACT, FINE
from eastward.kernels.compiled_columns import column_gradient, column_sums
from eastward.kernels.compiled_narrow import narrow_gradient, narrow_sums
from eastward.kernels.compiled_ratios import tables_of_sums
from eastward.kernels.compiled_wide import KEPT, wide_sums
from eastward.kernels.compiled_wide_gradient import wide_gradient

__all__ = [
    "EMPTY",
    "columns_whole",
    "dynamic_whole",
    "float32_at",
    "float64_at",
    "int64_at",
    "score",
    "weights_from",
]

# No sample counts: neither wrong nor what somebody meant.
EMPTY = 3


def _pointer(pointed: Any) -> Any:
    @intrinsic
    def at(typing_context: Any, address: Any) -> Any:  # noqa: ARG001 - numba's signature
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
            return builder.inttoptr(arguments[0], context.get_value_type(pointed).as_pointer())

        return types.CPointer(pointed)(types.int64), build

    return at


float32_at, float64_at, int64_at = map(_pointer, (types.float32, types.float64, types.int64))


@njit(**EXACT)
def _rule_at(numbers: Any, address: Any, width: Any) -> Any:
    """The fields of :class:`~eastward.kernels.rules.Rule` after the code."""
    shape = (2, int(numbers[0]), 4, width)
    quotients = carray(float64_at(address), shape)
    average, absent, exclusive = int(numbers[1]), int(numbers[2]), int(numbers[3])
    virtual, higher = int(numbers[4]), int(numbers[5])
    factor, offset = numbers[6], numbers[7]
    rule = (average, absent, exclusive, virtual, higher, quotients[0], quotients[1])
    return (*rule, factor, offset)


@njit(**EXACT)
def score(sums: Any, layout: Any, numbers_at: Any, quotients_at: Any, loss_at: Any) -> Any:
    """Write the loss, averaged over G tables ``(G, R, C)``; slopes ``(G, 2, C)``; whether no sample counts."""
    grid, width = sums.shape[0], 2 if layout == ONE_PAIR else sums.shape[2]
    rule = _rule_at(carray(float64_at(numbers_at), 8), quotients_at, width)
    counts, slope = np.empty((4, width)), np.empty((4, width))
    losses, result = np.zeros(grid), np.zeros((grid, 2, sums.shape[2]))
    tables_of_sums(sums, layout, rule, counts, slope, losses, result)
    carray(float32_at(loss_at), 1)[0] = losses.sum() / grid
    slopes = np.empty(result.shape, np.float32)
    for g in range(grid):
        for c in range(sums.shape[2]):
            slopes[g, 0, c] = result[g, 0, c] / grid
            slopes[g, 1, c] = result[g, 1, c] / grid
    # From the third row on, sums are masses of true classes, whatever the layout.
    return slopes, sums[0, 2:].sum() <= 0.0


@njit(**EXACT)
def weights_from(address: Any, number: Any) -> Any:
    """The weights at an address; none at 0."""
    return carray(float32_at(address), number if address else 0)


@njit(**EXACT)
def dynamic_whole(
    numbers_at: Any,
    quotients_at: Any,
    constants_at: Any,
    size: Any,
    narrow: Any,
    detached: Any,
    ignored: Any,
    rows: Any,
    logits_at: Any,
    labels_at: Any,
    weights_at: Any,
    loss_at: Any,
    gradient_at: Any,
) -> Any:
    """The loss of C >= 3 classes with the dynamic threshold, and its gradient unless that address is 0."""
    logits, labels = (
        carray(float32_at(logits_at), (rows, size)),
        carray(int64_at(labels_at), rows),
    )
    weights, five = weights_from(weights_at, rows), carray(float32_at(constants_at), 5)
    constants = (five[0], five[1], five[2], five[3], five[4])
    sums, kept = np.zeros((1, 3, size)), np.empty((0 if narrow else rows, KEPT), np.float32)
    out = carray(float32_at(gradient_at), (rows if gradient_at else 0, size))
    given = (logits, labels, weights, ignored, constants, 0, rows)
    found = narrow_sums(*given, sums[0]) if narrow else wide_sums(*given, sums[0], False, kept, out)
    if found != FINE:
        return found
    slopes, empty = score(sums, MARGINS, numbers_at, quotients_at, loss_at)
    if gradient_at:
        if narrow:
            narrow_gradient(*given, slopes[0], detached, out)
        else:
            wide_gradient(*given, slopes[0], detached, out, False, kept, True)
    return EMPTY if empty else FINE


@njit(**EXACT)
def columns_whole(
    numbers_at: Any,
    quotients_at: Any,
    pieces_at: Any,
    grid: Any,
    labels_each: Any,
    paired: Any,
    ignored: Any,
    rows: Any,
    logits_at: Any,
    labels_at: Any,
    weights_at: Any,
    loss_at: Any,
    gradient_at: Any,
) -> Any:
    """The same for two classes (``labels_each`` 0; as two logits or one), or for so many independent labels."""
    width = max(labels_each, 1)
    layout = SEPARATE if labels_each else ONE_PAIR
    number = rows * width
    logits = carray(float32_at(logits_at), 2 * number if paired else number)
    labels, weights = carray(int64_at(labels_at), number), weights_from(weights_at, number)
    pieces, sums = carray(float32_at(pieces_at), (grid, 5)), np.zeros((grid, 4, width))
    found = column_sums(logits, labels, weights, ignored, pieces, paired, 0, rows, sums)
    if found != FINE:
        return found
    slopes, empty = score(sums, layout, numbers_at, quotients_at, loss_at)
    if gradient_at:
        out = carray(float32_at(gradient_at), logits.size)
        column_gradient(logits, labels, weights, ignored, pieces, paired, 0, rows, slopes, out)
    return EMPTY if empty else FINE
