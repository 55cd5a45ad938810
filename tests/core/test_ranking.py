"""Soft AUROC and average precision over a threshold grid."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, roc_auc_score

import eastward as ew
from eastward.ranking import grid_counts, soft_auroc, soft_average_precision, threshold_grid

LOSSES = {
    "auroc": (ew.AUROCLoss, roc_auc_score),
    "average precision": (ew.AveragePrecisionLoss, average_precision_score),
}
BINS = 200


def binary_scores(rows: int = 300, seed: int = 0):
    """Labels and scores in the middle of bins, so that a grid of bin edges separates all distinct scores."""
    generator = np.random.default_rng(seed)
    labels = (generator.random(rows) < 0.3).astype(int)
    raw = np.clip(generator.normal(0.4 + 0.2 * labels, 0.15), 0.01, 0.99)
    return labels, (np.floor(raw * BINS) + 0.5) / BINS


def as_logits(scores) -> torch.Tensor:
    return torch.logit(torch.from_numpy(np.asarray(scores)))


@pytest.mark.parametrize("kind", LOSSES)
def test_a_hard_step_on_a_fine_grid_gives_scikit_learns_value(kind):
    loss, score = LOSSES[kind]
    for seed in range(5):
        labels, scores = binary_scores(seed=seed)
        ours = loss(step="hard", thresholds=BINS - 1)(as_logits(scores), torch.from_numpy(labels))
        assert 1 - ours.item() == pytest.approx(score(labels, scores), abs=1e-9)


@pytest.mark.parametrize("kind", LOSSES)
def test_sample_weights_are_scikit_learns(kind):
    loss, score = LOSSES[kind]
    labels, scores = binary_scores()
    weights = np.random.default_rng(1).random(len(labels))
    ours = loss(step="hard", thresholds=BINS - 1)(
        as_logits(scores), torch.from_numpy(labels), torch.from_numpy(weights)
    )
    assert 1 - ours.item() == pytest.approx(score(labels, scores, sample_weight=weights), abs=1e-9)


@pytest.mark.parametrize("kind", LOSSES)
def test_more_than_two_classes_are_one_against_the_rest(kind):
    loss, score = LOSSES[kind]
    logits, targets = torch.randn(200, 4, dtype=torch.float64), torch.arange(200) % 4
    scores = torch.softmax(logits, 1).numpy()
    expected = np.mean([score(targets.numpy() == k, scores[:, k]) for k in range(4)])
    ours = loss(step="hard", thresholds=4000)(logits, targets)
    assert 1 - ours.item() == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("kind", LOSSES)
def test_labels_are_columns_of_their_own_and_those_without_both_classes_are_left_out(kind):
    loss, score = LOSSES[kind]
    columns = [binary_scores(seed=seed) for seed in range(3)]
    labels = np.stack([column[0] for column in columns], axis=1)
    scores = np.stack([column[1] for column in columns], axis=1)
    labels[:, 1] = 0
    expected = np.mean([score(labels[:, k], scores[:, k]) for k in (0, 2)])
    ours = loss(step="hard", thresholds=BINS - 1, multilabel=True)(
        as_logits(scores), torch.from_numpy(labels)
    )
    assert 1 - ours.item() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("label", [-100, 255, 0, 1, 2])
@pytest.mark.parametrize("kind", LOSSES)
def test_ignored_samples_do_not_exist(kind, label):
    loss, _ = LOSSES[kind]
    logits, targets = torch.randn(60, 4, dtype=torch.float64), torch.arange(60) % 4
    targets[::7] = label
    kept = targets != label
    torch.testing.assert_close(
        loss(ignore_index=label)(logits, targets), loss()(logits[kept], targets[kept])
    )


@pytest.mark.parametrize("label", [-100, 255])
@pytest.mark.parametrize("kind", LOSSES)
def test_ignored_binary_samples_do_not_exist(kind, label):
    loss, _ = LOSSES[kind]
    logits, targets = torch.randn(60, dtype=torch.float64), torch.arange(60) % 2
    targets[::7] = label
    kept = targets != label
    torch.testing.assert_close(
        loss(ignore_index=label)(logits, targets), loss()(logits[kept], targets[kept])
    )


@pytest.mark.parametrize("classes", [1, 2, 3])
@pytest.mark.parametrize("kind", LOSSES)
def test_the_gradient_is_that_of_finite_differences(kind, classes):
    loss, _ = LOSSES[kind]
    logits = torch.randn(12, classes, dtype=torch.float64, requires_grad=True)
    targets = torch.arange(12) % max(classes, 2)
    assert torch.autograd.gradcheck(lambda z: loss(thresholds=5)(z, targets), (logits,))


@pytest.mark.parametrize("kind", LOSSES)
def test_following_the_gradient_improves_the_ranking(kind):
    loss, score = LOSSES[kind]
    logits, targets = torch.randn(60, requires_grad=True), torch.arange(60) % 2
    before = score(targets, logits.detach())
    optimiser = torch.optim.SGD([logits], lr=20.0)
    for _ in range(40):
        optimiser.zero_grad()
        loss()(logits, targets).backward()
        optimiser.step()
    assert score(targets, logits.detach()) > before + 0.2


@pytest.mark.parametrize("kind", LOSSES)
def test_one_logit_equals_two(kind):
    loss, _ = LOSSES[kind]
    logits, targets = torch.randn(30, dtype=torch.float64), torch.arange(30) % 2
    two = torch.stack([torch.zeros_like(logits), logits], dim=1)
    torch.testing.assert_close(loss()(logits, targets), loss()(two, targets))


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize(
    "options",
    [{"thresholds": 3}, {"temperature": 0.05}, {"step": "sigmoid"}, {"thresholds": [0.2, 0.4]}],
    ids=str,
)
def test_every_argument_changes_the_value(kind, options):
    loss, _ = LOSSES[kind]
    logits, targets = torch.randn(40), torch.arange(40) % 2
    assert not torch.allclose(loss(**options)(logits, targets), loss()(logits, targets))


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_images_are_finite(kind, dtype):
    loss, _ = LOSSES[kind]
    logits = torch.randn(2, 1, 64, 64).to(dtype).requires_grad_()
    value = loss()(logits, torch.randint(2, (2, 64, 64)))
    (gradient,) = torch.autograd.grad(value, logits)
    assert torch.isfinite(value)
    assert torch.isfinite(gradient).all()


def test_grid_counts_add_up_over_batches():
    probabilities, targets = torch.rand(20, 2), torch.randint(2, (20, 2))
    parts = sum(grid_counts(probabilities[cut], targets[cut]) for cut in (slice(8), slice(8, 20)))
    torch.testing.assert_close(parts, grid_counts(probabilities, targets))


def test_a_curve_through_a_perfect_ranking_has_area_one():
    tables = grid_counts(torch.tensor([[1.0], [1.0], [0.0]]), torch.tensor([[1], [1], [0]]))
    assert soft_auroc(tables).item() == pytest.approx(1.0)
    assert soft_average_precision(tables).item() == pytest.approx(1.0)


def test_scores_that_say_nothing_have_area_one_half():
    tables = grid_counts(torch.full((10, 1), 0.5), torch.arange(10).remainder(2).unsqueeze(1))
    assert soft_auroc(tables).item() == pytest.approx(0.5)
    assert soft_average_precision(tables).item() == pytest.approx(0.5)


def test_a_number_of_thresholds_is_an_even_grid_and_a_list_is_sorted():
    assert threshold_grid(9) == pytest.approx([0.1 * k for k in range(1, 10)])
    assert threshold_grid([0.7, 0.2]) == (0.2, 0.7)


@pytest.mark.parametrize("grid", [(0.5,), (0.2, 0.4, 0.9)], ids=str)
def test_soft_average_precision_is_its_step_sum_down_to_calling_everything_positive(grid):
    labels, scores = binary_scores()
    above = [ew.heaviside(torch.from_numpy(scores), tau, 0.2).numpy() for tau in grid]
    recalls = [1.0, *((h @ labels) / labels.sum() for h in above), 0.0]
    precisions = [labels.mean(), *((h @ labels) / h.sum() for h in above)]
    expected = sum((recalls[k] - recalls[k + 1]) * precisions[k] for k in range(len(precisions)))
    tables = grid_counts(
        torch.from_numpy(scores).unsqueeze(1),
        torch.from_numpy(labels).unsqueeze(1),
        thresholds=grid,
    )
    assert soft_average_precision(tables).item() == pytest.approx(expected, abs=1e-9)
