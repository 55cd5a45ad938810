"""The adversarial F-beta: the marginal game against the game over all label vectors, and its gradient."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from sklearn.metrics import f1_score

from eastward.baselines import AdversarialFBetaLoss
from eastward.baselines.adversarial_admm import (
    best_answer,
    project_on_marginals,
    solve_game_by_admm,
)
from eastward.baselines.adversarial_game import payoff_factors, solve_game

BETAS = (0.5, 1.0, 2.0)


def f_beta(predicted, true, beta):
    if not predicted.any() and not true.any():
        return 1.0
    return (1 + beta**2) * (predicted * true).sum() / (beta**2 * true.sum() + predicted.sum())


def full_game(scores, beta):
    """Mixed strategies over all 2^n label vectors of both players, as one linear program."""
    vectors = np.array(list(itertools.product((0.0, 1.0), repeat=len(scores))))
    payoff = np.array([[f_beta(p, t, beta) for t in vectors] for p in vectors])
    count = len(vectors)
    solved = linprog(
        np.append(-vectors @ scores, 1.0),
        A_ub=np.hstack([payoff, -np.ones((count, 1))]),
        b_ub=np.zeros(count),
        A_eq=[[1.0] * count + [0.0]],
        b_eq=[1.0],
        bounds=[(0, None)] * count + [(None, None)],
    )
    return solved.fun, solved.x[:count] @ vectors


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("scale", [0.1, 0.5, 2.0])
def test_the_marginal_game_is_the_game_over_all_label_vectors(size, beta, scale):
    for seed in range(5):
        scores = scale * np.random.default_rng(seed).normal(size=size)
        value, marginals = full_game(scores, beta)
        solved = solve_game(scores, beta)
        assert solved.value == pytest.approx(value, abs=1e-9)
        np.testing.assert_allclose(solved.marginals, marginals, atol=1e-6)


def test_a_game_without_rewards_is_worth_its_brute_force_value():
    for size in (1, 2, 3):
        assert solve_game(np.zeros(size), 1.0).value == pytest.approx(
            full_game(np.zeros(size), 1.0)[0], abs=1e-9
        )


def test_the_payoff_is_f_beta_per_hit():
    factors = payoff_factors(4, 2.0)
    predicted, true = np.array([1, 1, 0, 1.0]), np.array([1, 0, 0, 1.0])
    assert factors[2, 1] * 2 == pytest.approx(f_beta(predicted, true, 2.0))


@pytest.mark.parametrize("size", [3, 8])
@pytest.mark.parametrize("beta", BETAS)
def test_the_gradient_is_that_of_the_value(size, beta):
    logits = torch.randn(size, dtype=torch.float64, requires_grad=True)
    targets = torch.arange(size) % 2
    loss = AdversarialFBetaLoss(beta)
    assert torch.autograd.gradcheck(lambda z: loss(z, targets), (logits,))


def test_the_gradient_is_the_marginals_minus_the_labels():
    logits = torch.tensor([0.3, -0.2, 0.1], dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([1, 0, 1])
    AdversarialFBetaLoss()(logits, targets).backward()
    marginals = solve_game(logits.detach().numpy(), 1.0).marginals
    np.testing.assert_allclose(logits.grad.numpy(), marginals - targets.numpy())


def test_the_loss_is_convex_never_negative_and_zero_at_confident_truth():
    loss, generator = AdversarialFBetaLoss(), torch.Generator().manual_seed(1)
    targets = torch.tensor([1, 0, 0, 1, 0, 0])
    for _ in range(10):
        first, second = torch.randn(2, 6, generator=generator, dtype=torch.float64)
        middle = loss((first + second) / 2, targets).item()
        assert middle <= (loss(first, targets).item() + loss(second, targets).item()) / 2 + 1e-9
        assert middle >= -1e-9
    confident = 10.0 * (2 * targets - 1)
    assert loss(confident, targets).item() == pytest.approx(0, abs=1e-9)
    assert loss(-confident, targets).item() > 10


def test_the_order_of_samples_does_not_matter():
    logits, targets = torch.randn(7, dtype=torch.float64), torch.tensor([1, 0, 0, 1, 0, 1, 0])
    order = torch.tensor([3, 1, 6, 0, 5, 2, 4])
    loss = AdversarialFBetaLoss()
    assert loss(logits[order], targets[order]).item() == pytest.approx(
        loss(logits, targets).item(), abs=1e-9
    )


def test_two_columns_and_one_logit_are_the_same():
    logits, targets = torch.randn(5, 2, dtype=torch.float64), torch.tensor([1, 0, 0, 1, 0])
    loss = AdversarialFBetaLoss()
    lead = (logits[:, 1] - logits[:, 0]).unsqueeze(1)
    assert loss(logits, targets).item() == pytest.approx(loss(lead, targets).item(), abs=1e-9)
    assert loss(logits.float(), targets).dtype == torch.float32


def test_a_large_batch_may_be_split_into_games():
    logits = torch.randn(30, dtype=torch.float64, requires_grad=True)
    targets = torch.arange(30) % 3 == 0
    split = AdversarialFBetaLoss(split=True)(logits, targets)
    halves = [
        AdversarialFBetaLoss()(logits[half], targets[half]).item()
        for half in (slice(0, 15), slice(15, 30))
    ]
    assert split.item() == pytest.approx(np.mean(halves))
    split.backward()
    assert torch.isfinite(logits.grad).all()
    whole = AdversarialFBetaLoss(max_batch=30)(logits, targets)
    assert whole.item() != pytest.approx(split.item())


def test_ignored_samples_are_no_players():
    logits, targets = torch.randn(6, dtype=torch.float64), torch.tensor([1, -100, 0, 1, -100, 0])
    known = targets >= 0
    loss = AdversarialFBetaLoss()
    assert loss(logits, targets).item() == pytest.approx(loss(logits[known], targets[known]).item())
    empty = torch.zeros(2, requires_grad=True)
    value = loss(empty, torch.full((2,), -100))
    value.backward()
    assert value.item() == 0
    assert (empty.grad == 0).all()


def test_descent_finds_a_rare_class():
    # Not separable, one positive in five: better than calling everything positive, the best without features.
    generator = torch.Generator().manual_seed(0)
    targets = (torch.arange(40) % 5 == 0).long()
    features = 2.0 * targets + torch.randn(40, generator=generator)
    weight = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.Adam([weight], lr=0.1)
    loss = AdversarialFBetaLoss(split=True, max_batch=8)
    values = []
    for _ in range(20):
        optimizer.zero_grad()
        value = loss(features * weight[0] + weight[1], targets)
        value.backward()
        optimizer.step()
        values.append(value.item())
    predicted = (features * weight[0] + weight[1]).detach() > 0
    assert values[-1] < values[0]
    assert f1_score(targets, predicted) > f1_score(targets, np.ones(40)) + 0.1


def test_beta_changes_the_loss():
    logits, targets = torch.randn(6, dtype=torch.float64), torch.tensor([1, 0, 0, 1, 0, 0])
    values = {AdversarialFBetaLoss(beta)(logits, targets).item() for beta in BETAS}
    assert len(values) == len(BETAS)


def test_the_price_of_a_label_falls_with_beta():
    # Ten samples without features, two of them positive: their common logit is where the marginals are a fifth, and
    # it lies above 0.06 for a small beta and below for a large one. Its sign is no decision that beta moves to recall.
    scores = np.full(10, 0.06)
    assert solve_game(scores, 0.3).marginals.mean() < 0.2 < solve_game(scores, 3.0).marginals.mean()


# --- the published solver


@pytest.mark.parametrize("size", [1, 2, 3, 6, 11])
@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0, 1e3, 1e6])
def test_the_projection_is_marginals_and_the_nearest(size, scale, rng):
    counts = np.arange(1, size + 1)
    for _ in range(10):
        matrix = scale * rng.normal(size=(size, size))
        nearest = project_on_marginals(matrix)
        assert (nearest >= 0).all()
        assert (nearest <= nearest.sum(0) / counts + 1e-9).all()
        assert (nearest.sum(0) / counts).sum() <= 1 + 1e-9 * max(1, scale)
        # nearest in a convex set: no vertex lies further along the way to the matrix
        way = matrix - nearest
        assert best_answer(way) <= (way * nearest).sum() + 1e-8 * max(1, scale)


def test_marginals_are_their_own_projection(rng):
    vectors = np.array(list(itertools.product((0.0, 1.0), repeat=4)))
    chances = rng.dirichlet(np.ones(len(vectors)))
    marginals = np.zeros((4, 4))
    for chance, vector in zip(chances, vectors, strict=True):
        if vector.any():
            marginals[:, int(vector.sum()) - 1] += chance * vector
    np.testing.assert_allclose(project_on_marginals(marginals), marginals, atol=1e-9)


def test_the_best_answer_is_that_of_all_label_vectors(rng):
    payoffs = rng.normal(size=(4, 4))
    vectors = np.array(list(itertools.product((0, 1), repeat=4)))
    earned = [payoffs[v == 1, v.sum() - 1].sum() if v.any() else 0.0 for v in vectors]
    assert best_answer(payoffs) == pytest.approx(max(earned))


@pytest.mark.parametrize(("size", "beta"), [(1, 1.0), (2, 2.0), (7, 1.0), (8, 0.5)])
def test_the_published_solver_comes_close_and_closer(size, beta):
    scores = 0.5 * np.random.default_rng(size).normal(size=size)
    exact = solve_game(scores, beta)
    published, longer = (solve_game_by_admm(scores, beta, count) for count in (100, 1000))
    assert exact.value - 1e-9 <= published.value < exact.value + 0.1
    assert exact.value - 1e-9 <= longer.value < exact.value + 2e-3
    np.testing.assert_allclose(longer.marginals, exact.marginals, atol=0.02)


@pytest.mark.parametrize("solver", [solve_game, solve_game_by_admm])
def test_huge_scores_leave_the_adversary_no_choice(solver):
    scores = 1e6 * np.array([0.3, -0.2, 0.7, -1.0, 0.1])
    solved = solver(scores, 1.0)
    np.testing.assert_allclose(solved.marginals, scores > 0, atol=1e-6)
    assert solved.value == pytest.approx(-1.1e6, rel=1e-5)


def test_the_loss_may_use_the_published_solver():
    logits = torch.tensor([0.3, -0.2, 0.1, 0.6], dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([1, 0, 0, 1])
    approximate = AdversarialFBetaLoss(solver="admm")(logits, targets)
    approximate.backward()
    marginals = solve_game_by_admm(logits.detach().numpy(), 1.0).marginals
    np.testing.assert_allclose(logits.grad.numpy(), marginals - targets.numpy())
    exact = AdversarialFBetaLoss()(logits, targets)
    assert approximate.item() == pytest.approx(exact.item(), abs=0.05)


def test_without_scipy_one_line_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(
        ModuleNotFoundError, match=r"needs scipy.* pip install 'eastward\[tabular\]'"
    ):
        AdversarialFBetaLoss()(torch.zeros(2), torch.tensor([0, 1]))
    # the published solver needs numpy only
    assert AdversarialFBetaLoss(solver="admm")(torch.zeros(2), torch.tensor([0, 1])).item() > 0
