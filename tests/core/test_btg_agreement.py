"""Agreement with Bridging the Gap: the paper's formulas in a few lines of NumPy, and its package where they agree.

docs/decisions/0002-torch-btg.md tells where the package differs from its paper.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import eastward as ew

GRID = np.arange(1, 10) / 10


def step(p, tau, delta=0.2):
    """Equation 5 of the paper."""
    low, high = tau - np.minimum(tau, 1 - tau) / 2, tau + np.minimum(tau, 1 - tau) / 2
    middle = 0.5 + (p - tau) * (1 - 2 * delta) / (high - low)
    upper = 1 - (1 - p) * delta / (1 - high)
    return np.where(p < low, p * delta / low, np.where(p > high, upper, middle))


def paper_counts(p, y, tau):
    """Equation 6: tp, fn, fp, tn."""
    above = step(p, tau)
    return np.array(
        [v.sum() for v in (above * y, (1 - above) * y, above * (1 - y), (1 - above) * (1 - y))]
    )


def package_counts(p, y, tau):
    """What torch-btg 0.0.1 sums: its threshold turns into one minus itself on one side of tau."""
    tp = y * step(p, np.where(p > tau, tau, 1 - tau))
    fn = y * step(1 - p, np.where(p < tau, 1 - tau, tau))
    fp = (1 - y) * step(p, np.where(p < tau, tau, 1 - tau))
    tn = (1 - y) * step(1 - p, np.where(p < tau, 1 - tau, tau))
    return np.array([v.sum() for v in (tp, fn, fp, tn)])


def f1(counts):
    tp, fn, fp, _ = counts
    return 2 * tp / (2 * tp + fp + fn)


def accuracy(counts):
    tp, _, _, tn = counts
    return (tp + tn) / counts.sum()


@pytest.fixture(params=range(4))
def labelled(request):
    """Scores and labels of an uneven problem."""
    generator = np.random.default_rng(request.param)
    y = (generator.random(400) < 0.3).astype(float)
    return np.clip(generator.normal(0.35 + 0.3 * y, 0.2), 0.01, 0.99), y


def our_loss(p, y, metric, threshold) -> float:
    logits, targets = torch.logit(torch.from_numpy(p)), torch.from_numpy(y)
    return ew.metric_loss(logits, targets, metric, threshold=threshold, temperature=0.2).item()


@pytest.mark.parametrize(("metric", "formula"), [("f1", f1), ("accuracy", accuracy)])
def test_the_loss_on_the_papers_grid_is_the_mean_of_the_papers_metric(labelled, metric, formula):
    expected = 1 - np.mean([formula(paper_counts(*labelled, tau)) for tau in GRID])
    assert our_loss(*labelled, metric, GRID.tolist()) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("tau", [0.1, 0.5, 0.8])
def test_the_soft_counts_are_those_of_the_paper(labelled, tau):
    p, y = labelled
    probabilities = torch.from_numpy(np.stack([1 - p, p], axis=1))
    table = ew.soft_confusion(
        ew.soft_memberships(probabilities, 0.2, threshold=tau), torch.from_numpy(y).long()
    )
    tp, fn, fp, tn = paper_counts(p, y, tau)
    np.testing.assert_allclose(table.numpy(), [[tn, fp], [fn, tp]])


def test_the_area_under_the_soft_curve_is_the_trapezoid_sum_with_both_ends(labelled):
    p, y = labelled
    counts = [paper_counts(p, y, tau) for tau in GRID]
    true_rate = np.array([1.0, *((tp / (tp + fn)) for tp, fn, _, _ in counts), 0.0])
    false_rate = np.array([1.0, *((fp / (fp + tn)) for _, _, fp, tn in counts), 0.0])
    expected = 1 - np.trapezoid(true_rate[::-1], false_rate[::-1])
    ours = ew.AUROCLoss()(torch.logit(torch.from_numpy(p)), torch.from_numpy(y)).item()
    # A module keeps its temperature in single precision.
    assert ours == pytest.approx(expected, abs=1e-7)


def test_at_one_half_package_paper_and_library_agree(labelled):
    np.testing.assert_allclose(package_counts(*labelled, 0.5), paper_counts(*labelled, 0.5))
    expected = 1 - f1(package_counts(*labelled, 0.5))
    assert our_loss(*labelled, "f1", 0.5) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("tau", [0.1, 0.3, 0.7, 0.9])
def test_elsewhere_the_packages_counts_do_not_sum_to_the_samples_and_ours_do(labelled, tau):
    p, y = labelled
    assert package_counts(p, y, tau).sum() > len(y) + 10
    assert paper_counts(p, y, tau).sum() == pytest.approx(len(y))


def test_a_perfect_ranking_costs_nothing_which_takes_both_ends_of_the_curve():
    p, y = np.array([1e-6, 1 - 1e-6]), np.array([0.0, 1.0])
    tp, fn, fp, tn = np.transpose([package_counts(p, y, tau) for tau in GRID])
    without_ends = abs(np.trapezoid(tp / (tp + fn), fp / (fp + tn)))
    assert 1 - without_ends > 0.999
    ours = ew.AUROCLoss()(torch.logit(torch.from_numpy(p)), torch.from_numpy(y)).item()
    assert ours < 1e-5
