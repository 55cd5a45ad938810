"""Losses with every option, each of which every kernel must compute like the definition."""

from __future__ import annotations

import os
from contextlib import contextmanager

import torch

import eastward as ew

COST = [[0.0, 1.0, 2.0], [3.0, 0.0, 1.0], [1.0, 1.0, 0.0]]

# name: (arguments of EASTLoss, number of classes)
OPTIONS = {
    "macro F1": ({}, 5),
    "macro F1 of many classes": ({}, 60),
    "micro F1": ({"metric": "f1_micro"}, 4),
    "per-class beta": ({"metric": ew.metrics.get("f_beta", beta={1: 3.0})}, 4),
    "weighted precision": ({"metric": "precision_weighted"}, 4),
    "specificity": ({"metric": "specificity_macro"}, 4),
    "jaccard, all classes": ({"metric": "jaccard_macro", "absent": "zero"}, 6),
    "fowlkes-mallows": ({"metric": "fowlkes_mallows_macro", "absent": "one"}, 4),
    "correlation": ({"metric": "matthews_corrcoef"}, 4),
    "kappa": ({"metric": "cohen_kappa"}, 4),
    "geometric mean": ({"metric": "geometric_mean"}, 4),
    "informedness": ({"metric": "informedness", "absent": "observed"}, 4),
    "markedness": ({"metric": "markedness"}, 4),
    "accuracy": ({"metric": "accuracy"}, 7),
    "balanced accuracy": ({"metric": "balanced_accuracy"}, 7),
    "weighted kappa": ({"metric": "cohen_kappa_quadratic"}, 4),
    "weighted kappa of many classes": ({"metric": "cohen_kappa_linear"}, 60),
    "costs": ({"metric": ew.metrics.get("expected_cost", cost=COST)}, 3),
    "a callable": ({"metric": lambda c: c.diagonal().sum() / c.sum()}, 5),
    "two classes": ({"metric": "f1"}, 2),
    "two classes, whole matrix": ({"metric": "cohen_kappa_linear"}, 2),
    "one logit": ({"metric": "f1"}, 1),
    "two classes on a grid": ({"metric": "f1", "threshold": (0.2, 0.5, 0.8)}, 2),
    "detached threshold": ({"detach_threshold": True}, 5),
    "detached threshold, matrix": (
        {"detach_threshold": True, "metric": "cohen_kappa_linear"},
        5,
    ),
    "fixed threshold": ({"threshold": 0.4}, 5),
    "grid of thresholds": ({"threshold": (0.2, 0.35)}, 5),
    "grid of thresholds, matrix": (
        {"threshold": (0.2, 0.35), "metric": "cohen_kappa_quadratic"},
        5,
    ),
    "prior": ({"prior": [0.5, 0.3, 0.2]}, 3),
    "prior of two classes": ({"prior": [0.8, 0.2], "metric": "f1"}, 2),
    "running": ({"running": 0.8}, 4),
    "running correlation": ({"running": 0.8, "metric": "matthews_corrcoef"}, 4),
    "running matrix": ({"running": 0.8, "metric": "cohen_kappa_linear"}, 4),
    "labels": ({"multilabel": True}, 4),
    "labels, micro": ({"multilabel": True, "metric": "jaccard_micro"}, 4),
    "labels on a grid": ({"multilabel": True, "threshold": (0.3, 0.6)}, 3),
    "labels, correlation": ({"multilabel": True, "metric": "matthews_corrcoef"}, 3),
    "labels, geometric mean": ({"multilabel": True, "metric": "geometric_mean"}, 3),
    "labels with a prior": ({"multilabel": True, "prior": [0.3, 0.6, 0.1]}, 3),
    "class 1 ignored": ({"ignore_index": 1}, 4),
}
TEMPERATURES = (0.4, 0.3, 0.2, 0.05)


@contextmanager
def kernel(name: str):
    """The environment variable, for a while."""
    before = os.environ.get("EASTWARD_KERNEL")
    os.environ["EASTWARD_KERNEL"] = name
    try:
        yield
    finally:
        if before is None:
            del os.environ["EASTWARD_KERNEL"]
        else:
            os.environ["EASTWARD_KERNEL"] = before


def batch(options: dict, size: int, rows: int = 40, seed: int = 0, dtype=torch.float32):
    """Logits and targets that suit the options; some samples are ignored."""
    generator = torch.Generator().manual_seed(seed)
    logits = 1.5 * torch.randn(rows, size, generator=generator)
    if options.get("multilabel"):
        targets = torch.randint(2, (rows, size), generator=generator)
        targets[::9] = -100
    else:
        targets = torch.arange(rows) % max(size, 2)
        logits.scatter_add_(1, targets.clamp_max(size - 1).unsqueeze(1), torch.ones(rows, 1))
        if options.get("ignore_index", -100) == -100:
            targets[::9] = -100
    return logits.to(dtype), targets


def value_and_gradient(name, options, logits, targets, weights=None, temperature=0.2):
    """By the kernel ``name``; a loss with a memory has seen another batch before."""
    leaf = logits.clone().requires_grad_()
    with kernel(name):
        loss = ew.EASTLoss(**{"metric": "f1_macro", **options}, temperature=temperature)
        if options.get("running"):
            loss(logits.flip(0).roll(1, 1), targets, weights)
        value = loss(leaf, targets, weights)
        (gradient,) = torch.autograd.grad(value, leaf)
    return value.detach(), gradient
