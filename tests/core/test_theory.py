"""The papers' theorems, by simulation; their plots are on the theory page of the documentation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import eastward as ew

CLASSES = 4


def draw(n: int, seed: int):
    """A population of probabilities and labels: skewed classes, a classifier that is often right."""
    generator = torch.Generator().manual_seed(seed)
    prior = torch.tensor([0.5, 0.3, 0.15, 0.05])
    targets = torch.multinomial(prior, n, replacement=True, generator=generator)
    logits = torch.randn(n, CLASSES, generator=generator, dtype=torch.float64)
    logits += 1.5 * torch.nn.functional.one_hot(targets, CLASSES)
    return torch.softmax(logits, 1), targets


def mean_confusion(probabilities, targets) -> torch.Tensor:
    memberships = ew.soft_memberships(probabilities, 0.1)
    return ew.soft_confusion(memberships, targets) / len(targets)


@pytest.fixture(scope="module")
def population() -> torch.Tensor:
    return mean_confusion(*draw(1_000_000, seed=10_000))


@pytest.mark.parametrize("n", [50, 200, 800])
@pytest.mark.parametrize("delta", [0.5, 0.1])
def test_the_confusion_of_a_sample_concentrates_as_theorem_5_8_says(population, n, delta):
    bound = ew.theory.confusion_error(n, CLASSES, delta)
    deviations = np.array(
        [(mean_confusion(*draw(n, seed)) - population).abs().max().item() for seed in range(200)]
    )
    assert (deviations > bound).mean() <= delta
    # The bound is no vacuous one: deviations come within an order of magnitude of it.
    assert deviations.max() > bound / 10


def log_log_slope(sizes, deviations) -> float:
    return float(np.polyfit(np.log(sizes), np.log(deviations), 1)[0])


@pytest.mark.parametrize(
    "name", ["f1_macro", "accuracy", "matthews_corrcoef", "cohen_kappa", "balanced_accuracy"]
)
def test_the_metric_of_a_sample_converges_at_the_rate_of_theorem_5_9(population, name):
    metric = ew.metrics.get(name)
    truth = metric(population)
    sizes = [100, 400, 1600, 6400]
    deviations = [
        np.mean(
            [(metric(mean_confusion(*draw(n, seed))) - truth).abs().item() for seed in range(60)]
        )
        for n in sizes
    ]
    # One over the square root of n is a slope of -1/2.
    assert log_log_slope(sizes, deviations) == pytest.approx(-0.5, abs=0.1)


# --- EAST v1, section 5.2: memberships from a Dirichlet, decisions from its mean ------------------

MEANS = np.array([[0.7, 0.2, 0.1], [0.15, 0.6, 0.25], [0.3, 0.3, 0.4]])
SHARES = np.array([0.6, 0.3, 0.1])


def macro_f_beta_limit(beta: float) -> float:
    """Equation 10: what hard and soft macro F-beta both converge to."""
    p, q = MEANS, SHARES
    scores = (1 + beta**2) * np.diag(p) * q / (beta**2 * q + p.T @ q)
    return float(scores.mean())


def dirichlet_scores(n: int, beta: float, generator: np.random.Generator) -> tuple[float, float]:
    """Soft and hard macro F-beta of n samples under the model."""
    counts = np.round(SHARES * n).astype(int)
    targets = torch.from_numpy(np.repeat(np.arange(3), counts))
    soft = np.concatenate([generator.dirichlet(5 * MEANS[k], counts[k]) for k in range(3)])
    chosen = np.concatenate([generator.choice(3, counts[k], p=MEANS[k]) for k in range(3)])
    tables = (
        ew.soft_confusion(torch.from_numpy(degrees), targets)
        for degrees in (soft, np.eye(3)[chosen])
    )
    soft_score, hard_score = (ew.metrics.f_beta(table, beta).item() for table in tables)
    return soft_score, hard_score


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_soft_and_hard_macro_f_beta_share_their_limit_under_the_dirichlet_model(beta, rng):
    limit = macro_f_beta_limit(beta)
    soft, hard = dirichlet_scores(200_000, beta, rng)
    assert soft == pytest.approx(limit, abs=0.004)
    assert hard == pytest.approx(limit, abs=0.008)


def test_soft_macro_f_beta_is_consistent_under_the_dirichlet_model(rng):
    limit = macro_f_beta_limit(1.0)
    sizes = [100, 1000, 10_000]
    deviations = [
        np.mean([abs(dirichlet_scores(n, 1.0, rng)[0] - limit) for _ in range(40)]) for n in sizes
    ]
    assert deviations[0] > deviations[1] > deviations[2]
    assert log_log_slope(sizes, deviations) == pytest.approx(-0.5, abs=0.15)


# --- Bridging the Gap, section 4.2: memberships from a Beta --------------------------------------


@pytest.mark.parametrize(("rate", "hit", "alarm"), [(0.1, 0.8, 0.05), (0.5, 0.6, 0.3)])
def test_soft_and_hard_f1_share_their_limit_under_the_beta_model(rate, hit, alarm, rng):
    n = 400_000
    targets = np.arange(n) < rate * n
    mean = np.where(targets, hit, alarm)
    limit = 2 * rate * hit / (rate + rate * hit + alarm - rate * alarm)
    soft = rng.beta(4 * mean, 4 * (1 - mean))
    hard = (rng.random(n) < mean).astype(float)
    for positive in (soft, hard):
        memberships = torch.from_numpy(np.stack([1 - positive, positive], axis=1))
        confusion = ew.soft_confusion(memberships, torch.from_numpy(targets).long())
        assert ew.metrics.f1(confusion, "binary").item() == pytest.approx(limit, abs=0.005)


def test_every_entry_of_the_table_is_lipschitz_in_the_probabilities():
    # Theorem 4.2 of Bridging the Gap: an entry moves by at most the step's constant times the change, per sample.
    probabilities = torch.rand(300, dtype=torch.float64)
    moved = (probabilities + 0.05 * torch.randn(300, dtype=torch.float64)).clamp(0, 1)
    targets = torch.arange(300) % 2
    constant = ew.theory.heaviside_lipschitz(0.3, 0.1)
    tables = [
        ew.soft_confusion(
            ew.soft_memberships(torch.stack([1 - p, p], 1), 0.1, threshold=0.3), targets
        )
        for p in (probabilities, moved)
    ]
    change = (probabilities - moved).abs().sum()
    assert ((tables[0] - tables[1]).abs() <= constant * change + 1e-9).all()
