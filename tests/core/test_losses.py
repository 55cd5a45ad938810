"""metric_loss and EASTLoss: shapes, dtypes, masks, arguments, and the estimators for small batches."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score
from torch.nn.functional import one_hot

import eastward as ew


def batch(rows: int = 24, size: int = 3, dtype=torch.float64):
    targets = torch.arange(rows) % size
    return torch.randn(rows, size, dtype=dtype) + one_hot(targets, size), targets


def gradient(loss: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    return torch.autograd.grad(loss, logits)[0]


# --- shapes --------------------------------------------------------------------------------------


def test_a_single_logit_equals_two_in_value_and_gradient():
    logit, targets = torch.randn(12, dtype=torch.float64, requires_grad=True), torch.arange(12) % 2
    two = torch.stack([torch.zeros_like(logit), logit], dim=1)
    expected = ew.metric_loss(two, targets, "f1")
    for shaped, labels in [
        (logit, targets),
        (logit.unsqueeze(1), targets),
        (logit.unsqueeze(1), targets.unsqueeze(1)),
        (logit, targets.double()),
        (logit, targets.bool()),
    ]:
        ours = ew.metric_loss(shaped, labels, "f1")
        torch.testing.assert_close(ours, expected)
        torch.testing.assert_close(
            gradient(ours, logit), torch.autograd.grad(expected, logit, retain_graph=True)[0]
        )


@pytest.mark.parametrize("metric", ["f1_macro", "cohen_kappa_linear"])
def test_an_image_is_the_batch_of_its_pixels(metric):
    logits, targets = torch.randn(2, 3, 4, 5), torch.randint(3, (2, 4, 5))
    flat = logits.permute(0, 2, 3, 1).reshape(-1, 3)
    torch.testing.assert_close(
        ew.metric_loss(logits, targets, metric), ew.metric_loss(flat, targets.flatten(), metric)
    )


def test_a_single_logit_image_is_the_batch_of_its_pixels():
    logits, targets = torch.randn(2, 1, 4, 5), torch.randint(2, (2, 4, 5))
    expected = ew.metric_loss(logits.flatten(), targets.flatten(), "f1")
    torch.testing.assert_close(ew.metric_loss(logits, targets, "f1"), expected)
    torch.testing.assert_close(ew.metric_loss(logits, targets.unsqueeze(1), "f1"), expected)


def test_multilabel_loss_is_the_metric_of_the_columns():
    logits, targets = torch.randn(15, 4, dtype=torch.float64), torch.randint(2, (15, 4))
    degrees = ew.heaviside(torch.sigmoid(logits), 0.5, 0.2)
    counts = ew.multilabel_counts(degrees, targets)
    expected = 1 - ew.metrics.f1(counts, "macro")
    torch.testing.assert_close(
        ew.metric_loss(logits, targets, "f1_macro", multilabel=True), expected
    )


def test_a_multilabel_image_is_the_batch_of_its_pixels():
    logits, targets, weights = torch.randn(2, 3, 4), torch.randint(2, (2, 3, 4)), torch.rand(2)
    flat_logits, flat_targets = (t.movedim(1, -1).reshape(-1, 3) for t in (logits, targets))
    torch.testing.assert_close(
        ew.metric_loss(logits, targets, multilabel=True, sample_weight=weights),
        ew.metric_loss(
            flat_logits, flat_targets, multilabel=True, sample_weight=weights.repeat_interleave(4)
        ),
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_loss_has_the_dtype_of_its_logits(dtype):
    logits, targets = batch(dtype=dtype)
    assert ew.metric_loss(logits, targets).dtype == dtype
    assert ew.AUROCLoss()(logits, targets).dtype == dtype
    assert ew.metric_loss(logits, targets).shape == ()


# --- masks, thresholds, metrics -----------------------------------------------------------------


@pytest.mark.parametrize("label", [-100, 255, -1, 0, 1])
@pytest.mark.parametrize("metric", ["f1_macro", "matthews_corrcoef", "cohen_kappa_quadratic"])
def test_ignored_samples_do_not_exist(metric, label):
    logits, targets = batch(size=4)
    targets[::5] = label
    logits.requires_grad_()
    kept = targets != label
    loss = ew.metric_loss(logits, targets, metric, ignore_index=label)
    expected = ew.metric_loss(logits[kept], targets[kept], metric, ignore_index=None)
    torch.testing.assert_close(loss, expected)
    slope = gradient(loss, logits)
    assert slope[~kept].abs().sum() == 0
    torch.testing.assert_close(slope, gradient(expected, logits))


@pytest.mark.parametrize("label", [-100, 255, -1])
def test_ignored_single_logits_and_labels_do_not_exist(label):
    logits, targets = torch.randn(30, dtype=torch.float64), torch.arange(30) % 2
    targets[::7] = label
    kept = targets != label
    for labels in (targets, targets.double()):
        torch.testing.assert_close(
            ew.metric_loss(logits, labels, "f1", ignore_index=label),
            ew.metric_loss(logits[kept], targets[kept], "f1"),
        )
        torch.testing.assert_close(
            ew.metric_loss(
                logits.view(-1, 1), labels.view(-1, 1), multilabel=True, ignore_index=label
            ),
            ew.metric_loss(logits[kept].view(-1, 1), targets[kept].view(-1, 1), multilabel=True),
        )


def test_a_byte_mask_of_labels_with_255_is_understood():
    logits = torch.randn(4, 3)
    targets = torch.tensor([0, 1, 255, 2], dtype=torch.uint8)
    expected = ew.metric_loss(logits[[0, 1, 3]], torch.tensor([0, 1, 2]))
    torch.testing.assert_close(ew.metric_loss(logits, targets, ignore_index=255), expected)


def test_a_grid_of_thresholds_averages_the_metric():
    logits, targets = batch(size=2)
    grid = [0.1, 0.4, 0.7]
    singles = [ew.metric_loss(logits, targets, "f1", threshold=tau) for tau in grid]
    torch.testing.assert_close(
        ew.metric_loss(logits, targets, "f1", threshold=grid), torch.stack(singles).mean()
    )


def test_a_callable_of_ones_own_is_a_metric():
    def diagonal_share(confusion):
        return confusion.diagonal().sum() / confusion.sum()

    logits, targets = batch()
    torch.testing.assert_close(
        ew.metric_loss(logits, targets, diagonal_share), ew.metric_loss(logits, targets, "accuracy")
    )


def test_a_metric_with_options_is_a_metric():
    logits, targets = batch()
    cost = [[0, 1, 2], [3, 0, 1], [1, 1, 0]]
    memberships = ew.soft_memberships(torch.softmax(logits, 1))
    confusion = ew.soft_confusion(memberships, targets)
    expected = (confusion * torch.tensor(cost)).sum() / confusion.sum()
    metric = ew.metrics.get("expected_cost", cost=cost)
    torch.testing.assert_close(ew.metric_loss(logits, targets, metric), expected)


def test_one_minus_the_score_at_almost_zero_temperature_is_scikit_learns():
    logits, targets = batch(rows=300, size=6)
    loss = ew.EASTLoss("f1_macro", temperature=1e-6)(logits, targets).item()
    score = f1_score(targets.numpy(), logits.argmax(1).numpy(), average="macro")
    assert loss == pytest.approx(1 - score, abs=1e-4)


# --- every argument changes something ------------------------------------------------------------

ARGUMENTS = {
    "metric": ("f1_macro", "accuracy"),
    "temperature": (0.2, 0.1),
    "threshold": ("top2", 0.3),
    "step": ("linear", "sigmoid"),
    "prior": (None, [0.7, 0.2, 0.1]),
    "absent": ("skip", "zero"),
    "ignore_index": (-100, 0),
}


@pytest.mark.parametrize("argument", ARGUMENTS)
@pytest.mark.parametrize("as_module", [False, True], ids=["metric_loss", "EASTLoss"])
def test_every_argument_changes_the_value(argument, as_module):
    logits, targets = batch()
    targets = targets.clamp_max(1)  # class 2 is absent
    first, second = (
        ew.EASTLoss(**{argument: value})(logits, targets)
        if as_module
        else ew.metric_loss(logits, targets, **{argument: value})
        for value in ARGUMENTS[argument]
    )
    assert not torch.allclose(first, second)


def test_detach_threshold_changes_the_gradient():
    logits, targets = batch()
    logits.requires_grad_()
    for build in (
        lambda detach: ew.metric_loss(logits, targets, detach_threshold=detach),
        lambda detach: ew.EASTLoss(detach_threshold=detach)(logits, targets),
    ):
        kept, detached = build(False), build(True)
        torch.testing.assert_close(kept, detached)
        assert not torch.allclose(gradient(kept, logits), gradient(detached, logits))


def test_multilabel_changes_what_the_columns_mean():
    logits, indicators = torch.randn(10, 3), torch.randint(2, (10, 3))
    assert ew.EASTLoss(multilabel=True)(logits, indicators) > 0
    with pytest.raises(ValueError, match="targets of EASTLoss must be of shape"):
        ew.EASTLoss(multilabel=False)(logits, indicators)


def test_check_inputs_decides_whether_values_are_checked():
    logits, targets = torch.full((2, 3), float("nan")), torch.tensor([0, 1])
    for loss in (ew.EASTLoss, ew.AUROCLoss, ew.AveragePrecisionLoss):
        with pytest.raises(ValueError, match="finite"):
            loss()(logits, targets)
        loss(check_inputs=False)(logits, targets)
    with pytest.raises(ValueError, match="finite"):
        ew.metric_loss(logits, targets)
    ew.metric_loss(logits, targets, check_inputs=False)


def test_sample_weight_and_reduce_change_the_value():
    logits, targets = batch()
    plain = ew.metric_loss(logits, targets)
    weighted = ew.metric_loss(logits, targets, sample_weight=torch.rand(24))
    reduced = ew.metric_loss(logits, targets, reduce=lambda table: table + 1)
    assert not torch.allclose(plain, weighted)
    assert not torch.allclose(plain, reduced)


def test_no_argument_was_forgotten():
    elsewhere = {"detach_threshold", "multilabel", "check_inputs", "sample_weight", "reduce"}
    # running has its own section below; process_group is tested with two processes, and constraints in a file of
    # their own.
    tested_elsewhere = {"running", "process_group", "subject_to", "multiplier_rate"}
    of_module = set(inspect.signature(ew.EASTLoss).parameters) - tested_elsewhere
    of_function = set(inspect.signature(ew.metric_loss).parameters) - {"logits", "targets"}
    assert of_function == set(ARGUMENTS) | elsewhere
    assert of_module == of_function - {"sample_weight", "reduce"}


# --- absent classes, prior, running --------------------------------------------------------------


def test_a_false_positive_on_an_absent_class_still_costs():
    logits, targets = batch(size=3)
    targets = targets.clamp_max(1)
    better, worse = logits.clone(), logits.clone()
    worse[:, 2] += 2.0
    assert ew.metric_loss(worse, targets) > ew.metric_loss(better, targets)


@pytest.mark.parametrize("metric", ["f1_macro", "cohen_kappa_quadratic", "precision_weighted"])
def test_a_stratified_batch_with_the_prior_is_a_reweighted_one(metric):
    logits, targets = batch(rows=30)
    prior = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
    with_prior = ew.metric_loss(logits, targets, metric, prior=prior)
    reweighted = ew.metric_loss(logits, targets, metric, sample_weight=prior[targets])
    torch.testing.assert_close(with_prior, reweighted)
    module = ew.EASTLoss(metric, prior=prior)(logits, targets)
    torch.testing.assert_close(module, reweighted, atol=1e-6, rtol=1e-6)


def test_with_the_prior_a_stratified_sample_estimates_the_metric_of_the_population():
    torch.manual_seed(3)
    prior = torch.tensor([0.9, 0.08, 0.02], dtype=torch.float64)
    population = torch.multinomial(prior, 200_000, replacement=True)
    stratified = torch.arange(60_000) % 3

    def logits_of(targets):
        return torch.randn(len(targets), 3, dtype=torch.float64) + one_hot(targets, 3)

    truth = ew.metric_loss(logits_of(population), population)
    corrected = ew.metric_loss(logits_of(stratified), stratified, prior=prior)
    plain = ew.metric_loss(logits_of(stratified), stratified)
    assert abs(corrected - truth) < 0.01
    assert abs(plain - truth) > 0.05


@pytest.mark.parametrize("metric", ["f1_macro", "cohen_kappa_quadratic", "matthews_corrcoef"])
def test_running_takes_value_and_derivative_at_the_decayed_table(metric):
    decay = 0.8
    loss = ew.EASTLoss(metric, running=decay)
    plain = ew.EASTLoss(metric)
    history = torch.zeros(())
    for _ in range(4):
        logits, targets = batch()
        logits.requires_grad_()
        tables = plain.tables(logits, targets)
        history = decay * history + tables.detach()
        # Scaled to the mass of the batch; the metric does not depend on scale, its derivative does.
        anchor = (history * tables.detach().sum() / history.sum()).requires_grad_()
        value = plain.loss_at(anchor)
        (slope,) = torch.autograd.grad(value, anchor)
        expected = gradient((slope * tables).sum(), logits)
        ours = loss(logits, targets)
        torch.testing.assert_close(ours, value)
        torch.testing.assert_close(gradient(ours, logits), expected)
    torch.testing.assert_close(loss.running_tables, history)


def test_the_first_running_loss_is_the_plain_one():
    logits, targets = batch()
    logits.requires_grad_()
    plain, running = ew.EASTLoss()(logits, targets), ew.EASTLoss(running=0.9)(logits, targets)
    torch.testing.assert_close(running, plain)
    torch.testing.assert_close(gradient(running, logits), gradient(plain, logits))


def test_running_tables_stay_as_they_are_in_evaluation_mode_and_can_be_forgotten():
    loss = ew.EASTLoss(running=0.5)
    first = loss(*batch())
    before = loss.running_tables.clone()
    loss.eval()
    loss(*batch())
    torch.testing.assert_close(loss.running_tables, before)
    loss.reset_running()
    assert loss.running_tables.numel() == 0
    assert first.item() > 0


def test_history_steadies_the_estimate_of_a_small_batch():
    torch.manual_seed(1)
    plain, running = ew.EASTLoss("f1_macro"), ew.EASTLoss("f1_macro", running=0.95)
    losses = {"plain": [], "running": []}
    for _ in range(150):
        targets = torch.multinomial(torch.tensor([0.8, 0.15, 0.05]), 16, replacement=True)
        logits = torch.randn(16, 3) + one_hot(targets, 3)
        losses["plain"].append(plain(logits, targets).item())
        losses["running"].append(running(logits, targets).item())
    assert np.std(losses["running"][50:]) < 0.5 * np.std(losses["plain"][50:])


# --- the temperature and the printed form --------------------------------------------------------


def test_an_assigned_temperature_is_a_buffer_that_is_used_and_saved():
    logits, targets = batch()
    loss = ew.EASTLoss()
    loss.temperature = 0.05
    torch.testing.assert_close(
        loss(logits, targets), ew.EASTLoss(temperature=0.05)(logits, targets)
    )
    assert loss.state_dict()["temperature"].item() == pytest.approx(0.05)
    assert loss.to(torch.float64).temperature.dtype == torch.float64


def test_an_assigned_temperature_leaves_recorded_graphs_alone():
    logits, targets = batch()
    logits.requires_grad_()
    loss = ew.EASTLoss()
    expected = gradient(loss(logits, targets), logits)
    value = loss(logits, targets)
    loss.temperature = 0.01
    torch.testing.assert_close(gradient(value, logits), expected)


def test_the_printed_loss_says_what_distinguishes_it():
    loss = ew.EASTLoss("f1", threshold=0.3, step="sigmoid", running=0.9, absent="zero")
    for part in ("'f1'", "threshold=0.3", "step='sigmoid'", "running=0.9", "absent='zero'"):
        assert part in repr(loss)
