"""Random batches of every kind, in float32 and narrower against float64.

    python tests/core/fuzz.py --batches 100000

prints how many were looked at and which differ; ``test_fuzz.py`` runs it.
"""

from __future__ import annotations

import argparse
import collections
import random
import warnings
from typing import Any

import torch

import eastward as ew

VALUE, GRADIENT = 1e-3, 0.01
# What float32 rounds of a loss of size one: a gradient below this is none.
ROUNDING = 1e-6
DTYPES = (torch.float32, torch.float32, torch.float16, torch.bfloat16)
SCALES = (0.1, 1.0, 3.0, 10.0, 30.0, 100.0, 1e3, 1e4)
SIZES = (1, 2, 2, 3, 3, 4, 5, 7, 10, 21, 60, 150, 300)
BINARY = ("f1", "precision", "recall", "jaccard", "specificity", "fowlkes_mallows", "f2", "f0.5")


def case(seed: int) -> dict[str, Any]:
    """Everything about the batch with this number."""
    draw, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    size = draw.choice(SIZES)
    multilabel = size > 1 and draw.random() < 0.15
    rows = draw.choice((1, 2, 3, 5, 8, 17, 40, 130)) if size < 60 else draw.choice((1, 3, 8, 30))
    classes = max(size, 2)
    names = [n for n in ew.metrics.names() if n != "expected_cost"]
    allowed = [n for n in names if (n not in BINARY) or (classes == 2 and not multilabel)]
    if multilabel:
        allowed = [n for n in allowed if not ew.metrics.get(n).needs_matrix]
    dtype, scale = draw.choice(DTYPES), draw.choice(SCALES)
    logits = (scale * torch.randn(rows, size, generator=generator)).clamp(-6e4, 6e4).to(dtype)
    if draw.random() < 0.3:  # classes that tie, in the first or the second place
        logits = (logits / scale * 2).round() * (scale / 2)
        logits = logits.to(dtype)
    shape = (rows, size) if multilabel else (rows,)
    targets = torch.randint(2 if multilabel else classes, shape, generator=generator)
    if draw.random() < 0.2:
        targets = torch.full_like(targets, draw.randrange(2))
    if draw.random() < 0.3:
        targets[torch.rand(shape, generator=generator) < 0.3] = -100
    weights = None
    if draw.random() < 0.4:
        weights = torch.rand(rows, generator=generator) ** draw.choice((1, 4))
        weights = weights * 10.0 ** draw.choice((-30, -3, 0, 0, 3, 30))
    options: dict[str, Any] = {
        "metric": draw.choice(allowed),
        "temperature": draw.choice((1e-4, 1e-3, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4)),
        "absent": draw.choice(("skip", "skip", "observed", "zero", "one")),
        "multilabel": multilabel,
        "detach_threshold": draw.random() < 0.1,
    }
    if draw.random() < 0.2:
        options["threshold"] = draw.choice((0.5, 0.3, 0.9, (0.1, 0.5, 0.9)))
    if draw.random() < 0.1 and not multilabel:
        prior = torch.rand(classes, generator=generator) + 0.01
        options["prior"] = (prior / prior.sum()).tolist()
    return {"options": options, "given": (logits, targets, weights)}


def value_and_gradient(options: dict[str, Any], given: tuple[Any, ...], dtype: torch.dtype) -> Any:
    logits, targets, weights = given
    leaf = logits.to(dtype).requires_grad_()
    loss = ew.EASTLoss(**options)(leaf, targets, weights)
    return loss.detach().double(), torch.autograd.grad(loss, leaf)[0].double()


def verdict(options: dict[str, Any], given: tuple[Any, ...]) -> str:
    """What is wrong with the loss of one batch: nothing, or a word."""
    dtype = given[0].dtype
    value, gradient = value_and_gradient(options, given, dtype)
    exact_value, exact_gradient = value_and_gradient(options, given, torch.float64)
    if not (torch.isfinite(value) and torch.isfinite(gradient).all()):
        return "not finite"
    metric = ew.metrics.get(options["metric"])
    rounding = torch.finfo(dtype).eps if dtype != torch.float32 else 0.0
    if not -1e-6 - rounding <= value <= 1 - metric.low + 1e-6 + 2 * rounding:
        return "out of range"
    if abs(value - exact_value) > VALUE + 2 * rounding:
        return "value"
    # Half precision rounds each entry, and has no numbers below its smallest.
    size = exact_gradient.abs().max()
    least = max(torch.finfo(dtype).smallest_normal, ROUNDING)
    if (gradient - exact_gradient).abs().max() > (GRADIENT + rounding) * size + least:
        return "gradient"
    return ""


def run(batches: int, start: int = 0) -> dict[str, list[int]]:
    """Numbers of the batches with each verdict."""
    found: dict[str, list[int]] = collections.defaultdict(list)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="every sample is ignored")
        for seed in range(start, start + batches):
            wrong = verdict(**case(seed))
            if wrong:
                found[wrong].append(seed)
    return dict(found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=100_000)
    parser.add_argument("--start", type=int, default=0)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    found = run(asked.batches, asked.start)
    print(asked.batches, "batches", {word: len(seeds) for word, seeds in found.items()})
    for word, seeds in found.items():
        print(word, seeds[:40])
