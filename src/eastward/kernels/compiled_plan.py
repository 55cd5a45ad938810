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
from eastward.kernels.compiled_wide import KEPT
from eastward.kernels.problems import Problem
from eastward.kernels.rules import RATIOS, Rule
from eastward.kernels.sharing import SHARE_OF_A_THREAD
from eastward.kernels.team import Team, team

__all__ = ["Plan", "plan_of"]

# Elements that are worth one of PyTorch's threads: they are awake already, but to tell them what to do takes as long as
# the arithmetic on fewer.
SHARE_OF_A_TEAM = 49_152


class Plan(NamedTuple):
    """A compiled function and its constant arguments; ``arrays`` keeps alive what they point to."""

    function: Callable[..., int]
    arguments: tuple[int, ...]
    arrays: tuple[np.ndarray, ...]

    def suits(self, count: int) -> bool:
        """Whether so many logits are work for one thread, or PyTorch's can share it: others cannot share one call."""
        if count < 2 * SHARE_OF_A_THREAD or torch.get_num_threads() == 1:
            return True
        return self.function is dynamic_whole and team() is not None

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
        given = (
            *self.arguments,
            # Not len(labels), which is a function in Python.
            logits.shape[0],
            logits.data_ptr(),
            labels.data_ptr(),
            0 if weights is None else weights.data_ptr(),
            loss.data_ptr(),
            0 if gradient is None else gradient.data_ptr(),
        )
        large = self.function is dynamic_whole and logits.numel() >= 2 * SHARE_OF_A_TEAM
        found = _shared(given, self.function, logits) if large else self.function(*given)
        return (loss, found == EMPTY) if found in (FINE, EMPTY) else None


def _shared(given: tuple[int, ...], function: Callable[..., int], logits: Tensor) -> int:
    """By as many threads as there is work for."""
    threads = min(torch.get_num_threads(), logits.numel() // SHARE_OF_A_TEAM, len(logits))
    crew = team() if threads > 1 else None
    return function(*given) if crew is None else _by_team(crew, given, logits, threads)


def _by_team(crew: Team, given: tuple[int, ...], logits: Tensor, threads: int) -> int:
    """What :func:`~eastward.kernels.compiled_whole.dynamic_whole` does, by PyTorch's threads."""
    # Compiled when it is imported, some seconds once per machine: only those pay who have threads to use.
    from eastward.kernels.compiled_team import dynamic_share  # noqa: PLC0415

    rows, size = logits.shape
    narrow = size <= NARROW
    arrays = (
        np.zeros((threads, 3, size)),
        np.empty((2, size), np.float32),
        np.empty((0 if narrow else rows, KEPT), np.float32),
        found := np.full(threads + 1, FINE, np.int64),
    )
    fields = np.array(
        [*given, *(array.ctypes.data for array in arrays), crew.barrier, crew.number, crew.own],
        np.int64,
    )
    crew.start(int(dynamic_share.address or 0), fields.ctypes.data, threads, 0)
    return int(found[0])


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
