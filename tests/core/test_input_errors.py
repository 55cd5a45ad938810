"""Every mistake in the data has its own sentence: argument of function must be ...; got .... What to do."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from error_sentence import assert_error

import eastward as ew

LOGITS = torch.zeros(4, 3)
TARGETS = torch.tensor([0, 1, 2, 0])
MATRIX = torch.tensor([[3.0, 1.0], [2.0, 4.0]])
THREE = torch.eye(3)
NAN, INF = float("nan"), float("inf")


def with_entry(tensor, value):
    changed = tensor.clone()
    changed.view(-1)[0] = value
    return changed


def loss(**options):
    return lambda: ew.metric_loss(LOGITS, TARGETS, **options)


def call(*given, **options):
    return lambda: ew.metric_loss(*given, **options)


ERRORS = {
    # wrong shapes and rank
    "targets of another length": (
        call(LOGITS, TARGETS[:3]),
        ValueError,
        r"targets of metric_loss must be of shape \(4,\); got a tensor of shape \(3,\).*logits of shape \(4, 3\)",
    ),
    "targets with classes for an image": (
        call(torch.zeros(2, 3, 4, 4), torch.zeros(2, 3, 4, 4).long()),
        ValueError,
        r"targets of metric_loss must be of shape \(2, 4, 4\); got .*\(2, 3, 4, 4\)",
    ),
    "logits without a batch dimension": (
        call(torch.tensor(0.0), torch.tensor(1)),
        ValueError,
        r"logits of metric_loss must be of shape .*; got a tensor of shape \(\)",
    ),
    "targets of another length for a single logit": (
        call(torch.zeros(4), TARGETS[:3]),
        ValueError,
        r"targets of metric_loss must be of shape \(4,\), like the single logit; got .*\(3,\)",
    ),
    "multilabel targets of another shape": (
        call(LOGITS, TARGETS, multilabel=True),
        ValueError,
        r"targets of metric_loss must be of the logits' shape \(4, 3\).*multilabel=True; got .*\(4,\)",
    ),
    "probabilities without classes": (
        lambda: ew.soft_memberships(torch.rand(4)),
        ValueError,
        r"probabilities of soft_memberships must be of shape \(N, C\) with C >= 2; got .*\(4,\)",
    ),
    "memberships without classes": (
        lambda: ew.soft_confusion(torch.rand(4), TARGETS),
        ValueError,
        r"memberships of soft_confusion must be of shape \(N, C\) or \(N, C, \.\.\.\); got .*\(4,\)",
    ),
    "num_classes that is not the width": (
        lambda: ew.soft_confusion(torch.eye(3), TARGETS[:3], num_classes=5),
        ValueError,
        r"num_classes of soft_confusion must be the number of membership columns; got 5",
    ),
    "a confusion that is not square": (
        lambda: ew.metrics.f1(torch.zeros(2, 3)),
        ValueError,
        r"confusion of f1|f_beta must be a \(C, C\) matrix .*; got .*\(2, 3\)",
    ),
    # types
    "logits of integers": (
        call(torch.zeros(4, 3).long(), TARGETS),
        TypeError,
        r"logits of metric_loss must be floating point; got .*torch\.int64.*\.float\(\)",
    ),
    "logits of NumPy": (
        call(np.zeros((4, 3)), TARGETS),
        TypeError,
        r"logits of metric_loss must be a torch\.Tensor; got ndarray.*torch\.as_tensor",
    ),
    "targets in a list": (
        call(LOGITS, [0, 1, 2, 0]),
        TypeError,
        r"targets of metric_loss must be a torch\.Tensor; got list",
    ),
    "float targets for classes": (
        call(LOGITS, TARGETS.float()),
        TypeError,
        r"targets of metric_loss must be integer class indices; got .*float32.*targets\.long\(\).*argmax\(1\)",
    ),
    "float targets in soft_confusion": (
        lambda: ew.soft_confusion(torch.eye(3), torch.zeros(3)),
        TypeError,
        r"targets of soft_confusion must be integer class indices; got .*float32",
    ),
    # labels out of range, with value and count
    "labels too large": (
        call(LOGITS, torch.tensor([0, 7, 2, 9])),
        ValueError,
        r"targets of metric_loss must be in \[0, 3\); got 2 outside, for example 7.*ignore_index=-100",
    ),
    "labels below zero": (
        call(LOGITS, torch.tensor([0, -1, 2, 0])),
        ValueError,
        r"targets of metric_loss must be in \[0, 3\); got 1 outside, for example -1",
    ),
    "labels to be ignored when nothing is": (
        call(LOGITS, torch.tensor([0, -100, 2, 0]), ignore_index=None),
        ValueError,
        r"targets of metric_loss must be in \[0, 3\); got 1 outside, for example -100.*no label is ignored",
    ),
    "a byte label that wraps around to ignore_index": (
        call(LOGITS, torch.tensor([0, 156, 2, 0], dtype=torch.uint8)),
        ValueError,
        r"targets of metric_loss must be in \[0, 3\); got 1 outside, for example 156",
    ),
    "labels out of range in soft_counts": (
        lambda: ew.soft_counts(torch.eye(3), torch.tensor([0, 3, 3])),
        ValueError,
        r"targets of soft_counts must be in \[0, 3\); got 2 outside, for example 3",
    ),
    "a single logit with a third label": (
        call(torch.zeros(4), torch.tensor([0, 1, 2, 1])),
        ValueError,
        r"targets of metric_loss must be 0 or 1; got 1 other values, for example 2",
    ),
    "soft multilabel targets": (
        call(LOGITS, torch.full((4, 3), 0.5), multilabel=True),
        ValueError,
        r"targets of metric_loss must be 0 or 1; got 12 other values, for example 0\.5",
    ),
    # values that are not numbers, named with their count
    "NaN logits": (
        call(with_entry(LOGITS, NAN), TARGETS),
        ValueError,
        r"logits of metric_loss must be finite; got 1 NaN and 0 infinite of 12.*check_inputs=False",
    ),
    "infinite logits": (
        lambda: ew.EASTLoss()(with_entry(LOGITS, -INF), TARGETS),
        ValueError,
        r"logits of EASTLoss must be finite; got 0 NaN and 1 infinite of 12",
    ),
    "NaN logits in a ranking loss": (
        lambda: ew.AUROCLoss()(torch.tensor([NAN, 1.0]), torch.tensor([0, 1])),
        ValueError,
        r"logits of AUROCLoss must be finite; got 1 NaN",
    ),
    "probabilities above one": (
        lambda: ew.soft_memberships(torch.tensor([[1.5, 0.5]])),
        ValueError,
        r"probabilities of soft_memberships must be in \[0, 1\]; got 1 outside, for example 1\.5.*softmax",
    ),
    "probabilities below zero": (
        lambda: ew.soft_memberships(torch.tensor([[-0.5, 0.5]])),
        ValueError,
        r"probabilities of soft_memberships must be in \[0, 1\]; got 1 outside, for example -0\.5",
    ),
    "NaN probabilities": (
        lambda: ew.soft_memberships(torch.tensor([[NAN, 0.5]])),
        ValueError,
        r"probabilities of soft_memberships must be in \[0, 1\]; got 1 outside, for example nan",
    ),
    # weights
    "negative weights": (
        loss(sample_weight=torch.tensor([1.0, -2.0, 1.0, -3.0])),
        ValueError,
        r"sample_weight of metric_loss must be finite and >= 0; got 2 others, for example -2",
    ),
    "infinite weights": (
        loss(sample_weight=torch.tensor([1.0, INF, 1.0, 1.0])),
        ValueError,
        r"sample_weight of metric_loss must be finite and >= 0; got 1 others, for example inf",
    ),
    "NaN weights": (
        loss(sample_weight=torch.tensor([1.0, NAN, 1.0, 1.0])),
        ValueError,
        r"sample_weight of metric_loss must be finite and >= 0; got 1 others, for example nan",
    ),
    "weights of another length": (
        loss(sample_weight=torch.ones(3)),
        ValueError,
        r"sample_weight of metric_loss must be of shape \(4,\) .*; got .*\(3,\)",
    ),
    "weights in a list": (
        loss(sample_weight=[1.0, 1.0, 1.0, 1.0]),
        TypeError,
        r"sample_weight of metric_loss must be a torch\.Tensor; got list",
    ),
    "negative weights in soft_confusion": (
        lambda: ew.soft_confusion(torch.eye(3), TARGETS[:3], sample_weight=-torch.ones(3)),
        ValueError,
        r"sample_weight of soft_confusion must be finite and >= 0; got 3 others, for example -1",
    ),
}


@pytest.mark.whole
@pytest.mark.parametrize("mistake", ERRORS)
def test_a_mistake_is_named_with_what_was_expected_and_what_came(mistake):
    assert_error(*ERRORS[mistake])
