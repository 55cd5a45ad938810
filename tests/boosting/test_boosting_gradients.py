"""Gradients for trees: those of the loss, scaled; the curvature bounds the second derivative."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import eastward as ew
from eastward.boosting import metric_gradients

METRICS = ["f1_macro", "matthews_corrcoef", "balanced_accuracy", "cohen_kappa_quadratic"]
ROWS = 40


def problem(rng, classes: int):
    scores = rng.normal(size=(ROWS, classes) if classes > 2 else ROWS)
    return scores, rng.integers(classes, size=ROWS), rng.uniform(0.2, 3, ROWS)


def linearised(scores, targets, weight, metric, temperature):
    """The two steps written out: K = dL/dC at the matrix of all rows, then the chain rule row by row."""
    z = torch.tensor(scores).requires_grad_()
    columns = torch.stack([torch.zeros_like(z), z], 1) if z.dim() == 1 else z
    memberships = ew.soft_memberships(columns.softmax(1), temperature)
    labels = torch.tensor(targets)
    size = columns.shape[1]
    confusion = ew.soft_confusion(
        memberships, labels, num_classes=size, sample_weight=torch.tensor(weight)
    )
    at = confusion.detach().requires_grad_()
    (K,) = torch.autograd.grad(1 - ew.metrics.get(metric)(at), at)
    rows = torch.tensor(weight) * (K[labels] * memberships).sum(1)
    (gradient,) = torch.autograd.grad(rows.sum(), z)
    return gradient.numpy() * weight.sum()


@pytest.mark.parametrize("temperature", [0.2, 0.05])
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("metric", METRICS)
def test_the_gradient_is_the_linearised_metric_behind_the_chain_rule(
    rng, metric, classes, temperature
):
    scores, targets, weight = problem(rng, classes)
    gradient, _ = metric_gradients(
        scores, targets, metric, temperature=temperature, sample_weight=weight
    )
    expected = linearised(scores, targets, weight, metric, temperature)
    assert gradient.shape == scores.shape
    np.testing.assert_allclose(gradient, expected, rtol=1e-9, atol=1e-12)
    assert np.abs(gradient).max() > 1e-3


@pytest.mark.parametrize("classes", [2, 3])
def test_the_gradient_is_the_slope_of_the_loss_times_the_rows(rng, classes):
    scores, targets, _ = problem(rng, classes)
    gradient, _ = metric_gradients(scores, targets, "f1_macro")
    direction = rng.normal(size=scores.shape)

    def loss(step):
        z = torch.tensor(scores + step * direction)
        return ew.metric_loss(z, torch.tensor(targets), "f1_macro").item()

    slope = (loss(1e-6) - loss(-1e-6)) / 2e-6
    assert (gradient * direction).sum() == pytest.approx(slope * ROWS, rel=1e-5)


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_the_curvature_dominates_the_second_derivative(rng, classes):
    # Memberships are linear in the probabilities between the kinks: L = <v, p> there, v = dL/dp.
    for _ in range(20):
        z = torch.tensor(3 * rng.normal(size=classes))
        v = torch.tensor(rng.normal(size=classes))

        def linear(z, v=v):
            return (v * z.softmax(0)).sum()

        hessian = torch.autograd.functional.hessian(linear, z)
        gradient = torch.autograd.functional.jacobian(linear, z)
        bound = bound_of(z[None], gradient[None])[0]
        assert torch.linalg.eigvalsh(torch.diag(bound) - hessian).min() > -1e-12


@pytest.mark.parametrize("temperature", [0.2, 0.1])
@pytest.mark.parametrize("classes", [2, 3, 8])
def test_the_curvature_dominates_that_of_memberships_nearly_everywhere(rng, classes, temperature):
    # Threshold and norm of several classes bend memberships between the kinks, too; two classes have neither.
    largest = []
    for _ in range(60):
        z, v = (torch.tensor(scale * rng.normal(size=classes)) for scale in (2, 1))

        def membership(z, v=v):
            return (v * ew.soft_memberships(z.softmax(0)[None], temperature)[0]).sum()

        hessian = torch.autograd.functional.hessian(membership, z)
        gradient = torch.autograd.functional.jacobian(membership, z)
        root = bound_of(z[None], gradient[None])[0].rsqrt()
        largest.append(torch.linalg.eigvalsh(root[:, None] * hessian * root).max().item())
    assert np.mean(np.array(largest) <= 1) >= (1.0 if classes == 2 else 0.95)
    assert max(largest) > 0.4  # a bound that is not far away


def bound_of(scores, gradient):
    from eastward.boosting.gradients import _curvature_bound

    return _curvature_bound(scores, gradient, torch.ones(len(scores), dtype=torch.float64))


def test_the_binary_curvature_dominates_the_second_derivative(rng):
    for v in rng.normal(size=10):
        z = torch.tensor(2 * rng.normal())
        p = torch.sigmoid(z)
        first, second = v * p * (1 - p), v * p * (1 - p) * (1 - 2 * p)
        assert bound_of(z[None], first[None]) >= second.abs()


@pytest.mark.parametrize("classes", [2, 3])
def test_a_newton_step_is_never_longer_than_one(rng, classes):
    scores, targets, weight = problem(rng, classes)
    gradient, curvature = metric_gradients(scores, targets, "f1_macro", sample_weight=weight)
    assert (curvature > 0).all()
    assert (np.abs(gradient).sum(0) <= curvature.sum(0)).all()


def test_weight_two_is_two_rows(rng):
    scores, targets, _ = problem(rng, 3)
    weight = np.where(np.arange(ROWS) < 5, 2.0, 1.0)
    weighted = metric_gradients(scores, targets, "f1_macro", sample_weight=weight)
    twice = np.concatenate([scores, scores[:5]]), np.concatenate([targets, targets[:5]])
    repeated = metric_gradients(*twice, "f1_macro")
    for one, other in zip(weighted, repeated, strict=True):
        np.testing.assert_allclose(one[5:], other[5:ROWS], rtol=1e-9)
        np.testing.assert_allclose(one[:5], 2 * other[:5], rtol=1e-9)


@pytest.mark.parametrize("shape", [(6, 1), (2, 3, 4), ()])
def test_scores_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match="raw_scores of metric_gradients must be of shape"):
        metric_gradients(np.zeros(shape), np.zeros(6, dtype=int))


def test_all_rows_of_one_class_give_finite_numbers():
    for scores in (np.zeros(5), np.zeros((5, 3)), np.full((5, 3), [50.0, 0, -50])):
        gradient, curvature = metric_gradients(scores, np.zeros(5, dtype=int))
        assert np.isfinite(gradient).all()
        assert (np.isfinite(curvature) & (curvature > 0)).all()
