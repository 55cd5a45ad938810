"""Probabilities to memberships: rows of mass one that tend to the one-hot arg max."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch.nn.functional import one_hot

import eastward as ew
from eastward.memberships import class_probabilities, top2_threshold

SETTINGS = list(
    itertools.product(["top2", 0.3, (0.2, 0.5, 0.8)], ["linear", "sigmoid", "hard"], [2, 3, 7])
)


def random_probabilities(rows: int, classes: int, *, sharpness: float = 2.0) -> torch.Tensor:
    return torch.softmax(sharpness * torch.randn(rows, classes, dtype=torch.float64), dim=1)


@pytest.mark.parametrize(("threshold", "step", "classes"), SETTINGS)
def test_memberships_are_distributions(threshold, step, classes):
    probabilities = random_probabilities(40, classes)
    degrees = ew.soft_memberships(probabilities, 0.1, threshold=threshold, step=step)
    assert (degrees >= 0).all()
    torch.testing.assert_close(degrees.sum(-1), torch.ones_like(degrees[..., 0]))


def test_the_dynamic_membership_follows_its_formula():
    probabilities = random_probabilities(20, 5)
    p = np.sort(probabilities.numpy(), axis=1)
    tau = torch.from_numpy((p[:, -1] + p[:, -2]) / 2).unsqueeze(1)
    degrees = ew.heaviside(probabilities, tau, 0.15)
    expected = degrees / degrees.sum(1, keepdim=True)
    torch.testing.assert_close(ew.soft_memberships(probabilities, 0.15), expected)


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_memberships_tend_to_the_one_hot_arg_max(classes):
    # Proposition 5.2: whatever the distribution, as the temperature goes to zero.
    probabilities = random_probabilities(200, classes)
    hard = one_hot(probabilities.argmax(1), classes).double()
    deviations = [
        (ew.soft_memberships(probabilities, temperature) - hard).abs().max().item()
        for temperature in (0.2, 0.1, 0.05, 0.01, 1e-3, 1e-4, 1e-5, 1e-6)
    ]
    assert deviations == sorted(deviations, reverse=True)
    assert deviations[-1] < 1e-4


@pytest.mark.parametrize("threshold", ["top2", 0.4])
def test_renaming_classes_renames_memberships_and_gradients(threshold):
    order = torch.randperm(6)
    probabilities = random_probabilities(10, 6).requires_grad_()
    weights = torch.randn(10, 6, dtype=torch.float64)
    plain = ew.soft_memberships(probabilities, 0.1, threshold=threshold)
    renamed = ew.soft_memberships(probabilities[:, order], 0.1, threshold=threshold)
    torch.testing.assert_close(renamed, plain[:, order])
    (gradient,) = torch.autograd.grad((plain * weights).sum(), probabilities)
    (other,) = torch.autograd.grad((renamed * weights[:, order]).sum(), probabilities)
    torch.testing.assert_close(other, gradient)


@pytest.mark.parametrize("temperature", [1e-6, 1e-3, 0.2, 0.4])
@pytest.mark.parametrize(
    "row",
    [
        [1 / 3, 1 / 3, 1 / 3],
        [0.4, 0.4, 0.2],
        [0.5, 0.5, 0.0],
        [1.0, 0.0, 0.0],
        [0.98, 0.02, 0.0],
    ],
    ids=["uniform", "tie", "tie of all mass", "saturated", "nearly saturated"],
)
def test_ties_and_saturated_rows_have_finite_memberships_and_gradients(row, temperature):
    probabilities = torch.tensor([row], requires_grad=True)
    degrees = ew.soft_memberships(probabilities, temperature)
    torch.testing.assert_close(degrees.sum(), torch.tensor(1.0))
    for column in range(3):
        (gradient,) = torch.autograd.grad(degrees[0, column], probabilities, retain_graph=True)
        assert torch.isfinite(gradient).all()


def test_classes_that_tie_share_the_membership_and_the_gradient():
    probabilities = torch.tensor([[0.4, 0.4, 0.2]], requires_grad=True)
    degrees = ew.soft_memberships(probabilities, 0.1)
    assert degrees[0, 0] == degrees[0, 1]
    (gradient,) = torch.autograd.grad(degrees[0, 2], probabilities)
    assert gradient[0, 0] == gradient[0, 1]


def test_a_uniform_row_belongs_to_all_classes_alike():
    degrees = ew.soft_memberships(torch.full((1, 5), 0.2), 0.01)
    torch.testing.assert_close(degrees, torch.full((1, 5), 0.2))


def test_a_row_that_no_class_reaches_belongs_to_all_classes_equally():
    row = torch.tensor([[0.4, 0.3, 0.3]])
    degrees = ew.soft_memberships(row, threshold=0.9, step="hard")
    torch.testing.assert_close(degrees, torch.full((1, 3), 1 / 3))


def test_detaching_the_threshold_changes_the_gradient_and_not_the_value():
    gradients, values = [], []
    for detach in (False, True):
        probabilities = torch.tensor([[0.5, 0.3, 0.2]], requires_grad=True)
        degrees = ew.soft_memberships(probabilities, 0.2, detach_threshold=detach)
        gradients.append(torch.autograd.grad(degrees[0, 0], probabilities)[0])
        values.append(degrees.detach())
    torch.testing.assert_close(*values)
    assert not torch.allclose(*gradients)


def test_a_grid_stacks_the_memberships_of_its_thresholds():
    probabilities = random_probabilities(12, 4)
    grid = (0.2, 0.5, 0.6)
    stacked = ew.soft_memberships(probabilities, threshold=grid)
    assert stacked.shape == (3, 12, 4)
    for layer, threshold in zip(stacked, grid, strict=True):
        torch.testing.assert_close(layer, ew.soft_memberships(probabilities, threshold=threshold))


def test_two_classes_at_a_fixed_threshold_follow_class_one():
    probabilities = random_probabilities(12, 2)
    positive = ew.heaviside(probabilities[:, 1], 0.3, 0.2)
    expected = torch.stack([1 - positive, positive], dim=1)
    torch.testing.assert_close(ew.soft_memberships(probabilities, threshold=0.3), expected)


def test_with_two_classes_the_dynamic_threshold_is_one_half():
    probabilities = random_probabilities(12, 2)
    torch.testing.assert_close(
        ew.soft_memberships(probabilities), ew.soft_memberships(probabilities, threshold=0.5)
    )


def test_the_dynamic_threshold_is_the_mean_of_the_two_largest():
    probabilities = random_probabilities(50, 9)
    expected = probabilities.topk(2, dim=1).values.mean(1, keepdim=True)
    torch.testing.assert_close(top2_threshold(probabilities), expected)


def test_a_single_logit_is_the_difference_of_two():
    logits = torch.randn(10, dtype=torch.float64)
    two = torch.stack([torch.zeros_like(logits), logits], dim=1)
    torch.testing.assert_close(class_probabilities(logits.unsqueeze(1)), class_probabilities(two))


def test_a_single_logit_keeps_the_digits_of_the_smaller_probability():
    confident = class_probabilities(torch.tensor([[40.0]]))
    assert confident[0, 0].item() == pytest.approx(np.exp(-40.0), rel=1e-5)


def test_a_step_of_ones_own_is_used():
    def square(p, tau, temperature):
        return p**2 + 0 * tau * temperature

    probabilities = random_probabilities(5, 3)
    expected = probabilities**2 / (probabilities**2).sum(1, keepdim=True)
    torch.testing.assert_close(ew.soft_memberships(probabilities, step=square), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_becomes_single_precision(dtype):
    degrees = ew.soft_memberships(torch.tensor([[0.75, 0.25]], dtype=dtype))
    assert degrees.dtype == torch.float32
