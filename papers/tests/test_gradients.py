"""Which rows get a gradient, against the closed form of cross-entropy's."""

from __future__ import annotations

import pytest
import torch

import eastward as ew
from papers.experiments.gradients import gradient_by_confidence


def test_cross_entropy_pulls_by_what_is_missing_to_the_right_class():
    torch.manual_seed(0)
    logits, targets = 3 * torch.randn(500, 4), torch.randint(4, (500,))
    groups = gradient_by_confidence(torch.nn.CrossEntropyLoss(), logits, targets)
    assert sum(group["rows"] for group in groups) == pytest.approx(1)
    assert sum(group["gradient"] for group in groups) == pytest.approx(1)
    # |p - y|_1 = 2 (1 - p_y)
    missing = 1 - logits.softmax(1)[torch.arange(500), targets]
    wrong = logits.argmax(1) != targets
    expected = float(missing[wrong].sum() / missing.sum())
    found = sum(group["gradient"] for group in groups if not group["right"])
    assert found == pytest.approx(expected, rel=1e-5)


def test_sure_mistakes_pull_less_on_f1_than_on_cross_entropy():
    torch.manual_seed(0)
    targets = torch.randint(4, (2000,))
    logits = 4 * torch.randn(2000, 4) + 3 * torch.nn.functional.one_hot(targets, 4)
    pulls = []
    for loss in (torch.nn.CrossEntropyLoss(), ew.EASTLoss("f1_macro", temperature=0.1)):
        groups = gradient_by_confidence(loss, logits, targets)
        pulls.append(next(g["pull"] for g in groups if not g["right"] and g["low"] == 0.99))
    assert pulls[1] < 0.1 * pulls[0]
