"""Everything about a loss that does not change from batch to batch, ready for the compiled call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from eastward.kernels.compiled import (
    NARROW,
    NOTHING,
    step_constants,
    threshold_pieces,
)
from eastward.kernels.compiled_arithmetic import FINE
from eastward.kernels.compiled_whole import EMPTY, columns_whole, dynamic_whole
from eastward.kernels.problems import Problem
from eastward.kernels.rules import RATIOS, Rule
from eastward.kernels.sharing import SHARE_OF_A_THREAD

__all__ = ["Plan", "plan_of"]


class Plan(NamedTuple):
    """A compiled function and its constant arguments; ``arrays`` keeps alive what they point to."""

    function: Callable[..., int]
    arguments: tuple[int, ...]
    arrays: tuple[np.ndarray, ...]

    def suits(self, logits: Tensor) -> bool:
        """Whether one thread is to do the work: several cannot share one call."""
        return logits.numel() < 2 * SHARE_OF_A_THREAD or torch.get_num_threads() == 1

    def run(
        self, logits: Tensor, labels: Tensor, weights: Tensor | None, gradient: Tensor | None
    ) -> tuple[Tensor, bool] | None:
        """The loss of one batch, and whether no sample counts; fills ``gradient``.

        None where logits are not finite or labels out of range.

        Parameters
        ----------
        logits : Tensor
            ``(N, C)`` float32, contiguous, like everything else.
        labels : Tensor
            ``(N,)`` or ``(N, L)`` int64; may contain the index to be ignored.
        weights : Tensor, optional
            Of the labels' shape, float32.
        gradient : Tensor, optional
            Of the logits' shape.
        """
        loss = torch.empty(())
        found = self.function(
            *self.arguments,
            len(labels),
            logits.data_ptr(),
            labels.data_ptr(),
            0 if weights is None else weights.data_ptr(),
            loss.data_ptr(),
            0 if gradient is None else gradient.data_ptr(),
        )
        return (loss, found == EMPTY) if found in (FINE, EMPTY) else None


def plan_of(
    problem: Problem, rule: Rule | None, size: int, ignore_index: int | None
) -> Plan | None:
    """The plan for logits of ``size`` columns; None where the one call does not exist."""
    if rule is None or rule.code != RATIOS or problem.kind == "fixed" or problem.matrix:
        return None
    numbers = np.asarray([len(rule.numerators), *rule[1:6], rule.factor, rule.offset], np.float64)
    quotients = np.stack([rule.numerators, rule.denominators])
    ignored = NOTHING if ignore_index is None else ignore_index
    arguments: tuple[Any, ...]
    if problem.binary:
        steps = threshold_pieces(problem)
        labels = size if problem.kind == "labels" else 0
        paired = problem.kind == "pair" and size == 2
        function, arguments = columns_whole, (len(steps), labels, paired, ignored)
    else:
        steps = np.asarray(step_constants(problem.temperature), np.float32)
        narrow = size <= NARROW
        function, arguments = dynamic_whole, (size, narrow, problem.detached, ignored)
    arrays = (numbers, quotients, steps)
    return Plan(function, (*(array.ctypes.data for array in arrays), *arguments), arrays)
