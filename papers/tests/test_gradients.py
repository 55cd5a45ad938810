"""Which rows get a gradient, against the closed form of cross-entropy's."""

from __future__ import annotations

import pytest
import torch

import eastward as ew
from papers.experiments.gradients import gradient_by_confidence, pull_of_fresh_classes


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


@pytest.mark.parametrize(
    ("loss", "low", "high"),
    [
        # a row's pull is 1 - p of its class: 0.995 over one half
        (torch.nn.CrossEntropyLoss(), 1.95, 2.0),
        (ew.EASTLoss("f1_macro"), 0.2, 0.5),
        # the mean absolute error's p (1 - p), which is 0.02 here
        (ew.EASTLoss("accuracy"), 0.01, 0.04),
    ],
    ids=["cross-entropy", "F1", "accuracy"],
)
def test_with_many_classes_surrogates_leave_new_ones_behind(loss, low, high):
    assert low < pull_of_fresh_classes(loss, 200) < high
