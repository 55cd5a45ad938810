"""Powers of few classes on a CPU without a compiler: rows are along the last dimension, which is long."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from eastward.kernels.eager_passes import Powers

__all__ = ["fill_narrow"]

# Rows that are turned into columns at once, in the innermost cache.
_TURNED = 512
_LOG2_E = math.log2(math.e)
# Larger than any class: a sum of classes, each plus this, tells one class from two.
_ONE = 64


def fill_narrow(logits: Tensor, labels: np.ndarray, powers: Tensor, work: Tensor) -> Powers | None:
    """Fill ``powers`` ``(C, n)``, zero for the largest class; None where a logit is not finite."""
    _turn(logits, powers)
    # The sum is finite only if every logit is; a rare overflow of the sum goes the longer way, too.
    if not math.isfinite(powers.sum()):
        return None
    # exp2 takes a third of the time of exp.
    powers.sub_(powers.amax(0)).mul_(_LOG2_E).exp2_()
    # An index of the largest along this dimension would take longer than all the rest.
    classes = torch.arange(_ONE, _ONE + len(powers), dtype=torch.float32)
    torch.floor(powers, out=work)
    first = torch.mv(work.t(), classes).numpy()
    runner_up = powers.sub_(work).amax(0)
    torch.eq(powers, runner_up, out=work)
    second, power = torch.mv(work.t(), classes).numpy(), runner_up.numpy()
    tied = _tied(first, second, power)
    length = len(labels)
    begins = np.arange(length)
    # In float32, which is exact up to sixteen million and quicker than integers.
    shift = begins.astype(np.float32) - np.float32(_ONE * length)
    first = (first * length + shift).astype(np.intp)
    second = (second * length + shift).astype(np.intp)
    return Powers(first, second, labels * length + begins, power, tied)


def _turn(logits: Tensor, out: Tensor) -> None:
    """Rows to columns."""
    if torch.get_num_threads() > 1:
        # Unlike a plain copy, this is shared by the threads, a column at a time.
        torch.mul(logits.t(), 1, out=out)
        return
    rows, columns = logits.numpy(), out.numpy()
    for begin in range(0, len(rows), _TURNED):
        columns[:, begin : begin + _TURNED] = rows[begin : begin + _TURNED].T


def _tied(first: np.ndarray, second: np.ndarray, power: np.ndarray) -> np.ndarray:
    """Rows in which classes tie; their places become class 0."""
    if max(first.max(), second.max()) < 2 * _ONE:
        return np.empty(0, np.intp)
    firsts, seconds = first >= 2 * _ONE, second >= 2 * _ONE
    first[firsts] = second[seconds] = _ONE
    # Second classes without any power have no gradient to share.
    return np.flatnonzero(firsts | (seconds & (power > 0)))
