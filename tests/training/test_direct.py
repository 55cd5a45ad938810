"""The gradient written by hand is the one autograd finds."""

from __future__ import annotations

import copy

import pytest
import torch
from small_runs import cpu, small_rows

from eastward.metrics import get
from eastward.training import StackedMLP
from eastward.training.direct import DirectGradient, direct_gradient, gradient_of
from eastward.training.focal import FocalObjective
from eastward.training.objectives import CrossEntropyObjective, MetricObjective

SHAPES = {"one layer": [5, 3], "one hidden": [5, 8, 3], "three hidden": [5, 16, 8, 4, 3]}
OBJECTIVES = {
    "cross-entropy": CrossEntropyObjective,
    "focal": FocalObjective,
    "macro-F1": lambda: MetricObjective(get("f1_macro")),
}


def batch(members: int, rows: int = 32, classes: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(members, rows, 5, generator=generator)
    return inputs, torch.randint(classes, (members, rows), generator=generator)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("widths", SHAPES)
@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("dropout", [0.0, 0.25])
@pytest.mark.parametrize("weighted", [False, True])
def test_gradient_is_autograds(objective, widths, members, dropout, weighted):
    torch.manual_seed(0)
    plain = StackedMLP(members, SHAPES[widths], dropout).train()
    direct = DirectGradient(copy.deepcopy(plain).train())
    inputs, targets = batch(members)
    weights = torch.rand(members, 32) if weighted else None

    torch.manual_seed(7)  # the same units are dropped
    expected = OBJECTIVES[objective]()(plain(inputs), targets, weights)
    expected.sum().backward()
    torch.manual_seed(7)
    logits = direct.forward(inputs)
    losses, slope = gradient_of(OBJECTIVES[objective](), logits, targets, weights)
    direct.backward(slope)

    torch.testing.assert_close(losses, expected.detach())
    for mine, theirs in zip(direct.members.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-7)


def test_evaluation_leaves_every_unit_in_place():
    torch.manual_seed(0)
    plain = StackedMLP(3, SHAPES["three hidden"], 0.25).eval()
    direct = DirectGradient(copy.deepcopy(plain).train())
    inputs, _ = batch(3)
    torch.testing.assert_close(direct.evaluate(inputs), plain(inputs))


class ShiftedMLP(StackedMLP):
    """Not quite the default network."""

    def forward(self, inputs):
        return super().forward(inputs) + torch.tensor([1.0, 0.0, -1.0])


@pytest.mark.parametrize(("kind", "short"), [(StackedMLP, True), (ShiftedMLP, False)])
def test_a_network_that_computes_something_else_goes_the_ordinary_way(kind, short):
    rows = small_rows()
    members = kind(3, [4, 8, 3])
    assert (direct_gradient(members, rows, cpu()) is not None) == short


def test_a_step_of_the_flat_parameter_moves_the_network():
    torch.manual_seed(0)
    plain = StackedMLP(2, [5, 8, 3], 0.0)
    direct = DirectGradient(copy.deepcopy(plain))
    inputs, targets = batch(2)
    optimizers = [
        torch.optim.AdamW(plain.parameters(), lr=0.01),
        torch.optim.AdamW([direct.parameter], lr=0.01),
    ]
    objective = CrossEntropyObjective()
    for _ in range(5):
        optimizers[0].zero_grad()
        objective(plain(inputs), targets, None).sum().backward()
        direct.backward(gradient_of(objective, direct.forward(inputs), targets, None)[1])
        for optimizer in optimizers:
            optimizer.step()
    for mine, theirs in zip(direct.members.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine.detach(), theirs.detach(), rtol=1e-4, atol=1e-6)


def test_labels_go_through_autograd():
    logits, targets = torch.randn(1, 8, 4), torch.randint(2, (1, 8, 4))
    objective = CrossEntropyObjective(multilabel=True)
    assert objective.with_gradient(logits, targets, None) is None
    losses, slope = gradient_of(objective, logits, targets, None)
    expected = (torch.sigmoid(logits) - targets) / (8 * 4)
    torch.testing.assert_close(slope, expected)
    torch.testing.assert_close(losses, objective(logits, targets, None))
