"""EASTLoss under constraints: the Lagrangian, its multipliers, and what they bring."""

from __future__ import annotations

import copy

import pytest
import torch

import eastward as ew
from eastward.constraints import parse_constraints


def rows(count=400, seed=0):
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(count, 3, generator=generator)
    y = (X[:, 0] + torch.randn(count, generator=generator) > 1.2).long()
    return X, y


def test_the_loss_is_the_metric_less_multiplied_slacks():
    _, y = rows()
    logits = torch.randn(len(y), 2, generator=torch.Generator().manual_seed(1))
    loss = ew.EASTLoss("f1_macro", subject_to="recall[1] >= 0.9, precision[1] >= 0.6").eval()
    loss.asked.values = torch.tensor([0.7, 0.2])
    table = ew.soft_confusion(ew.soft_memberships(logits.softmax(1)), y)
    first, second = parse_constraints("test", "recall[1] >= 0.9, precision[1] >= 0.6", 2)
    bonus = 0.7 * first.slack(table) + 0.2 * second.slack(table)
    expected = 1 - ew.metrics.get("f1_macro")(table) - bonus
    torch.testing.assert_close(loss(logits, y), expected)
    logits.requires_grad_()
    plain, bound = (
        torch.autograd.grad(each(logits, y), logits)[0] for each in (ew.EASTLoss("f1_macro"), loss)
    )
    assert not torch.allclose(plain, bound)


def test_multipliers_follow_hard_decisions_in_training_mode_alone():
    y = torch.tensor([0, 0, 1, 1])
    missed = torch.tensor([[3.0, 0.0]] * 4)
    found = torch.tensor([[0.0, 3.0]] * 4)
    loss = ew.EASTLoss("f1_macro", subject_to="recall[1] >= 0.5", multiplier_rate=0.1)
    loss.eval()(missed, y)
    assert loss.asked.values.tolist() == [0.0]
    loss.train()(missed, y)
    assert loss.asked.values.tolist() == pytest.approx([0.05])
    for _ in range(60):
        loss(found, y)
    assert loss.asked.values.tolist() == [0.0]


def test_multipliers_are_saved_copied_and_shown():
    loss = ew.EASTLoss("f1_macro", subject_to=["recall[1] >= 0.9"])
    loss(torch.tensor([[3.0, 0.0]] * 4), torch.tensor([0, 0, 1, 1]))
    assert "asked.values" in loss.state_dict()
    other = ew.EASTLoss("f1_macro", subject_to="recall[1] >= 0.9")
    other.load_state_dict(loss.state_dict())
    assert torch.equal(other.asked.values, loss.asked.values)
    twin = copy.deepcopy(loss)
    twin(torch.tensor([[3.0, 0.0]] * 4), torch.tensor([0, 0, 1, 1]))
    assert twin.asked.values > loss.asked.values
    assert "subject_to='recall[1] >= 0.9'" in repr(loss)


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.slow
def test_training_keeps_a_recall_that_the_metric_alone_gives_up(single):
    X, y = rows()
    recalls = {}
    for subject_to in (None, "recall[1] >= 0.85"):
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 1 if single else 2)
        loss = ew.EASTLoss("accuracy", subject_to=subject_to, multiplier_rate=0.05)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        for _ in range(250):
            optimizer.zero_grad()
            logits = model(X)
            loss(logits.squeeze(1) if single else logits, y.float() if single else y).backward()
            optimizer.step()
        logits = model(X)
        chosen = logits.squeeze(1) > 0 if single else logits.argmax(1) == 1
        recalls[subject_to] = float((chosen & (y == 1)).sum() / (y == 1).sum())
    assert recalls[None] < 0.7
    assert recalls["recall[1] >= 0.85"] > 0.8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subject_to": "recall[1]"}, "of the form name"),
        ({"subject_to": "recall[7] >= 0.5"}, "about known classes"),
        ({"subject_to": "coverage >= 0.5"}, "a constraint other than coverage"),
        ({"subject_to": "recall[1] >= 0.5", "multilabel": True}, "None with multilabel"),
        ({"subject_to": "recall[1] >= 0.5", "multiplier_rate": 0}, "multiplier_rate"),
    ],
)
def test_what_makes_no_sense_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ew.EASTLoss("f1_macro", **options)(torch.zeros(4, 2), torch.tensor([0, 1, 0, 1]))
