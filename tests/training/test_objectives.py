"""What a stage minimises, against torch and against one member at a time."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from eastward.losses import metric_loss
from eastward.metrics import Metric, as_metric, get
from eastward.training.objectives import IGNORED, CrossEntropyObjective, MetricObjective


@pytest.fixture
def batch():
    logits = torch.randn(3, 40, 4, requires_grad=True)
    targets = torch.randint(4, (3, 40))
    targets[:, 35:] = IGNORED
    return logits, targets, torch.rand(3, 40) + 0.1


@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy_is_torchs_weighted_mean_over_known_rows(batch, weighted):
    logits, targets, weights = batch
    losses = CrossEntropyObjective()(logits, targets, weights if weighted else None)
    for k in range(3):
        each = functional.cross_entropy(logits[k, :35], targets[k, :35], reduction="none")
        mass = weights[k, :35] if weighted else torch.ones(35)
        torch.testing.assert_close(losses[k], (each * mass).sum() / mass.sum())


def test_binary_cross_entropy_of_labels_is_torchs():
    logits, targets = torch.randn(2, 30, 3), torch.randint(2, (2, 30, 3))
    targets[:, 20:] = IGNORED
    weights = torch.rand(2, 30)
    losses = CrossEntropyObjective(multilabel=True)(logits, targets, weights)
    for k in range(2):
        each = functional.binary_cross_entropy_with_logits(
            logits[k, :20], targets[k, :20].float(), reduction="none"
        ).mean(1)
        expected = (each * weights[k, :20]).sum() / weights[k, :20].sum()
        torch.testing.assert_close(losses[k], expected)


@pytest.mark.parametrize("metric", ["f1_macro", "matthews_corrcoef", "cohen_kappa_quadratic"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_metric_of_all_members_is_that_of_each(batch, metric, weighted):
    logits, targets, weights = batch
    objective = MetricObjective(get(metric), prior=torch.tensor([0.7, 0.1, 0.1, 0.1]))
    objective.temperature = 0.1
    losses = objective(logits, targets, weights if weighted else None)
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    for k in range(3):
        alone = logits.detach()[k, :35].requires_grad_()
        expected = metric_loss(
            alone,
            targets[k, :35],
            metric,
            temperature=0.1,
            prior=[0.7, 0.1, 0.1, 0.1],
            sample_weight=weights[k, :35] if weighted else None,
        )
        expected.backward()
        torch.testing.assert_close(losses[k], expected)
        torch.testing.assert_close(gradient[k, :35], alone.grad)
    assert gradient[:, 35:].abs().max() == 0


def trace_that_looks_at_values(confusion):
    """Accuracy with a decision on a value, which cannot be vectorised."""
    if float(confusion.detach().sum()) == 0:
        return confusion.sum()
    return confusion.diagonal().sum() / confusion.sum()


@pytest.mark.parametrize("weighted", [False, True])
def test_a_metric_that_cannot_be_vectorised_goes_member_by_member(batch, weighted):
    logits, targets, weights = batch
    given = weights if weighted else None
    stubborn = MetricObjective(as_metric(trace_that_looks_at_values))
    losses = stubborn(logits, targets, given)
    torch.testing.assert_close(losses, MetricObjective(get("accuracy"))(logits, targets, given))
    torch.testing.assert_close(stubborn(logits, targets, given), losses)
    assert losses.requires_grad


def test_an_error_of_the_metric_itself_is_not_swallowed(batch):
    def broken(confusion):
        message = "no such thing"
        raise RuntimeError(message)

    with pytest.raises(RuntimeError, match="no such thing"):
        MetricObjective(as_metric(broken))(batch[0], batch[1], None)


def test_the_blend_adds_its_share_of_cross_entropy(batch):
    objective = MetricObjective(get("f1_macro"))
    plain = objective(*batch)
    objective.blend = 0.5
    torch.testing.assert_close(objective(*batch), plain + 0.5 * CrossEntropyObjective()(*batch))


def test_a_cost_is_minimised_as_it_is(batch):
    logits, targets, _ = batch
    cost = 1 - torch.eye(4)
    losses = MetricObjective(get("expected_cost", cost=cost))(logits, targets, None)
    accuracy_losses = MetricObjective(get("accuracy"))(logits, targets, None)
    torch.testing.assert_close(losses, accuracy_losses)


def test_thresholds_step_and_temperature_reach_the_loss():
    logits, targets = torch.randn(2, 50, 2), torch.randint(2, (2, 50))

    def value(temperature=0.2, **options):
        objective = MetricObjective(get("f1"), **options)
        objective.temperature = temperature
        return objective(logits, targets, None)

    plain = value()
    for changed in (
        value(temperature=0.05),
        value(threshold=(0.1, 0.5, 0.9)),
        value(step="sigmoid"),
    ):
        assert (changed - plain).abs().min() > 1e-5


def test_multilabel_metrics_are_those_of_each_member():
    logits, targets = torch.randn(2, 30, 3), torch.randint(2, (2, 30, 3))
    losses = MetricObjective(get("f1_macro"), multilabel=True)(logits, targets, None)
    for k in range(2):
        expected = metric_loss(logits[k], targets[k], "f1_macro", multilabel=True)
        torch.testing.assert_close(losses[k], expected)


def test_a_user_metric_may_say_that_lower_is_better(batch):
    error = Metric("error", lambda c: 1 - c.diagonal().sum() / c.sum(), higher_is_better=False)
    losses = MetricObjective(error)(batch[0], batch[1], None)
    expected = MetricObjective(get("accuracy"))(batch[0], batch[1], None)
    torch.testing.assert_close(losses, expected)
