"""The focal loss: cross-entropy at gamma 0, its formula elsewhere, and a recipe of the classifier."""

from __future__ import annotations

import pytest
import torch
from comparison_problems import blobs
from torch.nn import functional

from eastward import EASTClassifier
from eastward.training.focal import FocalObjective
from eastward.training.objectives import IGNORED, CrossEntropyObjective


@pytest.fixture
def batch():
    return torch.randn(2, 6, 3), torch.randint(3, (2, 6)), torch.rand(2, 6)


def test_gamma_zero_is_cross_entropy(batch):
    logits, targets, weights = batch
    targets[0, 1] = IGNORED
    expected = CrossEntropyObjective()(logits, targets, weights)
    torch.testing.assert_close(FocalObjective(0.0)(logits, targets, weights), expected)


def test_gamma_zero_is_binary_cross_entropy_for_labels():
    logits, targets = torch.randn(2, 5, 4), torch.randint(2, (2, 5, 4))
    expected = CrossEntropyObjective(multilabel=True)(logits, targets, None)
    actual = FocalObjective(0.0, multilabel=True)(logits, targets, None)
    torch.testing.assert_close(actual, expected)


def test_easy_rows_count_less(batch):
    logits, targets, _ = batch
    true = logits.softmax(-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    expected = (-((1 - true) ** 2) * true.log()).mean(1)
    torch.testing.assert_close(FocalObjective()(logits, targets, None), expected)


def test_the_gradient_is_right_and_finite_where_all_is_sure(batch):
    logits, targets, weights = batch
    exact = logits.double().requires_grad_()
    # the objective computes in float32: wide steps, loose bounds
    assert torch.autograd.gradcheck(
        lambda z: FocalObjective()(z, targets, weights), exact, eps=1e-2, atol=1e-2, rtol=1e-2
    )
    sure = (functional.one_hot(targets, 3) * 200.0).requires_grad_()
    FocalObjective()(sure, targets, None).sum().backward()
    assert torch.isfinite(sure.grad).all()


def test_the_focal_recipe_learns_and_differs_from_cross_entropy():
    X, y = blobs(distance=2.0)
    options = {"hidden": (8,), "max_epochs": 15, "learning_rate": 0.02, "random_state": 0}
    focal = EASTClassifier(recipe="focal", **options).fit(X, y)
    plain = EASTClassifier(recipe="cross_entropy", **options).fit(X, y)
    assert focal.score(X, y) > 0.6
    assert focal.history_[0]["train_loss"] < plain.history_[0]["train_loss"]
