"""Lee et al.: the limits of the surrogate, and what holds at stationary points of small models."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.stats import norm

from eastward.baselines import BalancedCrossEntropyLoss, MAELoss, SurrogateFBetaLoss

RATES = (0.1, 0.3, 0.5)
BETAS = (0.5, 1.0, 2.0)


def batch(rows=50, rate=0.3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(rows, generator=generator, dtype=torch.float64)
    return logits, (torch.arange(rows) < rate * rows).long()


# --- limits of the generalised form, equation 25


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("rate", RATES)
def test_the_generalised_loss_tends_to_the_surrogate_as_q_vanishes(beta, rate):
    logits, targets = batch(rate=rate)
    limit = SurrogateFBetaLoss(beta, rate)(logits, targets).item()
    gaps = [
        abs(SurrogateFBetaLoss(beta, rate, q)(logits, targets).item() - limit)
        for q in (0.1, 0.01, 0.001, 1e-6)
    ]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[2] / gaps[1] == pytest.approx(0.1, rel=0.1)  # linear in q
    assert gaps[3] < 1e-4


def test_with_q_one_the_loss_is_the_mean_absolute_error_up_to_constants():
    logits, targets = batch(rate=0.5)
    surrogate = SurrogateFBetaLoss(1.0, 0.5, 1.0)
    error = MAELoss(class_weight=[2.0, 2.0])  # n / n_y at a rate of one half
    for shift in (-1.0, 0.0, 3.0):
        moved = logits + shift
        # y (1 - f) + (1 - y) f is half of the absolute error; kappa - 1 is zero
        twice = 2 * surrogate(moved, targets).item()
        assert twice == pytest.approx(error(moved, targets).item(), rel=1e-6)


def test_a_balanced_batch_gives_the_two_conditional_means_of_equation_21():
    logits, targets = batch(rate=0.3)
    f, y = torch.sigmoid(logits), targets == 1
    kappa = 2.0**2 * 0.3 / 0.7
    by_class = (-f[y].log()).mean() + (kappa + f[~y]).log().mean()
    value = SurrogateFBetaLoss(2.0, 0.3)(logits, targets)
    assert value.item() == pytest.approx(by_class.item(), rel=1e-6)
    plain = SurrogateFBetaLoss(2.0, 0.3, balanced=False)(logits, targets)
    unbalanced = (-f[y].log()).sum() + (kappa + f[~y]).log().sum()
    assert plain.item() == pytest.approx(unbalanced.item() / 50, rel=1e-6)


# --- the condition of the metric itself, equation 12


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("rate", RATES)
def test_condition_12_holds_where_the_limit_of_f_beta_is_largest(beta, rate):
    # Positives around (1, 0.5), negatives around the origin, unit covariance; the classifier asks whether the
    # projection on the direction `angle` exceeds `threshold`. Both error rates are then known in closed form.
    centre = np.array([1.0, 0.5])

    def proportions(parameters):
        angle, threshold = parameters
        along = centre @ np.array([math.cos(angle), math.sin(angle)])
        across = centre @ np.array([-math.sin(angle), math.cos(angle)])
        q0, q1 = norm.cdf(threshold - along), norm.sf(threshold)
        density = norm.pdf(threshold - along)
        return (
            q0,
            q1,
            np.array([-density * across, density]),
            np.array([0.0, -norm.pdf(threshold)]),
        )

    def negative_f_beta(parameters):
        q0, q1, _, _ = proportions(parameters)
        top = (1 + beta**2) * rate * (1 - q0)
        return -top / (rate * (beta**2 + 1 - q0 - q1) + q1)

    best = minimize(
        negative_f_beta, [0.2, 0.4], method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-14}
    )
    q0, q1, slope0, slope1 = proportions(best.x)
    left = -slope0 / (1 - q0)
    right = slope1 / (beta**2 * rate / (1 - rate) + q1)
    np.testing.assert_allclose(left, right, atol=1e-5)
    assert abs(right[1]) > 0.05  # no trivial zero
    # and not elsewhere
    q0, q1, slope0, slope1 = proportions(best.x + 0.3)
    right = slope1 / (beta**2 * rate / (1 - rate) + q1)
    assert np.abs(-slope0 / (1 - q0) - right).max() > 0.2 * np.abs(right).max()


# --- the conditions of the losses, equations 17, 19 and 22


def stationary_point(loss, model, parameters, targets):
    """Where the gradient of a loss of ours vanishes, in float64."""
    optimizer = torch.optim.LBFGS(
        [parameters],
        max_iter=2000,
        tolerance_grad=1e-11,
        tolerance_change=1e-16,
        line_search_fn="strong_wolfe",
    )

    def closure():
        optimizer.zero_grad()
        value = loss(model(parameters), targets)
        value.backward()
        return value

    optimizer.step(closure)
    closure()
    assert parameters.grad.abs().max() < 1e-6


def smoothed_proportions(model, parameters, targets):
    """Smoothed error rates of equation 7, and their gradients."""
    f, y = torch.sigmoid(model(parameters)), targets == 1
    q0, q1 = (1 - f[y]).mean(), f[~y].mean()
    (slope0,) = torch.autograd.grad(q0, parameters, retain_graph=True)
    (slope1,) = torch.autograd.grad(q1, parameters)
    return q0.item(), q1.item(), slope0, slope1


def two_sides(name, beta, rate, q0, q1, slope0, slope1):
    if name == "equation 17":
        return -slope0 / (1 - q0), slope1 / (1 - q1)
    if name == "equation 19":
        return -slope0, slope1
    return -slope0 / (1 - q0), slope1 / (beta**2 * rate / (1 - rate) + q1)


def loss_of(name, beta, rate, rows):
    if name == "equation 17":
        return BalancedCrossEntropyLoss([rows * (1 - rate), rows * rate])
    if name == "equation 19":
        return MAELoss(class_weight=[1 / (1 - rate), 1 / rate])
    return SurrogateFBetaLoss(beta, rate)


def lines_through_the_origin(spread, rate, rows=200):
    """Logits theta * x without a bias, positives at x = 1 and negatives at x = 2: no theta gets all of them right."""
    generator = torch.Generator().manual_seed(0)
    targets = (torch.arange(rows) < rate * rows).long()
    noise = torch.randn(rows, generator=generator, dtype=torch.float64)
    features = torch.where(targets == 1, 1.0, 2.0) + spread * noise
    return (lambda theta: theta * features), targets


def residual(name, spread, beta=1.0, rate=0.2):
    model, targets = lines_through_the_origin(spread, rate)
    theta = torch.tensor([-1.0], dtype=torch.float64, requires_grad=True)
    stationary_point(loss_of(name, beta, rate, len(targets)), model, theta, targets)
    left, right = two_sides(name, beta, rate, *smoothed_proportions(model, theta, targets))
    assert right.abs().max() > 0.01  # no trivial zero
    return ((left - right).abs().max() / right.abs().max()).item()


@pytest.mark.parametrize("name", ["equation 17", "equation 19", "equation 22"])
@pytest.mark.parametrize(("beta", "rate"), [(1.0, 0.2), (0.5, 0.3), (1.5, 0.1)])
def test_the_condition_is_exact_where_every_class_has_one_score(name, beta, rate):
    # Jensen's inequality in (15) and (21) is an equality there.
    assert residual(name, 0.0, beta, rate) < 1e-5


@pytest.mark.parametrize("name", ["equation 17", "equation 22"])
def test_the_condition_holds_approximately_and_better_the_less_scores_spread(name):
    wide, middle, narrow = (residual(name, spread) for spread in (0.4, 0.1, 0.025))
    assert narrow < middle < wide < 1
    assert narrow < 0.01


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_condition_19_is_exact_for_any_model(seed):
    # The mean absolute error is linear in the scores, so no inequality is involved: a network of two layers.
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(60, 2, generator=generator, dtype=torch.float64)
    targets = (torch.arange(60) < 18).long()

    def network(weights):
        hidden = torch.tanh(features @ weights[:6].reshape(2, 3) + weights[6:9])
        return hidden @ weights[9:12] + weights[12]

    start = 0.5 * torch.randn(13, generator=generator, dtype=torch.float64)
    weights = start.clone().requires_grad_()

    # a little decay of the weights keeps the stationary point finite; it enters both sides as its own gradient
    def loss(logits, labels):
        return MAELoss(class_weight=[60 / 42, 60 / 18])(logits, labels) + 0.01 * weights @ weights

    stationary_point(loss, network, weights, targets)
    _, _, slope0, slope1 = smoothed_proportions(network, weights, targets)
    torch.testing.assert_close(-slope0, slope1 + 0.01 * weights.detach(), atol=1e-6, rtol=1e-4)
    assert slope1.abs().max() > 1e-3


def test_the_conditions_of_the_metric_and_of_the_surrogate_agree():
    # One score per class: the smoothed F-beta of Lee's equation 24 and the surrogate have the same stationary points.
    from eastward.baselines import SoftFBetaLoss

    beta, rate = 1.0, 0.2
    model, targets = lines_through_the_origin(0.0, rate)
    points = []
    for loss in (SurrogateFBetaLoss(beta, rate), SoftFBetaLoss(beta)):
        theta = torch.tensor([-1.0], dtype=torch.float64, requires_grad=True)
        stationary_point(loss, model, theta, targets)
        points.append(theta.item())
    assert points[0] == pytest.approx(points[1], abs=1e-5)
    other = torch.tensor([-1.0], dtype=torch.float64, requires_grad=True)
    stationary_point(BalancedCrossEntropyLoss([160, 40]), model, other, targets)
    assert abs(other.item() - points[0]) > 0.1
