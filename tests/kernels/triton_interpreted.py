"""The GPU kernels through Triton's interpreter: the numbers, not the speed.

Run by test_triton.py in a process of its own, where TRITON_INTERPRET is set before Triton is first imported.
"""

from __future__ import annotations

import pytest
import torch
from kernel_cases import OPTIONS, batch, value_and_gradient

CASES = [
    "macro F1",
    "macro F1 of many classes",
    "correlation",
    "weighted kappa",
    "costs",
    "detached threshold",
    "detached threshold, matrix",
    "prior",
    "running",
    "class 1 ignored",
    "two classes",
    "labels",
    "grid of thresholds",
]


@pytest.mark.parametrize("temperature", [0.4, 0.2, 0.05])
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("case", CASES)
def test_value_and_gradient_are_those_of_the_definition(case, weighted, temperature):
    options, size = OPTIONS[case]
    logits, targets = batch(options, size)
    weights = torch.rand(len(targets)) if weighted else None
    exact = value_and_gradient(
        "definition", options, logits.double(), targets, weights, temperature
    )
    ours = value_and_gradient("triton", options, logits, targets, weights, temperature)
    torch.testing.assert_close(ours[0].double(), exact[0], atol=1e-6, rtol=0)
    scale = exact[1].abs().max()
    torch.testing.assert_close(ours[1].double() / scale, exact[1] / scale, atol=1e-5, rtol=0)


@pytest.mark.parametrize("size", [3, 5])
def test_ties_share_the_gradient_like_the_definition(size):
    rows = torch.zeros(5, size)
    rows[1, 0] = rows[1, 1] = 2.0
    rows[2, 0] = 1.0
    rows[3] = -1e4 * torch.arange(size)
    targets = torch.arange(5) % size
    exact = value_and_gradient("definition", {}, rows.double(), targets)
    ours = value_and_gradient("triton", {}, rows, targets)
    torch.testing.assert_close(ours[1].double(), exact[1], atol=1e-6, rtol=0)
